//! Tests of `names` on the host.

use core::sync::atomic::AtomicU64;

use super::group_ids::GroupIds;

fn names() -> GroupIds<[AtomicU64; 10]> {
    GroupIds::over([const { AtomicU64::new(0) }; 10])
}

#[test]
fn a_group_lasts_as_long_as_its_last_member_and_a_session_as_its_last_group() {
    let names = names();
    assert!(names.found_session(2));
    names.join(2);
    assert!(names.found(5, 2));
    names.join(5);
    assert_eq!((names.members(2), names.members(5)), (2, 2));
    names.leave(2);
    names.leave(2);
    // Nobody is left in the group of that name, but the session is there.
    assert_eq!((names.members(2), names.session(2)), (0, None));
    assert!(names.is_taken(2));
    names.leave(5);
    assert_eq!(names.session(5), Some(2));
    names.leave(5);
    assert!(!names.is_taken(5) && !names.is_taken(2));
}

#[test]
fn a_group_is_one_session_s() {
    let names = names();
    assert!(names.found_session(2) && names.found_session(3));
    assert!(!names.found_session(2));
    assert!(names.found(5, 2));
    assert!(!names.found(5, 3) && !names.enter(5, 3) && !names.enter(6, 3));
    assert!(names.found(5, 2) && names.enter(5, 2));
    assert_eq!(names.members(5), 3);
    assert!(!names.found_session(5));
}

#[test]
fn what_is_no_number_names_nothing() {
    let names = names();
    for number in [-1, i32::MIN, 10, i32::MAX] {
        assert!(!names.enter(number, 1) && !names.found_session(number));
        names.join(number);
        assert!(!names.found(number, 1));
        assert_eq!((names.members(number), names.session(number)), (0, None));
        assert!(!names.is_taken(number));
    }
}
