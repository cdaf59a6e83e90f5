//! The modern virtio transport over PCI: finding its register blocks, agreeing on features, and handing it queues.
//!
//! *Interface*: [`Transport::find`], then [`Transport::negotiate`], [`Transport::set_queue`] for each queue, [`Transport::go`]. [`Transport::refuse`] at any time stops the device.
//! Source: Virtual I/O Device (VIRTIO) Version 1.2, sections 3.1 and 4.1.

use super::ring::Ring;
use crate::pci::{Function, Odd};
use crate::registers::Registers;

/// Who makes them all.
pub const VENDOR: u16 = 0x1af4;

/// The feature bit of everything that is here.
const VERSION_1: u64 = 1 << 32;

/// No entry of the table of interrupts.
pub const NO_VECTOR: u16 = 0xffff;

/// Status bits.
const ACKNOWLEDGE: u8 = 1;
const DRIVER: u8 = 2;
const DRIVER_OK: u8 = 4;
const FEATURES_OK: u8 = 8;
const FAILED: u8 = 128;

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
pub struct Transport {
    common: Registers,
    notify: Registers,
    /// Bytes between the registers that queues are announced by.
    step: u32,
    isr: Registers,
    config: Registers,
}

/// Which device a function is, by the number that the standard gives it; None: no virtio device.
pub fn kind(function: &Function) -> Option<u16> {
    const TRANSITIONAL: [(u16, u16); 3] = [(0x1003, 3), (0x1005, 4), (0x1009, 9)];
    const MODERN: u16 = 0x1040;
    let (vendor, id) = function.id();
    if vendor != VENDOR {
        return None;
    }
    let old = TRANSITIONAL.iter().find(|(known, _)| *known == id);
    old.map(|(_, kind)| *kind)
        .or_else(|| (MODERN..MODERN + 0x40).contains(&id).then(|| id - MODERN))
}

/// What a capability says about one block.
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
    /// [`Odd`].
    pub fn find(function: &Function) -> Result<Transport, Odd> {
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
            let block = block.ok_or(Odd::Fit)?;
            if block.len < least {
                return Err(Odd::Fit);
            }
            function.registers(block.bar, block.offset, block.len)
        };
        Ok(Transport {
            common: map(common, common::LEN)?,
            notify: map(notify, 2)?,
            step,
            isr: map(isr, 1)?,
            config: match config {
                Some(_) => map(config, 1)?,
                None => Registers::NONE,
            },
        })
    }

    fn status(&self) -> u8 {
        self.common.read(common::STATUS)
    }

    fn set_status(&self, bits: u8) {
        self.common.write(common::STATUS, bits);
    }

    /// Resets the device and agrees on those of `wanted` that it offers, which are returned.
    ///
    /// # Errors
    /// [`Odd::Gone`] when it does not come back from its reset, [`Odd::Fit`] when it is older than the standard, or refuses.
    pub fn negotiate(&self, wanted: u64) -> Result<u64, Odd> {
        const PATIENCE: usize = 10_000;
        self.set_status(0);
        if !(0..PATIENCE).any(|_| self.status() == 0) {
            return Err(Odd::Gone);
        }
        self.set_status(ACKNOWLEDGE);
        self.set_status(ACKNOWLEDGE | DRIVER);
        let half = |number: u32| {
            self.common.write(common::DEVICE_FEATURE_SELECT, number);
            u64::from(self.common.read::<u32>(common::DEVICE_FEATURE))
        };
        let agreed = (half(0) | half(1) << 32) & (wanted | VERSION_1);
        for (number, bits) in [(0u32, agreed), (1, agreed >> 32)] {
            self.common.write(common::DRIVER_FEATURE_SELECT, number);
            self.common.write(common::DRIVER_FEATURE, bits as u32);
        }
        self.set_status(ACKNOWLEDGE | DRIVER | FEATURES_OK);
        if agreed & VERSION_1 == 0 || self.status() & FEATURES_OK == 0 {
            self.refuse();
            return Err(Odd::Fit);
        }
        Ok(agreed)
    }

    /// How many queues it has.
    pub fn queues(&self) -> u16 {
        self.common.read(common::QUEUES)
    }

    /// Gives it `ring` as queue number `queue`, whose interrupts go by entry `vector` of its table. Returns the register that announces
    /// buffers.
    ///
    /// # Errors
    /// [`Odd::Fit`].
    pub fn set_queue(&self, queue: u16, ring: &Ring, vector: u16) -> Result<Registers, Odd> {
        let c = self.common;
        c.write(common::QUEUE_SELECT, queue);
        let most: u16 = c.read(common::QUEUE_SIZE);
        if queue >= self.queues() || most < ring.size() {
            return Err(Odd::Fit);
        }
        c.write(common::QUEUE_SIZE, ring.size());
        c.write(common::QUEUE_VECTOR, vector);
        if c.read::<u16>(common::QUEUE_VECTOR) != vector {
            return Err(Odd::Fit);
        }
        let places = [
            (common::QUEUE_DESCRIPTORS, ring.descriptors()),
            (common::QUEUE_AVAILABLE, ring.available()),
            (common::QUEUE_USED, ring.used()),
        ];
        for (register, physical) in places {
            c.write(register, physical as u32);
            c.write(register + 4, (physical >> 32) as u32);
        }
        let place = u64::from(c.read::<u16>(common::QUEUE_NOTIFY)) * u64::from(self.step);
        let place = usize::try_from(place).map_err(|_| Odd::Fit)?;
        let register = self.notify.part(place, 2).ok_or(Odd::Fit)?;
        c.write(common::QUEUE_ENABLE, 1u16);
        Ok(register)
    }

    /// Interrupts about the device itself go by entry `vector` of its table.
    pub fn set_config_vector(&self, vector: u16) {
        self.common.write(common::CONFIG_VECTOR, vector);
    }

    /// Everything is set: the device may begin.
    pub fn go(&self) {
        self.set_status(ACKNOWLEDGE | DRIVER | FEATURES_OK | DRIVER_OK);
    }

    /// The driver gives up; the device touches no memory any more.
    pub fn refuse(&self) {
        self.set_status(0);
        self.set_status(FAILED);
    }

    /// A word of what is particular to the kind of device.
    pub fn config(&self, offset: usize) -> u32 {
        self.config.read(offset)
    }

    /// A byte of the same.
    pub fn config_byte(&self, offset: usize) -> u8 {
        self.config.read(offset)
    }

    /// Address of the register that says whether its line is its own doing, for generated code.
    pub fn isr(&self) -> Option<i32> {
        self.isr.address(0, 1)
    }
}
