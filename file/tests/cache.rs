//! A cached file under threads that stand for CPUs: what generated routines do, calls, stores, eviction,
//! delays and errors, all at once.
//!
//! Each writer has bytes of its own and a model of them; at the end the file and what keeps it are those of
//! all models.
//!
//! *Unsafe*: thread handles as callback arguments.

use abi::errno::{Errno, Result};
use file::fs::attr::{Attr, FileTime};
use file::io::IoBuf;
use file::page_cache::{Backing, CachedFile, EvictScope, index, mark};
use quaject::Sharing;
use quaject::fsmap::Cursor;
use std::cell::Cell;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::{self, Thread};
use sync::callout::{self, Callouts};
use sync::epoch;
use vm::frame::FrameRef;

const PAGE: usize = 4096;
const WRITERS: usize = 4;
/// Bytes of the file, which are dealt out in turn, so that every page is everybody's.
const SIZE: usize = 24 * PAGE;
const STRIPE: usize = 64;
/// Fills and stores of a round.
const ASKED: usize = 1500;

/// All threads that ever were: a waker may hold one that has gone.
static ALL: Mutex<Vec<&'static Thread>> = Mutex::new(Vec::new());

thread_local! {
    static ME: &'static Thread = {
        let me: &'static Thread = Box::leak(Box::new(thread::current()));
        ALL.lock().unwrap().push(me);
        me
    };
    static CPU: Cell<usize> = const { Cell::new(0) };
}

/// While it sleeps a thread is a CPU that is idle.
fn idle(act: impl FnOnce()) {
    let cpu = CPU.get();
    epoch::idle_enter(cpu);
    act();
    epoch::idle_exit(cpu);
}

static CALLOUTS: Callouts = Callouts {
    current: || ME.with(|me| std::ptr::from_ref(*me).expose_provenance()),
    suspend: || idle(thread::park),
    resume: |handle| {
        // SAFETY: `current` gave it, and it stays.
        unsafe { &*std::ptr::with_exposed_provenance::<Thread>(handle) }.unpark();
    },
    yield_now: || idle(thread::yield_now),
    cpu: || CPU.get(),
    ..callout::DEFAULT
};

/// The keeper of the file: slow, and with errors.
struct Slow {
    bytes: Mutex<Vec<u8>>,
    asked: AtomicUsize,
    /// Every so manieth store fails; none if it is 0.
    fails: AtomicUsize,
}

impl Slow {
    fn delay(&self) -> usize {
        let asked = self.asked.fetch_add(1, Ordering::Relaxed);
        idle(|| (0..asked % 5).for_each(|_| thread::yield_now()));
        asked
    }
}

impl Backing for Slow {
    fn unit(&self) -> usize {
        4
    }

    fn fill(&self, offset: u64, pages: &[FrameRef]) -> Result<()> {
        // Its answer is of one instant, and comes later.
        let bytes = self.bytes.lock().unwrap().clone();
        self.delay();
        for (at, page) in pages.iter().enumerate() {
            let rest = bytes.get(offset as usize + at * PAGE..).unwrap_or_default();
            let there = rest.len().min(PAGE);
            page.bytes(0..there)?.write(0, &rest[..there])?;
            page.bytes(there..PAGE)?.zero();
        }
        Ok(())
    }

    fn store(&self, offset: u64, pages: &[FrameRef], count: usize) -> Result<()> {
        let asked = self.delay();
        let fails = self.fails.load(Ordering::Relaxed);
        if fails != 0 && asked.is_multiple_of(fails) {
            return Err(Errno::EIO);
        }
        let mut bytes = self.bytes.lock().unwrap();
        let (start, end) = (offset as usize, offset as usize + count);
        if bytes.len() < end {
            bytes.resize(end, 0);
        }
        for (page, into) in pages.iter().zip(bytes[start..end].chunks_mut(PAGE)) {
            page.bytes(0..into.len())?.read(0, into)?;
        }
        Ok(())
    }
}

fn numbers(seed: usize) -> impl FnMut(usize) -> usize {
    let mut state = (seed as u64 + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    move |below| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state as usize % below.max(1)
    }
}

