//! The features of this processor, asked once with CPUID.
//!
//! *Interface*: [`get`] after `init`; every optional feature has a fallback in the room that would use it.

use core::sync::atomic::{AtomicU32, Ordering};

macro_rules! features {
    ($($name:ident $bit:literal $doc:literal;)*) => {
        /// The optional features, as found at boot.
        #[derive(Clone, Copy)]
        pub struct Features(u32);

        impl Features {
            $(
                #[doc = $doc]
                pub const fn $name(self) -> bool { self.0 & (1 << $bit) != 0 }
            )*

            /// Names of those present, for the log and `/proc/cpuinfo`.
            pub fn names(self) -> impl Iterator<Item = &'static str> {
                [$((stringify!($name), $bit)),*].into_iter()
                    .filter(move |(_, bit)| self.0 & (1 << bit) != 0).map(|(name, _)| name)
            }
        }

        mod bit { $(#[allow(non_upper_case_globals)] pub const $name: u32 = 1 << $bit;)* }
    };
}

features! {
    smep 0 "Supervisor execution of user pages faults.";
    smap 1 "Supervisor access to user pages faults unless AC is set.";
    umip 2 "User mode cannot read descriptor table registers.";
    fsgsbase 3 "RDFSBASE and WRFSBASE.";
    xsave 4 "XSAVE and XCR0.";
    xsaveopt 5 "XSAVEOPT.";
    nx 6 "No-execute pages.";
    gb_pages 7 "1 GiB pages.";
    cx16 8 "CMPXCHG16B.";
    rdrand 9 "RDRAND.";
    erms 10 "Fast REP MOVSB.";
    invariant_tsc 11 "The TSC never changes its rate.";
    avx 12 "AVX.";
    hypervisor 13 "Runs under a hypervisor.";
    rdseed 14 "RDSEED.";
    tsc_adjust 15 "The TSC of one CPU can be moved.";
}

static FOUND: AtomicU32 = AtomicU32::new(0);

/// The features of the boot CPU; the others are taken to be the same.
pub fn get() -> Features {
    Features(FOUND.load(Ordering::Relaxed))
}

/// One CPUID leaf: `[eax, ebx, ecx, edx]`; zeros when the processor has no such leaf.
pub fn cpuid(leaf: u32, sub: u32) -> [u32; 4] {
    use core::arch::x86_64::__cpuid_count;
    let highest = __cpuid_count(leaf & 0xc000_0000, 0).eax;
    if leaf > highest {
        return [0; 4];
    }
    let r = __cpuid_count(leaf, sub);
    [r.eax, r.ebx, r.ecx, r.edx]
}

/// The processor's brand string, padded with NULs.
pub fn brand() -> [u8; 48] {
    let mut name = [0; 48];
    for (i, part) in name.chunks_exact_mut(16).enumerate() {
        let words = cpuid(0x8000_0002 + i as u32, 0);
        for (bytes, word) in part.chunks_exact_mut(4).zip(words) {
            bytes.copy_from_slice(&word.to_le_bytes());
        }
    }
    name
}

pub(crate) fn init() {
    let one = cpuid(1, 0);
    let seven = cpuid(7, 0);
    let xsave = cpuid(0xd, 1);
    let extended = cpuid(0x8000_0001, 0);
    let power = cpuid(0x8000_0007, 0);
    let mut found = 0;
    let mut note = |register: u32, at: u32, bit: u32| {
        if register >> at & 1 != 0 {
            found |= bit;
        }
    };
    note(one[2], 13, bit::cx16);
    note(one[2], 26, bit::xsave);
    note(one[2], 28, bit::avx);
    note(one[2], 30, bit::rdrand);
    note(one[2], 31, bit::hypervisor);
    note(seven[1], 0, bit::fsgsbase);
    note(seven[1], 1, bit::tsc_adjust);
    note(seven[1], 7, bit::smep);
    note(seven[1], 9, bit::erms);
    note(seven[1], 18, bit::rdseed);
    note(seven[1], 20, bit::smap);
    note(seven[2], 2, bit::umip);
    note(xsave[0], 0, bit::xsaveopt);
    note(extended[3], 20, bit::nx);
    note(extended[3], 26, bit::gb_pages);
    note(power[3], 8, bit::invariant_tsc);
    FOUND.store(found, Ordering::Relaxed);
}
