//! Waiting for events without a trap frame.
//!
//! *Interface*: [`Epoll::take_outright`] and [`Epoll::sleep_outright`], which `epoll_wait` calls in turn.
//!
//! Interrupts are off except during steps that may wait. Most checks are generated code
//! ([`OpenFile::look_from_afar`]). A level-triggered member that stays ready keeps its place in the line,
//! where nothing must be noted. A member need not enter the lists of a file again if they are woken at each
//! change. A held monitor, an array that cannot be written and a second sleeper lead to the call in
//! [`super`].

use alloc::sync::Arc;

use abi::errno::Result;
use abi::linux::{EPOLLET, EPOLLONESHOT, EpollEvent};
use machine::cpu::irq_disable;
use sync::ready::Member;
use thread::flags::ATTENTION;
use thread::outright::with_interrupts;

use super::{Epoll, Interest, Interests, Question};
use crate::file::OpenFile;

/// After so many looks interrupts may come.
const FEW: usize = 16;

impl Epoll {
    /// Sleeps as thread `me`, unless others do, until something may be ready or the thread is resumed for
    /// something else. Interrupts are off, and are off again afterwards. Whether something may be ready.
    #[inline(always)]
    pub fn sleep_outright(&self, me: &thread::Tte) -> bool {
        if !self.ready.doze(me.address(), || self.may_be_ready()) {
            return false;
        }
        irq_disable();
        let looks = me.flags() & ATTENTION == 0;
        if !looks {
            // Another sleeper, or the general path, handles its event.
            self.pass_on();
        }
        looks
    }

    /// Reports up to `most` events by `report`: how many. Nothing: the call is to be made the long way.
    /// Interrupts are off, and are off again afterwards.
    #[inline(always)]
    pub fn take_outright(
        &self,
        most: usize,
        report: &mut impl FnMut(usize, EpollEvent) -> Result<()>,
    ) -> Option<usize> {
        let mut interests = self.interests.try_lock()?;
        let interests = &mut *interests;
        if !self.ready.is_empty() {
            interests.line.refill(&self.ready);
        }
        let (mut reported, mut looks) = (0, 0);
        // The first of the members that stay, which are behind the others.
        let mut first = core::ptr::null();
        let whole = loop {
            let Some(member) = interests.line.oldest().map(core::ptr::from_ref) else {
                break true;
            };
            if member == first || reported == most {
                break true;
            }
            looks += 1;
            if looks % FEW == 0 {
                with_interrupts(|| ());
            }
            match interests.report_oldest(&mut |event| report(reported, event)) {
                None => break false,
                Some(false) => {}
                Some(true) => {
                    reported += 1;
                    if first.is_null() {
                        first = member;
                    }
                }
            }
        };
        self.leave(interests);
        (whole || reported > 0).then_some(reported)
    }
}

impl Interests {
    /// Checks the oldest member of the line: whether it has events. Nothing if `report` refuses; then the
    /// member is unchanged.
    #[inline(always)]
    fn report_oldest(&mut self, report: &mut impl FnMut(EpollEvent) -> Result<()>) -> Option<bool> {
        let Some((interest, look)) = self.known() else {
            return self.report_unknown(report);
        };
        let event = interest.event;
        let wanted = event.wanted();
        if event.events & (EPOLLET | EPOLLONESHOT) == 0 {
            let events = look() & wanted;
            if events != 0 {
                report(EpollEvent { events, ..event }).ok()?;
                self.line.rotate();
                return Some(true);
            }
        }
        if !interest.stands || !interest.arms.stand() {
            return self.report_unknown(report);
        }
        // Before the look it may be noted again.
        let member = self.line.take()?;
        match look() & wanted {
            0 => Some(false),
            events => {
                self.report_taken(member, EpollEvent { events, ..event }, event.events, report)
            }
        }
    }

    /// The interest of the oldest, if there is code for a look.
    #[inline(always)]
    fn known(&self) -> Option<(&Interest, impl Fn() -> u32 + Copy + use<>)> {
        let member = self.line.oldest()?;
        let interest = &**self.all.get(member.key)?;
        if interest.spent || !core::ptr::eq(&*interest.member, member) {
            return None;
        }
        Some((interest, OpenFile::look_from_afar(&interest.file)?))
    }

    /// Looks as [`Epoll::wait`] does.
    #[inline(never)]
    fn report_unknown(
        &mut self,
        report: &mut impl FnMut(EpollEvent) -> Result<()>,
    ) -> Option<bool> {
        let member = self.line.take()?;
        match with_interrupts(|| self.look(&member)) {
            None => {
                with_interrupts(|| drop(member));
                Some(false)
            }
            Some((event, ways)) => self.report_taken(member, event, ways, report),
        }
    }

    /// Reports of one that was taken, and puts it back if it stays.
    #[inline(never)]
    fn report_taken(
        &mut self,
        member: Arc<Member>,
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
