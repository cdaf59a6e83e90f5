//! The list of a function's capabilities.
//!
//! *Interface*: [`Function::capabilities`] calls back for each.
//! Source: PCI Local Bus Specification 3.0, section 6.7.

use super::{DeviceError, Function};

/// One capability: its kind, and where it lies.
#[derive(Clone, Copy)]
pub struct Capability {
    function: Function,
    /// Its kind.
    pub id: u8,
    /// Where it begins, a multiple of four.
    pub offset: u8,
}

impl Capability {
    /// Reads its word at `offset` bytes from its beginning; all ones when that lies outside the list's space.
    pub fn read(&self, offset: u8) -> u32 {
        match self.offset.checked_add(offset) {
            Some(at) => self.function.read(u16::from(at)),
            None => u32::MAX,
        }
    }

    /// Writes one.
    pub(super) fn write(&self, offset: u8, value: u32) {
        if let Some(at) = self.offset.checked_add(offset) {
            self.function.write(u16::from(at), value);
        }
    }
}

impl Function {
    /// Calls `f` with every capability, in the list's order.
    ///
    /// # Errors
    /// [`DeviceError::List`], after those before the place that makes no sense.
    pub fn capabilities(&self, f: &mut dyn FnMut(Capability)) -> Result<(), DeviceError> {
        const HAS_LIST: u32 = 1 << 20;
        const FIRST: u8 = 0x40;
        const END: u8 = 0;
        /// As many as there is room for.
        const MOST: usize = (0x100 - FIRST as usize) / 4;
        if self.read(4) & HAS_LIST == 0 {
            return Ok(());
        }
        let mut offset = self.read(0x34) as u8 & !3;
        for _ in 0..MOST {
            if offset == END {
                return Ok(());
            }
            if offset < FIRST {
                return Err(DeviceError::List);
            }
            let word = self.read(u16::from(offset));
            f(Capability {
                function: *self,
                id: word as u8,
                offset,
            });
            offset = (word >> 8) as u8 & !3;
        }
        Err(DeviceError::List)
    }
}
