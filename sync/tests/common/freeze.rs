//! One thread stops for ever after the first instruction of an operation, after the second, and so on to its
//! end, and each time the others must get theirs done.
//!
//! *Interface*: [`goes_on`] where nobody may be stuck; [`stops`] for controls that must be caught; [`soon`]
//! tries often enough for whoever is not stuck.

use super::trap::{self, Gate, Plan};
use std::sync::atomic::{AtomicUsize, Ordering};

/// Freezes `victim` at each of its instructions in turn, each time with a fresh object, and sees whether
/// `others` can do what they want. They give false when they are stuck. `after` looks at the object when the
/// victim has gone on. The number of stops, or the first at which the others were stuck.
pub fn stops<X: Sync>(
    make: impl Fn() -> X,
    victim: impl Fn(&X) + Sync,
    others: impl Fn(&X) -> bool,
    after: impl Fn(&X),
) -> Result<u64, u64> {
    static GATES: [Gate; 16] = [const { Gate::new() }; 16];
    static NEXT: AtomicUsize = AtomicUsize::new(0);
    std::thread_local!(static GATE: &'static Gate = &GATES[NEXT.fetch_add(1, Ordering::Relaxed) % 16]);
    super::threads::link();
    let gate = GATE.with(|gate| *gate);
    for at in 1.. {
        let object = make();
        gate.reset();
        let (stopped, good) = std::thread::scope(|s| {
            s.spawn(|| {
                trap::under(Plan::Freeze(at, gate), || victim(&object));
                gate.finished();
            });
            let stopped = gate.stopped();
            let good = others(&object);
            gate.lift();
            (stopped, good)
        });
        after(&object);
        if !good {
            return Err(at);
        }
        if !stopped {
            return Ok(at - 1);
        }
    }
    unreachable!("an operation has an end")
}

/// Nobody is ever stuck.
pub fn goes_on<X: Sync>(
    name: &str,
    make: impl Fn() -> X,
    victim: impl Fn(&X) + Sync,
    others: impl Fn(&X) -> bool,
    after: impl Fn(&X),
) {
    match stops(make, victim, others, after) {
        Ok(stops) => {
            println!("{name}: goes on past {stops} stops");
            assert!(stops > 3, "{name}: the trap flag does not work");
        }
        Err(at) => panic!("{name}: stuck when a peer stops after {at} instructions"),
    }
}

/// Tries often enough for whoever is not stuck.
pub fn soon<T>(mut f: impl FnMut() -> Option<T>) -> Option<T> {
    (0..100).find_map(|_| f())
}
