//! MSI-X: interrupts that a function sends as writes to memory, each of its own.
//!
//! *Interface*: [`Function::msix`] finds the table with everything masked; [`Msix::set`] says where an
//! entry's interrupts go, [`Msix::mask`] stops them, [`hold`] for a while.
//! Source: PCI Local Bus Specification 3.0, section 6.8.2.

use super::{DeviceError, Function};
use crate::registers::Registers;

const ID: u8 = 0x11;
/// Bits of the control word, which is the upper half of the capability's first.
const ENABLE: u32 = 1 << 31;
const ALL_MASKED: u32 = 1 << 30;
/// Bytes of an entry: address in two words, data, control.
const ENTRY: usize = 16;
const MASKED: u32 = 1;

/// A function's table.
#[derive(Clone, Copy)]
pub struct Msix {
    table: Registers,
}

impl Function {
    /// The table, turned on, every entry masked; None for a function without.
    ///
    /// # Errors
    /// [`DeviceError`].
    pub fn msix(&self) -> Result<Option<Msix>, DeviceError> {
        let mut found = None;
        self.capabilities(&mut |capability| {
            if capability.id == ID && found.is_none() {
                found = Some(capability);
            }
        })?;
        let Some(capability) = found else {
            return Ok(None);
        };
        let control = capability.read(0);
        let entries = (control >> 16 & 0x7ff) + 1;
        let place = capability.read(4);
        let len = entries * ENTRY as u32;
        let table = self.registers(place as u8 & 7, place & !7, len)?;
        let table = Msix { table };
        capability.write(0, control | ENABLE | ALL_MASKED);
        (0..table.entries()).for_each(|entry| table.mask(entry));
        capability.write(0, control & !ALL_MASKED | ENABLE);
        Ok(Some(table))
    }
}

impl Msix {
    /// How many entries it has.
    pub fn entries(&self) -> u16 {
        (self.table.len() / ENTRY) as u16
    }

    /// Entry number `entry` writes `data` to `address` from now on.
    pub fn set(&self, entry: u16, (address, data): (u64, u32)) {
        let at = usize::from(entry) * ENTRY;
        self.mask(entry);
        self.table.write(at, address as u32);
        self.table.write(at + 4, (address >> 32) as u32);
        self.table.write(at + 8, data);
        self.table.write(at + 12, 0u32);
    }

    /// Entry number `entry`, for [`hold`].
    pub fn entry(&self, entry: u16) -> Option<Registers> {
        self.table.part(usize::from(entry) * ENTRY, ENTRY)
    }

    /// Entry number `entry` sends nothing.
    pub fn mask(&self, entry: u16) {
        self.table.write(usize::from(entry) * ENTRY + 12, MASKED);
    }
}

/// Entry `entry` of a table keeps its interrupt, or sends it, and the one that it has kept.
pub fn hold(entry: Registers, held: bool) {
    entry.write(12, u32::from(held) * MASKED);
}
