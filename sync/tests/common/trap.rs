//! Events between two instructions of an operation on the host: nothing, a yield, or a stop until it is
//! lifted.
//!
//! *Interface*: [`under`] runs a closure under a [`Plan`]; a [`Gate`] tells others that the thread has
//! stopped, and lifts that. The processor's trap flag makes every instruction end in SIGTRAP, whose handler
//! counts and does what is planned.

use std::cell::Cell;
use std::sync::Once;
use std::sync::atomic::{AtomicU32, Ordering};

/// The treatment of an operation.
#[derive(Clone, Copy)]
pub enum Plan {
    /// Stop after so many instructions.
    Freeze(u64, &'static Gate),
    /// Yield after every instruction whose random number is divisible by the first, from the second as seed.
    Yield(u64, u64),
}

/// Where a thread stops.
pub struct Gate {
    /// 0: running; 1: stopped; 2: has finished the operation.
    state: AtomicU32,
    lifted: AtomicU32,
}

impl Gate {
    pub const fn new() -> Gate {
        Gate {
            state: AtomicU32::new(0),
            lifted: AtomicU32::new(0),
        }
    }

    fn set(word: &AtomicU32, value: u32) {
        word.store(value, Ordering::SeqCst);
        // SAFETY: a wake-up of all who wait for this word.
        unsafe { libc::syscall(libc::SYS_futex, word.as_ptr(), libc::FUTEX_WAKE, i32::MAX) };
    }

    fn wait(word: &AtomicU32) -> u32 {
        loop {
            match word.load(Ordering::SeqCst) {
                // SAFETY: waits as long as the word is 0.
                0 => unsafe {
                    libc::syscall(
                        libc::SYS_futex,
                        word.as_ptr(),
                        libc::FUTEX_WAIT,
                        0,
                        std::ptr::null::<libc::timespec>(),
                    );
                },
                value => return value,
            }
        }
    }

    /// Waits until the thread has stopped (true) or finished its operation (false).
    pub fn stopped(&self) -> bool {
        Gate::wait(&self.state) == 1
    }

    /// The operation is over.
    pub fn finished(&self) {
        Gate::set(&self.state, 2);
    }

    /// Lets the thread go on.
    pub fn lift(&self) {
        Gate::set(&self.lifted, 1);
    }

    /// Ready for the next.
    pub fn reset(&self) {
        self.state.store(0, Ordering::SeqCst);
        self.lifted.store(0, Ordering::SeqCst);
    }
}

thread_local! {
    static PLAN: Cell<Option<Plan>> = const { Cell::new(None) };
    static STEPS: Cell<u64> = const { Cell::new(0) };
}

const TRAP: i64 = 0x100;

extern "C" fn on_trap(_: i32, _: *mut libc::siginfo_t, context: *mut libc::c_void) {
    let step = STEPS.get() + 1;
    STEPS.set(step);
    match PLAN.get() {
        None => {
            // SAFETY: the kernel's context of this signal.
            let context = unsafe { &mut *context.cast::<libc::ucontext_t>() };
            context.uc_mcontext.gregs[libc::REG_EFL as usize] &= !TRAP;
        }
        Some(Plan::Freeze(at, gate)) if step == at => {
            Gate::set(&gate.state, 1);
            Gate::wait(&gate.lifted);
            PLAN.set(None);
        }
        Some(Plan::Yield(one_in, seed)) => {
            // SplitMix64.
            let mut z = seed.wrapping_add(step.wrapping_mul(0x9e37_79b9_7f4a_7c15));
            z = (z ^ z >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
            z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
            if (z ^ z >> 31).is_multiple_of(one_in) {
                // SAFETY: no memory involved.
                unsafe { libc::sched_yield() };
            }
        }
        Some(_) => {}
    }
}

/// Runs `f` under `plan`; how many instructions that took, as far as they were counted.
pub fn under<R>(plan: Plan, f: impl FnOnce() -> R) -> (R, u64) {
    static INSTALL: Once = Once::new();
    INSTALL.call_once(|| {
        // SAFETY: a handler that touches its own thread's variables, atomics and system calls only.
        unsafe {
            let mut action: libc::sigaction = std::mem::zeroed();
            action.sa_sigaction = on_trap as *const () as usize;
            action.sa_flags = libc::SA_SIGINFO | libc::SA_RESTART;
            assert_eq!(
                libc::sigaction(libc::SIGTRAP, &action, std::ptr::null_mut()),
                0
            );
        }
    });
    STEPS.set(0);
    PLAN.set(Some(plan));
    // SAFETY: sets the trap flag; from the next instruction but one each ends in the handler.
    unsafe { std::arch::asm!("pushfq", "or qword ptr [rsp], 0x100", "popfq") };
    let result = f();
    // SAFETY: clears the trap flag.
    unsafe { std::arch::asm!("pushfq", "and qword ptr [rsp], ~0x100", "popfq") };
    PLAN.set(None);
    (result, STEPS.get())
}
