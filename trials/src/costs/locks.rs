//! The cost of serializing when nobody interferes: the same counter unprotected, by one exchange, under the
//! helping lock, under the kernel's sleeping monitor, and by a server thread; beside them the cost of handing
//! the CPU to another thread.
//!
//! *Interface*: [`measure`], on a machine with one CPU that counts instructions (`-icount shift=0`): the
//! clock's nanoseconds are the result.
//! Source: Hohmuth and Härtig 2001, section 5.2, table 2.

use core::hint::black_box;
use core::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};

use lab::helping::Helping;
use lab::single_server::SingleServer;
use machine::clock::now_ns;
use sync::Monitor;
use thread::Thread;

use super::plain::Shared;
use super::report;

/// Operations that a figure is the mean of.
const ROUNDS: u64 = 1000;

static PLAIN: Shared<u64> = Shared::new(0);
static EXCHANGED: AtomicU64 = AtomicU64::new(0);
static HELPED: Helping<u64> = Helping::new(0);
static GUARDED: Monitor<u64> = Monitor::new(0);
static STOP: AtomicBool = AtomicBool::new(false);

/// Reports one row an implementation.
pub fn measure() {
    let nothing = each(|| {});
    let rows: [(&str, fn()); 4] = [
        ("counter_unsynchronized", || {
            // SAFETY: one thread measures.
            unsafe { PLAIN.with(|count| *count = black_box(*count + 1)) }
        }),
        ("counter_cas", || {
            let old = EXCHANGED.load(Ordering::Relaxed);
            let _ = EXCHANGED.compare_exchange(old, old + 1, Ordering::AcqRel, Ordering::Relaxed);
        }),
        ("counter_helping_lock", || *HELPED.enter() += 1),
        ("counter_monitor", || *GUARDED.lock() += 1),
    ];
    for (name, operation) in rows {
        row(name, each(operation) - nothing);
    }
    row("counter_single_server", single_server() - nothing);
    row("hand_over_one_way", hand_over() / 2);
}

fn row(name: &str, instructions: u64) {
    report("helping, table 2", name, &[("instructions", instructions)]);
}

/// Instructions of one operation, and of calling it.
fn each(operation: impl Fn()) -> u64 {
    let from = now_ns();
    for _ in 0..ROUNDS {
        black_box(&operation)();
    }
    (now_ns() - from) / ROUNDS
}

/// A thread on this CPU that goes on until [`STOP`].
fn beside(body: fn(usize), argument: usize) -> Thread {
    STOP.store(false, Ordering::Release);
    thread::spawn(b"beside", body, argument).expect("memory for a thread")
}

/// The old scheme: the counter belongs to a thread, and every operation goes there and back.
fn single_server() -> u64 {
    static SERVER: sync::Once<SingleServer<u64>> = sync::Once::new();
    fn serve(_: usize) {
        while !STOP.load(Ordering::Acquire) {
            if let Some(server) = SERVER.get() {
                // SAFETY: this thread is the server's owner.
                unsafe { server.serve() };
            }
            thread::suspend();
        }
    }
    let owner = beside(serve, 0);
    // Set once: there is one measurement.
    let _ = SERVER.set(SingleServer::new(0, owner.address()));
    let Some(server) = SERVER.get() else {
        return 0;
    };
    let result = each(|| server.request(|count| *count += 1));
    STOP.store(true, Ordering::Release);
    thread::resume(&owner);
    result
}

/// A thread wakes another and sleeps, and the other does the same: there and back.
fn hand_over() -> u64 {
    static FIRST: AtomicUsize = AtomicUsize::new(0);
    fn answer(_: usize) {
        while !STOP.load(Ordering::Acquire) {
            thread::suspend();
            thread::resume_address(FIRST.load(Ordering::Relaxed));
        }
    }
    FIRST.store(thread::current().address(), Ordering::Relaxed);
    let other = beside(answer, 0);
    thread::yield_now();
    let result = each(|| {
        thread::resume(&other);
        thread::suspend();
    });
    STOP.store(true, Ordering::Release);
    thread::resume(&other);
    thread::suspend();
    result
}
