//! The interrupt handler of a serial line, generated for the sources that are on.
//!
//! *Interface*: [`handler()`] makes the image that a [`Plan`] describes. It saves three registers and one
//! more for each source that is on, asks the chip what is pending until nothing is, moves bytes between the
//! chip and the queues by bursts of the chip's FIFO where it can, acknowledges, and returns; only when a
//! thread waits and may go on does it save the rest and call `wake`.
//!
//! `Q_put` and `Q_get` of the two queues stand in the handler with their callbacks in place: `Q_full` turns
//! the receiver off, `Q_empty` leaves the transmitter without a further interrupt.
//!
//! Source: dissertation, section 3.3.3, figure 3.5: the buffer's code stands in the handler, only what is
//! used is saved, and the handler is generated again when a source comes or goes.

use super::{DATA, FIFO, INTERRUPTS, STATUS};
use crate::handler;
use alloc::sync::Arc;
use codegen::{Class, Draft, OutOfCode, Routine, dynasm};
use core::sync::atomic::AtomicU32;
use quaject::interfacer::Callentry;
use quaject::queue::Layout;

pub use crate::handler::Entry;

static CLASS: Class = Class::new("serial.interrupt");

/// Bytes that the chip takes when its transmitter is empty.
const CHIP_FIFO: i32 = 16;

/// Bytes that the chip has when it says that its receiver has reached the trigger level which the server
/// sets.
const BURST: i32 = 14;

/// The receiver's section.
pub struct Receive {
    /// The input queue; the handler produces.
    pub queue: Layout,
    /// Head word of the list of threads that wait for bytes.
    pub arrived: usize,
    /// Whether the chip reports "received" only at its trigger level: then a burst is there.
    pub bursts: bool,
    /// Interrupt mask without the receiver.
    pub mask_off: u8,
    /// Interrupt mask with it.
    pub mask_on: u8,
}

/// The transmitter's section.
pub struct Transmit {
    /// The output queue; the handler consumes.
    pub queue: Layout,
    /// Head word of the list of threads that wait for room.
    pub drained: usize,
}

/// The description of the handler: every field a constant of the image.
pub struct Plan {
    /// Name of the line.
    pub name: &'static str,
    /// First port of the chip.
    pub port: u16,
    /// The receiver, if it is on.
    pub receive: Option<Receive>,
    /// The transmitter, if it is on.
    pub transmit: Option<Transmit>,
    /// Counts interrupts: called first, and may change rax, rcx and rdx.
    pub interrupts: Arc<dyn Callentry>,
    /// `extern "C" fn(argument)` that wakes the waiters.
    pub wake: usize,
    /// Its argument.
    pub wake_argument: usize,
    /// Address of the interrupt controller's end-of-interrupt word.
    pub eoi: usize,
    /// The target, with all registers restored, after a wake-up.
    pub tail: usize,
}

/// The sign-extended 32-bit address of a word in the kernel's window.
pub fn address(word: &'static AtomicU32) -> i32 {
    core::ptr::from_ref(word) as usize as i32
}

/// Generates the handler.
pub fn handler(plan: &Plan) -> Result<Routine<Entry>, OutOfCode> {
    let mut d = Draft::new(&CLASS, plan.name);
    let identify = i32::from(plan.port + FIFO);
    handler::begin(&mut d, &*plan.interrupts);
    dynasm!(d ; .arch x64
        ;again:
        ; mov edx, identify
        ; in al, dx
        ; test al, 1
        ; jnz >quiet
    );
    if let Some(receive) = &plan.receive {
        emit_receive(&mut d, plan, receive);
    }
    if let Some(transmit) = &plan.transmit {
        emit_transmit(&mut d, plan, transmit);
    }
    if plan.receive.is_none() && plan.transmit.is_none() {
        // A spurious interrupt: read what could still assert the line.
        dynasm!(d ; .arch x64
            ; mov edx, i32::from(plan.port + DATA)
            ; in al, dx
        );
    }
    dynasm!(d ; .arch x64
        ; jmp <again
        ;quiet:
    );
    emit_leave(&mut d, plan);
    let sealed = d.seal()?;
    // SAFETY: the code above is entered by an interrupt gate only, saves what it changes and leaves with
    // `iretq` or through the machine's interrupt tail.
    Ok(unsafe { Routine::from(sealed) })
}

/// Moves what has arrived into the input queue; turns the receiver off when it is full. al = what is pending.
fn emit_receive(d: &mut Draft, plan: &Plan, r: &Receive) {
    let (data, status) = (i32::from(plan.port + DATA), i32::from(plan.port + STATUS));
    let interrupts = i32::from(plan.port + INTERRUPTS);
    let q = r.queue;
    if r.bursts {
        // At the trigger level a whole burst is certain, so the handler need not check before each byte.
        dynasm!(d ; .arch x64
        ; and al, 0x0f
        ; cmp al, 4
        ; jne >next
        ; mov rcx, [q.head]
        ; mov rax, rcx
        ; sub rax, [q.tail]
        ; cmp rax, q.size - BURST
        ; ja >next
        ; and ecx, q.size - 1
        ; cmp ecx, q.size - BURST
        ; ja >next
        ; push rdi
        ; lea rdi, [rcx + q.bytes]
        ; mov ecx, BURST
        ; mov edx, data
        ; cld
        ; rep insb
        ; add QWORD [q.head], BURST
        ; pop rdi
        );
    }
    dynasm!(d ; .arch x64
        ;next:
        ; mov edx, status
        ; in al, dx
        ; test al, 1
        ; jz >received
        ; mov rcx, [q.head]
        ; mov rax, rcx
        ; sub rax, [q.tail]
        ; cmp rax, q.size
        ; jae >full
        ; mov edx, data
        ; in al, dx
        ; and ecx, q.size - 1
        ; mov [rcx + q.bytes], al
        ; inc QWORD [q.head]
        ; jmp <next
        // Q_full: off first, then the note that the reader looks at, then another look.
        ;full:
        ; mov edx, interrupts
        ; mov al, BYTE r.mask_off as i8
        ; out dx, al
        ; mov eax, 1
        ; xchg [q.put_failed], rax
        ; mov rax, [q.head]
        ; sub rax, [q.tail]
        ; cmp rax, q.size
        ; jae >received
        ; mov QWORD [q.put_failed], 0
        ; mov al, BYTE r.mask_on as i8
        ; out dx, al
        ; jmp <next
        ;received:
    );
}

