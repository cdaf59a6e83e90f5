//! The guest tests by name.
//!
//! *Interface*: `TESTS`. Each boots one machine or a few, and gives its checks. `QUICK` are those of the
//! quick part.

use super::kit::Kit;
use super::tap::Check;
use super::{
    chains, cli, devices, dropouts, exhaust, faults, floods, fuzz, ltp, mitigations, music, order,
    players, posixfiles, refused, runtimes, session, shares, sounds, threads,
};
use crate::failure::Result;
use crate::machine::{Chipset, Machine, Status};
use crate::rootfs::Root;
use crate::{compile, debian, host};
use std::time::Duration;

/// One guest test.
pub struct Test {
    /// The name in `cargo xtask test NAME`.
    pub name: &'static str,
    /// One line about it.
    pub about: &'static str,
    /// Boots and checks.
    pub run: fn(&Kit) -> Vec<Check>,
}

const MINUTE: Duration = Duration::from_secs(60);

/// A little of everything, in a minute: what a change breaks at once.
pub const QUICK: &[&str] = &[
    "streams",
    "cli",
    "calls",
    "calls-files",
    "calls-signals",
    "calls-waits",
    "jobs",
    "mappings",
    "sockets",
    "epolls",
    "ptys",
    "shell",
];

/// All of them, the longest first, so that the workers end together.
pub const TESTS: &[Test] = &[
    Test {
        name: "order",
        about: "monitors are taken in the order of docs/locks.md, noted by a kernel of its own",
        run: order::run,
    },
    Test {
        name: "shares",
        about: "directories of the host: every call, 1,000 files both ways (--long: 5,000), several threads, by messages and by lines",
        run: shares::run,
    },
    Test {
        name: "ltp",
        about: "cases of the Linux Test Project, where its source is",
        run: ltp::run,
    },
    Test {
        name: "runtimes",
        about: "python's and Go's own tests of what they ask of a kernel, on 2 CPUs",
        run: runtimes::run,
    },
    Test {
        name: "torture",
        about: "every lock-free operation preempted, and stopped for ever, between any two instructions",
        run: threads::torture,
    },
    Test {
        name: "load",
        about: "a mixed load again and again, 4 CPUs",
        run: load,
    },
    Test {
        name: "fuzz",
        about: "random sequences of calls, and kept ones: as users and as root, on 1 and 4 CPUs",
        run: fuzz::run,
    },
    Test {
        name: "streams",
        about: "10 MiB through the command line unchanged",
        run: cli::streams,
    },
    Test {
        name: "devices",
        about: "virtio devices by messages and by lines, without any, and taken away",
        run: devices::run,
    },
    Test {
        name: "music",
        about: "pipelines of the programs of sound give what they give on the host, on 1 and 4 CPUs",
        run: music::run,
    },
    Test {
        name: "dsp",
        about: "/dev/dsp and /dev/mixer: settings, fragments, waiting, random operations, on 1 and 4 CPUs",
        run: players::dsp,
    },
    Test {
        name: "players",
        about: "programs from Debian's packages play tones by /dev/dsp, and they are heard",
        run: players::run,
    },
    Test {
        name: "kept",
        about: "cached files larger than memory beside a model, with delays and errors, on 1 and 4 CPUs",
        run: kept,
    },
    Test {
        name: "session",
        about: "type, edit, interrupt, suspend, end, under a pseudo-terminal",
        run: session::run,
    },
    Test {
        name: "cli",
        about: "exit statuses and clear errors of `cargo xtask run`",
        run: cli::statuses,
    },
    Test {
        name: "leaks",
        about: "frames, heap and code bytes return to where they were",
        run: leaks,
    },
    Test {
        name: "calls",
        about: "what Linux's calls promise, on 1 CPU",
        run: calls,
    },
    Test {
        name: "calls-smp",
        about: "the same on 4 CPUs",
        run: calls_smp,
    },
    Test {
        name: "calls-rights",
        about: "what an ordinary user may do to files and processes of others, and what not",
        run: calls_rights,
    },
    Test {
        name: "calls-files",
        about: "descriptors, offsets, appending, whole writes, locks, on 1 and 4 CPUs",
        run: calls_files,
    },
    Test {
        name: "looks",
        about: "what is said of files by every way to ask, and lists of directories, on 1 and 4 CPUs",
        run: looks,
    },
    Test {
        name: "calls-signals",
        about: "masks, nesting, stacks, frames and ends of signals, groups of children, on 1 and 4 CPUs",
        run: calls_signals,
    },
    Test {
        name: "calls-waits",
        about: "futexes, epoll, memory that moves, on 1 and 4 CPUs",
        run: calls_waits,
    },
    Test {
        name: "calls-user",
        about: "the suites of calls again, as an ordinary user",
        run: calls_user,
    },
    Test {
        name: "jobs",
        about: "corners of processes, threads and signals, on 1 and 4 CPUs",
        run: jobs,
    },
    Test {
        name: "tables",
        about: "threads that fight for descriptors, and others who look, on 1 and 4 CPUs",
        run: tables,
    },
    Test {
        name: "roots",
        about: "a root that nearly fills the machine, and one that does not fit",
        run: exhaust::roots,
    },
    Test {
        name: "hogs",
        about: "each kind of thing taken until there is no more, as a user and as root",
        run: exhaust::hogs,
    },
    Test {
        name: "returns",
        about: "what was killed gives its memory back on 4 CPUs, with nobody to help",
        run: exhaust::returns,
    },
    Test {
        name: "crowd",
        about: "2,000 processes, 10,000 threads and 10,000 sockets at once in 1 GiB, on 4 CPUs",
        run: exhaust::crowd,
    },
    Test {
        name: "limits",
        about: "limits of a user over all its processes, on 1 and 4 CPUs",
        run: exhaust::limits,
    },
    Test {
        name: "bounds",
        about: "limits of a process: files' lengths, data, time, locked memory, on 1 and 4 CPUs",
        run: exhaust::bounds,
    },
    Test {
        name: "locks",
        about: "record locks and flock, on 1 and 4 CPUs",
        run: locks,
    },
    Test {
        name: "tracers",
        about: "what tracers ask beyond stops: events, children, ends, calls, registers, memory, on 1 and 4 CPUs",
        run: tracers,
    },
    Test {
        name: "stops",
        about: "how traced processes stop, go on and end: seized ones, whole processes, who hears first, on 1 and 4 CPUs",
        run: stops,
    },
    Test {
        name: "ptys",
        about: "pseudo-terminals: names, data both ways, packets, sessions, ends, on 1 and 4 CPUs",
        run: ptys,
    },
    Test {
        name: "epolls",
        about: "epoll instances: levels, edges, nests, sleepers, several who wait, on 1 and 4 CPUs",
        run: epolls,
    },
    Test {
        name: "sigios",
        about: "signals about open files: O_ASYNC, whose and which, on 1 and 4 CPUs",
        run: sigios,
    },
    Test {
        name: "leases",
        about: "leases of files and notices of directories, on 1 and 4 CPUs",
        run: leases,
    },
    Test {
        name: "many",
        about: "descriptors by the ten thousand, and the highest numbers, on 1 and 4 CPUs",
        run: many,
    },
    Test {
        name: "futexes",
        about: "futexes: clocks, locks with inheritance, robust ones, requeues, waits on several, short ways, on 1 and 4 CPUs",
        run: futexes,
    },
    Test {
        name: "rseqs",
        about: "restartable sequences, on 1 and 4 CPUs",
        run: rseqs,
    },
    Test {
        name: "sounds",
        about: "what is played is heard: whole, mixed, beside others; a microphone; a card that goes",
        run: sounds::run,
    },
    Test {
        name: "floods",
        about: "devices that interrupt without a pause leave programs their share, and nothing is lost",
        run: floods::run,
    },
    Test {
        name: "pairs",
        about: "a pipeline is on one CPU while one is enough, and on two while it is not",
        run: pairs,
    },
    Test {
        name: "feeds",
        about: "CPU time follows data: full queues, niceness, fairness, cheats, by icount",
        run: feeds,
    },
    Test {
        name: "traces",
        about: "what the kernel shows of its scheduler: turns, channels, the recorder, by icount",
        run: traces,
    },
    Test {
        name: "policies",
        about: "affinity, on 1 and 4 CPUs; real-time policies and budgets, by icount",
        run: policies,
    },
    Test {
        name: "cgroups",
        about: "control groups: names, moves, limits, rights, races, on 1 and 4 CPUs; CPU time by weight, by icount",
        run: cgroups,
    },
    Test {
        name: "dropouts",
        about: "sound through five filters beside programs that compute: every sample, by icount (--long: 30 seconds)",
        run: dropouts::run,
    },
    Test {
        name: "clocks",
        about: "the clock of the day follows a better one: rate, offset, leap seconds, by icount",
        run: clocks,
    },
    Test {
        name: "events",
        about: "eventfd, timerfd, on 1 and 4 CPUs",
        run: events,
    },
    Test {
        name: "corners",
        about: "corners of calls that programs from elsewhere look into, on 1 and 4 CPUs",
        run: corners,
    },
    Test {
        name: "details",
        about: "details of calls: clocks that wake, the kernel's log, what random numbers are asked, addresses, on 1 and 4 CPUs",
        run: details,
    },
    Test {
        name: "kmsgs",
        about: "the kernel's log: its records and its text, readers that wait, many writers, on 1 and 4 CPUs",
        run: kmsgs,
    },
    Test {
        name: "pidfds",
        about: "signals and processes as files, on 1 and 4 CPUs",
        run: pidfds,
    },
    Test {
        name: "inotifies",
        about: "inotify, on 1 and 4 CPUs",
        run: inotifies,
    },
    Test {
        name: "sockets",
        about: "unix-domain sockets: streams, datagrams, packets, rights, credentials, on 1 and 4 CPUs",
        run: sockets,
    },
    Test {
        name: "inets",
        about: "sockets of IPv4 and IPv6 over loopback, on 1 and 4 CPUs",
        run: inets,
    },
    Test {
        name: "xattrs",
        about: "extended attributes, access control lists, capabilities of files",
        run: xattrs,
    },
    Test {
        name: "filters",
        about: "filters in the streams of open files, while bytes pass, on 1 and 4 CPUs",
        run: filters,
    },
    Test {
        name: "chains",
        about: "what executes on the usual paths was made by linking, by the interfacer's record and QEMU's blocks",
        run: chains::run,
    },
    Test {
        name: "quajects",
        about: "quajects of programs: made, linked and called by name, on 1 and 4 CPUs",
        run: quajects,
    },
    Test {
        name: "cached",
        about: "procedures that programs call by numbers of their own, on 1 and 4 CPUs",
        run: cached,
    },
    Test {
        name: "handles",
        about: "handles of files, whiteouts, sealed files that are made empty, on 1 and 4 CPUs",
        run: handles,
    },
    Test {
        name: "mappings",
        about: "how many mappings there may be, those that grow down, other pages in the same place, on 1 and 4 CPUs",
        run: mappings,
    },
    Test {
        name: "operations",
        about: "positional and vectored calls by routines of their own beside changes of all that they assume, on 1 and 4 CPUs",
        run: operations,
    },
    Test {
        name: "memories",
        about: "sealed files, memory of other processes, what mappings promise, on 1 and 4 CPUs",
        run: memories,
    },
    Test {
        name: "mqueues",
        about: "POSIX message queues: names, order, waits, notices, rights, their file system, on 1 and 4 CPUs",
        run: mqueues,
    },
    Test {
        name: "advices",
        about: "advice about memory: what a child has, what is given up, another's memory, which pages are there, on 1 and 4 CPUs",
        run: advices,
    },
    Test {
        name: "splices",
        about: "sizes of pipes, packets, moves between pipes, files, sockets, memory, on 1 and 4 CPUs",
        run: splices,
    },
    Test {
        name: "opens",
        about: "openat2's ways, programs that are written and run, files without a name, places, times, on 1 and 4 CPUs",
        run: opens,
    },
    Test {
        name: "mounts",
        about: "mounts on mounts: walks, moves, copies of trees, flags, ends, what is shown of them, on 1 and 4 CPUs",
        run: mounts,
    },
    Test {
        name: "netlinks",
        about: "netlink: interfaces, addresses, routes, sockets; /proc/net, on 1 and 4 CPUs",
        run: netlinks,
    },
    Test {
        name: "sysv",
        about: "shared memory, semaphores and message queues of System V, on 1 and 4 CPUs",
        run: sysv,
    },
    Test {
        name: "polls",
        about: "poll and select: answers, sleepers, signals, on 1 and 4 CPUs",
        run: polls,
    },
    Test {
        name: "figures",
        about: "/proc and /sys about processors, memory, devices and processes, on 1 and 4 CPUs",
        run: figures,
    },
    Test {
        name: "texts",
        about: "texts of /proc, however long and however they are read, on 1 and 4 CPUs",
        run: texts,
    },
    Test {
        name: "timers",
        about: "signals of timers, on 1 and 4 CPUs, and by icount",
        run: timers,
    },
    Test {
        name: "accounts",
        about: "times, faults and switches of processes and threads, clocks and timers of CPU time, on 1 and 4 CPUs",
        run: accounts,
    },
    Test {
        name: "settings",
        about: "scheduling, prctl, names and clocks give back what was set, on 1 and 4 CPUs",
        run: settings,
    },
    Test {
        name: "cores",
        about: "core files: when there is one, its name, what it holds, on 1 and 4 CPUs",
        run: cores,
    },
    Test {
        name: "extremes",
        about: "numbers at their ends: offsets, sizes, counts, times, addresses",
        run: extremes,
    },
    Test {
        name: "files",
        about: "files and the tools that work on them",
        run: files,
    },
    Test {
        name: "shell",
        about: "the shell as its users expect it",
        run: shell,
    },
    Test {
        name: "shell-smp",
        about: "the same on 8 CPUs",
        run: shell_smp,
    },
    Test {
        name: "system",
        about: "/proc, ps, top, mount, /syn",
        run: system,
    },
    Test {
        name: "programs",
        about: "static C programs by glibc and musl",
        run: programs,
    },
    Test {
        name: "packages",
        about: "programs from Debian's packages: servers, terminals, interpreters, on 2 CPUs",
        run: packages,
    },
    Test {
        name: "servers",
        about: "postgres, ssh, Go and node.js, from Debian's packages, on 2 CPUs",
        run: servers,
    },
    Test {
        name: "browsers",
        about: "Firefox and Chromium, from Debian's packages, on 2 CPUs (--long)",
        run: browsers,
    },
    Test {
        name: "posixfiles",
        about: "pjdfstest, what POSIX asks of files (--long)",
        run: posixfiles::run,
    },
    Test {
        name: "tmpfiles",
        about: "systemd-tmpfiles and systemd-journald, from Debian's package",
        run: tmpfiles,
    },
    Test {
        name: "timekeepers",
        about: "chronyd and ntpd, from Debian's packages, follow a reference clock",
        run: timekeepers,
    },
    Test {
        name: "alternatives",
        about: "a root of Debian packages as users get it: names left to update-alternatives, the tools of each Debian",
        run: alternatives,
    },
    Test {
        name: "tools",
        about: "tools from Debian's packages that look at programs and the machine: gdb, strace, ps, top, lsof, lscpu, sbcl, on 2 CPUs",
        run: tools,
    },
    Test {
        name: "watchpoints",
        about: "debug registers by ptrace, on 1 and 4 CPUs, with and without mitigations",
        run: watchpoints,
    },
    Test {
        name: "corrupt",
        about: "corrupt and truncated ELF files",
        run: corrupt,
    },
    Test {
        name: "hungry",
        about: "fork bomb, memory hog, a thousand pipes, at 32 MiB",
        run: hungry,
    },
    Test {
        name: "chosen",
        about: "oom_score_adj and oom_score: who ends when memory is out, on 1 and 4 CPUs",
        run: exhaust::chosen,
    },
    Test {
        name: "scarce",
        about: "each kind of object until the kernel says no, at 64 MiB, on 1 and 4 CPUs",
        run: scarce,
    },
    Test {
        name: "lists",
        about: "many children and many threads of one process, each question for memory refused in turn, on 1 and 4 CPUs",
        run: lists,
    },
    Test {
        name: "refused",
        about: "each question for memory answered with no: of each kind of thing, of programs, of a boot",
        run: refused::run,
    },
    Test {
        name: "holes",
        about: "what fallocate clears, beside a copy and beyond the end of a file",
        run: holes,
    },
    Test {
        name: "adverse",
        about: "small attacks in which everything must come together, on 1 and 4 CPUs",
        run: adverse,
    },
    Test {
        name: "rip",
        about: "program counters that are no address, by every way to set one, on 1 and 4 CPUs",
        run: rip,
    },
    Test {
        name: "survey",
        about: "the kernel's own memory: rights and aliases in all page tables, returns that the processor refuses",
        run: survey,
    },
    Test {
        name: "memory",
        about: "the kernel's checks of its own memory; pages taken away from other CPUs; faults of forks",
        run: memory,
    },
    Test {
        name: "threads",
        about: "the thread room's own suite, on 1, 2, 4 and 8 CPUs",
        run: threads::suite,
    },
    Test {
        name: "native",
        about: "thread operations between threads and processes, on 1, 2 and 4 CPUs",
        run: threads::native,
    },
    Test {
        name: "trace",
        about: "ptrace, on 1 and 4 CPUs",
        run: threads::trace,
    },
    Test {
        name: "access",
        about: "who may do what to whom, on 1 and 4 CPUs",
        run: access,
    },
    Test {
        name: "mitigations",
        about: "what is done about speculation, by processor; the usual suites under all of it",
        run: mitigations::run,
    },
    Test {
        name: "stopper",
        about: "random threads of processes and of the kernel are stopped; the machine goes on",
        run: threads::stopper,
    },
    Test {
        name: "floating",
        about: "every variant of the switch: CPUs with and without XSAVE and FSGSBASE",
        run: threads::floating,
    },
    Test {
        name: "switches",
        about: "instructions between one program's thread and the next: at most 60, 90 across spaces",
        run: threads::switches,
    },
    Test {
        name: "lateness",
        about: "a 250-µs timer's handler misses no instant on a busy machine",
        run: lateness,
    },
    Test {
        name: "boots",
        about: "1, 2 and 8 CPUs, 16 MiB, microvm, icount",
        run: boots,
    },
];

