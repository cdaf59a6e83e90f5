//! The sizes of base addresses, asked for once.
//!
//! *Interface*: [`Sizes`], which a configuration space keeps. A function is asked for a size by writing to
//! its base address while it does not decode; a processor that reaches for any device's registers meanwhile
//! may meet another one there. So [`super::Function::measure`] asks while no other processor runs.

use alloc::vec::Vec;
use pci_types::PciAddress;
use sync::Monitor;

/// Which bits a base address compares, for those that have been asked.
#[derive(Default)]
pub struct Sizes(Monitor<Vec<((PciAddress, u8), u64)>>);

impl Sizes {
    /// None yet.
    pub const fn new() -> Sizes {
        Sizes(Monitor::new(Vec::new()))
    }

    /// The answer of base address `index` of the function at `at`.
    pub fn of(&self, at: PciAddress, index: u8) -> Option<u64> {
        // Bound: a look at the base addresses of the devices that have drivers.
        let known = self.0.lock();
        let found = known.iter().find(|(place, _)| *place == (at, index));
        found.map(|(_, mask)| *mask)
    }

    /// Keeps an answer. Without memory it is asked for again.
    pub fn keep(&self, at: PciAddress, index: u8, mask: u64) {
        let mut known = self.0.lock();
        if known.try_reserve(1).is_ok() {
            known.push(((at, index), mask));
        }
    }

    /// Another function may be at `at` now.
    pub fn forget(&self, at: PciAddress) {
        self.0.lock().retain(|((place, _), _)| *place != at);
    }
}
