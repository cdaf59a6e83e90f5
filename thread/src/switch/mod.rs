//! `sw_in_mm`, `sw_in` and `sw_out`: each thread's own switch code; for a program's thread also a second set,
//! directly from user mode to user mode.
//!
//! *Interface*: [`SwitchCode::synthesize`] makes one image with the entries for one thread and one
//! [`SwitchKind`] of context; the ready ring links the entries. Contract of the entries, interrupts off
//! throughout:
//! - `sw_out`: called as `extern "C" fn(&Cpu)` by the running thread; saves the call-preserved registers on
//!   the thread's stack, stops the thread's clock, and jumps through the thread's `link` word with rdi =
//!   `Cpu`, rax = time stamp. It returns, perhaps on another CPU, when the thread's `sw_in` has run.
//! - `sw_in_mm`: loads the address space, then as `sw_in`.
//! - `sw_in` (rdi = `Cpu`, rax = time stamp): makes the thread the CPU's running thread.
//!
//! A program's thread also has `yield_out`, `yield_in_mm` and `yield_in`, which do the same for a thread that
//! calls `sched_yield`:
//! - `yield_out`: entered by a jump from the dispatcher, on the user's stack, all registers as the user left
//!   them but rax. It stores the registers that the call must preserve at the end of the empty kernel stack,
//!   and continues as `sw_out`. It does not check whether another thread is ready: a thread that is alone
//!   goes round through its own `yield_in`, until the timer puts it back into the ordinary way.
//! - `yield_in` loads them and returns to user mode; or it makes the call again on the slow path when the
//!   thread has pending requests (flags).
//!
//! - `yield_first`: entered as `yield_out`, by a thread whose links lead to `sw_in`; a thread that is alone
//!   returns to user mode at once.
//!
//! The set that the links lead to is the thread's *way* (`yielding.rs`).
//!
//! Known when generated, so constants in the code: the entry's address, the kernel stack, whether the
//! thread ever enters user mode, whether it has vector registers, and which instructions this processor has
//! for them and for segment bases. Two values stay words of the entry: the dispatcher, since threads that
//! share a descriptor table get new dispatchers while they run on other CPUs; and the page-table root,
//! since an ending thread must be able to leave its address space without allocating memory. `Cpu::root` is
//! stored before CR3, as the TLB shootdown requires. The stack base already has the CPU: moving a thread to
//! another CPU stores it (`Tte::move_to`) and clears the thread's ownership of the former CPU's vector
//! registers.
//!
//! A synchronous switch saves six registers and the stack pointer. An asynchronous switch has a trap frame
//! that already holds the others, and then does a synchronous switch.
//! Source: dissertation, sections 3.3.2 (figures 3.3 and 3.4) and 5.3.1.

#[cfg(target_os = "none")]
pub(crate) mod caller_saved;
pub mod hw_breakpoints;
pub mod lazy_fpu;
pub(crate) mod pick_next;
pub mod speculation;
pub(crate) mod yielding;

use crate::tte::Tte;
use crate::tte::code::{SwitchCode, SwitchKind};
use crate::tte::flags::ATTENTION;
use codegen::idioms::jump_through;
use codegen::{Class, Draft, Hole, Label, OutOfCode, Routine, Template, dynasm};
use core::mem::offset_of;
use core::sync::atomic::{AtomicUsize, Ordering};
use machine::cpu::{Cpu, MSR_FS_BASE, MSR_GS_BASE, StackBase};
use machine::{entry_mitigations, fpu};

/// The keys of one thread's switch code.
#[derive(Clone, Copy, Debug)]
pub struct Keys {
    /// Address of the [`Tte`].
    pub tte: usize,
    /// Address of the [`StackBase`].
    pub stack_top: usize,
    /// Address of the area for vector registers; 0 without [`SwitchKind::FP`].
    pub fpu_area: usize,
}

