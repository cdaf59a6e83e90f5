//! CookTTYin, the input side of the line discipline: turns typed keys into the input that a program reads.
//!
//! *Interface* (table 4.2). Callentries: [`CookTtyIn::put`] takes one raw byte, [`CookTtyIn::read`] gives
//! processed ones, [`CookTtyIn::available`] counts them. Callouts: [`Callouts`], given to `put`. It knows no
//! device and no thread. A full line (canonical mode) or any byte (raw mode) makes the editor readable. The
//! quaject itself, with the callouts that the interfacer links, is [`Quaject`].
//!
//! The edited input is in a [`EditBuffer`] buffer, which descriptors read by a generated routine
//! ([`synthesize_read`]) without the editor.
//!
//! Source: dissertation, sections 4.1 (table 4.2) and 4.4.2 (the editing filter of a cooked tty); the
//! rules are those of termios and of Linux's terminal discipline.

mod echo;
mod edit_buffer;
mod pty_write;
mod read;

pub use edit_buffer::{EditBuffer, Mode, PLACES};
pub use pty_write::{PtyWriteRecipe, enters_plainly, synthesize_type};
pub use read::{TtyReadRecipe, synthesize_read};

use abi::linux::*;
use alloc::sync::Arc;
use core::ops::Deref;
use core::sync::atomic::Ordering;
use edit_buffer::{ENDS, NO_BYTE};

pub use echo::{CLASS, ECHOES, GROUP, Quaject};

/// The longest line, and the most bytes that wait for a reader (Linux's 4096 less the newline).
pub const CAPACITY: usize = PLACES - 1;

/// The requests of typed control characters.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Control {
    /// VINTR: SIGINT to the foreground group.
    Interrupt,
    /// VQUIT: SIGQUIT to the foreground group.
    Quit,
    /// VSUSP: SIGTSTP to the foreground group.
    Suspend,
    /// VSTOP: hold the output.
    Stop,
    /// VSTART: let the output go on.
    Start,
}

/// The receiver of the editor's effects.
pub trait Callouts {
    /// Shows bytes on the terminal, through the output editor.
    fn echo(&mut self, bytes: &[u8]);
    /// Column of the cursor, to know the width of a tab that is erased.
    fn column(&self) -> usize;
    /// A control character was typed.
    fn control(&mut self, control: Control);
}

/// One input editor, with the edit buffer that `B` leads to.
#[derive(Debug)]
pub struct CookTtyIn<B = Arc<EditBuffer>> {
    typed: B,
    edit_column: usize,
    literal_next: bool,
    stopped: bool,
}

/// Bytes that are no control character under some settings, and that these pass to the line as they are, or
/// as a newline: a bit each is set for all others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ordinary([u64; 4]);

impl Ordinary {
    /// Under the settings `t`.
    pub fn of(t: &Termios) -> Ordinary {
        let mut others = match t.lflag & EXTPROC {
            0 => [0; 4],
            _ => [u64::MAX; 4],
        };
        if t.iflag & ISTRIP != 0 {
            (others[2], others[3]) = (u64::MAX, u64::MAX);
        }
        if t.iflag & (IGNCR | INLCR) != 0 {
            others[0] |= 1 << b'\r' | 1 << b'\n';
        }
        for (which, byte) in t.cc.iter().enumerate() {
            if *byte != 0 && which != VMIN && which != VTIME {
                others[usize::from(*byte) / 64] |= 1 << (*byte % 64);
            }
        }
        if t.iflag & ICRNL != 0 {
            others[0] |= (others[0] >> b'\n' & 1) << b'\r';
        }
        Ordinary(others)
    }

    /// Whether `byte` is one.
    pub fn has(&self, byte: u8) -> bool {
        self.0[usize::from(byte) / 64] & 1 << (byte % 64) == 0
    }
}

/// How readers take input under the settings `t`.
pub fn mode(t: &Termios) -> Mode {
    if in_lines(t) {
        Mode::Line
    } else {
        Mode::Bytes(t.cc[VMIN])
    }
}

