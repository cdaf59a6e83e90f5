//! Unnamed files for events: counters, and events of other files; and directories that send signals.
//!
//! *Interface*: each module makes descriptions of its kind. All can be polled and watched; their wait lists
//! call the watching parties.
//!
//! Source: dissertation, section 4.4 (events as data that flows to the linked party); the kinds are Linux's.

pub mod dnotify;
pub mod eventfd;
pub mod inotify;
pub mod lease;
pub mod marks;

use abi::errno::{Errno, Result};

use crate::io::IoBuf;

/// Bytes of a number of events.
const NUMBER: usize = quaject::counter::BYTES;

/// Gives the reader a number of events. EFAULT.
pub fn put_number(buf: &mut IoBuf, number: u64) -> Result<usize> {
    buf.put(&number.to_ne_bytes())
}

/// EINVAL unless there is room for a number.
pub fn room_for_number(buf: &IoBuf) -> Result<()> {
    if buf.remaining() < NUMBER {
        return Err(Errno::EINVAL);
    }
    Ok(())
}
