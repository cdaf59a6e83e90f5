//! The rows of the table of guest tests.
//!
//! *Interface*: [`TESTS`].

use super::super::{
    chains, cli, devices, dropouts, exhaust, floods, fuzz, guest, ltp, mitigations, music, order,
    packages, players, posixfiles, refused, runtimes, session, shares, sounds, threads,
};
use super::{How, Test, as_user, boot};

/// All of them, the longest first, so that the workers end together.
pub const TESTS: &[Test] = &[
    Test {
        name: "order",
        about: "monitors are taken in the order of docs/locks.md (--long: every test of this table on 4 CPUs)",
        how: How::Own(order::run),
    },
    Test {
        name: "shares",
        about: "directories of the host: every call, 400 files both ways (--long: 5,000), several threads, by messages and by lines",
        how: How::Own(shares::run),
    },
    Test {
        name: "ltp",
        about: "cases of the Linux Test Project, where its source is",
        how: How::Own(ltp::run),
    },
    Test {
        name: "runtimes",
        about: "python's and Go's own tests of what they ask of a kernel, on 2 CPUs",
        how: How::Own(runtimes::run),
    },
    Test {
        name: "torture",
        about: "every lock-free operation preempted, and stopped for ever, between any two instructions",
        how: How::Own(threads::torture),
    },
    Test {
        name: "load",
        about: "a mixed load again and again, 4 CPUs",
        how: How::Own(guest::load),
    },
    Test {
        name: "fuzz",
        about: "random sequences of calls, and kept ones: as users and as root, on 1 and 4 CPUs",
        how: How::Own(fuzz::run),
    },
    Test {
        name: "streams",
        about: "10 MiB through the command line unchanged",
        how: How::Own(cli::streams),
    },
    Test {
        name: "devices",
        about: "virtio devices by messages and by lines, without any, and taken away",
        how: How::Own(devices::run),
    },
    Test {
        name: "music",
        about: "pipelines of the programs of sound give what they give on the host, on 1 and 4 CPUs",
        how: How::Own(music::run),
    },
    Test {
        name: "dsp",
        about: "/dev/dsp and /dev/mixer: settings, fragments, waiting, random operations, on 1 and 4 CPUs",
        how: How::Own(players::dsp),
    },
    Test {
        name: "players",
        about: "programs from Debian's packages play tones by /dev/dsp, and they are heard",
        how: How::Own(players::run),
    },
    Test {
        name: "page-cache",
        about: "cached files larger than memory beside a model, with delays and errors, on 1 and 4 CPUs",
        how: How::Own(guest::kept),
    },
    Test {
        name: "session",
        about: "type, edit, interrupt, suspend, end, under a pseudo-terminal",
        how: How::Own(session::run),
    },
    Test {
        name: "cli",
        about: "exit statuses and clear errors of `cargo xtask run`",
        how: How::Own(cli::statuses),
    },
    Test {
        name: "leaks",
        about: "frames, heap and code bytes return to where they were",
        how: How::Boots(&[boot("leaks", &["/bin/sh", "/tests/leaks.sh"])
            .cpus(&[1, 4])
            .mebibytes(128)]),
    },
    Test {
        name: "calls",
        about: "what Linux's calls promise, on 1 CPU",
        // The program tries the kernel's addresses. It has to know them for that, and no mask may stand
        // before the comparison as a second guard.
        how: How::Boots(&[boot("calls", &["/tests/calls-glibc"])
            .cpus(&[1])
            .mebibytes(256)
            .words(" nokaslr mitigations=off")]),
    },
    Test {
        name: "calls-smp",
        about: "the same on 4 CPUs",
        how: How::Boots(&[boot("calls-smp", &["/tests/calls-glibc"])
            .cpus(&[4])
            .mebibytes(256)]),
    },
    Test {
        name: "calls-rights",
        about: "what an ordinary user may do to files and processes of others, and what not",
        how: How::Boots(&[boot("calls-rights", &["/tests/calls-rights-musl"]).cpus(&[1])]),
    },
    Test {
        name: "calls-files",
        about: "descriptors, offsets, appending, whole writes, locks, on 1 and 4 CPUs",
        how: How::Boots(&[boot("calls-files", &["/tests/calls-files-glibc"])]),
    },
    Test {
        name: "metadata",
        about: "what is said of files by every way to ask, and lists of directories, on 1 and 4 CPUs",
        how: How::Boots(&[boot("metadata", &["/tests/metadata-glibc"])]),
    },
    Test {
        name: "calls-signals",
        about: "masks, nesting, stacks, frames and ends of signals, groups of children, on 1 and 4 CPUs",
        how: How::Boots(&[
            boot("calls-signals", &["/tests/calls-signals-glibc"]),
            boot("calls-frames", &["/tests/calls-frames-glibc"]),
        ]),
    },
    Test {
        name: "calls-waits",
        about: "futexes, epoll, memory that moves, on 1 and 4 CPUs",
        how: How::Boots(&[boot("calls-waits", &["/tests/calls-waits-glibc"])]),
    },
    Test {
        name: "calls-user",
        about: "the suites of calls again, as an ordinary user",
        // Nothing in these programs needs root.
        how: How::Boots(&[
            as_user(
                "user-calls",
                &["/tests/as-musl", "1000", "/tests/calls-glibc"],
            ),
            as_user(
                "user-calls-files",
                &["/tests/as-musl", "1000", "/tests/calls-files-glibc"],
            ),
            as_user(
                "user-metadata",
                &["/tests/as-musl", "1000", "/tests/metadata-glibc"],
            ),
            as_user(
                "user-calls-signals",
                &["/tests/as-musl", "1000", "/tests/calls-signals-glibc"],
            ),
            as_user(
                "user-calls-frames",
                &["/tests/as-musl", "1000", "/tests/calls-frames-glibc"],
            ),
            as_user(
                "user-calls-waits",
                &["/tests/as-musl", "1000", "/tests/calls-waits-glibc"],
            ),
            as_user(
                "user-jobs",
                &["/tests/as-musl", "1000", "/tests/jobs-glibc"],
            ),
            as_user(
                "user-timers",
                &["/tests/as-musl", "1000", "/tests/timers-glibc"],
            ),
            as_user(
                "user-fdtables",
                &["/tests/as-musl", "1000", "/tests/fdtables-musl"],
            ),
            as_user(
                "user-trace",
                &["/tests/as-musl", "1000", "/tests/trace-glibc"],
            ),
            as_user(
                "user-shell",
                &["/tests/as-musl", "1000", "/bin/sh", "/tests/shell.sh"],
            ),
            as_user(
                "user-files",
                &["/tests/as-musl", "1000", "/bin/sh", "/tests/files.sh"],
            ),
        ]),
    },
    Test {
        name: "jobs",
        about: "corners of processes, threads and signals, on 1 and 4 CPUs",
        // By instructions nothing breaks a chain of wake-ups but the kernel.
        how: How::Boots(&[
            boot("jobs", &["/tests/jobs-glibc"]),
            boot("jobs-icount", &["/tests/jobs-glibc", "fairness"]).by_instructions(),
        ]),
    },
    Test {
        name: "fdtables",
        about: "threads that fight for descriptors, and others who look, on 1 and 4 CPUs",
        how: How::Boots(&[boot("fdtables", &["/tests/fdtables-musl"])]),
    },
    Test {
        name: "roots",
        about: "a root that nearly fills the machine, and one that does not fit",
        how: How::Own(exhaust::roots),
    },
    Test {
        name: "hogs",
        about: "each kind of thing taken until there is no more, as a user and as root",
        how: How::Own(exhaust::hogs),
    },
    Test {
        name: "returns",
        about: "what was killed gives its memory back on 4 CPUs, with nobody to help",
        how: How::Own(exhaust::returns),
    },
    Test {
        name: "crowd",
        about: "2,000 processes, 10,000 threads and 10,000 sockets at once in 1 GiB, on 4 CPUs",
        how: How::Own(exhaust::crowd),
    },
    Test {
        name: "limits",
        about: "limits of a user over all its processes, on 1 and 4 CPUs",
        how: How::Boots(&[boot("limits", &["/tests/limits-musl"]).mebibytes(96)]),
    },
    Test {
        name: "bounds",
        about: "limits of a process: files' lengths, data, time, locked memory, on 1 and 4 CPUs",
        how: How::Boots(&[boot("bounds", &["/tests/bounds-musl"]).mebibytes(64)]),
    },
    Test {
        name: "locks",
        about: "record locks and flock, on 1 and 4 CPUs",
        how: How::Boots(&[
            boot("locks", &["/tests/locks-musl"]),
            boot("locks-crowd", &["/tests/locks-musl", "crowd"]),
        ]),
    },
    Test {
        name: "tracers",
        about: "what tracers ask beyond stops: events, children, ends, calls, registers, memory, on 1 and 4 CPUs",
        how: How::Boots(&[boot("tracers", &["/tests/tracers-glibc"])]),
    },
    Test {
        name: "stops",
        about: "how traced processes stop, go on and end: seized ones, whole processes, who hears first, on 1 and 4 CPUs",
        how: How::Boots(&[boot("stops", &["/tests/stops-glibc"])]),
    },
    Test {
        name: "ptys",
        about: "pseudo-terminals: names, data both ways, packets, sessions, ends, on 1 and 4 CPUs",
        how: How::Boots(&[boot("ptys", &["/tests/ptys-glibc"])]),
    },
    Test {
        name: "epolls",
        about: "epoll instances: levels, edges, nests, sleepers, several who wait, on 1 and 4 CPUs",
        how: How::Boots(&[
            boot("epolls", &["/tests/epolls-glibc"]),
            boot("epolls-many", &["/tests/epolls-many-glibc"]),
        ]),
    },
    Test {
        name: "sigios",
        about: "signals about open files: O_ASYNC, whose and which, on 1 and 4 CPUs",
        how: How::Boots(&[boot("sigios", &["/tests/sigios-glibc"])]),
    },
    Test {
        name: "leases",
        about: "leases of files and notices of directories, on 1 and 4 CPUs",
        how: How::Boots(&[boot("leases", &["/tests/leases-glibc"])]),
    },
    Test {
        name: "many-fds",
        about: "descriptors by the ten thousand, and the highest numbers, on 1 and 4 CPUs",
        how: How::Boots(&[boot("many-fds", &["/tests/many-fds-glibc"]).mebibytes(1024)]),
    },
    Test {
        name: "futexes",
        about: "futexes: clocks, locks with inheritance, robust ones, requeues, waits on several, short ways, on 1 and 4 CPUs",
        how: How::Boots(&[
            boot("futexes", &["/tests/futexes-glibc"]),
            boot("waits-short", &["/tests/waits-short-glibc"]),
        ]),
    },
    Test {
        name: "rseqs",
        about: "restartable sequences, on 1 and 4 CPUs",
        how: How::Boots(&[boot("rseqs", &["/tests/rseqs-glibc"])]),
    },
    Test {
        name: "sounds",
        about: "what is played is heard: whole, mixed, beside others; a microphone; a card that goes",
        how: How::Own(sounds::run),
    },
    Test {
        name: "floods",
        about: "devices that interrupt without a pause leave programs their share, and nothing is lost",
        how: How::Own(floods::run),
    },
    Test {
        name: "pairs",
        about: "a pipeline is on one CPU while one is enough, and on two while it is not",
        how: How::Boots(&[boot("pairs", &["/tests/pairs-glibc"]).cpus(&[2, 4])]),
    },
    Test {
        name: "feeds",
        about: "CPU time follows data: full queues, niceness, fairness, cheats, by icount",
        how: How::Boots(&[
            boot("feeds", &["/tests/feeds-glibc"]).by_instructions(),
            boot("feeds-several", &["/tests/feeds-glibc", "several"])
                .by_instructions()
                .cpus(&[4]),
            boot("estimates", &["/tests/estimates-glibc"]).by_instructions(),
        ]),
    },
    Test {
        name: "traces",
        about: "what the kernel shows of its scheduler: turns, channels, the recorder, by icount",
        how: How::Boots(&[boot("traces", &["/tests/traces-glibc"]).by_instructions()]),
    },
    Test {
        name: "policies",
        about: "affinity, on 1 and 4 CPUs; real-time policies and budgets, by icount",
        how: How::Boots(&[
            boot("policies", &["/tests/policies-glibc"]),
            boot("policies-shares", &["/tests/policies-glibc", "shares"]).by_instructions(),
            boot("budgets", &["/tests/budgets-glibc"]),
            boot("budgets-times", &["/tests/budgets-glibc", "times"]).by_instructions(),
        ]),
    },
    Test {
        name: "cgroups",
        about: "control groups: names, moves, limits, rights, races, on 1 and 4 CPUs; CPU time by weight, by icount",
        how: How::Boots(&[
            boot("cgroups", &["/tests/cgroups-glibc"]),
            boot("cgroups-shares", &["/tests/cgroups-glibc", "shares"]).by_instructions(),
        ]),
    },
    Test {
        name: "dropouts",
        about: "sound through five filters beside programs that compute: every sample, by icount (--long: 30 seconds)",
        how: How::Own(dropouts::run),
    },
    Test {
        name: "clocks",
        about: "the clock of the day follows a better one: rate, offset, leap seconds, by icount",
        how: How::Boots(&[boot("clocks", &["/tests/clocks-glibc"]).by_instructions()]),
    },
    Test {
        name: "events",
        about: "eventfd, timerfd, on 1 and 4 CPUs",
        how: How::Boots(&[
            boot("events", &["/tests/events-glibc"]),
            boot("events-jumps", &["/tests/events-glibc", "clock_jumps"]),
        ]),
    },
    Test {
        name: "corners",
        about: "corners of calls that programs from elsewhere look into, on 1 and 4 CPUs",
        how: How::Boots(&[boot("corners", &["/tests/corners-glibc"])]),
    },
    Test {
        name: "details",
        about: "details of calls: clocks that wake, the kernel's log, what random numbers are asked, addresses, on 1 and 4 CPUs",
        how: How::Boots(&[
            boot("details", &["/tests/details-glibc"]),
            boot("details-cleared", &["/tests/details-glibc", "cleared"]),
        ]),
    },
    Test {
        name: "kmsgs",
        about: "the kernel's log: its records and its text, readers that wait, many writers, on 1 and 4 CPUs",
        how: How::Boots(&[boot("kmsgs", &["/tests/kmsgs-glibc"])]),
    },
    Test {
        name: "pidfds",
        about: "signals and processes as files, on 1 and 4 CPUs",
        how: How::Boots(&[boot("pidfds", &["/tests/pidfds-glibc"])]),
    },
    Test {
        name: "inotifies",
        about: "inotify, on 1 and 4 CPUs",
        how: How::Boots(&[boot("inotifies", &["/tests/inotifies-glibc"])]),
    },
    Test {
        name: "sockets",
        about: "unix-domain sockets: streams, datagrams, packets, rights, credentials, on 1 and 4 CPUs",
        how: How::Boots(&[boot("sockets", &["/tests/sockets-glibc"])]),
    },
    Test {
        name: "inets",
        about: "sockets of IPv4 and IPv6 over loopback, on 1 and 4 CPUs",
        how: How::Boots(&[
            boot("inets", &["/tests/inets-glibc"]),
            boot("inet-messages", &["/tests/inet-messages-glibc"]),
            boot("inet-controls", &["/tests/inet-controls-glibc"]),
            boot("udp-pairs", &["/tests/udp-pairs-glibc"]),
        ]),
    },
    Test {
        name: "xattrs",
        about: "extended attributes, access control lists, capabilities of files",
        how: How::Boots(&[
            boot("xattrs", &["/tests/xattrs-glibc"]).cpus(&[1]),
            boot("acls", &["/tests/acls-glibc"]).cpus(&[1]),
            boot("filecaps", &["/tests/filecaps-glibc"]).cpus(&[1]),
        ]),
    },
    Test {
        name: "filters",
        about: "filters in the streams of open files, while bytes pass, on 1 and 4 CPUs",
        how: How::Boots(&[boot("filters", &["/tests/filters-glibc"])]),
    },
    Test {
        name: "chains",
        about: "what executes on the usual paths was made by linking, by the interfacer's record and QEMU's blocks",
        how: How::Own(chains::run),
    },
    Test {
        name: "quajects",
        about: "quajects of programs: made, linked and called by name, on 1 and 4 CPUs",
        how: How::Boots(&[boot("quajects", &["/tests/quajects-glibc"])]),
    },
    Test {
        name: "cached-operations",
        about: "procedures that programs call by numbers of their own, on 1 and 4 CPUs",
        how: How::Boots(&[boot(
            "cached-operations",
            &["/tests/cached-operations-glibc"],
        )]),
    },
    Test {
        name: "file-handles",
        about: "handles of files, whiteouts, sealed files that are made empty, on 1 and 4 CPUs",
        how: How::Boots(&[boot("file-handles", &["/tests/file-handles-glibc"])]),
    },
    Test {
        name: "mappings",
        about: "how many mappings there may be, those that grow down, other pages in the same place, on 1 and 4 CPUs",
        how: How::Boots(&[boot("mappings", &["/tests/mappings-glibc"]).mebibytes(256)]),
    },
    Test {
        name: "positional-io",
        about: "positional and vectored calls by routines of their own beside changes of all that they assume, on 1 and 4 CPUs",
        how: How::Boots(&[boot("positional-io", &["/tests/positional-io-glibc"])]),
    },
    Test {
        name: "memfds",
        about: "sealed files, memory of other processes, what mappings promise, on 1 and 4 CPUs",
        how: How::Boots(&[boot("memfds", &["/tests/memfds-glibc"])]),
    },
    Test {
        name: "mqueues",
        about: "POSIX message queues: names, order, waits, notices, rights, their file system, on 1 and 4 CPUs",
        how: How::Boots(&[boot("mqueues", &["/tests/mqueues-glibc"])]),
    },
    Test {
        name: "madvise",
        about: "advice about memory: what a child has, what is given up, another's memory, which pages are there, on 1 and 4 CPUs",
        how: How::Boots(&[
            boot("madvise", &["/tests/madvise-glibc"]),
            boot("pagemaps", &["/tests/pagemaps-glibc"]),
        ]),
    },
    Test {
        name: "splices",
        about: "sizes of pipes, packets, moves between pipes, files, sockets, memory, on 1 and 4 CPUs",
        how: How::Boots(&[
            boot("splices", &["/tests/splices-glibc"]),
            boot("pipe-packets", &["/tests/pipe-packets-glibc"]),
        ]),
    },
    Test {
        name: "opens",
        about: "openat2's ways, programs that are written and run, files without a name, places, times, on 1 and 4 CPUs",
        how: How::Boots(&[boot("opens", &["/tests/opens-glibc"])]),
    },
    Test {
        name: "mounts",
        about: "mounts on mounts: walks, moves, copies of trees, flags, ends, what is shown of them, on 1 and 4 CPUs",
        how: How::Boots(&[boot("mounts", &["/tests/mounts-glibc"])]),
    },
    Test {
        name: "netlinks",
        about: "netlink: interfaces, addresses, routes, sockets; /proc/net, on 1 and 4 CPUs",
        how: How::Boots(&[boot("netlinks", &["/tests/netlinks-glibc"])]),
    },
    Test {
        name: "sysv",
        about: "shared memory, semaphores and message queues of System V, on 1 and 4 CPUs",
        how: How::Boots(&[boot("sysv", &["/tests/sysv-glibc"])]),
    },
    Test {
        name: "polls",
        about: "poll and select: answers, sleepers, signals, on 1 and 4 CPUs",
        how: How::Boots(&[boot("polls", &["/tests/polls-glibc"])]),
    },
    Test {
        name: "sysfs",
        about: "/proc and /sys about processors, memory, devices and processes, on 1 and 4 CPUs",
        how: How::Boots(&[boot("sysfs", &["/tests/sysfs-glibc"])]),
    },
    Test {
        name: "procfs-reads",
        about: "texts of /proc, however long and however they are read, on 1 and 4 CPUs",
        how: How::Boots(&[
            boot("procfs-reads", &["/tests/procfs-reads-musl"]),
            boot("procfs-reads-huge", &["/tests/procfs-reads-musl", "huge"])
                .cpus(&[1])
                .mebibytes(256),
        ]),
    },
    Test {
        name: "timers",
        about: "signals of timers, on 1 and 4 CPUs, and by icount",
        // By instructions two alarms within a microsecond come one after the other.
        how: How::Boots(&[
            boot("timers", &["/tests/timers-glibc"]),
            boot("timers-icount", &["/tests/timers-glibc"]).by_instructions(),
        ]),
    },
    Test {
        name: "accounts",
        about: "times, faults and switches of processes and threads, clocks and timers of CPU time, on 1 and 4 CPUs",
        how: How::Boots(&[boot("accounts", &["/tests/accounts-glibc"])]),
    },
    Test {
        name: "settings",
        about: "scheduling, prctl, names and clocks give back what was set, on 1 and 4 CPUs",
        how: How::Boots(&[boot("settings", &["/tests/settings-glibc"])]),
    },
    Test {
        name: "cores",
        about: "core files: when there is one, its name, what it holds, on 1 and 4 CPUs",
        how: How::Boots(&[boot("cores", &["/tests/cores-glibc"])]),
    },
    Test {
        name: "extremes",
        about: "numbers at their ends: offsets, sizes, counts, times, addresses",
        how: How::Boots(&[boot("extremes", &["/tests/extremes-glibc"])
            .cpus(&[2])
            .mebibytes(256)]),
    },
    Test {
        name: "files",
        about: "files and the tools that work on them",
        how: How::Boots(&[boot("files", &["/bin/sh", "/tests/files.sh"])
            .cpus(&[1])
            .mebibytes(256)]),
    },
    Test {
        name: "shell",
        about: "the shell as its users expect it",
        how: How::Boots(&[boot("shell", &["/bin/sh", "/tests/shell.sh"])
            .cpus(&[1])
            .mebibytes(256)]),
    },
    Test {
        name: "shell-smp",
        about: "the same on 8 CPUs",
        how: How::Boots(&[boot("shell-smp", &["/bin/sh", "/tests/shell.sh"])
            .cpus(&[8])
            .mebibytes(256)]),
    },
    Test {
        name: "system",
        about: "/proc, ps, top, mount, /syn",
        how: How::Boots(&[boot("system", &["/bin/sh", "/tests/system.sh"])
            .cpus(&[2])
            .mebibytes(128)]),
    },
    Test {
        name: "programs",
        about: "static C programs by glibc and musl",
        how: How::Boots(&[boot("programs", &["/bin/sh", "/tests/programs.sh"])
            .cpus(&[1])
            .mebibytes(64)]),
    },
    Test {
        name: "packages",
        about: "programs from Debian's packages: servers, terminals, interpreters, on 2 CPUs",
        how: How::Own(packages::packages),
    },
    Test {
        name: "servers",
        about: "postgres, ssh, Go and node.js, from Debian's packages, on 2 CPUs",
        how: How::Own(packages::servers),
    },
    Test {
        name: "browsers",
        about: "Firefox and Chromium, from Debian's packages, on 2 CPUs (--long)",
        how: How::Own(packages::browsers),
    },
    Test {
        name: "posixfiles",
        about: "pjdfstest, what POSIX asks of files (--long)",
        how: How::Own(posixfiles::run),
    },
    Test {
        name: "tmpfiles",
        about: "systemd-tmpfiles and systemd-journald, from Debian's package",
        how: How::Own(packages::tmpfiles),
    },
    Test {
        name: "timekeepers",
        about: "chronyd and ntpd, from Debian's packages, follow a reference clock",
        how: How::Own(packages::timekeepers),
    },
    Test {
        name: "alternatives",
        about: "a root of Debian packages as users get it: names left to update-alternatives, the tools of each Debian",
        how: How::Own(packages::alternatives),
    },
    Test {
        name: "tools",
        about: "tools from Debian's packages that look at programs and the machine: gdb, strace, ps, top, lsof, lscpu, sbcl, on 2 CPUs",
        how: How::Own(packages::tools),
    },
    Test {
        name: "watchpoints",
        about: "debug registers by ptrace, on 1 and 4 CPUs, with and without mitigations",
        how: How::Boots(&[
            boot("watchpoints", &["/tests/watchpoints-glibc"]),
            boot("watchpoints-off", &["/tests/watchpoints-glibc"])
                .cpus(&[2])
                .words(" mitigations=off"),
            boot("watchpoints-all", &["/tests/watchpoints-glibc"])
                .cpus(&[2])
                .words(" mitigations=all"),
        ]),
    },
    Test {
        name: "corrupt",
        about: "corrupt and truncated ELF files",
        how: How::Own(guest::corrupt),
    },
    Test {
        name: "hungry",
        about: "fork bomb, memory hog, a thousand pipes, at 32 MiB",
        how: How::Boots(&[boot("hungry", &["/bin/sh", "/tests/hungry.sh"])
            .cpus(&[1])
            .mebibytes(32)]),
    },
    Test {
        name: "oom-score",
        about: "oom_score_adj and oom_score: who ends when memory is out, on 1 and 4 CPUs",
        how: How::Boots(&[boot("oom-score", &["/tests/oom-score-glibc"])]),
    },
    Test {
        name: "scarce",
        about: "each kind of object until the kernel says no, at 64 MiB, on 1 and 4 CPUs",
        how: How::Own(guest::scarce),
    },
    Test {
        name: "refused-tasks",
        about: "many children and many threads of one process, each question for memory refused in turn, on 1 and 4 CPUs",
        // With less memory no process may have so many that a list of them is longer than a page.
        how: How::Boots(&[
            boot("refused-tasks", &["/tests/refused-tasks-glibc"]).mebibytes(256),
            boot("refused-lengths", &["/tests/refused-lengths-glibc"]).mebibytes(256),
        ]),
    },
    Test {
        name: "refused",
        about: "each question for memory answered with no: of each kind of thing, of programs, of a boot",
        how: How::Own(refused::run),
    },
    Test {
        name: "holes",
        about: "what fallocate clears, beside a copy and beyond the end of a file",
        how: How::Boots(&[boot("holes", &["/tests/holes-glibc"])
            .cpus(&[1])
            .mebibytes(64)]),
    },
    Test {
        name: "adverse",
        about: "small attacks in which everything must come together, on 1 and 4 CPUs",
        how: How::Boots(&[boot("adverse", &["/tests/adverse-glibc"]).mebibytes(64)]),
    },
    Test {
        name: "rip",
        about: "program counters that are no address, by every way to set one, on 1 and 4 CPUs",
        how: How::Boots(&[boot("rip", &["/tests/rip-glibc"])]),
    },
    Test {
        name: "survey",
        about: "the kernel's own memory: rights and aliases in all page tables, returns that the processor refuses",
        how: How::Own(guest::survey),
    },
    Test {
        name: "memory",
        about: "the kernel's checks of its own memory; pages taken away from other CPUs; faults of forks",
        how: How::Own(guest::memory),
    },
    Test {
        name: "threads",
        about: "the thread room's own suite, on 1, 2, 4 and 8 CPUs",
        how: How::Own(threads::suite),
    },
    Test {
        name: "native",
        about: "thread operations between threads and processes, on 1, 2 and 4 CPUs",
        how: How::Boots(&[boot("native", &["/tests/threads-glibc"]).cpus(&[1, 2, 4])]),
    },
    Test {
        name: "trace",
        about: "ptrace, on 1 and 4 CPUs",
        how: How::Boots(&[boot("trace", &["/tests/trace-glibc"])]),
    },
    Test {
        name: "access",
        about: "who may do what to whom, on 1 and 4 CPUs",
        how: How::Boots(&[
            boot("access-rights", &["/tests/rights-glibc"]),
            boot("access-secrets", &["/tests/secrets-glibc"]),
            boot("access-capabilities", &["/tests/capabilities-glibc"]),
        ]),
    },
    Test {
        name: "mitigations",
        about: "what is done about speculation, by processor; the usual suites under all of it",
        how: How::Own(mitigations::run),
    },
    Test {
        name: "stopper",
        about: "random threads of processes and of the kernel are stopped; the machine goes on",
        how: How::Own(threads::stopper),
    },
    Test {
        name: "floating",
        about: "every variant of the switch: CPUs with and without XSAVE and FSGSBASE",
        how: How::Own(threads::floating),
    },
    Test {
        name: "switches",
        about: "instructions between one program's thread and the next: at most 67, 90 across spaces",
        how: How::Boots(&[boot("switches", &["/tests/switches-musl"])
            .by_instructions()
            .words(" mitigations=off")]),
    },
    Test {
        name: "lateness",
        about: "a 250-µs timer's handler misses no instant on a busy machine",
        how: How::Own(guest::lateness),
    },
    Test {
        name: "boots",
        about: "1, 2 and 8 CPUs, 16 MiB, microvm, icount",
        how: How::Own(guest::boots),
    },
];
