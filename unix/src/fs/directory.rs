//! An open directory, of any file system.
//!
//! *Interface.* [`Directory`] is the behaviour; the offset of its description is a place in the inode's `readdir` order.

use abi::errno::{Errno, Result};
use abi::linux::{SEEK_CUR, SEEK_SET};
use core::any::Any;
use core::sync::atomic::Ordering;

use super::inode::DirSink;
use crate::file::{File, OpenFile, moved};
use crate::io::IoBuf;

/// The behaviour of an open directory.
pub struct Directory;

impl File for Directory {
    fn read(&self, _of: &OpenFile, _buf: &mut IoBuf) -> Result<usize> {
        Err(Errno::EISDIR)
    }

    fn read_at(&self, _of: &OpenFile, _offset: u64, _buf: &mut IoBuf) -> Result<usize> {
        Err(Errno::EISDIR)
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

    fn readdir(&self, of: &OpenFile, sink: &mut dyn DirSink) -> Result<()> {
        let inode = of.inode().ok_or(Errno::ENOTDIR)?;
        let _turn = of.turn();
        let from = of.cursor.offset.load(Ordering::Relaxed);
        let to = inode.readdir(from, sink)?;
        of.cursor.offset.store(to, Ordering::Relaxed);
        Ok(())
    }

    fn as_any(&self) -> &dyn Any {
        self
    }
}
