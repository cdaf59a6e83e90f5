//! Chains of quajects against their reference implementations: made of links taken at random, changed while
//! bytes go through them, refused where they do not fit.
//!
//! *Unsafe*: functions that get the bytes of a buffer.

use crate::catalogue::buffer_in::{self, BufferIn};
use crate::catalogue::buffer_out::{self, BufferOut};
use crate::catalogue::composed::Composed;
use crate::catalogue::cook_tty_out::{self, Rule, TtyWriteRecipe};
use crate::catalogue::gauge::{self, Gauge};
use crate::catalogue::pump::{self, Pump};
use crate::catalogue::queue::{self, ByteQueue, Parties, Spec, Wakes, q_get, q_put, q_put_string};
use crate::catalogue::serializer::{self, Serializer};
use crate::catalogue::testing::{Ended, Random, UserMemory, call, leaked, listing};
use crate::kit::assembly::DEPTH;
use crate::kit::by_name::{Refused, link_by_name, unlink_by_name};
use crate::kit::class::{Ref, create};
use crate::kit::inline_map::InlineMap;
use crate::kit::inlining::chosen::without_inlining;
use crate::kit::interfacer::{Entry, Function, LONGEST, link, unlink};
use crate::kit::routine_env::{RoutineError, UserAccess};
use crate::kit::signature::Put;
use abi::errno::Errno;
use abi::nr;
use std::sync::Arc;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;

fn byte_queue(random: &mut Random, size: usize) -> Ref<ByteQueue> {
    let many = |random: &mut Random| match random.below(2) {
        0 => Parties::One,
        _ => Parties::Many,
    };
    create(Spec {
        producers: many(random),
        consumers: many(random),
        size,
        several_cpus: random.below(2) == 0,
        strings: false,
    })
    .unwrap()
}

/// Where bytes come to in the end.
static OUT: Mutex<Vec<u8>> = Mutex::new(Vec::new());

extern "sysv64" fn show(_: usize, bytes: *mut u8, count: usize) -> usize {
    // SAFETY: the buffer hands out `count` bytes.
    let bytes = unsafe { core::slice::from_raw_parts(bytes, count) };
    OUT.lock().unwrap().extend_from_slice(bytes);
    count
}

extern "sysv64" fn show_one(_: usize, byte: usize) -> usize {
    OUT.lock().unwrap().push(byte as u8);
    1
}

/// The input, by so many bytes at a time.
static IN: Mutex<Vec<u8>> = Mutex::new(Vec::new());

extern "sysv64" fn bring(most: usize, bytes: *mut u8, count: usize) -> usize {
    let mut from = IN.lock().unwrap();
    let count = count.min(from.len()).min(most);
    // SAFETY: the buffer has room for `count` bytes.
    unsafe { bytes.copy_from_nonoverlapping(from.as_ptr(), count) };
    from.drain(..count);
    count
}

/// One end for bytes, with what must be emptied by hand behind it.
enum Sink {
    Queue(Ref<ByteQueue>),
    Buffer(Ref<BufferOut>),
    Function,
}

impl Sink {
    fn any(random: &mut Random) -> (Sink, Entry<Put>) {
        match random.below(3) {
            0 => {
                let queue = byte_queue(random, 64);
                let entry = q_put(&queue);
                (Sink::Queue(queue), entry)
            }
            1 => {
                let buffer = create::<BufferOut>(1 + random.below(9) as usize).unwrap();
                link(
                    &buffer,
                    buffer_out::FLUSH_OUT,
                    Function::write(&"show", show, 0),
                )
                .unwrap();
                let entry = buffer_out::put(&buffer);
                (Sink::Buffer(buffer), entry)
            }
            _ => (Sink::Function, Function::put(&"show", show_one, 0, None)),
        }
    }

    fn empty(&self) {
        match self {
            Sink::Queue(queue) => {
                let mut out = OUT.lock().unwrap();
                out.extend(std::iter::from_fn(|| queue.get()));
            }
            Sink::Buffer(buffer) => buffer.flush(),
            Sink::Function => {}
        }
    }
}

