//! The rename sequence: a walk finds out whether a directory was moved meanwhile. A walk that must stay
//! in a tree needs this, because `..` leads out of the tree from a directory that was moved out of it.
//!
//! *Interface*: a move of a directory holds a [`RenameGuard`]; [`RenameSnapshot::now`] begins a walk, and
//! [`RenameSnapshot::holds`] tells after a `..` that nothing was moved since.

use core::sync::atomic::{AtomicU64, Ordering};

/// Moves that have begun, and that have ended.
static BEGUN: AtomicU64 = AtomicU64::new(0);
static ENDED: AtomicU64 = AtomicU64::new(0);

/// A directory is on its way.
pub struct RenameGuard(());

impl RenameGuard {
    /// Before the first change.
    pub fn begin() -> Self {
        BEGUN.fetch_add(1, Ordering::SeqCst);
        Self(())
    }
}

impl Drop for RenameGuard {
    fn drop(&mut self) {
        ENDED.fetch_add(1, Ordering::SeqCst);
    }
}

/// The moves that had begun at one moment, if all of them had ended.
pub struct RenameSnapshot(Option<u64>);

impl RenameSnapshot {
    /// Now.
    pub fn now() -> Self {
        // In this order: a move whose end is counted had begun before. A move that begins in between is seen
        // by `holds`.
        let begun = BEGUN.load(Ordering::SeqCst);
        let ended = ENDED.load(Ordering::SeqCst);
        Self((begun == ended).then_some(begun))
    }

    /// Whether no directory has been on its way since.
    pub fn holds(&self) -> bool {
        self.0 == Some(BEGUN.load(Ordering::SeqCst))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_move_is_seen_from_its_begin_to_behind_its_end() {
        let before = RenameSnapshot::now();
        assert!(before.holds());
        let moving = RenameGuard::begin();
        let during = RenameSnapshot::now();
        assert!(!before.holds() && !during.holds());
        drop(moving);
        assert!(!before.holds() && !during.holds());
        assert!(RenameSnapshot::now().holds());
    }
}
