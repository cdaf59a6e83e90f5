//! Mitigations: what is done about speculation, chosen by what the processor says.
//!
//! *Interface*: [`choose`] is the pure choice from [`Facts`] and [`MitigationMode`]; [`plan`] and
//! [`measures`] are what was chosen here, at boot. Generators ask [`measures`] and emit what is needed and
//! nothing else: under `mitigations=off` no generated routine has an instruction more. `sysfs.rs` says it as
//! Linux does. Source: docs/security.md, "Speculation".

mod affected;
mod facts;
mod registers;
mod sysfs;

pub use affected::{Bug, Bugs, affected};
pub use facts::{Facts, Vendor};
pub use registers::{IBPB, PRED_CMD, SPEC_CTRL, SSBD, STIBP, resting, running};
pub(crate) use registers::{SELECTOR, init_this_cpu};

use codegen::harden::{Hardening, harden};
use core::sync::atomic::{AtomicU32, Ordering};
use facts::caps;
use sync::Once;

/// The wish of the command line: `mitigations=off`, `auto` (also without the word) or `all`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum MitigationMode {
    /// Nothing that costs anything.
    Off,
    /// As the processor needs.
    Auto,
    /// All that the processor can execute, needed or not.
    All,
}

impl MitigationMode {
    /// The last `mitigations=` of a command line; words of other kinds count as `auto`.
    pub fn of(line: &str) -> MitigationMode {
        let mut words = line.split_ascii_whitespace().rev();
        match words.find_map(|word| word.strip_prefix("mitigations=")) {
            Some("off") => MitigationMode::Off,
            Some("all") => MitigationMode::All,
            _ => MitigationMode::Auto,
        }
    }

    /// The word.
    pub const fn name(self) -> &'static str {
        match self {
            MitigationMode::Off => "off",
            MitigationMode::Auto => "auto",
            MitigationMode::All => "all",
        }
    }
}

macro_rules! measures {
    ($($name:ident $bit:literal $doc:literal;)*) => {
        /// The measure.
        #[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
        pub struct Mitigations(u32);

        impl Mitigations {
            $(
                #[doc = $doc]
                pub const fn $name(self) -> bool { self.0 & (1 << $bit) != 0 }
            )*

            /// Names of those in force, for `/syn`.
            pub fn names(self) -> impl Iterator<Item = &'static str> {
                [$((stringify!($name), $bit)),*].into_iter()
                    .filter(move |(_, bit)| self.0 & (1 << bit) != 0).map(|(name, _)| name)
            }
        }

        mod bit { $(#[allow(non_upper_case_globals)] pub const $name: u32 = 1 << $bit;)* }
    };
}

measures! {
    enhanced_ibrs 0 "IBRS is set once for all.";
    automatic_ibrs 1 "EFER.AIBRSE is set.";
    ibrs_by_entry 2 "IBRS is set by each entry into the kernel and cleared by each exit.";
    retpolines 3 "Indirect branches of generated code are returns that speculate into a trap.";
    refill_returns 4 "A switch to another address space fills the return stack.";
    ibpb_asked 5 "IBPB around threads that ask for it.";
    ibpb_always 6 "IBPB at each switch to another address space.";
    stibp_asked 7 "STIBP while a thread runs that asks for it.";
    stibp_always 8 "STIBP is always set.";
    ssbd_asked 9 "SSBD while a thread runs that asks for it.";
    no_history 10 "BHI_DIS_S is set.";
    verw 11 "VERW clears the buffers before user mode.";
    no_transactions 12 "TSX is turned off.";
    mask_user 13 "Addresses of users are cut off below the kernel before their use.";
    isolate_tables 16 "A program runs on tables that map of the kernel only the gates.";
    ibpb_by_entry 15 "IBPB by each entry into the kernel from user mode.";
    eager_vectors 14 "Threads have vector registers from the start; they never trap.";
}

/// A choice, and why.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct MitigationPlan {
    /// The wish of the command line.
    pub wish: MitigationMode,
    /// The processor's facts.
    pub facts: Facts,
    /// Its defects.
    pub bugs: Bugs,
    /// The measures.
    pub measures: Mitigations,
}

