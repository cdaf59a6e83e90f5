//! A process's root, working directory and umask.

use super::place::Place;
use alloc::sync::Arc;
use core::sync::atomic::{AtomicU32, Ordering};
use sync::Monitor;

/// What `CLONE_FS` shares.
pub struct FsContext {
    places: Monitor<Places>,
    umask: AtomicU32,
}

#[derive(Clone)]
struct Places {
    root: Place,
    cwd: Place,
}

impl FsContext {
    /// A context with `root` as root and working directory, and umask 022.
    pub fn new(root: Place) -> FsContext {
        FsContext {
            places: Monitor::new(Places {
                cwd: root.clone(),
                root,
            }),
            umask: AtomicU32::new(0o022),
        }
    }

    /// A copy, as `fork` makes.
    pub fn fork_copy(&self) -> Arc<FsContext> {
        Arc::new(FsContext {
            places: Monitor::new(self.places.lock().clone()),
            umask: AtomicU32::new(self.umask()),
        })
    }

    /// The root directory.
    pub fn root(&self) -> Place {
        self.places.lock().root.clone()
    }

    /// The working directory.
    pub fn cwd(&self) -> Place {
        self.places.lock().cwd.clone()
    }

    /// Changes the root directory.
    pub fn set_root(&self, place: Place) {
        let old = core::mem::replace(&mut self.places.lock().root, place);
        drop(old);
    }

    /// Changes the working directory.
    pub fn set_cwd(&self, place: Place) {
        let old = core::mem::replace(&mut self.places.lock().cwd, place);
        drop(old);
    }

    /// Permission bits that new files do not get.
    pub fn umask(&self) -> u32 {
        self.umask.load(Ordering::Relaxed)
    }

    /// Sets the umask, returning the old one.
    pub fn set_umask(&self, mask: u32) -> u32 {
        self.umask.swap(mask & 0o777, Ordering::Relaxed)
    }
}
