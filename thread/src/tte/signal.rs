//! The signal table and the pending procedures of one thread.
//!
//! *Interface*: [`Signals`]; [`Mode`] and [`Procedure`] say which procedure runs in which mode. This is the
//! thread quaject's own mechanism for procedures that a thread is made to call. The Linux signals of a
//! process are the `process` room's, and use only the `SIGNAL` flag.
//!
//! There is a stack of pending procedures for each mode; pushing is lock-free, and returns an error when the
//! stack is full.
//! Source: dissertation, sections 4.3.2 and 5.3.2 (Signal).

use core::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use sync::ValueStack;

/// Signal numbers of a thread.
pub const SIGNALS: usize = 32;
/// Most pending procedures of a mode.
const PENDING: usize = 8;

/// In which mode an interrupt procedure runs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Mode {
    /// In the kernel: a `fn()`.
    Supervisor,
    /// In user mode: as if the thread had called it where it was.
    User,
}

/// A procedure that a thread is made to call.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Procedure {
    /// Its address.
    pub address: usize,
    /// The mode that it runs in.
    pub mode: Mode,
}

/// No table entry, or no place for one more pending procedure.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Refused;

/// Bit 62 of a canonical address equals bit 63; turned over, it means user mode.
const USER: usize = 1 << 62;

impl Procedure {
    fn word(self) -> usize {
        match self.mode {
            Mode::Supervisor => self.address,
            Mode::User => self.address ^ USER,
        }
    }

    fn from_word(word: usize) -> Option<Procedure> {
        if word == 0 {
            return None;
        }
        let user = (word >> 62) & 1 != (word >> 63);
        Some(if user {
            Procedure {
                address: word ^ USER,
                mode: Mode::User,
            }
        } else {
            Procedure {
                address: word,
                mode: Mode::Supervisor,
            }
        })
    }
}

/// The table and the pending procedures.
pub(crate) struct Signals {
    /// Whether anything below may be other than at the beginning: few threads ever have a procedure.
    used: AtomicBool,
    table: [AtomicUsize; SIGNALS],
    supervisor: ValueStack<usize, PENDING>,
    user: ValueStack<usize, PENDING>,
}

impl Signals {
    pub const fn new() -> Self {
        Signals {
            used: AtomicBool::new(false),
            table: [const { AtomicUsize::new(0) }; SIGNALS],
            supervisor: ValueStack::new(),
            user: ValueStack::new(),
        }
    }

    /// As at the beginning.
    #[inline]
    pub fn reset(&self) {
        if self.used.load(Ordering::Acquire) {
            self.wipe();
        }
    }

    #[cold]
    fn wipe(&self) {
        // Before the check, since a party that adds a procedure sets the mark afterwards.
        if !self.used.swap(false, Ordering::SeqCst) {
            return;
        }
        for word in &self.table {
            word.store(0, Ordering::Relaxed);
        }
        while self.pop(Mode::Supervisor).is_some() || self.pop(Mode::User).is_some() {}
    }

    fn stack(&self, mode: Mode) -> &ValueStack<usize, PENDING> {
        match mode {
            Mode::Supervisor => &self.supervisor,
            Mode::User => &self.user,
        }
    }

    pub fn set(&self, number: usize, procedure: Option<Procedure>) -> Result<(), Refused> {
        let word = procedure.map_or(0, Procedure::word);
        let place = self.table.get(number).ok_or(Refused)?;
        place.store(word, Ordering::Release);
        self.used.store(true, Ordering::Release);
        Ok(())
    }

    pub fn get(&self, number: usize) -> Option<Procedure> {
        Procedure::from_word(self.table.get(number)?.load(Ordering::Acquire))
    }

    pub fn push(&self, procedure: Procedure) -> Result<(), Refused> {
        let stack = self.stack(procedure.mode);
        stack.push(procedure.address).map_err(|_| Refused)?;
        self.used.store(true, Ordering::Release);
        Ok(())
    }

    /// Takes the latest pending procedure of `mode`. The thread itself.
    pub fn pop(&self, mode: Mode) -> Option<usize> {
        self.stack(mode).pop()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn modes_survive_the_word() {
        for (address, mode) in [
            (0x40_0000, Mode::User),
            (0x7fff_ffff_e000, Mode::User),
            (0xffff_ffff_8010_0000, Mode::Supervisor),
        ] {
            let procedure = Procedure { address, mode };
            assert_eq!(Procedure::from_word(procedure.word()), Some(procedure));
        }
        assert_eq!(Procedure::from_word(0), None);
    }

    #[test]
    fn latest_first_and_bounded() {
        let signals = Signals::new();
        let at = |address| Procedure {
            address,
            mode: Mode::User,
        };
        for i in 0..PENDING {
            assert!(signals.push(at(0x1000 + i)).is_ok());
        }
        assert_eq!(signals.push(at(1)), Err(Refused));
        assert_eq!(signals.pop(Mode::Supervisor), None);
        for i in (0..PENDING).rev() {
            assert_eq!(signals.pop(Mode::User), Some(0x1000 + i));
        }
        assert_eq!(signals.pop(Mode::User), None);
        assert_eq!(signals.set(SIGNALS, None), Err(Refused));
    }

    #[test]
    fn nothing_is_left_after_a_reset() {
        let signals = Signals::new();
        let procedure = |mode| Procedure {
            address: 0x1000,
            mode,
        };
        for round in 0..3 {
            signals.reset();
            assert_eq!(signals.pop(Mode::User), None);
            assert_eq!(signals.pop(Mode::Supervisor), None);
            assert_eq!(signals.get(5), None);
            match round {
                0 => assert!(signals.push(procedure(Mode::User)).is_ok()),
                1 => assert!(signals.push(procedure(Mode::Supervisor)).is_ok()),
                _ => assert!(signals.set(5, Some(procedure(Mode::User))).is_ok()),
            }
        }
        signals.reset();
        assert_eq!(signals.get(5), None);
    }
}
