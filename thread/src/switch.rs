//! `sw_in_mm`, `sw_in` and `sw_out`: each thread's own switch code.
//!
//! *Interface*: [`SwitchCode::synthesize`] makes one image with the three entries for one thread and one [`Kind`] of context;
//! the ready ring links the entries. Contract of the entries, interrupts off throughout:
//! - `sw_out`: called as `extern "C" fn(&Cpu)` by the running thread; preserves what a call preserves, saves it on
//!   the thread's stack, stops the thread's clock, and jumps through the thread's `link` word with rdi = `Cpu`, rax = time stamp.
//!   It returns, perhaps on another CPU, when the thread's `sw_in` has run.
//! - `sw_in_mm`: loads the address space, then as `sw_in`.
//! - `sw_in` (rdi = `Cpu`, rax = time stamp): makes the thread the CPU's running one.
//!
//! Known when generated, so constants in the code: the entry's address, the kernel stack, whether the thread ever enters
//! user mode, whether it has vector registers or a GS base, and which instructions this processor has for them.
//! Two values stay words of the entry. The dispatcher, since threads that share a descriptor table get new ones while they run
//! elsewhere; and the page-table root, since a thread that ends must be able to leave its space without asking for memory.
//! `Cpu::root` is stored before CR3, as the TLB shootdown wants it.
//!
//! A synchronous switch saves six registers and the stack pointer. An asynchronous one comes through a
//! trap frame that holds all others already, and then is a synchronous one.
//! Source: dissertation, sections 3.3.2 (figures 3.3 and 3.4) and 5.3.1.

use crate::tte::Tte;
use codegen::{Class, Draft, Hole, OutOfCode, Routine, Template, dynasm};
use core::mem::offset_of;
use core::sync::atomic::{AtomicUsize, Ordering};
use machine::cpu::{Cpu, MSR_FS_BASE, MSR_GS_BASE, StackBase};

/// What `sw_out` is to its caller.
pub(crate) type SwOut = extern "C" fn(&Cpu);

/// Which context a thread's switch code carries: a sum of the constants.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Kind(u8);

impl Kind {
    /// Never enters user mode: no user segments, no dispatcher, hands off the floating-point unit.
    pub const KERNEL: Kind = Kind(0);
    /// Enters user mode.
    pub const USER: Kind = Kind(1);
    /// Has vector registers.
    pub const FP: Kind = Kind(2);
    /// Has set a GS base.
    pub const GS: Kind = Kind(4);
    const FSGSBASE: u8 = 8;
    const XSAVE: u8 = 16;
    const XSAVEOPT: u8 = 32;

    /// Both.
    pub const fn with(self, other: Kind) -> Kind {
        Kind(self.0 | other.0)
    }

    /// This one without what `other` has.
    pub const fn without(self, other: Kind) -> Kind {
        Kind(self.0 & !other.0)
    }

    /// Whether it has everything that `other` has.
    pub const fn contains(self, other: Kind) -> bool {
        self.0 & other.0 == other.0
    }

    pub(crate) const fn bits(self) -> u8 {
        self.0
    }

    pub(crate) const fn from_bits(bits: u8) -> Kind {
        Kind(bits)
    }

    /// As this processor does it.
    fn here(self) -> Kind {
        let found = machine::features::get();
        let mut bits = self.0;
        if self.0 & Kind::USER.0 != 0 && found.fsgsbase() {
            bits |= Kind::FSGSBASE;
        }
        if self.0 & Kind::FP.0 != 0 && found.xsave() {
            bits |= Kind::XSAVE;
            if found.xsaveopt() {
                bits |= Kind::XSAVEOPT;
            }
        }
        Kind(bits)
    }
}

/// The keys of one thread's switch code.
#[derive(Clone, Copy, Debug)]
pub struct Keys {
    /// Address of the [`Tte`].
    pub tte: usize,
    /// Address of the [`StackBase`].
    pub stack_top: usize,
    /// Address of the area for vector registers; 0 without [`Kind::FP`].
    pub fp_area: usize,
}

