//! The writable numbers of a process: `oom_score_adj`, `oom_adj`, `coredump_filter`, `timerslack_ns`,
//! `loginuid`.
//!
//! *Interface*: [`TunableFile`], a file; [`ADJUSTMENT`], [`OLD_ADJUSTMENT`], [`FILTER`], [`SLACK`], [`LOGIN`]
//! are what it may be about.

use abi::errno::{Errno, Result};
use alloc::sync::Arc;
use core::fmt::Write;
use core::sync::atomic::Ordering;

use super::{OWNER_WRITES, look_into, still_writes};
use account::{Capability, Cred};
use file::fs::pseudofs::PseudoFile;
use file::io::IoBuf;
use file::{File, OpenFile};
use process::Process;
use process::memory::oom_score::SPARED;
use vm::fallible::try_arc;

/// The longest number that is heard, and the longest line that is told.
const LONGEST: usize = 32;
/// From never to first.
const LEAST: i32 = SPARED;
const MOST: i32 = 1000;

/// A number of a process.
pub struct Tunable {
    show: fn(&Process, &mut NumberLine) -> core::fmt::Result,
    /// The rights are those of the identity that opened the file.
    set: fn(&Process, &Cred, &str) -> Result<()>,
}

/// `oom_score_adj`: how gladly a process is ended when memory is out
/// ([`points`](process::memory::oom_score::points)).
pub static ADJUSTMENT: Tunable = Tunable {
    show: |process, line| writeln!(line, "{}", process.oom_score_adj.load(Ordering::Relaxed)),
    set: |process, opener, text| {
        let value = text.parse().map_err(|_| Errno::EINVAL)?;
        let least = process.oom_score_adj_least.load(Ordering::Relaxed);
        adjust(process, opener, value, least)?;
        if opener.has(Capability::SysResource) {
            process.oom_score_adj_least.store(value, Ordering::Relaxed);
        }
        Ok(())
    },
};

/// `oom_adj`: the same on the old scale, from -17, never, to 15.
pub static OLD_ADJUSTMENT: Tunable = Tunable {
    show: |process, line| {
        let old = match process.oom_score_adj.load(Ordering::Relaxed) {
            MOST => 15,
            value => (value * 17 / 1000).min(15),
        };
        writeln!(line, "{old}")
    },
    set: |process, opener, text| {
        let now = process.oom_score_adj.load(Ordering::Relaxed);
        match text.parse().map_err(|_| Errno::EINVAL)? {
            15 => adjust(process, opener, MOST, now),
            old @ -17..=14 => adjust(process, opener, old * 1000 / 17, now),
            _ => Err(Errno::EINVAL),
        }
    },
};

/// `coredump_filter`: kinds of memory that cores have.
pub static FILTER: Tunable = Tunable {
    show: |process, line| {
        writeln!(
            line,
            "{:08x}",
            process.core_state.filter.load(Ordering::Relaxed)
        )
    },
    set: |process, _, text| {
        let number = match text.strip_prefix("0x") {
            Some(digits) => u32::from_str_radix(digits, 16),
            None => text.parse(),
        };
        let kinds = number.map_err(|_| Errno::EINVAL)? & 0x1ff;
        process.core_state.filter.store(kinds, Ordering::Relaxed);
        Ok(())
    },
};

/// `timerslack_ns`, of the first thread.
pub static SLACK: Tunable = Tunable {
    show: |process, line| {
        let slack = process.a_thread().map_or(0, |first| first.sched.slack());
        writeln!(line, "{slack}")
    },
    set: |process, opener, text| {
        if process.pid != Process::current().pid {
            opener.need(Capability::SysNice)?;
        }
        let slack = text.parse().map_err(|_| Errno::EINVAL)?;
        if let Some(first) = process.a_thread() {
            first.sched.set_slack(slack);
        }
        Ok(())
    },
};

