//! Signals: numbers, actions, `siginfo`, and the frame a handler finds on its stack.

plain! {
    /// The kernel's `struct sigaction`.
    pub struct Sigaction {
        pub handler: u64,
        pub flags: u64,
        pub restorer: u64,
        pub mask: u64,
    }
    /// `stack_t`.
    pub struct Sigaltstack {
        pub sp: u64,
        pub flags: i32,
        pub pad0: i32,
        pub size: u64,
    }
    /// `siginfo_t`: the head, then a union seen as 14 words; see the
    /// constructors for which words a kind uses.
    pub struct Siginfo {
        pub signo: i32,
        pub errno: i32,
        pub code: i32,
        pub pad0: i32,
        pub fields: [u64; 14],
    }
    /// `struct sigcontext`: the registers, in the order of the frame.
    pub struct Sigcontext {
        pub r8: u64,
        pub r9: u64,
        pub r10: u64,
        pub r11: u64,
        pub r12: u64,
        pub r13: u64,
        pub r14: u64,
        pub r15: u64,
        pub rdi: u64,
        pub rsi: u64,
        pub rbp: u64,
        pub rbx: u64,
        pub rdx: u64,
        pub rax: u64,
        pub rcx: u64,
        pub rsp: u64,
        pub rip: u64,
        pub eflags: u64,
        pub cs: u16,
        pub gs: u16,
        pub fs: u16,
        pub ss: u16,
        pub err: u64,
        pub trapno: u64,
        pub oldmask: u64,
        pub cr2: u64,
        pub fpstate: u64,
        pub reserved1: [u64; 8],
    }
    /// `struct ucontext` with the kernel's 8-byte mask.
    pub struct Ucontext {
        pub flags: u64,
        pub link: u64,
        pub stack: Sigaltstack,
        pub mcontext: Sigcontext,
        pub sigmask: u64,
    }
    /// `struct rt_sigframe`: what lies at rsp when a handler starts.
    pub struct RtSigframe {
        pub restorer: u64,
        pub uc: Ucontext,
        pub info: Siginfo,
    }
    /// `struct _fpx_sw_bytes` at byte 464 of the saved FXSAVE image.
    pub struct FpxSwBytes {
        pub magic1: u32,
        pub extended_size: u32,
        pub xfeatures: u64,
        pub xstate_size: u32,
        pub padding: [u32; 7],
    }
}

/// Where [`FpxSwBytes`] lies in a saved FXSAVE image.
pub const FPX_SW_OFFSET: usize = 464;

impl Siginfo {
    /// Sent by `kill` and its kin: who sent it.
    pub fn sent(signo: i32, code: i32, pid: i32, uid: u32) -> Siginfo {
        let mut info = Siginfo {
            signo,
            code,
            ..Siginfo::default()
        };
        info.fields[0] = pid as u32 as u64 | (uid as u64) << 32;
        info
    }

    /// From a fault at `address`.
    pub fn fault(signo: i32, code: i32, address: u64) -> Siginfo {
        let mut info = Siginfo {
            signo,
            code,
            ..Siginfo::default()
        };
        info.fields[0] = address;
        info
    }

    /// `SIGCHLD`: the child, its status by `CLD_…` code; times in clock ticks.
    pub fn child(code: i32, pid: i32, uid: u32, status: i32, utime: u64, stime: u64) -> Siginfo {
        let mut info = Siginfo::sent(SIGCHLD, code, pid, uid);
        info.fields[1] = status as u32 as u64;
        info.fields[2] = utime;
        info.fields[3] = stime;
        info
    }

    /// A POSIX timer expired: its id, overruns and value.
    pub fn timer(signo: i32, id: i32, overrun: i32, value: u64) -> Siginfo {
        let mut info = Siginfo {
            signo,
            code: SI_TIMER,
            ..Siginfo::default()
        };
        info.fields[..2].copy_from_slice(&Self::timer_words(id, overrun, value));
        info
    }

