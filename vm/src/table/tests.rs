//! Page tables over fake memory.

use super::*;
use crate::Prot;
use crate::fake::Fake;

fn tables(frames: usize) -> (Tables<'static, Fake>, Fake) {
    let memory = Fake::new(frames);
    let root = memory.zeroed().unwrap().address();
    // SAFETY: just made.
    (unsafe { Tables::new(root, memory) }, memory)
}

#[test]
fn a_leaf_is_found_where_it_was_made() {
    let (tables, _) = tables(100);
    let address = 0x7fff_1234_5000;
    assert!(tables.leaf(address).is_none());
    tables
        .leaf_or_make(address)
        .unwrap()
        .store(0xabc, Ordering::Relaxed);
    assert_eq!(tables.leaf(address).unwrap().load(Ordering::Relaxed), 0xabc);
    assert_eq!(
        tables
            .leaf(address + 0x1000)
            .unwrap()
            .load(Ordering::Relaxed),
        0
    );
    assert!(tables.leaf(address + (2 << 20)).is_none());
}

#[test]
fn a_second_top_table_has_the_lower_half_of_the_first() {
    let (tables, memory) = tables(100);
    let second = memory.zeroed().unwrap().address();
    // SAFETY: both are top tables.
    let (both, second) = unsafe { (tables.with_second(second), Tables::new(second, memory)) };
    let (low, high, kernel) = (0x40_0000, 0x7fff_0000_0000, 0xffff_ffff_f000_0000);
    for address in [low, high, kernel] {
        both.leaf_or_make(address).unwrap();
    }
    for address in [low, high] {
        let at = index(address, 4);
        assert!(second.top(at) != 0 && second.top(at) == both.top(at));
    }
    assert_eq!(
        second.top(index(kernel, 4)),
        0,
        "the kernel's half is not repeated"
    );
    let mut gone = 0;
    both.prune(high, high + 0x1000, 1 << 39, 1 << 47, &mut |_| gone += 1);
    assert_eq!(gone, 3);
    assert_eq!(second.top(index(high, 4)), 0);
    assert_eq!(second.top(index(low, 4)), both.top(index(low, 4)));
}

#[test]
fn only_what_was_asked_for_is_visited() {
    let (tables, _) = tables(100);
    let (low, high) = (0x40_0000, 0x7fff_0000_0000);
    tables.leaf_or_make(low);
    tables.leaf_or_make(high);
    let mut seen = Vec::new();
    tables.each_part(low - 0x1000, high + 0x3000, |base, words| {
        seen.push((base, words.len()));
    });
    // 32 entries have a mark together.
    assert_eq!(seen, [(low, 32), (high, 3)]);
}

#[test]
fn a_range_is_clear_until_one_of_its_pages_has_an_entry() {
    let (tables, _) = tables(100);
    let high = 0x7f12_3456_7000;
    assert!(tables.is_clear(0, 1 << 47));
    for page in [0x40_0000, high] {
        let word = tables.leaf_or_make(page).unwrap();
        assert!(tables.is_clear(0, 1 << 47), "a table alone is no entry");
        word.store(1 << 9, Ordering::Relaxed);
        for far in [0x1000, 0x5000, 16 << 12, 2 << 20, 8 << 20, 1 << 30, 1 << 40] {
            let below = page.saturating_sub(far);
            assert!(tables.is_clear(below, page), "{far:#x} below");
            assert!(!tables.is_clear(below, page + 0x1000));
            let above = page + 0x1000 + far;
            assert!(tables.is_clear(page + 0x1000, above.min(1 << 47)));
            assert!(!tables.is_clear(page, above.min(1 << 47)));
        }
        word.store(0, Ordering::Relaxed);
    }
}

#[test]
fn pruning_respects_the_neighbours() {
    let (tables, memory) = tables(100);
    let before = memory.frames().stats().free;
    for address in [0x40_0000, 0x60_0000, 0x8000_0000] {
        tables.leaf_or_make(address).unwrap();
    }
    let mut gone = Vec::new();
    // Something is mapped at 0x5ff000: the first leaf table and all above it stay.
    tables.prune(0x60_0000, 0x80_0000, 0x60_0000, usize::MAX, &mut |f| {
        gone.push(f)
    });
    assert_eq!(gone.len(), 1);
    tables.prune(0x40_0000, 0x8020_0000, 0, 1 << 47, &mut |f| gone.push(f));
    for frame in gone {
        // SAFETY: nobody uses the frame.
        let words = unsafe { std::slice::from_raw_parts(memory.at(frame).cast::<u64>(), 512) };
        assert!(words.iter().all(|word| *word == 0));
        memory.frames().release_zeroed(frame);
    }
    assert_eq!(memory.frames().stats().free, before);
}

