//! A process's reference to its address space.
//!
//! *Interface*: [`SpaceRef::get`] returns a counted reference; [`SpaceRef::set`] at the beginning, by `exec`
//! and at the end; `Task::with_space` for the running thread's own faults, which take no lock and no count.
//! Before a second thread starts in a space, its creator announces that ([`AddressSpace::join`]). A process
//! leaves its space with its last thread, as does a process whose creation failed.

use alloc::sync::Arc;
use core::sync::atomic::{AtomicPtr, Ordering};
use sync::Monitor;
use vm::AddressSpace;

/// The address space of one process, or none.
#[derive(Default)]
pub struct SpaceRef {
    space: Monitor<Option<Arc<AddressSpace>>>,
    /// The same, for the threads of the process.
    now: AtomicPtr<AddressSpace>,
}

impl SpaceRef {
    /// The space, counted.
    pub(crate) fn get(&self) -> Option<Arc<AddressSpace>> {
        // Bound: copying or exchanging one counted handle, or looking at one word of it.
        self.space.lock().clone()
    }

    /// Shows `look` the space, without counting.
    pub(crate) fn with<R>(&self, look: impl FnOnce(Option<&AddressSpace>) -> R) -> R {
        look(self.space.lock().as_deref())
    }

    /// The space, not counted; null if there is none.
    #[inline]
    pub(super) fn now(&self) -> *const AddressSpace {
        self.now.load(Ordering::Acquire)
    }

    /// Holds `space` from now on; returns the former space. Called by the only thread of the process, or
    /// before it has any.
    pub fn set(&self, space: Option<Arc<AddressSpace>>) -> Option<Arc<AddressSpace>> {
        let mut held = self.space.lock();
        let now = space.as_ref().map_or(core::ptr::null(), Arc::as_ptr);
        self.now.store(now.cast_mut(), Ordering::Release);
        let old = core::mem::replace(&mut *held, space);
        if let Some(old) = &old {
            old.leave();
        }
        old
    }
}

impl Drop for SpaceRef {
    /// A process that ends holds nothing any more. This one has not begun.
    fn drop(&mut self) {
        if let Some(space) = self.space.get_mut() {
            space.leave();
        }
    }
}