/// The measures on the processor that says `facts`.
pub fn choose(facts: Facts, wish: MitigationMode) -> MitigationPlan {
    let bugs = affected(&facts);
    let all = wish == MitigationMode::All;
    let mut chosen = 0;
    if wish != MitigationMode::Off {
        // Registers that an emulator without them lets be written can be tried there.
        let can = |there: bool| there || all && facts.lenient;
        let want = |list: &[Bug]| all || bugs.any(list);
        let mut take = |bit: u32, yes: bool| chosen |= if yes { bit } else { 0 };
        if want(&[Bug::SpectreV2]) {
            let (automatic, enhanced) = (facts.auto_ibrs(), facts.enhanced_ibrs());
            let by_entry = can(facts.ibrs()) && (all || !automatic && !enhanced);
            take(bit::automatic_ibrs, automatic);
            take(bit::enhanced_ibrs, enhanced && !automatic);
            take(bit::ibrs_by_entry, by_entry);
            take(bit::retpolines, all || !automatic && !enhanced && !by_entry);
            take(bit::refill_returns, true);
            take(bit::ibpb_asked, can(facts.ibpb()));
            take(bit::ibpb_always, all && can(facts.ibpb()));
            take(bit::stibp_asked, can(facts.stibp()));
            take(
                bit::stibp_always,
                can(facts.stibp()) && (all || facts.stibp_always_on()),
            );
        }
        // For want of a compiler that makes returns safe, the dearest way, and the only one. Without its
        // microcode IBPB leaves the types of branches of later ones than Zen 2.
        let (retbleed, overflow) = (facts.returns_follow_types(), facts.ibpb_forgets_types());
        take(
            bit::ibpb_by_entry,
            can(facts.ibpb())
                && (all
                    || bugs.contains(Bug::Retbleed) && retbleed
                    || bugs.contains(Bug::SpecRstackOverflow) && overflow),
        );
        take(bit::no_history, want(&[Bug::Bhi]) && facts.bhi_ctrl());
        take(
            bit::ssbd_asked,
            want(&[Bug::SpecStoreBypass]) && can(facts.ssbd()),
        );
        let no_transactions = want(&[Bug::TsxAsyncAbort]) && facts.has(caps::TSX_CTRL);
        take(bit::no_transactions, no_transactions);
        take(
            bit::verw,
            want(&[Bug::Mds, Bug::MmioStaleData, Bug::RegFileDataSampling])
                || bugs.contains(Bug::TsxAsyncAbort) && !no_transactions,
        );
        take(bit::isolate_tables, want(&[Bug::Meltdown]));
        take(bit::mask_user, want(&[Bug::SpectreV1]));
        take(bit::eager_vectors, want(&[Bug::LazyFp]));
    }
    MitigationPlan {
        wish,
        facts,
        bugs,
        measures: Mitigations(chosen),
    }
}

static PLAN: Once<MitigationPlan> = Once::new();
static MEASURES: AtomicU32 = AtomicU32::new(0);

/// Chooses for this processor, which all others are taken to be like. Once, at boot, when the command line is
/// known.
#[cfg(target_os = "none")]
pub(crate) fn init() {
    let plan = choose(
        Facts::here(),
        MitigationMode::of(crate::boot::info().cmdline),
    );
    // Nobody was there before.
    let _ = PLAN.set(plan);
    MEASURES.store(plan.measures.0, Ordering::Relaxed);
    harden(
        Hardening::NONE
            .and(Hardening::RETPOLINES, plan.measures.retpolines())
            .and(Hardening::MASKS, plan.measures.mask_user()),
    );
}

/// The choice made here. On a host, none.
pub fn plan() -> MitigationPlan {
    let none = || choose(Facts::default(), MitigationMode::Off);
    PLAN.get().copied().unwrap_or_else(none)
}

/// The measures taken here.
pub fn measures() -> Mitigations {
    Mitigations(MEASURES.load(Ordering::Relaxed))
}

#[cfg(test)]
mod tests;
