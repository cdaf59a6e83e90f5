//! A thread's debug registers.
//!
//! *Interface*: [`DebugRegisters`]; `switch::hw_breakpoints` sets and loads them.

use core::sync::atomic::{AtomicU32, AtomicU64, Ordering};

/// The registers' contents, and the part of DR6 that the thread's debugger is to see.
pub(crate) struct DebugRegisters {
    pub(crate) addresses: [AtomicU64; 4],
    /// DR7; 0 while none is enabled.
    pub(crate) control: AtomicU64,
    /// The bits of DR6 that its debugger is to see.
    pub(crate) told: AtomicU32,
}

impl DebugRegisters {
    pub(crate) const fn new() -> DebugRegisters {
        DebugRegisters {
            addresses: [const { AtomicU64::new(0) }; 4],
            control: AtomicU64::new(0),
            told: AtomicU32::new(0),
        }
    }

    /// None, for a new thread.
    pub(crate) fn reset(&self) {
        self.control.store(0, Ordering::Relaxed);
        self.told.store(0, Ordering::Relaxed);
    }
}
