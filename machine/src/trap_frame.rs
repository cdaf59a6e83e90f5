//! The trap frame: all that a trap has saved, and the numbers in it.
//!
//! *Interface*: [`TrapFrame`], its vectors ([`exception`]), selectors and flags; [`fault_address`], which a
//! page fault leaves beside it. `trap.rs` builds frames and leaves through them.

/// Everything a trap saved, in the order in which it lies on the stack.
#[repr(C)]
#[derive(Clone, Copy, Default, Debug)]
#[allow(missing_docs)]
pub struct TrapFrame {
    pub r15: u64,
    pub r14: u64,
    pub r13: u64,
    pub r12: u64,
    pub rbp: u64,
    pub rbx: u64,
    pub r11: u64,
    pub r10: u64,
    pub r9: u64,
    pub r8: u64,
    pub rax: u64,
    pub rcx: u64,
    pub rdx: u64,
    pub rsi: u64,
    pub rdi: u64,
    /// 0–255: as the processor counts; [`VECTOR_SYSCALL`]; [`VECTOR_TAIL`].
    pub vector: u64,
    /// The processor's error code, the cause of a debug exception (DR6, set bits alone), or the number of the
    /// system call.
    pub error: u64,
    pub rip: u64,
    pub cs: u64,
    pub rflags: u64,
    pub rsp: u64,
    pub ss: u64,
}

/// [`TrapFrame::vector`] of a system call.
pub const VECTOR_SYSCALL: u64 = 0x100;
/// [`TrapFrame::vector`] of the tail of a generated interrupt handler.
pub const VECTOR_TAIL: u64 = 0x101;

/// Exceptions by number.
#[allow(missing_docs)]
pub mod exception {
    pub const DIVIDE: u64 = 0;
    pub const DEBUG: u64 = 1;
    pub const NMI: u64 = 2;
    pub const BREAKPOINT: u64 = 3;
    pub const OVERFLOW: u64 = 4;
    pub const INVALID_OPCODE: u64 = 6;
    pub const NO_FPU: u64 = 7;
    pub const DOUBLE_FAULT: u64 = 8;
    pub const SEGMENT: u64 = 11;
    pub const STACK: u64 = 12;
    pub const PROTECTION: u64 = 13;
    pub const PAGE_FAULT: u64 = 14;
    pub const FPU: u64 = 16;
    pub const ALIGNMENT: u64 = 17;
    pub const MACHINE_CHECK: u64 = 18;
    pub const SIMD: u64 = 19;
}

/// Code selector of the kernel.
pub const KERNEL_CS: u64 = 0x10;
/// Stack selector of the kernel.
pub const KERNEL_SS: u64 = 0x18;
/// Code selector of user mode (Linux's value).
pub const USER_CS: u64 = 0x33;
/// Stack and data selector of user mode (Linux's value).
pub const USER_SS: u64 = 0x2b;

/// The interrupt flag.
pub const RFLAGS_IF: u64 = 1 << 9;
/// The flags a user may set: CF PF AF ZF SF TF DF OF RF AC ID.
pub const RFLAGS_USER: u64 = 0x0025_0dd5;
pub(crate) const RFLAGS_TF: u64 = 1 << 8;
const RFLAGS_IOPL: u64 = 3 << 12;
const RFLAGS_RF: u64 = 1 << 16;
const RFLAGS_VM: u64 = 1 << 17;

/// Flags that `syscall` clears: TF, IF, DF, NT, AC.
pub(crate) const SFMASK: u64 = 1 << 8 | 1 << 9 | 1 << 10 | 1 << 14 | 1 << 18;

impl TrapFrame {
    /// Whether the trap came from user mode.
    pub fn from_user(&self) -> bool {
        self.cs & 3 == 3
    }

    /// Whether this is a system call.
    pub fn is_syscall(&self) -> bool {
        self.vector == VECTOR_SYSCALL
    }

    /// Whether `iretq` takes it and user mode may have it: an address that the processor accepts, user
    /// segments, interrupts on, no right to ports. (A canonical address that is not the user's faults in user
    /// mode, as it should.)
    pub fn fits_user(&self) -> bool {
        let top = (self.rip as i64) >> 47;
        (top == 0 || top == -1)
            && self.cs == USER_CS
            && self.ss == USER_SS
            && self.rflags & (RFLAGS_IF | RFLAGS_IOPL | RFLAGS_VM) == RFLAGS_IF
    }

    /// Whether `sysretq` restores this frame exactly, and safely (RIP below the hole, no debug flags).
    #[inline]
    pub fn is_clean(&self) -> bool {
        self.vector == VECTOR_SYSCALL
            && self.rcx == self.rip
            && self.r11 == self.rflags
            && self.rip < abi::layout::USER_END as u64
            && self.rflags & (RFLAGS_TF | RFLAGS_RF) == 0
            && self.cs == USER_CS
            && self.ss == USER_SS
    }
}

/// The address whose access caused the page fault being handled (CR2). Valid until interrupts are turned on.
pub fn fault_address() -> usize {
    let address: usize;
    // SAFETY: reads a control register.
    unsafe {
        core::arch::asm!("mov {}, cr2", out(reg) address, options(nomem, nostack, preserves_flags))
    };
    address
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_harmless_frames_fit() {
        let frame = TrapFrame {
            rip: 0x40_0000,
            rflags: 0x202,
            cs: USER_CS,
            ss: USER_SS,
            ..Default::default()
        };
        let with_rip = |rip| TrapFrame { rip, ..frame }.fits_user();
        for rip in [0, 0x7fff_ffff_ffff, 0xffff_8000_0000_0000, u64::MAX] {
            assert!(with_rip(rip), "{rip:#x}");
        }
        for rip in [1 << 47, 0xffff_7fff_ffff_ffff, 0x8000_0000_0000_1000] {
            assert!(!with_rip(rip), "{rip:#x}");
        }
        let with_flags = |rflags| TrapFrame { rflags, ..frame }.fits_user();
        // NT is the program's own affair; RF, AC and the rest too.
        assert!(with_flags(RFLAGS_USER | RFLAGS_IF | 2 | 1 << 14));
        for bad in [0, 0x1202, 0x2202, 0x2_0202] {
            assert!(!with_flags(bad), "{bad:#x}");
        }
        assert!(!TrapFrame { cs: 0x10, ..frame }.fits_user());
        assert!(!TrapFrame { cs: 0x23, ..frame }.fits_user());
        assert!(!TrapFrame { ss: 0x18, ..frame }.fits_user());
    }

    #[test]
    fn only_exact_frames_are_clean() {
        let frame = TrapFrame {
            vector: VECTOR_SYSCALL,
            rip: 0x40_0000,
            rcx: 0x40_0000,
            rflags: 0x246,
            r11: 0x246,
            cs: USER_CS,
            ss: USER_SS,
            ..Default::default()
        };
        assert!(frame.is_clean());
        assert!(!TrapFrame { rcx: 1, ..frame }.is_clean());
        assert!(
            !TrapFrame {
                rip: abi::layout::USER_END as u64,
                rcx: abi::layout::USER_END as u64,
                ..frame
            }
            .is_clean()
        );
        assert!(
            !TrapFrame {
                rflags: 0x346,
                r11: 0x346,
                ..frame
            }
            .is_clean()
        );
        assert!(
            !TrapFrame {
                vector: 14,
                ..frame
            }
            .is_clean()
        );
    }
}
