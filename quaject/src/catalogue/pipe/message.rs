//! A pipe's queue of messages: the length precedes each message, and a read gets one message, or its
//! beginning.
//!
//! *Interface*: [`sender`], [`receiver`] and [`receiver_from`] make the routines of the two ends;
//! [`PipeCore::send_message`] and [`PipeCore::receive_message`] are their reference implementations.
//! [`ReadEnd::message`] and [`WriteEnd::put_message`] are for the slow exit of a routine. A queue has
//! messages or bytes, never both.
//!
//! A message takes a word for its length and as many words as its bytes need, so the length never wraps
//! around the ring's end.
//!
//! *Unsafe*: routines that keep what they name.

use super::framing::{HEADER, LONGEST, footprint};
use super::{
    NAME, Patience, PipeCore, ReadEnd, WriteEnd, synthesize_receive, synthesize_receive_from,
    synthesize_send,
};
use crate::kit::guard::Flag;
use crate::kit::routine_env::{DescFn, RoutineEnv, RoutineError, Sharing};
use alloc::sync::Arc;
use codegen::Routine;

/// The routine behind `write` where each is a message. Several may send to one queue.
///
/// # Errors
/// [`RoutineError`].
pub fn sender(queue: &Arc<PipeCore>, env: &RoutineEnv) -> Result<Routine<DescFn>, RoutineError> {
    // SAFETY: the image keeps the queue whose words it names, and takes its end as one of several.
    Ok(unsafe { synthesize_send(queue, env, Sharing::Shared)? }.keeping(queue.clone()))
}

/// The routine behind `read` where each is a message; as [`reader`](super::reader).
///
/// # Errors
/// [`RoutineError`].
pub fn receiver(
    queue: &Arc<PipeCore>,
    env: &RoutineEnv,
    sharing: Sharing,
    patience: Patience,
) -> Result<Routine<DescFn>, RoutineError> {
    // SAFETY: the image keeps the queue whose words it names.
    Ok(unsafe { synthesize_receive(queue, env, sharing, patience)? }.keeping(queue.clone()))
}

/// The routine behind `recvfrom` with an address, where each is a message from `name`: generated against the
/// routine environment of [`CallAdapter::named`](crate::CallAdapter::named).
///
/// # Errors
/// [`RoutineError`].
pub fn receiver_from(
    queue: &Arc<PipeCore>,
    env: &RoutineEnv,
    sharing: Sharing,
    name: [u8; NAME],
) -> Result<Routine<DescFn>, RoutineError> {
    // SAFETY: the image keeps the queue whose words it names.
    let routine = unsafe { synthesize_receive_from(queue, env, sharing, Patience::Patient, name)? };
    Ok(routine.keeping(queue.clone()))
}

impl PipeCore {
    /// Reference implementation of the sending routine: the whole message or nothing. None where the routine
    /// takes the slow exit.
    pub fn send_message(&self, sharing: Sharing, from: &[u8]) -> Option<usize> {
        if self.for_writer.is_raised(Flag::Closed) {
            return None;
        }
        if sharing == Sharing::Shared && !self.writing.try_lock() {
            return None;
        }
        let mut end = WriteEnd { pipe: self };
        let mut framed = [0; HEADER + LONGEST];
        let fits =
            (1..=LONGEST).contains(&from.len()) && end.free() >= from.len() + HEADER + (HEADER - 1);
        if fits {
            framed[..HEADER].copy_from_slice(&from.len().to_ne_bytes());
            framed[HEADER..HEADER + from.len()].copy_from_slice(from);
            end.put(&framed[..footprint(from.len())]);
        }
        end.leave(sharing);
        fits.then_some(from.len())
    }

    /// As [`send_message`](Self::send_message) as one of several senders, of a message that is in `framed` as
    /// for [`WriteEnd::put_message`]. False where the routine takes the slow exit.
    ///
    /// # Panics
    /// When `framed` is shorter than the message's footprint.
    pub fn send_framed(&self, framed: &mut [u8], length: usize) -> bool {
        if self.for_writer.is_raised(Flag::Closed) || !self.writing.try_lock() {
            return false;
        }
        let mut end = WriteEnd { pipe: self };
        end.put_message(framed, length)
    }

    /// Reference implementation of the receiving routine: the first message, or as much of it as `into`
    /// takes. None where the routine takes the slow exit.
    pub fn receive_message(&self, sharing: Sharing, into: &mut [u8]) -> Option<usize> {
        if into.is_empty() || self.is_ended() {
            return None;
        }
        if sharing == Sharing::Shared && !self.tail.reading.try_lock() {
            return None;
        }
        let mut end = ReadEnd { pipe: self };
        let found = end.message().map(|(length, [first, second])| {
            let count = length.min(into.len());
            let split = count.min(first.len());
            into[..split].copy_from_slice(&first[..split]);
            into[split..count].copy_from_slice(&second[..count - split]);
            (length, count)
        });
        if let Some((length, _)) = found {
            end.consume_message(length);
        }
        end.leave(sharing);
        found.map(|(_, count)| count)
    }

    /// Bytes of all messages, unless a thread is reading.
    pub fn in_messages(&self) -> Option<usize> {
        if !self.tail.reading.try_lock() {
            return None;
        }
        Some(ReadEnd { pipe: self }.in_messages())
    }

    /// Bytes of the first message, unless a thread is reading.
    pub fn first_message(&self) -> Option<usize> {
        if !self.tail.reading.try_lock() {
            return None;
        }
        let end = ReadEnd { pipe: self };
        end.message().map(|(length, _)| length)
    }
}

impl ReadEnd<'_> {
    /// The first message: its length, and its bytes in two pieces.
    pub fn message(&self) -> Option<(usize, [&[u8]; 2])> {
        let [first, second] = self.pieces();
        let (header, first) = first.split_first_chunk::<HEADER>()?;
        let length = usize::from_ne_bytes(*header);
        let split = length.min(first.len());
        let rest = second.get(..length - split)?;
        Some((length, [first.get(..split)?, rest]))
    }

    /// Bytes of all messages, without their lengths.
    pub fn in_messages(&self) -> usize {
        let [first, second] = self.pieces();
        let (mut at, mut total) = (0, 0);
        // A length never goes round.
        let header = |at: usize| match at.checked_sub(first.len()) {
            None => first.get(at..)?.first_chunk::<HEADER>(),
            Some(at) => second.get(at..)?.first_chunk::<HEADER>(),
        };
        while let Some(length) = header(at).map(|word| usize::from_ne_bytes(*word)) {
            total += length;
            at += footprint(length);
        }
        total
    }

    /// The first message, of `length` bytes, was read.
    pub fn consume_message(&mut self, length: usize) {
        self.consume(footprint(length));
    }
}

impl WriteEnd<'_> {
    /// Writes a message whole, or finds no room for it. It is in `framed`, from [`HEADER`] on; the bytes
    /// before it and behind it, up to its [`footprint`], are ignored.
    ///
    /// # Panics
    /// When `framed` is shorter than the message's footprint.
    pub fn put_message(&mut self, framed: &mut [u8], length: usize) -> bool {
        let framed = &mut framed[..footprint(length)];
        if self.free() < framed.len() {
            return false;
        }
        framed[..HEADER].copy_from_slice(&length.to_ne_bytes());
        // Published at once: no reader finds a length without its bytes.
        self.put(framed);
        true
    }
}
