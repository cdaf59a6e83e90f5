//! Shared memory without a file: zeros at first, seen by all spaces that were forked from the one that mapped
//! it.
//!
//! *Interface*: [`SharedAnonymous`], a [`Pager`].

use super::Machine;
use super::pager::{Pager, PagerInfo, PagerLabel};
use crate::frame::{Frame, FrameRef};
use abi::errno::Errno;
use alloc::collections::BTreeMap;
use core::sync::atomic::{AtomicU64, Ordering};
use sync::Monitor;

pub(super) struct SharedAnonymous<M: Machine> {
    memory: M,
    number: u64,
    /// So many pages it has, however far a mapping of it grows.
    count: u64,
    pages: Monitor<BTreeMap<u64, Frame>>,
}

impl<M: Machine> SharedAnonymous<M> {
    /// An object of `count` pages.
    pub(super) fn new(memory: M, count: u64) -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        SharedAnonymous {
            memory,
            number: NEXT.fetch_add(1, Ordering::Relaxed),
            count,
            pages: Monitor::new(BTreeMap::new()),
        }
    }
}

impl<M: Machine> Pager for SharedAnonymous<M> {
    fn frame(&self, index: u64, _write: bool) -> Result<FrameRef, Errno> {
        if index >= self.count {
            return Err(Errno::ENXIO);
        }
        // Bound: a tree look-up and one zeroed frame.
        let mut pages = self.pages.lock();
        let frame = match pages.get(&index) {
            Some(frame) => *frame,
            None => {
                let frame = self.memory.zeroed_user().ok_or(Errno::ENOMEM)?;
                #[expect(
                    clippy::disallowed_methods,
                    reason = "a node, of what each thread was promised"
                )]
                pages.insert(index, frame);
                frame
            }
        };
        self.memory.frames().share(frame);
        Ok(FrameRef::own_in(self.memory.frames(), frame))
    }

    fn object(&self) -> (u64, u64) {
        (u64::MAX, self.number)
    }

    fn describe(&self) -> PagerInfo {
        PagerInfo {
            path: PagerLabel::Fixed("/dev/zero (deleted)"),
            ..PagerInfo::default()
        }
    }
}

impl<M: Machine> Drop for SharedAnonymous<M> {
    fn drop(&mut self) {
        for frame in self.pages.get_mut().values() {
            self.memory.frames().release(*frame);
        }
    }
}
