//! Where the firmware has put the configuration space of PCI's devices.
//!
//! *Interface*: [`config_space`]; the room of devices maps it.
//! Source: PCI Firmware Specification 3.0, section 4.1.2 (MCFG).

use core::sync::atomic::{AtomicU64, Ordering};

/// The configuration space of one segment: 1 MiB for each bus, one behind the other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ConfigSpace {
    /// Physical address of bus 0's, whether or not there is a bus 0.
    pub physical: u64,
    /// The first bus that is there.
    pub first_bus: u8,
    /// The last one that may be.
    pub last_bus: u8,
}

/// Address and both buses in one word: the address is that of a megabyte. 0: none.
static FOUND: AtomicU64 = AtomicU64::new(0);

/// Notes what the tables say, at boot.
#[cfg_attr(not(target_os = "none"), allow(dead_code))]
pub(crate) fn set_config_space(space: ConfigSpace) {
    let buses = u64::from(space.last_bus) << 8 | u64::from(space.first_bus);
    if space.physical.is_multiple_of(1 << 20) && space.first_bus <= space.last_bus {
        FOUND.store(space.physical | buses, Ordering::Relaxed);
    }
}

/// The first segment's, on a machine that has PCI Express.
pub fn config_space() -> Option<ConfigSpace> {
    let word = FOUND.load(Ordering::Relaxed);
    (word != 0).then_some(ConfigSpace {
        physical: word & !0xffff,
        first_bus: word as u8,
        last_bus: (word >> 8) as u8,
    })
}
