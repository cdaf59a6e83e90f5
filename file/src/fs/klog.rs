//! The kernel's log as text, for `syslog` and `/proc/kmsg`.
//!
//! *Interface*: [`read`] tells what was not told yet, once for all callers, and may wait for it; [`unread`]
//! says how much that is. [`last`] copies the end of the log, and [`clear`] hides from it what there is so
//! far. [`next`] is the walk through the log's records that all readers use.
//!
//! A record is told as by Linux: facility and level in angle brackets, the time, the text, a newline; each
//! line of the text so.
//!
//! Source: syslog(2).

use abi::errno::{Errno, Result};
use core::fmt::{self, Write};
use core::sync::atomic::{AtomicU64, Ordering};
use machine::log::{LINES, MOST, READERS, Stamp};
use sync::Monitor;
use sync::journal::{Look, Record};

use crate::io::IoBuf;

/// Up to where the log was told.
struct Told {
    /// A position in it.
    at: u64,
    /// So many bytes of the text at the position, too.
    bytes: usize,
}

static TOLD: Monitor<Told> = Monitor::new(Told { at: 0, bytes: 0 });
/// Up to where it was cleared.
static CLEARED: AtomicU64 = AtomicU64::new(0);

/// A record of the log with its text.
pub struct LogRecord {
    /// The rest of it.
    pub record: Record,
    bytes: [u8; MOST],
}

impl LogRecord {
    /// Room for one, for [`next`].
    pub fn blank() -> LogRecord {
        LogRecord {
            record: Record::default(),
            bytes: [0; MOST],
        }
    }

    /// Its text, without a newline at the end.
    pub fn text(&self) -> &[u8] {
        &self.bytes[..self.record.length.min(MOST)]
    }

    /// Hands its text as it is told to `take`, in pieces.
    fn pieces(&self, mut take: impl FnMut(&[u8]) -> Result<()>) -> Result<()> {
        let mut front = Front {
            bytes: [0; 48],
            used: 0,
        };
        // It has room for two numbers.
        let _ = write!(front, "<{}>{}", self.record.kind, Stamp(self.record.stamp));
        for line in self.text().split(|byte| *byte == b'\n') {
            take(&front.bytes[..front.used])?;
            take(line)?;
            take(b"\n")?;
        }
        Ok(())
    }

    /// Bytes of its text as it is told.
    fn length(&self) -> usize {
        let mut length = 0;
        let counted = self.pieces(|piece| {
            length += piece.len();
            Ok(())
        });
        debug_assert!(counted.is_ok());
        length
    }

    /// Moves `count` bytes of that text into `buf`, from byte `from` on.
    fn put(&self, from: usize, count: usize, buf: &mut IoBuf) -> Result<()> {
        let (mut skip, mut left) = (from, count);
        self.pieces(|piece| {
            let passed = skip.min(piece.len());
            skip -= passed;
            let piece = &piece[passed..];
            let piece = &piece[..left.min(piece.len())];
            left -= piece.len();
            if !piece.is_empty() {
                buf.put(piece)?;
            }
            Ok(())
        })
    }
}

/// The beginning of each line.
struct Front {
    bytes: [u8; 48],
    used: usize,
}

impl Write for Front {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        let room = self.bytes.get_mut(self.used..).unwrap_or_default();
        let room = room.get_mut(..text.len()).ok_or(fmt::Error)?;
        room.copy_from_slice(text.as_bytes());
        self.used += text.len();
        Ok(())
    }
}

/// Reads the first record at or behind position `at` that is still there, if there is one yet. The position
/// moves on to it, past those that were overwritten.
pub fn next(at: &mut u64, entry: &mut LogRecord) -> bool {
    loop {
        match LINES.read(*at, &mut entry.bytes) {
            Look::Record(record) => {
                entry.record = record;
                return true;
            }
            Look::Nothing => return false,
            Look::Gone => *at = LINES.first(*at),
        }
    }
}

impl Told {
    /// Reads the next record, if there is one.
    fn next(&mut self, entry: &mut LogRecord) -> bool {
        let before = self.at;
        let found = next(&mut self.at, entry);
        if self.at != before {
            self.bytes = 0;
        }
        found
    }

    /// Tells whole records, as many as fit; a part of the first if it alone does not.
    fn tell(&mut self, buf: &mut IoBuf) -> Result<usize> {
        let (mut total, mut entry) = (0, LogRecord::blank());
        while buf.remaining() > 0 && self.next(&mut entry) {
            let left = entry.length().saturating_sub(self.bytes);
            let fits = left.min(buf.remaining());
            if fits < left && total > 0 {
                break;
            }
            match entry.put(self.bytes, fits, buf) {
                Err(_) if total > 0 => break,
                moved => moved?,
            }
            total += fits;
            if fits == left {
                (self.at, self.bytes) = (entry.record.next, 0);
            } else {
                self.bytes += fits;
            }
        }
        Ok(total)
    }
}

