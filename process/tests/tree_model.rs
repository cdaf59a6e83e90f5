//! Every interleaving of processes that come and go in the register and in groups, checked with loom: a
//! signal to many misses nobody, though a child comes behind the one who sends and its parent leaves before
//! him; a group and its session end with their last members, once.

#[allow(dead_code, reason = "each file uses its own")]
mod primitive {
    pub use loom::sync::atomic::{AtomicPtr, AtomicU64, Ordering};
}
#[allow(dead_code)]
#[path = "../src/process/tree/group_ids.rs"]
mod group_ids;
#[allow(dead_code)]
#[path = "../src/process/tree/pid_map.rs"]
mod pid_map;
#[path = "../src/process/tree/words.rs"]
mod words;

use group_ids::GroupIds;
use loom::sync::atomic::{AtomicBool, AtomicPtr, AtomicU64, AtomicUsize, Ordering};
use loom::thread;
use pid_map::PidMap;
use std::ptr::null_mut;
use std::sync::Arc;

fn check(name: &str, model: impl Fn() + Send + Sync + 'static) {
    let executions = Arc::new(std::sync::atomic::AtomicUsize::new(0));
    let counted = executions.clone();
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(4);
    builder.check(move || {
        counted.fetch_add(1, Ordering::Relaxed);
        model();
    });
    let executions = executions.load(Ordering::Relaxed);
    println!("{name}: {executions} executions");
}

const CHILD: i32 = 0;
const PARENT: i32 = 1;

/// How the two sides keep to what the register asks of them.
#[derive(Clone, Copy)]
struct Rules {
    /// A fork announces the child before it checks for a signal.
    announces_first: bool,
    /// A sender repeats the scan if a process has arrived.
    goes_again: bool,
}

struct Group {
    register: PidMap<[AtomicPtr<()>; 2]>,
    /// Signals that each process has been sent.
    sent: [AtomicUsize; 2],
    /// Whether the parent has a signal to take.
    called: AtomicBool,
}

fn thing() -> *mut () {
    // Nothing reads through it; the bits of the register stand in front.
    std::ptr::without_provenance_mut(8)
}

/// One who sends to all, in order of their numbers: the child's comes first.
fn send(group: &Group, rules: Rules) {
    let mut known = [false; 2];
    loop {
        let (arrivals, before) = (group.register.arrivals(), known);
        for number in [CHILD, PARENT] {
            let at = number as usize;
            if group.register.get(number).0.is_null() || known[at] {
                continue;
            }
            known[at] = true;
            group.sent[at].fetch_add(1, Ordering::Relaxed);
            if number == PARENT {
                group.called.store(true, Ordering::Release);
            }
        }
        let arrived = rules.goes_again && group.register.arrivals() != arrivals;
        if known == before && !arrived || !rules.goes_again {
            return;
        }
    }
}

/// The parent makes a child, unless it has a signal to take, and ends. Whether there is a child.
fn fork(group: &Group, rules: Rules) -> bool {
    let called = || group.called.load(Ordering::Acquire);
    let stays = if rules.announces_first {
        group.register.announce(CHILD, thing());
        !called()
    } else {
        let missed = called();
        group.register.announce(CHILD, thing());
        !missed
    };
    if stays {
        group.register.show(CHILD);
    } else {
        group.register.take(CHILD);
    }
    group.register.take(PARENT);
    stays
}

fn signal_and_fork(name: &str, rules: Rules) {
    check(name, move || {
        let words = [AtomicPtr::new(null_mut()), AtomicPtr::new(null_mut())];
        let group = loom::sync::Arc::new(Group {
            register: PidMap::over(words, AtomicU64::new(0)),
            sent: Default::default(),
            called: AtomicBool::new(false),
        });
        group.register.announce(PARENT, thing());
        group.register.show(PARENT);
        let sender = {
            let group = group.clone();
            thread::spawn(move || send(&group, rules))
        };
        let made = fork(&group, rules);
        sender.join().unwrap();
        let sent = group.sent[CHILD as usize].load(Ordering::Relaxed);
        assert!(!made || sent == 1, "the child was missed");
    });
}

const RULES: Rules = Rules {
    announces_first: true,
    goes_again: true,
};

#[test]
fn a_signal_to_many_misses_no_child() {
    signal_and_fork("signal and fork", RULES);
}

#[test]
#[should_panic(expected = "the child was missed")]
fn without_announcing_first_it_would() {
    let rules = Rules {
        announces_first: false,
        ..RULES
    };
    signal_and_fork("not announced first", rules);
}

#[test]
#[should_panic(expected = "the child was missed")]
fn without_going_through_again_it_would() {
    let rules = Rules {
        goes_again: false,
        ..RULES
    };
    signal_and_fork("not gone through again", rules);
}

/// Session 2 with a member in its own group.
fn names() -> loom::sync::Arc<GroupIds<[AtomicU64; 6]>> {
    let names = GroupIds::over(std::array::from_fn(|_| AtomicU64::new(0)));
    assert!(names.found_session(2));
    loom::sync::Arc::new(names)
}

/// The same with group 5, whose only member leaves in a thread of its own.
fn ending_group() -> (
    loom::sync::Arc<GroupIds<[AtomicU64; 6]>>,
    thread::JoinHandle<()>,
) {
    let names = names();
    assert!(names.found(5, 2));
    let leaver = names.clone();
    (names, thread::spawn(move || leaver.leave(5)))
}

/// Checks that nothing is left when the leader of session 2 has gone, too.
fn nothing_is_left(names: &GroupIds<[AtomicU64; 6]>) {
    names.leave(2);
    for number in 0..6 {
        assert!(!names.is_taken(number), "{number} is named for ever");
    }
}

#[test]
fn the_last_member_goes_while_another_comes() {
    check("leave and enter", || {
        let (names, other) = ending_group();
        let came = names.enter(5, 2);
        assert!(!came || names.session(5) == Some(2));
        other.join().unwrap();
        assert_eq!(names.members(5), usize::from(came));
        if came {
            names.leave(5);
        }
        nothing_is_left(&names);
    });
}

#[test]
fn the_last_member_goes_while_the_one_of_that_name_comes_back() {
    check("leave and found", || {
        let (names, other) = ending_group();
        assert!(names.found(5, 2));
        assert_eq!(names.session(5), Some(2));
        other.join().unwrap();
        assert_eq!(names.members(5), 1);
        names.leave(5);
        nothing_is_left(&names);
    });
}

#[test]
fn two_come_and_go_in_a_group_that_ends() {
    check("join, leave and leave", || {
        let names = names();
        assert!(names.found(5, 2));
        names.join(5);
        let others: Vec<_> = (0..2)
            .map(|_| {
                let names = names.clone();
                thread::spawn(move || {
                    // A child of a member comes before that goes.
                    names.join(5);
                    names.leave(5);
                    names.leave(5);
                })
            })
            .collect();
        for other in others {
            other.join().unwrap();
        }
        assert_eq!(names.members(5), 0);
        nothing_is_left(&names);
    });
}

#[test]
fn nobody_enters_the_group_of_a_session_to_be() {
    check("found a session and enter", || {
        let names = names();
        let other = {
            let names = names.clone();
            thread::spawn(move || names.enter(5, 2))
        };
        assert!(names.found_session(5));
        assert!(!other.join().unwrap());
        names.leave(5);
        nothing_is_left(&names);
    });
}
