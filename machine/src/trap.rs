//! Entering and leaving the kernel: exceptions, interrupts and slow system calls.
//!
//! *Interface*: [`TrapFrame`] (`trap_frame.rs`), [`Callouts`] and [`link`], the entry addresses
//! [`syscall_slow`] and [`irq_tail`] for generated code, [`return_from`]. Most entries are generated and are
//! elsewhere: fast system calls in `thread/src/dispatch` and `thread/src/entry`, device interrupts in
//! `device/src/handler.rs`. Source: dissertation, section 3.3.3 and 3.3.4; docs/architecture.md, "Entering
//! the kernel".
//!
//! Exceptions reach the callout with interrupts off, so that [`fault_address`] is still the fault's; the
//! callout turns them on when it may sleep. Interrupt handlers run with interrupts off throughout; the
//! callout at the end of an interrupt may turn them on and off again.
//!
//! A page fault of a program goes by a word at the base of the running thread's stack to the thread's own
//! [`FaultVector`], with only those registers saved that a call changes. So the usual fault has no frame and
//! no callout. Where a crossing has more to do (`mitigated.rs`, `pti.rs`), it is an exception like others.

use core::sync::atomic::{AtomicPtr, Ordering};

use crate::cpu;
pub use crate::trap_frame::*;

/// The services that the machine needs of higher rooms.
pub struct Callouts {
    /// An exception other than NMI, double fault and machine check. Interrupts are off.
    pub exception: fn(&mut TrapFrame),
    /// A page fault of a program that its thread's vector has not finished with; beside it that one's answer.
    /// Interrupts are off, and unless the vector turned them on, [`fault_address`] is still the fault's.
    pub fault: fn(&mut TrapFrame, usize),
    /// A system call that no generated code has answered: number in `error` and `rax`, result into `rax`.
    /// Interrupts are on.
    pub syscall: fn(&mut TrapFrame),
    /// Last thing before going back to user mode (signals, stops, giving way). Called and returns with
    /// interrupts off.
    pub return_to_user: fn(&mut TrapFrame),
    /// Last thing in every interrupt, after the controller has been told (preemption). Interrupts are off.
    pub irq_exit: fn(&mut TrapFrame),
}

/// A thread's vector for the page faults of its program: gets the address and the processor's error code,
/// with interrupts off on the thread's stack. Answers 0 when the program can go on, as it was interrupted;
/// otherwise the rest of its registers are saved, and the answer goes to [`Callouts::fault`].
///
/// Source: dissertation, sections 3.3.2 and 4.3 (a thread's vector table).
pub type FaultVector = extern "sysv64" fn(address: usize, error: u64) -> usize;

/// The vector of a thread without a program.
pub extern "sysv64" fn no_program(_address: usize, _error: u64) -> usize {
    usize::MAX
}

/// Default actions: exceptions end in the report, calls give ENOSYS, the rest is nothing.
static DEFAULT: Callouts = Callouts {
    exception: |frame| crate::panic_report::fatal_exception(frame),
    fault: |frame, _| crate::panic_report::fatal_exception(frame),
    syscall: |frame| frame.rax = (-38i64) as u64,
    return_to_user: |_| {},
    irq_exit: |_| {},
};

static LINKED: AtomicPtr<Callouts> = AtomicPtr::new((&raw const DEFAULT).cast_mut());

/// Links the callouts, once, at boot.
pub fn link(callouts: &'static Callouts) {
    LINKED.store(core::ptr::from_ref(callouts).cast_mut(), Ordering::Release);
}

fn callouts() -> &'static Callouts {
    // SAFETY: the word begins with `DEFAULT`, and only `link` stores there, which takes a `&'static`.
    unsafe { &*LINKED.load(Ordering::Acquire) }
}

