//! Open files: the object behind a descriptor, and the code generated for it.
//!
//! *Interface.* [`File`] is the behaviour (a regular file, a pipe end, a terminal); [`OpenFile`] is Linux's
//! open file description: a behaviour, the access mode and status flags, the offset, the path it was
//! opened by, and the routines generated for it ([`DescRoutines`], one set for each [`Sharing`]).
//! Descriptors ([`crate::fdtable`]) hold `Arc<OpenFile>`; dropping the last one calls [`File::close`].
//! Dissertation 3.1 (code from `open`) and 4.1.2 (the inactive list).
//!
//! *Unsafe*: a list inside the inode that the description keeps.

mod entries;
pub mod fasync;
pub mod filters;
mod offset;
pub mod operation;
pub(crate) mod readiness;
mod routines;

use alloc::boxed::Box;
use alloc::string::String;
use alloc::sync::Arc;
use core::any::Any;
use core::ptr::NonNull;
use core::sync::atomic::{AtomicBool, AtomicU8, AtomicU32, Ordering};

use abi::errno::{Errno, Result};
use abi::linux::{
    ANON_INODE_FS_MAGIC, O_ACCMODE, O_APPEND, O_CLOEXEC, O_CREAT, O_EXCL, O_LARGEFILE, O_NOCTTY,
    O_NONBLOCK, O_PATH, O_RDONLY, O_RDWR, O_TRUNC, O_WRONLY, S_IFMT, SEEK_CUR,
};
use sync::Once;

use crate::fs::fsnotify;
use crate::fs::inactive::Inactive;
use crate::fs::lease;
use crate::fs::published::Published;
use crate::fs::unnamed::ANONYMOUS;
use crate::fs::write_count::WriteAccess;
use crate::fs::{Attr, DirSink, FileKind, Inode, OpenRequest, SetAttr, VfsPath};
use crate::gauge::Gauges;
use crate::io::IoBuf;
use crate::poll::{self, PollTable};
use crate::routine_env;
use account::caller;
use account::quota;
use entries::Code;
use fasync::{Fasync, FasyncKind};
pub use offset::{OffsetGuard, moved};
pub use operation::Operation;
use operation::Operations;
pub use readiness::ReadinessRoutine;
pub use routines::Probes;
use vm::fallible::try_string;

use quaject::fsmap::Cursor;
use quaject::pipe::PipeCore;
pub use quaject::{CallAdapter, DescFn, RoutineEnv, Sharing, SocketName};

/// A generated descriptor routine.
pub type DescRoutine = codegen::Routine<DescFn>;

/// The generated routines of one open file. `None` leaves the `slow` stub of that call in place.
#[derive(Clone, Default)]
pub struct DescRoutines {
    /// Code for `read`.
    pub read: Option<DescRoutine>,
    /// Code for `write`.
    pub write: Option<DescRoutine>,
    /// Code for `lseek`.
    pub lseek: Option<DescRoutine>,
}

impl DescRoutines {
    /// Records the running process as owner for listings. Shared images have no owner.
    fn own(&self) {
        let routines = [&self.read, &self.write, &self.lseek];
        routines.into_iter().flatten().for_each(own);
    }
}

/// Notes for listings that the running process had `routine` made, unless it serves others too.
fn own(routine: &DescRoutine) {
    let pid = caller::number();
    if pid != 0 && !routine.is_shared() {
        routine.set_owner(pid as u64);
    }
}