/// A machine with so many CPUs and so much memory.
pub fn with(kit: &Kit, name: &str, cpus: u32, mebibytes: u64) -> Machine {
    let mut machine = kit.machine(name);
    machine.cpus = cpus;
    machine.memory = mebibytes << 20;
    machine
}

fn script(kit: &Kit, name: &str, cpus: u32, mebibytes: u64) -> Vec<Check> {
    let machine = with(kit, &format!("{name}-{cpus}"), cpus, mebibytes);
    kit.tap(
        &machine,
        &["/bin/sh", &format!("/tests/{name}.sh")],
        5 * MINUTE,
    )
}

fn shell(kit: &Kit) -> Vec<Check> {
    script(kit, "shell", 1, 256)
}

fn shell_smp(kit: &Kit) -> Vec<Check> {
    script(kit, "shell", 8, 256)
}

fn files(kit: &Kit) -> Vec<Check> {
    script(kit, "files", 1, 256)
}

fn extremes(kit: &Kit) -> Vec<Check> {
    kit.tap(
        &with(kit, "extremes", 2, 256),
        &["/tests/extremes-glibc"],
        5 * MINUTE,
    )
}

fn system(kit: &Kit) -> Vec<Check> {
    script(kit, "system", 2, 128)
}

fn programs(kit: &Kit) -> Vec<Check> {
    script(kit, "programs", 1, 64)
}

