//! Switch code: kernel threads are switched natively on the host; the variants with privileged instructions
//! by their listing.

use super::*;
use crate::ring::ready::{End, ReadyRing};
use crate::tte::code::SwOut;
use crate::tte::detached;
use codegen::host::Low;
use core::sync::atomic::Ordering::Relaxed;
use std::cell::Cell;
use std::sync::atomic::AtomicU64;

#[repr(align(4096))]
#[expect(dead_code, reason = "memory to stand on")]
struct Stack([u64; 8192]);

/// A thread on the host: an entry, a stack, code.
struct Coroutine {
    tte: Low<Tte>,
    _stack: Low<Stack>,
    _code: SwitchCode,
}

impl Coroutine {
    fn new(body: extern "C" fn() -> !) -> Coroutine {
        codegen::host::link();
        let tte = detached();
        let stack = Low::new(Stack([0; 8192]));
        let top = stack.address() as usize + size_of::<Stack>() - StackBase::SIZE;
        let keys = Keys {
            tte: tte.address() as usize,
            stack_top: top,
            fpu_area: 0,
        };
        let code = SwitchCode::synthesize(SwitchKind::KERNEL, &keys, 1).unwrap();
        tte.publish(SwitchKind::KERNEL, &code);
        // As `spawn::first_frame`: six registers, where to return, and the alignment of a called function.
        let rsp = top - 8 * 9;
        // SAFETY: inside the stack.
        unsafe { (rsp as *mut [u64; 7]).write([0, 0, 0, 0, 0, 0, body as *const () as u64]) };
        tte.rsp.store(rsp as u64, Relaxed);
        Coroutine {
            tte,
            _stack: stack,
            _code: code,
        }
    }
}

fn cpu() -> &'static Cpu {
    machine::cpu::this_cpu()
}

fn current() -> &'static Tte {
    // SAFETY: set by `sw_in` and by the tests.
    unsafe { &*(cpu().current.load(Relaxed) as *const Tte) }
}

fn switch() {
    let out = current().sw_out.load(Relaxed);
    // SAFETY: a thread's `sw_out`.
    let out = unsafe { core::mem::transmute::<usize, SwOut>(out) };
    out(cpu());
}

static TRACE: [AtomicU64; 8] = [const { AtomicU64::new(0) }; 8];

thread_local! { static STEP: Cell<u64> = const { Cell::new(0) }; }

fn step(who: u64) -> u64 {
    let at = STEP.get();
    STEP.set(at + 1);
    if at < 8 {
        TRACE[at as usize].store(who, Relaxed);
    }
    at
}

extern "C" fn first() -> ! {
    loop {
        // Values that must survive in preserved registers or on the stack.
        let local = step(1) * 3;
        switch();
        std::hint::black_box(local);
    }
}

extern "C" fn second() -> ! {
    loop {
        step(2);
        switch();
    }
}

/// The test thread itself, and two others in its ring.
#[test]
fn threads_follow_each_other_round_the_ring() {
    let (a, b) = (Coroutine::new(first), Coroutine::new(second));
    // The test's own entry gets its stack pointer from its first `sw_out`.
    let me = Coroutine::new(first);
    let ring = ReadyRing::new(0);
    ring.idle.store(me.tte.as_ptr(), Relaxed);
    cpu().current.store(me.tte.address() as usize, Relaxed);
    ring.insert(&me.tte, &me.tte, End::Back);
    ring.insert(&me.tte, &a.tte, End::Back);
    ring.insert(&me.tte, &b.tte, End::Back);
    for round in 1..=3u64 {
        switch();
        assert_eq!(STEP.get(), 2 * round);
        assert!(current().is(&me.tte));
    }
    let trace = [0, 1, 2, 3, 4, 5].map(|i: usize| TRACE[i].load(Relaxed));
    assert_eq!(trace, [1, 2, 1, 2, 1, 2]);
    // One blocks: the ring closes behind it.
    ring.remove(&me.tte, &a.tte);
    switch();
    assert_eq!(TRACE[6].load(Relaxed), 2);
    // Clocks: stopped ones count up, the running one counts from its switch-in.
    assert!((a.tte.time.load(Relaxed) as i64) >= 0);
    assert!((me.tte.time.load(Relaxed) as i64) < 0);
}

