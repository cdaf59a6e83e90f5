//! A serial line (16550): Serial_in and Serial_out around two byte queues.
//!
//! *Interface* (table 4.4). Callentries: [`Serial::enable`], [`Serial::disable`] of a [`Source`]. The data
//! path is a generated interrupt handler ([`synth`]) that moves bytes between the chip and the queues;
//! threads use the queues of a [`Stream`] and [`Serial::send`], which never wait, and its lists, which do.
//! Any thread may write, and any write stays whole; how many may read, [`crate::start_line`] is told.
//!
//! The queues are Queue quajects, linked as in figure 4.2. A full input queue turns the receiver off
//! (`Q_full`, in the handler) and the reader that makes room turns it on again (`Q_full-1`), so that nothing
//! is lost while the other side honours the chip's FIFO. An output queue that has run dry ends the chain of
//! transmitter interrupts (`Q_empty`, in the handler); the writer that finds it so makes the chip interrupt
//! (`Q_empty+1`).
//!
//! Source: dissertation, section 3.3.3 (figure 3.5), figure 4.2.
//!
//! *Unsafe*: ports of the chip; publishing the interrupt handler.

mod chip;
pub mod synth;

use crate::Unusable;
use crate::handler::{self, Vector};
use crate::interrupt_storm::{Mask, WatchedSource};
use crate::stream::{Stream, Waiters};
use core::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use machine::port::{inb, outb};
use machine::{cpu, irq, trap};
use quaject::RoutineError;
use quaject::assembly::Made;
use quaject::class::{self, Holder, Ref, Remake};
use quaject::gauge::{self, Gauge};
use quaject::interfacer::link;
use quaject::join;
use quaject::queue::{self, ByteQueue, Parties};
use sync::{Monitor, Once};

/// Bytes that wait for a reader, at most.
pub const INPUT: usize = 4096;
/// Bytes that wait for the chip, at most.
pub const OUTPUT: usize = 4096;

/// Between polls at most, nanoseconds, when the line floods: at its rate the chip's 16 places fill in 1.4 ms.
const LONGEST_NS: u64 = 1_000_000;

const DATA: u16 = 0;
const INTERRUPTS: u16 = 1;
const FIFO: u16 = 2;
const LINE: u16 = 3;
const MODEM: u16 = 4;
const STATUS: u16 = 5;
const SCRATCH: u16 = 7;

const RECEIVE_ON: u8 = 1;
const TRANSMIT_ON: u8 = 2;
const STATUS_RECEIVED: u8 = 1;
const STATUS_IDLE: u8 = 0x40;
/// Queues of the chip on and emptied; interrupt when 14 bytes have come, or some and then none for a while.
const FIFO_ON: u8 = 0xc7;

mod input {
    use quaject::signature::{Event, Put, Retry};

    quaject::quaject! {
        /// Serial line, receiving
        presence SerialIn = "Serial_in" {
            callentry { ENABLE: Event = "enable", DISABLE: Retry = "disable" }
            callout { PUTCHAR: Put = "putchar" ("the byte is lost") }
        }
    }
}

mod output {
    use quaject::signature::{Event, Get};

    quaject::quaject! {
        /// Serial line, sending
        presence SerialOut = "Serial_out" {
            callentry { ENABLE: Event = "enable" }
            callout { GETCHAR: Get = "getchar" ("nothing is sent") }
        }
    }
}

/// The interrupt sources of a line; each has its section in the generated handler.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Source {
    /// A byte has arrived.
    Receive,
    /// The transmitter is empty.
    Transmit,
}

/// Which sources are on, with the handler generated for just these.
struct Handler {
    receive: bool,
    transmit: bool,
    image: Option<Made<synth::Entry>>,
}

/// The quajects that a line consists of.
struct Parts {
    serial_in: Ref<input::SerialIn>,
    serial_out: Ref<output::SerialOut>,
    input: Ref<ByteQueue>,
    output: Ref<ByteQueue>,
    vector: Ref<Vector>,
    /// Counts interrupts, in the handler.
    interrupts: Ref<Gauge>,
    /// Its place among the sources that are watched.
    watch: Option<WatchedSource>,
}