/// The packages whose programs `tests/guest/packages.sh` runs.
const PACKAGES: &[&str] = &[
    "redis-server",
    "redis-tools",
    "iproute2",
    "bsdutils",
    "expect",
    "screen",
    "tmux",
    "rsync",
    "coreutils",
    "socat",
    "nginx",
    "curl",
    "apache2-utils",
    "fish",
    "python3",
    "perl",
    "ruby",
];

fn packages(kit: &Kit) -> Vec<Check> {
    of_packages(kit, "packages", PACKAGES, |_| Ok(()))
}

/// The packages whose programs `tests/guest/servers.sh` runs.
const SERVERS: &[&str] = &[
    "postgresql-15",
    "openssh-server",
    "openssh-client",
    "apache2-utils",
    "nodejs",
    "curl",
    "procps",
    "coreutils",
];

fn servers(kit: &Kit) -> Vec<Check> {
    of_packages(kit, "servers", SERVERS, |root| {
        let serve = compile::go("serve")?;
        root.add(&format!("{}:/bin/serve", serve.display()))
    })
}

/// The packages whose programs `tests/guest/tmpfiles.sh` runs.
const TMPFILES: &[&str] = &["systemd", "coreutils", "bsdutils"];

fn tmpfiles(kit: &Kit) -> Vec<Check> {
    of_packages(kit, "tmpfiles", TMPFILES, |_| Ok(()))
}

