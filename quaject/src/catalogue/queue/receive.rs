//! The routine behind `read` from a raw line: `Q_get` of its input queue for a string, directly into the
//! reader's memory.
//!
//! *Interface*: [`receiver`], or [`synthesize_receive`] for a queue that the caller keeps; [`receive`] is the
//! plain twin.
//!
//! Two pages at most go at once, of a queue that holds more: a short read, as from any stream.
//!
//! Guards, each to the slow exit: an empty queue (the slow path waits, returns an error, or reports the end
//! of input), a count of 0, another reader, a kernel address, a fault. If the producer has found the queue
//! full before, `Q_full-1` of the queue is called, or is inlined here.
//!
//! Source: dissertation, sections 3.2.1, 3.2.2 and 4.1.4.

use super::{ByteQueue, Q_FULL_1, Told};
use crate::kit::class::Ref;
use crate::kit::emit;
use crate::kit::interfacer::place;
use crate::kit::regs::Regs;
use crate::kit::seam::{DescFn, Seam, Sharing, Unmade, near};
use alloc::sync::Arc;
use codegen::harden::clamp;
use codegen::methods::Reg;
use codegen::{Class, Draft, Hole, Routine, dynasm};
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

/// The routine behind `read` for a queue that it keeps alive; `turn` serializes readers, and never goes away.
///
/// # Errors
/// [`Unmade`].
pub fn receiver(
    queue: &Ref<ByteQueue>,
    turn: &'static RawMonitor,
    seam: &Seam,
) -> Result<Routine<DescFn>, Unmade> {
    let room = queue.linked(Q_FULL_1);
    let told = Told::Linked(room.as_deref());
    // SAFETY: the image keeps the queue and what it is linked to; the monitor stays.
    let routine = unsafe { synthesize_receive(queue, turn, told, seam)? };
    Ok(routine.keeping(Arc::new((queue.clone(), room))))
}