#[test]
fn a_part_that_is_asked_for_across_marks_is_visited_whole() {
    let (tables, _) = tables(100);
    let low = 0x40_0000;
    let words = tables
        .leaves_or_make(&mut Last::default(), low + 31 * 0x1000, 34)
        .unwrap();
    assert_eq!(words.len(), 34);
    let mut seen = Vec::new();
    tables.each_part(low, low + (2 << 20), |base, words| {
        seen.push((base, words.len()));
    });
    assert_eq!(seen, [(low, 96)]);
    let end = low + (2 << 20) - 0x1000;
    let last = tables.leaves_or_make(&mut Last::default(), end, 2);
    assert_eq!(last.unwrap().len(), 1, "as far as one table goes");
}

#[test]
fn what_is_taken_apart_leaves_the_kernels_half_and_zeros() {
    let (tables, memory) = tables(100);
    let before = memory.frames().stats().free;
    let pages = [0x40_0000, 0x40_f000, 0x41_0000, 0x7fff_ffff_e000];
    for (i, page) in pages.iter().enumerate() {
        let word = tables.leaf_or_make(*page).unwrap();
        word.store((i as u64 + 1) << 12 | PRESENT, Ordering::Relaxed);
    }
    tables.set_top(256, 0x1003);
    let (mut entries, mut gone) = (Vec::new(), Vec::new());
    tables.take_apart(&mut |entry| entries.push(entry >> 12), &mut |frame| {
        gone.push(frame);
    });
    assert_eq!((entries, gone.len()), (vec![1, 2, 3, 4], 6));
    assert!((0..256).all(|at| tables.top(at) == 0) && tables.top(256) == 0x1003);
    for frame in gone {
        assert_eq!(memory.frames().others(frame), 0, "a mark is left");
        memory.frames().release_zeroed(frame);
    }
    assert_eq!(memory.frames().stats().free, before);
}

#[test]
fn a_leaf_table_that_was_given_is_changed_by_its_last_owner_only() {
    let (mine, memory) = tables(100);
    let root = memory.zeroed().unwrap().address();
    // SAFETY: a frame of zeros that stays.
    let theirs = unsafe { Tables::new(root, memory) };
    let (address, behind) = (0x40_0000, 0x7fff_0000_0000);
    let before = memory.frames().stats().free;
    for page in 0..40 {
        let word = mine.leaf_or_make(address + (page << 12)).unwrap();
        word.store((page as u64 + 1) << 12 | PRESENT, Ordering::Relaxed);
    }
    let (word, entry) = mine.leading_to(address).unwrap();
    assert_eq!((mine.count(entry, PRESENT), mine.sharers(address)), (40, 0));
    assert_eq!(mine.give(word, entry, &theirs, address), Some(true));
    assert_eq!((mine.sharers(address), theirs.sharers(address)), (1, 1));
    for tables in [&mine, &theirs] {
        assert_eq!(
            tables.change_leaf(address).err(),
            Some(Missing::SharedAnonymous)
        );
        assert!(tables.own_leaf(address).is_none() && tables.leaf(address).is_some());
        assert!(tables.change_leaf(behind).is_ok());
        let mut seen = 0;
        tables.each_own_entry(0, 1 << 47, |_, _, _| panic!("changed"));
        tables.each_entry(0, 1 << 47, |_, _, _| seen += 1);
        assert_eq!(seen, 40);
        let mut shared = Vec::new();
        tables.each_shared(0, 1 << 47, |base, _, _| {
            shared.push(base);
            true
        });
        assert_eq!(shared, [address]);
    }
    // A copy has the entries and the marks.
    let (_, given) = theirs.leading_to(address).unwrap();
    let copy = memory.zeroed().unwrap();
    let mut entries = Vec::new();
    let own = theirs.copy_leaf(given, copy, |entry| entries.push(entry >> 12));
    assert_eq!(entries, (1..=40).collect::<Vec<u64>>());
    assert_eq!(
        (own & ADDRESS, theirs.count(own, PRESENT)),
        (copy.address(), 40)
    );
    // One goes, and the other takes the table over.
    theirs.disown(given, &mut |_| panic!("a page"), &mut |_| panic!("a table"));
    let (table, index) = mine.change_leaf(address).unwrap();
    let leaf = &table[index];
    assert_eq!(leaf.load(Ordering::Relaxed), 0x1000 | PRESENT);
    assert_eq!(mine.leading_to(address).unwrap().1, entry);
    theirs
        .leading_to(address)
        .unwrap()
        .0
        .store(own, Ordering::Relaxed);
    for tables in [&mine, &theirs] {
        tables.take_apart(&mut |_| {}, &mut |frame| {
            memory.frames().release_zeroed(frame)
        });
    }
    assert_eq!(memory.frames().stats().free, before);
}