/// Whether readers get whole lines: in canonical mode, unless another edits them before they come here
/// (`EXTPROC`).
pub fn in_lines(t: &Termios) -> bool {
    t.lflag & (ICANON | EXTPROC) == ICANON
}

impl<B: Deref<Target = EditBuffer>> CookTtyIn<B> {
    /// An editor for an empty buffer.
    pub fn new(typed: B) -> Self {
        CookTtyIn {
            typed: {
                typed.set_edit(typed.head());
                typed
            },
            edit_column: 0,
            literal_next: false,
            stopped: false,
        }
    }

    /// Takes one raw byte under the settings `t`.
    pub fn put(&mut self, t: &Termios, byte: u8, out: &mut impl Callouts) {
        if t.lflag & EXTPROC != 0 {
            return self.add_plainly(byte);
        }
        let mut byte = if t.iflag & ISTRIP != 0 {
            byte & 0x7f
        } else {
            byte
        };
        if core::mem::take(&mut self.literal_next) {
            return self.add(t, byte, out);
        }
        if self.flow(t, byte, out) || self.signal(t, byte, out) {
            return;
        }
        match byte {
            b'\r' if t.iflag & IGNCR != 0 => return,
            b'\r' if t.iflag & ICRNL != 0 => byte = b'\n',
            b'\n' if t.iflag & INLCR != 0 => byte = b'\r',
            _ => {}
        }
        if t.lflag & ICANON == 0 {
            return self.add(t, byte, out);
        }
        let extended = t.lflag & IEXTEN != 0;
        if is(t, VERASE, byte) {
            self.erase_character(t, out);
        } else if is(t, VKILL, byte) {
            self.erase_line(t, out);
        } else if extended && is(t, VWERASE, byte) {
            self.erase_word(t, out);
        } else if extended && is(t, VLNEXT, byte) {
            self.literal_next = true;
            if t.lflag & ECHO != 0 && t.lflag & ECHOCTL != 0 {
                out.echo(b"^\x08");
            }
        } else if extended && t.lflag & ECHO != 0 && is(t, VREPRINT, byte) {
            echo_byte(t, byte, out);
            out.echo(b"\n");
            self.edit_column = out.column();
            self.line().iter().for_each(|&b| echo_byte(t, b, out));
        } else if byte == b'\n' {
            self.newline(t, out);
        } else if is(t, VEOF, byte) {
            self.finish_line(t, None, out);
        } else if is(t, VEOL, byte) || (extended && is(t, VEOL2, byte)) {
            if t.lflag & ECHO != 0 {
                echo_byte(t, byte, out);
            }
            self.finish_line(t, Some(byte), out);
        } else {
            self.add(t, byte, out);
        }
    }

    /// Whether [`put_ordinary`](Self::put_ordinary) may take a byte now that is ordinary under the settings.
    pub fn is_plain(&self) -> bool {
        !self.literal_next && !self.stopped
    }

    /// As [`put`](Self::put), of a byte that is [`Ordinary`] under the settings `t`, when
    /// [`is_plain`](Self::is_plain) holds: it asks for no control.
    pub fn put_ordinary(&mut self, t: &Termios, byte: u8, out: &mut impl Callouts) {
        let byte = match byte {
            b'\r' if t.iflag & ICRNL != 0 => b'\n',
            _ => byte,
        };
        if byte == b'\n' && t.lflag & ICANON != 0 {
            self.newline(t, out);
        } else {
            self.add(t, byte, out);
        }
    }

    fn newline(&mut self, t: &Termios, out: &mut impl Callouts) {
        if t.lflag & (ECHO | ECHONL) != 0 {
            out.echo(b"\n");
        }
        self.finish_line(t, Some(b'\n'), out);
    }

