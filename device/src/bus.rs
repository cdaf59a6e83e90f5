//! The devices and their drivers: functions on PCI, and virtio devices that the command line names.
//!
//! *Interface*: [`measure`], before the other processors run; [`start`], once, when there are threads. A
//! machine without PCI Express has no bus, which is no error; nor is a device without a driver, or an invalid
//! one: it is left alone, and the log says why. [`attend`] runs the deferred requests of devices and slots
//! ([`crate::deferred_work`]); [`may_change`]: the machine has something that makes such requests, as
//! hot-pluggable slots do. [`for_each`] is for listings.
//!
//! A device that goes, because a slot's button was pressed or because it is not there any more: its server is
//! told ([`DeferredWork::remove`]), it is stopped, its interrupts end, and its slot gets no power. Its
//! server's memory is freed when the last handle is dropped.

use crate::Unusable;
use crate::ac97::{self, Ac97};
use crate::deferred_work::{self, DeferredWork, WorkRequest};
use crate::hda::{self, Hda};
use crate::pci::{self, Ecam, Function, Slot};
use crate::registry::{self, Device};
use crate::sound::{self, Card, CardDriver};
use crate::virtio::interrupts::QueueInterrupts;
use crate::virtio::transport::{self, Transport, named};
use crate::virtio::{balloon, console, entropy, p9_transport};
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::fmt;
use machine::{boot, log};
use pci_types::PciAddress;
use sync::{Monitor, Once};
use vm::fallible::try_arc;

/// The result of a start.
type Started = Result<Arc<dyn DeferredWork>, Unusable>;

/// A driver: which devices it is for, and its name.
#[derive(Clone, Copy)]
struct Driver {
    kind: Kind,
    name: &'static str,
    start: Start,
}

/// The kind of a device.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// Virtio, by the number that the standard gives it.
    Virtio(u16),
    /// A function on PCI, by vendor and device number.
    Function(u16, u16),
    /// A function on PCI, by base class and subclass.
    Class(u8, u8),
}

/// Starts one device.
#[derive(Clone, Copy)]
enum Start {
    Virtio(fn(&Transport, &mut QueueInterrupts) -> Started),
    Function(fn(&Function, &mut QueueInterrupts) -> Started),
}

const fn virtio(
    kind: u16,
    name: &'static str,
    start: fn(&Transport, &mut QueueInterrupts) -> Started,
) -> Driver {
    Driver {
        kind: Kind::Virtio(kind),
        name,
        start: Start::Virtio(start),
    }
}

static DRIVERS: [Driver; 6] = [
    virtio(3, "virtio-console", start_console),
    virtio(4, "virtio-rng", entropy::start),
    virtio(5, "virtio-balloon", balloon::start),
    virtio(9, "virtio-9p", start_share),
    Driver {
        kind: Kind::Function(ac97::ID.0, ac97::ID.1),
        name: "ac97",
        start: Start::Function(start_ac97),
    },
    Driver {
        kind: Kind::Class(hda::CLASS.0, hda::CLASS.1),
        name: "hda",
        start: Start::Function(start_hda),
    },
];

impl Driver {
    /// The driver of a kind of device.
    fn of(kind: Kind) -> Option<&'static Driver> {
        DRIVERS.iter().find(|driver| driver.kind == kind)
    }
}

impl Kind {
    /// The kind of a function.
    fn of(function: &Function) -> Kind {
        match transport::kind(function) {
            Some(kind) => Kind::Virtio(kind),
            None if function.class() == hda::CLASS => {
                let (base, sub) = function.class();
                Kind::Class(base, sub)
            }
            None => {
                let (vendor, device) = function.id();
                Kind::Function(vendor, device)
            }
        }
    }
}

/// The means by which a device is stopped.
#[derive(Clone, Copy)]
enum Hardware {
    Virtio(Transport),
    Function(Function),
}

