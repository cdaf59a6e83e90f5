//! `cpu.weight`: the turns of threads by the weights of their control groups.
//!
//! *Interface*: [`begin`], after a thread has come into a group or a controller was given or taken. A thread
//! of the kernel, `groups`, then looks at all threads from time to time: which of them are ready, on which
//! processor, and how much they have run. `feedback::groups` makes turns of that, which [`Tte::weigh`] gives
//! to the threads; they count from their next turns on. A thread that would get too little where it is goes
//! to another processor, one at each look ([`Tte::move_soon`]). Switches and the ends of quanta know nothing
//! of it.
//!
//! As long as no thread is in a group whose weight counts, `groups` sleeps, and nothing here costs anything.
//! It takes at most a fiftieth of a processor.
//!
//! [`Tte::weigh`]: thread::Tte::weigh
//! [`Tte::move_soon`]: thread::Tte::move_soon

use abi::errno::Result;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::sync::atomic::Ordering;
use feedback::groups::{self, CPUS, ONE, Places};
use machine::clock::now_ns;
use vm::fallible::try_push;

use super::{COUNTED, CPU, HIERARCHY, root};
use crate::process::{Task, tree};
use thread::{OnDemand, SchedClass};

/// Time from look to look, nanoseconds: at least, at most, and of processors that are not shared.
const LEAST_NS: u64 = 16_000_000;
const MOST_NS: u64 = 200_000_000;
const QUIET_NS: u64 = 100_000_000;
/// Rounds between two looks, so that each thread has had as many turns.
const ROUNDS: u64 = 4;
/// The time that a look takes is at most this part of the time between two.
const PART: u64 = 50;
/// A look counts for a thread's activity by this part, as a right shift.
const SHIFT: u32 = 2;

static THREAD: OnDemand = OnDemand::new(b"groups", run);

/// Whether a thread is in a group whose weight counts.
fn is_needed() -> bool {
    COUNTED.load(Ordering::Relaxed) > 0 && root().is_some_and(|root| root.passed_on() & CPU != 0)
}

/// Has the turns follow the weights, if there is anything to do. Without memory for the thread they do so
/// after the next call.
pub(super) fn begin() {
    if is_needed() {
        let _later = THREAD.rouse();
    }
}

fn run(_: usize) {
    loop {
        THREAD.wait(|| is_needed().then_some(()));
        let mut looks = Looks::default();
        while is_needed() {
            thread::safe_point();
            let began = thread::current().cpu_ns();
            let pause = looks.look(now_ns()).unwrap_or(QUIET_NS);
            let took = thread::current().cpu_ns().saturating_sub(began);
            let next = now_ns() + pause.max(took * PART);
            if thread::clock::sleep_until(next).is_err() {
                thread::yield_now();
            }
        }
        each(|_, task| task.thread.weigh(task.sched.quantum_ns()));
    }
}

/// Shows `look` the threads to which niceness and weights apply, with the number of their processes.
fn each(mut look: impl FnMut(i32, &Arc<Task>)) {
    for process in tree::from(0) {
        process.each_thread(|task| {
            if task.sched.place() == SchedClass::Usual {
                look(process.pid, task);
            }
            true
        });
    }
}

/// A thread at the last look.
#[derive(Clone, Copy)]
struct Seen {
    process: i32,
    thread: i32,
    ran_ns: u64,
    own_ns: u64,
    active: u32,
    /// Its group's index.
    group: usize,
    cpu: usize,
}

impl Seen {
    fn key(&self) -> (i32, i32) {
        (self.process, self.thread)
    }
}

/// The state that stays from look to look.
#[derive(Default)]
struct Looks {
    at_ns: u64,
    seen: Vec<Seen>,
    /// The factors of groups, by their rising numbers.
    factors: Vec<(u32, [u32; 2])>,
}

/// The groups whose weights count, and by their rising numbers the index among them of each group's nearest.
struct Tree {
    groups: Vec<groups::Group>,
    numbers: Vec<u32>,
    nearest: Vec<(u32, usize)>,
}

impl Tree {
    /// The groups as they are now. ENOMEM.
    fn now(factors: &[(u32, [u32; 2])]) -> Result<Tree> {
        let mut tree = Tree {
            groups: Vec::new(),
            numbers: Vec::new(),
            nearest: Vec::new(),
        };
        tree.add(0, 0, groups::WEIGHT, factors)?;
        try_push(&mut tree.nearest, (0, 0))?;
        // Bound: **global**: **linear** in the groups, at most 4096: a few words for each; a thread of its
        // own.
        let hierarchy = HIERARCHY.lock();
        for group in &hierarchy.groups {
            let above = group.parent().map_or(0, |above| above.id);
            let above = tree.index(above);
            let index = match group.has(CPU) && group.is_populated() {
                true => tree.add(group.id, above, group.weight(), factors)?,
                false => above,
            };
            try_push(&mut tree.nearest, (group.id, index))?;
        }
        Ok(tree)
    }

