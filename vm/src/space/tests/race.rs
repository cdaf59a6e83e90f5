//! Threads that fault, fork and change one space at once, as CPUs that have it loaded do; every byte is
//! checked.

use super::*;

const THREADS: usize = 4;
/// Pages of a thread's own, and of all together.
const OWN: usize = 24;
const COMMON: usize = 8;
const COMMON_AT: usize = 0x20_0000_0000;

/// An access of the program: it succeeds by what the table says, or faults and begins again. An
/// interrupt is answered between.
fn access<R>(
    space: &AddressSpace<Fake>,
    address: usize,
    access: Access,
    mut done: impl FnMut(*mut u8) -> R,
) -> Result<R, FaultError> {
    let needed = match access {
        Access::Write => PRESENT | WRITE,
        _ => PRESENT,
    };
    loop {
        let result = space.memory.pinned(space.root, |_| {
            let entry = entry(space, address);
            (entry & needed == needed).then(|| {
                let page = space.memory.at(frame_of(entry));
                // SAFETY: an offset inside the page, whose frame stays while somebody is pinned who may know
                // it.
                done(unsafe { page.add(address % PAGE) })
            })
        });
        if let Some(result) = result.expect("loaded everywhere") {
            return Ok(result);
        }
        match space.first_fault(address, access) {
            First::Done => {}
            First::Exchanged(former) => space.let_go(former),
            First::Refused => return Err(FaultError::Protection),
            First::More(begun) => space.rest_of_fault(address, access, begun)?,
        }
    }
}

fn peek(space: &AddressSpace<Fake>, address: usize) -> Result<u8, FaultError> {
    // SAFETY: as `access` says; each byte has one thread that touches it.
    access(space, address, Access::Read, |at| unsafe {
        at.read_volatile()
    })
}

fn poke(space: &AddressSpace<Fake>, address: usize, value: u8) -> Result<(), FaultError> {
    // SAFETY: as above.
    access(space, address, Access::Write, |at| unsafe {
        at.write_volatile(value)
    })
}

/// One thread: random operations on its own pages, and its own byte in each common one, against what it knows
/// it has written.
fn run(space: &AddressSpace<Fake>, file: &Arc<File>, thread: usize, rounds: usize) {
    let base = A + (thread << 30);
    let at = |page: usize| base + page * PAGE;
    let common = |page: usize| COMMON_AT + page * PAGE + thread * 100;
    let zeros = || Backing::Anonymous;
    let pages = || Backing::FilePrivate {
        pager: file.clone(),
        offset: 0,
        may_exec: true,
    };
    let map = |page: usize, count: usize, backing: Backing| {
        let place = Placement::Fixed(at(page));
        space.map(place, count * PAGE, Prot::RW, backing).unwrap();
    };
    map(0, OWN, zeros());
    let (mut own, mut shared) = ([0u8; OWN], [0u8; COMMON]);
    let mut random = thread as u64;
    for _ in 0..rounds {
        random = random
            .wrapping_mul(6364136223846793005)
            .wrapping_add(1442695040888963407);
        let pick = |shift: u32, below: usize| (random >> shift) as usize % below;
        let (page, value) = (pick(8, OWN), (random >> 16) as u8);
        match pick(40, 64) {
            0..20 => {
                poke(space, at(page), value).unwrap();
                own[page] = value;
            }
            20..36 => assert_eq!(peek(space, at(page)), Ok(own[page])),
            36..48 => {
                let page = page % COMMON;
                poke(space, common(page), value).unwrap();
                shared[page] = value;
            }
            48..54 => assert_eq!(
                peek(space, common(page % COMMON)),
                Ok(shared[page % COMMON])
            ),
            54 => {
                space.unmap(at(page), PAGE).unwrap();
                assert_eq!(peek(space, at(page)), Err(FaultError::NotMapped));
                map(page, 1, zeros());
                own[page] = 0;
            }
            55 => {
                let count = (OWN - page).min(4);
                map(page, count, pages());
                for i in 0..count {
                    own[page + i] = i as u8 + 1;
                }
            }
            56 => {
                space.protect(at(page), PAGE, Prot::READ).unwrap();
                assert_eq!(peek(space, at(page)), Ok(own[page]));
                let refused = space.fault(at(page), Access::Write);
                assert_eq!(refused, Err(FaultError::Protection));
                space.protect(at(page), PAGE, Prot::RW).unwrap();
            }
            57 => {
                let there = at(OWN + 3);
                let moved = space.remap(at(page), PAGE, PAGE, Remap::To(there));
                assert_eq!(moved, Ok(there));
                assert_eq!(peek(space, there), Ok(own[page]));
                let back = space.remap(there, PAGE, PAGE, Remap::To(at(page)));
                assert_eq!(back, Ok(at(page)));
            }
            58..61 => {
                let child = space.fork().unwrap();
                // Another space, but a write there meets the writes here at the same frames.
                assert_eq!(read(&child, at(page)), Ok(own[page]));
                child.write_at(common(0), &[value ^ 1]).unwrap();
                assert_eq!(read(&child, common(1)), Ok(shared[1]));
                poke(space, at(page), value).unwrap();
                own[page] = value;
                assert_eq!(peek(space, common(0)), Ok(shared[0]));
            }
            61 => {
                space.write_at(common(page % COMMON), &[value]).unwrap();
                shared[page % COMMON] = value;
            }
            _ => assert_eq!(
                read(space, common(page % COMMON)),
                Ok(shared[page % COMMON])
            ),
        }
    }
    for (page, value) in own.iter().enumerate() {
        assert_eq!(peek(space, at(page)), Ok(*value));
    }
    for (page, value) in shared.iter().enumerate() {
        assert_eq!(peek(space, common(page)), Ok(*value));
    }
}

