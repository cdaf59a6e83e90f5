//! The timer's handler: generated code that leads the end of a quantum straight into the running thread's
//! `sw_out`, and a program's other interrupts to the handler in Rust.
//!
//! *Interface*: [`install`], once, at boot, after the Rust handler is linked. The handler is one image for
//! all CPUs. It is entered by the processor through the timer's gate.
//!
//! The handler switches by itself when all of this holds: the interrupt comes from user mode; another thread
//! is ready; the running thread has used up its turn (its quantum, or as many as the CPU's granularity says,
//! `ring/granularity.rs`), but for an eighth, and has no channels, whose need would change its next quantum
//! (`time/demand.rs`); neither an alarm nor a sample is due. It then does what `timer.rs` does at the end of
//! a quantum: the look at the next thread's is set, the interrupt is acknowledged and counted, a quiescent
//! point is noted, and the thread's `sw_out` is called, over the nine registers that no switch saves. Any
//! other interrupt from user mode gets its frame and the handler in Rust
//! ([`crate::entry::timer::fired_in_program`]), and ends here if nothing is asked of the thread; one from the
//! kernel continues as any interrupt does, with [`crate::entry::timer::fired`].
//!
//! With several CPUs it also leaves everything to Rust that balancing might change: while a CPU is idle, or
//! threads are in the steal queue, or more than two are ready.
//!
//! A thread with restartable sequences is only marked when its area names one, or cannot be read: outside a
//! sequence there is nothing to abort, and a thread that moves to another CPU is marked by the move.
//!
//! From user mode an interrupt's frame lies at the end of the empty kernel stack, so the stack base, and with
//! it CPU and thread, are at a known distance. The frame is left by `iretq`, which serializes.
//! Source: dissertation, sections 3.3.2 (the timer's interrupt is vectored to `sw_out`) and 3.3.3.

use crate::entry::timer::fired_in_program;
use crate::ring::granularity::Granularity;
use crate::ring::idle_cpus::IDLE;
use crate::ring::per_cpu::{PerCpu, TICKING};
use crate::ring::ready::ReadyRing;
use crate::tte::Tte;
use crate::tte::flags::ATTENTION;
use codegen::{Class, Draft, OutOfCode, Routine, dynasm, harden};
use core::mem::offset_of;
use machine::cpu::{Cpu, StackBase};
use machine::irq::{TIMER_VECTOR, eoi_address};
use machine::trap::TrapFrame;
use machine::{apic, clock, entry_mitigations, features, trap};

static CLASS: Class = Class::new("thread.tick");

/// Entered by the processor; Rust never calls it.
pub(crate) struct Gate;

/// The words of the processor's frame and of the nine saved registers: distance from the stack pointer to
/// the stack base behind them.
const FRAME: i32 = 5 * 8;
const SAVED: i32 = FRAME + 9 * 8;
/// The registers of a frame, as dynasm numbers them, in the order in which they are pushed.
const FRAMED: [u8; 15] = [7, 6, 2, 1, 0, 8, 9, 10, 11, 3, 5, 12, 13, 14, 15];
const _: () = assert!(offset_of!(TrapFrame, vector) == 8 * FRAMED.len());
/// Registers saved before it is known that another thread is ready, the first of a frame; and before the rest
/// is decided.
const FIRST: i32 = 2 * 8;
const SECOND: i32 = 5 * 8;
/// Where the selector of the interrupted code is in the processor's frame.
const CS: i32 = 8;

/// The distances and constants of one machine.
struct Plan {
    several_cpus: bool,
    smap: bool,
    /// Address of the number that a quiescent point reads.
    epoch: usize,
    /// Where it puts the number, if there is one CPU.
    seen: usize,
    /// Address of the word of the idle CPUs.
    idle: usize,
    /// Where an interrupt continues with error code and vector pushed.
    common: usize,
    /// Where it ends when something is asked of the thread.
    tail: usize,
    /// The handler of a program's interrupt.
    program: usize,
}

/// Makes the handler and links it to the timer's vector.
///
/// # Errors
/// No memory for code.
pub(crate) fn install() -> Result<(), OutOfCode> {
    let [epoch, seen] = sync::epoch::words(0);
    let plan = Plan {
        several_cpus: machine::cpu::present() > 1,
        smap: features::get().smap(),
        epoch,
        seen,
        idle: core::ptr::from_ref(&IDLE) as usize,
        common: trap::irq_common(),
        tail: trap::irq_tail(),
        program: fired_in_program as *const () as usize,
    };
    let routine = synthesize(&plan)?;
    // SAFETY: the handler keeps the contract of `set_image`, and stays for ever.
    unsafe { machine::irq::set_image(TIMER_VECTOR, routine.entry()) };
    core::mem::forget(routine);
    Ok(())
}

const fn local(offset: usize) -> i32 {
    offset as i32
}

