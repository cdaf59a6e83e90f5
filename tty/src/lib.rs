//! The terminal: two editors around a serial line or a pseudo-terminal's channel, with sessions and job
//! control. The editors are the line discipline: `quaject::cook_tty_in` and `quaject::cook_tty_out`.
//!
//! *Interface*: [`Tty`] is a terminal; [`console`] the one that the first process gets; [`TtyFile`] is the
//! behaviour of an open descriptor of it. A *pump* thread moves bytes from the line's input queue (a passive
//! producer) into the input editor (a passive consumer), echoes, and turns control characters into signals,
//! whether or not a thread is reading.
//!
//! Source: dissertation, sections 1.3.1 (a tty from a raw driver, two queues, an input editor and an
//! output converter), 4.4.1 (pump), 4.4.2 (filters).
#![cfg_attr(not(test), no_std)]
// Every action of a program is answered by a value, never by a panic.

extern crate alloc;

mod boot_console;
mod caller_pgrp;
mod control;
mod control_chars;
pub mod devpts;
mod editor;
mod file;
mod host_notices;
mod output;
mod pty;
mod pty_master;
mod routines;
mod speed;
mod stream;

pub use boot_console::{Console, ConsoleMode, for_first_process, mount, start, streams_by_ports};
pub use file::{ControllingTty, TtyFile};
pub use stream::StreamFile;

use abi::errno::Errno;
use abi::linux::{SI_KERNEL, SIGWINCH, Siginfo, Termios, Winsize};
use alloc::sync::Arc;
use core::sync::atomic::{AtomicI32, AtomicU64, Ordering};
use device::serial::Serial;
use device::stream::Stream;
use quaject::RoutineError;
use quaject::class::{Ref, create};
use quaject::cook_tty_in::{EditBuffer, sane};
use quaject::switch::Switch;
use sync::{Monitor, Once, WaitList};

use editor::{Editor, LineDiscipline};
use output::TtyOutput;
use process::Terminal;
use process::signal;
use pty::Pty;
use routines::{RoutineConditions, TtyRoutines};
use vm::fallible::{try_arc, try_arc_large};

/// A terminal.
pub struct Tty {
    line: TtyOutput,
    editor: Arc<Editor>,
    keys: Ref<Switch>,
    /// The edited input, and the foreground group.
    typed: Arc<EditBuffer>,
    routines: TtyRoutines,
    /// Woken when held output may go on.
    released: WaitList,
    /// Woken when a pseudo-terminal's master has been closed.
    hung_up: WaitList,
    /// The session whose controlling terminal it is, 0 for none; changed, with the foreground group, by who
    /// holds `controlled`.
    session: AtomicI32,
    controlled: Monitor<control::Controlled>,
    size: Monitor<Winsize>,
    /// Those that were set last, bits a second: of output, and of input in the upper half.
    speeds: AtomicU64,
    device: u64,
    /// The additional state of a pseudo-terminal.
    pair: Option<Pty>,
}

/// Major and minor number of `/dev/ptmx`.
const PTMX: (u32, u32) = (5, 2);

static CONSOLE: Once<Arc<Tty>> = Once::new();

/// The terminal on the console line, once [`start_console`] has run.
pub fn console() -> Option<Arc<Tty>> {
    CONSOLE.get().cloned()
}

/// Makes the terminal of the console line and starts its pump. `device` is its number for `stat`. ENOMEM.
pub fn start_console(line: &'static Serial, device: u64, size: Winsize) -> abi::Result<Arc<Tty>> {
    let size = Monitor::new(size);
    let tty = Tty::make(TtyOutput::Serial(line), device, size, sane(), None)?;
    if CONSOLE.set(tty.clone()).is_err() {
        return Err(Errno::EBUSY);
    }
    line.give_at_once(|| CONSOLE.get().is_some_and(|tty| tty.type_at_once()));
    start_pump(b"tty-pump", |_| {
        if let Some(tty) = console()
            && let TtyOutput::Serial(line) = tty.line
        {
            tty.pump(line);
        }
    })?;
    Ok(tty)
}

/// Starts a kernel thread for a pump. ENOMEM.
fn start_pump(name: &[u8], body: fn(usize)) -> abi::Result<()> {
    thread::spawn(name, body, 0)
        .map(drop)
        .map_err(|_| Errno::ENOMEM)
}

/// Sends a signal in the kernel's name to every process of `group`; an empty group is no error.
fn signal_group(group: i32, number: i32) {
    let _nobody = signal::send_group(group, Siginfo::sent(number, SI_KERNEL, 0, 0));
}

