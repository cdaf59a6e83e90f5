//! The invariants that choose the code of a descriptor routine.
//!
//! *Interface*: [`Variant`], by its index in a table of templates.

/// The invariants that choose the code of a routine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Variant {
    pub several_cpus: bool,
    pub shared: bool,
    pub guarded_user: bool,
}

/// Number of variants.
pub(crate) const VARIANTS: usize = 8;

impl Variant {
    /// The variant with this [`index`](Self::index).
    pub const fn new(index: u8) -> Variant {
        Variant {
            several_cpus: index & 1 != 0,
            shared: index & 2 != 0,
            guarded_user: index & 4 != 0,
        }
    }

    /// Its place in a table of templates.
    pub fn index(self) -> usize {
        usize::from(self.several_cpus)
            | usize::from(self.shared) << 1
            | usize::from(self.guarded_user) << 2
    }

    /// Whether the routine takes the monitor's word. With one CPU it need not: it cannot be interrupted, so
    /// to see the word free is to have it.
    pub fn takes_monitor(self) -> bool {
        self.shared && self.several_cpus
    }

    /// Whether to see the monitor's word free is enough.
    pub fn looks_at_monitor(self) -> bool {
        self.shared && !self.several_cpus
    }
}
