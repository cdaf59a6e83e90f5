//! Inactive lists: objects that were given up wait, with their code and memory, for the next use.
//!
//! *Interface*: an [`Inactive`] is the list of one kind, a `static` or a part of one: [`Inactive::put`]
//! leaves an object there or, where there is no room, lets it go; [`Inactive::take`] gives one back.
//! [`reclaim`] empties every list, when memory is short; it knows a list from the first `take`, which comes
//! before an object is made. A [`InactiveSlot`] is the place of a single object, for one that waits beside
//! what it serves.
//!
//! A list is a few places. Each is one pointer, put by compare-and-swap and taken by exchange; that the
//! pointer is taken is what makes the object the taker's, so a place that was emptied and filled meanwhile
//! does no harm. The places are looked at in turn: there are few, and in the usual course of things the
//! first that is looked at is right.
//!
//! Progress: wait-free: `put` and `take` look at each place once. While others put and take, one may report a
//! full or an empty list that was neither; then an object is let go, or made, which was not needed. Memory
//! order: a put releases the object to the take that gets it.
//!
//! Source: dissertation, 4.1.2: quajects that were destroyed wait in an inactive list, so that creating one
//! is cheap.
//!
//! *Unsafe*: owned pointers in atomic words, a list that nothing leaves.

use alloc::boxed::Box;
use alloc::sync::Arc;
use core::marker::PhantomData;
use core::ptr::{self, NonNull};
use core::sync::atomic::{AtomicBool, AtomicPtr, Ordering};

/// A pointer that owns what can wait: a box, a count, a reference to what is for ever.
///
/// # Safety
/// `into_raw` gives up what `from_raw` gets back. It may be got back by another thread.
pub unsafe trait Handle: Sized {
    /// The object.
    type To;

    /// The pointer, which keeps the object.
    fn into_raw(self) -> NonNull<Self::To>;

    /// # Safety
    /// `raw` came from [`into_raw`](Self::into_raw), and is given back once.
    unsafe fn from_raw(raw: NonNull<Self::To>) -> Self;
}

// SAFETY: the count goes into the pointer and comes back; an `Arc` of this may change threads.
unsafe impl<T: Send + Sync> Handle for Arc<T> {
    type To = T;
    #[inline(always)]
    fn into_raw(self) -> NonNull<T> {
        // SAFETY: never null.
        unsafe { NonNull::new_unchecked(Arc::into_raw(self).cast_mut()) }
    }
    #[inline(always)]
    unsafe fn from_raw(raw: NonNull<T>) -> Self {
        // SAFETY: the caller's promise.
        unsafe { Arc::from_raw(raw.as_ptr()) }
    }
}

// SAFETY: the box goes into the pointer and comes back; a `Box` of this may change threads.
unsafe impl<T: Send> Handle for Box<T> {
    type To = T;
    #[inline(always)]
    fn into_raw(self) -> NonNull<T> {
        // SAFETY: never null.
        unsafe { NonNull::new_unchecked(Box::into_raw(self)) }
    }
    #[inline(always)]
    unsafe fn from_raw(raw: NonNull<T>) -> Self {
        // SAFETY: the caller's promise.
        unsafe { Box::from_raw(raw.as_ptr()) }
    }
}

// SAFETY: the object is for ever; references to what is `Sync` may change threads.
unsafe impl<T: Sync> Handle for &'static T {
    type To = T;
    #[inline(always)]
    fn into_raw(self) -> NonNull<T> {
        NonNull::from(self)
    }
    #[inline(always)]
    unsafe fn from_raw(raw: NonNull<T>) -> Self {
        // SAFETY: it was such a reference.
        unsafe { raw.as_ref() }
    }
}

/// The place of one object.
pub struct InactiveSlot<P: Handle> {
    object: AtomicPtr<P::To>,
    /// It may be taken by any thread, as a handle promises.
    owned: PhantomData<fn() -> P>,
}

impl<P: Handle> InactiveSlot<P> {
    /// An empty one.
    pub const fn new() -> Self {
        InactiveSlot {
            object: AtomicPtr::new(ptr::null_mut()),
            owned: PhantomData,
        }
    }

    /// Whether it was empty at this instant.
    #[inline(always)]
    pub fn is_empty(&self) -> bool {
        self.object.load(Ordering::Relaxed).is_null()
    }

    /// Leaves `object` here.
    ///
    /// # Errors
    /// `object`, when another is here.
    #[inline(always)]
    pub fn put(&self, object: P) -> Result<(), P> {
        let raw = object.into_raw();
        match self.object.compare_exchange(
            ptr::null_mut(),
            raw.as_ptr(),
            Ordering::Release,
            Ordering::Relaxed,
        ) {
            Ok(_) => Ok(()),
            // SAFETY: the exchange failed, so what `into_raw` gave up is still ours.
            Err(_) => Err(unsafe { P::from_raw(raw) }),
        }
    }