#[cfg(target_os = "none")]
/// `stac`, recorded so that it becomes a no-op where the processor has no SMAP.
macro_rules! stac {
    () => {
        ".pushsection .smapsites,\"a\"\n.quad 771f\n.popsection\n771: stac"
    };
}
#[cfg(target_os = "none")]
/// `clac`, recorded as [`stac!`] is.
macro_rules! clac {
    () => {
        ".pushsection .smapsites,\"a\"\n.quad 772f\n.popsection\n772: clac"
    };
}
#[cfg(target_os = "none")]
pub(crate) use {clac, stac};

#[cfg(target_os = "none")]
#[macro_export]
/// Pushes the registers of a frame, for `naked_asm!`.
macro_rules! save {
    () => {
        concat!($crate::save_changed!(), "\n", $crate::save_kept!())
    };
}
#[cfg(target_os = "none")]
#[macro_export]
/// Pushes the registers that a call may change: the upper end of a frame.
macro_rules! save_changed {
    () => {
        "push rdi\npush rsi\npush rdx\npush rcx\npush rax\npush r8\npush r9\npush r10\npush r11"
    };
}
#[cfg(target_os = "none")]
#[macro_export]
/// Pushes the others.
macro_rules! save_kept {
    () => {
        "push rbx\npush rbp\npush r12\npush r13\npush r14\npush r15"
    };
}
#[cfg(target_os = "none")]
#[macro_export]
/// Pops what [`save!`] has pushed.
macro_rules! restore {
    () => {
        concat!(
            "pop r15\npop r14\npop r13\npop r12\npop rbp\npop rbx\n",
            $crate::restore_changed!()
        )
    };
}
#[cfg(target_os = "none")]
#[macro_export]
/// Pops what [`save_changed!`] has pushed.
macro_rules! restore_changed {
    () => {
        "pop r11\npop r10\npop r9\npop r8\npop rax\npop rcx\npop rdx\npop rsi\npop rdi"
    };
}
/// Where a debug exception begins, on its own stack, the vector pushed. It comes at any instruction: what a
/// program has had watched may be met by the kernel's accesses on its behalf, or be told late, at the first
/// instruction of a system call (behind `mov ss`), where the stack pointer is still the program's. From user
/// mode, and as the kernel's own step ([`crate::single_step`]), it goes on where it would have been without
/// all this. Otherwise it says nothing, and touches nothing. Source: CVE-2018-8897; Linux, exc_debug_kernel.
#[cfg(target_os = "none")]
macro_rules! begin_debug {
    ($common:path) => {
        core::arch::naked_asm!(
            "test byte ptr [rsp + 24], 3",
            "jz 3f",
            "push rax",
            "push rcx",
            "mov rax, rsp",
            "mov rcx, rsp",
            "or rcx, {mask}",
            "mov rcx, [rcx - {less} + {cpu}]",
            "mov rsp, [rcx + {rsp0}]",
            "2: push qword ptr [rax + 64]",
            "push qword ptr [rax + 56]",
            "push qword ptr [rax + 48]",
            "push qword ptr [rax + 40]",
            "push qword ptr [rax + 32]",
            "push qword ptr [rax + 24]",
            "push qword ptr [rax + 16]",
            "mov rcx, [rax]",
            "mov rax, [rax + 8]",
            "jmp {common}",
            "3: test dword ptr [rsp + 32], {tf}",
            "jnz 4f",
            "push rax",
            "mov eax, {nothing}",
            "mov dr6, rax",
            "pop rax",
            "add rsp, 16",
            "iretq",
            "4: push rax",
            "push rcx",
            "mov rax, rsp",
            "mov rsp, [rax + 56]",
            "and rsp, -16",
            "jmp 2b",
            mask = const $crate::cpu::StackBase::SLOT - 1,
            less = const $crate::cpu::StackBase::SIZE - 1,
            cpu = const $crate::cpu::StackBase::CPU,
            rsp0 = const $crate::cpu::Cpu::RSP0,
            tf = const $crate::trap_frame::RFLAGS_TF,
            nothing = const $crate::debug_registers::NOTHING,
            common = sym $common,
        )
    };
}