/// One serial line. A static: generated code holds the addresses of its words.
pub struct Serial {
    name: &'static str,
    port: u16,
    isa_irq: u8,
    vector: AtomicU32,
    /// Whether the receiver's trigger level is honoured.
    bursts: AtomicBool,
    parts: Once<Parts>,
    /// The chip's interrupt mask: the sources that are enabled.
    mask: AtomicU32,
    waiters: Waiters,
    /// Asked in the interrupt, before the waiters are woken, whether nothing is left to do.
    at_once: Once<fn() -> bool>,
    handler: Monitor<Handler>,
}

/// The first line, COM1.
pub static COM1: Serial = Serial::new("com1", 0x3f8, 4);
/// The second line, COM2.
pub static COM2: Serial = Serial::new("com2", 0x2f8, 3);

/// Every line that a machine may have, in the order in which they are named.
pub static LINES: [&Serial; 2] = [&COM1, &COM2];

impl Serial {
    const fn new(name: &'static str, port: u16, isa_irq: u8) -> Self {
        Serial {
            name,
            port,
            isa_irq,
            vector: AtomicU32::new(0),
            bursts: AtomicBool::new(false),
            parts: Once::new(),
            mask: AtomicU32::new(0),
            waiters: Waiters::new(),
            at_once: Once::new(),
            handler: Monitor::new(Handler {
                receive: false,
                transmit: false,
                image: None,
            }),
        }
    }