/// Tells what was not told yet. With `waits`, waits until there is something. EAGAIN, ERESTARTSYS, EFAULT.
pub fn read(buf: &mut IoBuf, waits: bool) -> Result<usize> {
    while buf.remaining() > 0 {
        // Bound: the text of the log, which has 16 KiB; a page fault of the copying may sleep inside.
        let told = TOLD.lock().tell(buf)?;
        if told > 0 {
            return Ok(told);
        }
        if !waits {
            return Err(Errno::EAGAIN);
        }
        READERS
            .wait_interruptible(|| has_unread().then_some(()))
            .map_err(|_| Errno::ERESTARTSYS)?;
    }
    Ok(0)
}

/// Whether something was not told yet.
pub fn has_unread() -> bool {
    LINES.is_there(TOLD.lock().at)
}

/// Bytes that were not told yet.
pub fn unread() -> usize {
    let mut told = TOLD.lock();
    // An overwritten line is not told any more.
    told.next(&mut LogRecord::blank());
    length_from(told.at).saturating_sub(told.bytes)
}

/// Bytes of the text from position `at` on.
fn length_from(mut at: u64) -> usize {
    let (mut length, mut entry) = (0, LogRecord::blank());
    while next(&mut at, &mut entry) {
        length += entry.length();
        at = entry.record.next;
    }
    length
}

/// Moves the end of the log into `buf`, as many whole records as fit, of those behind where it was cleared.
/// Returns the bytes and the position behind them. EFAULT.
pub fn last(buf: &mut IoBuf) -> Result<(usize, u64)> {
    let (room, mut at, mut entry) = (buf.remaining(), cleared(), LogRecord::blank());
    let mut length = length_from(at);
    while next(&mut at, &mut entry) {
        let own = entry.length();
        if length > room {
            length = length.saturating_sub(own);
        } else if own <= buf.remaining() {
            entry.put(0, own, buf)?;
        } else {
            // It has come meanwhile.
            break;
        }
        at = entry.record.next;
    }
    Ok((room - buf.remaining(), at))
}

/// From where [`last`] begins.
pub fn cleared() -> u64 {
    CLEARED.load(Ordering::Relaxed)
}

/// Lets [`last`] begin at position `at`, or behind.
pub fn clear(at: u64) {
    CLEARED.fetch_max(at, Ordering::Relaxed);
}

#[cfg(test)]
mod tests {
    use super::*;
    use machine::log::{INFORMATION, write};

    /// The text that `act` moves into `room` bytes.
    fn moved(room: usize, act: impl FnOnce(&mut IoBuf)) -> String {
        let mut bytes = vec![0; room];
        let mut buf = IoBuf::fill(&mut bytes);
        act(&mut buf);
        let done = buf.done();
        String::from_utf8_lossy(&bytes[..done]).into_owned()
    }

    /// Without the times.
    fn plain(text: &str) -> Vec<String> {
        let line = |line: &str| {
            let (level, rest) = line.split_once('[').unwrap();
            format!("{level}{}", rest.split_once("] ").unwrap().1)
        };
        text.lines().map(line).collect()
    }

    #[test]
    fn the_log_is_told_once_in_whole_lines_and_its_end_as_often_as_asked() {
        let told = |room| moved(room, |buf| assert!(read(buf, false) != Ok(0)));
        // Other tests may have written.
        while !told(4096).is_empty() {}
        clear(LINES.end());
        assert_eq!(
            read(&mut IoBuf::fill(&mut [0; 9]), false),
            Err(Errno::EAGAIN)
        );
        assert_eq!(read(&mut IoBuf::fill(&mut []), true), Ok(0));
        write(INFORMATION, b"first\n");
        write(8 | 3, b"one\ntwo");
        let whole = unread();
        assert!(has_unread());
        let all = moved(4096, |buf| assert_eq!(last(buf).unwrap().0, whole));
        assert_eq!(plain(&all), ["<6>first", "<11>one", "<11>two"]);
        // A part of a record that alone does not fit, and then no part.
        let first = all.find('\n').unwrap() + 1;
        assert_eq!(told(first - 4), all[..first - 4]);
        assert_eq!(unread(), whole - (first - 4));
        assert_eq!(told(9), all[first - 4..first]);
        assert_eq!(told(4096), all[first..]);
        assert_eq!((unread(), has_unread()), (0, false));
        // The end: whole records.
        assert_eq!(
            moved(whole - 1, |buf| assert!(last(buf).is_ok())),
            all[first..]
        );
        assert_eq!(moved(9, |buf| assert!(last(buf).is_ok())), "");
        clear(LINES.end());
        assert_eq!(moved(4096, |buf| assert!(last(buf).is_ok())), "");
        // A line that is overwritten before it was told is left out.
        for _ in 0..machine::log::RING / 100 {
            write(INFORMATION, &[b'x'; 200]);
        }
        let rest = told(1 << 20);
        assert!(rest.len() > 10_000 && rest.starts_with("<6>[") && rest.len() < 20_000);
    }
}
