//! The routine behind `read` from a raw line: `Q_get` of its input queue for a string, directly into the
//! reader's memory.
//!
//! *Interface*: [`RawReadRecipe`] is the recipe of a [`Composed`](crate::composed::Composed) routine;
//! [`receive`] is the reference implementation.
//!
//! Two pages at most go at once, of a queue that holds more: a short read, as from any stream.
//!
//! Guards, each to the slow exit: an empty queue (the slow path waits, returns an error, or reports the end
//! of input), a count of 0, a kernel address, a fault. If the producer has found the queue
//! full before, `Q_full-1` of the queue is called, or is inlined here.
//!
//! Source: dissertation, sections 3.2.1, 3.2.2 and 4.1.4.
//!
//! *Unsafe*: safety contract of the routine.

use super::{ByteQueue, Channel, Frame, Parties, many};
use crate::catalogue::composed::Recipe;
use crate::kit::assembly::{Assembly, Continuation, Made, Mover, Ring};
use crate::kit::class::{Holder, Ref};
use crate::kit::emit;
use crate::kit::regs::Regs;
use crate::kit::routine_env::{DescFn, RoutineEnv, RoutineError};
use crate::kit::variant::Variant;
use alloc::sync::Arc;
use codegen::harden::clamp;
use codegen::idioms::Reg;
use codegen::{Class, Label, dynasm};

static CLASS: Class = Class::new("line read");

/// Reference implementation of the routine: moves the available bytes. None where the routine takes the slow
/// exit.
pub fn receive(queue: &ByteQueue, into: &mut [u8]) -> Option<usize> {
    if into.is_empty() || queue.is_empty() {
        return None;
    }
    Some(queue.read(into)).filter(|count| *count > 0)
}

/// How the routine is made.
pub struct RawReadRecipe {
    /// The queue, for many consumers: any thread that has the descriptor reads.
    pub queue: Ref<ByteQueue>,
    /// The waiters at its ends.
    pub wakes: Wakes,
    /// The routine environment that routines are made against.
    pub env: &'static RoutineEnv,
}

/// The parties that a routine at one end wakes at the other.
#[derive(Clone)]
pub enum Wakes {
    /// None: the handler of the device does that.
    Nobody,
    /// The channel's: readers wake who waits for room once half of the queue is free, writers who waits for
    /// bytes.
    Channel(Arc<Channel>),
}

impl Recipe for RawReadRecipe {
    fn version(&self) -> Option<u32> {
        Some(0)
    }

    fn make(&self, holder: Holder) -> Result<Made<DescFn>, RoutineError> {
        let name = match self.queue.parties() {
            (_, Parties::One) => return Err(RoutineError::BadSpec),
            (Parties::One, Parties::Many) => "read, SP-MC",
            (Parties::Many, Parties::Many) => "read, MP-MC",
        };
        let drained = match &self.wakes {
            Wakes::Nobody => None,
            Wakes::Channel(channel) => Some(&channel.drained),
        };
        let q = self.queue.layout()?;
        let mut a = Assembly::new(&CLASS, name, Some(holder));
        let frame = Frame::new(&mut a, self.env);
        dynasm!(a ; .arch x64 ; test rsi, rsi ; js =>frame.leave ; push rcx);
        clamp(&mut a, Reg::Rsi);
        let way = Continuation {
            no: frame.undo,
            live: KEPT,
        };
        many::get(&mut a, &self.queue, &q, way, &OutOfRing(frame.v));
        if let Some(drained) = drained {
            // Those who wait for room are woken when half of it is free.
            frame.wake(&mut a, drained, |a, over| {
                dynasm!(a ; .arch x64
                    ; mov ecx, [q.head]
                    ; sub ecx, [q.tail]
                    ; cmp ecx, q.size / 2
                    ; ja =>over
                );
            })?;
        }
        frame.end(&mut a, abi::nr::READ);
        // SAFETY: the code above keeps the contract of a descriptor routine. The image keeps the queue, what
        // it is linked to, and the channel.
        unsafe { a.seal(Some(Arc::new((self.queue.clone(), self.wakes.clone())))) }
    }
}

