//! Forks: what parent and child share, what is copied at once, and what is left out.

use super::*;

#[test]
fn fork_shares_until_written_and_the_last_owner_does_not_copy() {
    let (parent, memory, before) = space(500);
    parent
        .map(Placement::Fixed(A), 2 * PAGE, Prot::RW, Backing::Anonymous)
        .unwrap();
    parent.write_at(A, b"p").unwrap();
    let frame = frame_of(entry(&parent, A));
    parent.join();
    let child = parent.fork().unwrap();
    assert_eq!(frame_of(entry(&child, A)), frame);
    assert_eq!((entry(&parent, A) | entry(&child, A)) & WRITE, 0);
    child.write_at(A, b"c").unwrap();
    assert_ne!(frame_of(entry(&child, A)), frame);
    parent.write_at(A, b"q").unwrap();
    assert_eq!(frame_of(entry(&parent, A)), frame);
    assert_eq!((read(&parent, A), read(&child, A)), (Ok(b'q'), Ok(b'c')));
    drop(parent);
    assert_eq!(read(&child, A), Ok(b'c'));
    drop(child);
    assert_eq!(memory.frames().stats().free, before);
}

#[test]
fn shared_memory_is_seen_by_both_sides_of_a_fork() {
    let (parent, memory, before) = space(500);
    parent
        .map(
            Placement::Fixed(A),
            2 * PAGE,
            Prot::RW,
            Backing::AnonymousShared { may_write: true },
        )
        .unwrap();
    parent.write_at(A, b"p").unwrap();
    let child = parent.fork().unwrap();
    child.write_at(A + PAGE, b"c").unwrap();
    assert_eq!(
        (read(&child, A), read(&parent, A + PAGE)),
        (Ok(b'p'), Ok(b'c'))
    );
    child.write_at(A, b"d").unwrap();
    assert_eq!(read(&parent, A), Ok(b'd'));
    drop((parent, child));
    assert_eq!(memory.frames().stats().free, before);
}

#[test]
fn fork_leaves_out_what_came_along_and_was_never_used() {
    let (space, memory, _) = space(400);
    let file = File::new(memory, 16);
    let backing = Backing::FilePrivate {
        pager: file.clone(),
        offset: 0,
        may_exec: true,
    };
    space
        .map(Placement::Fixed(A), 16 * PAGE, Prot::RX, backing)
        .unwrap();
    for index in 0..16 {
        drop(file.frame(index, false).unwrap());
    }
    assert_eq!(space.fault(A + 3 * PAGE, Access::Execute), Ok(()));
    assert_eq!(space.resident(), 16);
    // The machine marks what a program uses.
    space
        .tables()
        .leaf(A + 5 * PAGE)
        .unwrap()
        .fetch_or(crate::table::ACCESSED, Ordering::Relaxed);
    // The table itself has all pages, and its copy those that were used.
    assert_eq!(space.fork().unwrap().resident(), 16);
    let written = Placement::Fixed(A + 16 * PAGE);
    space
        .map(written, PAGE, Prot::RW, Backing::Anonymous)
        .unwrap();
    assert_eq!(space.fault(A + 16 * PAGE, Access::Write), Ok(()));
    let child = space.fork().unwrap();
    assert_eq!(child.resident(), 3);
    let there: Vec<usize> = (0..16)
        .filter(|page| occupied(entry(&child, A + page * PAGE)))
        .collect();
    assert_eq!(there, [3, 5]);
    for page in 0..16 {
        assert_eq!(read(&child, A + page * PAGE), Ok(page as u8 + 1));
    }
    // Rights that change in between make it a page like any other.
    space.protect(A, 16 * PAGE, Prot::RW).unwrap();
    assert_eq!(space.fork().unwrap().resident(), 17);
}

