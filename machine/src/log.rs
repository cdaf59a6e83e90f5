//! The kernel's own log: records in a ring, and the debug console (port 0xe9) when there is one.
//!
//! *Interface*: the [`log!`](crate::log!) macro writes one line, [`write()`] one of any kind. [`LINES`] has
//! the last ones, for readers, who wait in [`READERS`]. May be called from anywhere, interrupt handlers
//! included: a line is formatted on the caller's stack and becomes one record of the ring
//! (`sync/src/journal.rs`), or several when it is longer than 256 bytes, and nothing waits. On the debug
//! console, lines that are written at the same instant may mix.
//!
//! The wake-up of readers is postponed where interrupts are off, since the writer may then be in the middle
//! of anything: [`link`] says how a procedure is called when they are on again. A line of [`write_quietly`]
//! wakes nobody, for a non-maskable interrupt may be in the middle of postponing; readers find the line with
//! the next one.
//!
//! Source: see `sync/src/journal.rs`; dissertation, section 5.3.2 (procedure chaining).

use core::fmt::{self, Write};
use core::sync::atomic::{AtomicBool, Ordering, fence};

use sync::{Journal, Once, WaitList};

use crate::cpu::{irq_enabled, irq_restore, irq_save};

/// Bytes of lines and of what belongs to them that the ring holds.
pub const RING: usize = 16 << 10;
/// The most bytes of a line: Linux's.
pub const MOST: usize = 992;

const PORT: u16 = 0xe9;
const PRESENT: u8 = 0xe9;

/// A level of Linux's: the system is unusable.
pub const EMERGENCY: u16 = 0;
/// Another: information. Above the three bits of the level is the facility, 0 for the kernel.
pub const INFORMATION: u16 = 6;

/// The lines, without a newline at the end. Their kind is facility and level, their stamp the time in
/// nanoseconds.
pub static LINES: Journal<{ RING / 4 }> = Journal::new();
/// The waiters for a line.
pub static READERS: WaitList = WaitList::new();

/// Has a procedure called as soon as interrupts are on. False: not now.
pub type Postpone = fn(fn(usize)) -> bool;

static POSTPONE: Once<Postpone> = Once::new();
/// It will be called.
static POSTPONED: AtomicBool = AtomicBool::new(false);
static CONSOLE: AtomicBool = AtomicBool::new(false);

/// Links the callout, once, at boot. Before that no line that is written with interrupts off wakes a reader.
pub fn link(postpone: Postpone) {
    let _again = POSTPONE.set(postpone);
}

/// Looks for the debug console. Before it, lines go to memory only.
pub(crate) fn init() {
    // SAFETY: reading this port has no effect where nothing or a debug console is.
    let found = cfg!(target_os = "none") && unsafe { crate::port::inb(PORT) } == PRESENT;
    CONSOLE.store(found, Ordering::Relaxed);
}

/// Adds a line, of which a newline at the end is no part, and wakes the readers.
pub fn write(kind: u16, text: &[u8]) {
    write_quietly(kind, text);
    wake();
}

/// As [`write()`], and wakes nobody: for non-maskable interrupts, and for the panic report.
pub fn write_quietly(kind: u16, text: &[u8]) {
    let text = text.strip_suffix(b"\n").unwrap_or(text);
    let text = &text[..text.len().min(MOST)];
    let now = crate::clock::now_ns();
    // Bound: about 250 exchanges, so that no reader waits for a thread that has lost its CPU.
    let irq = irq_save();
    LINES.put(kind, now, text);
    irq_restore(irq);
    if CONSOLE.load(Ordering::Relaxed) {
        // It takes all.
        let _ = write!(Console, "{}", Stamp(now));
        send(text);
        send(b"\n");
    }
}

/// Wakes the readers, now or soon.
fn wake() {
    // Behind the line, which a reader looks for behind a fence of its own when it waits.
    fence(Ordering::SeqCst);
    if !READERS.has_waiters() {
        return;
    }
    if irq_enabled() {
        READERS.wake_all();
    } else if let Some(postpone) = POSTPONE.get()
        && !POSTPONED.swap(true, Ordering::AcqRel)
        && !postpone(wake_now)
    {
        POSTPONED.store(false, Ordering::Release);
    }
}

