//! Finding routines by address: for fault handlers, back-traces and listings.
//!
//! *Interface*: [`fixup`] and [`image_at`] may be called anywhere, an NMI included: they load words, take no
//! lock and free nothing. [`for_each`] is for threads; it keeps nothing from being generated or freed
//! meanwhile.
//!
//! Progress: wait-free; nothing is ever tried twice.

use core::sync::atomic::Ordering;

use crate::block_alloc;
use crate::image::{Image, ImageInfo, TANK};
use crate::space::linked;

fn within(image: *mut Image, address: usize) -> Option<&'static Image> {
    // SAFETY: the callers are readers or know the image to live; the reference does not outlive them.
    let image = unsafe { image.as_ref() }?;
    (address - image.entry < image.len as usize).then_some(image)
}

/// Where a fault at `rip` resumes, if `rip` is in a routine and the fault was expected there.
pub fn fixup(rip: usize) -> Option<usize> {
    let inside = TANK.enter();
    let image = within(block_alloc::at(linked()?, rip), rip)?;
    let offset = (rip - image.entry) as u32;
    let found = image
        .faults
        .as_slice()
        .iter()
        .find(|f| f.start <= offset && offset < f.end);
    let resume = found.map(|f| image.entry + f.fixup as usize);
    drop(inside);
    resume
}

/// The routine that `rip` is in.
pub fn image_at(rip: usize) -> Option<ImageInfo> {
    let inside = TANK.enter();
    let info = within(block_alloc::at(linked()?, rip), rip).map(Image::info);
    drop(inside);
    info
}

/// Every routine, in the order of addresses. `f` may generate and free routines; those may or may not be
/// seen.
pub fn for_each(mut f: impl FnMut(&ImageInfo)) {
    for_each_from(0, |info| {
        f(info);
        true
    });
}

/// The same for those at address `from` or above, until `f` answers `false`.
pub fn for_each_from(from: usize, mut f: impl FnMut(&ImageInfo) -> bool) {
    let Some(space) = linked() else { return };
    let inside = TANK.enter();
    // SAFETY: `walk` passes live images to a reader.
    block_alloc::walk(space, from, |image| f(&unsafe { (*image).info() }));
    drop(inside);
    TANK.drain();
}

/// Call `f` with the routine at `rip` and its bytes, which stay while it runs.
pub(crate) fn with_image<R>(rip: usize, f: impl FnOnce(&ImageInfo, &[u8]) -> R) -> Option<R> {
    let space = linked()?;
    let inside = TANK.enter();
    let result = within(block_alloc::at(space, rip), rip).map(|image| {
        // SAFETY: code is readable at its exec address and, while a reader is inside, neither freed nor
        // written.
        let bytes =
            unsafe { core::slice::from_raw_parts(image.entry as *const u8, image.len as usize) };
        f(&image.info(), bytes)
    });
    drop(inside);
    TANK.drain();
    result
}

/// The contents of the code space.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stats {
    /// Routines that exist, those that wait for their grace period included.
    pub images: usize,
    /// Bytes of the blocks they take.
    pub bytes: usize,
    /// Bytes of memory behind the code space.
    pub committed: usize,
    /// Routines generated since boot.
    pub made: u64,
}

/// Bytes of memory behind code space that no code takes. Two loads.
pub fn slack() -> usize {
    block_alloc::committed_bytes().saturating_sub(block_alloc::taken_bytes())
}

/// Count what the code space holds.
pub fn stats() -> Stats {
    let mut images = 0;
    for_each(|_| images += 1);
    Stats {
        images,
        bytes: block_alloc::taken_bytes(),
        committed: block_alloc::committed_bytes(),
        made: crate::routine::MADE.load(Ordering::Relaxed),
    }
}
