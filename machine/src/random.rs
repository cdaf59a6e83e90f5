//! Numbers that an attacker should not guess: RDRAND where the processor has it, else a mix of the clock.
//!
//! *Interface*: [`u64()`], [`fill`]. May be called from anywhere. Without RDRAND the numbers are not fit for cryptography
//! (docs/caveats.md).

use core::sync::atomic::{AtomicU64, Ordering};

static STATE: AtomicU64 = AtomicU64::new(0x9e37_79b9_7f4a_7c15);

/// One random word.
pub fn u64() -> u64 {
    let state = STATE.fetch_add(0x9e37_79b9_7f4a_7c15, Ordering::Relaxed);
    mix(state ^ hardware())
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
    fn numbers_differ() {
        assert_ne!(super::u64(), super::u64());
        let mut bytes = [0; 13];
        super::fill(&mut bytes);
        assert_ne!(bytes, [0; 13]);
    }
}
