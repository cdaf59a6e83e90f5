//! The structures of `sync` and of this package beside locks and well-known queues, natively: table 5.1 of
//! the dissertation on this machine.
//!
//! `cargo bench -p lab --bench host -- [--json] [PART OF A NAME]`. With `--json` a line of JSON per row:
//! `section`, `op`, `unit`, `peer`, `ours` and `ratio` (peer over ours). Operations are named `what/peer` or
//! `what/peer/threads`; `interference` means as many busy threads beside as there are processors. A figure is
//! the lower quartile of the samples, which alternate between the two; the unit says how far above it the
//! upper quartile is (peer, ours); the ratio is the median of the ratios of neighbouring samples.

#[path = "../../../sync/tests/common/threads.rs"]
mod threads;

mod pairs;
mod peers;

use lab::mcas::{Cell, Change, Domain};
use lab::queue::{linked, mpmc, mpsc, spmc, spsc};
use lab::{Helping, List, list};
use peers::{Chain, Guarded, Ring, Spin};
use std::cell::{RefCell, UnsafeCell};
use std::hint::black_box;
use std::ptr::NonNull;
use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Instant;
use sync::{ArrayStack, Monitor, Stack, stack};

/// Places in every bounded queue.
const PLACES: usize = 64;
/// Operations in a sample of one thread.
const ALONE: usize = 20_000;
/// Operations of each thread in a sample of several: enough for the threads to meet, whenever each of them
/// begins.
const TOGETHER: usize = 100_000;
/// Samples of each of two that are compared: enough to outlast a while in which the host does something else.
const SAMPLES: usize = 401;

type Mutex<T> = parking_lot::Mutex<T>;

struct Rows {
    json: bool,
    /// Only rows with this in their name.
    only: String,
}

impl Rows {
    /// Takes `n` samples of each, alternating.
    fn compare(&self, op: &str, n: usize, peer: impl FnMut() -> f64, ours: impl FnMut() -> f64) {
        if op.contains(&self.only) {
            pairs::compare(self.json, op, n, peer, ours);
        }
    }

    fn alone(&self, op: &str, mut peer: impl FnMut(), mut ours: impl FnMut()) {
        self.compare(op, SAMPLES, || alone(&mut peer), || alone(&mut ours));
    }

    /// With several threads, with and without others that are busy.
    fn together<A, B>(
        &self,
        op: &str,
        peer: impl Fn() -> A,
        use_peer: impl Fn(&A, usize) + Sync,
        ours: impl Fn() -> B,
        use_ours: impl Fn(&B, usize) + Sync,
    ) where
        A: Sync,
        B: Sync,
    {
        for (threads, busy) in [(2, false), (4, false), (2, true)] {
            let name = format!("{op}/{threads}{}", if busy { "/interference" } else { "" });
            let sample = |f: &(dyn Fn(usize) + Sync)| together(threads, f);
            let run = || {
                self.compare(
                    &name,
                    15,
                    || {
                        let peer = peer();
                        sample(&|thread| use_peer(&peer, thread))
                    },
                    || {
                        let ours = ours();
                        sample(&|thread| use_ours(&ours, thread))
                    },
                );
            };
            if busy { beside_busy(run) } else { run() }
        }
    }
}

/// Nanoseconds of one of many.
fn alone(f: &mut impl FnMut()) -> f64 {
    let start = Instant::now();
    for _ in 0..ALONE {
        f();
    }
    start.elapsed().as_nanos() as f64 / ALONE as f64
}

/// Nanoseconds of one of many that `threads` do at the same time, from when the first began to when the last
/// was done.
fn together(threads: usize, f: &(dyn Fn(usize) + Sync)) -> f64 {
    let barrier = Barrier::new(threads);
    let times = Mutex::new(Vec::new());
    std::thread::scope(|s| {
        for thread in 0..threads {
            let (barrier, times) = (&barrier, &times);
            s.spawn(move || {
                barrier.wait();
                let start = Instant::now();
                for _ in 0..TOGETHER {
                    f(thread);
                }
                times.lock().push((start, Instant::now()));
            });
        }
    });
    let times = times.into_inner();
    let first = times.iter().map(|time| time.0).min();
    let last = times.iter().map(|time| time.1).max();
    let whole = last
        .zip(first)
        .map_or(0, |(last, first)| (last - first).as_nanos());
    whole as f64 / (threads * TOGETHER) as f64
}

