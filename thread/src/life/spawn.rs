//! Creation, first steps, and end of threads.
//!
//! *Interface*: [`create`] from a [`Spec`], then [`crate::running::block::start`]; [`spawn`] for a kernel
//! thread in one step; [`exit`]. `Tte::set_space`, `Tte::set_fs_base`, `Tte::set_gs_base` change the state
//! that a switch loads.
//!
//! An ending thread runs on its stack until it switches away. It puts itself on its CPU's list of dead
//! threads, with interrupts off until the next thread runs. The next thread that creates or ends a thread on
//! that CPU, or the idle thread, frees its stack, code and save area, and drops the count that a thread has
//! of itself.
//! Source: dissertation, sections 4.3 and 5.3.2 (table 5.2: Create, Destroy).

use crate::dispatch::begin::begin;
use crate::ring::per_cpu::here;
use crate::running::block::start;
use crate::running::handover::switch;
use crate::switch::{Keys, lazy_fpu};
use crate::tte::code::{SwitchCode, SwitchKind};
use crate::tte::flags::DEAD;
use crate::tte::fpu_save_area::FpuSaveArea;
use crate::tte::resources::{Resources, dismantle};
use crate::tte::{FreeEntry, NoMemory, QUANTUM_NS, Thread, Tte, activate, interrupted};
use crate::{clock, dispatch, tte};
use core::ptr::null_mut;
use core::sync::atomic::{AtomicPtr, AtomicU64, AtomicUsize, Ordering};
use machine::cpu::{StackBase, irq_disable, irq_enable, irq_restore, irq_save};
use machine::trap::{FaultVector, TrapFrame, no_program};

/// The first function of a new thread.
#[derive(Clone, Copy)]
pub enum Body<'a> {
    /// Calls a kernel function and ends when it returns; never enters user mode.
    Kernel(fn(usize), usize),
    /// Goes to user mode with a copy of these registers, once the function has changed the copy.
    User(&'a TrapFrame, &'a dyn Fn(&mut TrapFrame)),
}

/// A thread to be.
#[derive(Clone, Copy)]
pub struct Spec<'a> {
    /// Name, cut to 15 bytes; without one, the running thread's.
    pub name: Option<&'a [u8]>,
    /// The thread's function.
    pub body: Body<'a>,
    /// Physical address of its page-table root; 0 for the kernel's own.
    pub root: u64,
    /// Level in the ready rings, 0 to 7.
    pub level: u8,
    /// Quantum, nanoseconds.
    pub quantum_ns: u64,
    /// The only CPU it may run on.
    pub cpu: Option<usize>,
    /// The owner word.
    pub owner: usize,
    /// Its vector for the page faults of its program.
    pub faults: FaultVector,
    /// Base of the user's FS segment.
    pub fs_base: u64,
    /// Whether it starts with a copy of the running thread's floating-point state and GS base (fork).
    pub inherit: bool,
    /// Its dispatcher; without one, every system call takes the slow way until it is given one.
    pub dispatch: Option<dispatch::Spec<'a>>,
}

impl<'a> Spec<'a> {
    /// A thread with this name and body, everything else as usual.
    pub const fn new(name: &'a [u8], body: Body<'a>) -> Self {
        Spec {
            name: Some(name),
            body,
            root: 0,
            level: 0,
            quantum_ns: QUANTUM_NS,
            cpu: None,
            owner: 0,
            faults: no_program,
            fs_base: 0,
            inherit: false,
            dispatch: None,
        }
    }
}

