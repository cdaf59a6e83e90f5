//! `poll`, `ppoll`, `select`, `pselect6`.
//!
//! *Interface*: [`CALLS`]; [`poll_frameless`], [`select_frameless`] and [`pselect6_frameless`] are made
//! without a trap frame.

use abi::errno::{Errno, Result};
use abi::linux::*;
use abi::nr;
use alloc::sync::Arc;
use alloc::vec::Vec;
use bytemuck::Zeroable;
use core::mem::offset_of;
use core::sync::atomic::Ordering;
use machine::irqs_off::IrqsOff;
use vm::user::{get, put};

use super::signal::with_mask;
use super::{Args, Handler};
use file::fdtable::{FdTable, HeldEvents, PollQuery, PollScan, ROW};
use file::select::{PollRequest, wait_for};
use process::memory::admission;
use process::{Process, Task};
use thread::deadline::Deadline;
use thread::frameless::{NOT_HANDLED, call_handler};
use vm::fallible::{try_filled, try_push, try_reserve};

/// The calls of this family.
pub const CALLS: &[(usize, Handler)] = &[
    (nr::POLL, poll),
    (nr::PPOLL, ppoll),
    (nr::SELECT, select),
    (nr::PSELECT6, pselect6),
];

/// The most descriptors that one `poll` may name.
fn most_descriptors() -> usize {
    // Bound: a few words of one process.
    Process::current().limits.lock().cur(RLIMIT_NOFILE) as usize
}

/// A deadline from milliseconds; negative waits for ever.
pub(super) fn milliseconds(timeout: i32) -> Deadline {
    match u64::try_from(timeout) {
        Ok(ms) => Deadline::after_ns(ms * 1_000_000),
        Err(_) => Deadline::never(),
    }
}

/// The running process's table.
fn files() -> Result<Arc<FdTable>> {
    Task::here(|task| task.process.files.get()).ok_or(Errno::EBADF)
}

/// Makes a call without a trap frame, if memory is not short.
fn frameless(off: &mut IrqsOff, call: impl FnOnce() -> Result<usize>) -> isize {
    if vm::frame::admits(admission::ROOM) {
        call_handler(off, call)
    } else {
        NOT_HANDLED
    }
}

/// `poll`.
pub(super) extern "sysv64" fn poll_frameless(
    array: usize,
    count: usize,
    timeout: usize,
    _more: usize,
    _other: usize,
    _last: usize,
    mut off: IrqsOff,
) -> isize {
    frameless(&mut off, || {
        poll_until(array, count as u32, milliseconds(timeout as i32))
    })
}

/// `select`.
pub(super) extern "sysv64" fn select_frameless(
    count: usize,
    reading: usize,
    writing: usize,
    urgent: usize,
    time: usize,
    _last: usize,
    mut off: IrqsOff,
) -> isize {
    frameless(&mut off, || {
        select_for(count as i32, [reading, writing, urgent], time)
    })
}

