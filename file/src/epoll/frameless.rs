//! `epoll_wait` without a trap frame.
//!
//! *Interface*: [`Epoll::take_one`] for an instance that nobody keeps but its descriptor; then
//! [`Epoll::take_all`] and [`Epoll::sleep_frameless`] in turn, which let interrupts come.
//!
//! Interrupts are off, except for work that may wait. Most readiness checks are generated code
//! ([`OpenFile::ready_events_weakly`]). A new member is checked first: if it is ready, as a level, it stays
//! in the ready list with its flag. A member that has stayed in the list was reported before, and usually has
//! nothing any more: it is taken off first, and then one check is enough. For a file whose wait lists are
//! woken at each change, a member that is in all of them need not enrol again. If the monitor is held, the
//! array cannot be written or there is a second sleeper, the call is made as in [`super`].

use alloc::sync::Arc;
use core::sync::atomic::Ordering;

use abi::errno::Result;
use abi::linux::{EPOLLET, EPOLLONESHOT, EpollEvent};
use machine::irqs_off::IrqsOff;
use sync::ready_list::ReadyMember;
use thread::flags::ATTENTION;
use thread::frameless::{NOT_HANDLED, sleep};

use super::{Epoll, Interest, Interests, Question};
use crate::fs::file::OpenFile;

/// After so many looks interrupts may come.
const FEW: usize = 16;

impl Epoll {
    /// Sleeps as thread `me`, unless others do, until something may be ready or the thread is resumed for
    /// something else. Whether something may be ready.
    #[inline(always)]
    pub fn sleep_frameless(&self, me: &thread::Tte, off: &mut IrqsOff) -> bool {
        let slept = (self.ready).doze(me.address(), || self.may_be_ready(), || sleep(me, off));
        if !slept {
            return false;
        }
        let looks = me.flags() & ATTENTION == 0;
        if !looks {
            // Another sleeper, or the general path, handles its event.
            self.pass_on();
        }
        looks
    }

    /// Reports into the array at `events`, which has room, if one member may be ready: how many events, 0 or
    /// 1. `None`: there is more to look at. No interrupt comes meanwhile.
    #[inline(always)]
    pub fn take_one(&self, events: usize, off: &IrqsOff) -> Option<isize> {
        // Bound: one look; or, where interrupts may come, as many as members are ready: they come after each
        // 16, and for each that no code makes.
        let mut interests = self.interests.try_lock()?;
        let interests = &mut *interests;
        let have_come = interests.line.is_empty();
        let news = !self.ready.is_empty();
        if have_come && news {
            interests.line.refill(&self.ready);
            let reported = interests.report_only(events, off);
            interests.line_is_new = reported.is_none();
            self.leave(interests);
            return reported.map(|()| 1);
        }
        if news {
            return None;
        }
        if have_come {
            self.leave(interests);
            return Some(0);
        }
        interests.release_only(off)?;
        // A sleeper that sees the old value looks once in vain. A later member wakes a sleeper itself.
        self.left.store(false, Ordering::Release);
        Some(0)
    }

    /// Reports up to `most` events into the array at `events`, which has room: how many, or [`NOT_HANDLED`].
    #[inline(never)]
    pub fn take_all(&self, most: usize, events: usize, off: &mut IrqsOff) -> isize {
        let Some(mut interests) = self.interests.try_lock() else {
            return NOT_HANDLED;
        };
        let interests = &mut *interests;
        let is_new = core::mem::take(&mut interests.line_is_new);
        let have_come = is_new || interests.line.is_empty();
        let stayed = if have_come {
            core::ptr::null()
        } else {
            interests.line.latest()
        };
        if !self.ready.is_empty() {
            interests.line.refill(&self.ready);
        }
        let last = interests.line.latest();
        let (mut reported, mut looks, mut whole) = (0, 0, true);
        let mut has_come = stayed.is_null();
        while reported < most
            && let Some(member) = interests.line.oldest().map(core::ptr::from_ref)
        {
            looks += 1;
            if looks % FEW == 0 {
                off.window();
            }
            let at = place(events, reported);
            match interests.report_oldest(has_come, &mut |event| put(at, event), off) {
                None => {
                    whole = false;
                    break;
                }
                Some(found) => reported += usize::from(found),
            }
            // Members that stay go behind the others.
            if member == last {
                break;
            }
            has_come |= member == stayed;
        }
        self.leave(interests);
        match whole || reported > 0 {
            true => reported as isize,
            false => NOT_HANDLED,
        }
    }
}