/// The twin of any such chain moves each byte once, in order, and no more than there is room for.
fn chains_move_what_their_twins_move() {
    static ALONE: Mutex<()> = Mutex::new(());
    let _alone = ALONE.lock().unwrap();
    codegen::host::link();
    let mut random = Random::new(15);
    for round in 0..150 {
        IN.lock().unwrap().clear();
        OUT.lock().unwrap().clear();
        let pump = create::<Pump>(()).unwrap();
        let source = create::<BufferIn>(1 + random.below(40) as usize).unwrap();
        let most = 1 + random.below(20) as usize;
        link(
            &source,
            buffer_in::FILL,
            Function::read(&"bring", bring, most),
        )
        .unwrap();
        let from = byte_queue(&mut random, 64);
        let by_queue = random.below(2) == 0;
        if by_queue {
            link(&pump, pump::INPUT, q_get(&from)).unwrap();
        } else {
            link(&pump, pump::INPUT, buffer_in::get(&source)).unwrap();
        }
        let monitors: Vec<_> = (0..random.below(6))
            .map(|_| create::<Serializer>(()).unwrap())
            .collect();
        let gauge = create::<Gauge>(false).unwrap();
        let (mut sink, mut entry) = Sink::any(&mut random);
        let mut wanted = Vec::new();
        for _ in 0..12 {
            // Another sink, and some of the monitors before it.
            if random.below(3) == 0 {
                sink.empty();
                (sink, entry) = Sink::any(&mut random);
            }
            let mut last = entry.clone();
            for monitor in &monitors {
                if random.below(2) == 0 {
                    link(monitor, serializer::TARGET, last).unwrap();
                    last = serializer::enter(monitor);
                }
            }
            link(&pump, pump::OUTPUT, last).unwrap();
            match random.below(3) {
                0 => drop(link(&from, queue::Q_FULL_1, gauge::count(&gauge)).unwrap()),
                1 => unlink(&from, queue::Q_FULL_1).unwrap(),
                _ => {}
            }
            let count = random.below(60) as usize;
            let bytes = random.bytes(count);
            if by_queue {
                bytes.iter().for_each(|byte| assert_eq!(from.put(*byte), 1));
            } else {
                IN.lock().unwrap().extend_from_slice(&bytes);
            }
            wanted.extend_from_slice(&bytes);
            assert_eq!(pump.run(1000), count, "round {round}");
            sink.empty();
            assert!(*OUT.lock().unwrap() == wanted, "round {round}");
        }
        unlink(&pump, pump::OUTPUT).unwrap();
    }
}

#[test]
fn any_chain_moves_what_its_twin_moves_while_its_links_change() {
    chains_move_what_their_twins_move();
}

#[test]
fn a_chain_of_calls_moves_the_same() {
    without_inlining(chains_move_what_their_twins_move);
}

/// The record of a pump's code names the innermost quaject, in the hot part and in the cold.
#[test]
fn the_record_says_whose_an_instruction_is() {
    codegen::host::link();
    let mut random = Random::new(3);
    let [from, to] = core::array::from_fn(|_| byte_queue(&mut random, 64));
    let pump = create::<Pump>(()).unwrap();
    let monitor = create::<Serializer>(()).unwrap();
    link(&monitor, serializer::TARGET, q_put(&to)).unwrap();
    link(&pump, pump::OUTPUT, serializer::enter(&monitor)).unwrap();
    link(&pump, pump::INPUT, q_get(&from)).unwrap();
    let site = pump.header().site(pump::INPUT.number(), 0).unwrap();
    let info = codegen::image_at(site.at).unwrap();
    let record = InlineMap::of(info.entry..info.entry + info.len);
    assert_eq!(record.links(), 3);
    let says = |at: usize| record.at(at).map(|stretch| stretch.to_string());
    let get = Some(format!("Queue {} Q_get", from.header().number()));
    assert_eq!(says(info.entry), None, "the pump's own");
    assert_eq!([says(site.at), says(site.cold)], [get.clone(), get.clone()]);
    let outer = pump.header().site(pump::OUTPUT.number(), 0).unwrap();
    let inside = info.entry..info.entry + info.len;
    let inner = (0..)
        .map_while(|at| monitor.header().site(serializer::TARGET.number(), at))
        .find(|inner| inside.contains(&inner.at))
        .unwrap();
    assert!((outer.at..outer.at + outer.bytes as usize).contains(&inner.at));
    let put = Some(format!("Queue {} Q_put", to.header().number()));
    assert_eq!(says(inner.at), put, "the innermost");
    unlink(&pump, pump::INPUT).unwrap();
    // Another test's routine may be there by now, with other quajects.
    let record = InlineMap::of(inside.clone());
    let says = |at: usize| record.at(at).map(|stretch| stretch.to_string());
    assert!(!inside.clone().any(|at| [&get, &put].contains(&&says(at))));
}