/// The operations of an open file. Methods run in process context with interrupts on and may sleep. The
/// default of each is the errno that Linux gives for a file without that operation.
pub trait File: Send + Sync + Any {
    /// Moves bytes from the file, at the description's offset, into `buf`; 0 at the end.
    fn read(&self, _of: &OpenFile, _buf: &mut IoBuf) -> Result<usize> {
        Err(Errno::EINVAL)
    }
    /// Moves bytes from `buf` into the file at the description's offset (at its end with `O_APPEND`).
    fn write(&self, _of: &OpenFile, _buf: &mut IoBuf) -> Result<usize> {
        Err(Errno::EINVAL)
    }
    /// `pread`: as `read`, at `offset` bytes, leaving the description's offset alone.
    fn read_at(&self, _of: &OpenFile, _offset: u64, _buf: &mut IoBuf) -> Result<usize> {
        Err(Errno::ESPIPE)
    }
    /// `pwrite`: as `write`, at `offset` bytes.
    fn write_at(&self, _of: &OpenFile, _offset: u64, _buf: &mut IoBuf) -> Result<usize> {
        Err(Errno::ESPIPE)
    }
    /// Moves the description's offset and returns it. See [`moved`].
    fn lseek(&self, _of: &OpenFile, _offset: i64, _whence: u32) -> Result<u64> {
        Err(Errno::ESPIPE)
    }
    /// Which of `events` (POLLIN…) hold now; with a table, also enrols the caller to be woken on change.
    fn poll<'a>(
        &'a self,
        _of: &'a OpenFile,
        events: u32,
        _table: Option<&mut PollTable<'a>>,
    ) -> u32 {
        events & poll::events(true, true)
    }
    /// Whether it can be read and written at any time, as [`File::poll`] says by default.
    fn is_always_ready(&self) -> bool {
        false
    }
    /// Whether the wait lists that [`File::poll`] shows are the same each time and are woken at each change,
    /// whether they have been shown again or not.
    fn wakes_each_time(&self) -> bool {
        false
    }
    /// Whether an epoll instance may watch it: [`File::poll`] enrols the caller.
    fn can_be_watched(&self) -> bool {
        false
    }
    /// The events that it signals (`O_ASYNC`).
    fn tells(&self) -> FasyncKind {
        FasyncKind::Never
    }
    /// The channels that calls for it move data through, for the scheduler.
    fn gauges(&self, _of: &OpenFile) -> Gauges {
        Gauges::default()
    }
    /// A control operation; `arg` is the user's third argument unchecked.
    fn ioctl(&self, _of: &OpenFile, _cmd: u32, _arg: usize) -> Result<usize> {
        Err(Errno::ENOTTY)
    }
    /// A command of `fcntl` that is about this kind of file (`F_GETPIPE_SZ`).
    fn control(&self, _of: &OpenFile, _command: i32, _arg: usize) -> Result<usize> {
        Err(Errno::EINVAL)
    }
    /// Entries of a directory from the description's offset on, which it advances past those taken.
    fn readdir(&self, _of: &OpenFile, _sink: &mut dyn DirSink) -> Result<()> {
        Err(Errno::ENOTDIR)
    }
    /// Attributes; the default asks the inode, and describes an anonymous file without one.
    fn stat(&self, of: &OpenFile) -> Attr {
        let anonymous = || ANONYMOUS.attr(Attr::anonymous());
        of.inode().map_or_else(anonymous, |i| i.attr())
    }
    /// Changes attributes of a file without an inode. EAGAIN: those that permission depended on have changed.
    fn set_attr(&self, _of: &OpenFile, set: &SetAttr) -> Result<()> {
        ANONYMOUS.set(Attr::anonymous(), set)
    }
    /// The magic number of the file system (`fstatfs`) of a file without an inode.
    fn magic(&self) -> i64 {
        ANON_INODE_FS_MAGIC
    }
    /// Whether it reads at all, and writes, whatever its description allows: else `read` is EINVAL.
    fn moves(&self) -> [bool; 2] {
        [true, true]
    }
    /// Whether a call that reads, and one that writes, may have flags (`preadv2`).
    fn takes_flags(&self, of: &OpenFile) -> [bool; 2] {
        [of.kind().is_some(); 2]
    }
    /// Whether it reads and writes at positions (`pread`).
    fn has_places(&self, of: &OpenFile) -> bool {
        of.inode().is_some() && self.lseek(of, 0, SEEK_CUR as u32) != Err(Errno::ESPIPE)
    }
    /// Sets the length in bytes.
    fn truncate(&self, _of: &OpenFile, _size: u64) -> Result<()> {
        Err(Errno::EINVAL)
    }
    /// Waits until the written data is stored; with `data`, only those attributes that reading needs.
    fn sync(&self, _of: &OpenFile, _data: bool) -> Result<()> {
        Ok(())
    }
    /// The error of a failed store in the whole file system since the description was opened, or got the last
    /// report (`syncfs`). EIO, ENOSPC, EDQUOT.
    fn take_fs_error(&self, _of: &OpenFile) -> Result<()> {
        Ok(())
    }
    /// `fallocate` with its `mode`, offset and length in bytes.
    fn allocate(&self, _of: &OpenFile, _mode: u32, _offset: u64, _len: u64) -> Result<()> {
        Err(Errno::ENODEV)
    }
    /// As [`File::pager`], for a shared mapping that `writes` or not, and whether it may come to write.
    /// EPERM.
    fn shared_pager(&self, of: &OpenFile, _writes: bool) -> Result<(Arc<dyn vm::Pager>, bool)> {
        Ok((self.pager(of)?, of.writable()))
    }
    /// The running process, which may write, gets a mapping by which it can do so without any call.
    fn let_write(&self, _of: &OpenFile) {}
    /// The source of this file's pages for `mmap`.
    fn pager(&self, _of: &OpenFile) -> Result<Arc<dyn vm::Pager>> {
        Err(Errno::ENODEV)
    }
    /// How `splice` and `sendfile` move bytes between it and a pipe, or from a file to it.
    fn splices(&self, of: &OpenFile) -> SpliceKind {
        match of.inode().map(|inode| inode.kind()) {
            Some(FileKind::Regular | FileKind::Char) => SpliceKind::Waits,
            _ => SpliceKind::Never,
        }
    }
    /// Whether a mapping of it is fresh memory, as one of no file.
    fn maps_as_fresh(&self) -> bool {
        false
    }
    /// Whether `RLIMIT_FSIZE` limits writes.
    fn is_bounded(&self) -> bool {
        false
    }
    /// The status flags changed (`fcntl(F_SETFL)`); the routines are generated again afterwards.
    fn flags_changed(&self, _of: &OpenFile) {}
    /// The running process has closed a descriptor, and there are ties ([`crate::close_cleanup`]): those of
    /// this kind of file are cut.
    fn descriptor_closed(&self) {}
    /// A writable descriptor is closed: records the changes (times) that generated code has only flagged.
    fn settle(&self, _of: &OpenFile) {}
    /// Whether [`File::settle`] has something to do. Must not sleep.
    fn unsettled(&self, _of: &OpenFile) -> bool {
        false
    }
    /// The last descriptor is gone.
    fn close(&self, _of: &OpenFile) {}
    /// Code for this description. [`Sharing::Exclusive`] promises one thread until it is replugged.
    fn synthesize(&self, of: &OpenFile, sharing: Sharing) -> Result<DescRoutines> {
        self.synthesize_against(of, sharing, routine_env::get()?)
    }
    /// As [`File::synthesize`], against `env` and no other; nothing for a file whose code is made once for
    /// many, or is plugged from elsewhere.
    fn synthesize_against(
        &self,
        _of: &OpenFile,
        _sharing: Sharing,
        _env: &RoutineEnv,
    ) -> Result<DescRoutines> {
        Ok(DescRoutines::default())
    }
    /// Code for `recvfrom`, or for `sendto` if it `writes`, with an address, against the routine environments
    /// of `around`; none for a file that has no such code, or knows no address for it.
    fn synthesize_named(
        &self,
        _of: &OpenFile,
        _sharing: Sharing,
        _around: &CallAdapter,
        _writes: bool,
    ) -> Result<Option<SocketName>> {
        Ok(None)
    }
    /// Code for `pread64`, or for `pwrite64` if it `writes`; none for a file that has no such code.
    fn synthesize_at(&self, _of: &OpenFile, _writes: bool) -> Result<Option<DescRoutine>> {
        Ok(None)
    }
    /// Code for callentry number `number` of the quaject that this is: the argument in r10, the result in
    /// rax, every other register preserved; it does not leave through the slow exit. None where ordinary Rust
    /// makes the call.
    fn synthesize_callentry(&self, _number: usize) -> Result<Option<DescRoutine>> {
        Ok(None)
    }
    /// Whether there is code only when a second call has asked for it: of files of which most descriptions
    /// serve for one call, or none.
    fn code_comes_late(&self) -> bool {
        false
    }
    /// The state that the code depends on and that can change in the life of a description: after a change,
    /// the descriptors are plugged again ([`crate::fdtable::FdTable::plug_again`]).
    fn stage(&self) -> u8 {
        0
    }
    /// Code that tells which events hold, as [`File::poll`] does; none for a file that tells otherwise.
    fn synthesize_ready_check(&self, _of: &OpenFile) -> Result<Option<ReadinessRoutine>> {
        Ok(None)
    }
    /// The pipe, one of bytes, into which its routine for `write` moves them, and how far that shares the
    /// writing end where the description is shared so far; none where they go elsewhere.
    fn writes_into(&self, _sharing: Sharing) -> Option<(&Arc<PipeCore>, Sharing)> {
        None
    }
    /// The present target of the routine for `call` (`read`, `write`, `lseek`), when it is a relay
    /// (`quaject::relay`): for listings.
    fn relayed(&self, _call: &str) -> Option<DescRoutine> {
        None
    }
    /// Whether a description of this file may wait in its inode's inactive list and serve a later open with
    /// no other ceremony (no side effect of open or close that anyone could see).
    fn reusable(&self) -> bool {
        false
    }
    /// Does the work of the last close of `of`, a description of this unnamed file, and keeps it for another
    /// open; or gives it back. The caller has its only count, but for the file's own: an epoll instance that
    /// knew it would mistake the next description for it. Must not sleep.
    fn park(&self, of: Arc<OpenFile>) -> core::result::Result<(), Arc<OpenFile>> {
        Err(of)
    }
    /// Bytes of the kernel's memory that the last close frees: this object, and the memory that only it
    /// refers to.
    fn weight(&self, _of: &OpenFile) -> usize {
        SMALL_WEIGHT
    }
    /// The text in `/proc/PID/fd` in place of a path when the file has no name.
    fn label(&self, _of: &OpenFile) -> Result<String> {
        try_string(b"anon_inode:[file]")
    }
    /// Its own additional lines in `/proc/PID/fdinfo`.
    fn info(&self, _of: &OpenFile, _out: &mut dyn core::fmt::Write) -> core::fmt::Result {
        Ok(())
    }
}

