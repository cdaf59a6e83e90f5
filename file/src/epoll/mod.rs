//! Epoll instances: sets of descriptors that report when one of them is ready.
//!
//! *Interface*: an [`Epoll`] is a [`File`]; [`Epoll::add`], [`Epoll::change`] and [`Epoll::remove`] change
//! its interests, [`Epoll::wait`] reports, and [`Epoll::take_one`] and [`Epoll::take_all`] report directly
//! into the user's array.
//!
//! Each interest is a member of the instance's ready list, into which the wait lists of its file put it. So a
//! check takes time only for the ready interests, however many are watched. An interest stays in its wait
//! lists as long as it exists. A reported level-triggered interest stays in the ready list until a check
//! finds it not ready. A one-shot interest that has fired is ignored until it is changed.
//!
//! An interest does not keep its description: the description ends with its last descriptor, even while
//! threads sleep in `epoll_wait`.
//!
//! Source: dissertation, figure 4.3 (callbacks of a queue), sections 4.1.4 and 4.4.

mod frameless;
mod nest;
mod slab;

use abi::errno::{Errno, Result};
use abi::linux::*;
use alloc::boxed::Box;
use alloc::collections::BTreeMap;
use alloc::sync::{Arc, Weak};
use core::sync::atomic::{AtomicBool, Ordering};
use sync::Monitor;
use sync::ready_list::{ReadyConsumer, ReadyHooks, ReadyList, ReadyMember};

use crate::fs::file::{File, OpenFile, SMALL_WEIGHT};
use crate::poll::{self, PollTable, SignalWatch};
use account::quota;
use account::user::Charge;
use slab::Slab;
use thread::deadline::Deadline;
use vm::fallible::{try_arc, try_box, try_insert, try_string};

/// A descriptor's number and its description's address, which is not reused while the interest has its weak
/// count.
type Key = (usize, usize);

/// An epoll instance.
pub struct Epoll {
    ready: Arc<ReadyList>,
    interests: Monitor<Interests>,
    /// A member was taken from the list and not checked.
    left: AtomicBool,
    kin: nest::Kin,
}

/// The interests of an instance.
struct Interests {
    all: Slab<Box<Interest>>,
    /// Their indexes.
    numbers: BTreeMap<Key, usize>,
    /// Those that may be ready.
    line: ReadyConsumer,
    /// The line was filled by a look that has reported none of it.
    line_is_new: bool,
    /// With so many interests, those of closed descriptors are looked for.
    full: usize,
}

/// The interest in one descriptor.
struct Interest {
    key: Key,
    file: Weak<OpenFile>,
    member: Arc<ReadyMember>,
    arms: ReadyHooks,
    whose: SignalWatch,
    event: EpollEvent,
    /// The file's lists are woken at each change.
    stands: bool,
    /// EPOLLONESHOT has fired.
    spent: bool,
    /// The charge to the user who added it.
    _charge: Charge,
}

/// Bits of an event that are not conditions.
const WAYS: u32 = EPOLLET | EPOLLONESHOT | EPOLLEXCLUSIVE | EPOLLWAKEUP;

/// The flags permitted with EPOLLEXCLUSIVE.
const EXCLUSIVE: u32 =
    EPOLLIN | EPOLLOUT | EPOLLERR | EPOLLHUP | EPOLLWAKEUP | EPOLLET | EPOLLEXCLUSIVE;

/// Bytes of an interest with its part of the tree and its member, about.
const INTEREST: usize = 384;

/// As many interests as may be there before closed ones are looked for.
const FEW: usize = 64;

/// How many events have room at `events`, where `most` are to have. EINVAL, EFAULT.
#[inline]
pub fn room(events: usize, most: i32) -> Result<usize> {
    let most = usize::try_from(most).unwrap_or(0);
    if most == 0 || most > i32::MAX as usize / size_of::<EpollEvent>() {
        return Err(Errno::EINVAL);
    }
    vm::user::check(events, most * size_of::<EpollEvent>())?;
    Ok(most)
}

