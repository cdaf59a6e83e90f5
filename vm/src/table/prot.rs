//! The rights of a program's page.
//!
//! *Interface*: [`Prot`], as a caller of `map` chooses them and as an entry has them.

/// Rights of a page, or of all pages of an area.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Prot(u8);

impl Prot {
    /// No access at all.
    pub const NONE: Prot = Prot(0);
    /// May be read.
    pub const READ: Prot = Prot(1);
    /// May be written (which on this machine includes reading).
    pub const WRITE: Prot = Prot(2);
    /// May be executed.
    pub const EXEC: Prot = Prot(4);
    /// Read and write.
    pub const RW: Prot = Prot(3);
    /// Read and execute.
    #[cfg(test)]
    pub const RX: Prot = Prot(5);

    /// From Linux's `PROT_READ | PROT_WRITE | PROT_EXEC`, whose bits are the same; others are ignored.
    pub const fn from_bits(bits: usize) -> Prot {
        Prot(bits as u8 & 7)
    }

    /// As Linux's bits.
    pub const fn bits(self) -> usize {
        self.0 as usize
    }

    /// Are all rights of `other` in this?
    pub const fn contains(self, other: Prot) -> bool {
        self.0 & other.0 == other.0
    }

    /// The rights of either.
    pub const fn or(self, other: Prot) -> Prot {
        Prot(self.0 | other.0)
    }
}