fn synthesize(plan: &Plan) -> Result<Routine<Gate>, OutOfCode> {
    let ready = local(offset_of!(PerCpu, ring) + offset_of!(ReadyRing, ready));
    let steal_queue = local(
        offset_of!(PerCpu, ring)
            + offset_of!(ReadyRing, steal_queue)
            + offset_of!(crate::ring::steal_queue::StealQueue<Tte, { crate::ring::ready::SHELF }>, used),
    );
    let [next, first_look] = [offset_of!(Tte, next), offset_of!(Tte, look_ns)].map(local);
    let [soonest, armed, look, turn] = [
        offset_of!(PerCpu, soonest_ns),
        offset_of!(PerCpu, armed_ns),
        offset_of!(PerCpu, look_ns),
        offset_of!(PerCpu, turn_ns),
    ]
    .map(local);
    let granularity = offset_of!(PerCpu, granularity);
    let part = local(granularity + offset_of!(Granularity, part));
    let times = local(granularity + offset_of!(Granularity, times));
    // One store for both.
    const { assert!(offset_of!(PerCpu, ticking) == offset_of!(PerCpu, patience) + 1) };
    const { assert!(offset_of!(PerCpu, patience) % 2 == 0) };
    let patience = local(offset_of!(PerCpu, patience));
    let timer = apic::timer_address() as i32;
    let mut draft = Draft::new(&CLASS, ("tick", 0));
    let d = &mut draft;
    let [slow, alone, kernel, early, set, named, marked, attend] =
        core::array::from_fn(|_| d.label());

    entry_mitigations::enter_interrupt(d);
    dynasm!(d ; .arch x64
        ; test BYTE [rsp + CS], 3
        ; jz =>kernel
        ; push rdi
        ; push rsi
        ; mov rdi, [rsp + FIRST + FRAME + StackBase::CPU as i32]
        ; mov rsi, [rdi + Cpu::THREAD as i32]
        ; cmp DWORD [rsi + ready], 2
    );
    if plan.several_cpus {
        dynasm!(d ; .arch x64
            ; jne =>alone
            ; cmp DWORD [rsi + steal_queue], 0
            ; jne =>alone
            ; cmp DWORD [plan.idle as i32], 0
            ; jne =>alone
        );
    } else {
        dynasm!(d ; .arch x64 ; jb =>alone);
    }
    dynasm!(d ; .arch x64
        ; push rdx
        ; push rcx
        ; push rax
        ; mov rcx, [rsp + SECOND + FRAME + StackBase::TTE as i32]
        ; rdtsc
        ; shl rdx, 32
        ; or rax, rdx
        ; mov rdx, rax
        ; sub rdx, [rcx + offset_of!(Tte, in_at) as i32]
        ; imul rdx, [rsi + part]
        ; cmp rdx, [rcx + offset_of!(Tte, used_up) as i32]
        ; jb =>slow
    );
    clock::emit_ns(d);
    dynasm!(d ; .arch x64
        ; mov [rsi + turn], rax
        ; mov rdx, [rcx + next]
    );
    // With several CPUs the timer looks at each quantum, for balancing.
    if plan.several_cpus {
        dynasm!(d ; .arch x64 ; add rax, [rdx + first_look]);
    } else {
        dynasm!(d ; .arch x64
            ; mov rax, [rdx + first_look]
            ; imul rax, [rsi + times]
            ; add rax, [rsi + turn]
        );
    }
    dynasm!(d ; .arch x64
        ; mov [rsi + look], rax
        ; cmp rax, [rsi + soonest]
        ; ja =>early
        ; mov [rsi + armed], rax
        ; mov eax, [rdx + offset_of!(Tte, look_timer) as i32]
    );
    if !plan.several_cpus {
        dynasm!(d ; .arch x64 ; imul eax, [rsi + times]);
    }
    dynasm!(d ; .arch x64
        ; =>set
        ; mov [timer], eax
        ; mov DWORD [eoi_address() as i32], 0
        ; mov WORD [rsi + patience], i16::from(TICKING) << 8
    );
    quiescent(d, plan);
    dynasm!(d ; .arch x64
        ; inc QWORD [rdi + Cpu::QUANTA as i32]
        ; mov DWORD [rdi + Cpu::NEED_RESCHED as i32], 0
        ; inc QWORD [rcx + offset_of!(Tte, quanta) as i32]
        ; cmp QWORD [rcx + offset_of!(Tte, sequence_area) as i32], 0
        ; jne =>named
        ; =>marked
        ; push r8
        ; push r9
        ; push r10
        ; push r11
    );
    if plan.smap {
        dynasm!(d ; .arch x64 ; clac);
    }
    dynasm!(d ; .arch x64 ; cld);
    harden::call(
        d,
        |d| dynasm!(d ; .arch x64 ; call QWORD [rcx + offset_of!(Tte, sw_out) as i32]),
        |d| dynasm!(d ; .arch x64 ; push QWORD [rcx + offset_of!(Tte, sw_out) as i32]),
    );
    // The thread runs again, perhaps on another CPU, with nothing else on its stack.
    dynasm!(d ; .arch x64
        ; mov rcx, [rsp + SAVED + StackBase::TTE as i32]
        ; test DWORD [rcx + offset_of!(Tte, state) as i32], ATTENTION as i32
        ; pop r11
        ; pop r10
        ; pop r9
        ; pop r8
        ; pop rax
        ; pop rcx
        ; pop rdx
        ; pop rsi
        ; pop rdi
        ; jnz =>attend
    );
    entry_mitigations::leave_interrupt(d);

    // Something is asked of the thread.
    d.bind(attend);
    d.jmp_abs(plan.tail);

    // An alarm or a sample comes before the next quantum ends, or is due.
    dynasm!(d ; .arch x64
        ; =>early
        ; mov rax, [rsi + turn]
        ; mov rdx, [rsi + soonest]
        ; sub rdx, rax
        ; jbe =>slow
        ; add rax, rdx
        ; mov [rsi + armed], rax
        ; mov rax, QWORD apic::timer_rate() as i64
        ; mul rdx
        ; shrd rax, rdx, 32
        // Zero would stop the timer.
        ; or eax, 1
        ; jmp =>set
    );

    // The area's address has been checked. It may have been unmapped since, and is then looked at by Rust.
    let fault = d.label();
    dynasm!(d ; .arch x64
        ; =>named
        ; mov rax, [rcx + offset_of!(Tte, sequence_area) as i32]
    );
    harden::clamp(d, codegen::idioms::Reg::Rax);
    open(d, plan);
    d.fault_begin();
    dynasm!(d ; .arch x64
        ; cmp QWORD [rax + abi::linux::RSEQ_SEQUENCE as i32], 0
    );
    d.fault_end(fault);
    dynasm!(d ; .arch x64
        ; je =>marked
        ; =>fault
        ; mov eax, [rcx + offset_of!(Tte, sequences) as i32]
        ; lock or [rcx + offset_of!(Tte, state) as i32], eax
        ; jmp =>marked
    );

    dynasm!(d ; .arch x64
        ; =>slow
        ; pop rax
        ; pop rcx
        ; pop rdx
        // The two that are saved move down, in front of an error code and the vector.
        ; =>alone
        ; push QWORD [rsp + 8]
        ; push QWORD [rsp + 8]
        ; mov QWORD [rsp + 24], 0
        ; mov QWORD [rsp + 16], i32::from(TIMER_VECTOR)
    );
    save(d, &FRAMED[2..]);
    if plan.smap {
        dynasm!(d ; .arch x64 ; clac);
    }
    dynasm!(d ; .arch x64 ; cld);
    quiescent(d, plan);
    dynasm!(d ; .arch x64 ; mov rdx, rdi ; mov rdi, rsp);
    d.call_abs(plan.program);
    dynasm!(d ; .arch x64 ; test al, al);
    restore(d);
    dynasm!(d ; .arch x64 ; lea rsp, [rsp + 16] ; jz =>attend);
    entry_mitigations::leave_interrupt(d);

    dynasm!(d ; .arch x64 ; =>kernel ; push 0 ; push i32::from(TIMER_VECTOR));
    d.jmp_abs(plan.common);
    let sealed = draft.seal()?;
    // SAFETY: `Gate` promises nothing to Rust callers.
    Ok(unsafe { Routine::from(sealed) })
}

