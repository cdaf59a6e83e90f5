//! The interrupt handler of a serial line, generated for the sources that are on.
//!
//! *Interface*: [`handler()`] makes the image that a [`Plan`] describes. It saves three registers and one
//! more for each source that is on, asks the chip what is pending until nothing is, moves bytes between the
//! chip and the queues by bursts of the chip's FIFO where it can, acknowledges, and returns; only when a
//! thread waits and may go on does it save the rest and call `wake`.
//!
//! The other ends of the links of Serial_in's `putchar` and Serial_out's `getchar` stand in the handler:
//! `Q_put` and `Q_get` of the line's two queues, with their callbacks behind them. `Q_full` turns the
//! receiver off; when `Q_get` finds nothing, the transmitter is left without a further interrupt. When such a
//! link changes, the handler is generated anew.
//!
//! Source: dissertation, section 3.3.3, figure 3.5: the buffer's code stands in the handler, only what is
//! used is saved, and the handler is generated again when a source comes or goes.
//!
//! *Unsafe*: safety contract of the handler.

use super::{DATA, FIFO, STATUS};
use crate::handler::{self, KEPT};
use codegen::idioms::Reg;
use codegen::{Class, Draft, Label, dynasm};
use core::sync::atomic::AtomicU32;
use quaject::RoutineError;
use quaject::assembly::{Assembly, Made, Mover, Ring};
use quaject::class::{Header, Holder};
use quaject::queue::Layout;
use quaject::regs::Regs;

pub use crate::handler::Entry;

static CLASS: Class = Class::new("serial.interrupt");

/// Bytes that the chip takes when its transmitter is empty.
const CHIP_FIFO: i32 = 16;

/// Bytes that the chip has when it says that its receiver has reached the trigger level which the server
/// sets.
const BURST: i32 = 14;

/// The receiver's section.
pub struct Receive {
    /// The Serial_in, and the number of its `putchar`.
    pub from: &'static Header,
    /// The number.
    pub put: usize,
    /// Head word of the list of threads that wait for bytes.
    pub arrived: usize,
    /// Whether the chip reports "received" only at its trigger level: then a burst is there.
    pub bursts: bool,
}

