//! Operations of the kernel itself as subjects of torture: what every thread uses without asking whether
//! another stands still in it.
//!
//! *Interface*: [`all`].

use alloc::boxed::Box;
use core::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use codegen::{Class, Draft};
use machine::clock::now_ns;
use sync::{WaitList, WaitNode};
use thread::steal_queue::StealQueue;

use super::subject::{Subject, Tally};
use super::tables::TABLE;

/// All services.
pub fn all() -> [&'static dyn Subject; 9] {
    [
        &Frames, &Heap, &Alarms, &Wakeups, &Threads, &Images, &SHELF, &WAITERS, &TABLE,
    ]
}

/// A frame is taken and given back.
struct Frames;

impl Subject for Frames {
    fn name(&self) -> &'static str {
        "frames"
    }

    fn operate(&self, _: usize, _: u64) {
        if let Some(frame) = vm::frame::alloc() {
            vm::frame::release(frame);
        }
    }

    fn settle(&self) {}
}

/// A block of some size is taken and given back.
struct Heap;

impl Subject for Heap {
    fn name(&self) -> &'static str {
        "heap"
    }

    fn operate(&self, _: usize, round: u64) {
        // Small blocks, and now and then one larger than a page.
        match round % 4 {
            0 => drop(core::hint::black_box(Box::new([0u64; 1]))),
            1 => drop(core::hint::black_box(Box::new([0u64; 20]))),
            2 => drop(core::hint::black_box(Box::new([0u64; 200]))),
            _ => drop(core::hint::black_box(Box::new([0u64; 1200]))),
        }
    }

    fn settle(&self) {}
}

/// An alarm is set and cancelled.
struct Alarms;

impl Subject for Alarms {
    fn name(&self) -> &'static str {
        "alarms"
    }

    fn operate(&self, _: usize, _: u64) {
        let hour = 3_600_000_000_000;
        if let Ok(alarm) = thread::clock::alarm(now_ns() + hour, |_| {}, 0) {
            thread::clock::cancel(alarm);
        }
    }

    fn settle(&self) {}
}

/// A thread that may be asleep, waking or running is woken.
struct Wakeups;

static SLEEPER: AtomicUsize = AtomicUsize::new(0);
static WOKEN: AtomicU64 = AtomicU64::new(0);

impl Subject for Wakeups {
    fn name(&self) -> &'static str {
        "wake-ups"
    }

    fn operate(&self, _: usize, _: u64) {
        thread::resume_address(SLEEPER.load(Ordering::Acquire));
    }

    fn settle(&self) {
        fn sleep(_: usize) {
            loop {
                thread::suspend();
                WOKEN.fetch_add(1, Ordering::AcqRel);
            }
        }
        if SLEEPER.load(Ordering::Acquire) == 0 {
            let sleeper = thread::spawn(b"sleeper", sleep, 0).expect("memory for a thread");
            SLEEPER.store(sleeper.address(), Ordering::Release);
        }
        let before = WOKEN.load(Ordering::Acquire);
        thread::resume_address(SLEEPER.load(Ordering::Acquire));
        super::until("the sleeper woke", || {
            WOKEN.load(Ordering::Acquire) != before
        });
    }
}

/// A thread is made, which ends at once.
struct Threads;

static STARTED: AtomicU64 = AtomicU64::new(0);
static ENDED: AtomicU64 = AtomicU64::new(0);

impl Subject for Threads {
    fn name(&self) -> &'static str {
        "threads"
    }

    fn operate(&self, _: usize, _: u64) {
        fn end(_: usize) {
            ENDED.fetch_add(1, Ordering::AcqRel);
        }
        if thread::spawn(b"torture", end, 0).is_ok() {
            STARTED.fetch_add(1, Ordering::AcqRel);
        }
    }

    fn settle(&self) {
        super::until("all threads ended", || {
            ENDED.load(Ordering::Acquire) == STARTED.load(Ordering::Acquire)
        });
    }
}

/// A routine is generated and dropped.
struct Images;

static CLASS: Class = Class::new("torture");

impl Subject for Images {
    fn name(&self) -> &'static str {
        "images"
    }

    fn operate(&self, _: usize, round: u64) {
        let mut draft = Draft::new(&CLASS, "tortured");
        for _ in 0..round % 100 {
            draft.push(0x90); // nop
        }
        draft.push(0xc3); // ret
        drop(draft.seal());
    }

    fn settle(&self) {}
}

/// A CPU's steal queue of ready threads: one puts numbers there, all others take.
struct Ready {
    steal_queue: StealQueue<u64, 16>,
    next: AtomicU64,
    tally: Tally,
}

static SHELF: Ready = Ready {
    steal_queue: StealQueue::empty(),
    next: AtomicU64::new(1),
    tally: Tally::new(),
};

impl Ready {
    fn take(&self) {
        if let Some(number) = self.steal_queue.take(|_| Some(0)) {
            self.tally.left(number.addr() as u64);
        }
    }
}

impl Subject for Ready {
    fn name(&self) -> &'static str {
        "shelf"
    }

    fn roles(&self) -> usize {
        2
    }

    fn alone(&self, role: usize) -> bool {
        role == 0
    }

    fn operate(&self, role: usize, _: u64) {
        if role == 1 {
            return self.take();
        }
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        if self
            .steal_queue
            .put(core::ptr::without_provenance_mut(number as usize))
        {
            self.tally.entered(number);
        }
    }

    fn settle(&self) {
        while !self.steal_queue.is_empty() {
            self.take();
        }
        self.tally.check("shelf");
    }
}

/// Everybody waits in one list, and wakes all who do.
struct Waiters(WaitList);

static WAITERS: Waiters = Waiters(WaitList::new());

impl Subject for Waiters {
    fn name(&self) -> &'static str {
        "wait list"
    }

    fn operate(&self, _: usize, round: u64) {
        let node = WaitNode::new();
        assert!(self.0.enroll(&node), "memory for a place");
        match round % 3 {
            0 => _ = self.0.wake_one(),
            1 => return self.0.leave(&node),
            _ => {}
        }
        self.0.wake_all();
        assert!(!node.is_queued(), "another waker keeps a waiter");
        self.0.leave(&node);
    }

    fn settle(&self) {
        self.0.wake_all();
        assert!(!self.0.has_waiters(), "somebody is left in the wait list");
    }
}
