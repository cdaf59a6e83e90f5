//! TLB shootdown: making CPUs forget translations.
//!
//! *Interface*: [`load`] puts a space into force; `forget` and `forget_each` after entries of a space were
//! changed; `leave` before its root is freed; `forget_kernel` after kernel entries were changed. `pinned` and
//! `await_pinned`: work that such an interrupt waits for.
//!
//! Each CPU's `Cpu::root` says which top table it has, stored *before* CR3 is loaded. So a thread that
//! changes an entry and then checks either sees that a CPU has the space and interrupts it, or that CPU walks
//! the tables after the change. A CPU is asked by a ticket in its mailbox and an interrupt; it forgets
//! everything and answers with the highest ticket it saw. The asking thread polls a few times, which is
//! enough for a running CPU, and then sleeps until the answer, so a descheduled virtual CPU wastes no time.
//! Only a thread that may not sleep (interrupts off: boot, the kernel's own checks) spins, and serves its own
//! mailbox meanwhile, so two that ask each other both go on.

use core::sync::atomic::{AtomicU64, Ordering};

#[cfg(target_os = "none")]
pub use bare::*;
#[cfg(not(target_os = "none"))]
pub use host::*;

/// A mark in the first entry of a top table (not present, so the machine ignores it): it must not be used any
/// more.
const DEAD: u64 = 1 << 9;

/// The parts of an answer beside forgetting the present space.
#[derive(Debug, PartialEq, Eq)]
struct Due {
    /// The present space must not be used any more.
    leaves: bool,
    /// Translations of the kernel's half have changed, which stay when a top table is loaded.
    kernel: bool,
}

/// The parts that are due to a CPU whose top table begins with `first`, when entries of the kernel's half
/// have changed `generation` times; it has `forgotten` so many of these changes. One answer may serve
/// requests of both kinds, so neither part excludes the other.
fn due(first: u64, forgotten: &AtomicU64, generation: u64) -> Due {
    Due {
        leaves: first == DEAD,
        kernel: forgotten.swap(generation, Ordering::Relaxed) != generation,
    }
}

#[cfg(target_os = "none")]
mod bare {
    use super::{DEAD, due};
    use crate::frame::{Kernel, PhysMemory};
    use abi::layout::PAGE;
    use core::arch::asm;
    use core::sync::atomic::{AtomicU8, AtomicU64, Ordering, fence};
    use machine::cpu::{self, MAX_CPUS};
    use machine::entry_mitigations;
    use machine::paging::kernel_root;
    use machine::trap::TrapFrame;
    use sync::WaitList;

    /// More pages than this are forgotten all at once.
    const MANY: usize = 8;

    /// Looks at an answer before the asker sleeps: about the time that an interrupt takes to a CPU that runs.
    const LOOKS: usize = 256;

    #[repr(align(64))]
    struct Mailbox {
        asked: AtomicU64,
        answered: AtomicU64,
        /// The kernel's generation that this CPU has forgotten up to.
        kernel: AtomicU64,
        /// The threads that sleep until an answer.
        askers: WaitList,
    }

    static MAILBOXES: [Mailbox; MAX_CPUS] = [const {
        Mailbox {
            asked: AtomicU64::new(0),
            answered: AtomicU64::new(0),
            kernel: AtomicU64::new(0),
            askers: WaitList::new(),
        }
    }; MAX_CPUS];

    /// Counts changes of kernel entries that all CPUs must notice.
    static KERNEL: AtomicU64 = AtomicU64::new(0);
    static VECTOR: AtomicU8 = AtomicU8::new(0);

    /// Takes an interrupt vector. At boot.
    pub(crate) fn init() {
        if let Some(vector) = machine::irq::alloc_vector() {
            machine::irq::set_handler(vector, asked);
            VECTOR.store(vector, Ordering::Release);
        }
    }

    fn cr3() -> u64 {
        let root: u64;
        // SAFETY: reads a register.
        unsafe { asm!("mov {}, cr3", out(reg) root, options(nomem, nostack, preserves_flags)) };
        root
    }

    fn set_cr3(root: u64) {
        // SAFETY: every root that gets here maps the kernel as the present one does.
        unsafe { asm!("mov cr3, {}", in(reg) root, options(nostack, preserves_flags)) };
    }

