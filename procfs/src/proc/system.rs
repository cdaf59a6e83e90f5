//! The files of `/proc` about the whole machine.
//!
//! *Interface.* [`ROOT`] is the folder of it.
#![expect(
    clippy::disallowed_methods,
    clippy::disallowed_macros,
    reason = "numbers and names of the machine"
)]

use abi::errno::{Errno, Result};
use abi::layout::PAGE;
use abi::linux::SOMAXCONN;
use alloc::format;
use alloc::string::String;
use alloc::sync::Arc;
use core::fmt::{self, Write};
use core::sync::atomic::{AtomicU64, Ordering};
use machine::cpu::MAX_CPUS;
use machine::log::READERS;
use machine::mitigate::Bug;
use machine::topology::{self, CacheKind};

use super::{counters, sysvipc};
use crate::printk_levels::LEVELS;
use crate::release::{RELEASE, VERSION};
use account::Capability;
use account::quota;
use file::fs::dev;
use file::fs::fsnotify::limits as inotify;
use file::fs::klog;
use file::fs::pseudofs::{
    FixedDir, FixedEntry, PseudoEntry, TextOut, TextPiece, long_text, text, whole,
};
use file::io::IoBuf;
use file::pipe::size::{limits as pipes, round};
use file::poll::{PollTable, READS};
use file::socket::inet::{self, icmp, ports};
use file::{File, OpenFile};
use process::hostname;
use process::ipc::mqueue::limits as queues;
use process::ipc::{memory as segments, message, semaphore};
use process::signal::coredump;
use process::{access, tree};

const TICK_NS: u64 = 10_000_000;

macro_rules! line {
    ($value:expr) => {
        || {
            text(|out| {
                let _ = writeln!(out, "{}", $value);
                Ok(())
            })
        }
    };
}

/// Two numbers, the first not the larger one, that root may set.
macro_rules! pair {
    ($at:expr, $kind:ty) => {
        || {
            let show = |out: &mut TextOut| {
                let [low, high] = $at.each_ref().map(|end| end.load(Ordering::Relaxed));
                let _ = writeln!(out, "{low}\t{high}");
                Ok(())
            };
            PseudoEntry::Setting(whole(show), |text| {
                let mut words = text.split_whitespace().map(|word| word.parse::<$kind>());
                let (Some(Ok(low)), Some(Ok(high)), None) =
                    (words.next(), words.next(), words.next())
                else {
                    return Err(Errno::EINVAL);
                };
                if low > high {
                    return Err(Errno::EINVAL);
                }
                for (end, number) in $at.iter().zip([low, high]) {
                    end.store(number, Ordering::Relaxed);
                }
                Ok(())
            })
        }
    };
}

/// A number that root may set.
macro_rules! number {
    ($at:expr) => {
        || {
            let show = |out: &mut TextOut| {
                let _ = writeln!(out, "{}", $at.load(Ordering::Relaxed));
                Ok(())
            };
            PseudoEntry::Setting(whole(show), |text| {
                let number: i32 = text.trim().parse().map_err(|_| Errno::EINVAL)?;
                let number = usize::try_from(number).map_err(|_| Errno::EINVAL)?;
                $at.store(number, Ordering::Relaxed);
                Ok(())
            })
        }
    };
}

/// The number that the next object of System V shall have, -1 for any.
macro_rules! next_id {
    ($at:expr) => {
        || {
            let show = |out: &mut TextOut| {
                let _ = writeln!(out, "{}", $at.next.load(Ordering::Relaxed));
                Ok(())
            };
            PseudoEntry::Setting(whole(show), |text| {
                let number: i32 = text.trim().parse().map_err(|_| Errno::EINVAL)?;
                if number < 0 {
                    return Err(Errno::EINVAL);
                }
                $at.next.store(number, Ordering::Relaxed);
                Ok(())
            })
        }
    };
}

/// A number from a range that root may set.
macro_rules! ranged {
    ($at:expr, $range:expr) => {
        || {
            let show = |out: &mut TextOut| {
                let _ = writeln!(out, "{}", $at.load(Ordering::Relaxed));
                Ok(())
            };
            PseudoEntry::Setting(whole(show), |text| {
                let number: usize = text.trim().parse().map_err(|_| Errno::EINVAL)?;
                if !$range.contains(&number) {
                    return Err(Errno::EINVAL);
                }
                $at.store(number, Ordering::Relaxed);
                Ok(())
            })
        }
    };
}

