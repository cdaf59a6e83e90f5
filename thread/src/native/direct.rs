//! Operations on other threads of the caller's process, directly from the dispatcher.
//!
//! *Interface*: [`entry`], for the dispatcher's leaf of [`native::CALL`]. It keeps the contract of a
//! descriptor routine: rdi is the operation, rsi the thread's handle, rdx and r10 further arguments, all
//! registers but rax are preserved, interrupts stay off. [`link_invoke`] at boot.
//!
//! Operations that only mark another thread of the same process are done here: a few exchanges of its state
//! word, and no trap frame. The call of a quaject's callentry goes to code that is linked.
//! Others (on the caller itself, on another process, or with a sleep) take the slow path, where ordinary Rust
//! does the whole call.
//! Source: dissertation, sections 3.3.4 and 5.3.2.

use crate::ring::per_cpu::here;
use crate::tte::by_handle;
use crate::tte::signal::Refused;
use abi::Errno;
use abi::native;
use core::ops::RangeInclusive;
use core::sync::atomic::{AtomicUsize, Ordering};

/// The code address.
pub fn entry() -> usize {
    #[cfg(target_os = "none")]
    {
        bare::enter as *const () as usize
    }
    #[cfg(not(target_os = "none"))]
    0
}

/// The address of the code that calls a quaject's callentry.
static INVOKE: AtomicUsize = AtomicUsize::new(0);

/// Links the code for [`native::INVOKE`], before the first program: entered by a jump at any depth of the
/// kernel stack, all else as at [`entry`].
pub fn link_invoke(entry: usize) {
    INVOKE.store(entry, Ordering::Relaxed);
}

/// The operations that name a thread.
const NAMING: RangeInclusive<usize> = native::DESTROY..=native::STATE;

/// Not an answer: the call is made again the slow way.
#[cfg_attr(not(target_os = "none"), allow(dead_code))]
const SLOW: i32 = i32::MIN;

/// With interrupts off.
#[cfg_attr(not(target_os = "none"), allow(dead_code))]
extern "C" fn operate(operation: usize, handle: u64, argument: usize) -> i64 {
    let slow = i64::from(SLOW);
    if handle == 0 || !NAMING.contains(&operation) {
        return slow;
    }
    let (_, _, me) = here();
    let Some(thread) = by_handle(handle) else {
        return Errno::ESRCH.to_rax() as i64;
    };
    // A thread with a tag belongs to a process; it is not a kernel thread.
    let tag = me.tag() >> 32;
    if tag == 0 || thread.tag() >> 32 != tag || me.is(&thread) {
        return slow;
    }
    match operation {
        native::DESTROY => thread.kill(),
        native::STATE => return i64::from(thread.shown_state()),
        native::SUSPEND => thread.hold(),
        native::RESUME => thread.release(),
        native::STOP => thread.stop(),
        native::SIGNAL => {
            let Some(procedure) = thread.signals.get(argument) else {
                return Errno::EINVAL.to_rax() as i64;
            };
            if let Err(Refused) = thread.interrupt(procedure) {
                return Errno::EAGAIN.to_rax() as i64;
            }
        }
        native::NOTIFY if argument < native::EVENTS => thread.notify(argument as u32),
        _ => return slow,
    }
    0
}

#[cfg(target_os = "none")]
mod bare {
    use super::{INVOKE, SLOW, operate};
    use crate::switch::caller_saved::{pop_scratch, push_scratch};
    use crate::switch::yielding::slow;

    #[unsafe(naked)]
    pub(super) unsafe extern "C" fn enter() {
        core::arch::naked_asm!(
            "cmp edi, {operation}",
            "je 3f",
            push_scratch!(),
            // Aligned for a call: the stack base is, and the dispatcher's call is nine words above.
            "push rax",
            "call {operate}",
            "add rsp, 8",
            pop_scratch!(),
            "cmp rax, {not_here}",
            "je 2f",
            "ret",
            "2:",
            "mov eax, {number}",
            "jmp {slow}",
            "3:",
            "jmp qword ptr [{invoke}]",
            operation = const abi::native::INVOKE,
            invoke = sym INVOKE,
            operate = sym operate,
            not_here = const SLOW,
            number = const abi::native::CALL,
            slow = sym slow,
        )
    }
}