/// Makes a thread; [`crate::running::block::start`] starts it. Thread context.
///
/// # Errors
/// No memory for entry, stack, save area or code.
pub fn create(spec: &Spec) -> Result<Thread, NoMemory> {
    let thread = match bury_for_next() {
        Some(remains) => remains.again(),
        None => activate()?,
    };
    let kind = match spec.body {
        Body::Kernel(..) => SwitchKind::KERNEL,
        Body::User(..) => SwitchKind::USER,
    };
    let root = match spec.root {
        0 => machine::paging::kernel_root() as u64,
        root => root,
    };
    match spec.name {
        Some(name) => thread.set_name(name),
        None => thread.take_name(tte::current()),
    }
    thread.root.store(root, Ordering::Relaxed);
    thread.level.store(spec.level, Ordering::Relaxed);
    thread.wanted_level.store(spec.level, Ordering::Relaxed);
    thread.set_quantum_ns(spec.quantum_ns);
    thread.set_owner(spec.owner);
    thread.fs_base.store(spec.fs_base, Ordering::Relaxed);
    if spec.cpu.is_some() {
        thread.pinned.store(true, Ordering::Relaxed);
    }
    let mut kind = kind;
    let mut area = None;
    // SAFETY: the thread has not started, so the creator has it alone.
    let spare = unsafe { thread.parts() }.fp.take();
    if spec.inherit {
        let parent = tte::current();
        area = lazy_fpu::inherited(parent, spare)?;
        if area.is_some() {
            kind = kind.with(SwitchKind::FP);
        }
        thread.gs_base.store(parent.gs_base(), Ordering::Relaxed);
        if parent.kind().contains(SwitchKind::ASKED) {
            kind = kind.with(SwitchKind::ASKED);
            parent.inherit_speculation_control(&thread);
        }
        interrupted::inherit(parent, &thread)?;
    } else if kind == SwitchKind::USER && machine::mitigate::measures().eager_vectors() {
        area = Some(lazy_fpu::fresh(spare)?);
        kind = kind.with(SwitchKind::FP);
    }
    // SAFETY: the thread has not started, so only the creator can reach it. Dropping the handle frees
    // everything that it owns from here on.
    let parts = unsafe { thread.parts() };
    let end = match &parts.stack {
        Some(stack) => stack.top,
        None => {
            let stack = vm::stack::alloc().ok_or(NoMemory)?;
            parts.stack.insert(stack).top
        }
    };
    let top = end - StackBase::SIZE;
    thread.stack_top.store(top, Ordering::Relaxed);
    // SAFETY: an unused stack, whose last bytes are the stack base, and the space below it is unused.
    let rsp = unsafe {
        (top as *mut StackBase).write(StackBase {
            cpu: AtomicPtr::new(null_mut()),
            tte: AtomicUsize::new(thread.address()),
            user_rsp: AtomicU64::new(0),
            fault: AtomicUsize::new(spec.faults as *const () as usize),
            scratch: [const { AtomicU64::new(0) }; 4],
        });
        first_frame(top, spec.body)
    };
    thread.rsp.store(rsp as u64, Ordering::Relaxed);
    thread.move_to(spec.cpu.unwrap_or(thread.cpu()));
    let keys = Keys {
        tte: thread.address(),
        stack_top: top,
        fpu_area: area.as_ref().map_or(0, FpuSaveArea::address),
    };
    parts.fp = area;
    match &parts.tally {
        Some(tally) => tally.again(),
        None => parts.tally = Some(crate::native::quaject::CLASS.tally()),
    }
    let code = match &mut parts.switch {
        Some(code) if code.is_for(kind, &keys) => {
            code.set_owner(thread.serial());
            code
        }
        other => other.insert(SwitchCode::synthesize(kind, &keys, thread.serial())?),
    };
    thread.publish(kind, code);
    if kind.contains(SwitchKind::USER) {
        match &spec.dispatch {
            Some(spec) => thread.set_dispatcher(spec)?,
            None => begin(&thread, parts)?,
        }
    }
    Ok(thread)
}

/// Makes and starts a kernel thread.
///
/// # Errors
/// As [`create`].
pub fn spawn(name: &[u8], body: fn(usize), argument: usize) -> Result<Thread, NoMemory> {
    let thread = create(&Spec::new(name, Body::Kernel(body, argument)))?;
    start(&thread);
    Ok(thread)
}

/// Ends the running thread. The caller has dropped everything it owns.
pub fn exit() -> ! {
    // Bound: a few words of entry, ring or list.
    irq_disable();
    // Again, if others have ended while this one freed the remains: so no more than one waits when none ends
    // any more and the CPU is never idle.
    while !here().1.zombies.load(Ordering::Relaxed).is_null() {
        irq_enable();
        bury();
        irq_disable();
    }
    let (cpu, local, me) = here();
    assert!(me.on_ring.is_some(), "an idle thread cannot end");
    me.state.fetch_or(DEAD, Ordering::AcqRel);
    me.inbox_next
        .store(local.zombies.load(Ordering::Relaxed), Ordering::Relaxed);
    local.zombies.store(me.as_ptr(), Ordering::Relaxed);
    if cpu.fp_owner.load(Ordering::Relaxed) == me.address() {
        cpu.fp_owner.store(0, Ordering::Relaxed);
    }
    local.ring.remove(me, me);
    switch(cpu, me);
    unreachable!("a dead thread was switched in")
}

