//! Spaces over fake memory: case by case, and against a model (`model`), with several threads at once
//! (`race`).

mod model;
mod race;

use super::*;
use crate::fake::Fake;
use crate::frame::{FrameRef, Memory, Places};
use crate::table::{PRESENT, Prot, WRITE, occupied};
use abi::layout::{PAGE, USER_END};
use std::collections::BTreeMap;
use std::sync::Mutex;
use std::sync::atomic::AtomicUsize;

/// A file of so many pages, made on demand; page `i` begins with byte `i + 1`.
pub(super) struct File {
    memory: Fake,
    length: u64,
    lets_write: bool,
    pages: Mutex<BTreeMap<u64, Frame>>,
    asked: AtomicUsize,
}

impl File {
    pub(super) fn new(memory: Fake, length: u64) -> Arc<File> {
        File::of(memory, length, false)
    }

    fn of(memory: Fake, length: u64, lets_write: bool) -> Arc<File> {
        Arc::new(File {
            memory,
            length,
            lets_write,
            pages: Mutex::new(BTreeMap::new()),
            asked: AtomicUsize::new(0),
        })
    }

    fn share(&self, frame: Frame) -> FrameRef {
        self.memory.frames().share(frame);
        FrameRef::own_in(self.memory.frames(), frame)
    }
}

impl Pager for File {
    fn object(&self) -> (u64, u64) {
        (0, 0)
    }

    fn frame(&self, index: u64, _write: bool) -> Result<FrameRef, Errno> {
        self.asked.fetch_add(1, Ordering::Relaxed);
        if index >= self.length {
            return Err(Errno::ENXIO);
        }
        let mut pages = self.pages.lock().unwrap();
        if let Some(frame) = pages.get(&index) {
            return Ok(self.share(*frame));
        }
        let frame = self.memory.zeroed_user().ok_or(Errno::ENOMEM)?;
        // SAFETY: the frame is ours.
        unsafe { self.memory.at(frame).write(index as u8 + 1) };
        pages.insert(index, frame);
        Ok(self.share(frame))
    }

    fn resident(&self, first: u64, found: &mut Places<'_>) {
        let pages = self.pages.lock().unwrap();
        found.share((first..).map(|index| pages.get(&index).copied()));
    }

    fn lets_write(&self) -> bool {
        self.lets_write
    }
}

impl Drop for File {
    fn drop(&mut self) {
        for frame in self.pages.get_mut().unwrap().values() {
            self.memory.frames().release(*frame);
        }
    }
}

pub(super) fn read(space: &AddressSpace<Fake>, address: usize) -> Result<u8, FaultError> {
    let mut byte = [0];
    space.read_at(address, &mut byte)?;
    Ok(byte[0])
}

fn entry(space: &AddressSpace<Fake>, address: usize) -> u64 {
    space
        .tables()
        .leaf(address)
        .map_or(0, |word| word.load(Ordering::Relaxed))
}

fn space(frames: usize) -> (Arc<AddressSpace<Fake>>, Fake, usize) {
    let memory = Fake::new(frames);
    let before = memory.frames().stats().free;
    (AddressSpace::new_in(memory).unwrap(), memory, before)
}

fn areas(space: &AddressSpace<Fake>) -> Vec<(usize, usize, Prot)> {
    let mut found = Vec::new();
    space.for_each_area(|area| found.push((area.start, area.end, area.prot)));
    found
}

const A: usize = 0x40_0000;

/// How far the first step of a fault comes, which is then all of it or nothing.
fn first(space: &AddressSpace<Fake>, address: usize, access: Access) -> &'static str {
    match space.first_fault(address, access) {
        First::Done => "done",
        First::Exchanged(former) => {
            space.let_go(former);
            "exchanged"
        }
        First::Refused => "refused",
        First::More(Begun::Nothing) => "more",
        First::More(Begun::Outside) => "outside",
        First::More(Begun::Shared) => "shared",
    }
}

