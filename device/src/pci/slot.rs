//! A slot: a port of PCI Express that a device can be put into, and taken out of, while the machine runs.
//!
//! *Interface*: [`Slot::of`] finds a port's slot; [`Slot::listen`] lets it interrupt about what changes,
//! [`Slot::take`] says what has. [`Slot::power`] turns it on or off, [`Slot::room`] is where its devices'
//! registers can be.
//!
//! The slot's button, or a host that presses it, requests the removal of a device; a device may also
//! disappear without a request. The reply is to turn power off when the device is no longer used.
//! Source: PCI Express Base Specification 3.0, sections 6.7 and 7.8.9 to 7.8.11.

use super::{DeviceError, Function};
use core::ops::Range;
use machine::clock;

/// The kind of the capability.
const ID: u8 = 0x10;
/// Offsets in it: what the slot can do; control in the lower half, status in the upper.
const CAPABLE: u8 = 0x14;
const CONTROL: u8 = 0x18;

/// In the capability's first word: there is a slot at the port.
const HAS_SLOT: u32 = 1 << 24;
/// Its abilities: be told of while it runs; turn power off; do so without a note that it has.
const HOT: u32 = 1 << 6;
const HAS_POWER: u32 = 1 << 1;
const NO_NOTES: u32 = 1 << 18;

/// Control: interrupt at the button, at a device that comes or goes, at all; the lights; no power.
const AT_BUTTON: u32 = 1;
const AT_PRESENCE: u32 = 1 << 3;
const INTERRUPTS: u32 = 1 << 5;
const LIGHT: u32 = 3 << 8;
const LIGHT_ON: u32 = 1 << 8;
const LIGHT_OFF: u32 = 3 << 8;
const NO_POWER: u32 = 1 << 10;
const CONTROLS: u32 = 0xffff;

/// Status: the button was pressed; a device came or went; a command is done; a device is there.
const PRESSED: u32 = 1 << 16;
const MOVED: u32 = 1 << 19;
const DONE: u32 = 1 << 20;
const PRESENT: u32 = 1 << 22;

/// How long a slot may take over a command (section 6.7.3.2).
const COMMAND_NS: u64 = 1_000_000_000;
/// How long a device that has got power may take to answer (section 6.6.1).
const AWAKE_NS: u64 = 1_000_000_000;

/// The events of a slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Change {
    /// The button was pressed.
    pub pressed: bool,
    /// A device came, or went.
    pub moved: bool,
    /// A device is there now.
    pub present: bool,
}

/// One slot.
#[derive(Clone, Copy)]
pub struct Slot {
    port: Function,
    /// Where its capability lies.
    at: u16,
    has_power: bool,
    notes: bool,
}

impl Slot {
    /// The slot of `port`, if it has one that can change while the machine runs.
    pub fn of(port: &Function) -> Option<Slot> {
        let mut found = None;
        let read = port.capabilities(&mut |capability| {
            let capable = capability.read(CAPABLE);
            if capability.id == ID && capability.read(0) & HAS_SLOT != 0 && capable & HOT != 0 {
                found = found.or(Some((capability.offset, capable)));
            }
        });
        read.ok()?;
        let (at, capable) = found.filter(|(at, _)| *at <= u8::MAX - CONTROL - 3)?;
        port.buses()?;
        Some(Slot {
            port: *port,
            at: u16::from(at),
            has_power: capable & HAS_POWER != 0,
            notes: capable & NO_NOTES == 0,
        })
    }

    /// The port of the slot.
    pub fn port(&self) -> &Function {
        &self.port
    }

    fn state(&self) -> u32 {
        self.port.read(self.at + u16::from(CONTROL))
    }

    /// Gives a command: bits of control. Status bits stay set until they are cleared.
    fn control(&self, on: u32, off: u32) {
        let control = (self.state() & CONTROLS) & !off | on;
        self.take_back(DONE);
        self.port
            .write_half(self.at + u16::from(CONTROL), control as u16);
        let deadline = clock::now_ns() + COMMAND_NS;
        while self.notes && self.state() & DONE == 0 && clock::now_ns() < deadline {
            (sync::callout::get().yield_now)();
        }
    }

    /// Takes back what status has said.
    fn take_back(&self, said: u32) {
        let at = self.at + u16::from(CONTROL) + 2;
        self.port.write_half(at, (said >> 16) as u16);
    }

    /// Lets it interrupt.
    pub fn listen(&self) {
        self.control(AT_BUTTON | AT_PRESENCE | INTERRUPTS, 0);
    }

    /// The change since the last look; None: nothing, or the port itself is gone.
    pub fn take(&self) -> Option<Change> {
        let state = self.state();
        let said = state & (PRESSED | MOVED);
        if state == u32::MAX || said == 0 {
            return None;
        }
        self.take_back(said);
        Some(Change {
            pressed: said & PRESSED != 0,
            moved: said & MOVED != 0,
            // Read again: what changes from here on is said again.
            present: self.is_present(),
        })
    }

    /// Whether a device is there.
    pub fn is_present(&self) -> bool {
        let state = self.state();
        state != u32::MAX && state & PRESENT != 0
    }

    /// Turns it on or off, and its light.
    pub fn power(&self, on: bool) {
        let no_power = if self.has_power { NO_POWER } else { 0 };
        match on {
            true => self.control(LIGHT_ON, no_power | LIGHT),
            false => self.control(no_power | LIGHT_OFF, LIGHT),
        }
    }

    /// Waits until the device that has got power answers. False: it does not.
    pub fn wait_for_device(&self) -> bool {
        let Some((bus, _)) = self.port.buses() else {
            return false;
        };
        let first = self.port.on_bus(bus);
        let deadline = clock::now_ns() + AWAKE_NS;
        while !first.answers() {
            if clock::now_ns() > deadline {
                return false;
            }
            (sync::callout::get().yield_now)();
        }
        true
    }

    /// The buses behind it, first and last.
    pub fn buses(&self) -> Option<(u8, u8)> {
        self.port.buses()
    }

    /// The addresses that the port passes on to what is behind it.
    ///
    /// # Errors
    /// [`DeviceError::Place`]: none.
    pub fn room(&self) -> Result<Range<u64>, DeviceError> {
        const WINDOW: u16 = 0x20;
        let word = self.port.read(WINDOW);
        let base = u64::from(word & 0xfff0) << 16;
        let last = u64::from(word & 0xfff0_0000) | 0xf_ffff;
        match base != 0 && base < last {
            true => Ok(base..last + 1),
            false => Err(DeviceError::Place),
        }
    }
}

impl Function {
    /// The first and the last bus behind it, if it is a bridge.
    fn buses(&self) -> Option<(u8, u8)> {
        const HEADER: u16 = 0xc;
        const BUSES: u16 = 0x18;
        const BRIDGE: u8 = 1;
        let kind = (self.read(HEADER) >> 16) as u8 & 0x7f;
        let [_, second, last, _] = self.read(BUSES).to_le_bytes();
        (kind == BRIDGE && second != 0 && second <= last).then_some((second, last))
    }

    /// The first function of the first device on `bus`.
    fn on_bus(&self, bus: u8) -> Function {
        Function::new(self.space, pci_types::PciAddress::new(0, bus, 0, 0))
    }
}
