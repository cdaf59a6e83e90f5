//! Counters' routines against their twins, on the same numbers.
//!
//! *Unsafe*: making routines by hand.

use super::routine::{synthesize_add, synthesize_take};
use super::*;
use crate::catalogue::testing::{Ended, Random, UserMemory, call, env, hot_path, listing, low};
use crate::kit::routine_env::UserAccess;
use crate::threads;
use abi::nr;
use std::sync::atomic::AtomicU32;

struct Pair {
    made: &'static CounterCore,
    twin: CounterCore,
    take: Routine<DescFn>,
    add: Routine<DescFn>,
    user: UserMemory,
}

impl Pair {
    fn new(env: &RoutineEnv, count: u64, single: bool) -> Pair {
        let made = low(CounterCore::new(count, single));
        Pair {
            made,
            twin: CounterCore::new(count, single),
            // SAFETY: the counter is leaked.
            take: unsafe { synthesize_take(made, env).unwrap() },
            // SAFETY: as above.
            add: unsafe { synthesize_add(made, env).unwrap() },
            user: UserMemory::new(4096),
        }
    }

    fn add(&mut self, more: u64) {
        self.user.bytes()[3..11].copy_from_slice(&more.to_le_bytes());
        let ended = call(&self.add, [7, self.user.at(3), 8]);
        let wanted = match more < u64::MAX && self.twin.add(more) {
            true => Ended::With(8),
            false => Ended::Slowly(nr::WRITE),
        };
        assert_eq!(ended, wanted, "add of {more:#x}");
    }

    /// A count with the top bit is left to the twin.
    fn take(&mut self) {
        self.user.bytes().fill(0xa5);
        let large = self.made.count() >> 63 != 0;
        let ended = call(&self.take, [7, self.user.at(5), 8]);
        let taken = if large {
            self.made.take();
            self.twin.take();
            None
        } else {
            self.twin.take()
        };
        let Some(taken) = taken else {
            assert_eq!(ended, Ended::Slowly(nr::READ));
            assert!(self.user.bytes().iter().all(|&byte| byte == 0xa5));
            return;
        };
        assert_eq!(ended, Ended::With(8));
        assert_eq!(self.user.bytes()[5..13], taken.to_le_bytes());
    }
}

#[test]
fn routines_and_twins_count_alike() {
    for cpus in [1, 2] {
        let env = env(cpus, UserAccess::Host);
        for single in [false, true] {
            let mut random = Random::new(cpus as u64);
            let mut pair = Pair::new(&env, 3, single);
            for _ in 0..2000 {
                match random.below(4) {
                    0 => pair.take(),
                    1 => pair.add(random.below(3)),
                    2 => pair.add(u64::MAX - random.below(3)),
                    _ => pair.add(random.next() >> random.below(64)),
                }
                assert_eq!(pair.made.count(), pair.twin.count());
            }
        }
    }
}

#[test]
fn what_is_no_number_goes_the_slow_way() {
    let env = env(2, UserAccess::Host);
    let pair = Pair::new(&env, 3, false);
    let user = pair.user.at(0);
    for arguments in [
        [7, user, 7],
        [7, user, 0],
        [7, 1 << 63, 8],
        [7, pair.user.at(4090), 8],
    ] {
        assert_eq!(call(&pair.take, arguments), Ended::Slowly(nr::READ));
        assert_eq!(call(&pair.add, arguments), Ended::Slowly(nr::WRITE));
    }
    assert_eq!(pair.made.count(), 3);
    assert_eq!(call(&pair.take, [7, user, 100]), Ended::With(8));
}

#[test]
fn who_waits_is_called() {
    static TOKENS: AtomicU32 = AtomicU32::new(0);
    // Other tests wake threads of theirs meanwhile.
    std::thread_local!(static COUNTED: std::cell::Cell<bool> = const { std::cell::Cell::new(false) });
    COUNTED.set(true);
    static COUNTING: sync::callout::Callouts = sync::callout::Callouts {
        current: || match COUNTED.get() {
            true => 8,
            false => (threads::CALLOUTS.current)(),
        },
        resume: |thread| match thread {
            8 => _ = TOKENS.fetch_add(1, Ordering::Relaxed),
            other => (threads::CALLOUTS.resume)(other),
        },
        ..threads::CALLOUTS
    };
    threads::link();
    sync::callout::link(&COUNTING);
    for cpus in [1, 2] {
        TOKENS.store(0, Ordering::Relaxed);
        // The routines call its stubs.
        let env = env(cpus, UserAccess::Host);
        let mut pair = Pair::new(&env, 0, false);
        let node = sync::WaitNode::new();
        assert!(pair.made.expect_count().enroll(&node));
        pair.add(1);
        assert_eq!(TOKENS.load(Ordering::Relaxed), 1);
        assert!(pair.made.expect_room().enroll(&node));
        pair.add(1);
        assert_eq!(TOKENS.load(Ordering::Relaxed), 1);
        pair.take();
        assert_eq!(TOKENS.load(Ordering::Relaxed), 2);
        // A sleeper out of the routine.
        let count = pair.made.replace(0);
        assert_eq!(pair.made.sleeper.sleep(8), Sleep::SUSPEND);
        pair.made.replace(count);
        pair.add(1);
        assert_eq!(TOKENS.load(Ordering::Relaxed), 3);
        // The routine has found nothing, and then something came: its way to sleep looks once more.
        for (then, left) in [(Sleep::AGAIN, 1), (Sleep::SUSPEND, 0)] {
            pair.made.replace(left);
            assert_eq!(pair.made.sleeper.sleep(8), then);
            assert_eq!(pair.made.sleeper.thread(), 8);
            pair.made.sleeper.renew();
        }
        pair.made.replace(pair.twin.count());
    }
    sync::callout::link(&threads::CALLOUTS);
}

/// Another processor may come between a look at the count and its change, unless both are one exchange.
#[test]
fn on_several_processors_a_count_is_exchanged() {
    for cpus in [1, 2] {
        let pair = Pair::new(&env(cpus, UserAccess::Host), 0, false);
        for text in [listing(&pair.take), listing(&pair.add)] {
            assert_eq!(text.matches("lock cmpxchg").count(), cpus - 1, "{text}");
        }
    }
}

#[test]
fn threads_add_and_lose_nothing() {
    const EACH: u64 = 100_000;
    let mut pair = Pair::new(&env(2, UserAccess::Host), 0, false);
    pair.user.bytes()[..8].copy_from_slice(&1u64.to_le_bytes());
    let one = pair.user.at(0);
    let adders: Vec<_> = (0..3)
        .map(|_| {
            let add = pair.add.clone();
            std::thread::spawn(move || {
                (0..EACH).for_each(|_| assert_eq!(call(&add, [1, one, 8]), Ended::With(8)));
            })
        })
        .collect();
    adders.into_iter().for_each(|adder| adder.join().unwrap());
    assert_eq!(pair.made.count(), 3 * EACH);
}

#[test]
fn hot_paths_are_short() {
    let pair = Pair::new(&env(1, UserAccess::Host), 0, false);
    assert!(hot_path(&pair.add) <= 24, "{}", hot_path(&pair.add));
    assert!(hot_path(&pair.take) <= 20, "{}", hot_path(&pair.take));
}
