//! Boot-time check of the return to user mode with a bad frame, which the processor refuses.
//!
//! *Interface*: [`run`], at boot before the rooms above link their trap callouts: it links its own. It
//! asserts, so a failure is a panic with its report.

use crate::paging::MachineStack;
use crate::trap::{
    self, Callouts, KERNEL_CS, KERNEL_SS, RFLAGS_IF, TrapFrame, USER_CS, USER_SS, exception,
};
use core::arch::naked_asm;
use core::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

/// Where the check goes on, and on which stack.
static RESUME: AtomicUsize = AtomicUsize::new(0);
static STACK: AtomicUsize = AtomicUsize::new(0);
/// The last exception of a user frame: its vector and address.
static SEEN: [AtomicU64; 2] = [const { AtomicU64::new(0) }; 2];

/// An exception of the frame under test leads back into the check.
static CALLOUTS: Callouts = Callouts {
    exception: come_back,
    fault: |frame, _| come_back(frame),
    syscall: |_| {},
    return_to_user: |_| {},
    irq_exit: |_| {},
};

fn come_back(frame: &mut TrapFrame) {
    if !frame.from_user() {
        crate::panic_report::fatal_exception(frame);
    }
    SEEN[0].store(frame.vector, Ordering::Relaxed);
    SEEN[1].store(frame.rip, Ordering::Relaxed);
    frame.cs = KERNEL_CS;
    frame.ss = KERNEL_SS;
    frame.rflags &= !RFLAGS_IF;
    frame.rip = RESUME.load(Ordering::Relaxed) as u64;
    frame.rsp = STACK.load(Ordering::Relaxed) as u64;
}

/// Leaves the kernel by `frame`, and comes back by the exception that follows. `door` is
/// [`trap::return_from`]'s address, which looks at the frame, or that of the restoring end behind it, which
/// does not.
#[unsafe(naked)]
unsafe extern "C" fn excursion(_frame: *const TrapFrame, _door: usize) {
    naked_asm!(
        "push rbx\npush rbp\npush r12\npush r13\npush r14\npush r15",
        "mov [rip + {stack}], rsp",
        "lea rax, [rip + 2f]",
        "mov [rip + {resume}], rax",
        "mov rax, rsi",
        "mov rsi, rdi",
        "sub rsp, {room}",
        "mov rdi, rsp",
        "mov ecx, {words}",
        "rep movsq",
        "mov rdi, rsp",
        "jmp rax",
        "2:",
        "pop r15\npop r14\npop r13\npop r12\npop rbp\npop rbx",
        "ret",
        stack = sym STACK,
        resume = sym RESUME,
        room = const size_of::<TrapFrame>() + 8,
        words = const size_of::<TrapFrame>() / 8,
    )
}

/// Frames that user mode cannot have are a fault of the thread, whoever notices.
pub fn run() {
    trap::link(&CALLOUTS);
    let good = TrapFrame {
        rip: 0x40_0000,
        rflags: RFLAGS_IF | 2,
        cs: USER_CS,
        ss: USER_SS,
        rsp: 0x7000_0000,
        ..TrapFrame::default()
    };
    let looks = trap::return_from as *const () as usize;
    let restores = trap::restoring_end();
    // A return that the gates refuse begins a stack, and this is the boot stack: another meanwhile.
    let cpu = crate::cpu::this_cpu();
    let stack = |which| crate::paging::machine_stack(cpu.number(), which);
    // SAFETY: interrupts are off; nobody needs that stack but a machine check, which is the end.
    unsafe { cpu.set_rsp0(stack(MachineStack::MachineCheck)) };
    for (door, frame, what) in [
        (
            looks,
            TrapFrame {
                rip: 1 << 47,
                ..good
            },
            "an address in the hole",
        ),
        (
            looks,
            TrapFrame {
                rip: 1 << 63,
                ..good
            },
            "no canonical address",
        ),
        (
            looks,
            TrapFrame { cs: 0x13, ..good },
            "a segment of the kernel",
        ),
        (
            looks,
            TrapFrame {
                rflags: 0x3202,
                ..good
            },
            "the right to ports",
        ),
        // Here the processor itself refuses: the kernel's segments and none at all.
        (
            restores,
            TrapFrame {
                ss: KERNEL_SS,
                ..good
            },
            "a stack segment of the kernel",
        ),
        (
            restores,
            TrapFrame { cs: 0x13, ..good },
            "a segment of the kernel, unseen",
        ),
        (
            restores,
            TrapFrame { cs: 0x7b, ..good },
            "a segment that is none",
        ),
        (
            restores,
            TrapFrame { ss: 0x7b, ..good },
            "a stack segment that is none",
        ),
    ] {
        SEEN[0].store(u64::MAX, Ordering::Relaxed);
        // SAFETY: interrupts are off; each frame is refused, and the callout leads back. The callee's
        // registers are restored.
        unsafe { excursion(&frame, door) };
        assert_eq!(
            SEEN[0].load(Ordering::Relaxed),
            exception::PROTECTION,
            "{what}"
        );
        assert_eq!(SEEN[1].load(Ordering::Relaxed), frame.rip, "{what}");
    }
    // SAFETY: as it was.
    unsafe { cpu.set_rsp0(stack(MachineStack::Boot)) };
    crate::log!("machine: returns ok");
}
