//! Waiting for a condition: a list of sleeping threads, which wakers take one after the other.
//!
//! *Interface*: [`WaitList::wait_until`], [`WaitList::wait_interruptible`] and [`WaitList::wait_unless`]
//! sleep until a closure yields; [`WaitList::wake_all`] and [`WaitList::wake_one`] may be called from
//! anywhere, interrupt handlers included. [`WaitList::enroll`] and [`WaitList::leave`] let one thread wait on
//! several lists ([`crate::PollSet`], for `poll`). A [`Callback`] may take the place of a thread: every waker
//! calls it, and it stays. Of callbacks that are [`one of several`](WaitNode::one_of), a wake-up calls them
//! until one has a thread to wake.
//!
//! The waker changes the condition first and wakes afterwards. No wake-up is lost: a waiter enrols, checks
//! again, and only then sleeps on its token, which a `resume` in between has already given.
//!
//! A waker walks along the list and does not unlink it. It chooses each waiter by an exchange of the waiter's
//! state (`QUEUED` to `TAKEN`), gives it its token, records that (`WOKEN`), and finally takes places at the
//! top that no longer wait off the list. A waker that stops in the middle does not delay the waiters of
//! another waker: the rest of the list is unchanged, and the other waker also gives the token to a waiter
//! that is `TAKEN` but not yet `WOKEN`. (Every sleeper must expect an extra token.) A leaving waiter marks
//! its place; the party that takes the place off the list gives it back.
//!
//! Others may take places off during a walk; the head's tag counts these removals, and a walk during which
//! the tag has changed starts again. `wake_one` needs this to be sure that its choice is in this list, and
//! its exchange contains the number of the place's use. Marked places below waiting places stay until those
//! leave. If, when the list has doubled, there are more marked places than waiting places plus 8, all are
//! woken and taken off, callbacks too: the owner of a callback sees that it is not
//! [queued](WaitNode::is_queued) any more.
//!
//! A callback is called with interrupts off, so it may be freed only a grace period after its node has left.
//! A callback that is called once for several wake-ups sees, after a full fence, the changes of each of them.
//!
//! Progress: everything is lock-free except the sleep. Memory order: a full fence separates enrolment from
//! the check of the condition, and the change of the condition from the walk of the list.
//!
//! Source: Hohmuth and Härtig 2001, sleep and wakeup on one state word (figures 2 and 3); the list is figures
//! 5.4 and 5.8 of the dissertation with its marks (section 5.2.3).

use crate::callout;
use crate::cas2::AtomicPair;
use crate::primitive::atomic::{Ordering, fence};
use crate::primitive::constructor;
use crate::wait_slot::{
    self, CALLS, KINDS, LEFT, OFF, ONE_OF, PHASES, QUEUED, TAKEN, WOKEN, WaitSlot,
};
use core::cell::Cell;
use core::ptr::NonNull;

/// So many marked places more than waiting ones may lie in a list. (Models of a few steps have a list cleared
/// sooner.)
const MARKED: usize = if cfg!(loom) { 0 } else { 8 };

/// The procedure that is called, in the context of the waker and with interrupts off, when its list is woken;
/// several times where wakers meet. Returns whether it has woken a thread.
pub struct Callback(pub fn(NonNull<Callback>) -> bool);

/// The place of a thread, or of a callback, in one list at a time.
pub struct WaitNode {
    owner: usize,
    /// [`CALLS`] if the owner is a callback, and [`ONE_OF`].
    kind: u64,
    place: Cell<Option<&'static WaitSlot>>,
    /// The place's state while its owner has not been woken since it enrolled.
    queued: Cell<u64>,
}

impl WaitNode {
    /// A node for the running thread.
    pub fn new() -> Self {
        WaitNode {
            owner: (callout::get().current)(),
            kind: 0,
            place: Cell::new(None),
            queued: Cell::new(OFF),
        }
    }

    /// A node for `callback`.
    ///
    /// # Safety
    /// The callback stays where it is until a grace period after the node was dropped.
    pub unsafe fn calling(callback: NonNull<Callback>) -> Self {
        WaitNode {
            owner: callback.as_ptr().expose_provenance(),
            kind: CALLS,
            place: Cell::new(None),
            queued: Cell::new(OFF),
        }
    }