    /// Whether [`put_ordinary`](Self::put_ordinary) of `byte` asks for the cursor's column: the byte begins a
    /// line, and does not end it.
    pub fn asks_column(&self, t: &Termios, byte: u8) -> bool {
        let ends = byte == b'\n' || byte == b'\r' && t.iflag & ICRNL != 0;
        t.lflag & ICANON != 0 && !ends && self.line_is_empty()
    }

    /// Moves processed bytes into `buffer`: at most one line in canonical mode. `None` when there is nothing
    /// to read yet, `Some(0)` for a typed end of file. Sleeps while another reader is at the buffer.
    pub fn read(&mut self, t: &Termios, buffer: &mut [u8]) -> Option<usize> {
        let mode = match mode(t) {
            Mode::Line => Mode::Line,
            Mode::Bytes(_) => Mode::Bytes(1),
        };
        let typed = &*self.typed;
        typed.alone(|| typed.take(mode, buffer))
    }

    /// Whether [`read`](Self::read) would give something.
    pub fn readable(&self) -> bool {
        !self.typed.is_empty()
    }

    /// Bytes that `read` could give now.
    pub fn available(&self) -> usize {
        self.typed.available()
    }

    /// Whether a typed VSTOP holds the output.
    pub fn is_stopped(&self) -> bool {
        self.stopped
    }

    /// Holds the output or lets it go on (`TCXONC`).
    pub fn set_stopped(&mut self, stopped: bool) {
        self.stopped = stopped;
    }

    /// Discards all unread input.
    pub fn flush(&mut self) {
        let typed = &*self.typed;
        let head = typed.head();
        typed.alone(|| typed.reader.tail.store(head, Ordering::Release));
        typed.set_edit(head);
        self.literal_next = false;
        typed.reader.room.wake_all();
    }

    /// Whether [`put`](Self::put) of one byte more would keep it, or is to throw it away: then nothing but
    /// more bytes could end the line that fills the buffer.
    pub fn has_room(&self, t: &Termios) -> bool {
        self.waiting() < CAPACITY || in_lines(t) && self.typed.is_empty()
    }

    /// Adapts to a change between canonical and raw mode: nothing typed is lost.
    pub fn settings_changed(&mut self, old: &Termios, new: &Termios) {
        if in_lines(old) == in_lines(new) {
            return;
        }
        self.literal_next = false;
        let typed = &*self.typed;
        let edit = typed.edit();
        let edit = typed.alone(|| {
            if !in_lines(new) {
                unmark(typed, edit)
            } else {
                let head = typed.head();
                if head != typed.tail() {
                    typed
                        .place(head.wrapping_sub(1))
                        .fetch_or(ENDS, Ordering::Relaxed);
                }
                head
            }
        });
        typed.set_edit(edit);
    }

    fn flow(&mut self, t: &Termios, byte: u8, out: &mut impl Callouts) -> bool {
        if t.iflag & IXON == 0 {
            return false;
        }
        if is(t, VSTOP, byte) {
            self.stopped = true;
            out.control(Control::Stop);
            return true;
        }
        let starts = is(t, VSTART, byte);
        if starts || (self.stopped && t.iflag & IXANY != 0) {
            self.stopped = false;
            out.control(Control::Start);
        }
        starts
    }

    fn signal(&mut self, t: &Termios, byte: u8, out: &mut impl Callouts) -> bool {
        if t.lflag & ISIG == 0 {
            return false;
        }
        let control = if is(t, VINTR, byte) {
            Control::Interrupt
        } else if is(t, VQUIT, byte) {
            Control::Quit
        } else if is(t, VSUSP, byte) {
            Control::Suspend
        } else {
            return false;
        };
        if t.lflag & NOFLSH == 0 {
            self.flush();
        }
        if t.lflag & ECHO != 0 {
            echo_byte(t, byte, out);
        }
        out.control(control);
        true
    }