impl Hardware {
    fn start(&self, driver: &Driver, ways: &mut QueueInterrupts) -> Started {
        match (self, driver.start) {
            (Hardware::Virtio(transport), Start::Virtio(start)) => start(transport, ways),
            (Hardware::Function(function), Start::Function(start)) => start(function, ways),
            _ => Err(pci::DeviceError::Fit.into()),
        }
    }

    /// It has not been started.
    fn refuse(&self) {
        match self {
            Hardware::Virtio(transport) => transport.refuse(),
            Hardware::Function(function) => function.disable(),
        }
    }

    /// It reaches memory no more.
    fn stop(&self) {
        match self {
            Hardware::Virtio(transport) => transport.stop(),
            Hardware::Function(function) => function.disable(),
        }
    }
}

/// Where a device is.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum BusAddress {
    /// On PCI.
    Pci(PciAddress),
    /// Its registers begin at this physical address.
    DmaMemory(u64),
}

impl fmt::Display for BusAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            BusAddress::Pci(at) => write!(f, "pci {at}"),
            BusAddress::DmaMemory(at) => write!(f, "memory {at:#010x}"),
        }
    }
}

/// A device that is driven.
struct Running {
    at: BusAddress,
    driver: &'static str,
    hardware: Hardware,
    ways: QueueInterrupts,
    server: Arc<dyn DeferredWork>,
}

static RUNNING: Monitor<Vec<Running>> = Monitor::new(Vec::new());

static SPACE: Once<Ecam> = Once::new();

/// Slots, and the interrupt of each.
static SLOTS: Monitor<Vec<(Slot, QueueInterrupts)>> = Monitor::new(Vec::new());

/// As much of what a slot says is followed before others are heard: one that never stops saying it waits for
/// its next interrupt.
const AT_ONCE: usize = 8;

/// Starts the virtio console. A port has the first name that the host gives it and no other device has.
fn start_console(transport: &Transport, ways: &mut QueueInterrupts) -> Started {
    console::start(transport, ways, |name, port| {
        if !registry::is_taken(name) && port.take_name() {
            // Without memory for it the port has no name, and cannot be found.
            let _unnamed = registry::add(name, Device::Port(port));
        }
    })
}

/// Starts a directory of the host's.
fn start_share(transport: &Transport, ways: &mut QueueInterrupts) -> Started {
    let share = p9_transport::start(transport, ways, registry::is_taken)?;
    registry::add(share.name(), Device::P9(share.clone()))?;
    Ok(share)
}

/// Starts a sound card with Intel's AC97 interface.
fn start_ac97(function: &Function, ways: &mut QueueInterrupts) -> Started {
    alone()?;
    let works = Ac97::of_function(function)?;
    ways.open_line(function, works.asks())?;
    start_card(works, "ac97", function, ways)
}

/// Starts a sound card with Intel's High Definition Audio interface.
fn start_hda(function: &Function, ways: &mut QueueInterrupts) -> Started {
    alone()?;
    let works = Hda::of_function(function)?;
    ways.open_message(function, works.asks())?;
    start_card(works, "hda", function, ways)
}

/// There is one sound card at a time.
fn alone() -> Result<(), Unusable> {
    match registry::is_taken(sound::NAME) {
        true => Err(Unusable::Resources),
        false => Ok(()),
    }
}

fn start_card(
    works: Arc<dyn CardDriver>,
    name: &'static str,
    function: &Function,
    ways: &mut QueueInterrupts,
) -> Started {
    let card = try_arc(Card::new(works)?).map_err(|_| Unusable::Resources)?;
    let (interrupt, _, asks) = ways.interrupt(name, 0)?;
    card.attach(interrupt, asks)?;
    function.allow_line();
    registry::add(sound::NAME, Device::Sound(card.clone()))?;
    Ok(card)
}

