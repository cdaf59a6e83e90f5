//! Trouble on request: `provoke=KIND` on the kernel command line, so that a test can see the report of it.
//!
//! *Interface*: [`run_if_asked`], when the first program has been started. Kinds: `panic`; `fault`, an access
//! to an address that nothing is at; `overflow`, a kernel stack that is used up, which the processor reports
//! as a double fault (docs/run-contract.md). Without the word nothing happens.

use abi::layout::STACKS;
use core::hint::black_box;
use machine::{boot, log};

/// Does what the command line asks for. Not in-lined, so that a back-trace shows it.
#[inline(never)]
pub fn run_if_asked() {
    let asked = boot::info()
        .cmdline
        .split_ascii_whitespace()
        .find_map(|word| word.strip_prefix("provoke="));
    match asked {
        None => {}
        Some("panic") => panic!("provoked by the command line"),
        Some("fault") => {
            // SAFETY: none: the lower half of a stack's slot is never mapped, so this faults, as it is meant
            // to.
            black_box(unsafe { (STACKS as *const u64).read_volatile() });
        }
        Some("overflow") => {
            black_box(deeper(0));
        }
        Some(other) => log!("provoke={other}: no such trouble"),
    }
}

/// Calls itself until the stack is used up. Its result depends on every level, so that none can be left
/// out.
#[expect(
    unconditional_recursion,
    reason = "the stack's end is what is asked for"
)]
fn deeper(level: u64) -> u64 {
    let frame = black_box([level; 32]);
    deeper(level + 1) + black_box(frame[(level % 32) as usize])
}
