//! Bytes between a caller's buffer and one end of a pipe's queue, where no routine moves them.
//!
//! *Interface*: [`take`] out of the queue, [`give`] into it; who calls has the end.

use abi::errno::Result;
use quaject::pipe::{ReadEnd, WriteEnd};

use crate::io::IoBuf;

/// Moves what is there into `buf`, or copies it and keeps it (`keep`); `None` when nothing is.
pub fn take(end: &mut ReadEnd<'_>, buf: &mut IoBuf, keep: bool) -> Result<Option<usize>> {
    if end.available() == 0 {
        return Ok(None);
    }
    let mut moved = 0;
    let mut result = Ok(());
    for piece in end.pieces() {
        match buf.put(piece) {
            Ok(count) => {
                moved += count;
                if count < piece.len() {
                    break;
                }
            }
            Err(error) => {
                result = Err(error);
                break;
            }
        }
    }
    if moved == 0 {
        result?;
    }
    if !keep {
        end.consume(moved);
    }
    Ok(Some(moved))
}

/// Moves one piece of `buf` into the queue: all that is left of it when that must not be divided (`whole`). `None` when there is
/// no room for it.
pub(crate) fn give(
    end: &mut WriteEnd<'_>,
    buf: &mut IoBuf,
    whole: bool,
    piece: &mut [u8],
) -> Result<Option<usize>> {
    let free = end.free();
    let wanted = buf.remaining().min(piece.len());
    if free == 0 || (whole && free < wanted) {
        return Ok(None);
    }
    let taken = buf.take(&mut piece[..wanted.min(free)])?;
    Ok(Some(end.put(&piece[..taken])))
}