/// A name of the machine that root may set.
macro_rules! named {
    ($which:expr) => {
        || {
            let show = |out: &mut TextOut| {
                out.push_bytes(&hostname::name($which));
                out.push('\n');
                Ok(())
            };
            PseudoEntry::Setting(whole(show), |name| {
                let cred = account::caller::cred();
                cred.need(Capability::SysAdmin)?;
                hostname::rename($which, name.as_bytes());
                Ok(())
            })
        }
    };
}

/// The fixed names of `/proc`.
pub const ROOT: FixedDir = FixedDir(&[
    ("buddyinfo", || text(counters::blocks)),
    ("cmdline", line!(machine::boot::info().cmdline)),
    ("cpuinfo", || long_text(cpuinfo)),
    ("devices", || text(counters::devices)),
    ("diskstats", || text(counters::nothing)),
    ("cgroups", || text(crate::cgroupfs::controllers)),
    ("filesystems", || text(filesystems)),
    ("interrupts", || long_text(counters::interrupts)),
    ("kmsg", || PseudoEntry::Special(Arc::new(Kmsg))),
    ("loadavg", || text(loadavg)),
    ("meminfo", || text(meminfo)),
    ("misc", || text(counters::nothing)),
    ("mounts", || PseudoEntry::Link(b"self/mounts".to_vec())),
    ("net", || PseudoEntry::Link(b"self/net".to_vec())),
    ("partitions", || text(counters::nothing)),
    ("softirqs", || text(counters::softirqs)),
    ("stat", || long_text(stat)),
    (
        "swaps",
        line!("Filename\t\t\t\tType\t\tSize\t\tUsed\t\tPriority"),
    ),
    ("sys", || PseudoEntry::Dir(Arc::new(FixedDir(SYS)))),
    ("sysvipc", || {
        PseudoEntry::Dir(Arc::new(FixedDir(sysvipc::ALL)))
    }),
    ("uptime", || text(uptime)),
    (
        "version",
        line!(format!("Linux version {RELEASE} ({VERSION}) #1 SMP")),
    ),
    ("vmstat", || text(counters::vmstat)),
    ("zoneinfo", || text(counters::zones)),
]);

const SYS: &[FixedEntry] = &[
    ("fs", || PseudoEntry::Dir(Arc::new(FixedDir(SYS_FS)))),
    ("kernel", || {
        PseudoEntry::Dir(Arc::new(FixedDir(SYS_KERNEL)))
    }),
    ("net", || PseudoEntry::Dir(Arc::new(FixedDir(SYS_NET)))),
    ("vm", || PseudoEntry::Dir(Arc::new(FixedDir(SYS_VM)))),
];

const SYS_FS: &[FixedEntry] = &[
    ("file-max", line!(quota::descriptions_max())),
    ("inotify", || {
        PseudoEntry::Dir(Arc::new(FixedDir(SYS_INOTIFY)))
    }),
    ("lease-break-time", number!(file::fs::lease::BREAK_TIME)),
    ("mqueue", || {
        PseudoEntry::Dir(Arc::new(FixedDir(SYS_MQUEUE)))
    }),
    ("nr_open", line!(file::fdtable::MAX_CAPACITY)),
    ("pipe-max-size", || {
        let show = |out: &mut TextOut| {
            let _ = writeln!(out, "{}", pipes::SIZE.load(Ordering::Relaxed));
            Ok(())
        };
        PseudoEntry::Setting(whole(show), |text| {
            let wanted: u32 = text.trim().parse().map_err(|_| Errno::EINVAL)?;
            pipes::SIZE.store(round(wanted as usize)?, Ordering::Relaxed);
            Ok(())
        })
    }),
    ("pipe-user-pages-hard", number!(quota::pipes::HARD)),
    ("pipe-user-pages-soft", number!(quota::pipes::SOFT)),
    ("suid_dumpable", line!(0)),
];

