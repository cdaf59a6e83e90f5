//! Which defects a processor has.
//!
//! *Interface*: [`Bug`] names them, [`affected`] tells those of a processor.
//! Source: Linux 6.1, arch/x86/kernel/cpu/common.c (its lists of models), and the makers' own.

use super::facts::{Facts, Vendor, caps};

macro_rules! bugs {
    ($($bug:ident $file:literal $short:literal $doc:literal;)*) => {
        /// A defect that lets a program see what is not its own.
        #[derive(Clone, Copy, PartialEq, Eq, Debug)]
        #[repr(u8)]
        pub enum Bug { $(#[doc = $doc] $bug),* }

        impl Bug {
            /// All of them.
            pub const ALL: &'static [Bug] = &[$(Bug::$bug),*];

            /// The file in `/sys/devices/system/cpu/vulnerabilities`; empty: Linux has none.
            pub const fn file(self) -> &'static str {
                match self { $(Bug::$bug => $file),* }
            }

            /// The word in `/proc/cpuinfo`; empty: Linux has none.
            pub const fn short(self) -> &'static str {
                match self { $(Bug::$bug => $short),* }
            }
        }
    };
}

bugs! {
    GatherDataSampling "gather_data_sampling" "gds" "GATHER leaves old vector data (Downfall).";
    ItlbMultihit "itlb_multihit" "itlb_multihit" "A guest stops the machine by pages of two sizes.";
    L1tf "l1tf" "l1tf" "An entry that is not present still names a frame.";
    Mds "mds" "mds" "Buffers keep what others loaded and stored.";
    Meltdown "meltdown" "cpu_meltdown" "User mode loads from the kernel's pages.";
    MmioStaleData "mmio_stale_data" "mmio_stale_data" "Buffers keep what went to devices.";
    RegFileDataSampling "reg_file_data_sampling" "rfds" "Registers keep old vector data.";
    Retbleed "retbleed" "retbleed" "Returns go where a program trained branches to.";
    SpecRstackOverflow "spec_rstack_overflow" "srso" "Returns go where a program's phantom calls lead.";
    SpecStoreBypass "spec_store_bypass" "spec_store_bypass" "Loads pass older stores.";
    SpectreV1 "spectre_v1" "spectre_v1" "Bounds are not waited for.";
    SpectreV2 "spectre_v2" "spectre_v2" "Indirect branches go where a program trained them to.";
    Srbds "srbds" "srbds" "Random numbers are seen by other cores.";
    TsxAsyncAbort "tsx_async_abort" "taa" "As mds, by transactions.";
    LazyFp "" "" "Vector registers are readable while they trap (CVE-2018-3665).";
    Bhi "" "bhi" "The history of branches is shared with the kernel.";
}

/// A set of [`Bug`]s.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Bugs(u32);

impl Bugs {
    /// Adds `bug` where `there`.
    fn note(&mut self, bug: Bug, there: bool) {
        self.0 |= u32::from(there) << bug as u32;
    }

    /// Whether `bug` is one of them.
    pub const fn contains(self, bug: Bug) -> bool {
        self.0 >> bug as u32 & 1 != 0
    }

    /// Whether any of `bugs` is.
    pub fn any(self, bugs: &[Bug]) -> bool {
        bugs.iter().any(|bug| self.contains(*bug))
    }
}

/// Intel's models that Linux lists by what they have (family 6).
mod model {
    /// In-order cores: nothing speculates.
    pub const IN_ORDER: &[u32] = &[0x1c, 0x26, 0x27, 0x35, 0x36];
    /// Small cores without L1TF and with little or none of MDS.
    pub const SILVERMONT: &[u32] = &[0x37, 0x4a, 0x4c, 0x4d, 0x57, 0x5a, 0x85];
    pub const GOLDMONT: &[u32] = &[0x5c, 0x5f, 0x7a];
    pub const TREMONT: &[u32] = &[0x86, 0x96, 0x9c];
    pub const GRACEMONT: &[u32] = &[0x97, 0x9a, 0xb7, 0xba, 0xbe, 0xbf];
    pub const SKYLAKE: &[u32] = &[0x4e, 0x55, 0x5e, 0x8e, 0x9e];
    pub const CANNONLAKE: &[u32] = &[0x66];
    pub const ICELAKE: &[u32] = &[0x6a, 0x6c, 0x7e];
    pub const COMETLAKE: &[u32] = &[0xa5, 0xa6];
    pub const TIGERLAKE: &[u32] = &[0x8c, 0x8d];
    pub const ROCKETLAKE: &[u32] = &[0xa7];
    pub const LAKEFIELD: &[u32] = &[0x8a];
    /// From Ivy Bridge to Skylake, the desktop ones: their random numbers leak.
    pub const SRBDS: &[u32] = &[0x3a, 0x3c, 0x3d, 0x45, 0x46, 0x47, 0x4e, 0x5e, 0x8e, 0x9e];
    pub const OLD_SERVERS: &[u32] = &[0x3f, 0x4f, 0x56];
}

