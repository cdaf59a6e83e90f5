//! The buffer of a read or write: the target or source of the bytes.
//!
//! *Interface.* A file fills a reader's buffer with [`IoBuf::put`] and empties a writer's with
//! [`IoBuf::take`]; neither knows whether the other side is one user range, an `iovec` or kernel memory. Both
//! move as many bytes as fit and return that number. When the thread is to end, a long transfer ends, too. A
//! bad user address gives `EFAULT` only when the call moved nothing; otherwise a short count, and `EFAULT` at
//! the next call. So a file that loops until a short count, and returns the sum, behaves as Linux does.

use abi::errno::{Errno, Result};
use abi::layout::{PAGE, USER_END};
use abi::linux::Iovec;
use account::caller;

use quaject::stream::{Direction, Stream};
use vm::frame::FrameBytes;

/// The most bytes that one call moves, as in Linux (`MAX_RW_COUNT`).
pub const MAX_COUNT: usize = 0x7fff_f000;

/// The buffer of one transfer.
pub struct IoBuf<'a> {
    place: Place<'a>,
    len: usize,
    done: usize,
    /// When so much is done it is asked whether the thread is to end.
    look: usize,
    /// The bytes go to the end of the file, whatever its description says (`RWF_APPEND`).
    appends: bool,
}

/// Bytes that are moved between two looks whether the thread is to end.
const STRIDE: usize = 256 << 10;