#[test]
fn fork_copies_what_is_written_again_and_again() {
    let (parent, memory, before) = space(600);
    let writable = |space: &AddressSpace<_>, pages: usize| {
        (0..pages)
            .filter(|page| entry(space, A + page * PAGE) & WRITE != 0)
            .count()
    };
    parent
        .map(Placement::Fixed(A), 16 * PAGE, Prot::RW, Backing::Anonymous)
        .unwrap();
    for page in 0..8 {
        parent.write_at(A + page * PAGE, b"1").unwrap();
    }
    // Too many: shared.
    let first = parent.fork().unwrap();
    assert_eq!((writable(&parent, 16), writable(&first, 16)), (0, 0));
    for page in [1, 5] {
        parent.write_at(A + page * PAGE, b"2").unwrap();
    }
    let frame = frame_of(entry(&parent, A + PAGE));
    let forgotten = memory.0.forgotten.load(Ordering::Relaxed);
    let second = parent.fork().unwrap();
    assert_eq!((writable(&parent, 16), writable(&second, 16)), (2, 2));
    assert_eq!(memory.0.forgotten.load(Ordering::Relaxed), forgotten);
    assert_eq!(frame_of(entry(&parent, A + PAGE)), frame);
    assert_eq!((parent.resident(), second.resident()), (8, 8));
    // Each side has its own.
    second.write_at(A + PAGE, b"c").unwrap();
    parent.write_at(A + 5 * PAGE, b"p").unwrap();
    let seen = |space: &AddressSpace<_>| [0, 1, 5].map(|page| read(space, A + page * PAGE));
    assert_eq!(seen(&first), [Ok(b'1'), Ok(b'1'), Ok(b'1')]);
    assert_eq!(seen(&second), [Ok(b'1'), Ok(b'c'), Ok(b'2')]);
    assert_eq!(seen(&parent), [Ok(b'1'), Ok(b'2'), Ok(b'p')]);
    // A page that is no longer written drops out with time.
    let shared = (0..16).any(|_| {
        drop(parent.fork().unwrap());
        writable(&parent, 16) == 0
    });
    assert!(shared);
    // With another thread in it a space shares all.
    parent.write_at(A, b"3").unwrap();
    parent.join();
    drop(parent.fork().unwrap());
    assert_eq!(writable(&parent, 16), 0);
    // And no longer when that has left.
    parent.write_at(A, b"4").unwrap();
    parent.leave();
    drop(parent.fork().unwrap());
    assert_eq!(writable(&parent, 16), 1);
    // A count of one does not become zero.
    parent.leave();
    parent.join();
    drop(parent.fork().unwrap());
    assert_eq!(writable(&parent, 16), 0);
    drop((parent, first, second));
    assert_eq!(memory.frames().stats().free, before);
}

#[test]
fn fork_copies_what_children_write_first() {
    let (parent, memory, before) = space(600);
    parent
        .map(Placement::Fixed(A), 16 * PAGE, Prot::RW, Backing::Anonymous)
        .unwrap();
    for page in 0..8 {
        parent.write_at(A + page * PAGE, b"1").unwrap();
    }
    let writable = |space: &AddressSpace<_>| -> Vec<usize> {
        let own = |page: &usize| entry(space, A + page * PAGE) & WRITE != 0;
        (0..16).filter(own).collect()
    };
    let first = parent.fork().unwrap();
    for page in [6, 2] {
        assert_eq!(first.fault(A + page * PAGE, Access::Write), Ok(()));
    }
    // The next one has copies of those, and the parent is as it was.
    let second = parent.fork().unwrap();
    assert_eq!((writable(&parent), writable(&second)), (vec![], vec![2, 6]));
    second.write_at(A + 2 * PAGE, b"c").unwrap();
    let seen = |space: &AddressSpace<_>| [2, 6].map(|page| read(space, A + page * PAGE));
    assert_eq!(seen(&second), [Ok(b'c'), Ok(b'1')]);
    assert_eq!(seen(&parent), [Ok(b'1'), Ok(b'1')]);
    assert_eq!((parent.resident(), second.resident()), (8, 8));
    // Not where it may not write, or where nothing is any more.
    parent.protect(A + 2 * PAGE, PAGE, Prot::READ).unwrap();
    parent.unmap(A + 6 * PAGE, PAGE).unwrap();
    assert_eq!(writable(&parent.fork().unwrap()), []);
    parent.protect(A + 2 * PAGE, PAGE, Prot::RW).unwrap();
    assert_eq!(writable(&parent.fork().unwrap()), [2]);
    // No child has faulted there for long: it is forgotten, and not only that once.
    assert!((0..16).any(|_| writable(&parent.fork().unwrap()).is_empty()));
    assert_eq!(writable(&parent.fork().unwrap()), []);
    drop((parent, first, second));
    assert_eq!(memory.frames().stats().free, before);
}