/// `pselect6` without a mask.
pub(super) extern "sysv64" fn pselect6_frameless(
    count: usize,
    reading: usize,
    writing: usize,
    urgent: usize,
    time: usize,
    mask: usize,
    mut off: IrqsOff,
) -> isize {
    if mask != 0 {
        return NOT_HANDLED;
    }
    let sets = [reading, writing, urgent];
    if let Some(found) = select_at_once(count as i32, sets, time, &mut off) {
        return found;
    }
    frameless(&mut off, || {
        let deadline = relative(time)?;
        let result = select_until(count as i32, sets, deadline);
        write_left(time, deadline);
        result
    })
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

/// The time left until `deadline`, in nanoseconds, if the program wants to know it at `address`.
fn left_to_tell(address: usize, deadline: Deadline) -> Option<u64> {
    let sticky = || {
        let personality = Task::here(|task| task.process.personality.load(Ordering::Relaxed));
        personality.unwrap_or_default() & STICKY_TIMEOUTS != 0
    };
    // As on Linux, a time that was none stays as it is.
    (address != 0 && !deadline.is_now() && !sticky())
        .then(|| deadline.left_ns())
        .flatten()
}

/// Tells the caller how much time was left, as Linux does; failing to is no error.
fn write_left(address: usize, deadline: Deadline) {
    let _unwritable = tell_left(address, deadline);
}

/// The same. EFAULT.
fn tell_left(address: usize, deadline: Deadline) -> Result<()> {
    let Some(left) = left_to_tell(address, deadline) else {
        return Ok(());
    };
    let time = Timespec {
        sec: (left / 1_000_000_000) as i64,
        nsec: (left % 1_000_000_000) as i64,
    };
    put(address, &time)
}

/// Puts the signal mask back that [`with_mask`] replaced, unless a handler is to run first: then delivery
/// does it.
pub(super) fn restored(result: Result<usize>) -> Result<usize> {
    if !matches!(result, Err(error) if error.is_restart() || error == Errno::EINTR) {
        super::signal::end_mask();
    }
    result
}

/// So many of a program's `pollfd`s are looked at together.
const PART: usize = 64;

/// A program's array of `pollfd`s.
struct Polled {
    array: usize,
    count: usize,
}

impl Polled {
    /// Calls `part(index of the first, these)` for each part.
    fn parts(&self, mut part: impl FnMut(usize, &mut [Pollfd]) -> Result<()>) -> Result<()> {
        let mut buffer = [Pollfd::zeroed(); PART];
        for at in (0..self.count).step_by(PART) {
            let these = &mut buffer[..PART.min(self.count - at)];
            let address = self.array + at * size_of::<Pollfd>();
            vm::user::copy_in(bytemuck::cast_slice_mut(these), address)?;
            part(at, these)?;
        }
        Ok(())
    }

    /// Looks once at each: how many have something, which their `revents` say then.
    fn look(&self, files: &FdTable) -> Result<usize> {
        let mut count = 0;
        self.parts(|at, these| {
            let found = files.ask(Part(these));
            count += found.count;
            // One that says so already is left alone. The first shows whether the program may write there.
            let mut changed = found.changed | 1;
            while changed != 0 {
                let i = changed.trailing_zeros() as usize;
                self.tell(at + i, these[i].revents as u32)?;
                changed &= changed - 1;
            }
            Ok(())
        })?;
        Ok(count)
    }

    /// Puts what was found into the program's `revents`.
    fn tell(&self, index: usize, found: u32) -> Result<()> {
        let place = self.array + index * size_of::<Pollfd>();
        put(place + offset_of!(Pollfd, revents), &(found as u16))
    }
}

/// One look at each of a few.
struct Part<'a>(&'a mut [Pollfd]);

/// The result of a look at a few.
#[derive(Default)]
struct Found {
    /// How many have something.
    count: usize,
    /// A bit for each whose `revents` are others than before.
    changed: u64,
}

impl PollQuery for Part<'_> {
    type Answer = Found;

    #[inline(never)]
    fn ask<const CROWD: bool>(self, asker: PollScan<'_, CROWD>) -> Found {
        let mut all = Found::default();
        let (mut number, mut row) = (0, asker.row(0));
        for (i, one) in self.0.iter_mut().enumerate() {
            let mut found = 0;
            if let Ok(fd) = usize::try_from(one.fd) {
                if fd / ROW != number {
                    number = fd / ROW;
                    row = asker.row(number);
                }
                let holds = row.look(fd).unwrap_or(POLLNVAL) as u16;
                found = holds & (one.events as u16 | ALWAYS);
                if found != 0 {
                    all.count += 1;
                }
            }
            if found != one.revents as u16 {
                one.revents = found as i16;
                all.change(i);
            }
        }
        all
    }
}

impl Found {
    #[cold]
    fn change(&mut self, index: usize) {
        self.changed |= 1 << (index % PART);
    }
}

/// Found whether wanted or not.
const ALWAYS: u16 = (POLLERR | POLLHUP | POLLNVAL) as u16;

