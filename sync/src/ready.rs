//! Who has something to tell: members note themselves when a wait list is woken in which they wait, each at most once, and a consumer takes them in
//! the order in which they came.
//!
//! *Interface*: a [`Member`] of a [`ReadyList`] is armed by giving its [`Arms`] to wait lists ([`Arms::watch`]); when one of these is woken, or by
//! [`Member::note`], the member stands in the list. [`Line`] is the consumer's end: [`Line::take`] and [`Line::put_back`], one party at a time. Who sleeps until somebody is ready
//! waits in [`ReadyList::sleepers`], of which one is woken for each member that comes; [`ReadyList::watchers`] are all woken.
//!
//! A member is taken off before it is looked at: what comes after the look notes it again. So nothing is lost, and how long a look at the ready ones takes does
//! not depend on how many are not.
//!
//! A list that is closed takes no more members. Each that stands in it has a count of its own; `close` gives up those counts, and once more a grace
//! period later, when all wakers are through that had not seen that it is closed (they note with interrupts off).
//!
//! Progress: `note` is lock-free, in handlers too. Source: dissertation, figure 4.3 (callbacks from the queue to those who wait on many).

use alloc::sync::Arc;
use core::ptr::NonNull;

use crate::callout::without_interrupts;
use crate::epoch;
use crate::primitive::atomic::{AtomicBool, AtomicPtr, Ordering};
use crate::wait::{Callback, WaitList, WaitNode};

/// Members that came since the consumer looked.
pub struct ReadyList {
    /// The latest, counted; it leads to the one before.
    latest: AtomicPtr<Member>,
    closed: AtomicBool,
    /// Threads that wait for a member.
    pub sleepers: WaitList,
    /// Others who want to know of each that comes.
    pub watchers: WaitList,
}

/// One that may become ready.
#[repr(C)]
pub struct Member {
    /// First, so that its address is the member's.
    callback: Callback,
    /// The one that came before, while it stands in the list.
    next: AtomicPtr<Member>,
    /// It stands in the list, or in the consumer's line.
    noted: AtomicBool,
    list: Arc<ReadyList>,
    /// What the consumer knows it by.
    pub key: (usize, usize),
}

impl ReadyList {
    /// Nobody is ready.
    pub fn new() -> ReadyList {
        ReadyList {
            latest: AtomicPtr::new(core::ptr::null_mut()),
            closed: AtomicBool::new(false),
            sleepers: WaitList::new(),
            watchers: WaitList::new(),
        }
    }

    /// Whether nobody has come since the consumer looked.
    pub fn is_empty(&self) -> bool {
        self.latest.load(Ordering::SeqCst).is_null()
    }

    /// Takes no more members, and lets go of those that stand here. In thread context; members must be disarmed before or soon after.
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
        let mut line = Line::new();
        line.refill(self);
        while line.take().is_some() {}
    }
}

impl Default for ReadyList {
    fn default() -> Self {
        Self::new()
    }
}

impl Member {
    /// A member of `list` that is not ready.
    pub fn new(list: &Arc<ReadyList>, key: (usize, usize)) -> Member {
        Member {
            callback: Callback(Self::came),
            next: AtomicPtr::new(core::ptr::null_mut()),
            noted: AtomicBool::new(false),
            list: list.clone(),
            key,
        }
    }

    /// Puts it into the list, unless it stands there.
    pub fn note(self: &Arc<Self>) {
        // SAFETY: it is in an `Arc`, as `enter` wants it, and the caller's count keeps it.
        without_interrupts(|| unsafe { Self::enter(Self::place(self)) });
    }

    /// Its place inside the `Arc`, by a pointer that is good for the count, too.
    fn place(self: &Arc<Self>) -> NonNull<Member> {
        let place = Arc::as_ptr(self).cast_mut();
        // SAFETY: no place of an `Arc` is null.
        unsafe { NonNull::new_unchecked(place) }
    }

    /// A wait list was woken in which it waits.
    fn came(callback: NonNull<Callback>) {
        // SAFETY: the callback is the first field of a member in an `Arc`, which its arms keep for a grace period.
        unsafe { Self::enter(callback.cast()) };
    }