    fn add(
        &mut self,
        id: u32,
        above: usize,
        weight: u32,
        factors: &[(u32, [u32; 2])],
    ) -> Result<usize> {
        let known = factors.binary_search_by_key(&id, |(id, _)| *id).ok();
        let factors = known.and_then(|place| factors.get(place));
        let factors = factors.map_or([ONE; 2], |(_, factors)| *factors);
        try_push(&mut self.numbers, id)?;
        try_push(&mut self.groups, groups::Group::new(above, weight, factors))?;
        Ok(self.groups.len() - 1)
    }

    /// Gives the threads that were `seen` their turns. One that gets too little where it is goes to another
    /// processor.
    fn tell(&self, seen: &[Seen]) {
        let mut places = Places::new(machine::cpu::cpus());
        for seen in seen {
            places.add(seen.cpu, self.part(seen));
        }
        let (from, to) = places.ends();
        let mut goes: Option<(u64, Arc<Task>)> = None;
        let mut shown = seen.iter().peekable();
        each(|process, task| {
            let key = (process, task.tid);
            while shown.next_if(|seen| seen.key() < key).is_some() {}
            let Some(seen) = shown.next_if(|seen| seen.key() == key) else {
                return;
            };
            if let Some(group) = self.groups.get(seen.group) {
                task.thread.weigh(group.turn(seen.cpu, seen.own_ns));
            }
            let may_go = seen.cpu == from && from != to && task.sched.allowed() >> to & 1 != 0;
            if may_go && seen.active >= ONE * 3 / 4 {
                let gain = places.better(self.part(seen));
                if gain > goes.as_ref().map_or(0, |(most, _)| *most) {
                    goes = Some((gain, task.clone()));
                }
            }
        });
        if let Some((_, task)) = goes {
            task.thread.move_soon(to);
        }
    }

    fn part(&self, seen: &Seen) -> u64 {
        let group = self.groups.get(seen.group);
        group.map_or(0, |group| group.part(seen.own_ns, seen.active))
    }

    /// The index of the group that counts for those of group `id`.
    fn index(&self, id: u32) -> usize {
        let place = self.nearest.binary_search_by_key(&id, |(id, _)| *id);
        let found = place.ok().and_then(|place| self.nearest.get(place));
        found.map_or(0, |(_, index)| *index)
    }
}

impl Looks {
    /// Looks at all threads and gives them their turns: how long until the next look. ENOMEM.
    fn look(&mut self, now: u64) -> Result<u64> {
        let elapsed = match self.at_ns {
            0 => 0,
            at => now.saturating_sub(at),
        };
        let mut tree = Tree::now(&self.factors)?;
        let mut seen: Vec<Seen> = Vec::new();
        let mut ready = [0u32; CPUS];
        let (mut before, mut result) = (self.seen.iter().peekable(), Ok(()));
        each(|process, task| {
            let key = (process, task.tid);
            while before.next_if(|seen| seen.key() < key).is_some() {}
            let last = before.next_if(|seen| seen.key() == key);
            let one = now_of(task, process, last, elapsed, tree.index(task.sched.group()));
            let used_ns = match (last, elapsed) {
                (_, 0) => 0,
                (last, _) => one
                    .ran_ns
                    .saturating_sub(last.map_or(0, |last| last.ran_ns)),
            };
            if let Some(count) = ready.get_mut(one.cpu) {
                *count += one.active;
            }
            if let Some(group) = tree.groups.get_mut(one.group) {
                group.add(one.cpu, one.own_ns, one.active, used_ns);
            }
            if result.is_ok() {
                result = try_push(&mut seen, one);
            }
        });
        if elapsed > 0 {
            groups::correct(&mut tree.groups, elapsed);
        }
        let round = groups::divide(&mut tree.groups);
        tree.tell(&seen);
        self.factors.clear();
        for (id, group) in tree.numbers.iter().zip(&tree.groups) {
            try_push(&mut self.factors, (*id, group.factors()))?;
        }
        (self.seen, self.at_ns) = (seen, now);
        result?;
        Ok(match ready.iter().any(|ready| *ready > ONE + ONE / 8) {
            true => (round * ROUNDS).clamp(LEAST_NS, MOST_NS),
            false => QUIET_NS,
        })
    }
}

/// A thread as it is now; `last` at the last look.
fn now_of(task: &Task, process: i32, last: Option<&Seen>, elapsed: u64, group: usize) -> Seen {
    let ran_ns = task.cpu_ns();
    let used = ran_ns.saturating_sub(last.map_or(0, |last| last.ran_ns));
    let ready = match task.thread.flags() & thread::flags::ASLEEP {
        0 => ONE,
        _ => (used.min(elapsed) * u64::from(ONE))
            .checked_div(elapsed)
            .unwrap_or(0) as u32,
    };
    let active = match last {
        None => ready,
        Some(last) => {
            let step = (ready as i32 - last.active as i32) >> SHIFT;
            last.active.saturating_add_signed(step)
        }
    };
    Seen {
        process,
        thread: task.tid,
        ran_ns,
        own_ns: task.sched.quantum_ns(),
        active,
        group,
        cpu: task.thread.cpu(),
    }
}
