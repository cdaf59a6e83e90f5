//! The timer's handler by its listing; `user/tests/switches.c` runs it.

use super::*;

fn listing(several_cpus: bool) -> String {
    codegen::host::link();
    let near = codegen::host::link as *const () as usize;
    let plan = Plan {
        several_cpus,
        smap: true,
        epoch: 0x1000,
        seen: 0x3000,
        idle: 0x2000,
        common: near,
        tail: near,
        program: near,
    };
    let routine = synthesize(&plan).unwrap();
    let mut text = String::new();
    let info = codegen::image_at(routine.entry()).unwrap();
    codegen::disassemble(info.entry, &mut text, &|_, _| Ok(()))
        .unwrap()
        .unwrap();
    text
}

#[test]
fn a_quantums_end_is_one_call_of_the_threads_own_code() {
    for several_cpus in [false, true] {
        let text = listing(several_cpus);
        let hot = text.split("iretq").next().unwrap();
        // A retpoline is a call of its own.
        let retpolines = codegen::harden::hardening().retpolines();
        let calls = hot.matches("call").count();
        assert_eq!(calls, 1 + usize::from(retpolines), "{text}");
        assert!(hot.contains("clac") && hot.contains("cld"), "{text}");
        assert_eq!(hot.contains("0x2000"), several_cpus, "who is idle: {text}");
        if !retpolines {
            assert!(hot.lines().count() < 80, "{text}");
        }
    }
}

#[test]
fn what_is_saved_is_restored_in_the_opposite_order() {
    let text = listing(false);
    let hot = text.split("iretq").next().unwrap();
    let registers = |word: &str| -> Vec<String> {
        let of = |line: &str| {
            let (_, register) = line.split_once(word)?;
            // The target of a retpoline is no register.
            (!register.contains('[')).then(|| register.trim().to_owned())
        };
        hot.lines().filter_map(of).collect()
    };
    let mut saved = registers("push ");
    saved.reverse();
    assert_eq!(saved, registers("pop "));
    assert_eq!(saved.len(), 9);
}