fn poll_until(array: usize, count: u32, deadline: Deadline) -> Result<usize> {
    let count = count as usize;
    if count > most_descriptors() {
        return Err(Errno::EINVAL);
    }
    vm::user::check(array, count * size_of::<Pollfd>())?;
    let polled = Polled { array, count };
    let files = files()?;
    loop {
        let found = polled.look(&files)?;
        if found > 0 {
            return Ok(found);
        }
        if interrupted() {
            return Err(Errno::ERESTARTNOHAND);
        }
        if deadline.is_now() {
            return Ok(0);
        }
        let (mut opened, mut asked) = (Vec::new(), Vec::new());
        try_reserve(&mut opened, count)?;
        try_reserve(&mut asked, count)?;
        let mut gone = false;
        polled.parts(|at, these| {
            for (i, wanted) in these
                .iter()
                .enumerate()
                .filter(|(_, wanted)| wanted.fd >= 0)
            {
                match files.opened(wanted.fd) {
                    Ok(of) => {
                        try_push(&mut opened, of)?;
                        let events = u32::from(wanted.events as u16);
                        try_push(&mut asked, PollRequest::new(at + i, events))?;
                    }
                    Err(_) => gone = true,
                }
            }
            Ok(())
        })?;
        // One that another thread has closed meanwhile, or asked about something else, is an answer.
        if !gone {
            let found = wait_for(&opened, &mut asked, deadline)?;
            for asked in asked.iter().filter(|asked| asked.found != 0) {
                polled.tell(asked.index, asked.found)?;
            }
            return Ok(found);
        }
    }
}

/// Whether a signal is to be seen to first.
fn interrupted() -> bool {
    (sync::callout::get().interrupted)()
}

/// The addresses of the three sets.
fn sets(args: &Args) -> [usize; 3] {
    [args.word(1), args.word(2), args.word(3)]
}

fn select(args: &mut Args) -> Result<usize> {
    select_for(args.int(0), sets(args), args.word(4))
}

