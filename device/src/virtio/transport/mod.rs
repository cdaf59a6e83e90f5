//! The modern virtio transport: agreeing on features, and handing a device queues, whatever bus it stands on.
//!
//! *Interface*: [`Transport::of_function`] finds the registers of one on PCI (`pci.rs`), [`Transport::at`] of
//! one that has them in memory and stands on no bus (`mmio.rs`); then [`Transport::negotiate`],
//! [`Transport::set_queue`] for each queue, which gives the [`Doorbell`] that announces it,
//! [`Transport::go`]. [`Transport::stop`] at any time. Source: Virtual I/O Device (VIRTIO) Version 1.2,
//! sections 3.1 and 4.

mod mmio;
mod pci;

use super::virtqueue::Virtqueue;
use crate::interrupt::Asks;
use crate::pci::{DeviceError, Function};
use crate::registers::Registers;
use codegen::{Draft, dynasm};

pub use mmio::named;
pub use pci::kind;

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

/// How often a device is asked whether it has reset itself.
const PATIENCE: usize = 10_000;

/// The registers of one device.
#[derive(Clone, Copy)]
pub struct Transport {
    bus: Bus,
    config: Registers,
}

#[derive(Clone, Copy)]
enum Bus {
    Pci(pci::Blocks),
    Mmio(mmio::Block),
}

/// Physical addresses of a ring's parts: descriptors, what the driver writes, what the device writes.
type Parts = [u64; 3];

/// The register that announces a queue, and what is written there.
#[derive(Clone, Copy)]
pub struct Doorbell {
    register: Registers,
    queue: u16,
    /// The register has 32 bits, not 16.
    wide: bool,
}

impl Doorbell {
    /// That of a test's device.
    #[cfg(test)]
    pub fn model(register: Registers, queue: u16) -> Doorbell {
        Doorbell {
            register,
            queue,
            wide: false,
        }
    }

    /// Announces buffers.
    pub fn ring(&self) {
        match self.wide {
            true => self.register.write(0, u32::from(self.queue)),
            false => self.register.write(0, self.queue),
        }
    }

    /// The register's address, for [`Doorbell::emit`]. None: not near.
    pub fn address(&self) -> Option<i32> {
        self.register.address(0, if self.wide { 4 } else { 2 })
    }

    /// Emits [`Doorbell::ring`]; `at` is [`Doorbell::address`].
    pub fn emit(&self, d: &mut Draft, at: i32) {
        match self.wide {
            true => dynasm!(d ; .arch x64 ; mov DWORD [at], i32::from(self.queue)),
            false => dynasm!(d ; .arch x64 ; mov WORD [at], self.queue as i16),
        }
    }
}

impl Transport {
    fn status(&self) -> u8 {
        match &self.bus {
            Bus::Pci(blocks) => blocks.status(),
            Bus::Mmio(block) => block.status(),
        }
    }

    fn set_status(&self, bits: u8) {
        match &self.bus {
            Bus::Pci(blocks) => blocks.set_status(bits),
            Bus::Mmio(block) => block.set_status(bits),
        }
    }

    /// Half of the features that it offers.
    fn offered(&self, half: u32) -> u32 {
        match &self.bus {
            Bus::Pci(blocks) => blocks.offered(half),
            Bus::Mmio(block) => block.offered(half),
        }
    }

    fn accept(&self, half: u32, bits: u32) {
        match &self.bus {
            Bus::Pci(blocks) => blocks.accept(half, bits),
            Bus::Mmio(block) => block.accept(half, bits),
        }
    }

    /// Resets the device. False: nothing is there.
    fn reset(&self) -> bool {
        self.set_status(0);
        let mut answers = (0..PATIENCE).map(|_| self.status());
        // All ones means no device: no device sets every bit.
        answers.find(|bits| matches!(*bits, 0 | u8::MAX)) == Some(0)
    }

    /// Resets the device and agrees on those of `wanted` that it offers, which are returned.
    ///
    /// # Errors
    /// [`DeviceError::Gone`] when it does not come back from its reset, [`DeviceError::Fit`] when it is older
    /// than the standard, or refuses.
    pub fn negotiate(&self, wanted: u64) -> Result<u64, DeviceError> {
        if !self.reset() {
            return Err(DeviceError::Gone);
        }
        self.set_status(ACKNOWLEDGE);
        self.set_status(ACKNOWLEDGE | DRIVER);
        let agreed =
            (u64::from(self.offered(0)) | u64::from(self.offered(1)) << 32) & (wanted | VERSION_1);
        self.accept(0, agreed as u32);
        self.accept(1, (agreed >> 32) as u32);
        self.set_status(ACKNOWLEDGE | DRIVER | FEATURES_OK);
        if agreed & VERSION_1 == 0 || self.status() & FEATURES_OK == 0 {
            self.refuse();
            return Err(DeviceError::Fit);
        }
        Ok(agreed)
    }

    /// Gives it `ring` as queue number `queue`, whose interrupts go by entry `vector` of its table, if it has
    /// one.
    ///
    /// # Errors
    /// [`DeviceError::Fit`].
    pub fn set_queue(
        &self,
        queue: u16,
        ring: &Virtqueue,
        vector: u16,
    ) -> Result<Doorbell, DeviceError> {
        let parts = [ring.descriptors(), ring.available(), ring.used()];
        match &self.bus {
            Bus::Pci(blocks) => blocks.set_queue(queue, ring.size(), parts, vector),
            Bus::Mmio(block) => block.set_queue(queue, ring.size(), parts),
        }
    }

    /// Interrupts about the device itself go by entry `vector` of its table, if it has one.
    pub fn set_config_vector(&self, vector: u16) {
        if let Bus::Pci(blocks) = &self.bus {
            blocks.set_config_vector(vector);
        }
    }

    /// Everything is set: the device may begin.
    pub fn go(&self) {
        self.set_status(ACKNOWLEDGE | DRIVER | FEATURES_OK | DRIVER_OK);
    }

    /// The driver gives up; the device touches no memory any more.
    pub fn refuse(&self) {
        self.stop();
        self.set_status(FAILED);
    }

    /// The device no longer accesses memory or interrupts.
    pub fn stop(&self) {
        self.reset();
        if let Bus::Pci(blocks) = &self.bus {
            blocks.function.disable();
        }
    }

    /// A word of what is particular to the kind of device.
    pub fn config(&self, offset: usize) -> u32 {
        self.config.read(offset)
    }

    /// A byte of the same.
    pub fn config_byte(&self, offset: usize) -> u8 {
        self.config.read(offset)
    }

    /// Writes a word of the same.
    pub fn set_config(&self, offset: usize, value: u32) {
        self.config.write(offset, value);
    }

    /// The function on the bus that it is, if it is one.
    pub fn function(&self) -> Option<&Function> {
        match &self.bus {
            Bus::Pci(blocks) => Some(&blocks.function),
            Bus::Mmio(_) => None,
        }
    }

    /// Its line, a global interrupt number, and the registers by which that is asked.
    pub fn line(&self) -> Option<(u32, Asks)> {
        match &self.bus {
            Bus::Pci(blocks) => blocks.line(),
            Bus::Mmio(block) => block.line(),
        }
    }
}

#[cfg(test)]
mod tests;
