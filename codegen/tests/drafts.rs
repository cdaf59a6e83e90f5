//! Exact bytes, labels, listings: what a draft becomes.
#![cfg(not(miri))]

use codegen::harden;
use codegen::idioms::{Reg, constant, jump_through};
use codegen::{Class, Draft, Routine, disassemble, disassemble_bytes, dynasm, host};

static CLASS: Class = Class::new("test");

fn draft() -> Draft {
    host::link();
    Draft::new(&CLASS, "draft")
}

fn run(d: Draft) -> Routine<extern "sysv64" fn(u64, u64) -> u64> {
    // SAFETY: each test's code takes two integers and returns one.
    unsafe { Routine::from(d.seal().expect("sealed")) }
}

#[test]
fn constants_take_the_shortest_form() {
    for (value, bytes) in [
        (0, &[0x31, 0xc0][..]),
        (1, &[0xb8, 1, 0, 0, 0]),
        (0xffff_ffff, &[0xb8, 0xff, 0xff, 0xff, 0xff]),
        (-2i64 as u64, &[0x48, 0xc7, 0xc0, 0xfe, 0xff, 0xff, 0xff]),
        (
            0x1234_5678_9abc,
            &[0x48, 0xb8, 0xbc, 0x9a, 0x78, 0x56, 0x34, 0x12, 0, 0],
        ),
    ] {
        let mut d = draft();
        constant(&mut d, Reg::Rax, value);
        assert_eq!(d.bytes(), bytes, "{value:#x}");
        dynasm!(d ; .arch x64 ; ret);
        assert_eq!(run(d).function()(0, 0), value);
    }
    let mut d = draft();
    constant(&mut d, Reg::R9, 0);
    constant(&mut d, Reg::R12, 7);
    assert_eq!(d.bytes(), [0x45, 0x31, 0xc9, 0x41, 0xbc, 7, 0, 0, 0]);
}

#[test]
fn labels_of_every_kind() {
    let mut d = draft();
    let out = d.label();
    // Sum of 1..=rdi, leaving early with rsi when it is not zero.
    dynasm!(d
        ; .arch x64
        ; xor eax, eax
        ; test rsi, rsi
        ; jnz =>out
        ; again:
        ; test rdi, rdi
        ; jz BYTE >done
        ; add rax, rdi
        ; dec rdi
        ; jmp BYTE <again
        ; done:
        ; jmp ->end
        ; =>out
        ; mov rax, rsi
        ; ->end:
        ; ret
    );
    let r = run(d);
    assert_eq!(r.function()(10, 0), 55);
    assert_eq!(r.function()(10, 7), 7);
    assert_eq!(r.function()(0, 0), 0);
}

#[test]
fn a_local_name_may_be_used_again() {
    let mut d = draft();
    dynasm!(d ; .arch x64 ; xor eax, eax);
    for bit in 0..5 {
        dynasm!(d ; .arch x64 ; bt rdi, bit ; jnc BYTE >skip ; inc eax ; skip:);
    }
    dynasm!(d ; .arch x64 ; ret);
    assert_eq!(run(d).function()(0b110_1011, 0), 3);
}

extern "sysv64" fn thousand(x: u64) -> u64 {
    x + 1000
}

#[test]
fn absolute_calls_and_jumps_reach_the_program() {
    let mut d = draft();
    dynasm!(d ; .arch x64 ; sub rsp, 8 ; call extern thousand as *const () as usize ; add rsp, 8 ; mov rdi, rax);
    d.jmp_abs(thousand as *const () as usize);
    assert_eq!(run(d).function()(1, 0), 2001);
    let mut d = draft();
    dynasm!(d ; .arch x64 ; push rbx);
    d.call_abs(thousand as *const () as usize);
    dynasm!(d ; .arch x64 ; pop rbx ; ret);
    assert_eq!(run(d).function()(1, 0), 1001);
}

#[test]
fn addresses_of_labels() {
    let mut d = draft();
    let there = d.label();
    dynasm!(d ; .arch x64 ; lea rax, [=>there] ; jmp rax ; ud2 ; =>there ; mov eax, 9 ; ret);
    assert_eq!(run(d).function()(0, 0), 9);
}

#[test]
#[should_panic(expected = "not bound")]
fn an_unbound_label_is_the_generators_mistake() {
    let mut d = draft();
    let never = d.label();
    dynasm!(d ; .arch x64 ; jmp =>never);
    let _ = d.seal();
}