fn listing(kind: SwitchKind) -> (String, SwitchCode) {
    codegen::host::link();
    let keys = Keys {
        tte: 0x10_0000,
        stack_top: 0x20_0000,
        fpu_area: 0x30_0000,
    };
    // Exits within reach that are never taken.
    let exit = SwitchCode::synthesize(SwitchKind::KERNEL, &keys, 1).unwrap();
    let exits = [exit.sw_in(), exit.sw_out()];
    let code = SwitchCode::synthesize_variant(kind, kind, &keys, exits, 1).unwrap();
    let mut text = String::new();
    codegen::disassemble(code.image.entry(), &mut text, &|_, _| Ok(()))
        .expect("a routine")
        .expect("a string takes everything");
    (text, code)
}

fn count(text: &str, word: &str) -> usize {
    text.matches(word).count()
}

#[test]
fn every_variant_has_its_parts_and_no_others() {
    for base in [
        SwitchKind::KERNEL,
        SwitchKind::USER,
        SwitchKind::USER.with(SwitchKind::FP),
    ] {
        for machine in [
            0,
            SwitchKind::FSGSBASE,
            SwitchKind::FSGSBASE | SwitchKind::XSAVE | SwitchKind::XSAVEOPT,
        ] {
            let user = base.contains(SwitchKind::USER);
            let fp = base.contains(SwitchKind::FP);
            let keep = if fp {
                machine
            } else {
                machine & SwitchKind::FSGSBASE
            };
            let kind = SwitchKind(base.0 | if user { keep } else { 0 });
            let (text, code) = listing(kind);
            assert!(code.sw_in() > code.sw_in_mm() && code.sw_out() > code.sw_in());
            // A program's thread has the way in and the way out twice.
            let ways = 1 + usize::from(user);
            assert_eq!(count(&text, "cr3"), ways, "{text}");
            // FS is loaded and saved; GS is looked at, loaded, saved and cleared.
            let (quick, slow) = (5 * ways * user as usize, 3 * ways * user as usize);
            let fast = kind.0 & SwitchKind::FSGSBASE != 0;
            assert_eq!(
                count(&text, "sbase"),
                if fast { quick } else { 0 },
                "{text}"
            );
            assert_eq!(count(&text, "wrmsr"), if fast { 0 } else { slow }, "{text}");
            assert_eq!(count(&text, "clts"), ways * fp as usize, "{text}");
            let (save, load) = match (fp, kind.0 & SwitchKind::XSAVE != 0) {
                (false, _) => (0, 0),
                (true, true) => (count(&text, "  xsaveopt"), count(&text, "  xrstor")),
                (true, false) => (count(&text, "  fxsave"), count(&text, "  fxrstor")),
            };
            assert_eq!(
                (save, load),
                (ways * fp as usize, ways * fp as usize),
                "{text}"
            );
        }
    }
}

/// How many instructions there are from the one at `from` to the first with `end` in it.
fn straight(text: &str, from: usize, end: &str) -> usize {
    let offset = |line: &str| usize::from_str_radix(line.split_whitespace().next()?, 16).ok();
    let there = |line: &&str| offset(line).is_some_and(|at| at >= from);
    let way = text.lines().filter(there);
    way.take_while(|line| !line.contains(end)).count() + 1
}

