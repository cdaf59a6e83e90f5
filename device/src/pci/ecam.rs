//! PCI's configuration space in memory (ECAM): a page for each function.
//!
//! *Interface*: [`Ecam`] is the machine's. A bus is mapped when it is first asked for, 1 MiB; an absent
//! function reads as all ones, as on the bus itself.
//! Source: PCI Express Base Specification, section 7.2.2.
//!
//! *Unsafe*: the trait's functions, which are safe here.

use super::{ConfigAccess, Sizes};
use crate::registers::Registers;
use machine::pci::ConfigSpace;
use pci_types::{ConfigRegionAccess, PciAddress};
use sync::Monitor;

/// Buses that may be mapped: enough for a few bridges.
const BUSES: usize = 16;

/// The configuration space of the machine's first segment.
pub struct Ecam {
    space: ConfigSpace,
    mapped: Monitor<[Option<(u8, Registers)>; BUSES]>,
    sizes: Sizes,
}

impl Ecam {
    /// That of `space`.
    pub const fn new(space: ConfigSpace) -> Ecam {
        Ecam {
            space,
            mapped: Monitor::new([None; BUSES]),
            sizes: Sizes::new(),
        }
    }

    /// The functions of `bus`.
    fn bus(&self, bus: u8) -> Option<Registers> {
        if !(self.space.first_bus..=self.space.last_bus).contains(&bus) {
            return None;
        }
        // Bound: mapping one bus, 256 pages, the first time; at boot.
        let mut mapped = self.mapped.lock();
        for slot in mapped.iter_mut() {
            match slot {
                Some((number, registers)) if *number == bus => return Some(*registers),
                Some(_) => {}
                None => {
                    let at = self.space.physical.checked_add(u64::from(bus) << 20)?;
                    let registers = Registers::map(at, 1 << 20)?;
                    *slot = Some((bus, registers));
                    return Some(registers);
                }
            }
        }
        None
    }

    fn word(&self, at: PciAddress, offset: u16) -> Option<(Registers, usize)> {
        let bus = (at.segment() == 0).then(|| self.bus(at.bus())).flatten()?;
        let function = usize::from(at.device()) << 15 | usize::from(at.function()) << 12;
        Some((bus.part(function, 1 << 12)?, usize::from(offset)))
    }
}

impl ConfigAccess for Ecam {
    fn write_half(&self, at: PciAddress, offset: u16, value: u16) {
        if let Some((function, offset)) = self.word(at, offset & !1) {
            function.write(offset, value);
        }
    }

    fn sizes(&self) -> &Sizes {
        &self.sizes
    }
}

impl ConfigRegionAccess for Ecam {
    unsafe fn read(&self, at: PciAddress, offset: u16) -> u32 {
        self.word(at, offset & !3)
            .map_or(u32::MAX, |(function, offset)| function.read(offset))
    }

    unsafe fn write(&self, at: PciAddress, offset: u16, value: u32) {
        if let Some((function, offset)) = self.word(at, offset & !3) {
            function.write(offset, value);
        }
    }
}
