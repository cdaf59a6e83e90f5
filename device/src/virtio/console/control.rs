//! Control messages about ports: the device's messages, and the answers.
//!
//! *Interface*: [`Control`] has the two queues; [`Console::say`] sends a message and waits until the device
//! has read it, [`heed`] does what those that have come ask for. [`changes`], [`pending`] and [`attend`] are
//! for the thread that goes on with it.
//!
//! The interrupt's handler only looks whether something has come; the rest is a procedure chained to its end,
//! which wakes that thread.
//! Source: Virtual I/O Device (VIRTIO) Version 1.2, sections 5.3.6.2 and 5.3.6.3.
//!
//! *Unsafe*: buffers that the device is done with.

use super::super::transport::{Doorbell, Transport};
use super::super::virtqueue::{Virtqueue, WRITES, look_for_used, physical};
use super::{CONSOLE, Console, Port};
use crate::Unusable;
use crate::interrupt::{Source, later};
use crate::pci::DeviceError;
use crate::virtio::zero_copy::QueueDirection;
use alloc::boxed::Box;
use codegen::{Draft, Label};
use core::sync::atomic::{AtomicU16, Ordering};
use machine::clock;
use quaject::assembly::Assembly;
use quaject::near_memory::NearBlock;
use sync::WaitList;

/// Numbers of the two queues.
const INCOMING: u16 = 2;
const OUTGOING: u16 = 3;

/// Messages that may wait: a few for each port.
const BUFFERS: u16 = 32;
/// Bytes of one, with the longest name that is looked at.
const BUFFER: usize = 64;
/// Bytes of a message without a name.
const MESSAGE: usize = 8;
/// How long the device may take to read a message.
const PATIENCE_NS: u64 = 2_000_000_000;

/// The kinds of messages.
#[derive(Clone, Copy)]
pub enum Event {
    /// The driver is there.
    DeviceReady = 0,
    /// The host has added a port.
    DeviceAdd = 1,
    /// The host has taken one away.
    DeviceRemove = 2,
    /// The driver knows the port.
    PortReady = 3,
    /// One side has opened the port.
    PortOpen = 6,
    /// The port's name follows.
    PortName = 7,
}

/// The pair of queues.
pub struct Control {
    incoming: Virtqueue,
    /// The buffers, one behind the other.
    buffers: NearBlock,
    incoming_bell: Doorbell,
    heard: AtomicU16,
    outgoing: Virtqueue,
    message: NearBlock,
    outgoing_bell: Doorbell,
    said: AtomicU16,
    /// Address of the word that counts what the device has used of `incoming`.
    used: i32,
    arrived: WaitList,
}

impl Control {
    /// Gives the device both queues, which interrupt by entry `vector` of its table.
    ///
    /// # Errors
    /// [`Unusable`].
    pub fn new(transport: &Transport, vector: u16) -> Result<&'static Control, Unusable> {
        let ring = |size| Virtqueue::new(size).ok_or(Unusable::Resources);
        let block = |len| NearBlock::new(len).ok_or(Unusable::Resources);
        let (incoming, outgoing) = (ring(BUFFERS)?, ring(1)?);
        let control = Control {
            buffers: block(usize::from(BUFFERS) * BUFFER)?,
            incoming_bell: transport.set_queue(INCOMING, &incoming, vector)?,
            heard: AtomicU16::new(0),
            message: block(MESSAGE)?,
            outgoing_bell: transport.set_queue(OUTGOING, &outgoing, vector)?,
            said: AtomicU16::new(0),
            used: incoming.words().ok_or(Unusable::Resources)?.used,
            incoming,
            outgoing,
            arrived: WaitList::new(),
        };
        (0..BUFFERS).for_each(|number| control.incoming.set_flags(number, WRITES));
        Ok(Box::leak(Box::new(control)))
    }

    /// Gives the device all buffers.
    pub fn fill(&self) {
        (0..BUFFERS).for_each(|number| self.give(number));
    }

    fn give(&self, number: u16) {
        let at = self.buffers.at().as_ptr().expose_provenance();
        let at = at + usize::from(number) * BUFFER;
        self.incoming.give(number, physical(at), BUFFER as u32);
        self.incoming_bell.ring();
    }

    /// The next message: its bytes, and how many there are.
    fn next(&self) -> Option<([u8; BUFFER], usize)> {
        let mut heard = self.heard.load(Ordering::Relaxed);
        let (number, len) = self.incoming.take(&mut heard)?;
        self.heard.store(heard, Ordering::Relaxed);
        let mut bytes = [0; BUFFER];
        // SAFETY: one of the buffers, which the device is done with; were it not, the bytes would be any.
        unsafe {
            let from = self.buffers.at().add(usize::from(number) * BUFFER);
            core::ptr::copy_nonoverlapping(from.as_ptr(), bytes.as_mut_ptr(), BUFFER);
        }
        self.give(number);
        Some((bytes, len.map_or(0, |len| len as usize).min(BUFFER)))
    }

    /// Wakes the thread that follows.
    pub(super) fn wake_reader(&self) {
        self.arrived.wake_all();
    }

    fn has_news(&self) -> bool {
        let mut heard = self.heard.load(Ordering::Relaxed);
        self.incoming.take(&mut heard).is_some()
    }
}

