//! Processes: clone flags, wait, limits, usage, scheduling, `prctl`, ELF auxiliary vector.

use super::time::Timeval;

plain! {
    /// `struct rusage`; `maxrss` in KiB.
    pub struct Rusage {
        pub utime: Timeval,
        pub stime: Timeval,
        pub maxrss: i64,
        pub ixrss: i64,
        pub idrss: i64,
        pub isrss: i64,
        pub minflt: i64,
        pub majflt: i64,
        pub nswap: i64,
        pub inblock: i64,
        pub oublock: i64,
        pub msgsnd: i64,
        pub msgrcv: i64,
        pub nsignals: i64,
        pub nvcsw: i64,
        pub nivcsw: i64,
    }
    /// `struct rlimit64`.
    pub struct Rlimit {
        pub cur: u64,
        pub max: u64,
    }
    /// `struct clone_args`, the first 88 bytes (all that are defined).
    pub struct CloneArgs {
        pub flags: u64,
        pub pidfd: u64,
        pub child_tid: u64,
        pub parent_tid: u64,
        pub exit_signal: u64,
        pub stack: u64,
        pub stack_size: u64,
        pub tls: u64,
        pub set_tid: u64,
        pub set_tid_size: u64,
        pub cgroup: u64,
    }
    /// `struct robust_list_head`.
    pub struct RobustListHead {
        pub next: u64,
        pub futex_offset: i64,
        pub list_op_pending: u64,
    }
    /// The fields of `struct rseq` that 6.1 reads and writes.
    pub struct RseqArea {
        pub cpu_id_start: u32,
        pub cpu_id: u32,
        pub sequence: u64,
        pub flags: u32,
        pub pad: u32,
    }
    /// `struct rseq_cs`.
    pub struct RseqCs {
        pub version: u32,
        pub flags: u32,
        pub start: u64,
        pub length: u64,
        pub abort: u64,
    }
    /// `struct ptrace_rseq_configuration`.
    pub struct RseqConfiguration {
        pub area: u64,
        pub size: u32,
        pub signature: u32,
        pub flags: u32,
        pub pad: u32,
    }
    /// `struct sched_attr`.
    pub struct SchedAttr {
        pub size: u32,
        pub policy: u32,
        pub flags: u64,
        pub nice: i32,
        pub priority: u32,
        pub runtime: u64,
        pub deadline: u64,
        pub period: u64,
        pub util_min: u32,
        pub util_max: u32,
    }
    /// `struct futex_waitv`.
    pub struct FutexWaitv {
        pub val: u64,
        pub uaddr: u64,
        pub flags: u32,
        pub reserved: u32,
    }
    /// `struct __user_cap_header_struct`.
    pub struct CapHeader {
        pub version: u32,
        pub pid: i32,
    }
    /// `struct __user_cap_data_struct`.
    pub struct CapData {
        pub effective: u32,
        pub permitted: u32,
        pub inheritable: u32,
    }
}

constants! { u64:
    SCHED_FLAG_RESET_ON_FORK = 1, SCHED_FLAG_RECLAIM = 2, SCHED_FLAG_DL_OVERRUN = 4,
    SCHED_FLAG_KEEP_POLICY = 8, SCHED_FLAG_KEEP_PARAMS = 0x10, SCHED_FLAG_UTIL_CLAMP_MIN = 0x20,
    SCHED_FLAG_UTIL_CLAMP_MAX = 0x40,
}

constants! { u64:
    CSIGNAL = 0xff,
    CLONE_VM = 0x100, CLONE_FS = 0x200, CLONE_FILES = 0x400, CLONE_SIGHAND = 0x800,
    CLONE_PIDFD = 0x1000, CLONE_PTRACE = 0x2000, CLONE_VFORK = 0x4000, CLONE_PARENT = 0x8000,
    CLONE_THREAD = 0x10000, CLONE_NEWNS = 0x20000, CLONE_SYSVSEM = 0x40000, CLONE_SETTLS = 0x80000,
    CLONE_NEWTIME = 0x80, CLONE_PARENT_SETTID = 0x10_0000, CLONE_CHILD_CLEARTID = 0x20_0000, CLONE_DETACHED = 0x40_0000,
    CLONE_UNTRACED = 0x80_0000, CLONE_CHILD_SETTID = 0x100_0000, CLONE_NEWCGROUP = 0x200_0000,
    CLONE_NEWUTS = 0x400_0000, CLONE_NEWIPC = 0x800_0000, CLONE_NEWUSER = 0x1000_0000,
    CLONE_NEWPID = 0x2000_0000, CLONE_NEWNET = 0x4000_0000, CLONE_IO = 0x8000_0000,
    CLONE_CLEAR_SIGHAND = 0x1_0000_0000, CLONE_INTO_CGROUP = 0x2_0000_0000,
    RLIM_INFINITY = u64::MAX,
}

constants! { u32:
    WNOHANG = 1, WUNTRACED = 2, WSTOPPED = 2, WEXITED = 4, WCONTINUED = 8, WNOWAIT = 0x0100_0000,
    WNOTHREAD = 0x2000_0000, WALL = 0x4000_0000, WCLONE = 0x8000_0000,
    P_ALL = 0, P_PID = 1, P_PGID = 2, P_PIDFD = 3,
}

constants! { usize:
    RLIMIT_CPU = 0, RLIMIT_FSIZE = 1, RLIMIT_DATA = 2, RLIMIT_STACK = 3, RLIMIT_CORE = 4,
    RLIMIT_RSS = 5, RLIMIT_NPROC = 6, RLIMIT_NOFILE = 7, RLIMIT_MEMLOCK = 8, RLIMIT_AS = 9,
    RLIMIT_LOCKS = 10, RLIMIT_SIGPENDING = 11, RLIMIT_MSGQUEUE = 12, RLIMIT_NICE = 13,
    RLIMIT_RTPRIO = 14, RLIMIT_RTTIME = 15, RLIM_NLIMITS = 16,
}

