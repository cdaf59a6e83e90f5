//! Admission: which calls are served when memory is short.
//!
//! *Interface*: [`admit`], asked by the table before a call that finds less than [`ROOM`] frames beyond what
//! is kept.
//!
//! Refusal is the rule: a call that [`EXEMPT`] does not list is served only while there is room. The call's
//! small allocations of fixed size then succeed, because each thread has a reservation of its own
//! (`vm::stack`); allocations whose size or number the user chooses ask separately. A new call is refused
//! until a reason for exemption is added. Before a refusal, caches are released, and if the caller holds less
//! memory than others, the process that holds most is ended.

use abi::errno::{Errno, Result};
use abi::nr::{self, *};

use vm::frame;

use super::shrink;
use crate::process::Task;

/// Frames beyond the kept memory that a call needs; some of them are left to the superuser.
pub const ROOM: usize = 64;
/// The frames that the superuser needs.
const ROOM_FOR_ROOT: usize = 32;

/// Calls that are served with any amount of memory, and the reasons.
const EXEMPT: &[(&str, &[usize])] = &[
    (
        "gives memory back",
        &[
            CLOSE,
            CLOSE_RANGE,
            MUNMAP,
            EXIT,
            EXIT_GROUP,
            UNLINK,
            UNLINKAT,
            RMDIR,
            TIMER_DELETE,
            UMOUNT2,
        ],
    ),
    (
        "waits with what its thread has: a place in a list, which it asks for itself, and an alarm, without which it looks again and again",
        &[
            WAIT4,
            WAITID,
            FUTEX,
            NANOSLEEP,
            CLOCK_NANOSLEEP,
            PAUSE,
            RT_SIGSUSPEND,
            RT_SIGTIMEDWAIT,
            SCHED_YIELD,
            RESTART_SYSCALL,
        ],
    ),
    (
        "gives what exists another number, without which a program would go on with the wrong file; a table that grows asks for its room",
        &[DUP2, DUP3],
    ),
    (
        "sends a signal; room for its data is asked for, and a signal without room is sent without data or refused",
        &[KILL, TKILL, TGKILL, RT_SIGQUEUEINFO, RT_TGSIGQUEUEINFO],
    ),
    (
        "moves bytes between places that exist; a file that grows asks for its pages",
        &[
            READ, WRITE, PREAD64, PWRITE64, LSEEK, FSYNC, FDATASYNC, SYNC, MSYNC,
        ],
    ),
    (
        "changes or answers a few words of the caller's",
        &[
            RT_SIGACTION,
            RT_SIGPROCMASK,
            RT_SIGRETURN,
            RT_SIGPENDING,
            SIGALTSTACK,
            IOCTL,
            BRK,
            MADVISE,
            FSTAT,
            GETPID,
            GETTID,
            GETPPID,
            GETPGRP,
            GETPGID,
            GETSID,
            SETPGID,
            GETUID,
            GETEUID,
            GETGID,
            GETEGID,
            GETRESUID,
            GETRESGID,
            UMASK,
            GETTIMEOFDAY,
            TIME,
            TIMES,
            CLOCK_GETTIME,
            CLOCK_GETRES,
            GETRLIMIT,
            SETRLIMIT,
            PRLIMIT64,
            GETRUSAGE,
            SYSINFO,
            UNAME,
            GETPRIORITY,
            SETPRIORITY,
            SET_TID_ADDRESS,
            SET_ROBUST_LIST,
            ARCH_PRCTL,
            PRCTL,
            GETCPU,
            GETRANDOM,
            GETITIMER,
            TIMER_GETTIME,
            TIMER_GETOVERRUN,
            SCHED_GETAFFINITY,
            RSEQ,
        ],
    ),
];

static IS_EXEMPT: [bool; nr::COUNT] = {
    let mut exempt = [false; nr::COUNT];
    let mut group = 0;
    while group < EXEMPT.len() {
        let calls = EXEMPT[group].1;
        let mut i = 0;
        while i < calls.len() {
            assert!(!exempt[calls[i]], "a call is exempt twice");
            exempt[calls[i]] = true;
            i += 1;
        }
        group += 1;
    }
    exempt
};

/// Memory is short: whether call `number` is answered all the same. ENOMEM.
#[cold]
pub fn admit(number: usize) -> Result<()> {
    if IS_EXEMPT.get(number).copied().unwrap_or(false) {
        return Ok(());
    }
    if frame::fault_injection::is_armed() && frame::has_room(ROOM) {
        // Refused on purpose.
        return Err(Errno::ENOMEM);
    }
    let superuser = Task::here(|task| task.cred.get().euid == 0).unwrap_or(true);
    let room = if superuser { ROOM_FOR_ROOT } else { ROOM };
    while !frame::has_room(room) {
        if !shrink::run(room) && !super::relieve() {
            return Err(Errno::ENOMEM);
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_makes_something_is_refused_and_what_ends_something_is_not() {
        for number in [
            OPEN, FORK, CLONE, CLONE3, EXECVE, PIPE2, MKDIR, EPOLL_CTL, OPENAT2,
        ] {
            assert!(!IS_EXEMPT[number]);
        }
        for number in [EXIT_GROUP, CLOSE, MUNMAP, WAIT4, KILL, RT_SIGRETURN, DUP2] {
            assert!(IS_EXEMPT[number]);
        }
    }
}
