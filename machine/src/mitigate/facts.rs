//! The facts that a processor tells about its speculation.
//!
//! *Interface*: [`Facts::here`] asks this processor; the predicates name what the bits mean. A test makes its
//! own.
//! Source: Intel, "CPUID Enumeration and Architectural MSRs"; AMD64 Architecture Programmer's Manual, volume
//! 3, appendix E.

/// The processor's maker.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Vendor {
    /// Intel.
    Intel,
    /// AMD.
    Amd,
    /// Hygon: AMD's design, numbered by itself.
    Hygon,
    /// Anybody else.
    #[default]
    Other,
}

/// The registers that the choice looks at.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Facts {
    /// The maker.
    pub vendor: Vendor,
    /// Family, the extended one added.
    pub family: u32,
    /// Model, the extended one included.
    pub model: u32,
    /// CPUID 1, ecx.
    pub one_c: u32,
    /// CPUID 7.0, ebx.
    pub seven_b: u32,
    /// CPUID 7.0, edx.
    pub seven_d: u32,
    /// CPUID 7.2, edx.
    pub seven2_d: u32,
    /// IA32_ARCH_CAPABILITIES; 0 where there is none.
    pub capabilities: u64,
    /// CPUID 8000_0008, ebx.
    pub amd8_b: u32,
    /// CPUID 8000_0021, eax.
    pub amd21_a: u32,
    /// Two threads share a core.
    pub smt: bool,
    /// An emulator that ignores what is written to registers that it does not have (QEMU's TCG).
    pub lenient: bool,
}

/// Bits of IA32_ARCH_CAPABILITIES.
pub mod caps {
    #![allow(missing_docs)]
    pub const RDCL_NO: u64 = 1;
    pub const IBRS_ALL: u64 = 1 << 1;
    pub const RSBA: u64 = 1 << 2;
    pub const SSB_NO: u64 = 1 << 4;
    pub const MDS_NO: u64 = 1 << 5;
    pub const PSCHANGE_MC_NO: u64 = 1 << 6;
    pub const TSX_CTRL: u64 = 1 << 7;
    pub const TAA_NO: u64 = 1 << 8;
    pub const SBDR_SSDP_NO: u64 = 1 << 13;
    pub const FBSDP_NO: u64 = 1 << 14;
    pub const PSDP_NO: u64 = 1 << 15;
    pub const FB_CLEAR: u64 = 1 << 17;
    pub const BHI_NO: u64 = 1 << 20;
    pub const GDS_CTRL: u64 = 1 << 25;
    pub const GDS_NO: u64 = 1 << 26;
    pub const RFDS_NO: u64 = 1 << 27;
    pub const RFDS_CLEAR: u64 = 1 << 28;
}

macro_rules! predicates {
    ($($name:ident: $field:ident $bit:literal $doc:literal;)*) => {
        impl Facts {
            $(
                #[doc = $doc]
                pub const fn $name(&self) -> bool { self.$field >> $bit & 1 != 0 }
            )*
        }
    };
}

predicates! {
    vmx: one_c 5 "Intel's virtual machines.";
    rdrand: one_c 30 "RDRAND.";
    avx: one_c 28 "AVX.";
    hypervisor: one_c 31 "Runs under a hypervisor, which may hide what the processor has.";
    rtm: seven_b 11 "Transactions.";
    rdseed: seven_b 18 "RDSEED.";
    srbds_ctrl: seven_d 9 "Microcode against SRBDS.";
    md_clear: seven_d 10 "VERW clears buffers.";
    spec_ctrl: seven_d 26 "Intel's IBRS and IBPB.";
    intel_stibp: seven_d 27 "Intel's STIBP.";
    arch_capabilities: seven_d 29 "IA32_ARCH_CAPABILITIES.";
    intel_ssbd: seven_d 31 "Intel's SSBD.";
    bhi_ctrl: seven2_d 4 "BHI_DIS_S.";
    amd_ibpb: amd8_b 12 "AMD's IBPB.";
    amd_ibrs: amd8_b 14 "AMD's IBRS.";
    amd_stibp: amd8_b 15 "AMD's STIBP.";
    stibp_always_on: amd8_b 17 "STIBP had better stay on.";
    amd_ssbd: amd8_b 24 "AMD's SSBD in SPEC_CTRL.";
    amd_ssb_no: amd8_b 26 "No speculative store bypass.";
    btc_no: amd8_b 29 "No branch type confusion.";
    auto_ibrs: amd21_a 8 "AMD's automatic IBRS.";
    ibpb_branch_types: amd21_a 28 "IBPB forgets branch types, too.";
    srso_no: amd21_a 29 "No speculative return stack overflow.";
}

