//! Areas of a space: where they are placed, cut and joined, how the heap and the stack grow.

use super::*;

#[test]
fn a_new_space_has_the_kernels_half() {
    let (space, _, _) = space(100);
    for (index, value) in Fake::new(10).kernel_entries() {
        let mut seen = 0;
        // SAFETY: the root is a table.
        unsafe {
            seen += space
                .memory
                .virt(space.root())
                .cast::<u64>()
                .add(*index)
                .read()
        };
        assert_eq!(seen, *value);
    }
}

#[test]
fn placement() {
    let (space, _, _) = space(500);
    let map = |place, pages: usize| space.map(place, pages * PAGE, Prot::RW, Backing::Anonymous);
    assert_eq!(map(Placement::Fixed(A), 4), Ok(A));
    assert_eq!(
        map(Placement::FixedNoReplace(A + PAGE), 1),
        Err(Errno::EEXIST)
    );
    assert_eq!(map(Placement::Hint(A + 8 * PAGE), 1), Ok(A + 8 * PAGE));
    let elsewhere = map(Placement::Hint(A), 2).unwrap();
    assert_eq!(elsewhere, abi::layout::USER_MMAP_TOP - 2 * PAGE);
    assert_eq!(map(Placement::Anywhere, 1), Ok(elsewhere - PAGE));
    assert_eq!(space.unmap(elsewhere, PAGE), Ok(()));
    assert_eq!(map(Placement::Anywhere, 1), Ok(elsewhere));
    assert!(map(Placement::Below(1 << 31), 1).unwrap() < 1 << 31);
    assert_eq!(map(Placement::Fixed(A + 1), 1), Err(Errno::EINVAL));
    assert_eq!(map(Placement::Fixed(0), 1), Err(Errno::EPERM));
    assert_eq!(
        map(Placement::Fixed(USER_END - PAGE), 2),
        Err(Errno::ENOMEM)
    );
    assert_eq!(map(Placement::Anywhere, 0), Err(Errno::EINVAL));
    assert_eq!(map(Placement::Anywhere, 1 << 36), Err(Errno::ENOMEM));
    let reserve = space.map(Placement::Anywhere, 1 << 40, Prot::NONE, Backing::Anonymous);
    assert!(reserve.is_ok());
}

#[test]
fn areas_are_cut_and_joined() {
    let (space, memory, before) = space(500);
    space
        .map(Placement::Fixed(A), 8 * PAGE, Prot::RW, Backing::Anonymous)
        .unwrap();
    space.unmap(A + 2 * PAGE, PAGE).unwrap();
    assert_eq!(
        areas(&space),
        [
            (A, A + 2 * PAGE, Prot::RW),
            (A + 3 * PAGE, A + 8 * PAGE, Prot::RW)
        ]
    );
    space
        .map(
            Placement::Fixed(A + 2 * PAGE),
            PAGE,
            Prot::RW,
            Backing::Anonymous,
        )
        .unwrap();
    assert_eq!(areas(&space).len(), 1);
    space.protect(A + 4 * PAGE, PAGE, Prot::READ).unwrap();
    assert_eq!(areas(&space).len(), 3);
    assert_eq!(
        space.protect(A + 7 * PAGE, 2 * PAGE, Prot::READ),
        Err(Errno::ENOMEM)
    );
    // The part before the hole has the rights.
    assert_eq!(areas(&space).len(), 4);
    space.protect(A + 7 * PAGE, PAGE, Prot::RW).unwrap();
    space.protect(A + 4 * PAGE, PAGE, Prot::RW).unwrap();
    assert_eq!(areas(&space).len(), 1);
    assert_eq!(space.size(), 8 * PAGE);
    space.unmap(0, USER_END).unwrap();
    assert_eq!((areas(&space).len(), space.size()), (0, 0));
    drop(space);
    assert_eq!(memory.frames().stats().free, before);
}