/// The input editor of a terminal on `line`. It has a frame of its own, which goes before the other drafts of
/// code need theirs. ENOMEM.
#[inline(never)]
fn make_editor(
    line: &TtyOutput,
    typed: Arc<EditBuffer>,
    settings: Termios,
) -> abi::Result<Arc<Editor>> {
    let no_memory = |_: RoutineError| Errno::ENOMEM;
    let editor = try_arc(Editor::new(line, typed, settings).map_err(no_memory)?)?;
    editor.open().map_err(no_memory)?;
    Ok(editor)
}

impl Tty {
    /// A terminal whose output goes to `line`. ENOMEM.
    fn make(
        line: TtyOutput,
        device: u64,
        size: Monitor<Winsize>,
        settings: Termios,
        pair: Option<Pty>,
    ) -> abi::Result<Arc<Tty>> {
        let no_memory = |_: RoutineError| Errno::ENOMEM;
        let typed = try_arc_large(|| const { EditBuffer::new() })?;
        let editor = make_editor(&line, typed.clone(), settings)?;
        let tty = try_arc(Tty {
            editor,
            keys: create::<Switch>(()).map_err(no_memory)?,
            routines: TtyRoutines::new(typed.clone(), line.clone())?,
            line,
            typed,
            released: WaitList::new(),
            hung_up: WaitList::new(),
            session: AtomicI32::new(0),
            controlled: Monitor::new(control::Controlled),
            size,
            speeds: AtomicU64::new(0),
            device,
            pair,
        })?;
        control_chars::link_services(&tty.keys, &tty).map_err(no_memory)?;
        tty.replug();
        Ok(tty)
    }

    /// Moves bytes from the line into the input editor, for ever.
    fn pump(&self, line: &Serial) -> ! {
        loop {
            self.editor.look_at_links();
            line.arrived().wait_until(|| {
                thread::safe_point();
                (line.waiting() > 0 || self.editor.owes()).then_some(())
            });
            while self.editor.pump() {
                self.settle();
            }
            self.settle();
        }
    }

    /// In the line's interrupt: a key that asks for nothing special goes to the readers at once. False: the
    /// pump has to see to it.
    fn type_at_once(&self) -> bool {
        let done = self.editor.type_at_once();
        if done && !self.typed.is_empty() {
            self.typed.wake_readers();
        }
        done
    }

    /// The typed input is in the editor: shows its echo, applies control characters, and wakes the readers.
    fn settle(&self) {
        for control in self.editor.settle() {
            self.keys.select(control as u32);
        }
        if !self.typed.is_empty() {
            self.typed.wake_readers();
        }
    }

    /// Called after a change of the settings, when output stops or continues, or after a change of the
    /// master.
    fn replug(&self) {
        // Bound: generating two routines.
        let d = self.editor.lock();
        self.replug_for(&d);
    }

    /// As [`Tty::replug`], for a caller that holds the editor's turn.
    fn replug_for(&self, d: &LineDiscipline) {
        let of_pair = |what: fn(&Pty) -> bool| self.pair.as_ref().is_some_and(what);
        let sort = RoutineConditions {
            held: d.input.is_stopped(),
            gone: of_pair(Pty::is_gone),
            packets: of_pair(Pty::reads_packets),
        };
        self.routines.replug(&d.settings, sort, &self.editor);
    }

    /// Whether the other end is closed.
    fn is_gone(&self) -> bool {
        self.pair.as_ref().is_some_and(Pty::is_gone)
    }

    /// The word with the foreground group.
    fn foreground_group(&self) -> &AtomicI32 {
        self.typed.group()
    }

    fn signal_foreground(&self, number: i32) {
        let group = self.foreground_group().load(Ordering::Acquire);
        if group > 0 {
            signal_group(group, number);
        }
    }

    /// The size that `TIOCGWINSZ` gives.
    pub fn size(&self) -> Winsize {
        // Bound: two words.
        *self.size.lock()
    }

    /// Sets the size; the foreground group gets SIGWINCH when it is a new one.
    pub fn set_size(&self, new: Winsize) {
        let old = core::mem::replace(&mut *self.size.lock(), new);
        if old != new {
            self.signal_foreground(SIGWINCH);
        }
    }

    /// Number of the session whose controlling terminal this is, 0 for none.
    pub fn session(&self) -> i32 {
        self.session.load(Ordering::Acquire)
    }
}

impl Terminal for Tty {
    fn foreground(&self) -> i32 {
        self.foreground_group().load(Ordering::Acquire)
    }

    fn adopted(&self, session: i32, foreground: i32) {
        // Bound: two words.
        let _held = self.controlled.lock();
        self.session.store(session, Ordering::Release);
        self.foreground_group().store(foreground, Ordering::Release);
    }

    fn release(&self, session: i32) -> Option<i32> {
        // Bound: two words.
        let _held = self.controlled.lock();
        (self.session() == session).then(|| self.forget_session())
    }

    fn device(&self) -> u64 {
        self.device
    }
}