    /// # Safety
    /// The member is in an `Arc`, and stays until the caller turns interrupts on.
    unsafe fn enter(member: NonNull<Member>) {
        // SAFETY: the caller's promise.
        let this = unsafe { member.as_ref() };
        let list = &this.list;
        if list.closed.load(Ordering::SeqCst) || this.noted.swap(true, Ordering::SeqCst) {
            return;
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
        if list.sleepers.has_waiters() {
            list.sleepers.wake_one();
        }
        if list.watchers.has_waiters() {
            list.watchers.wake_all();
        }
    }

    /// Whether it stands in the list or in a line.
    pub fn is_noted(&self) -> bool {
        self.noted.load(Ordering::SeqCst)
    }
}

/// The consumer's end: who was taken from the list and not looked at yet, oldest first.
pub struct Line {
    first: *mut Member,
    last: *mut Member,
}

// SAFETY: the members are counted, and `Send` and `Sync` themselves.
unsafe impl Send for Line {}

impl Line {
    /// Nobody.
    pub const fn new() -> Line {
        Line {
            first: core::ptr::null_mut(),
            last: core::ptr::null_mut(),
        }
    }

    /// Whether nobody stands here.
    pub fn is_empty(&self) -> bool {
        self.first.is_null()
    }

    /// Lets those who came to `list` stand behind those who are here.
    pub fn refill(&mut self, list: &ReadyList) {
        let mut at = list.latest.swap(core::ptr::null_mut(), Ordering::SeqCst);
        let last = at;
        let mut after = core::ptr::null_mut();
        while let Some(member) = NonNull::new(at) {
            // SAFETY: members of the list are counted, and what was taken off it is the caller's alone.
            let next = &unsafe { member.as_ref() }.next;
            at = next.load(Ordering::Relaxed);
            next.store(after, Ordering::Relaxed);
            after = member.as_ptr();
        }
        self.append(after, last);
    }

    /// Puts the chain from `first` to `last` behind those who are here.
    fn append(&mut self, first: *mut Member, last: *mut Member) {
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
    pub fn take(&mut self) -> Option<Arc<Member>> {
        let first = NonNull::new(self.first)?;
        // SAFETY: the count that `enter` or `put_back` gave to the line.
        let member = unsafe { Arc::from_raw(first.as_ptr()) };
        self.first = member.next.load(Ordering::Relaxed);
        if self.first.is_null() {
            self.last = core::ptr::null_mut();
        }
        member.noted.store(false, Ordering::SeqCst);
        Some(member)
    }

    /// Lets one that was taken stand behind the others, unless it was noted again meanwhile.
    pub fn put_back(&mut self, member: Arc<Member>) {
        if !member.noted.swap(true, Ordering::SeqCst) {
            member.next.store(core::ptr::null_mut(), Ordering::Relaxed);
            let member = Arc::into_raw(member).cast_mut();
            self.append(member, member);
        }
    }

    /// Lets those of `other` stand behind the others.
    pub fn join(&mut self, other: &mut Line) {
        self.append(other.first, other.last);
        (other.first, other.last) = (core::ptr::null_mut(), core::ptr::null_mut());
    }
}

impl Default for Line {
    fn default() -> Self {
        Self::new()
    }
}

impl Drop for Line {
    fn drop(&mut self) {
        while self.take().is_some() {}
    }
}

/// As many wait lists as one member may stand in at once.
pub const ARMS: usize = 3;

/// A member's places in wait lists.
pub struct Arms {
    /// Each with the address of the list that it was given to last; 0 for none.
    nodes: Option<[(WaitNode, usize); ARMS]>,
    member: Option<Arc<Member>>,
}

// SAFETY: the nodes are of a callback, so no thread's, and `&mut` is needed for all that is done with them.
unsafe impl Send for Arms {}

impl Arms {
    /// Places for `member`.
    pub fn new(member: Arc<Member>) -> Arms {
        let callback = member.place().cast();
        Arms {
            // SAFETY: the end of the arms gives up their count a grace period after the nodes'.
            nodes: Some([(); ARMS].map(|()| (unsafe { WaitNode::calling(callback) }, 0))),
            member: Some(member),
        }
    }

