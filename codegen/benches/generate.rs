//! What generating a routine costs: by template and directly, in nanoseconds and instructions.
//!
//! `cargo bench -p codegen --bench generate`

mod count;

use codegen::{Class, Draft, Hole, Routine, Sealed, Template, dynasm, host};
use std::time::Instant;

static CLASS: Class = Class::new("bench");

/// About what the read routine of a pipe looks like: six constants, two short loops, a fault range.
fn read(d: &mut Draft, [head, tail, buffer, mask, slow, wake]: &[Hole; 6]) {
    let fix = d.label();
    dynasm!(d
        ; .arch x64
        ; test rsi, rsi
        ; js =>fix
        ; mov eax, [head.imm32()]
        ; mov r8d, [tail.imm32()]
        ; sub r8d, eax
        ; jz =>fix
        ; cmp rdx, r8
        ; cmovb r8, rdx
        ; cmp DWORD [wake.imm32()], 0
        ; jne =>fix
        ; push rcx
        ; push rsi
        ; push rdi
        ; mov rdi, rsi
        ; and eax, mask.imm32()
        ; lea rsi, [rax + buffer.imm32()]
        ; mov ecx, r8d
        ; shr ecx, 3
    );
    d.fault_begin();
    dynasm!(d ; .arch x64 ; stac ; rep movsq ; mov ecx, r8d ; and ecx, 7 ; rep movsb ; clac);
    d.fault_end(fix);
    dynasm!(d
        ; .arch x64
        ; pop rdi
        ; pop rsi
        ; pop rcx
        ; lock add [head.imm32()], r8d
        ; mov rax, r8
        ; ret
        ; =>fix
        ; mov eax, 0
        ; jmp extern *slow
    );
}
static READ: Template<6> = Template::new(&CLASS, read);

fn values() -> [i64; 6] {
    [
        0x1000,
        0x1004,
        0x2000,
        0xfff,
        host_target as fn() as usize as i64,
        0x1010,
    ]
}
fn host_target() {}

fn by_template() -> Sealed {
    READ.instantiate(("read", 1), 0, &values()).expect("room")
}
fn directly() -> Sealed {
    READ.generate(("read", 1), 0, &values()).expect("room")
}
fn handled() -> Routine<fn()> {
    // SAFETY: never called.
    unsafe { Routine::from(by_template()) }
}

fn ns(work: impl Fn()) -> f64 {
    let mut best = f64::MAX;
    for _ in 0..20 {
        let start = Instant::now();
        (0..10_000).for_each(|_| work());
        best = best.min(start.elapsed().as_nanos() as f64 / 10_000.0);
    }
    best
}

fn main() {
    host::link();
    let kept = by_template();
    println!("a routine of {} bytes, made and freed:", kept.bytes().len());
    type Way = (&'static str, fn());
    let ways: [Way; 3] = [
        ("template, copied and patched", || drop(by_template())),
        ("draft, generated and sealed", || drop(directly())),
        ("template, with a counted handle", || {
            drop(handled().clone())
        }),
    ];
    for (name, work) in ways {
        work();
        let count = count::instructions(work).map_or("?".into(), |n| n.to_string());
        println!("{name:34} {:7.1} ns  {count:>6} instructions", ns(work));
    }
    let only = count::instructions(|| core::mem::forget(by_template())).unwrap_or(0);
    println!("{:34} {only:>26} instructions", "template, not freed");
    let only = count::instructions(|| core::mem::forget(directly())).unwrap_or(0);
    println!("{:34} {only:>26} instructions", "draft, not freed");
}