/// With as many busy threads as processors.
fn beside_busy(f: impl FnOnce()) {
    let stop = AtomicBool::new(false);
    let busy = std::thread::available_parallelism().map_or(1, usize::from);
    std::thread::scope(|s| {
        for _ in 0..busy {
            s.spawn(|| {
                let mut n = 0u64;
                while !stop.load(Ordering::Relaxed) {
                    n = black_box(n.wrapping_add(1));
                }
            });
        }
        f();
        stop.store(true, Ordering::Relaxed);
    });
}

/// Tries until it succeeds; lets others run after a while.
fn until<T>(mut f: impl FnMut() -> Option<T>) -> T {
    let mut tries = 0;
    loop {
        if let Some(got) = f() {
            return got;
        }
        tries += 1;
        if tries % 256 == 0 {
            std::thread::yield_now();
        }
        std::hint::spin_loop();
    }
}

/// The processors that the process may use.
fn processors() -> Vec<usize> {
    // SAFETY: a set of bits, for which all zeros are right; the call fills it.
    let set = unsafe {
        let mut set: libc::cpu_set_t = std::mem::zeroed();
        libc::sched_getaffinity(0, size_of_val(&set), &mut set);
        set
    };
    // SAFETY: each number is below the number of bits.
    (0..libc::CPU_SETSIZE as usize)
        .filter(|&cpu| unsafe { libc::CPU_ISSET(cpu, &set) })
        .collect()
}

/// Keeps the running thread on one of them, so that two parties are on two, if there are as many.
fn stay_on(processors: &[usize], party: usize) {
    let Some(&cpu) = processors.get(party) else {
        return;
    };
    // SAFETY: as above; the number came out of such a set.
    unsafe {
        let mut set: libc::cpu_set_t = std::mem::zeroed();
        libc::CPU_SET(cpu, &mut set);
        libc::sched_setaffinity(0, size_of_val(&set), &set);
    }
}

/// Tries until it succeeds, at once, and lets others run after a while: a pause can be longer than a value
/// takes from one processor to another, and would be what is measured.
fn at_once<T>(mut f: impl FnMut() -> Option<T>) -> T {
    loop {
        for _ in 0..1024 {
            if let Some(got) = f() {
                return got;
            }
        }
        std::thread::yield_now();
    }
}

/// Both ends of a queue, for one thread each.
type Ends<P, G> = (P, G);

/// Nanoseconds for each of `values` from one thread to another, each on its own processor, once both are
/// under way. With `pause` who finds the queue full or empty pauses between tries.
fn pass(
    values: u64,
    pause: bool,
    (put, get): Ends<impl Fn(u64) -> bool + Send, impl Fn() -> Option<u64> + Send>,
) -> f64 {
    const FIRST: u64 = 2_000;
    let (processors, barrier) = (&processors(), &Barrier::new(2));
    std::thread::scope(|s| {
        s.spawn(move || {
            stay_on(processors, 0);
            barrier.wait();
            for n in 0..FIRST + values {
                let put = || put(n).then_some(());
                if pause { until(put) } else { at_once(put) }
            }
        });
        let consumer = s.spawn(move || {
            stay_on(processors, 1);
            barrier.wait();
            let take = |n| {
                let got = if pause { until(&get) } else { at_once(&get) };
                assert_eq!(got, n);
            };
            (0..FIRST).for_each(take);
            let start = Instant::now();
            (FIRST..FIRST + values).for_each(take);
            start.elapsed().as_nanos() as f64 / values as f64
        });
        consumer.join().unwrap_or(f64::NAN)
    })
}

/// Nanoseconds for each of many values in bursts that fit, through one queue there and through another back.
/// Each burst finds its queue empty, so neither side can fall into step with the other.
fn bursts<P: Fn(u64) -> bool + Send, G: Fn() -> Option<u64> + Send>(
    there: Ends<P, G>,
    back: Ends<P, G>,
) -> f64 {
    const FIRST: usize = 50;
    const BURSTS: usize = 500;
    const EACH: u64 = PLACES as u64 / 2;
    let (processors, barrier) = (&processors(), &Barrier::new(2));
    let send = |put: &P| (0..EACH).for_each(|n| at_once(|| put(n).then_some(())));
    let receive = |get: &G| (0..EACH).for_each(|n| assert_eq!(at_once(get), n));
    std::thread::scope(|s| {
        s.spawn(move || {
            stay_on(processors, 0);
            barrier.wait();
            for _ in 0..FIRST + BURSTS {
                receive(&there.1);
                send(&back.0);
            }
        });
        let (put, get) = (there.0, back.1);
        let first = s.spawn(move || {
            stay_on(processors, 1);
            barrier.wait();
            let round = |_| {
                send(&put);
                receive(&get);
            };
            (0..FIRST).for_each(round);
            let start = Instant::now();
            (0..BURSTS).for_each(round);
            start.elapsed().as_nanos() as f64 / (2 * EACH as usize * BURSTS) as f64
        });
        first.join().unwrap_or(f64::NAN)
    })
}

