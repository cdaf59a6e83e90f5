//! The numbers of a process: `stat`, `status`, `statm`.
//!
//! *Interface.* One function a text; `task` for one thread instead of the whole process.

use abi::errno::Result;
use abi::layout::PAGE;
use abi::linux::RLIMIT_SIGPENDING;
use alloc::sync::Arc;
use core::fmt::Write;
use core::sync::atomic::Ordering;

use super::look_into;
use account::Cred;
use account::user::Resource;
use file::fs::pseudofs::{TextOut, TextPiece};
use process::{Process, Task};

/// Nanoseconds in a clock tick as programs see it.
const TICK_NS: u64 = 10_000_000;

fn state(process: &Process, task: Option<&Task>) -> char {
    task.map_or_else(|| process.state(), Task::state)
}

/// Numbers, a blank before each.
fn row(out: &mut TextOut, numbers: &[u64]) {
    for number in numbers {
        out.spaced(*number);
    }
}

/// `/proc/PID/stat`: 52 fields.
pub fn stat(process: &Arc<Process>, task: Option<&Task>, out: &mut TextOut) -> Result<()> {
    let program = process.program();
    let space = process.space();
    let (size, resident) = space
        .as_ref()
        .map_or((0, 0), |s| (s.size() as u64, s.resident() as u64));
    let terminal = process.session.get().terminal();
    let (device, foreground) = terminal.map_or((0, -1), |t| (t.device(), t.foreground()));
    let used = task.map_or_else(|| process.usage(), Task::usage);
    let children = process.children_usage();
    let [user, system, children_user, children_system] = [
        used.user_ns,
        used.system_ns,
        children.user_ns,
        children.system_ns,
    ]
    .map(|ns| ns / TICK_NS);
    let actions = process.signals.actions.get();
    let first = process.a_thread();
    let (blocked, cpu) = first
        .as_ref()
        .map_or((0, 0), |t| (t.blocked(), t.thread.cpu()));
    let threads = process.thread_count();
    let nice = process.nice();
    let policy = (task.map(|task| task.sched.policy()))
        .or_else(|| first.as_ref().map(|first| first.sched.policy()))
        .unwrap_or_default();
    let place = match policy.rank() {
        0 => 20 + nice,
        urgent => -1 - urgent,
    };
    // Where things are is for those who may look into it.
    let places = || {
        [
            program.stack,
            program.arguments.start,
            program.arguments.end,
            program.environment.start,
            program.environment.end,
        ]
    };
    let [stack, places @ ..] = look_into(process, places).unwrap_or_default();
    out.signed(task.map_or(process.pid, |t| t.tid).into());
    out.push_str(" (");
    out.push_str(&program.comm);
    out.push_str(") ");
    out.push(state(process, task));
    for number in [process.ppid(), process.pgrp(), process.sid()] {
        out.push_str(" ");
        out.signed(number.into());
    }
    row(out, &[device]);
    out.push_str(" ");
    out.signed(foreground.into());
    row(out, &[4_194_304, used.faults, children.faults, 0, 0]);
    row(out, &[user, system, children_user, children_system]);
    for number in [place, nice] {
        out.push_str(" ");
        out.signed(number.into());
    }
    row(out, &[threads as u64, 0, process.start_ns / TICK_NS]);
    row(out, &[size, resident, u64::MAX, 0, 0, stack as u64, 0, 0]);
    row(out, &[process.pending(), blocked]);
    row(out, &[actions.ignored(), actions.caught()]);
    row(out, &[0, 0, 0, 17, cpu as u64]);
    for number in [policy.priority, policy.kind] {
        out.push_str(" ");
        out.signed(number.into());
    }
    row(out, &[0; 6]);
    row(out, &places.map(|place| place as u64));
    out.push_str(" 0\n");
    Ok(())
}

/// `/proc/PID/statm`, in pages.
pub fn statm(process: &Process, out: &mut TextOut) -> Result<()> {
    let (sizes, resident) = process
        .space()
        .map_or_else(Default::default, |s| (s.sizes(), s.resident()));
    let (size, data) = (sizes.all / PAGE, (sizes.data + sizes.stacks) / PAGE);
    let _ = writeln!(out, "{size} {resident} 0 0 0 {data} 0");
    Ok(())
}

/// Where the text of `status` goes on behind the groups.
const BEHIND_GROUPS: u64 = 1 << 32;
/// Groups in a record: a process may have 65536.
const GROUPS: usize = 64;

/// The identity of the thread `task`, or of the first of `process`.
fn identity_of(process: &Process, task: Option<&Task>) -> Arc<Cred> {
    task.map_or_else(|| process.cred.get(), |task| task.cred.get())
}

/// Whether no program gives more rights to the thread `task`, or to the first of `process`.
fn is_bound(process: &Process, task: Option<&Task>) -> bool {
    let of = |task: &Task| task.no_new_privileges.load(Ordering::Relaxed);
    match task {
        Some(task) => of(task),
        None => process.a_thread().is_some_and(|first| of(&first)),
    }
}

/// `/proc/PID/status`: a record up to the groups, some of groups, one of the rest.
pub fn status(
    process: &Arc<Process>,
    task: Option<&Task>,
    from: u64,
    piece: &mut TextPiece,
) -> Result<()> {
    let cred = identity_of(process, task);
    if from == 0 && !piece.record(1, |out| identity(process, task, out)) {
        return Ok(());
    }
    let mut at = from.max(1);
    let passed = usize::try_from(at - 1).unwrap_or(usize::MAX);
    for groups in cred.groups.chunks(GROUPS).skip(passed) {
        at += 1;
        let more = piece.record(at, |out| {
            for group in groups {
                let _ = write!(out, "{group} ");
            }
        });
        if !more {
            return Ok(());
        }
    }
    if from <= BEHIND_GROUPS {
        piece.record(BEHIND_GROUPS + 1, |out| state_of(process, task, out));
    }
    Ok(())
}

