//! The dispatcher: the code that one thread's `syscall` instruction enters, generated for that thread.
//!
//! *Interface*: define the leaf calls once ([`Leaves`], [`DispatchPlan`]), describe a thread's dispatcher
//! with a [`Spec`], make it with [`Dispatcher::synthesize`], give it to the thread with `Tte::set_dispatcher`
//! (`begin.rs`). A new one is needed when the value of a [`Leaf::Value`], the descriptor table's arrays or
//! size, or the thread's own calls change. [`link_rest`] and [`link_way_out`] at boot.
//!
//! A plan is assembled once; a thread's dispatcher is a copy of it with the thread's constants put in
//! (section 3.1). Threads share the plan's text, but no code whose sharing would cost a call an instruction.
//!
//! Entered by a jump: interrupts off, user's stack pointer, rax = number, rcx = user's rip, r11 = user's
//! flags. Constants of the code: the address of the thread's stack base, the addresses and the size of its
//! kernel procedure table, the answers of its leaf calls. `read` and `write` come first, then the two first
//! leaves and `lseek`, then trees of comparisons over the other calls.
//! - a leaf is answered directly: no stack, and no register changes but rax;
//! - a descriptor call goes to the descriptor's own routine; the index is masked, so no speculative call
//!   leaves the table. A call without routines in the table (`fstat`) goes to one routine for all, which
//!   gets the word in the descriptor's slot;
//! - an unknown call number is refused, and so is a negative descriptor;
//! - everything else, including descriptors beyond the table, goes to the linked code ([`link_rest`]), and
//!   from there to the machine's slow entry.
//!
//! The program's own calls ([`Spec::own`]), a few numbers with a procedure each, stand in front of all this
//! in code of their own: one comparison finds the procedure, without a table and without a limit check
//! (cached procedures, section 3.3.4). A thread without any has no such code.
//!
//! With some mitigations the entry of `syscall` has already changed stacks (`machine::entry_mitigations`),
//! and each exit has more work.
//!
//! Source: dissertation, section 3.3.4; docs/architecture.md, "Entering the kernel".

pub(crate) mod begin;

use crate::tte::Tte;
use crate::tte::code::{Dispatcher, Jump};
use abi::errno::Errno;
use abi::nr;
use codegen::idioms::jump_through;
use codegen::{Class, Draft, Hole, Label, OutOfCode, Routine, Sealed, Template, dynasm, harden};
use core::mem::offset_of;
use core::sync::atomic::{AtomicUsize, Ordering};
use machine::cpu::StackBase;
use machine::entry_mitigations;
use vm::fallible::try_arc;

/// A kernel procedure table, as constants for the generator. Its words are 8 bytes each. The low four bytes
/// are the routine's address without its sign extension; the others are for the code that changes the words.
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
    /// Address of the slots of the first [`SLOTS`] descriptors; 0 for none.
    pub slots: usize,
}

/// Descriptors whose slots are in reach.
pub const SLOTS: usize = 64;

/// Of a table without descriptors.
static NO_SLOTS: [usize; SLOTS] = [0; SLOTS];

impl Kpt {
    /// No descriptors: every one is beyond the table.
    pub const NONE: Kpt = Kpt {
        read: 0,
        write: 0,
        lseek: 0,
        n: 0,
        slots: 0,
    };
}

/// How a call without side effects is answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Leaf {
    /// Always the thread's value, a 32-bit number.
    Value,
    /// The 32-bit word at the thread's value, an address that stays valid as long as the dispatcher does.
    Word,
    /// The result of the routine at the thread's value. The routine keeps the contract of a descriptor
    /// routine (docs/architecture.md) and is never freed.
    Routine,
    /// The address from [`Leaves::of_slot`], a routine of the same contract that gets in rax what is in the
    /// slot of the descriptor. Takes no value.
    Slot,
    /// `sched_yield`: the thread's switch code answers zero at once, or switches. Takes no value.
    Yield,
}

impl Leaf {
    const fn takes_value(self) -> bool {
        !matches!(self, Leaf::Yield | Leaf::Slot)
    }
}