#[test]
fn threads_fault_and_change_at_once() {
    let (space, memory, before) = space(3000);
    let file = File::new(memory, 16);
    let place = Placement::Fixed(COMMON_AT);
    space
        .map(place, COMMON * PAGE, Prot::RW, Backing::Anonymous)
        .unwrap();
    std::thread::scope(|scope| {
        for thread in 0..THREADS {
            let (space, file) = (&space, &file);
            scope.spawn(move || run(space, file, thread, 3000));
        }
    });
    let there = |at: usize| occupied(entry(&space, at));
    let own = (0..THREADS).map(|thread| {
        let pages = (0..OWN).filter(|page| there(A + (thread << 30) + page * PAGE));
        pages.count()
    });
    let common = (0..COMMON).filter(|page| there(COMMON_AT + page * PAGE));
    assert_eq!(space.resident(), own.sum::<usize>() + common.count());
    drop(space);
    drop(file);
    assert_eq!(memory.frames().stats().free, before);
}

/// All meet at each page: it is empty, or to be copied, for all of them at once.
#[test]
fn threads_meet_at_every_page() {
    const PAGES: usize = 64;
    let (space, memory, before) = space(2000);
    let place = Placement::Fixed(A);
    space
        .map(place, PAGES * PAGE, Prot::RW, Backing::Anonymous)
        .unwrap();
    for round in 1..40u8 {
        let child = space.fork().unwrap();
        let turn = AtomicUsize::new(0);
        std::thread::scope(|scope| {
            for thread in 0..THREADS {
                let (space, turn) = (&space, &turn);
                scope.spawn(move || {
                    for page in 0..PAGES {
                        turn.fetch_add(1, Ordering::AcqRel);
                        while turn.load(Ordering::Acquire) < (page + 1) * THREADS {
                            std::thread::yield_now();
                        }
                        let at = A + page * PAGE + thread;
                        assert_eq!(peek(space, at), Ok(round - 1));
                        poke(space, at, round).unwrap();
                        assert_eq!(peek(space, at), Ok(round));
                    }
                });
            }
        });
        for at in (0..PAGES).flat_map(|page| (0..THREADS).map(move |i| A + page * PAGE + i)) {
            assert_eq!(peek(&space, at), Ok(round));
            assert_eq!(read(&child, at), Ok(round - 1));
        }
    }
    assert_eq!(space.resident(), PAGES);
    drop(space);
    assert_eq!(memory.frames().stats().free, before);
}

/// A file whose pages are asked for while another thread maps something else in the place.
struct Slow {
    file: Arc<File>,
    space: Mutex<Option<Arc<AddressSpace<Fake>>>>,
}

impl Pager for Slow {
    fn object(&self) -> (u64, u64) {
        (0, 0)
    }

    fn frame(&self, index: u64, write: bool) -> Result<FrameRef, Errno> {
        if let Some(space) = self.space.lock().unwrap().take() {
            let place = Placement::Fixed(A);
            space.map(place, 2 * PAGE, Prot::RW, Backing::Anonymous)?;
        }
        self.file.frame(index, write)
    }
}