/// Notes a quiescent point of the CPU whose part is at rsi. Changes rax, and rdx where there are several.
fn quiescent(d: &mut Draft, plan: &Plan) {
    dynasm!(d ; .arch x64 ; mov rax, [plan.epoch as i32]);
    if plan.several_cpus {
        dynasm!(d ; .arch x64
            ; mov rdx, [rsi + offset_of!(PerCpu, seen) as i32]
            ; mov [rdx], rax
        );
    } else {
        dynasm!(d ; .arch x64 ; mov [plan.seen as i32], rax);
    }
}

/// Pushes these registers of a frame.
#[allow(clippy::useless_conversion, reason = "in dynasm's expansion")]
fn save(d: &mut Draft, registers: &[u8]) {
    for &register in registers {
        dynasm!(d ; .arch x64 ; push Rq(register));
    }
}

/// Pops all of a frame. Changes no flags.
#[allow(clippy::useless_conversion, reason = "in dynasm's expansion")]
fn restore(d: &mut Draft) {
    for register in FRAMED.into_iter().rev() {
        dynasm!(d ; .arch x64 ; pop Rq(register));
    }
}

/// From here to the `clac` before the switch, the program's memory may be read.
fn open(d: &mut Draft, plan: &Plan) {
    if plan.smap {
        dynasm!(d ; .arch x64 ; stac);
    }
}

#[cfg(test)]
#[path = "tick_tests.rs"]
mod tests;