/// The packages whose daemons `tests/guest/timekeepers.sh` runs. They exclude each other.
const TIMEKEEPERS: [&str; 2] = ["chrony", "ntpsec"];

/// Under icount, where time that nobody uses passes at once.
fn timekeepers(kit: &Kit) -> Vec<Check> {
    let one = |package| {
        let mut machine = with(kit, &format!("timekeepers-{package}"), 1, 1024);
        machine.icount = Some(0);
        let script = ["/bin/sh", "/tests/timekeepers.sh", package];
        of_packages_on(kit, &machine, &[package, "coreutils"], &script, |root| {
            let clock = compile::program("refclock", &compile::GLIBC)?;
            root.add(&format!("{}:/bin/refclock", clock.display()))
        })
    };
    TIMEKEEPERS.into_iter().flat_map(one).collect()
}

/// Packages whose installation scripts ask for names of programs.
const NAMED: &[&str] = &["less", "netcat-openbsd"];

fn alternatives(kit: &Kit) -> Vec<Check> {
    let machine = with(kit, "alternatives", 1, 256);
    if kit.leaves_out(&machine) {
        return Vec::new();
    }
    let root = debian::whole(NAMED).and_then(|folder| {
        crate::alternatives::choose(&folder, kit.kernel())?;
        let mut root = Root::new(Some(&folder))?;
        root.add(&format!(
            "{}:/tests",
            host::project().join("tests/guest").display()
        ))?;
        Ok(root)
    });
    kit.tap_in(
        root,
        &machine,
        &["/bin/sh", "/tests/alternatives.sh"],
        MINUTE,
    )
}

/// The packages whose programs `tests/guest/tools.sh` runs.
const TOOLS: &[&str] = &[
    "gdb-minimal",
    "strace",
    "ltrace",
    "procps",
    "htop",
    "lsof",
    "util-linux",
    "bsdutils",
    "ncurses-base",
    "sbcl",
];

fn tools(kit: &Kit) -> Vec<Check> {
    of_packages(kit, "tools", TOOLS, |root| {
        let stepped = compile::program("stepped", &compile::DEBUGGED)?;
        root.add(&format!("{}:/tmp/stepped", stepped.display()))
    })
}

const BROWSERS: &[&str] = &[
    "chromium",
    "firefox-esr",
    "netpbm",
    "mawk",
    "sed",
    "coreutils",
];

fn browsers(kit: &Kit) -> Vec<Check> {
    if !kit.long {
        return Vec::new();
    }
    let machine = with(kit, "browsers", 2, 3072);
    let script = ["/bin/sh", "/tests/browsers.sh"];
    of_packages_on(kit, &machine, BROWSERS, &script, |_| Ok(()))
}

/// Runs `tests/guest/NAME.sh` in a root of packages, and of what `more` adds.
fn of_packages(
    kit: &Kit,
    name: &str,
    packages: &[&str],
    more: impl Fn(&mut Root) -> Result<()>,
) -> Vec<Check> {
    let script = ["/bin/sh", &format!("/tests/{name}.sh")];
    of_packages_on(kit, &with(kit, name, 2, 1024), packages, &script, more)
}

fn of_packages_on(
    kit: &Kit,
    machine: &Machine,
    packages: &[&str],
    command: &[&str],
    more: impl Fn(&mut Root) -> Result<()>,
) -> Vec<Check> {
    if kit.leaves_out(machine) {
        return Vec::new();
    }
    let root = debian::unpacked(packages).and_then(|folder| {
        let mut root = Root::new(Some(&folder))?;
        root.add(&format!(
            "{}:/tests",
            host::project().join("tests/guest").display()
        ))?;
        more(&mut root)?;
        Ok(root)
    });
    kit.tap_in(root, machine, command, 10 * MINUTE)
}

fn hungry(kit: &Kit) -> Vec<Check> {
    script(kit, "hungry", 1, 32)
}

fn scarce(kit: &Kit) -> Vec<Check> {
    let sizes: &[u64] = if kit.long { &[24, 64, 256] } else { &[64] };
    let mut checks = Vec::new();
    for (&mebibytes, cpus) in sizes.iter().flat_map(|size| [(size, 1), (size, 4)]) {
        let machine = with(kit, &format!("scarce-{mebibytes}m-{cpus}"), cpus, mebibytes);
        checks.extend(kit.tap(&machine, &["/tests/scarce-glibc"], 5 * MINUTE));
    }
    checks
}

fn lists(kit: &Kit) -> Vec<Check> {
    // With less, no process may have so many that a list of them is longer than a page.
    let on = |name, program| on_one_and_four(kit, name, 256, &[program], 5 * MINUTE);
    let mut checks = on("lists", "/tests/lists-glibc");
    checks.extend(on("lengths", "/tests/lengths-glibc"));
    checks
}

