//! A sentence about each defect: the texts of `/sys/devices/system/cpu/vulnerabilities`, in Linux's words.
//!
//! *Interface*: [`MitigationPlan::tell`]. Source: Linux 6.1, arch/x86/kernel/cpu/bugs.c.

use super::facts::{Vendor, caps};
use super::{Bug, MitigationPlan};
use core::fmt::{Result, Write};

impl MitigationPlan {
    /// Writes what is done about `bug`: one line, without its end.
    ///
    /// # Errors
    /// Those of `out`.
    pub fn tell(&self, bug: Bug, out: &mut dyn Write) -> Result {
        if !self.bugs.contains(bug) {
            return out.write_str("Not affected");
        }
        let (facts, done) = (&self.facts, self.measures);
        let cleared = facts.md_clear() || facts.has(caps::FB_CLEAR);
        match bug {
            Bug::ItlbMultihit => out.write_str(if facts.vmx() {
                "KVM: Mitigation: VMX disabled"
            } else {
                "KVM: Mitigation: VMX unsupported"
            }),
            Bug::L1tf => out.write_str("Mitigation: PTE Inversion"),
            Bug::Meltdown => out.write_str(if done.isolate_tables() {
                "Mitigation: PTI"
            } else {
                "Vulnerable"
            }),
            Bug::TsxAsyncAbort if done.no_transactions() => {
                out.write_str("Mitigation: TSX disabled")
            }
            Bug::Mds | Bug::TsxAsyncAbort | Bug::MmioStaleData => {
                out.write_str(match (done.verw(), cleared) {
                    (true, true) => "Mitigation: Clear CPU buffers",
                    (true, false) => "Vulnerable: Clear CPU buffers attempted, no microcode",
                    (false, _) => "Vulnerable",
                })?;
                self.threads(out)
            }
            Bug::RegFileDataSampling => {
                out.write_str(match (done.verw(), facts.has(caps::RFDS_CLEAR)) {
                    (true, true) => "Mitigation: Clear Register File",
                    (true, false) => "Vulnerable: No microcode",
                    (false, _) => "Vulnerable",
                })
            }
            Bug::SpecStoreBypass => out.write_str(if done.ssbd_asked() {
                "Mitigation: Speculative Store Bypass disabled via prctl"
            } else {
                "Vulnerable"
            }),
            Bug::SpectreV1 => out.write_str(if done.mask_user() {
                // There is no swapgs in this kernel.
                "Mitigation: usercopy/swapgs barriers and __user pointer sanitization"
            } else {
                "Vulnerable: __user pointer sanitization and usercopy barriers off; no swapgs"
            }),
            Bug::SpectreV2 => self.branches(out),
            Bug::Retbleed => self.returns(out),
            Bug::SpecRstackOverflow => {
                out.write_str(match (done.ibpb_by_entry(), facts.ibpb_forgets_types()) {
                    (true, true) => "Mitigation: IBPB",
                    (true, false) => "Vulnerable: No microcode",
                    (false, _) => "Vulnerable",
                })
            }
            Bug::Srbds | Bug::GatherDataSampling => out.write_str(self.microcode(bug)),
            Bug::LazyFp => out.write_str(if done.eager_vectors() {
                "Mitigation: Eager FPU"
            } else {
                "Vulnerable"
            }),
            Bug::Bhi => out.write_str(self.history()),
        }
    }

    fn threads(&self, out: &mut dyn Write) -> Result {
        out.write_str(if self.facts.hypervisor() {
            "; SMT Host state unknown"
        } else if self.facts.smt {
            "; SMT vulnerable"
        } else {
            "; SMT disabled"
        })
    }

    fn branches(&self, out: &mut dyn Write) -> Result {
        let done = self.measures;
        out.write_str(if done.automatic_ibrs() || done.enhanced_ibrs() {
            "Mitigation: Enhanced / Automatic IBRS"
        } else if done.ibrs_by_entry() {
            "Mitigation: IBRS"
        } else if done.retpolines() {
            // Rust's compiler has no such option that its makers call stable.
            "Vulnerable: Retpolines in generated code, none in compiled code"
        } else {
            "Vulnerable"
        })?;
        if self.facts.ibpb() {
            out.write_str(match (done.ibpb_always(), done.ibpb_asked()) {
                (true, _) => "; IBPB: always-on",
                (false, true) => "; IBPB: conditional",
                (false, false) => "; IBPB: disabled",
            })?;
        }
        // Enhanced IBRS keeps threads of a core apart by itself, the automatic one does not.
        if !done.enhanced_ibrs() {
            out.write_str(match (done.stibp_always(), done.stibp_asked()) {
                (true, _) => "; STIBP: always-on",
                (false, true) => "; STIBP: conditional",
                (false, false) => "; STIBP: disabled",
            })?;
        }
        if done.refill_returns() {
            out.write_str("; RSB filling")?;
        }
        // The return stack's defect after the exit from a virtual machine: there is none to exit from.
        out.write_str("; PBRSB-eIBRS: Not affected; BHI: ")?;
        out.write_str(self.history())
    }

    fn history(&self) -> &'static str {
        if !self.bugs.contains(Bug::Bhi) {
            "Not affected"
        } else if self.measures.no_history() {
            "BHI_DIS_S"
        } else {
            "Vulnerable"
        }
    }

    fn returns(&self, out: &mut dyn Write) -> Result {
        let done = self.measures;
        if self.facts.returns_follow_types() && done.ibpb_by_entry() {
            out.write_str("Mitigation: IBPB; SMT ")?;
            return out.write_str(match (self.facts.smt, done.stibp_always()) {
                (false, _) => "disabled",
                (true, true) => "enabled with STIBP protection",
                (true, false) => "vulnerable",
            });
        }
        // AMD's returns are not held by IBRS.
        let held = self.facts.vendor == Vendor::Intel;
        out.write_str(match held {
            true if done.enhanced_ibrs() => "Mitigation: Enhanced IBRS",
            true if done.ibrs_by_entry() => "Mitigation: IBRS",
            _ => "Vulnerable",
        })
    }

    /// Defects that the processor's maker, or the machine's, mends without the kernel.
    fn microcode(&self, bug: Bug) -> &'static str {
        let there = match bug {
            Bug::Srbds => self.facts.srbds_ctrl(),
            _ => self.facts.has(caps::GDS_CTRL),
        };
        match there {
            true => "Mitigation: Microcode",
            false if self.facts.hypervisor() => "Unknown: Dependent on hypervisor status",
            false => "Vulnerable: No microcode",
        }
    }
}