/// The leaf calls of a family of threads.
pub trait Leaves {
    /// By number, the most frequent one first; at most [`MAX_LEAVES`] and [`MAX_VALUES`].
    const LEAVES: &'static [(u32, Leaf)];
    /// The first number from which on there is no call but those leaves: ENOSYS.
    const END: u32;
    /// The routine of a [`Leaf::Slot`], which stays for ever; asked once.
    fn of_slot() -> usize {
        0
    }
}

const fn values(mut leaves: &[(u32, Leaf)]) -> usize {
    let mut count = 0;
    while let [(_, leaf), rest @ ..] = leaves {
        count += leaf.takes_value() as usize;
        leaves = rest;
    }
    count
}

/// No leaf calls.
pub struct NoLeaves;

impl Leaves for NoLeaves {
    const LEAVES: &'static [(u32, Leaf)] = &[];
    const END: u32 = u32::MAX;
}

/// Most leaf calls a dispatcher answers.
pub const MAX_LEAVES: usize = 16;
/// Most leaf calls that take a value.
pub const MAX_VALUES: usize = 8;

/// Holes: eight of every dispatcher's, then the leaves' values.
const FIXED: usize = 8;
const HOLES: usize = FIXED + MAX_VALUES;

/// The code of a family of threads, assembled at its first use.
pub struct DispatchPlan(Template<HOLES>);

impl DispatchPlan {
    /// Of the threads that answer `L`.
    pub const fn of<L: Leaves>() -> DispatchPlan {
        const {
            assert!(L::LEAVES.len() <= MAX_LEAVES, "too many leaf calls");
            assert!(
                values(L::LEAVES) <= MAX_VALUES,
                "too many leaf calls with a value"
            );
        }
        DispatchPlan(Template::new(&DISPATCHER, generate::<L>))
    }
}

/// The constants of a thread's dispatcher.
#[derive(Clone, Copy)]
pub struct Spec<'a> {
    /// The thread's descriptor routines.
    pub kpt: Kpt,
    /// The calls it answers.
    pub plan: &'static DispatchPlan,
    /// The values of the plan's leaves that take one, in their order.
    pub values: &'a [usize],
    /// Its program's own calls, if there are any.
    pub own: Option<OwnCalls<'a>>,
}

/// A program's own calls.
#[derive(Clone, Copy)]
pub struct OwnCalls<'a> {
    /// Their numbers, ascending; at most [`MAX_OWN`].
    pub numbers: &'a [u32],
    /// Emits the answer of one: entered at the stack base, otherwise as a descriptor routine; ends with
    /// [`way_out`], or leaves with a call's number in rax.
    pub emit: &'a dyn Fn(&mut Draft, u32),
}

/// Most calls of a program's own.
pub const MAX_OWN: usize = 16;

static DISPATCHER: Class = Class::new("thread.dispatcher");
static FRONT: Class = Class::new("thread.dispatcher.own");

/// Where a `read` starts again; the entry comes after it.
const AGAIN: usize = 0;
const ENTRY: usize = 8;

impl Dispatcher {
    /// The dispatcher of `tte`, which already has its stack. Calls that it does not answer go to `rest`: the
    /// machine's slow entry, or code with the same entry conditions.
    pub fn synthesize(tte: &Tte, spec: &Spec, rest: usize) -> Result<Dispatcher, OutOfCode> {
        let sealed = instantiate(tte, spec, rest)?;
        // SAFETY: the generator keeps the contract at the head of this file for this thread; the table
        // outlives the dispatcher by the contract of `Spec`, the thread owns the dispatcher.
        let code = unsafe { Routine::from(sealed) };
        match spec.own {
            None => Ok(Dispatcher(code)),
            Some(own) => front(tte, own, code),
        }
    }

    /// The address to publish.
    pub fn entry(&self) -> usize {
        self.0.entry() + ENTRY
    }

    /// Where a `read` starts again: as at the entry, but on the kernel stack, at its base.
    pub fn read_again(&self) -> usize {
        self.0.entry() + AGAIN
    }
}

