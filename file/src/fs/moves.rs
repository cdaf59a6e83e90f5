//! Whether directories are being moved while somebody walks who must not leave a tree: by `..` he would, from
//! one that was moved out of it.
//!
//! *Interface*: who moves a directory holds a [`Moving`] meanwhile; [`Still::now`] begins a walk, and
//! [`Still::holds`] says behind a `..` that nothing was moved since.

use core::sync::atomic::{AtomicU64, Ordering};

/// Moves that have begun, and that have ended.
static BEGUN: AtomicU64 = AtomicU64::new(0);
static ENDED: AtomicU64 = AtomicU64::new(0);

/// A directory is on its way.
pub struct Moving(());

impl Moving {
    /// Before the first change.
    pub fn begin() -> Self {
        BEGUN.fetch_add(1, Ordering::SeqCst);
        Self(())
    }
}

impl Drop for Moving {
    fn drop(&mut self) {
        ENDED.fetch_add(1, Ordering::SeqCst);
    }
}

/// The moves that had begun at one moment, if all of them had ended.
pub struct Still(Option<u64>);

impl Still {
    /// Now.
    pub fn now() -> Self {
        // In this order: whose end is counted had begun. One that begins in between is seen by `holds`.
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
        let before = Still::now();
        assert!(before.holds());
        let moving = Moving::begin();
        let during = Still::now();
        assert!(!before.holds() && !during.holds());
        drop(moving);
        assert!(!before.holds() && !during.holds());
        assert!(Still::now().holds());
    }
}
