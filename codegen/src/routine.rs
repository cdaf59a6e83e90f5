//! Sealed code and the typed, counted handle to it.
//!
//! *Interface*: [`Sealed`] is code in place that nobody has promised anything about; dropping it frees it.
//! [`Routine::from`] makes it a [`Routine<F>`], where `F` (a function pointer type) is the calling contract.
//! Clones count; the last drop retires the image: its memory is used again only after a grace period
//! ([`CodeSpace::retire`](crate::CodeSpace::retire)).
//!
//! Progress: counting is one addition; who takes the last count away retires the image and waits for nothing.
//!
//! A routine may be running, or be returned into, on any CPU until the grace period is over, but not longer:
//! a thread that can be switched away while its return address lies in the image must hold a count of it
//! (contract in `docs/architecture.md`: nothing blocks inside an image).

use alloc::boxed::Box;
use alloc::sync::Arc;
use core::any::Any;
use core::fmt;
use core::marker::PhantomData;
use core::mem::ManuallyDrop;
use core::ptr::NonNull;
use core::sync::atomic::{AtomicU64, Ordering, fence};

use crate::holding_tank::TankLink;
use crate::image::{Image, ImageInfo, TANK};
use crate::{block_alloc, space};

pub(crate) static MADE: AtomicU64 = AtomicU64::new(0);

/// Code in the code space, written and findable, with no contract yet.
pub struct Sealed(pub(crate) NonNull<Image>);

// SAFETY: the image is shared through atomics and otherwise immutable.
unsafe impl Send for Sealed {}
// SAFETY: as above.
unsafe impl Sync for Sealed {}

impl Sealed {
    fn image(&self) -> &Image {
        // SAFETY: `Sealed` holds the image's only count.
        unsafe { self.0.as_ref() }
    }

    /// Exec address of the first byte.
    pub fn entry(&self) -> usize {
        self.image().entry
    }

    /// The code as it stands in the code space.
    pub fn bytes(&self) -> &[u8] {
        self.image().bytes()
    }

    /// The facts about it.
    pub fn info(&self) -> ImageInfo {
        self.image().info()
    }
}

impl Drop for Sealed {
    fn drop(&mut self) {
        release(self.0);
    }
}

impl fmt::Debug for Sealed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.info().fmt(f)
    }
}

/// A counted handle to a routine that may be called as an `F`.
pub struct Routine<F> {
    image: NonNull<Image>,
    contract: PhantomData<F>,
}

// SAFETY: code is the same on every CPU, the record is shared through atomics.
unsafe impl<F> Send for Routine<F> {}
// SAFETY: as above.
unsafe impl<F> Sync for Routine<F> {}

impl<F> Routine<F> {
    /// Promise that the code keeps the contract `F`.
    ///
    /// # Safety
    /// Called as an `F` (and in the machine state that the contract's documentation names) the code does what
    /// `F` says, touches only memory that stays valid as long as any clone of the handle plus a grace period,
    /// and leaves by `ret` or by the exits of the contract.
    pub unsafe fn from(sealed: Sealed) -> Routine<F> {
        Routine {
            image: ManuallyDrop::new(sealed).0,
            contract: PhantomData,
        }
    }

    fn image(&self) -> &Image {
        // SAFETY: the handle holds a count.
        unsafe { self.image.as_ref() }
    }

    /// Exec address of the first byte: the word to publish.
    pub fn entry(&self) -> usize {
        self.image().entry
    }

    /// The code.
    pub fn bytes(&self) -> &[u8] {
        self.image().bytes()
    }

    /// The facts about it.
    pub fn info(&self) -> ImageInfo {
        self.image().info()
    }

    /// Say whose it is (shown in listings).
    pub fn set_owner(&self, owner: u64) {
        self.image().owner.store(owner, Ordering::Relaxed);
    }

    /// Whether another handle to the same image exists.
    pub fn is_shared(&self) -> bool {
        self.image().count.load(Ordering::Relaxed) > 1
    }

