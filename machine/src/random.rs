//! Numbers that an attacker should not guess: RDRAND where the processor has it, else the stock that a device
//! fills, else a mix of the clock; with RDRAND each word of the stock goes in, too.
//!
//! *Interface*: [`u64()`], [`fill`]. May be called from anywhere. A device's driver says by [`set_refill`]
//! how to ask it, and brings words by [`supply`]. With neither the numbers are not fit for cryptography
//! (docs/caveats.md).

use core::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

static STATE: AtomicU64 = AtomicU64::new(0x9e37_79b9_7f4a_7c15);

/// Words of the stock; 0 where there is none.
static STOCK: [AtomicU64; 64] = [const { AtomicU64::new(0) }; 64];
/// How many words have been asked for, and brought: where to look next, modulo the stock's size.
static DRAWN: AtomicUsize = AtomicUsize::new(0);
static BROUGHT: AtomicUsize = AtomicUsize::new(0);
/// A `fn()`, or 0.
static REFILL: AtomicUsize = AtomicUsize::new(0);

/// Links what asks a device for more; it never waits.
pub fn set_refill(refill: fn()) {
    REFILL.store(refill as usize, Ordering::Release);
}

/// A word that a device has drawn.
pub fn supply(word: u64) {
    let at = BROUGHT.fetch_add(1, Ordering::Relaxed);
    // Bytes that lay there unused are not lost.
    STOCK[at % STOCK.len()].fetch_xor(word, Ordering::Relaxed);
}

/// A word of the stock, once; 0 when there is none.
fn stock() -> u64 {
    let refill = REFILL.load(Ordering::Acquire);
    if refill == 0 {
        return 0;
    }
    let at = DRAWN.fetch_add(1, Ordering::Relaxed);
    if at.is_multiple_of(STOCK.len() / 2) {
        // SAFETY: only `set_refill` stores here, and it takes a `fn()`.
        let refill = unsafe { core::mem::transmute::<usize, fn()>(refill) };
        refill();
    }
    STOCK[at % STOCK.len()].swap(0, Ordering::Relaxed)
}

/// One random word.
pub fn u64() -> u64 {
    let state = STATE.fetch_add(0x9e37_79b9_7f4a_7c15, Ordering::Relaxed);
    mix(state ^ hardware() ^ stock())
}

/// Fills `out`.
pub fn fill(out: &mut [u8]) {
    for chunk in out.chunks_mut(8) {
        chunk.copy_from_slice(&u64().to_ne_bytes()[..chunk.len()]);
    }
}

fn hardware() -> u64 {
    if crate::features::get().rdrand() {
        for _ in 0..10 {
            let (value, good): (u64, u8);
            // SAFETY: the processor has the instruction; it touches no memory.
            unsafe {
                core::arch::asm!("rdrand {}", "setc {}", out(reg) value, out(reg_byte) good,
                    options(nomem, nostack));
            }
            if good != 0 {
                return value;
            }
        }
    }
    crate::clock::tsc()
}

/// The finalizer of SplitMix64.
fn mix(mut x: u64) -> u64 {
    x = (x ^ x >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    x = (x ^ x >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ x >> 31
}

#[cfg(test)]
mod tests {
    #[test]
    fn what_a_device_brings_is_used_once() {
        use super::*;
        static ASKED: AtomicUsize = AtomicUsize::new(0);
        assert_eq!(stock(), 0);
        set_refill(|| {
            ASKED.fetch_add(1, Ordering::Relaxed);
        });
        for word in 1..=STOCK.len() as u64 {
            supply(word);
        }
        let mut got: Vec<u64> = (0..STOCK.len()).map(|_| stock()).collect();
        assert_eq!(ASKED.load(Ordering::Relaxed), 2);
        got.sort_unstable();
        // Another test may have drawn a few.
        got.retain(|word| *word != 0);
        got.dedup();
        assert!(got.len() >= STOCK.len() - 8 && got.iter().all(|word| *word <= 64));
    }

    #[test]
    fn numbers_differ() {
        assert_ne!(super::u64(), super::u64());
        let mut bytes = [0; 13];
        super::fill(&mut bytes);
        assert_ne!(bytes, [0; 13]);
    }
}