/// Reads or writes a stripe, by a routine's twin or by the call behind its slow exit.
fn stripe(file: &CachedFile, at: usize, bytes: &mut [u8], write: bool) {
    let cursor = Cursor::new();
    cursor.offset.store(at as u64, Ordering::Relaxed);
    let (core, alone) = (file.core(), Sharing::Exclusive);
    let done = match write {
        true => core.write(&cursor, alone, false, bytes),
        false => core.read(&cursor, alone, bytes),
    };
    // The CPU leaves the routine.
    epoch::quiescent(CPU.get());
    let count = match (done, write) {
        (Some(count), _) => count,
        (None, true) => {
            let mut buf = IoBuf::drain(bytes);
            file.write(Some(at as u64), &mut buf, u64::MAX >> 1)
                .unwrap()
                .1
        }
        (None, false) => file.read(at as u64, &mut IoBuf::fill(bytes)).unwrap(),
    };
    assert_eq!(count, bytes.len());
}

/// Writes and reads its stripes, each beside its model, until what keeps the file has been asked often
/// enough.
fn writer(file: &CachedFile, slow: &Slow, number: usize) -> Vec<u8> {
    let mut next = numbers(number);
    let mut model = vec![0; SIZE];
    while slow.asked.load(Ordering::Relaxed) < ASKED {
        if next(8) == 0 {
            idle(thread::yield_now);
        }
        let at = (next(SIZE / STRIPE / WRITERS) * WRITERS + number) * STRIPE;
        let mine = at..at + STRIPE;
        if next(3) > 0 {
            let mut bytes = [0; STRIPE];
            bytes.fill_with(|| next(256) as u8);
            stripe(file, at, &mut bytes, true);
            model[mine].copy_from_slice(&bytes);
        } else {
            let mut bytes = [0xee; STRIPE];
            stripe(file, at, &mut bytes, false);
            assert_eq!(bytes, model[mine], "of writer {number} at {at}");
        }
    }
    model
}

/// A thread as CPU `cpu`.
fn on<R>(cpu: usize, act: impl FnOnce() -> R) -> R {
    CPU.set(cpu);
    epoch::idle_exit(cpu);
    let result = act();
    epoch::idle_enter(cpu);
    result
}

#[test]
fn contents_are_always_those_of_a_model() {
    callout::link(&CALLOUTS);
    for (round, fails) in [0, 0, 9].into_iter().enumerate() {
        let slow = Arc::new(Slow {
            bytes: Mutex::new(vec![0; SIZE]),
            asked: AtomicUsize::new(1),
            fails: AtomicUsize::new(fails),
        });
        let backing = slow.clone();
        let file = on(1, || {
            let id = (u64::MAX - 3, round as u64);
            let file = index::find(id, || CachedFile::new(id, backing, Arc::default())).unwrap();
            let attr = Attr {
                size: SIZE as u64,
                mtime: FileTime { sec: 1, nsec: 0 },
                ..Attr::anonymous()
            };
            assert_eq!(file.revalidate(&attr, mark(), false), Ok(true));
            file
        });
        let over = AtomicBool::new(false);
        let models: Vec<Vec<u8>> = thread::scope(|scope| {
            let writers: Vec<_> = (0..WRITERS)
                .map(|number| {
                    let (file, slow) = (&file, &slow);
                    scope.spawn(move || on(2 + number, || writer(file, slow, number)))
                })
                .collect();
            let (file, over) = (&file, &over);
            scope.spawn(move || {
                on(2 + WRITERS, || {
                    while !over.load(Ordering::Relaxed) {
                        file.flush();
                        idle(thread::yield_now);
                    }
                })
            });
            scope.spawn(move || {
                on(3 + WRITERS, || {
                    let mut next = numbers(99);
                    while !over.load(Ordering::Relaxed) {
                        // A page whose store failed is lost when it is taken away.
                        if fails == 0 {
                            index::evict(next(12), EvictScope::Unmapped);
                        }
                        idle(thread::yield_now);
                    }
                })
            });
            let models = writers.into_iter().map(|writer| writer.join().unwrap());
            let models = models.collect();
            over.store(true, Ordering::Relaxed);
            models
        });
        let mut model = vec![0; SIZE];
        for (at, bytes) in model.chunks_mut(STRIPE).enumerate() {
            let own = at * STRIPE..(at + 1) * STRIPE;
            bytes.copy_from_slice(&models[at % WRITERS][own]);
        }
        on(1, || {
            let told = std::sync::atomic::AtomicU32::new(0);
            assert_eq!(file.errors().tell(&told).is_err(), fails != 0);
            slow.fails.store(0, Ordering::Relaxed);
            file.flush();
            let mut all = vec![0; SIZE];
            assert_eq!(file.read(0, &mut IoBuf::fill(&mut all)), Ok(SIZE));
            assert!(all == model, "the file is the model");
            if fails == 0 {
                assert!(*slow.bytes.lock().unwrap() == model, "what keeps it, too");
            }
        });
    }
}