    /// A node of a callback, which is now one of several in a list of which one is enough.
    #[must_use]
    pub fn one_of(mut self) -> Self {
        self.kind = KINDS;
        self
    }

    /// Whether no waker has taken the node since it enrolled.
    #[inline]
    pub fn is_queued(&self) -> bool {
        self.place
            .get()
            .is_some_and(|place| place.state.load(Ordering::Acquire) == self.queued.get())
    }

    /// Gives up the place if it is in a list, from where others will take it; keeps it otherwise.
    fn abandon(&self) {
        let Some(place) = self.place.get() else {
            return;
        };
        loop {
            let state = place.state.load(Ordering::Acquire);
            if state & PHASES == OFF {
                return;
            }
            if place.advance(state, LEFT) {
                return self.place.set(None);
            }
        }
    }
}

impl Default for WaitNode {
    fn default() -> Self {
        Self::new()
    }
}

impl Drop for WaitNode {
    fn drop(&mut self) {
        self.abandon();
        if let Some(place) = self.place.get() {
            wait_slot::give(place);
        }
    }
}

/// A signal or kill arrived before the condition held.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Interrupted;

/// Threads that sleep until something changes.
pub struct WaitList {
    /// Low: address of the latest place, or 0. High: number of places taken off so far.
    head: AtomicPair,
}

impl WaitList {
    constructor! {
        /// An empty list.
        pub fn new() -> WaitList {
            WaitList { head: AtomicPair::new(0, 0) }
        }
    }

    /// Sleeps until `condition` yields a value. `condition` may run many times.
    pub fn wait_until<T>(&self, mut condition: impl FnMut() -> Option<T>) -> T {
        match self.wait(&mut condition, || false) {
            Ok(value) => value,
            Err(Interrupted) => unreachable!("an uninterruptible wait was interrupted"),
        }
    }

    /// Sleeps until `condition` yields a value or a signal arrives for the thread. The condition is looked at
    /// once more behind the signal and off the list, so that neither what came with the signal nor a wake-up
    /// that chose this thread is lost.
    ///
    /// # Errors
    /// The signal.
    pub fn wait_interruptible<T>(
        &self,
        mut condition: impl FnMut() -> Option<T>,
    ) -> Result<T, Interrupted> {
        self.wait(&mut condition, callout::get().interrupted)
    }

    /// Sleeps until `condition` yields a value or, when a signal has come, `give_up` says so; for a caller
    /// that ignores some signals. As [`WaitList::wait_interruptible`] otherwise.
    ///
    /// # Errors
    /// It gave up.
    pub fn wait_unless<T>(
        &self,
        give_up: impl Fn() -> bool,
        mut condition: impl FnMut() -> Option<T>,
    ) -> Result<T, Interrupted> {
        self.wait(&mut condition, give_up)
    }

    fn wait<T>(
        &self,
        condition: &mut impl FnMut() -> Option<T>,
        give_up: impl Fn() -> bool,
    ) -> Result<T, Interrupted> {
        if let Some(value) = condition() {
            return Ok(value);
        }
        let node = WaitNode::new();
        let result = loop {
            let enrolled = node.is_queued() || self.enroll(&node);
            if let Some(value) = condition() {
                break Ok(value);
            }
            if give_up() {
                // Off the list first: a later change of the condition wakes another waiter, and a change that
                // came together with the signal is found.
                self.leave(&node);
                return condition().ok_or(Interrupted);
            }
            if !enrolled {
                (callout::get().yield_now)();
            } else if node.is_queued() {
                // Otherwise it has already been woken, and the condition's own wait may have consumed that
                // token.
                (callout::get().suspend)();
                // Most are woken for what they wait for, and then need no place any more.
                if !node.is_queued()
                    && let Some(value) = condition()
                {
                    break Ok(value);
                }
            }
        };
        self.leave(&node);
        result
    }

