//! The code space: room, reuse, exhaustion, lookups, counts. One test: the space is shared by the whole
//! process.
#![cfg(not(miri))]

use codegen::{BLOCK, Class, Draft, Hole, OutOfCode, Routine, Template, dynasm, host};
use std::collections::HashMap;

static CLASS: Class = Class::new("space");
type F = extern "sysv64" fn() -> u64;

fn routine(value: i32, padding: usize) -> Result<Routine<F>, OutOfCode> {
    let mut d = Draft::new(&CLASS, ("value", value as u64));
    dynasm!(d ; .arch x64 ; mov eax, value ; jmp >end);
    (0..padding).for_each(|_| dynasm!(d ; .arch x64 ; nop));
    dynasm!(d ; .arch x64 ; end: ; ret);
    // SAFETY: the code takes nothing and returns an integer.
    Ok(unsafe { Routine::from(d.seal()?) })
}

#[test]
fn the_code_space() {
    assert_eq!(routine(1, 0), Err(OutOfCode), "nothing is linked yet");
    host::link();
    sizes_and_reuse();
    grace_period();
    classes_know_what_their_routines_cost();
    faults();
    random_life();
    exhaustion();
    threads();
    let left = codegen::stats();
    assert_eq!((left.images, left.bytes, CLASS.live()), (0, 0, 0));
    codegen::trim();
    assert_eq!(codegen::stats().committed, 0);
}

fn sizes_and_reuse() {
    let mut kept = Vec::new();
    for padding in [
        0, 1, 50, 60, 64, 200, 1000, 4000, 4086, 4090, 5000, 9000, 20_000, 100_000,
    ] {
        let r = routine(padding as i32, padding).expect("room");
        assert_eq!(r.function()(), padding as u64);
        assert_eq!(r.entry() % BLOCK, 0);
        // Found by every address in it, and by none beside it.
        for at in [0, 1, r.bytes().len() / 2, r.bytes().len() - 1] {
            assert_eq!(
                codegen::image_at(r.entry() + at).expect("found").entry,
                r.entry(),
                "{padding} {at}"
            );
        }
        assert!(
            codegen::image_at(r.entry() + r.bytes().len()).is_none_or(|i| i.entry != r.entry())
        );
        assert!(codegen::image_at(r.entry() - 1).is_none_or(|i| i.entry != r.entry()));
        kept.push(r);
    }
    let mut seen = Vec::new();
    codegen::for_each(|i| seen.push(*i));
    assert_eq!(seen.len(), kept.len());
    assert!(seen.windows(2).all(|w| w[0].entry + w[0].len <= w[1].entry));
    assert!(
        routine(0, 300_000).is_err(),
        "larger than the largest image"
    );
    let committed = codegen::stats().committed;
    drop(kept);
    assert_eq!(codegen::stats().bytes, 0);
    for n in 0..1000 {
        assert_eq!(routine(n, 500).expect("room").function()(), n as u64);
    }
    assert_eq!(
        codegen::stats().committed,
        committed,
        "freed room is used again"
    );
}

fn grace_period() {
    let hold = host::hold();
    let r = routine(7, 0).expect("room");
    let also = r.clone();
    let entry = r.entry();
    assert!(r.is_shared());
    drop(r);
    assert!(!also.is_shared());
    let f = also.function();
    drop(also);
    // Unpublished, but a CPU inside may still run it and fault in it.
    assert_eq!(f(), 7);
    assert_eq!(codegen::image_at(entry).expect("still known").references, 0);
    assert_ne!(routine(8, 0).expect("room").entry(), entry);
    drop(hold);
    assert!(codegen::image_at(entry).is_none());
    what_code_names_outlives_it();
}

fn classes_know_what_their_routines_cost() {
    let before = CLASS.made();
    drop(routine(1, 0).expect("room"));
    assert_eq!(CLASS.made(), before + 1);
    let mut seen = 0;
    codegen::for_each_class(|class| seen += usize::from(std::ptr::eq(class, &CLASS)));
    assert_eq!(seen, 1, "a class is listed once, however much it makes");
    assert!(CLASS.mean_ticks() > 0);
}

fn what_code_names_outlives_it() {
    let data = std::sync::Arc::new(5u64);
    let mut d = Draft::new(&CLASS, "kept");
    dynasm!(d ; .arch x64 ; mov rax, QWORD std::sync::Arc::as_ptr(&data) as i64 ; mov rax, [rax] ; ret);
    let sealed = d.seal().expect("room");
    // SAFETY: the code takes nothing, returns an integer, and keeps what it reads.
    let r: Routine<F> = unsafe { Routine::from(sealed) }.keeping(data.clone());
    let (f, weak) = (r.function(), std::sync::Arc::downgrade(&data));
    drop(data);
    let hold = host::hold();
    drop(r);
    assert_eq!(f(), 5, "the data lives through the grace period");
    drop(hold);
    assert!(weak.upgrade().is_none(), "and not longer");
}