constants! { usize:
    PR_CAP_AMBIENT_IS_SET = 1, PR_CAP_AMBIENT_RAISE = 2, PR_CAP_AMBIENT_LOWER = 3,
    PR_CAP_AMBIENT_CLEAR_ALL = 4,
}

constants! { u32:
    CAP_VERSION_1 = 0x1998_0330, CAP_VERSION_2 = 0x2007_1026, CAP_VERSION_3 = 0x2008_0522,
    SECBIT_NOROOT = 1, SECBIT_NO_SETUID_FIXUP = 1 << 2, SECBIT_KEEP_CAPS = 1 << 4,
    SECBIT_KEEP_CAPS_LOCKED = 1 << 5, SECBIT_NO_CAP_AMBIENT_RAISE = 1 << 6,
    SECURE_ALL_BITS = 0x55, SECURE_ALL_LOCKS = 0xaa,
}

constants! { i32:
    RUSAGE_SELF = 0, RUSAGE_CHILDREN = -1, RUSAGE_THREAD = 1,
    PRIO_PROCESS = 0, PRIO_PGRP = 1, PRIO_USER = 2,
    SCHED_OTHER = 0, SCHED_FIFO = 1, SCHED_RR = 2, SCHED_BATCH = 3, SCHED_IDLE = 5,
    SCHED_DEADLINE = 6, SCHED_RESET_ON_FORK = 0x4000_0000,

    PR_SET_PDEATHSIG = 1, PR_GET_PDEATHSIG = 2, PR_GET_DUMPABLE = 3, PR_SET_DUMPABLE = 4,
    PR_GET_KEEPCAPS = 7, PR_SET_KEEPCAPS = 8, PR_GET_TIMING = 13, PR_SET_TIMING = 14,
    PR_SET_NAME = 15, PR_GET_NAME = 16,
    PR_CAPBSET_READ = 23, PR_CAPBSET_DROP = 24, PR_GET_TSC = 25, PR_SET_TSC = 26,
    PR_GET_SECUREBITS = 27, PR_SET_SECUREBITS = 28,
    PR_SET_TIMERSLACK = 29, PR_GET_TIMERSLACK = 30,
    PR_MCE_KILL = 33, PR_MCE_KILL_GET = 34, PR_SET_MM = 35,
    PR_SET_CHILD_SUBREAPER = 36, PR_GET_CHILD_SUBREAPER = 37,
    PR_SET_NO_NEW_PRIVS = 38, PR_GET_NO_NEW_PRIVS = 39, PR_GET_TID_ADDRESS = 40,
    PR_SET_THP_DISABLE = 41, PR_GET_THP_DISABLE = 42, PR_CAP_AMBIENT = 47,
    PR_GET_SPECULATION_CTRL = 52, PR_SET_SPECULATION_CTRL = 53,
    PR_SET_IO_FLUSHER = 57, PR_GET_IO_FLUSHER = 58, PR_SET_PTRACER = 0x5961_6d61,

    ARCH_SET_GS = 0x1001, ARCH_SET_FS = 0x1002, ARCH_GET_FS = 0x1003, ARCH_GET_GS = 0x1004,
    ARCH_GET_CPUID = 0x1011, ARCH_SET_CPUID = 0x1012,
}

constants! { u32:
    RSEQ_FLAG_UNREGISTER = 1, RSEQ_CPU_ID_UNINITIALIZED = u32::MAX,
}

/// Bytes of the area of restartable sequences, and what its address is a multiple of.
pub const RSEQ_SIZE: usize = 32;
/// Where the address of the description is in it.
pub const RSEQ_SEQUENCE: usize = 8;

constants! { u64:
    AT_NULL = 0, AT_IGNORE = 1, AT_EXECFD = 2, AT_PHDR = 3, AT_PHENT = 4, AT_PHNUM = 5, AT_PAGESZ = 6,
    AT_BASE = 7, AT_FLAGS = 8, AT_ENTRY = 9, AT_UID = 11, AT_EUID = 12, AT_GID = 13, AT_EGID = 14,
    AT_PLATFORM = 15, AT_HWCAP = 16, AT_CLKTCK = 17, AT_SECURE = 23, AT_BASE_PLATFORM = 24,
    AT_RANDOM = 25, AT_HWCAP2 = 26, AT_EXECFN = 31, AT_SYSINFO_EHDR = 33, AT_MINSIGSTKSZ = 51,
    // Of AT_HWCAP2: programs may use `wrfsbase` and its like.
    HWCAP2_FSGSBASE = 2,
}

/// A `wait` status for an ordinary exit.
pub const fn status_exited(code: i32) -> i32 {
    (code & 0xff) << 8
}

/// A `wait` status for death by a signal.
pub const fn status_signaled(signal: i32) -> i32 {
    signal & 0x7f
}

/// In a `wait` status of an end by a signal: there is a core.
pub const STATUS_CORE: i32 = 0x80;

/// A `wait` status for a stop.
pub const fn status_stopped(signal: i32) -> i32 {
    0x7f | (signal << 8)
}

/// The `wait` status of a continued child.
pub const STATUS_CONTINUED: i32 = 0xffff;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_linux() {
        assert_eq!(core::mem::size_of::<Rusage>(), 144);
        assert_eq!(core::mem::size_of::<CloneArgs>(), 88);
        assert_eq!(core::mem::offset_of!(RseqArea, sequence), RSEQ_SEQUENCE);
    }
}