#[test]
fn the_first_step_of_a_fault_does_what_needs_nobody_else() {
    let (space, memory, before) = space(2000);
    let (zeros, pages) = (A, A + 16 * PAGE);
    let file = File::new(memory, 2);
    space
        .map(Placement::Fixed(zeros), PAGE, Prot::RW, Backing::Anonymous)
        .unwrap();
    let private = Backing::FilePrivate {
        pager: file.clone(),
        offset: 0,
    };
    space
        .map(Placement::Fixed(pages), 2 * PAGE, Prot::RW, private)
        .unwrap();
    // Behind changes, where other CPUs have the space, some wait for the monitor.
    while first(&space, zeros, Access::Execute) == "more" {
        let refused = space.fault(zeros, Access::Execute);
        assert_eq!(refused, Err(FaultError::Protection));
    }
    assert_eq!(first(&space, zeros, Access::Execute), "refused");
    assert_eq!(first(&space, zeros + 8, Access::Write), "done");
    assert_eq!((entry(&space, zeros) & WRITE, space.resident()), (WRITE, 1));
    // Outside all areas, beyond all addresses, and a page that the file has to make.
    for address in [USER_END, usize::MAX, pages] {
        assert_eq!(first(&space, address, Access::Read), "more");
    }
    assert_eq!(first(&space, zeros + PAGE, Access::Read), "outside");
    assert_eq!(
        (file.asked.load(Ordering::Relaxed), space.resident()),
        (0, 1)
    );
    assert_eq!(space.fault(pages, Access::Read), Ok(()));
    // The file has it in memory now; a write gets a copy.
    let own = entry(&space, pages);
    assert_eq!(first(&space, pages, Access::Read), "done");
    assert_eq!(first(&space, pages, Access::Write), "exchanged");
    assert_ne!(frame_of(entry(&space, pages)), frame_of(own));
    assert_eq!(read(&space, pages), Ok(1));
    let rest = space.rest_of_fault(zeros + PAGE, Access::Read, Begun::Outside);
    assert_eq!(rest, Err(FaultError::NotMapped));
    drop((space, file));
    assert_eq!(memory.frames().stats().free, before);
}

#[test]
fn zeros_appear_on_demand_and_all_comes_back() {
    let (space, memory, before) = space(2000);
    let at = space
        .map(Placement::Anywhere, 3 * PAGE, Prot::RW, Backing::Anonymous)
        .unwrap();
    assert_eq!((space.resident(), space.size()), (0, 3 * PAGE));
    assert_eq!(space.fault(at + 5, Access::Read), Ok(()));
    assert_eq!(space.fault(at + PAGE, Access::Write), Ok(()));
    assert_eq!(
        space.fault(at, Access::Execute),
        Err(FaultError::Protection)
    );
    assert_eq!(
        space.fault(at + 3 * PAGE, Access::Read),
        Err(FaultError::NotMapped)
    );
    assert_eq!(read(&space, at + PAGE - 1), Ok(0));
    assert_eq!(space.resident(), 2);
    drop(space);
    assert_eq!(memory.frames().stats().free, before);
}

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
    space.protect(A + 4 * PAGE, PAGE, Prot::RW).unwrap();
    assert_eq!(areas(&space).len(), 1);
    assert_eq!(space.size(), 8 * PAGE);
    space.unmap(0, USER_END).unwrap();
    assert_eq!((areas(&space).len(), space.size()), (0, 0));
    drop(space);
    assert_eq!(memory.frames().stats().free, before);
}

#[test]
fn rights_are_kept_by_the_table() {
    let (space, _, _) = space(500);
    space
        .map(Placement::Fixed(A), PAGE, Prot::RW, Backing::Anonymous)
        .unwrap();
    space.write_at(A, b"x").unwrap();
    assert_ne!(entry(&space, A) & WRITE, 0);
    space.protect(A, PAGE, Prot::READ).unwrap();
    assert_eq!(entry(&space, A) & WRITE, 0);
    assert_eq!(space.fault(A, Access::Write), Err(FaultError::Protection));
    space.protect(A, PAGE, Prot::NONE).unwrap();
    assert_eq!(entry(&space, A) & crate::table::PRESENT, 0);
    assert_eq!(space.fault(A, Access::Read), Err(FaultError::Protection));
    space.protect(A, PAGE, Prot::RW).unwrap();
    assert_eq!(read(&space, A), Ok(b'x'));
    space.write_at(A, b"y").unwrap();
    assert_eq!((read(&space, A), space.resident()), (Ok(b'y'), 1));
}

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
        (Backing::Anonymous, Some(Wish::LeaveOut(true)), PAGES),
        (Backing::Anonymous, Some(Wish::Wipe(true)), PAGES),
    ] {
        let (space, memory, before) = written(400);
        let at = A + 100 * PAGE;
        space
            .map(Placement::Fixed(at), PAGE, Prot::RW, backing)
            .unwrap();
        space.write_at(at, &[9]).unwrap();
        if let Some(wish) = wish {
            space.wish(at, at + PAGE, wish).unwrap();
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
        let mut found = Present::default();
        space.for_each_area_with_pages(0, |_, present| {
            found = present;
            true
        });
        let mut page = [None];
        space.pages(A, &mut page);
        let alone = page[0].map(|page| page.alone);
        (found.shared[1], found.parts / Present::PARTS, alone)
    };
    assert_eq!(shared(&space), (0, PAGES as u64, Some(true)));
    let child = space.fork().unwrap();
    assert_eq!(shared(&space), (PAGES, PAGES as u64 / 2, Some(false)));
    assert_eq!(shared(&child), (PAGES, PAGES as u64 / 2, Some(false)));
    drop(child);
    assert_eq!(shared(&space), (0, PAGES as u64, Some(true)));
}

