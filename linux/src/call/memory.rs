//! Calls about memory.

#![deny(clippy::arithmetic_side_effects)]

use alloc::sync::Arc;
use machine::irqs_off::IrqsOff;

use abi::errno::{Errno, Result};
use abi::layout::{PAGE, USER_END, page_ceil, page_floor};
use abi::linux::*;
use abi::nr;
use vm::space::{Advice, Backing, MemoryLock, Placement, Remap, SpaceLimits};
use vm::{Access, AddressSpace, Prot, user};

use thread::frameless::{NOT_HANDLED, call_handler};

use super::{Args, Handler};
use file::OpenFile;
use file::fs::VfsPath;
use process::{Process, Task};

/// See [`super::FAMILIES`].
pub const CALLS: &[(usize, Handler)] = &[
    (nr::MMAP, mmap),
    (nr::MUNMAP, |a| {
        let (address, length) = range(a).map_err(|_| Errno::EINVAL)?;
        space()?.unmap(address, length).map(|()| 0)
    }),
    (nr::MPROTECT, mprotect),
    (nr::MREMAP, mremap),
    (nr::REMAP_FILE_PAGES, remap_file_pages),
    (nr::BRK, brk),
    (nr::MADVISE, madvise),
    (nr::MSYNC, msync),
    (nr::MINCORE, mincore),
    (nr::MLOCK, |a| lock(a, MemoryLock::All)),
    (nr::MUNLOCK, |a| {
        space()?.lock(a.word(0), a.word(1), MemoryLock::No, &SpaceLimits::NONE)?;
        Ok(0)
    }),
    (nr::MLOCK2, |a| match a.uint(2) {
        0 => lock(a, MemoryLock::All),
        MLOCK_ONFAULT => lock(a, MemoryLock::Used),
        _ => Err(Errno::EINVAL),
    }),
    (nr::MLOCKALL, lock_all),
    (nr::MUNLOCKALL, |_| {
        space()?.lock_all(Some(MemoryLock::No), MemoryLock::No, &SpaceLimits::NONE)?;
        Ok(0)
    }),
];

fn space() -> Result<Arc<AddressSpace>> {
    Process::current().space().ok_or(Errno::ENOMEM)
}

/// The page-aligned start and the rounded length of arguments 0 and 1. EINVAL, ENOMEM.
fn range(a: &Args) -> Result<(usize, usize)> {
    pages(a.word(0), a.word(1))
}

fn pages(address: usize, length: usize) -> Result<(usize, usize)> {
    let length = page_ceil(length).ok_or(Errno::ENOMEM)?;
    if !address.is_multiple_of(PAGE) {
        return Err(Errno::EINVAL);
    }
    match address.checked_add(length) {
        Some(end) if end <= USER_END => Ok((address, length)),
        _ => Err(Errno::EINVAL),
    }
}

fn mmap(a: &mut Args) -> Result<usize> {
    let (address, length) = (a.word(0), a.word(1));
    let (prot, flags, offset) = (a.uint(2), a.uint(3), a.word(5));
    if !offset.is_multiple_of(PAGE) {
        return Err(Errno::EINVAL);
    }
    let process = Process::current();
    let file = match flags & MAP_ANONYMOUS {
        0 => Some(process.files.get().opened(a.int(4))?),
        _ => None,
    };
    if length == 0 {
        return Err(Errno::EINVAL);
    }
    let length = page_ceil(length).ok_or(Errno::ENOMEM)?;
    if flags & MAP_HUGETLB != 0 {
        // No file has huge pages, and there is no file system of them.
        return Err(Errno::EINVAL);
    }
    if length > USER_END {
        return Err(Errno::ENOMEM);
    }
    let (space, bounds) = (space()?, process.bounds());
    let place = placement(address, flags)?;
    let shared = match flags & MAP_TYPE {
        MAP_SHARED => true,
        MAP_SHARED_VALIDATE if file.is_none() => return Err(Errno::EINVAL),
        MAP_SHARED_VALIDATE if flags & !KNOWN != 0 => return Err(Errno::EOPNOTSUPP),
        MAP_SHARED_VALIDATE => true,
        MAP_PRIVATE => false,
        _ => return Err(Errno::EINVAL),
    };
    let grows = flags & MAP_GROWSDOWN != 0;
    if grows && (shared || file.is_some()) {
        return Err(Errno::EINVAL);
    }
    let backing = match file {
        None if grows => Backing::Growing,
        Some(of) => file_backing(&of, prot, shared, offset as u64, length as u64)?,
        None if shared => Backing::AnonymousShared { may_write: true },
        None if flags & MAP_NORESERVE != 0 => Backing::Unreserved,
        None => Backing::Anonymous,
    };
    let prot = Prot::from_bits(prot as usize);
    let lock = match flags & MAP_LOCKED {
        0 => MemoryLock::No,
        _ if bounds.locked == 0 => return Err(Errno::EPERM),
        _ => MemoryLock::All,
    };
    let at = space.map_within(place, length, prot, backing, lock, &bounds)?;
    fetch_favourably(&space, at, length);
    if flags & MAP_POPULATE != 0 && prot.contains(Prot::READ) {
        let access = if prot.contains(Prot::WRITE) {
            Access::Write
        } else {
            Access::Read
        };
        // Populating is a favour: what cannot be had now faults later.
        let _ = populate(&space, at, length, access);
    }
    Ok(at)
}

