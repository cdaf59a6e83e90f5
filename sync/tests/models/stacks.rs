//! Models of the stack of nodes that goes round, and that is taken whole.

use crate::model;
use loom::sync::Arc;
use loom::thread;
use std::ptr::NonNull;
use sync::Stack;

#[test]
fn a_stack_is_taken_whole() {
    model(3, || {
        let nodes: Vec<_> = (0..3)
            .map(|_| crate::leak(sync::stack::Node::new()))
            .collect();
        let stack = Arc::new(Stack::new());
        // SAFETY: nodes live until the end of the model.
        unsafe { stack.push(nodes[0]) };
        let other = {
            let (stack, node) = (stack.clone(), sync::Handle(nodes[1]));
            thread::spawn(move || {
                let node = node;
                // SAFETY: as above.
                unsafe { stack.push(node.0) };
                usize::from(stack.pop().is_some())
            })
        };
        let taken = stack.take_all().count();
        let popped = other.join().unwrap();
        assert_eq!(taken + popped + stack.take_all().count(), 2);
        nodes.into_iter().for_each(crate::free);
    });
}

/// Two nodes go round among three threads, so that the top one comes back with another behind it.
#[test]
fn a_stack_that_goes_round_gives_each_node_to_one() {
    model(3, || {
        #[repr(C)]
        struct Item {
            node: sync::stack::Node,
            touched: loom::cell::UnsafeCell<usize>,
        }
        let items: Vec<_> = (0..2)
            .map(|_| {
                crate::leak(Item {
                    node: sync::stack::Node::new(),
                    touched: loom::cell::UnsafeCell::new(0),
                })
            })
            .collect();
        let stack = Arc::new(Stack::new());
        // SAFETY: the node is the item's first field, and items live until the end of the model.
        let push = |stack: &Stack, item: NonNull<Item>| unsafe {
            stack.push(NonNull::from(&item.as_ref().node));
        };
        items.iter().for_each(|item| push(&stack, *item));
        let turn = move |stack: &Stack, times: usize| {
            for _ in 0..times {
                let Some(node) = stack.pop() else { return };
                let item: NonNull<Item> = node.cast();
                // SAFETY: taken off, so ours; loom checks it.
                unsafe { item.as_ref().touched.with_mut(|n| *n += 1) };
                push(stack, item);
            }
        };
        let both = {
            let stack = stack.clone();
            thread::spawn(move || {
                let two = [stack.pop(), stack.pop()];
                // The lower one first, so that it is below again, or on top alone for a while.
                two.into_iter().flatten().for_each(|node| {
                    let item: NonNull<Item> = node.cast();
                    // SAFETY: as above.
                    unsafe { item.as_ref().touched.with_mut(|n| *n += 1) };
                    push(&stack, item);
                });
            })
        };
        let other = {
            let stack = stack.clone();
            thread::spawn(move || turn(&stack, 1))
        };
        turn(&stack, 1);
        [both, other].into_iter().for_each(|t| t.join().unwrap());
        assert_eq!(stack.take_all().count(), 2);
        items.into_iter().for_each(crate::free);
    });
}
