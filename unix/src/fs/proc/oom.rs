//! `/proc/PID/oom_score_adj`: how gladly a process is ended when memory is out. It is remembered and inherited; who is ended goes by weight alone.
//!
//! *Interface*: [`Adjustment`].

use abi::errno::{Errno, Result};
use alloc::sync::Arc;
use core::any::Any;
use core::fmt::Write;
use core::sync::atomic::Ordering;

use crate::file::{File, OpenFile, moved};
use crate::fs::text::Opened;
use crate::io::IoBuf;
use crate::memory::fallible::try_arc;
use crate::process::{Capability, Process};
use abi::linux::{SEEK_CUR, SEEK_SET};

/// The longest number that is heard.
const LONGEST: usize = 16;
/// From never to first.
const LEAST: i32 = -1000;
const MOST: i32 = 1000;

/// The file of a process.
pub struct Adjustment(pub Arc<Process>);

impl Opened for Adjustment {
    fn open(&self) -> Result<Arc<dyn File>> {
        Ok(try_arc(Opening(self.0.clone()))?)
    }

    fn permissions(&self) -> u32 {
        0o644
    }
}

/// The file, opened.
struct Opening(Arc<Process>);

/// A number as a line, without memory.
#[derive(Default)]
struct Line {
    bytes: [u8; LONGEST],
    len: usize,
}

impl Write for Line {
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
        let _turn = of.turn();
        let at = of.cursor.offset.load(Ordering::Relaxed);
        let count = self.read_at(of, at, buf)?;
        of.cursor.offset.store(at + count as u64, Ordering::Relaxed);
        Ok(count)
    }

    fn read_at(&self, _of: &OpenFile, offset: u64, buf: &mut IoBuf) -> Result<usize> {
        let mut line = Line::default();
        let value = self.0.oom_score_adj.load(Ordering::Relaxed);
        writeln!(line, "{value}").map_err(|_| Errno::EIO)?;
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
        let value = core::str::from_utf8(said).ok();
        let value = value.and_then(|text| text.trim().parse().ok());
        let value: i32 = value
            .filter(|value| (LEAST..=MOST).contains(value))
            .ok_or(Errno::EINVAL)?;
        let now = self.0.oom_score_adj.load(Ordering::Relaxed);
        if value < now && !Process::current().cred.get().has(Capability::SysResource) {
            return Err(Errno::EACCES);
        }
        self.0.oom_score_adj.store(value, Ordering::Relaxed);
        Ok(count)
    }

    fn write_at(&self, of: &OpenFile, _offset: u64, buf: &mut IoBuf) -> Result<usize> {
        self.write(of, buf)
    }

    fn lseek(&self, of: &OpenFile, offset: i64, whence: u32) -> Result<u64> {
        let _turn = of.turn();
        let base = match whence as i32 {
            SEEK_SET => 0,
            SEEK_CUR => of.cursor.offset.load(Ordering::Relaxed),
            _ => return Err(Errno::EINVAL),
        };
        let to = moved(base, offset)?;
        of.cursor.offset.store(to, Ordering::Relaxed);
        Ok(to)
    }

    fn as_any(&self) -> &dyn Any {
        self
    }
}
