//! Generated queues beside their twins in Rust, natively.
//!
//! `cargo bench -p quaject --features host --bench queues -- [--json]`. Rows as those of `sync`'s benchmark: a figure is the lower quartile of samples that alternate between the two;
//! the unit says how far above it the upper quartile is (twin, generated), and the ratio is the median of the ratios of neighbouring samples. An operation is a put and a get of one byte, both called through a pointer: the twin with the queue's address,
//! as any code that serves more than one queue has to.

#[path = "../../sync/benches/host/pairs.rs"]
mod pairs;

use quaject::class::create;
use quaject::queue::{Parties, Spec};
use std::hint::black_box;
use std::time::Instant;
use sync::queue::{mpmc, mpsc, spmc, spsc};

const PLACES: usize = 64;
const EACH: usize = 20_000;
const SAMPLES: usize = 401;

/// Nanoseconds of one of many.
fn sample(f: impl FnMut(usize)) -> f64 {
    let start = Instant::now();
    (0..EACH).for_each(f);
    start.elapsed().as_nanos() as f64 / EACH as f64
}

/// A twin's put and get as functions of the queue's address.
type Twin<Q> = (fn(&Q, u8) -> bool, fn(&Q) -> Option<u8>);

fn row<Q>(op: &str, producers: Parties, consumers: Parties, queue: Q, twin: Twin<Q>) {
    let twin = black_box(twin);
    for several_cpus in [true, false] {
        let spec = Spec {
            producers,
            consumers,
            size: PLACES,
            several_cpus,
        };
        let made = match create::<quaject::queue::ByteQueue>(spec) {
            Ok(made) => made,
            Err(error) => {
                eprintln!("{op}: not generated: {error:?}");
                return;
            }
        };
        // What is linked to the queue calls these; a Rust caller from outside goes through a plug, which counts who is inside.
        let routines = made.routines();
        let (put, get) = black_box((routines.0.function(), routines.1.function()));
        let place = if several_cpus { "" } else { " one CPU" };
        let json = std::env::args().any(|argument| argument == "--json");
        pairs::compare(
            json,
            &format!("queue {op}{place} generated/twin"),
            SAMPLES,
            || {
                sample(|n| {
                    black_box((twin.0)(&queue, n as u8));
                    black_box((twin.1)(&queue));
                })
            },
            || {
                sample(|n| {
                    black_box(put(n as u8));
                    black_box(get());
                })
            },
        );
    }
}

fn main() {
    use Parties::{Many, One};
    codegen::host::link();
    // SAFETY, of all twins: this thread is the only party.
    row(
        "1:1",
        One,
        One,
        spsc::Queue::<u8, PLACES>::new(),
        (
            // SAFETY: as above.
            |queue, byte| unsafe { queue.put(byte) }.is_ok(),
            // SAFETY: as above.
            |queue| unsafe { queue.get() },
        ),
    );
    row(
        "n:1",
        Many,
        One,
        mpsc::Queue::<u8, PLACES>::new(),
        (
            |queue, byte| queue.put(byte).is_ok(),
            // SAFETY: as above.
            |queue| unsafe { queue.get() },
        ),
    );
    row(
        "1:n",
        One,
        Many,
        spmc::Queue::<u8, PLACES>::new(),
        (
            // SAFETY: as above.
            |queue, byte| unsafe { queue.put(byte) }.is_ok(),
            |queue| queue.get(),
        ),
    );
    row(
        "n:n",
        Many,
        Many,
        mpmc::Queue::<u8, PLACES>::new(),
        (|queue, byte| queue.put(byte).is_ok(), |queue| queue.get()),
    );
}