    /// Puts the tables under `root` into force on this CPU.
    ///
    /// # Safety
    /// `root` is the kernel's or that of a space which outlives its use here, up to [`leave`].
    pub unsafe fn load(root: u64) {
        // Bound: one register load; in `ask`, one invalidation and one interrupt command for each other CPU
        // (at most 7); a look at each other CPU’s word; in `pinned`, one fault: a page cleared or copied and
        // at most three tables cleared, or up to 16 entries made.
        let state = cpu::irq_save();
        // SAFETY: the caller's promise.
        unsafe { load_here(cpu::this_cpu(), root) };
        cpu::irq_restore(state);
    }

    /// The same for who has interrupts off and knows that this CPU is `here`.
    ///
    /// # Safety
    /// As for [`load`].
    pub unsafe fn load_here(here: &cpu::Cpu, root: u64) {
        // SAFETY: the caller's promise.
        unsafe { entry_mitigations::enter_root(here, root as usize) };
        set_cr3(root);
    }

    /// Makes this CPU discard what it fetched and decoded (CPUID is serializing).
    pub fn serialize() {
        core::hint::black_box(core::arch::x86_64::__cpuid(0));
    }

    /// Forgets all translations of the kernel's half on this CPU too: changing CR4.PGE discards the global
    /// ones.
    fn forget_global() {
        const PGE: u64 = 1 << 7;
        // SAFETY: the bit is put back as it was.
        unsafe {
            let cr4: u64;
            asm!("mov {}, cr4", out(reg) cr4, options(nomem, nostack, preserves_flags));
            if cr4 & PGE != 0 {
                asm!("mov cr4, {}", in(reg) cr4 & !PGE, options(nostack, preserves_flags));
                asm!("mov cr4, {}", in(reg) cr4, options(nostack, preserves_flags));
            }
        }
        set_cr3(cr3());
    }

    /// The interrupt.
    fn asked(_: &mut TrapFrame) {
        serve();
    }

    /// Flushes everything, if it was requested. Interrupts are off.
    fn serve() {
        let own = cpu::this_cpu();
        let mailbox = &MAILBOXES[own.number()];
        let asked = mailbox.asked.load(Ordering::Acquire);
        if asked == mailbox.answered.load(Ordering::Relaxed) {
            return;
        }
        let generation = KERNEL.load(Ordering::Acquire);
        let root = cr3();
        // SAFETY: a loaded root is a top table.
        let first = unsafe { &*Kernel.virt(root).cast::<AtomicU64>() };
        let due = due(first.load(Ordering::Acquire), &mailbox.kernel, generation);
        if due.leaves {
            // SAFETY: the kernel's own root lives for ever.
            unsafe { entry_mitigations::enter_root(own, kernel_root()) };
            set_cr3(kernel_root() as u64);
        }
        if due.kernel {
            forget_global();
        } else if !due.leaves {
            set_cr3(root);
        }
        mailbox.answered.store(asked, Ordering::Release);
        mailbox.askers.wake_all();
    }

    impl Mailbox {
        /// Returns when this CPU has answered `ticket`.
        fn wait_for(&self, ticket: u64, may_sleep: bool) {
            let answered = || self.answered.load(Ordering::Acquire) >= ticket;
            for _ in 0..LOOKS {
                if answered() {
                    return;
                }
                // Bound: the others’ longest stretch with interrupts off; looks a fixed number of times and
                // then sleeps where it may, else serves requests to itself meanwhile.
                core::hint::spin_loop();
            }
            if may_sleep {
                return self.askers.wait_until(|| answered().then_some(()));
            }
            while !answered() {
                serve();
                core::hint::spin_loop();
            }
        }
    }

    /// Does `here` on this CPU, asks those that `choose` picks among the others, and waits for their answers.
    fn ask(here: impl FnOnce(), choose: impl Fn(&cpu::Cpu) -> bool) {
        let mut tickets = [0u64; MAX_CPUS];
        let mut asked = 0u32;
        // The caller stays on this CPU between doing its part and asking the others.
        let state = cpu::irq_save();
        here();
        if cpu::cpus() == 1 {
            cpu::irq_restore(state);
            return;
        }
        let own = cpu::this_cpu().number();
        // The change of the tables before, the look at the roots after.
        fence(Ordering::SeqCst);
        for other in cpu::online() {
            let number = other.number();
            if number != own && choose(other) {
                tickets[number] = MAILBOXES[number].asked.fetch_add(1, Ordering::AcqRel) + 1;
                asked |= 1 << number;
                machine::apic::ipi(number, VECTOR.load(Ordering::Relaxed));
            }
        }
        let may_sleep = state != 0;
        cpu::irq_restore(state);
        while asked != 0 {
            let number = asked.trailing_zeros() as usize;
            asked &= asked - 1;
            MAILBOXES[number].wait_for(tickets[number], may_sleep);
        }
    }