    fn add(&mut self, t: &Termios, byte: u8, out: &mut impl Callouts) {
        let canonical = t.lflag & ICANON != 0;
        if self.waiting() >= CAPACITY {
            return full(t, out);
        }
        if canonical && self.line_is_empty() {
            self.edit_column = out.column();
        }
        if t.lflag & ECHO != 0 {
            echo_byte(t, byte, out);
        }
        self.push(u16::from(byte));
        if !canonical {
            self.publish();
        }
    }

    fn add_plainly(&mut self, byte: u8) {
        if self.waiting() < CAPACITY {
            self.push(u16::from(byte));
            self.publish();
        }
    }

    /// Places between the readers and the end of the input.
    fn waiting(&self) -> usize {
        self.typed.edit().wrapping_sub(self.typed.tail()) as usize
    }

    fn line_is_empty(&self) -> bool {
        self.typed.edit() == self.typed.head()
    }

    fn push(&mut self, place: u16) {
        let edit = self.typed.edit();
        self.typed.place(edit).store(place, Ordering::Relaxed);
        self.typed.set_edit(edit.wrapping_add(1));
    }

    /// Hands everything typed to the readers.
    fn publish(&self) {
        self.typed.head.store(self.typed.edit(), Ordering::Release);
    }

    /// The line ends, with a byte or by a typed end of file.
    fn finish_line(&mut self, t: &Termios, last: Option<u8>, out: &mut impl Callouts) {
        match last {
            // A typed end of file behind text only pushes the text.
            None if !self.line_is_empty() => {
                let place = self.typed.place(self.typed.edit().wrapping_sub(1));
                place.fetch_or(ENDS, Ordering::Relaxed);
            }
            _ if self.waiting() >= PLACES => return full(t, out),
            Some(byte) => self.push(u16::from(byte) | ENDS),
            None => self.push(NO_BYTE | ENDS),
        }
        self.publish();
    }

    /// The bytes of the line that is being edited, from the last to the first.
    fn backwards(&self) -> impl Iterator<Item = u8> + '_ {
        let edit = self.typed.edit();
        let length = edit.wrapping_sub(self.typed.head());
        (1..=length).map(move |n| {
            let place = self.typed.place(edit.wrapping_sub(n));
            place.load(Ordering::Relaxed) as u8
        })
    }

    #[expect(clippy::disallowed_methods, reason = "a line fits its queue")]
    fn line(&self) -> alloc::vec::Vec<u8> {
        let mut line: alloc::vec::Vec<u8> = self.backwards().collect();
        line.reverse();
        line
    }

    fn pop(&mut self) -> Option<u8> {
        let last = self.backwards().next()?;
        self.typed.set_edit(self.typed.edit().wrapping_sub(1));
        Some(last)
    }

    /// Removes the last character (all bytes of it under IUTF8) and returns its first byte.
    fn pop_character(&mut self, t: &Termios) -> Option<u8> {
        loop {
            let byte = self.pop()?;
            if t.iflag & IUTF8 == 0 || byte & 0xc0 != 0x80 || self.line_is_empty() {
                return Some(byte);
            }
        }
    }

    fn last_character(&self, t: &Termios) -> Option<u8> {
        if t.iflag & IUTF8 == 0 {
            return self.backwards().next();
        }
        self.backwards().find(|byte| byte & 0xc0 != 0x80)
    }

    fn erase_character(&mut self, t: &Termios, out: &mut impl Callouts) {
        let Some(byte) = self.pop_character(t) else {
            return;
        };
        if t.lflag & ECHO == 0 {
            return;
        }
        if t.lflag & ECHOE == 0 {
            return echo_byte(t, t.cc[VERASE], out);
        }
        let width = match byte {
            b'\t' => out.column().saturating_sub(self.width_to_end(t)),
            0..=0x1f | 0x7f => {
                if t.lflag & ECHOCTL != 0 {
                    2
                } else {
                    0
                }
            }
            _ => 1,
        };
        for _ in 0..width {
            out.echo(if byte == b'\t' { b"\x08" } else { b"\x08 \x08" });
        }
    }

    /// Column behind the line as it now is.
    fn width_to_end(&self, t: &Termios) -> usize {
        let line = self.line();
        line.iter()
            .fold(self.edit_column, |column, &byte| match byte {
                b'\t' => (column / 8 + 1) * 8,
                0..=0x1f | 0x7f => column + if t.lflag & ECHOCTL != 0 { 2 } else { 0 },
                0x80..=0xbf if t.iflag & IUTF8 != 0 => column,
                _ => column + 1,
            })
    }

    fn erase_word(&mut self, t: &Termios, out: &mut impl Callouts) {
        let mut inside = false;
        while let Some(byte) = self.last_character(t) {
            let word = byte.is_ascii_alphanumeric() || byte == b'_' || byte >= 0x80;
            if inside && !word {
                break;
            }
            inside |= word;
            self.erase_character(t, out);
        }
    }

    fn erase_line(&mut self, t: &Termios, out: &mut impl Callouts) {
        let visual = t.lflag & (ECHOK | ECHOKE | ECHOE) == (ECHOK | ECHOKE | ECHOE);
        if t.lflag & ECHO == 0 || !visual {
            self.typed.set_edit(self.typed.head());
            if t.lflag & ECHO != 0 {
                echo_byte(t, t.cc[VKILL], out);
                if t.lflag & ECHOK != 0 {
                    out.echo(b"\n");
                }
            }
            return;
        }
        while !self.line_is_empty() {
            self.erase_character(t, out);
        }
    }
}

