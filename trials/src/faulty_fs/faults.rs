//! The faults to inject into the file system of the trials, and a count of the requests to it.
//!
//! *Interface*: [`FaultPlan`] is the file `plan`. A line `fills N` or `stores N` has every so manieth fill or
//! store fail with EIO from now on, none with 0; `full 1` has stores fail with ENOSPC instead; `delay N` has
//! each of them take N microseconds. Read, it says `fills N stores N`: how many there were.

use abi::errno::{Errno, Result};
use core::sync::atomic::{AtomicU64, Ordering};
use file::io::IoBuf;
use file::{File, OpenFile};
use machine::clock::now_ns;
use vm::fallible::{try_filled, try_text};

/// One kind of question.
#[derive(Default)]
struct Asked {
    count: AtomicU64,
    /// Every so manieth fails; none if it is 0.
    fails: AtomicU64,
}

/// All of it.
#[derive(Default)]
pub struct FaultPlan {
    fills: Asked,
    stores: Asked,
    delay_us: AtomicU64,
    full: AtomicU64,
}

impl FaultPlan {
    /// A fill begins: what it answers.
    pub fn fill(&self) -> Result<()> {
        self.ask(&self.fills, Errno::EIO)
    }

    /// A store begins.
    pub fn store(&self) -> Result<()> {
        let full = self.full.load(Ordering::Relaxed) != 0;
        self.ask(&self.stores, if full { Errno::ENOSPC } else { Errno::EIO })
    }

    fn ask(&self, asked: &Asked, error: Errno) -> Result<()> {
        let number = asked.count.fetch_add(1, Ordering::Relaxed);
        match asked.fails.load(Ordering::Relaxed) {
            0 => Ok(()),
            every if number.is_multiple_of(every) => Err(error),
            _ => Ok(()),
        }
    }

    /// Lets the time pass that one question takes.
    pub fn delay(&self) {
        let us = self.delay_us.load(Ordering::Relaxed);
        if us != 0 {
            // Without memory for an alarm it is fast.
            let _fast = thread::clock::sleep_until(now_ns() + us * 1000);
        }
    }

    fn set(&self, line: &str) -> Result<()> {
        let (word, number) = line.split_once(' ').ok_or(Errno::EINVAL)?;
        let number = number.parse().map_err(|_| Errno::EINVAL)?;
        let place = match word {
            "fills" => &self.fills.fails,
            "stores" => &self.stores.fails,
            "delay" => &self.delay_us,
            "full" => &self.full,
            _ => return Err(Errno::EINVAL),
        };
        place.store(number, Ordering::Relaxed);
        Ok(())
    }
}

impl File for FaultPlan {
    fn write(&self, _of: &OpenFile, buf: &mut IoBuf) -> Result<usize> {
        let mut bytes = try_filled(0, buf.remaining().min(100))?;
        let count = buf.take(&mut bytes)?;
        let text = core::str::from_utf8(&bytes[..count]).map_err(|_| Errno::EINVAL)?;
        text.lines().try_for_each(|line| self.set(line))?;
        Ok(count)
    }

    fn read(&self, of: &OpenFile, buf: &mut IoBuf) -> Result<usize> {
        let count = |asked: &Asked| asked.count.load(Ordering::Relaxed);
        let (fills, stores) = (count(&self.fills), count(&self.stores));
        let text = try_text(format_args!("fills {fills} stores {stores}\n"))?;
        of.onward(|at| {
            let from = usize::try_from(at).unwrap_or(usize::MAX).min(text.len());
            buf.put(&text.as_bytes()[from..])
        })
    }

    fn truncate(&self, _of: &OpenFile, _size: u64) -> Result<()> {
        Ok(())
    }
}
