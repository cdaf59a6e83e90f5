//! Epoll instances that watch epoll instances: never in a cycle, and never deeper than [`DEEPEST`].
//!
//! *Interface*: [`enter`] before one watches another, [`leave`] afterwards.
//!
//! One monitor guards these relations; it is taken only for nested instances. Each search visits an instance
//! once.

use abi::errno::{Errno, Result};
use alloc::sync::{Arc, Weak};
use alloc::vec::Vec;
use sync::Monitor;

use super::Epoll;
use crate::fs::file::OpenFile;
use vm::fallible::{try_push, try_reserve};

/// The maximal depth of nesting (Linux: `EP_MAX_NESTS` below the first).
const DEEPEST: u32 = 5;

/// The number of the latest look.
static LOOKS: Monitor<Nesting> = Monitor::new(Nesting { look: 0 });

/// The relations, in the [`Kin`] of all instances.
pub(super) struct Nesting {
    look: u64,
}

/// An instance's relations; only a holder of [`LOOKS`] takes it.
pub(super) struct Kin(Monitor<Relations>);

struct Relations {
    watched: Vec<Weak<OpenFile>>,
    watchers: Vec<Weak<OpenFile>>,
    /// The last search that was here, and its result.
    seen: (u64, u32),
}

impl Kin {
    pub(super) const fn new() -> Kin {
        Kin(Monitor::new(Relations {
            watched: Vec::new(),
            watchers: Vec::new(),
            seen: (0, 0),
        }))
    }
}

/// Which relations to follow.
#[derive(Clone, Copy)]
enum Way {
    Down,
    Up,
}

/// The depth of instances below (or above) `epoll`, including itself. ELOOP when `end` is among them, or when
/// they are too many.
fn levels(epoll: &Epoll, end: &Epoll, way: Way, look: u64, room: u32) -> Result<u32> {
    if core::ptr::eq(epoll, end) || room == 0 {
        return Err(Errno::ELOOP);
    }
    // Bound: **linear**: instances that watch instances, when one comes to watch another.
    let mut kin = epoll.kin.0.lock();
    let (looked, known) = kin.seen;
    if looked == look {
        return if known <= room {
            Ok(known)
        } else {
            Err(Errno::ELOOP)
        };
    }
    let relations = match way {
        Way::Down => &mut kin.watched,
        Way::Up => &mut kin.watchers,
    };
    relations.retain(|relation| relation.strong_count() != 0);
    let mut most = 0;
    for relation in relations.iter() {
        if let Some(of) = relation.upgrade()
            && let Some(next) = of.file_as::<Epoll>()
        {
            most = most.max(levels(next, end, way, look, room - 1)?);
        }
    }
    kin.seen = (look, most + 1);
    Ok(most + 1)
}

/// `outer`, whose description is `of`, will watch `inner`: records it, unless that makes a cycle or too deep
/// a nesting (ELOOP). ENOMEM.
pub(super) fn enter(
    of: &Arc<OpenFile>,
    outer: &Epoll,
    file: &Arc<OpenFile>,
    inner: &Epoll,
) -> Result<()> {
    // Bound: **linear**: instances that watch instances, when one comes to watch another.
    let mut nesting = LOOKS.lock();
    nesting.look += 2;
    let below = levels(inner, outer, Way::Down, nesting.look, DEEPEST - 1)?;
    let above = levels(outer, inner, Way::Up, nesting.look + 1, DEEPEST - below)?;
    debug_assert!(above + below <= DEEPEST);
    // Bound: **linear**: the instances that one watches, or that watch it.
    let (mut outer, mut inner) = (outer.kin.0.lock(), inner.kin.0.lock());
    try_reserve(&mut inner.watchers, 1)?;
    try_push(&mut outer.watched, Arc::downgrade(file))?;
    try_push(&mut inner.watchers, Arc::downgrade(of))
}

/// `outer` no longer watches `inner` by one descriptor; it may still by another.
pub(super) fn leave(outer: &Epoll, inner: &Epoll) {
    let _nesting = LOOKS.lock();
    forget(&mut outer.kin.0.lock().watched, inner);
    forget(&mut inner.kin.0.lock().watchers, outer);
}

fn forget(relations: &mut Vec<Weak<OpenFile>>, epoll: &Epoll) {
    let same = |relation: &Weak<OpenFile>| {
        let of = relation.upgrade();
        of.is_some_and(|of| {
            of.file_as::<Epoll>()
                .is_some_and(|one| core::ptr::eq(one, epoll))
        })
    };
    if let Some(place) = relations.iter().position(same) {
        relations.swap_remove(place);
    }
}