/// One 16-byte stub a vector, from the symbol on: an error code of zero where the processor pushes none, then
/// the number.
#[cfg(target_os = "none")]
macro_rules! stubs {
    ($symbol:literal, $common:path, $debug_entry:path, $fault_entry:path) => {
        core::arch::global_asm!(
            ".pushsection .text.trap,\"ax\"",
            ".balign 16",
            concat!(".global ", $symbol),
            concat!(".type ", $symbol, ", @function"),
            concat!($symbol, ":"),
            ".set vector, 0",
            ".rept 256",
            ".balign 16",
            ".if (vector == 8) || (vector >= 10 && vector <= 14) || (vector == 17) || (vector == 21) || (vector == 29) || (vector == 30)",
            ".else",
            "pushq $0",
            ".endif",
            "pushq $vector",
            ".if vector == {debug}",
            "jmp {debug_entry}",
            ".elseif vector == {fault}",
            "jmp {fault_entry}",
            ".else",
            "jmp {common}",
            ".endif",
            ".set vector, vector + 1",
            ".endr",
            ".popsection",
            common = sym $common,
            debug = const $crate::trap_frame::exception::DEBUG,
            debug_entry = sym $debug_entry,
            fault = const $crate::trap_frame::exception::PAGE_FAULT,
            fault_entry = sym $fault_entry,
            options(att_syntax),
        );
    };
}

#[cfg(target_os = "none")]
mod mitigated;
#[cfg(target_os = "none")]
pub(crate) mod pti;

#[cfg(target_os = "none")]
pub use bare::*;

#[cfg(not(target_os = "none"))]
pub use host::*;

#[cfg(target_os = "none")]
mod bare {
    use super::*;
    use core::arch::{global_asm, naked_asm};
    use core::mem::offset_of;
    use core::sync::atomic::AtomicUsize;

    stubs!("trap_stubs", trap_common, debug_entry, fault_entry);

    // Until an entry is generated for each CPU: one jump through its word, 8 bytes apart.
    global_asm!(
        ".pushsection .text.trap,\"ax\"",
        ".balign 16",
        ".global syscall_entries",
        ".type syscall_entries, @function",
        "syscall_entries:",
        ".set cpu, 0",
        ".rept {count}",
        ".balign 8",
        "jmpq *({cpus} + cpu * {size} + {dispatcher})",
        ".set cpu, cpu + 1",
        ".endr",
        ".popsection",
        count = const cpu::MAX_CPUS,
        cpus = sym cpu::CPUS,
        size = const size_of::<cpu::Cpu>(),
        dispatcher = const cpu::Cpu::DISPATCHER,
        options(att_syntax),
    );

    unsafe extern "C" {
        fn trap_stubs();
        fn syscall_entries();
        fn iretq_site();
        /// Where [`trap_leave`] and its variant in `mitigated.rs` end, behind the registers.
        pub(super) fn trap_end();
    }

    /// Whether programs run on tables of their own (`pti.rs`).
    fn isolates() -> bool {
        crate::mitigate::measures().isolate_tables()
    }

    /// Whether a crossing has more to do, and the variants in `mitigated.rs` are the entries.
    fn guarded() -> bool {
        let measures = crate::mitigate::measures();
        measures.ibrs_by_entry() || measures.ibpb_by_entry() || measures.verw() || isolates()
    }

    /// The way out for those who do not choose it by their own place.
    static LEAVE: AtomicUsize = AtomicUsize::new(0);
    /// The entry of slow calls.
    static SLOW: AtomicUsize = AtomicUsize::new(0);