fn one_lock<L>(rows: &Rows, lock: &str)
where
    L: Guarded<u64>,
    Ring<PLACES>: Sized,
{
    let (counter, guarded) = (AtomicU64::new(0), L::new(0));
    rows.alone(
        &format!("counter/{lock}"),
        || guarded.with(|n| *n = black_box(*n + 1)),
        || {
            counter.fetch_add(1, Ordering::AcqRel);
        },
    );
    let monitor = Monitor::new(0u64);
    rows.alone(
        &format!("monitor/{lock}"),
        || guarded.with(|n| *n = black_box(*n + 1)),
        || {
            let mut n = monitor.lock();
            *n = black_box(*n + 1);
        },
    );
    let helping = Helping::new(0u64);
    rows.alone(
        &format!("helping lock/{lock}"),
        || guarded.with(|n| *n = black_box(*n + 1)),
        || {
            let mut n = helping.enter();
            *n = black_box(*n + 1);
        },
    );
    rows.together(
        &format!("monitor/{lock}"),
        || L::new(0),
        |guarded, _| guarded.with(|n| *n = black_box(*n + 1)),
        || Monitor::new(0u64),
        |monitor, _| {
            let mut n = monitor.lock();
            *n = black_box(*n + 1);
        },
    );
}

/// Nodes outlive what they are in, and are in one place at a time.
fn chains<L: Guarded<Chain>>(rows: &Rows, lock: &str) {
    let (mut word, node) = (0usize, stack::Node::new());
    let (guarded, stack) = (L::new(Chain::default()), Stack::new());
    rows.alone(
        &format!("stack of nodes push+pop/{lock}"),
        || {
            // SAFETY: see above.
            guarded.with(|chain| unsafe { chain.insert(&mut word) });
            black_box(guarded.with(Chain::delete));
        },
        || {
            // SAFETY: see above.
            unsafe { stack.push(NonNull::from(&node)) };
            black_box(stack.pop());
        },
    );
    let node = list::Node::new();
    let list = List::new();
    rows.alone(
        &format!("list insert+delete/{lock}"),
        || {
            // SAFETY: see above.
            guarded.with(|chain| unsafe { chain.insert(&mut word) });
            black_box(guarded.with(Chain::delete));
        },
        || {
            // SAFETY: see above; nobody else is there, so each removal ends a grace period.
            unsafe { list.insert(NonNull::from(&node)) };
            // SAFETY: as above.
            black_box(unsafe { list.remove(NonNull::from(&node)) });
        },
    );
    rows.together(
        &format!("stack of nodes push+pop/{lock}"),
        || {
            (
                L::new(Chain::default()),
                Box::leak(Box::new([0usize; 64]))
                    .as_mut_ptr()
                    .expose_provenance(),
            )
        },
        |(guarded, words), thread| {
            let word = std::ptr::with_exposed_provenance_mut::<usize>(*words + 128 * thread);
            // SAFETY: see above.
            guarded.with(|chain| unsafe { chain.insert(word) });
            black_box(guarded.with(Chain::delete));
        },
        || {
            let nodes: Vec<_> = (0..4).map(|_| stack::Node::new()).collect();
            let stack = Stack::new();
            for node in nodes.leak() {
                // SAFETY: see above.
                unsafe { stack.push(NonNull::from(node)) };
            }
            stack
        },
        |stack, _| {
            if let Some(node) = stack.pop() {
                // SAFETY: see above.
                unsafe { stack.push(node) };
            }
        },
    );
}

