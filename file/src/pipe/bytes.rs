//! Bytes between a caller's buffer and one end of a pipe's queue, where no routine moves them.
//!
//! *Interface*: [`take`] out of the queue, [`give`] into it; the caller holds the end. For packets,
//! `take_packet` and `Pipe::give_packets`.

use abi::errno::{Errno, Result};
use quaject::pipe::{ATOMIC, HEADER, ReadEnd, WriteEnd, footprint};
use vm::fallible::try_filled;

use super::Pipe;
use crate::io::IoBuf;

/// Moves the available bytes into `buf`, or copies them (`keep`); `None` when there are none.
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

/// Moves `buf` straight into the queue, as far as that has room: all that is left of it when that must not be
/// divided (`whole`). `None` when there is no room for it.
pub(crate) fn give(end: &mut WriteEnd<'_>, buf: &mut IoBuf, whole: bool) -> Result<Option<usize>> {
    let free = end.free();
    let wanted = buf.remaining();
    if free == 0 || (whole && free < wanted) {
        return Ok(None);
    }
    end.fill(wanted, |place| buf.take(place)).map(Some)
}

/// Moves the first packet into `buf`, as far as there is room: the rest of it is lost. `None` when there is
/// none. EFAULT, and it stays.
pub(super) fn take_packet(end: &mut ReadEnd<'_>, buf: &mut IoBuf) -> Result<Option<usize>> {
    let Some((length, pieces)) = end.message() else {
        return Ok(None);
    };
    let wanted = length.min(buf.remaining());
    let mut moved = 0;
    for piece in pieces {
        moved += buf.put(piece)?;
    }
    if moved < wanted {
        return Err(Errno::EFAULT);
    }
    end.consume_message(length);
    Ok(Some(moved))
}

impl Pipe {
    /// Writes `buf` as packets, each as long as may be. Sleeps for room if it may `wait`. EPIPE, with its
    /// signal; EAGAIN, EFAULT, ERESTARTSYS.
    pub(super) fn give_packets(&self, wait: bool, buf: &mut IoBuf) -> Result<usize> {
        let mut framed = try_filled(0, footprint(buf.remaining().min(ATOMIC)))?;
        let mut written = 0;
        while buf.remaining() > 0 {
            let length = buf.remaining().min(ATOMIC);
            let give = |end: &mut WriteEnd<'_>| {
                if end.free() < footprint(length) {
                    return Ok(None);
                }
                let place = framed.get_mut(HEADER..HEADER + length);
                if buf.take(place.unwrap_or_default())? < length {
                    return Err(Errno::EFAULT);
                }
                Ok(end.put_message(&mut framed, length).then_some(length))
            };
            match self.give(wait, footprint(length), give) {
                Ok(count) => written += count,
                Err(stop) if written == 0 => return Err(stop),
                Err(_) => break,
            }
        }
        Ok(written)
    }
}
