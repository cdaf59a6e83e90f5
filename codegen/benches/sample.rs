//! A routine of ordinary size to generate: about what the read routine of a pipe looks like.

use codegen::{Class, Draft, Hole, Sealed, Template, dynasm};

static CLASS: Class = Class::new("bench");

/// Six constants, two short loops, a fault range.
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
        target as fn() as usize as i64,
        0x1010,
    ]
}
fn target() {}

/// Copied from the template and patched.
pub fn by_template() -> Sealed {
    READ.instantiate(("read", 1), 0, &values()).expect("room")
}

/// Emitted by the generator and sealed.
pub fn directly() -> Sealed {
    READ.generate(("read", 1), 0, &values()).expect("room")
}
