//! The interrupt handler of a serial line, generated for the sources that are on.
//!
//! *Interface*: [`handler`] makes the image that a [`Plan`] describes. It saves three registers, four with a
//! transmitter, asks the chip what is pending until nothing is, moves bytes between the chip and the queues,
//! acknowledges, and returns; only when a thread waits does it save the rest and call `wake`.
//!
//! Source: dissertation, section 3.3.3, figure 3.5: the buffer's code stands in the handler, only what is used is
//! saved, and the handler is generated again when a source comes or goes.

use super::ring::Addresses;
use super::{DATA, FIFO, INTERRUPTS, STATUS};
use codegen::{Class, Draft, OutOfCode, Routine, dynasm};
use core::sync::atomic::AtomicU32;

/// The calling contract: entered by the processor through an interrupt gate.
pub type Entry = unsafe extern "C" fn();

static CLASS: Class = Class::new("serial.interrupt");

/// Bytes that the chip takes when its transmitter is empty.
const CHIP_FIFO: i32 = 16;

/// The receiver's section.
pub struct Receive {
    /// The input queue; the handler produces.
    pub queue: Addresses,
    /// Word set to 1 when the queue was full and the receiver is off.
    pub throttled: i32,
    /// Head word of the list of threads that wait for bytes.
    pub arrived: usize,
    /// Interrupt mask without the receiver.
    pub mask_off: u8,
    /// Interrupt mask with it.
    pub mask_on: u8,
}

/// The transmitter's section.
pub struct Transmit {
    /// The output queue; the handler consumes.
    pub queue: Addresses,
    /// Word that is 1 while the handler will be called again.
    pub transmitting: i32,
    /// Head word of the list of threads that wait for room.
    pub drained: usize,
}

