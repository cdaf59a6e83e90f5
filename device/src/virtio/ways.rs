//! How a device's queues interrupt: each by a message of its own, or all by the line.
//!
//! *Interface*: [`Ways::of`] asks the function; [`Ways::interrupt`] gives a vector to one entry.

use super::transport::{NO_VECTOR, Transport};
use crate::Unusable;
use crate::interrupt::{Interrupt, on_line};
use crate::pci::{Function, Msix, Odd};

/// How the device's queues interrupt.
pub enum Ways {
    /// By its table.
    Table(Msix),
    /// By the line, and the register that says so.
    Line(&'static Interrupt, i32),
}

impl Ways {
    /// The table of `function`, which must have `entries` entries, or its line.
    ///
    /// # Errors
    /// [`Unusable`].
    pub fn of(function: &Function, transport: &Transport, entries: u32) -> Result<Ways, Unusable> {
        match function.msix()? {
            Some(table) if u32::from(table.entries()) >= entries => Ok(Ways::Table(table)),
            Some(_) => Err(Odd::Fit.into()),
            None => {
                let line = function.line().ok_or(Odd::Fit)?;
                let asks = transport.isr().ok_or(Odd::Fit)?;
                function.allow_line();
                Ok(Ways::Line(on_line(line)?, asks))
            }
        }
    }

    /// The interrupt for entry `entry` of the table, the entry's number for the device, and the register by which a line is asked.
    ///
    /// # Errors
    /// [`Unusable`].
    pub fn interrupt(
        &self,
        name: &'static str,
        entry: u16,
    ) -> Result<(&'static Interrupt, u16, Option<i32>), Unusable> {
        match self {
            Ways::Table(table) => {
                let interrupt = Interrupt::new(name)?;
                interrupt.renew()?;
                let interrupt = interrupt.keep();
                table.set(entry, interrupt.message());
                Ok((interrupt, entry, None))
            }
            Ways::Line(interrupt, asks) => Ok((interrupt, NO_VECTOR, Some(*asks))),
        }
    }
}