/// A thread's switch code.
pub struct SwitchCode {
    image: Routine<SwOut>,
    variant: u8,
    /// As in [`Keys`].
    fp_area: usize,
}

/// Bytes in front of `sw_in` that change the address space.
const MM_LEN: usize = 8 + 4 + 3;
const VARIANTS: usize = 64;

static SWITCH: Class = Class::new("thread.switch");
static SW_OUT_AT: [AtomicUsize; VARIANTS] = [const { AtomicUsize::new(0) }; VARIANTS];

macro_rules! templates {
    ($generate:ident: $($v:literal)*) => { [$(Template::new(&SWITCH, $generate::<$v>)),*] };
}
/// By variant; those with [`Kind::FP`] are in [`VECTOR`].
static PLAIN: [Template<2>; 16] = templates!(plain: 0 1 0 0 4 5 0 0 8 9 0 0 12 13 0 0);
/// By variant less the bits below [`Kind::FSGSBASE`]: without and with a GS base.
static VECTOR: [Template<3>; 16] =
    templates!(vector: 3 7 11 15 19 23 27 31 35 39 43 47 51 55 59 63);

impl SwitchCode {
    /// Switch code of `kind` for the thread with these keys; `owner` is what listings show.
    pub fn synthesize(kind: Kind, keys: &Keys, owner: u64) -> Result<SwitchCode, OutOfCode> {
        Self::synthesize_variant(kind.here(), keys, owner)
    }

    fn synthesize_variant(kind: Kind, keys: &Keys, owner: u64) -> Result<SwitchCode, OutOfCode> {
        let [tte, top, area] = [keys.tte, keys.stack_top, keys.fp_area].map(|key| key as i64);
        let variant = kind.0 as usize;
        let sealed = if kind.0 & Kind::FP.0 == 0 {
            PLAIN[variant].instantiate("switch", owner, &[tte, top])?
        } else {
            VECTOR[variant >> 2].instantiate("switch", owner, &[tte, top, area])?
        };
        Ok(SwitchCode {
            // SAFETY: the generator keeps the contract at the head of this file for a `Tte`, a stack base and an area that live as
            // long as the thread, which owns the image.
            image: unsafe { Routine::from(sealed) },
            variant: kind.0,
            fp_area: keys.fp_area,
        })
    }

    /// Whether this is the code for a thread of `kind` with these keys, whose entry and stack are those that it was made for.
    pub fn is_for(&self, kind: Kind, keys: &Keys) -> bool {
        self.fp_area == keys.fp_area && self.variant == kind.here().0
    }

    /// Whose code listings say it is.
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
}

fn plain<const VARIANT: u8>(d: &mut Draft, keys: &[Hole; 2]) {
    generate::<VARIANT>(d, keys, 0);
}

fn vector<const VARIANT: u8>(d: &mut Draft, &[tte, stack_top, area]: &[Hole; 3]) {
    generate::<VARIANT>(d, &[tte, stack_top], area.imm32());
}

