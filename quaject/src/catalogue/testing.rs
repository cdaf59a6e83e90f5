//! Common code of this room's host tests: calling routines with every register checked, faults that resume at
//! fix-ups, user memory with an end, and numbers that are random but always the same.
//!
//! *Unsafe*: calling code with all registers set, user memory, catching faults.

use crate::kit::routine_env::{DescFn, RoutineEnv, UserAccess};
use codegen::harden::Hardening;
use codegen::host::{self, Low};
use codegen::{Class, Draft, Routine, dynasm};
use std::sync::{Once, OnceLock};

/// A small deterministic source of numbers (xorshift64*), so that a failing property test fails again.
pub struct Random(u64);

impl Random {
    /// A source that depends on `seed` alone.
    pub fn new(seed: u64) -> Self {
        Random(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    /// The next number.
    pub fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }

    /// A number below `bound`.
    pub fn below(&mut self, bound: u64) -> u64 {
        self.next() % bound
    }

    /// `len` random bytes.
    pub fn bytes(&mut self, len: usize) -> Vec<u8> {
        (0..len).map(|_| self.next() as u8).collect()
    }
}

core::arch::global_asm!(
    // rdi = entry, rsi = &mut [u64; 16] in the order of register numbers; rsp's place is not used.
    "quaject_test_enter:",
    "push rbx; push rbp; push r12; push r13; push r14; push r15",
    "push rsi; push rdi; mov rax, rsi",
    "mov rcx, [rax + 8]; mov rdx, [rax + 16]; mov rbx, [rax + 24]; mov rbp, [rax + 40]",
    "mov rsi, [rax + 48]; mov rdi, [rax + 56]; mov r8, [rax + 64]; mov r9, [rax + 72]",
    "mov r10, [rax + 80]; mov r11, [rax + 88]; mov r12, [rax + 96]; mov r13, [rax + 104]",
    "mov r14, [rax + 112]; mov r15, [rax + 120]; mov rax, [rax]",
    "call [rsp]",
    "push rax; mov rax, [rsp + 16]",
    "mov [rax + 8], rcx; mov [rax + 16], rdx; mov [rax + 24], rbx; mov [rax + 40], rbp",
    "mov [rax + 48], rsi; mov [rax + 56], rdi; mov [rax + 64], r8; mov [rax + 72], r9",
    "mov [rax + 80], r10; mov [rax + 88], r11; mov [rax + 96], r12; mov [rax + 104], r13",
    "mov [rax + 112], r14; mov [rax + 120], r15; pop rcx; mov [rax], rcx",
    "add rsp, 16",
    "pop r15; pop r14; pop r13; pop r12; pop rbp; pop rbx",
    "ret",
);

unsafe extern "sysv64" {
    fn quaject_test_enter(entry: usize, regs: *mut [u64; 16]);
}

/// Runs code at `entry` with these registers and returns them as it left them.
///
/// # Safety
/// The code keeps the callee-saved registers it does not return in, and returns.
pub unsafe fn enter(entry: usize, mut regs: [u64; 16]) -> [u64; 16] {
    // SAFETY: the caller's promise; `regs` has the layout that the assembly expects.
    unsafe { quaject_test_enter(entry, &mut regs) };
    regs
}

/// How a descriptor routine ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ended {
    /// It returned this.
    With(isize),
    /// It took the slow exit with this call number.
    Slowly(usize),
}

/// The test's slow exit toggles this bit of r8.
const SLOW: u64 = 1 << 63;

/// Calls a descriptor routine as a dispatcher would, and checks that it keeps every register but rax on
/// either way out.
pub fn call(routine: &Routine<DescFn>, arguments: [u64; 3]) -> Ended {
    call_with(routine, &arguments)
}

/// As [`call`], of a routine that takes a position, the fourth argument.
pub fn call_at(routine: &Routine<DescFn>, arguments: [u64; 4]) -> Ended {
    call_with(routine, &arguments)
}

