//! The choice for processors that exist: what they say, and what Linux 6.1 says of them.

use super::*;

/// Skylake server (Xeon 8175M) with the microcode of 2019 on bare metal.
const SKYLAKE: Facts = Facts {
    vendor: Vendor::Intel,
    family: 6,
    model: 0x55,
    one_c: 1 << 30 | 1 << 28 | 1 << 5,
    seven_b: 1 << 11 | 1 << 18,
    seven_d: 1 << 10 | 1 << 26 | 1 << 27 | 1 << 31,
    seven2_d: 0,
    capabilities: 0,
    amd8_b: 0,
    amd21_a: 0,
    smt: true,
    lenient: false,
};

/// Cascade Lake (Xeon 8259CL).
const CASCADE_LAKE: Facts = Facts {
    seven_d: SKYLAKE.seven_d | 1 << 29,
    capabilities: caps::RDCL_NO
        | caps::IBRS_ALL
        | 1 << 3
        | caps::MDS_NO
        | caps::PSCHANGE_MC_NO
        | caps::TSX_CTRL,
    ..SKYLAKE
};

/// Sapphire Rapids.
const SAPPHIRE_RAPIDS: Facts = Facts {
    model: 0x8f,
    seven2_d: 1 << 4,
    capabilities: CASCADE_LAKE.capabilities
        | caps::TAA_NO
        | caps::SBDR_SSDP_NO
        | caps::FBSDP_NO
        | caps::PSDP_NO
        | caps::GDS_NO
        | caps::RFDS_NO,
    ..CASCADE_LAKE
};

/// A Haswell desktop before any microcode.
const HASWELL: Facts = Facts {
    model: 0x3c,
    seven_d: 0,
    ..SKYLAKE
};

/// Zen 2 (EPYC 7002).
const ROME: Facts = Facts {
    vendor: Vendor::Amd,
    family: 0x17,
    model: 0x31,
    one_c: 1 << 30 | 1 << 28,
    seven_b: 1 << 18,
    seven_d: 0,
    seven2_d: 0,
    capabilities: 0,
    amd8_b: 1 << 12 | 1 << 14 | 1 << 15 | 1 << 24,
    amd21_a: 0,
    smt: true,
    lenient: false,
};

/// Zen 4 (EPYC 9004).
const GENOA: Facts = Facts {
    family: 0x19,
    model: 0x11,
    amd8_b: ROME.amd8_b | 1 << 16 | 1 << 17 | 1 << 29,
    amd21_a: 1 << 8,
    ..ROME
};

/// Zen 4 with the microcode against SRSO.
const MENDED_GENOA: Facts = Facts {
    amd21_a: GENOA.amd21_a | 1 << 28,
    ..GENOA
};

/// Zen 5.
const TURIN: Facts = Facts {
    family: 0x1a,
    model: 0x02,
    amd21_a: GENOA.amd21_a | 1 << 29,
    ..GENOA
};

/// An Atom that executes in order.
const BONNELL: Facts = Facts {
    model: 0x1c,
    ..HASWELL
};

fn tell(facts: Facts, wish: MitigationMode, bug: Bug) -> String {
    let mut text = String::new();
    choose(facts, wish).tell(bug, &mut text).unwrap();
    text
}

fn names(facts: Facts, wish: MitigationMode) -> Vec<&'static str> {
    choose(facts, wish).measures.names().collect()
}

#[test]
fn the_command_line_is_asked_and_its_last_word_counts() {
    for (line, wish) in [
        ("", MitigationMode::Auto),
        ("console=tty mitigations=off", MitigationMode::Off),
        ("mitigations=off mitigations=all quiet", MitigationMode::All),
        ("mitigations=auto,nosmt", MitigationMode::Auto),
        ("nomitigations=off", MitigationMode::Auto),
    ] {
        assert_eq!(MitigationMode::of(line), wish, "{line}");
    }
}