fn leaks(kit: &Kit) -> Vec<Check> {
    let mut checks = script(kit, "leaks", 1, 128);
    checks.extend(script(kit, "leaks", 4, 128));
    checks
}

fn calls(kit: &Kit) -> Vec<Check> {
    let mut machine = with(kit, "calls", 1, 256);
    // The program tries the kernel's addresses: it has to know them for that, and no second guard, a mask,
    // stands before the comparison.
    machine.append.push_str(" nokaslr mitigations=off");
    kit.tap(&machine, &["/tests/calls-glibc"], 5 * MINUTE)
}

fn calls_smp(kit: &Kit) -> Vec<Check> {
    kit.tap(
        &with(kit, "calls-smp", 4, 256),
        &["/tests/calls-glibc"],
        5 * MINUTE,
    )
}

/// Runs a command on a machine of so much memory with one CPU, and on one with four.
pub fn on_one_and_four(
    kit: &Kit,
    name: &str,
    mebibytes: u64,
    command: &[&str],
    limit: Duration,
) -> Vec<Check> {
    let mut checks = Vec::new();
    for cpus in [1, 4] {
        let machine = with(kit, &format!("{name}-{cpus}"), cpus, mebibytes);
        checks.extend(kit.tap(&machine, command, limit));
    }
    checks
}

/// The same for each of some programs; the machines' names begin with `prefix`.
fn each_on_one_and_four(kit: &Kit, prefix: &str, programs: &[&str]) -> Vec<Check> {
    let each = programs.iter().map(|program| {
        let (name, path) = (
            format!("{prefix}{program}"),
            format!("/tests/{program}-glibc"),
        );
        on_one_and_four(kit, &name, 128, &[&path], 2 * MINUTE)
    });
    each.flatten().collect()
}

fn calls_rights(kit: &Kit) -> Vec<Check> {
    let machine = with(kit, "calls-rights", 1, 128);
    kit.tap(&machine, &["/tests/calls-rights-musl"], 5 * MINUTE)
}

fn calls_files(kit: &Kit) -> Vec<Check> {
    on_one_and_four(
        kit,
        "calls-files",
        128,
        &["/tests/calls-files-glibc"],
        5 * MINUTE,
    )
}

fn looks(kit: &Kit) -> Vec<Check> {
    on_one_and_four(kit, "looks", 128, &["/tests/looks-glibc"], 5 * MINUTE)
}

fn calls_signals(kit: &Kit) -> Vec<Check> {
    each_on_one_and_four(kit, "", &["calls-signals", "calls-frames"])
}

fn calls_waits(kit: &Kit) -> Vec<Check> {
    on_one_and_four(
        kit,
        "calls-waits",
        128,
        &["/tests/calls-waits-glibc"],
        5 * MINUTE,
    )
}

/// Programs that an ordinary user runs, too: nothing in these needs root.
const FOR_USERS: &[(&str, &[&str])] = &[
    ("calls", &["/tests/calls-glibc"]),
    ("calls-files", &["/tests/calls-files-glibc"]),
    ("looks", &["/tests/looks-glibc"]),
    ("calls-signals", &["/tests/calls-signals-glibc"]),
    ("calls-frames", &["/tests/calls-frames-glibc"]),
    ("calls-waits", &["/tests/calls-waits-glibc"]),
    ("jobs", &["/tests/jobs-glibc"]),
    ("timers", &["/tests/timers-glibc"]),
    ("tables", &["/tests/tables-musl"]),
    ("trace", &["/tests/trace-glibc"]),
    ("shell", &["/bin/sh", "/tests/shell.sh"]),
    ("files", &["/bin/sh", "/tests/files.sh"]),
];

fn calls_user(kit: &Kit) -> Vec<Check> {
    let mut checks = Vec::new();
    for (name, program) in FOR_USERS {
        let machine = with(kit, &format!("user-{name}"), 2, 256);
        let command = [&["/tests/as-musl", "1000"], *program].concat();
        checks.extend(kit.tap(&machine, &command, 5 * MINUTE));
    }
    checks
}

fn jobs(kit: &Kit) -> Vec<Check> {
    let mut checks = on_one_and_four(kit, "jobs", 128, &["/tests/jobs-glibc"], 5 * MINUTE);
    // Where time goes by instructions nothing breaks a chain of wake-ups but the kernel.
    let mut machine = with(kit, "jobs-icount", 1, 128);
    machine.icount = Some(0);
    checks.extend(kit.tap(&machine, &["/tests/jobs-glibc", "fairness"], 5 * MINUTE));
    checks
}

fn holes(kit: &Kit) -> Vec<Check> {
    kit.tap(&with(kit, "holes", 1, 64), &["/tests/holes-glibc"], MINUTE)
}

fn adverse(kit: &Kit) -> Vec<Check> {
    on_one_and_four(kit, "adverse", 64, &["/tests/adverse-glibc"], 2 * MINUTE)
}

fn rip(kit: &Kit) -> Vec<Check> {
    on_one_and_four(kit, "rip", 128, &["/tests/rip-glibc"], MINUTE)
}

fn survey(kit: &Kit) -> Vec<Check> {
    let mut checks = Vec::new();
    for cpus in [1, 4] {
        let name = format!("survey-{cpus}");
        let mut machine = with(kit, &name, cpus, 128);
        checks.extend(kit.tap(&machine, &["/tests/survey-glibc"], 2 * MINUTE));
        checks.push(own_suite(kit, &name, &mut machine, "selfcheck", MINUTE));
        // The same where programs run on tables of their own.
        let name = format!("survey-isolated-{cpus}");
        let mut machine = with(kit, &name, cpus, 128);
        machine.append.push_str(" mitigations=all");
        checks.extend(kit.tap(&machine, &["/tests/survey-glibc"], 2 * MINUTE));
        checks.push(own_suite(kit, &name, &mut machine, "selfcheck", MINUTE));
    }
    checks.extend(lots(kit));
    checks
}

/// The line of `/syn/rights` that begins with `image`, of a machine with `words` on the command
/// line.
fn addresses(kit: &Kit, name: &str, words: &str) -> Vec<String> {
    let mut machine = with(kit, name, 1, 64);
    machine.append.push_str(words);
    let command = ["/bin/sh", "-c", "grep ^image /syn/rights"];
    let ran = kit.boot(&machine, &command, Vec::new(), MINUTE);
    let text = ran.map_or(String::new(), |ran| ran.text());
    text.trim().split(", ").map(str::to_owned).collect()
}

