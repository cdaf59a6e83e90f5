//! The heap over fake memory, alone and with several threads.

use super::Heap;
use crate::fake::Fake;
use crate::frame::PhysMemory;
use std::alloc::Layout;

fn heap(frames: usize) -> (&'static Heap<Fake>, Fake) {
    let memory = Fake::new(frames);
    let heap = Box::leak(Box::new(Heap::new(memory)));
    let metadata = vec![0u64; Heap::<Fake>::metadata_bytes(frames) / 8].leak();
    // SAFETY: nobody uses the heap yet.
    unsafe { heap.install(metadata.as_mut_ptr().cast(), frames, |_| true) };
    (heap, memory)
}

fn layout(size: usize, align: usize) -> Layout {
    Layout::from_size_align(size, align).unwrap()
}

#[test]
fn objects_are_aligned_disjoint_and_come_back() {
    let (heap, memory) = heap(2000);
    let before = memory.frames().stats().free;
    let mut objects = Vec::new();
    for size in (1..3000).step_by(7).chain([4096, 5000, 20_000]) {
        for align in [1, 8, 16, 64, 512, 4096, 16384] {
            let layout = layout(size, align);
            let object = heap.alloc(layout).unwrap();
            assert_eq!(object as usize % align, 0, "{layout:?}");
            // SAFETY: the object is ours.
            unsafe { object.write_bytes(objects.len() as u8, size) };
            objects.push((object, layout));
        }
        if objects.len() > 200 {
            for (i, (object, layout)) in objects.iter().enumerate() {
                // SAFETY: still ours.
                let bytes = unsafe { std::slice::from_raw_parts(*object, layout.size()) };
                assert!(bytes.iter().all(|byte| *byte == i as u8), "{layout:?}");
            }
            for (object, layout) in objects.drain(..) {
                // SAFETY: ours, and not used any more.
                unsafe { heap.free(object, layout) };
            }
        }
    }
    for (object, layout) in objects.drain(..) {
        // SAFETY: ours, and not used any more.
        unsafe { heap.free(object, layout) };
    }
    assert_eq!(heap.stats().used, 0);
    assert!(heap.trim() > 0);
    assert_eq!(heap.stats().held, 0);
    assert_eq!(memory.frames().stats().free, before);
}

#[test]
fn running_out_is_none_and_not_the_end() {
    let (heap, _) = heap(64);
    let small = layout(48, 8);
    let all: Vec<_> = std::iter::from_fn(|| heap.alloc(small)).collect();
    assert_eq!(all.len(), 63 * (4096 / 48));
    assert!(heap.alloc(layout(9000, 8)).is_none());
    for object in all {
        // SAFETY: ours.
        unsafe { heap.free(object, small) };
    }
    assert_eq!(heap.trim(), 63);
    assert!(heap.alloc(layout(9000, 8)).is_some());
}

#[test]
fn threads_share_the_heap() {
    let (heap, memory) = heap(3000);
    let before = memory.frames().stats().free;
    std::thread::scope(|scope| {
        let (sender, receiver) = std::sync::mpsc::channel::<(usize, Layout, u8)>();
        for seed in 1..4u64 {
            let sender = sender.clone();
            scope.spawn(move || {
                let mut random = seed;
                for i in 0..20_000 {
                    random = random.wrapping_mul(6364136223846793005).wrapping_add(1);
                    let layout = layout((random >> 33) as usize % 600 + 1, 8);
                    let Some(object) = heap.alloc(layout) else {
                        continue;
                    };
                    // SAFETY: ours.
                    unsafe { object.write_bytes(i as u8, layout.size()) };
                    sender.send((object as usize, layout, i as u8)).unwrap();
                    if i % 5000 == 0 {
                        heap.trim();
                    }
                }
            });
        }
        drop(sender);
        for (object, layout, value) in receiver {
            let object = object as *mut u8;
            // SAFETY: the sender has given it to us.
            let bytes = unsafe { std::slice::from_raw_parts(object, layout.size()) };
            assert!(bytes.iter().all(|byte| *byte == value));
            // SAFETY: ours.
            unsafe { heap.free(object, layout) };
        }
    });
    assert_eq!(heap.stats().used, 0);
    heap.trim();
    assert_eq!(heap.stats().held, 0);
    assert_eq!(memory.frames().stats().free, before);
}
