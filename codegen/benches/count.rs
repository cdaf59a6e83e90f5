//! Counting instructions natively: a forked child runs the code under single-step.
//!
//! *Interface*: [`instructions`]. `None` where the host forbids tracing.

/// Number of instructions that `work` executes in user mode.
pub fn instructions(work: impl Fn()) -> Option<u64> {
    let empty = count(|| {})?;
    Some(count(work)?.saturating_sub(empty))
}

/// A recognizable instruction that every platform lets one execute.
#[inline(never)]
fn mark() {
    // SAFETY: a breakpoint; the tracing parent continues after it.
    unsafe { core::arch::asm!("int3") };
}

fn count(work: impl Fn()) -> Option<u64> {
    // SAFETY: plain process calls with valid arguments; the child runs only `work` and leaves at once.
    unsafe {
        let child = libc::fork();
        if child < 0 {
            return None;
        }
        if child == 0 {
            if libc::ptrace(libc::PTRACE_TRACEME, 0, 0, 0) != 0 {
                libc::_exit(1);
            }
            mark();
            work();
            mark();
            libc::_exit(0);
        }
        let mut status = 0;
        libc::waitpid(child, &mut status, 0);
        if !libc::WIFSTOPPED(status) {
            return None;
        }
        let mut steps = 0;
        loop {
            libc::ptrace(libc::PTRACE_SINGLESTEP, child, 0, 0);
            libc::waitpid(child, &mut status, 0);
            if !libc::WIFSTOPPED(status) {
                return None;
            }
            let mut why: libc::siginfo_t = core::mem::zeroed();
            libc::ptrace(libc::PTRACE_GETSIGINFO, child, 0, &raw mut why);
            // A breakpoint reports SI_KERNEL, a step TRAP_TRACE.
            if why.si_code == libc::SI_KERNEL {
                libc::kill(child, libc::SIGKILL);
                libc::waitpid(child, &mut status, 0);
                return Some(steps);
            }
            steps += 1;
        }
    }
}
