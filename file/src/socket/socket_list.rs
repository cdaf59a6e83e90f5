//! The list of all sockets, for `/proc/net` and netlink.
//!
//! *Interface*: a socket is in the [`ListEntry`] that it keeps, from [`enter`] until it is dropped. [`from`]
//! goes through all by places, which are numbers that grow.
//!
//! Monitors: with a part of the list held nothing is allocated or dropped: the end of a socket takes it.

use abi::errno::Result;
use alloc::sync::{Arc, Weak};
use alloc::vec::Vec;
use sync::{Monitor, Once};

use super::Socket;
use vm::fallible::roomy;

/// One in [`PARTS`] of the sockets.
struct Roster {
    rows: Vec<Row>,
    /// The first row that nobody has.
    free: Option<usize>,
}

enum Row {
    Taken(Weak<Socket>),
    /// Nobody has it; the next such row.
    Free(Option<usize>),
}

const PARTS: usize = 16;

static ROSTER: [Monitor<Roster>; PARTS] = [const {
    Monitor::new(Roster {
        rows: Vec::new(),
        free: None,
    })
}; PARTS];

/// Where a socket stands.
#[derive(Default)]
pub(super) struct ListEntry(Once<(usize, usize)>);

/// Enters `socket`, which is new. ENOMEM.
pub(super) fn enter(socket: &Arc<Socket>) -> Result<()> {
    let part = socket.ino as usize % PARTS;
    let Some(guard) = ROSTER.get(part) else {
        return Ok(());
    };
    let row = Row::Taken(Arc::downgrade(socket));
    let mut roster = roomy(guard, |roster| &mut roster.rows, 1)?;
    let at = match roster.free {
        Some(at) => {
            if let Some(place) = roster.rows.get_mut(at)
                && let Row::Free(next) = core::mem::replace(place, row)
            {
                roster.free = next;
            }
            at
        }
        None => {
            #[expect(clippy::disallowed_methods, reason = "there is room")]
            roster.rows.push(row);
            roster.rows.len() - 1
        }
    };
    drop(roster);
    // It is new.
    let _none = socket.entry.0.set((part, at));
    Ok(())
}

impl Drop for ListEntry {
    fn drop(&mut self) {
        let Some((guard, at)) = self
            .0
            .get()
            .and_then(|(part, at)| Some((ROSTER.get(*part)?, *at)))
        else {
            return;
        };
        // Bound: one in 16 of all sockets: a place; a listing, the sockets up to the next.
        let mut roster = guard.lock();
        let free = Row::Free(roster.free);
        let gone = roster
            .rows
            .get_mut(at)
            .map(|row| core::mem::replace(row, free));
        roster.free = Some(at);
        drop(roster);
        drop(gone);
    }
}

/// The first socket at `place` or behind it, and its place.
pub fn from(place: u64) -> Option<(u64, Arc<Socket>)> {
    let (first, mut row) = ((place >> 32) as usize, place as u32 as usize);
    for (part, guard) in ROSTER.iter().enumerate().skip(first) {
        let roster = guard.lock();
        let rows = roster.rows.iter().enumerate().skip(row);
        let mut found = rows.filter_map(|(at, row)| match row {
            // One that nobody has any more is about to leave.
            Row::Taken(socket) => socket.upgrade().map(|socket| (at, socket)),
            Row::Free(_) => None,
        });
        let found = found.next();
        drop(roster);
        if let Some((at, socket)) = found {
            return Some(((part as u64) << 32 | at as u64, socket));
        }
        row = 0;
    }
    None
}