    /// The object that was here.
    #[inline(always)]
    pub fn take(&self) -> Option<P> {
        if self.is_empty() {
            return None;
        }
        let raw = self.object.swap(ptr::null_mut(), Ordering::Acquire);
        // SAFETY: a pointer in a place came from `into_raw`, and the exchange made what it owns ours.
        NonNull::new(raw).map(|raw| unsafe { P::from_raw(raw) })
    }
}

impl<P: Handle> Default for InactiveSlot<P> {
    fn default() -> Self {
        Self::new()
    }
}

impl<P: Handle> Drop for InactiveSlot<P> {
    fn drop(&mut self) {
        drop(self.take());
    }
}

/// The part of a list that [`reclaim`] knows.
struct Head {
    /// Lets all that wait go; says how many there were.
    clear: unsafe fn(NonNull<Head>) -> usize,
    listed: AtomicBool,
    next: AtomicPtr<Head>,
}

/// The lists that were ever asked for an object and had none: nothing can wait in another.
static LISTS: AtomicPtr<Head> = AtomicPtr::new(ptr::null_mut());

/// Lets go of everything that waits in any list; returns how many objects there were. Thread context.
pub fn reclaim() -> usize {
    let mut count = 0;
    let mut at = NonNull::new(LISTS.load(Ordering::Acquire));
    while let Some(list) = at {
        // SAFETY: only heads of `&'static Inactive` are listed, and none ever leaves.
        let head = unsafe { list.as_ref() };
        // SAFETY: it is the first field of the list that it was made with.
        count += unsafe { (head.clear)(list) };
        at = NonNull::new(head.next.load(Ordering::Acquire));
    }
    count
}

/// Pushes onto a list that nothing ever leaves.
pub(super) fn push<T>(list: &AtomicPtr<T>, new: *mut T, next: &AtomicPtr<T>) {
    let mut head = list.load(Ordering::Relaxed);
    loop {
        next.store(head, Ordering::Relaxed);
        match list.compare_exchange(head, new, Ordering::Release, Ordering::Relaxed) {
            Ok(_) => return,
            Err(now) => head = now,
        }
    }
}

/// The inactive list of one kind: up to `N` objects that wait for the next use.
#[repr(C)]
pub struct Inactive<P: Handle, const N: usize> {
    /// First field, so that its address is the list's.
    head: Head,
    places: [InactiveSlot<P>; N],
    /// Gives up the code and memory of one for which there is no room, or no time.
    let_go: fn(P),
}

impl<P: Handle + 'static, const N: usize> Inactive<P, N> {
    /// An empty list, whose objects are given up by `let_go`.
    pub const fn new(let_go: fn(P)) -> Self {
        Inactive {
            head: Head {
                clear: Self::clear_at,
                listed: AtomicBool::new(false),
                next: AtomicPtr::new(ptr::null_mut()),
            },
            places: [const { InactiveSlot::new() }; N],
            let_go,
        }
    }

    /// Leaves `object` here with its code and memory, or lets it go if there is no room.
    #[inline]
    pub fn put(&self, object: P) {
        let Some((first, others)) = self.places.split_first() else {
            return (self.let_go)(object);
        };
        if let Err(object) = first.put(object) {
            self.put_into(others, object);
        }
    }

    #[inline(never)]
    fn put_into(&self, places: &[InactiveSlot<P>], mut object: P) {
        for place in places.iter().filter(|place| place.is_empty()) {
            match place.put(object) {
                Ok(()) => return,
                Err(back) => object = back,
            }
        }
        (self.let_go)(object);
    }

    /// An object that waited.
    #[inline]
    pub fn take(&'static self) -> Option<P> {
        let (first, others) = self.places.split_first()?;
        first.take().or_else(|| self.take_from(others))
    }

    /// One of the other places; there is work for [`reclaim`] if there is none, since one will be made.
    #[inline(never)]
    fn take_from(&'static self, places: &[InactiveSlot<P>]) -> Option<P> {
        let taken = places.iter().find_map(InactiveSlot::take);
        if taken.is_none() && !self.head.listed.load(Ordering::Relaxed) {
            self.be_listed();
        }
        taken
    }

    /// Whether another could wait here at this instant.
    #[inline]
    pub fn has_room(&self) -> bool {
        self.places.iter().any(InactiveSlot::is_empty)
    }

    /// Lets all that wait go; returns how many there were.
    pub fn clear(&self) -> usize {
        let objects = self.places.iter().filter_map(InactiveSlot::take);
        objects.map(self.let_go).count()
    }

    /// # Safety
    /// `head` is the head of such a list.
    unsafe fn clear_at(head: NonNull<Head>) -> usize {
        // SAFETY: the caller's promise; the head is the list's first field.
        unsafe { head.cast::<Self>().as_ref() }.clear()
    }

    #[cold]
    fn be_listed(&'static self) {
        if !self.head.listed.swap(true, Ordering::AcqRel) {
            let whole = ptr::from_ref(self).cast_mut().cast::<Head>();
            push(&LISTS, whole, &self.head.next);
        }
    }
}

#[cfg(all(test, not(loom)))]
#[path = "inactive_tests.rs"]
mod tests;
