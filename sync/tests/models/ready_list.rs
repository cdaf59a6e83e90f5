//! Lists of ready members: nobody's change is lost, nobody stands in a list twice.

use loom::sync::Arc;
use loom::sync::atomic::{AtomicUsize, Ordering};
use loom::thread;
use sync::WaitList;
use sync::ready_list::{ReadyConsumer, ReadyHooks, ReadyList, ReadyMember};

use super::{link_threads, model};

type List = std::sync::Arc<ReadyList>;

fn take(line: &mut ReadyConsumer, list: &List) -> Vec<usize> {
    line.refill(list);
    std::iter::from_fn(|| line.take().map(|member| member.key)).collect()
}

/// Two threads sleep by `until_ready`, until one member comes and stays.
fn one_member_wakes_both(preemptions: usize, until_ready: fn(&ReadyList)) {
    link_threads();
    model(preemptions, move || {
        let ready = List::new(ReadyList::new());
        let member = std::sync::Arc::new(ReadyMember::new(&ready, 1));
        let sleepers = [0, 1].map(|_| {
            let ready = ready.clone();
            thread::spawn(move || {
                until_ready(&ready);
                // It is left there for the other.
                ready.wake_sleeper();
            })
        });
        member.note();
        sleepers.into_iter().for_each(|one| one.join().unwrap());
        assert!(!ready.has_sleepers());
        ready.close();
    });
}

#[test]
fn a_change_is_seen_or_noted() {
    link_threads();
    model(3, || {
        let ready = List::new(ReadyList::new());
        let (list, word) = (Arc::new(WaitList::new()), Arc::new(AtomicUsize::new(0)));
        let member = std::sync::Arc::new(ReadyMember::new(&ready, 1));
        let changer = {
            let (list, word) = (list.clone(), word.clone());
            thread::spawn(move || {
                word.store(1, Ordering::Relaxed);
                list.wake_all();
            })
        };
        let mut arms = ReadyHooks::new(member, false);
        arms.watch(&list);
        let seen = word.load(Ordering::Relaxed) != 0;
        changer.join().unwrap();
        assert!(seen || !ready.is_empty(), "neither seen nor noted");
        ready.close();
    });
}

/// One that stays in the line while it is ready, and in its list: looked at before and after it is taken, by
/// who watches nothing anew.
#[test]
fn one_that_stands_need_not_be_watched_again() {
    link_threads();
    model(3, || {
        let ready = List::new(ReadyList::new());
        let (list, word) = (Arc::new(WaitList::new()), Arc::new(AtomicUsize::new(0)));
        let member = std::sync::Arc::new(ReadyMember::new(&ready, 1));
        let mut arms = ReadyHooks::new(member.clone(), false);
        assert!(!arms.stand());
        arms.watch(&list);
        let mut line = ReadyConsumer::new();
        line.put_back(member);
        let changer = {
            let (list, word) = (list.clone(), word.clone());
            thread::spawn(move || {
                word.store(1, Ordering::Relaxed);
                list.wake_all_briefly();
            })
        };
        let looks = || word.load(Ordering::Relaxed) != 0;
        let mut seen = line.oldest().is_some() && looks();
        if seen {
            line.rotate();
        } else {
            let member = line.take().unwrap();
            assert!(arms.stand());
            seen = looks();
            if seen {
                line.put_first(member);
            }
        }
        changer.join().unwrap();
        let looked_at_again = !line.is_empty() || !ready.is_empty();
        assert!(looked_at_again, "neither seen nor noted");
        drop(line);
        ready.close();
    });
}

#[test]
fn who_dozes_is_woken_by_a_member_that_comes() {
    one_member_wakes_both(3, |ready| {
        let me = (sync::callout::get().current)();
        while ready.is_empty() {
            let suspend = sync::callout::get().suspend;
            if !ready.doze(me, || !ready.is_empty(), suspend) {
                ready.sleep(|| !ready.is_empty()).unwrap();
            }
        }
    });
}