/// How bytes are moved between a file and a pipe ([`File::splices`]).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SpliceKind {
    /// Not at all.
    Never,
    /// Reads and writes of it may wait.
    Waits,
    /// It never does, and reads and writes at positions.
    AtOnce,
}

/// Bytes of a description with its code, about.
pub const SMALL_WEIGHT: usize = 1024;

/// An open file description.
pub struct OpenFile {
    file: Arc<dyn File>,
    place: Option<VfsPath>,
    /// Access mode and status flags (`O_*`).
    pub flags: AtomicU32,
    /// Offset, and its monitor; generated routines hold their addresses.
    pub cursor: Cursor,
    /// Descriptors, over all tables, that refer to it.
    pub slots: AtomicU32,
    /// Whether more than one thread may reach it: [`ALONE`], [`SHARED`], [`FOR_EVER`].
    shared: AtomicU8,
    console: bool,
    /// The inactive list of its inode, if it may wait there.
    list: Option<NonNull<Inactive>>,
    /// The part that its inode shows.
    shown: Option<NonNull<Published>>,
    closed: AtomicBool,
    /// A call has asked for code that comes late ([`File::code_comes_late`]).
    asked: AtomicBool,
    /// That it may write a file which could be run.
    writing: Once<WriteAccess>,
    code: Code,
    operations: Operations,
    look: readiness::Readiness,
    /// Its settings for signals. A description with such settings is never reused.
    fasync: Once<Box<Fasync>>,
}