fn key(fd: i32, file: &Arc<OpenFile>) -> Key {
    (fd as usize, Arc::as_ptr(file).addr())
}

impl Interest {
    /// The events that hold now; lets the instance be notified when they may change.
    fn watch(&mut self, file: &OpenFile) -> u32 {
        let wanted = self.event.wanted();
        let mut table = PollTable::member(&mut self.arms, &mut self.whose, wanted);
        self.event.found(file, Some(&mut table))
    }

    /// The events to report. Unless each check reports them again anyway, lets the instance be notified of
    /// later events.
    fn look(&mut self, file: &OpenFile) -> u32 {
        if self.spent {
            return 0;
        }
        if self.event.events & EPOLLET == 0 {
            let found = file.ready_events() & self.event.wanted();
            if found != 0 {
                return found;
            }
        }
        self.watch(file)
    }

    /// Leaves the wait lists of its file.
    fn unwatch(&mut self) {
        if let Some(file) = self.file.upgrade() {
            let mut table = PollTable::leave(&mut self.arms, &mut self.whose);
            self.event.found(&file, Some(&mut table));
        }
    }
}

/// An event as a question to a file.
trait Question {
    fn wanted(&self) -> u32;
    fn found<'a>(&self, file: &'a OpenFile, table: Option<&mut PollTable<'a>>) -> u32;
}

impl Question for EpollEvent {
    #[inline]
    fn wanted(&self) -> u32 {
        self.events & !WAYS | POLLERR | POLLHUP
    }

    fn found<'a>(&self, file: &'a OpenFile, table: Option<&mut PollTable<'a>>) -> u32 {
        let wanted = self.wanted();
        file.file().poll(file, wanted, table) & wanted
    }
}

impl Epoll {
    /// A description of a new instance. ENOMEM.
    pub fn open() -> Result<Arc<OpenFile>> {
        let epoll = Epoll {
            ready: try_arc(ReadyList::new())?,
            interests: Monitor::new(Interests {
                all: Slab::new(),
                numbers: BTreeMap::new(),
                line: ReadyConsumer::new(),
                line_is_new: false,
                full: FEW,
            }),
            left: AtomicBool::new(false),
            kin: nest::Kin::new(),
        };
        Ok(OpenFile::new(try_arc(epoll)?, O_RDWR))
    }

    /// Watches `file`, which has descriptor `fd`; `of` is the instance's own description. EPERM for a file
    /// that is always ready, EINVAL for an invalid combination, EEXIST, ELOOP, ENOSPC, ENOMEM.
    pub fn add(
        &self,
        of: &Arc<OpenFile>,
        fd: i32,
        file: &Arc<OpenFile>,
        event: EpollEvent,
    ) -> Result<()> {
        let inner = file.file_as::<Epoll>();
        if event.events & EPOLLEXCLUSIVE != 0 && (event.events & !EXCLUSIVE != 0 || inner.is_some())
        {
            return Err(Errno::EINVAL);
        }
        let Some(inner) = inner else {
            return self.insert(fd, file, event);
        };
        nest::enter(of, self, file, inner)?;
        self.insert(fd, file, event)
            .inspect_err(|_| nest::leave(self, inner))
    }

    fn insert(&self, fd: i32, file: &Arc<OpenFile>, event: EpollEvent) -> Result<()> {
        // Bound: a report: at most as many descriptors as are ready; a change: one; now and then all, to
        // forget the closed.
        let mut interests = self.interests.lock();
        interests.sweep();
        let key = key(fd, file);
        if interests.numbers.contains_key(&key) {
            return Err(Errno::EEXIST);
        }
        let charge = quota::watch()?;
        let number = interests.all.next()?;
        let member = try_arc(ReadyMember::new(&self.ready, number))?;
        let mut interest = try_box(Interest {
            key,
            file: Arc::downgrade(file),
            arms: ReadyHooks::new(member.clone(), event.events & EPOLLEXCLUSIVE != 0),
            whose: None,
            member,
            event,
            stands: file.file().wakes_each_time(),
            spent: false,
            _charge: charge,
        })?;
        if interest.watch(file) != 0 {
            interest.member.note();
        }
        try_insert(&mut interests.numbers, key, number)?;
        interests.all.put(number, interest);
        Ok(())
    }