    /// Chooses, when the mitigations are known, before any trap.
    pub(crate) fn init() {
        let leave = if guarded() {
            mitigated::leave as *const () as usize
        } else {
            trap_leave as *const () as usize
        };
        LEAVE.store(leave, Ordering::Relaxed);
        let slow = if guarded() {
            mitigated::syscall_slow_entry as *const () as usize
        } else {
            syscall_slow_entry as *const () as usize
        };
        SLOW.store(slow, Ordering::Relaxed);
        let measures = crate::mitigate::measures();
        mitigated::BY_ENTRY.store(u32::from(measures.ibrs_by_entry()), Ordering::Relaxed);
        mitigated::BARRIER.store(u32::from(measures.ibpb_by_entry()), Ordering::Relaxed);
        pti::init(isolates());
    }

    /// The assembled `syscall` entry of CPU number `cpu`.
    pub(crate) fn static_syscall_entry(cpu: usize) -> usize {
        syscall_entries as *const () as usize + 8 * cpu
    }

    /// The dispatcher of a CPU on which no thread with user code has run.
    pub fn no_dispatcher() -> usize {
        extern "C" fn trap() -> ! {
            crate::panic_report::panic(format_args!("system call without a thread"))
        }
        trap as *const () as usize
    }

    /// Entry of the stub for `vector`.
    pub(crate) fn stub(vector: u8) -> usize {
        if isolates() {
            return pti::stub(vector);
        }
        let stubs = if guarded() {
            mitigated::guarded_stubs as *const ()
        } else {
            trap_stubs as *const ()
        };
        stubs as usize + 16 * vector as usize
    }

    #[unsafe(naked)]
    unsafe extern "C" fn debug_entry() {
        begin_debug!(trap_common)
    }

    #[unsafe(naked)]
    unsafe extern "C" fn trap_common() {
        naked_asm!(
            save!(),
            clac!(),
            "cld",
            "mov rdi, rsp",
            "call {trap}",
            "jmp {leave}",
            trap = sym trap,
            leave = sym trap_leave,
        )
    }

    /// Where a page fault begins, the vector pushed: a program's by the vector of its thread.
    #[unsafe(naked)]
    unsafe extern "C" fn fault_entry() {
        naked_asm!(
            "test byte ptr [rsp + {cs}], 3",
            "jz {common}",
            save_changed!(),
            clac!(),
            "cld",
            "mov rax, rsp",
            "or rax, {mask}",
            "mov rdi, cr2",
            "mov rsi, [rsp + {error}]",
            "call qword ptr [rax - {less} + {fault}]",
            "test rax, rax",
            "jnz 2f",
            restore_changed!(),
            "jmp {end}",
            "2:",
            save_kept!(),
            "mov rdi, rsp",
            "mov rsi, rax",
            "call {unfinished}",
            "jmp {leave}",
            cs = const offset_of!(TrapFrame, cs) - offset_of!(TrapFrame, vector),
            error = const offset_of!(TrapFrame, error) - offset_of!(TrapFrame, r11),
            mask = const cpu::StackBase::SLOT - 1,
            less = const cpu::StackBase::SIZE - 1,
            fault = const cpu::StackBase::FAULT,
            common = sym trap_common,
            end = sym trap_end,
            unfinished = sym unfinished_fault,
            leave = sym trap_leave,
        )
    }

    unsafe extern "C" fn unfinished_fault(frame: *mut TrapFrame, answer: usize) {
        // SAFETY: `fault_entry` passes the frame it has just completed.
        let frame = unsafe { &mut *frame };
        (callouts().fault)(frame, answer);
        leave(frame);
    }

    /// Restores the frame that the stack pointer points at.
    #[unsafe(naked)]
    unsafe extern "C" fn trap_leave() {
        naked_asm!(
            restore!(),
            ".global trap_end",
            "trap_end:",
            "add rsp, 16",
            ".global iretq_site",
            "iretq_site:",
            "iretq"
        )
    }