/// The addresses drawn at random at boot differ from one boot to the next, but not with `nokaslr`.
fn lots(kit: &Kit) -> Vec<Check> {
    let boots: Vec<_> = (0..3)
        .map(|i| addresses(kit, &format!("lots-{i}"), ""))
        .collect();
    let fixed = [0, 1].map(|i| addresses(kit, &format!("fixed-{i}"), " nokaslr"));
    let mut checks = vec![Check::new(
        "nokaslr",
        fixed[0] == fixed[1] && fixed[0].len() == 4,
        format!("{fixed:?}"),
    )];
    for (i, what) in ["image", "memory", "code", "stacks"].iter().enumerate() {
        let seen: Vec<_> = boots.iter().filter_map(|boot| boot.get(i)).collect();
        // Three draws of the same place by chance: once in a hundred thousand boots at least.
        let differ = seen.len() == 3
            && seen.iter().all(|place| place.starts_with(what))
            && seen.iter().any(|place| *place != seen[0]);
        checks.push(Check::new(*what, differ, format!("{seen:?}")));
    }
    checks
}

fn access(kit: &Kit) -> Vec<Check> {
    each_on_one_and_four(kit, "access-", &["rights", "secrets", "capabilities"])
}

fn tables(kit: &Kit) -> Vec<Check> {
    on_one_and_four(kit, "tables", 128, &["/tests/tables-musl"], 5 * MINUTE)
}

fn locks(kit: &Kit) -> Vec<Check> {
    let mut checks = Vec::new();
    for cpus in [1, 4] {
        let machine = with(kit, &format!("locks-{cpus}"), cpus, 128);
        checks.extend(kit.tap(&machine, &["/tests/locks-musl"], 5 * MINUTE));
        checks.extend(kit.tap(&machine, &["/tests/locks-musl", "crowd"], 5 * MINUTE));
    }
    checks
}

fn tracers(kit: &Kit) -> Vec<Check> {
    on_one_and_four(kit, "tracers", 128, &["/tests/tracers-glibc"], 2 * MINUTE)
}

fn stops(kit: &Kit) -> Vec<Check> {
    on_one_and_four(kit, "stops", 128, &["/tests/stops-glibc"], MINUTE)
}

fn ptys(kit: &Kit) -> Vec<Check> {
    on_one_and_four(kit, "ptys", 128, &["/tests/ptys-glibc"], 5 * MINUTE)
}

fn epolls(kit: &Kit) -> Vec<Check> {
    each_on_one_and_four(kit, "", &["epolls", "epolls-many"])
}

fn sigios(kit: &Kit) -> Vec<Check> {
    let mut checks = Vec::new();
    for cpus in [1, 4] {
        let machine = with(kit, &format!("sigios-{cpus}"), cpus, 128);
        checks.extend(kit.tap(&machine, &["/tests/sigios-glibc"], 5 * MINUTE));
    }
    checks
}

fn leases(kit: &Kit) -> Vec<Check> {
    let mut checks = Vec::new();
    for cpus in [1, 4] {
        let machine = with(kit, &format!("leases-{cpus}"), cpus, 128);
        checks.extend(kit.tap(&machine, &["/tests/leases-glibc"], 5 * MINUTE));
    }
    checks
}

fn filters(kit: &Kit) -> Vec<Check> {
    on_one_and_four(kit, "filters", 128, &["/tests/filters-glibc"], 5 * MINUTE)
}

fn quajects(kit: &Kit) -> Vec<Check> {
    on_one_and_four(kit, "quajects", 128, &["/tests/quajects-glibc"], 5 * MINUTE)
}

fn cached(kit: &Kit) -> Vec<Check> {
    on_one_and_four(kit, "cached", 128, &["/tests/cached-glibc"], 5 * MINUTE)
}

fn handles(kit: &Kit) -> Vec<Check> {
    on_one_and_four(kit, "handles", 128, &["/tests/handles-glibc"], 5 * MINUTE)
}

fn mappings(kit: &Kit) -> Vec<Check> {
    on_one_and_four(kit, "mappings", 256, &["/tests/mappings-glibc"], 5 * MINUTE)
}

fn operations(kit: &Kit) -> Vec<Check> {
    on_one_and_four(
        kit,
        "operations",
        128,
        &["/tests/operations-glibc"],
        5 * MINUTE,
    )
}

fn futexes(kit: &Kit) -> Vec<Check> {
    let mut checks = on_one_and_four(kit, "futexes", 128, &["/tests/futexes-glibc"], 5 * MINUTE);
    let short = ["/tests/waits-short-glibc"];
    checks.extend(on_one_and_four(kit, "waits-short", 128, &short, 5 * MINUTE));
    checks
}

fn rseqs(kit: &Kit) -> Vec<Check> {
    on_one_and_four(kit, "rseqs", 128, &["/tests/rseqs-glibc"], 5 * MINUTE)
}

/// A pipeline on two CPUs and on four.
fn pairs(kit: &Kit) -> Vec<Check> {
    let on = |cpus| {
        let machine = with(kit, &format!("pairs-{cpus}"), cpus, 128);
        kit.tap(&machine, &["/tests/pairs-glibc"], 3 * MINUTE)
    };
    [2, 4].into_iter().flat_map(on).collect()
}

/// Shares of time on one CPU; under icount they are the same on every host.
fn feeds(kit: &Kit) -> Vec<Check> {
    let mut machine = with(kit, "feeds", 1, 128);
    machine.icount = Some(0);
    let mut checks = kit.tap(&machine, &["/tests/feeds-glibc"], 5 * MINUTE);
    let mut four = with(kit, "feeds-4", 4, 128);
    four.icount = Some(0);
    checks.extend(kit.tap(&four, &["/tests/feeds-glibc", "several"], 5 * MINUTE));
    machine.name = "estimates".into();
    checks.extend(kit.tap(&machine, &["/tests/estimates-glibc"], 5 * MINUTE));
    checks
}

/// The recorder's times; under icount they are the same on every host.
fn traces(kit: &Kit) -> Vec<Check> {
    let mut machine = with(kit, "traces", 1, 128);
    machine.icount = Some(0);
    kit.tap(&machine, &["/tests/traces-glibc"], 5 * MINUTE)
}