const SYS_MQUEUE: &[FixedEntry] = &[
    (
        "msg_default",
        ranged!(queues::MESSAGES_DEFAULT, 1..=queues::MESSAGES_HARD),
    ),
    (
        "msg_max",
        ranged!(queues::MESSAGES, 1..=queues::MESSAGES_HARD),
    ),
    (
        "msgsize_default",
        ranged!(queues::BYTES_DEFAULT, 128..=queues::BYTES_HARD),
    ),
    (
        "msgsize_max",
        ranged!(queues::BYTES, 128..=queues::BYTES_HARD),
    ),
    ("queues_max", number!(queues::QUEUES)),
];

const SYS_INOTIFY: &[FixedEntry] = &[
    ("max_queued_events", number!(inotify::QUEUED)),
    ("max_user_instances", number!(inotify::INSTANCES)),
    ("max_user_watches", number!(inotify::WATCHES)),
];

const SYS_VM: &[FixedEntry] = &[
    (
        "max_map_count",
        ranged!(vm::space::AREAS_MAX, 0..=i32::MAX as usize),
    ),
    ("overcommit_memory", line!(1)),
];

const SYS_NET: &[FixedEntry] = &[
    ("core", || {
        PseudoEntry::Dir(Arc::new(FixedDir(SYS_NET_CORE)))
    }),
    ("ipv4", || {
        PseudoEntry::Dir(Arc::new(FixedDir(SYS_NET_IPV4)))
    }),
];

const SYS_NET_CORE: &[FixedEntry] = &[("somaxconn", line!(SOMAXCONN))];

const SYS_NET_IPV4: &[FixedEntry] = &[
    ("ip_local_port_range", pair!(ports::RANGE, u16)),
    ("ip_unprivileged_port_start", line!(inet::UNPRIVILEGED)),
    ("ping_group_range", pair!(icmp::GROUPS, i32)),
];

const SYS_PTY: &[FixedEntry] = &[("max", line!(quota::PTYS)), ("nr", line!(quota::ptys()))];

const SYS_KERNEL: &[FixedEntry] = &[
    ("core_pattern", || {
        let show = |out: &mut TextOut| {
            out.push_bytes(&coredump::pattern());
            out.push('\n');
            Ok(())
        };
        PseudoEntry::Setting(whole(show), coredump::set_pattern)
    }),
    ("core_uses_pid", || {
        let show = |out: &mut TextOut| {
            let _ = writeln!(
                out,
                "{}",
                u8::from(coredump::USES_PID.load(Ordering::Relaxed))
            );
            Ok(())
        };
        PseudoEntry::Setting(whole(show), |text| {
            let number: i32 = text.trim().parse().map_err(|_| Errno::EINVAL)?;
            coredump::USES_PID.store(number != 0, Ordering::Relaxed);
            Ok(())
        })
    }),
    ("dmesg_restrict", line!(1)),
    ("domainname", named!(hostname::NodeOrDomain::Domain)),
    ("hostname", named!(hostname::NodeOrDomain::Host)),
    ("kptr_restrict", line!(1)),
    ("pty", || PseudoEntry::Dir(Arc::new(FixedDir(SYS_PTY)))),
    ("cap_last_cap", line!(40)),
    ("msgmax", number!(message::limits::MESSAGE)),
    ("msgmnb", number!(message::limits::QUEUE)),
    ("msgmni", number!(message::QUEUES.most)),
    ("msg_next_id", next_id!(message::QUEUES)),
    ("sem_next_id", next_id!(semaphore::SETS)),
    ("shm_next_id", next_id!(segments::SEGMENTS)),
    (
        "sem",
        line!(format!(
            "{}\t1024000000\t{}\t{}",
            semaphore::PER_SET,
            semaphore::PER_CALL,
            semaphore::SETS.most.load(Ordering::Relaxed)
        )),
    ),
    ("shmall", line!(segments::BYTES_MAX)),
    ("shmmax", line!(segments::BYTES_MAX)),
    ("shmmni", number!(segments::SEGMENTS.most)),
    ("ngroups_max", line!(65536)),
    ("osrelease", line!(RELEASE)),
    ("ostype", line!("Linux")),
    ("pid_max", line!(tree::NUMBERS_MAX)),
    ("printk", || {
        let show = |out: &mut TextOut| {
            let [level, message, least, usual] =
                LEVELS.each_ref().map(|level| level.load(Ordering::Relaxed));
            let _ = writeln!(out, "{level}\t{message}\t{least}\t{usual}");
            Ok(())
        };
        PseudoEntry::Setting(whole(show), |text| {
            // As many as are given.
            for (level, word) in LEVELS.iter().zip(text.split_whitespace()) {
                let number = word.parse().map_err(|_| Errno::EINVAL)?;
                level.store(number, Ordering::Relaxed);
            }
            Ok(())
        })
    }),
    ("random", || {
        PseudoEntry::Dir(Arc::new(FixedDir(SYS_RANDOM)))
    }),
    ("tainted", line!(0)),
    ("threads-max", line!(tree::most())),
    ("version", line!(VERSION)),
    ("yama", || PseudoEntry::Dir(Arc::new(FixedDir(SYS_YAMA)))),
];