/// Where event number `number` of the array at `events` is.
fn place(events: usize, number: usize) -> usize {
    events.wrapping_add(number.wrapping_mul(size_of::<EpollEvent>()))
}

/// Writes `event` at `address`. EFAULT.
#[inline(always)]
fn put(address: usize, event: EpollEvent) -> Result<()> {
    vm::user::put_pair(address, event.events, event.data)
}

impl Interests {
    /// Reports the only member in the line, a new one, at `address`; it stays there. `None`, with nothing
    /// done, if there are others, or it is not ready as a level.
    #[inline(always)]
    fn report_only(&mut self, address: usize, off: &IrqsOff) -> Option<()> {
        self.line.only()?;
        let (interest, look) = self.known(off)?;
        if interest.event.events & (EPOLLET | EPOLLONESHOT) != 0 {
            return None;
        }
        let events = look() & interest.event.wanted();
        if events == 0 {
            return None;
        }
        vm::user::put_pair(address, events, interest.event.data).ok()
    }

    /// Takes the only member in the line, one that has stayed there, off if it has nothing to report. `None`
    /// otherwise: the member is in the line then, or in the list.
    #[inline(always)]
    fn release_only(&mut self, off: &IrqsOff) -> Option<()> {
        self.line.only()?;
        let (interest, look) = self.known(off)?;
        if !interest.stands || !interest.arms.stand() {
            return None;
        }
        let wanted = interest.event.wanted();
        // Before the look it may be noted again.
        let member = self.line.take()?;
        if look() & wanted == 0 {
            return Some(());
        }
        self.line.put_back(member);
        None
    }

    /// Looks at the oldest member of the line, which `has_come` since it was last reported, or has stayed:
    /// whether it has something to report. `None` if `report` refuses; then the member is as it was.
    #[inline(always)]
    fn report_oldest(
        &mut self,
        has_come: bool,
        report: &mut impl FnMut(EpollEvent) -> Result<()>,
        off: &mut IrqsOff,
    ) -> Option<bool> {
        let Some((interest, look)) = self.known(off) else {
            return self.report_unknown(report, off);
        };
        let is_level = interest.event.events & (EPOLLET | EPOLLONESHOT) == 0;
        if is_level && (has_come || !interest.stands) {
            let events = look() & interest.event.wanted();
            if events != 0 {
                let event = EpollEvent {
                    events,
                    ..interest.event
                };
                report(event).ok()?;
                self.line.rotate();
                return Some(true);
            }
        }
        if !interest.stands || !interest.arms.stand() {
            return self.report_unknown(report, off);
        }
        let event = interest.event;
        // Before the look it may be noted again.
        let member = self.line.take()?;
        match look() & event.wanted() {
            0 => Some(false),
            events => {
                self.report_taken(member, EpollEvent { events, ..event }, event.events, report)
            }
        }
    }

    /// The interest of the oldest, if there is code for a look.
    #[inline(always)]
    fn known<'o>(
        &self,
        off: &'o IrqsOff,
    ) -> Option<(&Interest, impl Fn() -> u32 + Copy + use<'o>)> {
        let member = self.line.oldest()?;
        let interest = &**self.all.get(member.key)?;
        if interest.spent || !core::ptr::eq(&*interest.member, member) {
            return None;
        }
        Some((
            interest,
            OpenFile::ready_events_weakly(&interest.file, off)?,
        ))
    }

    /// Looks as [`Epoll::wait`] does.
    #[inline(never)]
    fn report_unknown(
        &mut self,
        report: &mut impl FnMut(EpollEvent) -> Result<()>,
        off: &mut IrqsOff,
    ) -> Option<bool> {
        let member = self.line.take()?;
        match off.with_interrupts(|| self.look(&member)) {
            None => {
                off.with_interrupts(|| drop(member));
                Some(false)
            }
            Some((event, ways)) => self.report_taken(member, event, ways, report),
        }
    }

    /// Reports of one that was taken, and puts it back if it stays.
    #[inline(never)]
    fn report_taken(
        &mut self,
        member: Arc<ReadyMember>,
        event: EpollEvent,
        ways: u32,
        report: &mut impl FnMut(EpollEvent) -> Result<()>,
    ) -> Option<bool> {
        if report(event).is_err() {
            self.line.put_first(member);
            return None;
        }
        if ways & EPOLLONESHOT != 0 {
            self.spend(&member);
        } else if ways & EPOLLET == 0 {
            self.line.put_back(member);
        }
        Some(true)
    }
}