    /// Lets the member be noted at the next wake-up of `list`. Where that is impossible, for want of memory or with more than [`ARMS`] lists, it is noted now.
    pub fn watch(&mut self, list: &WaitList) {
        let address = list.word_address();
        let nodes = self.nodes.as_mut().map_or(&mut [][..], |nodes| nodes);
        let known = nodes.iter().position(|&(_, at)| at == address);
        let place = known.or_else(|| nodes.iter().position(|(node, _)| !node.is_queued()));
        let watched = place.is_some_and(|place| {
            let (node, at) = &mut nodes[place];
            *at = address;
            // One that waits there still is as good as a new one, and leaves no marked place behind. (A list's end takes all off it.)
            node.is_queued() || list.enroll(node)
        });
        if let (false, Some(member)) = (watched, &self.member) {
            member.note();
        }
    }

    /// Leaves `list` if it is there.
    pub fn leave(&mut self, list: &WaitList) {
        let address = list.word_address();
        for (node, at) in self.nodes.iter_mut().flatten() {
            if *at == address {
                list.leave(node);
                *at = 0;
            }
        }
    }
}

impl Drop for Arms {
    fn drop(&mut self) {
        drop(self.nodes.take());
        if let Some(member) = self.member.take() {
            epoch::retire(
                // SAFETY: the count given up below; the callback runs once.
                |raw| drop(unsafe { Arc::from_raw(raw as *const Member) }),
                Arc::into_raw(member) as usize,
            );
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    fn keys(line: &mut Line) -> std::vec::Vec<usize> {
        core::iter::from_fn(|| line.take())
            .map(|member| member.key.0)
            .collect()
    }

    #[test]
    fn members_come_once_and_in_order() {
        let list = Arc::new(ReadyList::new());
        let [a, b, c] = [1, 2, 3].map(|key| Arc::new(Member::new(&list, (key, 0))));
        let mut line = Line::new();
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
        let mut other = Line::new();
        other.put_back(Arc::new(Member::new(&list, (9, 0))));
        line.join(&mut other);
        assert!(other.is_empty());
        assert_eq!(keys(&mut line), [2, 1, 3, 9]);
    }

    #[test]
    fn a_wake_up_of_a_list_notes_who_is_armed_there() {
        let list = Arc::new(ReadyList::new());
        let (data, space) = (WaitList::new(), WaitList::new());
        let member = Arc::new(Member::new(&list, (5, 0)));
        let mut arms = Arms::new(member);
        arms.watch(&data);
        arms.watch(&space);
        let mut line = Line::new();
        data.wake_all();
        space.wake_one();
        line.refill(&list);
        assert_eq!(keys(&mut line), [5]);
        // Not armed any more.
        data.wake_all();
        assert!(list.is_empty());
        arms.watch(&data);
        arms.watch(&data);
        arms.leave(&space);
        assert!(data.has_waiters());
        arms.leave(&data);
        assert!(!data.has_waiters());
        arms.watch(&data);
        drop(arms);
        data.wake_all();
        assert!(list.is_empty());
    }

    #[test]
    fn with_too_many_lists_a_member_is_noted_at_once() {
        let list = Arc::new(ReadyList::new());
        let lists = [(); ARMS + 1].map(|()| WaitList::new());
        let mut arms = Arms::new(Arc::new(Member::new(&list, (5, 0))));
        for (i, one) in lists.iter().enumerate() {
            arms.watch(one);
            assert_eq!(list.is_empty(), i < ARMS);
        }
        list.close();
    }

    #[test]
    fn a_closed_list_keeps_nobody() {
        let list = Arc::new(ReadyList::new());
        let member = Arc::new(Member::new(&list, (5, 0)));
        member.note();
        list.close();
        member.note();
        assert!(list.is_empty());
        assert_eq!(Arc::strong_count(&member), 1);
    }
}