/// A thread pumps, another puts monitors and a gauge into its code and takes them out again.
#[test]
fn links_change_while_another_thread_runs_the_code() {
    codegen::host::link();
    const BYTES: usize = 200_000;
    let spec = Spec {
        producers: Parties::One,
        consumers: Parties::One,
        size: 256,
        several_cpus: true,
        strings: false,
    };
    let (from, to) = (
        create::<ByteQueue>(spec).unwrap(),
        create::<ByteQueue>(spec).unwrap(),
    );
    let pump = create::<Pump>(()).unwrap();
    link(&pump, pump::INPUT, q_get(&from)).unwrap();
    link(&pump, pump::OUTPUT, q_put(&to)).unwrap();
    let filters = [(); 2].map(|()| create::<Serializer>(()).unwrap());
    let gauge = create::<Gauge>(true).unwrap();
    let done = AtomicBool::new(false);
    let (changes, passed) = (AtomicUsize::new(0), AtomicUsize::new(0));
    // A routine called through a word is retired after a grace period, which no thread here passes.
    let _grace = codegen::host::hold();
    thread::scope(|s| {
        s.spawn(|| {
            let mut moved = 0;
            while moved < BYTES {
                // Never more than fits: the pump throws away what its output refuses.
                let room = 256 - to.len();
                match pump.run(room) {
                    0 => thread::yield_now(),
                    count => moved += count,
                }
            }
        });
        s.spawn(|| {
            let mut random = Random::new(4);
            // A replaced routine stays to the end of the test, so this cannot go on for ever. The changes are
            // spread over all bytes.
            while !done.load(Ordering::Relaxed) && changes.load(Ordering::Relaxed) < 400 {
                if passed.load(Ordering::Relaxed) < changes.load(Ordering::Relaxed) * (BYTES / 400)
                {
                    thread::yield_now();
                    continue;
                }
                let [one, other] = &filters;
                let mut last = q_put(&to);
                if random.below(2) == 0 {
                    link(one, serializer::TARGET, last).unwrap();
                    last = serializer::enter(one);
                }
                if random.below(2) == 0 {
                    link(other, serializer::TARGET, last).unwrap();
                    last = serializer::enter(other);
                }
                link(&pump, pump::OUTPUT, last).unwrap();
                // Deep in the pump's code.
                match random.below(2) {
                    0 => drop(link(&to, queue::Q_EMPTY_1, gauge::count(&gauge)).unwrap()),
                    _ => unlink(&to, queue::Q_EMPTY_1).unwrap(),
                }
                changes.fetch_add(1, Ordering::Relaxed);
            }
        });
        let (mut put, mut got) = (0, 0);
        while got < BYTES {
            // On a busy machine the changes begin late.
            while got == BYTES / 2 && changes.load(Ordering::Relaxed) <= 20 {
                thread::yield_now();
            }
            while put < BYTES && from.put(put as u8) == 1 {
                put += 1;
            }
            match to.get() {
                Some(byte) => {
                    assert_eq!(byte, got as u8, "byte {got}");
                    got += 1;
                    passed.store(got, Ordering::Relaxed);
                }
                None => thread::yield_now(),
            }
        }
        done.store(true, Ordering::Relaxed);
    });
    assert!(changes.load(Ordering::Relaxed) > 20 && gauge.read() > 0);
}

