//! The transport of 9p messages: each request has one reply, and many are under way at a time.
//!
//! *Interface*: a [`Transport`] carries them; [`VirtioTransport`] is the one over a virtio device. A test has
//! its own.

use abi::errno::{Errno, Result};
use account::caller;
use alloc::sync::Arc;
use device::virtio::p9_transport::{LONG, P9Error, P9Transport};
pub use device::virtio::p9_transport::{Long, Use};

/// Writes a question, with this tag, into the memory; says how long it is.
pub type WriteRequest<'a> = &'a mut dyn FnMut(&mut [u8], u16) -> Result<usize>;
/// Takes the answer to the question with this tag.
pub type ReadReply<'a> = &'a mut dyn FnMut(&[u8], u16) -> Result<()>;

/// Carries questions and answers.
pub trait Transport: Send + Sync {
    /// Bytes of the longest message.
    fn longest(&self) -> u32;

    /// Has a question written, and its answer taken; sleeps in between. EIO, ENOMEM; EINTR: the caller has
    /// been killed.
    fn exchange(
        &self,
        what: Use,
        long: Long,
        ask: WriteRequest<'_>,
        heed: ReadReply<'_>,
    ) -> Result<()>;

    /// Has a question written whose answer nobody takes. False: there is no place now. Never sleeps.
    fn tell(&self, ask: WriteRequest<'_>) -> bool;

    /// Whether the server is there no more.
    fn is_gone(&self) -> bool {
        false
    }
}

/// A virtio device.
pub struct VirtioTransport(pub Arc<P9Transport>);

fn errno(failed: P9Error) -> Errno {
    match failed {
        P9Error::Gone => Errno::EIO,
        P9Error::Memory => Errno::ENOMEM,
        P9Error::GivenUp => Errno::EINTR,
    }
}

impl Transport for VirtioTransport {
    fn longest(&self) -> u32 {
        LONG as u32
    }

    fn exchange(
        &self,
        what: Use,
        long: Long,
        ask: WriteRequest<'_>,
        heed: ReadReply<'_>,
    ) -> Result<()> {
        let give_up: fn() -> bool = match what {
            Use::Store => || false,
            _ => caller::is_dying,
        };
        let mut turn = self.0.turn(what, give_up).map_err(errno)?;
        let tag = turn.tag();
        let len = ask(turn.question(long), tag)?;
        let answer = turn.ask(len, long, give_up).map_err(errno)?;
        heed(answer.bytes(), tag)
    }

    fn is_gone(&self) -> bool {
        self.0.is_gone()
    }

    fn tell(&self, ask: WriteRequest<'_>) -> bool {
        let Some(mut turn) = self.0.try_turn() else {
            return false;
        };
        let tag = turn.tag();
        match ask(turn.question(Long::Question), tag) {
            Ok(len) => {
                turn.tell(len, Long::Question);
                true
            }
            Err(_) => false,
        }
    }
}
