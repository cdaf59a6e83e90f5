//! A serial line (16550): Serial_in and Serial_out around two byte queues.
//!
//! *Interface* (table 4.4). Callentries: [`Serial::enable`], [`Serial::disable`] of a [`Source`]. The data path is a generated
//! interrupt handler ([`synth`]) that moves bytes between the chip and the queues; threads use
//! [`Serial::receive`] and [`Serial::send`], which never wait, and the lists [`Serial::arrived`] and
//! [`Serial::drained`], which do. Several threads may call either; they are serialized by a monitor each.
//!
//! A full input queue turns the receiver off (Q_full) and the reader that makes room turns it on again (Q_full-1), so that
//! nothing is lost while the other side honours the chip's FIFO.
//!
//! Source: dissertation, section 3.3.3 (figure 3.5), figure 4.2.

mod present;
mod ring;
pub mod synth;

use codegen::{OutOfCode, Routine};
use core::sync::atomic::{AtomicU32, AtomicU64, Ordering, fence};
use machine::port::{inb, outb};
use machine::{irq, trap};
use present::Present;
use ring::Ring;
use sync::{Monitor, WaitList};

/// Bytes that wait for a reader, at most.
pub const INPUT: usize = 4096;
/// Bytes that wait for the chip, at most.
pub const OUTPUT: usize = 4096;

const DATA: u16 = 0;
const INTERRUPTS: u16 = 1;
const FIFO: u16 = 2;
const LINE: u16 = 3;
const MODEM: u16 = 4;
const STATUS: u16 = 5;
const SCRATCH: u16 = 7;

const RECEIVE_ON: u8 = 1;
const TRANSMIT_ON: u8 = 2;
const STATUS_IDLE: u8 = 0x40;

const NO_END: u64 = u64::MAX;

/// What can interrupt on a line; each has its section in the generated handler.
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
    image: Option<Routine<synth::Entry>>,
    present: Present,
}

/// Why a line cannot be used.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unusable {
    /// Nothing answers at the port.
    Absent,
    /// No interrupt vector or no code memory.
    Resources,
}

impl From<OutOfCode> for Unusable {
    fn from(_: OutOfCode) -> Self {
        Unusable::Resources
    }
}

/// One serial line. A static: generated code holds the addresses of its words.
pub struct Serial {
    name: &'static str,
    port: u16,
    isa_irq: u8,
    vector: AtomicU32,
    input: Ring<INPUT>,
    output: Ring<OUTPUT>,
    /// 1 while the receiver is off because the input queue was full.
    throttled: AtomicU32,
    /// 1 while a transmitter interrupt is to come, so that the handler consumes the output queue.
    transmitting: AtomicU32,
    arrived: WaitList,
    drained: WaitList,
    reader: Monitor<u64>,
    writer: Monitor<()>,
    handler: Monitor<Handler>,
    end: AtomicU64,
    received: AtomicU64,
    /// Interrupts taken.
    interrupts: AtomicU32,
}

/// The first line, COM1.
pub static COM1: Serial = Serial::new("com1", 0x3f8, 4);
/// The second line, COM2.
pub static COM2: Serial = Serial::new("com2", 0x2f8, 3);

impl Serial {
    const fn new(name: &'static str, port: u16, isa_irq: u8) -> Self {
        Serial {
            name,
            port,
            isa_irq,
            vector: AtomicU32::new(0),
            input: Ring::new(),
            output: Ring::new(),
            throttled: AtomicU32::new(0),
            transmitting: AtomicU32::new(0),
            arrived: WaitList::new(),
            drained: WaitList::new(),
            reader: Monitor::new(0),
            writer: Monitor::new(()),
            handler: Monitor::new(Handler {
                receive: false,
                transmit: false,
                image: None,
                present: Present::new(),
            }),
            end: AtomicU64::new(NO_END),
            received: AtomicU64::new(0),
            interrupts: AtomicU32::new(0),
        }
    }