/// Frees the remains of threads that ended on this CPU. Thread context.
#[inline]
pub fn bury() {
    bury_each(drop);
}

/// The same; returns the first entry that is free then, so that the next thread finds it, and what is kept
/// with it, without the inactive list.
#[inline(always)]
fn bury_for_next() -> Option<FreeEntry> {
    let mut first = None;
    bury_each(|free| {
        if first.is_none() {
            first = free;
        }
    });
    first
}

/// Frees the remains of threads, and hands over each entry that is free then. One after the other, because
/// the idle thread may be preempted, and what it has taken waits for it.
#[inline(always)]
fn bury_each(mut hand_over: impl FnMut(Option<FreeEntry>)) {
    while let Some((tte, more)) = take_zombie() {
        // SAFETY: it has been switched out for good, since another thread runs where it ended, and is the
        // caller's alone.
        unsafe {
            end_job(tte.parts());
            dismantle(tte);
        }
        hand_over(tte.own_count().give_up());
        if !more {
            break;
        }
    }
}

/// The alarm of an ended thread's job, if it has one, is not to come.
#[inline]
fn end_job(parts: &mut Resources) {
    if let Some(alarm) = parts.job.take().and_then(|job| job.alarm) {
        clock::cancel(alarm);
    }
}

/// One ended thread of this CPU, and whether there are more.
fn take_zombie() -> Option<(&'static Tte, bool)> {
    // Bound: a few words of entry, ring or list.
    let irq = irq_save();
    let (_, local, _) = here();
    // SAFETY: the list holds entries, which are never unmapped.
    let tte = unsafe { local.zombies.load(Ordering::Relaxed).as_ref() };
    let taken = tte.map(|tte| {
        let next = tte.inbox_next.load(Ordering::Relaxed);
        local.zombies.store(next, Ordering::Relaxed);
        (tte, !next.is_null())
    });
    irq_restore(irq);
    taken
}

impl Tte {
    /// Moves the running thread, which this is, into another address space; 0 for the kernel's own. Cannot
    /// fail.
    ///
    /// # Safety
    /// `root` is a top-level page table that maps the kernel and stays until the thread has another.
    pub unsafe fn set_space(&self, root: u64) {
        let root = match root {
            0 => machine::paging::kernel_root() as u64,
            root => root,
        };
        let irq = irq_save();
        let (cpu, local, me) = here();
        debug_assert!(me.is(self));
        me.root.store(root, Ordering::Relaxed);
        // SAFETY: the caller's promise.
        unsafe { vm::tlb::load_here(cpu, root) };
        local.ring.replug(me, me);
        irq_restore(irq);
    }

    /// Sets the user's FS base of the running thread, which this is.
    pub fn set_fs_base(&self, base: UserBase) {
        let UserBase(base) = base;
        let irq = irq_save();
        self.fs_base.store(base, Ordering::Relaxed);
        // SAFETY: every x86-64 has the register; the kernel does not use it, and a user address is canonical.
        unsafe { machine::cpu::wrmsr(machine::cpu::MSR_FS_BASE, base) };
        irq_restore(irq);
    }

    /// The user's FS base: of the running thread, or of one that does not run.
    pub fn fs_base(&self) -> u64 {
        match self.is(tte::current()) {
            true => machine::cpu::segment_bases()[0],
            false => self.fs_base.load(Ordering::Relaxed),
        }
    }

    /// Sets the user's GS base of the running thread, which this is.
    pub fn set_gs_base(&self, base: UserBase) {
        let UserBase(base) = base;
        let irq = irq_save();
        self.gs_base.store(base, Ordering::Relaxed);
        // SAFETY: as in `set_fs_base`; the kernel does not use GS.
        unsafe { machine::cpu::wrmsr(machine::cpu::MSR_GS_BASE, base) };
        irq_restore(irq);
    }

    /// The user's GS base: of the running thread, or of one that does not run.
    pub fn gs_base(&self) -> u64 {
        match self.is(tte::current()) {
            true => machine::cpu::segment_bases()[1],
            false => self.gs_base.load(Ordering::Relaxed),
        }
    }
}