/// Offsets of the words for the bases of a program's segments.
const FS_BASE: i32 = offset_of!(Tte, fs_base) as i32;
const GS_BASE: i32 = offset_of!(Tte, gs_base) as i32;

/// Bytes in front of `sw_in` that change the address space.
const MM_LEN: usize = 8 + 4 + 3;
const VARIANTS: usize = 128;

/// One constant is both the mask of marks that a thread checks and the mask of vector-register components
/// that it loads.
const _: () = assert!(ATTENTION as u64 & fpu::MOST_COMPONENTS == fpu::MOST_COMPONENTS);

static SWITCH: Class = Class::new("thread.switch");
static SW_OUT_AT: [AtomicUsize; VARIANTS] = [const { AtomicUsize::new(0) }; VARIANTS];
static YIELD_IN_AT: [AtomicUsize; VARIANTS] = [const { AtomicUsize::new(0) }; VARIANTS];
static YIELD_FIRST_AT: [AtomicUsize; VARIANTS] = [const { AtomicUsize::new(0) }; VARIANTS];
static YIELD_OUT_AT: [AtomicUsize; VARIANTS] = [const { AtomicUsize::new(0) }; VARIANTS];

macro_rules! templates {
    ($generate:ident: $($v:literal)*) => { [$(Template::of_variant(&SWITCH, $generate, $v)),*] };
}
/// By variant without the bits for vector registers ([`place_of`]); those with [`SwitchKind::FP`] are in
/// [`VECTOR`].
static PLAIN: [Template<4>; 32] = templates!(plain:
    0 1 0 0 4 5 0 0 32 33 0 0 36 37 0 0
    64 65 0 0 68 69 0 0 96 97 0 0 100 101 0 0);
/// By variant less the bits below [`SwitchKind::FSGSBASE`].
static VECTOR: [Template<5>; 32] = templates!(vector: 3 7 11 15 19 23 27 31 35 39 43 47 51 55 59 63
    67 71 75 79 83 87 91 95 99 103 107 111 115 119 123 127);

/// Index of the template of a variant without vector registers.
fn place_of(variant: usize) -> usize {
    variant & 7 | variant >> 5 << 3
}

impl SwitchCode {
    /// Switch code of `kind` for the thread with these keys; `owner` is what listings show.
    pub fn synthesize(kind: SwitchKind, keys: &Keys, owner: u64) -> Result<SwitchCode, OutOfCode> {
        let exits = [machine::trap::syscall_slow(), yielding::over()];
        Self::synthesize_variant(kind, kind.here(), keys, exits, owner)
    }

    /// `variant`: `kind` for one processor. `exits`: the addresses of the slow path for a call, and of the
    /// change to the yielding way.
    fn synthesize_variant(
        kind: SwitchKind,
        variant: SwitchKind,
        keys: &Keys,
        exits: [usize; 2],
        owner: u64,
    ) -> Result<SwitchCode, OutOfCode> {
        let [tte, top, area] = [keys.tte, keys.stack_top, keys.fpu_area].map(|key| key as i64);
        let place = variant.0 as usize;
        let [slow, over] = exits.map(|exit| exit as i64);
        let sealed = if variant.0 & SwitchKind::FP.0 == 0 {
            PLAIN[place_of(place)].instantiate("switch", owner, &[tte, top, slow, over])?
        } else {
            VECTOR[place >> 2].instantiate("switch", owner, &[tte, top, slow, over, area])?
        };
        Ok(SwitchCode {
            // SAFETY: the generator keeps the contract at the head of this file for a `Tte`, a stack base and
            // an area that live as long as the thread, which owns the image.
            image: unsafe { Routine::from(sealed) },
            variant: variant.0,
            kind,
            fpu_area: keys.fpu_area,
        })
    }

    /// Whether this is the code for a thread of `kind` with these keys, with the entry and stack that it was
    /// made for.
    pub fn is_for(&self, kind: SwitchKind, keys: &Keys) -> bool {
        self.fpu_area == keys.fpu_area && self.kind == kind
    }

