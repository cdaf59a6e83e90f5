//! All sockets that there are.
//!
//! *Interface*: [`each`] shows them all, in no order: those that nobody has accepted yet too, and those that were closed and are still looked at. [`enter`] and [`leave`] are for
//! [`Socket`] itself.
//!
//! Monitors: with a shard held nothing is allocated or dropped.
#![expect(
    clippy::disallowed_methods,
    reason = "room is made by `try_reserve` before"
)]

use abi::errno::Result;
use alloc::sync::{Arc, Weak};
use alloc::vec::Vec;
use sync::Monitor;

use super::Socket;
use crate::memory::fallible::try_reserve;

/// Some of them, by their numbers.
struct Shard(Vec<(u64, Weak<Socket>)>);

const SHARDS: usize = 256;
static ALL: [Monitor<Shard>; SHARDS] = [const { Monitor::new(Shard(Vec::new())) }; SHARDS];

fn shard(ino: u64) -> Option<&'static Monitor<Shard>> {
    ALL.get(ino as usize % SHARDS)
}

/// `socket` is there from now on. ENOMEM.
pub(super) fn enter(socket: &Arc<Socket>) -> Result<()> {
    let Some(shard) = shard(socket.ino) else {
        return Ok(());
    };
    let mut entry = Some((socket.ino, Arc::downgrade(socket)));
    loop {
        let mut list = shard.lock();
        let count = list.0.len();
        if count < list.0.capacity() {
            list.0.extend(entry.take());
            return Ok(());
        }
        drop(list);
        let mut larger = Vec::new();
        try_reserve(&mut larger, (2 * count).max(4))?;
        let mut list = shard.lock();
        if list.0.len() < larger.capacity() {
            larger.append(&mut list.0);
            core::mem::swap(&mut list.0, &mut larger);
        }
        drop(list);
    }
}

/// The socket with this number is gone.
pub(super) fn leave(ino: u64) {
    let Some(shard) = shard(ino) else {
        return;
    };
    let mut list = shard.lock();
    let at = list.0.iter().position(|(other, _)| *other == ino);
    let gone = at.map(|at| list.0.swap_remove(at));
    drop(list);
    drop(gone);
}

/// Shows each socket to `look`, with nothing held. ENOMEM.
pub fn each(mut look: impl FnMut(&Arc<Socket>)) -> Result<()> {
    let mut some = Vec::new();
    for shard in &ALL {
        loop {
            let list = shard.lock();
            let count = list.0.len();
            if count <= some.capacity() {
                some.extend(list.0.iter().filter_map(|(_, socket)| socket.upgrade()));
                drop(list);
                break;
            }
            drop(list);
            try_reserve(&mut some, count)?;
        }
        some.drain(..).for_each(|socket| look(&socket));
    }
    Ok(())
}
