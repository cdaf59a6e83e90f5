//! Page tables that parent and child share until one of them changes theirs.

use super::*;

/// The frame of the table that leads to the pages at `address`.
fn table_of(space: &AddressSpace<Fake>, address: usize) -> Option<Frame> {
    let tables = space.tables();
    tables.leading_to(address).map(|(_, entry)| frame_of(entry))
}

/// A space with `PAGES` pages from `A` on that it has written, each with its number.
fn written(frames: usize) -> (Arc<AddressSpace<Fake>>, Fake, usize) {
    let (space, memory, before) = space(frames);
    space
        .map(
            Placement::Fixed(A),
            PAGES * PAGE,
            Prot::RW,
            Backing::Anonymous,
        )
        .unwrap();
    for page in 0..PAGES {
        space.write_at(A + page * PAGE, &[page as u8]).unwrap();
    }
    (space, memory, before)
}

const PAGES: usize = 20;

fn numbered(space: &AddressSpace<Fake>, pages: impl Iterator<Item = usize>) {
    for page in pages {
        assert_eq!(read(space, A + page * PAGE), Ok(page as u8));
    }
}

#[test]
fn a_child_has_its_parents_tables_until_one_writes() {
    let (space, memory, before) = written(400);
    let free = memory.frames().stats().free;
    let child = space.fork().unwrap();
    // The child's top tables, and nothing for its pages.
    assert_eq!(free - memory.frames().stats().free, 3);
    assert_eq!(table_of(&space, A), table_of(&child, A));
    assert_eq!((child.resident(), space.resident()), (PAGES, PAGES));
    assert_eq!(child.tables_held(), space.tables_held());
    let grandchild = child.fork().unwrap();
    assert_eq!(table_of(&grandchild, A), table_of(&space, A));
    numbered(&grandchild, 0..PAGES);
    assert_eq!(
        table_of(&grandchild, A),
        table_of(&space, A),
        "no copy to read"
    );
    // Two of three make their own.
    for (who, other) in [(&child, &space), (&space, &grandchild)] {
        who.write_at(A + 3 * PAGE, &[100]).unwrap();
        assert_ne!(table_of(who, A), table_of(other, A));
        assert_eq!(read(who, A + 3 * PAGE), Ok(100));
        numbered(other, 0..PAGES);
        numbered(who, (0..PAGES).filter(|page| *page != 3));
    }
    // The last takes it over as it is.
    let (table, free) = (table_of(&grandchild, A), memory.frames().stats().free);
    grandchild.write_at(A, &[50]).unwrap();
    assert_eq!(table_of(&grandchild, A), table);
    assert_eq!(free - memory.frames().stats().free, 1, "the page");
    drop((space, child, grandchild));
    assert_eq!(memory.frames().stats().free, before);
}

#[test]
fn a_change_of_areas_leaves_the_tables_of_others_alone() {
    type Change = fn(&AddressSpace<Fake>);
    let changes: [Change; 8] = [
        |space| space.unmap(A + PAGE, 2 * PAGE).unwrap(),
        |space| space.discard(A, 4 * PAGE).unwrap(),
        |space| space.protect(A, PAGES * PAGE, Prot::NONE).unwrap(),
        |space| space.give_up(),
        |space| {
            let to = Remap::To(A + 30 * PAGE);
            space.remap(A, 4 * PAGE, 4 * PAGE, to).unwrap();
        },
        |space| {
            let place = Placement::Fixed(A + 2 * PAGE);
            space
                .map(place, PAGE, Prot::RW, Backing::Anonymous)
                .unwrap();
        },
        |space| space.forget_use(true, true),
        |space| {
            let place = Placement::Fixed(A + PAGES * PAGE);
            space
                .map(place, PAGE, Prot::RW, Backing::Anonymous)
                .unwrap();
            assert_eq!(read(space, A + PAGES * PAGE), Ok(0));
        },
    ];
    for change in changes {
        let (space, memory, before) = written(400);
        let (child, other) = (space.fork().unwrap(), space.fork().unwrap());
        let entries = |space: &AddressSpace<Fake>| -> Vec<u64> {
            (0..2 * PAGES)
                .map(|page| entry(space, A + page * PAGE))
                .collect()
        };
        let seen = entries(&space);
        change(&child);
        assert_eq!((entries(&space), entries(&other)), (seen.clone(), seen));
        assert_eq!((space.resident(), other.resident()), (PAGES, PAGES));
        for space in [&space, &other] {
            numbered(space, 0..PAGES);
            space.write_at(A + PAGE, &[1]).unwrap();
        }
        drop((space, child, other));
        assert_eq!(memory.frames().stats().free, before);
    }
}