/// A dispatcher with a program's own calls in front of `others`, which gets all other calls.
// A draft is large, and so has a frame of its own.
#[cold]
#[inline(never)]
fn front(tte: &Tte, own: OwnCalls, others: Routine<Jump>) -> Result<Dispatcher, OutOfCode> {
    let mut draft = Draft::new(&FRONT, "own calls");
    let d = &mut draft;
    let (again, entry) = (others.entry() + AGAIN, others.entry() + ENTRY);
    d.jmp_abs(again);
    d.align(ENTRY, 0x90);
    debug_assert_eq!(d.len(), ENTRY);
    let rest = d.label();
    let mut leaves: [(u32, Label); MAX_OWN] = core::array::from_fn(|_| (0, rest));
    for (leaf, number) in leaves.iter_mut().zip(own.numbers) {
        *leaf = (*number, d.label());
    }
    let leaves = &leaves[..own.numbers.len().min(MAX_OWN)];
    tree(d, leaves, rest, None);
    d.bind(rest);
    d.jmp_abs(entry);
    let base = tte.stack_top() as i32;
    for &(number, label) in leaves {
        d.bind(label);
        if !entry_mitigations::enters_on_kernel_stack() {
            let user = base + StackBase::USER_RSP as i32;
            dynasm!(d ; .arch x64 ; mov [user], rsp ; mov rsp, base);
        }
        (own.emit)(d, number);
    }
    let others = try_arc(others).map_err(|_| OutOfCode)?;
    // SAFETY: it keeps the dispatcher's contract for this thread, if the owner's procedures do; the code that
    // it leads to goes when it does.
    let front = unsafe { Routine::from(draft.seal()?) };
    Ok(Dispatcher(front.keeping(others)))
}

fn instantiate(tte: &Tte, spec: &Spec, slow: usize) -> Result<Sealed, OutOfCode> {
    let Kpt {
        read,
        write,
        lseek,
        n,
        slots,
    } = spec.kpt;
    let slots = match slots {
        0 => NO_SLOTS.as_ptr().expose_provenance(),
        slots => slots,
    };
    let mut values = [0; HOLES];
    let fixed: [usize; FIXED] = [
        tte.stack_top(),
        tte.address(),
        read,
        write,
        lseek,
        n as usize,
        slots,
        slow,
    ];
    for (value, known) in values.iter_mut().zip(fixed.iter().chain(spec.values)) {
        *value = *known as i64;
    }
    spec.plan.0.instantiate("dispatcher", tte.serial(), &values)
}

