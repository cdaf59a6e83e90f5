//! The virtio source of random numbers, which the kernel's own is fed from.
//!
//! *Interface*: [`start`]. A buffer of words is filled by the device and handed to [`machine::random::supply`], by a procedure chained to the end of the interrupt; another is asked for when the kernel's
//! stock is low ([`machine::random::set_refill`]).
//! Source: Virtual I/O Device (VIRTIO) Version 1.2, section 5.4.

use super::ring::{Ring, WRITES, look_for_used, physical};
use super::transport::{NO_VECTOR, Transport};
use super::ways::Ways;
use crate::Unusable;
use crate::interrupt::{Source, later};
use crate::pci::Function;
use crate::registers::Registers;
use alloc::boxed::Box;
use codegen::{Draft, Label};
use core::sync::atomic::{AtomicBool, AtomicU16, AtomicU64, Ordering};
use machine::random;
use quaject::near::Block;
use sync::Once;

/// Words of the buffer.
const WORDS: usize = 32;

struct Entropy {
    ring: Ring,
    buffer: Block,
    notify: Registers,
    /// Address of the word that counts buffers used.
    used: i32,
    taken: AtomicU16,
    /// The device has the buffer.
    asked: AtomicBool,
}

static ENTROPY: Once<&'static Entropy> = Once::new();

/// Starts the device that `function` is.
///
/// # Errors
/// [`Unusable`].
pub fn start(function: &Function) -> Result<(), Unusable> {
    let transport = Transport::find(function)?;
    let started = bring_up(function, &transport);
    if started.is_err() {
        transport.refuse();
    }
    started
}

fn bring_up(function: &Function, transport: &Transport) -> Result<(), Unusable> {
    if ENTROPY.get().is_some() {
        return Err(Unusable::Resources);
    }
    transport.negotiate(0)?;
    let ways = Ways::of(function, transport, 1)?;
    let (interrupt, vector, asks) = ways.interrupt("virtio-rng", 0)?;
    transport.set_config_vector(NO_VECTOR);
    let ring = Ring::new(1).ok_or(Unusable::Resources)?;
    ring.set_flags(0, WRITES);
    let entropy = Entropy {
        buffer: Block::new(8 * WORDS).ok_or(Unusable::Resources)?,
        notify: transport.set_queue(0, &ring, vector)?,
        used: ring.words().ok_or(Unusable::Resources)?.used,
        ring,
        taken: AtomicU16::new(0),
        asked: AtomicBool::new(false),
    };
    let entropy: &'static Entropy = Box::leak(Box::new(entropy));
    interrupt.add(entropy, asks)?;
    transport.go();
    let _again = ENTROPY.set(entropy);
    random::set_refill(refill);
    refill();
    Ok(())
}

/// Asks the device for a buffer of words, unless it has it already.
fn refill() {
    if let Some(entropy) = ENTROPY.get()
        && !entropy.asked.swap(true, Ordering::Acquire)
    {
        let at = entropy.buffer.at().as_ptr().expose_provenance();
        entropy.ring.give(0, physical(at), 8 * WORDS as u32);
        entropy.notify.write(0, 0u16);
    }
}

/// What the handler has chained: hands over what has come.
fn supply(_: usize) {
    let Some(entropy) = ENTROPY.get() else { return };
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
}

impl Source for Entropy {
    fn emit(&self, _: &mut Draft) {}

    fn look(&self, d: &mut Draft, wake: Label) {
        look_for_used(d, self.used, &self.taken, wake);
    }

    fn wake(&self) {
        later(supply, 0);
    }
}
