//! An open file of a control group.
//!
//! *Interface.* [`OpenCgroupFile`]. A write is one setting, whatever its offset. The process that opened the
//! file, not the one that writes to it, needs the rights, as on Linux.

use abi::errno::{Errno, Result};
use alloc::sync::Arc;

use super::files::CgroupFile;
use account::{Cred, caller};
use file::fs::pseudofs::{reader, records};
use file::io::IoBuf;
use file::{File, OpenFile};
use process::cgroup::Cgroup;

/// The longest setting.
const LONGEST: usize = 512;
/// Longer ones are refused as too long.
const TOO_LONG: usize = 4095;

/// The behaviour.
pub(super) struct OpenCgroupFile {
    group: Arc<Cgroup>,
    file: &'static CgroupFile,
    opener: Arc<Cred>,
    text: Arc<dyn File>,
}

impl OpenCgroupFile {
    /// Of `file` of `group`, opened by the caller. ENOMEM.
    pub(super) fn new(group: Arc<Cgroup>, file: &'static CgroupFile) -> Result<OpenCgroupFile> {
        let shown = group.clone();
        let text = reader(&records(move |from, piece| {
            file.check(&shown)?;
            (file.read)(&shown, from, piece)
        }))?;
        Ok(OpenCgroupFile {
            group,
            file,
            opener: caller::cred(),
            text,
        })
    }
}

impl File for OpenCgroupFile {
    fn is_always_ready(&self) -> bool {
        true
    }

    fn read(&self, of: &OpenFile, buf: &mut IoBuf) -> Result<usize> {
        self.text.read(of, buf)
    }

    fn read_at(&self, of: &OpenFile, offset: u64, buf: &mut IoBuf) -> Result<usize> {
        self.text.read_at(of, offset, buf)
    }

    fn write(&self, _of: &OpenFile, buf: &mut IoBuf) -> Result<usize> {
        if buf.remaining() > TOO_LONG {
            return Err(Errno::E2BIG);
        }
        let mut bytes = [0; LONGEST];
        let count = buf.take(&mut bytes)?;
        if buf.remaining() > 0 {
            return Err(Errno::EINVAL);
        }
        self.file.check(&self.group)?;
        let write = self.file.write.ok_or(Errno::EINVAL)?;
        let text = bytes.get(..count).ok_or(Errno::EINVAL)?;
        // As from C: no further than a zero.
        let text = text.split(|byte| *byte == 0).next().unwrap_or_default();
        let text = core::str::from_utf8(text).map_err(|_| Errno::EINVAL)?;
        write(&self.group, &self.opener, text.trim_ascii())?;
        Ok(count)
    }

    fn write_at(&self, of: &OpenFile, _offset: u64, buf: &mut IoBuf) -> Result<usize> {
        self.write(of, buf)
    }

    fn lseek(&self, of: &OpenFile, offset: i64, whence: u32) -> Result<u64> {
        self.text.lseek(of, offset, whence)
    }
}
