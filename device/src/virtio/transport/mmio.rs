//! Registers in memory, on no bus: where they lie, and the line, the kernel's command line says.
//!
//! *Interface*: [`Transport::at`]; [`named`] reads the words.
//! Source: Virtual I/O Device (VIRTIO) Version 1.2, section 4.2; the words are as in Linux's
//! `drivers/virtio/virtio_mmio.c`.

use super::{Bus, Doorbell, Parts, Transport};
use crate::interrupt::Asks;
use crate::pci::DeviceError;
use crate::registers::Registers;

const MAGIC: usize = 0;
const VERSION: usize = 4;
const KIND: usize = 8;
const DEVICE_FEATURES: usize = 0x10;
const DEVICE_FEATURES_SELECT: usize = 0x14;
const DRIVER_FEATURES: usize = 0x20;
const DRIVER_FEATURES_SELECT: usize = 0x24;
const QUEUE_SELECT: usize = 0x30;
const QUEUE_MOST: usize = 0x34;
const QUEUE_SIZE: usize = 0x38;
const QUEUE_READY: usize = 0x44;
const QUEUE_NOTIFY: usize = 0x50;
const INTERRUPT_STATUS: usize = 0x60;
const INTERRUPT_ACKNOWLEDGE: usize = 0x64;
const STATUS: usize = 0x70;
const QUEUE_DESCRIPTORS: usize = 0x80;
const QUEUE_AVAILABLE: usize = 0x90;
const QUEUE_USED: usize = 0xa0;
const CONFIG: usize = 0x100;

/// The registers before those of the kind, and the line.
#[derive(Clone, Copy)]
pub struct Block {
    registers: Registers,
    line: u32,
}

/// A device's place, from a word of the command line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Named {
    /// Where its registers begin.
    pub physical: u64,
    /// How many bytes of them there are.
    pub len: u64,
    /// Its line, a global interrupt number.
    pub line: u32,
}

/// A number, decimal or with `0x`, and a letter that multiplies it.
fn number(text: &str) -> Option<u64> {
    let (digits, shift) = match text.as_bytes().last()? | 0x20 {
        b'k' => (&text[..text.len() - 1], 10),
        b'm' => (&text[..text.len() - 1], 20),
        _ => (text, 0),
    };
    let value = match digits.strip_prefix("0x") {
        Some(digits) => u64::from_str_radix(digits, 16),
        None => digits.parse(),
    };
    value.ok()?.checked_mul(1 << shift)
}

/// The places for devices that the command line `line` names:
/// `virtio_mmio.device=SIZE@ADDRESS:INTERRUPT[:NUMBER]`. A word that makes no sense names nothing.
pub fn named(line: &str) -> impl Iterator<Item = Named> {
    line.split_ascii_whitespace().filter_map(|word| {
        let (len, place) = word.strip_prefix("virtio_mmio.device=")?.split_once('@')?;
        let mut parts = place.split(':');
        Some(Named {
            len: number(len)?,
            physical: number(parts.next()?)?,
            line: u32::try_from(number(parts.next()?)?).ok()?,
        })
    })
}

impl Transport {
    /// The device at `named`, and which one it is by the number that the standard gives it. None: there is no
    /// device.
    ///
    /// # Errors
    /// [`DeviceError`].
    pub fn at(named: Named) -> Result<Option<(Transport, u16)>, DeviceError> {
        /// As much is mapped.
        const MOST: u64 = 1 << 20;
        if named.len <= CONFIG as u64 || named.len > MOST {
            return Err(DeviceError::Fit);
        }
        let registers = Registers::of_device(named.physical, named.len as usize)?;
        Self::behind(registers, named.line)
    }

    /// The same, mapped.
    pub(super) fn behind(
        registers: Registers,
        line: u32,
    ) -> Result<Option<(Transport, u16)>, DeviceError> {
        const SAYS: u32 = u32::from_le_bytes(*b"virt");
        const MODERN: u32 = 2;
        if registers.read::<u32>(MAGIC) != SAYS {
            return Err(DeviceError::Fit);
        }
        let kind: u32 = registers.read(KIND);
        if kind == 0 {
            return Ok(None);
        }
        if registers.read::<u32>(VERSION) != MODERN {
            return Err(DeviceError::Fit);
        }
        let config = registers
            .len()
            .checked_sub(CONFIG)
            .ok_or(DeviceError::Fit)?;
        let transport = Transport {
            bus: Bus::Mmio(Block { registers, line }),
            config: registers.part(CONFIG, config).ok_or(DeviceError::Fit)?,
        };
        let kind = u16::try_from(kind).map_err(|_| DeviceError::Fit)?;
        Ok(Some((transport, kind)))
    }
}

impl Block {
    /// One whose registers are these.
    #[cfg(test)]
    pub fn model(registers: Registers) -> Block {
        Block { registers, line: 0 }
    }

    pub fn status(&self) -> u8 {
        self.registers.read::<u32>(STATUS) as u8
    }

    pub fn set_status(&self, bits: u8) {
        self.registers.write(STATUS, u32::from(bits));
    }

    pub fn offered(&self, half: u32) -> u32 {
        self.registers.write(DEVICE_FEATURES_SELECT, half);
        self.registers.read(DEVICE_FEATURES)
    }

    pub fn accept(&self, half: u32, bits: u32) {
        self.registers.write(DRIVER_FEATURES_SELECT, half);
        self.registers.write(DRIVER_FEATURES, bits);
    }

    pub fn set_queue(&self, queue: u16, size: u16, at: Parts) -> Result<Doorbell, DeviceError> {
        let r = self.registers;
        r.write(QUEUE_SELECT, u32::from(queue));
        let most: u32 = r.read(QUEUE_MOST);
        if most < u32::from(size) || r.read::<u32>(QUEUE_READY) != 0 {
            return Err(DeviceError::Fit);
        }
        r.write(QUEUE_SIZE, u32::from(size));
        let places = [QUEUE_DESCRIPTORS, QUEUE_AVAILABLE, QUEUE_USED];
        for (register, physical) in places.into_iter().zip(at) {
            r.write(register, physical as u32);
            r.write(register + 4, (physical >> 32) as u32);
        }
        r.write(QUEUE_READY, 1u32);
        Ok(Doorbell {
            register: r.part(QUEUE_NOTIFY, 4).ok_or(DeviceError::Fit)?,
            queue,
            wide: true,
        })
    }

    pub fn line(&self) -> Option<(u32, Asks)> {
        let asks = Asks::DmaMemory {
            status: self.registers.address(INTERRUPT_STATUS, 4)?,
            acknowledge: Some(self.registers.address(INTERRUPT_ACKNOWLEDGE, 4)?),
        };
        Some((self.line, asks))
    }
}
