//! Spaces over fake memory: case by case (faults here, `areas`, `forks`, `tables`), against a model
//! (`model`), and with several threads at once (`race`).

mod areas;
mod forks;
mod model;
mod race;
mod tables;

use super::*;
use crate::fake::Fake;
use crate::frame::{BatchSlots, FrameRef, PhysMemory};
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

    fn resident(&self, first: u64, found: &mut BatchSlots<'_>) {
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
        may_exec: true,
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
fn spare_pages_of_an_object_are_forgotten_and_nothing_else() {
    let (space, memory, before) = space(400);
    let file = File::new(memory, 16);
    let backing = || Backing::FilePrivate {
        pager: file.clone(),
        offset: 4 * PAGE as u64,
        may_exec: true,
    };
    space
        .map(Placement::Fixed(A), 8 * PAGE, Prot::RW, backing())
        .unwrap();
    let locked = A + 16 * PAGE;
    space
        .map(Placement::Fixed(locked), 8 * PAGE, Prot::RX, backing())
        .unwrap();
    space
        .lock(locked, 8 * PAGE, MemoryLock::Used, &SpaceLimits::NONE)
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
fn file_pages_are_mapped_around_copied_and_shared() {
    let (space, memory, before) = space(500);
    let file = File::new(memory, 40);
    for index in 0..40 {
        file.frame(index, false).unwrap();
    }
    let private = Backing::FilePrivate {
        pager: file.clone(),
        offset: 0,
        may_exec: true,
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
        may_exec: true,
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
        may_exec: true,
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
fn threads_fault_in_one_space() {
    let (space, memory, before) = space(3000);
    let file = File::new(memory, 64);
    let backing = Backing::FilePrivate {
        pager: file.clone(),
        offset: 0,
        may_exec: true,
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
        may_exec: true,
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
