//! Models of the general list and of the one with a single visitor a node.

use crate::{free, leak, model};
use lab::{general_list, marked_list};
use loom::cell::UnsafeCell;
use loom::sync::Arc;
use loom::thread;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicUsize, Ordering};

/// A node that knows how often it was given back, and which loom sees being visited.
#[repr(C)]
struct Element {
    node: general_list::Node,
    back: AtomicUsize,
    /// Read by visitors, written by who gets it back.
    body: UnsafeCell<u32>,
}

// SAFETY: `body` is read by visitors and written when there are none; loom looks after it.
unsafe impl Sync for Element {}

fn given_back(node: NonNull<general_list::Node>) {
    // SAFETY: all nodes of these models are in elements that live until the end.
    let element = unsafe { node.cast::<Element>().as_ref() };
    element.back.fetch_add(1, Ordering::Relaxed);
    // SAFETY: nobody visits it now, which loom checks.
    element.body.with_mut(|body| unsafe { *body = 0 });
}

fn elements(n: u32) -> Vec<NonNull<Element>> {
    (1..=n)
        .map(|n| {
            leak(Element {
                node: general_list::Node::new(),
                back: AtomicUsize::new(0),
                body: UnsafeCell::new(n),
            })
        })
        .collect()
}

fn body(node: &general_list::Node) -> u32 {
    // SAFETY: the node is the first field of an element, and visited.
    let element = unsafe { NonNull::from(node).cast::<Element>().as_ref() };
    // SAFETY: as above.
    element.body.with(|body| unsafe { *body })
}

/// A list of these, in order.
fn general(elements: &[NonNull<Element>]) -> Arc<general_list::List> {
    let list = Arc::new(general_list::List::new(given_back));
    for element in elements.iter().rev() {
        // SAFETY: elements live until the end of the model.
        unsafe { list.cursor().insert_after(element.cast()).unwrap() };
    }
    list
}

fn walk(list: &general_list::List) -> Vec<u32> {
    let mut cursor = list.cursor();
    std::iter::from_fn(|| cursor.advance().map(body)).collect()
}

/// Remove the element with this body, as often as one finds it.
fn remove(list: &general_list::List, which: u32) -> bool {
    let mut cursor = list.cursor();
    while let Some(node) = cursor.advance() {
        if body(node) == which {
            return cursor.remove();
        }
    }
    false
}

fn backs(elements: &[NonNull<Element>]) -> Vec<usize> {
    elements
        .iter()
        // SAFETY: they live.
        .map(|element| unsafe { element.as_ref() }.back.load(Ordering::Relaxed))
        .collect()
}

#[test]
fn neighbours_go_and_come_back_once() {
    model(3, || {
        let elements = elements(3);
        let list = general(&elements);
        let other = {
            let list = list.clone();
            thread::spawn(move || remove(&list, 2))
        };
        let mine = remove(&list, 1);
        assert!(other.join().unwrap() && mine);
        assert_eq!(walk(&list), [3]);
        assert_eq!(backs(&elements), [1, 1, 0]);
        drop(list);
        assert_eq!(backs(&elements), [1, 1, 1]);
        elements.into_iter().for_each(free);
    });
}

#[test]
fn a_visitor_keeps_its_node_and_finds_back() {
    model(3, || {
        let elements = elements(3);
        let list = general(&elements);
        let visitor = {
            let list = list.clone();
            thread::spawn(move || {
                let mut seen = walk(&list);
                seen.retain(|body| *body == 3);
                assert_eq!(seen, [3], "a node that stays was not seen");
            })
        };
        assert!(remove(&list, 1));
        assert!(remove(&list, 2));
        assert_eq!(walk(&list), [3]);
        visitor.join().unwrap();
        list.sweep();
        assert_eq!(backs(&elements), [1, 1, 0]);
        drop(list);
        elements.into_iter().for_each(free);
    });
}

#[test]
fn nothing_is_hung_behind_a_deleted_node() {
    model(3, || {
        let elements = elements(3);
        let list = general(&elements[..2]);
        let other = {
            let (list, new) = (list.clone(), sync::Handle(elements[2]));
            thread::spawn(move || {
                let new = new;
                let mut cursor = list.cursor();
                cursor.advance().unwrap();
                let behind = body(cursor.node().unwrap());
                // SAFETY: elements live until the end of the model.
                (behind, unsafe { cursor.insert_after(new.0.cast()) }.is_ok())
            })
        };
        assert!(remove(&list, 1));
        let (behind, inserted) = other.join().unwrap();
        let left = walk(&list);
        match (behind, inserted) {
            (1, true) => assert_eq!(left, [3, 2]),
            (2, true) => assert_eq!(left, [2, 3]),
            _ => assert_eq!(left, [2]),
        }
        drop(list);
        assert_eq!(backs(&elements), [1, 1, usize::from(inserted)]);
        elements.into_iter().for_each(free);
    });
}

