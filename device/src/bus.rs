//! The devices and their drivers: functions on PCI, and virtio devices that the command line names.
//!
//! *Interface*: [`measure`], before the other processors run; [`start`], once, when there are threads. A
//! machine without PCI Express has no bus, which is no error; nor is a device without a driver, or an invalid
//! one: it is left alone, and the log says why. Requests of a device or a slot to a thread
//! ([`crate::server`]) [`attend`] serves; on a machine without such, [`may_change`] is false. [`for_each`] is
//! for listings.
//!
//! A device that goes, because a slot's button was pressed or because it is not there any more: its server is
//! told ([`Server::remove`]), it is stopped, its interrupts end, and its slot gets no power. Its server's
//! memory is freed when the last handle is dropped.

use crate::Unusable;
use crate::pci::{self, Ecam, Function, Slot};
use crate::server::{self, Changed, Server};
use crate::virtio::transport::{self, Transport, named};
use crate::virtio::ways::Ways;
use crate::virtio::{balloon, console, entropy, share};
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::fmt;
use machine::{boot, log};
use pci_types::PciAddress;
use sync::{Monitor, Once};

/// Starts one device.
type Start = fn(&Transport, &mut Ways) -> Result<Arc<dyn Server>, Unusable>;

/// A driver: the number that the standard gives its kind of device, and its name.
struct Driver(u16, &'static str, Start);

/// Drivers of virtio devices.
static VIRTIO: [Driver; 4] = [
    Driver(3, "virtio-console", console::start),
    Driver(4, "virtio-rng", entropy::start),
    Driver(5, "virtio-balloon", balloon::start),
    Driver(9, "virtio-9p", share::start),
];

/// Where a device is.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum At {
    /// On PCI.
    Pci(PciAddress),
    /// Its registers begin at this physical address.
    Memory(u64),
}

impl fmt::Display for At {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            At::Pci(at) => write!(f, "pci {at}"),
            At::Memory(at) => write!(f, "memory {at:#010x}"),
        }
    }
}

/// A device that is driven.
struct Running {
    at: At,
    driver: &'static str,
    transport: Transport,
    ways: Ways,
    server: Arc<dyn Server>,
}

static RUNNING: Monitor<Vec<Running>> = Monitor::new(Vec::new());

static SPACE: Once<Ecam> = Once::new();

/// Slots, and the interrupt of each.
static SLOTS: Monitor<Vec<(Slot, Ways)>> = Monitor::new(Vec::new());

/// As much of what a slot says is followed before others are heard: one that never stops saying it waits for
/// its next interrupt.
const AT_ONCE: usize = 8;

/// Asks the functions that there is a driver for about their registers.
pub fn measure() {
    each_function(&mut |function| {
        if Slot::of(&function).is_some() || transport::kind(&function).is_some() {
            function.measure();
        }
    });
}

/// Calls `found` with every function on PCI.
fn each_function(found: &mut dyn FnMut(Function)) {
    if let Some(space) = machine::pci::config_space() {
        let _again = SPACE.set(Ecam::new(space));
        if let Some(ecam) = SPACE.get() {
            pci::each(ecam, space.first_bus, found);
        }
    }
}

/// Starts every device that there is a driver for.
pub fn start() {
    each_function(&mut |function| match Slot::of(&function) {
        Some(slot) => listen(slot),
        None => start_function(&function),
    });
    for place in named(boot::info().cmdline) {
        let at = At::Memory(place.physical);
        match Transport::at(place) {
            Ok(None) => {}
            Ok(Some((transport, kind))) => {
                start_one(at, kind, || Ok(transport));
            }
            Err(odd) => log!("{at}: no virtio device: {odd:?}"),
        }
    }
}

fn start_function(function: &Function) {
    if let Some(kind) = transport::kind(function) {
        let at = At::Pci(function.address());
        start_one(at, kind, || {
            function.enable();
            Transport::of_function(function)
        });
    }
}

fn start_one(at: At, kind: u16, find: impl FnOnce() -> Result<Transport, pci::Odd>) {
    let Some(Driver(_, name, start)) = VIRTIO.iter().find(|driver| driver.0 == kind) else {
        return;
    };
    let started = find()
        .map_err(Unusable::from)
        .and_then(|transport| bring_up(at, name, *start, transport));
    match started {
        Ok(()) => log!("{at}: {name}"),
        Err(error) => log!("{at}: {name} cannot be used: {error:?}"),
    }
}

