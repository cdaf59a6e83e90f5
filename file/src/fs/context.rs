//! A process's root, working directory and umask.

use super::mount::VfsPath;
use crate::arc_swap::ArcSwap;
use abi::errno::{Errno, Result};
use alloc::sync::Arc;
use core::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use machine::irqs_off::IrqsOff;
use sync::Once;
use vm::fallible::try_arc;

/// The state that `CLONE_FS` shares.
pub struct FsContext {
    root: ArcSwap<VfsPath>,
    cwd: ArcSwap<VfsPath>,
    umask: AtomicU32,
    /// Processes that share it.
    processes: AtomicU32,
    /// Identity of the working directory for the path cache; 0 when the root is not the system's.
    key: AtomicU64,
}

/// Whether any process ever got a root of its own.
static CHROOTED: AtomicBool = AtomicBool::new(false);

/// Whether `/` is the same for all processes, so far.
#[inline]
pub fn one_root() -> bool {
    !CHROOTED.load(Ordering::Relaxed)
}

/// A number for `place`, different for each possible working directory, and not 0.
fn identity(place: &VfsPath) -> u64 {
    let (dev, ino) = place.inode.id();
    (dev << 48) ^ ino ^ 1 << 63
}

/// A process's context: that of the running one, if one runs.
type Own = fn() -> Option<Arc<FsContext>>;

static OWN: Once<Own> = Once::new();

/// Links the callout for the running process, at boot; the first call counts.
pub fn link(callout: Own) {
    let _first = OWN.set(callout);
}

/// Root, working directory and mask of the running process. ESRCH.
pub fn own() -> Result<Arc<FsContext>> {
    let context = OWN.get().and_then(|own| own());
    context.ok_or(Errno::ESRCH)
}

impl FsContext {
    /// A context with `root` as root and working directory, and umask 022.
    pub fn new(root: VfsPath) -> FsContext {
        FsContext {
            key: AtomicU64::new(identity(&root)),
            cwd: ArcSwap::new(Arc::new(root.clone())),
            root: ArcSwap::new(Arc::new(root)),
            umask: AtomicU32::new(0o022),
            processes: AtomicU32::new(1),
        }
    }

    /// A copy, as `fork` makes.
    pub fn fork_copy(&self) -> Arc<FsContext> {
        Arc::new(FsContext {
            root: ArcSwap::new(self.root.get()),
            cwd: ArcSwap::new(self.cwd.get()),
            umask: AtomicU32::new(self.umask()),
            processes: AtomicU32::new(1),
            key: AtomicU64::new(self.key.load(Ordering::Relaxed)),
        })
    }

    /// Another process shares it from now on.
    pub fn join(&self) {
        self.processes.fetch_add(1, Ordering::AcqRel);
    }

    /// A process that shares it has gone, or has another.
    pub fn leave(&self) {
        self.processes.fetch_sub(1, Ordering::AcqRel);
    }

    /// Whether several processes share it.
    pub fn is_shared(&self) -> bool {
        self.processes.load(Ordering::Acquire) > 1
    }

    /// The path cache's key of the working directory; `None` for a process with its own root.
    #[inline]
    pub fn key(&self) -> Option<u64> {
        let key = self.key.load(Ordering::Relaxed);
        (key != 0).then_some(key)
    }

    /// The root directory.
    pub fn root(&self) -> VfsPath {
        self.root.with(VfsPath::clone)
    }

    /// The working directory.
    pub fn cwd(&self) -> VfsPath {
        self.cwd.with(VfsPath::clone)
    }

    /// Where a path starts: the root directory for one that is `absolute`, the working directory for others.
    #[inline]
    pub fn start<'a>(&'a self, absolute: bool, off: &'a IrqsOff) -> &'a VfsPath {
        let word = if absolute { &self.root } else { &self.cwd };
        word.peek(off)
    }

    /// Changes the root directory. ENOMEM.
    pub fn set_root(&self, place: VfsPath) -> Result<()> {
        let place = try_arc(place)?;
        CHROOTED.store(true, Ordering::Relaxed);
        self.key.store(0, Ordering::Relaxed);
        drop(self.root.set(place));
        Ok(())
    }

    /// Changes the working directory. ENOMEM.
    pub fn set_cwd(&self, place: VfsPath) -> Result<()> {
        let place = try_arc(place)?;
        if self.key().is_some() {
            self.key.store(identity(&place), Ordering::Relaxed);
        }
        drop(self.cwd.set(place));
        Ok(())
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
