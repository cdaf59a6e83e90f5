//! The files of a control group: what they say, and what can be written to them.
//!
//! *Interface.* [`FILES`]; [`line()`] is the group of a process as `/proc/PID/cgroup` says it, and
//! [`controllers`] the text of `/proc/cgroups`.

use abi::errno::{Errno, Result};
use alloc::sync::Arc;
use core::fmt::Write;
use core::sync::atomic::Ordering;

use account::Cred;
use file::fs::attr::ModeBits;
use file::fs::perm;
use file::fs::pseudofs::{TextOut, TextPiece};
use process::Process;
use process::cgroup::{self, CONTROLLERS, CPU, Cgroup, PIDS, UNLIMITED, WEIGHT};

/// Threads that there may be on a machine of Linux's; a limit is not above.
const MOST_THREADS: u32 = 4_194_304;

/// A file of each group, or of some.
pub(super) struct CgroupFile {
    pub(super) name: &'static str,
    /// Controllers that the group needs for it; none: all groups but the root, if not `in_root`.
    needs: u32,
    in_root: bool,
    /// Whether it can be opened for reading.
    pub(super) is_shown: bool,
    pub(super) read: Read,
    pub(super) write: Option<Set>,
}

impl CgroupFile {
    /// Whether `group` has it.
    pub(super) fn is_in(&self, group: &Cgroup) -> bool {
        self.in_root || group.has(self.needs)
    }

    /// ENODEV: the group has it no more.
    pub(super) fn check(&self, group: &Cgroup) -> Result<()> {
        match self.is_in(group) && !group.is_gone() {
            true => Ok(()),
            false => Err(Errno::ENODEV),
        }
    }

    /// Permission bits of a new one.
    pub(super) fn permissions(&self) -> u32 {
        match (self.is_shown, self.write) {
            (false, _) => 0o200,
            (true, Some(_)) => 0o644,
            (true, None) => 0o444,
        }
    }
}

/// Writes the text from a place on.
type Read = fn(&Arc<Cgroup>, u64, &mut TextPiece) -> Result<()>;
/// Takes what somebody has written who was let open the file.
type Set = fn(&Arc<Cgroup>, &Cred, &str) -> Result<()>;

const fn everywhere(name: &'static str, read: Read, write: Option<Set>) -> CgroupFile {
    CgroupFile {
        name,
        needs: 0,
        in_root: true,
        is_shown: true,
        read,
        write,
    }
}

const fn below(name: &'static str, needs: u32, read: Read, write: Option<Set>) -> CgroupFile {
    CgroupFile {
        in_root: false,
        needs,
        ..everywhere(name, read, write)
    }
}

/// One that only takes what is written.
const fn order(name: &'static str, write: Set) -> CgroupFile {
    CgroupFile {
        is_shown: false,
        ..below(name, 0, |_, _, _| Err(Errno::EACCES), Some(write))
    }
}

/// The number of `cgroup.procs`, whose writers may move processes.
const PROCS: usize = 0;

