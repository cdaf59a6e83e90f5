//! A value that boot writes once, before any read.
//!
//! *Interface*: [`BootCell::set`] on the boot CPU, then [`BootCell::get`] from anywhere, at the price of a
//! load.

use core::cell::UnsafeCell;

pub(crate) struct BootCell<T>(UnsafeCell<T>);

// SAFETY: written only by `set`, whose caller promises that no thread reads meanwhile; shared reads need
// `T: Sync`.
unsafe impl<T: Sync> Sync for BootCell<T> {}

impl<T> BootCell<T> {
    pub(crate) const fn new(value: T) -> Self {
        BootCell(UnsafeCell::new(value))
    }

    /// # Safety No other thread uses the cell, and no reference from `get` is alive.
    pub(crate) unsafe fn set(&self, value: T) {
        // SAFETY: the caller is alone with the cell.
        unsafe { *self.0.get() = value };
    }

    #[inline]
    pub(crate) fn get(&self) -> &T {
        // SAFETY: no `set` happens any more.
        unsafe { &*self.0.get() }
    }
}
