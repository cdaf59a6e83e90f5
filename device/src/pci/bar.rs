//! Base addresses: where a function's registers lie.
//!
//! *Interface*: [`Function::measure`], while no other processor runs; [`Function::bar`], and
//! [`Function::ports`] of one that has its registers at ports;
//! [`Function::registers`] maps them. [`Function::place_all`] gives the
//! registers of a function that came while the machine runs their addresses.
//! Source: PCI Local Bus Specification 3.0, section 6.2.5.1.

use super::{DeviceError, Function};
use crate::ports::Ports;
use crate::registers::Registers;
use core::ops::Range;
use pci_types::{CommandRegister, HeaderType, PciHeader};

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

/// Ports of the board's own chips end below this one.
const FIRST_PORT: u16 = 0x1000;

/// Base addresses that a function can have, and those of a bridge.
const BARS: u8 = 6;
const BARS_OF_BRIDGE: u8 = 2;

/// The contents of a base address.
struct Probed {
    bar: Bar,
    /// The bits that it compares.
    mask: u64,
    wide: bool,
}

impl Function {
    /// Base address number `index`, 0 to 5, if it is one of memory.
    ///
    /// # Errors
    /// [`DeviceError`].
    pub fn bar(&self, index: u8) -> Result<Bar, DeviceError> {
        let Probed { bar, wide, .. } = self.probe(index)?;
        let Bar { physical, size } = bar;
        let limit = if wide { 1 << 52 } else { 1 << 32 };
        match physical.checked_add(size) {
            Some(end) if physical != 0 && end <= limit && physical.is_multiple_of(size) => Ok(bar),
            _ => Err(DeviceError::Place),
        }
    }

    /// The `len` ports from the first one of base address number `index` on, which has to be a multiple of
    /// `len`, a power of two. Ports below [`FIRST_PORT`] are never a function's.
    ///
    /// # Errors
    /// [`DeviceError`].
    pub fn ports(&self, index: u8, len: u16) -> Result<Ports, DeviceError> {
        const PORTS: u32 = 1;
        const FLAGS: u32 = 3;
        if index >= self.bars() {
            return Err(DeviceError::Bar);
        }
        let low = self.read(0x10 + 4 * u16::from(index));
        if low & PORTS == 0 {
            return Err(DeviceError::Bar);
        }
        let first = u16::try_from(low & !FLAGS).map_err(|_| DeviceError::Place)?;
        let fits = first >= FIRST_PORT && first.is_multiple_of(len) && len.is_power_of_two();
        match fits && first.checked_add(len - 1).is_some() {
            true => Ok(Ports::new(first, len)),
            false => Err(DeviceError::Place),
        }
    }

    /// How many base addresses its header has room for.
    fn bars(&self) -> u8 {
        match PciHeader::new(self.at).header_type(self.space) {
            HeaderType::PciPciBridge => BARS_OF_BRIDGE,
            _ => BARS,
        }
    }

    /// The same, wherever it says that it is.
    fn probe(&self, index: u8) -> Result<Probed, DeviceError> {
        const PORTS: u32 = 1;
        const KIND: u32 = 3 << 1;
        const WIDE: u32 = 2 << 1;
        const FLAGS: u64 = 0xf;
        if index >= self.bars() {
            return Err(DeviceError::Bar);
        }
        let offset = 0x10 + 4 * u16::from(index);
        let low = self.read(offset);
        let wide = match low & (PORTS | KIND) {
            0 => false,
            WIDE if index < self.bars() - 1 => true,
            _ => return Err(DeviceError::Bar),
        };
        let high = if wide { self.read(offset + 4) } else { 0 };
        let known = self.space.sizes().of(self.at, index);
        let mask = known.unwrap_or_else(|| self.ask(offset, (low, wide.then_some(high))) & !FLAGS);
        // The lowest bit that it compares.
        let size = mask & mask.wrapping_neg();
        let physical = (u64::from(low) | u64::from(high) << 32) & !FLAGS;
        match size {
            0 => Err(DeviceError::Bar),
            size => Ok(Probed {
                bar: Bar { physical, size },
                mask,
                wide,
            }),
        }
    }

    /// Which bits the base address at `offset` compares, which holds `low`, or these two words.
    fn ask(&self, offset: u16, (low, high): (u32, Option<u32>)) -> u64 {
        // Written ones, it says which bits it compares; meanwhile it must not answer to that address.
        let before = self.read(4) as u16;
        let decoding = CommandRegister::MEMORY_ENABLE | CommandRegister::IO_ENABLE;
        let on = CommandRegister::from_bits_retain(before) & decoding;
        self.command(CommandRegister::empty(), decoding);
        let ask = |offset, value: u32| {
            self.write(offset, u32::MAX);
            let answer = self.read(offset);
            self.write(offset, value);
            u64::from(answer)
        };
        let low = ask(offset, low);
        let high = high.map_or(0, |high| ask(offset + 4, high));
        self.command(on, CommandRegister::empty());
        low | high << 32
    }

    /// Asks for the sizes of its base addresses, which are known from then on.
    pub fn measure(&self) {
        let sizes = self.space.sizes();
        sizes.forget(self.at);
        let mut index = 0;
        while index < self.bars() {
            let Ok(probed) = self.probe(index) else {
                index += 1;
                continue;
            };
            sizes.keep(self.at, index, probed.mask);
            index += if probed.wide { 2 } else { 1 };
        }
    }

    /// Puts all its registers in memory into `room`, which begins behind them afterwards. It must not decode
    /// them yet.
    ///
    /// # Errors
    /// [`DeviceError::Place`] when they do not fit; those before stay where they were put.
    pub fn place_all(&self, room: &mut Range<u64>) -> Result<(), DeviceError> {
        self.measure();
        let mut index = 0;
        while index < self.bars() {
            let probed = match self.probe(index) {
                Ok(probed) => probed,
                // Ports, or nothing.
                Err(_) => {
                    index += 1;
                    continue;
                }
            };
            let size = probed.bar.size;
            let at = room.start.checked_next_multiple_of(size);
            let end = at.and_then(|at| at.checked_add(size));
            let (Some(at), Some(end)) = (at, end.filter(|end| *end <= room.end)) else {
                return Err(DeviceError::Place);
            };
            let offset = 0x10 + 4 * u16::from(index);
            self.write(offset, at as u32);
            if probed.wide {
                self.write(offset + 4, (at >> 32) as u32);
            }
            room.start = end;
            index += if probed.wide { 2 } else { 1 };
        }
        Ok(())
    }

    /// Maps `len` bytes of base address number `index` from `offset` on.
    ///
    /// # Errors
    /// [`DeviceError`]; [`DeviceError::Fit`] also where there is no memory for the tables.
    pub fn registers(&self, index: u8, offset: u32, len: u32) -> Result<Registers, DeviceError> {
        let bar = self.bar(index)?;
        let (offset, wanted) = (u64::from(offset), len as usize);
        if offset + u64::from(len) > bar.size || wanted == 0 || wanted > MOST {
            return Err(DeviceError::Fit);
        }
        Registers::of_device(bar.physical + offset, wanted)
    }
}