/// The transmitter's section.
pub struct Transmit {
    /// The Serial_out, and the number of its `getchar`.
    pub from: &'static Header,
    /// The number.
    pub get: usize,
    /// The output queue, to see whether it is half empty.
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
    /// The vector's quaject: what counts interrupts is linked to it.
    pub vector: &'static Header,
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

/// Generates the handler that `holder` publishes.
pub fn handler(plan: &Plan, holder: Holder) -> Result<Made<Entry>, RoutineError> {
    let mut a = Assembly::new(&CLASS, plan.name, Some(holder));
    let identify = i32::from(plan.port + FIFO);
    handler::begin(&mut a, plan.vector);
    let [again, quiet] = core::array::from_fn(|_| a.label());
    dynasm!(a ; .arch x64
        ; =>again
        ; mov edx, identify
        ; in al, dx
        ; test al, 1
        ; jnz =>quiet
    );
    if let Some(receive) = &plan.receive {
        emit_receive(&mut a, plan, receive);
    }
    if let Some(transmit) = &plan.transmit {
        emit_transmit(&mut a, plan, transmit);
    }
    if plan.receive.is_none() && plan.transmit.is_none() {
        // A spurious interrupt: read what could still assert the line.
        dynasm!(a ; .arch x64
            ; mov edx, i32::from(plan.port + DATA)
            ; in al, dx
        );
    }
    dynasm!(a ; .arch x64 ; jmp =>again ; =>quiet);
    emit_leave(&mut a, plan);
    // SAFETY: the code above is entered by an interrupt gate only, saves what it changes and leaves with
    // `iretq` or through the machine's interrupt tail.
    unsafe { a.seal(None) }
}

/// Bytes of the chip's receiver go to places side by side.
struct FromChip {
    data: i32,
    count: i32,
}

impl Mover for FromChip {
    fn stretch(&self) -> Option<i32> {
        Some(self.count)
    }
    fn emit(&self, a: &mut Assembly, ring: &Ring, _: Label) {
        let data = self.data;
        match self.count {
            1 => dynasm!(a ; .arch x64
                ; mov edx, data
                ; in al, dx
                ; mov [rcx + ring.bytes], al
            ),
            count => dynasm!(a ; .arch x64
                ; push rdi
                ; lea rdi, [rcx + ring.bytes]
                ; mov ecx, count
                ; mov edx, data
                ; cld
                ; rep insb
                ; pop rdi
            ),
        }
    }
}

/// Bytes from places side by side go to the chip's transmitter.
struct ToChip {
    data: i32,
}

impl Mover for ToChip {
    fn stretch(&self) -> Option<i32> {
        Some(CHIP_FIFO)
    }
    fn emit(&self, a: &mut Assembly, ring: &Ring, _: Label) {
        dynasm!(a ; .arch x64
            ; push rsi
            ; lea rsi, [rcx + ring.bytes]
            ; mov ecx, eax
            ; mov edx, self.data
            ; cld
            ; rep outsb
            ; pop rsi
        );
    }
}

/// Puts what has arrived where `putchar` leads. al = what is pending.
fn emit_receive(a: &mut Assembly, plan: &Plan, r: &Receive) {
    let (data, status) = (i32::from(plan.port + DATA), i32::from(plan.port + STATUS));
    let [next, received] = core::array::from_fn(|_| a.label());
    if r.bursts
        && let Some(link) = a.use_link(r.from, r.put)
    {
        // At the trigger level a burst is there for certain, and nobody need ask before each byte.
        let mark = a.mark();
        dynasm!(a ; .arch x64 ; and al, 0x0f ; cmp al, 4 ; jne =>next);
        let burst = FromChip { data, count: BURST };
        if !a.place_around(link, KEPT, next, &burst) {
            a.rewind(mark);
        }
    }
    dynasm!(a ; .arch x64
        ; =>next
        ; mov edx, status
        ; in al, dx
        ; test al, 1
        ; jz =>received
    );
    match a.use_link(r.from, r.put) {
        None => dynasm!(a ; .arch x64 ; mov edx, data ; in al, dx),
        Some(link) if a.place_around(link, KEPT, received, &FromChip { data, count: 1 }) => {}
        // A callentry that cannot be asked for room first loses the byte that it refuses.
        Some(link) => {
            let byte = Regs::of(&[Reg::Rsi, Reg::Rdi]);
            byte.save(a);
            dynasm!(a ; .arch x64 ; mov edx, data ; in al, dx ; movzx edi, al ; mov esi, edi);
            a.place(link, KEPT - byte, None, &[]);
            byte.restore(a);
        }
    }
    dynasm!(a ; .arch x64 ; jmp =>next ; =>received);
}

/// Gives the chip what `getchar` leads to, as much as it takes when its transmitter is empty.
fn emit_transmit(a: &mut Assembly, plan: &Plan, t: &Transmit) {
    let (data, status) = (i32::from(plan.port + DATA), i32::from(plan.port + STATUS));
    let Some(link) = a.use_link(t.from, t.get) else {
        return;
    };
    let sent = a.label();
    dynasm!(a ; .arch x64
        ; mov edx, status
        ; in al, dx
        ; test al, 0x20
        ; jz =>sent
    );
    if !a.place_around(link, KEPT, sent, &ToChip { data }) {
        a.place(link, KEPT, Some(sent), &[]);
        dynasm!(a ; .arch x64 ; mov edx, data ; out dx, al);
    }
    a.bind(sent);
}

/// Acknowledges; returns, or wakes the waiters.
fn emit_leave(d: &mut Draft, plan: &Plan) {
    handler::acknowledge(d, plan.eoi);
    let [wake, nobody] = core::array::from_fn(|_| d.label());
    if let Some(receive) = &plan.receive {
        dynasm!(d ; .arch x64 ; cmp QWORD [receive.arrived as i32], 0 ; jne =>wake);
    }
    if let Some(transmit) = &plan.transmit {
        let q = transmit.queue;
        // Writers go on when the queue is half empty.
        dynasm!(d ; .arch x64
            ; cmp QWORD [transmit.drained as i32], 0
            ; je =>nobody
            ; mov rax, [q.head]
            ; sub rax, [q.tail]
            ; cmp rax, q.size / 2
            ; jbe =>wake
            ; =>nobody
        );
    }
    handler::end(d);
    dynasm!(d ; .arch x64 ; =>wake);
    handler::wake(d, plan.wake, plan.wake_argument, plan.tail);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::serial::{input, output};
    use quaject::class::{Ref, create};
    use quaject::gauge::{self, Gauge};
    use quaject::interfacer::link;
    use quaject::queue::{ByteQueue, Parties, Spec, q_get, q_put};

    fn queue(strings: bool) -> Ref<ByteQueue> {
        create::<ByteQueue>(Spec {
            producers: Parties::One,
            consumers: Parties::One,
            size: 4096,
            several_cpus: false,
            strings,
        })
        .unwrap()
    }

    /// The code, and the addresses of the two queues' words as they stand in it.
    fn listing(receive: bool, transmit: bool, strings: bool) -> (String, [String; 2]) {
        codegen::host::link();
        let counter = create::<Gauge>(false).unwrap();
        let vector = create::<handler::Vector>(()).unwrap();
        link(&vector, handler::COUNT, gauge::count(&counter)).unwrap();
        let (from, to) = (queue(strings), queue(true));
        let serial_in = create::<input::SerialIn>(()).unwrap();
        let serial_out = create::<output::SerialOut>(()).unwrap();
        link(&serial_in, input::PUTCHAR, q_put(&from)).unwrap();
        link(&serial_out, output::GETCHAR, q_get(&to)).unwrap();
        let plan = Plan {
            name: "test",
            port: 0x3f8,
            receive: receive.then(|| Receive {
                from: serial_in.header(),
                put: input::PUTCHAR.number(),
                arrived: 0x108,
                bursts: true,
            }),
            transmit: transmit.then(|| Transmit {
                from: serial_out.header(),
                get: output::GETCHAR.number(),
                queue: to.layout().unwrap(),
                drained: 0x118,
            }),
            vector: vector.header(),
            wake: codegen::host::link as *const () as usize,
            wake_argument: 0x128,
            eoi: 0xffff_ffff_f000_00b0,
            tail: codegen::host::link as *const () as usize,
        };
        let nobody: &'static Nobody = &Nobody;
        let (routine, _known) = handler(&plan, Holder::Lasting(nobody)).unwrap();
        let sites = |header: &Header, port| header.site(port, 0).is_some_and(|site| site.in_line);
        assert_eq!(sites(serial_in.header(), input::PUTCHAR.number()), receive);
        assert_eq!(
            sites(serial_out.header(), output::GETCHAR.number()),
            transmit
        );
        let mut text = String::new();
        let info = codegen::image_at(routine.entry()).unwrap();
        codegen::disassemble(info.entry, &mut text, &|_, _| Ok(()))
            .unwrap()
            .unwrap();
        let tail = |queue: &Ref<ByteQueue>| match queue.layout() {
            Ok(q) => format!("{:#x}]", q.tail),
            Err(_) => String::new(),
        };
        (text, [tail(&from), tail(&to)])
    }

    struct Nobody;

    impl quaject::class::Remake for Nobody {
        fn remake(&self) -> Result<(), RoutineError> {
            Ok(())
        }
    }

    #[test]
    fn the_handler_holds_just_the_sections_of_the_sources_that_are_on() {
        for (receive, transmit) in [(true, true), (true, false), (false, true)] {
            let (text, [from, to]) = listing(receive, transmit, true);
            let has = [text.contains(&from), text.contains(&to)];
            assert_eq!(has, [receive, transmit], "{text}");
            let hot = text.split("iretq").next().unwrap();
            assert!(transmit || !hot.contains("push rsi"), "saved but not used");
            assert!(receive || !hot.contains("push rdi"), "saved but not used");
            assert!(
                !hot.contains("call"),
                "a layer that has not collapsed: {hot}"
            );
            assert!(hot.contains("inc qword"), "the gauge stands in the handler");
        }
    }

    #[test]
    fn another_kind_of_queue_can_be_linked_in() {
        let (text, _) = listing(true, true, false);
        let hot = text.split("iretq").next().unwrap();
        assert!(!hot.contains("insb") && !hot.contains("call"), "{hot}");
    }
}