/// Makes the pages of a range ready, some at a time: it may be a very long one. ENOMEM, EFAULT; EINTR when
/// the program is to end.
fn populate(space: &AddressSpace, from: usize, length: usize, access: Access) -> Result<()> {
    const AT_A_TIME: usize = 256 * PAGE;
    let end = from.saturating_add(length);
    for at in (from..end).step_by(AT_A_TIME) {
        if account::caller::is_dying() {
            return Err(Errno::EINTR);
        }
        space.populate(at, AT_A_TIME.min(end.saturating_sub(at)), access)?;
    }
    Ok(())
}

/// Makes what is locked of a range ready. Errors: `ENOMEM` (it cannot be), `EAGAIN` (there is no memory).
fn fetch(space: &AddressSpace, from: usize, end: usize) -> Result<()> {
    let mut at = from;
    while let Some((start, next, prot, private)) = space.next_locked(at, end) {
        let access = match private && prot.contains(Prot::WRITE) {
            true => Access::Write,
            false => Access::Read,
        };
        let fetched = populate(space, start, next.saturating_sub(start), access);
        fetched.map_err(|error| match error {
            Errno::ENOMEM => Errno::EAGAIN,
            Errno::EFAULT => Errno::ENOMEM,
            other => other,
        })?;
        at = next;
    }
    Ok(())
}

/// The same for a new range, in a space that locks what comes: what cannot be had now faults later.
fn fetch_favourably(space: &AddressSpace, from: usize, length: usize) {
    if space.locks() {
        let _ = fetch(space, from, from.saturating_add(length));
    }
}

fn lock(a: &mut Args, how: MemoryLock) -> Result<usize> {
    let (space, bounds) = (space()?, Process::current().bounds());
    if bounds.locked == 0 {
        return Err(Errno::EPERM);
    }
    let (start, length) = (a.word(0), a.word(1));
    space.lock(start, length, how, &bounds)?;
    if how == MemoryLock::All {
        fetch(&space, page_floor(start), start.saturating_add(length))?;
    }
    Ok(0)
}

fn lock_all(a: &mut Args) -> Result<usize> {
    let flags = a.uint(0);
    let known = MCL_CURRENT | MCL_FUTURE | MCL_ONFAULT;
    if flags & !known != 0 || flags & (MCL_CURRENT | MCL_FUTURE) == 0 {
        return Err(Errno::EINVAL);
    }
    let (space, bounds) = (space()?, Process::current().bounds());
    if bounds.locked == 0 {
        return Err(Errno::EPERM);
    }
    let how = match flags & MCL_ONFAULT {
        0 => MemoryLock::All,
        _ => MemoryLock::Used,
    };
    let now = (flags & MCL_CURRENT != 0).then_some(how);
    let future = match flags & MCL_FUTURE {
        0 => MemoryLock::No,
        _ => how,
    };
    space.lock_all(now, future, &bounds)?;
    if now.is_some() {
        // Areas that nobody may touch are among them.
        let mut at = 0;
        while let Some((start, end, ..)) = space.next_locked(at, USER_END) {
            let _ = fetch(&space, start, end);
            if account::caller::is_dying() {
                return Err(Errno::EINTR);
            }
            at = end;
        }
    }
    Ok(0)
}

/// Where the addresses that `MAP_32BIT` means end.
const LOW: usize = 1 << 31;

