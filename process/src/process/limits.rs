//! Resource limits (`getrlimit`, `setrlimit`, `prlimit64`).
//!
//! *Interface*: [`RlimitTable`], indexed by `RLIMIT_…`; [`Process::bounds`](super::Process::bounds) are those
//! of its memory.

use abi::errno::{Errno, Result};
use abi::linux::*;
use vm::space::SpaceLimits;

use super::Process;
use account::Capability;
use file::fdtable::MAX_CAPACITY;

/// The initial `RLIMIT_NPROC`: half of the maximum.
fn tasks_max() -> u64 {
    super::tree::most() as u64 / 2
}

/// The limits of one process.
#[derive(Clone)]
pub struct RlimitTable([Rlimit; RLIM_NLIMITS]);

impl RlimitTable {
    /// The limits of the first process.
    pub fn initial() -> RlimitTable {
        let mut limits = [Rlimit {
            cur: RLIM_INFINITY,
            max: RLIM_INFINITY,
        }; RLIM_NLIMITS];
        limits[RLIMIT_STACK].cur = abi::layout::USER_STACK_LEN as u64;
        limits[RLIMIT_CORE].cur = 0;
        limits[RLIMIT_NOFILE] = Rlimit {
            cur: 1024,
            max: MAX_CAPACITY as u64,
        };
        limits[RLIMIT_NPROC] = Rlimit {
            cur: tasks_max(),
            max: tasks_max(),
        };
        limits[RLIMIT_MEMLOCK] = Rlimit {
            cur: 8 << 20,
            max: 8 << 20,
        };
        limits[RLIMIT_SIGPENDING] = Rlimit {
            cur: 1024,
            max: 1024,
        };
        limits[RLIMIT_MSGQUEUE] = Rlimit {
            cur: 819_200,
            max: 819_200,
        };
        limits[RLIMIT_NICE] = Rlimit { cur: 0, max: 0 };
        limits[RLIMIT_RTPRIO] = Rlimit { cur: 0, max: 0 };
        RlimitTable(limits)
    }

    /// One limit. EINVAL.
    pub fn get(&self, resource: usize) -> Result<Rlimit> {
        self.0.get(resource).copied().ok_or(Errno::EINVAL)
    }

    /// The current value of `resource`, which must be an `RLIMIT_…` constant.
    pub fn cur(&self, resource: usize) -> u64 {
        self.0[resource].cur
    }

    /// The current value of `resource`, which must be an `RLIMIT_…` constant, becomes `most` at most.
    pub fn lower(&mut self, resource: usize, most: u64) {
        let cur = &mut self.0[resource].cur;
        *cur = most.min(*cur);
    }

    /// The limit of CPU time, seconds.
    pub(crate) fn cpu(&self) -> Rlimit {
        self.0[RLIMIT_CPU]
    }

    /// A process over the soft limit of CPU time gets the signal again a second later.
    pub(crate) fn put_off_cpu(&mut self) {
        let soft = &mut self.0[RLIMIT_CPU].cur;
        *soft = soft.saturating_add(1).min(RLIM_INFINITY - 1);
    }

    /// Sets a limit; raising the maximum needs `CAP_SYS_RESOURCE` (`raises`), and for descriptors it never
    /// exceeds the largest table. EINVAL, EPERM.
    pub fn set(&mut self, resource: usize, new: Rlimit, raises: bool) -> Result<()> {
        let old = self.0.get_mut(resource).ok_or(Errno::EINVAL)?;
        if new.cur > new.max {
            return Err(Errno::EINVAL);
        }
        let beyond = resource == RLIMIT_NOFILE && new.max > MAX_CAPACITY as u64;
        if beyond || new.max > old.max && !raises {
            return Err(Errno::EPERM);
        }
        *old = new;
        Ok(())
    }
}

impl Process {
    /// The limits of its memory for a call of one of its threads.
    pub fn bounds(&self) -> SpaceLimits {
        let may_lock = self.cred_here().has(Capability::IpcLock);
        // Bound: a few words of one process.
        let limits = self.limits.lock();
        let bytes = |resource: usize| limits.cur(resource) as usize;
        let [data, locked] = [RLIMIT_DATA, RLIMIT_MEMLOCK].map(bytes);
        SpaceLimits {
            size: bytes(RLIMIT_AS),
            // As Linux has it: without any, that of who may raise it binds, and the heap alone stays as it
            // is.
            data: match data {
                0 => limits.0[RLIMIT_DATA].max as usize,
                data => data,
            },
            heap: data,
            locked: if may_lock { usize::MAX } else { locked },
            stack: bytes(RLIMIT_STACK),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_who_has_the_right_raises_a_maximum() {
        let mut limits = RlimitTable::initial();
        let lower = Rlimit { cur: 10, max: 20 };
        limits.set(RLIMIT_NOFILE, lower, false).unwrap();
        let raise = Rlimit { cur: 10, max: 30 };
        assert_eq!(limits.set(RLIMIT_NOFILE, raise, false), Err(Errno::EPERM));
        limits.set(RLIMIT_NOFILE, raise, true).unwrap();
        assert_eq!(limits.set(99, raise, true), Err(Errno::EINVAL));
        let most = MAX_CAPACITY as u64;
        let beyond =
            [most, most + 1].map(|max| limits.set(RLIMIT_NOFILE, Rlimit { cur: 10, max }, true));
        assert_eq!(beyond, [Ok(()), Err(Errno::EPERM)]);
    }
}
