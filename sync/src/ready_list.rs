//! A list of ready members: a member is noted, at most once, when a wait list is woken in which it waits, and
//! a consumer takes the members in the order of arrival.
//!
//! *Interface*: a [`ReadyMember`] of a [`ReadyList`] is armed by giving its [`ReadyHooks`] to wait lists
//! ([`ReadyHooks::watch`]), where they stay; each time one of these is woken, or by [`ReadyMember::note`],
//! the member enters the ready list, unless it is [muted](ReadyMember::mute). [`ReadyConsumer`] is the
//! consumer's end: [`ReadyConsumer::take`] and [`ReadyConsumer::put_back`], one party at a time.
//! [`ReadyList::sleep`] sleeps until a member is ready; one sleeper is woken for each member that comes, in
//! turn. All [`ReadyList::watchers`] are woken.
//!
//! A member is taken off before it is checked: an event after the check notes it again. So no event is lost,
//! and the time to process the ready members does not depend on the number of others.
//!
//! A closed list takes no more members. Each member in the list has a count; `close` drops these counts, and
//! does so again a grace period later, when all wakers that had not seen the close have finished (they note
//! with interrupts off).
//!
//! Progress: `note` is lock-free, in handlers too. Source: dissertation, figure 4.3 (callbacks from the queue
//! to parties that wait on many).

use alloc::sync::Arc;
use core::ptr::NonNull;

use crate::callout::{self, without_interrupts};
use crate::epoch;
use crate::primitive::atomic::{AtomicBool, AtomicPtr, AtomicUsize, Ordering, fence};
use crate::wait::{Callback, Interrupted, WaitList, WaitNode};

/// For use between a `SeqCst` exchange and a `SeqCst` load that must not pass it. They are ordered without
/// it; loom, which takes `SeqCst` accesses for acquire and release only, needs a fence to know.
fn in_order() {
    #[cfg(loom)]
    fence(Ordering::SeqCst);
}

/// Members that came since the consumer looked.
pub struct ReadyList {
    /// The latest, counted; it leads to the one before.
    latest: AtomicPtr<ReadyMember>,
    closed: AtomicBool,
    /// The thread that waits for a member, if it found no other that does; 0 for none.
    alone: AtomicUsize,
    /// Those that wait behind it.
    sleepers: WaitList,
    /// Other parties that are woken for each member that comes.
    pub watchers: WaitList,
}

/// A member that may become ready.
#[repr(C)]
pub struct ReadyMember {
    /// First, so that its address is the member's.
    callback: Callback,
    /// The previous member, while this one is in the list.
    next: AtomicPtr<ReadyMember>,
    /// It is in the list, or in the consumer's line.
    noted: AtomicBool,
    /// It is not to be noted.
    muted: AtomicBool,
    list: Arc<ReadyList>,
    /// The consumer's name for it.
    pub key: usize,
}

impl ReadyList {
    /// No member is ready.
    pub fn new() -> ReadyList {
        ReadyList {
            latest: AtomicPtr::new(core::ptr::null_mut()),
            closed: AtomicBool::new(false),
            alone: AtomicUsize::new(0),
            sleepers: WaitList::new(),
            watchers: WaitList::new(),
        }
    }

    /// Whether no member has come since the consumer's last look.
    pub fn is_empty(&self) -> bool {
        self.latest.load(Ordering::SeqCst).is_null()
    }

    /// Sleeps until `condition` holds, as it does while a member is ready, or a signal arrives. A woken
    /// sleeper that does not check the ready members must [wake](ReadyList::wake_sleeper) another.
    ///
    /// # Errors
    /// The signal.
    pub fn sleep(&self, condition: impl Fn() -> bool) -> Result<(), Interrupted> {
        let me = (callout::get().current)();
        // A new sleeper waits behind the others.
        let alone = !self.sleepers.has_waiters()
            && (self.alone)
                .compare_exchange(0, me, Ordering::SeqCst, Ordering::Relaxed)
                .is_ok();
        if !alone {
            return (self.sleepers).wait_interruptible(|| condition().then_some(()));
        }
        in_order();
        let result = loop {
            if condition() {
                break Ok(());
            }
            if (callout::get().interrupted)() {
                break Err(Interrupted);
            }
            if self.alone.load(Ordering::Acquire) != me {
                break Ok(());
            }
            (callout::get().suspend)();
        };
        // Unless a waker has: that one's turn is the caller's even if it has found the condition itself.
        let told = (self.alone)
            .compare_exchange(me, 0, Ordering::AcqRel, Ordering::Relaxed)
            .is_err();
        // Neither that turn nor what came with the signal is lost.
        if told || condition() {
            return Ok(());
        }
        result
    }

