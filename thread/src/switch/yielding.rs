//! Yielding directly from the dispatcher: `sched_yield` while another thread is ready.
//!
//! *Interface*: [`over`], for the switch code: entered by a jump with the user's stack pointer in the stack
//! base, rsp at the stack base, interrupts off, the user's registers in place but rax; [`left_alone`], for
//! the timer; `slow`, the machine's slow entry.
//!
//! A thread's switch code has two sets of entries (`switch/mod.rs`), and a thread is in one of two *ways*. In
//! the ordinary way its `sw_in` words lead to the set that returns to a caller in the kernel; in the yielding
//! way they lead to the set that loads the user's registers and returns to user mode. The first `sched_yield`
//! changes to the yielding way, and the first switch-out of another kind changes back. Both reach the other
//! way's code through the word that they jump through anyway, so neither way costs the other an instruction.
//! A change updates the one link in the ring that leads to the thread. A program that only yields, or never
//! yields, changes once.
//!
//! Only the ordinary way checks whether another thread is ready. A thread that is left alone in the yielding
//! way switches to itself until the timer's next interrupt, within four quanta, which finds it alone and
//! changes it back.
//! Source: dissertation, sections 3.3.2 (a synchronous switch preserves only what it must; links lead to what
//! the next thread needs) and 5.3.1.

use crate::ring::per_cpu::here;
use crate::tte::code::{SwOut, SwitchCode};
use crate::tte::{Tte, URGENT};
use core::sync::atomic::Ordering;
use machine::cpu::Cpu;

/// The code address of the way over.
pub(crate) fn over() -> usize {
    #[cfg(target_os = "none")]
    {
        bare::over as *const () as usize
    }
    #[cfg(not(target_os = "none"))]
    0
}

/// The running thread, which is in its ring and in the ordinary way, changes over to the yielding one. With
/// interrupts off.
#[cfg_attr(not(target_os = "none"), allow(dead_code))]
extern "C" fn change_over() {
    let (_, _, me) = here();
    if me.level.load(Ordering::Relaxed) == URGENT {
        return;
    }
    // SAFETY: the thread itself with interrupts off.
    let Some(code) = (unsafe { &me.parts().switch }) else {
        return;
    };
    to_yielding(me, code);
}

pub(crate) fn to_yielding(me: &Tte, code: &SwitchCode) {
    change(me, [code.yield_in(), code.yield_in_mm()]);
    me.sw_out
        .store(change_back as *const () as usize, Ordering::Relaxed);
    me.yielding.store(code.yield_out(), Ordering::Relaxed);
}

/// No other thread is ready: `me`, the running thread, changes to the ordinary way, where it need not switch.
/// With interrupts off.
#[inline]
pub(crate) fn left_alone(me: &Tte) {
    if me.sw_out.load(Ordering::Relaxed) == change_back as *const () as usize
        // SAFETY: the thread itself, interrupted, with interrupts off.
        && let Some(code) = unsafe { &me.parts().switch }
    {
        to_ordinary(me, code);
    }
}

/// A [`SwOut`] for a thread in the yielding way: back to the ordinary one, and out.
extern "C" fn change_back(cpu: &Cpu) {
    let (_, _, me) = here();
    // SAFETY: the thread itself with interrupts off.
    let Some(code) = (unsafe { &me.parts().switch }) else {
        unreachable!("a thread that runs has switch code")
    };
    to_ordinary(me, code);
    // SAFETY: the code's `sw_out` keeps that contract, and this is the running thread's.
    let sw_out = unsafe { core::mem::transmute::<usize, SwOut>(code.sw_out()) };
    sw_out(cpu);
}

#[inline(never)]
pub(crate) fn to_ordinary(me: &Tte, code: &SwitchCode) {
    change(me, [code.sw_in(), code.sw_in_mm()]);
    me.sw_out.store(code.sw_out(), Ordering::Relaxed);
    me.yielding.store(code.yield_first(), Ordering::Relaxed);
}

/// Redirects the link that leads to `me`, the running thread, to its new entries. Its own link stays: the
/// caller has set it for this moment, and it leads to another thread.
fn change(me: &Tte, [sw_in, sw_in_mm]: [usize; 2]) {
    let former = me.sw_in.swap(sw_in, Ordering::Relaxed);
    let former_mm = me.sw_in_mm.swap(sw_in_mm, Ordering::Relaxed);
    if !me.on_ring.is_some() {
        return;
    }
    // SAFETY: ring pointers lead to entries, which are never unmapped.
    let previous = unsafe { &*me.prev.load(Ordering::Relaxed) };
    let link = previous.link.load(Ordering::Relaxed);
    if link == former {
        previous.link.store(sw_in, Ordering::Relaxed);
    } else if link == former_mm {
        previous.link.store(sw_in_mm, Ordering::Relaxed);
    }
}

#[cfg(target_os = "none")]
pub(crate) use bare::slow;

#[cfg(target_os = "none")]
mod bare {
    use super::change_over;
    use crate::switch::caller_saved::{pop_scratch, push_scratch};
    use crate::tte::{Tte, URGENT};
    use core::mem::offset_of;
    use machine::cpu::StackBase;

    #[unsafe(naked)]
    pub(super) unsafe extern "C" fn over() {
        core::arch::naked_asm!(
            push_scratch!(),
            "call {change_over}",
            pop_scratch!(),
            "mov rax, [rsp + {tte}]",
            "cmp byte ptr [rax + {level}], {urgent}",
            "je 2f",
            "mov rsp, [rsp + {user_rsp}]",
            "jmp [rax + {yielding}]",
            // Which of several urgent threads is next is no matter of the rings alone.
            "2: mov eax, {call}",
            "jmp qword ptr [{slow}]",
            change_over = sym change_over,
            tte = const StackBase::TTE,
            user_rsp = const StackBase::USER_RSP,
            yielding = const offset_of!(Tte, yielding),
            level = const offset_of!(Tte, level),
            urgent = const URGENT,
            call = const abi::nr::SCHED_YIELD,
            slow = sym SLOW,
        )
    }

    /// Jumps to the machine's slow entry.
    #[unsafe(naked)]
    pub(crate) unsafe extern "C" fn slow() {
        core::arch::naked_asm!("jmp qword ptr [{entry}]", entry = sym SLOW)
    }

    /// Address of the machine's slow entry; set by `init`.
    static SLOW: core::sync::atomic::AtomicUsize = core::sync::atomic::AtomicUsize::new(0);

    pub(super) fn init() {
        SLOW.store(
            machine::trap::syscall_slow(),
            core::sync::atomic::Ordering::Relaxed,
        );
    }
}

/// Once, before the first dispatcher.
pub(crate) fn init() {
    #[cfg(target_os = "none")]
    bare::init();
}
