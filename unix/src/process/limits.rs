//! Resource limits (`getrlimit`, `setrlimit`, `prlimit64`).
//!
//! *Interface*: [`Limits`], indexed by `RLIMIT_…`.

use abi::errno::{Errno, Result};
use abi::linux::*;

/// The limits of one process.
#[derive(Clone)]
pub struct Limits([Rlimit; RLIM_NLIMITS]);

impl Limits {
    /// What the first process starts with.
    pub fn initial() -> Limits {
        let mut limits = [Rlimit {
            cur: RLIM_INFINITY,
            max: RLIM_INFINITY,
        }; RLIM_NLIMITS];
        limits[RLIMIT_STACK].cur = abi::layout::USER_STACK_LEN as u64;
        limits[RLIMIT_CORE].cur = 0;
        limits[RLIMIT_NOFILE] = Rlimit {
            cur: 1024,
            max: 4096,
        };
        limits[RLIMIT_NPROC] = Rlimit {
            cur: super::quota::tasks_max(),
            max: super::quota::tasks_max(),
        };
        limits[RLIMIT_MEMLOCK] = Rlimit {
            cur: 64 << 10,
            max: 64 << 10,
        };
        limits[RLIMIT_SIGPENDING] = Rlimit {
            cur: 1024,
            max: 1024,
        };
        limits[RLIMIT_MSGQUEUE] = Rlimit { cur: 0, max: 0 };
        limits[RLIMIT_NICE] = Rlimit { cur: 0, max: 0 };
        limits[RLIMIT_RTPRIO] = Rlimit { cur: 0, max: 0 };
        Limits(limits)
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

    /// Sets a limit; raising the maximum is for who has `CAP_SYS_RESOURCE` (`raises`). EINVAL, EPERM.
    pub fn set(&mut self, resource: usize, new: Rlimit, raises: bool) -> Result<()> {
        let old = self.0.get_mut(resource).ok_or(Errno::EINVAL)?;
        if new.cur > new.max {
            return Err(Errno::EINVAL);
        }
        if new.max > old.max && !raises {
            return Err(Errno::EPERM);
        }
        *old = new;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_who_has_the_right_raises_a_maximum() {
        let mut limits = Limits::initial();
        let lower = Rlimit { cur: 10, max: 20 };
        limits.set(RLIMIT_NOFILE, lower, false).unwrap();
        let raise = Rlimit { cur: 10, max: 30 };
        assert_eq!(limits.set(RLIMIT_NOFILE, raise, false), Err(Errno::EPERM));
        limits.set(RLIMIT_NOFILE, raise, true).unwrap();
        assert_eq!(limits.set(99, raise, true), Err(Errno::EINVAL));
    }
}