impl Source for Control {
    fn emit(&self, _: &mut Assembly) {}

    fn look(&self, d: &mut Draft, wake: Label) {
        look_for_used(d, self.used, &self.heard, wake);
    }

    fn wake(&self) {
        later(|_| wake_reader(), 0);
    }
}

fn wake_reader() {
    if let Some(console) = CONSOLE.get() {
        console.control.wake_reader();
    }
}

impl Console {
    /// Tells the device, and waits until it has read that.
    ///
    /// # Errors
    /// [`DeviceError::Gone`] when it does not.
    pub(super) fn say(&self, event: Event, port: u32, value: u16) -> Result<(), Unusable> {
        let control = self.control;
        // Bound: the host’s answer to one message, two seconds at most; at boot, and when the host adds a
        // port.
        let _turn = self.speaking.lock();
        let mut bytes = [0; MESSAGE];
        bytes[..4].copy_from_slice(&port.to_le_bytes());
        bytes[4..6].copy_from_slice(&(event as u16).to_le_bytes());
        bytes[6..].copy_from_slice(&value.to_le_bytes());
        let at = control.message.at().as_ptr();
        // SAFETY: the block is that long, and the device is done with it, or was given up.
        unsafe { core::ptr::copy_nonoverlapping(bytes.as_ptr(), at, MESSAGE) };
        let physical = physical(at.expose_provenance());
        control.outgoing.give(0, physical, MESSAGE as u32);
        control.outgoing_bell.ring();
        let deadline = clock::now_ns() + PATIENCE_NS;
        let mut said = control.said.load(Ordering::Relaxed);
        while control.outgoing.take(&mut said).is_none() {
            if self.gone.load(Ordering::Acquire) {
                return Err(DeviceError::Gone.into());
            }
            if clock::now_ns() > deadline {
                self.transport.refuse();
                return Err(DeviceError::Gone.into());
            }
            (sync::callout::get().yield_now)();
        }
        control.said.store(said, Ordering::Relaxed);
        Ok(())
    }
}

/// Does what the messages ask for that have come.
pub(super) fn heed(console: &Console) {
    while let Some((bytes, len)) = console.control.next() {
        let [a, b, c, d, event_low, event_high, ..] = bytes;
        let number = u32::from_le_bytes([a, b, c, d]);
        let event = u16::from_le_bytes([event_low, event_high]);
        let Some(port) = console.ports.get(number as usize) else {
            continue;
        };
        if len < MESSAGE {
            continue;
        }
        if event == Event::DeviceAdd as u16 {
            // One that does not answer has been given up.
            let _silent = console.say(Event::PortReady, number, 1);
        } else if event == Event::DeviceRemove as u16 {
            port.remove();
        } else if event == Event::PortName as u16
            && let Some(name) = name(&bytes[MESSAGE..len])
        {
            (console.named)(name, port);
        }
    }
}

/// The name in a message; None for one that is not plain.
fn name(bytes: &[u8]) -> Option<&str> {
    let end = bytes.iter().position(|byte| *byte == 0);
    let bytes = &bytes[..end.unwrap_or(bytes.len())];
    let plain = |byte: &u8| byte.is_ascii_alphanumeric() || b"._-".contains(byte);
    if bytes.is_empty() || !bytes.iter().all(plain) {
        return None;
    }
    core::str::from_utf8(bytes).ok()
}

/// Lets bytes flow through `port` in one direction; once for each.
///
/// # Errors
/// [`Unusable`].
pub fn open(port: &'static Port, way: QueueDirection) -> Result<(), Unusable> {
    let console = CONSOLE.get().ok_or(Unusable::Absent)?;
    port.open(way)?;
    console.say(Event::PortOpen, port.number(), 1)
}

/// Woken when the host may have changed something about the ports; None on a machine without.
pub fn changes() -> Option<&'static WaitList> {
    CONSOLE.get().map(|console| &console.control.arrived)
}

/// Whether something has come that [`attend`] looks at.
pub fn pending() -> bool {
    (CONSOLE.get()).is_some_and(|console| is_gone() || console.control.has_news())
}

/// Whether the whole device was taken away.
pub fn is_gone() -> bool {
    (CONSOLE.get()).is_some_and(|console| console.gone.load(Ordering::Acquire))
}

/// Follows what the host has changed. One thread's.
pub fn attend() {
    if let Some(console) = CONSOLE.get() {
        heed(console);
    }
}
