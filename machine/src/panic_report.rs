//! The panic report: what happened, where, and how the kernel got there.
//!
//! *Interface*: [`panic()`] for the kernel room's panic handler, [`fatal_exception`] for exceptions that
//! nobody can handle. Goes to the log and to the control port (docs/run-contract.md), then powers off. The
//! other CPUs are stopped first. Uses no heap and takes no lock.

use core::fmt::{self, Write};
use core::sync::atomic::{AtomicPtr, AtomicUsize, Ordering};

use crate::cpu;
use crate::log::{self, LogLine};
use crate::trap_frame::{TrapFrame, exception, fault_address};

/// The services that the report asks of higher rooms. Both may be called in any state of the machine.
pub struct Callouts {
    /// Writes who is running (thread name, process) to the report.
    pub who: fn(&mut dyn Write),
    /// Writes the name of the generated code that holds an address; returns whether there is such code.
    pub image: fn(usize, &mut dyn Write) -> bool,
}

static LINKED: AtomicPtr<Callouts> = AtomicPtr::new(core::ptr::null_mut());
/// Number of the reporting CPU plus one; 0: nobody reports.
static REPORTER: AtomicUsize = AtomicUsize::new(0);

/// Links the callouts; without them the report has no thread and no names for generated code.
pub fn link(callouts: &'static Callouts) {
    LINKED.store(core::ptr::from_ref(callouts).cast_mut(), Ordering::Release);
}

fn callouts() -> Option<&'static Callouts> {
    let linked = LINKED.load(Ordering::Acquire);
    // SAFETY: only `link` stores here, and it takes a `&'static`.
    unsafe { linked.as_ref() }
}

/// Writes to the control port at once, and to the log line by line.
struct Out(LogLine);

impl Write for Out {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        crate::power::report_bytes(text.as_bytes());
        for piece in text.split_inclusive('\n') {
            self.0.write_str(piece)?;
            if piece.ends_with('\n') {
                self.0.flush();
            }
        }
        Ok(())
    }
}

/// Reports a panic of the kernel's own and powers off.
pub fn panic(cause: fmt::Arguments) -> ! {
    let (rip, rbp): (usize, usize);
    // SAFETY: reads registers.
    unsafe {
        core::arch::asm!("lea {}, [rip]", "mov {}, rbp", out(reg) rip, out(reg) rbp, options(nomem, nostack));
    }
    report(cause, None, rip, rbp)
}

/// Reports an exception that the kernel cannot survive and powers off.
pub fn fatal_exception(frame: &TrapFrame) -> ! {
    let name = exception_name(frame.vector);
    let (rip, rbp) = (frame.rip as usize, frame.rbp as usize);
    if frame.vector == exception::PAGE_FAULT {
        let address = fault_address();
        report(
            format_args!(
                "{name} at {address:#x}, error {:#x}, rip {rip:#x}",
                frame.error
            ),
            Some(frame),
            rip,
            rbp,
        )
    }
    report(
        format_args!("{name}, error {:#x}, rip {rip:#x}", frame.error),
        Some(frame),
        rip,
        rbp,
    )
}

fn exception_name(vector: u64) -> &'static str {
    match vector {
        exception::DIVIDE => "divide error",
        exception::DEBUG => "debug exception",
        exception::BREAKPOINT => "breakpoint",
        exception::INVALID_OPCODE => "invalid opcode",
        exception::NO_FPU => "floating point used in the kernel",
        exception::DOUBLE_FAULT => "double fault (kernel stack overflow?)",
        exception::STACK => "stack fault",
        exception::PROTECTION => "general protection fault",
        exception::PAGE_FAULT => "page fault",
        exception::MACHINE_CHECK => "machine check",
        _ => "exception",
    }
}