    /// Puts `node`, which waits in no list, on this list. Check the condition after this and before
    /// `suspend`. False when there is no memory: then nothing will wake the thread.
    #[must_use]
    pub fn enroll(&self, node: &WaitNode) -> bool {
        node.abandon();
        if self.head.low() != 0 {
            self.tidy();
            let length = length_at(self.head.low());
            if length > MARKED && length.is_power_of_two() {
                self.tidy_below();
            }
        }
        let Some(place) = node.place.get().or_else(wait_slot::take) else {
            return false;
        };
        node.queued.set(place.begin(node.owner, node.kind));
        node.place.set(Some(place));
        let mut latest = self.head.low();
        loop {
            place.next.store(latest, Ordering::Release);
            place.length.store(length_at(latest) + 1, Ordering::Relaxed);
            match self.head.compare_exchange_low(latest, place.address()) {
                Ok(()) => break,
                Err(now) => latest = now,
            }
        }
        // The enrolment comes before the look at the condition.
        fence(Ordering::SeqCst);
        true
    }

    /// Ends `node`'s stay on the list, if no waker has.
    pub fn leave(&self, node: &WaitNode) {
        node.abandon();
        if self.has_waiters() {
            self.tidy();
        }
    }

    /// Takes places that no longer wait off the list, if there are many. A new waiter calls this only when
    /// the list has doubled, so the cost for each waiter is a few steps.
    #[cold]
    fn tidy_below(&self) {
        let (mut waiting, mut marked) = (0, 0);
        self.walk(|_, state| match state & PHASES {
            QUEUED => waiting += 1,
            _ => marked += 1,
        });
        if marked > waiting + MARKED {
            self.wake(true);
        }
    }

    /// Wakes every thread that was enrolled when the call began, and calls the callbacks. Returns whether a
    /// callback was not called, because one of several was enough: a caller that wakes only while there are
    /// waiters must then also wake at the next change.
    #[inline]
    pub fn wake_all(&self) -> bool {
        fence(Ordering::SeqCst);
        self.has_waiters() && self.wake(false)
    }

    /// As [`WaitList::wake_all`], for a caller with interrupts off, which a single callback needs.
    #[inline]
    pub fn wake_all_briefly(&self) -> bool {
        fence(Ordering::SeqCst);
        let (top, taken_off) = self.head.guess();
        if let Some(place) = WaitSlot::at(top) {
            let state = place.state.load(Ordering::Acquire);
            let next = place.next.load(Ordering::Acquire);
            let owner = place.owner.load(Ordering::Acquire);
            let calls = state & (PHASES | KINDS) == QUEUED | CALLS;
            // No place was taken off since the first read, so all these values held at one instant.
            if calls && next == 0 && self.head.high() == taken_off {
                // SAFETY: the place was in the list, and its owner had not left.
                unsafe { call_now(owner) };
                return false;
            }
        }
        self.wake(false)
    }

    /// As [`WaitList::wake_all`]; with `clear` callbacks are taken off the list, too.
    fn wake(&self, clear: bool) -> bool {
        fence(Ordering::SeqCst);
        let (mut enough, mut spared) = (false, false);
        while self.head.low() != 0 {
            let mut marked = false;
            let whole = self.walk(|place, state| {
                if state & (PHASES | CALLS) == QUEUED | CALLS && !clear {
                    spared |= enough && state & ONE_OF != 0;
                    enough |= ring(place, state, enough);
                    return;
                }
                marked = true;
                if state & PHASES != QUEUED || place.advance(state, TAKEN) {
                    tell(place, state & !PHASES | TAKEN);
                }
            });
            if marked {
                self.tidy();
            }
            if whole {
                break;
            }
        }
        spared
    }

    /// Wakes the thread that has waited longest, and leaves the others enrolled; calls the callbacks. Whether
    /// there was a thread.
    pub fn wake_one(&self) -> bool {
        fence(Ordering::SeqCst);
        let mut enough = false;
        while self.head.low() != 0 {
            let (mut waiting, mut marked, mut oldest) = (0, 0, None);
            let whole = self.walk(|place, state| match state & PHASES {
                QUEUED => {
                    waiting += 1;
                    if state & CALLS == 0 {
                        oldest = Some((place, state));
                    } else {
                        enough |= ring(place, state, enough);
                    }
                }
                _ => {
                    marked += 1;
                    tell(place, state);
                }
            });
            if !whole {
                continue;
            }
            if let Some((place, state)) = oldest {
                if !place.advance(state, TAKEN) {
                    continue;
                }
                tell(place, state & !PHASES | TAKEN);
            }
            if !self.tidy() && marked > waiting + MARKED {
                self.wake(true);
            }
            return oldest.is_some();
        }
        false
    }

