//! Sets of general registers, and saving them: the code that the interfacer places around a call.
//!
//! *Interface*: [`Regs`] is a set; [`Regs::save`] and [`Regs::restore`] emit the pushes and pops of one. A
//! callentry declares the registers that it changes, a callout those that must live through it; the code
//! between them saves the intersection and nothing else.
//!
//! Source: dissertation, section 4.1.3 ("save any machine registers used by both caller and callee").

use codegen::idioms::Reg;
use codegen::{Draft, dynasm};
use core::ops::{BitAnd, BitOr, Sub};

/// A set of general registers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Regs(u16);

impl Regs {
    /// No register.
    pub const NONE: Regs = Regs(0);
    /// The registers that a System V function may change.
    pub const SYSV: Regs = Regs::of(&[
        Reg::Rax,
        Reg::Rcx,
        Reg::Rdx,
        Reg::Rsi,
        Reg::Rdi,
        Reg::R8,
        Reg::R9,
        Reg::R10,
        Reg::R11,
    ]);

    /// The set of `members`.
    pub const fn of(members: &[Reg]) -> Regs {
        let mut set = 0;
        let mut at = 0;
        while at < members.len() {
            set |= 1 << members[at] as u16;
            at += 1;
        }
        Regs(set)
    }

    /// Whether `reg` is in the set.
    pub const fn contains(self, reg: Reg) -> bool {
        self.0 & 1 << reg as u16 != 0
    }

    /// The members of both.
    pub const fn with(self, other: Regs) -> Regs {
        Regs(self.0 | other.0)
    }

    /// The members that are not in `other`.
    pub const fn without(self, other: Regs) -> Regs {
        Regs(self.0 & !other.0)
    }

    /// Number of members.
    pub const fn len(self) -> usize {
        self.0.count_ones() as usize
    }

    /// Whether there is no member.
    pub const fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// Pushes every member. Changes no flags and no registers but rsp.
    #[allow(clippy::useless_conversion, reason = "in dynasm's expansion")]
    pub fn save(self, d: &mut Draft) {
        let mut rest = self.0;
        while rest != 0 {
            let number = rest.trailing_zeros() as u8;
            rest &= rest - 1;
            dynasm!(d ; .arch x64 ; push Rq(number));
        }
    }

    /// Pops what [`save`](Self::save) pushed.
    #[allow(clippy::useless_conversion, reason = "in dynasm's expansion")]
    pub fn restore(self, d: &mut Draft) {
        let mut rest = self.0;
        while rest != 0 {
            let number = rest.ilog2() as u8;
            rest &= !(1 << number);
            dynasm!(d ; .arch x64 ; pop Rq(number));
        }
    }
}

impl BitAnd for Regs {
    type Output = Regs;
    fn bitand(self, other: Regs) -> Regs {
        Regs(self.0 & other.0)
    }
}

impl BitOr for Regs {
    type Output = Regs;
    fn bitor(self, other: Regs) -> Regs {
        self.with(other)
    }
}

impl Sub for Regs {
    type Output = Regs;
    fn sub(self, other: Regs) -> Regs {
        self.without(other)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_both_use_is_saved() {
        let live = Regs::of(&[Reg::Rcx, Reg::Rbx, Reg::R11]);
        let saved = live & Regs::SYSV;
        assert_eq!(saved, Regs::of(&[Reg::Rcx, Reg::R11]));
        assert_eq!(live - saved, Regs::of(&[Reg::Rbx]));
    }
}
