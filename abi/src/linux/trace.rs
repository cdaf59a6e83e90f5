//! `ptrace`: requests, options, and the registers as debuggers see them.

plain! {
    /// `struct user_regs_struct`.
    pub struct UserRegs {
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
        pub orig_rax: u64,
        pub rip: u64,
        pub cs: u64,
        pub eflags: u64,
        pub rsp: u64,
        pub ss: u64,
        pub fs_base: u64,
        pub gs_base: u64,
        pub ds: u64,
        pub es: u64,
        pub fs: u64,
        pub gs: u64,
    }
}

plain! {
    /// `struct ptrace_syscall_info`: of a beginning call the number and arguments, of an ended one the result
    /// in place of the number, and whether that is an error.
    pub struct SyscallInfo {
        pub op: u8,
        pub pad: [u8; 3],
        pub arch: u32,
        pub ip: u64,
        pub sp: u64,
        pub number: u64,
        pub args: [u64; 6],
    }
}

plain! {
    /// `struct ptrace_peeksiginfo_args`.
    pub struct PeekSiginfo {
        pub from: u64,
        pub flags: u32,
        pub count: i32,
    }
}

constants! { u32:
    PTRACE_PEEKSIGINFO_SHARED = 1,
}

constants! { u32:
    UNAME26 = 0x002_0000, ADDR_NO_RANDOMIZE = 0x004_0000, MMAP_PAGE_ZERO = 0x010_0000, ADDR_COMPAT_LAYOUT = 0x020_0000,
    READ_IMPLIES_EXEC = 0x040_0000, STICKY_TIMEOUTS = 0x400_0000,
}

constants! { u8:
    SYSCALL_INFO_NONE = 0, SYSCALL_INFO_ENTRY = 1, SYSCALL_INFO_EXIT = 2,
}

constants! { u32:
    AUDIT_ARCH_X86_64 = 0xc000_003e,
}

constants! { u64:
    PTRACE_TRACEME = 0, PTRACE_PEEKTEXT = 1, PTRACE_PEEKDATA = 2, PTRACE_PEEKUSER = 3, PTRACE_POKETEXT = 4, PTRACE_POKEDATA = 5,
    PTRACE_POKEUSER = 6, PTRACE_CONT = 7, PTRACE_KILL = 8, PTRACE_SINGLESTEP = 9, PTRACE_GETREGS = 12, PTRACE_SETREGS = 13,
    PTRACE_ATTACH = 16, PTRACE_DETACH = 17, PTRACE_SYSCALL = 24,
    PTRACE_SETOPTIONS = 0x4200, PTRACE_GETEVENTMSG = 0x4201, PTRACE_GETSIGINFO = 0x4202, PTRACE_GETREGSET = 0x4204,
    PTRACE_SETREGSET = 0x4205, PTRACE_SEIZE = 0x4206, PTRACE_INTERRUPT = 0x4207,

    PTRACE_SETSIGINFO = 0x4203, PTRACE_GETSIGMASK = 0x420a, PTRACE_SETSIGMASK = 0x420b, PTRACE_GET_SYSCALL_INFO = 0x420e,
    PTRACE_GETFPREGS = 14, PTRACE_SETFPREGS = 15, PTRACE_ARCH_PRCTL = 30, PTRACE_SYSEMU = 31, PTRACE_SYSEMU_SINGLESTEP = 32,
    PTRACE_GET_RSEQ_CONFIGURATION = 0x420f,
    PTRACE_LISTEN = 0x4208, PTRACE_PEEKSIGINFO = 0x4209,

    PTRACE_O_TRACESYSGOOD = 1, PTRACE_O_TRACEFORK = 2, PTRACE_O_TRACEVFORK = 4, PTRACE_O_TRACECLONE = 8, PTRACE_O_TRACEEXEC = 0x10,
    PTRACE_O_TRACEVFORKDONE = 0x20, PTRACE_O_TRACEEXIT = 0x40, PTRACE_O_TRACESECCOMP = 0x80, PTRACE_O_EXITKILL = 0x10_0000,
}

constants! { i32:
    PTRACE_EVENT_FORK = 1, PTRACE_EVENT_VFORK = 2, PTRACE_EVENT_CLONE = 3, PTRACE_EVENT_EXEC = 4, PTRACE_EVENT_VFORK_DONE = 5,
    PTRACE_EVENT_EXIT = 6, PTRACE_EVENT_STOP = 128,
}

constants! { usize:
    NT_PRSTATUS = 1, NT_PRFPREG = 2, NT_PRPSINFO = 3, NT_AUXV = 6, NT_X86_XSTATE = 0x202,
    NT_FILE = 0x4649_4c45, NT_SIGINFO = 0x5349_4749,
}