/// As [`call`], of a routine that takes flags and an address, the fourth and the fifth argument.
pub fn call_flagged(routine: &Routine<DescFn>, arguments: [u64; 5]) -> Ended {
    call_with(routine, &arguments)
}

/// The same of a call with an address: its length, or where that is, in r9.
pub fn call_named(routine: &Routine<DescFn>, arguments: [u64; 6]) -> Ended {
    call_with(routine, &arguments)
}

fn call_with(routine: &Routine<DescFn>, arguments: &[u64]) -> Ended {
    let mut regs: [u64; 16] = core::array::from_fn(|n| 0x1111_2222_0000_0000 + n as u64);
    // rdi, rsi, rdx, r10, r8, r9.
    for (number, argument) in [7, 6, 2, 10, 8, 9].into_iter().zip(arguments) {
        regs[number] = *argument;
    }
    // SAFETY: descriptor routines keep every register but rax, and the test's slow exit returns.
    let mut after = unsafe { enter(routine.entry(), regs) };
    let slowly = (after[8] ^ regs[8]) & SLOW != 0;
    after[8] &= !SLOW;
    regs[0] = after[0];
    assert_eq!(regs, after, "a register changed: {arguments:x?}");
    if slowly {
        Ended::Slowly(after[0] as usize)
    } else {
        Ended::With(after[0] as isize)
    }
}

/// A routine environment whose slow exit marks r8 and returns.
pub fn env(cpus: usize, conv: UserAccess) -> RoutineEnv {
    static CLASS: Class = Class::new("test slow exit");
    static STUB: OnceLock<Routine<fn()>> = OnceLock::new();
    host::link();
    catch_faults();
    let stub = STUB.get_or_init(|| {
        let mut draft = Draft::new(&CLASS, "slow");
        let d = &mut draft;
        dynasm!(d ; .arch x64 ; btc r8, 63 ; ret);
        // SAFETY: never called from Rust.
        unsafe { Routine::from(draft.seal().unwrap()) }
    });
    RoutineEnv::new(stub.entry(), cpus, conv, &crate::CALLBACKS).unwrap()
}

/// As `env`, where a routine that another has called leaves as in the kernel: it does not return to that.
pub fn called_within(env: &RoutineEnv) -> &'static RoutineEnv {
    static CLASS: Class = Class::new("test way back");
    /// Bytes of [`quaject_test_enter`], and more.
    const ENTER: i32 = 256;
    let enter = quaject_test_enter as *const () as usize;
    let mut draft = Draft::new(&CLASS, "way back");
    let d = &mut draft;
    dynasm!(d ; .arch x64
        ; push rcx
        ; mov rcx, [rsp + 8]
        ; sub rcx, enter as i32
        ; cmp rcx, ENTER
        ; pop rcx
        ; jb >outermost
        ; lea rsp, [rsp + 8]
        ; outermost:
    );
    d.jmp_abs(codegen::Hole::value(env.slow() as i64));
    // SAFETY: never called from Rust.
    let stub: Routine<fn()> = unsafe { Routine::from(draft.seal().unwrap()) };
    let entry = stub.entry();
    core::mem::forget(stub);
    Box::leak(Box::new(env.leaving_to(entry).unwrap()))
}

/// As [`env`], for good.
pub fn leaked(cpus: usize, conv: UserAccess) -> &'static RoutineEnv {
    Box::leak(Box::new(env(cpus, conv)))
}