/// A base address that a program may have in FS or GS.
#[derive(Clone, Copy, Default)]
pub struct UserBase(u64);

impl UserBase {
    /// At `address`, if that is a user address.
    pub fn new(address: u64) -> Option<UserBase> {
        (address < abi::layout::USER_END as u64).then_some(UserBase(address))
    }
}

/// Prepares the stack below `top` so that the first `sw_in` comes to the body. Returns its stack pointer.
///
/// # Safety
/// The stack is unused.
unsafe fn first_frame(top: usize, body: Body) -> usize {
    let (start, r12, r13, below) = match body {
        Body::Kernel(function, argument) => {
            (first::kernel(), function as usize, argument, top - 16)
        }
        Body::User(frame, change) => {
            let at = top - size_of::<TrapFrame>();
            let copy = at as *mut TrapFrame;
            // SAFETY: on the unused stack, aligned as the stack base is.
            unsafe { copy_frame(frame, copy) };
            // SAFETY: just written, and no other thread knows it.
            change(unsafe { &mut *copy });
            (first::user(), at, 0, at)
        }
    };
    // As `sw_in` pops them: r15, r14, r13, r12, rbp, rbx, and where to return.
    let words = [0, 0, r13, r12, 0, 0, start];
    let rsp = below - size_of_val(&words);
    // SAFETY: on the unused stack.
    unsafe { (rsp as *mut [usize; 7]).write(words) };
    rsp
}

/// Copies a frame, which is whole words: without a call of a function for any number of bytes.
///
/// # Safety
/// `to` is valid for a write and aligned.
#[inline(always)]
unsafe fn copy_frame(frame: &TrapFrame, to: *mut TrapFrame) {
    // SAFETY: the caller's promise; the direction flag is clear in Rust.
    unsafe {
        core::arch::asm!("rep movsq",
            inout("rcx") size_of::<TrapFrame>() / 8 => _,
            inout("rsi") frame => _,
            inout("rdi") to => _,
            options(nostack, preserves_flags));
    }
}

/// Where a new thread's first switch-in returns to: r12 and r13 as `first_frame` left them, interrupts off.
#[cfg(target_os = "none")]
mod first {
    use super::exit;
    use crate::dispatch::OUT;
    use crate::tte::flags::ATTENTION;
    use core::arch::naked_asm;
    use core::mem::offset_of;
    use core::sync::atomic::Ordering;
    use machine::cpu::StackBase;
    use machine::restore;
    use machine::trap::{TrapFrame, VECTOR_SYSCALL};

    pub(super) fn kernel() -> usize {
        kernel_body as *const () as usize
    }

    pub(super) fn user() -> usize {
        user_body as *const () as usize
    }

    #[unsafe(naked)]
    unsafe extern "C" fn kernel_body() {
        naked_asm!("sti", "mov rdi, r13", "call r12", "call {exit}", exit = sym ended)
    }

    extern "C" fn ended() -> ! {
        exit()
    }

    #[unsafe(naked)]
    unsafe extern "C" fn user_body() {
        naked_asm!(
            "cmp qword ptr [r12 + {vector}], {call}",
            "jne 2f",
            "mov rdi, r12",
            "call {plainly}",
            "test al, al",
            "jz 2f",
            restore!(),
            "add rsp, {above}",
            "jmp qword ptr [{out}]",
            "2:",
            "mov rdi, r12",
            "jmp {enter}",
            vector = const offset_of!(TrapFrame, vector),
            call = const VECTOR_SYSCALL,
            plainly = sym plainly,
            above = const size_of::<TrapFrame>() - offset_of!(TrapFrame, vector),
            out = sym OUT,
            enter = sym machine::trap::return_from,
        )
    }

    /// Whether the thread, of which nothing else is asked, begins as from a call that needs no trap frame.
    /// Its stack pointer is then in the stack's base.
    extern "C" fn plainly(frame: &TrapFrame) -> bool {
        let me = crate::current();
        let plain = me.state.load(Ordering::Relaxed) & ATTENTION == 0 && frame.is_clean();
        if plain {
            StackBase::here()
                .user_rsp
                .store(frame.rsp, Ordering::Relaxed);
        }
        plain
    }
}

#[cfg(not(target_os = "none"))]
mod first {
    pub(super) fn kernel() -> usize {
        0
    }

    pub(super) fn user() -> usize {
        0
    }
}