    /// Visits the places from the latest to the oldest with their states. False when one was taken off
    /// meanwhile: the rest was not visited, and those visited last may have left.
    fn walk(&self, mut visit: impl FnMut(&'static WaitSlot, u64)) -> bool {
        let (mut at, taken_off) = self.head.read();
        while let Some(place) = WaitSlot::at(at) {
            let state = place.state.load(Ordering::Acquire);
            let next = place.next.load(Ordering::Acquire);
            if self.head.read().1 != taken_off {
                return false;
            }
            visit(place, state);
            at = next;
        }
        true
    }

    /// Takes places at the top that no longer wait off the list. Whether the list is then empty.
    fn tidy(&self) -> bool {
        loop {
            let top = self.head.read();
            let Some(place) = WaitSlot::at(top.0) else {
                return true;
            };
            let state = place.state.load(Ordering::Acquire);
            let next = place.next.load(Ordering::Acquire);
            if state & PHASES == QUEUED {
                // Unless the place was another's by then.
                if self.head.read().1 == top.1 {
                    return false;
                }
                continue;
            }
            tell(place, state);
            if self
                .head
                .compare_exchange(top, (next, top.1.wrapping_add(1)))
                .is_ok()
            {
                settle(place);
            }
        }
    }

    /// Address of the word that is zero while the list is empty, for generated code.
    pub fn word_address(&self) -> usize {
        core::ptr::from_ref(&self.head) as usize
    }

    /// Whether anyone is enrolled at this instant.
    #[inline]
    pub fn has_waiters(&self) -> bool {
        self.head.low() != 0
    }
}

/// How many places there are from the one at `address` down.
fn length_at(address: u64) -> usize {
    WaitSlot::at(address).map_or(0, |place| place.length.load(Ordering::Relaxed))
}

/// Gives the token to the owner of a place whose state was `state`, or calls it, unless that is already done.
fn tell(place: &WaitSlot, state: u64) {
    if state & PHASES != TAKEN {
        return;
    }
    let owner = place.owner.load(Ordering::Acquire);
    if state & CALLS == 0 {
        // Another waker may have woken it meanwhile, and the place may be a callback's by now.
        if place.state.load(Ordering::Acquire) != state {
            return;
        }
        (callout::get().resume)(owner);
    } else {
        // Bound: one callback: a note (`sync/src/ready_list.rs`).
        callout::without_interrupts(|| call(place, state, owner));
    }
    place.advance(state, WOKEN);
}

/// Calls a callback that stays, unless it is one of several and that is `enough`: whether now it is.
fn ring(place: &WaitSlot, state: u64, enough: bool) -> bool {
    if enough && state & ONE_OF != 0 {
        return false;
    }
    let owner = place.owner.load(Ordering::Acquire);
    callout::without_interrupts(|| call(place, state, owner)) && state & ONE_OF != 0
}

/// Calls the owner if it has not left. Interrupts are off. Whether it has woken a thread.
fn call(place: &WaitSlot, state: u64, owner: usize) -> bool {
    // SAFETY: the state has not changed, so the owner has not left.
    place.state.load(Ordering::Acquire) == state && unsafe { call_now(owner) }
}

/// Calls the callback at address `owner`. Whether it has woken a thread.
///
/// # Safety
/// The callback owned a place, and had not left it, at an instant since which interrupts have been off.
#[inline(always)]
unsafe fn call_now(owner: usize) -> bool {
    let callback = core::ptr::with_exposed_provenance_mut::<Callback>(owner);
    let Some(callback) = NonNull::new(callback) else {
        return false;
    };
    // SAFETY: `calling` was promised that it stays for a grace period after the node's end. The node had not
    // ended, by the caller's promise, and no grace period ends while interrupts are off here.
    let call = unsafe { callback.as_ref() }.0;
    call(callback)
}

/// The caller has taken the place off its list: back to its owner, or to the free places.
fn settle(place: &'static WaitSlot) {
    loop {
        let state = place.state.load(Ordering::Acquire);
        if state & PHASES == LEFT {
            return wait_slot::give(place);
        }
        if place.advance(state, OFF) {
            return;
        }
    }
}

impl Drop for WaitList {
    fn drop(&mut self) {
        let mut at = self.head.low();
        while let Some(place) = WaitSlot::at(at) {
            at = place.next.load(Ordering::Acquire);
            settle(place);
        }
    }
}

impl Default for WaitList {
    fn default() -> Self {
        Self::new()
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicU32, Ordering};