fn generate<const VARIANT: u8>(d: &mut Draft, keys: &[Hole; 2], area: i32) {
    let [tte, stack_top] = *keys;
    let (tte, base) = (tte.imm32(), stack_top.imm32());
    let has = |kind: Kind| VARIANT & kind.0 != 0;

    dynasm!(d
        ; .arch x64
        ; mov rcx, [tte + offset_of!(Tte, root) as i32]
        ; mov [BYTE rdi + Cpu::ROOT as i8], rcx
        ; mov cr3, rcx
    );
    assert_eq!(d.len(), MM_LEN, "sw_in is not where it is looked for");
    dynasm!(d
        ; .arch x64
        ; mov rsp, [tte + offset_of!(Tte, rsp) as i32]
        ; sub [tte + offset_of!(Tte, time) as i32], rax
        ; mov [tte + offset_of!(Tte, in_at) as i32], rax
        ; mov QWORD [rdi + Cpu::CURRENT as i32], tte
        ; mov [base + StackBase::CPU as i32], rdi
    );
    if has(Kind::USER) {
        dynasm!(d
            ; .arch x64
            ; mov rcx, [tte + offset_of!(Tte, dispatch) as i32]
            ; mov [rdi + Cpu::DISPATCHER as i32], rcx
            ; mov QWORD [rdi + Cpu::RSP0 as i32], base
        );
        load_base::<VARIANT>(d, tte + offset_of!(Tte, fs_base) as i32, MSR_FS_BASE);
        if has(Kind::GS) {
            load_base::<VARIANT>(d, tte + offset_of!(Tte, gs_base) as i32, MSR_GS_BASE);
        }
        if has(Kind::FP) {
            dynasm!(d
                ; .arch x64
                ; cmp DWORD [rdi + Cpu::FP_TRAP as i32], 0
                ; jne >clear
                ; untrapped:
                ; cmp QWORD [rdi + Cpu::FP_OWNER as i32], tte
                ; jne >load
                ; cmp [tte + offset_of!(Tte, fp_cpu) as i32], rdi
                ; jne >load
            );
        } else {
            dynasm!(d
                ; .arch x64
                ; cmp DWORD [rdi + Cpu::FP_TRAP as i32], 0
                ; je >trap
            );
        }
    }
    dynasm!(d
        ; .arch x64
        ; go:
        ; pop r15
        ; pop r14
        ; pop r13
        ; pop r12
        ; pop rbp
        ; pop rbx
        ; ret
    );
    if has(Kind::USER) && has(Kind::FP) {
        dynasm!(d
            ; .arch x64
            ; clear:
            ; clts
            ; mov DWORD [rdi + Cpu::FP_TRAP as i32], 0
            ; jmp <untrapped
            ; load:
            ; mov QWORD [rdi + Cpu::FP_OWNER as i32], tte
            ; mov [tte + offset_of!(Tte, fp_cpu) as i32], rdi
        );
        if VARIANT & Kind::XSAVE != 0 {
            dynasm!(d
                ; .arch x64
                ; mov eax, -1
                ; cdq
                ; xrstor64 [area]
            );
        } else {
            dynasm!(d ; .arch x64 ; fxrstor64 [area]);
        }
        dynasm!(d ; .arch x64 ; jmp <go);
    } else if has(Kind::USER) {
        dynasm!(d
            ; .arch x64
            ; trap:
            ; mov rcx, cr0
            ; or ecx, 8
            ; mov cr0, rcx
            ; mov DWORD [rdi + Cpu::FP_TRAP as i32], 1
            ; jmp <go
        );
    }

    SW_OUT_AT[VARIANT as usize].store(d.len(), Ordering::Relaxed);
    dynasm!(d
        ; .arch x64
        ; push rbx
        ; push rbp
        ; push r12
        ; push r13
        ; push r14
        ; push r15
    );
    if has(Kind::USER) && has(Kind::FP) {
        if VARIANT & Kind::XSAVE != 0 {
            dynasm!(d ; .arch x64 ; mov eax, -1 ; cdq);
        }
        if VARIANT & Kind::XSAVEOPT != 0 {
            dynasm!(d ; .arch x64 ; xsaveopt64 [area]);
        } else if VARIANT & Kind::XSAVE != 0 {
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
        ; mov [tte + offset_of!(Tte, rsp) as i32], rsp
        ; jmp QWORD [tte + offset_of!(Tte, link) as i32]
    );
}

/// Loads a segment base from the word at `at`; spares rdi, rsp.
fn load_base<const VARIANT: u8>(d: &mut Draft, at: i32, msr: u32) {
    if VARIANT & Kind::FSGSBASE == 0 {
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