/// One thread is on each side of a queue that allows only one.
fn rings<L: Guarded<Ring<PLACES>>>(rows: &Rows, lock: &str) {
    let guarded = L::new(Ring::new());
    let locked = || {
        guarded.with(|ring| ring.put(black_box(1)));
        black_box(guarded.with(Ring::get));
    };
    let queue: spsc::Queue<u64, PLACES> = spsc::Queue::new();
    rows.alone(&format!("queue 1:1 put+get/{lock}"), locked, || {
        // SAFETY: see above.
        let _ = unsafe { queue.put(black_box(1)) };
        // SAFETY: see above.
        black_box(unsafe { queue.get() });
    });
    let queue: spmc::Queue<u64, PLACES> = spmc::Queue::new();
    rows.alone(&format!("queue 1:n put+get/{lock}"), locked, || {
        // SAFETY: see above.
        let _ = unsafe { queue.put(black_box(1)) };
        black_box(queue.get());
    });
    let queue: mpsc::Queue<u64, PLACES> = mpsc::Queue::new();
    rows.alone(&format!("queue n:1 put+get/{lock}"), locked, || {
        let _ = queue.put(black_box(1));
        // SAFETY: see above.
        black_box(unsafe { queue.get() });
    });
    let queue: mpmc::Queue<u64, PLACES> = mpmc::Queue::new();
    rows.alone(&format!("queue n:n put+get/{lock}"), locked, || {
        let _ = queue.put(black_box(1));
        black_box(queue.get());
    });
    let stack: ArrayStack<u32, PLACES> = ArrayStack::new();
    rows.alone(
        &format!("stack in an array push+pop/{lock}"),
        locked,
        || {
            let _ = stack.push(black_box(1));
            black_box(stack.pop());
        },
    );
    rows.together(
        &format!("queue n:n put+get/{lock}"),
        || L::new(Ring::new()),
        |guarded, _| {
            guarded.with(|ring| ring.put(black_box(1)));
            black_box(guarded.with(Ring::get));
        },
        mpmc::Queue::<u64, PLACES>::new,
        |queue, _| {
            let _ = queue.put(black_box(1));
            black_box(queue.get());
        },
    );
}

/// In a line of the cache by itself.
#[repr(align(64))]
struct Padded<T>(T);

fn words<L: Guarded<(u64, u64)>>(rows: &Rows, lock: &str) {
    let guarded = L::new((0, 0));
    let domain: Domain<2, 2> = Domain::new();
    let cells = [const { Padded(Cell::new(0)) }; 2];
    let Some(mut party) = domain.join() else {
        return;
    };
    rows.alone(
        &format!("two distant words/{lock}"),
        || {
            guarded.with(|two| {
                if black_box(two.0 == two.1) {
                    *two = (two.0 + 1, two.1 + 1);
                }
            });
        },
        || {
            let old = [party.read(&cells[0].0), party.read(&cells[1].0)];
            let changes = [0, 1].map(|n| Change {
                cell: &cells[n].0,
                old: old[n],
                new: old[n] + 1,
            });
            // SAFETY: the cells end with the domain.
            black_box(unsafe { party.change(&changes) });
        },
    );
    // So many that each is settled before it is changed again.
    let guarded = L::new((0, 0));
    let (plain, mut at) = ([const { Padded(UnsafeCell::new(0u64)) }; 64], 0);
    let cells = [const { Padded(Cell::new(0)) }; 64];
    let mut turn = 0;
    rows.alone(
        &format!("two distant words of 64/{lock}"),
        || {
            at = (at + 2) % plain.len();
            let [one, two] = [at, at + 1].map(|n| plain[n].0.get());
            // SAFETY: the lock is held.
            guarded.with(|_| unsafe {
                if black_box(*one == *two) {
                    (*one, *two) = (*one + 1, *two + 1);
                }
            });
        },
        || {
            turn = (turn + 2) % cells.len();
            let (one, two) = (&cells[turn].0, &cells[turn + 1].0);
            let old = [party.read(one), party.read(two)];
            let changes = [(one, old[0]), (two, old[1])].map(|(cell, old)| Change {
                cell,
                old,
                new: old + 1,
            });
            // SAFETY: as above.
            black_box(unsafe { party.change(&changes) });
        },
    );
}