enum Place<'a> {
    /// One range of the current user space, below `USER_END`.
    User(usize),
    /// Pieces of the current user space, each below `USER_END`; the first not yet full, and bytes done in it.
    Scattered {
        pieces: &'a [Iovec],
        within: usize,
    },
    Fill(&'a mut [u8]),
    Drain(&'a [u8]),
    /// As `User`, and the bytes pass filters.
    Filtered(usize, FilterPath<'a>),
    /// As `Scattered`, and the bytes pass filters.
    ScatteredFiltered {
        pieces: &'a [Iovec],
        within: usize,
        passage: FilterPath<'a>,
    },
}

/// The filters that the bytes of a buffer pass.
#[derive(Clone, Copy)]
pub struct FilterPath<'a> {
    /// The filters.
    pub stream: &'a Stream,
    /// The way of the bytes.
    pub course: Direction,
}

impl<'a> IoBuf<'a> {
    /// A range of the current user space. `EFAULT` when it does not lie below `USER_END`.
    pub fn user(addr: usize, len: usize) -> Result<Self> {
        check(addr, len)?;
        Ok(Self::new(Place::User(addr), len.min(MAX_COUNT)))
    }

    /// Pieces of the current user space. `EINVAL` when a length is negative, `EFAULT` as for [`IoBuf::user`].
    pub fn scattered(pieces: &'a [Iovec]) -> Result<Self> {
        if pieces.iter().any(|piece| i64::try_from(piece.len).is_err()) {
            return Err(Errno::EINVAL);
        }
        let mut len = 0usize;
        for piece in pieces {
            check(piece.base as usize, piece.len as usize)?;
            len = len.saturating_add(piece.len as usize);
        }
        Ok(Self::new(
            Place::Scattered { pieces, within: 0 },
            len.min(MAX_COUNT),
        ))
    }

    /// The same buffer, of user memory, with bytes that pass filters on their way.
    pub fn through(mut self, passage: FilterPath<'a>) -> Self {
        self.place = match self.place {
            Place::User(addr) => Place::Filtered(addr, passage),
            Place::Scattered { pieces, within } => Place::ScatteredFiltered {
                pieces,
                within,
                passage,
            },
            other => other,
        };
        self
    }

    /// Kernel memory that a read fills.
    pub fn fill(bytes: &'a mut [u8]) -> Self {
        let len = bytes.len();
        Self::new(Place::Fill(bytes), len)
    }

    /// Kernel memory that a write takes from.
    pub fn drain(bytes: &'a [u8]) -> Self {
        let len = bytes.len();
        Self::new(Place::Drain(bytes), len)
    }

    fn new(place: Place<'a>, len: usize) -> Self {
        IoBuf {
            place,
            len,
            done: 0,
            look: STRIDE,
            appends: false,
        }
    }

    /// The same buffer, for bytes that go to the end of the file if it has one.
    pub fn to_end(mut self) -> Self {
        self.appends = true;
        self
    }

    /// Whether the bytes go to the end of the file ([`IoBuf::to_end`]).
    pub fn appends(&self) -> bool {
        self.appends
    }

    /// Bytes still to move.
    pub fn remaining(&self) -> usize {
        self.len - self.done
    }

    /// Bytes moved so far.
    pub fn done(&self) -> usize {
        self.done
    }

    /// Makes the buffer end after at most `more` further bytes.
    pub fn limit(&mut self, more: usize) {
        self.len = self.len.min(self.done.saturating_add(more));
    }

    /// Moves bytes from `from` into the buffer.
    pub fn put(&mut self, from: &[u8]) -> Result<usize> {
        self.transfer(from.len(), |to, at, n| match to {
            Side::User(addr) => copy_out(addr, &from[at..at + n]),
            Side::Passing(addr, passage) => passage.out(addr, n, |done, piece| {
                piece.copy_from_slice(&from[at + done..][..piece.len()]);
                true
            }),
            Side::Memory(bytes) => {
                bytes.copy_from_slice(&from[at..at + n]);
                n
            }
            Side::Source(_) => 0,
        })
    }

    /// As [`put`](Self::put), from a page.
    pub fn put_page(&mut self, from: &FrameBytes<'_>) -> Result<usize> {
        self.transfer(from.len(), |to, at, n| match to {
            Side::User(addr) => by_pages(addr, n, |done, n| {
                from.to_user(at + done, addr + done, n).is_ok()
            }),
            Side::Passing(addr, passage) => {
                passage.out(addr, n, |done, piece| from.read(at + done, piece).is_ok())
            }
            Side::Memory(bytes) => from.read(at, bytes).map_or(0, |()| n),
            Side::Source(_) => 0,
        })
    }

    /// Moves `count` zero bytes into the buffer, or as many as fit.
    pub fn put_zeros(&mut self, count: usize) -> Result<usize> {
        static ZEROS: [u8; 512] = [0; 512];
        let mut total = 0;
        while total < count && self.remaining() > 0 {
            match self.put(&ZEROS[..ZEROS.len().min(count - total)]) {
                Ok(n) => total += n,
                Err(_) if total > 0 => break,
                Err(e) => return Err(e),
            }
        }
        Ok(total)
    }

    /// Moves bytes out of the buffer into `to`.
    pub fn take(&mut self, to: &mut [u8]) -> Result<usize> {
        let len = to.len();
        self.transfer(len, |from, at, n| match from {
            Side::User(addr) => copy_in(&mut to[at..at + n], addr),
            Side::Passing(addr, passage) => passage.take(addr, n, |done, piece| {
                to[at + done..][..piece.len()].copy_from_slice(piece);
                true
            }),
            Side::Source(bytes) => {
                to[at..at + n].copy_from_slice(bytes);
                n
            }
            Side::Memory(_) => 0,
        })
    }

    /// As [`take`](Self::take), into a page.
    pub fn take_page(&mut self, to: &FrameBytes<'_>) -> Result<usize> {
        self.transfer(to.len(), |from, at, n| match from {
            Side::User(addr) => by_pages(addr, n, |done, n| {
                to.from_user(at + done, addr + done, n).is_ok()
            }),
            Side::Passing(addr, passage) => {
                passage.take(addr, n, |done, piece| to.write(at + done, piece).is_ok())
            }
            Side::Source(bytes) => to.write(at, bytes).map_or(0, |()| n),
            Side::Memory(_) => 0,
        })
    }

    /// Moves up to `count` bytes by `step(side, bytes moved by this call, bytes to move)`, piece by piece.
    fn transfer(
        &mut self,
        count: usize,
        mut step: impl FnMut(Side<'_>, usize, usize) -> usize,
    ) -> Result<usize> {
        let count = count.min(self.remaining());
        if self.done >= self.look {
            self.look = self.done.saturating_add(STRIDE);
            if caller::is_dying() {
                return Err(Errno::EINTR);
            }
        }
        let mut total = 0;
        while total < count {
            let want;
            let moved = match &mut self.place {
                Place::User(addr) => {
                    want = count - total;
                    step(Side::User(*addr + self.done), total, want)
                }
                Place::Scattered { pieces, within } => {
                    let piece = pieces[0];
                    let left = piece.len as usize - *within;
                    if left == 0 {
                        *pieces = &pieces[1..];
                        *within = 0;
                        continue;
                    }
                    want = left.min(count - total);
                    let moved = step(Side::User(piece.base as usize + *within), total, want);
                    *within += moved;
                    moved
                }
                Place::Filtered(addr, passage) => {
                    want = count - total;
                    step(Side::Passing(*addr + self.done, *passage), total, want)
                }
                Place::ScatteredFiltered {
                    pieces,
                    within,
                    passage,
                } => {
                    let piece = pieces[0];
                    let left = piece.len as usize - *within;
                    if left == 0 {
                        *pieces = &pieces[1..];
                        *within = 0;
                        continue;
                    }
                    want = left.min(count - total);
                    let side = Side::Passing(piece.base as usize + *within, *passage);
                    let moved = step(side, total, want);
                    *within += moved;
                    moved
                }
                Place::Fill(bytes) => {
                    want = count - total;
                    step(
                        Side::Memory(&mut bytes[self.done..self.done + want]),
                        total,
                        want,
                    )
                }
                Place::Drain(bytes) => {
                    want = count - total;
                    step(
                        Side::Source(&bytes[self.done..self.done + want]),
                        total,
                        want,
                    )
                }
            };
            self.done += moved;
            total += moved;
            if moved < want {
                return if total > 0 {
                    Ok(total)
                } else {
                    Err(Errno::EFAULT)
                };
            }
        }
        Ok(total)
    }
}

/// One contiguous stretch on the caller's side.
enum Side<'a> {
    User(usize),
    Memory(&'a mut [u8]),
    Source(&'a [u8]),
    /// As `User`, through filters.
    Passing(usize, FilterPath<'a>),
}

/// Bytes that pass filters at a time.
const PIECE: usize = 256;

impl FilterPath<'_> {
    /// Moves `count` bytes out to the user's memory at `addr`, as `fill` brings them, piece by piece; the
    /// number of bytes before the first piece that cannot be written.
    fn out(
        &self,
        addr: usize,
        count: usize,
        mut fill: impl FnMut(usize, &mut [u8]) -> bool,
    ) -> usize {
        let mut bytes = [0; PIECE];
        let mut done = 0;
        while done < count {
            let wanted = PIECE.min(count - done);
            // A byte that cannot be written has not passed.
            let writable = by_pages(addr + done, wanted, |at, n| {
                vm::user::zero(addr + done + at, n).is_ok()
            });
            let piece = &mut bytes[..writable];
            if piece.is_empty() || !fill(done, piece) {
                break;
            }
            self.stream.run(self.course, piece);
            let written = copy_out(addr + done, piece);
            done += written;
            if written < wanted {
                break;
            }
        }
        done
    }

    /// Moves `count` bytes in from the user's memory at `addr`, to where `keep` puts them, piece by piece;
    /// the number of bytes before the first piece that cannot be read.
    fn take(&self, addr: usize, count: usize, mut keep: impl FnMut(usize, &[u8]) -> bool) -> usize {
        let mut bytes = [0; PIECE];
        let mut done = 0;
        while done < count {
            let piece = &mut bytes[..PIECE.min(count - done)];
            let wanted = piece.len();
            let read = copy_in(piece, addr + done);
            let piece = &mut piece[..read];
            self.stream.run(self.course, piece);
            if !keep(done, piece) {
                break;
            }
            done += read;
            if read < wanted {
                break;
            }
        }
        done
    }
}

fn check(addr: usize, len: usize) -> Result<()> {
    match addr.checked_add(len) {
        Some(end) if end <= USER_END => Ok(()),
        _ => Err(Errno::EFAULT),
    }
}

/// Copies to user memory; the number of bytes before the first page that cannot be written.
fn copy_out(addr: usize, from: &[u8]) -> usize {
    by_pages(addr, from.len(), |at, n| {
        vm::user::copy_out(addr + at, &from[at..at + n]).is_ok()
    })
}

/// Copies from user memory; the number of bytes before the first page that cannot be read.
fn copy_in(to: &mut [u8], addr: usize) -> usize {
    by_pages(addr, to.len(), |at, n| {
        vm::user::copy_in(&mut to[at..at + n], addr + at).is_ok()
    })
}

/// Moves `len` bytes at once, or if that fails, page by page up to the one that fails.
fn by_pages(addr: usize, len: usize, mut step: impl FnMut(usize, usize) -> bool) -> usize {
    if step(0, len) {
        return len;
    }
    let mut at = 0;
    while at < len {
        let n = (PAGE - (addr + at) % PAGE).min(len - at);
        if !step(at, n) {
            break;
        }
        at += n;
    }
    at
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_are_filled_in_order_and_no_further() {
        let mut a = [0u8; 3];
        let mut b = [0u8; 4];
        let pieces = [
            Iovec {
                base: a.as_mut_ptr() as u64,
                len: 3,
            },
            Iovec {
                base: 0x1000,
                len: 0,
            },
            Iovec {
                base: b.as_mut_ptr() as u64,
                len: 4,
            },
        ];
        let mut buf = IoBuf::scattered(&pieces).unwrap();
        assert_eq!(buf.put(b"hello"), Ok(5));
        assert_eq!(buf.remaining(), 2);
        assert_eq!(buf.put_zeros(9), Ok(2));
        assert_eq!((&a, &b), (b"hel", b"lo\0\0"));
    }

    #[test]
    fn kernel_buffers_stop_at_their_end_and_at_a_limit() {
        let mut to = [0u8; 4];
        let mut buf = IoBuf::fill(&mut to);
        assert_eq!(buf.put(b"abcdef"), Ok(4));
        assert_eq!(to, *b"abcd");
        let mut buf = IoBuf::drain(b"abcdef");
        buf.limit(3);
        let mut out = [0u8; 8];
        assert_eq!(buf.take(&mut out), Ok(3));
        assert_eq!(buf.take(&mut out), Ok(0));
    }

    #[test]
    fn ranges_must_lie_below_the_end_of_user_space() {
        assert!(IoBuf::user(USER_END, 1).is_err());
        assert!(IoBuf::user(usize::MAX, 2).is_err());
        assert!(IoBuf::user(USER_END, 0).is_ok());
        let pieces = [Iovec {
            base: 0,
            len: u64::MAX,
        }; 1];
        assert_eq!(IoBuf::scattered(&pieces).err(), Some(Errno::EINVAL));
    }
}