#[test]
fn threads_build_one_tree() {
    let (tables, memory) = tables(2000);
    let before = memory.frames().stats().free;
    std::thread::scope(|scope| {
        for thread in 0..4usize {
            scope.spawn(move || {
                for i in 0..2000usize {
                    let address = (i * 3 + thread) << 12 << (i % 7);
                    tables
                        .leaf_or_make(address)
                        .unwrap()
                        .fetch_or(PRESENT, Ordering::Relaxed);
                }
            });
        }
    });
    let mut used = 0;
    tables.each_part(0, 1 << 47, |_, words| {
        for word in words {
            word.store(0, Ordering::Relaxed);
        }
    });
    tables.prune(0, 1 << 47, 0, 1 << 47, &mut |frame| {
        used += 1;
        memory.frames().release_zeroed(frame);
    });
    assert!(used > 3);
    assert_eq!(memory.frames().stats().free, before);
}

/// An entry without access leads a processor with the L1TF defect to a place without memory; the
/// frame is kept all the same.
#[test]
fn an_entry_without_access_leads_nowhere() {
    let frame = Frame::containing(0x12_3456_7000);
    for writable in [false, true] {
        let entry = page(frame, Prot::NONE, writable);
        assert!(occupied(entry) && entry & PRESENT == 0);
        assert!(entry & ADDRESS >= 1 << 43, "{entry:#x} names memory");
        assert_eq!(frame_of(entry).address(), frame.address());
        let open = with_rights(entry, Prot::READ);
        assert_eq!(open & ADDRESS, frame.address());
        assert_eq!(with_rights(open, Prot::NONE) & ADDRESS, entry & ADDRESS);
    }
}

/// The mapping at `address`, by both ways to ask: alike.
fn seen(tables: &Tables<'_, Fake>, address: usize) -> ptdump::Mapping {
    let asked = tables.mapping(address).unwrap();
    let mut met = None;
    tables.each_mapping(0..ENTRIES / 2, &mut |mapping| {
        let end = mapping.address + mapping.length as usize;
        if (mapping.address..end).contains(&address) {
            assert!(met.is_none(), "met twice");
            met = Some(mapping);
        }
    });
    assert_eq!(met, Some(asked));
    asked
}

#[test]
fn a_mapping_has_the_rights_that_all_levels_give() {
    let (tables, _) = tables(100);
    let address = 0x40_3000;
    let leaf = tables.leaf_or_make(address).unwrap();
    leaf.store(0x5000 | PRESENT | WRITE | USER, Ordering::Relaxed);
    let rights = || {
        let mapping = seen(&tables, address);
        (mapping.write, mapping.user, mapping.execute)
    };
    let top = &tables.table(tables.root)[index(address, 4)];
    let all = top.load(Ordering::Relaxed);
    for (entry, wanted) in [
        (all, (true, true, true)),
        (all & !WRITE, (false, true, true)),
        (all & !USER, (true, false, true)),
        (all | NO_EXECUTE, (true, true, false)),
    ] {
        top.store(entry, Ordering::Relaxed);
        assert_eq!(rights(), wanted);
    }
}

#[test]
fn a_large_page_is_one_mapping() {
    let (tables, _) = tables(100);
    let address = 0x4020_0000;
    tables.leaf_or_make(address - 0x1000).unwrap();
    let below =
        |table, level| tables.table(table)[index(address, level)].load(Ordering::Relaxed) & ADDRESS;
    let directory = below(below(tables.root, 4), 3);
    tables.table(directory)[index(address, 2)]
        .store(0x60_0000 | PRESENT | WRITE | LARGE, Ordering::Relaxed);
    let mapping = seen(&tables, address + 0x1234);
    assert_eq!(
        (mapping.address, mapping.physical, mapping.length),
        (address, 0x60_0000, 2 << 20)
    );
}