fn select_for(count: i32, addresses: [usize; 3], address: usize) -> Result<usize> {
    let deadline = if address == 0 {
        Deadline::never()
    } else {
        Deadline::after_timeval(get::<Timeval>(address)?)?
    };
    let result = select_until(count, addresses, deadline);
    if let Some(left) = left_to_tell(address, deadline) {
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
    let result = restored(select_until(args.int(0), sets(args), deadline));
    write_left(args.word(4), deadline);
    result
}

/// Which events each of the three sets asks for, and which found ones put a descriptor into it.
const SETS: [(u32, u32); 3] = [
    (
        POLLIN | POLLRDNORM | POLLRDBAND,
        POLLIN | POLLRDNORM | POLLRDBAND | POLLHUP | POLLERR | POLLNVAL,
    ),
    (
        POLLOUT | POLLWRNORM | POLLWRBAND,
        POLLOUT | POLLWRNORM | POLLWRBAND | POLLERR | POLLNVAL,
    ),
    (POLLPRI, POLLPRI | POLLNVAL),
];

/// Words of a set for as many descriptors as a program usually has, and for as many as an `fd_set` is made
/// for.
const FEW: usize = 4;
const USUAL: usize = FD_SETSIZE / 64;

/// Three sets and the three answers, each of as many words.
struct Sets<'a> {
    asked: [&'a mut [u64]; 3],
    answers: [&'a mut [u64]; 3],
}

impl<'a> Sets<'a> {
    /// In `memory`, a multiple of six words that are 0.
    fn new(memory: &'a mut [u64]) -> Self {
        let words = memory.len() / 6;
        let mut rest = memory;
        let mut next = || rest.split_off_mut(..words).unwrap_or_default();
        Sets {
            asked: [next(), next(), next()],
            answers: [next(), next(), next()],
        }
    }

    /// Takes over the program's sets of `count` descriptors; an address of 0 is an empty one.
    fn read(&mut self, addresses: [usize; 3], count: usize) -> Result<()> {
        for (set, address) in self.asked.iter_mut().zip(addresses) {
            if address != 0 {
                vm::user::copy_in(bytemuck::cast_slice_mut(set), address)?;
                // The last word may have bits of others.
                if let (Some(last), 1..) = (set.get_mut(count / 64), count % 64) {
                    *last &= (1 << (count % 64)) - 1;
                }
            }
        }
        Ok(())
    }

    /// Puts the answers in their place.
    fn write(&self, addresses: [usize; 3]) -> Result<()> {
        for (answer, address) in self.answers.iter().zip(addresses) {
            if address != 0 {
                vm::user::copy_out(address, bytemuck::cast_slice(answer))?;
            }
        }
        Ok(())
    }

    /// A word of each set.
    fn word(&self, number: usize) -> [u64; 3] {
        let word = |set: &&mut [u64]| set.get(number).copied().unwrap_or_default();
        self.asked.each_ref().map(word)
    }

    /// Answers for one descriptor: how many sets it is in.
    fn answer(&mut self, fd: usize, found: u32) -> usize {
        let (number, bit) = (fd / 64, 1 << (fd % 64));
        let asked = self.word(number);
        let mut count = 0;
        for (set, (_, holds)) in SETS.iter().enumerate() {
            if asked[set] & bit != 0
                && found & holds != 0
                && let Some(word) = self.answers[set].get_mut(number)
            {
                *word |= bit;
                count += 1;
            }
        }
        count
    }

    /// Calls `each` for every descriptor that is in a set, with the events it is asked about.
    fn each(&self, mut each: impl FnMut(usize, u32) -> Result<()>) -> Result<()> {
        for number in 0..self.asked[0].len() {
            let asked = self.word(number);
            let mut left = asked[0] | asked[1] | asked[2];
            while left != 0 {
                let bit = left.trailing_zeros() as usize;
                let events = (SETS.iter().zip(asked))
                    .filter(|(_, set)| set >> bit & 1 != 0)
                    .fold(0, |events, ((asks, _), _)| events | asks);
                each(number * 64 + bit, events)?;
                left &= left - 1;
            }
        }
        Ok(())
    }
}

impl PollQuery for &mut Sets<'_> {
    /// How many answers there are after one look at each. EBADF.
    type Answer = Result<usize>;

    #[inline(never)]
    fn ask<const CROWD: bool>(self, asker: PollScan<'_, CROWD>) -> Result<usize> {
        let mut count = 0;
        for number in 0..self.asked[0].len() {
            let [reading, writing, urgent] = self.word(number);
            let left = reading | writing | urgent;
            if left == 0 {
                continue;
            }
            let row = asker.row(number);
            if writing | urgent == 0 {
                let found = readable(left, number, |fd| row.look(fd).ok_or(Errno::EBADF))?;
                count += found.count_ones() as usize;
                if let Some(word) = self.answers[0].get_mut(number) {
                    *word = found;
                }
                continue;
            }
            let look = |fd| row.look_unless_always(fd).ok_or(Errno::EBADF);
            let found = ready(left, number, look)?;
            let asked = [reading, writing, urgent];
            for (set, (asked, found)) in asked.into_iter().zip(found).enumerate() {
                let found = asked & found;
                count += found.count_ones() as usize;
                if let Some(word) = self.answers[set].get_mut(number) {
                    *word = found;
                }
            }
        }
        Ok(count)
    }
}

/// Which of a row can be read, by `look`.
#[inline(always)]
fn readable<E>(
    mut left: u64,
    number: usize,
    look: impl Fn(usize) -> core::result::Result<u32, E>,
) -> core::result::Result<u64, E> {
    let (_, holds) = SETS[0];
    let mut found = left;
    while left != 0 {
        let fd = number * ROW + left.trailing_zeros() as usize;
        if look(fd)? & holds == 0 {
            found ^= left & left.wrapping_neg();
        }
        left &= left.wrapping_sub(1);
    }
    Ok(found)
}

/// Which of a row hold what each of the three sets asks for, by `look`. Files that are always ready can be
/// read and written, and nothing is urgent.
#[inline(always)]
fn ready<E>(
    mut left: u64,
    number: usize,
    look: impl Fn(usize) -> core::result::Result<HeldEvents, E>,
) -> core::result::Result<[u64; 3], E> {
    let [(_, reads), (_, writes), (_, urges)] = SETS;
    let (mut reading, mut writing, mut urgent) = (left, left, 0);
    while left != 0 {
        let fd = number * ROW + left.trailing_zeros() as usize;
        if let HeldEvents::Now(holding) = look(fd)? {
            let bit = left & left.wrapping_neg();
            reading &= if holding & reads == 0 { !bit } else { !0 };
            writing &= if holding & writes == 0 { !bit } else { !0 };
            urgent |= if holding & urges == 0 { 0 } else { bit };
        }
        left &= left.wrapping_sub(1);
    }
    Ok([reading, writing, urgent])
}

/// A call about a few descriptors that routines answer, word by word of the program's sets.
struct Few<'a> {
    count: usize,
    addresses: [usize; 3],
    answers: &'a mut [[u64; 3]],
}

