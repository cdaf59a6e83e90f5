//! Virtio devices: one transport, one kind of ring, a driver for each kind of device.
//!
//! *Interface*: [`transport`] finds and sets up, [`ways`] is how one interrupts; [`ring`] is the memory
//! shared with the device, [`flow`] the generated way between a ring and a Queue; [`balloon`], [`console`],
//! [`entropy`] and [`share`] are drivers.
//!
//! A driver believes no number that the device writes: positions move by what the driver gave, lengths are
//! compared with it, and a device that claims more is used no further.

pub mod balloon;
pub mod console;
pub mod entropy;
pub mod flow;
pub mod ring;
pub mod share;
pub mod transport;
pub mod ways;
