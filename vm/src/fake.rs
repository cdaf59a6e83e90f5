//! Fake physical memory for host tests, one for each test, and a machine whose processors are threads.
//!
//! *Interface*: [`Fake::new`]. It is never freed.

use crate::frame::{Frame, Frames, PhysMemory};
use crate::space::Machine;
use abi::layout::PAGE;
use machine::cpu::MAX_CPUS;
use std::alloc::{Layout, alloc_zeroed};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering, fence};

/// The parts of a fake memory.
pub(crate) struct Parts {
    base: usize,
    frames: Frames,
    /// Calls of `forget`.
    pub(crate) forgotten: AtomicUsize,
    /// Calls of `await_pinned` that have begun.
    pub(crate) awaited: AtomicUsize,
    /// The CPUs on which a thread is pinned; any that is free serves.
    pinned: [AtomicBool; MAX_CPUS],
}

/// Ends a pinned part, also one that panics.
struct Pinned<'a>(&'a AtomicBool);

impl Drop for Pinned<'_> {
    fn drop(&mut self) {
        self.0.store(false, Ordering::Release);
    }
}

/// Fake physical memory.
#[derive(Clone, Copy)]
pub(crate) struct Fake(pub(crate) &'static Parts);

impl Fake {
    /// Memory of `count` frames, filled with a pattern; frame 0 is left out.
    pub(crate) fn new(count: usize) -> Fake {
        let layout = Layout::from_size_align(count * PAGE, 16 * PAGE).unwrap();
        // SAFETY: the size is not zero.
        let base = unsafe { alloc_zeroed(layout) };
        // SAFETY: just allocated.
        unsafe { base.write_bytes(0xa5, count * PAGE) };
        let metadata = vec![0u64; Frames::metadata_bytes(count).div_ceil(8)].leak();
        let parts = Box::leak(Box::new(Parts {
            base: base as usize,
            frames: Frames::empty(),
            forgotten: AtomicUsize::new(0),
            awaited: AtomicUsize::new(0),
            pinned: [const { AtomicBool::new(false) }; MAX_CPUS],
        }));
        // SAFETY: nobody else knows the allocator; the frames are ours.
        unsafe {
            parts.frames.install(metadata.as_mut_ptr().cast(), count);
            parts.frames.add(Frame(1), Frame(count as u32));
        }
        Fake(parts)
    }
}

impl PhysMemory for Fake {
    fn frames(self) -> &'static Frames {
        &self.0.frames
    }

    fn virt(self, physical: u64) -> *mut u8 {
        (self.0.base + physical as usize) as *mut u8
    }

    fn frame_at(self, address: *mut u8) -> Frame {
        Frame::containing((address as usize - self.0.base) as u64)
    }
}

impl Machine for Fake {
    fn forget(self, root: u64, _address: usize, _pages: usize) {
        self.await_pinned(root);
        self.0.forgotten.fetch_add(1, Ordering::Relaxed);
    }

    fn forget_each(self, root: u64, _addresses: &[usize]) {
        self.await_pinned(root);
        self.0.forgotten.fetch_add(1, Ordering::Relaxed);
    }

    fn leave(self, _root: u64) {}

    fn pinned<R>(self, _root: u64, part: impl FnOnce(usize) -> R) -> Option<R> {
        loop {
            for (cpu, pinned) in self.0.pinned.iter().enumerate() {
                if !pinned.swap(true, Ordering::SeqCst) {
                    // Either the asking thread sees the pinned one, or the pinned one sees the other's
                    // earlier stores.
                    fence(Ordering::SeqCst);
                    let _until_dropped = Pinned(pinned);
                    return Some(part(cpu));
                }
            }
            std::thread::yield_now();
        }
    }

    fn is_elsewhere(self, _root: u64) -> bool {
        fence(Ordering::SeqCst);
        true
    }

    fn await_pinned(self, _root: u64) {
        self.0.awaited.fetch_add(1, Ordering::AcqRel);
        for pinned in &self.0.pinned {
            while pinned.load(Ordering::Acquire) {
                std::thread::yield_now();
            }
        }
    }

    fn forget_here(self, _root: u64, _address: usize) {}

    fn kernel_entries(self) -> &'static [(usize, u64)] {
        &[(256, 0x1003), (511, 0x2003)]
    }
}