    /// As [`ReadyList::sleep`], for thread `me` as the only sleeper, which sleeps by `suspend`, but only
    /// until it is woken once, or is resumed for another reason: then it checks itself. False at once when
    /// others sleep.
    #[inline]
    pub fn doze(
        &self,
        me: usize,
        condition: impl FnOnce() -> bool,
        suspend: impl FnOnce(),
    ) -> bool {
        let alone = !self.sleepers.has_waiters()
            && (self.alone)
                .compare_exchange(0, me, Ordering::SeqCst, Ordering::Relaxed)
                .is_ok();
        if !alone {
            return false;
        }
        in_order();
        if !condition() {
            suspend();
        }
        // A waker has done this already, most often.
        if self.alone.load(Ordering::Relaxed) == me {
            let _ = (self.alone).compare_exchange(me, 0, Ordering::AcqRel, Ordering::Relaxed);
        }
        true
    }

    /// Whether there may be a sleeper.
    pub fn has_sleepers(&self) -> bool {
        self.alone.load(Ordering::SeqCst) != 0 || self.sleepers.has_waiters()
    }

    /// Wakes the longest sleeper. Whether there was one.
    pub fn wake_sleeper(&self) -> bool {
        if self.alone.load(Ordering::SeqCst) != 0 {
            let alone = self.alone.swap(0, Ordering::AcqRel);
            if alone != 0 {
                (callout::get().resume)(alone);
                return true;
            }
        }
        self.sleepers.has_waiters() && self.sleepers.wake_one()
    }

    /// Takes no more members, and drops those in the list. In thread context; members must be disarmed before
    /// or soon after.
    pub fn close(self: &Arc<Self>) {
        self.closed.store(true, Ordering::SeqCst);
        self.clear();
        let raw = Arc::into_raw(self.clone()) as usize;
        epoch::retire(
            |raw| {
                // SAFETY: the count given up above; the callback runs once.
                let list = unsafe { Arc::from_raw(raw as *const ReadyList) };
                list.clear();
            },
            raw,
        );
    }

    fn clear(&self) {
        let mut line = ReadyConsumer::new();
        line.refill(self);
        while line.take().is_some() {}
    }
}

impl Default for ReadyList {
    fn default() -> Self {
        Self::new()
    }
}

impl ReadyMember {
    /// A member of `list` that is not ready.
    pub fn new(list: &Arc<ReadyList>, key: usize) -> ReadyMember {
        ReadyMember {
            callback: Callback(Self::came),
            next: AtomicPtr::new(core::ptr::null_mut()),
            noted: AtomicBool::new(false),
            muted: AtomicBool::new(false),
            list: list.clone(),
            key,
        }
    }

    /// Puts it into the list, unless it is there.
    pub fn note(self: &Arc<Self>) {
        // SAFETY: it is in an `Arc`, as `enter` wants it, and the caller's count keeps it.
        // Bound: one note: an exchange, and the wake-ups that follow.
        without_interrupts(|| unsafe { Self::enter(Self::place(self)) });
    }

    /// Sets whether it is noted from now on. (It may be in the list even if muted.) After unmuting, watch
    /// again, or check for changes.
    pub fn mute(&self, muted: bool) {
        self.muted.store(muted, Ordering::Release);
        fence(Ordering::SeqCst);
    }

    /// Its place inside the `Arc`, by a pointer that is good for the count, too.
    fn place(self: &Arc<Self>) -> NonNull<ReadyMember> {
        let place = Arc::as_ptr(self).cast_mut();
        // SAFETY: no place of an `Arc` is null.
        unsafe { NonNull::new_unchecked(place) }
    }

    /// A wait list was woken in which it waits.
    fn came(callback: NonNull<Callback>) -> bool {
        // SAFETY: the callback is the first field of a member in an `Arc`, which its arms keep for a grace
        // period.
        unsafe { Self::enter(callback.cast()) }
    }

