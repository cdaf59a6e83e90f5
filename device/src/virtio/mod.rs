//! Virtio devices: one transport, one kind of ring, a driver for each kind of device.
//!
//! *Interface*: [`transport`] finds and sets up, [`interrupts`] is how one interrupts; [`virtqueue`] is the
//! memory shared with the device, [`zero_copy`] the generated way between a ring and a Queue; [`balloon`],
//! [`console`], [`entropy`] and [`p9_transport`] are drivers.
//!
//! A driver believes no number that the device writes: positions move by what the driver gave, lengths are
//! compared with it, and a device that claims more is used no further.

pub mod balloon;
pub mod console;
pub mod entropy;
pub mod interrupts;
pub mod p9_transport;
pub mod transport;
pub mod virtqueue;
pub mod zero_copy;
