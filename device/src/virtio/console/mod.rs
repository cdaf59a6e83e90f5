//! The virtio console: a port for each stream that the host connects.
//!
//! *Interface*: [`start`] brings the device up and tells which names the host has for its ports ([`Named`]);
//! [`open`] lets bytes flow. A thread follows the host's later changes, such as new or
//! removed ports: [`changes`] wakes it when something is [`pending`], to [`attend`] to, until the whole
//! device [`is_gone`].
//!
//! Messages about ports go over a separate pair of queues (*control*), in order: the device's answer to a
//! message is there when the message has been used. So `start` knows every port's name when it returns. It
//! waits for the device as it would for a chip, but not for ever.
//! Source: Virtual I/O Device (VIRTIO) Version 1.2, section 5.3.

mod control;
mod port;

pub use control::{attend, changes, is_gone, open, pending};
pub use port::Port;

use super::interrupts::QueueInterrupts;
use super::transport::{NO_VECTOR, Transport};
use crate::Unusable;
use crate::deferred_work::DeferredWork;
use crate::interrupt::Lasting;
use crate::pci::DeviceError;
use alloc::boxed::Box;
use alloc::sync::Arc;
use alloc::vec::Vec;
use control::{Control, Event};
use core::sync::atomic::{AtomicBool, Ordering};
use sync::{Monitor, Once};
use vm::fallible::try_arc;

/// More ports than this are not looked at.
const PORTS: u32 = 8;
/// The feature of several ports.
const MULTIPORT: u64 = 1 << 1;

/// Is told each plain name that the host has for a port, which may be taken.
pub type Named = fn(&str, &'static Port);

/// The device.
struct Console {
    transport: Transport,
    control: &'static Control,
    /// By number; those that the host has not added are no less there.
    ports: Vec<&'static Port>,
    named: Named,
    /// Says something to the host.
    speaking: Monitor<()>,
    /// It was taken away.
    gone: AtomicBool,
}

/// A machine has one.
static CONSOLE: Once<Console> = Once::new();

/// Starts the device behind `transport`. From now on `named` is told the names of its ports.
///
/// # Errors
/// [`Unusable`].
pub fn start(
    transport: &Transport,
    ways: &mut QueueInterrupts,
    named: Named,
) -> Result<Arc<dyn DeferredWork>, Unusable> {
    const MAX_PORTS: usize = 4;
    if CONSOLE.get().is_some() {
        return Err(Unusable::Resources);
    }
    if transport.negotiate(MULTIPORT)? & MULTIPORT == 0 {
        return Err(DeviceError::Fit.into());
    }
    let count = transport.config(MAX_PORTS).min(PORTS);
    ways.open(transport, count + 1)?;
    transport.set_config_vector(NO_VECTOR);
    let (interrupt, vector, asks) = ways.interrupt("virtio-console", 0)?;
    let control = Control::new(transport, vector)?;
    interrupt.add(shared(control)?, asks)?;
    let mut ports = Vec::new();
    for number in 0..count {
        let (interrupt, vector, asks) = ways.interrupt("virtio-port", number as u16 + 1)?;
        let port = Port::new(transport, number, vector, interrupt.clone())?;
        let port: &'static Port = Box::leak(Box::new(port));
        interrupt.add(shared(port)?, asks)?;
        ports.push(port);
    }
    transport.go();
    let console = Console {
        transport: *transport,
        control,
        ports,
        named,
        speaking: Monitor::new(()),
        gone: AtomicBool::new(false),
    };
    // Looked at above, and devices are started one after the other.
    let _again = CONSOLE.set(console);
    let console = CONSOLE.get().ok_or(Unusable::Resources)?;
    console.control.fill();
    console.say(Event::DeviceReady, u32::MAX, 1)?;
    control::heed(console);
    shared(console).map(|server| server as Arc<dyn DeferredWork>)
}

/// A counted handle of a value that stays for ever.
fn shared<T>(there: &'static T) -> Result<Arc<Lasting<T>>, Unusable> {
    try_arc(Lasting(there)).map_err(|_| Unusable::Resources)
}

impl DeferredWork for Lasting<Console> {
    fn remove(&self) {
        self.0.gone.store(true, Ordering::Release);
        self.0.ports.iter().for_each(|port| port.remove());
        self.0.control.wake_reader();
    }
}
