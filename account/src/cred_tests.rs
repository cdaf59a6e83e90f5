//! Changes of identity.

use super::*;

#[test]
fn an_ordinary_user_only_exchanges_its_own_identities() {
    let mut cred = Cred::root();
    cred.setresuid(1000, 1000, 0).unwrap();
    assert_eq!(cred.setuid(5), Err(Errno::EPERM));
    cred.setuid(0).unwrap();
    assert_eq!((cred.uid, cred.euid), (1000, 0));
    // The effective user is 0 again, and that may everything.
    cred.setuid(1000).unwrap();
    assert_eq!(cred.users(), [1000; 3]);
    assert_eq!(cred.setresuid(0, u32::MAX, u32::MAX), Err(Errno::EPERM));
    assert_eq!(cred.setuid(u32::MAX), Err(Errno::EINVAL));
}

#[test]
fn setreuid_saves_the_new_effective_user() {
    let mut cred = Cred::root();
    cred.setreuid(u32::MAX, 7).unwrap();
    assert_eq!((cred.uid, cred.euid, cred.suid), (0, 7, 7));
    assert!(!cred.has(Capability::Chown));
    cred.setreuid(7, 0).unwrap();
}

#[test]
fn a_set_uid_program_has_its_owners_rights() {
    let user = Cred::ordinary(7, 8).sealed();
    let made = user
        .executing(Some(0), None, None, ExecUnsafe::default())
        .unwrap();
    assert!(made.secure && made.cred.has(Capability::Kill));
    assert_eq!((made.cred.uid, made.cred.euid, made.cred.suid), (7, 0, 0));
    assert!(made.cred.departs_from(&user));
    let other = user
        .executing(Some(5), None, None, ExecUnsafe::default())
        .unwrap();
    assert!(other.secure && !other.cred.has(Capability::Kill));
}

#[test]
fn not_where_somebody_else_has_a_hand_in_it() {
    let user = Cred::ordinary(7, 8).sealed();
    let doubts = [
        ExecUnsafe {
            shared: true,
            ..ExecUnsafe::default()
        },
        ExecUnsafe {
            no_new_privileges: true,
            ..ExecUnsafe::default()
        },
        ExecUnsafe {
            traced: true,
            ..ExecUnsafe::default()
        },
    ];
    for doubt in doubts {
        let made = user.executing(Some(0), Some(0), None, doubt).unwrap();
        assert_eq!(made.cred.users(), [7; 3]);
        assert_eq!(made.cred.groups_of_process(), [8; 3]);
        assert_eq!(made.cred.caps.permitted, CapSet::NONE);
        assert!(!made.cred.departs_from(&user));
    }
}

#[test]
fn a_file_with_capabilities_gives_them_to_who_has_none_and_not_in_doubt() {
    let kill = CapSet::of(&[Capability::Kill]);
    let file = Some(FileCaps {
        permitted: kill,
        inheritable: CapSet::NONE,
        effective: true,
    });
    let user = Cred::ordinary(7, 8).sealed();
    let made = user
        .executing(None, None, file, ExecUnsafe::default())
        .unwrap();
    assert!(made.secure && made.cred.departs_from(&user));
    assert_eq!(
        (made.cred.caps.permitted, made.cred.caps.effective),
        (kill, kill)
    );
    let doubt = ExecUnsafe {
        no_new_privileges: true,
        ..ExecUnsafe::default()
    };
    let made = user.executing(None, None, file, doubt).unwrap();
    assert_eq!(made.cred.caps.permitted, CapSet::NONE);
    assert!(!made.cred.departs_from(&user));
    let mut bounded = Cred::ordinary(7, 8);
    bounded.caps.bounding = CapSet::NONE;
    let refused = bounded
        .sealed()
        .executing(None, None, file, ExecUnsafe::default());
    assert_eq!(refused.err(), Some(Errno::EPERM));
}

#[test]
fn a_program_is_guarded_by_bits_that_count_and_by_capabilities() {
    let user = Cred::ordinary(7, 8).sealed();
    let file = FileCaps {
        permitted: CapSet::of(&[Capability::Kill]),
        inheritable: CapSet::NONE,
        effective: true,
    };
    let (sure, denied, traced) = (
        ExecUnsafe::default(),
        ExecUnsafe {
            no_new_privileges: true,
            ..ExecUnsafe::default()
        },
        ExecUnsafe {
            traced: true,
            ..ExecUnsafe::default()
        },
    );
    for (bits, caps, doubt, guarded) in [
        (None, None, sure, false),
        (Some(0), None, sure, true),
        (Some(7), None, sure, true),
        (Some(0), None, denied, false),
        (Some(0), None, traced, true),
        (None, Some(file), sure, true),
        (None, Some(file), denied, true),
    ] {
        let made = user.executing(bits, None, caps, doubt).unwrap();
        assert_eq!(made.guarded, guarded, "{bits:?} {caps:?} {doubt:?}");
    }
}

#[test]
fn an_ordinary_program_keeps_the_effective_user_as_saved_one() {
    let mut cred = Cred::root();
    cred.setresuid(7, 7, 0).unwrap();
    let made = cred
        .sealed()
        .executing(None, None, None, ExecUnsafe::default())
        .unwrap();
    assert_eq!(made.cred.users(), [7; 3]);
    assert_eq!(made.cred.caps.permitted, CapSet::NONE);
    assert!(!made.secure);
}

#[test]
fn the_name_cache_knows_only_who_passes_all_or_nothing() {
    let mut cred = Cred::ordinary(7, 8);
    assert_eq!(cred.clone().sealed().who(), 7 << 32 | 8);
    cred.caps.effective = CapSet::of(&[Capability::DacReadSearch]);
    assert_eq!(cred.clone().sealed().who(), NOBODY);
    cred.caps.effective = CapSet::NONE;
    cred.groups = Arc::new([5].to_vec());
    assert_eq!(cred.sealed().who(), NOBODY);
    let mut root = Cred::root();
    assert_eq!(root.clone().sealed().who(), 0);
    root.caps.effective = CapSet::NONE;
    assert_eq!(root.sealed().who(), NOBODY);
}