/// `loginuid`: a process tells its own, for itself and its children.
pub static LOGIN: Tunable = Tunable {
    show: |process, line| write!(line, "{}", process.login.uid()),
    set: |process, opener, text| {
        if process.pid != Process::current().pid {
            return Err(Errno::EPERM);
        }
        let uid = text.parse().map_err(|_| Errno::EINVAL)?;
        process.login.set(uid, opener.has(Capability::AuditControl))
    },
};

/// Without `CAP_SYS_RESOURCE`, `opener` can go no lower than `least`. EINVAL, EACCES.
fn adjust(process: &Process, opener: &Cred, value: i32, least: i32) -> Result<()> {
    if !(LEAST..=MOST).contains(&value) {
        return Err(Errno::EINVAL);
    }
    if value < least && !opener.has(Capability::SysResource) {
        return Err(Errno::EACCES);
    }
    process.oom_score_adj.store(value, Ordering::Relaxed);
    Ok(())
}

/// The file of a number of a process.
pub struct TunableFile {
    /// The process.
    pub process: Arc<Process>,
    /// Which.
    pub number: &'static Tunable,
    /// Only who may look into the process.
    pub private: bool,
}

impl PseudoFile for TunableFile {
    fn open(&self, opener: &Arc<Cred>) -> Result<Arc<dyn File>> {
        if self.private {
            look_into(&self.process, || ())?;
        }
        Ok(try_arc(Opening {
            process: self.process.clone(),
            number: self.number,
            opener: opener.clone(),
        })?)
    }

    fn permissions(&self) -> u32 {
        OWNER_WRITES
    }
}

/// The file, opened.
struct Opening {
    process: Arc<Process>,
    number: &'static Tunable,
    opener: Arc<Cred>,
}

/// A number as a line, without memory.
#[derive(Default)]
pub struct NumberLine {
    bytes: [u8; LONGEST],
    len: usize,
}

impl NumberLine {
    /// The text that has been written.
    pub fn as_str(&self) -> &str {
        let said = self.bytes.get(..self.len).unwrap_or_default();
        core::str::from_utf8(said).unwrap_or_default()
    }
}

impl Write for NumberLine {
    fn write_str(&mut self, text: &str) -> core::fmt::Result {
        let room = self.bytes.get_mut(self.len..self.len + text.len());
        room.ok_or(core::fmt::Error)?
            .copy_from_slice(text.as_bytes());
        self.len += text.len();
        Ok(())
    }
}

impl File for Opening {
    fn read(&self, of: &OpenFile, buf: &mut IoBuf) -> Result<usize> {
        of.onward(|at| self.read_at(of, at, buf))
    }

    fn read_at(&self, _of: &OpenFile, offset: u64, buf: &mut IoBuf) -> Result<usize> {
        let mut line = NumberLine::default();
        (self.number.show)(&self.process, &mut line).map_err(|_| Errno::EIO)?;
        let from = usize::try_from(offset).unwrap_or(usize::MAX);
        match line.bytes.get(from..line.len) {
            Some(rest) => buf.put(rest),
            None => Ok(0),
        }
    }

    fn write(&self, _of: &OpenFile, buf: &mut IoBuf) -> Result<usize> {
        let mut bytes = [0; LONGEST];
        let count = buf.take(&mut bytes)?;
        let said = bytes.get(..count).unwrap_or_default();
        let text = core::str::from_utf8(said).map_err(|_| Errno::EINVAL)?;
        still_writes(&self.process, &self.opener)?;
        (self.number.set)(&self.process, &self.opener, text.trim())?;
        Ok(count)
    }

    fn write_at(&self, of: &OpenFile, _offset: u64, buf: &mut IoBuf) -> Result<usize> {
        self.write(of, buf)
    }

    fn lseek(&self, of: &OpenFile, offset: i64, whence: u32) -> Result<u64> {
        of.sought(offset, whence, || None)
    }
}