fn placement(address: usize, flags: u32) -> Result<Placement> {
    if flags & MAP_FIXED_NOREPLACE != 0 {
        fixed(address).map(Placement::FixedNoReplace)
    } else if flags & MAP_FIXED != 0 {
        fixed(address).map(Placement::Fixed)
    } else if address != 0 {
        // A hint below the lowest address, or not aligned, is moved.
        let hint = page_ceil(address).unwrap_or(0).max(abi::layout::USER_START);
        Ok(match flags & MAP_32BIT {
            0 => Placement::Hint(hint),
            _ => Placement::HintBelow(hint, LOW),
        })
    } else if flags & MAP_32BIT != 0 {
        Ok(Placement::Below(LOW))
    } else {
        Ok(Placement::Anywhere)
    }
}

fn fixed(address: usize) -> Result<usize> {
    if !address.is_multiple_of(PAGE) {
        Err(Errno::EINVAL)
    } else if address < abi::layout::USER_START {
        Err(Errno::EPERM)
    } else {
        Ok(address)
    }
}

/// The flags that MAP_SHARED_VALIDATE knows.
const KNOWN: u32 = MAP_TYPE
    | MAP_FIXED
    | MAP_ANONYMOUS
    | MAP_DENYWRITE
    | MAP_EXECUTABLE
    | MAP_GROWSDOWN
    | MAP_LOCKED
    | MAP_NORESERVE
    | MAP_POPULATE
    | MAP_NONBLOCK
    | MAP_STACK
    | MAP_HUGETLB
    | MAP_32BIT;

fn file_backing(
    of: &Arc<OpenFile>,
    prot: u32,
    shared: bool,
    offset: u64,
    length: u64,
) -> Result<Backing> {
    offset
        .checked_add(length)
        .filter(|&end| end <= i64::MAX as u64)
        .ok_or(Errno::EOVERFLOW)?;
    if !of.readable() || (shared && prot & PROT_WRITE != 0 && !of.writable()) {
        return Err(Errno::EACCES);
    }
    let may_exec = !of.place().is_some_and(VfsPath::is_noexec);
    if prot & PROT_EXEC != 0 && !may_exec {
        return Err(Errno::EPERM);
    }
    if of.file().maps_as_fresh() {
        let may_write = of.writable();
        return Ok(if shared {
            Backing::AnonymousShared { may_write }
        } else {
            Backing::Anonymous
        });
    }
    if !shared {
        let pager = of.file().pager(of)?;
        return Ok(Backing::FilePrivate {
            pager,
            offset,
            may_exec,
        });
    }
    let (pager, may_write) = of.file().shared_pager(of, prot & PROT_WRITE != 0)?;
    if may_write {
        of.file().let_write(of);
    }
    Ok(Backing::FileShared {
        pager,
        offset,
        may_write,
        may_exec,
    })
}

fn mprotect(a: &mut Args) -> Result<usize> {
    let (prot, grows) = (a.uint(2), a.uint(2) & (PROT_GROWSDOWN | PROT_GROWSUP));
    let prot = prot & !grows;
    if grows == PROT_GROWSDOWN | PROT_GROWSUP {
        return Err(Errno::EINVAL);
    }
    if !a.word(0).is_multiple_of(PAGE) {
        return Err(Errno::EINVAL);
    }
    if a.word(1) == 0 {
        return Ok(0);
    }
    let (address, length) = range(a).map_err(|_| Errno::ENOMEM)?;
    if prot & !(PROT_READ | PROT_WRITE | PROT_EXEC | PROT_SEM) != 0 {
        return Err(Errno::EINVAL);
    }
    let (bounds, space) = (Process::current().bounds(), space()?);
    let end = address.saturating_add(length);
    let address = match grows {
        0 => address,
        // From where the area starts that grows down; none grows up.
        PROT_GROWSDOWN if space.covers(address, PAGE) => {
            space.growing_from(address).ok_or(Errno::EINVAL)?
        }
        PROT_GROWSDOWN => return Err(Errno::ENOMEM),
        _ => return Err(Errno::EINVAL),
    };
    let length = end.saturating_sub(address);
    space
        .protect_within(address, length, Prot::from_bits(prot as usize), &bounds)
        .map(|()| 0)
}