/// Lets faults at listed instructions resume at their fix-ups, as the kernel's page fault handler does.
fn catch_faults() {
    static INSTALLED: Once = Once::new();
    extern "C" fn handler(_: i32, _: *mut libc::siginfo_t, context: *mut libc::c_void) {
        let context = context.cast::<libc::ucontext_t>();
        // SAFETY: the system passes a valid context to a SA_SIGINFO handler.
        let rip = unsafe { &mut (*context).uc_mcontext.gregs[libc::REG_RIP as usize] };
        match codegen::fixup(*rip as usize) {
            Some(fixup) => *rip = fixup as i64,
            // SAFETY: a fault of the test itself ends it the usual way when the instruction runs again.
            None => unsafe {
                libc::signal(libc::SIGSEGV, libc::SIG_DFL);
            },
        }
    }
    // SAFETY: the handler only reads lock-free tables and the context.
    INSTALLED.call_once(|| unsafe {
        let mut action: libc::sigaction = core::mem::zeroed();
        action.sa_sigaction = handler as *const () as usize;
        action.sa_flags = libc::SA_SIGINFO | libc::SA_NODEFER;
        libc::sigaction(libc::SIGSEGV, &action, core::ptr::null_mut());
        libc::sigaction(libc::SIGBUS, &action, core::ptr::null_mut());
    });
}

/// User memory of `N` bytes that ends at an inaccessible page.
pub struct UserMemory {
    base: *mut u8,
    len: usize,
}

impl UserMemory {
    /// `len` bytes, rounded up to pages.
    pub fn new(len: usize) -> Self {
        let len = len.next_multiple_of(4096);
        // SAFETY: a fresh mapping, whose last page is then taken away.
        unsafe {
            let base = libc::mmap(
                core::ptr::null_mut(),
                len + 4096,
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_PRIVATE | libc::MAP_ANONYMOUS,
                -1,
                0,
            );
            assert_ne!(base, libc::MAP_FAILED);
            libc::mprotect(base.add(len), 4096, libc::PROT_NONE);
            UserMemory {
                base: base.cast(),
                len,
            }
        }
    }

    /// Address of the byte at `offset`; at the length and beyond accesses fault.
    pub fn at(&self, offset: usize) -> u64 {
        self.base as u64 + offset as u64
    }

    /// Whether the last page may not be written.
    pub fn protect_last(&mut self, on: bool) {
        let rights = libc::PROT_READ | if on { 0 } else { libc::PROT_WRITE };
        // SAFETY: mapped by `new`; routines' writes there are expected to fault.
        unsafe {
            assert_eq!(
                libc::mprotect(self.base.add(self.len - 4096).cast(), 4096, rights),
                0
            );
        }
    }

    /// The bytes.
    pub fn bytes(&mut self) -> &mut [u8] {
        // SAFETY: mapped by `new`, and `&mut self` is the only way in.
        unsafe { core::slice::from_raw_parts_mut(self.base, self.len) }
    }
}

impl Drop for UserMemory {
    fn drop(&mut self) {
        // SAFETY: mapped by `new`.
        unsafe { libc::munmap(self.base.cast(), self.len + 4096) };
    }
}

/// A value in low memory, for routines to name; never freed, so that a failing test shows the first failure.
pub fn low<T>(value: T) -> &'static T {
    Box::leak(Box::new(Low::new(value)))
}

/// A mutable block of low memory.
pub fn low_block<const N: usize>() -> &'static mut [u8; N] {
    let block: &'static mut Low<[u8; N]> = Box::leak(Box::new(Low::new([0; N])));
    block
}

/// Instructions on the straight path from the first to the first `ret`: the hot path of every routine here.
pub fn hot_path<F: Copy>(routine: &Routine<F>) -> usize {
    let listing = listing(routine);
    let hot = listing.lines().position(|line| line.contains("ret"));
    hot.map_or(usize::MAX, |at| at + 1)
}

/// The expectation for plain code, or for code that is hardened against speculation: these tests run with
/// either (`codegen::harden`).
pub fn either<T>(plain: T, hardened: T) -> T {
    match codegen::harden::hardening() {
        Hardening::NONE => plain,
        _ => hardened,
    }
}

/// The routine as people read it.
pub fn listing<F: Copy>(routine: &Routine<F>) -> String {
    let mut text = String::new();
    codegen::disassemble_bytes(routine.bytes(), routine.entry(), &mut text, &|_, _| Ok(()))
        .unwrap();
    text
}