const SYS_YAMA: &[FixedEntry] = &[("ptrace_scope", || {
    let show = |out: &mut TextOut| {
        let _ = writeln!(out, "{}", access::scope());
        Ok(())
    };
    PseudoEntry::Setting(whole(show), |text| {
        access::set_scope(text.trim().parse().map_err(|_| Errno::EINVAL)?)
    })
})];

const SYS_RANDOM: &[FixedEntry] = &[
    ("boot_id", line!(boot_id())),
    ("entropy_avail", line!(dev::ENTROPY_BITS)),
    ("poolsize", line!(dev::ENTROPY_BITS)),
    (
        "uuid",
        line!(uuid(machine::random::u64(), machine::random::u64())),
    ),
];

/// A random (version 4) UUID of these bits.
fn uuid(high: u64, low: u64) -> String {
    format!(
        "{:08x}-{:04x}-4{:03x}-{:04x}-{:012x}",
        high >> 32,
        high >> 16 & 0xffff,
        high & 0xfff,
        low >> 48 & 0x3fff | 0x8000,
        low & 0xffff_ffff_ffff,
    )
}

fn boot_id() -> String {
    static ID: [AtomicU64; 2] = [const { AtomicU64::new(0) }; 2];
    for word in &ID {
        let fresh = machine::random::u64() | 1;
        // The first caller sets the value.
        let _ = word.compare_exchange(0, fresh, Ordering::Relaxed, Ordering::Relaxed);
    }
    uuid(ID[0].load(Ordering::Relaxed), ID[1].load(Ordering::Relaxed))
}

fn meminfo(out: &mut TextOut) -> Result<()> {
    let frames = vm::frame::stats();
    let heap = vm::heap::stats();
    let kib = |frames: usize| frames * PAGE / 1024;
    let (cached, dirty) = file::page_cache::index::counts();
    let clean = cached.saturating_sub(dirty);
    let rows = [
        ("MemTotal", kib(frames.total)),
        ("MemFree", kib(frames.free)),
        (
            "MemAvailable",
            kib((frames.free + clean).saturating_sub(frames.reserve)),
        ),
        ("Buffers", 0),
        ("Cached", kib(cached)),
        ("SwapCached", 0),
        ("SwapTotal", 0),
        ("SwapFree", 0),
        ("Dirty", kib(dirty)),
        ("Shmem", 0),
        ("Slab", heap.held / 1024),
        ("SReclaimable", 0),
        ("SUnreclaim", heap.held / 1024),
    ];
    for (name, value) in rows {
        out.push_str(name);
        out.push_str(":");
        out.blanks(15usize.saturating_sub(name.len()));
        out.right(value as u64, 8);
        out.push_str(" kB\n");
    }
    Ok(())
}

/// CPU time of the idle thread of CPU number `cpu`, nanoseconds.
fn idle_ns(cpu: usize) -> u64 {
    thread::find(thread::stats(cpu).idle).map_or(0, |idle| idle.cpu_ns())
}

