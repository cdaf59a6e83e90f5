//! The kernel's names for its devices: a symbol table, where the rooms above find them.
//!
//! *Interface*: [`add`] by who has started a device, [`remove`] when it goes, [`find`] from anywhere in
//! thread context, [`for_each`] for listings. A name stays, though it may stand for nothing. No driver knows
//! this table.
//!
//! Source: dissertation, section 4.1.3 (a symbol-table quaject maps names to what they stand for).
//!
//! *Unsafe*: entries that are never freed.

use crate::serial::Serial;
use crate::sound::Card;
use crate::stream::Stream;
use crate::virtio::console::Port;
use crate::virtio::p9_transport::P9Transport;
use alloc::sync::Arc;
use quaject::class::{self, Ref};
use quaject::symtab::Symtab;
use sync::{Monitor, Once};
use vm::fallible::try_arc;

/// The object of a name.
#[derive(Clone)]
pub enum Device {
    /// A serial line.
    Serial(&'static Serial),
    /// A port of the virtio console.
    Port(&'static Port),
    /// A directory of the host's.
    P9(Arc<P9Transport>),
    /// A sound card.
    Sound(Arc<Card>),
}

impl Device {
    /// The bytes that it carries, if it is for that.
    pub fn stream(&self) -> Option<&'static dyn Stream> {
        match self {
            Device::Serial(line) => Some(*line),
            Device::Port(port) => Some(*port),
            Device::P9(_) | Device::Sound(_) => None,
        }
    }
}

/// The target of a symbol's value.
type Entry = Monitor<Option<Device>>;

static NAMES: Once<Ref<Symtab>> = Once::new();

/// Gives `device` a name, in place of what had it. One thread at a time.
///
/// # Errors
/// [`class::OutOfMemory`]; the device then works unnamed.
pub fn add(name: &str, device: Device) -> Result<(), class::OutOfMemory> {
    if NAMES.get().is_none() {
        let table = class::create::<Symtab>(()).map_err(|_| class::OutOfMemory)?;
        // A faster thread has made the table.
        let _ours = NAMES.set(table);
    }
    let table = NAMES.get().ok_or(class::OutOfMemory)?;
    if let Some(value) = table.lookup(name) {
        // Bound: one count, or one value.
        *entry(value).lock() = Some(device);
        return Ok(());
    }
    // Names stay, and so does what they stand for.
    let made = try_arc(Entry::new(Some(device))).map_err(|_| class::OutOfMemory)?;
    let entry: *const Entry = Arc::into_raw(made);
    table.add(name, entry.expose_provenance() as u64);
    Ok(())
}

/// From now on `name` stands for nothing.
pub fn remove(name: &str) {
    let value = NAMES.get().and_then(|table| table.lookup(name));
    let old = value.and_then(|value| entry(value).lock().take());
    drop(old);
}

/// The device called `name`.
pub fn find(name: &str) -> Option<Device> {
    // Bound: one count.
    entry(NAMES.get()?.lookup(name)?).lock().clone()
}

/// Whether a device is called `name`.
pub fn is_taken(name: &str) -> bool {
    find(name).is_some()
}

/// The serial line called `name`.
pub fn serial(name: &str) -> Option<&'static Serial> {
    match find(name)? {
        Device::Serial(line) => Some(line),
        _ => None,
    }
}

/// The console's port called `name`.
pub fn port(name: &str) -> Option<&'static Port> {
    match find(name)? {
        Device::Port(port) => Some(port),
        _ => None,
    }
}

/// The host's directory called `name` (behind [`crate::virtio::p9_transport::PREFIX`]).
pub fn share(name: &str) -> Option<Arc<P9Transport>> {
    match find(name)? {
        Device::P9(share) => Some(share),
        _ => None,
    }
}

/// The sound card called `name`.
pub fn sound(name: &str) -> Option<Arc<Card>> {
    match find(name)? {
        Device::Sound(card) => Some(card),
        _ => None,
    }
}

/// Calls `f` with every name and its device.
pub fn for_each(mut f: impl FnMut(&str, Device)) {
    if let Some(table) = NAMES.get() {
        table.for_each(|name, value| {
            let device = entry(value).lock().clone();
            if let Some(device) = device {
                f(name, device);
            }
        });
    }
}

fn entry(value: u64) -> &'static Entry {
    // SAFETY: the table holds only addresses of the entries that `add` leaked.
    unsafe { &*core::ptr::with_exposed_provenance(value as usize) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::serial::{COM1, COM2};

    #[test]
    fn a_device_is_found_by_its_name() {
        add("line", Device::Serial(&COM2)).unwrap();
        add("other", Device::Serial(&COM1)).unwrap();
        assert!(serial("line").is_some_and(|line| core::ptr::eq(line, &COM2)));
        assert!(find("nothing").is_none());
        add("line", Device::Serial(&COM1)).unwrap();
        assert!(serial("line").is_some_and(|line| core::ptr::eq(line, &COM1)));
        let mut names = 0;
        for_each(|_, _| names += 1);
        assert_eq!(names, 2);
        remove("line");
        assert!(find("line").is_none());
        for_each(|name, _| assert_eq!(name, "other"));
        add("line", Device::Serial(&COM2)).unwrap();
        assert!(serial("line").is_some());
    }
}