fn bring_up(
    at: At,
    driver: &'static str,
    start: Start,
    transport: Transport,
) -> Result<(), Unusable> {
    let mut ways = Ways::default();
    let started = start(&transport, &mut ways).and_then(|server| {
        let mut running = RUNNING.lock();
        if running.try_reserve(1).is_err() {
            server.remove();
            return Err(Unusable::Resources);
        }
        running.push(Running {
            at,
            driver,
            transport,
            ways: core::mem::take(&mut ways),
            server,
        });
        Ok(())
    });
    if started.is_err() {
        transport.refuse();
        ways.end();
    }
    started
}

/// The device behind a slot may change from now on.
fn listen(slot: Slot) {
    let port = slot.port();
    port.enable();
    let mut ways = Ways::default();
    match notice(port, &mut ways) {
        Ok(()) => {
            slot.listen();
            SLOTS.lock().push((slot, ways));
        }
        Err(error) => log!(
            "pci {}: a slot that does not say what changes: {error:?}",
            port.address()
        ),
    }
}

/// Lets the port of a slot interrupt.
fn notice(port: &Function, ways: &mut Ways) -> Result<(), Unusable> {
    SLOTS
        .lock()
        .try_reserve(1)
        .map_err(|_| Unusable::Resources)?;
    ways.open_table(port)?;
    let (interrupt, ..) = ways.interrupt("slot", 0)?;
    interrupt.add(Changed::new()?, None)
}

/// Whether something may change on this machine, now that [`start`] has been called.
pub fn may_change() -> bool {
    !SLOTS.lock().is_empty()
        || RUNNING
            .lock()
            .iter()
            .any(|device| device.driver == "virtio-balloon")
}

/// Sees to what has happened. One thread's.
pub fn attend() {
    server::heard();
    let slots = SLOTS.lock();
    for (slot, _) in slots.iter() {
        let changes = core::iter::from_fn(|| slot.take()).take(AT_ONCE);
        changes.for_each(|change| follow(slot, change));
    }
    drop(slots);
    let servers = RUNNING.lock();
    servers.iter().for_each(|device| device.server.attend());
}

/// A device behind `slot` is to go, has gone or has come.
fn follow(slot: &Slot, change: pci::Change) {
    let Some((first, last)) = slot.buses() else {
        return;
    };
    let is_behind = |at: &At| matches!(at, At::Pci(at) if (first..=last).contains(&at.bus()));
    let occupied = RUNNING.lock().iter().any(|device| is_behind(&device.at));
    if occupied {
        remove(is_behind);
        slot.power(false);
    }
    // One that was exchanged for another has moved and is there; one that was asked to go is still there, and
    // has not.
    if change.present && slot.is_present() && (!occupied || change.moved) {
        begin(slot);
    }
}

/// A device has come.
fn begin(slot: &Slot) {
    slot.power(true);
    let at = slot.port().address();
    if !slot.wait_for_device() {
        return log!("pci {at}: what is in the slot does not answer");
    }
    let (Ok(mut room), Some((bus, _)), Some(ecam)) = (slot.room(), slot.buses(), SPACE.get())
    else {
        return log!("pci {at}: no addresses for what is behind the slot");
    };
    pci::each_on(
        ecam,
        bus,
        &mut |function| match function.place_all(&mut room) {
            Ok(()) => start_function(&function),
            Err(odd) => log!("pci {}: {odd:?}", function.address()),
        },
    );
}

/// Stops the devices at these places.
fn remove(here: impl Fn(&At) -> bool) {
    loop {
        let mut running = RUNNING.lock();
        let Some(place) = running.iter().position(|device| here(&device.at)) else {
            return;
        };
        let mut gone = running.swap_remove(place);
        drop(running);
        // First no more requests are sent, then it does nothing more by itself, then its interrupts are
        // removed.
        gone.server.remove();
        gone.transport.stop();
        gone.ways.end();
        log!("{}: {} removed", gone.at, gone.driver);
    }
}

/// Calls `f` with each device: its location, its driver, its name, and its interrupts.
pub fn for_each(mut f: impl FnMut(At, &'static str, Option<&str>, &Ways)) {
    for device in RUNNING.lock().iter() {
        f(device.at, device.driver, device.server.name(), &device.ways);
    }
}