#[test]
#[should_panic(expected = "out of the reach")]
fn a_short_branch_must_reach() {
    let mut d = draft();
    dynasm!(d ; .arch x64 ; jmp BYTE >far);
    (0..200).for_each(|_| dynasm!(d ; .arch x64 ; nop));
    dynasm!(d ; .arch x64 ; far: ; ret);
}

#[test]
fn what_was_taken_back_waits_for_no_label() {
    let mut d = draft();
    let out = d.label();
    dynasm!(d ; .arch x64 ; mov rax, rdi);
    let mark = d.mark();
    dynasm!(d ; .arch x64 ; add rax, 1000 ; jz >near ; jmp =>out);
    d.rewind(mark);
    dynasm!(d ; .arch x64 ; add rax, 1 ; near: ; add rax, 2 ; =>out ; ret);
    let r = run(d);
    assert_eq!(r.bytes().len(), 3 + 4 + 4 + 1);
    assert_eq!(r.function()(10, 0), 13);
}

/// A ring of nodes that each add their own constant and go on to the next: the queue does the traversal.
#[test]
fn an_executable_data_structure() {
    use std::sync::atomic::{AtomicUsize, Ordering};
    let links: host::Low<[AtomicUsize; 4]> = host::Low::new([const { AtomicUsize::new(0) }; 4]);
    let word = |n: usize| links.address() + 8 * n as i32;
    let mut node = Vec::new();
    for n in 0..3 {
        let mut d = draft();
        dynasm!(d ; .arch x64 ; add rax, 10i32.pow(n as u32));
        jump_through(&mut d, word(n));
        node.push(run(d));
    }
    let mut d = draft();
    dynasm!(d ; .arch x64 ; ret);
    let end = run(d);
    let mut d = draft();
    constant(&mut d, Reg::Rax, 0);
    jump_through(&mut d, word(3));
    let start = run(d);
    let publish = |n: usize, to: usize| links[n].store(to, Ordering::Release);
    publish(3, node[0].entry());
    publish(0, node[1].entry());
    publish(1, node[2].entry());
    publish(2, end.entry());
    assert_eq!(start.function()(0, 0), 111);
    // Unlink the middle node: one word.
    publish(0, node[2].entry());
    assert_eq!(start.function()(0, 0), 101);
}

#[test]
fn a_guard_leaves_when_its_invariant_fails() {
    let word = host::Low::new(std::sync::atomic::AtomicU32::new(5));
    let mut d = draft();
    let (word_at, target) = (word.address(), thousand as *const () as i64);
    dynasm!(d ; .arch x64 ; cmp DWORD [word_at], 5 ; jne extern target);
    dynasm!(d ; .arch x64 ; mov rax, rdi ; ret);
    let r = run(d);
    assert_eq!(r.function()(1, 0), 1);
    word.store(6, std::sync::atomic::Ordering::Relaxed);
    assert_eq!(r.function()(1, 0), 1001);
}

#[test]
fn a_word_may_be_named_relatively_to_the_code() {
    let word = host::Low::new(std::sync::atomic::AtomicU64::new(5));
    let at = word.address();
    let mut d = draft();
    dynasm!(d ; .arch x64
        ; inc QWORD [extern at]
        // The address is relative to the end of the instruction, behind a constant.
        ; cmp DWORD [extern at], 6
        ; jne >other
        ; mov rax, [extern at]
        ; add rax, rdi
        ; ret
        ; other:
        ; xor eax, eax
        ; ret
    );
    let r = run(d);
    assert_eq!(r.function()(100, 0), 106);
    let mut text = String::new();
    disassemble_bytes(r.bytes(), r.entry(), &mut text, &|_, _| Ok(())).expect("written");
    let named = format!("; {at:#x}");
    let names = |line: &&str| line.contains("[rip + ") && line.ends_with(&named);
    assert_eq!(text.lines().filter(names).count(), 3, "{text}");
}

#[test]
fn listings_name_what_they_show() {
    let mut d = draft();
    d.owner(42);
    dynasm!(d ; .arch x64 ; mov eax, 1 ; test rdi, rdi ; jz BYTE >out ; mov eax, [0x1234] ; out: ; ret);
    let r = run(d);
    let mut text = String::new();
    disassemble(r.entry() + 3, &mut text, &|_, _| Ok(()))
        .expect("found")
        .expect("written");
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(
        lines[0],
        format!(
            "test draft owner 42 at {:#x}, {} bytes",
            r.entry(),
            r.bytes().len()
        )
    );
    assert!(lines[1].ends_with("mov eax, 0x1"), "{text}");
    assert!(
        lines[3].contains("jz") && lines[3].ends_with("; 11"),
        "{text}"
    );
    assert!(lines[5].ends_with("ret"), "{text}");
    assert_eq!(lines.len(), 6);
    assert!(disassemble(0x1000, &mut text, &|_, _| Ok(())).is_none());
    // Bytes that are no instruction are shown, not lost.
    let mut text = String::new();
    disassemble_bytes(&[0x06, 0x90, 0xe8], 0, &mut text, &|_, _| Ok(())).expect("written");
    assert_eq!(text.lines().count(), 3);
}

