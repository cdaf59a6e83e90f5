//! The keyboard's way from the line to the edit buffer, built of quajects.
//!
//! ```text
//! Queue of the line ─▶ BufferIn ─▶ Pump ─▶ Monitor ─▶ CookTTYin ─▶ edit buffer
//!                                                        │ echo
//!                                              CookTTYout ─▶ BufferOut ─▶ Queue of the line
//! ```
//!
//! A single ordinary key, as people type, goes the rest of the way in the interrupt that brings it: it asks
//! for nothing but its place in the edit buffer and its echo ([`Editor::type_at_once`]). All others wait in
//! the queue for the pump, which may sleep, and so does each while the pump or somebody else is at the
//! editor.
//!
//! A pseudo-terminal has no line and no pump: its master's `write` enters at the Monitor, and the echo goes
//! into the channel that the master reads, as much of it as fits.
//!
//! *Interface*: [`Editor::new`] makes and links them; [`Editor::pump`] lets some bytes through, by the thread
//! that calls it; [`Editor::enter`] one of another origin (`TIOCSTI`); [`Editor::lock`] is for those who look
//! at the settings or change them. The editor's requests meanwhile wait in a list, its echo in the
//! BufferOut: [`Editor::settle`] hands both out.
//!
//! The editor is made for one caller at a time; the Monitor quaject at its entrance serializes the pump and
//! the others.
//!
//! Source: dissertation, sections 1.3.1 (a tty from a raw driver, two queues, an input editor and an output
//! converter), 4.1.3, 4.4.1 (pump); Massalin and Pu 1989, section 5.2 (a monitor at the end with multiple
//! participants).
//!
//! *Unsafe*: the state behind the turn; targets of links.

use abi::linux::Termios;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::cell::UnsafeCell;
use core::ops::{Deref, DerefMut};
use core::sync::atomic::{AtomicU64, Ordering};
use device::serial::Serial;
use device::stream::Stream;
use quaject::RoutineError;
use quaject::buffer_in::{self, BufferIn};
use quaject::buffer_out::{self, BufferOut};
use quaject::class::{Header, Ref, create};
use quaject::cook_tty_in::{self, Callouts, Control, CookTtyIn, EditBuffer, Ordinary};
use quaject::cook_tty_out::{self, CookTtyOut};
use quaject::interfacer::{Function, changes, link};
use quaject::join::{Side, join};
use quaject::pump::{self, Pump};
use quaject::queue::{Channel, Parties, q_put_string};
use quaject::serializer::{self, Held, Serializer};
use sync::Monitor;

use super::caller_pgrp::CallerPgrp;
use super::output::TtyOutput;

/// Bytes of the buffers on either side, and the most that one run of the pump moves.
const BUFFER: usize = 256;

/// The editor and its settings, changed together.
pub(super) struct LineDiscipline {
    /// The settings; change them with [`LineDiscipline::set`].
    pub settings: Termios,
    pub input: CookTtyIn,
    /// Under these settings.
    ordinary: Ordinary,
    effects: Effects,
}

/// Where the input editor's effects go.
struct Effects {
    line: TtyOutput,
    oflag: u32,
    /// Shows by its callout `echo`.
    editor: Ref<cook_tty_in::Quaject>,
    echo: Ref<BufferOut>,
    controls: Vec<Control>,
    /// The cursor's column, where nobody may wait to know it.
    column: Option<usize>,
}

/// The right to take bytes from the line.
pub(super) struct Taking;

/// The beginning of the chain of a line.
struct Pumped {
    line: &'static Serial,
    buffer: Ref<BufferIn>,
    pump: Ref<Pump>,
}

impl Pumped {
    /// Bytes that have arrived and are not in the editor.
    fn arrived(&self) -> usize {
        self.buffer.buffered() + self.line.waiting()
    }
}

/// The chain.
pub(super) struct Editor {
    turns: Ref<Serializer>,
    /// Held by who takes bytes from the line: the pump, or an interrupt.
    taking: Monitor<Taking>,
    /// Bytes that were echoed.
    echo: Ref<BufferOut>,
    /// [`changes`] of the links when the pump led straight into the editor; 0 while something stands between.
    straight: AtomicU64,
    /// Of a line.
    pump: Option<Pumped>,
    state: UnsafeCell<LineDiscipline>,
    input: Ref<cook_tty_in::Quaject>,
    output: Ref<cook_tty_out::Quaject>,
}

// SAFETY: the state is reached only by who has the turn.
unsafe impl Sync for Editor {}
// SAFETY: as above; all it holds may move between threads.
unsafe impl Send for Editor {}

