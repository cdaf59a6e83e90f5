//! Drafts and templates whose questions for memory are refused, one after the other: each says that there is
//! no room, and none panics.
#![cfg(not(miri))]

use codegen::{Class, Draft, Hole, OutOfCode, Sealed, Template, dynasm, fault_injection, host};
use std::cell::Cell;
use std::sync::{Mutex, PoisonError};

thread_local! {
    /// The question that is refused when it is down to 1; 0: none.
    static LEFT: Cell<u32> = const { Cell::new(0) };
}

fn refuses() -> bool {
    LEFT.with(|left| {
        let now = left.get();
        left.set(now.saturating_sub(1));
        now == 1
    })
}

/// Drafts use the same memory in turn: these tests do, too.
static ALONE: Mutex<()> = Mutex::new(());

/// Makes one with the first question refused, then the second, until there is no more; how many there are.
/// Each draft begins without memory of its own, unless `kept` has made one before.
fn each_refused(make: impl Fn() -> Result<Sealed, OutOfCode>, kept: bool) -> u32 {
    host::link();
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    fault_injection::link(refuses);
    for n in 1.. {
        codegen::trim();
        if kept {
            make().expect("room");
        }
        LEFT.set(n);
        let made = make();
        let reached = LEFT.replace(0) == 0;
        assert_eq!(made.is_err(), reached, "question {n}");
        if !reached {
            return n - 1;
        }
    }
    0
}

/// Something of everything: labels of each kind, more of each than a draft has room for by itself, faults,
/// and more bytes than it begins with.
fn generate(d: &mut Draft, value: i32) {
    let labels: Vec<_> = (0..20).map(|_| d.label()).collect();
    for label in &labels {
        dynasm!(d ; .arch x64 ; jnz BYTE =>*label ; jz =>*label ; mov eax, value ; mov rcx, QWORD 0x1234_5678_9abc);
        let fixup = d.label();
        d.fault_begin();
        dynasm!(d ; .arch x64 ; mov eax, [rdi]);
        d.fault_end(fixup);
        d.bind(*label);
        d.bind(fixup);
    }
    for _ in 0..10 {
        dynasm!(d ; .arch x64 ; back: ; jmp >on ; jmp <back ; on: ; jmp ->end);
        d.call_abs(0x1000_0000);
    }
    d.align(64, 0x90);
    dynasm!(d ; .arch x64 ; ->end: ; ret);
}

static CLASS: Class = Class::new("refused");

#[test]
fn a_draft_without_memory_says_so() {
    let make = || {
        let mut draft = Draft::new(&CLASS, "draft");
        generate(&mut draft, 7);
        draft.seal()
    };
    let asked = each_refused(make, false);
    assert!(asked > 10, "{asked}");
    // The record and the fault table, at most a page: the next draft has the memory of the one before.
    let asked = each_refused(make, true);
    assert!((1..6).contains(&asked), "{asked}");
}

#[test]
fn a_template_without_memory_says_so() {
    fn body(d: &mut Draft, &[value]: &[Hole; 1]) {
        generate(d, value.imm32());
    }
    let asked = each_refused(
        || Template::new(&CLASS, body).instantiate("template", 0, &[7]),
        false,
    );
    assert!(asked > 10, "{asked}");
}