#[test]
fn the_stack_grows_to_its_floor_and_not_further() {
    let (space, _, _) = space(500);
    let top = abi::layout::USER_STACK_TOP;
    space.map_stack(top, 512 * PAGE, Prot::RW).unwrap();
    assert_eq!(space.fault(top - 8, Access::Write), Ok(()));
    assert_eq!(space.fault(top - 400 * PAGE, Access::Write), Ok(()));
    assert_eq!(space.size(), 400 * PAGE);
    assert_eq!(
        space.fault(top - 513 * PAGE, Access::Write),
        Err(FaultError::NotMapped)
    );
    // An area too near below stops it.
    space
        .map(
            Placement::Fixed(top - 700 * PAGE),
            PAGE,
            Prot::RW,
            Backing::Anonymous,
        )
        .unwrap();
    assert_eq!(
        space.fault(top - 500 * PAGE, Access::Write),
        Err(FaultError::NotMapped)
    );
    assert_eq!(space.fault(top - 440 * PAGE, Access::Write), Ok(()));
}

#[test]
fn the_heap_moves_with_brk() {
    let (space, memory, before) = space(500);
    space.set_brk_start(A + 10, 0);
    let start = A + PAGE;
    assert_eq!(space.brk(0, &SpaceLimits::NONE), start);
    assert_eq!(space.brk(start + 5000, &SpaceLimits::NONE), start + 5000);
    space.write_at(start + 4999, b"h").unwrap();
    assert_eq!(space.size(), 2 * PAGE);
    assert_eq!(space.brk(start + 100, &SpaceLimits::NONE), start + 100);
    assert_eq!(
        space.fault(start + PAGE, Access::Write),
        Err(FaultError::NotMapped)
    );
    assert_eq!(
        space.brk(start + 2 * PAGE, &SpaceLimits::NONE),
        start + 2 * PAGE
    );
    assert_eq!(read(&space, start + 4999), Ok(0));
    assert_eq!(areas(&space).len(), 1);
    space
        .map(
            Placement::Fixed(start + 4 * PAGE),
            PAGE,
            Prot::RW,
            Backing::Anonymous,
        )
        .unwrap();
    assert_eq!(
        space.brk(start + 5 * PAGE, &SpaceLimits::NONE),
        start + 2 * PAGE
    );
    assert_eq!(space.brk(usize::MAX, &SpaceLimits::NONE), start + 2 * PAGE);
    let child = space.fork().unwrap();
    assert_eq!(child.brk(0, &SpaceLimits::NONE), start + 2 * PAGE);
    drop((space, child));
    assert_eq!(memory.frames().stats().free, before);
}

#[test]
fn remap_keeps_the_pages() {
    let (space, memory, before) = space(500);
    space
        .map(Placement::Fixed(A), 2 * PAGE, Prot::RW, Backing::Anonymous)
        .unwrap();
    space.write_at(A + PAGE, b"r").unwrap();
    assert_eq!(space.remap(A, 2 * PAGE, 4 * PAGE, Remap::InPlace), Ok(A));
    space
        .map(
            Placement::Fixed(A + 4 * PAGE),
            PAGE,
            Prot::READ,
            Backing::Anonymous,
        )
        .unwrap();
    assert_eq!(
        space.remap(A, 4 * PAGE, 6 * PAGE, Remap::InPlace),
        Err(Errno::ENOMEM)
    );
    let moved = space.remap(A, 4 * PAGE, 6 * PAGE, Remap::MayMove).unwrap();
    assert_eq!(read(&space, moved + PAGE), Ok(b'r'));
    assert_eq!(space.fault(A, Access::Read), Err(FaultError::NotMapped));
    let there = 0x1234_5000;
    assert_eq!(
        space.remap(moved + PAGE, PAGE, 2 * PAGE, Remap::To(there)),
        Ok(there)
    );
    assert_eq!(read(&space, there), Ok(b'r'));
    assert_eq!(space.size(), (1 + 4 + 1 + 2) * PAGE);
    assert_eq!(
        space.remap(there, 3 * PAGE, 4 * PAGE, Remap::MayMove),
        Err(Errno::EFAULT)
    );
    // The part that is cut off may have holes.
    assert_eq!(
        space.remap(there, 3 * PAGE, PAGE, Remap::MayMove),
        Ok(there)
    );
    assert_eq!(
        space.remap(there, 0, PAGE, Remap::MayMove),
        Err(Errno::EINVAL)
    );
    drop(space);
    assert_eq!(memory.frames().stats().free, before);
}
