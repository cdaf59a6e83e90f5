//! Mitigations of speculation between threads: at a switch to another address space, and at a thread's own
//! request.
//!
//! *Interface*: [`Tte::ask`] and [`Tte::asked`] are `prctl(PR_SET_SPECULATION_CTRL)`, [`executed`] ends a
//! request that was made for one program; `enter_space` and the rest are for the switch code.
//!
//! A thread without a request has no cost. A thread with a request gets switch code with
//! [`SwitchKind::ASKED`], which sets the bits in SPEC_CTRL at switch-in and clears them at switch-out, with a
//! branch predictor barrier at both. Other threads' code does not check. Source: Intel, "Speculative
//! Execution Side Channel Mitigations"; Linux, Documentation/userspace-api/spec_ctrl.rst.

use crate::switch::lazy_fpu::FpuChange;
use crate::tte::code::SwitchKind;
use crate::tte::{NoMemory, Tte};
use codegen::{Class, Draft, OutOfCode, Routine, dynasm};
use core::mem::offset_of;
use core::sync::atomic::{AtomicUsize, Ordering};
use machine::cpu::{Cpu, StackBase, irq_restore, irq_save, this_cpu, wrmsr};
use machine::entry_mitigations;
use machine::mitigate::{self, IBPB, PRED_CMD, SPEC_CTRL, SSBD, STIBP};

/// Calls that fill the return stack.
const RETURNS: i32 = 32;

static SPACE: Class = Class::new("thread.space");
/// Entry of the routine that [`enter_space`] calls; 0 when nothing needs to be done.
static ENTER: AtomicUsize = AtomicUsize::new(0);

/// The running thread executes another program: requests until the next `exec` end.
pub fn executed() {
    let thread = crate::current();
    let asked = thread.asked();
    if asked.contains(SpeculationControl::STORES_UNTIL_EXEC) {
        // Without memory for other switch code it keeps its present code: less speculation than it asks for.
        let _ = thread.ask(asked.without(SpeculationControl::STORES_UNTIL_EXEC));
    }
}

/// The set of a thread's requests.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SpeculationControl(u32);

impl SpeculationControl {
    /// Nothing.
    pub const NOTHING: SpeculationControl = SpeculationControl(0);
    /// No load passes an older store.
    pub const STORES: SpeculationControl = SpeculationControl(SSBD);
    /// Others do not train its indirect branches.
    pub const BRANCHES: SpeculationControl = SpeculationControl(STIBP);
    /// [`SpeculationControl::STORES`] can never be taken back.
    pub const STORES_FOR_EVER: SpeculationControl = SpeculationControl(SSBD | 1 << 8);
    /// [`SpeculationControl::STORES`] ends with the program.
    pub const STORES_UNTIL_EXEC: SpeculationControl = SpeculationControl(SSBD | 1 << 9);
    /// [`SpeculationControl::BRANCHES`] can never be taken back.
    pub const BRANCHES_FOR_EVER: SpeculationControl = SpeculationControl(STIBP | 1 << 10);

    /// Both.
    pub const fn with(self, other: SpeculationControl) -> SpeculationControl {
        SpeculationControl(self.0 | other.0)
    }

    /// This one without what `other` has.
    pub const fn without(self, other: SpeculationControl) -> SpeculationControl {
        SpeculationControl(self.0 & !other.0)
    }

    /// Whether it has everything that `other` has.
    pub const fn contains(self, other: SpeculationControl) -> bool {
        self.0 & other.0 == other.0
    }
}

/// Entry of the routine that every switch to another address space calls; 0 for none.
pub(crate) fn entry() -> usize {
    ENTER.load(Ordering::Relaxed)
}

/// Generates what switches share, at boot.
///
/// # Errors
/// No code space.
pub(crate) fn init() -> Result<(), OutOfCode> {
    let measures = mitigate::measures();
    if !measures.refill_returns() && !measures.ibpb_always() && !measures.isolate_tables() {
        return Ok(());
    }
    let mut draft = Draft::new(&SPACE, "enter space");
    let d = &mut draft;
    entry_mitigations::load_root(d);
    if measures.ibpb_always() {
        dynasm!(d ; .arch x64 ; mov r8, rax);
        barrier(d);
        dynasm!(d ; .arch x64 ; mov rax, r8);
    }
    if measures.refill_returns() {
        dynasm!(d ; .arch x64
            ; mov ecx, RETURNS / 2
            ; next:
            ; call >one
            ; int3
            ; one:
            ; call >two
            ; int3
            ; two:
            ; dec ecx
            ; jnz <next
            ; lfence
            ; add rsp, 8 * RETURNS
        );
    }
    dynasm!(d ; .arch x64 ; ret);
    // SAFETY: called only by switch code, which knows the registers that it keeps.
    let routine = unsafe { Routine::<fn()>::from(draft.seal()?) };
    ENTER.store(routine.entry(), Ordering::Relaxed);
    core::mem::forget(routine);
    Ok(())
}

