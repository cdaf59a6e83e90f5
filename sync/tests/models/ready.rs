//! Lists of ready members: nobody's change is lost, nobody stands in a list twice.

use loom::sync::Arc;
use loom::sync::atomic::{AtomicUsize, Ordering};
use loom::thread;
use sync::WaitList;
use sync::ready::{Arms, Line, Member, ReadyList};

use super::{link_threads, model};

type List = std::sync::Arc<ReadyList>;

fn take(line: &mut Line, list: &List) -> Vec<usize> {
    line.refill(list);
    std::iter::from_fn(|| line.take().map(|member| member.key.0)).collect()
}

#[test]
fn a_change_is_seen_or_noted() {
    link_threads();
    model(3, || {
        let ready = List::new(ReadyList::new());
        let (list, word) = (Arc::new(WaitList::new()), Arc::new(AtomicUsize::new(0)));
        let member = std::sync::Arc::new(Member::new(&ready, (1, 0)));
        let changer = {
            let (list, word) = (list.clone(), word.clone());
            thread::spawn(move || {
                word.store(1, Ordering::Relaxed);
                list.wake_all();
            })
        };
        let mut arms = Arms::new(member);
        arms.watch(&list);
        let seen = word.load(Ordering::Relaxed) != 0;
        changer.join().unwrap();
        assert!(seen || !ready.is_empty(), "neither seen nor noted");
        ready.close();
    });
}

#[test]
fn what_comes_after_a_look_is_noted_again() {
    link_threads();
    model(3, || {
        let ready = List::new(ReadyList::new());
        let words = Arc::new([AtomicUsize::new(0), AtomicUsize::new(0)]);
        let members = [0, 1].map(|key| std::sync::Arc::new(Member::new(&ready, (key, 0))));
        let noters = [0, 1].map(|i| {
            let (words, member) = (words.clone(), members[i].clone());
            thread::spawn(move || {
                words[i].store(1, Ordering::Release);
                member.note();
            })
        });
        let mut line = Line::new();
        let mut seen = [0; 2];
        let mut look = |line: &mut Line| {
            let taken = take(line, &ready);
            assert!(taken.len() <= 2, "twice in the list");
            for key in taken {
                seen[key] = words[key].load(Ordering::Acquire);
                // A level that stays.
                line.put_back(members[key].clone());
            }
        };
        look(&mut line);
        look(&mut line);
        noters.into_iter().for_each(|noter| noter.join().unwrap());
        look(&mut line);
        assert_eq!(seen, [1; 2]);
        drop(line);
        ready.close();
    });
}

#[test]
fn a_closed_list_keeps_no_member() {
    link_threads();
    model(3, || {
        let ready = List::new(ReadyList::new());
        let member = std::sync::Arc::new(Member::new(&ready, (1, 0)));
        let noter = {
            let member = member.clone();
            thread::spawn(move || member.note())
        };
        ready.close();
        noter.join().unwrap();
        // What the grace period would bring.
        ready.close();
        assert_eq!(std::sync::Arc::strong_count(&member), 1);
    });
}
