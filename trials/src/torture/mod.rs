//! Torture of everything that claims to wait for nobody: `selftest=torture` on the kernel command line.
//!
//! *Interface*: [`run`]. Each subject is taken through two ordeals.
//! - *Preempted*: several threads a CPU operate under the trap flag and give way between any two
//!   instructions, by random numbers that are the same in each run; afterwards nothing may be lost or
//!   doubled.
//! - *Frozen*: one thread stops for ever after its first instruction, its second, and so on to the
//!   operation's end; each time all others must go on: their operations end. With a spin lock they must not,
//!   which shows that the ordeal can fail. Of operations longer than 200 instructions some are left out,
//!   unless the command line says `thorough`.
//!
//! Source: dissertation, 5.1 (a thread stopped anywhere must not hold up the others); Hohmuth and Härtig,
//! section 5.

mod chained;
mod composed;
mod services;
pub mod step;
mod structures;
mod subject;
mod tables;

use core::sync::atomic::{AtomicUsize, Ordering};

use machine::clock::now_ns;
use machine::{cpu, log, symbols};

use step::{Disturbance, VICTIMS, Victim};
use subject::Subject;

/// How long others may take to end their operations while one stands still; a loaded host is slow.
const PATIENCE_NS: u64 = 90_000_000_000;
/// The same for the control, which is expected to make them late.
const CONTROL_NS: u64 = 100_000_000;
/// Threads beside the frozen one, and what each does while it stands still.
const PEERS: usize = 3;
const OPERATIONS: u64 = 24;
/// Operations of each thread that is preempted at random.
const ROUNDS: u64 = 120;

/// Threads that are to end.
static RUNNING: AtomicUsize = AtomicUsize::new(0);

/// Takes every subject through both ordeals. A subject that does not stand them is a panic.
pub fn run() {
    step::link();
    assert!(
        freeze(&structures::SPIN_LOCK, 0, CONTROL_NS).is_err(),
        "the control passed: freezing shows nothing"
    );
    log!("torture: a spin lock fails, as it should");
    let mut count = 0;
    let structures = structures::all().into_iter().chain(composed::all());
    let services = services::all().into_iter().chain([&chained::CHAIN as _]);
    for subject in structures.chain(services) {
        subject.settle();
        preempt(subject);
        for role in 0..subject.roles() {
            match freeze(subject, role, PATIENCE_NS) {
                Ok(steps) => log!(
                    "torture: {}, role {role}: {steps} instructions",
                    subject.name()
                ),
                Err(late) => late.report(subject),
            }
        }
        count += 1;
    }
    let masked = VICTIMS
        .iter()
        .map(Victim::longest_masked)
        .max()
        .unwrap_or(0);
    let preemptions: u64 = VICTIMS.iter().map(Victim::preemptions).sum();
    log!(
        "torture: {preemptions} preemptions; longest stretch with interrupts off {masked} instructions"
    );
    log!(
        "torture: {count} subjects passed on {} processors",
        cpu::cpus()
    );
}

/// Whether every single instruction is wanted.
fn thorough() -> bool {
    let line = machine::boot::info().cmdline;
    line.split_ascii_whitespace().any(|word| word == "thorough")
}

/// Waits for something that must come.
fn until(what: &str, holds: impl FnMut() -> bool) {
    assert!(within(PATIENCE_NS, holds), "did not come: {what}");
}

fn within(patience_ns: u64, mut holds: impl FnMut() -> bool) -> bool {
    let deadline = now_ns() + patience_ns;
    while !holds() {
        if now_ns() > deadline {
            return false;
        }
        let nap = thread::clock::sleep_until(now_ns() + 20_000);
        assert!(nap.is_ok(), "memory for an alarm");
    }
    true
}

/// A thread's work, found by its number.
struct Job {
    subject: &'static dyn Subject,
    role: usize,
    victim: Option<(&'static Victim, Disturbance)>,
    operations: u64,
}

/// Starts a thread that does the job.
fn start(job: Job) {
    use alloc::boxed::Box;
    fn work(job: usize) {
        // SAFETY: `start` made this of a box, for this thread.
        let job = unsafe { Box::from_raw(job as *mut Job) };
        for round in 0..job.operations {
            let operate = || job.subject.operate(job.role, round);
            match job.victim {
                Some((victim, plan)) => victim.run(plan.again(round), operate),
                None => operate(),
            }
        }
        RUNNING.fetch_sub(1, Ordering::AcqRel);
    }
    RUNNING.fetch_add(1, Ordering::AcqRel);
    let job = Box::into_raw(Box::new(job)) as usize;
    thread::spawn(b"torture", work, job).expect("memory for a thread");
}

/// Several threads a CPU, each of which gives way between any two instructions now and then.
fn preempt(subject: &'static dyn Subject) {
    let roles = subject.roles();
    let mut taken = [0; 2];
    for (i, victim) in VICTIMS.iter().enumerate().take(2 * cpu::cpus().max(2)) {
        let role = i % roles;
        taken[role] += 1;
        if subject.alone(role) && taken[role] > 1 {
            continue;
        }
        start(Job {
            subject,
            role,
            victim: Some((
                victim,
                Disturbance::Preempt(1 + (i as u64 % 4) * 5, 0x9e37_79b9 + i as u64),
            )),
            operations: ROUNDS,
        });
    }
    until(subject.name(), || RUNNING.load(Ordering::Acquire) == 0);
    subject.settle();
}

/// The others did not end their operations.
struct Late {
    step: u64,
    at: usize,
}

impl Late {
    fn report(&self, subject: &dyn Subject) -> ! {
        let found = symbols::name(self.at);
        let (name, offset) = found
            .as_ref()
            .map_or(("?", 0), |(name, offset)| (name.as_str(), *offset));
        panic!(
            "{}: others wait for a thread that stands still after instruction {} at {name}+{offset:#x}",
            subject.name(),
            self.step
        )
    }
}

/// Freezes one thread of `role` after each instruction of its operation in turn. Returns the operation's
/// length in instructions.
fn freeze(subject: &'static dyn Subject, role: usize, patience_ns: u64) -> Result<u64, Late> {
    let victim = &VICTIMS[0];
    subject.settle();
    let mut step = 0;
    loop {
        step += 1 + if thorough() { 0 } else { step / 200 };
        start(Job {
            subject,
            role,
            victim: Some((victim, Disturbance::Freeze(step))),
            operations: 1,
        });
        until("the frozen one's start", || {
            victim.frozen() || RUNNING.load(Ordering::Acquire) == 0
        });
        if !victim.frozen() {
            break;
        }
        let peers = start_peers(subject, role);
        let free = within(patience_ns, || RUNNING.load(Ordering::Acquire) == 1);
        let at = victim.at();
        victim.release();
        until("everyone's end", || RUNNING.load(Ordering::Acquire) == 0);
        subject.settle();
        if !free {
            return Err(Late { step, at });
        }
        assert!(peers > 0, "nobody was there to be held up");
    }
    subject.settle();
    Ok(victim.steps())
}

/// Starts the threads that must go on; returns their number.
fn start_peers(subject: &'static dyn Subject, frozen: usize) -> usize {
    let mut started = 0;
    let mut taken = [0; 2];
    taken[frozen] = 1;
    for i in 0..PEERS + 1 {
        let role = (frozen + i) % subject.roles();
        if i == 0 || started == PEERS || subject.alone(role) && taken[role] > 0 {
            continue;
        }
        taken[role] += 1;
        started += 1;
        start(Job {
            subject,
            role,
            victim: None,
            operations: OPERATIONS,
        });
    }
    started
}