/// All of them.
pub(super) static FILES: [CgroupFile; 17] = [
    everywhere("cgroup.procs", processes, Some(receive)),
    everywhere("cgroup.threads", threads, Some(receive_thread)),
    everywhere(
        "cgroup.controllers",
        |group, from, piece| one(from, piece, |out| names(group.controllers(), out)),
        None,
    ),
    everywhere(
        "cgroup.subtree_control",
        |group, from, piece| one(from, piece, |out| names(group.passed_on(), out)),
        Some(pass_on),
    ),
    everywhere(
        "cgroup.max.depth",
        |group, from, piece| bound(group, 0, from, piece),
        Some(|group, _, text| set_bound(group, 0, text)),
    ),
    everywhere(
        "cgroup.max.descendants",
        |group, from, piece| bound(group, 1, from, piece),
        Some(|group, _, text| set_bound(group, 1, text)),
    ),
    everywhere(
        "cgroup.stat",
        |group, from, piece| {
            one(from, piece, |out| {
                let below = group.below();
                let _ = writeln!(out, "nr_descendants {below}\nnr_dying_descendants 0");
            })
        },
        None,
    ),
    everywhere("cpu.stat", consumed, None),
    below("cgroup.type", 0, kind, Some(set_kind)),
    below(
        "cgroup.events",
        0,
        |group, from, piece| {
            one(from, piece, |out| {
                let populated = u32::from(group.is_populated());
                let frozen = u32::from(group.is_frozen());
                let _ = writeln!(out, "populated {populated}\nfrozen {frozen}");
            })
        },
        None,
    ),
    below(
        "cgroup.freeze",
        0,
        |group, from, piece| number(from, piece, u32::from(group.freezes())),
        Some(|group, _, text| match signed(text)? {
            0 => group.set_freezes(false),
            1 => group.set_freezes(true),
            _ => Err(Errno::ERANGE),
        }),
    ),
    order("cgroup.kill", |group, _, text| match signed(text)? {
        1 => group.kill(),
        _ => Err(Errno::ERANGE),
    }),
    below(
        "cpu.weight",
        CPU,
        |group, from, piece| number(from, piece, group.weight()),
        Some(|group, _, text| group.set_weight(unsigned(text)?)),
    ),
    below("cpu.weight.nice", CPU, nice, Some(set_nice)),
    below(
        "pids.max",
        PIDS,
        |group, from, piece| limit(from, piece, group.most_threads().0),
        Some(|group, _, text| {
            let most = match text {
                "max" => UNLIMITED,
                number => number.parse().map_err(|_| Errno::EINVAL)?,
            };
            if most != UNLIMITED && most > MOST_THREADS {
                return Err(Errno::EINVAL);
            }
            group.set_most_threads(most);
            Ok(())
        }),
    ),
    below(
        "pids.current",
        PIDS,
        |group, from, piece| number(from, piece, group.threads()),
        None,
    ),
    below(
        "pids.events",
        PIDS,
        |group, from, piece| {
            one(from, piece, |out| {
                let _ = writeln!(out, "max {}", group.most_threads().1);
            })
        },
        None,
    ),
];

/// The text of one record.
fn one(from: u64, piece: &mut TextPiece, write: impl FnOnce(&mut TextOut)) -> Result<()> {
    if from == 0 {
        piece.record(1, write);
    }
    Ok(())
}

fn number(from: u64, piece: &mut TextPiece, number: u32) -> Result<()> {
    one(from, piece, |out| {
        let _ = writeln!(out, "{number}");
    })
}

fn limit(from: u64, piece: &mut TextPiece, limit: u32) -> Result<()> {
    match limit {
        UNLIMITED => one(from, piece, |out| out.push_str("max\n")),
        limit => number(from, piece, limit),
    }
}

fn names(controllers: u32, out: &mut TextOut) {
    let mut between = "";
    for (name, _) in CONTROLLERS.iter().filter(|(_, bit)| controllers & bit != 0) {
        let _ = write!(out, "{between}{name}");
        between = " ";
    }
    out.push('\n');
}

/// A number that is written, perhaps below zero: decimal, hexadecimal or octal, as C has them. EINVAL,
/// ERANGE.
fn signed(text: &str) -> Result<i32> {
    let (negative, text) = match text.strip_prefix('-') {
        Some(text) if !text.starts_with('+') => (true, text),
        Some(_) => return Err(Errno::EINVAL),
        None => (false, text),
    };
    let number = i64::try_from(unsigned(text)?).map_err(|_| Errno::ERANGE)?;
    i32::try_from(if negative { -number } else { number }).map_err(|_| Errno::ERANGE)
}

/// A number that is written: decimal, hexadecimal or octal, as C has them. EINVAL, ERANGE.
fn unsigned(text: &str) -> Result<u64> {
    let text = text.strip_prefix('+').unwrap_or(text);
    let (digits, radix) = match text.as_bytes() {
        [b'0', b'x' | b'X', _, ..] => (text.get(2..).unwrap_or(""), 16),
        [b'0', _, ..] => (text, 8),
        _ => (text, 10),
    };
    if digits.is_empty() || !digits.bytes().all(|byte| (byte as char).is_digit(radix)) {
        return Err(Errno::EINVAL);
    }
    u64::from_str_radix(digits, radix).map_err(|_| Errno::ERANGE)
}