impl Editor {
    /// The chain from `line` to `typed` and back, which begins with `settings`.
    ///
    /// # Errors
    /// [`RoutineError`].
    pub fn new(
        line: &TtyOutput,
        typed: Arc<EditBuffer>,
        settings: Termios,
    ) -> Result<Editor, RoutineError> {
        let echo = create::<BufferOut>(BUFFER)?;
        let [one, many] = [Parties::One, Parties::Many];
        // Of the keys of a line the pump is the only producer, but not of all that the editor gets.
        let turns = join(Side::Active(many), Side::Passive(one), 0, false)?.monitor()?;
        let (send, pump) = match line {
            TtyOutput::Serial(line) => {
                let at_line = core::ptr::from_ref(*line).expose_provenance();
                let input = create::<BufferIn>(BUFFER)?;
                let receive = Function::read(&"Q_get", receive, at_line);
                link(&input, buffer_in::FILL, receive)?;
                let pump = join(Side::Passive(one), Side::Passive(one), 0, false)?.pump()?;
                link(&pump, pump::INPUT, buffer_in::get(&input))?;
                link(&pump, pump::OUTPUT, serializer::enter(&turns))?;
                let pumped = Pumped {
                    line,
                    buffer: input,
                    pump,
                };
                (Function::write(&"write", send, at_line), Some(pumped))
            }
            TtyOutput::Master(channel) => {
                let at_channel = Arc::as_ptr(channel).expose_provenance();
                (Function::write(&"write", put_what_fits, at_channel), None)
            }
        };
        link(&echo, buffer_out::FLUSH_OUT, send)?;
        let input = create::<cook_tty_in::Quaject>(())?;
        link(&input, cook_tty_in::GROUP, CallerPgrp::entry()?)?;
        link(&input, cook_tty_in::ECHOES, buffer_out::put(&echo))?;
        let output = create::<cook_tty_out::Quaject>(())?;
        if let Some(queue) = line.queue() {
            link(&output, cook_tty_out::RAW_WRITE, q_put_string(queue))?;
        }
        Ok(Editor {
            turns,
            taking: Monitor::new(Taking),
            echo: echo.clone(),
            straight: AtomicU64::new(0),
            pump,
            state: UnsafeCell::new(LineDiscipline {
                settings,
                input: CookTtyIn::new(typed),
                ordinary: Ordinary::of(&settings),
                effects: Effects {
                    line: line.clone(),
                    oflag: settings.oflag,
                    editor: input.clone(),
                    echo,
                    controls: Vec::new(),
                    column: None,
                },
            }),
            input,
            output,
        })
    }

    /// Lets the Monitor's participants in, now that the editor is where it stays.
    ///
    /// # Errors
    /// [`RoutineError`].
    pub fn open(self: &Arc<Self>) -> Result<(), RoutineError> {
        let this = Arc::as_ptr(self).expose_provenance();
        let put = Function::put(&"put", put, this, Some(self.input.header()));
        link(&self.turns, serializer::TARGET, put).map(drop)
    }

    /// The two editors.
    pub fn ends(&self) -> (&Ref<cook_tty_in::Quaject>, &Ref<cook_tty_out::Quaject>) {
        (&self.input, &self.output)
    }

    /// The Monitor at the entrance.
    pub fn entrance(&self) -> &Ref<Serializer> {
        &self.turns
    }

    /// Moves what has arrived into the editor, at most [`BUFFER`] bytes; whether there is more. No more is
    /// asked for than is there: a buffer that finds nothing asks the line once more.
    pub fn pump(&self) -> bool {
        let Some(pumped) = &self.pump else {
            return false;
        };
        // Bound: at most 256 bytes through the line editor of this terminal, its echo’s way out included.
        let _taking = self.taking.lock();
        pumped.pump.run(pumped.arrived().min(BUFFER));
        pumped.arrived() > 0
    }

    /// Looks whether anything stands between the line and the editor, for the keys to come. Thread context.
    pub fn look_at_links(&self) {
        let Some(Pumped { buffer, pump, .. }) = &self.pump else {
            return;
        };
        let changes = changes();
        let leads = |from: &'static Header, port: usize, to: &'static Header| {
            from.link(port).is_some_and(|link| link.to == to.number())
        };
        let straight = leads(pump.header(), pump::INPUT.number(), buffer.header())
            && leads(pump.header(), pump::OUTPUT.number(), self.turns.header())
            && leads(
                self.turns.header(),
                serializer::TARGET.number(),
                self.input.header(),
            );
        self.straight
            .store(if straight { changes } else { 0 }, Ordering::Release);
    }

    /// Whether some of the echo has found no room on the line.
    pub fn owes(&self) -> bool {
        self.echo.buffered() > 0
    }

    /// In the line's interrupt: the one byte that has arrived goes into the editor and is echoed, if it is an
    /// ordinary one and nobody else is at the editor. False: the pump has something to do.
    pub fn type_at_once(&self) -> bool {
        let Some(pumped) = &self.pump else {
            return false;
        };
        if pumped.line.waiting() != 1 || self.straight.load(Ordering::Acquire) != changes() {
            return false;
        }
        let Some(_taking) = self.taking.try_lock() else {
            return false;
        };
        let Some(_held) = self.turns.try_hold() else {
            return false;
        };
        // SAFETY: this has the turn.
        let d = unsafe { &mut *self.state.get() };
        d.type_at_once(pumped).is_some()
    }

    /// One byte as if it had been typed.
    pub fn enter(&self, byte: u8) {
        self.turns.enter(usize::from(byte));
    }

