//! Over PCI: blocks of registers that a list of capabilities names.
//! Source: Virtual I/O Device (VIRTIO) Version 1.2, section 4.1.

use super::{Bus, Doorbell, Parts, Transport};
use crate::interrupt::Asks;
use crate::pci::{DeviceError, Function};
use crate::registers::Registers;
use machine::irq;

/// Their vendor number.
pub const VENDOR: u16 = 0x1af4;

/// Offsets of the common registers (section 4.1.4.3).
mod common {
    pub const DEVICE_FEATURE_SELECT: usize = 0;
    pub const DEVICE_FEATURE: usize = 4;
    pub const DRIVER_FEATURE_SELECT: usize = 8;
    pub const DRIVER_FEATURE: usize = 12;
    pub const CONFIG_VECTOR: usize = 16;
    pub const QUEUES: usize = 18;
    pub const STATUS: usize = 20;
    pub const QUEUE_SELECT: usize = 22;
    pub const QUEUE_SIZE: usize = 24;
    pub const QUEUE_VECTOR: usize = 26;
    pub const QUEUE_ENABLE: usize = 28;
    pub const QUEUE_NOTIFY: usize = 30;
    pub const QUEUE_DESCRIPTORS: usize = 32;
    pub const QUEUE_AVAILABLE: usize = 40;
    pub const QUEUE_USED: usize = 48;
    pub const LEN: u32 = 56;
}

/// The register blocks of one device.
#[derive(Clone, Copy)]
pub struct Blocks {
    /// Their function.
    pub function: Function,
    common: Registers,
    notify: Registers,
    /// Bytes between the registers that queues are announced by.
    step: u32,
    isr: Registers,
}

/// Which device a function is, by the number that the standard gives it; None: no virtio device.
pub fn kind(function: &Function) -> Option<u16> {
    const TRANSITIONAL: [(u16, u16); 4] = [(0x1002, 5), (0x1003, 3), (0x1005, 4), (0x1009, 9)];
    const MODERN: u16 = 0x1040;
    let (vendor, id) = function.id();
    if vendor != VENDOR {
        return None;
    }
    let old = TRANSITIONAL.iter().find(|(known, _)| *known == id);
    old.map(|(_, kind)| *kind)
        .or_else(|| (MODERN..MODERN + 0x40).contains(&id).then(|| id - MODERN))
}

/// The description of one block in a capability.
#[derive(Clone, Copy)]
struct Block {
    bar: u8,
    offset: u32,
    len: u32,
}

impl Transport {
    /// The blocks of `function`, the first of each kind.
    ///
    /// # Errors
    /// [`DeviceError`].
    pub fn of_function(function: &Function) -> Result<Transport, DeviceError> {
        const VENDOR_SPECIFIC: u8 = 9;
        let [mut common, mut notify, mut isr, mut config]: [Option<Block>; 4] = [None; 4];
        let mut step = 0;
        function.capabilities(&mut |capability| {
            let [_, _, len, kind] = capability.read(0).to_le_bytes();
            if capability.id != VENDOR_SPECIFIC || len < 16 {
                return;
            }
            let block = Block {
                bar: capability.read(4) as u8,
                offset: capability.read(8),
                len: capability.read(12),
            };
            match kind {
                1 => common = common.or(Some(block)),
                2 if notify.is_none() && len >= 20 => {
                    notify = Some(block);
                    step = capability.read(16);
                }
                3 => isr = isr.or(Some(block)),
                4 => config = config.or(Some(block)),
                _ => {}
            }
        })?;
        let map = |block: Option<Block>, least| {
            let block = block.ok_or(DeviceError::Fit)?;
            if block.len < least {
                return Err(DeviceError::Fit);
            }
            function.registers(block.bar, block.offset, block.len)
        };
        let blocks = Blocks {
            function: *function,
            common: map(common, common::LEN)?,
            notify: map(notify, 2)?,
            step,
            isr: map(isr, 1)?,
        };
        Ok(Transport {
            bus: Bus::Pci(blocks),
            config: match config {
                Some(_) => map(config, 1)?,
                None => Registers::NONE,
            },
        })
    }
}

impl Blocks {
    pub fn status(&self) -> u8 {
        self.common.read(common::STATUS)
    }

    pub fn set_status(&self, bits: u8) {
        self.common.write(common::STATUS, bits);
    }

    pub fn offered(&self, half: u32) -> u32 {
        self.common.write(common::DEVICE_FEATURE_SELECT, half);
        self.common.read(common::DEVICE_FEATURE)
    }

    pub fn accept(&self, half: u32, bits: u32) {
        self.common.write(common::DRIVER_FEATURE_SELECT, half);
        self.common.write(common::DRIVER_FEATURE, bits);
    }

    pub fn set_queue(
        &self,
        queue: u16,
        size: u16,
        at: Parts,
        vector: u16,
    ) -> Result<Doorbell, DeviceError> {
        let c = self.common;
        c.write(common::QUEUE_SELECT, queue);
        let most: u16 = c.read(common::QUEUE_SIZE);
        if queue >= c.read::<u16>(common::QUEUES) || most < size {
            return Err(DeviceError::Fit);
        }
        c.write(common::QUEUE_SIZE, size);
        c.write(common::QUEUE_VECTOR, vector);
        if c.read::<u16>(common::QUEUE_VECTOR) != vector {
            return Err(DeviceError::Fit);
        }
        let registers = [
            common::QUEUE_DESCRIPTORS,
            common::QUEUE_AVAILABLE,
            common::QUEUE_USED,
        ];
        for (register, physical) in registers.into_iter().zip(at) {
            c.write(register, physical as u32);
            c.write(register + 4, (physical >> 32) as u32);
        }
        let place = u64::from(c.read::<u16>(common::QUEUE_NOTIFY)) * u64::from(self.step);
        let place = usize::try_from(place).map_err(|_| DeviceError::Fit)?;
        let register = self.notify.part(place, 2).ok_or(DeviceError::Fit)?;
        c.write(common::QUEUE_ENABLE, 1u16);
        Ok(Doorbell {
            register,
            queue,
            wide: false,
        })
    }

    pub fn set_config_vector(&self, vector: u16) {
        self.common.write(common::CONFIG_VECTOR, vector);
    }

    pub fn line(&self) -> Option<(u32, Asks)> {
        let asks = Asks::DmaMemory {
            status: self.isr.address(0, 1)?,
            acknowledge: None,
        };
        Some((irq::isa(self.function.line()?), asks))
    }
}
