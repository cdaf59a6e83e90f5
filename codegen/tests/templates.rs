//! Templates against direct generation: the same bytes for the same values.
#![cfg(not(miri))]

use codegen::idioms::{Reg, constant};
use codegen::{Class, Draft, Hole, Routine, Template, dynasm, host};

static CLASS: Class = Class::new("template");

extern "sysv64" fn slow(x: u64) -> u64 {
    x ^ 0xff
}

/// A bounded counter: add rdi to a word unless that passes a limit, else go to `slow`.
fn counter(d: &mut Draft, [word, limit, exit]: &[Hole; 3]) {
    let fix = d.label();
    constant(d, Reg::Rdx, 0x1_0000_0000);
    d.fault_begin();
    dynasm!(d ; .arch x64 ; mov rax, [word.imm32()]);
    d.fault_end(fix);
    dynasm!(d
        ; .arch x64
        ; mov rcx, QWORD limit.imm64()
        ; add rax, rdi
        ; cmp rax, rcx
        ; ja BYTE =>fix
        ; mov [word.imm32() + 8], edi
        ; mov [word.imm32()], rax
        ; ret
        ; =>fix
        ; jmp extern *exit
    );
}
static COUNTER: Template<3> = Template::new(&CLASS, counter);
type F = extern "sysv64" fn(u64) -> u64;

#[test]
fn a_template_is_its_generator() {
    host::link();
    let words = host::Low::new([0u64; 2]);
    for limit in [100, i64::MAX, -1, 0x5e00_8000] {
        let values = [i64::from(words.address()), limit, slow as *const () as i64];
        let copied = COUNTER
            .instantiate(("counter", 3), 9, &values)
            .expect("room");
        let direct = COUNTER.generate(("counter", 3), 9, &values).expect("room");
        // All but the branch, which depends on the place, is the same.
        let branch = copied.bytes().len() - 4;
        assert_eq!(copied.bytes()[..branch], direct.bytes()[..branch]);
        assert_eq!(copied.info().name, direct.info().name);
        assert_eq!(copied.info().owner, 9);
        for at in 0..copied.bytes().len() {
            let fixups =
                [&copied, &direct].map(|s| codegen::fixup(s.entry() + at).map(|f| f - s.entry()));
            assert_eq!(fixups[0], fixups[1]);
        }
    }
    let values = [i64::from(words.address()), 100, slow as *const () as i64];
    // SAFETY: `counter` takes and returns an integer.
    let r: Routine<F> =
        unsafe { Routine::from(COUNTER.instantiate("counter", 0, &values).expect("room")) };
    assert_eq!(r.function()(40), 40);
    assert_eq!(r.function()(60), 100);
    assert_eq!(*words, [100, 60]);
    assert_eq!(r.function()(1), 1 ^ 0xff);
    assert_eq!(*words, [100, 60]);
}

#[test]
#[should_panic(expected = "out of the reach")]
fn a_value_must_fit_its_hole() {
    host::link();
    let _ = COUNTER.instantiate("counter", 0, &[1 << 40, 0, 0]);
}

/// Counts calls on an empty word in a cold section, and adds the word otherwise: the word by its address and
/// relatively, a hole in either section.
fn sections(d: &mut Draft, [word, exit]: &[Hole; 2]) {
    let [empty, back] = core::array::from_fn(|_| d.label());
    let word = word.imm32();
    dynasm!(d
        ; .arch x64
        ; mov rax, [extern word]
        ; test rax, rax
        ; jz =>empty
        ; =>back
        ; add rax, rdi
        ; ret
    );
    d.turn(true);
    dynasm!(d
        ; .arch x64
        ; =>empty
        ; inc QWORD [extern word]
        ; mov rax, [word]
        ; test rdi, rdi
        ; jnz =>back
        ; jmp extern *exit
    );
    d.turn(false);
}
static SECTIONS: Template<2> = Template::new(&CLASS, sections);

#[test]
fn holes_stand_in_either_section() {
    host::link();
    let words = host::Low::new([0u64; 2]);
    let values = [i64::from(words.address()), slow as *const () as i64];
    let made = [
        SECTIONS.instantiate("sections", 0, &values),
        SECTIONS.generate("sections", 0, &values),
    ];
    for (n, sealed) in made.into_iter().enumerate() {
        // SAFETY: `sections` takes and returns an integer.
        let r: Routine<F> = unsafe { Routine::from(sealed.expect("room")) };
        let before = n as u64;
        assert_eq!(words[0], before);
        if before == 0 {
            assert_eq!(r.function()(0), 0xff);
        }
        assert_eq!(r.function()(5), 6);
        assert_eq!(*words, [1, 0]);
    }
}