#[test]
fn listings_show_where_branches_lead() {
    let branches: &[(&[u8], &str)] = &[
        (&[0xeb, 0x10], "; 0x1012"),
        (&[0xeb, 0xfe], "; 0"),
        (&[0x75, 0x80], "; 0xf82"),
        (&[0xe3, 0xf0], "; 0xff2"),
        (&[0xe9, 0xfb, 0xff, 0xff, 0xff], "; 0"),
        (&[0x0f, 0x84, 0x00, 0x01, 0x00, 0x00], "; 0x1106"),
    ];
    for (bytes, target) in branches {
        let mut text = String::new();
        disassemble_bytes(bytes, 0x1000, &mut text, &|_, _| Ok(())).expect("written");
        assert!(text.trim_end().ends_with(target), "{text}");
    }
}

/// Code of the cold section stands behind all other code, wherever it was written.
#[test]
fn the_cold_section_stands_behind_the_hot_one() {
    extern "sysv64" fn seven() -> u64 {
        7
    }
    let mut d = draft();
    let [rare, back] = core::array::from_fn(|_| d.label());
    dynasm!(d ; .arch x64 ; mov rax, rdi ; test rsi, rsi ; jnz =>rare ; =>back);
    let before = d.here();
    assert!(!d.turn(true));
    let in_cold = d.here();
    // A short jump and a call, whose fields count from where they come to stand; a hot label seen absolutely.
    dynasm!(d ; .arch x64
        ; =>rare
        ; test rax, rax
        ; jz BYTE >none
        ; mov rax, QWORD host::link as *const () as i64
        ; lea rax, [=>back]
        ; none:
        ; sub rsp, 8
    );
    d.call_abs(seven as *const () as usize);
    dynasm!(d ; .arch x64 ; add rsp, 8 ; jmp =>back);
    let mark = d.mark();
    dynasm!(d ; .arch x64 ; jmp =>rare ; int3);
    d.rewind(mark);
    assert!(d.turn(false));
    dynasm!(d ; .arch x64 ; add rax, 1 ; ret);
    let hot = d.len() as u32;
    assert_eq!((d.found(before), d.found(in_cold)), (before, hot));
    let r = run(d);
    assert_eq!((r.function()(5, 0), r.function()(5, 1)), (6, 8));
    assert_eq!(r.bytes()[hot as usize - 1], 0xc3);
}

// With `HARDENING=all` these run the hardened code.
#[test]
fn a_foreign_address_leaves_as_it_came() {
    let mut d = draft();
    let [foreign, leave] = [d.label(), d.label()];
    harden::user_address(&mut d, Reg::Rdi, foreign, leave);
    dynasm!(d ; .arch x64 ; lea rax, [rdi + 1] ; ret);
    harden::foreign_address(&mut d, Reg::Rdi, foreign, leave);
    dynasm!(d ; .arch x64 ; =>leave ; mov rax, rdi ; ret);
    let r = run(d);
    for own in [0, 1, 0x7fff_ffff_ffff, i64::MAX as u64 - 1] {
        assert_eq!(r.function()(own, 0), own + 1);
    }
    for foreign in [1 << 63, u64::MAX, 0xffff_ffff_8000_0000] {
        assert_eq!(r.function()(foreign, 0), foreign);
    }
}

#[test]
fn calls_of_rax_return_behind_themselves() {
    let mut d = draft();
    let [thunk, add, twice] = core::array::from_fn(|_| d.label());
    dynasm!(d ; .arch x64 ; lea rax, [=>add]);
    harden::call_rax(&mut d, thunk);
    dynasm!(d ; .arch x64 ; lea rax, [=>twice]);
    harden::call_rax(&mut d, thunk);
    dynasm!(d ; .arch x64 ; mov rax, rdi ; ret);
    harden::thunk(&mut d, thunk);
    dynasm!(d ; .arch x64 ; =>add ; add rdi, rsi ; ret ; =>twice ; add rdi, rdi ; ret);
    assert_eq!(run(d).function()(3, 4), 14);
}
