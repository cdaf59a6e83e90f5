//! The dispatcher: the code that one thread's `syscall` instruction enters, generated for that thread.
//!
//! *Interface*: describe it with a [`Spec`], make it with [`Dispatcher::synthesize`], give it to the thread with
//! `Tte::set_dispatcher`. A new one is needed when a [`Leaf::Value`] or the descriptor table's arrays or size change.
//!
//! Entered by a jump: interrupts off, user's stack pointer, rax = number, rcx = user's rip, r11 = user's flags. Known when
//! generated: where the thread's stack base is, the addresses and the size of its kernel procedure table, the answers of
//! its leaf calls. `read` and `write` come first, then `lseek` and the first leaf, then a tree of comparisons.
//! - a leaf is answered on the spot: no stack, no register but rax;
//! - a descriptor call goes to the descriptor's own routine; the index is masked, so that no speculated call leaves the table;
//! - everything else, descriptors beyond the table too, goes to the machine's slow entry.
//!
//! Source: dissertation, section 3.3.4; docs/architecture.md, "Entering the kernel".

use crate::tte::Tte;
use crate::yielding;
use abi::nr;
use codegen::{Class, Draft, Label, OutOfCode, Routine, dynasm};
use core::mem::offset_of;
use machine::cpu::StackBase;

/// A kernel procedure table, as constants for the generator.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Kpt {
    /// Address of the array of `read` routines.
    pub read: usize,
    /// Address of the array of `write` routines.
    pub write: usize,
    /// Address of the array of `lseek` routines.
    pub lseek: usize,
    /// Entries in each; descriptors from here on take the slow way.
    pub n: u32,
}

/// How a call without side effects is answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Leaf {
    /// Always this value.
    Value(u32),
    /// The 32-bit word at this address, which stays valid as long as the dispatcher does.
    Word(usize),
    /// Whatever the routine at this address returns: it keeps the contract of a descriptor routine (docs/architecture.md), and
    /// stays for ever.
    Routine(usize),
    /// `sched_yield`: zero at once when the thread is alone in its ring, else a switch.
    Yield,
}

/// Most leaf calls a dispatcher answers.
pub const MAX_LEAVES: usize = 32;

/// What a thread's dispatcher knows.
#[derive(Clone, Copy, Debug)]
pub struct Spec<'a> {
    /// The thread's descriptor routines; `None` sends `read`, `write` and `lseek` the slow way.
    pub kpt: Option<Kpt>,
    /// Leaf calls by number, the most frequent one first; at most [`MAX_LEAVES`].
    pub leaves: &'a [(u32, Leaf)],
}

/// Entered by a jump from the CPU's `syscall` stub; nobody calls it from Rust.
pub struct Jump;

/// A thread's dispatcher.
pub struct Dispatcher {
    code: Routine<Jump>,
    again: usize,
}

static DISPATCHER: Class = Class::new("thread.dispatcher");

/// Where a dispatcher leads outside itself.
#[derive(Clone, Copy)]
struct Exits {
    slow: usize,
    yielding: usize,
    leave: Leave,
}

/// How a dispatcher goes back to its caller.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Leave {
    /// To user mode.
    Sysret,
    /// To the test that called it.
    #[cfg(test)]
    Return,
}

impl Dispatcher {
    /// The dispatcher of `tte`, whose stack is in place.
    pub fn synthesize(tte: &Tte, spec: &Spec) -> Result<Dispatcher, OutOfCode> {
        let exits = Exits {
            slow: machine::trap::syscall_slow(),
            yielding: yielding::entry(),
            leave: Leave::Sysret,
        };
        let mut draft = Draft::new(&DISPATCHER, "dispatcher");
        draft.owner(tte.serial());
        let again = generate(&mut draft, tte, spec, exits);
        let sealed = draft.seal()?;
        // SAFETY: the generator keeps the contract at the head of this file for this thread; the table outlives the
        // dispatcher by the contract of `Spec`, the thread owns the dispatcher.
        let code = unsafe { Routine::from(sealed) };
        Ok(Dispatcher { code, again })
    }

    /// The address to publish.
    pub fn entry(&self) -> usize {
        self.code.entry()
    }

    /// Where a `read` is made again: as at the entry, but on the kernel stack, at its base.
    pub fn read_again(&self) -> usize {
        self.code.entry() + self.again
    }
}

