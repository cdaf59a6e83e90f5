//! CookTTYin: what a person types becomes what a program reads.
//!
//! *Interface* (table 4.2). Callentries: [`CookTtyIn::put`] takes one raw byte, [`CookTtyIn::read`]
//! gives processed ones, [`CookTtyIn::available`] counts them. Callouts: [`Callouts`], given to `put`.
//! Pure logic: it knows no device and no thread. A full line (canonical mode) or any byte (raw mode)
//! makes the editor readable.
//!
//! Source: dissertation, sections 4.1 (table 4.2) and 4.4.2 (the editing filter of a cooked tty); the
//! rules are those of termios and of Linux's terminal discipline.

use abi::linux::*;
use alloc::collections::VecDeque;
use alloc::vec::Vec;

/// The longest line, and the most bytes that wait for a reader (Linux's 4096 less the newline).
pub const CAPACITY: usize = 4095;

/// What typed control characters ask for.
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

/// Where the editor's effects go.
pub trait Callouts {
    /// Shows bytes on the terminal, through the output editor.
    fn echo(&mut self, bytes: &[u8]);
    /// Column of the cursor, to know the width of a tab that is erased.
    fn column(&self) -> usize;
    /// A control character was typed.
    fn control(&mut self, control: Control);
}

/// An entry that waits for a reader: a byte, or the end of a line without one.
#[derive(Debug, Clone, Copy)]
struct Ready {
    byte: Option<u8>,
    ends_line: bool,
}

/// One input editor.
#[derive(Debug, Default)]
pub struct CookTtyIn {
    edit: Vec<u8>,
    edit_column: usize,
    ready: VecDeque<Ready>,
    lines: usize,
    literal_next: bool,
    stopped: bool,
}

impl CookTtyIn {
    /// An empty editor.
    pub const fn new() -> Self {
        CookTtyIn {
            edit: Vec::new(),
            edit_column: 0,
            ready: VecDeque::new(),
            lines: 0,
            literal_next: false,
            stopped: false,
        }
    }

    /// Takes one raw byte under the settings `t`.
    pub fn put(&mut self, t: &Termios, byte: u8, out: &mut impl Callouts) {
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
            self.edit.iter().for_each(|&b| echo_byte(t, b, out));
        } else if byte == b'\n' {
            if t.lflag & (ECHO | ECHONL) != 0 {
                out.echo(b"\n");
            }
            self.finish_line(Some(b'\n'));
        } else if is(t, VEOF, byte) {
            self.finish_line(None);
        } else if is(t, VEOL, byte) || (extended && is(t, VEOL2, byte)) {
            if t.lflag & ECHO != 0 {
                echo_byte(t, byte, out);
            }
            self.finish_line(Some(byte));
        } else {
            self.add(t, byte, out);
        }
    }

    /// Moves processed bytes into `buffer`: at most one line in canonical mode. `None` when there is nothing to read yet,
    /// `Some(0)` for a typed end of file.
    pub fn read(&mut self, t: &Termios, buffer: &mut [u8]) -> Option<usize> {
        if !self.readable(t) {
            return None;
        }
        let canonical = t.lflag & ICANON != 0;
        let mut moved = 0;
        while let Some(&entry) = self.ready.front() {
            if let Some(byte) = entry.byte {
                if moved == buffer.len() {
                    break;
                }
                buffer[moved] = byte;
                moved += 1;
            }
            self.ready.pop_front();
            if entry.ends_line {
                self.lines -= 1;
                if canonical {
                    break;
                }
            }
        }
        // A line that filled the buffer exactly, up to a typed end of file, must not give a second, empty read.
        if moved == buffer.len()
            && moved > 0
            && let Some(Ready { byte: None, .. }) = self.ready.front()
        {
            self.ready.pop_front();
            self.lines -= 1;
        }
        Some(moved)
    }

    /// Whether [`read`](Self::read) would give something.
    pub fn readable(&self, t: &Termios) -> bool {
        if t.lflag & ICANON != 0 {
            self.lines > 0
        } else {
            !self.ready.is_empty()
        }
    }

    /// Bytes that `read` could give now.
    pub fn available(&self, t: &Termios) -> usize {
        let whole = self
            .ready
            .iter()
            .filter(|entry| entry.byte.is_some())
            .count();
        if t.lflag & ICANON != 0 && self.lines == 0 {
            0
        } else {
            whole
        }
    }

    /// Whether a typed VSTOP holds the output.
    pub fn is_stopped(&self) -> bool {
        self.stopped
    }

    /// Holds the output or lets it go on (`TCXONC`).
    pub fn set_stopped(&mut self, stopped: bool) {
        self.stopped = stopped;
    }

    /// Throws away everything typed that nobody has read.
    pub fn flush(&mut self) {
        self.edit.clear();
        self.ready.clear();
        self.lines = 0;
        self.literal_next = false;
    }

    /// Adapts to a change between canonical and raw mode: nothing typed is lost.
    pub fn settings_changed(&mut self, old: &Termios, new: &Termios) {
        if (old.lflag ^ new.lflag) & ICANON == 0 {
            return;
        }
        if new.lflag & ICANON == 0 {
            let edit = core::mem::take(&mut self.edit);
            self.ready.extend(edit.into_iter().map(|byte| Ready {
                byte: Some(byte),
                ends_line: false,
            }));
        } else if let Some(last) = self.ready.back_mut()
            && !last.ends_line
        {
            last.ends_line = true;
            self.lines += 1;
        }
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
        if self.edit.len() + self.ready.len() >= CAPACITY {
            if t.iflag & IMAXBEL != 0 {
                out.echo(b"\x07");
            }
            return;
        }
        if canonical && self.edit.is_empty() {
            self.edit_column = out.column();
        }
        if t.lflag & ECHO != 0 {
            echo_byte(t, byte, out);
        }
        if canonical {
            self.edit.push(byte);
        } else {
            self.ready.push_back(Ready {
                byte: Some(byte),
                ends_line: false,
            });
        }
    }

    fn finish_line(&mut self, last: Option<u8>) {
        let edit = core::mem::take(&mut self.edit);
        self.ready.extend(edit.into_iter().map(|byte| Ready {
            byte: Some(byte),
            ends_line: false,
        }));
        match (last, self.ready.back_mut()) {
            // A typed end of file behind text only pushes the text.
            (None, Some(entry)) if !entry.ends_line => entry.ends_line = true,
            _ => self.ready.push_back(Ready {
                byte: last,
                ends_line: true,
            }),
        }
        self.lines += 1;
    }

    /// Removes the last character (all bytes of it under IUTF8) and returns its first byte.
    fn pop_character(&mut self, t: &Termios) -> Option<u8> {
        loop {
            let byte = self.edit.pop()?;
            if t.iflag & IUTF8 == 0 || byte & 0xc0 != 0x80 || self.edit.is_empty() {
                return Some(byte);
            }
        }
    }

    fn last_character(&self, t: &Termios) -> Option<u8> {
        if t.iflag & IUTF8 == 0 {
            return self.edit.last().copied();
        }
        self.edit
            .iter()
            .rev()
            .find(|byte| **byte & 0xc0 != 0x80)
            .copied()
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
        self.edit
            .iter()
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
            self.edit.clear();
            if t.lflag & ECHO != 0 {
                echo_byte(t, t.cc[VKILL], out);
                if t.lflag & ECHOK != 0 {
                    out.echo(b"\n");
                }
            }
            return;
        }
        while !self.edit.is_empty() {
            self.erase_character(t, out);
        }
    }
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

#[cfg(test)]
#[path = "cook_tty_in_tests.rs"]
mod tests;