    #[unsafe(naked)]
    unsafe extern "C" fn syscall_slow_entry() {
        naked_asm!(
            "or rsp, {mask}",
            "sub rsp, {less}",
            "push {ss}",
            "push qword ptr [rsp + 8 + {user_rsp}]",
            "push r11",
            "push {cs}",
            "push rcx",
            "push rax",
            "push {vector}",
            save!(),
            "mov rdi, rsp",
            "call {syscall}",
            "test al, al",
            "jz {leave}",
            restore!(),
            "mov rsp, [rsp + 40]",
            "sysretq",
            mask = const cpu::StackBase::SLOT - 1,
            less = const cpu::StackBase::SIZE - 1,
            user_rsp = const cpu::StackBase::USER_RSP,
            ss = const USER_SS,
            cs = const USER_CS,
            vector = const VECTOR_SYSCALL,
            syscall = sym syscall,
            leave = sym trap_leave,
        )
    }

    const _: () = assert!(offset_of!(TrapFrame, rsp) - offset_of!(TrapFrame, vector) == 40);

    #[unsafe(naked)]
    unsafe extern "C" fn irq_tail_entry() {
        naked_asm!(
            "push 0",
            "push {vector}",
            save!(),
            clac!(),
            "cld",
            "mov rdi, rsp",
            "call {tail}",
            "jmp {leave}",
            vector = const VECTOR_TAIL,
            tail = sym irq_tail_body,
            leave = sym trap_leave,
        )
    }

    /// The code address to `jmp` to for a system call that generated code does not answer: at any depth of
    /// the thread's kernel stack, interrupts off, number in rax, user's rip in rcx and flags in r11, user's
    /// stack pointer in the [`cpu::StackBase`], all other registers as the user left them.
    pub fn syscall_slow() -> usize {
        SLOW.load(Ordering::Relaxed)
    }

    /// The code address a generated interrupt handler jumps to when it has woken somebody: stack and
    /// registers exactly as the interrupt left them, the controller told. Runs the end of an ordinary
    /// interrupt: giving way, signals.
    pub fn irq_tail() -> usize {
        if guarded() {
            mitigated::irq_tail_entry as *const () as usize
        } else {
            irq_tail_entry as *const () as usize
        }
    }

    /// The code address to which a generated handler jumps that leaves its interrupt to Rust: registers
    /// exactly as the interrupt left them, a zero and the vector pushed. The rest is an ordinary interrupt,
    /// with the handler of [`crate::irq::set_handler`].
    pub fn irq_common() -> usize {
        if guarded() {
            mitigated::common as *const () as usize
        } else {
            trap_common as *const () as usize
        }
    }

    /// Leaves the kernel (or goes to a kernel context) through `frame`, past the `return_to_user` callout.
    ///
    /// # Safety
    /// Interrupts are off, `frame` lies on the running kernel stack, nothing above it is needed, and it
    /// describes a state the kernel may go to.
    #[unsafe(naked)]
    pub unsafe extern "C" fn return_from(frame: *const TrapFrame) -> ! {
        naked_asm!(
            "mov rsp, rdi",
            "call {gate}",
            "jmp qword ptr [{leave}]",
            gate = sym gate,
            leave = sym LEAVE,
        )
    }

    /// Where a frame is left through without a look at it: for the machine's own check.
    pub(crate) fn restoring_end() -> usize {
        LEAVE.load(Ordering::Relaxed)
    }

    unsafe extern "C" fn gate(frame: *mut TrapFrame) {
        // SAFETY: `return_from` passes its caller's frame.
        leave(unsafe { &mut *frame });
    }

