//! An open regular file in memory.
//!
//! *Interface.* The behaviour ([`File`]) of a regular [`TmpInode`], the code generated for its descriptions
//! (`quaject::fsmap`), and its pages for mappings.
//!
//! *Unsafe*: as `file/src/page_cache/routines.rs`.

use abi::errno::{Errno, Result};
use abi::layout::PAGE;
use abi::linux::{
    F_ADD_SEALS, F_GET_SEALS, F_SEAL_EXEC, F_SEAL_FUTURE_WRITE, F_SEAL_GROW, F_SEAL_SEAL,
    F_SEAL_SHRINK, F_SEAL_WRITE,
};
use abi::linux::{SEEK_DATA, SEEK_HOLE};
use alloc::boxed::Box;
use alloc::string::String;
use alloc::sync::Arc;
use core::any::Any;
use core::sync::atomic::Ordering;
use vm::frame::{BatchSlots, FrameRef};
use vm::space::{Pager, PagerInfo, PagerLabel};

use super::TmpInode;
use super::page_store::{MAX_SIZE, PageStore};
use crate::fs::file::{
    DescRoutine, DescRoutines, File, OpenFile, RoutineEnv, SMALL_WEIGHT, Sharing, SpliceKind,
};

use crate::fs::file_size_limit;
use crate::fs::inode::Inode;
use crate::fs::write_count::WriteAccess;
use crate::io::IoBuf;
use crate::page_cache::routines;
use vm::fallible::{try_arc, try_box};

impl TmpInode {
    fn contents(&self) -> Result<&PageStore> {
        self.store().ok_or(Errno::EINVAL)
    }

    /// Writes at the description's offset, or the end, as far as byte `most`.
    fn write_on(&self, of: &OpenFile, buf: &mut IoBuf, most: u64) -> Result<usize> {
        let store = self.contents()?;
        self.drop_privileges();
        let _turn = of.turn();
        let (end, count) = if of.appending() || buf.appends() {
            store.append(buf, most)?
        } else {
            let at = of.cursor.offset.load(Ordering::Relaxed);
            let count = store.write_within(at, buf, most)?;
            (at + count as u64, count)
        };
        of.cursor.offset.store(end, Ordering::Relaxed);
        if count > 0 {
            self.touch();
        }
        Ok(count)
    }

    /// Whether the running process may make it `size` bytes long. EFBIG, and SIGXFSZ.
    pub(super) fn admit_length(&self, size: u64) -> Result<()> {
        let most = file_size_limit::most();
        let longer = size > self.contents()?.size();
        let refused = longer && size > most;
        let admitted = if refused { Err(Errno::EFBIG) } else { Ok(()) };
        file_size_limit::signal_xfsz(admitted, most, u64::MAX)
    }
}

impl File for TmpInode {
    fn is_always_ready(&self) -> bool {
        true
    }

    /// A file without a name goes with its last description.
    fn weight(&self, _of: &OpenFile) -> usize {
        let attr = self.attr();
        let alone = attr.nlink == 0;
        SMALL_WEIGHT + if alone { 512 * attr.blocks as usize } else { 0 }
    }

    fn read(&self, of: &OpenFile, buf: &mut IoBuf) -> Result<usize> {
        let store = self.contents()?;
        of.onward(|at| store.read(at, buf))
    }

    fn write(&self, of: &OpenFile, buf: &mut IoBuf) -> Result<usize> {
        let most = file_size_limit::most();
        file_size_limit::signal_xfsz(self.write_on(of, buf, most), most, MAX_SIZE)
    }

    fn read_at(&self, _of: &OpenFile, offset: u64, buf: &mut IoBuf) -> Result<usize> {
        self.contents()?.read(offset, buf)
    }

    fn write_at(&self, of: &OpenFile, offset: u64, buf: &mut IoBuf) -> Result<usize> {
        let store = self.contents()?;
        self.drop_privileges();
        let most = file_size_limit::most();
        // Linux appends even here when the description says so.
        let written = if of.appending() || buf.appends() {
            store.append(buf, most).map(|(_, count)| count)
        } else {
            store.write_within(offset, buf, most)
        };
        let count = file_size_limit::signal_xfsz(written, most, MAX_SIZE)?;
        if count > 0 {
            self.touch();
        }
        Ok(count)
    }