    /// The words of information of [`Siginfo::timer`].
    #[inline]
    pub const fn timer_words(id: i32, overrun: i32, value: u64) -> [u64; 2] {
        [id as u32 as u64 | (overrun as u32 as u64) << 32, value]
    }

    /// Changes the overruns of what [`Siginfo::timer`] made.
    pub fn set_overrun(&mut self, overrun: i32) {
        self.fields[0] = self.fields[0] & 0xffff_ffff | (overrun as u32 as u64) << 32;
    }
}

constants! { i32:
    SIGHUP = 1, SIGINT = 2, SIGQUIT = 3, SIGILL = 4, SIGTRAP = 5, SIGABRT = 6, SIGBUS = 7, SIGFPE = 8,
    SIGKILL = 9, SIGUSR1 = 10, SIGSEGV = 11, SIGUSR2 = 12, SIGPIPE = 13, SIGALRM = 14, SIGTERM = 15,
    SIGSTKFLT = 16, SIGCHLD = 17, SIGCONT = 18, SIGSTOP = 19, SIGTSTP = 20, SIGTTIN = 21, SIGTTOU = 22,
    SIGURG = 23, SIGXCPU = 24, SIGXFSZ = 25, SIGVTALRM = 26, SIGPROF = 27, SIGWINCH = 28, SIGIO = 29,
    SIGPWR = 30, SIGSYS = 31, SIGRTMIN = 32, SIGMAX = 64,

    SIG_BLOCK = 0, SIG_UNBLOCK = 1, SIG_SETMASK = 2,
    SS_ONSTACK = 1, SS_DISABLE = 2, SS_AUTODISARM = i32::MIN,

    SI_USER = 0, SI_KERNEL = 0x80, SI_QUEUE = -1, SI_TIMER = -2, SI_MESGQ = -3, SI_SIGIO = -5, SI_TKILL = -6,
    ILL_ILLOPN = 2, ILL_PRVOPC = 5,
    FPE_INTDIV = 1, FPE_INTOVF = 2, FPE_FLTDIV = 3, FPE_FLTOVF = 4, FPE_FLTUND = 5, FPE_FLTRES = 6, FPE_FLTINV = 7,
    SEGV_MAPERR = 1, SEGV_ACCERR = 2,
    BUS_ADRALN = 1, BUS_ADRERR = 2, BUS_OBJERR = 3,
    TRAP_BRKPT = 1, TRAP_TRACE = 2, TRAP_HWBKPT = 4,
    CLD_EXITED = 1, CLD_KILLED = 2, CLD_DUMPED = 3, CLD_TRAPPED = 4, CLD_STOPPED = 5, CLD_CONTINUED = 6,
}

constants! { u64:
    SIG_DFL = 0, SIG_IGN = 1,
    SA_NOCLDSTOP = 1, SA_NOCLDWAIT = 2, SA_SIGINFO = 4, SA_RESTORER = 0x0400_0000,
    SA_ONSTACK = 0x0800_0000, SA_RESTART = 0x1000_0000, SA_NODEFER = 0x4000_0000, SA_RESETHAND = 0x8000_0000,
    SA_EXPOSE_TAGBITS = 0x800,
    MINSIGSTKSZ = 2048,
    UC_FP_XSTATE = 1, UC_SIGCONTEXT_SS = 2, UC_STRICT_RESTORE_SS = 4,
}

constants! { u32:
    FP_XSTATE_MAGIC1 = 0x4650_5853, FP_XSTATE_MAGIC2 = 0x4650_5845,
}

#[cfg(test)]
mod tests {
    use super::*;
    use core::mem::{offset_of, size_of};

    #[test]
    fn frame_is_linux() {
        assert_eq!(size_of::<Sigcontext>(), 256);
        assert_eq!(size_of::<Ucontext>(), 304);
        assert_eq!(size_of::<Siginfo>(), 128);
        assert_eq!(size_of::<RtSigframe>(), 440);
        assert_eq!(size_of::<FpxSwBytes>(), 48);
        assert_eq!(offset_of!(Ucontext, mcontext), 40);
        assert_eq!(offset_of!(Ucontext, sigmask), 296);
    }
}