    /// The owner that listings show.
    pub fn set_owner(&self, owner: u64) {
        self.image.set_owner(owner);
    }

    /// Entry for a switch that changes the address space.
    pub fn sw_in_mm(&self) -> usize {
        self.image.entry()
    }

    /// Entry for a switch within one address space.
    pub fn sw_in(&self) -> usize {
        self.image.entry() + MM_LEN
    }

    /// Entry for switching out.
    pub fn sw_out(&self) -> usize {
        self.image.entry() + SW_OUT_AT[self.variant as usize].load(Ordering::Relaxed)
    }

    /// As [`SwitchCode::sw_in_mm`], for a thread that left by [`SwitchCode::yield_out`]. For threads with
    /// [`SwitchKind::USER`], as the next two.
    pub fn yield_in_mm(&self) -> usize {
        self.yield_in() - MM_LEN
    }

    /// As [`SwitchCode::sw_in`], for a thread that left by [`SwitchCode::yield_out`].
    pub fn yield_in(&self) -> usize {
        self.image.entry() + YIELD_IN_AT[self.variant as usize].load(Ordering::Relaxed)
    }

    /// Entry for a thread's first `sched_yield`.
    pub fn yield_first(&self) -> usize {
        self.image.entry() + YIELD_FIRST_AT[self.variant as usize].load(Ordering::Relaxed)
    }

    /// Entry for giving way straight out of the dispatcher.
    pub fn yield_out(&self) -> usize {
        self.image.entry() + YIELD_OUT_AT[self.variant as usize].load(Ordering::Relaxed)
    }
}

impl Tte {
    /// Makes `code` the thread's switch code. The caller mends the links that lead to it.
    pub(crate) fn publish(&self, kind: SwitchKind, code: &SwitchCode) {
        self.kind.store(kind.bits(), Ordering::Relaxed);
        self.sw_in.store(code.sw_in(), Ordering::Relaxed);
        self.sw_in_mm.store(code.sw_in_mm(), Ordering::Relaxed);
        self.sw_out.store(code.sw_out(), Ordering::Relaxed);
        self.yielding.store(code.yield_first(), Ordering::Relaxed);
    }
}

fn plain(d: &mut Draft, keys: &[Hole; 4], variant: u8) {
    generate(d, variant, keys, 0);
}

fn vector(d: &mut Draft, &[tte, stack_top, slow, over, area]: &[Hole; 5], variant: u8) {
    generate(d, variant, &[tte, stack_top, slow, over], area.imm32());
}

/// The next instruction is where entries of this kind are found. A draft that has lost bytes knows no places,
/// and another CPU may have made a whole one.
fn note(variant: u8, places: &[AtomicUsize], d: &Draft) {
    if d.is_whole() {
        places[variant as usize].store(d.len(), Ordering::Relaxed);
    }
}

const fn has(variant: u8, kind: SwitchKind) -> bool {
    variant & kind.0 != 0
}

fn generate(d: &mut Draft, variant: u8, keys: &[Hole; 4], area: i32) {
    let [tte, stack_top, slow, over] = *keys;
    let (tte, base) = (tte.imm32(), stack_top.imm32());

    into_space(d, tte);
    assert!(
        d.len() == MM_LEN || !d.is_whole(),
        "sw_in is not where it is looked for"
    );
    dynasm!(d ; .arch x64 ; mov rsp, [tte + offset_of!(Tte, rsp) as i32]);
    let rare = Rare::new(d);
    begin(d, variant, tte, base, &rare);
    vectors(d, variant, tte, area, &rare);
    dynasm!(d
        ; .arch x64
        ; pop r15
        ; pop r14
        ; pop r13
        ; pop r12
        ; pop rbp
        ; pop rbx
        ; ret
    );
    rarely(d, variant, &rare);
    bases_rarely(d, variant, tte, &rare);

    note(variant, &SW_OUT_AT, d);
    dynasm!(d
        ; .arch x64
        ; push rbx
        ; push rbp
        ; push r12
        ; push r13
        ; push r14
        ; push r15
    );
    let gone = end(d, variant, tte, base, area);
    dynasm!(d
        ; .arch x64
        ; mov [tte + offset_of!(Tte, rsp) as i32], rsp
    );
    jump_through(d, tte + offset_of!(Tte, link) as i32);
    gs_gone(d, variant, tte, gone);

    if has(variant, SwitchKind::USER) {
        yield_way(d, variant, [tte, base, area], [slow, over]);
    } else {
        for unused in [stack_top, slow, over] {
            d.spare(unused);
        }
    }
}

