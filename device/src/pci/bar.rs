//! Base addresses: where a function's registers lie.
//!
//! *Interface*: [`Function::bar`].
//! Source: PCI Local Bus Specification 3.0, section 6.2.5.1.

use super::{Function, Odd};
use crate::registers::Registers;
use machine::boot;
use pci_types::CommandRegister;

/// Registers in memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bar {
    /// Physical address of the first one.
    pub physical: u64,
    /// How many bytes there are.
    pub size: u64,
}

/// As much is mapped of one function: no driver here needs more.
const MOST: usize = 1 << 20;

impl Function {
    /// Base address number `index`, 0 to 5, if it is one of memory.
    ///
    /// # Errors
    /// [`Odd`].
    pub fn bar(&self, index: u8) -> Result<Bar, Odd> {
        const PORTS: u32 = 1;
        const KIND: u32 = 3 << 1;
        const WIDE: u32 = 2 << 1;
        const FLAGS: u64 = 0xf;
        if index > 5 {
            return Err(Odd::Bar);
        }
        let offset = 0x10 + 4 * u16::from(index);
        let low = self.read(offset);
        let wide = match low & (PORTS | KIND) {
            0 => false,
            WIDE if index < 5 => true,
            _ => return Err(Odd::Bar),
        };
        let high = if wide { self.read(offset + 4) } else { 0 };
        // Written ones, it says which bits it compares; meanwhile it must not answer to that address.
        let before = self.read(4) as u16;
        let decoding = CommandRegister::MEMORY_ENABLE | CommandRegister::IO_ENABLE;
        let on = CommandRegister::from_bits_retain(before) & decoding;
        self.command(CommandRegister::empty(), decoding);
        let ask = |offset, value: u32| {
            self.write(offset, u32::MAX);
            let answer = self.read(offset);
            self.write(offset, value);
            answer
        };
        let mut mask = u64::from(ask(offset, low)) & !FLAGS;
        if wide {
            mask |= u64::from(ask(offset + 4, high)) << 32;
        }
        self.command(on, CommandRegister::empty());
        // The lowest bit that it compares.
        let size = mask & mask.wrapping_neg();
        let physical = (u64::from(low) | u64::from(high) << 32) & !FLAGS;
        let limit = if wide { 1 << 52 } else { 1 << 32 };
        match physical.checked_add(size) {
            _ if size == 0 => Err(Odd::Bar),
            Some(end) if physical != 0 && end <= limit && physical.is_multiple_of(size) => {
                Ok(Bar { physical, size })
            }
            _ => Err(Odd::Place),
        }
    }

    /// Maps `len` bytes of base address number `index` from `offset` on.
    ///
    /// # Errors
    /// [`Odd`]; [`Odd::Fit`] also where there is no memory for the tables.
    pub fn registers(&self, index: u8, offset: u32, len: u32) -> Result<Registers, Odd> {
        let bar = self.bar(index)?;
        let (offset, wanted) = (u64::from(offset), len as usize);
        if offset + u64::from(len) > bar.size || wanted == 0 || wanted > MOST {
            return Err(Odd::Fit);
        }
        let start = bar.physical + offset;
        let end = start + u64::from(len);
        let covers = |region: &boot::Region| {
            region.kind == boot::Kind::Usable
                && (region.start as u64) < end
                && start < region.end() as u64
        };
        if boot::info().memory.iter().any(covers) {
            return Err(Odd::Place);
        }
        Registers::map(start, wanted).ok_or(Odd::Fit)
    }
}