fn processes(group: &Arc<Cgroup>, from: u64, piece: &mut TextPiece) -> Result<()> {
    let mut from = from;
    while let Some(pid) = cgroup::member_after(group, from) {
        from = pid as u64 + 1;
        let more = piece.record(from, |out| {
            let _ = writeln!(out, "{pid}");
        });
        if !more {
            break;
        }
    }
    Ok(())
}

fn threads(group: &Arc<Cgroup>, from: u64, piece: &mut TextPiece) -> Result<()> {
    let (mut process, mut last) = ((from >> 32) as i32, from as u32 as i32);
    while let Some((pid, tid)) = cgroup::thread_after(group, process, last) {
        (process, last) = (pid, tid);
        let more = piece.record((pid as u64) << 32 | tid as u64, |out| {
            let _ = writeln!(out, "{tid}");
        });
        if !more {
            break;
        }
    }
    Ok(())
}

/// The number of a process or thread; 0 is the caller's. EINVAL.
fn id(text: &str) -> Result<i32> {
    let id: i32 = text.parse().map_err(|_| Errno::EINVAL)?;
    if id < 0 { Err(Errno::EINVAL) } else { Ok(id) }
}

fn receive(group: &Arc<Cgroup>, opener: &Cred, text: &str) -> Result<()> {
    group.receive(id(text)?, |common| may_move(common, opener))
}

/// Whether `opener` may move processes within `group`. EACCES.
pub(super) fn may_move(group: &Cgroup, opener: &Cred) -> Result<()> {
    let owner = group.owner(PROCS + 1).ok_or(Errno::EACCES)?;
    // Bound: a few words.
    let owner = *owner.lock();
    let bits = ModeBits {
        mode: owner.mode,
        uid: owner.uid,
        gid: owner.gid,
    };
    perm::check(opener, bits, None, perm::WRITE)
}

fn receive_thread(group: &Arc<Cgroup>, _opener: &Cred, text: &str) -> Result<()> {
    group.receive_thread(id(text)?)
}

fn pass_on(group: &Arc<Cgroup>, _opener: &Cred, text: &str) -> Result<()> {
    let (mut given, mut taken) = (0, 0);
    for word in text.split_ascii_whitespace() {
        let (sign, name) = word.split_at_checked(1).ok_or(Errno::EINVAL)?;
        let known = CONTROLLERS.iter().find(|(known, _)| *known == name);
        let bit = known.ok_or(Errno::EINVAL)?.1;
        match sign {
            "+" => (given, taken) = (given | bit, taken & !bit),
            "-" => (given, taken) = (given & !bit, taken | bit),
            _ => return Err(Errno::EINVAL),
        }
    }
    group.pass_on(given, taken)
}

fn bound(group: &Arc<Cgroup>, which: usize, from: u64, piece: &mut TextPiece) -> Result<()> {
    let bounds = group.most_below();
    let most = bounds.get(which).ok_or(Errno::EINVAL)?;
    limit(from, piece, most.load(Ordering::Relaxed))
}

fn set_bound(group: &Arc<Cgroup>, which: usize, text: &str) -> Result<()> {
    let most = match text {
        "max" => UNLIMITED,
        number => {
            let number: i32 = number.parse().map_err(|_| Errno::EINVAL)?;
            u32::try_from(number).map_err(|_| Errno::ERANGE)?
        }
    };
    let bounds = group.most_below();
    let bound = bounds.get(which).ok_or(Errno::EINVAL)?;
    bound.store(most, Ordering::Relaxed);
    Ok(())
}

fn consumed(group: &Arc<Cgroup>, from: u64, piece: &mut TextPiece) -> Result<()> {
    let (user_ns, system_ns) = match group.is_root() {
        false => {
            let consumed = group.consumed()?;
            (consumed.user_ns, consumed.system_ns)
        }
        true => {
            let splits = (0..machine::cpu::cpus()).map(thread::cpu_time_sampling::of_cpu);
            splits.fold((0, 0), |(user, system), split| {
                (user + split.user + split.nice, system + split.system)
            })
        }
    };
    let times = [user_ns + system_ns, user_ns, system_ns];
    let [usage, user, system] = times.map(|time| time / 1000);
    one(from, piece, |out| {
        let _ = writeln!(out, "usage_usec {usage}");
        let _ = writeln!(out, "user_usec {user}\nsystem_usec {system}");
    })
}

