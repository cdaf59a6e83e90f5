//! Every interleaving of CPUs that send requests to another CPU with that CPU's interrupt, checked with loom:
//! the interrupt of this sender or of another sees each request.

mod primitive {
    pub use loom::sync::atomic::{AtomicU64, Ordering, fence};
    macro_rules! constructor {
        ($(#[$attribute:meta])* pub fn $name:ident() -> $result:ty $body:block) => {
            pub fn $name() -> $result $body
        };
    }
    pub(crate) use constructor;
}
#[path = "../src/ring/ipi_pending.rs"]
mod ipi_pending;

use ipi_pending::IpiPending;
use loom::sync::Arc;
use loom::sync::atomic::{AtomicUsize, Ordering};
use loom::thread;

/// Added by a sender.
const ASKED: usize = 1 << 8;

struct Cpu {
    asked: IpiPending,
    /// The sent interrupts, and the senders. It orders nothing.
    sent: AtomicUsize,
    /// The work that there is for it.
    work: [AtomicUsize; 2],
}

fn ask(cpu: &Cpu, at: usize) {
    cpu.work[at].store(1, Ordering::Relaxed);
    cpu.asked
        .request(|| _ = cpu.sent.fetch_add(1, Ordering::Relaxed));
    cpu.sent.fetch_add(ASKED, Ordering::Relaxed);
}

/// Handles interrupts until `times` have asked and there are none left; which work it has seen.
fn handle(cpu: &Cpu, times: usize) -> [bool; 2] {
    let mut seen = [false; 2];
    let mut handled = 0;
    loop {
        let sent = cpu.sent.load(Ordering::Relaxed);
        if sent % ASKED > handled {
            handled += 1;
            cpu.asked.acknowledge();
            for (seen, work) in seen.iter_mut().zip(&cpu.work) {
                *seen |= work.load(Ordering::Relaxed) != 0;
            }
        } else if sent / ASKED == times {
            return seen;
        } else {
            thread::yield_now();
        }
    }
}

fn model(askers: usize, times: usize) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(2);
    builder.check(move || {
        let cpu = Arc::new(Cpu {
            asked: IpiPending::new(),
            sent: AtomicUsize::new(0),
            work: Default::default(),
        });
        for asker in 0..askers {
            let cpu = cpu.clone();
            thread::spawn(move || (0..times).for_each(|time| ask(&cpu, asker + time)));
        }
        assert_eq!(
            handle(&cpu, askers * times),
            [true; 2],
            "work that nobody comes for"
        );
    });
}

#[test]
fn two_ask_at_once() {
    model(2, 1);
}

#[test]
fn one_asks_again() {
    model(1, 2);
}

/// A sender that is stopped before it has sent its interrupt.
#[test]
fn nobody_relies_on_an_interrupt_that_has_not_been_sent() {
    loom::model(|| {
        let asked = IpiPending::new();
        let (mut others, mut again) = (0, 0);
        asked.request(|| {
            asked.request(|| others += 1);
            asked.request(|| again += 1);
        });
        assert_eq!((others, again), (1, 0));
        asked.acknowledge();
        asked.request(|| again += 1);
        assert_eq!(again, 1, "one that is heard stands for nothing any more");
    });
}