/// The goals of the chapter: at most 67 instructions within a space, 90 across. The dispatcher takes seven to
/// find the call. They are without what is done about speculation.
#[test]
fn switches_are_short() {
    if codegen::harden::hardening().retpolines() {
        return;
    }
    let (text, _) = listing(SwitchKind::KERNEL);
    let kernel = text.lines().filter(|l| !l.trim().is_empty()).count();
    assert!(kernel <= 27, "{kernel} instructions in all three entries");
    let vectors = SwitchKind::FP.0 | SwitchKind::XSAVE | SwitchKind::XSAVEOPT;
    for (more, most) in [(0, 64), (vectors, 67)] {
        let (text, code) = listing(SwitchKind(SwitchKind::USER.0 | SwitchKind::FSGSBASE | more));
        let offset = |entry| entry - code.image.entry();
        let out = straight(&text, offset(code.yield_out()), "jmp");
        let back = straight(&text, offset(code.yield_in()), "  ret");
        assert!(7 + out + back <= most, "{out} out, {back} in\n{text}");
        let mm = straight(&text, offset(code.yield_in_mm()), "  ret");
        assert_eq!(mm, back + 3, "{text}");
    }
}

/// The links that lead to a thread follow it from one way to the other, and its own stays.
#[test]
fn a_thread_changes_its_way() {
    use crate::switch::yielding::{to_ordinary, to_yielding};
    let kind = SwitchKind(SwitchKind::USER.0 | SwitchKind::FSGSBASE);
    let (_, code) = listing(kind);
    let all = [
        code.sw_in_mm(),
        code.sw_in(),
        code.sw_out(),
        code.yield_in_mm(),
        code.yield_in(),
        code.yield_first(),
        code.yield_out(),
    ];
    assert!(all.is_sorted_by(|a, b| a < b), "{all:x?}");
    let (me, other, far) = (detached(), detached(), detached());
    let ring = ReadyRing::new(0);
    for (number, tte) in [&other, &far].into_iter().enumerate() {
        tte.sw_in.store(0x1000 * (number + 1), Relaxed);
        tte.sw_in_mm.store(0x1000 * (number + 1) + 1, Relaxed);
    }
    far.root.store(1, Relaxed);
    me.publish(kind, &code);
    ring.insert(&me, &me, End::Back);
    // Alone: its own link leads to it, too.
    to_yielding(&me, &code);
    assert_eq!(me.link.load(Relaxed), code.yield_in());
    to_ordinary(&me, &code);
    assert_eq!(me.link.load(Relaxed), code.sw_in());
    for (before, entries) in [
        (&other, [code.yield_in(), code.sw_in()]),
        (&far, [code.yield_in_mm(), code.sw_in_mm()]),
    ] {
        ring.insert(&me, before, End::Back);
        to_yielding(&me, &code);
        assert_eq!(before.link.load(Relaxed), entries[0]);
        assert_eq!(me.yielding.load(Relaxed), code.yield_out());
        to_ordinary(&me, &code);
        assert_eq!(before.link.load(Relaxed), entries[1]);
        assert_eq!(me.link.load(Relaxed), 0x1000);
        assert_eq!(me.yielding.load(Relaxed), code.yield_first());
    }
    // Out of the ring nothing leads to it.
    ring.remove(&me, &me);
    to_yielding(&me, &code);
    assert_eq!(far.link.load(Relaxed), 0x1001);
}

/// A thread that is alone need not switch: back in the ordinary way it checks first. A thread that is already
/// in that way, or has no other way, stays.
#[test]
fn who_is_left_alone_changes_back() {
    use crate::switch::yielding::{left_alone, to_yielding};
    let kind = SwitchKind(SwitchKind::USER.0 | SwitchKind::FSGSBASE);
    let (_, code) = listing(kind);
    let me = detached();
    let ring = ReadyRing::new(0);
    me.publish(kind, &code);
    ring.insert(&me, &me, End::Back);
    to_yielding(&me, &code);
    let (sw_in, yield_first) = (code.sw_in(), code.yield_first());
    // SAFETY: no other thread has the entry.
    unsafe { me.parts() }.switch = Some(code);
    for _ in 0..2 {
        left_alone(&me);
        assert_eq!(me.link.load(Relaxed), sw_in);
        assert_eq!(me.yielding.load(Relaxed), yield_first);
    }
    let kernel = detached();
    kernel.sw_out.store(1, Relaxed);
    left_alone(&kernel);
    assert_eq!(kernel.sw_out.load(Relaxed), 1);
}