/// The routine behind `read` for a queue. It notifies `told`: the target of `Q_full-1`, which does not sleep,
/// or the threads that wait for room, once half of the queue is free.
///
/// # Errors
/// [`Unmade`].
///
/// # Safety
/// Queue, monitor, callentry and list stay in place until a grace period after the last handle to the routine
/// is gone.
pub unsafe fn synthesize_receive(
    queue: &ByteQueue,
    turn: &RawMonitor,
    told: Told,
    seam: &Seam,
) -> Result<Routine<DescFn>, Unmade> {
    let q = queue.layout()?;
    // The monitor's word is its first field.
    let turn = near(turn)? as i32;
    let v = seam.variant(Sharing::Shared);
    let slow = Hole::value(seam.slow() as i64);
    let wake_next = Hole::value(seam.wake_next.entry() as i64);
    let mask = q.size - 1;
    let mut draft = Draft::new(&CLASS, "read");
    let d = &mut draft;
    let [leave, unlock, fault, tell, over] = core::array::from_fn(|_| d.label());

    emit::look(d, v, turn, leave);
    dynasm!(d ; .arch x64 ; test rsi, rsi ; js =>leave ; push rcx);
    clamp(d, Reg::Rsi);
    emit::enter(d, v, turn, leave);
    dynasm!(d ; .arch x64
        ; mov rax, [q.head]
        ; sub rax, [q.tail]
        ; je =>unlock
        ; test rdx, rdx
        ; jz =>unlock
        ; push rdx
        ; push rsi
        ; push rdi
        ; cmp rdx, rax
        ; cmova rdx, rax
    );
    if q.size > emit::MOST {
        // The rest with the next call: interrupts are off meanwhile.
        dynasm!(d ; .arch x64 ; mov eax, emit::MOST ; cmp rdx, rax ; cmova rdx, rax);
    }
    dynasm!(d ; .arch x64
        ; mov rdi, rsi
        ; mov esi, [q.tail]
        ; and esi, mask
        ; lea eax, [rsi + rdx]
        ; add rsi, q.bytes
        ; cmp eax, q.size
    );
    emit::open_user(d, v.guarded_user);
    dynasm!(d ; .arch x64 ; ja >wrap);
    d.fault_begin();
    emit::copy_edx(d);
    d.fault_end(fault);
    dynasm!(d ; .arch x64 ; copied:);
    emit::close_user(d, v.guarded_user);
    if v.several_cpus {
        // Also orders the look at `put_failed` after it.
        dynasm!(d ; .arch x64 ; lock add [q.tail], rdx);
    } else {
        dynasm!(d ; .arch x64 ; add [q.tail], rdx);
    }
    dynasm!(d ; .arch x64 ; mov rax, rdx);
    let waiters = told.look(d, q.put_failed, tell)?;
    dynasm!(d ; .arch x64
        ; =>over
        ; pop rdi
        ; pop rsi
        ; pop rdx
    );
    emit::give(d, v, turn, wake_next);
    dynasm!(d ; .arch x64 ; pop rcx ; ret ; =>tell);
    match told {
        // Q_full-1, once for each time that the producer found no room.
        Told::Linked(not_full) => {
            dynasm!(d ; .arch x64
                ; xor ecx, ecx
                ; xchg [q.put_failed], rcx
                ; test ecx, ecx
                ; jz =>over
            );
            if let Some(target) = not_full {
                let live = Regs::of(&[Reg::Rax, Reg::R8, Reg::R9, Reg::R10, Reg::R11]);
                place(d, target, live, &[]);
            }
        }
        Told::Waiters(_) => {
            dynasm!(d ; .arch x64
                ; mov ecx, [q.head]
                ; sub ecx, [q.tail]
                ; cmp ecx, q.size / 2
                ; ja =>over
                ; push rax
            );
            emit::wake_waiters(d, waiters, seam);
            dynasm!(d ; .arch x64 ; pop rax);
        }
    }
    // eax = end of the read behind the ring's start, which is more than the ring's size.
    dynasm!(d ; .arch x64
        ; jmp =>over
        ; wrap:
        ; mov ecx, edx
        ; sub eax, q.size
        ; sub ecx, eax
    );
    d.fault_begin();
    emit::copy_ecx(d);
    dynasm!(d ; .arch x64
        ; mov ecx, [q.tail]
        ; and ecx, mask
        ; lea ecx, [rcx + rdx - q.size]
        ; mov rsi, q.bytes
    );
    emit::copy_ecx(d);
    d.fault_end(fault);
    dynasm!(d ; .arch x64 ; jmp <copied ; =>fault);
    emit::close_user(d, v.guarded_user);
    dynasm!(d ; .arch x64 ; pop rdi ; pop rsi ; pop rdx ; =>unlock);
    emit::give(d, v, turn, wake_next);
    dynasm!(d ; .arch x64 ; pop rcx ; =>leave);
    emit::leave_slowly(d, abi::nr::READ, slow);
    // SAFETY: the code above keeps the contract of a descriptor routine, on the caller's promise.
    Ok(unsafe { Routine::from(draft.seal()?) })
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::catalogue::gauge::{self, Gauge};
    use crate::catalogue::queue::{Parties, Spec};
    use crate::catalogue::testing::{Ended, Random, UserMemory, call, either, hot_path, low, seam};
    use crate::kit::class::create;
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

    #[test]
    fn the_routine_and_its_twin_give_the_same_bytes() {
        for cpus in [1, 2] {
            let seam = seam(cpus, Conv::Host);
            let (made, twin) = (queue(cpus > 1), queue(cpus > 1));
            let told = create::<Gauge>(false).unwrap();
            let turn = low(RawMonitor::new());
            let place = gauge::count(&told);
            // SAFETY: everything lives to the end of the test.
            let routine =
                unsafe { synthesize_receive(&made, turn, Told::Linked(Some(&*place)), &seam) }
                    .unwrap();
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
        let seam = seam(1, Conv::Kernel);
        let (made, turn) = (queue(false), low(RawMonitor::new()));
        // SAFETY: never called.
        let routine =
            unsafe { synthesize_receive(&made, turn, Told::Linked(None), &seam) }.unwrap();
        assert!(
            hot_path(&routine) <= either(41, 42),
            "{}",
            hot_path(&routine)
        );
    }
}