fn identity(process: &Arc<Process>, task: Option<&Task>, out: &mut TextOut) {
    let program = process.program();
    let cred = identity_of(process, task);
    let letter = state(process, task);
    let tracer = match task {
        Some(task) => task.trace.tracer(),
        None => process.a_thread().map_or(0, |first| first.trace.tracer()),
    };
    let word = match letter {
        'R' => "running",
        'S' => "sleeping",
        'T' => "stopped",
        't' => "tracing stop",
        _ => "zombie",
    };
    out.push_str("Name:\t");
    out.as_in_c(program.comm.as_bytes());
    let _ = write!(
        out,
        "\nUmask:\t{:04o}\nState:\t{letter} ({word})\nTgid:\t{}\nNgid:\t0\nPid:\t{}\nPPid:\t{}\nTracerPid:\t{}\n",
        process.fs.get().umask(),
        process.pid,
        task.map_or(process.pid, |t| t.tid),
        process.ppid(),
        tracer,
    );
    let _ = write!(
        out,
        "Uid:\t{}\t{}\t{}\t{}\nGid:\t{}\t{}\t{}\t{}\nFDSize:\t{}\nGroups:\t",
        cred.uid,
        cred.euid,
        cred.suid,
        cred.fsuid,
        cred.gid,
        cred.egid,
        cred.sgid,
        cred.fsgid,
        process.files.get().capacity(),
    );
}

/// The numbers of the bits that are set, as in `0,2-3`.
struct Ranges(u64);

impl core::fmt::Display for Ranges {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        let (mut left, mut first) = (self.0, true);
        while left != 0 {
            let begin = left.trailing_zeros();
            let end = begin + (left >> begin).trailing_ones() - 1;
            let comma = if first { "" } else { "," };
            match end - begin {
                0 => write!(f, "{comma}{begin}")?,
                _ => write!(f, "{comma}{begin}-{end}")?,
            }
            left &= u64::MAX.checked_shl(end + 1).unwrap_or(0);
            first = false;
        }
        Ok(())
    }
}

fn state_of(process: &Arc<Process>, task: Option<&Task>, out: &mut TextOut) {
    let cred = identity_of(process, task);
    out.push('\n');
    if let Some(space) = process.space() {
        let sizes = space.sizes();
        let [size, data, stacks, locked] =
            [sizes.all, sizes.data, sizes.stacks, sizes.locked].map(|bytes| bytes / 1024);
        let resident = space.resident() * PAGE / 1024;
        let tables = space.tables_held() * PAGE / 1024;
        let most = process.usage().max_resident / 1024;
        let _ = write!(
            out,
            "VmPeak:\t{size:8} kB\nVmSize:\t{size:8} kB\nVmLck:\t{locked:8} kB\nVmPin:\t       0 kB\nVmHWM:\t{most:8} kB\nVmRSS:\t{resident:8} kB\nVmData:\t{data:8} kB\nVmStk:\t{stacks:8} kB\nVmPTE:\t{tables:8} kB\nVmSwap:\t       0 kB\n",
        );
    }
    let actions = process.signals.actions.get();
    let blocked = process.a_thread().map_or(0, |t| t.blocked());
    // Bound: one limit.
    let most_signals = process.limits.lock().cur(RLIMIT_SIGPENDING);
    let _ = write!(
        out,
        "Threads:\t{}\nSigQ:\t{}/{}\nSigPnd:\t{:016x}\nShdPnd:\t{:016x}\nSigBlk:\t{blocked:016x}\nSigIgn:\t{:016x}\nSigCgt:\t{:016x}\n",
        process.thread_count(),
        cred.user.holds(Resource::Signals),
        most_signals,
        0,
        process.pending(),
        actions.ignored(),
        actions.caught(),
    );
    let _ = write!(
        out,
        "CapInh:\t{:016x}\nCapPrm:\t{:016x}\nCapEff:\t{:016x}\nCapBnd:\t{:016x}\nCapAmb:\t{:016x}\nNoNewPrivs:\t{}\n",
        cred.caps.inheritable.bits(),
        cred.caps.permitted.bits(),
        cred.caps.effective.bits(),
        cred.caps.bounding.bits(),
        cred.caps.ambient.bits(),
        u8::from(is_bound(process, task)),
    );
    let mut allowed = task.map_or(u64::MAX, |task| task.sched.allowed());
    if task.is_none() {
        process.each_thread(|first| {
            allowed = first.sched.allowed();
            false
        });
    }
    allowed &= (1 << machine::cpu::cpus()) - 1;
    let used = task.map_or_else(|| process.usage(), Task::usage);
    let _ = write!(
        out,
        "Cpus_allowed:\t{:x}\nCpus_allowed_list:\t{}\nvoluntary_ctxt_switches:\t{}\nnonvoluntary_ctxt_switches:\t{}\n",
        allowed,
        Ranges(allowed),
        used.voluntary,
        used.forced,
    );
}

#[cfg(test)]
mod tests {
    use super::Ranges;

    #[test]
    fn sets_are_told_as_ranges() {
        for (set, text) in [
            (0, ""),
            (1, "0"),
            (0b11, "0-1"),
            (0b1101, "0,2-3"),
            (0b1011_0110, "1-2,4-5,7"),
            (1 << 63, "63"),
            (u64::MAX, "0-63"),
        ] {
            assert_eq!(std::format!("{}", Ranges(set)), text);
        }
    }
}
