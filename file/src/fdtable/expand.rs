//! Expanding a descriptor table.
//!
//! *Interface*: [`FdTable::reserve`]; [`link_moved`] for the room that gives the table's threads new
//! dispatchers.
//!
//! Slots do not move; more are added. Larger arrays of code are published while all their words lead to the
//! plain call, which is always right; from then on every change writes to both. Then they are filled, the
//! dispatchers move, and the old arrays are freed a grace period later.
//!
//! Progress: one thread at a time, at most fourteen times in a table's life; it waits only for threads that
//! also grow this table or give its threads dispatchers from outside ([`FdTable::hold`]), and they for it.
//!
//! *Unsafe*: arrays that live until a grace period.

use abi::errno::{Errno, Result};
use alloc::boxed::Box;
use core::sync::atomic::{AtomicUsize, Ordering, fence};
use sync::{Guard, epoch};

use super::kpt::{Kpt, KptView};
use super::{FdTable, MAX_CAPACITY, slots};
use crate::stubs::stubs;
use account::quota;
use account::user::Charge;

/// The size of a descriptor in a table, bytes.
pub(super) const EACH: usize = 3 * size_of::<u64>() + slots::EACH;

/// A table up to this comes with its process, and costs its user nothing.
const FREE: usize = 4096;

/// The charge for a table, to the user who first made it larger.
#[derive(Default)]
pub struct TableCharge(Option<Charge>);

impl TableCharge {
    /// Charges for `capacity` descriptors. A charge stays. ENOMEM.
    pub fn raise(&mut self, capacity: usize) -> Result<()> {
        if capacity > FREE {
            quota::table(&mut self.0, (capacity * EACH) as u64)?;
        }
        Ok(())
    }
}

/// Called with a table whose arrays have moved to the given place, before the old ones are retired: the
/// dispatchers of the threads that use the table must be generated again.
pub type OnTableMoved = fn(&FdTable, KptView);

static MOVED: AtomicUsize = AtomicUsize::new(0);

/// Links what happens when arrays move; nothing by default.
pub fn link_moved(moved: OnTableMoved) {
    MOVED.store(moved as usize, Ordering::Release);
}

impl FdTable {
    /// As long as the guard lives, the arrays stay where they are.
    pub fn hold(&self) -> Guard<'_, TableCharge> {
        // Bound: at most six times in a table’s life: new arrays, and dispatchers for the threads of the
        // table; and while a process leaves the table, or somebody begins or ends to trace a thread; waited
        // for only by who needs more room, or does one of these, too.
        self.growth.lock()
    }

    /// Makes room for descriptor `fd`. EMFILE, ENOMEM.
    #[inline]
    pub(super) fn reserve(&self, fd: usize) -> Result<()> {
        match fd {
            _ if fd < self.capacity() => Ok(()),
            MAX_CAPACITY.. => Err(Errno::EMFILE),
            _ => self.grow((fd + 1).next_power_of_two()),
        }
    }

    /// Makes the table one for `capacity` descriptors.
    #[cold]
    fn grow(&self, capacity: usize) -> Result<()> {
        let mut paid = self.growth.lock();
        let len = self.capacity();
        if len >= capacity {
            return Ok(());
        }
        paid.raise(capacity)?;
        self.slots.reserve(capacity)?;
        let new = Kpt::new(capacity)?;
        // Until it is known what follows from each slot, the plain call asks.
        (0..len).for_each(|fd| new.set(fd, stubs().slow));
        let old = self.kpt.load(Ordering::Acquire);
        new.before.store(old, Ordering::Relaxed);
        let new = Box::into_raw(new);
        // From here on changes are written to both.
        self.kpt.store(new, Ordering::Release);
        fence(Ordering::SeqCst);
        (0..len).for_each(|fd| self.follow(fd));
        let moved = MOVED.load(Ordering::Acquire);
        if moved != 0 {
            // SAFETY: only `link_moved` stores here, and it stores a `OnTableMoved`.
            let moved = unsafe { core::mem::transmute::<usize, OnTableMoved>(moved) };
            moved(self, self.kpt());
        }
        if self.threaded() {
            // Dispatchers are exchanged by interrupts, which may be on their way yet.
            // Bound: a grace period, asleep, where several threads use the table: at most six times in its
            // life.
            epoch::synchronize();
        }
        // SAFETY: this alone replaces arrays, and has the turn.
        let before = unsafe { &(*new).before };
        before.store(core::ptr::null_mut(), Ordering::Release);
        epoch::retire(
            // SAFETY: the arrays were made of a box, and the callback runs once.
            |raw| drop(unsafe { Box::from_raw(raw as *mut Kpt) }),
            old as usize,
        );
        Ok(())
    }
}