    /// Watches `file` for another event. ENOENT, EINVAL for one that is exclusive or is to be.
    pub fn change(&self, fd: i32, file: &Arc<OpenFile>, event: EpollEvent) -> Result<()> {
        let mut interests = self.interests.lock();
        let interest = interests.of(key(fd, file)).ok_or(Errno::ENOENT)?;
        if (interest.event.events | event.events) & EPOLLEXCLUSIVE != 0 {
            return Err(Errno::EINVAL);
        }
        // Where the old events may come there is no need to leave, if they are wanted on.
        if interest.event.wanted() & !event.wanted() != 0 {
            interest.unwatch();
        }
        interest.event = event;
        interest.spent = false;
        interest.member.mute(false);
        if interest.watch(file) != 0 {
            interest.member.note();
        }
        Ok(())
    }

    /// The file that the `which`th interest in number `fd` is about. ENOENT.
    pub fn watched(&self, fd: usize, which: usize) -> Result<usize> {
        let interests = self.interests.lock();
        let mut of_number = interests.numbers.range((fd, 0)..=(fd, usize::MAX));
        let found = of_number.nth(which);
        found.map(|(&(_, file), _)| file).ok_or(Errno::ENOENT)
    }

    /// Watches `file` no more. ENOENT.
    pub fn remove(&self, fd: i32, file: &Arc<OpenFile>) -> Result<()> {
        let mut interests = self.interests.lock();
        let interest = interests.remove(key(fd, file));
        interest.ok_or(Errno::ENOENT)?.unwatch();
        drop(interests);
        if let Some(inner) = file.file_as::<Epoll>() {
            nest::leave(self, inner);
        }
        Ok(())
    }

    /// Reports up to `most` events by `report`, as soon as there is one: how many. EINTR, and what `report`
    /// refuses with.
    pub fn wait(
        &self,
        most: usize,
        deadline: Deadline,
        mut report: impl FnMut(usize, EpollEvent) -> Result<()>,
    ) -> Result<usize> {
        let mut alarm = None;
        loop {
            let reported = self.take(most, &mut report)?;
            if reported > 0 {
                return Ok(reported);
            }
            if deadline.has_passed() {
                return Ok(0);
            }
            if alarm.is_none() {
                alarm = Some(deadline.alarm()?);
            }
            let waited = (self.ready).sleep(|| self.may_be_ready() || deadline.has_passed());
            if waited.is_err() {
                // The thread whose turn it would have been may have been woken for the member.
                self.pass_on();
                return Err(Errno::EINTR);
            }
        }
    }

    fn may_be_ready(&self) -> bool {
        !self.ready.is_empty() || self.left.load(Ordering::SeqCst)
    }

    /// Wakes another sleeper if there is something for it.
    #[inline(always)]
    fn pass_on(&self) {
        if self.ready.has_sleepers() {
            self.wake_another();
        }
    }

    #[inline(never)]
    fn wake_another(&self) {
        if self.may_be_ready() {
            self.ready.wake_sleeper();
        }
    }

    fn take(
        &self,
        most: usize,
        report: &mut impl FnMut(usize, EpollEvent) -> Result<()>,
    ) -> Result<usize> {
        let mut interests = self.interests.lock();
        let interests = &mut *interests;
        interests.line.refill(&self.ready);
        let mut again = ReadyConsumer::new();
        let mut result = Ok(0);
        while let Ok(reported) = result
            && reported < most
            && let Some(member) = interests.line.take()
        {
            let Some((event, ways)) = interests.look(&member) else {
                continue;
            };
            if let Err(error) = report(reported, event) {
                again.put_back(member);
                // As with every call that has done something.
                result = if reported == 0 {
                    Err(error)
                } else {
                    Ok(reported)
                };
                break;
            }
            result = Ok(reported + 1);
            if ways & EPOLLONESHOT != 0 {
                interests.spend(&member);
            } else if ways & EPOLLET == 0 {
                again.put_back(member);
            }
        }
        interests.line.join(&mut again);
        self.leave(interests);
        result
    }

