//! MSI: the interrupt that a function sends as a write to memory, one for all that it has to say.
//!
//! *Interface*: [`Function::msi`] finds it, off; [`Msi::set`] says where it goes and turns it on,
//! [`Msi::mask`] turns it off.
//! Source: PCI Local Bus Specification 3.0, section 6.8.1.

use super::{Capability, DeviceError, Function};

const ID: u8 = 5;
/// Bits of the control word, which is the upper half of the capability's first: on; how many messages; an
/// address of two words.
const ENABLE: u32 = 1 << 16;
const SEVERAL: u32 = 7 << 20;
const WIDE: u32 = 1 << 23;

/// A function's message.
#[derive(Clone, Copy)]
pub struct Msi(Capability);

impl Function {
    /// The message, off; None for a function without.
    ///
    /// # Errors
    /// [`DeviceError`].
    pub fn msi(&self) -> Result<Option<Msi>, DeviceError> {
        let mut found = None;
        self.capabilities(&mut |capability| {
            if capability.id == ID {
                found = found.or(Some(Msi(capability)));
            }
        })?;
        let Some(msi) = found else { return Ok(None) };
        msi.mask();
        Ok(Some(msi))
    }
}

impl Msi {
    /// It writes `data` to `address` from now on.
    ///
    /// # Errors
    /// [`DeviceError::Fit`]: it has no room for such an address, or lies at the end of its space.
    pub fn set(&self, (address, data): (u64, u32)) -> Result<(), DeviceError> {
        let Msi(capability) = self;
        let control = capability.read(0);
        let (low, high) = (address as u32, (address >> 32) as u32);
        let place = if control & WIDE != 0 { 12 } else { 8 };
        if control & WIDE == 0 && high != 0 || capability.offset > u8::MAX - place - 3 {
            return Err(DeviceError::Fit);
        }
        capability.write(4, low);
        if control & WIDE != 0 {
            capability.write(8, high);
        }
        capability.write(place, data);
        capability.write(0, control & !SEVERAL | ENABLE);
        Ok(())
    }

    /// It sends nothing.
    pub fn mask(&self) {
        let Msi(capability) = self;
        capability.write(0, capability.read(0) & !(ENABLE | SEVERAL));
    }
}
