//! Events between two instructions of a tortured operation: nothing, a preemption, or a stop that lasts
//! until it is lifted.
//!
//! *Interface*: a [`Victim`] makes a [`Disturbance`] and runs an operation under it ([`Victim::run`]); others
//! look at [`Victim::frozen`] and lift the stop by [`Victim::release`]. [`link`] once before.

use core::sync::atomic::{AtomicBool, AtomicPtr, AtomicU64, AtomicUsize, Ordering};

use machine::trap::{RFLAGS_IF, TrapFrame};
use machine::{cpu, single_step};

/// The disturbance of the operation.
#[derive(Clone, Copy)]
pub enum Disturbance {
    /// Stop after so many instructions, at the first from there on that has interrupts on (a thread that
    /// keeps them off cannot be preempted, only be late by that stretch).
    Freeze(u64),
    /// Give way to others after every instruction whose random number is divisible by this, from this seed.
    Preempt(u64, u64),
    /// Only count the instructions.
    Count,
    /// Call this, once, after so many instructions, as if another processor had done it in that instant.
    Interfere(u64, fn()),
}

impl Disturbance {
    /// The plan for the operation after `round` others: other random numbers.
    pub fn again(self, round: u64) -> Disturbance {
        match self {
            Disturbance::Freeze(_) | Disturbance::Count | Disturbance::Interfere(..) => self,
            Disturbance::Preempt(one_in, seed) => {
                Disturbance::Preempt(one_in, seed.wrapping_mul(0x2545_f491) ^ round << 20)
            }
        }
    }
}

/// One thread that is tortured at a time.
pub struct Victim {
    thread: AtomicUsize,
    freeze_at: AtomicU64,
    interfere_at: AtomicU64,
    interference: AtomicPtr<()>,
    one_in: AtomicU64,
    random: AtomicU64,
    steps: AtomicU64,
    masked: AtomicU64,
    longest_masked: AtomicU64,
    preemptions: AtomicU64,
    at: AtomicUsize,
    frozen: AtomicBool,
    released: AtomicBool,
}

/// All victims; the hook finds the running one here.
pub static VICTIMS: [Victim; 16] = [const { Victim::new() }; 16];

static HOOK: single_step::Hook = single_step::Hook(on_step);

/// Makes single steps come here.
pub fn link() {
    single_step::link(&HOOK);
}

impl Victim {
    const fn new() -> Victim {
        Victim {
            thread: AtomicUsize::new(0),
            freeze_at: AtomicU64::new(u64::MAX),
            interfere_at: AtomicU64::new(u64::MAX),
            interference: AtomicPtr::new(core::ptr::null_mut()),
            one_in: AtomicU64::new(0),
            random: AtomicU64::new(0),
            steps: AtomicU64::new(0),
            masked: AtomicU64::new(0),
            longest_masked: AtomicU64::new(0),
            preemptions: AtomicU64::new(0),
            at: AtomicUsize::new(0),
            frozen: AtomicBool::new(false),
            released: AtomicBool::new(false),
        }
    }

    /// Runs `operation` on this thread under the plan.
    pub fn run(&self, plan: Disturbance, operation: impl FnOnce()) {
        let never = u64::MAX;
        let (freeze_at, interfere_at) = match plan {
            Disturbance::Freeze(steps) => (steps, never),
            Disturbance::Interfere(steps, other) => {
                self.interference.store(other as *mut (), Ordering::Relaxed);
                (never, steps)
            }
            Disturbance::Preempt(..) | Disturbance::Count => (never, never),
        };
        let (one_in, seed) = match plan {
            Disturbance::Preempt(one_in, seed) => (one_in, seed | 1),
            _ => (0, 1),
        };
        self.freeze_at.store(freeze_at, Ordering::Relaxed);
        self.interfere_at.store(interfere_at, Ordering::Relaxed);
        self.one_in.store(one_in, Ordering::Relaxed);
        self.random.store(seed, Ordering::Relaxed);
        self.steps.store(0, Ordering::Relaxed);
        self.masked.store(0, Ordering::Relaxed);
        self.released.store(false, Ordering::Relaxed);
        self.thread
            .store(thread::current().address(), Ordering::Release);
        single_step::begin();
        operation();
        single_step::end();
        self.thread.store(0, Ordering::Release);
    }

    /// Whether it stands still.
    pub fn frozen(&self) -> bool {
        self.frozen.load(Ordering::Acquire)
    }

    /// The instruction before which it stands still.
    pub fn at(&self) -> usize {
        self.at.load(Ordering::Relaxed)
    }

    /// Instructions of the operation so far.
    pub fn steps(&self) -> u64 {
        self.steps.load(Ordering::Relaxed)
    }

    /// The longest stretch with interrupts off since boot, in instructions.
    pub fn longest_masked(&self) -> u64 {
        self.longest_masked.load(Ordering::Relaxed)
    }

    /// How often it had to give way since boot.
    pub fn preemptions(&self) -> u64 {
        self.preemptions.load(Ordering::Relaxed)
    }

    /// Lets it go on.
    pub fn release(&self) {
        self.released.store(true, Ordering::Release);
        thread::resume_address(self.thread.load(Ordering::Acquire));
    }

    fn after_instruction(&self, frame: &TrapFrame) {
        let steps = self.steps.fetch_add(1, Ordering::Relaxed) + 1;
        if steps == self.interfere_at.load(Ordering::Relaxed) {
            let other = self.interference.load(Ordering::Relaxed);
            // SAFETY: `run` stored a `fn()` together with the step.
            unsafe { core::mem::transmute::<*mut (), fn()>(other)() };
        }
        if frame.rflags & RFLAGS_IF == 0 {
            let masked = self.masked.fetch_add(1, Ordering::Relaxed) + 1;
            self.longest_masked.fetch_max(masked, Ordering::Relaxed);
            return;
        }
        self.masked.store(0, Ordering::Relaxed);
        if steps >= self.freeze_at.load(Ordering::Relaxed) {
            self.freeze_at.store(u64::MAX, Ordering::Relaxed);
            self.at.store(frame.rip as usize, Ordering::Relaxed);
            self.stand_still();
        }
        let one_in = self.one_in.load(Ordering::Relaxed);
        if one_in != 0 && self.draw().is_multiple_of(one_in) {
            self.preemptions.fetch_add(1, Ordering::Relaxed);
            cpu::irq_enable();
            thread::yield_now();
            cpu::irq_disable();
        }
    }

    fn stand_still(&self) {
        cpu::irq_enable();
        self.frozen.store(true, Ordering::Release);
        while !self.released.load(Ordering::Acquire) {
            thread::suspend();
        }
        self.frozen.store(false, Ordering::Release);
        // A wake-up meant for the operation may have been taken here: one too many is harmless.
        thread::resume_address(thread::current().address());
        cpu::irq_disable();
    }

    /// Marsaglia's xorshift.
    fn draw(&self) -> u64 {
        let mut x = self.random.load(Ordering::Relaxed);
        x ^= x << 13;
        x ^= x >> 7;
        x ^= x << 17;
        self.random.store(x, Ordering::Relaxed);
        x >> 8
    }
}

fn on_step(frame: &mut TrapFrame) {
    let running = thread::current().address();
    let victim = |victim: &&Victim| victim.thread.load(Ordering::Relaxed) == running;
    match VICTIMS.iter().find(victim) {
        Some(victim) => victim.after_instruction(frame),
        // The operation switched to somebody else, who went on with its flags.
        None => single_step::cease(frame),
    }
}