/// The rest of loading an address space, whose root is in rcx, on the CPU at rdi: as long as the two plain
/// instructions. Keeps rax.
pub(crate) fn enter_space(d: &mut Draft) {
    match ENTER.load(Ordering::Relaxed) {
        0 => dynasm!(d ; .arch x64 ; mov [BYTE rdi + Cpu::ROOT as i8], rcx ; mov cr3, rcx),
        routine => {
            d.call_abs(routine);
            dynasm!(d ; .arch x64 ; nop ; nop);
        }
    }
}

/// For a thread that has asked: sets its bits on the CPU at rdi. Changes rax, rcx, rdx, flags.
pub(crate) fn begin(d: &mut Draft, tte: i32) {
    dynasm!(d ; .arch x64
        ; mov eax, [tte + offset_of!(Tte, speculation) as i32]
        ; and eax, (SSBD | STIBP) as i32
        ; or [rdi + Cpu::SPEC_RESTING as i32], eax
        ; or [rdi + Cpu::SPEC_RUNNING as i32], eax
        ; mov eax, [rdi + Cpu::SPEC_RUNNING as i32]
        ; mov ecx, SPEC_CTRL as i32
        ; xor edx, edx
        ; wrmsr
    );
    if mitigate::measures().ibpb_asked() {
        barrier(d);
    }
}

/// As [`begin`], when it goes: its bits are taken away, on the CPU that the stack base names.
pub(crate) fn end(d: &mut Draft, base: i32) {
    let measures = mitigate::measures();
    let (running, resting) = (mitigate::running(measures), mitigate::resting(measures));
    dynasm!(d ; .arch x64
        ; mov rdx, [base + StackBase::CPU as i32]
        ; mov DWORD [rdx + Cpu::SPEC_RESTING as i32], resting as i32
        ; mov eax, running as i32
        ; mov [rdx + Cpu::SPEC_RUNNING as i32], eax
        ; mov ecx, SPEC_CTRL as i32
        ; xor edx, edx
        ; wrmsr
    );
    if measures.ibpb_asked() {
        barrier(d);
    }
}

/// IBPB. Changes rax, rcx, rdx, flags.
fn barrier(d: &mut Draft) {
    dynasm!(d ; .arch x64 ; mov ecx, PRED_CMD as i32 ; mov eax, IBPB as i32 ; xor edx, edx ; wrmsr);
}

impl Tte {
    /// The thread's requests.
    pub fn asked(&self) -> SpeculationControl {
        // Without the code for it the word is of a former thread.
        match self.kind().contains(SwitchKind::ASKED) {
            true => SpeculationControl(self.speculation.load(Ordering::Relaxed)),
            false => SpeculationControl::NOTHING,
        }
    }

    /// The running thread, which this is, asks for `asked` from now on; its children inherit it. The caller
    /// knows that the processor has the bits.
    ///
    /// # Errors
    /// No memory for the switch code: nothing has changed.
    pub fn ask(&self, asked: SpeculationControl) -> Result<(), NoMemory> {
        let had = self.kind().contains(SwitchKind::ASKED);
        let has = asked != SpeculationControl::NOTHING;
        // Before the code that reads it, unless that is there already.
        self.speculation.store(asked.0, Ordering::Relaxed);
        if has != had {
            let kind = self.kind();
            let kind = match has {
                true => kind.with(SwitchKind::ASKED),
                false => kind.without(SwitchKind::ASKED),
            };
            self.replug(kind, FpuChange::Keep)?;
        }
        // Bound: two words of the CPU and one of its registers.
        let irq = irq_save();
        let (cpu, measures) = (this_cpu(), mitigate::measures());
        let bits = asked.0 & (SSBD | STIBP);
        let running = mitigate::running(measures) | bits;
        cpu.spec_resting
            .store(mitigate::resting(measures) | bits, Ordering::Relaxed);
        cpu.spec_running.store(running, Ordering::Relaxed);
        // SAFETY: the caller's promise; none of the bits changes what code does.
        unsafe { wrmsr(SPEC_CTRL, u64::from(running)) };
        irq_restore(irq);
        Ok(())
    }

    /// The new thread `child` inherits the requests of this, the running thread.
    pub(crate) fn inherit_speculation_control(&self, child: &Tte) {
        let asked = self.speculation.load(Ordering::Relaxed);
        child.speculation.store(asked, Ordering::Relaxed);
    }
}