impl PollQuery for Few<'_> {
    /// How many answers there are. Nothing: a file would have to be asked, a word is not at hand.
    type Answer = Option<usize>;

    #[inline(always)]
    fn ask<const CROWD: bool>(self, asker: PollScan<'_, CROWD>) -> Option<usize> {
        if CROWD {
            return None;
        }
        let mut count = 0;
        for (number, answers) in self.answers.iter_mut().enumerate() {
            let mut asked = [0; 3];
            for (word, address) in asked.iter_mut().zip(self.addresses) {
                if address != 0 {
                    *word = get(address.wrapping_add(number * size_of::<u64>()))?;
                }
            }
            // The last word may have bits of others.
            let mask = match self.count / 64 == number {
                true => (1 << (self.count % 64)) - 1,
                false => !0,
            };
            let left = (asked[0] | asked[1] | asked[2]) & mask;
            if left == 0 {
                continue;
            }
            let row = asker.row(number);
            if (asked[1] | asked[2]) & mask == 0 {
                let look = |fd| row.ready_events_by_routine(fd).ok_or(());
                answers[0] = readable(left, number, look).ok()?;
                count += answers[0].count_ones() as usize;
                continue;
            }
            let found = ready(left, number, |fd| row.ready_events_now(fd).ok_or(()));
            for (answer, (asked, found)) in answers.iter_mut().zip(asked.iter().zip(found.ok()?)) {
                *answer = asked & mask & found;
                if *answer != 0 {
                    count += answer.count_ones() as usize;
                }
            }
        }
        return Some(count);

        fn get(address: usize) -> Option<u64> {
            vm::user::get(address).ok()
        }
    }
}

/// `pselect6` about a few descriptors that need not be waited for. Nothing has been done
/// when there is no answer.
fn select_at_once(
    count: i32,
    addresses: [usize; 3],
    time: usize,
    off: &mut IrqsOff,
) -> Option<isize> {
    let count = usize::try_from(count).ok()?;
    let mut answers = [[0; 3]; FEW];
    let deadline = relative(time).ok()?;
    let found = Task::here(|task| {
        let (files, cred) = (&task.process.files, &task.cred);
        files.beside(cred, |files, _| {
            let words = count.min(files.capacity()).div_ceil(64);
            let few = Few {
                count,
                addresses,
                answers: answers.get_mut(..words)?,
            };
            Some((words, files.ask(few)?))
        })
    });
    let (words, found) = found.flatten()?;
    if found == 0 && !deadline.is_now() {
        return None;
    }
    let answer = || -> Result<()> {
        for (set, address) in addresses.into_iter().enumerate() {
            for (number, answers) in answers.iter().take(words).enumerate() {
                if address != 0 {
                    let word = answers.get(set).copied().unwrap_or_default();
                    put(address + number * size_of::<u64>(), &word)?;
                }
            }
        }
        Ok(())
    };
    match answer().and_then(|()| tell_left(time, deadline)) {
        Ok(()) => Some(found as isize),
        // A page may be missing: the answers are known, and some may be there already.
        Err(_) => Some(call_handler(off, || {
            answer()?;
            write_left(time, deadline);
            Ok(found)
        })),
    }
}

fn select_until(count: i32, addresses: [usize; 3], deadline: Deadline) -> Result<usize> {
    let count = usize::try_from(count).map_err(|_| Errno::EINVAL)?;
    let files = files()?;
    let words = count.min(files.capacity()).div_ceil(64);
    let select = |memory| select_of(&mut Sets::new(memory), addresses, count, &files, deadline);
    if words <= FEW {
        select(&mut [0; 6 * FEW][..6 * words])
    } else if words <= USUAL {
        select(&mut [0; 6 * USUAL][..6 * words])
    } else {
        select(&mut try_filled(0, 6 * words)?)
    }
}

fn select_of(
    sets: &mut Sets,
    addresses: [usize; 3],
    count: usize,
    files: &FdTable,
    deadline: Deadline,
) -> Result<usize> {
    sets.read(addresses, count)?;
    let mut found = files.ask(&mut *sets)?;
    if found == 0 {
        if interrupted() {
            return Err(Errno::ERESTARTNOHAND);
        }
        if !deadline.is_now() {
            let (mut opened, mut asked) = (Vec::new(), Vec::new());
            sets.each(|fd, events| {
                try_push(&mut opened, files.opened(fd as i32)?)?;
                try_push(&mut asked, PollRequest::new(fd, events))
            })?;
            wait_for(&opened, &mut asked, deadline)?;
            for asked in &asked {
                found += sets.answer(asked.index, asked.found);
            }
        }
    }
    sets.write(addresses)?;
    Ok(found)
}