/// The registers that a descriptor routine has to leave alone, without those that its callers save.
pub(crate) const KEPT: Regs = Regs::SYSV.without(Regs::of(&[Reg::Rax, Reg::Rcx]));

/// Moves bytes from a ring into user memory.
struct OutOfRing(Variant);

impl Mover for OutOfRing {
    fn stretch(&self) -> Option<i32> {
        None
    }
    fn emit(&self, a: &mut Assembly, q: &Ring, undo: Label) {
        let guarded = self.0.guarded_user;
        let mask = q.size - 1;
        let [wrap, copied, fault, torn] = core::array::from_fn(|_| a.label());
        dynasm!(a ; .arch x64
            ; xchg rdi, rsi
            ; and esi, mask
            ; lea eax, [rsi + rdx]
            ; add rsi, q.bytes
            ; cmp eax, q.size
        );
        emit::open_user(a, guarded);
        dynasm!(a ; .arch x64 ; ja =>wrap);
        a.fault_begin();
        emit::copy_edx(a);
        a.fault_end(fault);
        dynasm!(a ; .arch x64 ; =>copied);
        emit::close_user(a, guarded);
        a.cold(|a| {
            // eax = end of the read behind the ring's start, which is more than the ring's size.
            dynasm!(a ; .arch x64
                ; =>wrap
                ; mov ecx, edx
                ; sub eax, q.size
                ; sub ecx, eax
                ; push rax
            );
            a.fault_begin();
            emit::copy_ecx(a);
            dynasm!(a ; .arch x64 ; mov ecx, [rsp] ; mov rsi, q.bytes);
            emit::copy_ecx(a);
            a.fault_end(torn);
            // A fault there finds one word more on the stack.
            dynasm!(a ; .arch x64 ; pop rax ; jmp =>copied ; =>torn ; pop rax ; =>fault);
            emit::close_user(a, guarded);
            dynasm!(a ; .arch x64 ; jmp =>undo);
        });
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::catalogue::composed::Composed;
    use crate::catalogue::gauge::{self, Gauge};
    use crate::catalogue::queue::{Parties, Q_FULL_1, Spec};
    use crate::catalogue::testing::{Ended, Random, UserMemory, call, either, hot_path, leaked};
    use crate::kit::class::create;
    use crate::kit::interfacer::link;
    use crate::kit::routine_env::UserAccess;
    use abi::nr;
    use std::sync::atomic::{AtomicUsize, Ordering};

    const SIZE: usize = 64;

    fn queue(several_cpus: bool) -> Ref<ByteQueue> {
        create::<ByteQueue>(Spec {
            producers: Parties::One,
            consumers: Parties::Many,
            size: SIZE,
            several_cpus,
            strings: true,
        })
        .unwrap()
    }

    fn composed(queue: &Ref<ByteQueue>, env: &'static RoutineEnv) -> Arc<Composed> {
        let composed = Composed::new("test", nr::READ, env).unwrap();
        let recipe = RawReadRecipe {
            queue: queue.clone(),
            wakes: Wakes::Nobody,
            env,
        };
        composed.follow(Some(Arc::new(recipe))).unwrap();
        composed
    }

    #[test]
    fn the_routine_and_its_twin_give_the_same_bytes() {
        for cpus in [1, 2] {
            let env = leaked(cpus, UserAccess::Host);
            let (made, twin) = (queue(cpus > 1), queue(cpus > 1));
            let told = create::<Gauge>(false).unwrap();
            link(&made, Q_FULL_1, gauge::count(&told)).unwrap();
            let composed = composed(&made, env);
            let routine = composed.plugged().unwrap();
            let mut user = UserMemory::new(4096);
            let mut random = Random::new(cpus as u64);
            let (mut full, mut wanted) = (false, 0);
            for _ in 0..4000 {
                let count = random.below(40) as usize;
                let bytes = random.bytes(count);
                let fits = made.write(&bytes);
                assert_eq!(twin.write(&bytes), fits);
                full |= fits < bytes.len();
                // Some of the reads end at an inaccessible page.
                let count = random.below(50) as usize;
                let at = match random.below(4) {
                    0 => 4096 - random.below(60) as usize,
                    _ => random.below(100) as usize,
                };
                user.bytes().fill(0xa5);
                let mut expected = vec![0xa5; 4096];
                let moved = count.min(twin.len());
                let result = if at + moved > 4096 {
                    Ended::Slowly(nr::READ)
                } else {
                    let mut into = vec![0; count];
                    match receive(&twin, &mut into) {
                        Some(got) => {
                            expected[at..at + got].copy_from_slice(&into[..got]);
                            wanted += u64::from(core::mem::take(&mut full));
                            Ended::With(got as isize)
                        }
                        None => Ended::Slowly(nr::READ),
                    }
                };
                let ended = call(&routine, [0, user.at(at), count as u64]);
                assert_eq!(ended, result, "{count} bytes to {at}");
                if result != Ended::Slowly(nr::READ) {
                    assert!(user.bytes() == expected);
                }
                assert_eq!((made.len(), told.read()), (twin.len(), wanted));
            }
            made.write(b"x");
            assert_eq!(call(&routine, [0, 1 << 63, 1]), Ended::Slowly(nr::READ));
        }
    }

    /// Each of several readers gets bytes that stood next to each other, and all together get all.
    #[test]
    fn reads_of_several_threads_lose_and_double_nothing() {
        const BYTES: usize = 200_000;
        let env = leaked(2, UserAccess::Host);
        let made = queue(true);
        let composed = composed(&made, env);
        let routine = composed.plugged().unwrap();
        let left = AtomicUsize::new(BYTES);
        let seen = [const { AtomicUsize::new(0) }; 256];
        std::thread::scope(|s| {
            for reader in 0..3 {
                let (routine, made, left, seen) = (routine.clone(), &made, &left, &seen);
                s.spawn(move || {
                    let mut user = UserMemory::new(4096);
                    while left.load(Ordering::Relaxed) > 0 {
                        // One of them comes as the slow path does.
                        let count = match reader {
                            0 => made.read(&mut user.bytes()[..23]),
                            _ => match call(&routine, [0, user.at(0), 23]) {
                                Ended::With(count) => count as usize,
                                Ended::Slowly(_) => 0,
                            },
                        };
                        let got = &user.bytes()[..count];
                        for two in got.windows(2) {
                            assert_eq!(two[1], two[0].wrapping_add(1));
                        }
                        for byte in got {
                            seen[usize::from(*byte)].fetch_add(1, Ordering::Relaxed);
                        }
                        left.fetch_sub(count, Ordering::Relaxed);
                        if count == 0 {
                            std::thread::yield_now();
                        }
                    }
                });
            }
            let text: Vec<u8> = (0..BYTES).map(|n| n as u8).collect();
            let mut put = 0;
            while put < BYTES {
                match made.write(&text[put..(put + 40).min(BYTES)]) {
                    0 => std::thread::yield_now(),
                    count => put += count,
                }
            }
        });
        for (byte, count) in seen.iter().enumerate() {
            let wanted = BYTES / 256 + usize::from(byte < BYTES % 256);
            assert_eq!(count.load(Ordering::Relaxed), wanted, "{byte}");
        }
    }

    #[test]
    fn the_hot_path_keeps_its_budget() {
        let env = leaked(1, UserAccess::Kernel);
        let made = queue(false);
        let told = create::<Gauge>(false).unwrap();
        link(&made, Q_FULL_1, gauge::count(&told)).unwrap();
        let routine = composed(&made, env).plugged().unwrap();
        assert!(
            hot_path(&routine) <= either(40, 41),
            "{}",
            hot_path(&routine)
        );
    }
}
