//! Shared memory segments.
//!
//! *Interface*: [`SEGMENTS`]; [`ShmSegment::new`], [`attach`], [`detach`], [`doom`], [`attached`].
//!
//! A segment's pages are those of an unnamed memory file. All mappings of it share one pager. When the
//! segment is doomed its entry drops the pager; with the last mapping the pager is freed and releases the
//! number. Mappings are not counted: a request for their number searches the address spaces.

use abi::errno::{Errno, Result};
use abi::layout::PAGE;
use abi::linux::*;
use alloc::string::String;
use alloc::sync::{Arc, Weak};
use alloc::vec::Vec;
use core::sync::atomic::{AtomicI32, Ordering};
use sync::Monitor;
use vm::frame::{BatchSlots, FrameRef};
use vm::space::{Backing, PagerInfo, PagerLabel, Placement};
use vm::{AddressSpace, Pager, Prot};

use super::{IpcEntry, IpcNamespace, seconds};
use crate::process::tree;
use account::Cred;
use file::fs::inode::OpenRequest;
use file::fs::mount::{self, FileSystem};
use file::tmpfs::TmpFs;
use vm::fallible::{try_arc, try_push, try_text};

/// All segments.
pub static SEGMENTS: IpcNamespace<ShmSegment> = IpcNamespace::new(4096);

/// The largest segment (`shmmax`), and the most pages of all (`shmall`).
pub const BYTES_MAX: u64 = u64::MAX - (1 << 24);

/// The device number that mappings of segments show.
const DEVICE: u64 = makedev(0, 1);

/// One segment.
pub struct ShmSegment {
    /// Its requested size.
    pub bytes: u64,
    state: Monitor<Attached>,
}

struct Attached {
    /// Until it is doomed.
    pages: Option<Arc<Pages>>,
    mapped: Weak<Pages>,
    atime: i64,
    dtime: i64,
    ctime: i64,
    cpid: i32,
    lpid: i32,
    locked: bool,
}

/// The shared data of all mappings of a segment.
struct Pages {
    inner: Arc<dyn Pager>,
    id: AtomicI32,
    path: Arc<String>,
}

impl ShmSegment {
    /// A segment of `bytes`, made by process `pid` for `key`. ENOMEM.
    pub fn new(bytes: u64, key: i32, pid: i32, cred: &Cred) -> Result<ShmSegment> {
        let no_memory = |_| Errno::ENOMEM;
        let fs = TmpFs::new("tmpfs", 0o700);
        let inode = fs
            .root()
            .tmpfile(b"SYSV", 0o600, 0, cred)
            .map_err(no_memory)?;
        inode.truncate(bytes).map_err(no_memory)?;
        let of = inode.clone().open(OpenRequest {
            flags: O_RDWR | O_LARGEFILE,
            place: Some(mount::detached(fs, inode)),
        })?;
        let pages = try_arc(Pages {
            inner: of.file().pager(&of)?,
            id: AtomicI32::new(-1),
            path: try_arc(try_text(format_args!("/SYSV{key:08x} (deleted)"))?)?,
        })?;
        Ok(ShmSegment {
            bytes,
            state: Monitor::new(Attached {
                mapped: Arc::downgrade(&pages),
                pages: Some(pages),
                atime: 0,
                dtime: 0,
                ctime: seconds(),
                cpid: pid,
                lpid: 0,
                locked: false,
            }),
        })
    }

    /// Its pages, as mappings have them.
    fn pages(&self) -> Option<Arc<Pages>> {
        // Bound: a few words, or a counted handle.
        let state = self.state.lock();
        state.pages.clone().or_else(|| state.mapped.upgrade())
    }

    /// Locks it in memory, where it is anyway, or lets it go.
    pub fn set_locked(&self, on: bool) {
        self.state.lock().locked = on;
    }

    /// Its owner or mode has changed.
    pub fn changed(&self) {
        self.state.lock().ctime = seconds();
    }
}

/// The segment with number `id`. EINVAL, also for one that was doomed and lost its last mapping.
pub fn find(id: i32) -> Result<Arc<IpcEntry<ShmSegment>>> {
    let entry = SEGMENTS.find(id)?;
    // Bound: a few words, or a counted handle.
    let doomed = entry.object.state.lock().pages.is_none();
    if doomed && attached(entry.id) == 0 {
        SEGMENTS.remove(&entry);
        return Err(Errno::EINVAL);
    }
    // A new one learns its number by the first look.
    if let Some(pages) = entry.object.pages() {
        pages.id.store(entry.id, Ordering::Relaxed);
    }
    Ok(entry)
}