/// Gives the chip as much as it takes when its transmitter is empty; notes when the queue has run dry.
fn emit_transmit(d: &mut Draft, plan: &Plan, t: &Transmit) {
    let (data, status) = (i32::from(plan.port + DATA), i32::from(plan.port + STATUS));
    let q = t.queue;
    dynasm!(d ; .arch x64
        ; mov edx, status
        ; in al, dx
        ; test al, 0x20
        ; jz >sent
        // The last get failed: the next put makes the chip interrupt again.
        ; cmp QWORD [q.get_failed], 0
        ; jne >sent
        ; push rsi
        ;more:
        ; mov rcx, [q.tail]
        ; mov rax, [q.head]
        ; sub rax, rcx
        ; jz >dry
        ; and ecx, q.size - 1
        ; lea rsi, [rcx + q.bytes]
        ; sub ecx, q.size
        ; neg ecx
        // rcx = places to the ring's end, rax = bytes there: as many as both and the chip allow.
        ; cmp rcx, rax
        ; cmova ecx, eax
        ; mov eax, CHIP_FIFO
        ; cmp ecx, eax
        ; cmova ecx, eax
        ; mov eax, ecx
        ; mov edx, data
        ; cld
        ; rep outsb
        ; add [q.tail], rax
        ; jmp >stored
        // Q_empty: nothing was given, so no interrupt will come, unless a byte came meanwhile.
        ;dry:
        ; mov eax, 1
        ; xchg [q.get_failed], rax
        ; cmp rcx, [q.head]
        ; je >stored
        ; xor eax, eax
        ; xchg [q.get_failed], rax
        ; test eax, eax
        ; jnz <more
        ;stored:
        ; pop rsi
        ;sent:
    );
}

/// Acknowledges; returns, or wakes the waiters.
fn emit_leave(d: &mut Draft, plan: &Plan) {
    handler::acknowledge(d, plan.eoi);
    if let Some(receive) = &plan.receive {
        dynasm!(d ; .arch x64 ; cmp QWORD [receive.arrived as i32], 0 ; jne >wake);
    }
    if let Some(transmit) = &plan.transmit {
        let q = transmit.queue;
        // Writers go on when the queue is half empty.
        dynasm!(d ; .arch x64
            ; cmp QWORD [transmit.drained as i32], 0
            ; je >nobody
            ; mov rax, [q.head]
            ; sub rax, [q.tail]
            ; cmp rax, q.size / 2
            ; jbe >wake
            ;nobody:
        );
    }
    handler::end(d);
    dynasm!(d ; .arch x64 ; wake:);
    handler::wake(d, plan.wake, plan.wake_argument, plan.tail);
}

#[cfg(test)]
mod tests {
    use super::*;
    use quaject::gauge::{self, Gauge};

    fn queue(base: i32) -> Layout {
        Layout {
            head: base,
            tail: base + 0x40,
            put_failed: base + 8,
            get_failed: base + 0x48,
            bytes: base + 0x80,
            size: 4096,
        }
    }

    fn listing(receive: bool, transmit: bool) -> String {
        codegen::host::link();
        let counter = quaject::class::create::<Gauge>(false).unwrap();
        let plan = Plan {
            name: "test",
            port: 0x3f8,
            receive: receive.then(|| Receive {
                queue: queue(0x1000),
                arrived: 0x108,
                bursts: true,
                mask_off: 2,
                mask_on: 3,
            }),
            transmit: transmit.then(|| Transmit {
                queue: queue(0x3000),
                drained: 0x118,
            }),
            interrupts: gauge::count(&counter),
            wake: codegen::host::link as *const () as usize,
            wake_argument: 0x128,
            eoi: 0xffff_ffff_f000_00b0,
            tail: codegen::host::link as *const () as usize,
        };
        let routine = handler(&plan).unwrap();
        let mut text = String::new();
        let info = codegen::image_at(routine.entry()).unwrap();
        codegen::disassemble(info.entry, &mut text)
            .unwrap()
            .unwrap();
        text
    }

    #[test]
    fn the_handler_holds_just_the_sections_of_the_sources_that_are_on() {
        let (both, receive, transmit) = (
            listing(true, true),
            listing(true, false),
            listing(false, true),
        );
        assert!(receive.contains("0x1040]") && !receive.contains("0x3000]"));
        assert!(transmit.contains("0x3000]") && !transmit.contains("0x1040]"));
        assert!(both.contains("0x1040]") && both.contains("0x3000]"));
        let hot = |text: &str| text.split("iretq").next().unwrap().to_owned();
        assert!(!hot(&receive).contains("push rsi"), "saved but not used");
        assert!(!hot(&transmit).contains("push rdi"), "saved but not used");
        assert!(
            both.contains("inc qword"),
            "the gauge stands in the handler"
        );
    }
}