/// The three entries of a thread that gives way by `sched_yield`.
fn yield_way(d: &mut Draft, variant: u8, [tte, base, area]: [i32; 3], [slow, over]: [Hole; 2]) {
    let saved = |place: i32| base - 8 * place;
    let user_rsp = base + StackBase::USER_RSP as i32;
    let (asked, many) = (d.label(), d.label());

    into_space(d, tte);
    note(variant, &YIELD_IN_AT, d);
    let rare = Rare::new(d);
    begin(d, variant, tte, base, &rare);
    // For the vector registers, and for the check of the thread's marks; the remaining value is the call's
    // result.
    dynasm!(d ; .arch x64 ; mov eax, ATTENTION as i32);
    shared_vectors(d, variant, tte, area, &rare);
    dynasm!(d
        ; .arch x64
        ; mov rcx, [saved(1)]
        ; mov r11, [saved(2)]
        ; mov rdi, [saved(3)]
        ; mov rsi, [saved(4)]
        ; mov rdx, [saved(5)]
        ; mov r10, [saved(6)]
        ; mov r8, [saved(7)]
        ; mov r9, [saved(8)]
        ; mov rbx, [saved(9)]
        ; mov rbp, [saved(10)]
        ; mov r12, [saved(11)]
        ; mov r13, [saved(12)]
        ; mov r14, [saved(13)]
        ; mov r15, [saved(14)]
        ; and eax, [tte + offset_of!(Tte, state) as i32]
        ; jnz =>asked
    );
    if entry_mitigations::enters_on_kernel_stack() {
        dynasm!(d ; .arch x64 ; mov rsp, base);
        entry_mitigations::leave_kernel(d);
    }
    if !entry_mitigations::sysret_by_gate(d) {
        dynasm!(d ; .arch x64 ; mov rsp, [user_rsp]);
        sysret(d);
    }
    d.bind(asked);
    dynasm!(d ; .arch x64 ; mov rsp, base ; mov eax, abi::nr::SCHED_YIELD as i32);
    d.jmp_abs(slow);
    shared_rarely(d, variant, tte, &rare);
    bases_rarely(d, variant, tte, &rare);

    // Alone in its level, and all other levels are empty: nothing to do.
    note(variant, &YIELD_FIRST_AT, d);
    dynasm!(d
        ; .arch x64
        ; mov rax, [tte + offset_of!(Tte, sw_in) as i32]
        ; cmp [tte + offset_of!(Tte, link) as i32], rax
        ; jne =>many
        ; xor eax, eax
    );
    if entry_mitigations::enters_on_kernel_stack() {
        entry_mitigations::leave_kernel(d);
    }
    if !entry_mitigations::sysret_by_gate(d) {
        if entry_mitigations::enters_on_kernel_stack() {
            dynasm!(d ; .arch x64 ; mov rsp, [user_rsp]);
        }
        sysret(d);
    }
    d.bind(many);
    if !entry_mitigations::enters_on_kernel_stack() {
        dynasm!(d ; .arch x64 ; mov [user_rsp], rsp ; mov rsp, base);
    }
    d.jmp_abs(over);

    note(variant, &YIELD_OUT_AT, d);
    dynasm!(d
        ; .arch x64
        ; mov [saved(1)], rcx
        ; mov [saved(2)], r11
        ; mov [saved(3)], rdi
        ; mov [saved(4)], rsi
        ; mov [saved(5)], rdx
        ; mov [saved(6)], r10
        ; mov [saved(7)], r8
        ; mov [saved(8)], r9
        ; mov [saved(9)], rbx
        ; mov [saved(10)], rbp
        ; mov [saved(11)], r12
        ; mov [saved(12)], r13
        ; mov [saved(13)], r14
        ; mov [saved(14)], r15
    );
    if entry_mitigations::enters_on_kernel_stack() {
        // Below the saved registers: the jump needs words of the stack.
        dynasm!(d ; .arch x64 ; mov rsp, saved(16));
    } else {
        dynasm!(d ; .arch x64 ; mov [user_rsp], rsp);
    }
    let gone = end(d, variant, tte, base, area);
    dynasm!(d
        ; .arch x64
        ; mov rdi, [base + StackBase::CPU as i32]
    );
    jump_through(d, tte + offset_of!(Tte, link) as i32);
    gs_gone(d, variant, tte, gone);
}