/// Returns the offset of [`Dispatcher::read_again`].
fn generate(d: &mut Draft, tte: &Tte, spec: &Spec, exits: Exits) -> usize {
    let base = tte.stack_top() as i32;
    let slow = d.label();
    let refuse = d.label();
    let count = spec.leaves.len();
    assert!(count <= MAX_LEAVES, "too many leaf calls");
    let labels: [Label; MAX_LEAVES] = core::array::from_fn(|_| d.label());
    let seek = d.label();
    let write = d.label();
    let rest = d.label();
    let again = d.label();

    if let Some(kpt) = spec.kpt {
        dynasm!(d ; .arch x64 ; cmp eax, nr::WRITE as i32 ; ja =>rest ; je =>write);
        const { assert!(nr::READ == 0 && nr::WRITE == 1) };
        to_kernel_stack(d, base);
        d.bind(again);
        procedure(d, base, kpt.read, kpt.n, refuse, exits);
        dynasm!(d ; .arch x64 ; =>write);
        to_kernel_stack(d, base);
        procedure(d, base, kpt.write, kpt.n, refuse, exits);
        dynasm!(d ; .arch x64 ; =>seek);
        to_kernel_stack(d, base);
        procedure(d, base, kpt.lseek, kpt.n, refuse, exits);
        dynasm!(d ; .arch x64 ; =>rest ; cmp eax, nr::LSEEK as i32 ; je =>seek);
    } else {
        dynasm!(d ; .arch x64 ; =>write ; =>seek ; =>rest);
    }
    if count > 0 {
        dynasm!(d ; .arch x64 ; cmp eax, spec.leaves[0].0 as i32 ; je =>labels[0]);
        let mut sorted: [(u32, Label); MAX_LEAVES] =
            core::array::from_fn(|i| (spec.leaves.get(i).map_or(0, |l| l.0), labels[i]));
        sorted[1..count].sort_unstable_by_key(|l| l.0);
        tree(d, &sorted[1..count], slow, true);
    }
    dynasm!(d
        ; .arch x64
        ; =>slow
        ; mov [base + StackBase::USER_RSP as i32], rsp
        ; mov rsp, base
        ; =>refuse
    );
    d.jmp_abs(exits.slow);
    for (&(_, leaf), label) in spec.leaves.iter().zip(labels) {
        d.bind(label);
        answer(d, tte, base, leaf, exits);
    }
    let at = d.len();
    const { assert!(nr::READ == 0) };
    let to = if spec.kpt.is_some() { again } else { refuse };
    dynasm!(d ; .arch x64 ; xor eax, eax ; jmp =>to);
    at
}

fn to_kernel_stack(d: &mut Draft, base: i32) {
    dynasm!(d
        ; .arch x64
        ; mov [base + StackBase::USER_RSP as i32], rsp
        ; mov rsp, base
    );
}

/// One descriptor call, on the kernel stack. The routine leaves every register but rax alone.
fn procedure(d: &mut Draft, base: i32, table: usize, n: u32, refuse: Label, exits: Exits) {
    dynasm!(d
        ; .arch x64
        ; cmp edi, n as i32
        ; jae =>refuse
        ; sbb eax, eax
        ; and eax, edi
        ; call QWORD [table as i32 + rax * 8]
        ; mov rsp, [base + StackBase::USER_RSP as i32]
    );
    leave(d, exits);
}

/// Compares eax with the sorted `leaves`, half by half; ends at `slow`, by falling through where it is `last`.
fn tree(d: &mut Draft, leaves: &[(u32, Label)], slow: Label, last: bool) {
    if leaves.len() <= 2 {
        for &(number, label) in leaves {
            dynasm!(d ; .arch x64 ; cmp eax, number as i32 ; je =>label);
        }
        if !last {
            dynasm!(d ; .arch x64 ; jmp =>slow);
        }
        return;
    }
    let middle = leaves.len() / 2;
    let (number, label) = leaves[middle];
    let above = d.label();
    dynasm!(d ; .arch x64 ; cmp eax, number as i32 ; je =>label ; ja =>above);
    tree(d, &leaves[..middle], slow, false);
    d.bind(above);
    tree(d, &leaves[middle + 1..], slow, last);
}

fn answer(d: &mut Draft, tte: &Tte, base: i32, leaf: Leaf, exits: Exits) {
    match leaf {
        Leaf::Value(value) => dynasm!(d ; .arch x64 ; mov eax, value as i32),
        Leaf::Word(address) => dynasm!(d ; .arch x64 ; mov eax, [address as i32]),
        Leaf::Routine(address) => {
            let user = base + StackBase::USER_RSP as i32;
            dynasm!(d ; .arch x64 ; mov [user], rsp ; mov rsp, base);
            d.call_abs(address);
            dynasm!(d ; .arch x64 ; mov rsp, [user]);
        }
        Leaf::Yield => {
            let tte = tte.address() as i32;
            dynasm!(d
                ; .arch x64
                ; mov rax, [tte + offset_of!(Tte, sw_in) as i32]
                ; cmp [tte + offset_of!(Tte, link) as i32], rax
                ; je >alone
                ; mov [base + StackBase::USER_RSP as i32], rsp
                ; mov rsp, base
            );
            d.jmp_abs(exits.yielding);
            dynasm!(d ; .arch x64 ; alone: ; xor eax, eax);
        }
    }
    leave(d, exits);
}

fn leave(d: &mut Draft, exits: Exits) {
    match exits.leave {
        // `sysretq`, which the assembler does not know.
        Leave::Sysret => dynasm!(d ; .arch x64 ; .bytes &[0x48, 0x0f, 0x07]),
        #[cfg(test)]
        Leave::Return => dynasm!(d ; .arch x64 ; ret),
    }
}

#[cfg(test)]
#[path = "dispatch_tests.rs"]
mod tests;