// SAFETY: all fields but `list` and `shown` are `Send` and `Sync` themselves; these point to parts of the
// inode that `place` keeps, and are.
unsafe impl Send for OpenFile {}
// SAFETY: as above.
unsafe impl Sync for OpenFile {}

/// The bytes of a description pass filters: among what sets its routines apart.
const FILTERED: u8 = 4;

/// In the word of the flags: as [`FILTERED`], where the access mode is looked at anyway.
const ASIDE: u32 = 1 << 31;

/// Only one thread can reach the description.
const ALONE: u8 = 0;
/// Several threads may, by descriptors.
const SHARED: u8 = 1;
/// They may, by other ways too.
const FOR_EVER: u8 = 2;

/// Flags of `open` that a description does not keep.
const CREATION: u32 = O_CREAT | O_EXCL | O_NOCTTY | O_TRUNC | O_CLOEXEC;

/// Where a description keeps the address of what its inode shows; 0 for none.
pub const SHOWN: usize = core::mem::offset_of!(OpenFile, shown);

impl OpenFile {
    /// The part that its inode shows.
    #[inline(always)]
    pub fn published(&self) -> Option<&Published> {
        // SAFETY: it is a part of the inode, which `place` keeps.
        self.shown.map(|shown| unsafe { shown.as_ref() })
    }