/// Times of a CPU in ticks: of programs, of nice ones, the kernel's, idle. The busy time is divided as
/// samples say.
fn times(cpu: usize) -> [u64; 4] {
    static TOLD: [[AtomicU64; 4]; MAX_CPUS] =
        [const { [const { AtomicU64::new(0) }; 4] }; MAX_CPUS];
    let now = machine::clock::now_ns();
    let idle = idle_ns(cpu).min(now);
    let split = thread::cpu_time_sampling::of_cpu(cpu);
    let parts = [split.user, split.nice, split.system].map(u128::from);
    let all = parts.iter().sum::<u128>();
    let busy = u128::from(now - idle);
    // At first, before there is a sample, the kernel boots.
    let [user, nice, system] = parts.map(|part| (busy * part).checked_div(all));
    let system = system.unwrap_or(busy);
    let times = [
        user.unwrap_or(0),
        nice.unwrap_or(0),
        system,
        u128::from(idle),
    ];
    let mut ticks = times.map(|ns| ns as u64 / TICK_NS);
    // Nothing that was told goes back.
    for (ticks, told) in ticks.iter_mut().zip(TOLD.get(cpu).into_iter().flatten()) {
        *ticks = told.fetch_max(*ticks, Ordering::Relaxed).max(*ticks);
    }
    ticks
}

/// Records: a line for all CPUs, one for each, and the rest.
fn stat(from: u64, piece: &mut TextPiece) -> Result<()> {
    let cpus = machine::cpu::cpus() as u64;
    let row = |out: &mut TextOut, name: fmt::Arguments, [user, nice, system, idle]: [u64; 4]| {
        let _ = writeln!(out, "{name} {user} {nice} {system} {idle} 0 0 0 0 0 0");
    };
    for at in from..=cpus {
        let more = piece.record(at + 1, |out| match at.checked_sub(1) {
            None => {
                let mut sum = [0; 4];
                for times in (0..cpus as usize).map(times) {
                    sum.iter_mut()
                        .zip(times)
                        .for_each(|(sum, time)| *sum += time);
                }
                row(out, format_args!("cpu "), sum);
            }
            Some(cpu) => row(out, format_args!("cpu{cpu}"), times(cpu as usize)),
        });
        if !more {
            return Ok(());
        }
    }
    if from <= cpus + 1 {
        piece.record(cpus + 2, counts);
    }
    Ok(())
}

/// The lines of `stat` below the first ones.
fn counts(out: &mut TextOut) {
    let count = |vector: u8| machine::irq::count(vector);
    let taken: u64 = (0..=u8::MAX).map(count).sum();
    let switches = thread::all_switches();
    let _ = writeln!(
        out,
        "intr {taken}\nctxt {switches}\nbtime {}\nprocesses {}\nprocs_running {}\nprocs_blocked 0",
        machine::clock::wall_at_boot(),
        tree::last_number(),
        ready(),
    );
    let _ = writeln!(out, "softirq 0 0 0 0 0 0 0 0 0 0 0");
}

/// Threads that are ready or running, idle ones apart.
fn ready() -> u32 {
    (0..machine::cpu::cpus())
        .map(|cpu| thread::stats(cpu).ready)
        .sum()
}

fn uptime(out: &mut TextOut) -> Result<()> {
    let idle: u64 = (0..machine::cpu::cpus()).map(idle_ns).sum();
    let hundredths = |ns: u64| (ns / 1_000_000_000, ns / 10_000_000 % 100);
    let (up, up_part) = hundredths(machine::clock::now_ns());
    let (idle, idle_part) = hundredths(idle);
    let _ = writeln!(out, "{up}.{up_part:02} {idle}.{idle_part:02}");
    Ok(())
}

fn loadavg(out: &mut TextOut) -> Result<()> {
    for average in thread::cpu_time_sampling::load() {
        // To the next hundredth.
        let hundredths = (average * 100 + 1024) / 2048;
        let _ = write!(out, "{}.{:02} ", hundredths / 100, hundredths % 100);
    }
    let mut threads = 0;
    tree::each(|_| true, |process| threads += process.thread_count());
    let _ = writeln!(out, "{}/{threads} {}", ready(), tree::last_number());
    Ok(())
}

/// A record for each CPU from number `from` on.
fn cpuinfo(from: u64, piece: &mut TextPiece) -> Result<()> {
    for cpu in from..machine::cpu::cpus() as u64 {
        if !piece.record(cpu + 1, |out| one_cpu(cpu, out)) {
            break;
        }
    }
    Ok(())
}