fn generate<L: Leaves>(d: &mut Draft, holes: &[Hole; HOLES]) {
    let [
        base,
        tte,
        read,
        write,
        lseek,
        n,
        slots,
        slow_entry,
        values @ ..,
    ] = holes;
    let leaves = L::LEAVES;
    let count = leaves.len();
    let slow = d.label();
    let aside = d.label();
    let out = d.label();
    let no_call = d.label();
    let labels: [Label; MAX_LEAVES] = core::array::from_fn(|_| d.label());
    let seek = d.label();
    let writing = d.label();
    let rest = d.label();
    let again = d.label();
    let thunk = d.label();

    const { assert!(nr::READ == 0 && nr::WRITE == 1) };
    dynasm!(d ; .arch x64 ; xor eax, eax ; jmp =>again);
    d.align(ENTRY, 0x90);
    debug_assert_eq!(d.len(), ENTRY);
    dynasm!(d ; .arch x64 ; cmp eax, nr::WRITE as i32 ; ja =>rest ; je =>writing);
    to_kernel_stack(d, *base);
    d.bind(again);
    procedure(d, *read, *n, aside, thunk);
    dynasm!(d ; .arch x64 ; =>writing);
    to_kernel_stack(d, *base);
    procedure(d, *write, *n, aside, thunk);
    dynasm!(d ; .arch x64 ; =>seek);
    to_kernel_stack(d, *base);
    procedure(d, *lseek, *n, aside, thunk);
    harden::thunk(d, thunk);
    dynasm!(d ; .arch x64 ; =>rest);
    let mut sorted: [(u32, Label); MAX_LEAVES] =
        core::array::from_fn(|i| (leaves.get(i).map_or(0, |l| l.0), labels[i]));
    if let [(first, _), (second, _), ..] = *leaves
        && nr::LSEEK < second as usize
        && second < first
    {
        // The second leaf divides the others: it and the first are found by two comparisons.
        sorted[2..count].sort_unstable_by_key(|l| l.0);
        let others = &sorted[2..count];
        let below = others.partition_point(|l| l.0 < second);
        let above = d.label();
        dynasm!(d
            ; .arch x64
            ; cmp eax, second as i32
            ; ja =>above
            ; je =>labels[1]
            ; cmp eax, nr::LSEEK as i32
            ; je =>seek
        );
        tree(d, &others[..below], slow, None);
        dynasm!(d ; .arch x64 ; =>above ; cmp eax, first as i32 ; je =>labels[0]);
        tree(d, &others[below..], slow, Some((L::END, no_call)));
    } else {
        dynasm!(d ; .arch x64 ; cmp eax, nr::LSEEK as i32 ; je =>seek);
        if let [(first, _), ..] = *leaves {
            dynasm!(d ; .arch x64 ; cmp eax, first as i32 ; je =>labels[0]);
            sorted[1..count].sort_unstable_by_key(|l| l.0);
            tree(d, &sorted[1..count], slow, Some((L::END, no_call)));
        }
    }
    d.bind(slow);
    to_kernel_stack(d, *base);
    d.bind(out);
    d.jmp_abs(*slow_entry);
    d.bind(aside);
    if leaves.is_empty() {
        // It answers nothing itself: the thread may be traced.
        d.jmp_abs(*slow_entry);
    } else {
        // A table only becomes longer, so a descriptor beyond it must be checked again; a negative one need
        // not.
        dynasm!(d ; .arch x64 ; test edi, edi ; jns =>out ; mov rax, Errno::EBADF.to_rax() as i32);
        leave(d, Place::KernelStack);
    }
    dynasm!(d ; .arch x64 ; =>no_call ; mov rax, Errno::ENOSYS.to_rax() as i32);
    leave(d, Place::WhereEntered);
    let (values, unused) = values.split_at(self::values(leaves));
    let mut values = values.iter();
    for (&(_, leaf), label) in leaves.iter().zip(labels) {
        d.bind(label);
        if leaf == Leaf::Yield {
            // Its switch code knows how.
            jump_through(d, tte.imm32() + offset_of!(Tte, yielding) as i32);
        } else if leaf == Leaf::Slot {
            look(d, *base, *slots, L::of_slot(), out);
        } else if let Some(value) = values.next() {
            answer(d, *base, leaf, *value);
        }
    }
    if !leaves.iter().any(|l| l.1 == Leaf::Yield) {
        d.spare(*tte);
    }
    if !leaves.iter().any(|l| l.1 == Leaf::Slot) {
        d.spare(*slots);
    }
    unused.iter().for_each(|hole| d.spare(*hole));
}

/// From the stack pointer that `syscall` left. A dispatcher that is entered on the kernel stack is already at
/// its base.
fn to_kernel_stack(d: &mut Draft, base: Hole) {
    if entry_mitigations::enters_on_kernel_stack() {
        return d.spare(base);
    }
    let user = base.imm32() + StackBase::USER_RSP as i32;
    dynasm!(d ; .arch x64 ; mov [user], rsp ; mov rsp, base.imm32());
}

/// Back from the stack base, where the kernel stack began.
fn to_user_stack(d: &mut Draft) {
    dynasm!(d ; .arch x64 ; mov rsp, [rsp + StackBase::USER_RSP as i32]);
}

/// One descriptor call, on the kernel stack. The comparison's result masks the index, against speculation
/// past the comparison. The routine preserves every register but rax.
fn procedure(d: &mut Draft, table: Hole, n: Hole, refuse: Label, thunk: Label) {
    dynasm!(d
        ; .arch x64
        ; cmp edi, n.imm32()
        ; jae =>refuse
        ; sbb eax, eax
        ; and eax, edi
        ; movsxd rax, DWORD [table.imm32() + rax * 8]
    );
    harden::call_rax(d, thunk);
    leave(d, Place::KernelStack);
}