/// The defects of the processor that says `facts`.
pub fn affected(facts: &Facts) -> Bugs {
    let mut bugs = Bugs::default();
    let intel = facts.vendor == Vendor::Intel && facts.family == 6;
    let amd = facts.like_amd();
    let is = |lists: &[&[u32]]| intel && lists.iter().any(|list| list.contains(&facts.model));
    use model::*;

    let multihit_no = amd || is(&[IN_ORDER, SILVERMONT, GOLDMONT, TREMONT, GRACEMONT]);
    bugs.note(
        Bug::ItlbMultihit,
        !multihit_no && !facts.has(caps::PSCHANGE_MC_NO),
    );
    if is(&[IN_ORDER]) {
        return bugs;
    }
    bugs.note(Bug::SpectreV1, true);
    bugs.note(Bug::SpectreV2, true);
    let bypass_no = is(&[SILVERMONT]) || amd && matches!(facts.family, 0x0f..=0x12);
    bugs.note(
        Bug::SpecStoreBypass,
        !bypass_no && !facts.has(caps::SSB_NO) && !facts.amd_ssb_no(),
    );
    let mds = !amd && !is(&[GOLDMONT, TREMONT]) && !facts.has(caps::MDS_NO);
    bugs.note(Bug::Mds, mds);
    bugs.note(
        Bug::TsxAsyncAbort,
        intel && !facts.has(caps::TAA_NO) && (facts.rtm() || facts.has(caps::TSX_CTRL)),
    );
    bugs.note(
        Bug::Srbds,
        (is(&[SRBDS, COMETLAKE, LAKEFIELD]) || is(&[TREMONT]) && facts.model != 0x86)
            && (facts.rdrand() || facts.rdseed()),
    );
    let no_stale = caps::SBDR_SSDP_NO | caps::FBSDP_NO | caps::PSDP_NO;
    let stale = [
        OLD_SERVERS,
        SKYLAKE,
        ICELAKE,
        COMETLAKE,
        LAKEFIELD,
        ROCKETLAKE,
        TREMONT,
    ];
    bugs.note(Bug::MmioStaleData, is(&stale) && !facts.has(no_stale));
    let by_return = is(&[
        SKYLAKE,
        CANNONLAKE,
        &[0x7e],
        COMETLAKE,
        LAKEFIELD,
        ROCKETLAKE,
    ]) || facts.returns_follow_types();
    bugs.note(
        Bug::Retbleed,
        !facts.btc_no() && (by_return || facts.has(caps::RSBA)),
    );
    bugs.note(
        Bug::GatherDataSampling,
        is(&[SKYLAKE, ICELAKE, COMETLAKE, TIGERLAKE, ROCKETLAKE])
            && !facts.has(caps::GDS_NO)
            && facts.avx(),
    );
    bugs.note(
        Bug::SpecRstackOverflow,
        !facts.srso_no()
            && (facts.vendor == Vendor::Amd && matches!(facts.family, 0x17 | 0x19)
                || facts.vendor == Vendor::Hygon),
    );
    bugs.note(
        Bug::RegFileDataSampling,
        !facts.has(caps::RFDS_NO)
            && (facts.has(caps::RFDS_CLEAR) || is(&[GOLDMONT, TREMONT, GRACEMONT])),
    );
    bugs.note(
        Bug::Bhi,
        intel && facts.enhanced_ibrs() && !facts.has(caps::BHI_NO),
    );
    let meltdown = !amd && !facts.has(caps::RDCL_NO);
    bugs.note(Bug::Meltdown, meltdown);
    // The same late check of a fault as Meltdown's.
    bugs.note(Bug::LazyFp, meltdown);
    bugs.note(Bug::L1tf, meltdown && !is(&[SILVERMONT, GOLDMONT, TREMONT]));
    bugs
}