    /// A description of a file without a name (a pipe end, a socket), opened with `flags` (`O_*`).
    pub fn new(file: Arc<dyn File>, flags: u32) -> Arc<OpenFile> {
        Self::at(file, OpenRequest { flags, place: None })
    }

    /// A description of a file found as `how` says.
    pub fn at(file: Arc<dyn File>, how: OpenRequest) -> Arc<OpenFile> {
        let reusable = file.reusable();
        Self::make(file, how, reusable, false)
    }

    /// A description of the console, for its driver: it may wait for another open. If the console is a
    /// `terminal`, that excludes an open that makes it the terminal of a session.
    pub fn console(file: Arc<dyn File>, how: OpenRequest, terminal: bool) -> Arc<OpenFile> {
        Self::make(file, how, true, terminal)
    }

    fn make(file: Arc<dyn File>, how: OpenRequest, reusable: bool, console: bool) -> Arc<OpenFile> {
        let place = how.place.as_ref();
        let list = place.filter(|_| reusable).and_then(|p| p.inode.inactive());
        let shown = place.and_then(|place| place.inode.published());
        let parts = (list.map(NonNull::from), shown.map(NonNull::from));
        Self::of_parts(file, how, parts, console)
    }

    /// A description of a regular file, whose inode shows `shown` and has the inactive list `list`.
    #[inline(always)]
    pub(crate) fn regular(
        file: Arc<dyn File>,
        how: OpenRequest,
        list: &Inactive,
        shown: &Published,
    ) -> Arc<OpenFile> {
        let parts = (Some(NonNull::from(list)), Some(NonNull::from(shown)));
        Self::of_parts(file, how, parts, false)
    }

    #[inline(always)]
    fn of_parts(
        file: Arc<dyn File>,
        how: OpenRequest,
        (list, shown): (Option<NonNull<Inactive>>, Option<NonNull<Published>>),
        console: bool,
    ) -> Arc<OpenFile> {
        quota::description_made();
        Arc::new(OpenFile {
            console,
            list,
            shown,
            file,
            place: how.place,
            flags: AtomicU32::new(how.flags & !CREATION),
            cursor: Cursor::new(),
            slots: AtomicU32::new(0),
            shared: AtomicU8::new(ALONE),
            closed: AtomicBool::new(false),
            asked: AtomicBool::new(false),
            writing: Once::new(),
            code: Code::new(),
            operations: Operations::default(),
            look: readiness::Readiness::new(),
            fasync: Once::new(),
        })
    }

    /// The right to write that it has, once more: for a mapping, which may be there longer.
    pub(crate) fn writing(&self) -> Result<Option<WriteAccess>> {
        match (self.writing.get(), self.inode()) {
            (Some(_), Some(inode)) => WriteAccess::begin(inode),
            _ => Ok(None),
        }
    }

