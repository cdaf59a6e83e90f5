//! The bus and the devices on it: protocol from third-party crates where one fits, data path synthesized
//! (dissertation, 4.4.2).
//!
//! *Interface*: [`start`] finds the devices on the bus and starts those with a driver, [`attend`] handles
//! devices that are added or removed later; [`start_line`] is for the 16550 lines ([`serial`]), which are on
//! no bus; [`registry`], the symbol table by which the rooms above find a device; [`stream`], their interface
//! to a device that carries bytes. Drivers wake threads only through `sync`'s wait lists, and chain
//! procedures through [`callouts`].
#![cfg_attr(not(test), no_std)]

extern crate alloc;

mod ac97;
mod bus;
pub mod callouts;
mod deferred_work;
mod dma;
mod error;
mod handler;
mod hda;
pub mod interrupt;
pub mod interrupt_storm;
pub mod pci;
mod ports;
mod registers;
pub mod registry;
pub mod serial;
pub mod sound;
pub mod stream;
pub mod virtio;

pub use bus::{BusAddress, attend, for_each, may_change, measure, start};
pub use deferred_work::{changes, pending};

use quaject::queue::Parties;

/// Why a device cannot be used.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unusable {
    /// Nothing answers.
    Absent,
    /// No interrupt vector, no memory, or no code memory.
    Resources,
    /// The device's description of itself makes no sense, or the driver does not know it.
    DeviceError(pci::DeviceError),
}

impl From<codegen::OutOfCode> for Unusable {
    fn from(_: codegen::OutOfCode) -> Self {
        Unusable::Resources
    }
}

impl From<quaject::RoutineError> for Unusable {
    fn from(_: quaject::RoutineError) -> Self {
        Unusable::Resources
    }
}

impl From<quaject::class::OutOfMemory> for Unusable {
    fn from(_: quaject::class::OutOfMemory) -> Self {
        Unusable::Resources
    }
}

impl From<pci::DeviceError> for Unusable {
    fn from(odd: pci::DeviceError) -> Self {
        Unusable::DeviceError(odd)
    }
}

/// Starts a serial line and enters it among the [`registry`]. No source of it is on yet. `readers` is how
/// many threads may read. Once for each line.
///
/// # Errors
/// [`Unusable`].
pub fn start_line(line: &'static serial::Serial, readers: Parties) -> Result<(), Unusable> {
    line.start(readers)?;
    Ok(registry::add(line.name(), registry::Device::Serial(line))?)
}

/// Calls `f` with name, vector and number of the interrupts that each device's generated handler has taken
/// since boot.
pub fn interrupts(mut f: impl FnMut(&str, u8, u64)) {
    for line in serial::LINES {
        if let Some((vector, count)) = line.interrupts() {
            f(line.name(), vector, count);
        }
    }
    interrupt::for_each(&mut f);
}
