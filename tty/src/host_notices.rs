//! Notices from the host, one a line on the second serial line: the end of the input stream, a new window
//! size.
//!
//! *Interface*: [`open`] makes a blocking channel of the line, [`pump`] is the thread that reads from it
//! (docs/run-contract.md, "Notices from the host"). A line that is not understood is ignored: the host may be
//! newer.
//!
//! *Unsafe*: target of a link.

use abi::errno::{Errno, Result};
use abi::linux::Winsize;
use device::serial::Serial;
use device::stream::Stream;
use quaject::class::Ref;
use quaject::interfacer::{Function, link};
use quaject::queue::{ByteQueue, Q_EMPTY};

/// The contents of a notice.
#[derive(Debug, PartialEq, Eq)]
enum Notice {
    /// The input stream ends after so many bytes.
    End(u64),
    /// The terminal has so many rows and columns.
    Size(u16, u16),
}

fn parse(line: &str) -> Option<Notice> {
    let mut words = line.split_ascii_whitespace();
    match words.next()? {
        "eof" => Some(Notice::End(words.next()?.parse().ok()?)),
        "winsize" => Some(Notice::Size(
            words.next()?.parse().ok()?,
            words.next()?.parse().ok()?,
        )),
        _ => None,
    }
}

/// The longest notice, in bytes; the rest of a longer line is dropped.
const LONGEST: usize = 64;

/// Makes the input of `side` a blocking channel (figure 4.2): `Q_empty` is linked to the suspension of who
/// gets. Everywhere else the same queue is left unlinked and returns to the caller (figure 4.3). ENXIO for a
/// line that was not started, ENOMEM.
pub(super) fn open(side: &'static Serial) -> Result<&'static Ref<ByteQueue>> {
    let queue = side.arriving().ok_or(Errno::ENXIO)?;
    let this = core::ptr::from_ref(side).expose_provenance();
    let target = Function::retry(&"suspend", suspend, this);
    link(queue, Q_EMPTY, target).map_err(|_| Errno::ENOMEM)?;
    Ok(queue)
}

/// Callback `Q_empty` of the notices' queue.
extern "sysv64" fn suspend(line: usize) -> bool {
    let line: *const Serial = core::ptr::with_exposed_provenance(line);
    // SAFETY: the link passes a line, which is a static.
    let line = unsafe { &*line };
    line.arrived().wait_until(|| {
        thread::safe_point();
        (line.waiting() > 0).then_some(())
    });
    true
}

/// Reads notices from the channel `side`, whose only reader it is, for ever. `input` is the first process's,
/// where that is a stream.
pub(super) fn pump(side: &ByteQueue, input: Option<&'static dyn Stream>) -> ! {
    let mut line = [0u8; LONGEST];
    let mut length = 0;
    loop {
        let Some(byte) = side.get() else {
            continue;
        };
        if byte == b'\n' {
            let notice = core::str::from_utf8(&line[..length]).ok().and_then(parse);
            length = 0;
            match notice {
                Some(Notice::End(total)) => {
                    if let Some(input) = input {
                        input.set_end(total);
                    }
                }
                Some(Notice::Size(row, col)) => resize(row, col),
                None => {}
            }
        } else if length < LONGEST {
            line[length] = byte;
            length += 1;
        }
    }
}

fn resize(row: u16, col: u16) {
    if let Some(tty) = super::console() {
        tty.set_size(Winsize {
            row,
            col,
            xpixel: 0,
            ypixel: 0,
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn notices_are_read_and_nonsense_is_not() {
        assert_eq!(parse("eof 10485760"), Some(Notice::End(10_485_760)));
        assert_eq!(parse("winsize 24 80"), Some(Notice::Size(24, 80)));
        for nonsense in [
            "",
            "eof",
            "eof -1",
            "winsize 24",
            "winsize 99999 80",
            "hello",
        ] {
            assert_eq!(parse(nonsense), None, "{nonsense}");
        }
    }
}
