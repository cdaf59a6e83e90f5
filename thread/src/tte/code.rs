//! The code that a thread owns: its switch code, of one kind, and its dispatcher.
//!
//! *Interface*: [`SwitchKind`]; [`SwitchCode`] and [`Dispatcher`] hold the images. Their generators are
//! `switch` and `dispatch`.

use codegen::Routine;
use machine::cpu::Cpu;

/// The type of `sw_out`.
pub(crate) type SwOut = extern "C" fn(&Cpu);

/// Which context a thread's switch code carries: a sum of the constants.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SwitchKind(pub(crate) u8);

impl SwitchKind {
    /// Never enters user mode: no user segments, no dispatcher, hands off the floating-point unit.
    pub const KERNEL: SwitchKind = SwitchKind(0);
    /// Enters user mode.
    pub const USER: SwitchKind = SwitchKind(1);
    /// Has vector registers.
    pub const FP: SwitchKind = SwitchKind(2);
    /// Has asked for less speculation ([`crate::speculation`]).
    pub const ASKED: SwitchKind = SwitchKind(32);
    /// Has debug registers ([`crate::hw_breakpoints`]).
    pub const WATCHED: SwitchKind = SwitchKind(64);
    pub(crate) const FSGSBASE: u8 = 4;
    pub(crate) const XSAVE: u8 = 8;
    pub(crate) const XSAVEOPT: u8 = 16;

    /// Both.
    pub const fn with(self, other: SwitchKind) -> SwitchKind {
        SwitchKind(self.0 | other.0)
    }

    /// This one without what `other` has.
    pub const fn without(self, other: SwitchKind) -> SwitchKind {
        SwitchKind(self.0 & !other.0)
    }

    /// Whether it has everything that `other` has.
    pub const fn contains(self, other: SwitchKind) -> bool {
        self.0 & other.0 == other.0
    }

    pub(crate) const fn bits(self) -> u8 {
        self.0
    }

    pub(crate) const fn from_bits(bits: u8) -> SwitchKind {
        SwitchKind(bits)
    }

    /// As this processor does it.
    pub(crate) fn here(self) -> SwitchKind {
        let found = machine::features::get();
        let mut bits = self.0;
        if self.0 & SwitchKind::USER.0 != 0 && found.fsgsbase() {
            bits |= SwitchKind::FSGSBASE;
        }
        if self.0 & SwitchKind::FP.0 != 0 && found.xsave() {
            bits |= SwitchKind::XSAVE;
            if found.xsaveopt() {
                bits |= SwitchKind::XSAVEOPT;
            }
        }
        SwitchKind(bits)
    }
}

/// A thread's switch code; `switch` makes it.
pub struct SwitchCode {
    pub(crate) image: Routine<SwOut>,
    pub(crate) variant: u8,
    /// The requested kind; with the processor's features it became the variant.
    pub(crate) kind: SwitchKind,
    /// Address of the area for vector registers that it saves to; 0 without [`SwitchKind::FP`].
    pub(crate) fpu_area: usize,
}

/// Entered by a jump from the CPU's `syscall` stub; Rust never calls it.
pub struct Jump;

/// A thread's dispatcher; `dispatch` makes it.
pub struct Dispatcher(pub(crate) Routine<Jump>);