impl Facts {
    /// Whether `bits` of IA32_ARCH_CAPABILITIES are set, all of them.
    pub const fn has(&self, bits: u64) -> bool {
        self.capabilities & bits == bits
    }

    /// IBRS can be written.
    pub const fn ibrs(&self) -> bool {
        self.spec_ctrl() || self.amd_ibrs()
    }

    /// IBPB can be written.
    pub const fn ibpb(&self) -> bool {
        self.spec_ctrl() || self.amd_ibpb()
    }

    /// STIBP can be written.
    pub const fn stibp(&self) -> bool {
        self.intel_stibp() || self.amd_stibp()
    }

    /// SSBD can be written.
    pub const fn ssbd(&self) -> bool {
        self.intel_ssbd() || self.amd_ssbd()
    }

    /// IBRS, once set, holds in the kernel and does not cost by entry.
    pub const fn enhanced_ibrs(&self) -> bool {
        self.has(caps::IBRS_ALL) && self.spec_ctrl()
    }

    /// Returns are predicted by branch types (AMD's Retbleed), and IBPB forgets those.
    pub fn returns_follow_types(&self) -> bool {
        self.vendor == Vendor::Hygon
            || self.vendor == Vendor::Amd && matches!(self.family, 0x15..=0x17)
    }

    /// IBPB keeps returns from the kernel's own phantom calls, too: always up to Zen 2, later by microcode.
    pub fn ibpb_forgets_types(&self) -> bool {
        self.returns_follow_types() || self.like_amd() && self.ibpb_branch_types()
    }

    /// AMD, and who builds AMD's designs.
    pub fn like_amd(&self) -> bool {
        matches!(self.vendor, Vendor::Amd | Vendor::Hygon)
    }

    /// Asks this processor.
    #[cfg(target_os = "none")]
    pub fn here() -> Facts {
        use crate::features::cpuid;
        const ARCH_CAPABILITIES: u32 = 0x10a;
        let text = |registers: [u32; 3]| registers.map(u32::to_le_bytes);
        let [_, b, c, d] = cpuid(0, 0);
        let vendor = match text([b, d, c]).as_flattened() {
            b"GenuineIntel" => Vendor::Intel,
            b"AuthenticAMD" => Vendor::Amd,
            b"HygonGenuine" => Vendor::Hygon,
            _ => Vendor::Other,
        };
        let [signature, one_b, one_c, one_d] = cpuid(1, 0);
        let family = signature >> 8 & 0xf;
        let extended = if family == 0xf {
            signature >> 20 & 0xff
        } else {
            0
        };
        let [_, b, c, d] = cpuid(0x4000_0000, 0);
        let lenient = one_c >> 31 != 0 && text([b, c, d]).as_flattened() == b"TCGTCGTCGTCG";
        let threads = match (vendor, cpuid(0xb, 0)[1] & 0xffff) {
            (Vendor::Amd | Vendor::Hygon, _) => (cpuid(0x8000_001e, 0)[1] >> 8 & 0xff) + 1,
            (_, 0) if one_d >> 28 & 1 != 0 => one_b >> 16 & 0xff,
            (_, threads) => threads,
        };
        let mut facts = Facts {
            vendor,
            family: family + extended,
            model: signature >> 4 & 0xf | signature >> 12 & 0xf0,
            one_c,
            seven_b: cpuid(7, 0)[1],
            seven_d: cpuid(7, 0)[3],
            seven2_d: cpuid(7, 2)[3],
            capabilities: 0,
            amd8_b: cpuid(0x8000_0008, 0)[1],
            amd21_a: cpuid(0x8000_0021, 0)[0],
            smt: threads > 1,
            lenient,
        };
        if facts.arch_capabilities() {
            // SAFETY: CPUID has just said that the register is there.
            facts.capabilities = unsafe { crate::cpu::rdmsr(ARCH_CAPABILITIES) };
        }
        facts
    }

    /// No processor of its own on a host.
    #[cfg(not(target_os = "none"))]
    pub fn here() -> Facts {
        Facts::default()
    }

    /// Names for `/proc/cpuinfo`, as Linux has them.
    pub fn flags(&self) -> impl Iterator<Item = &'static str> {
        [
            ("ibrs", self.ibrs()),
            ("ibpb", self.ibpb()),
            ("stibp", self.stibp()),
            ("ssbd", self.ssbd()),
            ("ibrs_enhanced", self.enhanced_ibrs() || self.auto_ibrs()),
            ("md_clear", self.md_clear()),
            ("arch_capabilities", self.arch_capabilities()),
        ]
        .into_iter()
        .filter_map(|(name, there)| there.then_some(name))
    }
}