    fn lseek(&self, of: &OpenFile, offset: i64, whence: u32) -> Result<u64> {
        let store = self.contents()?;
        let search = |hole| {
            let start = u64::try_from(offset).map_err(|_| Errno::ENXIO)?;
            store.seek(start, hole).ok_or(Errno::ENXIO)
        };
        match whence as i32 {
            SEEK_DATA => of.put_offset(|_| search(false)),
            SEEK_HOLE => of.put_offset(|_| search(true)),
            _ => of.sought(offset, whence, || Some(store.size())),
        }
    }

    fn truncate(&self, _of: &OpenFile, size: u64) -> Result<()> {
        Inode::truncate(self, size)
    }

    fn allocate(&self, _of: &OpenFile, mode: u32, offset: u64, len: u64) -> Result<()> {
        const FALLOC_FL_KEEP_SIZE: u32 = 1;
        const FALLOC_FL_PUNCH_HOLE: u32 = 2;
        const FALLOC_FL_ZERO_RANGE: u32 = 16;
        let store = self.contents()?;
        let end = offset
            .checked_add(len)
            .filter(|e| i64::try_from(*e).is_ok())
            .ok_or(Errno::EFBIG)?;
        // A range beyond the largest file need not be cleared, and cannot be allocated.
        if end > MAX_SIZE && mode & FALLOC_FL_PUNCH_HOLE == 0 {
            return Err(Errno::EFBIG);
        }
        if mode & FALLOC_FL_PUNCH_HOLE == 0 {
            self.admit_length(end)?;
        }
        if mode & FALLOC_FL_PUNCH_HOLE == 0
            && end > store.size()
            && store.seals() & F_SEAL_GROW != 0
        {
            return Err(Errno::EPERM);
        }
        self.drop_privileges();
        let keep = mode & FALLOC_FL_KEEP_SIZE != 0;
        match mode & !FALLOC_FL_KEEP_SIZE {
            FALLOC_FL_PUNCH_HOLE if keep => store.punch(offset, end)?,
            0 | FALLOC_FL_ZERO_RANGE => {
                if mode & FALLOC_FL_ZERO_RANGE != 0 {
                    store.punch(offset, end)?;
                }
                let last = if keep { end.min(store.size()) } else { end };
                store.fill_holes(offset, last)?;
                if !keep && end > store.size() {
                    store.resize(end)?;
                }
            }
            _ => return Err(Errno::EOPNOTSUPP),
        }
        self.touch();
        Ok(())
    }

    fn let_write(&self, _of: &OpenFile) {
        self.drop_privileges();
    }

    fn pager(&self, of: &OpenFile) -> Result<Arc<dyn Pager>> {
        self.mapped.store(true, Ordering::Release);
        Ok(Arc::new(FilePager {
            node: self.this.upgrade().ok_or(Errno::ENODEV)?,
            path: try_arc(of.path()?)?,
            may_write: false,
            _writing: of.writing()?,
        }))
    }

    fn shared_pager(&self, of: &OpenFile, writes: bool) -> Result<(Arc<dyn Pager>, bool)> {
        if !of.writable() {
            return Ok((self.pager(of)?, false));
        }
        let writing = of.writing()?;
        match self.contents()?.map_to_write(true) {
            Ok(()) => {
                let pager = FilePager {
                    node: self.this.upgrade().ok_or(Errno::ENODEV)?,
                    path: Arc::default(),
                    may_write: true,
                    _writing: writing,
                };
                self.mapped.store(true, Ordering::Release);
                let path = try_arc(of.path()?)?;
                Ok((Arc::new(pager.at(path)), true))
            }
            // A sealed file may be mapped read-only for ever.
            Err(_) if !writes => Ok((self.pager(of)?, false)),
            Err(error) => Err(error),
        }
    }