    /// Keep `data`, whose words the code names, alive as long as anyone can run the code: it is dropped after
    /// the grace period of the image. Replaces what was kept before.
    ///
    /// # Panics
    /// When the routine has been cloned: this is for its maker.
    pub fn keeping(self, data: Arc<dyn Any + Send + Sync>) -> Routine<F> {
        assert!(
            !self.is_shared(),
            "only the maker of a routine says what it keeps"
        );
        // SAFETY: we hold the only handle, and nobody who finds the image through the registry looks at this
        // field.
        unsafe { *self.image().keep.get() = Some(data) };
        self
    }

    /// The same image under another contract.
    ///
    /// # Safety
    /// As [`Routine::from`], for `G`.
    pub unsafe fn cast<G>(self) -> Routine<G> {
        Routine {
            image: ManuallyDrop::new(self).image,
            contract: PhantomData,
        }
    }
}

impl<F: Copy> Routine<F> {
    /// The entry as a function pointer. Calling it needs whatever the contract needs; it dangles a grace
    /// period after the last handle.
    pub fn function(&self) -> F {
        const {
            assert!(
                size_of::<F>() == size_of::<usize>(),
                "the contract must be a function pointer type"
            )
        };
        // SAFETY: `F` is as large as a code address, and by the promise of `from` is the type of this one.
        unsafe { core::mem::transmute_copy(&self.entry()) }
    }
}

impl<F> Clone for Routine<F> {
    fn clone(&self) -> Routine<F> {
        self.image().count.fetch_add(1, Ordering::Relaxed);
        Routine {
            image: self.image,
            contract: PhantomData,
        }
    }
}

impl<F> Drop for Routine<F> {
    fn drop(&mut self) {
        release(self.image);
    }
}

impl<F> PartialEq for Routine<F> {
    /// The same image.
    fn eq(&self, other: &Routine<F>) -> bool {
        self.image == other.image
    }
}

impl<F> fmt::Debug for Routine<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.info().fmt(f)
    }
}

/// Count the image in and make it findable. Its bytes are written.
#[inline(always)]
pub(crate) fn publish(space: &space::Lent, image: Box<Image>, began: u64) -> Sealed {
    let (entry, len) = (image.entry, image.len as usize);
    image.class.count_in(began);
    MADE.fetch_add(1, Ordering::Relaxed);
    let image = NonNull::from(Box::leak(image));
    block_alloc::place(space, image.as_ptr(), entry, len);
    space.serialize();
    Sealed(image)
}

/// Give up one count; the last one retires the image.
fn release(image: NonNull<Image>) {
    // SAFETY: the caller's count keeps the record until the subtraction.
    if unsafe { image.as_ref() }
        .count
        .fetch_sub(1, Ordering::Release)
        != 1
    {
        return;
    }
    fence(Ordering::Acquire);
    if let Some(space) = space::linked() {
        space.retire(reclaim, image.as_ptr() as usize);
    }
}

/// After the grace period: unlink, use the blocks again, and free the record when no listing reads it.
fn reclaim(image: usize) {
    let image = image as *mut Image;
    let Some(space) = space::linked() else { return };
    // SAFETY: the last handle gave the image up to us; the record lives until the holding tank frees it.
    let (entry, len) = unsafe { ((*image).entry, (*image).len as usize) };
    block_alloc::unplace(space, entry, len);
    // SAFETY: unlinked just now; `drop_image` frees what `publish` leaked.
    unsafe { TANK.free(image.cast()) };
}

/// The holding tank's last act for an image.
pub(crate) unsafe fn drop_image(record: *mut TankLink) {
    // SAFETY: `record` is the first field of an `Image` (`repr(C)`) that `publish` leaked from a box.
    let image = unsafe { Box::from_raw(record.cast::<Image>()) };
    image.class.count_out();
    if let Some(space) = space::linked() {
        block_alloc::free(space, image.entry, image.len as usize);
    }
}