fn report(cause: fmt::Arguments, frame: Option<&TrapFrame>, rip: usize, rbp: usize) -> ! {
    // Bound: the end of the machine.
    cpu::irq_disable();
    let me = cpu::this_cpu().number() + 1;
    match REPORTER.compare_exchange(0, me, Ordering::AcqRel, Ordering::Acquire) {
        Ok(_) => {}
        // A fault while reporting: what is out is out.
        Err(reporter) if reporter == me => crate::power::off(),
        // Another CPU was first; this one's trouble may be the same.
        Err(_) => cpu::halt(),
    }
    crate::apic::nmi_all_but_self();
    crate::power::report_bytes(b"panic ");
    // Writing to `Out` cannot fail; a cause whose Display fails is cut short.
    let mut out = Out(LogLine::quiet(log::EMERGENCY));
    let _ = write_report(&mut out, cause, frame, rip, rbp);
    crate::power::off()
}

fn write_report(
    out: &mut dyn Write,
    cause: fmt::Arguments,
    frame: Option<&TrapFrame>,
    rip: usize,
    rbp: usize,
) -> fmt::Result {
    writeln!(out, "{cause}")?;
    write!(out, "  cpu {}", cpu::this_cpu().number())?;
    if let Some(callouts) = callouts() {
        out.write_str(", ")?;
        (callouts.who)(out);
    }
    writeln!(out)?;
    if let Some(f) = frame {
        write_registers(out, f)?;
    }
    let distance = crate::paging::distance();
    if distance != 0 {
        writeln!(out, "  image moved up by {distance:#x}")?;
    }
    writeln!(out, "  back-trace:")?;
    write_place(out, rip)?;
    write_trace(out, rbp)
}

fn write_registers(out: &mut dyn Write, f: &TrapFrame) -> fmt::Result {
    let rows = [
        [
            ("rax", f.rax),
            ("rbx", f.rbx),
            ("rcx", f.rcx),
            ("rdx", f.rdx),
        ],
        [
            ("rsi", f.rsi),
            ("rdi", f.rdi),
            ("rbp", f.rbp),
            ("rsp", f.rsp),
        ],
        [("r8 ", f.r8), ("r9 ", f.r9), ("r10", f.r10), ("r11", f.r11)],
        [
            ("r12", f.r12),
            ("r13", f.r13),
            ("r14", f.r14),
            ("r15", f.r15),
        ],
        [
            ("rip", f.rip),
            ("cs ", f.cs),
            ("flg", f.rflags),
            ("vec", f.vector),
        ],
    ];
    for row in rows {
        for (name, value) in row {
            write!(out, "  {name} {value:016x}")?;
        }
        writeln!(out)?;
    }
    Ok(())
}

fn write_place(out: &mut dyn Write, address: usize) -> fmt::Result {
    write!(out, "    {address:016x} ")?;
    if let Some((name, offset)) = crate::symbols::name(address).filter(|_| in_image(address)) {
        write!(out, "{}+{offset:#x}", name.as_str())?;
    } else if let Some(callouts) = callouts() {
        (callouts.image)(address, out);
    }
    writeln!(out)
}

/// Follows the frame pointers for as long as they stay on one kernel stack, upwards.
fn write_trace(out: &mut dyn Write, mut rbp: usize) -> fmt::Result {
    for _ in 0..32 {
        let base = cpu::StackBase::address_of(rbp);
        if !rbp.is_multiple_of(8) || rbp < abi::layout::WINDOW || rbp.saturating_add(16) > base {
            break;
        }
        // SAFETY: the words lie on a kernel stack below its base; a wild value that only looks like one ends
        // in the "fault while reporting" path.
        let (next, back) = unsafe { *(rbp as *const (usize, usize)) };
        if back == 0 {
            break;
        }
        write_place(out, back)?;
        if next <= rbp || cpu::StackBase::address_of(next) != base {
            break;
        }
        rbp = next;
    }
    Ok(())
}

#[cfg(target_os = "none")]
fn in_image(address: usize) -> bool {
    let [start, text_end, ..] = crate::paging::image();
    (start..text_end).contains(&address.wrapping_sub(crate::paging::window(0)))
}

#[cfg(not(target_os = "none"))]
fn in_image(_address: usize) -> bool {
    false
}

/// A non-maskable interrupt: another CPU's panic stops this one; anything else is logged.
pub(crate) fn nmi(frame: &TrapFrame) {
    if REPORTER.load(Ordering::Acquire) != 0 {
        cpu::halt();
    }
    log::write_line_quietly(format_args!("nmi at {:#x}", frame.rip));
}