/// The routine before the present one is plugged again when the same is asked for, unless a link has changed.
#[test]
fn a_descriptors_former_routine_is_used_again() {
    let env = leaked(1, UserAccess::Host);
    let queue = create::<ByteQueue>(Spec {
        producers: Parties::Many,
        consumers: Parties::One,
        size: 256,
        several_cpus: false,
        strings: true,
    })
    .unwrap();
    let from = cook_tty_out::Quaject::present().unwrap();
    link(&from, cook_tty_out::RAW_WRITE, q_put_string(&queue)).unwrap();
    let composed = Composed::new("test", nr::WRITE, env).unwrap();
    let follow = |rule: Option<Rule>| {
        let recipe = rule.map(|rule| {
            Arc::new(TtyWriteRecipe {
                from: from.clone(),
                wakes: Wakes::Nobody,
                rule,
                env,
            }) as Arc<_>
        });
        composed.follow(recipe).unwrap();
        composed.plugged().map(|routine| routine.entry())
    };
    let plain = follow(Some(Rule::Plain));
    assert_eq!(follow(Some(Rule::Plain)), plain);
    let newlines = follow(Some(Rule::Newlines));
    assert_ne!(newlines, plain);
    assert_eq!(follow(Some(Rule::Plain)), plain);
    assert_eq!(follow(Some(Rule::Newlines)), newlines);
    assert_eq!(follow(None), None);
    assert_eq!(follow(None), None);
    assert_eq!(follow(Some(Rule::Newlines)), newlines);

    follow(Some(Rule::Plain));
    let gauge = create::<Gauge>(false).unwrap();
    link(&queue, queue::Q_EMPTY_1, gauge::count(&gauge)).unwrap();
    let counts = || listing(&composed.plugged().unwrap()).contains("inc qword");
    assert!(counts(), "the present one has the new link");
    follow(Some(Rule::Newlines));
    assert!(counts(), "and the former one, too");
    unlink(&queue, queue::Q_EMPTY_1).unwrap();
    assert!(!counts());
    follow(Some(Rule::Plain));
    assert!(!counts());
}

/// A link deep in a descriptor's routine changes under its table, while a thread calls it.
#[test]
fn a_descriptors_routine_follows_the_links_below_it() {
    let env = leaked(2, UserAccess::Host);
    let queue = create::<ByteQueue>(Spec {
        producers: Parties::Many,
        consumers: Parties::One,
        size: 256,
        several_cpus: true,
        strings: true,
    })
    .unwrap();
    let from = cook_tty_out::Quaject::present().unwrap();
    let composed = Composed::new("test", nr::WRITE, env).unwrap();
    let recipe = |rule| {
        Some(Arc::new(TtyWriteRecipe {
            from: from.clone(),
            wakes: Wakes::Nobody,
            rule,
            env,
        }) as Arc<_>)
    };
    let unlinked = composed.follow(recipe(Rule::Plain));
    assert_eq!(unlinked, Err(RoutineError::BadSpec), "nothing is linked");
    link(&from, cook_tty_out::RAW_WRITE, q_put_string(&queue)).unwrap();
    composed.follow(recipe(Rule::Plain)).unwrap();
    let gauge = create::<Gauge>(true).unwrap();
    let counts = || listing(&composed.plugged().unwrap()).contains("lock inc");
    assert!(!counts());
    link(&queue, queue::Q_EMPTY_1, gauge::count(&gauge)).unwrap();
    assert!(counts(), "the gauge stands in the outermost code");
    unlink(&queue, queue::Q_EMPTY_1).unwrap();
    assert!(!counts());

    let done = AtomicBool::new(false);
    let table = composed.routine().clone();
    let grace = codegen::host::hold();
    thread::scope(|s| {
        s.spawn(|| {
            let mut user = UserMemory::new(4096);
            user.bytes()[..100].copy_from_slice(&core::array::from_fn::<u8, 100, _>(|n| n as u8));
            let mut wrote = 0;
            while wrote < 3000 {
                match call(&table, [1, user.at(0), 100]) {
                    Ended::With(100) => wrote += 1,
                    Ended::With(other) => panic!("{other} bytes of 100"),
                    Ended::Slowly(_) => thread::yield_now(),
                }
            }
        });
        s.spawn(|| {
            for _ in 0..400 {
                if done.load(Ordering::Relaxed) {
                    break;
                }
                link(&queue, queue::Q_EMPTY_1, gauge::count(&gauge)).unwrap();
                composed.follow(recipe(Rule::Newlines)).unwrap();
                unlink(&queue, queue::Q_EMPTY_1).unwrap();
                composed.follow(recipe(Rule::Plain)).unwrap();
            }
        });
        let (mut got, mut piece) = (0usize, [0; 60]);
        while got < 300_000 {
            let count = queue.read(&mut piece);
            for byte in &piece[..count] {
                // A newline may have gained its carriage return.
                let wanted = (got % 100) as u8;
                if *byte == b'\r' && wanted == b'\n' {
                    continue;
                }
                assert_eq!(*byte, wanted);
                got += 1;
            }
            if count == 0 {
                thread::yield_now();
            }
        }
        done.store(true, Ordering::Relaxed);
    });
    drop(grace);
    let weak = Arc::downgrade(&composed);
    drop((composed, table));
    assert!(weak.upgrade().is_none());
    link(&queue, queue::Q_EMPTY_1, gauge::count(&gauge)).unwrap();
    assert!(queue.header().site(queue::Q_EMPTY_1.number(), 1).is_none());
}

