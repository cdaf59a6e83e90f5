//! The transformations of capabilities(7), one by one.

use super::*;

const ROOT: [u32; 3] = [0, 0, 0];
const USER: [u32; 3] = [7, 7, 7];
const KILL: CapSet = CapSet::of(&[Capability::Kill]);
const CHOWN: CapSet = CapSet::of(&[Capability::Chown]);

#[test]
fn who_leaves_user_0_for_good_loses_everything() {
    let mut c = Capabilities::root();
    c.inheritable = KILL;
    c.set_ambient(KILL, true).unwrap();
    c.follow_users(ROOT, USER);
    assert_eq!(
        (c.permitted, c.effective, c.ambient),
        (CapSet::NONE, CapSet::NONE, CapSet::NONE)
    );
    assert_eq!((c.inheritable, c.bounding), (KILL, CapSet::ALL));
}

#[test]
fn unless_it_keeps_what_is_permitted() {
    let mut c = Capabilities::root();
    c.keep(true).unwrap();
    c.follow_users(ROOT, USER);
    assert_eq!((c.permitted, c.effective), (CapSet::ALL, CapSet::NONE));
}

#[test]
fn the_user_for_file_access_brings_back_only_what_is_permitted() {
    let mut c = Capabilities::root();
    c.permitted = CapSet::ALL.without(CHOWN);
    c.effective = c.permitted;
    c.follow_file_user(0, 7);
    assert_eq!(c.effective, CapSet::ALL.without(CapSet::FILES));
    c.follow_file_user(7, 0);
    assert_eq!(c.effective, CapSet::ALL.without(CHOWN));
}

#[test]
fn who_may_come_back_has_them_again_then() {
    let mut c = Capabilities::root();
    c.follow_users(ROOT, [7, 7, 0]);
    assert_eq!((c.permitted, c.effective), (CapSet::ALL, CapSet::NONE));
    c.follow_users([7, 7, 0], [7, 0, 0]);
    assert_eq!(c.effective, CapSet::ALL);
}

#[test]
fn without_fixing_up_users_do_not_matter() {
    let mut c = Capabilities::root();
    c.set_securebits(SECBIT_NO_SETUID_FIXUP).unwrap();
    c.follow_users(ROOT, USER);
    c.follow_file_user(0, 7);
    assert_eq!((c.permitted, c.effective), (CapSet::ALL, CapSet::ALL));
    assert_eq!(c.of_real_user(7), CapSet::ALL);
}

#[test]
fn the_user_for_files_takes_what_is_for_files() {
    let mut c = Capabilities::root();
    c.follow_file_user(0, 7);
    assert!(!c.effective.contains(CHOWN) && c.effective.contains(KILL));
    c.follow_file_user(7, 0);
    assert_eq!(c.effective, CapSet::ALL);
}

#[test]
fn nobody_sets_more_than_is_permitted() {
    let mut c = Capabilities::root();
    c.set(KILL, KILL | CHOWN, CapSet::NONE).unwrap();
    assert_eq!(c.set(KILL, CapSet::ALL, CapSet::NONE), Err(Errno::EPERM));
    assert_eq!(c.set(CapSet::ALL, KILL, CapSet::NONE), Err(Errno::EPERM));
    let admin = CapSet::of(&[Capability::SysAdmin]);
    assert_eq!(c.set(KILL, KILL, admin), Err(Errno::EPERM));
    c.set(CapSet::NONE, KILL | CHOWN, CHOWN).unwrap();
    c.set_ambient(CHOWN, true).unwrap();
    c.set(CapSet::NONE, KILL, CHOWN).unwrap();
    assert_eq!(c.ambient, CapSet::NONE);
}