    /// The line's name.
    pub fn name(&self) -> &'static str {
        self.name
    }

    /// Vector and number of the interrupts that the generated handler has taken since boot; None before the
    /// line was started.
    pub fn interrupts(&self) -> Option<(u8, u64)> {
        let count = self.parts.get()?.interrupts.read();
        Some((self.vector.load(Ordering::Relaxed) as u8, count))
    }

    fn read_port(&self, register: u16) -> u8 {
        // SAFETY: this server owns the chip at its port.
        unsafe { inb(self.port + register) }
    }

    fn write_port(&self, register: u16, value: u8) {
        // SAFETY: this server owns the chip at its port; the values written are the 16550's documented ones.
        unsafe { outb(self.port + register, value) }
    }

    /// Finds the chip, makes the line's quajects, sets 115200 bits a second 8N1 with FIFOs, and takes an
    /// interrupt vector. No source is on yet. `readers` is how many threads may read. Once.
    pub(crate) fn start(&'static self, readers: Parties) -> Result<(), Unusable> {
        self.write_port(SCRATCH, 0x5a);
        if self.read_port(SCRATCH) != 0x5a {
            return Err(Unusable::Absent);
        }
        let parts = self.make_parts(readers)?;
        // A line is started once, so there is no race.
        let _started = self.parts.set(parts);
        let vector = irq::alloc_vector().ok_or(Unusable::Resources)?;
        self.vector.store(u32::from(vector), Ordering::Relaxed);
        self.write_port(INTERRUPTS, 0);
        self.write_port(LINE, 0x80);
        self.write_port(DATA, 1);
        self.write_port(INTERRUPTS, 0);
        self.write_port(LINE, 0x03);
        self.write_port(FIFO, FIFO_ON);
        self.bursts.store(self.honours_trigger(), Ordering::Relaxed);
        self.write_port(MODEM, 0x0b);
        // Bound: generating one handler (5300 instructions), when a source is turned on or off.
        self.plug(&mut self.handler.lock())?;
        if !irq::route(irq::isa(self.isa_irq), vector, 0) {
            return Err(Unusable::Resources);
        }
        if let Some(watch) = self.parts.get().and_then(|parts| parts.watch.as_ref()) {
            watch.begin(vector, LONGEST_NS);
        }
        Ok(())
    }

    /// Sends the chip a byte of its own and sees whether it calls that "received", which with a trigger level
    /// of 14 it must not: some virtual ones have no queue behind the register. Before the line is routed
    /// anywhere.
    fn honours_trigger(&self) -> bool {
        const LOOPED: u8 = 0x10;
        const PATIENCE: usize = 10_000;
        self.write_port(MODEM, LOOPED);
        self.write_port(INTERRUPTS, RECEIVE_ON);
        self.write_port(DATA, 0x55);
        let came = (0..PATIENCE).any(|_| self.read_port(STATUS) & STATUS_RECEIVED != 0);
        let honoured = came && self.read_port(FIFO) & 0x0f != 4;
        self.write_port(INTERRUPTS, 0);
        self.write_port(FIFO, FIFO_ON);
        honoured
    }

    /// The queues and their links.
    fn make_parts(&'static self, readers: Parties) -> Result<Parts, Unusable> {
        let several = cpu::cpus() > 1;
        let watch = WatchedSource::open(Mask::Line(irq::isa(self.isa_irq)));
        let interrupts = match watch.as_ref().and_then(WatchedSource::gauge) {
            Some(gauge) => gauge.clone(),
            None => class::create::<Gauge>(false)?,
        };
        let parts = Parts {
            serial_in: class::create::<input::SerialIn>(())?,
            serial_out: class::create::<output::SerialOut>(())?,
            input: join::queue(Parties::One, readers, INPUT, several)?,
            output: join::queue(Parties::Many, Parties::One, OUTPUT, several)?,
            vector: class::create::<Vector>(())?,
            interrupts,
            watch,
        };
        let (from, to) = (parts.serial_in.header(), parts.serial_out.header());
        let chip = chip::Chip {
            port: self.port,
            mask: synth::address(&self.mask),
        };
        let (input, output) = (&parts.input, &parts.output);
        link(input, queue::Q_FULL, chip::receiver_off(chip, from)?)?;
        link(input, queue::Q_FULL_1, chip::receiver_on(chip, from)?)?;
        link(output, queue::Q_EMPTY_1, chip::transmitter_on(chip, to)?)?;
        link(&parts.serial_in, input::PUTCHAR, queue::q_put(input))?;
        link(&parts.serial_out, output::GETCHAR, queue::q_get(output))?;
        link(
            &parts.vector,
            handler::COUNT,
            gauge::count(&parts.interrupts),
        )?;
        // The handler gets nothing until the first writer finds that a get has failed.
        parts.output.get();
        Ok(parts)
    }

    /// Has `take` called in an interrupt that brings bytes while a thread waits for some, interrupts off: it
    /// takes them, or answers false, and then the thread is woken. Once.
    pub fn give_at_once(&self, take: fn() -> bool) {
        let _again = self.at_once.set(take);
    }

    /// Turns a source on; the interrupt handler is generated again with its section.
    pub fn enable(&'static self, source: Source) -> Result<(), Unusable> {
        self.set(source, true)
    }

    /// Turns a source off; the interrupt handler is generated again without its section.
    pub fn disable(&'static self, source: Source) -> Result<(), Unusable> {
        self.set(source, false)
    }

    fn set(&'static self, source: Source, on: bool) -> Result<(), Unusable> {
        let mut handler = self.handler.lock();
        let flag = match source {
            Source::Receive => &mut handler.receive,
            Source::Transmit => &mut handler.transmit,
        };
        if core::mem::replace(flag, on) == on {
            return Ok(());
        }
        let mask = handler.mask();
        if !on {
            self.mask.store(u32::from(mask), Ordering::SeqCst);
            self.write_port(INTERRUPTS, mask);
        }
        self.plug(&mut handler)?;
        self.mask.store(u32::from(mask), Ordering::SeqCst);
        self.write_port(INTERRUPTS, mask);
        Ok(())
    }

    /// Generates the handler for the present sources and publishes it; the old one is retired.
    fn plug(&'static self, handler: &mut Handler) -> Result<(), Unusable> {
        let parts = self.parts.get().ok_or(Unusable::Absent)?;
        let image = synth::handler(&self.plan(handler, parts)?, Holder::Lasting(self))?;
        let vector = self.vector.load(Ordering::Relaxed) as u8;
        // SAFETY: the image is an interrupt handler as `set_image` wants it, and lives in `self.handler`
        // until the next one is in place.
        unsafe { irq::set_image(vector, image.0.entry()) };
        handler.image = Some(image);
        Ok(())
    }

    fn plan(
        &'static self,
        handler: &Handler,
        parts: &'static Parts,
    ) -> Result<synth::Plan, Unusable> {
        Ok(synth::Plan {
            name: self.name,
            port: self.port,
            receive: handler.receive.then(|| synth::Receive {
                from: parts.serial_in.header(),
                put: input::PUTCHAR.number(),
                arrived: self.waiters.arrived.word_address(),
                bursts: self.bursts.load(Ordering::Relaxed),
            }),
            transmit: handler
                .transmit
                .then(|| {
                    Ok::<_, Unusable>(synth::Transmit {
                        from: parts.serial_out.header(),
                        get: output::GETCHAR.number(),
                        queue: parts.output.layout()?,
                        drained: self.waiters.drained.word_address(),
                    })
                })
                .transpose()?,
            vector: parts.vector.header(),
            wake: wake as *const () as usize,
            wake_argument: core::ptr::from_ref(self) as usize,
            eoi: irq::eoi_address(),
            tail: trap::irq_tail(),
        })
    }

    /// Puts as many of `bytes` into the output queue as fit, and starts the transmitter. Does not wait. A
    /// line that is not there takes everything.
    pub fn send(&'static self, bytes: &[u8]) -> usize {
        (self.leaving()).map_or(bytes.len(), |queue| queue.write(bytes))
    }

    /// Sends all of `bytes`, waiting for room.
    pub fn send_all(&'static self, bytes: &[u8]) {
        let mut sent = 0;
        while sent < bytes.len() {
            sent += self.waiters.drained.wait_until(|| {
                let count = self.send(&bytes[sent..]);
                (count > 0).then_some(count)
            });
        }
    }

    /// Bytes that the output queue can take now.
    pub fn room(&self) -> usize {
        self.leaving().map_or(OUTPUT, |queue| queue.room())
    }
}

