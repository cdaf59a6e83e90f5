//! `poll`, `ppoll`, `select`, `pselect6`, and epoll instances.
//!
//! *Interface*: [`CALLS`].

use abi::errno::{Errno, Result};
use abi::linux::*;
use abi::nr;
use alloc::collections::BTreeMap;
use alloc::sync::{Arc, Weak};
use alloc::vec::Vec;
use core::any::Any;
use sync::Monitor;
use vm::user::{get, put};

use super::signal::with_mask;
use super::{Args, Handler};
use crate::deadline::Deadline;
use crate::file::{File, OpenFile, SMALL_WEIGHT};
use crate::fs::Kind;
use crate::memory::fallible::try_reserve;
use crate::poll::{Entry, wait_for};
use crate::process::user::Charge;
use crate::process::{Process, quota};

/// The calls of this family.
pub const CALLS: &[(usize, Handler)] = &[
    (nr::POLL, poll),
    (nr::PPOLL, ppoll),
    (nr::SELECT, select),
    (nr::PSELECT6, pselect6),
    (nr::EPOLL_CREATE, epoll_create),
    (nr::EPOLL_CREATE1, epoll_create1),
    (nr::EPOLL_CTL, epoll_ctl),
    (nr::EPOLL_WAIT, epoll_wait),
    (nr::EPOLL_PWAIT, epoll_pwait),
];

/// The most descriptors that one `poll` may name.
fn most_descriptors() -> usize {
    Process::current().limits.lock().cur(RLIMIT_NOFILE) as usize
}

fn milliseconds(timeout: i32) -> Deadline {
    match u64::try_from(timeout) {
        Ok(ms) => Deadline::after_ns(ms * 1_000_000),
        Err(_) => Deadline::never(),
    }
}

fn poll(args: &mut Args) -> Result<usize> {
    poll_until(args.word(0), args.uint(1), milliseconds(args.int(2)))
}

fn ppoll(args: &mut Args) -> Result<usize> {
    let deadline = relative(args.word(2))?;
    with_mask(args.word(3), args.word(4))?;
    let result = restored(poll_until(args.word(0), args.uint(1), deadline));
    write_left(args.word(2), deadline);
    result
}

/// A deadline from a user `timespec`; null waits for ever.
fn relative(address: usize) -> Result<Deadline> {
    if address == 0 {
        return Ok(Deadline::never());
    }
    Deadline::after(get::<Timespec>(address)?)
}

/// Tells the caller how much time was left, as Linux does; failing to is no error.
fn write_left(address: usize, deadline: Deadline) {
    if let (true, Some(left)) = (address != 0, deadline.left_ns()) {
        let time = Timespec {
            sec: (left / 1_000_000_000) as i64,
            nsec: (left % 1_000_000_000) as i64,
        };
        let _unwritable = put(address, &time);
    }
}

/// Puts the signal mask back that [`with_mask`] replaced, unless a handler is to run first: then delivery does it.
fn restored(result: Result<usize>) -> Result<usize> {
    if !matches!(result, Err(error) if error.is_restart() || error == Errno::EINTR) {
        super::signal::end_mask();
    }
    result
}

fn poll_until(array: usize, count: u32, deadline: Deadline) -> Result<usize> {
    let count = count as usize;
    if count > most_descriptors() {
        return Err(Errno::EINVAL);
    }
    vm::user::check(array, count * size_of::<Pollfd>())?;
    let files = Process::current().files.get();
    let mut places = Vec::new();
    let mut entries = Vec::new();
    try_reserve(&mut places, count)?;
    try_reserve(&mut entries, count)?;
    for i in 0..count {
        let place = array + i * size_of::<Pollfd>();
        let wanted = get::<Pollfd>(place)?;
        if wanted.fd < 0 {
            put(
                place,
                &Pollfd {
                    revents: 0,
                    ..wanted
                },
            )?;
            continue;
        }
        places.push((place, wanted));
        entries.push(Entry::new(
            files.get(wanted.fd).ok(),
            u32::from(wanted.events as u16),
        ));
    }
    let found = wait_for(&mut entries, deadline)?;
    for (&(place, wanted), entry) in places.iter().zip(&entries) {
        let revents = entry.found as u16 as _;
        put(place, &Pollfd { revents, ..wanted })?;
    }
    Ok(found)
}

fn select(args: &mut Args) -> Result<usize> {
    let address = args.word(4);
    let deadline = if address == 0 {
        Deadline::never()
    } else {
        Deadline::after_timeval(get::<Timeval>(address)?)?
    };
    let result = select_until(args, deadline);
    if let (true, Some(left)) = (address != 0, deadline.left_ns()) {
        let time = Timeval {
            sec: (left / 1_000_000_000) as i64,
            usec: (left % 1_000_000_000 / 1000) as i64,
        };
        let _unwritable = put(address, &time);
    }
    result
}