/// What the handler is made from: every field a constant of the image.
pub struct Plan {
    /// Name of the line.
    pub name: &'static str,
    /// First port of the chip.
    pub port: u16,
    /// The receiver, if it is on.
    pub receive: Option<Receive>,
    /// The transmitter, if it is on.
    pub transmit: Option<Transmit>,
    /// Count of interrupts.
    pub interrupts: i32,
    /// `extern "C" fn(argument)` that wakes the waiters.
    pub wake: usize,
    /// Its argument.
    pub wake_argument: usize,
    /// Address of the interrupt controller's end-of-interrupt word.
    pub eoi: usize,
    /// Where to go, with the registers as they were, after waking somebody.
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
    dynasm!(d ; .arch x64
        ; push rax
        ; push rcx
        ; push rdx
        ; inc DWORD [plan.interrupts]
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
    // SAFETY: the code above is entered by an interrupt gate only, saves what it changes and leaves with `iretq` or
    // through the machine's interrupt tail.
    Ok(unsafe { Routine::from(sealed) })
}

/// Moves what has arrived into the input queue; turns the receiver off when it is full.
fn emit_receive(d: &mut Draft, plan: &Plan, r: &Receive) {
    let (data, status) = (i32::from(plan.port + DATA), i32::from(plan.port + STATUS));
    let interrupts = i32::from(plan.port + INTERRUPTS);
    dynasm!(d ; .arch x64
        ;next:
        ; mov edx, status
        ; in al, dx
        ; test al, 1
        ; jz >received
        ; mov ecx, [r.queue.tail]
        ; mov eax, ecx
        ; sub eax, [r.queue.head]
        ; cmp eax, r.queue.size
        ; jae >full
        ; mov edx, data
        ; in al, dx
        ; and ecx, r.queue.size - 1
        ; mov [rcx + r.queue.bytes], al
        ; inc DWORD [r.queue.tail]
        ; jmp <next
        ;full:
        ; mov edx, interrupts
        ; mov al, BYTE r.mask_off as i8
        ; out dx, al
        ; mov al, 1
        ; xchg [r.throttled], al
        ; mov eax, [r.queue.tail]
        ; sub eax, [r.queue.head]
        ; cmp eax, r.queue.size
        ; jae >received
        ; mov DWORD [r.throttled], 0
        ; mov al, BYTE r.mask_on as i8
        ; out dx, al
        ; jmp <next
        ;received:
    );
}

/// Gives the chip as much as it takes when its transmitter is empty; notes when the queue has run dry.
fn emit_transmit(d: &mut Draft, plan: &Plan, t: &Transmit) {
    let (data, status) = (i32::from(plan.port + DATA), i32::from(plan.port + STATUS));
    dynasm!(d ; .arch x64
        ; mov edx, status
        ; in al, dx
        ; test al, 0x20
        ; jz >sent
        ; cmp DWORD [t.transmitting], 0
        ; je >sent
        ; push rbx
        ; mov ebx, CHIP_FIFO
        ; mov edx, data
        ; mov ecx, [t.queue.head]
        ;more:
        ; cmp ecx, [t.queue.tail]
        ; je >dry
        ; mov eax, ecx
        ; and eax, t.queue.size - 1
        ; mov al, [rax + t.queue.bytes]
        ; out dx, al
        ; inc ecx
        ; dec ebx
        ; jnz <more
        ; mov [t.queue.head], ecx
        ; jmp >stored
        ;dry:
        ; mov [t.queue.head], ecx
        ; cmp ebx, CHIP_FIFO
        ; jne >stored
        // Nothing was given: the transmitter stops, unless a byte came meanwhile.
        ; xor eax, eax
        ; xchg [t.transmitting], eax
        ; cmp ecx, [t.queue.tail]
        ; je >stored
        ; mov eax, 1
        ; xchg [t.transmitting], eax
        ; test eax, eax
        ; jz <more
        ;stored:
        ; pop rbx
        ;sent:
    );
}

/// Acknowledges; returns, or wakes whoever waits.
fn emit_leave(d: &mut Draft, plan: &Plan) {
    let eoi = plan.eoi as i32;
    // The queues' counts must be out before the lists are looked at: a thread enrols first and looks at the counts then.
    dynasm!(d ; .arch x64 ; lock add DWORD [rsp], 0 );
    if plan.eoi as i64 == i64::from(eoi) {
        dynasm!(d ; .arch x64 ; mov DWORD [eoi], 0 );
    } else {
        dynasm!(d ; .arch x64
            ; mov rax, QWORD plan.eoi as i64
            ; mov DWORD [rax], 0
        );
    }
    let lists = [
        plan.receive.as_ref().map(|r| r.arrived),
        plan.transmit.as_ref().map(|t| t.drained),
    ];
    for list in lists.into_iter().flatten() {
        dynasm!(d ; .arch x64
            ; cmp QWORD [list as i32], 0
            ; jne >wake
        );
    }
    dynasm!(d ; .arch x64
        ; pop rdx
        ; pop rcx
        ; pop rax
        ; iretq
        ;wake:
        ; push rsi
        ; push rdi
        ; push r8
        ; push r9
        ; push r10
        ; push r11
        ; push rbp
        ; mov rbp, rsp
        ; and rsp, -16
        ; cld
        ; mov rdi, QWORD plan.wake_argument as i64
    );
    d.call_abs(plan.wake);
    dynasm!(d ; .arch x64
        ; mov rsp, rbp
        ; pop rbp
        ; pop r11
        ; pop r10
        ; pop r9
        ; pop r8
        ; pop rdi
        ; pop rsi
        ; pop rdx
        ; pop rcx
        ; pop rax
    );
    d.jmp_abs(plan.tail);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn queue(base: i32) -> Addresses {
        Addresses {
            head: base,
            tail: base + 4,
            bytes: base + 8,
            size: 4096,
        }
    }

    fn listing(receive: bool, transmit: bool) -> String {
        codegen::host::link();
        let plan = Plan {
            name: "test",
            port: 0x3f8,
            receive: receive.then(|| Receive {
                queue: queue(0x1000),
                throttled: 0x100,
                arrived: 0x108,
                mask_off: 2,
                mask_on: 3,
            }),
            transmit: transmit.then(|| Transmit {
                queue: queue(0x3000),
                transmitting: 0x110,
                drained: 0x118,
            }),
            interrupts: 0x120,
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
        assert!(receive.contains("0x1004]") && !receive.contains("0x3000]"));
        assert!(transmit.contains("0x3000]") && !transmit.contains("0x1004]"));
        assert!(both.contains("0x1004]") && both.contains("0x3000]"));
        assert!(!receive.contains("push rbx"), "saved but not used");
    }
}