fn one_cpu(cpu: u64, out: &mut TextOut) {
    let features = machine::features::get();
    let brand = machine::features::brand();
    let model = String::from_utf8_lossy(&brand);
    let khz = machine::clock::tsc_khz();
    let [leaves, b, c, d] = machine::features::cpuid(0, 0);
    let vendor: alloc::vec::Vec<u8> = [b, d, c].iter().flat_map(|r| r.to_le_bytes()).collect();
    let [signature, about, ..] = machine::features::cpuid(1, 0);
    // In units of eight bytes.
    let line = (about >> 8 & 0xff) * 8;
    let [widths, ..] = machine::features::cpuid(0x8000_0008, 0);
    let siblings = (0..machine::cpu::cpus())
        .filter(|other| topology::package_of(*other) == topology::package_of(cpu as usize));
    let cores = siblings.clone().filter(|other| {
        // The first of each core stands for it.
        let core = topology::core_of(*other);
        !siblings
            .clone()
            .take_while(|first| first < other)
            .any(|first| topology::core_of(first) == core)
    });
    let _ = write!(
        out,
        "processor\t: {cpu}\nvendor_id\t: {}\ncpu family\t: {}\nmodel\t\t: {}\nmodel name\t: {}\nstepping\t: {}\ncpu MHz\t\t: {}.{:03}\ncache size\t: {} KB\nphysical id\t: {}\nsiblings\t: {}\ncore id\t\t: {}\ncpu cores\t: {}\nfpu\t\t: yes\nfpu_exception\t: yes\ncpuid level\t: {leaves}\nwp\t\t: yes\nflags\t\t: fpu tsc msr pae cx8 apic cmov fxsr sse sse2 syscall lm",
        String::from_utf8_lossy(&vendor),
        (signature >> 8 & 0xf) + (signature >> 20 & 0xff),
        (signature >> 4 & 0xf) | (signature >> 12 & 0xf0),
        model.trim_matches(['\0', ' ']),
        signature & 0xf,
        khz / 1000,
        khz % 1000,
        cache_size(&vendor) / 1024,
        topology::package_of(cpu as usize),
        siblings.clone().count(),
        topology::core_of(cpu as usize),
        cores.count(),
    );
    let plan = machine::mitigate::plan();
    for name in features.names().chain(plan.facts.flags()) {
        let _ = write!(out, " {name}");
    }
    out.push_str("\nbugs\t\t:");
    for bug in Bug::ALL {
        if plan.bugs.contains(*bug) && !bug.short().is_empty() {
            let _ = write!(out, " {}", bug.short());
        }
    }
    let _ = write!(
        out,
        "\nbogomips\t: {}.{:02}\nclflush size\t: {line}\ncache_alignment\t: {line}\naddress sizes\t: {} bits physical, {} bits virtual\npower management:\n\n",
        khz / 500,
        khz / 5 % 100,
        widths & 0xff,
        widths >> 8 & 0xff
    );
}

/// Bytes of the cache that Linux names of a processor: the last one, or the second level of AMD's.
fn cache_size(vendor: &[u8]) -> u64 {
    let last = if vendor == b"AuthenticAMD" {
        2
    } else {
        u32::MAX
    };
    let whole =
        topology::caches().filter(|cache| cache.holds == CacheKind::Both && cache.level <= last);
    whole.last().map_or(0, |cache| cache.size())
}

fn filesystems(out: &mut TextOut) -> Result<()> {
    for kind in file::fs::fs_types::all() {
        let _ = writeln!(out, "nodev\t{}", kind.name);
    }
    Ok(())
}

/// `/proc/kmsg`: what was not told of the log yet.
struct Kmsg;

impl File for Kmsg {
    fn read(&self, of: &OpenFile, buf: &mut IoBuf) -> Result<usize> {
        klog::read(buf, !of.nonblocking())
    }

    fn poll<'a>(
        &'a self,
        _of: &'a OpenFile,
        events: u32,
        table: Option<&mut PollTable<'a>>,
    ) -> u32 {
        if let Some(table) = table {
            table.watch(&READERS);
        }
        match klog::has_unread() {
            true => events & READS,
            false => 0,
        }
    }

    fn can_be_watched(&self) -> bool {
        true
    }

    fn wakes_each_time(&self) -> bool {
        true
    }
}