#[test]
fn what_does_not_fit_by_name_is_refused() {
    codegen::host::link();
    let monitor = || create::<Serializer>(()).unwrap();
    let (pump, one) = (create::<Pump>(()).unwrap(), monitor());
    let queue = byte_queue(&mut Random::new(1), 64);
    let refused = |refused: Refused| Errno::from(refused);
    assert_eq!(
        link_by_name(&pump, "fill", &queue, "Q_put").map_err(refused),
        Err(Errno::ENOENT)
    );
    assert_eq!(
        link_by_name(&pump, "run", &queue, "Q_put").map_err(refused),
        Err(Errno::ENOENT),
        "a callentry is linked to nothing"
    );
    assert_eq!(
        link_by_name(&pump, "output", &queue, "count").map_err(refused),
        Err(Errno::ENOENT)
    );
    assert_eq!(
        link_by_name(&pump, "output", &queue, "Q_full").map_err(refused),
        Err(Errno::ENOENT)
    );
    assert_eq!(
        link_by_name(&pump, "output", &queue, "Q_get").map_err(refused),
        Err(Errno::EPROTOTYPE)
    );
    link_by_name(&pump, "output", &one, "enter").unwrap();
    link_by_name(&one, "target", &queue, "Q_put").unwrap();
    queue.put(3);
    link_by_name(&pump, "input", &queue, "Q_get").unwrap();
    assert_eq!((pump.run(5), queue.get()), (5, Some(3)));
    unlink_by_name(&one, "target").unwrap();
    assert_eq!(one.enter(4), 0);

    let cycle = Err(Errno::ELOOP);
    assert_eq!(
        link_by_name(&one, "target", &one, "enter").map_err(refused),
        cycle
    );
    let two = monitor();
    link_by_name(&one, "target", &two, "enter").unwrap();
    assert_eq!(
        link_by_name(&two, "target", &one, "enter").map_err(refused),
        cycle
    );
    assert_eq!(one.enter(4), 0, "the links are as they were");
}

#[test]
fn a_chain_is_collapsed_to_a_depth_and_refused_beyond_a_length() {
    codegen::host::link();
    let too_long = Err(RoutineError::TooLong);
    for upwards in [true, false] {
        let monitors: Vec<_> = (0..=LONGEST)
            .map(|_| create::<Serializer>(()).unwrap())
            .collect();
        let join = |at: usize| {
            let to = serializer::enter(&monitors[at + 1]);
            link(&monitors[at], serializer::TARGET, to)
        };
        let last = usize::from(LONGEST);
        if upwards {
            (0..last).rev().for_each(|at| assert!(join(at).is_ok()));
        } else {
            (0..last).for_each(|at| assert!(join(at).is_ok()));
        }
        let queue = byte_queue(&mut Random::new(1), 64);
        let end = link(&monitors[last], serializer::TARGET, q_put(&queue));
        assert_eq!(end.map(drop), too_long);
        unlink(&monitors[last - 1], serializer::TARGET).unwrap();
        link(&monitors[last - 1], serializer::TARGET, q_put(&queue)).unwrap();
        assert_eq!((monitors[0].enter(9), queue.get()), (1, Some(9)));
        // How deep the last link stands in line: not in the code of all.
        let sites = (0..).map_while(|at| {
            monitors[last - 1]
                .header()
                .site(serializer::TARGET.number(), at)
        });
        assert!((2..=usize::from(DEPTH) + 1).contains(&sites.count()));
    }
}
