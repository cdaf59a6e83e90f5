//! Common code of the tests of a pipe's routines: two queues, one for routines and one for their twins, which
//! get the same calls.
//!
//! *Unsafe*: making routines by hand.

use super::*;
use crate::catalogue::testing::{Ended, Random, UserMemory, call, env, low, low_block};
use crate::kit::routine_env::UserAccess;
use abi::nr;

/// A queue over a ring of `N` bytes, which is leaked.
pub(super) fn queue<const N: usize>() -> &'static PipeCore {
    let ring = NonNull::from(low_block::<N>()).cast();
    // SAFETY: the ring is leaked.
    low(unsafe { PipeCore::lent(ring, N) })
}

/// The contents of a queue.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Load {
    Bytes,
    Messages,
}

/// The same queue twice.
pub(super) struct Pair {
    pub made: &'static PipeCore,
    pub twin: &'static PipeCore,
    pub read: Routine<DescFn>,
    pub write: Routine<DescFn>,
    pub user: UserMemory,
    /// Bytes of it.
    pub room: usize,
    sharing: Sharing,
    load: Load,
}

impl Pair {
    /// The routine that also tells the sender.
    pub fn reader_from(&self, env: &RoutineEnv, name: [u8; NAME]) -> Routine<DescFn> {
        // SAFETY: the queue is leaked, and this thread is the only one.
        let routine = unsafe {
            synthesize_receive_from(self.made, env, self.sharing, Patience::Impatient, name)
        };
        routine.unwrap()
    }

    pub fn new<const N: usize>(load: Load, env: &RoutineEnv, sharing: Sharing) -> Pair {
        let (made, patience) = (queue::<N>(), Patience::Patient);
        let room = match load {
            Load::Bytes => 2 * RING,
            Load::Messages => MESSAGES,
        };
        // SAFETY: the queue is leaked, and this thread is the only one.
        let (read, write) = unsafe {
            match load {
                Load::Bytes => (
                    synthesize_read(made, env, sharing, patience),
                    synthesize_write(made, env, sharing),
                ),
                Load::Messages => (
                    synthesize_receive(made, env, sharing, patience),
                    synthesize_send(made, env, sharing),
                ),
            }
        };
        Pair {
            made,
            twin: queue::<N>(),
            read: read.unwrap(),
            write: write.unwrap(),
            user: UserMemory::new(room),
            room,
            sharing,
            load,
        }
    }

    pub fn write(&mut self, at: usize, bytes: &[u8]) -> Ended {
        self.user.bytes()[at..at + bytes.len()].copy_from_slice(bytes);
        let count = bytes.len();
        let ended = call(&self.write, [7, self.user.at(at), count as u64]);
        let wanted = match self.load {
            Load::Bytes => self.twin.write(self.sharing, bytes),
            Load::Messages => self.twin.send_message(self.sharing, bytes),
        };
        assert_eq!(ended, expected(wanted, nr::WRITE), "write of {count}");
        ended
    }

    pub fn read(&mut self, at: usize, count: usize) -> Ended {
        self.user.bytes().fill(0xa5);
        let ended = call(&self.read, [7, self.user.at(at), count as u64]);
        let mut wanted = vec![0xa5; self.room];
        let into = &mut wanted[at..at + count];
        let result = match self.load {
            Load::Bytes => self.twin.read(self.sharing, into),
            Load::Messages => self.twin.receive_message(self.sharing, into),
        };
        assert_eq!(ended, expected(result, nr::READ), "read of {count}");
        assert!(
            self.user.bytes() == wanted,
            "read of {count} moved other bytes"
        );
        ended
    }

    /// Both have the expected state.
    pub fn agree(&self) {
        assert_eq!(self.made.available(), self.twin.available());
        assert_eq!(
            self.made.tail.tail.load(Ordering::Relaxed),
            self.twin.tail.tail.load(Ordering::Relaxed)
        );
    }

    /// `calls` reads and writes at random, each of as many bytes as `count` says.
    pub fn traffic(&mut self, calls: usize, seed: u64, count: impl Fn(&mut Random) -> u64) {
        let mut random = Random::new(seed);
        for _ in 0..calls {
            let count = count(&mut random) as usize;
            let at = random.below(64) as usize;
            if random.below(2) == 0 {
                let bytes = random.bytes(count);
                self.write(at, &bytes);
            } else {
                self.read(at, count);
            }
            self.agree();
        }
    }

    /// Reading leaves by the slow exit.
    pub fn reads_slowly(&self, address: u64, count: u64) {
        let ended = call(&self.read, [0, address, count]);
        assert_eq!(ended, Ended::Slowly(nr::READ), "{address:#x}, {count}");
    }

    /// Writing leaves by the slow exit.
    pub fn writes_slowly(&self, address: u64, count: u64) {
        let ended = call(&self.write, [0, address, count]);
        assert_eq!(ended, Ended::Slowly(nr::WRITE), "{address:#x}, {count}");
    }

    /// Both do.
    pub fn leaves_slowly(&self, address: u64, count: u64) {
        self.reads_slowly(address, count);
        self.writes_slowly(address, count);
    }
}

fn expected(result: Option<usize>, number: usize) -> Ended {
    result.map_or(Ended::Slowly(number), |count| Ended::With(count as isize))
}

/// On one CPU and on several, each exclusive and shared.
pub(super) fn every_variant(mut check: impl FnMut(&RoutineEnv, Sharing)) {
    for cpus in [1, 2] {
        let env = env(cpus, UserAccess::Host);
        check(&env, Sharing::Exclusive);
        check(&env, Sharing::Shared);
    }
}