    /// Whether a thread was woken that sleeps until a member is ready.
    ///
    /// # Safety
    /// The member is in an `Arc`, and stays until the caller turns interrupts on.
    #[inline(always)]
    unsafe fn enter(member: NonNull<ReadyMember>) -> bool {
        // SAFETY: the caller's promise.
        let this = unsafe { member.as_ref() };
        let list = &this.list;
        if this.muted.load(Ordering::SeqCst)
            || list.closed.load(Ordering::SeqCst)
            || this.noted.swap(true, Ordering::SeqCst)
        {
            return false;
        }
        // SAFETY: in an `Arc`, and alive.
        unsafe { Arc::increment_strong_count(member.as_ptr()) };
        let mut latest = list.latest.load(Ordering::Relaxed);
        loop {
            this.next.store(latest, Ordering::Relaxed);
            match list.latest.compare_exchange_weak(
                latest,
                member.as_ptr(),
                Ordering::SeqCst,
                Ordering::Relaxed,
            ) {
                Ok(_) => break,
                Err(now) => latest = now,
            }
        }
        in_order();
        let woken = list.wake_sleeper();
        if list.watchers.has_waiters() {
            list.watchers.wake_all();
        }
        woken
    }

    /// Whether it is in the list or in a line.
    #[cfg(all(test, not(loom)))]
    fn is_noted(&self) -> bool {
        self.noted.load(Ordering::SeqCst)
    }
}

/// The consumer's end: the members that were taken from the list and not checked yet, oldest first.
pub struct ReadyConsumer {
    first: *mut ReadyMember,
    last: *mut ReadyMember,
}

// SAFETY: the members are counted, and `Send` and `Sync` themselves.
unsafe impl Send for ReadyConsumer {}

impl ReadyConsumer {
    /// Empty.
    pub const fn new() -> ReadyConsumer {
        ReadyConsumer {
            first: core::ptr::null_mut(),
            last: core::ptr::null_mut(),
        }
    }

    /// Whether the line is empty.
    pub fn is_empty(&self) -> bool {
        self.first.is_null()
    }

    /// Appends the new members of `list`.
    #[inline(always)]
    pub fn refill(&mut self, list: &ReadyList) {
        let last = list.latest.swap(core::ptr::null_mut(), Ordering::SeqCst);
        // SAFETY: members of the list are counted, and only the caller has the members taken off it.
        let next = unsafe { last.as_ref() }.map(|member| member.next.load(Ordering::Relaxed));
        match next {
            // The frequent case.
            Some(next) if next.is_null() && self.first.is_null() => {
                (self.first, self.last) = (last, last);
            }
            Some(_) => self.append_reversed(last),
            None => {}
        }
    }

    /// Appends the chain that begins with `last`, the latest member of a list, oldest first.
    fn append_reversed(&mut self, last: *mut ReadyMember) {
        let mut at = last;
        let mut after = core::ptr::null_mut();
        while let Some(member) = NonNull::new(at) {
            // SAFETY: members of the list are counted, and only the caller has the members taken off it.
            let next = &unsafe { member.as_ref() }.next;
            at = next.load(Ordering::Relaxed);
            next.store(after, Ordering::Relaxed);
            after = member.as_ptr();
        }
        self.append(after, last);
    }

    /// The oldest member, which stays, and is not noted again meanwhile: a caller that finds it not ready
    /// [takes](ReadyConsumer::take) it, and checks once more.
    #[inline]
    pub fn oldest(&self) -> Option<&ReadyMember> {
        // SAFETY: members in the line are counted.
        unsafe { self.first.as_ref() }
    }

    /// The latest member; null when the line is empty.
    #[inline]
    pub fn latest(&self) -> *const ReadyMember {
        self.last
    }

    /// The oldest, if it is the only member in the line.
    #[inline]
    pub fn only(&self) -> Option<&ReadyMember> {
        self.oldest().filter(|_| self.first == self.last)
    }

    /// Moves the oldest behind the others.
    #[inline]
    pub fn rotate(&mut self) {
        let first = self.first;
        if first == self.last {
            return;
        }
        if let Some(member) = NonNull::new(first) {
            // SAFETY: members in the line are counted.
            let next = &unsafe { member.as_ref() }.next;
            self.first = next.load(Ordering::Relaxed);
            next.store(core::ptr::null_mut(), Ordering::Relaxed);
            self.append(first, first);
        }
    }

    /// Appends the chain from `first` to `last`.
    fn append(&mut self, first: *mut ReadyMember, last: *mut ReadyMember) {
        if first.is_null() {
            return;
        }
        match NonNull::new(self.last) {
            None => self.first = first,
            // SAFETY: members in the line are counted.
            Some(before) => unsafe { before.as_ref() }
                .next
                .store(first, Ordering::Relaxed),
        }
        self.last = last;
    }