fn faults() {
    let mut d = Draft::new(&CLASS, "faults");
    let (first, second) = (d.label(), d.label());
    dynasm!(d ; .arch x64 ; nop);
    d.fault_begin();
    dynasm!(d ; .arch x64 ; mov al, [rdi]);
    d.fault_end(first);
    dynasm!(d ; .arch x64 ; nop);
    d.fault_begin();
    dynasm!(d ; .arch x64 ; mov [rdi], al ; nop);
    d.fault_end(second);
    dynasm!(d ; .arch x64 ; =>second ; ret ; =>first ; ud2);
    let sealed = d.seal().expect("room");
    let at = |offset: usize| codegen::fixup(sealed.entry() + offset).map(|f| f - sealed.entry());
    let expected = [
        None,
        Some(8),
        Some(8),
        None,
        Some(7),
        Some(7),
        Some(7),
        None,
        None,
        None,
        None,
    ];
    assert_eq!((0..11).map(at).collect::<Vec<_>>(), expected);
    assert_eq!(codegen::fixup(0), None);
    assert_eq!(codegen::fixup(sealed.entry() - 1), None);
}

/// Many routines of random sizes live and die; each always says its own number.
fn random_life() {
    let mut seed = 0x2545_f491_4f6c_dd1du64;
    let mut random = move |n: u64| {
        seed ^= seed << 13;
        seed ^= seed >> 7;
        seed ^= seed << 17;
        seed % n
    };
    let mut live: HashMap<usize, (u64, Routine<F>)> = HashMap::new();
    for n in 0..4000 {
        if random(5) < 3 {
            let padding = if random(20) == 0 {
                random(9000)
            } else {
                random(400)
            };
            let r = routine(n, padding as usize).expect("room");
            assert!(
                live.insert(r.entry(), (n as u64, r)).is_none(),
                "the same place twice"
            );
        } else if let Some(&key) = live.keys().nth(random(live.len().max(1) as u64) as usize) {
            live.remove(&key);
        }
        if n % 100 == 0 {
            for (entry, (value, r)) in &live {
                assert_eq!(r.function()(), *value);
                assert_eq!(
                    codegen::image_at(entry + 1).expect("known").name.number,
                    *value
                );
            }
            let mut count = 0;
            codegen::for_each(|_| count += 1);
            assert_eq!(count, live.len());
        }
    }
}

fn exhaustion() {
    codegen::trim();
    host::set_budget(3);
    let mut live = Vec::new();
    let full = loop {
        match routine(live.len() as i32, 100) {
            Ok(r) => live.push(r),
            Err(e) => break e,
        }
    };
    assert_eq!(full, OutOfCode);
    assert_eq!(live.len(), 3 * (64 / 2));
    assert!(routine(0, 9000).is_err());
    // The remaining routines still run, and room that comes back is room.
    live.swap_remove(5);
    live.push(routine(5, 100).expect("the freed place"));
    assert!(live.iter().any(|r| r.function()() == 5));
    drop(live);
    host::set_budget(usize::MAX);
    // Half-committed runs are given back whole.
    codegen::trim();
    host::set_budget(2);
    assert!(routine(0, 12_000).is_err());
    assert_eq!(codegen::stats().bytes, 0);
    host::set_budget(usize::MAX);
    assert_eq!(routine(3, 12_000).expect("room").function()(), 3);
}

fn count(d: &mut Draft, [add, target]: &[Hole; 2]) {
    dynasm!(d ; .arch x64 ; mov rax, QWORD add.imm64() ; add rax, add.imm32() + 8 ; jmp extern *target);
}
static COUNT: Template<2> = Template::new(&CLASS, count);

/// Generation, use, listing and freeing from several threads at once.
fn threads() {
    let end = routine(1, 0).expect("room");
    let mut d = Draft::new(&CLASS, "end");
    dynasm!(d ; .arch x64 ; ret);
    // SAFETY: `ret` alone keeps any contract.
    let stop: Routine<F> = unsafe { Routine::from(d.seal().expect("room")) };
    std::thread::scope(|s| {
        for t in 0..4i64 {
            let (end, stop) = (&end, &stop);
            s.spawn(move || {
                let mut live = Vec::new();
                for n in 0..2000i64 {
                    let value = 10_000 * t + n;
                    let sealed = COUNT
                        .instantiate(("count", n as u64), t as u64, &[value, stop.entry() as i64])
                        .expect("room");
                    // SAFETY: the template takes nothing and returns an integer.
                    let r: Routine<F> = unsafe { Routine::from(sealed) };
                    assert_eq!(r.function()(), 2 * value as u64 + 8);
                    if n % 3 == 0 {
                        live.push((value, r));
                    }
                    if live.len() > 20 {
                        let (value, r) = live.remove(7);
                        assert_eq!(r.function()(), 2 * value as u64 + 8);
                    }
                    if n % 100 == t {
                        codegen::for_each(|i| assert_eq!(i.class, "space"));
                        let mut text = String::new();
                        codegen::disassemble(end.entry(), &mut text, &|_, _| Ok(()))
                            .expect("alive")
                            .expect("written");
                        assert_eq!(text.lines().count(), 4);
                    }
                    if n % 500 == 0 {
                        codegen::trim();
                    }
                }
            });
        }
    });
}