#[test]
fn who_may_set_them_may_inherit_what_is_bounding() {
    let mut c = Capabilities::root();
    let setpcap = CapSet::of(&[Capability::Setpcap]);
    c.drop_bounding(Capability::Chown as usize).unwrap();
    c.set(setpcap, setpcap, KILL).unwrap();
    assert_eq!(c.set(setpcap, setpcap, KILL | CHOWN), Err(Errno::EPERM));
    assert_eq!(c.drop_bounding(COUNT as usize), Err(Errno::EINVAL));
    c.set(CapSet::NONE, CapSet::NONE, CapSet::NONE).unwrap();
    assert_eq!(c.drop_bounding(0), Err(Errno::EPERM));
}

#[test]
fn locked_bits_stay() {
    let mut c = Capabilities::root();
    c.set_securebits(SECBIT_KEEP_CAPS | SECBIT_KEEP_CAPS_LOCKED)
        .unwrap();
    assert_eq!(c.keep(false), Err(Errno::EPERM));
    assert_eq!(c.set_securebits(SECBIT_KEEP_CAPS_LOCKED), Err(Errno::EPERM));
    assert_eq!(c.set_securebits(SECBIT_KEEP_CAPS), Err(Errno::EPERM));
    assert_eq!(c.set_securebits(1 << 8), Err(Errno::EPERM));
}

#[test]
fn ambient_needs_both() {
    let mut c = Capabilities::root();
    assert_eq!(c.set_ambient(KILL, true), Err(Errno::EPERM));
    c.inheritable = KILL;
    c.set_ambient(KILL, true).unwrap();
    c.set_ambient(KILL, false).unwrap();
    c.set_securebits(SECBIT_NO_CAP_AMBIENT_RAISE).unwrap();
    assert_eq!(c.set_ambient(KILL, true), Err(Errno::EPERM));
}

#[test]
fn programs_get_what_their_user_is_worth() {
    let mut c = Capabilities::root();
    assert_eq!(c.for_program(7, 7, None), Ok((CapSet::NONE, false)));
    assert_eq!(c.for_program(7, 0, None), Ok((CapSet::ALL, true)));
    assert_eq!(c.for_program(0, 7, None), Ok((CapSet::ALL, false)));
    c.drop_bounding(Capability::Chown as usize).unwrap();
    assert_eq!(
        c.for_program(0, 0, None),
        Ok((CapSet::ALL.without(CHOWN), true))
    );
    c.set_securebits(SECBIT_NOROOT).unwrap();
    assert_eq!(c.for_program(0, 0, None), Ok((CapSet::NONE, false)));
    c.ambient = KILL;
    c.execute(CapSet::NONE, false, false);
    assert_eq!((c.permitted, c.effective), (KILL, KILL));
    c.execute(CapSet::NONE, false, true);
    assert_eq!((c.permitted, c.ambient), (CapSet::NONE, CapSet::NONE));
}

#[test]
fn what_a_file_has_is_bounded_and_what_is_inherited_needs_both() {
    let mut c = Capabilities::user();
    let file = |permitted, inheritable, effective| {
        Some(FileCaps {
            permitted,
            inheritable,
            effective,
        })
    };
    let both = KILL | CHOWN;
    assert_eq!(
        c.for_program(7, 7, file(both, CapSet::NONE, true)),
        Ok((both, true))
    );
    assert_eq!(
        c.for_program(7, 7, file(CapSet::NONE, both, true)),
        Ok((CapSet::NONE, true))
    );
    c.inheritable = KILL;
    assert_eq!(
        c.for_program(7, 7, file(CHOWN, both, false)),
        Ok((both, false))
    );
    c.bounding = KILL;
    assert_eq!(
        c.for_program(7, 7, file(both, CapSet::NONE, true)),
        Err(Errno::EPERM)
    );
    assert_eq!(
        c.for_program(7, 7, file(both, CapSet::NONE, false)),
        Ok((KILL, false))
    );
    // A set-user-ID program of user 0: its own capabilities are all, but for user 0.
    assert_eq!(
        c.for_program(7, 0, file(KILL, CapSet::NONE, false)),
        Ok((KILL, false))
    );
    assert_eq!(
        c.for_program(0, 0, file(KILL, CapSet::NONE, false)),
        Ok((KILL, true))
    );
}