    /// The oldest. It may be noted anew from here on.
    pub fn take(&mut self) -> Option<Arc<ReadyMember>> {
        let first = NonNull::new(self.first)?;
        // SAFETY: the count that `enter` or `put_back` gave to the line.
        let member = unsafe { Arc::from_raw(first.as_ptr()) };
        self.first = member.next.load(Ordering::Relaxed);
        if self.first.is_null() {
            self.last = core::ptr::null_mut();
        }
        // Before the check of the member's state: a waker that found it noted made its change before.
        member.noted.swap(false, Ordering::SeqCst);
        Some(member)
    }

    /// Puts a taken member behind the others, unless it was noted again meanwhile.
    pub fn put_back(&mut self, member: Arc<ReadyMember>) {
        if !member.noted.swap(true, Ordering::SeqCst) {
            member.next.store(core::ptr::null_mut(), Ordering::Relaxed);
            let member = Arc::into_raw(member).cast_mut();
            self.append(member, member);
        }
    }

    /// Puts a taken member before the others, unless it was noted again meanwhile.
    pub fn put_first(&mut self, member: Arc<ReadyMember>) {
        let mut line = ReadyConsumer::new();
        line.put_back(member);
        line.join(self);
        self.join(&mut line);
    }

    /// Appends the members of `other`.
    pub fn join(&mut self, other: &mut ReadyConsumer) {
        self.append(other.first, other.last);
        (other.first, other.last) = (core::ptr::null_mut(), core::ptr::null_mut());
    }
}

impl Default for ReadyConsumer {
    fn default() -> Self {
        Self::new()
    }
}

impl Drop for ReadyConsumer {
    fn drop(&mut self) {
        while self.take().is_some() {}
    }
}

/// The most wait lists that one member may be in at once.
pub const ARMS: usize = 3;

/// A member's places in wait lists.
pub struct ReadyHooks {
    nodes: Option<[Arm; ARMS]>,
    member: Option<Arc<ReadyMember>>,
}

struct Arm {
    node: WaitNode,
    /// The address of the list that it was given to last; 0 for none.
    at: usize,
    /// The list has not been shown since the arms were to be [counted](ReadyHooks::begin).
    stale: bool,
}

// SAFETY: the nodes are of a callback, so no thread's, and `&mut` is needed for all that is done with them.
unsafe impl Send for ReadyHooks {}

impl ReadyHooks {
    /// Places for `member`; with `one_of`, a wake-up that finds several of these members in a list ends at
    /// one that has a thread to wake.
    pub fn new(member: Arc<ReadyMember>, one_of: bool) -> ReadyHooks {
        let callback = member.place().cast();
        let arm = |()| {
            // SAFETY: the end of the arms gives up their count a grace period after the nodes'.
            let node = unsafe { WaitNode::calling(callback) };
            Arm {
                node: if one_of { node.one_of() } else { node },
                at: 0,
                stale: true,
            }
        };
        ReadyHooks {
            nodes: Some([(); ARMS].map(arm)),
            member: Some(member),
        }
    }

    /// From here on the caller names all lists for the member. Its places in other lists are reused where
    /// needed.
    pub fn begin(&mut self) {
        self.nodes
            .iter_mut()
            .flatten()
            .for_each(|arm| arm.stale = true);
    }

    /// Lets each wake-up of `list` note the member. If that is impossible, for lack of memory or with more
    /// than [`ARMS`] lists, it is noted now.
    #[inline]
    pub fn watch(&mut self, list: &WaitList) {
        let address = list.word_address();
        let nodes = self.nodes.as_mut().map_or(&mut [][..], |nodes| nodes);
        for arm in nodes {
            if arm.at == address && arm.node.is_queued() {
                arm.stale = false;
                return;
            }
        }
        self.stand_in(list);
    }

    #[inline(never)]
    fn stand_in(&mut self, list: &WaitList) {
        let address = list.word_address();
        let nodes = self.nodes.as_mut().map_or(&mut [][..], |nodes| nodes);
        let known = nodes.iter().position(|arm| arm.at == address);
        let place = known
            .or_else(|| nodes.iter().position(|arm| !arm.node.is_queued()))
            .or_else(|| nodes.iter().position(|arm| arm.stale));
        let watched = place.is_some_and(|place| {
            let arm = &mut nodes[place];
            (arm.at, arm.stale) = (address, false);
            list.enroll(&arm.node)
        });
        if let (false, Some(member)) = (watched, &self.member) {
            member.note();
        }
    }