#[test]
fn a_pagers_answer_from_before_a_change_is_thrown_away() {
    for access in [Access::Read, Access::Write] {
        let (space, memory, before) = space(500);
        let pager = Arc::new(Slow {
            file: File::new(memory, 4),
            space: Mutex::new(Some(space.clone())),
        });
        let place = Placement::Fixed(A);
        let backing = Backing::FilePrivate {
            pager: pager.clone(),
            offset: 0,
            may_exec: true,
        };
        space.map(place, 2 * PAGE, Prot::RW, backing).unwrap();
        assert_eq!(space.fault(A, access), Ok(()));
        assert_eq!((peek(&space, A), peek(&space, A + PAGE)), (Ok(0), Ok(0)));
        drop((space, pager));
        assert_eq!(memory.frames().stats().free, before);
    }
}

#[test]
fn a_change_and_the_end_of_a_frame_wait_for_who_is_pinned() {
    let (space, memory, _) = space(500);
    let place = Placement::Fixed(A);
    space
        .map(place, 2 * PAGE, Prot::RW, Backing::Anonymous)
        .unwrap();
    poke(&space, A, 1).unwrap();
    poke(&space, A + PAGE, 1).unwrap();
    space.join();
    let child = space.fork().unwrap();
    // A fault leaves the gate open, since nobody was pinned; or some must wait first.
    while space.gate.pass().is_none() {
        space.fault(A, Access::Read).unwrap();
    }
    let shared = frame_of(entry(&space, A + PAGE));
    waits(
        &space,
        || space.fault(A + PAGE, Access::Write).unwrap(),
        || memory.frames().others(shared) == 1,
    );
    waits(
        &space,
        || space.unmap(A, PAGE).unwrap(),
        || occupied(entry(&space, A)),
    );
    drop(child);
}

/// `work` gets as far as to wait for who is pinned, and `untouched` holds until that has ended.
fn waits(space: &AddressSpace<Fake>, work: impl Fn() + Sync, untouched: impl Fn() -> bool) {
    let awaited = || space.memory.0.awaited.load(Ordering::Acquire);
    let before = awaited();
    let deadline = std::time::Instant::now() + std::time::Duration::from_secs(20);
    std::thread::scope(|scope| {
        space.memory.pinned(space.root, |_| {
            scope.spawn(&work);
            while awaited() == before {
                assert!(std::time::Instant::now() < deadline, "nobody waits");
                std::thread::yield_now();
            }
            assert!(untouched());
        });
    });
    assert!(!untouched());
}

/// Spaces that have their tables together, each changed by a thread of its own.
#[test]
fn relatives_change_the_tables_that_they_share() {
    let memory = Fake::new(6000);
    let before = memory.frames().stats().free;
    let space = AddressSpace::new_in(memory).unwrap();
    space
        .map(
            Placement::Fixed(A),
            OWN * PAGE,
            Prot::RW,
            Backing::Anonymous,
        )
        .unwrap();
    for page in 0..OWN {
        space.write_at(A + page * PAGE, &[page as u8]).unwrap();
    }
    for round in 0..60 {
        let children: Vec<_> = (0..THREADS).map(|_| space.fork().unwrap()).collect();
        let start = std::sync::Barrier::new(THREADS + 1);
        std::thread::scope(|scope| {
            for (thread, child) in children.into_iter().enumerate() {
                let start = &start;
                scope.spawn(move || {
                    start.wait();
                    relative(child, thread, round);
                });
            }
            start.wait();
            for page in (0..OWN).rev() {
                poke(&space, A + page * PAGE, page as u8).unwrap();
            }
        });
        for page in 0..OWN {
            assert_eq!(peek(&space, A + page * PAGE), Ok(page as u8));
        }
    }
    drop(space);
    assert_eq!(memory.frames().stats().free, before);
}

/// The steps of a thread with its own space.
fn relative(space: Arc<AddressSpace<Fake>>, thread: usize, round: usize) {
    let at = |page: usize| A + page * PAGE;
    let mut own: Vec<_> = (0..OWN).map(|page| page as u8).collect();
    for step in 0..6 {
        let page = (thread * 7 + round * 5 + step * 3) % OWN;
        match (thread + round + step) % 5 {
            0 => {
                poke(&space, at(page), 200).unwrap();
                own[page] = 200;
            }
            1 => {
                space.discard(at(page), PAGE).unwrap();
                own[page] = 0;
            }
            2 => {
                space.protect(at(page), PAGE, Prot::READ).unwrap();
                space.protect(at(page), PAGE, Prot::RW).unwrap();
            }
            3 => {
                let child = space.fork().unwrap();
                assert_eq!(peek(&child, at(page)), Ok(own[page]));
                poke(&child, at(page), 99).unwrap();
            }
            _ => {}
        }
        for (page, value) in own.iter().enumerate() {
            assert_eq!(peek(&space, at(page)), Ok(*value));
        }
    }
}
