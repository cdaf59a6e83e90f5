//! An `Arc` that is swapped as a whole while others read it, as in RCU: several processes may share it,
//! and one may replace it.
//!
//! *Interface*: [`ArcSwap::get`] takes a count on the present value, [`ArcSwap::set`] puts another in place
//! and returns the old, [`ArcSwap::replace`] does so if the value is still the expected one;
//! [`ArcSwap::peek`], [`ArcSwap::beside`] and [`ArcSwap::is`] read without counting.
//!
//! One word holds the value. Readers have interrupts off between loading the word and counting, or as long as
//! they read ([`IrqsOff`]), and the count that the word had is given up a grace period after it was exchanged
//! (`sync::epoch`), so a reader still finds it alive.
//!
//! Progress: reading is wait-free, exchanging lock-free.
//! Source: Massalin and Pu 1991, section 3.2 (publish by one word); reclamation as everywhere here.
//!
//! *Unsafe*: counted pointers in a word that is exchanged.

use alloc::sync::Arc;
use core::marker::PhantomData;
use core::mem::ManuallyDrop;
use core::sync::atomic::{AtomicPtr, Ordering};
use machine::irqs_off::{IrqsOff, irqs_off};
use sync::epoch;

/// One `Arc` in a word.
pub struct ArcSwap<T>(AtomicPtr<T>, PhantomData<Arc<T>>);

impl<T> ArcSwap<T> {
    /// Offset of the word that leads to the current value, for generated code. Interrupts are off as long as
    /// it uses that value.
    pub const WORD: usize = core::mem::offset_of!(Self, 0);

    /// Holds `value`.
    pub fn new(value: Arc<T>) -> Self {
        ArcSwap(AtomicPtr::new(Arc::into_raw(value).cast_mut()), PhantomData)
    }

    /// The present value.
    #[inline]
    pub fn get(&self) -> Arc<T> {
        // Bound: one load and one addition; the comparison of two identities.
        irqs_off(|off| {
            let value = core::ptr::from_ref(self.peek(off));
            // SAFETY: interrupts are off; the word holds a count, so another may be taken from it.
            unsafe {
                Arc::increment_strong_count(value);
                Arc::from_raw(value)
            }
        })
    }

    /// The present value, without counting.
    #[inline]
    pub fn peek<'a>(&'a self, _off: &'a IrqsOff) -> &'a T {
        // SAFETY: the word came from `Arc::into_raw`, and its count is given up only a grace period after an
        // exchange, which does not end here while interrupts are off.
        unsafe { &*self.0.load(Ordering::Acquire) }
    }

    /// Whether `value` is the present one.
    #[inline]
    pub fn is(&self, value: &Arc<T>) -> bool {
        core::ptr::eq(self.0.load(Ordering::Acquire), Arc::as_ptr(value))
    }

    /// Whether `other` has the same value at present.
    #[inline]
    pub fn is_same(&self, other: &ArcSwap<T>) -> bool {
        core::ptr::eq(
            self.0.load(Ordering::Acquire),
            other.0.load(Ordering::Acquire),
        )
    }

    /// Calls `look` with the present value, which stays meanwhile.
    #[inline]
    pub fn with<R>(&self, look: impl FnOnce(&T) -> R) -> R {
        look(&self.get())
    }

    /// Calls `look` with the present value and that of `other`, interrupts off: it is short.
    #[inline]
    pub fn beside<U, R>(&self, other: &ArcSwap<U>, look: impl FnOnce(&T, &U) -> R) -> R {
        irqs_off(|off| look(self.peek(off), other.peek(off)))
    }

    /// Exchanges the value and returns the old. Thread context.
    pub fn set(&self, value: Arc<T>) -> Arc<T> {
        self.exchange(value).get()
    }

    /// Puts `value` in the place of `old`, if that is still the present one; whether it was. Thread context.
    pub fn replace(&self, old: &Arc<T>, value: Arc<T>) -> bool {
        let expected = Arc::as_ptr(old).cast_mut();
        let raw = Arc::into_raw(value).cast_mut();
        let (set, fetch) = (Ordering::AcqRel, Ordering::Relaxed);
        let replaced = self.0.compare_exchange(expected, raw, set, fetch);
        // SAFETY: the word's count of the old value; or that of the new one, which no reader has seen. The
        // caller's count of the old one keeps its address from being reused.
        let counted = unsafe { Arc::from_raw(if replaced.is_ok() { expected } else { raw }) };
        if replaced.is_ok() {
            drop(Displaced(ManuallyDrop::new(counted)).get());
        }
        replaced.is_ok()
    }

    /// As [`ArcSwap::set`], to be called with a monitor held: the rest is done when that is free.
    pub fn exchange(&self, value: Arc<T>) -> Displaced<T> {
        let raw = Arc::into_raw(value).cast_mut();
        let old = self.0.swap(raw, Ordering::AcqRel);
        // SAFETY: the word's count of the old value, which is given up by `get`.
        Displaced(ManuallyDrop::new(unsafe { Arc::from_raw(old) }))
    }
}

/// A value that was exchanged; readers may be about to count it.
#[must_use]
pub struct Displaced<T>(ManuallyDrop<Arc<T>>);

impl<T> Displaced<T> {
    /// The value. Thread context, no monitor held.
    pub fn get(self) -> Arc<T> {
        let old = ManuallyDrop::into_inner(self.0);
        epoch::retire(give_up::<T>, Arc::into_raw(old.clone()).addr());
        old
    }
}

/// Gives up the count that an exchanged word had.
fn give_up<T>(raw: usize) {
    // SAFETY: `set` retired this count, once.
    drop(unsafe { Arc::from_raw(raw as *const T) });
}

impl<T> Drop for ArcSwap<T> {
    fn drop(&mut self) {
        // SAFETY: the word's count, and no reader is left.
        drop(unsafe { Arc::from_raw(*self.0.get_mut()) });
    }
}