#[test]
fn linux_says_the_same_of_processors_that_exist() {
    use Bug::*;
    for (facts, bug, text) in [
        (SKYLAKE, Meltdown, "Mitigation: PTI"),
        (HASWELL, Meltdown, "Mitigation: PTI"),
        (SKYLAKE, L1tf, "Mitigation: PTE Inversion"),
        (
            SKYLAKE,
            Mds,
            "Mitigation: Clear CPU buffers; SMT vulnerable",
        ),
        (
            SKYLAKE,
            TsxAsyncAbort,
            "Mitigation: Clear CPU buffers; SMT vulnerable",
        ),
        (
            SKYLAKE,
            MmioStaleData,
            "Mitigation: Clear CPU buffers; SMT vulnerable",
        ),
        (SKYLAKE, Retbleed, "Mitigation: IBRS"),
        (SKYLAKE, GatherDataSampling, "Vulnerable: No microcode"),
        (SKYLAKE, ItlbMultihit, "KVM: Mitigation: VMX disabled"),
        (SKYLAKE, Srbds, "Not affected"),
        (
            SKYLAKE,
            SpectreV2,
            "Mitigation: IBRS; IBPB: conditional; STIBP: conditional; RSB filling; PBRSB-eIBRS: Not affected; BHI: Not affected",
        ),
        (
            SKYLAKE,
            SpecStoreBypass,
            "Mitigation: Speculative Store Bypass disabled via prctl",
        ),
        (CASCADE_LAKE, Meltdown, "Not affected"),
        (CASCADE_LAKE, L1tf, "Not affected"),
        (CASCADE_LAKE, Mds, "Not affected"),
        (CASCADE_LAKE, ItlbMultihit, "Not affected"),
        (CASCADE_LAKE, TsxAsyncAbort, "Mitigation: TSX disabled"),
        (CASCADE_LAKE, Retbleed, "Mitigation: Enhanced IBRS"),
        (SAPPHIRE_RAPIDS, TsxAsyncAbort, "Not affected"),
        (SAPPHIRE_RAPIDS, Retbleed, "Not affected"),
        (
            SAPPHIRE_RAPIDS,
            SpectreV2,
            "Mitigation: Enhanced / Automatic IBRS; IBPB: conditional; RSB filling; PBRSB-eIBRS: Not affected; BHI: BHI_DIS_S",
        ),
        (
            HASWELL,
            Mds,
            "Vulnerable: Clear CPU buffers attempted, no microcode; SMT vulnerable",
        ),
        (HASWELL, Srbds, "Vulnerable: No microcode"),
        (HASWELL, SpecStoreBypass, "Vulnerable"),
        (HASWELL, Retbleed, "Not affected"),
        (ROME, Meltdown, "Not affected"),
        // Where its compiler could not make returns safe.
        (ROME, Retbleed, "Mitigation: IBPB; SMT vulnerable"),
        (ROME, SpecRstackOverflow, "Mitigation: IBPB"),
        (GENOA, SpecRstackOverflow, "Vulnerable"),
        (MENDED_GENOA, SpecRstackOverflow, "Mitigation: IBPB"),
        (ROME, Mds, "Not affected"),
        (ROME, L1tf, "Not affected"),
        (ROME, MmioStaleData, "Not affected"),
        (GENOA, Retbleed, "Not affected"),
        (TURIN, SpecRstackOverflow, "Not affected"),
        (
            GENOA,
            SpectreV2,
            "Mitigation: Enhanced / Automatic IBRS; IBPB: conditional; STIBP: always-on; RSB filling; PBRSB-eIBRS: Not affected; BHI: Not affected",
        ),
    ] {
        assert_eq!(tell(facts, MitigationMode::Auto, bug), text, "{bug:?}");
    }
    for bug in Bug::ALL {
        assert_eq!(
            tell(BONNELL, MitigationMode::Auto, *bug),
            "Not affected",
            "{bug:?}"
        );
    }
}