fn mremap(a: &mut Args) -> Result<usize> {
    let (address, old, new, flags) = (a.word(0), a.word(1), a.word(2), a.uint(3));
    let (old, new) = (
        page_ceil(old).ok_or(Errno::EINVAL)?,
        page_ceil(new).ok_or(Errno::EINVAL)?,
    );
    if !address.is_multiple_of(PAGE)
        || new == 0
        || flags & !(MREMAP_MAYMOVE | MREMAP_FIXED | MREMAP_DONTUNMAP) != 0
        || (flags & (MREMAP_FIXED | MREMAP_DONTUNMAP) != 0 && flags & MREMAP_MAYMOVE == 0)
        || (flags & MREMAP_DONTUNMAP != 0 && old != new)
    {
        return Err(Errno::EINVAL);
    }
    if address >= USER_END {
        return Err(Errno::EFAULT);
    }
    let target = match flags & MREMAP_FIXED {
        0 => None,
        _ => Some(fixed(a.word(4))?),
    };
    let how = if flags & MREMAP_DONTUNMAP != 0 {
        Remap::Leave(target)
    } else if let Some(target) = target {
        Remap::To(target)
    } else if flags & MREMAP_MAYMOVE != 0 {
        Remap::MayMove
    } else {
        Remap::InPlace
    };
    let (space, bounds) = (space()?, Process::current().bounds());
    let at = space.remap_within(address, old, new, how, &bounds)?;
    fetch_favourably(&space, at, new);
    Ok(at)
}

fn remap_file_pages(a: &mut Args) -> Result<usize> {
    let (start, size) = (page_floor(a.word(0)), page_floor(a.word(1)));
    let (prot, first) = (a.word(2), a.word(3) as u64);
    let end = start.checked_add(size).filter(|end| *end > start);
    let pages = (size / PAGE) as u64;
    let (Some(end), Some(_), 0) = (end, first.checked_add(pages), prot) else {
        return Err(Errno::EINVAL);
    };
    let space = space()?;
    space.show(start, end, first)?;
    // Populating is a favour.
    let _ = populate(&space, start, size, Access::Read);
    Ok(0)
}

fn brk(a: &mut Args) -> Result<usize> {
    let (space, bounds) = (space()?, Process::current().bounds());
    if space.locks() {
        let before = space.brk(0, &SpaceLimits::NONE);
        let now = space.brk(a.word(0), &bounds);
        fetch_favourably(&space, before, now.saturating_sub(before));
        return Ok(now);
    }
    Ok(space.brk(a.word(0), &bounds))
}

/// Advice that nothing comes of.
const FAVOURS: &[u32] = &[
    MADV_NORMAL,
    MADV_RANDOM,
    MADV_SEQUENTIAL,
    MADV_WILLNEED,
    MADV_HUGEPAGE,
    MADV_NOHUGEPAGE,
    MADV_COLD,
    MADV_PAGEOUT,
];

/// `madvise` that gives pages back, as at the end of each thread of the C library, without a trap frame.
pub(super) extern "sysv64" fn madvise_frameless(
    address: usize,
    length: usize,
    advice: usize,
    _more: usize,
    _other: usize,
    _last: usize,
    mut off: IrqsOff,
) -> isize {
    match advice as u32 {
        MADV_DONTNEED => call_handler(&mut off, || {
            Task::with_space(|_, space| give_back(space, address, length))
                .unwrap_or(Err(Errno::ENOMEM))
        }),
        _ => NOT_HANDLED,
    }
}

/// `MADV_DONTNEED`. EINVAL: no range of pages, or some of it is locked; ENOMEM.
#[inline(always)]
fn give_back(space: &AddressSpace, address: usize, length: usize) -> Result<usize> {
    if space.any_locked(address, length) {
        return Err(Errno::EINVAL);
    }
    space.discard(address, length)?;
    Ok(0)
}

fn madvise(a: &mut Args) -> Result<usize> {
    advise(a.word(0), a.word(1), a.uint(2))
}

/// Advice of which something comes.
const KNOWN_ADVICE: &[u32] = &[
    MADV_DONTNEED,
    MADV_FREE,
    MADV_DONTNEED_LOCKED,
    MADV_DONTFORK,
    MADV_DOFORK,
    MADV_WIPEONFORK,
    MADV_KEEPONFORK,
    MADV_DONTDUMP,
    MADV_DODUMP,
    MADV_POPULATE_READ,
    MADV_POPULATE_WRITE,
];

