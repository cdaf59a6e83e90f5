//! The log levels of the console: the numbers of `/proc/sys/kernel/printk`.
//!
//! *Interface*: [`LEVELS`]. They are kept and steer nothing: the log goes to no console.

use core::sync::atomic::AtomicI32;

/// The least level of the console.
pub const LEAST: i32 = 1;
const USUAL: i32 = 7;

/// Of the console: the level, that of messages without one, the least and the usual one.
pub static LEVELS: [AtomicI32; 4] = [
    AtomicI32::new(USUAL),
    AtomicI32::new(4),
    AtomicI32::new(LEAST),
    AtomicI32::new(USUAL),
];