fn kind(group: &Arc<Cgroup>, from: u64, piece: &mut TextPiece) -> Result<()> {
    let kind = match (group.is_invalid(), group.is_mixed()) {
        (true, _) => "domain invalid\n",
        (_, true) => "domain threaded\n",
        _ => "domain\n",
    };
    one(from, piece, |out| out.push_str(kind))
}

/// Threads of a process are not separated.
fn set_kind(_group: &Arc<Cgroup>, _opener: &Cred, text: &str) -> Result<()> {
    match text {
        "threaded" => Err(Errno::EOPNOTSUPP),
        _ => Err(Errno::EINVAL),
    }
}

/// Linux's weights of a thread by its niceness, from −20 on; 1024 is the usual one.
const WEIGHTS: [u32; 40] = [
    88761, 71755, 56483, 46273, 36291, 29154, 23254, 18705, 14949, 11916, 9548, 7620, 6100, 4904,
    3906, 3121, 2501, 1991, 1586, 1277, 1024, 820, 655, 526, 423, 335, 272, 215, 172, 137, 110, 87,
    70, 56, 45, 36, 29, 23, 18, 15,
];
const USUAL: u32 = 1024;

/// The niceness of a thread with about the weight of the group.
fn nice(group: &Arc<Cgroup>, from: u64, piece: &mut TextPiece) -> Result<()> {
    let weight = group.weight() * USUAL / WEIGHT;
    let near = (-20..)
        .zip(WEIGHTS)
        .min_by_key(|(_, other)| other.abs_diff(weight));
    one(from, piece, |out| {
        let _ = writeln!(out, "{}", near.map_or(0, |(nice, _)| nice));
    })
}

fn set_nice(group: &Arc<Cgroup>, _opener: &Cred, text: &str) -> Result<()> {
    let nice: i64 = text.parse().map_err(|_| Errno::EINVAL)?;
    let place = usize::try_from(nice.saturating_add(20)).map_err(|_| Errno::ERANGE)?;
    let weight = WEIGHTS.get(place).ok_or(Errno::ERANGE)?;
    let weight = (weight * WEIGHT + USUAL / 2) / USUAL;
    group.set_weight(u64::from(weight))
}

/// The line about `process` in its directory of `/proc`. ENOMEM.
pub fn line(process: &Process, out: &mut TextOut) -> Result<()> {
    out.push_str("0::");
    match cgroup::of(process) {
        Some(group) => out.push_bytes(&group.path()?),
        None => out.push('/'),
    }
    out.push('\n');
    Ok(())
}

/// The controllers, for `/proc/cgroups`.
pub fn controllers(out: &mut TextOut) -> Result<()> {
    out.push_str("#subsys_name\thierarchy\tnum_cgroups\tenabled\n");
    let groups = cgroup::root().map_or(0, |root| root.below() + 1);
    for (name, _) in CONTROLLERS {
        let _ = writeln!(out, "{name}\t0\t{groups}\t1");
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_read_as_linux_reads_them() {
        for (text, number) in [
            ("0", Ok(0)),
            ("17", Ok(17)),
            ("+17", Ok(17)),
            ("-17", Ok(-17)),
            ("017", Ok(0o17)),
            ("-0x1F", Ok(-0x1f)),
            ("0Xf", Ok(0xf)),
            ("018", Err(Errno::EINVAL)),
            ("0x", Err(Errno::EINVAL)),
            ("", Err(Errno::EINVAL)),
            ("-", Err(Errno::EINVAL)),
            ("-+1", Err(Errno::EINVAL)),
            ("1 ", Err(Errno::EINVAL)),
            ("2147483647", Ok(i32::MAX)),
            ("2147483648", Err(Errno::ERANGE)),
            ("-2147483648", Ok(i32::MIN)),
            ("99999999999999999999", Err(Errno::ERANGE)),
        ] {
            assert_eq!(signed(text), number, "{text}");
        }
        assert_eq!(unsigned("4294967296"), Ok(1 << 32));
        assert_eq!(unsigned("-1"), Err(Errno::EINVAL));
    }
}