    pub(super) unsafe extern "C" fn trap(frame: *mut TrapFrame) {
        // SAFETY: `trap_common` passes the frame it has just built.
        let frame = unsafe { &mut *frame };
        let cpu = cpu::this_cpu();
        if frame.vector >= 32 {
            // One inside another's end is no quiescent point: what that one's handler has read it may still
            // use.
            let inside = cpu.handles_interrupt();
            if !inside {
                sync::epoch::quiescent(cpu.number());
            }
            cpu.handling.store(true, Ordering::Relaxed);
            crate::handlers::dispatch(cpu.number(), frame);
            cpu.handling.store(inside, Ordering::Relaxed);
            (callouts().irq_exit)(frame);
        } else {
            match frame.vector {
                exception::NMI => return crate::panic_report::nmi(frame),
                exception::DOUBLE_FAULT | exception::MACHINE_CHECK => {
                    crate::panic_report::fatal_exception(frame)
                }
                exception::INVALID_OPCODE => {
                    if !skip_smap_instruction(frame) {
                        (callouts().exception)(frame);
                    }
                }
                exception::DEBUG => {
                    frame.error = u64::from(crate::debug_registers::take_cause());
                    if frame.from_user() || !crate::single_step::taken(frame) {
                        (callouts().exception)(frame);
                    }
                }
                exception::SEGMENT | exception::STACK | exception::PROTECTION
                    if !frame.from_user()
                        && (frame.rip as usize == iretq_site as *const () as usize
                            || isolates() && pti::is_iretq(frame.rip)) =>
                {
                    // SAFETY: the frame of a fault in `trap_leave`.
                    unsafe { refused(frame) }
                }
                _ => (callouts().exception)(frame),
            }
        }
        leave(frame);
    }

    pub(super) unsafe extern "C" fn irq_tail_body(frame: *mut TrapFrame) {
        // SAFETY: `irq_tail_entry` passes the frame it has just built.
        let frame = unsafe { &mut *frame };
        let cpu = cpu::this_cpu();
        if !cpu.handles_interrupt() {
            sync::epoch::quiescent(cpu.number());
        }
        (callouts().irq_exit)(frame);
        leave(frame);
    }

    fn leave(frame: &mut TrapFrame) {
        // Bound: the way back to user mode: a look at the thread’s flags.
        cpu::irq_disable();
        if frame.from_user() {
            (callouts().return_to_user)(frame);
            if !frame.fits_user() {
                unfit(frame);
            }
        }
    }

    /// Gives the thread the fault that going to user mode by `frame` would be, until the frame is another or
    /// the thread has ended.
    #[cold]
    fn unfit(frame: &mut TrapFrame) {
        while frame.from_user() && !frame.fits_user() {
            fault(frame);
            cpu::irq_disable();
            if frame.from_user() {
                (callouts().return_to_user)(frame);
            }
        }
    }

    /// User mode takes a general protection fault in the state of `frame`, as if it had got there.
    fn fault(frame: &mut TrapFrame) {
        frame.cs = USER_CS;
        frame.ss = USER_SS;
        frame.rflags = frame.rflags & RFLAGS_USER | RFLAGS_IF | 2;
        frame.vector = exception::PROTECTION;
        frame.error = 0;
        (callouts().exception)(frame);
    }

    /// The `iretq` of [`trap_leave`] itself has faulted, in supervisor mode: what it was to go to is no state
    /// of user mode. Nothing should get so far ([`TrapFrame::fits_user`] has looked). If something does, the
    /// thread has the fault and the kernel goes on; a frame of the kernel's own is a fault like any other.
    ///
    /// # Safety
    /// `frame` is that of such a fault.
    #[cold]
    unsafe fn refused(frame: *mut TrapFrame) {
        // SAFETY: the caller's promise.
        let fault = unsafe { frame.read() };
        // SAFETY: when `iretq` faults the stack pointer is where it was: at the five words, which the
        // kernel's root maps.
        let [rip, cs, rflags, rsp, ss] = unsafe { (fault.rsp as *const [u64; 5]).read() };
        if cs & 3 != 3 {
            // SAFETY: the caller's promise.
            return (callouts().exception)(unsafe { &mut *frame });
        }
        // The gates' stack is too small; the fault's own frame lies where the thread's stack begins.
        let place = match isolates() {
            true => frame,
            false => (fault.rsp as usize - offset_of!(TrapFrame, rip)) as *mut TrapFrame,
        };
        let back = TrapFrame {
            rip,
            cs,
            rflags,
            rsp,
            ss,
            ..fault
        };
        // SAFETY: the frame that was to be left through lay there. The fault's own frame, which this may
        // overlap, has been read and is not looked at again; this function's stack lies below both.
        unsafe {
            place.write(back);
            refused_at(place)
        }
    }