fn pselect6(args: &mut Args) -> Result<usize> {
    let deadline = relative(args.word(4))?;
    if let pair @ 1.. = args.word(5) {
        with_mask(get::<usize>(pair)?, get::<usize>(pair + 8)?)?;
    }
    let result = restored(select_until(args, deadline));
    write_left(args.word(4), deadline);
    result
}

/// The three sets: which events each asks for, and which found events put a descriptor into it.
const SETS: [(u32, u32); 3] = [
    (
        POLLIN | POLLRDNORM | POLLRDBAND,
        POLLIN | POLLRDNORM | POLLRDBAND | POLLHUP | POLLERR,
    ),
    (
        POLLOUT | POLLWRNORM | POLLWRBAND,
        POLLOUT | POLLWRNORM | POLLWRBAND | POLLERR,
    ),
    (POLLPRI, POLLPRI),
];

fn select_until(args: &Args, deadline: Deadline) -> Result<usize> {
    let count = usize::try_from(args.int(0)).map_err(|_| Errno::EINVAL)?;
    let count = count.min(FD_SETSIZE);
    let words = count.div_ceil(64);
    let mut sets = [[0u64; FD_SETSIZE / 64]; 3];
    for (set, bits) in sets.iter_mut().enumerate() {
        let address = args.word(1 + set);
        if address != 0 {
            vm::user::check(address, words * 8)?;
            for (word, value) in bits[..words].iter_mut().enumerate() {
                *value = get::<u64>(address + word * 8)?;
            }
        }
    }
    let files = Process::current().files.get();
    let mut descriptors = Vec::new();
    let mut entries = Vec::new();
    try_reserve(&mut descriptors, count)?;
    try_reserve(&mut entries, count)?;
    for fd in 0..count {
        let events = (0..3)
            .filter(|&set| sets[set][fd / 64] >> (fd % 64) & 1 != 0)
            .fold(0, |events, set| events | SETS[set].0);
        if events != 0 {
            descriptors.push(fd);
            entries.push(Entry::new(Some(files.get(fd as i32)?), events));
        }
    }
    wait_for(&mut entries, deadline)?;
    let mut result = [[0u64; FD_SETSIZE / 64]; 3];
    let mut total = 0;
    for (&fd, entry) in descriptors.iter().zip(&entries) {
        for set in 0..3 {
            let asked = sets[set][fd / 64] >> (fd % 64) & 1 != 0;
            if asked && entry.found & SETS[set].1 != 0 {
                result[set][fd / 64] |= 1 << (fd % 64);
                total += 1;
            }
        }
    }
    for (set, bits) in result.iter().enumerate() {
        let address = args.word(1 + set);
        if address != 0 {
            for (word, value) in bits[..words].iter().enumerate() {
                put(address + word * 8, value)?;
            }
        }
    }
    Ok(total)
}

/// What an epoll instance knows of one descriptor.
struct Interest {
    /// It does not keep the description: with its last descriptor the interest ends.
    file: Weak<OpenFile>,
    events: u32,
    data: u64,
    /// EPOLLONESHOT has fired.
    spent: bool,
    /// Of whoever asked for it first.
    charge: Charge,
}

/// An epoll instance: a set of interests that outlives the call. EPOLLET is reported like a level, which a
/// program that reads until EAGAIN cannot tell apart except by a spurious event.
struct Epoll {
    interests: Monitor<BTreeMap<i32, Interest>>,
}

/// Bytes of an interest in its tree, about.
const INTEREST: usize = 96;

impl File for Epoll {
    fn weight(&self, _of: &OpenFile) -> usize {
        let interests = self.interests.try_lock();
        SMALL_WEIGHT + interests.map_or(0, |interests| INTEREST * interests.len())
    }
    fn as_any(&self) -> &dyn Any {
        self
    }
}

fn epoll_create(args: &mut Args) -> Result<usize> {
    if args.int(0) <= 0 {
        return Err(Errno::EINVAL);
    }
    new_epoll(false)
}

fn epoll_create1(args: &mut Args) -> Result<usize> {
    if args.uint(0) & !EPOLL_CLOEXEC != 0 {
        return Err(Errno::EINVAL);
    }
    new_epoll(args.uint(0) & EPOLL_CLOEXEC != 0)
}