/// The queues that others have made. Those of one and one are in the heap, ours because rtrb's is.
fn queues(rows: &Rows) {
    let (mut to, mut from) = rtrb::RingBuffer::<u64>::new(PLACES);
    let mut queue: Box<spsc::Queue<u64, PLACES>> = Box::default();
    let (mut producer, mut consumer) = queue.split();
    rows.alone(
        "queue 1:1 put+get/rtrb",
        || {
            let _ = to.push(black_box(1));
            let _ = black_box(from.pop());
        },
        || {
            let _ = producer.put(black_box(1));
            black_box(consumer.get());
        },
    );
    let bounded = crossbeam_queue::ArrayQueue::<u64>::new(PLACES);
    let queue: mpmc::Queue<u64, PLACES> = mpmc::Queue::new();
    rows.alone(
        "queue n:n put+get/crossbeam ArrayQueue",
        || {
            let _ = bounded.push(black_box(1));
            black_box(bounded.pop());
        },
        || {
            let _ = queue.put(black_box(1));
            black_box(queue.get());
        },
    );
    let queue: mpsc::Queue<u64, PLACES> = mpsc::Queue::new();
    rows.alone(
        "queue n:1 put+get/crossbeam ArrayQueue",
        || {
            let _ = bounded.push(black_box(1));
            black_box(bounded.pop());
        },
        || {
            let _ = queue.put(black_box(1));
            // SAFETY: there is no other consumer.
            black_box(unsafe { queue.get() });
        },
    );
    let endless = crossbeam_queue::SegQueue::<u64>::new();
    let nodes = [const { linked::Node::new() }; 2];
    // SAFETY: the nodes outlive the queue, and are in one place at a time.
    let queue: linked::Queue<u64> = unsafe { linked::Queue::new(NonNull::from(&nodes[0])) };
    let mut free = NonNull::from(&nodes[1]);
    rows.alone(
        "queue of nodes put+get/crossbeam SegQueue",
        || {
            endless.push(black_box(1));
            black_box(endless.pop());
        },
        || {
            // SAFETY: as above.
            unsafe { queue.put(free, black_box(1)) };
            if let Some((value, node)) = queue.get() {
                black_box(value);
                free = node;
            }
        },
    );
    let rtrb = || {
        let (to, from) = rtrb::RingBuffer::<u64>::new(PLACES);
        let (to, from) = (RefCell::new(to), RefCell::new(from));
        (
            move |n| to.borrow_mut().push(n).is_ok(),
            move || from.borrow_mut().pop().ok(),
        )
    };
    fn ours(
        queue: &mut spsc::Queue<u64, PLACES>,
    ) -> Ends<impl Fn(u64) -> bool + Send, impl Fn() -> Option<u64> + Send> {
        let (to, from) = queue.split();
        let (to, from) = (RefCell::new(to), RefCell::new(from));
        (
            move |n| to.borrow_mut().put(n).is_ok(),
            move || from.borrow_mut().get(),
        )
    }
    let stream = |name: &str, samples, values, pause| {
        rows.compare(
            &format!("queue 1:1 from thread to thread/rtrb{name}"),
            samples,
            || pass(values, pause, rtrb()),
            || pass(values, pause, ours(&mut Box::default())),
        );
    };
    stream("", SAMPLES, 50_000, false);
    stream("/pausing", SAMPLES, 50_000, true);
    rows.compare(
        "queue 1:1 bursts there and back/rtrb",
        SAMPLES,
        || bursts(rtrb(), rtrb()),
        || {
            let (mut there, mut back) = (Box::default(), Box::default());
            bursts(ours(&mut there), ours(&mut back))
        },
    );
    // So long that the busy ones have their turns in between.
    beside_busy(|| stream("/interference", 15, 500_000, true));
    rows.together(
        "queue n:n put+get/crossbeam ArrayQueue",
        || crossbeam_queue::ArrayQueue::<u64>::new(PLACES),
        |queue, _| {
            let _ = queue.push(black_box(1));
            black_box(queue.pop());
        },
        mpmc::Queue::<u64, PLACES>::new,
        |queue, _| {
            let _ = queue.put(black_box(1));
            black_box(queue.get());
        },
    );
}

fn main() {
    threads::link();
    let rows = Rows {
        json: std::env::args().any(|argument| argument == "--json"),
        only: std::env::args()
            .skip(1)
            .find(|argument| !argument.starts_with("--"))
            .unwrap_or_default(),
    };
    one_lock::<Mutex<u64>>(&rows, "parking_lot");
    one_lock::<Spin<u64>>(&rows, "spin lock");
    chains::<Mutex<Chain>>(&rows, "parking_lot");
    chains::<Spin<Chain>>(&rows, "spin lock");
    rings::<Mutex<Ring<PLACES>>>(&rows, "parking_lot");
    rings::<Spin<Ring<PLACES>>>(&rows, "spin lock");
    words::<Mutex<(u64, u64)>>(&rows, "parking_lot");
    words::<Spin<(u64, u64)>>(&rows, "spin lock");
    queues(&rows);
}
