//! PCI: which functions there are, where their registers lie, and how they interrupt.
//!
//! *Interface*: [`Function`] is one function of a device, behind any [`ConfigAccess`]; [`each`] finds all of
//! them, [`each_on`] those of one bus. [`Slot`] is where a device can come and go while the machine runs.
//! [`Function::bar`], [`Function::capabilities`] and [`Function::msix`] check a device's description of
//! itself: an invalid one is [`DeviceError`], never a panic and never a loop.
//!
//! `pci_types` knows the layout of headers and commands. Its own readers of base addresses and capabilities
//! panic on a reserved kind or a mask of zero, and do not end where a list leads back to itself; so these two
//! are here.
//! Source: PCI Local Bus Specification 3.0, chapter 6.
//!
//! *Unsafe*: words of configuration space.

mod bar;
mod capability;
mod ecam;
#[cfg(test)]
pub mod model;
mod msi;
mod msix;
mod sizes;
mod slot;

pub use crate::error::DeviceError;
pub use bar::Bar;
pub use capability::Capability;
pub use ecam::Ecam;
pub use msi::Msi;
pub use msix::{Msix, hold};
pub use sizes::Sizes;
pub use slot::{Change, Slot};

use pci_types::{
    CommandRegister, ConfigRegionAccess, HeaderType, PciAddress, PciHeader, PciPciBridgeHeader,
};

/// Configuration space: the machine's, or a model.
pub trait ConfigAccess: ConfigRegionAccess + Sync {
    /// Writes half a word, where the other half would take something back that it has said.
    fn write_half(&self, at: PciAddress, offset: u16, value: u16);

    /// The sizes that its functions' base addresses have told.
    fn sizes(&self) -> &Sizes;
}

/// One function of a device.
#[derive(Clone, Copy)]
pub struct Function {
    space: &'static dyn ConfigAccess,
    at: PciAddress,
}

impl Function {
    /// The function at `at`.
    pub fn new(space: &'static dyn ConfigAccess, at: PciAddress) -> Function {
        Function { space, at }
    }

    /// Where it is: bus, device, function.
    pub fn address(&self) -> PciAddress {
        self.at
    }

    /// Its vendor and device numbers.
    pub fn id(&self) -> (u16, u16) {
        PciHeader::new(self.at).id(self.space)
    }

    /// Base class and subclass.
    pub fn class(&self) -> (u8, u8) {
        let (_, base, sub, _) = PciHeader::new(self.at).revision_and_class(self.space);
        (base, sub)
    }

    /// Reads a word of its configuration.
    fn read(&self, offset: u16) -> u32 {
        // SAFETY: every function has these words; reading them changes nothing.
        unsafe { self.space.read(self.at, offset & 0xffc) }
    }

    /// Writes a word of its configuration.
    fn write(&self, offset: u16, value: u32) {
        // SAFETY: the callers are this folder's: base addresses while decoding is off, commands, and the
        // interrupts' switches.
        unsafe { self.space.write(self.at, offset & 0xffc, value) }
    }

    /// Writes half a word of it.
    fn write_half(&self, offset: u16, value: u16) {
        self.space.write_half(self.at, offset & 0xffe, value);
    }

    /// Turns parts of its command register on and others off.
    fn command(&self, on: CommandRegister, off: CommandRegister) {
        PciHeader::new(self.at).update_command(self.space, |command| command.difference(off) | on);
    }

    /// Lets it decode its registers and reach memory by itself. Its own interrupt line stays off until
    /// [`Function::allow_line`].
    pub fn enable(&self) {
        let on = CommandRegister::MEMORY_ENABLE | CommandRegister::BUS_MASTER_ENABLE;
        self.command(
            on | CommandRegister::INTERRUPT_DISABLE,
            CommandRegister::empty(),
        );
    }

    /// Lets it decode its registers at ports.
    pub fn enable_ports(&self) {
        self.command(CommandRegister::IO_ENABLE, CommandRegister::empty());
    }

    /// The vendor number of the board that it is on.
    pub fn board(&self) -> u16 {
        self.read(0x2c) as u16
    }

    /// It reaches memory no more, and its line is off.
    pub fn disable(&self) {
        self.command(
            CommandRegister::INTERRUPT_DISABLE,
            CommandRegister::BUS_MASTER_ENABLE,
        );
    }

    /// Whether a function answers there.
    pub fn answers(&self) -> bool {
        self.id().0 != NOBODY
    }

    /// Lets it use its interrupt line.
    pub fn allow_line(&self) {
        self.command(CommandRegister::empty(), CommandRegister::INTERRUPT_DISABLE);
    }

    /// The input of the PC's interrupt controller that the firmware has connected its line to.
    pub fn line(&self) -> Option<u8> {
        let word = self.read(0x3c);
        let (line, pin) = (word as u8, (word >> 8) as u8);
        ((1..=4).contains(&pin) && (1..16).contains(&line)).then_some(line)
    }
}

/// Calls `found` with every function on bus `first` and behind its bridges.
pub fn each(space: &'static dyn ConfigAccess, first: u8, found: &mut dyn FnMut(Function)) {
    let mut waiting = [0u64; 4];
    let mut seen = [0u64; 4];
    let mut bus = Some(first);
    while let Some(number) = bus {
        let bit = 1 << (number % 64);
        seen[usize::from(number / 64)] |= bit;
        waiting[usize::from(number / 64)] &= !bit;
        each_on(space, number, &mut |function| {
            let header = PciHeader::new(function.at);
            if let Some(bridge) = PciPciBridgeHeader::from_header(header, space) {
                let behind = bridge.secondary_bus_number(space);
                // A bridge to its own bus, or to one above, leads nowhere new.
                let word = usize::from(behind / 64);
                waiting[word] |= (1 << (behind % 64)) & !seen[word];
            }
            found(function);
        });
        bus = (0..=u8::MAX).find(|bus| waiting[usize::from(bus / 64)] & 1 << (bus % 64) != 0);
    }
}

/// The vendor number of an absent function.
const NOBODY: u16 = 0xffff;

/// Calls `found` with every function on `bus`.
pub fn each_on(space: &'static dyn ConfigAccess, bus: u8, found: &mut dyn FnMut(Function)) {
    for device in 0..32 {
        for number in 0..8 {
            let at = PciAddress::new(0, bus, device, number);
            let header = PciHeader::new(at);
            if header.id(space).0 == NOBODY {
                if number == 0 {
                    break;
                }
                continue;
            }
            let known = !matches!(header.header_type(space), HeaderType::Unknown(_));
            if known {
                found(Function::new(space, at));
            }
            if number == 0 && !header.has_multiple_functions(space) {
                break;
            }
        }
    }
}

#[cfg(test)]
mod tests;