    #[test]
    fn a_waiter_sees_the_change_that_woke_it() {
        let list = Arc::new(WaitList::new());
        let word = Arc::new(AtomicU32::new(0));
        let waiters: Vec<_> = (0..4)
            .map(|_| {
                let (list, word) = (list.clone(), word.clone());
                std::thread::spawn(move || {
                    list.wait_until(|| {
                        let seen = word.load(Ordering::SeqCst);
                        (seen != 0).then_some(seen)
                    })
                })
            })
            .collect();
        word.store(7, Ordering::SeqCst);
        list.wake_all();
        for waiter in waiters {
            assert_eq!(waiter.join().unwrap(), 7);
        }
        assert!(!list.has_waiters());
    }

    #[test]
    fn who_leaves_gets_no_token() {
        use crate::callout::{self, Callouts};
        use std::sync::atomic::AtomicUsize;
        const ME: usize = 9;
        static TOKENS: AtomicUsize = AtomicUsize::new(0);
        std::thread_local!(static HANDLE: std::cell::Cell<usize> = const { std::cell::Cell::new(0) });
        static COUNTING: Callouts = Callouts {
            current: || HANDLE.get(),
            suspend: std::thread::yield_now,
            resume: |thread| {
                TOKENS.fetch_add(usize::from(thread == ME), Ordering::SeqCst);
            },
            interrupted: || false,
            yield_now: std::thread::yield_now,
            cpu: || 0,
            irq_save: || 0,
            irq_restore: |_| {},
            ..callout::DEFAULT
        };
        callout::link(&COUNTING);
        HANDLE.set(ME);
        let list = WaitList::new();
        let node = WaitNode::new();
        assert!(list.enroll(&node));
        list.leave(&node);
        assert!(!node.is_queued());
        assert_eq!(TOKENS.load(Ordering::SeqCst), 0);
    }

    #[test]
    fn a_condition_that_sleeps_itself_takes_no_wake_up_away() {
        use crate::callout::{self, Callouts};
        std::thread_local!(static TOKEN: std::cell::Cell<Option<bool>> = const { std::cell::Cell::new(None) });
        static STRICT: Callouts = Callouts {
            suspend: || match TOKEN.get() {
                Some(token) => {
                    assert!(token, "nobody would wake this thread again");
                    TOKEN.set(Some(false));
                }
                None => std::thread::yield_now(),
            },
            resume: |_| {
                if TOKEN.get().is_some() {
                    TOKEN.set(Some(true));
                }
            },
            yield_now: std::thread::yield_now,
            ..callout::DEFAULT
        };
        callout::link(&STRICT);
        TOKEN.set(Some(false));
        let list = WaitList::new();
        let mut looks = 0;
        list.wait_until(|| {
            looks += 1;
            if looks == 2 {
                // The change and its wake-up come after the look; then the condition waits for something
                // else.
                list.wake_all();
                (callout::get().suspend)();
            }
            (looks == 3).then_some(())
        });
        assert_eq!(looks, 3);
    }