    /// It holds the right `writing` as long as it exists. Called once, by its creator.
    pub(crate) fn keep_writing(&self, writing: WriteAccess) {
        let _only = self.writing.set(writing);
    }

    /// Which routines may be plugged.
    #[inline]
    pub(crate) fn sharing(&self) -> Sharing {
        match self.shared.load(Ordering::Acquire) {
            ALONE => Sharing::Exclusive,
            _ => Sharing::Shared,
        }
    }

    /// More than one thread may reach it from now on. Whether it was one alone until now, so that there may
    /// be exclusive code of it.
    #[inline]
    pub(crate) fn share(&self) -> bool {
        self.exchange(ALONE, SHARED)
    }

    /// Only one thread reaches it again, by one descriptor, unless there are other references.
    pub(crate) fn unshare(&self) {
        self.exchange(SHARED, ALONE);
    }

    /// It was said that it is never one alone ([`OpenFile::share_for_ever`]).
    #[inline]
    pub(crate) fn is_shared_for_ever(&self) -> bool {
        self.shared.load(Ordering::Acquire) == FOR_EVER
    }

    /// As [`OpenFile::share`], until it is opened anew.
    pub(crate) fn share_for_ever(&self) {
        self.shared.store(FOR_EVER, Ordering::Release);
    }

    #[inline]
    fn exchange(&self, from: u8, to: u8) -> bool {
        // If another thread changes it meanwhile, that thread's information is newer.
        let (set, fetch) = (Ordering::AcqRel, Ordering::Relaxed);
        self.shared.load(fetch) == from
            && self.shared.compare_exchange(from, to, set, fetch).is_ok()
    }

    /// and it has no probe.
    #[inline]
    pub(crate) fn list_for(&self, flags: u32) -> Option<&Inactive> {
        self.list()
            .filter(|_| flags & !(O_ACCMODE | O_LARGEFILE) == 0)
            .filter(|_| self.code.apart.load(Ordering::Relaxed) == 0)
            .filter(|_| self.fasync().is_none())
    }

    /// After its last close: it waits where its kind waits ([`File::park`]), or comes back.
    #[inline]
    pub(crate) fn park(self: Arc<Self>) -> core::result::Result<(), Arc<Self>> {
        if self.fasync().is_some() {
            return Err(self);
        }
        // The description may serve others before this returns.
        let file = self.file.clone();
        file.park(self)
    }

    /// Whether it is one of the console.
    #[inline]
    pub fn is_console(&self) -> bool {
        self.console
    }

    /// The inactive list where it may wait.
    #[inline]
    pub fn list(&self) -> Option<&Inactive> {
        // SAFETY: the list is part of the inode that `place` keeps.
        self.list.map(|list| unsafe { list.as_ref() })
    }

    /// Made ready for another open with `flags`.
    #[inline]
    pub fn reopen(&self, flags: u32) {
        self.flags.store(flags & !CREATION, Ordering::Relaxed);
        self.cursor.offset.store(0, Ordering::Relaxed);
        self.shared.store(ALONE, Ordering::Relaxed);
        self.closed.store(false, Ordering::Relaxed);
    }

    /// The work of the last close is done; it may be opened again.
    pub(crate) fn rest(&self) {
        self.closed.store(true, Ordering::Relaxed);
    }

    /// Whether the work of the last close is done. Others may hold counts of it for another grace period.
    pub(crate) fn is_closed(&self) -> bool {
        self.closed.load(Ordering::Acquire)
    }

    /// Tells the behaviour that the last descriptor is gone, once.
    pub(crate) fn finish(&self) {
        if !self.is_closed() && !self.closed.swap(true, Ordering::AcqRel) {
            fsnotify::closed(self);
            lease::closed(self);
            self.file.close(self);
        }
    }

    /// The behaviour.
    pub fn file(&self) -> &dyn File {
        &*self.file
    }

    /// The behaviour as the type `T`, if it is one.
    pub fn file_as<T: File>(&self) -> Option<&T> {
        (&*self.file as &dyn Any).downcast_ref()
    }

