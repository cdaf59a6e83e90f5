//! Detection of deadlocks among waiters for record locks.
//!
//! *Interface.* [`Waits::enter`] notes that a table waits until the value is dropped; [`closes_a_circle`]
//! checks whether a table waits for itself. At most ten tables are followed, as by Linux. A record has the
//! wanted range of a table, not its blockers: these are looked up when needed.

use abi::errno::{Errno, Result};
use alloc::sync::Arc;
use alloc::vec::Vec;
use sync::Monitor;

use super::{FileLock, LockOwner, Locks};
use vm::fallible::try_reserve_kept;

/// So many owners are looked at.
const STEPS: usize = 10;

/// A table that waits for a lock.
struct Waiting {
    table: usize,
    number: u64,
    locks: Arc<Locks>,
    wanted: FileLock,
}

/// The waiting, by rising table.
struct Tables {
    waiting: Vec<Waiting>,
    /// How many have ever waited.
    numbers: u64,
}

static TABLES: Monitor<Tables> = Monitor::new(Tables {
    waiting: Vec::new(),
    numbers: 0,
});

/// A note that a table waits, while this is kept.
pub(super) struct Waits {
    table: usize,
    number: u64,
}

impl Waits {
    /// Notes that `table` waits for `wanted`. ENOLCK without memory.
    pub fn enter(table: usize, locks: &Arc<Locks>, wanted: &FileLock) -> Result<Waits> {
        // Bound: **global**: a binary search among threads that wait for record locks; of ten, the locks of
        // the file in the range.
        let mut all = TABLES.lock();
        try_reserve_kept(&mut all.waiting, 1).map_err(|_| Errno::ENOLCK)?;
        all.numbers += 1;
        let number = all.numbers;
        let place = all.waiting.partition_point(|w| w.table <= table);
        let waiting = Waiting {
            table,
            number,
            locks: locks.clone(),
            wanted: *wanted,
        };
        #[expect(clippy::disallowed_methods, reason = "room was made above")]
        all.waiting.insert(place, waiting);
        Ok(Waits { table, number })
    }
}

impl Drop for Waits {
    fn drop(&mut self) {
        let mut all = TABLES.lock();
        let key = (self.table, self.number);
        let found = all
            .waiting
            .binary_search_by_key(&key, |w| (w.table, w.number));
        let gone = found.ok().map(|place| all.waiting.remove(place));
        drop(all);
        drop(gone);
    }
}

/// Whether the tables for which the waiting `table` waits also wait for it.
pub(super) fn closes_a_circle(table: usize) -> bool {
    let all = TABLES.lock();
    let mut at = table;
    for _ in 0..STEPS {
        // If several threads wait, the first counts, as in Linux.
        let place = all.waiting.partition_point(|w| w.table < at);
        let Some(waiting) = all.waiting.get(place).filter(|w| w.table == at) else {
            return false;
        };
        // Bound: as in `lock.rs`.
        let in_the_way = waiting.locks.held.lock().conflict(&waiting.wanted);
        match in_the_way.map(|lock| lock.owner) {
            Some(LockOwner::Table(next)) if next == table => return true,
            Some(LockOwner::Table(next)) => at = next,
            _ => return false,
        }
    }
    false
}