    /// Whether the member is in all lists (at least one) that were named since the arms were last
    /// [counted](ReadyHooks::begin): each wake-up of one of them notes it.
    #[inline(always)]
    pub fn stand(&self) -> bool {
        let Some(nodes) = &self.nodes else {
            return false;
        };
        let mut some = false;
        for arm in nodes {
            let counts = arm.at != 0 && !arm.stale;
            if counts && !arm.node.is_queued() {
                return false;
            }
            some |= counts;
        }
        some
    }

    /// Leaves `list` if it is there.
    pub fn leave(&mut self, list: &WaitList) {
        let address = list.word_address();
        for arm in self.nodes.iter_mut().flatten() {
            if arm.at == address {
                list.leave(&arm.node);
                arm.at = 0;
            }
        }
    }
}

impl Drop for ReadyHooks {
    fn drop(&mut self) {
        drop(self.nodes.take());
        if let Some(member) = self.member.take() {
            epoch::retire(
                // SAFETY: the count given up below; the callback runs once.
                |raw| drop(unsafe { Arc::from_raw(raw as *const ReadyMember) }),
                Arc::into_raw(member) as usize,
            );
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    fn keys(line: &mut ReadyConsumer) -> std::vec::Vec<usize> {
        core::iter::from_fn(|| line.take())
            .map(|member| member.key)
            .collect()
    }

    #[test]
    fn members_come_once_and_in_order() {
        let list = Arc::new(ReadyList::new());
        let [a, b, c] = [1, 2, 3].map(|key| Arc::new(ReadyMember::new(&list, key)));
        let mut line = ReadyConsumer::new();
        for member in [&a, &b, &a, &c] {
            member.note();
        }
        assert!(a.is_noted() && !list.is_empty());
        line.refill(&list);
        assert!(list.is_empty());
        a.note();
        assert_eq!(keys(&mut line), [1, 2, 3]);
        assert!(!a.is_noted());
        b.note();
        line.refill(&list);
        line.put_back(a.clone());
        line.put_back(b.clone());
        c.note();
        line.refill(&list);
        let mut other = ReadyConsumer::new();
        other.put_back(Arc::new(ReadyMember::new(&list, 9)));
        line.join(&mut other);
        assert!(other.is_empty());
        assert_eq!(keys(&mut line), [2, 1, 3, 9]);
    }

    #[test]
    fn one_member_comes_to_a_line_as_several_do() {
        let list = Arc::new(ReadyList::new());
        let [a, b] = [1, 2].map(|key| Arc::new(ReadyMember::new(&list, key)));
        let mut line = ReadyConsumer::new();
        line.refill(&list);
        assert!(line.only().is_none() && line.latest().is_null());
        a.note();
        line.refill(&list);
        assert_eq!(line.only().map(|member| member.key), Some(1));
        b.note();
        line.refill(&list);
        assert!(line.only().is_none());
        assert_eq!(line.latest(), Arc::as_ptr(&b));
        assert_eq!(keys(&mut line), [1, 2]);
    }

    #[test]
    fn a_wake_up_of_a_list_notes_who_is_armed_there() {
        let list = Arc::new(ReadyList::new());
        let (data, space) = (WaitList::new(), WaitList::new());
        let member = Arc::new(ReadyMember::new(&list, 5));
        let mut arms = ReadyHooks::new(member, false);
        arms.watch(&data);
        arms.watch(&space);
        let mut line = ReadyConsumer::new();
        data.wake_all();
        space.wake_one();
        line.refill(&list);
        assert_eq!(keys(&mut line), [5]);
        // It stays armed.
        data.wake_all();
        line.refill(&list);
        assert_eq!(keys(&mut line), [5]);
        arms.watch(&data);
        arms.leave(&space);
        assert!(!space.has_waiters());
        assert!(data.has_waiters());
        arms.leave(&data);
        assert!(!data.has_waiters());
        arms.watch(&data);
        drop(arms);
        data.wake_all();
        assert!(list.is_empty());
    }

    #[test]
    fn a_muted_member_is_not_noted() {
        let list = Arc::new(ReadyList::new());
        let data = WaitList::new();
        let member = Arc::new(ReadyMember::new(&list, 5));
        let mut arms = ReadyHooks::new(member.clone(), false);
        arms.watch(&data);
        member.mute(true);
        data.wake_all();
        assert!(list.is_empty());
        member.mute(false);
        data.wake_all();
        assert!(!list.is_empty());
        list.close();
    }

    #[test]
    fn a_list_that_is_shown_no_more_gives_its_place_to_another() {
        let list = Arc::new(ReadyList::new());
        let lists = [(); ARMS + 1].map(|()| WaitList::new());
        let mut arms = ReadyHooks::new(Arc::new(ReadyMember::new(&list, 5)), false);
        lists[..ARMS].iter().for_each(|one| arms.watch(one));
        arms.begin();
        lists[1..].iter().for_each(|one| arms.watch(one));
        assert!(list.is_empty());
        lists[0].wake_all();
        assert!(list.is_empty());
        lists[ARMS].wake_all();
        assert!(!list.is_empty());
        list.close();
    }

    #[test]
    fn places_that_are_taken_off_a_list_are_seen_and_come_again() {
        let list = Arc::new(ReadyList::new());
        let data = WaitList::new();
        let mut arms = ReadyHooks::new(Arc::new(ReadyMember::new(&list, 5)), false);
        arms.watch(&data);
        let mut line = ReadyConsumer::new();
        // So much lies below one that waits that all is taken off.
        let (mut others, mut taken_off) = (std::vec::Vec::new(), false);
        for _ in 0..100 {
            let mut other = ReadyHooks::new(Arc::new(ReadyMember::new(&list, 9)), false);
            other.watch(&data);
            drop(others.pop());
            others.push(other);
            line.refill(&list);
            taken_off |= keys(&mut line).contains(&5);
            arms.watch(&data);
        }
        assert!(taken_off);
        drop(others);
        data.wake_all();
        line.refill(&list);
        assert_eq!(keys(&mut line), [5]);
    }

    #[test]
    fn of_several_a_wake_up_calls_the_first_that_has_somebody_to_wake() {
        let lists = [(); 3].map(|()| Arc::new(ReadyList::new()));
        let data = WaitList::new();
        let mut arms: std::vec::Vec<_> = (lists.iter().enumerate())
            .map(|(key, list)| ReadyHooks::new(Arc::new(ReadyMember::new(list, key)), true))
            .collect();
        arms.iter_mut().for_each(|arms| arms.watch(&data));
        // No thread sleeps: all are notified.
        data.wake_all();
        let told = || {
            lists.each_ref().map(|list| {
                let mut line = ReadyConsumer::new();
                line.refill(list);
                line.take().is_some()
            })
        };
        assert_eq!(told(), [true; 3]);
        let sleepers = [WaitNode::new(), WaitNode::new()];
        for (list, sleeper) in lists.iter().zip(&sleepers) {
            assert!(list.sleepers.enroll(sleeper) && list.has_sleepers());
        }
        let woken = || sleepers.each_ref().map(|sleeper| !sleeper.is_queued());
        data.wake_all();
        assert_eq!(woken().iter().filter(|woken| **woken).count(), 1);
        // A member that has woken a sleeper is skipped.
        assert_eq!(told()[..2].iter().filter(|told| **told).count(), 1);
        data.wake_all();
        assert_eq!(woken(), [true; 2]);
        let mut plain = ReadyHooks::new(Arc::new(ReadyMember::new(&lists[2], 2)), false);
        plain.watch(&data);
        told();
        data.wake_one();
        assert!(told()[2]);
        lists.iter().for_each(ReadyList::close);
    }

    #[test]
    fn with_too_many_lists_a_member_is_noted_at_once() {
        let list = Arc::new(ReadyList::new());
        let lists = [(); ARMS + 1].map(|()| WaitList::new());
        let mut arms = ReadyHooks::new(Arc::new(ReadyMember::new(&list, 5)), false);
        for (i, one) in lists.iter().enumerate() {
            arms.watch(one);
            assert_eq!(list.is_empty(), i < ARMS);
        }
        list.close();
    }

    #[test]
    fn a_closed_list_keeps_nobody() {
        let list = Arc::new(ReadyList::new());
        let member = Arc::new(ReadyMember::new(&list, 5));
        member.note();
        list.close();
        member.note();
        assert!(list.is_empty());
        assert_eq!(Arc::strong_count(&member), 1);
    }
}