fn policies(kit: &Kit) -> Vec<Check> {
    let mut checks = on_one_and_four(kit, "policies", 128, &["/tests/policies-glibc"], 5 * MINUTE);
    let mut machine = with(kit, "policies-shares", 1, 128);
    machine.icount = Some(0);
    let shares = ["/tests/policies-glibc", "shares"];
    checks.extend(kit.tap(&machine, &shares, 5 * MINUTE));
    checks.extend(on_one_and_four(
        kit,
        "budgets",
        128,
        &["/tests/budgets-glibc"],
        5 * MINUTE,
    ));
    machine.name = "budgets-times".into();
    let times = ["/tests/budgets-glibc", "times"];
    checks.extend(kit.tap(&machine, &times, 5 * MINUTE));
    checks
}

fn cgroups(kit: &Kit) -> Vec<Check> {
    let program = ["/tests/cgroups-glibc"];
    let mut checks = on_one_and_four(kit, "cgroups", 128, &program, 5 * MINUTE);
    let mut machine = with(kit, "cgroups-shares", 1, 128);
    machine.icount = Some(0);
    checks.extend(kit.tap(&machine, &[program[0], "shares"], 5 * MINUTE));
    checks
}

/// The machine's clock is exact under icount, and time that nobody uses passes at once.
fn clocks(kit: &Kit) -> Vec<Check> {
    let mut machine = with(kit, "clocks", 1, 128);
    machine.icount = Some(0);
    kit.tap(&machine, &["/tests/clocks-glibc"], 5 * MINUTE)
}

fn many(kit: &Kit) -> Vec<Check> {
    on_one_and_four(kit, "many", 1024, &["/tests/many-glibc"], 5 * MINUTE)
}

fn polls(kit: &Kit) -> Vec<Check> {
    on_one_and_four(kit, "polls", 128, &["/tests/polls-glibc"], 5 * MINUTE)
}

fn events(kit: &Kit) -> Vec<Check> {
    let mut checks = Vec::new();
    for cpus in [1, 4] {
        let machine = with(kit, &format!("events-{cpus}"), cpus, 128);
        for arguments in [
            &["/tests/events-glibc"][..],
            &["/tests/events-glibc", "clock_jumps"],
        ] {
            checks.extend(kit.tap(&machine, arguments, 5 * MINUTE));
        }
    }
    checks
}

fn corners(kit: &Kit) -> Vec<Check> {
    on_one_and_four(kit, "corners", 128, &["/tests/corners-glibc"], MINUTE)
}

fn details(kit: &Kit) -> Vec<Check> {
    let mut checks = Vec::new();
    for cpus in [1, 4] {
        let machine = with(kit, &format!("details-{cpus}"), cpus, 128);
        for arguments in [
            &["/tests/details-glibc"][..],
            &["/tests/details-glibc", "cleared"],
        ] {
            checks.extend(kit.tap(&machine, arguments, MINUTE));
        }
    }
    checks
}

fn kmsgs(kit: &Kit) -> Vec<Check> {
    on_one_and_four(kit, "kmsgs", 128, &["/tests/kmsgs-glibc"], 5 * MINUTE)
}

fn pidfds(kit: &Kit) -> Vec<Check> {
    on_one_and_four(kit, "pidfds", 128, &["/tests/pidfds-glibc"], MINUTE)
}

fn inotifies(kit: &Kit) -> Vec<Check> {
    on_one_and_four(kit, "inotifies", 128, &["/tests/inotifies-glibc"], MINUTE)
}

fn sockets(kit: &Kit) -> Vec<Check> {
    on_one_and_four(kit, "sockets", 128, &["/tests/sockets-glibc"], 5 * MINUTE)
}

fn inets(kit: &Kit) -> Vec<Check> {
    let programs = ["inets", "inet-messages", "inet-controls", "udp-pairs"];
    each_on_one_and_four(kit, "", &programs)
}

fn xattrs(kit: &Kit) -> Vec<Check> {
    let machine = with(kit, "xattrs", 1, 128);
    let mut checks = Vec::new();
    for program in ["xattrs", "acls", "filecaps"] {
        let path = format!("/tests/{program}-glibc");
        checks.extend(kit.tap(&machine, &[&path], MINUTE));
    }
    checks
}

fn mqueues(kit: &Kit) -> Vec<Check> {
    on_one_and_four(kit, "mqueues", 128, &["/tests/mqueues-glibc"], 5 * MINUTE)
}

fn advices(kit: &Kit) -> Vec<Check> {
    each_on_one_and_four(kit, "", &["advices", "pagemaps"])
}

fn memories(kit: &Kit) -> Vec<Check> {
    on_one_and_four(kit, "memories", 128, &["/tests/memories-glibc"], MINUTE)
}

fn splices(kit: &Kit) -> Vec<Check> {
    each_on_one_and_four(kit, "", &["splices", "packets"])
}

fn opens(kit: &Kit) -> Vec<Check> {
    on_one_and_four(kit, "opens", 128, &["/tests/opens-glibc"], 5 * MINUTE)
}

fn mounts(kit: &Kit) -> Vec<Check> {
    on_one_and_four(kit, "mounts", 128, &["/tests/mounts-glibc"], 5 * MINUTE)
}

fn netlinks(kit: &Kit) -> Vec<Check> {
    on_one_and_four(kit, "netlinks", 128, &["/tests/netlinks-glibc"], 5 * MINUTE)
}

fn sysv(kit: &Kit) -> Vec<Check> {
    on_one_and_four(kit, "sysv", 128, &["/tests/sysv-glibc"], MINUTE)
}

fn watchpoints(kit: &Kit) -> Vec<Check> {
    let mut checks = on_one_and_four(
        kit,
        "watchpoints",
        128,
        &["/tests/watchpoints-glibc"],
        5 * MINUTE,
    );
    for measures in ["off", "all"] {
        let mut machine = with(kit, &format!("watchpoints-{measures}"), 2, 128);
        machine.append.push_str(&format!(" mitigations={measures}"));
        checks.extend(kit.tap(&machine, &["/tests/watchpoints-glibc"], MINUTE));
    }
    checks
}

fn figures(kit: &Kit) -> Vec<Check> {
    on_one_and_four(kit, "figures", 128, &["/tests/figures-glibc"], 5 * MINUTE)
}

fn texts(kit: &Kit) -> Vec<Check> {
    let mut checks = on_one_and_four(kit, "texts", 128, &["/tests/texts-musl"], 5 * MINUTE);
    let machine = with(kit, "texts-huge", 1, 256);
    checks.extend(kit.tap(&machine, &["/tests/texts-musl", "huge"], 5 * MINUTE));
    checks
}

