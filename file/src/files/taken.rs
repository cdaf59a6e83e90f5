//! The steps for a description that a descriptor no longer refers to.
//!
//! *Interface*: [`Taken::release`].
//!
//! *Unsafe*: a count given up after a grace period; a list inside the inode.

use alloc::sync::Arc;
use core::sync::atomic::Ordering;
use sync::epoch;

use super::flight;
use crate::fs::file::{OpenFile, notice};
use crate::fs::lock;
use crate::ties;

/// A description that was taken out of a table, with the count that it had there.
pub struct Taken {
    pub(super) of: Arc<OpenFile>,
    /// The table's thread was alone: no other thread can be about to use the description through the table.
    pub(super) alone: bool,
    /// The owner of the table's locks.
    pub(super) owner: usize,
}

impl Taken {
    /// It was not in a table, but counted as a descriptor: no thread can be about to use this count.
    pub fn unowned(of: Arc<OpenFile>) -> Taken {
        Taken {
            of,
            alone: true,
            owner: 0,
        }
    }

    /// Does the work of a descriptor's close: notes, locks, and after the last descriptor the end of the
    /// description, or its move to the inactive list.
    #[inline]
    pub fn release(self) {
        let of = self.of;
        of.slots.fetch_sub(1, Ordering::AcqRel);
        if of.writable() {
            of.file().settle(&of);
        }
        if ties::any() {
            cut(self.owner, &of);
        }
        if !self.alone {
            if Arc::strong_count(&of) == 1 {
                of.finish();
            }
            epoch::retire(
                // SAFETY: the argument is the count given up below, and the callback runs once.
                |raw| let_go(unsafe { Arc::from_raw(raw as *const OpenFile) }),
                Arc::into_raw(of) as usize,
            );
        } else if Arc::strong_count(&of) != 1 {
            let_go(of);
        } else if let Some(list) = of.list_for(of.flags()).filter(|list| list.admitted()) {
            let list = core::ptr::from_ref(list);
            // The count of the inode, which owns the list, outlasts the count that `put` may pass on.
            let _inode = of.inode().cloned();
            let mode = of.flags() & abi::linux::O_ACCMODE;
            // SAFETY: `_inode` keeps the list.
            drop(unsafe { &*list }.put(mode, of));
        } else {
            drop(of.park());
        }
    }
}

/// The table whose locks are `owner`'s has closed a descriptor of `of`.
#[cold]
fn cut(owner: usize, of: &OpenFile) {
    lock::descriptor_closed(owner, of);
    notice::end(of, owner);
    of.file().descriptor_closed();
}

/// Gives up a count, which may have been the last by which a socket could be reached that is on its way in a
/// message.
fn let_go(of: Arc<OpenFile>) {
    drop(of);
    flight::collect();
}