    /// Waits for the turn.
    pub fn lock(&self) -> EditorGuard<'_> {
        EditorGuard {
            _held: self.turns.hold(),
            editor: self,
        }
    }

    /// Shows what was echoed, and returns what control characters asked for.
    pub fn settle(&self) -> Vec<Control> {
        // Bound: the echo’s way out: until the line has room for 256 bytes.
        let mut d = self.lock();
        d.effects.echo.flush();
        core::mem::take(&mut d.effects.controls)
    }
}

/// The editor, while nobody else is at it.
pub(super) struct EditorGuard<'a> {
    editor: &'a Editor,
    _held: Held<'a>,
}

impl Deref for EditorGuard<'_> {
    type Target = LineDiscipline;
    fn deref(&self) -> &LineDiscipline {
        // SAFETY: this has the turn.
        unsafe { &*self.editor.state.get() }
    }
}

impl DerefMut for EditorGuard<'_> {
    fn deref_mut(&mut self) -> &mut LineDiscipline {
        // SAFETY: this has the turn, and is borrowed mutably.
        unsafe { &mut *self.editor.state.get() }
    }
}

impl LineDiscipline {
    /// See [`Editor::type_at_once`]. None: nothing has been done, or some of the echo waits for room.
    fn type_at_once(&mut self, pumped: &Pumped) -> Option<()> {
        let (effects, line) = (&mut self.effects, pumped.line);
        let byte = line.arriving()?.next()?;
        if !self.ordinary.has(byte)
            || !self.input.is_plain()
            || cook_tty_out::needs_column(effects.oflag)
            || effects.echo.buffered() + pumped.buffer.buffered() > 0
        {
            return None;
        }
        if self.input.asks_column(&self.settings, byte) {
            effects.column = Some(effects.line.column_now(effects.oflag)?);
        }
        let mut taken = [0];
        if line.arriving()?.read(&mut taken) == 1 {
            self.input.put_ordinary(&self.settings, byte, effects);
        }
        effects.column = None;
        effects.echo.hand_out(|bytes| line.send(bytes));
        (effects.echo.buffered() == 0).then_some(())
    }

    /// Changes the settings; returns the old ones.
    pub fn set(&mut self, new: Termios) -> Termios {
        self.ordinary = Ordinary::of(&new);
        self.effects.oflag = new.oflag;
        core::mem::replace(&mut self.settings, new)
    }
}

/// Target of the Monitor: one byte into the editor.
extern "sysv64" fn put(editor: usize, byte: usize) -> usize {
    let editor: *const Editor = core::ptr::with_exposed_provenance(editor);
    // SAFETY: the link passes the editor that owns the Monitor, which calls this while nobody else has the
    // turn.
    let d = unsafe { &mut *(*editor).state.get() };
    d.input.put(&d.settings, byte as u8, &mut d.effects);
    1
}

/// Callout `flush` of the echo's buffer.
extern "sysv64" fn send(line: usize, bytes: *mut u8, count: usize) -> usize {
    let line: *const Serial = core::ptr::with_exposed_provenance(line);
    // SAFETY: the link passes a line, which is a static; the buffer hands out `count` bytes.
    unsafe { (*line).send_all(core::slice::from_raw_parts(bytes, count)) };
    count
}

/// Callout `flush` of the echo's buffer of a pseudo-terminal: nobody waits for its master to read.
extern "sysv64" fn put_what_fits(channel: usize, bytes: *mut u8, count: usize) -> usize {
    let channel: *const Channel = core::ptr::with_exposed_provenance(channel);
    // SAFETY: the link passes the channel of the editor that owns the buffer, which keeps it; the buffer
    // hands out `count` bytes.
    let (channel, bytes) = unsafe { (&*channel, core::slice::from_raw_parts(bytes, count)) };
    channel.write(bytes);
    count
}

/// Callout `fill` of the keyboard's buffer.
extern "sysv64" fn receive(line: usize, bytes: *mut u8, count: usize) -> usize {
    let line: *const Serial = core::ptr::with_exposed_provenance(line);
    // SAFETY: the link passes a line, which is a static; the buffer has room for `count` bytes.
    unsafe {
        (*line).arriving().map_or(0, |queue| {
            queue.read(core::slice::from_raw_parts_mut(bytes, count))
        })
    }
}

impl Callouts for Effects {
    fn echo(&mut self, bytes: &[u8]) {
        let column = if cook_tty_out::needs_column(self.oflag) {
            self.column()
        } else {
            0
        };
        CookTtyOut::at(column).write(self.oflag, bytes, |piece| {
            self.editor.echo(piece);
            piece.len()
        });
    }

    fn column(&self) -> usize {
        if let Some(column) = self.column {
            return column;
        }
        self.echo.flush();
        self.line.column(self.oflag)
    }

    fn control(&mut self, control: Control) {
        #[expect(
            clippy::disallowed_methods,
            reason = "a few for each byte of a piece, taken with it"
        )]
        self.controls.push(control);
    }
}