    /// The inode, of a file that has one.
    pub fn inode(&self) -> Option<&Arc<dyn Inode>> {
        self.place.as_ref().map(|p| &p.inode)
    }

    /// The file's number for locks: its device and inode, or those that `fstat` says.
    pub fn lock_id(&self) -> (u64, u64) {
        match self.inode() {
            Some(inode) => inode.id(),
            None => {
                let attr = self.file.stat(self);
                (attr.dev, attr.ino)
            }
        }
    }

    /// The kind of file; none for what is of no kind, as a counter.
    pub fn kind(&self) -> Option<FileKind> {
        match self.inode() {
            Some(inode) => Some(inode.kind()),
            None => match self.file.stat(self).mode & S_IFMT {
                0 => None,
                kind => FileKind::of_mode(kind),
            },
        }
    }

    /// The inode and its mount, of a file that has one.
    pub fn place(&self) -> Option<&VfsPath> {
        self.place.as_ref()
    }

    /// Its current path, or the text in place of one (`pipe:[7]`). ENOMEM: it may be long.
    pub fn path(&self) -> Result<String> {
        match &self.place {
            Some(place) => place.display_path(),
            None => self.file.label(self),
        }
    }

    /// Access mode and status flags.
    pub fn flags(&self) -> u32 {
        self.flags.load(Ordering::Relaxed) & !ASIDE
    }

    /// Replaces status flags: those in `settable` by those in `flags`.
    pub fn set_flags(&self, settable: u32, flags: u32) {
        let new = |old| Some(old & !settable | flags & settable);
        let (set, fetch) = (Ordering::Relaxed, Ordering::Relaxed);
        let _always = self.flags.fetch_update(set, fetch, new);
    }

    /// Whether it is more than a place, and its bytes pass no filter.
    #[inline]
    pub(crate) fn is_plain(&self) -> bool {
        self.flags.load(Ordering::Relaxed) & (O_PATH | ASIDE) == 0
    }

    /// Whether `read` is allowed and its bytes pass no filter.
    #[inline]
    pub fn reads_plainly(&self) -> bool {
        let flags = self.flags.load(Ordering::Relaxed);
        flags & (O_PATH | ASIDE) == 0 && matches!(flags & O_ACCMODE, O_RDONLY | O_RDWR)
    }

    /// Whether `write` is allowed and its bytes pass no filter.
    #[inline]
    pub fn writes_plainly(&self) -> bool {
        let flags = self.flags.load(Ordering::Relaxed);
        flags & (O_PATH | ASIDE) == 0 && matches!(flags & O_ACCMODE, O_WRONLY | O_RDWR)
    }

    /// Whether `read` is allowed, and `write`.
    #[inline]
    pub(crate) fn allows(&self) -> [bool; 2] {
        let flags = self.flags();
        let mode = flags & O_ACCMODE;
        let opened = flags & O_PATH == 0;
        [
            // Mode 3 allows neither.
            opened && matches!(mode, O_RDONLY | O_RDWR),
            opened && matches!(mode, O_WRONLY | O_RDWR),
        ]
    }

    /// Whether `read` is allowed.
    pub fn readable(&self) -> bool {
        self.allows()[0]
    }

    /// Whether `write` is allowed.
    pub fn writable(&self) -> bool {
        self.allows()[1]
    }

    /// Whether a close has to record what generated code has changed ([`File::settle`]).
    #[inline]
    pub(crate) fn is_unsettled(&self) -> bool {
        match self.published() {
            // Such a file has no other changes.
            Some(shown) => shown.is_touched(),
            None => self.file.unsettled(self),
        }
    }

    /// Whether calls that would wait fail with `EAGAIN` instead.
    pub fn nonblocking(&self) -> bool {
        self.flags() & O_NONBLOCK != 0
    }

    /// Whether writes go to the end of the file.
    pub fn appending(&self) -> bool {
        self.flags() & O_APPEND != 0
    }
}

impl Drop for OpenFile {
    fn drop(&mut self) {
        quota::description_gone();
        self.finish();
    }
}