#[test]
fn fork_copies_no_pages_that_are_still_a_files() {
    let (parent, memory, before) = space(600);
    let file = File::new(memory, 16);
    let backing = Backing::FilePrivate {
        pager: file.clone(),
        offset: 0,
        may_exec: true,
    };
    parent
        .map(Placement::Fixed(A), 16 * PAGE, Prot::RW, backing)
        .unwrap();
    for page in [2, 6] {
        assert_eq!(read(&parent, A + page * PAGE), Ok(page as u8 + 1));
    }
    parent.write_at(A + 6 * PAGE, b"p").unwrap();
    // The right may go and come again: the page stays the parent's.
    for prot in [Prot::READ, Prot::NONE, Prot::RW] {
        parent.protect(A, 16 * PAGE, prot).unwrap();
    }
    let first = parent.fork().unwrap();
    for page in [2, 6] {
        first.write_at(A + page * PAGE, b"c").unwrap();
    }
    let second = parent.fork().unwrap();
    let own = |page: usize| entry(&second, A + page * PAGE) & WRITE != 0;
    assert_eq!((own(2), own(6)), (false, true));
    // SAFETY: the frame is the file's, and nobody else reads it now.
    unsafe {
        memory
            .at(frame_of(entry(&parent, A + 2 * PAGE)))
            .write(b'f')
    };
    let seen = |space: &AddressSpace<_>| [2, 6].map(|page| read(space, A + page * PAGE));
    assert_eq!(seen(&first), [Ok(b'c'), Ok(b'c')]);
    assert_eq!(seen(&second), [Ok(b'f'), Ok(b'p')]);
    drop((parent, first, second, file));
    assert_eq!(memory.frames().stats().free, before);
}

/// A page with a leaf table of its own.
fn far(page: usize) -> usize {
    A + (page << 21)
}

/// Writes `byte` to each of so many pages with a leaf table each: a child of the space needs as many tables.
fn far_apart(space: &AddressSpace<Fake>, pages: usize, byte: impl Fn(usize) -> u8) {
    for page in 0..pages {
        let place = Placement::Fixed(far(page));
        space
            .map(place, PAGE, Prot::RW, Backing::Anonymous)
            .unwrap();
        space.write_at(far(page), &[byte(page)]).unwrap();
    }
}

#[test]
fn fork_without_room_for_a_copy_shares() {
    let (parent, memory, before) = space(600);
    far_apart(&parent, 60, |_| b'a');
    drop(parent.fork().unwrap());
    let mut held = Vec::new();
    // At some amount of free memory the tables fit, but not all copies.
    let short = loop {
        for page in [0, 59] {
            parent.write_at(far(page), b"b").unwrap();
        }
        let Ok(child) = parent.fork() else {
            break false;
        };
        let own = |page: &usize| entry(&child, far(*page)) & WRITE != 0;
        let copied = [0, 59].iter().filter(|page| own(page)).count();
        assert_eq!(child.resident(), 60);
        for (page, byte) in [(0, b'b'), (1, b'a'), (59, b'b')] {
            assert_eq!(read(&child, far(page)), Ok(byte));
        }
        // A sharer does not write to the other's page.
        parent.write_at(far(59), b"c").unwrap();
        assert_eq!(read(&child, far(59)), Ok(b'b'));
        if copied < 2 {
            break true;
        }
        drop(child);
        held.push(memory.frames().alloc_user().unwrap());
    };
    assert!(short, "never short of memory");
    drop(parent);
    for frame in held {
        memory.frames().release(frame);
    }
    assert_eq!(memory.frames().stats().free, before);
}

#[test]
fn fork_forgets_few_pages_one_by_one() {
    let (space, memory, _) = space(400);
    space.join();
    space
        .map(Placement::Fixed(A), 16 * PAGE, Prot::RW, Backing::Anonymous)
        .unwrap();
    for (written, forgotten) in [(0, 0), (3, 1), (16, 1)] {
        for page in 0..written {
            assert_eq!(space.fault(A + page * PAGE, Access::Write), Ok(()));
        }
        let before = memory.0.forgotten.load(Ordering::Relaxed);
        let child = space.fork().unwrap();
        let now = memory.0.forgotten.load(Ordering::Relaxed);
        assert_eq!(now - before, forgotten, "{written} pages");
        for page in 0..written {
            assert_eq!(entry(&space, A + page * PAGE) & WRITE, 0);
        }
        drop(child);
    }
}

#[test]
fn a_fork_that_runs_out_half_way_leaves_nothing() {
    let (space, memory, _) = space(600);
    far_apart(&space, 120, |page| page as u8);
    let mut held = Vec::new();
    while memory.frames().admits(60) {
        held.push(memory.frames().alloc_user().unwrap());
    }
    let free = memory.frames().stats().free;
    assert_eq!(space.fork().err(), Some(Errno::ENOMEM));
    assert_eq!(memory.frames().stats().free, free);
    for i in 0..120 {
        space.write_at(far(i), &[i as u8 + 1]).unwrap();
    }
    assert_eq!(memory.frames().stats().free, free);
}