/// To user mode by `sysretq`, which the assembler does not know; in tests to the caller.
fn sysret(d: &mut Draft) {
    entry_mitigations::clear_buffers(d);
    if cfg!(test) {
        dynasm!(d ; .arch x64 ; ret);
    } else {
        dynasm!(d ; .arch x64 ; .bytes &[0x48, 0x0f, 0x07]);
    }
}

/// [`MM_LEN`] bytes: loads the thread's address space.
fn into_space(d: &mut Draft, tte: i32) {
    dynasm!(d
        ; .arch x64
        ; mov rcx, [tte + offset_of!(Tte, root) as i32]
    );
    speculation::enter_space(d);
}

/// Makes the thread the running thread of the CPU at rdi from the time stamp in rax on, except for the vector
/// registers; changes rax, rcx, rdx and flags.
fn begin(d: &mut Draft, variant: u8, tte: i32, base: i32, rare: &Rare) {
    dynasm!(d
        ; .arch x64
        ; sub [tte + offset_of!(Tte, time) as i32], rax
        ; mov [tte + offset_of!(Tte, in_at) as i32], rax
        ; mov QWORD [rdi + Cpu::CURRENT as i32], tte
    );
    if !has(variant, SwitchKind::USER) {
        return;
    }
    dynasm!(d
        ; .arch x64
        ; mov rcx, [tte + offset_of!(Tte, dispatch) as i32]
        ; mov [rdi + Cpu::DISPATCHER as i32], rcx
        ; mov QWORD [rdi + Cpu::RSP0 as i32], base
    );
    load_base(d, variant, tte + FS_BASE, MSR_FS_BASE);
    // Nobody's GS base is here.
    dynasm!(d ; .arch x64 ; cmp QWORD [tte + GS_BASE], 0 ; jne =>rare.gs ; =>rare.based);
    if has(variant, SwitchKind::ASKED) {
        speculation::begin(d, tte);
    }
    if has(variant, SwitchKind::WATCHED) {
        hw_breakpoints::begin(d, tte);
    }
}

/// In the ordinary way: makes the vector registers the thread's unless they are, and has the CPU's books say
/// so; or has them trap. Changes rax, rcx and flags.
fn vectors(d: &mut Draft, variant: u8, tte: i32, area: i32, rare: &Rare) {
    if !has(variant, SwitchKind::FP) {
        return no_vectors(d, variant, tte, rare);
    }
    // The difference overflows when the owner is `Cpu::FP_TRAPPED`.
    dynasm!(d
        ; .arch x64
        ; cmp QWORD [rdi + Cpu::FP_OWNER as i32], tte
        ; je =>rare.go
        ; jo =>rare.away
        ; =>rare.load
        ; mov QWORD [rdi + Cpu::FP_OWNER as i32], tte
    );
    if variant & SwitchKind::XSAVE != 0 {
        dynasm!(d ; .arch x64 ; mov eax, -1);
    }
    restore(d, variant, area);
    d.bind(rare.go);
}