impl Stream for Serial {
    fn waiters(&self) -> &Waiters {
        &self.waiters
    }

    fn arriving(&self) -> Option<&Ref<ByteQueue>> {
        Some(&self.parts.get()?.input)
    }

    fn leaving(&self) -> Option<&Ref<ByteQueue>> {
        Some(&self.parts.get()?.output)
    }

    fn wait_drained(&'static self) {
        if self.parts.get().is_none() {
            return;
        }
        self.waiters
            .drained
            .wait_until(|| (self.unsent() == 0).then_some(()));
        while self.read_port(STATUS) & STATUS_IDLE == 0 {
            (sync::callout::get().yield_now)();
        }
    }
}

impl Remake for Serial {
    fn remake(&self) -> Result<(), RoutineError> {
        let line = LINES.into_iter().find(|line| core::ptr::eq(*line, self));
        let line = line.ok_or(RoutineError::BadSpec)?;
        // Bound: generating one handler (5300 instructions), when a link in it changes.
        let made = line.plug(&mut line.handler.lock());
        made.map_err(|_| RoutineError::OutOfCode)
    }
}

impl Handler {
    fn mask(&self) -> u8 {
        let receive = if self.receive { RECEIVE_ON } else { 0 };
        receive | if self.transmit { TRANSMIT_ON } else { 0 }
    }
}

/// Wakes the waiters of the line; called by the generated handler when a list is not empty and its condition
/// may hold.
extern "C" fn wake(line: &Serial) {
    if line.waiting() > 0 && !line.at_once.get().is_some_and(|take| take()) {
        line.waiters.arrived.wake_all();
    }
    if line.room() >= OUTPUT / 2 {
        line.waiters.drained.wake_all();
    }
}
