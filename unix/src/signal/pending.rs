//! Signals that wait to be delivered: a mask, and their `siginfo` in order.
//!
//! *Interface*: [`Pending::add`], [`Pending::take`], [`Pending::remove`]. A standard signal waits at most once; a
//! real-time one as often as it was sent, in order.

use abi::linux::{SIGRTMIN, Siginfo};
use alloc::collections::VecDeque;

use super::set::{SYNCHRONOUS, bit};

/// The most entries of one queue; beyond, real-time signals are refused.
const QUEUE_MAX: usize = 1024;

/// Signals that wait.
#[derive(Default)]
pub struct Pending {
    mask: u64,
    queue: VecDeque<Siginfo>,
}

impl Pending {
    /// Nothing pending.
    pub const fn new() -> Pending {
        Pending {
            mask: 0,
            queue: VecDeque::new(),
        }
    }

    /// Which signals wait.
    pub fn mask(&self) -> u64 {
        self.mask
    }

    /// Adds one; `false` when it was refused because the queue is full or memory short.
    pub fn add(&mut self, info: Siginfo) -> bool {
        let this = bit(info.signo);
        if info.signo < SIGRTMIN && self.mask & this != 0 {
            return true;
        }
        let room = self.queue.len() < QUEUE_MAX && self.queue.try_reserve(1).is_ok();
        if room {
            self.queue.push_back(info);
        } else if info.signo >= SIGRTMIN {
            return false;
        }
        // A standard signal is never lost, only what is known about it.
        self.mask |= this;
        true
    }

    /// Takes the next one out of `set`, faults first, then by rising number; `false`, and nothing in `into`, when there is none.
    pub fn take(&mut self, set: u64, into: &mut Siginfo) -> bool {
        let ready = self.mask & set;
        if ready == 0 {
            return false;
        }
        let urgent = if ready & SYNCHRONOUS != 0 {
            ready & SYNCHRONOUS
        } else {
            ready
        };
        let signo = urgent.trailing_zeros() as i32 + 1;
        match self.queue.iter().position(|info| info.signo == signo) {
            Some(0) => {
                *into = self.queue[0];
                self.queue.pop_front();
            }
            Some(at) => {
                *into = self.queue[at];
                self.queue.remove(at);
            }
            // Memory was short when it was sent.
            None => {
                *into = Siginfo {
                    signo,
                    ..Siginfo::default()
                }
            }
        }
        if signo < SIGRTMIN || !self.queue.iter().any(|info| info.signo == signo) {
            self.mask &= !bit(signo);
        }
        true
    }

    /// Drops all of `set`.
    pub fn remove(&mut self, set: u64) {
        if self.mask & set != 0 {
            self.mask &= !set;
            self.queue.retain(|info| bit(info.signo) & set == 0);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use abi::linux::*;

    fn info(signo: i32, code: i32) -> Siginfo {
        Siginfo {
            signo,
            code,
            ..Siginfo::default()
        }
    }

    fn taken(pending: &mut Pending, set: u64) -> Option<Siginfo> {
        let mut info = Siginfo::default();
        pending.take(set, &mut info).then_some(info)
    }

    #[test]
    fn standard_signals_wait_once_and_real_time_ones_queue() {
        let mut pending = Pending::new();
        for code in 0..3 {
            assert!(pending.add(info(SIGUSR1, code)));
            assert!(pending.add(info(40, code)));
        }
        let all = u64::MAX;
        assert_eq!(
            taken(&mut pending, all).map(|i| (i.signo, i.code)),
            Some((SIGUSR1, 0))
        );
        for code in 0..3 {
            assert_eq!(
                taken(&mut pending, all).map(|i| (i.signo, i.code)),
                Some((40, code))
            );
        }
        assert_eq!(taken(&mut pending, all), None);
        assert_eq!(pending.mask(), 0);
    }

    #[test]
    fn faults_come_first_and_masks_hold_back() {
        let mut pending = Pending::new();
        pending.add(info(SIGHUP, 0));
        pending.add(info(SIGSEGV, 1));
        assert_eq!(taken(&mut pending, !bit(SIGSEGV)).unwrap().signo, SIGHUP);
        pending.add(info(SIGHUP, 0));
        assert_eq!(taken(&mut pending, u64::MAX).unwrap().signo, SIGSEGV);
        pending.remove(bit(SIGHUP));
        assert_eq!(taken(&mut pending, u64::MAX), None);
    }

    #[test]
    fn a_full_queue_refuses_real_time_but_not_standard_signals() {
        let mut pending = Pending::new();
        while pending.add(info(50, 0)) {}
        assert!(pending.add(info(SIGTERM, 0)));
        assert_eq!(taken(&mut pending, bit(SIGTERM)).unwrap().signo, SIGTERM);
    }
}