/// A call on what is in a descriptor's slot; `out` for one that is not in reach. The index is masked as in
/// [`procedure`].
fn look(d: &mut Draft, base: Hole, slots: Hole, routine: usize, out: Label) {
    to_kernel_stack(d, base);
    dynasm!(d
        ; .arch x64
        ; cmp edi, SLOTS as i32
        ; jae =>out
        ; sbb eax, eax
        ; and eax, edi
        ; mov rax, [slots.imm32() + rax * 8]
    );
    d.call_abs(routine);
    leave(d, Place::KernelStack);
}

/// Compares eax with the sorted `leaves`, half by half. Any other number goes to `slow`. If an `end` is
/// given, it continues instead, and numbers from `end` on go to the label beside it.
fn tree(d: &mut Draft, leaves: &[(u32, Label)], slow: Label, end: Option<(u32, Label)>) {
    if leaves.len() <= 2 {
        for &(number, label) in leaves {
            dynasm!(d ; .arch x64 ; cmp eax, number as i32 ; je =>label);
        }
        match end {
            Some((first, nothing)) => {
                dynasm!(d ; .arch x64 ; cmp eax, first as i32 ; jae =>nothing)
            }
            None => dynasm!(d ; .arch x64 ; jmp =>slow),
        }
        return;
    }
    let middle = leaves.len() / 2;
    let (number, label) = leaves[middle];
    let above = d.label();
    dynasm!(d ; .arch x64 ; cmp eax, number as i32 ; je =>label ; ja =>above);
    tree(d, &leaves[..middle], slow, None);
    d.bind(above);
    tree(d, &leaves[middle + 1..], slow, end);
}

fn answer(d: &mut Draft, base: Hole, leaf: Leaf, value: Hole) {
    match leaf {
        Leaf::Value => dynasm!(d ; .arch x64 ; mov eax, value.imm32()),
        Leaf::Word => dynasm!(d ; .arch x64 ; mov eax, [value.imm32()]),
        Leaf::Routine => {
            to_kernel_stack(d, base);
            d.call_abs(value);
            return leave(d, Place::KernelStack);
        }
        Leaf::Yield | Leaf::Slot => unreachable!("takes no value"),
    }
    leave(d, Place::WhereEntered);
}

/// Which stack a dispatcher is on.
#[derive(PartialEq)]
enum Place {
    WhereEntered,
    KernelStack,
}

/// The code that leads to user mode from the base of any kernel stack: the user's registers as they were, the
/// result in rax, interrupts off.
pub fn way_out(d: &mut Draft) {
    leave(d, Place::KernelStack);
}

/// Address of the way out.
pub(crate) static OUT: AtomicUsize = AtomicUsize::new(0);

/// The target of calls that no dispatcher answers itself.
pub(crate) static REST: AtomicUsize = AtomicUsize::new(0);

/// Links the code that [`way_out`] makes, before the first program.
pub fn link_way_out(entry: usize) {
    OUT.store(entry, Ordering::Relaxed);
}

/// The entry that was given to [`link_way_out`].
pub fn way_out_entry() -> usize {
    OUT.load(Ordering::Relaxed)
}

/// Links where calls go from here on that a dispatcher does not answer itself, in place of the machine's slow
/// entry: entered as that is, with the number in rax.
pub fn link_rest(entry: usize) {
    REST.store(entry, Ordering::Relaxed);
}

/// The target of calls that a dispatcher does not answer itself.
pub fn rest() -> usize {
    match REST.load(Ordering::Relaxed) {
        0 => machine::trap::syscall_slow(),
        rest => rest,
    }
}

/// Back to user mode by `sysretq`, which the assembler does not know; in tests to the caller.
fn leave(d: &mut Draft, place: Place) {
    if place == Place::KernelStack || entry_mitigations::enters_on_kernel_stack() {
        entry_mitigations::leave_kernel(d);
        if entry_mitigations::sysret_by_gate(d) {
            return;
        }
        to_user_stack(d);
    }
    entry_mitigations::clear_buffers(d);
    if cfg!(test) {
        dynasm!(d ; .arch x64 ; ret);
    } else {
        dynasm!(d ; .arch x64 ; .bytes &[0x48, 0x0f, 0x07]);
    }
}

#[cfg(test)]
#[path = "dispatch_tests.rs"]
mod tests;