/// In the yielding way, where rax is [`ATTENTION`] and stays so: yielding threads always find another
/// thread's vector registers loaded, so while the registers' owner is *nobody* there is nothing to compare
/// and nothing to store.
fn shared_vectors(d: &mut Draft, variant: u8, tte: i32, area: i32, rare: &Rare) {
    if !has(variant, SwitchKind::FP) {
        return no_vectors(d, variant, tte, rare);
    }
    dynasm!(d
        ; .arch x64
        ; cmp QWORD [rdi + Cpu::FP_OWNER as i32], 0
        ; jne =>rare.away
        ; =>rare.load
    );
    restore(d, variant, area);
    d.bind(rare.go);
}

/// For a thread without vector registers: makes their use trap. Changes rcx and flags.
fn no_vectors(d: &mut Draft, variant: u8, tte: i32, rare: &Rare) {
    if has(variant, SwitchKind::USER) {
        dynasm!(d ; .arch x64 ; cmp QWORD [rdi + Cpu::FP_OWNER as i32], tte ; jno =>rare.away);
        d.bind(rare.go);
    }
}

/// Loads the vector registers; the components whose bits are set in eax. No component has a bit above 31, so
/// edx may be anything.
fn restore(d: &mut Draft, variant: u8, area: i32) {
    if variant & SwitchKind::XSAVE != 0 {
        dynasm!(d ; .arch x64 ; xrstor64 [area]);
    } else {
        dynasm!(d ; .arch x64 ; fxrstor64 [area]);
    }
}

/// Labels between [`begin`], [`vectors`] or [`shared_vectors`] and their rare cases.
struct Rare {
    go: Label,
    load: Label,
    away: Label,
    /// The thread has a GS base, and where [`begin`] goes on.
    gs: Label,
    based: Label,
}

impl Rare {
    fn new(d: &mut Draft) -> Rare {
        Rare {
            go: d.label(),
            load: d.label(),
            away: d.label(),
            gs: d.label(),
            based: d.label(),
        }
    }
}

/// The rare case of [`vectors`]: changing whether floating-point instructions trap.
fn rarely(d: &mut Draft, variant: u8, rare: &Rare) {
    if has(variant, SwitchKind::FP) {
        dynasm!(d ; .arch x64 ; =>rare.away ; clts ; jmp =>rare.load);
    } else if has(variant, SwitchKind::USER) {
        dynasm!(d
            ; .arch x64
            ; =>rare.away
            ; mov rcx, cr0
            ; or ecx, 8
            ; mov cr0, rcx
            ; mov rcx, QWORD Cpu::FP_TRAPPED as i64
            ; mov [rdi + Cpu::FP_OWNER as i32], rcx
            ; jmp =>rare.go
        );
    }
}

/// The rare case of [`shared_vectors`]: the same, and clearing the registers' owner, unless they are still
/// the thread's.
fn shared_rarely(d: &mut Draft, variant: u8, tte: i32, rare: &Rare) {
    if !has(variant, SwitchKind::FP) {
        return rarely(d, variant, rare);
    }
    dynasm!(d
        ; .arch x64
        ; =>rare.away
        ; cmp QWORD [rdi + Cpu::FP_OWNER as i32], tte
        ; je =>rare.go
        ; mov QWORD [rdi + Cpu::FP_OWNER as i32], 0
        ; jno =>rare.load
        ; clts
        ; jmp =>rare.load
    );
}

