//! The peers of the structures: a spin lock, and plain structures that a lock guards.
//!
//! *Interface*: [`Spin`], [`Guarded`] (either lock around anything), [`Ring`], [`Chain`].

use std::cell::UnsafeCell;
use std::sync::atomic::{AtomicBool, Ordering};

/// Test-and-set, with a pause while it is held; after a while it lets others run, as every spin lock outside
/// a kernel must.
pub struct Spin<T>(AtomicBool, UnsafeCell<T>);

// SAFETY: the value is touched by who holds the lock.
unsafe impl<T: Send> Sync for Spin<T> {}

/// A lock around a value.
pub trait Guarded<T>: Sync {
    fn new(value: T) -> Self;
    fn with<R>(&self, f: impl FnOnce(&mut T) -> R) -> R;
}

impl<T: Send> Guarded<T> for Spin<T> {
    fn new(value: T) -> Self {
        Spin(AtomicBool::new(false), UnsafeCell::new(value))
    }
    #[inline]
    fn with<R>(&self, f: impl FnOnce(&mut T) -> R) -> R {
        let mut spins = 0;
        while self.0.swap(true, Ordering::Acquire) {
            while self.0.load(Ordering::Relaxed) {
                spins += 1;
                if spins % 128 == 0 {
                    std::thread::yield_now();
                }
                std::hint::spin_loop();
            }
        }
        // SAFETY: the lock is held.
        let result = f(unsafe { &mut *self.1.get() });
        self.0.store(false, Ordering::Release);
        result
    }
}

impl<T: Send> Guarded<T> for parking_lot::Mutex<T> {
    fn new(value: T) -> Self {
        parking_lot::Mutex::new(value)
    }
    #[inline]
    fn with<R>(&self, f: impl FnOnce(&mut T) -> R) -> R {
        f(&mut self.lock())
    }
}

/// A bounded queue for one at a time.
pub struct Ring<const N: usize> {
    head: usize,
    tail: usize,
    words: [u64; N],
}

impl<const N: usize> Ring<N> {
    pub const fn new() -> Self {
        Ring {
            head: 0,
            tail: 0,
            words: [0; N],
        }
    }
    #[inline]
    pub fn put(&mut self, value: u64) -> bool {
        if self.head.wrapping_sub(self.tail) == N {
            return false;
        }
        self.words[self.head % N] = value;
        self.head = self.head.wrapping_add(1);
        true
    }
    #[inline]
    pub fn get(&mut self) -> Option<u64> {
        if self.head == self.tail {
            return None;
        }
        let value = self.words[self.tail % N];
        self.tail = self.tail.wrapping_add(1);
        Some(value)
    }
}

/// Nodes linked in a row, for one at a time: the addresses of their links.
#[derive(Default)]
pub struct Chain(usize);

impl Chain {
    /// # Safety
    /// `node` is a word of the caller's that stays until it is taken.
    #[inline]
    pub unsafe fn insert(&mut self, node: *mut usize) {
        // SAFETY: the caller's promise.
        unsafe { *node = self.0 };
        self.0 = node.expose_provenance();
    }
    #[inline]
    pub fn delete(&mut self) -> Option<*mut usize> {
        let node = std::ptr::with_exposed_provenance_mut::<usize>(self.0);
        if node.is_null() {
            return None;
        }
        // SAFETY: inserted, and still there.
        self.0 = unsafe { *node };
        Some(node)
    }
}
