//! The routine behind `read` from a raw line: `Q_get` of its input queue for a string, directly into the
//! reader's memory.
//!
//! *Interface*: [`Receives`] is the recipe of a [`Composed`](crate::composed::Composed) routine; [`receive`]
//! is the plain twin.
//!
//! Two pages at most go at once, of a queue that holds more: a short read, as from any stream.
//!
//! Guards, each to the slow exit: an empty queue (the slow path waits, returns an error, or reports the end
//! of input), a count of 0, another reader, a kernel address, a fault. If the producer has found the queue
//! full before, `Q_full-1` of the queue is called, or is inlined here.
//!
//! Source: dissertation, sections 3.2.1, 3.2.2 and 4.1.4.

use super::{ByteQueue, Channel, Frame, many};
use crate::catalogue::composed::Recipe;
use crate::kit::assembly::{Assembly, Made, Mover, Ring, Way};
use crate::kit::class::{Holder, Ref};
use crate::kit::emit;
use crate::kit::regs::Regs;
use crate::kit::seam::{DescFn, Seam, Unmade, Variant};
use alloc::sync::Arc;
use codegen::harden::clamp;
use codegen::methods::Reg;
use codegen::{Class, Label, dynasm};
use sync::monitor::RawMonitor;

static CLASS: Class = Class::new("line read");

/// Plain twin of the routine: moves the available bytes. None where the routine takes the slow exit.
pub fn receive(queue: &ByteQueue, turn: &RawMonitor, into: &mut [u8]) -> Option<usize> {
    if into.is_empty() || !turn.try_lock() {
        return None;
    }
    let count = (!queue.is_empty()).then(|| queue.read(into));
    turn.unlock();
    count
}

/// How the routine is made.
pub struct Receives {
    /// The queue.
    pub queue: Ref<ByteQueue>,
    /// The turn that serializes readers.
    pub end: Turn,
    /// The seam that routines are made against.
    pub seam: &'static Seam,
}

/// The means that serializes the parties at an end, and the waiters there.
#[derive(Clone)]
pub enum Turn {
    /// This alone.
    Line(&'static RawMonitor),
    /// The channel's; readers wake who waits for room once half of the queue is free, writers who waits for
    /// bytes.
    Channel(Arc<Channel>),
}

impl Recipe for Receives {
    fn make(&self, holder: Holder) -> Result<Made<DescFn>, Unmade> {
        let (monitor, drained) = match &self.end {
            Turn::Line(monitor) => (*monitor, None),
            Turn::Channel(channel) => (&channel.reading, Some(&channel.drained)),
        };
        let q = self.queue.layout()?;
        let mut a = Assembly::new(&CLASS, "read", Some(holder));
        let frame = Frame::new(&mut a, monitor, self.seam)?;
        frame.look(&mut a);
        dynasm!(a ; .arch x64 ; test rsi, rsi ; js =>frame.leave ; push rcx);
        clamp(&mut a, Reg::Rsi);
        frame.enter(&mut a);
        let way = Way {
            no: frame.unlock,
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
        // it is linked to, and the channel; another monitor stays.
        unsafe { a.seal(Some(Arc::new((self.queue.clone(), self.end.clone())))) }
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
        let [wrap, copied, fault] = core::array::from_fn(|_| a.label());
        dynasm!(a ; .arch x64
            ; mov rdi, rsi
            ; mov esi, [q.tail]
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
            );
            a.fault_begin();
            emit::copy_ecx(a);
            dynasm!(a ; .arch x64
                ; mov ecx, [q.tail]
                ; and ecx, mask
                ; lea ecx, [rcx + rdx - q.size]
                ; mov rsi, q.bytes
            );
            emit::copy_ecx(a);
            a.fault_end(fault);
            dynasm!(a ; .arch x64 ; jmp =>copied ; =>fault);
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
    use crate::catalogue::testing::{
        Ended, Random, UserMemory, call, either, hot_path, leaked, low,
    };
    use crate::kit::class::create;
    use crate::kit::interfacer::link;
    use crate::kit::seam::Conv;
    use abi::nr;

    const SIZE: usize = 64;

    fn queue(several_cpus: bool) -> Ref<ByteQueue> {
        create::<ByteQueue>(Spec {
            producers: Parties::One,
            consumers: Parties::One,
            size: SIZE,
            several_cpus,
            strings: true,
        })
        .unwrap()
    }

    fn composed(
        queue: &Ref<ByteQueue>,
        turn: &'static RawMonitor,
        seam: &'static Seam,
    ) -> Arc<Composed> {
        let composed = Composed::new("test", nr::READ, seam).unwrap();
        let recipe = Receives {
            queue: queue.clone(),
            end: Turn::Line(turn),
            seam,
        };
        composed.follow(Some(Arc::new(recipe))).unwrap();
        composed
    }

    #[test]
    fn the_routine_and_its_twin_give_the_same_bytes() {
        for cpus in [1, 2] {
            let seam = leaked(cpus, Conv::Host);
            let (made, twin) = (queue(cpus > 1), queue(cpus > 1));
            let told = create::<Gauge>(false).unwrap();
            let turn = low(RawMonitor::new());
            link(&made, Q_FULL_1, gauge::count(&told)).unwrap();
            let composed = composed(&made, turn, seam);
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
                    match receive(&twin, &RawMonitor::new(), &mut into) {
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
                assert!(turn.try_lock());
                turn.unlock();
            }
            made.write(b"x");
            turn.lock();
            assert_eq!(call(&routine, [0, user.at(0), 1]), Ended::Slowly(nr::READ));
            turn.unlock();
            assert_eq!(call(&routine, [0, 1 << 63, 1]), Ended::Slowly(nr::READ));
        }
    }

    #[test]
    fn the_hot_path_keeps_its_budget() {
        let seam = leaked(1, Conv::Kernel);
        let (made, turn) = (queue(false), low(RawMonitor::new()));
        let told = create::<Gauge>(false).unwrap();
        link(&made, Q_FULL_1, gauge::count(&told)).unwrap();
        let routine = composed(&made, turn, seam).plugged().unwrap();
        assert!(
            hot_path(&routine) <= either(41, 42),
            "{}",
            hot_path(&routine)
        );
    }
}
