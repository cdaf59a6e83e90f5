//! The buffer of a read or write: where bytes go to or come from.
//!
//! *Interface.* A file fills a reader's buffer with [`IoBuf::put`] and empties a writer's with
//! [`IoBuf::take`]; neither knows whether the other side is one user range, an `iovec` or kernel memory.
//! Both move as many bytes as fit and return that number. A bad user address gives `EFAULT` only when
//! the call moved nothing; otherwise a short count, and `EFAULT` at the next call. So a file that loops
//! until it is short, and returns what it has, behaves as Linux does.

use abi::errno::{Errno, Result};
use abi::layout::USER_END;
use abi::linux::Iovec;

/// The most bytes that one call moves, as in Linux (`MAX_RW_COUNT`).
pub const MAX_COUNT: usize = 0x7fff_f000;

/// The buffer of one transfer.
pub struct IoBuf<'a> {
    place: Place<'a>,
    len: usize,
    done: usize,
}

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
}

impl<'a> IoBuf<'a> {
    /// A range of the current user space. `EFAULT` when it does not lie below `USER_END`.
    pub fn user(addr: usize, len: usize) -> Result<Self> {
        let len = len.min(MAX_COUNT);
        check(addr, len)?;
        Ok(Self::new(Place::User(addr), len))
    }

    /// Pieces of the current user space. `EINVAL` when the lengths overflow, `EFAULT` as for [`IoBuf::user`].
    pub fn scattered(pieces: &'a [Iovec]) -> Result<Self> {
        let mut len = 0usize;
        for piece in pieces {
            let piece_len = usize::try_from(piece.len).map_err(|_| Errno::EINVAL)?;
            len = len
                .checked_add(piece_len)
                .filter(|l| isize::try_from(*l).is_ok())
                .ok_or(Errno::EINVAL)?;
            check(piece.base as usize, piece_len)?;
        }
        Ok(Self::new(
            Place::Scattered { pieces, within: 0 },
            len.min(MAX_COUNT),
        ))
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
        }
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
            Side::Memory(bytes) => {
                bytes.copy_from_slice(&from[at..at + n]);
                n
            }
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
            Side::Source(bytes) => {
                to[at..at + n].copy_from_slice(bytes);
                n
            }
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
}

fn check(addr: usize, len: usize) -> Result<()> {
    match addr.checked_add(len) {
        Some(end) if end <= USER_END => Ok(()),
        _ => Err(Errno::EFAULT),
    }
}

/// Copies to user memory; the number of bytes before the first fault.
fn copy_out(_addr: usize, _from: &[u8]) -> usize {
    todo!("machine::user")
}

/// Copies from user memory; the number of bytes before the first fault.
fn copy_in(_to: &mut [u8], _addr: usize) -> usize {
    todo!("machine::user")
}