    #[test]
    fn what_comes_with_a_signal_is_found() {
        use crate::callout::{self, Callouts};
        std::thread_local!(static COMES: std::cell::Cell<Option<bool>> = const { std::cell::Cell::new(None) });
        static SIGNALLED: Callouts = Callouts {
            // The awaited event comes between the last check and the signal.
            interrupted: || COMES.replace(COMES.get().map(|_| true)).is_some(),
            yield_now: std::thread::yield_now,
            ..callout::DEFAULT
        };
        callout::link(&SIGNALLED);
        let list = WaitList::new();
        let come = || (COMES.get() == Some(true)).then_some(());
        COMES.set(Some(false));
        assert_eq!(list.wait_interruptible(come), Ok(()));
        COMES.set(Some(false));
        assert_eq!(list.wait_interruptible(|| None::<()>), Err(Interrupted));
        COMES.set(Some(false));
        // Behind the signal it is off the list: a wake-up of one goes to another.
        let mut looks = 0;
        let other = WaitNode::new();
        let woken = list.wait_interruptible(|| {
            looks += 1;
            if looks == 2 {
                assert!(list.enroll(&other));
            } else if looks == 3 {
                list.wake_one();
            }
            None::<()>
        });
        assert_eq!(
            (woken, looks, other.is_queued()),
            (Err(Interrupted), 3, false)
        );
        drop(other);
        assert!(!list.has_waiters());
        let ready = crate::ready_list::ReadyList::new();
        COMES.set(Some(false));
        assert_eq!(ready.sleep(|| COMES.get() == Some(true)), Ok(()));
        COMES.set(Some(false));
        assert_eq!(ready.sleep(|| false), Err(Interrupted));
        assert!(!ready.has_sleepers());
    }

    #[test]
    fn wake_one_releases_the_oldest_and_keeps_the_rest() {
        let list = WaitList::new();
        let (a, b, c) = (WaitNode::new(), WaitNode::new(), WaitNode::new());
        assert!([&a, &b, &c].into_iter().all(|node| list.enroll(node)));
        list.wake_one();
        assert!(!a.is_queued() && b.is_queued() && c.is_queued());
        list.wake_one();
        assert!(!b.is_queued() && c.is_queued());
        list.leave(&c);
        assert!(!c.is_queued() && !list.has_waiters());
    }

    #[test]
    fn who_leaves_below_those_who_wait_is_not_woken_and_does_not_stay() {
        let list = WaitList::new();
        let patient = WaitNode::new();
        for _ in 0..3 * MARKED {
            let (old, new) = (WaitNode::new(), WaitNode::new());
            assert!(list.enroll(&old) && (patient.is_queued() || list.enroll(&patient)));
            assert!(list.enroll(&new));
            list.leave(&old);
            list.leave(&new);
        }
        let mut places = 0;
        assert!(list.walk(|_, _| places += 1));
        assert!(places <= 2 + 2 * MARKED, "{places} places of one waiter");
        list.leave(&patient);
        drop(patient);
        list.wake_all();
        assert!(!list.has_waiters());
    }

    #[test]
    fn a_node_goes_from_list_to_list() {
        let (here, there) = (WaitList::new(), WaitList::new());
        let (node, below) = (WaitNode::new(), WaitNode::new());
        assert!(here.enroll(&node) && here.enroll(&below));
        // It is taken in the first list, and lies there below another one while it waits in the second.
        here.wake_one();
        assert!(!node.is_queued() && there.enroll(&node) && below.is_queued());
        here.wake_all();
        assert!(node.is_queued() && !below.is_queued());
        there.wake_one();
        assert!(!node.is_queued() && !here.has_waiters() && !there.has_waiters());
    }

    #[test]
    fn a_list_that_ends_lets_go_of_its_places() {
        let node = WaitNode::new();
        {
            let list = WaitList::new();
            assert!(list.enroll(&node));
        }
        assert!(!node.is_queued());
        let list = WaitList::new();
        assert!(list.enroll(&node));
        list.leave(&node);
        assert!(!list.has_waiters());
    }
}

#[cfg(all(test, loom))]
mod models {
    use super::*;
    use crate::callout::Callouts;
    use loom::thread;

    const THREAD: usize = 9;
    const CALLBACK: usize = 8;

    #[test]
    fn no_callback_is_given_a_token() {
        static CALLOUTS: Callouts = Callouts {
            resume: |owner| assert_eq!(owner, THREAD),
            ..callout::DEFAULT
        };
        loom::model(|| {
            callout::link(&CALLOUTS);
            let Some(place) = wait_slot::take() else {
                unreachable!("a model's places come from the heap");
            };
            let state = place.begin(THREAD, 0);
            assert!(place.advance(state, TAKEN));
            let taken = state & !PHASES | TAKEN;
            // Chosen, and not woken yet: two wakers find the place.
            let other = thread::spawn(move || tell(place, taken));
            tell(place, taken);
            // The party that has woken it takes it off the list, and it becomes another owner's.
            settle(place);
            place.begin(CALLBACK, CALLS);
            let _ = other.join();
        });
    }
}