fn wake_now(_: usize) {
    // A line whose writer found the word set is there now.
    POSTPONED.swap(false, Ordering::AcqRel);
    READERS.wake_all();
}

fn send(bytes: &[u8]) {
    for &byte in bytes {
        // SAFETY: `init` found a debug console at this port; it takes any byte.
        unsafe { crate::port::outb(PORT, byte) };
    }
}

struct Console;

impl Write for Console {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        send(text.as_bytes());
        Ok(())
    }
}

/// A time in nanoseconds, as it stands in front of a line.
pub struct Stamp(pub u64);

impl fmt::Display for Stamp {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        let us = self.0 / 1000;
        write!(f, "[{:5}.{:06}] ", us / 1_000_000, us % 1_000_000)
    }
}

/// A line under construction on the caller's stack.
pub struct LogLine {
    bytes: [u8; 256],
    used: usize,
    kind: u16,
    write: fn(u16, &[u8]),
}

impl LogLine {
    /// An empty line.
    pub const fn new() -> Self {
        LogLine {
            bytes: [0; 256],
            used: 0,
            kind: INFORMATION,
            write,
        }
    }

    /// An empty one of `kind`, for [`write_quietly`].
    pub const fn quiet(kind: u16) -> Self {
        LogLine {
            kind,
            write: write_quietly,
            ..LogLine::new()
        }
    }

    /// Adds what has been collected to the log.
    pub fn flush(&mut self) {
        (self.write)(self.kind, &self.bytes[..self.used]);
        self.used = 0;
    }
}

impl Default for LogLine {
    fn default() -> Self {
        Self::new()
    }
}

impl Write for LogLine {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        for &byte in text.as_bytes() {
            if self.used == self.bytes.len() {
                self.flush();
            }
            self.bytes[self.used] = byte;
            self.used += 1;
        }
        Ok(())
    }
}

#[doc(hidden)]
pub fn write_line(arguments: fmt::Arguments) {
    finish(LogLine::new(), arguments);
}

/// As [`log!`](crate::log!), by [`write_quietly`].
pub(crate) fn write_line_quietly(arguments: fmt::Arguments) {
    finish(LogLine::quiet(INFORMATION), arguments);
}

fn finish(mut line: LogLine, arguments: fmt::Arguments) {
    // A Display that fails has written what it could; the line is still worth having.
    let _ = line.write_fmt(arguments);
    line.flush();
}

/// Writes one line to the kernel's log, with the time in front. No newline is needed.
#[macro_export]
macro_rules! log {
    ($($argument:tt)*) => { $crate::log::write_line(format_args!($($argument)*)) };
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::string::{String, ToString};
    use sync::journal::Look;

    fn read(at: &mut u64) -> Option<(u16, String)> {
        let mut text = [0; MOST];
        let Look::Record(record) = LINES.read(*at, &mut text) else {
            return None;
        };
        *at = record.next;
        let text = String::from_utf8_lossy(&text[..record.length]);
        Some((record.kind, text.into_owned()))
    }

    #[test]
    fn a_line_is_a_record_and_a_long_one_several() {
        assert_eq!(Stamp(12_345_678_901_234).to_string(), "[12345.678901] ");
        let mut at = LINES.end();
        crate::log!("a line of {}", "words");
        crate::log!("{}", "x".repeat(300));
        write(8 | 3, b"with a newline\n");
        write_line_quietly(format_args!(""));
        write(INFORMATION, &[b'y'; 2000]);
        let text = |kind, text: String| Some((kind, text));
        assert_eq!(read(&mut at), text(INFORMATION, "a line of words".into()));
        assert_eq!(read(&mut at), text(INFORMATION, "x".repeat(256)));
        assert_eq!(read(&mut at), text(INFORMATION, "x".repeat(44)));
        assert_eq!(read(&mut at), text(11, "with a newline".into()));
        assert_eq!(read(&mut at), text(INFORMATION, String::new()));
        assert_eq!(read(&mut at), text(INFORMATION, "y".repeat(MOST)));
        assert_eq!(read(&mut at), None);
    }
}
