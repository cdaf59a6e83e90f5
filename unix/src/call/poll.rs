//! `poll`, `ppoll`, `select`, `pselect6`.
//!
//! *Interface*: [`CALLS`].

use abi::errno::{Errno, Result};
use abi::linux::*;
use abi::nr;
use alloc::vec::Vec;
use vm::user::{get, put};

use super::signal::with_mask;
use super::{Args, Handler};
use crate::deadline::Deadline;
use crate::memory::fallible::{try_push, try_reserve};
use crate::poll::{Entry, wait_for};
use crate::process::Process;

/// The calls of this family.
pub const CALLS: &[(usize, Handler)] = &[
    (nr::POLL, poll),
    (nr::PPOLL, ppoll),
    (nr::SELECT, select),
    (nr::PSELECT6, pselect6),
];

/// The most descriptors that one `poll` may name.
fn most_descriptors() -> usize {
    Process::current().limits.lock().cur(RLIMIT_NOFILE) as usize
}

/// A deadline from milliseconds; negative waits for ever.
pub(super) fn milliseconds(timeout: i32) -> Deadline {
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
pub(super) fn relative(address: usize) -> Result<Deadline> {
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
pub(super) fn restored(result: Result<usize>) -> Result<usize> {
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
        try_push(&mut places, (place, wanted))?;
        let entry = Entry::new(files.get(wanted.fd).ok(), u32::from(wanted.events as u16));
        try_push(&mut entries, entry)?;
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
            try_push(&mut descriptors, fd)?;
            try_push(
                &mut entries,
                Entry::new(Some(files.get(fd as i32)?), events),
            )?;
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
