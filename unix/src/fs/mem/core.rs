//! Stands for `quaject::fsmap` until that is in.
use core::sync::atomic::{AtomicPtr, AtomicU64, AtomicUsize, Ordering};

/// Size and pages.
#[repr(C)]
pub struct FileCore {
    /// Size in bytes.
    pub size: AtomicU64,
    pages: AtomicPtr<AtomicUsize>,
    count: AtomicUsize,
}

impl FileCore {
    /// Empty.
    pub fn new() -> FileCore {
        FileCore {
            size: AtomicU64::new(0),
            pages: AtomicPtr::new(core::ptr::null_mut()),
            count: AtomicUsize::new(0),
        }
    }
    /// Publishes a larger array.
    pub fn publish_pages(&self, pages: *const AtomicUsize, count: usize) {
        self.pages.store(pages.cast_mut(), Ordering::Release);
        self.count.store(count, Ordering::Release);
    }
}