/// The defects that this kernel has no means against, and says so.
#[test]
fn what_is_open_is_called_so() {
    let never = Facts { amd8_b: 0, ..ROME };
    for bug in [Bug::Retbleed, Bug::SpecRstackOverflow] {
        assert_eq!(
            tell(never, MitigationMode::All, bug),
            "Vulnerable",
            "no IBPB: {bug:?}"
        );
        assert_eq!(
            tell(ROME, MitigationMode::Off, bug),
            "Vulnerable",
            "{bug:?}"
        );
    }
    // IBPB is there, and forgets too little.
    assert_eq!(
        tell(GENOA, MitigationMode::All, Bug::SpecRstackOverflow),
        "Vulnerable: No microcode"
    );
}

#[test]
fn off_does_nothing_and_hides_nothing() {
    for facts in [SKYLAKE, CASCADE_LAKE, HASWELL, ROME, GENOA] {
        assert!(names(facts, MitigationMode::Off).is_empty());
        for bug in [Bug::SpectreV1, Bug::SpectreV2, Bug::SpecStoreBypass] {
            assert!(tell(facts, MitigationMode::Off, bug).starts_with("Vulnerable"));
        }
    }
    // Costs nothing, so it is always there.
    assert_eq!(
        tell(SKYLAKE, MitigationMode::Off, Bug::L1tf),
        "Mitigation: PTE Inversion"
    );
}

#[test]
fn each_processor_gets_what_it_needs_and_no_more() {
    assert_eq!(
        names(SAPPHIRE_RAPIDS, MitigationMode::Auto),
        [
            "enhanced_ibrs",
            "refill_returns",
            "ibpb_asked",
            "stibp_asked",
            "ssbd_asked",
            "no_history",
            "mask_user"
        ]
    );
    assert_eq!(
        names(HASWELL, MitigationMode::Auto),
        [
            "retpolines",
            "refill_returns",
            "verw",
            "mask_user",
            "isolate_tables",
            "eager_vectors"
        ]
    );
    assert!(!names(ROME, MitigationMode::Auto).contains(&"eager_vectors"));
    assert_eq!(
        tell(SKYLAKE, MitigationMode::Off, Bug::Meltdown),
        "Vulnerable"
    );
    for facts in [CASCADE_LAKE, SAPPHIRE_RAPIDS, ROME, GENOA] {
        assert!(!names(facts, MitigationMode::Auto).contains(&"isolate_tables"));
    }
    for (facts, there) in [
        (ROME, true),
        (GENOA, false),
        (MENDED_GENOA, true),
        (TURIN, false),
        (SKYLAKE, false),
    ] {
        assert_eq!(
            names(facts, MitigationMode::Auto).contains(&"ibpb_by_entry"),
            there
        );
    }
    assert!(names(BONNELL, MitigationMode::Auto).is_empty());
}

/// `all` does what can be executed, and writes no register that is not there.
#[test]
fn all_is_all_that_can_be_executed() {
    let everywhere = [
        "retpolines",
        "refill_returns",
        "verw",
        "mask_user",
        "isolate_tables",
        "eager_vectors",
    ];
    let bonnell = names(BONNELL, MitigationMode::All);
    assert_eq!(bonnell, everywhere);
    let emulated = Facts {
        lenient: true,
        ..BONNELL
    };
    for name in [
        "ibrs_by_entry",
        "ibpb_always",
        "ibpb_by_entry",
        "stibp_always",
        "ssbd_asked",
    ] {
        assert!(names(emulated, MitigationMode::All).contains(&name));
        assert!(!names(emulated, MitigationMode::Auto).contains(&name));
        assert!(names(ROME, MitigationMode::All).contains(&name));
    }
}

#[test]
fn the_register_in_the_kernel_is_that_of_user_mode_and_ibrs() {
    let sky = choose(SKYLAKE, MitigationMode::Auto).measures;
    assert_eq!((resting(sky), running(sky)), (0, 1));
    let sapphire = choose(SAPPHIRE_RAPIDS, MitigationMode::Auto).measures;
    assert_eq!(resting(sapphire), 1 | 1 << 10);
    assert_eq!(running(sapphire), resting(sapphire));
}