#[test]
fn one_removal_of_a_node_counts() {
    model(3, || {
        let elements = elements(1);
        let list = general(&elements);
        let other = {
            let list = list.clone();
            thread::spawn(move || remove(&list, 1))
        };
        let mine = remove(&list, 1);
        assert!(mine != other.join().unwrap());
        drop(list);
        assert_eq!(backs(&elements), [1]);
        elements.into_iter().for_each(free);
    });
}

/// A node with something that only one may touch at a time.
#[repr(C)]
struct Single {
    node: marked_list::Node,
    body: UnsafeCell<u32>,
    out: AtomicUsize,
}

// SAFETY: the list lets one visitor in at a time, which loom checks.
unsafe impl Sync for Single {}

fn went_out(node: NonNull<marked_list::Node>) {
    // SAFETY: all nodes of these models are in elements that live until the end.
    unsafe { node.cast::<Single>().as_ref() }
        .out
        .fetch_add(1, Ordering::Relaxed);
}

fn singles(n: u32) -> Vec<NonNull<Single>> {
    (1..=n)
        .map(|n| {
            leak(Single {
                node: marked_list::Node::new(),
                body: UnsafeCell::new(n),
                out: AtomicUsize::new(0),
            })
        })
        .collect()
}

fn touch(visit: &marked_list::Visit<'_>) -> u32 {
    // SAFETY: as above.
    let single = unsafe { NonNull::from(visit.node()).cast::<Single>().as_ref() };
    // SAFETY: the visit is the only one, which loom checks.
    single.body.with_mut(|body| unsafe {
        *body += 10;
        *body % 10
    })
}

/// The values that a walk finds to visit.
fn round(list: &marked_list::List) -> Vec<u32> {
    let mut seen = Vec::new();
    // SAFETY: a model is one grace period.
    let mut visit = unsafe { list.enter() };
    while let Some(here) = visit {
        seen.push(touch(&here));
        visit = here.next();
    }
    seen
}

#[test]
fn a_node_has_one_visitor() {
    model(3, || {
        let singles = singles(2);
        let list = Arc::new(marked_list::List::new(went_out));
        for single in singles.iter().rev() {
            // SAFETY: they live until the end of the model, which is one grace period.
            unsafe { list.insert(single.cast()) };
        }
        let others: Vec<_> = (0..2)
            .map(|_| {
                let list = list.clone();
                thread::spawn(move || round(&list))
            })
            .collect();
        others.into_iter().for_each(|o| drop(o.join().unwrap()));
        assert_eq!(round(&list), [1, 2]);
        singles.into_iter().for_each(free);
    });
}

#[test]
fn a_killed_node_goes_once_while_others_are_visited() {
    model(3, || {
        let singles = singles(4);
        let list = Arc::new(marked_list::List::new(went_out));
        for single in singles[..3].iter().rev() {
            // SAFETY: they live until the end of the model, which is one grace period.
            unsafe { list.insert(single.cast()) };
        }
        let other = {
            let list = list.clone();
            thread::spawn(move || drop(round(&list)))
        };
        // SAFETY: they live.
        unsafe { singles[1].as_ref() }.node.kill();
        // SAFETY: as above. The one in front comes while the other may be visiting behind it.
        unsafe { list.insert(singles[3].cast()) };
        round(&list);
        other.join().unwrap();
        assert_eq!(round(&list), [4, 1, 3]);
        let out: Vec<_> = singles
            .iter()
            // SAFETY: they live.
            .map(|single| unsafe { single.as_ref() }.out.load(Ordering::Relaxed))
            .collect();
        assert_eq!(out, [0, 1, 0, 0]);
        singles.into_iter().for_each(free);
    });
}

#[test]
fn two_neighbours_are_killed() {
    model(3, || {
        let singles = singles(3);
        let list = Arc::new(marked_list::List::new(went_out));
        for single in singles.iter().rev() {
            // SAFETY: they live until the end of the model, which is one grace period.
            unsafe { list.insert(single.cast()) };
        }
        // SAFETY: they live.
        unsafe {
            singles[0].as_ref().node.kill();
            singles[1].as_ref().node.kill();
        }
        let other = {
            let list = list.clone();
            thread::spawn(move || drop(round(&list)))
        };
        round(&list);
        other.join().unwrap();
        assert_eq!(round(&list), [3]);
        // SAFETY: they live.
        let out = |n: usize| unsafe { singles[n].as_ref() }.out.load(Ordering::Relaxed);
        assert_eq!([out(0), out(1), out(2)], [1, 1, 0]);
        singles.into_iter().for_each(free);
    });
}
