//! What is on the bus, and who drives it.
//!
//! *Interface*: [`start`], once, when there are threads. A machine without PCI Express has no bus, which is no error; nor is a device that nobody drives, or one that makes no sense: it is left alone, and the log says why.

use crate::Unusable;
use crate::pci::{self, Ecam, Function};
use crate::virtio::{console, entropy, share, transport};
use machine::log;
use sync::Once;

/// Starts one device; the function decodes its registers already.
type Start = fn(&Function) -> Result<(), Unusable>;

/// Drivers of virtio devices, by the number that the standard gives the kind.
static VIRTIO: [(u16, &str, Start); 3] = [
    (3, "virtio-console", console::start),
    (4, "virtio-rng", entropy::start),
    (9, "virtio-9p", share::start),
];

static SPACE: Once<Ecam> = Once::new();

/// Starts every device that there is a driver for.
pub fn start() {
    let Some(space) = machine::pci::config_space() else {
        return;
    };
    let _again = SPACE.set(Ecam::new(space));
    if let Some(ecam) = SPACE.get() {
        pci::each(ecam, space.first_bus, &mut |function| start_one(&function));
    }
}

fn start_one(function: &Function) {
    let kind = transport::kind(function);
    let driver = VIRTIO.iter().find(|(id, ..)| Some(*id) == kind);
    let Some((_, name, start)) = driver else {
        return;
    };
    function.enable();
    let at = function.address();
    match start(function) {
        Ok(()) => log!("pci {at}: {name}"),
        Err(error) => log!("pci {at}: {name} cannot be used: {error:?}"),
    }
}
