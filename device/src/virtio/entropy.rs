//! The virtio source of random numbers, which the kernel's own is fed from.
//!
//! *Interface*: [`start`]. A buffer of words is filled by the device and handed to
//! [`machine::random::supply`], by a procedure chained to the end of the interrupt; another is asked for when
//! the kernel's stock is low ([`machine::random::set_refill`]).
//! Source: Virtual I/O Device (VIRTIO) Version 1.2, section 5.4.
//!
//! *Unsafe*: words that the device has filled; the device's counted pointer, which lives until a grace
//! period.

use super::interrupts::QueueInterrupts;
use super::transport::{Doorbell, NO_VECTOR, Transport};
use super::virtqueue::{Virtqueue, WRITES, look_for_used, physical};
use crate::Unusable;
use crate::deferred_work::DeferredWork;
use crate::interrupt::{Source, later};
use alloc::sync::Arc;
use codegen::{Draft, Label};
use core::sync::atomic::{AtomicBool, AtomicPtr, AtomicU16, AtomicU64, Ordering};
use machine::cpu::{irq_restore, irq_save};
use machine::random;
use quaject::assembly::Assembly;
use quaject::near_memory::NearBlock;
use vm::fallible::try_arc;

/// Words of the buffer.
const WORDS: usize = 32;

struct Entropy {
    ring: Virtqueue,
    buffer: NearBlock,
    bell: Doorbell,
    /// Address of the word that counts buffers used.
    used: i32,
    taken: AtomicU16,
    /// The device has the buffer.
    asked: AtomicBool,
}

/// The device; null for none. Read with interrupts off, and what it was lives through a grace period.
static CURRENT: AtomicPtr<Entropy> = AtomicPtr::new(core::ptr::null_mut());

fn with_current(f: impl FnOnce(&Entropy)) {
    // Bound: asking for a buffer of words, or handing over one of 32.
    let state = irq_save();
    // SAFETY: what is published here is given up a grace period after it was taken out, and no grace period
    // ends while interrupts are off here.
    if let Some(entropy) = unsafe { CURRENT.load(Ordering::Acquire).as_ref() } {
        f(entropy);
    }
    irq_restore(state);
}

/// Starts the device behind `transport`.
///
/// # Errors
/// [`Unusable`].
pub fn start(
    transport: &Transport,
    ways: &mut QueueInterrupts,
) -> Result<Arc<dyn DeferredWork>, Unusable> {
    if !CURRENT.load(Ordering::Relaxed).is_null() {
        return Err(Unusable::Resources);
    }
    transport.negotiate(0)?;
    ways.open(transport, 1)?;
    let (interrupt, vector, asks) = ways.interrupt("virtio-rng", 0)?;
    transport.set_config_vector(NO_VECTOR);
    let ring = Virtqueue::new(1).ok_or(Unusable::Resources)?;
    ring.set_flags(0, WRITES);
    let entropy = Entropy {
        buffer: NearBlock::new(8 * WORDS).ok_or(Unusable::Resources)?,
        bell: transport.set_queue(0, &ring, vector)?,
        used: ring.words().ok_or(Unusable::Resources)?.used,
        ring,
        taken: AtomicU16::new(0),
        asked: AtomicBool::new(false),
    };
    let entropy = try_arc(entropy).map_err(|_| Unusable::Resources)?;
    interrupt.add(entropy.clone(), asks)?;
    transport.go();
    // Devices are started one after the other, so there is no race.
    let counted = Arc::into_raw(entropy.clone());
    CURRENT.store(counted.cast_mut(), Ordering::Release);
    random::set_refill(refill);
    refill();
    Ok(entropy)
}

impl DeferredWork for Entropy {
    fn remove(&self) {
        let old = CURRENT.swap(core::ptr::null_mut(), Ordering::AcqRel);
        if !old.is_null() {
            sync::epoch::retire(give_up, old.expose_provenance());
        }
    }
}

/// Gives up the count that [`CURRENT`] had.
fn give_up(entropy: usize) {
    // SAFETY: `start` counted it for `CURRENT`, which has had another value for a grace period.
    drop(unsafe { Arc::from_raw(core::ptr::with_exposed_provenance::<Entropy>(entropy)) });
}

/// Asks the device for a buffer of words, unless it has it already.
fn refill() {
    with_current(|entropy| {
        if !entropy.asked.swap(true, Ordering::Acquire) {
            let at = entropy.buffer.at().as_ptr().expose_provenance();
            entropy.ring.give(0, physical(at), 8 * WORDS as u32);
            entropy.bell.ring();
        }
    });
}

/// The handler's chained procedure: delivers the received words.
fn supply(_: usize) {
    with_current(|entropy| {
        let mut taken = entropy.taken.load(Ordering::Relaxed);
        let Some((_, len)) = entropy.ring.take(&mut taken) else {
            return;
        };
        entropy.taken.store(taken, Ordering::Relaxed);
        let words = len.map_or(0, |len| len as usize / 8).min(WORDS);
        for at in 0..words {
            // SAFETY: the buffer's words, aligned; the device may still write there, if it breaks its word.
            let word = unsafe { entropy.buffer.at().cast::<AtomicU64>().add(at).as_ref() };
            random::supply(word.swap(0, Ordering::Relaxed));
        }
        entropy.asked.store(false, Ordering::Release);
    });
}

impl Source for Entropy {
    fn emit(&self, _: &mut Assembly) {}

    fn look(&self, d: &mut Draft, wake: Label) {
        look_for_used(d, self.used, &self.taken, wake);
    }

    fn wake(&self) {
        later(supply, 0);
    }
}
