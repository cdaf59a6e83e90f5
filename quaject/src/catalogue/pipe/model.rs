//! Loom model: no wake-up is lost between a routine that publishes and checks the guard, and a thread that
//! raises the guard and checks again.
//!
//! Run with `RUSTFLAGS="--cfg loom" cargo test -p quaject --lib model`.
//!
//! *Unsafe*: a lent ring.

use crate::kit::guard::{Flag, Guard};
use crate::primitive::{AtomicU64, Ordering, in_order};
use loom::sync::Arc;

/// The words of one direction of a pipe, and the waiter's token.
struct Words {
    head: AtomicU64,
    guard: Guard,
    token: AtomicU64,
}

fn words() -> Arc<Words> {
    Arc::new(Words {
        head: AtomicU64::new(0),
        guard: Guard::new(4095),
        token: AtomicU64::new(0),
    })
}

/// The steps of the writing routine on several CPUs: `lock add`, then `test`.
fn publish(words: &Words) {
    words.head.fetch_add(1, Ordering::SeqCst);
    in_order();
    if words.guard.is_raised(Flag::Waited) {
        words.guard.lower(Flag::Waited);
        words.token.store(1, Ordering::SeqCst);
    }
}

/// The steps of a waiting reader; true when it may continue without sleeping.
fn look(words: &Words) -> bool {
    words.guard.raise(Flag::Waited);
    words.head.load(Ordering::SeqCst) > 0
}

#[test]
fn a_reader_that_sleeps_is_woken() {
    loom::model(|| {
        let words = words();
        let writer = {
            let words = words.clone();
            loom::thread::spawn(move || publish(&words))
        };
        let awake = look(&words);
        writer.join().unwrap();
        assert!(awake || words.token.load(Ordering::SeqCst) == 1);
    });
}

#[test]
fn two_writers_leave_no_reader_asleep() {
    loom::model(|| {
        let words = words();
        let writers = [(); 2].map(|()| {
            let words = words.clone();
            loom::thread::spawn(move || publish(&words))
        });
        let awake = look(&words);
        writers
            .into_iter()
            .for_each(|writer| writer.join().unwrap());
        assert!(awake || words.token.load(Ordering::SeqCst) == 1);
    });
}

#[test]
fn closing_survives_a_wake_up() {
    loom::model(|| {
        let words = words();
        words.guard.raise(Flag::Waited);
        let closer = {
            let words = words.clone();
            loom::thread::spawn(move || words.guard.raise(Flag::Closed))
        };
        words.guard.lower(Flag::Waited);
        closer.join().unwrap();
        assert!(words.guard.is_raised(Flag::Closed) && words.guard.word() < 0);
    });
}

#[test]
fn what_is_read_was_written_and_in_order() {
    use super::PipeCore;
    use crate::Sharing::Exclusive;
    use core::ptr::NonNull;
    loom::model(|| {
        let ring: &'static mut [u8; 4096] = Box::leak(Box::new([0; 4096]));
        // SAFETY: the ring is leaked.
        let pipe = Arc::new(unsafe { PipeCore::lent(NonNull::from(ring).cast(), 4096) });
        let writer = {
            let pipe = pipe.clone();
            loom::thread::spawn(move || {
                assert_eq!(pipe.write(Exclusive, &[1, 2]), Some(2));
                assert_eq!(pipe.write(Exclusive, &[3]), Some(1));
            })
        };
        let mut into = [0; 3];
        let first = pipe.read(Exclusive, &mut into).unwrap_or(0);
        assert!(matches!(first, 0 | 2 | 3));
        writer.join().unwrap();
        let second = pipe.read(Exclusive, &mut into[first..]).unwrap_or(0);
        assert_eq!((first + second, into), (3, [1, 2, 3]));
    });
}

loom::lazy_static! {
    static ref TOKENS: [loom::sync::atomic::AtomicBool; 3] = [(); 3].map(|()| loom::sync::atomic::AtomicBool::new(false));
}

loom::thread_local! {
    static ME: core::cell::Cell<usize> = core::cell::Cell::new(1);
}

