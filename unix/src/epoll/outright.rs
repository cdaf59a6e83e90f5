//! Waiting for events without a trap frame.
//!
//! *Interface*: [`wait`].
//!
//! Interrupts are off but for what may wait. Most looks are generated code ([`OpenFile::look_from_afar`]). One that stays ready, as a level does, stays in the line where nothing has to be noted. A file whose lists
//! are woken at each change need not be shown a member again that stands in them. A monitor that is held, an array that cannot be written and a second sleeper are left to the call as it is in [`super`].

use alloc::sync::Arc;

use abi::errno::Result;
use abi::linux::{EPOLLET, EPOLLONESHOT, EpollEvent};
use machine::cpu::irq_disable;
use sync::ready::Member;
use thread::flags::ATTENTION;
use vm::user::put;

use super::{Epoll, Interest, Interests, Question, room};
use crate::call::outright::with_interrupts;
use crate::file::OpenFile;
use crate::process::Task;

/// After so many looks interrupts may come.
const FEW: usize = 16;

/// Waits on instance `fd` for up to `most` events, for which there is room at `events`, for ever with a negative `timeout`, and for no other than 0: how many. Nothing: the call is to be made the
/// long way. Interrupts are off, and are off again afterwards.
#[inline(always)]
pub fn wait(task: &Task, fd: i32, events: usize, most: i32, timeout: i32) -> Option<usize> {
    let most = room(events, most).ok()?;
    let mut report =
        |place, event| put::<EpollEvent>(events + place * size_of::<EpollEvent>(), &event);
    // SAFETY: interrupts are off until the table is used no more.
    let files = unsafe { task.process.files.peek() };
    // SAFETY: interrupts are off until the description is counted, and the running thread is of the process whose table it is.
    let of = unsafe { files.at_hand(fd) }?;
    let epoll = of.file().as_epoll()?;
    let mut counted = None;
    let reported = loop {
        match epoll.take_outright(most, &mut report) {
            Some(0) if timeout != 0 => {}
            reported => break reported,
        }
        if counted.is_none() {
            if timeout > 0 {
                break None;
            }
            // SAFETY: as above: this is the first time round.
            counted = Some(unsafe { files.keep(fd, of) }?);
        }
        if !epoll.sleep_outright(&task.thread) {
            break None;
        }
    };
    if let Some(of) = counted {
        // It may be the last count.
        with_interrupts(|| drop(of));
    }
    reported
}

impl Epoll {
    /// Sleeps as thread `me`, unless others do, until something may be ready or the thread is resumed for something else. Interrupts are off, and are off again afterwards. Whether something may be ready.
    #[inline(always)]
    fn sleep_outright(&self, me: &thread::Tte) -> bool {
        if !self.ready.doze(me.address(), || self.may_be_ready()) {
            return false;
        }
        irq_disable();
        let looks = me.flags() & ATTENTION == 0;
        if !looks {
            // What there is for it another sleeper may have, or itself the long way.
            self.pass_on();
        }
        looks
    }

    /// Reports up to `most` events by `report`: how many. Nothing: the call is to be made the long way. Interrupts are off, and are off again afterwards.
    #[inline(always)]
    fn take_outright(
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
        // Those that stay stand behind the others: this is the first of them.
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
    /// Looks at the oldest of the line: whether it has something to report. Nothing if `report` refuses; then the member is as it was.
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