/// The rare case of [`begin`]: a thread that has a GS base.
fn bases_rarely(d: &mut Draft, variant: u8, tte: i32, rare: &Rare) {
    if !has(variant, SwitchKind::USER) {
        return;
    }
    d.bind(rare.gs);
    load_base(d, variant, tte + GS_BASE, MSR_GS_BASE);
    dynasm!(d ; .arch x64 ; jmp =>rare.based);
}

/// Labels of [`gs_gone`]: it begins, and where [`end`] goes on.
#[derive(Clone, Copy)]
struct Gone {
    gs: Label,
    on: Label,
}

/// Saves what a program may have changed, and stops the clock: rax is the time stamp then. Changes rcx and
/// rdx.
fn end(d: &mut Draft, variant: u8, tte: i32, base: i32, area: i32) -> Gone {
    let gone = Gone {
        gs: d.label(),
        on: d.label(),
    };
    if has(variant, SwitchKind::ASKED) {
        speculation::end(d, base);
    }
    if has(variant, SwitchKind::WATCHED) {
        hw_breakpoints::end(d);
    }
    if has(variant, SwitchKind::USER) {
        if variant & SwitchKind::FSGSBASE == 0 {
            dynasm!(d ; .arch x64 ; cmp QWORD [tte + GS_BASE], 0);
        } else {
            dynasm!(d
                ; .arch x64
                ; rdfsbase rdx
                ; mov [tte + FS_BASE], rdx
                ; rdgsbase rdx
                ; test rdx, rdx
            );
        }
        dynasm!(d ; .arch x64 ; jnz =>gone.gs ; =>gone.on);
    }
    if has(variant, SwitchKind::FP) {
        if variant & SwitchKind::XSAVE != 0 {
            dynasm!(d ; .arch x64 ; mov eax, -1);
        }
        if variant & SwitchKind::XSAVEOPT != 0 {
            dynasm!(d ; .arch x64 ; xsaveopt64 [area]);
        } else if variant & SwitchKind::XSAVE != 0 {
            dynasm!(d ; .arch x64 ; xsave64 [area]);
        } else {
            dynasm!(d ; .arch x64 ; fxsave64 [area]);
        }
    }
    dynasm!(d
        ; .arch x64
        ; rdtsc
        ; shl rdx, 32
        ; or rax, rdx
        ; add [tte + offset_of!(Tte, time) as i32], rax
    );
    gone
}

/// The rare case of [`end`]: a thread that has a GS base leaves none behind, so that those without one need
/// not load theirs.
fn gs_gone(d: &mut Draft, variant: u8, tte: i32, gone: Gone) {
    if !has(variant, SwitchKind::USER) {
        return;
    }
    d.bind(gone.gs);
    if variant & SwitchKind::FSGSBASE == 0 {
        dynasm!(d
            ; .arch x64
            ; mov ecx, MSR_GS_BASE as i32
            ; xor eax, eax
            ; xor edx, edx
            ; wrmsr
        );
    } else {
        dynasm!(d ; .arch x64 ; mov [tte + GS_BASE], rdx ; xor edx, edx ; wrgsbase rdx);
    }
    dynasm!(d ; .arch x64 ; jmp =>gone.on);
}

/// Loads a segment base from the word at `at`; spares rdi, rsp.
fn load_base(d: &mut Draft, variant: u8, at: i32, msr: u32) {
    if variant & SwitchKind::FSGSBASE == 0 {
        dynasm!(d
            ; .arch x64
            ; mov ecx, msr as i32
            ; mov eax, [at]
            ; mov edx, [at + 4]
            ; wrmsr
        );
    } else {
        dynasm!(d ; .arch x64 ; mov rcx, [at]);
        if msr == MSR_FS_BASE {
            dynasm!(d ; .arch x64 ; wrfsbase rcx);
        } else {
            dynasm!(d ; .arch x64 ; wrgsbase rcx);
        }
    }
}

#[cfg(test)]
#[path = "switch_tests.rs"]
mod tests;