    /// Every CPU on which `root` is loaded forgets the `pages` pages from `address` on (`usize::MAX`: all).
    pub fn forget(root: u64, address: usize, pages: usize) {
        let here = || {
            if cr3() != root {
            } else if pages > MANY {
                set_cr3(root);
            } else {
                (0..pages).for_each(|page| invalidate(address + page * PAGE));
            }
        };
        ask(here, |other| has(other, root));
    }

    /// Every CPU on which `root` is loaded forgets the page of each of `addresses`.
    pub fn forget_each(root: u64, addresses: &[usize]) {
        let here = || {
            if cr3() == root {
                addresses.iter().for_each(|&address| invalidate(address));
            }
        };
        ask(here, |other| has(other, root));
    }

    /// Runs `part` with interrupts off, if this CPU has `root` loaded; gives it the CPU's number.
    #[inline]
    pub fn pinned<R>(root: u64, part: impl FnOnce(usize) -> R) -> Option<R> {
        let state = cpu::irq_save();
        let own = cpu::this_cpu();
        let has = own.root.load(Ordering::Relaxed) == root as usize;
        let done = has.then(|| part(own.number()));
        cpu::irq_restore(state);
        done
    }

    /// Does another CPU have `root` loaded? Looks after all stores before; a later load sees them, since
    /// loading serializes.
    pub fn is_elsewhere(root: u64) -> bool {
        if cpu::cpus() == 1 {
            return false;
        }
        let state = cpu::irq_save();
        fence(Ordering::SeqCst);
        let own = cpu::this_cpu().number();
        let found = cpu::online().any(|other| other.number() != own && has(other, root));
        cpu::irq_restore(state);
        found
    }

    /// Every [`pinned`] part that was going on with `root` on another CPU has ended afterwards: that CPU has
    /// answered.
    pub fn await_pinned(root: u64) {
        ask(|| {}, |other| has(other, root));
    }

    /// This CPU forgets the page of `address`, if it has `root`.
    pub fn forget_here(root: u64, address: usize) {
        if cpu::this_cpu().root.load(Ordering::Relaxed) == root as usize {
            invalidate(address);
        }
    }

    /// Discards the translation of one page.
    fn invalidate(address: usize) {
        // SAFETY: forgetting is always allowed.
        unsafe { asm!("invlpg [{}]", in(reg) address, options(nostack, preserves_flags)) };
    }

    fn has(cpu: &cpu::Cpu, root: u64) -> bool {
        cpu.root.load(Ordering::Acquire) == root as usize
    }

    /// No CPU has `root` loaded afterwards. No thread will load it again: those of the space have ended or
    /// have another.
    pub fn leave(root: u64) {
        // SAFETY: the caller frees it, so it is still a top table, and no thread changes it.
        let first = unsafe { &*Kernel.virt(root).cast::<AtomicU64>() };
        let entry = first.swap(DEAD, Ordering::AcqRel);
        let here = || {
            if cr3() == root {
                // SAFETY: the kernel's own tables.
                unsafe { load(kernel_root() as u64) };
            }
        };
        ask(here, |other| has(other, root));
        first.store(entry, Ordering::Release);
    }

    /// Every CPU forgets everything, the kernel's half included.
    pub(crate) fn forget_kernel() {
        KERNEL.fetch_add(1, Ordering::AcqRel);
        ask(forget_global, |_| true);
    }
}

#[cfg(not(target_os = "none"))]
mod host {
    /// Nothing is loaded on the host.
    ///
    /// # Safety
    /// None needed.
    pub unsafe fn load(_root: u64) {}

    /// As [`load`].
    ///
    /// # Safety
    /// None.
    pub unsafe fn load_here(_here: &machine::cpu::Cpu, _root: u64) {}

    pub(crate) fn serialize() {}

    pub(crate) fn forget_kernel() {}
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cpu_that_leaves_a_space_forgets_the_kernels_changes_too() {
        let forgotten = AtomicU64::new(3);
        let due = |first, generation| {
            let Due { leaves, kernel } = due(first, &forgotten, generation);
            (leaves, kernel)
        };
        assert_eq!(due(DEAD, 4), (true, true));
        assert_eq!(due(DEAD, 4), (true, false));
        assert_eq!(due(1, 4), (false, false));
        assert_eq!(due(1, 5), (false, true));
    }
}