    /// The rest of [`refused`], on a stack that ends below the frame.
    #[unsafe(naked)]
    unsafe extern "C" fn refused_at(frame: *mut TrapFrame) -> ! {
        naked_asm!(
            "mov rsp, rdi",
            "mov rbx, rdi",
            "call {again}",
            "mov rdi, rbx",
            "jmp {leave}",
            again = sym refused_below,
            leave = sym return_from,
        )
    }

    unsafe extern "C" fn refused_below(frame: *mut TrapFrame) {
        // SAFETY: `refused_at` passes its caller's frame.
        fault(unsafe { &mut *frame });
    }

    /// Returns whether `sysretq` may be used.
    pub(super) unsafe extern "C" fn syscall(frame: *mut TrapFrame) -> bool {
        // SAFETY: `syscall_slow_entry` passes the frame it has just built.
        let frame = unsafe { &mut *frame };
        cpu::irq_enable();
        (callouts().syscall)(frame);
        cpu::irq_disable();
        // A call comes from user mode and goes back there.
        (callouts().return_to_user)(frame);
        if frame.is_clean() {
            return true;
        }
        if !frame.fits_user() {
            unfit(frame);
        }
        false
    }

    /// Generated code uses `stac` and `clac` unconditionally; on a processor without SMAP they are undefined,
    /// and skipped here.
    fn skip_smap_instruction(frame: &mut TrapFrame) -> bool {
        if frame.from_user() || crate::features::get().smap() {
            return false;
        }
        // SAFETY: kernel code at a faulting instruction is readable; an x86 instruction is at least as long
        // as the bytes compared when they match.
        let bytes = unsafe { (frame.rip as *const [u8; 3]).read() };
        let skip = matches!(bytes, [0x0f, 0x01, 0xca | 0xcb]);
        if skip {
            frame.rip += 3;
        }
        skip
    }

    /// Makes every recorded `stac` and `clac` a no-op on a processor without SMAP.
    ///
    /// # Safety
    /// The image is still writable, and no other code runs.
    pub(crate) unsafe fn patch_smap_sites() {
        unsafe extern "C" {
            static __smapsites_start: [usize; 0];
            static __smapsites_end: [usize; 0];
        }
        if crate::features::get().smap() {
            return;
        }
        let start = (&raw const __smapsites_start).cast::<usize>();
        let end = (&raw const __smapsites_end).cast::<usize>();
        // SAFETY: the linker script bounds the table; each entry is a 3-byte instruction in writable, not yet
        // running code.
        unsafe {
            for i in 0..end.offset_from(start) {
                let site = start.offset(i).read() as *mut u8;
                // nopl (%rax)
                site.copy_from_nonoverlapping([0x0f, 0x1f, 0x00].as_ptr(), 3);
            }
        }
    }
}

#[cfg(not(target_os = "none"))]
mod host {
    use super::*;

    /// No kernel entry on a host.
    pub fn syscall_slow() -> usize {
        0
    }

    /// No kernel entry on a host.
    pub fn irq_tail() -> usize {
        0
    }

    /// No kernel entry on a host.
    pub fn irq_common() -> usize {
        0
    }

    /// No kernel exit on a host.
    ///
    /// # Safety
    /// Never to be called.
    pub unsafe extern "C" fn return_from(_frame: *const TrapFrame) -> ! {
        unreachable!("no machine")
    }
}