fn advise(address: usize, length: usize, advice: u32) -> Result<usize> {
    if !FAVOURS.contains(&advice) && !KNOWN_ADVICE.contains(&advice) {
        return Err(Errno::EINVAL);
    }
    let length = page_ceil(length).ok_or(Errno::EINVAL)?;
    let end = address.checked_add(length).ok_or(Errno::EINVAL)?;
    if !address.is_multiple_of(PAGE) {
        return Err(Errno::EINVAL);
    }
    if end > USER_END && length != 0 {
        let inside = USER_END.saturating_sub(address);
        advise(address, inside, advice)?;
        return Err(Errno::ENOMEM);
    }
    let space = space()?;
    let wish = |wish: Advice| space.advise(address, end, wish).map(|()| 0);
    match advice {
        _ if length == 0 => Ok(0),
        MADV_DONTNEED => give_back(&space, address, length),
        MADV_FREE if space.any_locked(address, length) => Err(Errno::EINVAL),
        MADV_FREE if !space.is_anonymous(address, end) => Err(Errno::EINVAL),
        MADV_FREE | MADV_DONTNEED_LOCKED => space.discard(address, length).map(|()| 0),
        MADV_DONTFORK => wish(Advice::LeaveOut(true)),
        MADV_DOFORK => wish(Advice::LeaveOut(false)),
        MADV_WIPEONFORK => wish(Advice::Wipe(true)),
        MADV_KEEPONFORK => wish(Advice::Wipe(false)),
        MADV_DONTDUMP => wish(Advice::Conceal(true)),
        MADV_DODUMP => wish(Advice::Conceal(false)),
        MADV_POPULATE_READ | MADV_POPULATE_WRITE => {
            let write = advice == MADV_POPULATE_WRITE;
            let access = if write { Access::Write } else { Access::Read };
            populate(&space, address, length, access)?;
            Ok(0)
        }
        advice if FAVOURS.contains(&advice) => {
            if space.covers(address, length) {
                Ok(0)
            } else {
                Err(Errno::ENOMEM)
            }
        }
        _ => Err(Errno::EINVAL),
    }
}

/// Shared pages are the file's own pages: what is stored with `MS_SYNC` are those of files that are kept
/// elsewhere.
fn msync(a: &mut Args) -> Result<usize> {
    let flags = a.uint(2);
    if flags & !(MS_ASYNC | MS_INVALIDATE | MS_SYNC) != 0
        || flags & (MS_ASYNC | MS_SYNC) == MS_ASYNC | MS_SYNC
    {
        return Err(Errno::EINVAL);
    }
    if !a.word(0).is_multiple_of(PAGE) {
        return Err(Errno::EINVAL);
    }
    let covered = covered(a).map_err(|_| Errno::ENOMEM)?;
    if flags & MS_INVALIDATE != 0 && space()?.any_locked(a.word(0), a.word(1)) {
        return Err(Errno::EBUSY);
    }
    if flags & MS_SYNC != 0 {
        let space = space()?;
        let (mut at, end) = (a.word(0), a.word(0).saturating_add(a.word(1)));
        while let Some((pager, behind)) = space.shared_from(at, end) {
            pager.store()?;
            at = behind;
        }
    }
    Ok(covered)
}

/// Nothing is ever paged out, so being mapped is all there is to check.
fn covered(a: &mut Args) -> Result<usize> {
    let start = abi::layout::page_floor(a.word(0));
    let end = a
        .word(0)
        .checked_add(a.word(1))
        .and_then(page_ceil)
        .ok_or(Errno::EINVAL)?;
    if start == end || space()?.covers(start, end.saturating_sub(start)) {
        Ok(0)
    } else {
        Err(Errno::ENOMEM)
    }
}

/// Pages that `mincore` speaks of at a time.
const MINCORE_PAGES: usize = 1024;

fn mincore(a: &mut Args) -> Result<usize> {
    let (address, length) = range(a).map_err(|_| {
        if !a.word(0).is_multiple_of(PAGE) {
            Errno::EINVAL
        } else {
            Errno::ENOMEM
        }
    })?;
    let pages = length / PAGE;
    user::check(a.word(2), pages)?;
    let space = space()?;
    if length != 0 && !space.covers(address, length) {
        return Err(Errno::ENOMEM);
    }
    for first in (0..pages).step_by(MINCORE_PAGES) {
        if account::caller::is_dying() {
            return Err(Errno::EINTR);
        }
        let part = MINCORE_PAGES.min(pages.saturating_sub(first));
        let mut found = [0; MINCORE_PAGES];
        let found = found.get_mut(..part).unwrap_or_default();
        space.in_memory(address.saturating_add(first.saturating_mul(PAGE)), found);
        user::copy_out(a.word(2).wrapping_add(first), found)?;
    }
    Ok(0)
}