/// The running thread's number from now on, 1 to 3; it is 1 before.
pub(super) fn be(number: usize) {
    ME.with(|me| me.set(number));
}

/// Threads with a token each; a sleeper without a token never continues, which loom reports.
static CALLOUTS: sync::callout::Callouts = sync::callout::Callouts {
    current: || ME.with(core::cell::Cell::get),
    suspend: || {
        let me = ME.with(core::cell::Cell::get);
        while !TOKENS[me - 1].swap(false, Ordering::SeqCst) {
            loom::thread::yield_now();
        }
    },
    resume: |thread| {
        // An exchange, like the kernel's: loom may keep a plain store from the other for ever.
        TOKENS[thread - 1].swap(true, Ordering::SeqCst);
    },
    interrupted: || false,
    yield_now: loom::thread::yield_now,
    cpu: || 0,
    irq_save: || 0,
    irq_restore: |_| {},
    ..sync::callout::DEFAULT
};

/// The callouts of all models: they run side by side, and there is one place for them.
pub(crate) fn link() {
    sync::callout::link(&CALLOUTS);
}

/// A reader that goes through the patient routine's callback, against `other`; what it read, or None at the
/// end.
fn patient_reader(other: fn(&super::PipeCore)) -> Option<u8> {
    use super::PipeCore;
    use crate::Sharing::Exclusive;
    use crate::Sleep;
    use core::ptr::NonNull;
    link();
    let ring: &'static mut [u8; 4096] = Box::leak(Box::new([0; 4096]));
    // SAFETY: the ring is leaked.
    let pipe = Arc::new(unsafe { PipeCore::lent(NonNull::from(ring).cast(), 4096) });
    let writer = {
        let pipe = pipe.clone();
        loom::thread::spawn(move || other(&pipe))
    };
    let mut byte = [0];
    let read = loop {
        if pipe.read(Exclusive, &mut byte).is_some() {
            break Some(byte[0]);
        }
        // The work of the code behind `RoutineEnv::waiting`.
        match pipe.sleeper.sleep(1) {
            Sleep::LEAVE => break None,
            Sleep::SUSPEND => (CALLOUTS.suspend)(),
            _ => {}
        }
    };
    writer.join().unwrap();
    read
}

#[test]
fn a_patient_reader_is_woken_by_data() {
    loom::model(|| {
        let read = patient_reader(|pipe| {
            assert_eq!(pipe.write(crate::Sharing::Exclusive, &[7]), Some(1));
        });
        assert_eq!(read, Some(7));
    });
}

#[test]
fn a_patient_reader_is_woken_by_the_end() {
    loom::model(|| {
        let read = patient_reader(|pipe| {
            pipe.set_writers(false);
            pipe.wake_readers();
        });
        assert_eq!(read, None);
    });
}

/// A party that is notified by a callback, and stays in the list while it checks: it is notified of
/// everything that it has not seen.
#[test]
fn a_watcher_is_told_of_what_it_has_not_seen() {
    use super::PipeCore;
    use crate::Sharing::Exclusive;
    use core::ptr::NonNull;
    use sync::ready_list::{ReadyHooks, ReadyList, ReadyMember};
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(2);
    builder.check(|| {
        link();
        let ring: &'static mut [u8; 4096] = Box::leak(Box::new([0; 4096]));
        // SAFETY: the ring is leaked.
        let pipe = Arc::new(unsafe { PipeCore::lent(NonNull::from(ring).cast(), 4096) });
        let ready = std::sync::Arc::new(ReadyList::new());
        let member = std::sync::Arc::new(ReadyMember::new(&ready, 1));
        let writer = {
            let pipe = pipe.clone();
            loom::thread::spawn(move || {
                assert_eq!(pipe.write(Exclusive, &[1]), Some(1));
                assert_eq!(pipe.write(Exclusive, &[2]), Some(1));
            })
        };
        let mut arms = ReadyHooks::new(member, false);
        pipe.expect_data(|list| arms.watch(list));
        let _seen = pipe.read(Exclusive, &mut [0; 2]);
        writer.join().unwrap();
        assert!(
            pipe.available() == 0 || !ready.is_empty(),
            "neither seen nor told"
        );
        ready.close();
    });
}
