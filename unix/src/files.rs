//! The descriptor table and its kernel procedure table.

use abi::errno::Result;
use alloc::sync::Arc;

use crate::file::OpenFile;

/// The three arrays of code addresses that a thread's dispatcher indexes by descriptor.
#[derive(Clone, Copy, Debug)]
pub struct KptView {
    /// First word of the `read` array.
    pub read: *const usize,
    /// First word of the `write` array.
    pub write: *const usize,
    /// First word of the `lseek` array.
    pub lseek: *const usize,
    /// Words in each array; a descriptor beyond is bad.
    pub len: usize,
}

/// A descriptor table.
pub struct Files(());

impl Files {
    /// An empty table that may hold up to `limit` descriptors (RLIMIT_NOFILE).
    pub fn new(_limit: usize) -> Result<Arc<Files>> {
        todo!()
    }
    /// The open file behind `fd`; `EBADF`.
    pub fn get(&self, _fd: i32) -> Result<Arc<OpenFile>> {
        todo!()
    }
    /// Gives `of` the lowest free descriptor; `EMFILE`.
    pub fn install(&self, _of: Arc<OpenFile>, _cloexec: bool) -> Result<i32> {
        todo!()
    }
    /// As [`Files::install`], not below `from` (`F_DUPFD`).
    pub fn install_from(&self, _from: i32, _of: Arc<OpenFile>, _cloexec: bool) -> Result<i32> {
        todo!()
    }
    /// Gives `of` the descriptor `fd`, closing what was there (`dup2`); `EBADF` beyond the limit.
    pub fn install_at(&self, _fd: i32, _of: Arc<OpenFile>, _cloexec: bool) -> Result<i32> {
        todo!()
    }
    /// Closes `fd`; `EBADF`.
    pub fn close(&self, _fd: i32) -> Result<()> {
        todo!()
    }
    /// A copy for a child; from now on the open files are shared, and both tables hold the shared routines.
    pub fn fork_copy(&self) -> Result<Arc<Files>> {
        todo!()
    }
    /// A thread is about to join this table (`CLONE_FILES`): the shared routines are plugged.
    pub fn share(&self) {
        todo!()
    }
    /// A thread left this table (exit, `exec`, `unshare`).
    pub fn unshare(&self) {
        todo!()
    }
    /// Closes the descriptors marked close-on-exec.
    pub fn close_on_exec(&self) {
        todo!()
    }
    /// Closes every descriptor, when the last thread exits.
    pub fn close_all(&self) {
        todo!()
    }
    /// Changes RLIMIT_NOFILE.
    pub fn set_limit(&self, _limit: usize) {
        todo!()
    }
    /// Where the dispatcher finds the code.
    pub fn kpt(&self) -> KptView {
        todo!()
    }
    /// Puts the routines of `fd` in place again after the object behind it changed (a pipe got a second writer).
    pub fn replug(&self, _fd: i32) {
        todo!()
    }
}

/// Called with a table whose arrays moved, before the old ones are retired: the dispatchers of its threads must be generated again.
pub fn link_moved(_moved: fn(&Files)) {
    todo!()
}