    fn control(&self, of: &OpenFile, command: i32, arg: usize) -> Result<usize> {
        const ALL: u32 = F_SEAL_SEAL
            | F_SEAL_SHRINK
            | F_SEAL_GROW
            | F_SEAL_WRITE
            | F_SEAL_FUTURE_WRITE
            | F_SEAL_EXEC;
        let store = self.contents()?;
        match command {
            F_GET_SEALS => Ok(store.seals() as usize),
            F_ADD_SEALS => {
                let seals = u32::try_from(arg).map_err(|_| Errno::EINVAL)?;
                if !of.writable() {
                    return Err(Errno::EPERM);
                }
                if seals & !ALL != 0 {
                    return Err(Errno::EINVAL);
                }
                let runs = self.attr().mode & 0o111 != 0;
                let more = match seals & F_SEAL_EXEC != 0 && runs {
                    true => F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE | F_SEAL_FUTURE_WRITE,
                    false => 0,
                };
                store.seal(seals | more)?;
                Ok(0)
            }
            _ => Err(Errno::EINVAL),
        }
    }

    fn synthesize_against(
        &self,
        of: &OpenFile,
        sharing: Sharing,
        env: &RoutineEnv,
    ) -> Result<DescRoutines> {
        // SAFETY: the description keeps this node.
        unsafe { routines::make(self.contents()?.core(), of, sharing, env) }
    }

    fn synthesize_at(&self, of: &OpenFile, writes: bool) -> Result<Option<DescRoutine>> {
        // SAFETY: as above.
        unsafe { routines::make_at(self.contents()?.core(), of, writes) }
    }

    fn code_comes_late(&self) -> bool {
        true
    }

    fn unsettled(&self, _of: &OpenFile) -> bool {
        self.store().is_some_and(|s| s.core().is_touched())
    }

    fn settle(&self, _of: &OpenFile) {
        TmpInode::settle(self);
    }

    fn splices(&self, _of: &OpenFile) -> SpliceKind {
        SpliceKind::AtOnce
    }

    fn is_bounded(&self) -> bool {
        true
    }

    fn reusable(&self) -> bool {
        true
    }
}

/// A file's pages for mappings.
struct FilePager {
    node: Arc<TmpInode>,
    path: Arc<String>,
    /// It is counted among those that may write.
    may_write: bool,
    /// The mapping keeps the file open for writing, and so from being run.
    _writing: Option<WriteAccess>,
}

impl Drop for FilePager {
    fn drop(&mut self) {
        if let (true, Some(store)) = (self.may_write, self.node.store()) {
            let _counted = store.map_to_write(false);
        }
    }
}

impl FilePager {
    /// The same, called `path`.
    fn at(mut self, path: Arc<String>) -> FilePager {
        self.path = path;
        self
    }

    fn store_with(&self, index: u64) -> Result<&PageStore> {
        let store = self.node.contents()?;
        if index < store.size().div_ceil(PAGE as u64) {
            Ok(store)
        } else {
            Err(Errno::EFAULT)
        }
    }
}

impl Pager for FilePager {
    fn frame(&self, index: u64, _write: bool) -> Result<FrameRef> {
        self.store_with(index)?
            .page_or_zeros(index)
            .map_err(|_| Errno::ENOMEM)
    }

    fn resident(&self, first: u64, found: &mut BatchSlots<'_>) {
        let Some(store) = self.node.store() else {
            return;
        };
        let inside = store.size().div_ceil(PAGE as u64).saturating_sub(first);
        store.pages_now(first, inside as usize, found);
    }

    fn lets_write(&self) -> bool {
        true
    }

    fn object(&self) -> (u64, u64) {
        self.node.id()
    }

    fn file(&self) -> Option<Box<dyn Any>> {
        let node: Arc<dyn Inode> = self.node.clone();
        Some(try_box(node).ok()?)
    }

    fn describe(&self) -> PagerInfo {
        let (device, inode) = self.node.id();
        PagerInfo {
            path: PagerLabel::Path(self.path.clone()),
            device,
            inode,
        }
    }
}