#[test]
fn spare_pages_of_an_object_are_forgotten_and_nothing_else() {
    let (space, memory, before) = space(400);
    let file = File::new(memory, 16);
    let backing = || Backing::FilePrivate {
        pager: file.clone(),
        offset: 4 * PAGE as u64,
    };
    space
        .map(Placement::Fixed(A), 8 * PAGE, Prot::RW, backing())
        .unwrap();
    let locked = A + 16 * PAGE;
    space
        .map(Placement::Fixed(locked), 8 * PAGE, Prot::RX, backing())
        .unwrap();
    space
        .lock(locked, 8 * PAGE, Lock::Used, &Bounds::NONE)
        .unwrap();
    for page in 0..8 {
        assert_eq!(read(&space, A + page * PAGE), Ok(page as u8 + 5));
        assert_eq!(read(&space, locked + page * PAGE), Ok(page as u8 + 5));
    }
    // A copy is the space's own, whatever the object's page is.
    space.write_at(A + 2 * PAGE, b"x").unwrap();
    let there = |from: usize| -> Vec<usize> {
        (0..8)
            .filter(|page| occupied(entry(&space, from + page * PAGE)))
            .collect()
    };
    let pages_from = |first: u64| -> [Option<FrameRef>; 6] {
        let pages = file.pages.lock().unwrap();
        let page = |at| pages.get(&(first + at as u64));
        std::array::from_fn(|at| page(at).map(|frame| file.share(*frame)))
    };
    let mut pages = pages_from(3);
    let forget = |first, pages: &[Option<FrameRef>], used| {
        space.forget_spare(&Spare {
            object: file.object(),
            first,
            pages,
            used,
        });
    };
    let tables = space.tables();
    let accessed = |page: usize| tables.leaf(A + page * PAGE).unwrap();
    (0..8).for_each(|page| {
        accessed(page).fetch_or(crate::table::ACCESSED, Ordering::Relaxed);
    });
    accessed(1).fetch_and(!crate::table::ACCESSED, Ordering::Relaxed);
    // A used page is spared once.
    forget(3, &pages, false);
    assert_eq!(there(A), [0, 2, 3, 4, 5, 6, 7]);
    forget(3, &pages, false);
    assert_eq!(there(A), [2, 5, 6, 7]);
    assert_eq!(there(locked), [0, 1, 2, 3, 4, 5, 6, 7]);
    assert_eq!(space.resident(), 12);
    accessed(5).fetch_or(crate::table::ACCESSED, Ordering::Relaxed);
    pages = pages_from(4);
    forget(4, &pages, true);
    assert_eq!(there(A), [2, 6, 7]);
    drop(pages);
    assert_eq!(read(&space, A + 2 * PAGE), Ok(b'x'));
    for page in [0, 1, 3, 4, 5] {
        assert_eq!(read(&space, A + page * PAGE), Ok(page as u8 + 5));
    }
    drop((space, file));
    assert_eq!(memory.frames().stats().free, before);
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
fn file_pages_are_mapped_around_copied_and_shared() {
    let (space, memory, before) = space(500);
    let file = File::new(memory, 40);
    for index in 0..40 {
        file.frame(index, false).unwrap();
    }
    let private = Backing::FilePrivate {
        pager: file.clone(),
        offset: 0,
    };
    space
        .map(Placement::Fixed(A), 64 * PAGE, Prot::RW, private)
        .unwrap();
    let asked = file.asked.load(Ordering::Relaxed);
    assert_eq!(read(&space, A + 20 * PAGE), Ok(21));
    assert_eq!(read(&space, A + 16 * PAGE), Ok(17));
    // Both were in memory.
    assert_eq!(
        (space.resident(), file.asked.load(Ordering::Relaxed)),
        (16, asked)
    );
    space.write_at(A, b"z").unwrap();
    space.write_at(A + 17 * PAGE, b"y").unwrap();
    assert_eq!(read(&space, A + 40 * PAGE), Err(FaultError::BeyondEnd));
    let shared = Backing::FileShared {
        pager: file.clone(),
        offset: PAGE as u64,
        may_write: true,
    };
    let b = space
        .map(Placement::Anywhere, 4 * PAGE, Prot::RW, shared)
        .unwrap();
    assert_eq!(read(&space, b), Ok(2));
    space.write_at(b, b"w").unwrap();
    assert_eq!(
        (read(&space, A + PAGE), read(&space, A)),
        (Ok(b'w'), Ok(b'z'))
    );
    let read_only = Backing::FileShared {
        pager: file.clone(),
        offset: 0,
        may_write: false,
    };
    let c = space
        .map(Placement::Anywhere, PAGE, Prot::READ, read_only)
        .unwrap();
    assert_eq!(space.protect(c, PAGE, Prot::RW), Err(Errno::EACCES));
    drop(space);
    drop(file);
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
    assert_eq!(space.brk(0, &Bounds::NONE), start);
    assert_eq!(space.brk(start + 5000, &Bounds::NONE), start + 5000);
    space.write_at(start + 4999, b"h").unwrap();
    assert_eq!(space.size(), 2 * PAGE);
    assert_eq!(space.brk(start + 100, &Bounds::NONE), start + 100);
    assert_eq!(
        space.fault(start + PAGE, Access::Write),
        Err(FaultError::NotMapped)
    );
    assert_eq!(space.brk(start + 2 * PAGE, &Bounds::NONE), start + 2 * PAGE);
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
    assert_eq!(space.brk(start + 5 * PAGE, &Bounds::NONE), start + 2 * PAGE);
    assert_eq!(space.brk(usize::MAX, &Bounds::NONE), start + 2 * PAGE);
    let child = space.fork().unwrap();
    assert_eq!(child.brk(0, &Bounds::NONE), start + 2 * PAGE);
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
        space.remap(there, 3 * PAGE, PAGE, Remap::MayMove),
        Err(Errno::EFAULT)
    );
    assert_eq!(
        space.remap(there, 2 * PAGE, PAGE, Remap::MayMove),
        Ok(there)
    );
    drop(space);
    assert_eq!(memory.frames().stats().free, before);
}

