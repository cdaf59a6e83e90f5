//! The frame allocator over fake memory, alone and with several threads.

use super::*;
use crate::fake::Fake;
use crate::frame::PhysMemory;
use std::collections::HashSet;
use std::sync::atomic::{AtomicU32, Ordering};

#[test]
fn every_frame_is_given_once_and_comes_back() {
    let memory = Fake::new(1000);
    let frames = memory.frames();
    assert_eq!(frames.stats().total, 999);
    let all: Vec<_> = std::iter::from_fn(|| frames.alloc()).collect();
    assert_eq!(all.len(), 999);
    assert_eq!(all.iter().collect::<HashSet<_>>().len(), 999);
    assert_eq!(frames.stats().free, 0);
    assert!(frames.alloc_low().is_none() && frames.alloc_run(2, 1).is_none());
    all.into_iter()
        .for_each(|frame| assert!(frames.release(frame)));
    assert_eq!(frames.stats().free, 999);
}

#[test]
fn programs_come_from_the_top_and_leave_a_reserve() {
    let memory = Fake::new(4096);
    let frames = memory.frames();
    assert_eq!(frames.alloc_user(), Some(Frame(4095)));
    assert_eq!(frames.alloc_low(), Some(Frame(1)));
    while frames.alloc_user().is_some() {}
    assert_eq!(frames.stats().free, frames.stats().reserve);
    assert!(frames.alloc().is_some());
}

#[test]
fn runs_are_contiguous_aligned_and_span_words() {
    let memory = Fake::new(4096);
    let frames = memory.frames();
    let hole = frames.alloc_run(63, 1).unwrap();
    assert_eq!(hole, Frame(1));
    let run = frames.alloc_run(200, 64).unwrap();
    assert_eq!(run, Frame(64));
    assert_eq!(frames.alloc_run(1, 1), Some(Frame(264)));
    frames.free_run(Frame(100), 50);
    assert_eq!(frames.alloc_run(50, 2), Some(Frame(100)));
    frames.free_run(run, 200);
    frames.free_run(hole, 63);
    frames.free_run(Frame(264), 1);
    assert_eq!(frames.stats().free, 4095);
}

#[test]
fn a_search_for_a_run_comes_round_to_what_was_freed_behind_it() {
    let memory = Fake::new(1024);
    let frames = memory.frames();
    let all: Vec<_> = std::iter::from_fn(|| frames.alloc_run(100, 1)).collect();
    assert_eq!(all.len(), 10);
    // One by one, which no hint notices.
    for frame in 0..100 {
        assert!(frames.release(Frame(all[2].0 + frame)));
    }
    assert_eq!(frames.alloc_run(100, 1), Some(all[2]));
    assert_eq!(frames.alloc_run(100, 1), None);
}

#[test]
fn a_shared_frame_is_freed_by_the_last_owner() {
    let memory = Fake::new(100);
    let frames = memory.frames();
    let frame = frames.alloc().unwrap();
    let first = FrameRef::own_in(frames, frame);
    let second = first.clone();
    assert_eq!(frames.others(frame), 1);
    drop(first);
    assert_eq!((frames.others(frame), frames.stats().free), (0, 98));
    drop(second);
    assert_eq!(frames.stats().free, 99);
}

#[test]
fn what_is_beyond_memory_has_no_owner() {
    let frames = Fake::new(100).frames();
    let device = Frame(5000);
    frames.share(device);
    assert!(frames.others(device) > 0);
    assert!(!frames.release(device));
}

#[test]
fn the_stock_keeps_zeros_and_counts_as_free() {
    let memory = Fake::new(2048);
    let frames = memory.frames();
    // SAFETY: the allocator lends a free frame.
    while frames.restock(|frame| unsafe { memory.zero(frame) }) {}
    let stocked = frames.stats().stocked;
    assert!(stocked > 0 && frames.stats().free == 2047);
    for _ in 0..stocked {
        let frame = frames.stocked().unwrap();
        // SAFETY: the frame is ours.
        let bytes = unsafe { std::slice::from_raw_parts(memory.at(frame), 4096) };
        assert!(bytes.iter().all(|byte| *byte == 0));
        assert_eq!(frames.others(frame), 0);
        frames.release_zeroed(frame);
    }
    // When nothing else is left, the stock is given out too.
    assert_eq!(std::iter::from_fn(|| frames.alloc()).count(), 2047);
}

#[test]
fn free_blocks_are_counted_by_their_size() {
    let memory = Fake::new(4096);
    let frames = memory.frames();
    // All but frame 0: one block of each size up to 512, and three of 1024.
    let whole = [1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 3];
    assert_eq!(frames.blocks(), whole);
    let odd = frames.alloc_run(1, 64).unwrap();
    assert_eq!(odd, Frame(64));
    // The block of 64 lost its first: what is left of it are blocks of 1 to 32.
    assert_eq!(frames.blocks(), [2, 2, 2, 2, 2, 2, 0, 1, 1, 1, 3]);
    let run = frames.alloc_run(1024, 1024).unwrap();
    assert_eq!(frames.blocks(), [2, 2, 2, 2, 2, 2, 0, 1, 1, 1, 2]);
    // Frames given back near a CPU are free, as single frames.
    assert!(frames.release(odd));
    let sum =
        |blocks: [usize; 11]| -> usize { (0..).zip(blocks).map(|(n, count)| count << n).sum() };
    assert_eq!(sum(frames.blocks()), frames.stats().free);
    let _ = run;
}

#[test]
fn threads_never_own_the_same_frame() {
    const FRAMES: usize = 700;
    let memory = Fake::new(FRAMES);
    let frames = memory.frames();
    let owners: Vec<_> = (0..FRAMES).map(|_| AtomicU32::new(0)).collect();
    std::thread::scope(|scope| {
        for seed in 1..5u64 {
            let owners = &owners;
            scope.spawn(move || {
                let mut random = seed;
                let mut held = Vec::new();
                let take = |first: Frame, count: usize| {
                    for owner in &owners[first.index()..first.index() + count] {
                        assert_eq!(owner.swap(1, Ordering::Relaxed), 0);
                    }
                };
                for _ in 0..20_000 {
                    random = random.wrapping_mul(6364136223846793005).wrapping_add(1);
                    let choice = random >> 60;
                    let count = (random >> 40) as usize % 5 + 1;
                    let got = match choice {
                        0..4 => frames.alloc().map(|frame| (frame, 1)),
                        4..6 => frames.alloc_run(count, 1).map(|first| (first, count)),
                        6 => {
                            // SAFETY: as above.
                            frames.restock(|frame| unsafe { memory.zero(frame) });
                            frames.stocked().map(|frame| (frame, 1))
                        }
                        _ => None,
                    };
                    if let Some((first, count)) = got {
                        take(first, count);
                        held.push((first, count));
                    } else if !held.is_empty() {
                        let (first, count) = held.swap_remove(random as usize % held.len());
                        for owner in &owners[first.index()..first.index() + count] {
                            assert_eq!(owner.swap(0, Ordering::Relaxed), 1);
                        }
                        frames.free_run(first, count);
                    }
                }
                for (first, count) in held {
                    owners[first.index()..first.index() + count]
                        .iter()
                        .for_each(|owner| owner.store(0, Ordering::Relaxed));
                    frames.free_run(first, count);
                }
            });
        }
    });
    assert_eq!(frames.stats().free, FRAMES - 1);
    assert_eq!(std::iter::from_fn(|| frames.alloc()).count(), FRAMES - 1);
}
