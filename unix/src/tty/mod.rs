//! The terminal: two editors around a serial line, with sessions and job control.
//!
//! *Interface*: [`Tty`] is a terminal; [`console`] the one that the first process gets; [`TtyFile`] is what an open
//! descriptor of it does. A *pump* thread moves bytes from the line's input queue (a passive producer) into
//! the input editor (a passive consumer), echoes, and turns control characters into signals, whether or
//! not anybody reads.
//!
//! Source: dissertation, sections 1.3.1 (a tty from a raw driver, two queues, an input editor and an
//! output converter), 4.4.1 (pump), 4.4.2 (filters).

mod boot;
mod control;
mod editor;
mod file;
mod group;
mod keys;
mod notice;
mod routines;
mod stream;

pub use boot::{Mode, for_first_process, start};
pub use file::{ControllingTty, TtyFile};
pub use stream::StreamFile;

use abi::errno::Errno;
use abi::linux::{SI_KERNEL, SIGCONT, SIGHUP, SIGWINCH, Siginfo, Winsize};
use alloc::sync::Arc;
use core::any::Any;
use core::sync::atomic::{AtomicI32, Ordering};
use device::serial::Serial;
use quaject::class::{Ref, create};
use quaject::cook_tty_in::Typed;
use quaject::cook_tty_out::{self, CookTtyOut};
use quaject::switch::Switch;
use sync::{Monitor, Once, WaitList};

use crate::process::{Terminal, shared::placed};
use crate::signal;
use editor::Editor;
use routines::Routines;

/// A terminal.
pub struct Tty {
    line: &'static Serial,
    editor: Arc<Editor>,
    keys: Ref<Switch>,
    /// What was edited, and the foreground group.
    typed: Arc<Typed>,
    routines: Routines,
    /// Woken when input may have become readable.
    readable: WaitList,
    /// Woken when held output may go on.
    released: WaitList,
    session: AtomicI32,
    size: Monitor<Winsize>,
    device: u64,
}

static CONSOLE: Once<Arc<Tty>> = Once::new();

/// The terminal on the console line, once [`start_console`] has run.
pub fn console() -> Option<Arc<Tty>> {
    CONSOLE.get().cloned()
}

/// Makes the terminal of the console line and starts its pump. `device` is its number for `stat`. ENOMEM.
pub fn start_console(line: &'static Serial, device: u64, size: Winsize) -> abi::Result<Arc<Tty>> {
    let typed = placed(|| const { Typed::new() });
    let output = line.output().ok_or(Errno::ENXIO)?;
    let tty = Arc::new(Tty {
        line,
        editor: Editor::new(line, typed.clone()).map_err(|_| Errno::ENOMEM)?,
        keys: create::<Switch>(()).map_err(|_| Errno::ENOMEM)?,
        routines: Routines::new(typed.clone(), output)?,
        typed,
        readable: WaitList::new(),
        released: WaitList::new(),
        session: AtomicI32::new(0),
        size: Monitor::new(size),
        device,
    });
    keys::link_services(&tty.keys, &tty).map_err(|_| Errno::ENOMEM)?;
    tty.replug();
    if CONSOLE.set(tty.clone()).is_err() {
        return Err(Errno::EBUSY);
    }
    start_pump(b"tty-pump", |_| {
        if let Some(tty) = console() {
            tty.pump();
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

/// Where the cursor stands behind what went to `line` under the flags `oflag`.
fn column(line: &Serial, oflag: u32) -> usize {
    line.writing(|newest, _| cook_tty_out::column_behind(oflag, newest))
}

/// Sends what fits of `bytes` through the output editor, in one go; returns how many of them that were.
fn show(line: &Serial, oflag: u32, bytes: &[u8]) -> usize {
    line.writing(|newest, put| {
        let column = if cook_tty_out::needs_column(oflag) {
            cook_tty_out::column_behind(oflag, newest)
        } else {
            0
        };
        CookTtyOut::at(column).write(oflag, bytes, put)
    })
}

/// Sends a signal in the kernel's name to every process of `group`; an empty group is no error.
fn signal_group(group: i32, number: i32) {
    let _nobody = signal::send_group(group, Siginfo::sent(number, SI_KERNEL, 0, 0));
}

impl Tty {
    /// Moves bytes from the line into the input editor, for ever.
    fn pump(&self) -> ! {
        loop {
            self.line.arrived().wait_until(|| {
                thread::safe_point();
                (self.line.waiting() > 0).then_some(())
            });
            while self.editor.pump() {
                self.settle();
            }
            self.settle();
        }
    }

    /// What was typed is in the editor: its echo is shown, control characters have their effect, readers are woken.
    fn settle(&self) {
        for control in self.editor.settle() {
            self.keys.select(control as u32);
        }
        if !self.typed.is_empty() {
            self.readable.wake_all();
        }
    }

    /// The settings changed, or the output is held or goes on.
    fn replug(&self) {
        let d = self.editor.lock();
        self.routines.replug(&d.settings, d.input.is_stopped());
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

    /// The line is gone: the session leader's group and the foreground group get SIGHUP and SIGCONT.
    pub fn hang_up(&self) {
        for group in [self.session(), self.foreground()] {
            if group > 0 {
                signal_group(group, SIGHUP);
                signal_group(group, SIGCONT);
            }
        }
    }
}

impl Terminal for Tty {
    fn foreground(&self) -> i32 {
        self.foreground_group().load(Ordering::Acquire)
    }

    fn adopted(&self, session: i32, foreground: i32) {
        self.session.store(session, Ordering::Release);
        self.foreground_group().store(foreground, Ordering::Release);
    }

    fn release(&self) {
        self.session.store(0, Ordering::Release);
        self.foreground_group().store(0, Ordering::Release);
    }

    fn device(&self) -> u64 {
        self.device
    }

    fn as_any(self: Arc<Self>) -> Arc<dyn Any + Send + Sync> {
        self
    }
}
