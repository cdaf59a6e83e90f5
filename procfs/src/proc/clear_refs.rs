//! `/proc/PID/clear_refs`: a write resets the referenced marks of a process's pages.
//!
//! *Interface*: [`ClearRefsFile`].

use abi::errno::{Errno, Result};
use alloc::sync::Arc;

use super::still_writes;
use account::Cred;
use file::fs::pseudofs::PseudoFile;
use file::io::IoBuf;
use file::{File, OpenFile};
use process::Process;
use vm::fallible::try_arc;

/// The longest number that is heard.
const LONGEST: usize = 12;

/// The file of a process.
pub struct ClearRefsFile(pub Arc<Process>);

impl PseudoFile for ClearRefsFile {
    fn open(&self, opener: &Arc<Cred>) -> Result<Arc<dyn File>> {
        Ok(try_arc(Opening(self.0.clone(), opener.clone()))?)
    }

    fn permissions(&self) -> u32 {
        0o200
    }
}

/// The file, opened.
struct Opening(Arc<Process>, Arc<Cred>);

impl File for Opening {
    fn write(&self, _of: &OpenFile, buf: &mut IoBuf) -> Result<usize> {
        let whole = buf.remaining();
        let mut bytes = [0; LONGEST];
        let count = buf.take(&mut bytes)?;
        let text = core::str::from_utf8(bytes.get(..count).unwrap_or_default());
        let text = text.map_err(|_| Errno::EINVAL)?.trim();
        let kind: i32 = text.parse().map_err(|_| Errno::EINVAL)?;
        if !(1..=5).contains(&kind) {
            return Err(Errno::EINVAL);
        }
        still_writes(&self.0, &self.1)?;
        if self.0.is_gone() {
            return Err(Errno::ESRCH);
        }
        if let Some(space) = self.0.space() {
            match kind {
                1 => space.forget_use(true, true),
                2 => space.forget_use(true, false),
                3 => space.forget_use(false, true),
                5 => space.forget_most(),
                // Nobody keeps which pages have been written since.
                _ => {}
            }
        }
        Ok(whole)
    }

    fn write_at(&self, of: &OpenFile, _offset: u64, buf: &mut IoBuf) -> Result<usize> {
        self.write(of, buf)
    }

    fn lseek(&self, of: &OpenFile, offset: i64, whence: u32) -> Result<u64> {
        of.sought(offset, whence, || None)
    }
}