fn accounts(kit: &Kit) -> Vec<Check> {
    on_one_and_four(kit, "accounts", 128, &["/tests/accounts-glibc"], 5 * MINUTE)
}

fn cores(kit: &Kit) -> Vec<Check> {
    on_one_and_four(kit, "cores", 128, &["/tests/cores-glibc"], 5 * MINUTE)
}

fn settings(kit: &Kit) -> Vec<Check> {
    on_one_and_four(kit, "settings", 128, &["/tests/settings-glibc"], 5 * MINUTE)
}

fn timers(kit: &Kit) -> Vec<Check> {
    let mut checks = on_one_and_four(kit, "timers", 128, &["/tests/timers-glibc"], 5 * MINUTE);
    // Two alarms within a microsecond come one after the other where time goes by instructions.
    let mut machine = with(kit, "timers-icount", 1, 128);
    machine.icount = Some(0);
    checks.extend(kit.tap(&machine, &["/tests/timers-glibc"], 5 * MINUTE));
    checks
}

fn load(kit: &Kit) -> Vec<Check> {
    let rounds = if kit.long { "200" } else { "25" };
    kit.says_ok(
        &with(kit, "load", 4, 256),
        &["/tests/load-glibc", rounds, "4"],
        20 * MINUTE,
    )
}

fn corrupt(kit: &Kit) -> Vec<Check> {
    let copies = if kit.long { "2000" } else { "200" };
    let words = ["/tests/corrupt-glibc", "/tests/hello-musl", copies, "7"];
    kit.says_ok(&with(kit, "corrupt", 2, 64), &words, 10 * MINUTE)
}

/// Boots with a word on the kernel's command line that makes it run a suite of its own in place of the first
/// program.
pub fn own_suite(
    kit: &Kit,
    name: &str,
    machine: &mut Machine,
    word: &str,
    limit: Duration,
) -> Check {
    if kit.leaves_out(machine) {
        return Check::passed(name, 0);
    }
    machine.append.push(' ');
    machine.append.push_str(word);
    match kit.boot_suite(machine, limit) {
        Err(failure) => Check::new(name, false, failure.message),
        Ok(ran) => {
            let good = ran.outcome.status == Status::Exit(0);
            kit.note(good);
            Check::new(name, good, ran.told())
        }
    }
}

/// `user/tests/kept.c` in 64 MiB, on the kernel that has its file system.
fn kept(kit: &Kit) -> Vec<Check> {
    let steps = if kit.long { "20000" } else { "1500" };
    let words = ["/tests/kept-glibc", steps];
    let run = |cpus| {
        let mut machine = with(kit, &format!("kept-{cpus}"), cpus, 64);
        if kit.leaves_out(&machine) {
            return Vec::new();
        }
        let tap = |kit: &Kit, machine: &mut Machine| kit.tap(machine, &words, 10 * MINUTE);
        kit.on_suites(&mut machine, tap)
            .unwrap_or_else(|failure| vec![Check::new("kept", false, failure.message)])
    };
    [1, 4].into_iter().flat_map(run).collect()
}

fn memory(kit: &Kit) -> Vec<Check> {
    let mut checks = Vec::new();
    for mebibytes in [16, 128] {
        let name = format!("selfcheck-{mebibytes}m");
        let mut machine = with(kit, &name, 1, mebibytes);
        checks.push(own_suite(kit, &name, &mut machine, "selfcheck", MINUTE));
    }
    for cpus in [1, 2, 4] {
        let machine = with(kit, &format!("revoke-{cpus}"), cpus, 128);
        checks.extend(kit.says_ok(&machine, &["/tests/revoke-glibc", "1000"], 2 * MINUTE));
        let machine = with(kit, &format!("pages-{cpus}"), cpus, 128);
        let rounds = if kit.long { "400000" } else { "20000" };
        let words = ["/tests/pages-glibc", rounds, "forks"];
        checks.extend(kit.says_ok(&machine, &words, 10 * MINUTE));
    }
    checks.extend(faults::of_forks(kit));
    checks
}

/// The measurement of `cargo xtask bench lateness`, short. Under icount it is the same on every host.
fn lateness(kit: &Kit) -> Vec<Check> {
    let mut checks = Vec::new();
    for kind in ["signal", "sleep"] {
        let mut machine = with(kit, &format!("lateness-{kind}"), 1, 256);
        machine.icount = Some(4);
        let words = ["/tests/lateness-glibc", "2", kind];
        checks.push(match kit.boot(&machine, &words, Vec::new(), 5 * MINUTE) {
            Err(failure) => Check::new(kind, false, failure.message),
            Ok(ran) => {
                let text = ran.text();
                let says = |row: &str| text.lines().any(|line| line.ends_with(row));
                let good = ran.outcome.status == Status::Exit(0)
                    && says("samples count 8000")
                    && says("missed_instants count 0")
                    && says(" 0 early")
                    && !text.contains("fail ");
                Check::new(kind, good, ran.told())
            }
        });
    }
    checks
}

fn boots(kit: &Kit) -> Vec<Check> {
    let mut checks = Vec::new();
    let mut greet = |name: &str, machine: &Machine| {
        let words = [
            "/bin/sh",
            "-c",
            "echo hi | cat; grep -c ^processor /proc/cpuinfo; exit 7",
        ];
        // The small root, as a user has it: 16 MiB must be enough for that.
        let ran = Root::new(None)
            .and_then(|root| kit.boot_root(root, machine, &words, Vec::new(), MINUTE));
        let check = match ran {
            Err(failure) => Check::new(name, false, failure.message),
            Ok(ran) => {
                let good = ran.text() == format!("hi\n{}\n", machine.cpus)
                    && ran.stderr.is_empty()
                    && ran.outcome.status == Status::Exit(7);
                Check::new(name, good, ran.told())
            }
        };
        checks.push(check);
    };
    for cpus in [1, 2, 3, 8] {
        greet(
            &format!("{cpus} CPUs"),
            &with(kit, &format!("boots-{cpus}"), cpus, 128),
        );
    }
    for mebibytes in [16, 17, 64, 1024, 4096] {
        greet(
            &format!("{mebibytes} MiB"),
            &with(kit, &format!("boots-{mebibytes}m"), 1, mebibytes),
        );
    }
    let mut machine = with(kit, "boots-microvm", 1, 128);
    machine.chipset = Chipset::Microvm;
    greet("microvm", &machine);
    machine.cpus = 4;
    greet("microvm, 4 CPUs", &machine);
    let mut machine = with(kit, "boots-icount", 1, 128);
    machine.icount = Some(0);
    greet("icount", &machine);
    checks
}
