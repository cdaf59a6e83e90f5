//! The words by which control passes from one generated routine of the room to the next, for listings.
//!
//! *Interface*: [`of_cpu`]; [`Tte::jump_targets`]. They list the words that the code itself jumps through:
//! where several routines meet, the ready ring and the kernel procedure table are links, too.
//!
//! Source: dissertation, sections 3.3.2 (executable data structures) and 4.2 (kernel procedure tables).

use crate::ring::per_cpu::local;
use crate::switch::speculation;
use crate::tte::Tte;
use core::sync::atomic::Ordering;

/// The purpose of a word, and the entry in it; 0 where nothing is linked.
pub type JumpWord = (&'static str, usize);

/// Those of CPU number `number`, which is online.
pub fn of_cpu(number: usize) -> [JumpWord; 4] {
    let cpu = machine::cpu::cpu(number);
    [
        ("syscall", cpu.syscall_entry.load(Ordering::Relaxed)),
        ("dispatcher", cpu.dispatcher.load(Ordering::Relaxed)),
        ("turn", local(number).ring.turn.load(Ordering::Relaxed)),
        ("enter space", speculation::entry()),
    ]
}

impl Tte {
    /// The words of the thread, each with the entry in it.
    pub fn jump_targets(&self) -> [JumpWord; 6] {
        [
            ("dispatcher", &self.dispatch),
            ("sw_out", &self.sw_out),
            ("next", &self.link),
            ("sw_in", &self.sw_in),
            ("sw_in_mm", &self.sw_in_mm),
            ("yield", &self.yielding),
        ]
        .map(|(name, word)| (name, word.load(Ordering::Relaxed)))
    }
}
