//! Every interleaving of two CPUs that send a thread to each other, checked with loom: each knows for
//! certain whether the thread is in its own ring. With two words, "in a ring" and its home, this fails.

mod primitive {
    pub use loom::sync::atomic::{AtomicU8, Ordering};
    macro_rules! constructor {
        ($(#[$attribute:meta])* pub fn $name:ident() -> $result:ty $body:block) => {
            pub fn $name() -> $result $body
        };
    }
    pub(crate) use constructor;
}
#[path = "../src/tte/membership.rs"]
mod membership;

use loom::sync::Arc;
use loom::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use loom::thread;
use membership::{Membership, Ring};

/// Steps of each CPU.
const STEPS: usize = 3;

struct World {
    membership: Membership,
    /// The thread's home.
    home: AtomicUsize,
    /// Whether it is on its way to each CPU.
    inbox: [AtomicBool; 2],
}

/// The steps of CPU number `cpu`, which has the thread in its ring at the beginning if it `holds` it.
fn run(world: &World, cpu: usize, mut holds: bool) {
    let (ring, other) = (Ring::of_cpu(cpu), 1 - cpu);
    for _ in 0..STEPS {
        assert_eq!(world.membership.is_of(ring), holds, "seen by CPU {cpu}");
        let found = world.membership.is_some() && world.membership.ring() == Some(ring);
        assert_eq!(found, holds, "found by CPU {cpu}");
        if holds {
            world.membership.leave();
            world.home.store(other, Ordering::Relaxed);
            world.inbox[other].store(true, Ordering::Release);
            holds = false;
        } else if world.inbox[cpu].swap(false, Ordering::Acquire) {
            world.membership.enter(ring);
            holds = true;
        }
    }
}

#[test]
fn a_cpu_knows_its_own_members() {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(4);
    builder.check(|| {
        let world = Arc::new(World {
            membership: Membership::none(),
            home: AtomicUsize::new(0),
            inbox: [AtomicBool::new(false), AtomicBool::new(false)],
        });
        world.membership.enter(Ring::of_cpu(0));
        let there = {
            let world = world.clone();
            thread::spawn(move || run(&world, 1, false))
        };
        run(&world, 0, true);
        there.join().unwrap();
    });
}