    /// The line's name.
    pub fn name(&self) -> &'static str {
        self.name
    }

    /// Interrupts that the generated handler has taken since boot.
    pub fn interrupts(&self) -> u32 {
        self.interrupts.load(Ordering::Relaxed)
    }

    fn read_port(&self, register: u16) -> u8 {
        // SAFETY: this server owns the chip at its port.
        unsafe { inb(self.port + register) }
    }

    fn write_port(&self, register: u16, value: u8) {
        // SAFETY: this server owns the chip at its port; the values written are the 16550's documented ones.
        unsafe { outb(self.port + register, value) }
    }

    /// Finds the chip, sets 115200 bits a second 8N1 with FIFOs, and takes an interrupt vector. No source is on yet.
    pub fn start(&'static self) -> Result<(), Unusable> {
        self.write_port(SCRATCH, 0x5a);
        if self.read_port(SCRATCH) != 0x5a {
            return Err(Unusable::Absent);
        }
        let vector = irq::alloc_vector().ok_or(Unusable::Resources)?;
        self.vector.store(u32::from(vector), Ordering::Relaxed);
        self.write_port(INTERRUPTS, 0);
        self.write_port(LINE, 0x80);
        self.write_port(DATA, 1);
        self.write_port(INTERRUPTS, 0);
        self.write_port(LINE, 0x03);
        self.write_port(FIFO, 0xc7);
        self.write_port(MODEM, 0x0b);
        self.plug(&mut self.handler.lock())?;
        if irq::route(irq::isa(self.isa_irq), vector, 0) {
            Ok(())
        } else {
            Err(Unusable::Resources)
        }
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
        if !on {
            self.write_port(INTERRUPTS, handler.mask());
        }
        self.plug(&mut handler)?;
        let (receive, transmit) = (handler.receive, handler.transmit);
        handler.present.show(receive, transmit);
        self.write_port(INTERRUPTS, handler.mask());
        Ok(())
    }

    /// Generates the handler for the present sources and publishes it; the old one is retired.
    fn plug(&'static self, handler: &mut Handler) -> Result<(), Unusable> {
        let image = synth::handler(&self.plan(handler))?;
        let vector = self.vector.load(Ordering::Relaxed) as u8;
        // SAFETY: the image is an interrupt handler as `set_image` wants it, and lives in `self.handler` until
        // the next one is in place.
        unsafe { irq::set_image(vector, image.entry()) };
        handler.image = Some(image);
        Ok(())
    }

    fn plan(&'static self, handler: &Handler) -> synth::Plan {
        synth::Plan {
            name: self.name,
            port: self.port,
            receive: handler.receive.then(|| synth::Receive {
                queue: self.input.addresses(),
                throttled: synth::address(&self.throttled),
                arrived: self.arrived.word_address(),
                mask_off: handler.mask() & !RECEIVE_ON,
                mask_on: handler.mask(),
            }),
            transmit: handler.transmit.then(|| synth::Transmit {
                queue: self.output.addresses(),
                transmitting: synth::address(&self.transmitting),
                drained: self.drained.word_address(),
            }),
            interrupts: synth::address(&self.interrupts),
            wake: wake as *const () as usize,
            wake_argument: core::ptr::from_ref(self) as usize,
            eoi: irq::eoi_address(),
            tail: trap::irq_tail(),
        }
    }

    /// Moves bytes that have arrived into `buffer`, up to the end that the host announced. Does not wait.
    pub fn receive(&self, buffer: &mut [u8]) -> usize {
        let mut total = self.reader.lock();
        let left = self.end.load(Ordering::Acquire).saturating_sub(*total);
        let most = buffer
            .len()
            .min(usize::try_from(left).unwrap_or(usize::MAX));
        let count = self.input.pop(&mut buffer[..most]);
        *total += count as u64;
        self.received.store(*total, Ordering::Release);
        fence(Ordering::SeqCst);
        if count > 0 && self.throttled.swap(0, Ordering::SeqCst) != 0 {
            let mask = self.handler.lock().mask();
            self.write_port(INTERRUPTS, mask);
        }
        count
    }

    /// Bytes that have arrived and wait.
    pub fn waiting(&self) -> usize {
        self.input.len()
    }

    /// Woken when bytes arrive, and when the end becomes known.
    pub fn arrived(&self) -> &WaitList {
        &self.arrived
    }

    /// The input ends after `total` bytes, counted from the first that ever arrived.
    pub fn set_end(&self, total: u64) {
        self.end.store(total, Ordering::Release);
        self.arrived.wake_all();
    }

    /// Whether everything up to the announced end has been received.
    pub fn at_end(&self) -> bool {
        self.received.load(Ordering::Acquire) >= self.end.load(Ordering::Acquire)
    }

    /// Puts as many of `bytes` into the output queue as fit, and starts the transmitter. Does not wait.
    pub fn send(&self, bytes: &[u8]) -> usize {
        let _one_writer = self.writer.lock();
        let count = self.output.push(bytes);
        self.start_transmitter();
        count
    }

    /// As [`send`](Self::send), but all of `bytes` when they are at most 8 (an escape sequence, an expansion), or nothing.
    pub fn send_whole(&self, bytes: &[u8]) -> usize {
        if bytes.len() <= 8 && self.room() < bytes.len() {
            return 0;
        }
        self.send(bytes)
    }

    /// Sends all of `bytes`, waiting for room.
    pub fn send_all(&self, bytes: &[u8]) {
        let mut sent = 0;
        while sent < bytes.len() {
            sent += self.drained.wait_until(|| {
                let count = self.send(&bytes[sent..]);
                (count > 0).then_some(count)
            });
        }
    }

    /// Makes the chip interrupt when no transmitter interrupt is under way, by turning that source off and on: then it is the
    /// handler alone that takes bytes from the output queue, on whatever processor it runs.
    fn start_transmitter(&self) {
        fence(Ordering::SeqCst);
        if self.output.is_empty() || self.transmitting.swap(1, Ordering::SeqCst) != 0 {
            return;
        }
        let mask = self.handler.lock().mask();
        self.write_port(INTERRUPTS, mask & !TRANSMIT_ON);
        self.write_port(INTERRUPTS, mask);
    }

    /// Bytes that the output queue can take now.
    pub fn room(&self) -> usize {
        OUTPUT - self.output.len()
    }

    /// Bytes that the chip has not been given yet.
    pub fn unsent(&self) -> usize {
        self.output.len()
    }

    /// Woken when the output queue has room again.
    pub fn drained(&self) -> &WaitList {
        &self.drained
    }

    /// Waits until the chip has sent everything.
    pub fn wait_drained(&self) {
        self.drained
            .wait_until(|| self.output.is_empty().then_some(()));
        while self.read_port(STATUS) & STATUS_IDLE == 0 {
            (sync::callout::get().yield_now)();
        }
    }
}

impl Handler {
    fn mask(&self) -> u8 {
        let receive = if self.receive { RECEIVE_ON } else { 0 };
        receive | if self.transmit { TRANSMIT_ON } else { 0 }
    }
}

/// Wakes whoever waits on the line; called by the generated handler when a list is not empty.
extern "C" fn wake(line: &Serial) {
    if !line.input.is_empty() {
        line.arrived.wake_all();
    }
    if line.room() >= OUTPUT / 2 {
        line.drained.wake_all();
    }
}
