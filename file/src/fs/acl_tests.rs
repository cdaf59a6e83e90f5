//! Tests of [`super`].

use super::*;
use alloc::vec;

fn list(entries: &[(u16, u16, u32)]) -> Acl {
    let entries = entries
        .iter()
        .map(|&(tag, perm, id)| Entry { tag, perm, id })
        .collect();
    Acl { entries }
}

/// Owner 7 rwx, user 20 rw, group 8 r, group 30 wx, mask rw, others x.
fn extended() -> Acl {
    list(&[
        (USER_OBJ, 7, 0),
        (USER, 6, 20),
        (GROUP_OBJ, 4, 0),
        (GROUP, 3, 30),
        (MASK, 6, 0),
        (OTHER, 1, 0),
    ])
}

const BITS: ModeBits = ModeBits {
    mode: 0o100761,
    uid: 7,
    gid: 8,
};

fn user(uid: u32, gid: u32, groups: &[u32]) -> Cred {
    let mut user = Cred::ordinary(uid, gid);
    user.groups = alloc::sync::Arc::new(groups.to_vec());
    user
}

#[test]
fn the_first_entry_that_names_somebody_decides_and_the_mask_bounds_it() {
    let acl = extended();
    let may = |cred: &Cred, want| acl.grants(cred, BITS, want);
    let named = user(20, 8, &[30]);
    assert!(may(&named, 6) && !may(&named, 1));
    let member = user(21, 8, &[]);
    assert!(may(&member, 4) && !may(&member, 2));
    let of_30 = user(21, 30, &[]);
    // Execution is masked, and others' is not theirs.
    assert!(may(&of_30, 2) && !may(&of_30, 1) && !may(&of_30, 4));
    // Each of two groups grants a part: none grants both.
    let both = user(21, 8, &[30]);
    assert!(may(&both, 4) && may(&both, 2) && !may(&both, 6));
    let stranger = user(99, 99, &[]);
    assert!(may(&stranger, 1) && !may(&stranger, 4));
}

#[test]
fn bytes_are_what_linux_writes() {
    let acl = extended();
    let bytes = acl.to_bytes().unwrap();
    assert_eq!(bytes.len(), acl.size());
    assert_eq!(bytes[..12], [2, 0, 0, 0, 1, 0, 7, 0, 255, 255, 255, 255]);
    assert_eq!(bytes[12..20], [2, 0, 6, 0, 20, 0, 0, 0]);
    let again = Acl::from_bytes(&bytes).unwrap().unwrap();
    assert_eq!(again.to_bytes().unwrap(), bytes);
    assert_eq!(Acl::from_bytes(&bytes[..4]), Ok(None));
    assert_eq!(Acl::from_bytes(&bytes[..3]), Err(Errno::EINVAL));
    assert_eq!(Acl::from_bytes(&bytes[..11]), Err(Errno::EINVAL));
    assert_eq!(Acl::from_bytes(&[3; 12]), Err(Errno::EOPNOTSUPP));
    let mut unknown = bytes.clone();
    unknown[4] = 64;
    assert_eq!(Acl::from_bytes(&unknown), Err(Errno::EINVAL));
    let mut nobody = bytes;
    nobody[16..20].fill(255);
    assert_eq!(Acl::from_bytes(&nobody), Err(Errno::EINVAL));
}

#[test]
fn a_list_has_its_classes_in_order() {
    assert_eq!(extended().check(), Ok(()));
    assert_eq!(list(&[(1, 7, 0), (4, 5, 0), (32, 5, 0)]).check(), Ok(()));
    let wrong = [
        vec![(1, 7, 0), (4, 5, 0)],
        vec![(1, 7, 0), (32, 5, 0)],
        vec![(4, 5, 0), (32, 5, 0)],
        vec![(4, 7, 0), (1, 5, 0), (32, 5, 0)],
        vec![(1, 7, 0), (1, 7, 0), (4, 5, 0), (32, 5, 0)],
        vec![(1, 8, 0), (4, 5, 0), (32, 5, 0)],
        // Somebody is named, and there is no mask.
        vec![(1, 7, 0), (2, 7, 5), (4, 5, 0), (32, 5, 0)],
        vec![(1, 7, 0), (4, 5, 0), (8, 5, 1), (32, 5, 0)],
    ];
    for entries in wrong {
        assert_eq!(list(&entries).check(), Err(Errno::EINVAL), "{entries:?}");
    }
}

#[test]
fn modes_and_lists_say_the_same() {
    assert_eq!(extended().mode(), (0o761, false));
    let plain = list(&[(1, 6, 0), (4, 4, 0), (32, 0, 0)]);
    assert_eq!(plain.mode(), (0o640, true));
    let mut acl = extended();
    acl.follow(0o500);
    assert_eq!(acl.mode(), (0o500, false));
    assert_eq!(acl.of(GROUP_OBJ), Some(4));
    let (mode, own) = extended().for_new(0o100666).unwrap();
    assert_eq!(mode, 0o100660);
    assert_eq!(own.unwrap().mode(), (0o660, false));
    assert_eq!(plain.for_new(0o100777).unwrap(), (0o100640, None));
}