/// There is no place for another byte.
fn full(t: &Termios, out: &mut impl Callouts) {
    if t.iflag & IMAXBEL != 0 {
        out.echo(b"\x07");
    }
}

/// Converts all input up to `edit` to plain bytes, for raw mode, and hands it to the readers, of which none
/// is active. Returns the new end.
fn unmark(typed: &EditBuffer, edit: u32) -> u32 {
    let (mut from, mut to) = (typed.tail(), typed.tail());
    while from != edit {
        let place = typed.place(from).load(Ordering::Relaxed);
        from = from.wrapping_add(1);
        if place & NO_BYTE == 0 {
            typed.place(to).store(place & 0xff, Ordering::Relaxed);
            to = to.wrapping_add(1);
        }
    }
    typed.head.store(to, Ordering::Release);
    to
}

/// Whether `byte` is the control character `which`; a zero entry is switched off.
fn is(t: &Termios, which: usize, byte: u8) -> bool {
    t.cc[which] != 0 && t.cc[which] == byte
}

fn echo_byte(t: &Termios, byte: u8, out: &mut impl Callouts) {
    match byte {
        b'\t' | b'\n' => out.echo(&[byte]),
        0..=0x1f | 0x7f if t.lflag & ECHOCTL != 0 => out.echo(&[b'^', byte ^ 0x40]),
        _ => out.echo(&[byte]),
    }
}

/// The settings of a new terminal, as `stty sane` would leave them.
pub const fn sane() -> Termios {
    let mut cc = [0; NCCS];
    cc[VINTR] = 3;
    cc[VQUIT] = 28;
    cc[VERASE] = 127;
    cc[VKILL] = 21;
    cc[VEOF] = 4;
    cc[VMIN] = 1;
    cc[VSTART] = 17;
    cc[VSTOP] = 19;
    cc[VSUSP] = 26;
    cc[VREPRINT] = 18;
    cc[VDISCARD] = 15;
    cc[VWERASE] = 23;
    cc[VLNEXT] = 22;
    Termios {
        iflag: ICRNL | IXON | IUTF8 | IMAXBEL,
        oflag: OPOST | ONLCR,
        cflag: B115200 | CS8 | CREAD | HUPCL | CLOCAL,
        lflag: ISIG | ICANON | ECHO | ECHOE | ECHOK | ECHOCTL | ECHOKE | IEXTEN,
        line: 0,
        cc,
    }
}

#[cfg(all(test, not(loom)))]
mod tests;