/// Asks the functions that there is a driver for about their registers.
pub fn measure() {
    each_function(&mut |function| {
        if Slot::of(&function).is_some() || Driver::of(Kind::of(&function)).is_some() {
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
        let at = BusAddress::DmaMemory(place.physical);
        match Transport::at(place) {
            Ok(None) => {}
            Ok(Some((transport, kind))) => {
                start_one(at, Kind::Virtio(kind), || Ok(Hardware::Virtio(transport)));
            }
            Err(odd) => log!("{at}: no virtio device: {odd:?}"),
        }
    }
}

fn start_function(function: &Function) {
    let kind = Kind::of(function);
    start_one(BusAddress::Pci(function.address()), kind, || {
        function.enable();
        Ok(match kind {
            Kind::Virtio(_) => Hardware::Virtio(Transport::of_function(function)?),
            Kind::Function(..) | Kind::Class(..) => Hardware::Function(*function),
        })
    });
}

fn start_one(
    at: BusAddress,
    kind: Kind,
    find: impl FnOnce() -> Result<Hardware, pci::DeviceError>,
) {
    let Some(driver) = Driver::of(kind) else {
        return;
    };
    let name = driver.name;
    let started = find()
        .map_err(Unusable::from)
        .and_then(|hardware| bring_up(at, driver, hardware));
    match started {
        Ok(()) => log!("{at}: {name}"),
        Err(error) => log!("{at}: {name} cannot be used: {error:?}"),
    }
}

fn bring_up(at: BusAddress, driver: &Driver, hardware: Hardware) -> Result<(), Unusable> {
    let mut ways = QueueInterrupts::default();
    let started = hardware.start(driver, &mut ways).and_then(|server| {
        // Bound: a look at the devices; each is asked what it wants of a thread, a request of 256 frames at
        // most.
        let mut running = RUNNING.lock();
        if running.try_reserve(1).is_err() {
            dismiss(&*server);
            return Err(Unusable::Resources);
        }
        running.push(Running {
            at,
            driver: driver.name,
            hardware,
            ways: core::mem::take(&mut ways),
            server,
        });
        Ok(())
    });
    if started.is_err() {
        hardware.refuse();
        ways.end();
    }
    started
}

/// The device behind a slot may change from now on.
fn listen(slot: Slot) {
    let port = slot.port();
    port.enable();
    let mut ways = QueueInterrupts::default();
    match notice(port, &mut ways) {
        Ok(()) => {
            slot.listen();
            // Bound: following eight changes of each slot: a second for each command and for a device that
            // comes, above all when hardware does not answer.
            SLOTS.lock().push((slot, ways));
        }
        Err(error) => log!(
            "pci {}: a slot that does not say what changes: {error:?}",
            port.address()
        ),
    }
}

/// Lets the port of a slot interrupt.
fn notice(port: &Function, ways: &mut QueueInterrupts) -> Result<(), Unusable> {
    SLOTS
        .lock()
        .try_reserve(1)
        .map_err(|_| Unusable::Resources)?;
    ways.open_table(port)?;
    let (interrupt, ..) = ways.interrupt("slot", 0)?;
    interrupt.add(WorkRequest::new()?, None)
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
    deferred_work::heard();
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
    let is_behind =
        |at: &BusAddress| matches!(at, BusAddress::Pci(at) if (first..=last).contains(&at.bus()));
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
fn remove(here: impl Fn(&BusAddress) -> bool) {
    loop {
        let mut running = RUNNING.lock();
        let Some(place) = running.iter().position(|device| here(&device.at)) else {
            return;
        };
        let mut gone = running.swap_remove(place);
        drop(running);
        // First no more requests are sent, then it does nothing more by itself, then its interrupts are
        // removed.
        dismiss(&*gone.server);
        gone.hardware.stop();
        gone.ways.end();
        log!("{}: {} removed", gone.at, gone.driver);
    }
}

/// Nobody finds the device of `server` any more, and nothing more is asked of it.
fn dismiss(server: &dyn DeferredWork) {
    if let Some(name) = server.name() {
        registry::remove(name);
    }
    server.remove();
}

/// Calls `f` with each device: its location, its driver, its name, and its interrupts.
pub fn for_each(mut f: impl FnMut(BusAddress, &'static str, Option<&str>, &QueueInterrupts)) {
    for device in RUNNING.lock().iter() {
        f(device.at, device.driver, device.server.name(), &device.ways);
    }
}
