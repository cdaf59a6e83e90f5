//! How a device's queues interrupt: each by a message of its own, or all by the line.
//!
//! *Interface*: [`QueueInterrupts::open`] asks the device; [`QueueInterrupts::interrupt`] gives a vector to
//! one entry; [`QueueInterrupts::end`] takes all back.

use super::transport::{NO_VECTOR, Transport};
use crate::Unusable;
use crate::interrupt::{Asks, Interrupt, on_line};
use crate::interrupt_storm::Mask;
use crate::pci::{DeviceError, Function, Msi, Msix};
use alloc::sync::Arc;
use alloc::vec::Vec;
use machine::irq;

/// How the device's queues interrupt.
#[derive(Default)]
pub struct QueueInterrupts(Means);

#[derive(Default)]
enum Means {
    /// Not at all yet.
    #[default]
    None,
    /// By its table, and what each entry in use leads to.
    Table(Msix, Vec<(u16, Arc<Interrupt>)>),
    /// By one message, and where it leads.
    Message(Msi, Option<Arc<Interrupt>>),
    /// By the line, and the registers that say so.
    Line(Arc<Interrupt>, Asks),
}

impl QueueInterrupts {
    /// Looks for the device's table, which must have `entries` entries, or its line.
    ///
    /// # Errors
    /// [`Unusable`].
    pub fn open(&mut self, transport: &Transport, entries: u32) -> Result<(), Unusable> {
        if let Some(function) = transport.function()
            && let Some(table) = function.msix()?
        {
            return self.set_table(table, entries);
        }
        let (line, asks) = transport.line().ok_or(DeviceError::Fit)?;
        let interrupt = on_line(line)?;
        if let Some(function) = transport.function() {
            function.allow_line();
        }
        self.0 = Means::Line(interrupt, asks);
        Ok(())
    }

    /// The same of a function that is no virtio device, and of which one entry of the table is used. Lines of
    /// such are not known.
    ///
    /// # Errors
    /// [`Unusable`].
    pub fn open_table(&mut self, function: &Function) -> Result<(), Unusable> {
        let table = function.msix()?.ok_or(DeviceError::Fit)?;
        self.set_table(table, 1)
    }

    /// By the line of a function that is no virtio device, which is asked as `asks` says.
    ///
    /// # Errors
    /// [`Unusable`].
    pub fn open_line(&mut self, function: &Function, asks: Asks) -> Result<(), Unusable> {
        let line = irq::isa(function.line().ok_or(DeviceError::Fit)?);
        self.0 = Means::Line(on_line(line)?, asks);
        Ok(())
    }

    /// By the one message of a function that is no virtio device, or else by its line, which is asked as
    /// `asks` says.
    ///
    /// # Errors
    /// [`Unusable`].
    pub fn open_message(&mut self, function: &Function, asks: Asks) -> Result<(), Unusable> {
        match function.msi()? {
            Some(message) => self.0 = Means::Message(message, None),
            None => self.open_line(function, asks)?,
        }
        Ok(())
    }

    fn set_table(&mut self, table: Msix, entries: u32) -> Result<(), Unusable> {
        if u32::from(table.entries()) < entries {
            return Err(DeviceError::Fit.into());
        }
        self.0 = Means::Table(table, Vec::new());
        Ok(())
    }

    /// The interrupt for entry `entry` of the table, the entry's number for the device, and how a line is
    /// asked.
    ///
    /// # Errors
    /// [`Unusable`].
    pub fn interrupt(
        &mut self,
        name: &'static str,
        entry: u16,
    ) -> Result<(Arc<Interrupt>, u16, Option<Asks>), Unusable> {
        match &mut self.0 {
            Means::None => Err(DeviceError::Fit.into()),
            Means::Table(table, given) => {
                let mask = table.entry(entry).map_or(Mask::None, Mask::Entry);
                let interrupt = Interrupt::watched(name, mask)?;
                interrupt.renew()?;
                given.try_reserve(1).map_err(|_| Unusable::Resources)?;
                given.push((entry, interrupt.clone()));
                interrupt.list();
                table.set(entry, interrupt.message());
                Ok((interrupt, entry, None))
            }
            Means::Message(message, given) => {
                // Such a message cannot be kept back.
                let interrupt = Interrupt::watched(name, Mask::None)?;
                interrupt.renew()?;
                *given = Some(interrupt.clone());
                interrupt.list();
                message.set(interrupt.message())?;
                Ok((interrupt, NO_VECTOR, None))
            }
            Means::Line(interrupt, asks) => Ok((interrupt.clone(), NO_VECTOR, Some(*asks))),
        }
    }

    /// Calls `f` with vector and count of each interrupt.
    pub fn for_each(&self, mut f: impl FnMut(u8, u64)) {
        match &self.0 {
            Means::None => {}
            Means::Table(_, given) => {
                (given.iter()).for_each(|(_, interrupt)| f(interrupt.vector(), interrupt.count()));
            }
            Means::Message(_, given) => {
                (given.iter()).for_each(|interrupt| f(interrupt.vector(), interrupt.count()));
            }
            Means::Line(interrupt, _) => f(interrupt.vector(), interrupt.count()),
        }
    }

    /// The device, which is stopped or gone, no longer interrupts: its handlers are removed, and its part of
    /// a line's.
    pub fn end(&mut self) {
        match core::mem::take(&mut self.0) {
            Means::None => {}
            Means::Table(table, given) => {
                for (entry, interrupt) in given {
                    table.mask(entry);
                    interrupt.silence();
                }
            }
            Means::Message(message, given) => {
                message.mask();
                if let Some(interrupt) = given {
                    interrupt.silence();
                }
            }
            Means::Line(interrupt, asks) => interrupt.remove(asks),
        }
    }
}