fn new_epoll(cloexec: bool) -> Result<usize> {
    let epoll = Epoll {
        interests: Monitor::new(BTreeMap::new()),
    };
    let of = OpenFile::new(Arc::new(epoll), O_RDWR);
    Ok(Process::current().files.get().install(of, cloexec)? as usize)
}

/// The instance behind descriptor `fd`. EBADF, EINVAL.
fn instance(fd: i32) -> Result<Arc<OpenFile>> {
    let of = Process::current().files.get().get(fd)?;
    match of.file_as::<Epoll>() {
        Some(_) => Ok(of),
        None => Err(Errno::EINVAL),
    }
}

fn epoll_ctl(args: &mut Args) -> Result<usize> {
    let of = instance(args.int(0))?;
    let fd = args.int(2);
    let file = Process::current().files.get().get(fd)?;
    if Arc::ptr_eq(&of, &file) || file.file_as::<Epoll>().is_some() {
        return Err(Errno::EINVAL);
    }
    let Some(epoll) = of.file_as::<Epoll>() else {
        return Err(Errno::EINVAL);
    };
    let mut interests = epoll.interests.lock();
    let operation = args.uint(1);
    if operation == EPOLL_CTL_DEL {
        return interests.remove(&fd).map(|_| 0).ok_or(Errno::ENOENT);
    }
    let event = get::<EpollEvent>(args.word(3))?;
    // The number may have had another file, which was closed.
    let same = |interest: &Interest| Weak::as_ptr(&interest.file) == Arc::as_ptr(&file);
    let known = interests.get(&fd).is_some_and(same);
    match operation {
        EPOLL_CTL_ADD if known => return Err(Errno::EEXIST),
        EPOLL_CTL_MOD if !known => return Err(Errno::ENOENT),
        EPOLL_CTL_ADD | EPOLL_CTL_MOD => {}
        _ => return Err(Errno::EINVAL),
    }
    // What can always be read and written is nothing to wait for.
    let kind = file.inode().map(|inode| inode.kind());
    if matches!(kind, Some(Kind::Regular | Kind::Directory)) {
        return Err(Errno::EPERM);
    }
    // A change keeps the charge, and so cannot fail for it.
    let charge = match interests.remove(&fd) {
        Some(known) => known.charge,
        None => quota::watch()?,
    };
    interests.insert(
        fd,
        Interest {
            file: Arc::downgrade(&file),
            events: event.events,
            data: event.data,
            spent: false,
            charge,
        },
    );
    Ok(0)
}

fn epoll_wait(args: &mut Args) -> Result<usize> {
    epoll_until(args, milliseconds(args.int(3)))
}

fn epoll_pwait(args: &mut Args) -> Result<usize> {
    with_mask(args.word(4), args.word(5))?;
    restored(epoll_until(args, milliseconds(args.int(3))))
}

const EPOLL_FLAGS: u32 = EPOLLET | EPOLLONESHOT | EPOLLEXCLUSIVE;

fn epoll_until(args: &Args, deadline: Deadline) -> Result<usize> {
    let of = instance(args.int(0))?;
    let Some(epoll) = of.file_as::<Epoll>() else {
        return Err(Errno::EINVAL);
    };
    let most = usize::try_from(args.int(2)).unwrap_or(0);
    if most == 0 || most > i32::MAX as usize / size_of::<EpollEvent>() {
        return Err(Errno::EINVAL);
    }
    vm::user::check(args.word(1), most * size_of::<EpollEvent>())?;
    let (mut descriptors, mut entries) = (Vec::new(), Vec::new());
    {
        let mut interests = epoll.interests.lock();
        interests.retain(|_, interest| interest.file.strong_count() != 0);
        try_reserve(&mut descriptors, interests.len())?;
        try_reserve(&mut entries, interests.len())?;
        for (&fd, interest) in interests.iter().filter(|(_, interest)| !interest.spent) {
            let events = interest.events & !EPOLL_FLAGS;
            if let Some(file) = interest.file.upgrade() {
                descriptors.push(fd);
                entries.push(Entry::new(Some(file), events));
            }
        }
    }
    wait_for(&mut entries, deadline).map_err(|_| Errno::EINTR)?;
    let mut reported = 0;
    let mut interests = epoll.interests.lock();
    for (fd, entry) in descriptors.iter().zip(&entries) {
        let Some(interest) = interests.get_mut(fd) else {
            continue;
        };
        if entry.found == 0 || reported == most {
            continue;
        }
        let event = EpollEvent {
            events: entry.found,
            data: interest.data,
        };
        put(args.word(1) + reported * size_of::<EpollEvent>(), &event)?;
        reported += 1;
        interest.spent = interest.events & EPOLLONESHOT != 0;
    }
    Ok(reported)
}