#[test]
fn without_memory_for_a_table_nothing_changes() {
    let (space, memory, before) = written(400);
    let child = space.fork().unwrap();
    let mut eaten = Vec::new();
    eaten.extend(std::iter::from_fn(|| memory.frames().alloc_user()));
    assert_eq!(child.fault(A, Access::Write), Err(FaultError::OutOfMemory));
    assert_eq!(child.protect(A, PAGE, Prot::READ), Err(Errno::ENOMEM));
    // The kernel's reserve serves where memory comes back.
    assert_eq!(child.unmap(A, PAGE), Ok(()));
    eaten.extend(std::iter::from_fn(|| memory.frames().alloc()));
    let other = |frames: &mut Vec<Frame>| frames.pop().map(|frame| memory.frames().release(frame));
    for _ in 0..20 {
        other(&mut eaten);
    }
    let again = space.fork();
    eaten.extend(std::iter::from_fn(|| memory.frames().alloc()));
    if let Ok(again) = &again {
        assert_eq!(again.unmap(A, PAGE), Err(Errno::ENOMEM));
        again.give_up();
        numbered(again, 0..PAGES);
    }
    numbered(&space, 0..PAGES);
    numbered(&child, 1..PAGES);
    for frame in eaten {
        memory.frames().release(frame);
    }
    drop((space, child, again));
    assert_eq!(memory.frames().stats().free, before);
}

#[test]
fn a_table_with_an_area_that_no_child_gets_or_both_write_is_not_given() {
    let shared = Backing::AnonymousShared { may_write: true };
    for (backing, wish, there) in [
        (shared, None, PAGES + 1),
        (Backing::Anonymous, Some(Advice::LeaveOut(true)), PAGES),
        (Backing::Anonymous, Some(Advice::Wipe(true)), PAGES),
    ] {
        let (space, memory, before) = written(400);
        let at = A + 100 * PAGE;
        space
            .map(Placement::Fixed(at), PAGE, Prot::RW, backing)
            .unwrap();
        space.write_at(at, &[9]).unwrap();
        if let Some(wish) = wish {
            space.advise(at, at + PAGE, wish).unwrap();
        }
        let child = space.fork().unwrap();
        assert_ne!(table_of(&space, A), table_of(&child, A));
        assert_eq!(child.resident(), there);
        numbered(&child, 0..PAGES);
        drop((space, child));
        assert_eq!(memory.frames().stats().free, before);
    }
}

#[test]
fn a_table_whose_pages_children_write_is_copied_at_once() {
    let (space, _, _) = written(400);
    // More than a few were written: given.
    let child = space.fork().unwrap();
    assert_eq!(table_of(&space, A), table_of(&child, A));
    child.write_at(A + 7 * PAGE, &[1]).unwrap();
    let child = space.fork().unwrap();
    assert_ne!(table_of(&space, A), table_of(&child, A));
    assert_eq!(entry(&child, A + 7 * PAGE) & WRITE, WRITE);
    numbered(&child, 0..PAGES);
}

#[test]
fn pages_of_a_table_that_others_have_too_count_as_shared() {
    let (space, _, _) = written(400);
    let shared = |space: &AddressSpace<Fake>| {
        let mut found = AreaPages::default();
        space.for_each_area_with_pages(0, |_, present| {
            found = present;
            true
        });
        let mut page = [None];
        space.pages(A, &mut page);
        let alone = page[0].map(|page| page.alone);
        (found.shared[1], found.parts / AreaPages::PARTS, alone)
    };
    assert_eq!(shared(&space), (0, PAGES as u64, Some(true)));
    let child = space.fork().unwrap();
    assert_eq!(shared(&space), (PAGES, PAGES as u64 / 2, Some(false)));
    assert_eq!(shared(&child), (PAGES, PAGES as u64 / 2, Some(false)));
    drop(child);
    assert_eq!(shared(&space), (0, PAGES as u64, Some(true)));
}