/// Arms that stay: two changes, and looks beside them without watching anew.
#[test]
fn a_member_that_stays_armed_misses_nothing() {
    link_threads();
    model(3, || {
        let ready = List::new(ReadyList::new());
        let list = Arc::new(WaitList::new());
        let words = Arc::new([AtomicUsize::new(0), AtomicUsize::new(0)]);
        let mut arms = ReadyHooks::new(std::sync::Arc::new(ReadyMember::new(&ready, 1)), false);
        arms.watch(&list);
        let changers = [0, 1].map(|i| {
            let (list, words) = (list.clone(), words.clone());
            thread::spawn(move || {
                words[i].store(1, Ordering::Relaxed);
                list.wake_all();
            })
        });
        let (mut line, mut seen) = (ReadyConsumer::new(), [0; 2]);
        let mut look = |line: &mut ReadyConsumer| {
            if !take(line, &ready).is_empty() {
                seen = [0, 1].map(|i| words[i].load(Ordering::Relaxed));
            }
        };
        look(&mut line);
        changers.into_iter().for_each(|one| one.join().unwrap());
        look(&mut line);
        assert_eq!(seen, [1; 2]);
        ready.close();
    });
}

/// One leaves a list on whose top another stands: all are taken off, while somebody wakes them.
#[test]
fn a_change_is_seen_though_the_list_is_cleared() {
    link_threads();
    model(1, || {
        let ready = List::new(ReadyList::new());
        let (list, word) = (Arc::new(WaitList::new()), Arc::new(AtomicUsize::new(0)));
        let mut leaver = ReadyHooks::new(std::sync::Arc::new(ReadyMember::new(&ready, 2)), false);
        leaver.watch(&list);
        let mut arms = ReadyHooks::new(std::sync::Arc::new(ReadyMember::new(&ready, 1)), false);
        arms.watch(&list);
        let others = [0, 1].map(|role| {
            let (list, word) = (list.clone(), word.clone());
            let mut leaver = (role == 0).then(|| {
                std::mem::replace(
                    &mut leaver,
                    ReadyHooks::new(std::sync::Arc::new(ReadyMember::new(&ready, 3)), false),
                )
            });
            thread::spawn(move || match &mut leaver {
                Some(leaver) => leaver.leave(&list),
                None => {
                    word.store(1, Ordering::Relaxed);
                    list.wake_all();
                }
            })
        });
        let (mut line, mut seen) = (ReadyConsumer::new(), 0);
        let mut look = |line: &mut ReadyConsumer| {
            if take(line, &ready).contains(&1) {
                arms.watch(&list);
                seen = word.load(Ordering::Relaxed);
            }
        };
        look(&mut line);
        others.into_iter().for_each(|one| one.join().unwrap());
        look(&mut line);
        assert_eq!(seen, 1);
        ready.close();
    });
}

#[test]
fn who_sleeps_is_woken_by_a_member_that_comes() {
    one_member_wakes_both(2, |ready| {
        while ready.is_empty() {
            ready.sleep(|| !ready.is_empty()).unwrap();
        }
    });
}

#[test]
fn what_comes_after_a_look_is_noted_again() {
    link_threads();
    model(3, || {
        let ready = List::new(ReadyList::new());
        let words = Arc::new([AtomicUsize::new(0), AtomicUsize::new(0)]);
        let members = [0, 1].map(|key| std::sync::Arc::new(ReadyMember::new(&ready, key)));
        let noters = [0, 1].map(|i| {
            let (words, member) = (words.clone(), members[i].clone());
            thread::spawn(move || {
                words[i].store(1, Ordering::Release);
                member.note();
            })
        });
        let mut line = ReadyConsumer::new();
        let mut seen = [0; 2];
        let mut look = |line: &mut ReadyConsumer| {
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
        let member = std::sync::Arc::new(ReadyMember::new(&ready, 1));
        let noter = {
            let member = member.clone();
            thread::spawn(move || member.note())
        };
        ready.close();
        noter.join().unwrap();
        // The work of the grace period.
        ready.close();
        assert_eq!(std::sync::Arc::strong_count(&member), 1);
    });
}