/// Maps the segment into `space` of process `pid`. EINVAL, ENOMEM, EIDRM.
pub fn attach(
    entry: &IpcEntry<ShmSegment>,
    space: &AddressSpace,
    pid: i32,
    place: Placement,
    prot: Prot,
) -> Result<usize> {
    let pager = entry.object.pages().ok_or(Errno::EIDRM)?;
    let backing = Backing::FileShared {
        pager,
        offset: 0,
        may_write: prot.contains(Prot::WRITE),
        may_exec: true,
    };
    let bytes = usize::try_from(entry.object.bytes).map_err(|_| Errno::ENOMEM)?;
    let at = match space.map(place, bytes, prot, backing) {
        Err(Errno::EEXIST | Errno::EPERM) => return Err(Errno::EINVAL),
        mapped => mapped?,
    };
    let mut state = entry.object.state.lock();
    (state.atime, state.lpid) = (seconds(), pid);
    Ok(at)
}

/// Unmaps the segment whose first byte is at `address`, as far as it is there. EINVAL, ENOMEM.
pub fn detach(space: &AddressSpace, pid: i32, address: usize) -> Result<()> {
    let mut found: Option<i32> = None;
    let mut pieces = Vec::new();
    let mut no_memory = false;
    space.for_each_area_above(address, |area| {
        let id = area.pager.and_then(|pager| segment_of(&pager));
        let mine = id.is_some_and(|id| found.is_none_or(|known| known == id));
        if mine && area.start.wrapping_sub(address) as u64 == area.offset {
            found = id;
            let piece = (area.start, area.end - area.start);
            no_memory |= try_push(&mut pieces, piece).is_err();
        }
        !no_memory
    });
    if no_memory {
        return Err(Errno::ENOMEM);
    }
    let id = found.ok_or(Errno::EINVAL)?;
    for (start, length) in pieces {
        space.unmap(start, length)?;
    }
    if let Ok(entry) = SEGMENTS.find(id) {
        let mut state = entry.object.state.lock();
        (state.dtime, state.lpid) = (seconds(), pid);
    }
    Ok(())
}

/// The number of the segment that `pager` says it is.
fn segment_of(pager: &PagerInfo) -> Option<i32> {
    let mine = pager.device == DEVICE && pager.path.as_str().starts_with("/SYSV");
    mine.then_some(pager.inode as i32)
}

/// How many mappings segment `id` has.
pub fn attached(id: i32) -> u64 {
    let mut seen: Vec<usize> = Vec::new();
    let mut count = 0;
    tree::each(
        |_| true,
        |process| {
            let Some(space) = process.space() else {
                return;
            };
            // Several processes may have one.
            let address = Arc::as_ptr(&space).addr();
            if seen.contains(&address) || try_push(&mut seen, address).is_err() {
                return;
            }
            space.for_each_area(|area| {
                let one = area.pager.and_then(|pager| segment_of(&pager));
                count += u64::from(one == Some(id));
            });
        },
    );
    count
}

/// The segment ends with its last mapping, and can no longer be found by its key.
pub fn doom(entry: &IpcEntry<ShmSegment>) {
    entry.hide();
    let pages = entry.object.state.lock().pages.take();
    drop(pages);
    if attached(entry.id) == 0 {
        SEGMENTS.remove(entry);
    }
}

/// The data for `IPC_STAT`.
pub fn stat(entry: &IpcEntry<ShmSegment>) -> ShmidDs {
    let mut perm = entry.perm();
    let nattch = attached(entry.id);
    let state = entry.object.state.lock();
    if state.pages.is_none() {
        perm.mode |= SHM_DEST;
    }
    if state.locked {
        perm.mode |= SHM_LOCKED;
    }
    ShmidDs {
        perm,
        segsz: entry.object.bytes,
        atime: state.atime,
        dtime: state.dtime,
        ctime: state.ctime,
        cpid: state.cpid,
        lpid: state.lpid,
        nattch,
        ..ShmidDs::default()
    }
}

/// Pages of all segments, by their sizes.
pub fn pages_of_all() -> u64 {
    let pages = SEGMENTS
        .all()
        .map(|entry| entry.object.bytes.div_ceil(PAGE as u64));
    pages.sum()
}

impl Pager for Pages {
    fn frame(&self, index: u64, write: bool) -> Result<FrameRef> {
        self.inner.frame(index, write)
    }

    fn resident(&self, first: u64, found: &mut BatchSlots<'_>) {
        self.inner.resident(first, found);
    }

    fn lets_write(&self) -> bool {
        self.inner.lets_write()
    }

    fn object(&self) -> (u64, u64) {
        self.inner.object()
    }

    fn describe(&self) -> PagerInfo {
        PagerInfo {
            path: PagerLabel::Path(self.path.clone()),
            device: DEVICE,
            inode: self.id.load(Ordering::Relaxed) as u64,
        }
    }
}

impl Drop for Pages {
    fn drop(&mut self) {
        // A doomed segment's last mapping is gone; another has no entry any more.
        if let Ok(entry) = SEGMENTS.find(self.id.load(Ordering::Relaxed)) {
            SEGMENTS.remove(&entry);
        }
    }
}