#[test]
fn discarded_zeros_are_zero_again() {
    let (space, _, _) = space(500);
    space
        .map(Placement::Fixed(A), 2 * PAGE, Prot::RW, Backing::Anonymous)
        .unwrap();
    space.write_at(A, b"d").unwrap();
    assert_eq!(space.discard(A, 2 * PAGE), Ok(()));
    assert_eq!((space.resident(), read(&space, A)), (0, Ok(0)));
    assert_eq!(space.discard(A, 3 * PAGE), Err(Errno::ENOMEM));
    assert_eq!(space.discard(A + 2 * PAGE, PAGE), Err(Errno::ENOMEM));
    assert_eq!(space.discard(A + 2 * PAGE, 0), Ok(()));
    assert_eq!(space.discard(A + 1, PAGE), Err(Errno::EINVAL));
}

#[test]
fn to_discard_nothing_changes_nothing() {
    let (space, _, _) = space(500);
    let stack = 8 << 20;
    space
        .map(Placement::Fixed(A), stack, Prot::RW, Backing::Unreserved)
        .unwrap();
    space.write_at(A + stack - PAGE, b"top").unwrap();
    let changes = space.gate.changes();
    assert_eq!(space.discard(A, stack - PAGE), Ok(()));
    assert_eq!((space.resident(), space.gate.changes()), (1, changes));
    assert_eq!(space.discard(A, stack), Ok(()));
    assert_eq!((space.resident(), space.gate.changes()), (0, changes + 1));
}