    /// Records whether a member is left in the line, and lets another sleeper check.
    #[inline(always)]
    fn leave(&self, interests: &Interests) {
        let left = !interests.line.is_empty();
        // Only the holder of the monitor changes it.
        if self.left.load(Ordering::Relaxed) != left {
            self.left.store(left, Ordering::SeqCst);
        }
        self.pass_on();
    }

    /// Whether a look would report something.
    fn is_ready(&self) -> bool {
        let mut interests = self.interests.lock();
        let interests = &mut *interests;
        interests.line.refill(&self.ready);
        let mut found = ReadyConsumer::new();
        while let Some(member) = interests.line.take() {
            if interests.look(&member).is_some() {
                found.put_back(member);
                break;
            }
        }
        let is_ready = !found.is_empty();
        found.join(&mut interests.line);
        interests.line.join(&mut found);
        self.left.store(is_ready, Ordering::SeqCst);
        is_ready
    }
}

impl Interests {
    fn of(&mut self, key: Key) -> Option<&mut Box<Interest>> {
        let number = *self.numbers.get(&key)?;
        self.all.get_mut(number)
    }

    fn remove(&mut self, key: Key) -> Option<Box<Interest>> {
        let number = self.numbers.remove(&key)?;
        self.all.remove(number)
    }

    /// The events of `member` to report, and how. Nothing for an old member of a descriptor that was removed
    /// and added again.
    fn look(&mut self, member: &Arc<ReadyMember>) -> Option<(EpollEvent, u32)> {
        let mine = |interest: &&mut Box<Interest>| Arc::ptr_eq(&interest.member, member);
        let interest = self.all.get_mut(member.key).filter(mine)?;
        let Some(file) = interest.file.upgrade().filter(|file| !file.is_closed()) else {
            let key = interest.key;
            self.remove(key);
            return None;
        };
        let events = interest.look(&file);
        let ways = interest.event.events;
        let event = EpollEvent {
            events,
            ..interest.event
        };
        (events != 0).then_some((event, ways))
    }

    /// The only shot of `member` has been had.
    fn spend(&mut self, member: &Arc<ReadyMember>) {
        if let Some(interest) = self.all.get_mut(member.key) {
            interest.spent = true;
            member.mute(true);
        }
    }

    /// Forgets closed descriptors, when there may be as many of them as of others.
    fn sweep(&mut self) {
        if self.numbers.len() >= self.full {
            let all = &mut self.all;
            self.numbers.retain(|_, &mut number| {
                let interest = all.get(number);
                let stays = interest.is_some_and(|one| one.file.strong_count() != 0);
                if !stays {
                    all.remove(number);
                }
                stays
            });
            self.full = FEW.max(2 * self.numbers.len());
        }
    }
}

impl File for Epoll {
    fn moves(&self) -> [bool; 2] {
        [false, false]
    }

    /// It has no offset, and `lseek` reports no error.
    fn lseek(&self, _of: &OpenFile, _offset: i64, _whence: u32) -> Result<u64> {
        Ok(0)
    }

    fn can_be_watched(&self) -> bool {
        true
    }

    fn poll<'a>(
        &'a self,
        _of: &'a OpenFile,
        events: u32,
        table: Option<&mut PollTable<'a>>,
    ) -> u32 {
        if let Some(table) = table {
            table.watch(&self.ready.watchers);
        }
        events & poll::events(self.is_ready(), false)
    }

    fn weight(&self, _of: &OpenFile) -> usize {
        let interests = self.interests.try_lock();
        SMALL_WEIGHT + interests.map_or(0, |interests| INTEREST * interests.numbers.len())
    }

    fn label(&self, _of: &OpenFile) -> Result<alloc::string::String> {
        try_string(b"anon_inode:[eventpoll]")
    }
}

impl Drop for Epoll {
    fn drop(&mut self) {
        // Members and list have counts of each other.
        self.ready.close();
    }
}
