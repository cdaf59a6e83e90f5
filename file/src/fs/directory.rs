//! An open directory, of any file system.
//!
//! *Interface.* [`Directory`] is the behaviour; the offset of its description is a place in the inode's
//! `readdir` order.

use abi::errno::{Errno, Result};

use super::inode::DirSink;
use crate::fs::file::{File, OpenFile};
use crate::io::IoBuf;

/// The behaviour of an open directory.
pub struct Directory;

impl File for Directory {
    fn is_always_ready(&self) -> bool {
        true
    }

    fn read(&self, _of: &OpenFile, _buf: &mut IoBuf) -> Result<usize> {
        Err(Errno::EISDIR)
    }

    fn read_at(&self, _of: &OpenFile, _offset: u64, _buf: &mut IoBuf) -> Result<usize> {
        Err(Errno::EISDIR)
    }

    fn lseek(&self, of: &OpenFile, offset: i64, whence: u32) -> Result<u64> {
        of.sought(offset, whence, || None)
    }

    fn readdir(&self, of: &OpenFile, sink: &mut dyn DirSink) -> Result<()> {
        let inode = of.inode().ok_or(Errno::ENOTDIR)?;
        of.put_offset(|from| inode.readdir(from, sink)).map(drop)
    }
}