#[test]
fn running_out_is_an_error_and_leaves_the_reserve() {
    let (space, memory, before) = space(600);
    let at = space
        .map(
            Placement::Anywhere,
            590 * PAGE,
            Prot::RW,
            Backing::Anonymous,
        )
        .unwrap();
    let result = space.populate(at, 590 * PAGE, Access::Write);
    assert_eq!(result, Err(FaultError::OutOfMemory));
    let stats = memory.frames().stats();
    assert!(stats.free >= stats.reserve && stats.reserve > 0);
    assert_eq!(space.fork().err(), Some(Errno::ENOMEM));
    let refused = space.map(Placement::Anywhere, PAGE, Prot::RW, Backing::Anonymous);
    assert_eq!(refused, Err(Errno::ENOMEM));
    assert_eq!(space.unmap(at, 590 * PAGE), Ok(()));
    assert!(space.fork().is_ok());
    drop(space);
    assert_eq!(memory.frames().stats().free, before);
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

#[test]
fn threads_fault_in_one_space() {
    let (space, memory, before) = space(3000);
    let file = File::new(memory, 64);
    let backing = Backing::FilePrivate {
        pager: file.clone(),
        offset: 0,
    };
    space
        .map(Placement::Fixed(A), 64 * PAGE, Prot::RW, backing)
        .unwrap();
    let zeros = A + 64 * PAGE;
    space
        .map(
            Placement::Fixed(zeros),
            256 * PAGE,
            Prot::RW,
            Backing::Anonymous,
        )
        .unwrap();
    std::thread::scope(|scope| {
        for thread in 0..4usize {
            let space = &space;
            scope.spawn(move || {
                for i in 0..1000usize {
                    let page = (i * 7 + thread * 13) % 64;
                    assert_eq!(read(space, A + page * PAGE), Ok(page as u8 + 1));
                    let mine = zeros + (i % 64 * 4 + thread) * PAGE;
                    space.write_at(mine, &[thread as u8 + 1]).unwrap();
                    assert_eq!(read(space, mine), Ok(thread as u8 + 1));
                    match i % 50 {
                        0 => space.discard(A + page * PAGE, PAGE).unwrap(),
                        1 => drop(space.fork().unwrap()),
                        2 => space.unmap(0x2000_0000, PAGE).unwrap(),
                        _ => {}
                    }
                }
            });
        }
    });
    assert_eq!(
        space.resident(),
        256 + (0..64)
            .filter(|i| occupied(entry(&space, A + i * PAGE)))
            .count()
    );
    drop(space);
    drop(file);
    assert_eq!(memory.frames().stats().free, before);
}

#[test]
fn what_is_in_memory_is_mapped_to_be_written_with_those_behind_if_others_are_before_it() {
    let (space, memory, before) = space(500);
    let file = File::of(memory, 60, true);
    for index in 0..60 {
        file.frame(index, false).unwrap();
    }
    let asked = file.asked.load(Ordering::Relaxed);
    let shared = |offset| Backing::FileShared {
        pager: file.clone(),
        offset,
        may_write: true,
    };
    let map = |space: &AddressSpace<Fake>, at, pages: usize, prot| {
        let place = Placement::Fixed(at);
        space.map(place, pages * PAGE, prot, shared(0)).unwrap();
    };
    map(&space, A, 64, Prot::RW);
    let writable = |page: usize| entry(&space, A + page * PAGE) & WRITE != 0;
    // Written here and there: each page alone.
    for page in [0, 20, 40] {
        space.fault(A + page * PAGE, Access::Write).unwrap();
    }
    assert_eq!(space.resident(), 3);
    // Written in turn: with those that are in memory, in an aligned block.
    space.fault(A + 4 * PAGE, Access::Write).unwrap();
    assert_eq!(space.resident(), 2 + 16);
    space.fault(A + 16 * PAGE, Access::Write).unwrap();
    space.fault(A + 48 * PAGE, Access::Write).unwrap();
    assert_eq!(space.resident(), 1 + 32 + 12);
    assert!(writable(1) && writable(31) && writable(59) && !writable(41));
    assert_eq!(file.asked.load(Ordering::Relaxed), asked);
    assert_eq!(
        space.fault(A + 60 * PAGE, Access::Write),
        Err(FaultError::BeyondEnd)
    );
    // Read: writable if the area is.
    let b = A + 128 * PAGE;
    map(&space, b, 64, Prot::READ);
    space.fault(b, Access::Read).unwrap();
    assert_eq!(space.resident(), 1 + 32 + 12 + 16);
    assert_eq!(entry(&space, b) & WRITE, 0);
    assert_eq!(entry(&space, b + PAGE) & WRITE, 0);
    // More pages than are gathered at once, and one: all come back.
    space.unmap(A, 33 * PAGE).unwrap();
    assert_eq!(space.resident(), 1 + 12 + 16);
    drop(space);
    drop(file);
    assert_eq!(memory.frames().stats().free, before);
}
