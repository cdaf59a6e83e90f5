//! The kernel's own log: a ring in memory, and the debug console (port 0xe9) when there is one.
//!
//! *Interface*: the [`log!`](crate::log!) macro writes one line; [`copy`] reads what the ring still holds;
//! [`written`] says how much there ever was. May be called from anywhere, interrupt handlers and the panic
//! report included: a line is formatted on the caller's stack, its place in the ring is claimed with one add,
//! and nothing waits. Two lines written at the same instant never mix within 256 bytes in the ring; on the
//! debug console they may.

use core::fmt::{self, Write};
use core::sync::atomic::{AtomicBool, AtomicU8, AtomicUsize, Ordering};

/// Size of the ring in bytes.
pub const RING: usize = 16 << 10;
const PORT: u16 = 0xe9;
const PRESENT: u8 = 0xe9;

static BYTES: [AtomicU8; RING] = [const { AtomicU8::new(0) }; RING];
static WRITTEN: AtomicUsize = AtomicUsize::new(0);
static CONSOLE: AtomicBool = AtomicBool::new(false);

/// Looks for the debug console. Before it, lines go to memory only.
pub(crate) fn init() {
    // SAFETY: reading this port has no effect where nothing or a debug console is.
    let found = cfg!(target_os = "none") && unsafe { crate::port::inb(PORT) } == PRESENT;
    CONSOLE.store(found, Ordering::Relaxed);
}

/// Bytes written since boot; the ring holds the last [`RING`] of them.
pub fn written() -> usize {
    WRITTEN.load(Ordering::Acquire)
}

/// Copies from absolute position `at` (as [`written`] counts) into `out`; a position that has left the ring
/// is moved up to the oldest byte. Returns the position of the first byte copied and the count.
pub fn copy(at: usize, out: &mut [u8]) -> (usize, usize) {
    let end = written();
    let from = at.max(end.saturating_sub(RING)).min(end);
    let count = out.len().min(end - from);
    for (i, byte) in out[..count].iter_mut().enumerate() {
        *byte = BYTES[(from + i) % RING].load(Ordering::Relaxed);
    }
    (from, count)
}

/// Appends raw bytes.
pub fn write_bytes(bytes: &[u8]) {
    let at = WRITTEN.fetch_add(bytes.len(), Ordering::AcqRel);
    for (i, &byte) in bytes.iter().enumerate() {
        BYTES[at.wrapping_add(i) % RING].store(byte, Ordering::Relaxed);
    }
    if CONSOLE.load(Ordering::Relaxed) {
        for &byte in bytes {
            // SAFETY: `init` found a debug console at this port; it takes any byte.
            unsafe { crate::port::outb(PORT, byte) };
        }
    }
}

/// A line under construction on the caller's stack.
pub struct Line {
    bytes: [u8; 256],
    used: usize,
}

impl Line {
    /// An empty line.
    pub const fn new() -> Self {
        Line {
            bytes: [0; 256],
            used: 0,
        }
    }

    /// Appends what has been collected to the log.
    pub fn flush(&mut self) {
        write_bytes(&self.bytes[..self.used]);
        self.used = 0;
    }
}

impl Default for Line {
    fn default() -> Self {
        Self::new()
    }
}

impl Write for Line {
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
    let now = crate::clock::now_ns();
    let mut line = Line::new();
    let result = write!(
        line,
        "[{:5}.{:06}] ",
        now / 1_000_000_000,
        now / 1000 % 1_000_000
    )
    .and_then(|()| line.write_fmt(arguments));
    // A Display that fails has written what it could; the line is still worth having.
    let _ = result;
    let _ = line.write_str("\n");
    line.flush();
}

/// Writes one line to the kernel's log, with the time in front. No newline is needed.
#[macro_export]
macro_rules! log {
    ($($argument:tt)*) => { $crate::log::write_line(format_args!($($argument)*)) };
}
