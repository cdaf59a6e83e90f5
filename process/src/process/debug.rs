//! The debug registers of a traced thread, as `ptrace` reads and writes them.
//!
//! *Interface*: [`DebugRegisters`] are in the state that tracer and traced thread share. The tracer gets and
//! sets them while the thread waits; the thread itself loads them when it continues
//! (`thread::hw_breakpoints`). They belong to the thread: a child has none, and `execve` clears them. Enabled
//! registers stay enabled when the tracer detaches, as on Linux.
//!
//! Source: Linux, arch/x86/kernel/ptrace.c and hw_breakpoint.c.

use abi::errno::{Errno, Result};
use abi::layout::USER_END;
use machine::debug_registers::{ENABLED, NOTHING};

use super::Task;

/// Bits of the control register that a program may set: not the one that makes access to the registers trap,
/// nor those without a meaning.
const CONTROL: u64 = 0xffff_03ff;
/// Bits of the control register that enable registers, and their conditions.
const MEANT: u64 = 0xffff_0000 | ENABLED;
/// A bit of it that is always set.
const ALWAYS: u64 = 1 << 10;

/// The registers.
#[derive(Default)]
pub struct DebugRegisters {
    addresses: [u64; 4],
    /// The condition of each address, also while it is not enabled; registers that were ever set have one.
    watches: [Option<Watch>; 4],
    status: u64,
    /// As the tracer wrote it.
    control: u64,
}

/// The condition of a register.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Watch {
    /// Bytes.
    len: u64,
    enabled: bool,
}

impl Watch {
    /// The condition of register `number` in `control`. EINVAL: an impossible condition.
    fn of(control: u64, number: usize) -> Result<Watch> {
        const EXECUTION: u64 = 0;
        const PORTS: u64 = 2;
        let field = control >> (16 + 4 * number);
        let len = match field >> 2 & 3 {
            0 => 1,
            1 => 2,
            2 => 8,
            _ => 4,
        };
        match field & 3 {
            PORTS => Err(Errno::EINVAL),
            EXECUTION if len != 1 => Err(Errno::EINVAL),
            _ => Ok(Watch {
                len,
                enabled: enabled(control, number),
            }),
        }
    }

    /// EINVAL: it cannot watch at `address`.
    fn check(self, address: u64) -> Result<()> {
        let last = address.checked_add(self.len - 1).ok_or(Errno::EINVAL)?;
        match last < USER_END as u64 && address.is_multiple_of(self.len) {
            true => Ok(()),
            false => Err(Errno::EINVAL),
        }
    }
}

fn enabled(control: u64, number: usize) -> bool {
    control >> (2 * number) & 3 != 0
}

impl DebugRegisters {
    /// Register `number`; 0 for those that there are not.
    pub fn get(&self, number: usize) -> u64 {
        match number {
            6 => self.status ^ u64::from(NOTHING),
            7 => self.control,
            number => self.addresses.get(number).copied().unwrap_or(0),
        }
    }

    /// Register `number` gets `value`. EIO: there is none. EINVAL: it cannot be watched.
    pub fn set(&mut self, number: usize, value: u64) -> Result<()> {
        match number {
            0..=3 => {
                let byte = Watch {
                    len: 1,
                    enabled: false,
                };
                let watch = self.watches.get_mut(number).ok_or(Errno::EIO)?;
                watch.get_or_insert(byte).check(value)?;
                *self.addresses.get_mut(number).ok_or(Errno::EIO)? = value;
            }
            6 => self.status = value ^ u64::from(NOTHING),
            7 => self.set_control(value)?,
            _ => return Err(Errno::EIO),
        }
        Ok(())
    }

    fn set_control(&mut self, value: u64) -> Result<()> {
        let mut watches = self.watches;
        for (number, (watch, address)) in watches.iter_mut().zip(self.addresses).enumerate() {
            // A register that was never set and is not enabled is not checked.
            if watch.is_some() || enabled(value, number) {
                let wanted = Watch::of(value & CONTROL, number)?;
                wanted.check(address)?;
                *watch = Some(wanted);
            }
        }
        self.watches = watches;
        self.control = value;
        Ok(())
    }

    /// The running `task`, whose these are, is about to show them.
    pub fn see(&mut self, task: &Task) {
        self.status = u64::from(task.thread.dr6());
    }

    /// The running `task` has them from now on. Without memory for the switch code it has none.
    pub fn give(&mut self, task: &Task) {
        task.thread.set_dr6(self.status as u32);
        let mut control = self.control & MEANT;
        for number in (0..4).filter(|number| !enabled(self.control, *number)) {
            control &= !(0xf << (16 + 4 * number));
        }
        if task.thread.watch(self.addresses, control | ALWAYS).is_err() {
            self.control &= !ENABLED;
            for watch in self.watches.iter_mut().flatten() {
                watch.enabled = false;
            }
        }
    }

    /// The running `task` has none any more.
    pub fn forget(&mut self, task: &Task) {
        *self = DebugRegisters::default();
        task.thread.set_dr6(0);
        // Having none needs no memory except existing code.
        let _ = task.thread.watch([0; 4], 0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_nobody_can_watch_is_refused() {
        let mut registers = DebugRegisters::default();
        assert_eq!(registers.set(0, USER_END as u64), Err(Errno::EINVAL));
        assert_eq!(registers.set(0, 0x1001), Ok(()));
        // Four bytes, written, at an odd address.
        assert_eq!(registers.set(7, 0xd_0001), Err(Errno::EINVAL));
        assert_eq!(registers.get(7), 0);
        assert_eq!(registers.set(0, 0x1004), Ok(()));
        assert_eq!(registers.set(7, 0xd_0001), Ok(()));
        // Now the address has to fit.
        assert_eq!(registers.set(0, 0x1002), Err(Errno::EINVAL));
        assert_eq!(registers.get(0), 0x1004);
        // Execution has one byte; ports are not watched.
        assert_eq!(registers.set(7, 0xc_0001), Err(Errno::EINVAL));
        assert_eq!(registers.set(7, 0x2_0001), Err(Errno::EINVAL));
        assert_eq!(registers.set(4, 0), Err(Errno::EIO));
        assert_eq!(registers.get(6), u64::from(NOTHING));
    }
}
