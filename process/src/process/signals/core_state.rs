//! The core-dump state of a process: its threads wait here while its core file is written.
//!
//! *Interface*: [`CoreState`], which `signal/coredump.rs` opens and closes.

use abi::linux::UserRegs;
use alloc::vec::Vec;
use core::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use sync::{Monitor, WaitList};

/// Kinds of memory that a process's cores have at first: private and shared memory of no file, and headers of
/// programs.
pub const FILTER: u32 = 0x33;
/// The process's data: its threads wait here while a core is written.
pub struct CoreState {
    pub(crate) open: AtomicBool,
    pub(crate) registers: Monitor<CoreRegisters>,
    pub(crate) changed: WaitList,
    /// Kinds of memory that its cores have.
    pub filter: AtomicU32,
}

#[derive(Default)]
pub(crate) struct CoreRegisters {
    pub(crate) list: Vec<ThreadRegisters>,
    /// How many wait; there may be no memory for one's registers.
    pub(crate) waiting: usize,
    pub(crate) done: bool,
}

/// How a thread stood when the process ended.
pub(crate) struct ThreadRegisters {
    pub(crate) tid: i32,
    pub(crate) registers: UserRegs,
    pub(crate) vectors: [u8; crate::fp::IMAGE_MAX],
    pub(crate) pending: u64,
    pub(crate) blocked: u64,
    pub(crate) user_ns: u64,
    pub(crate) system_ns: u64,
}

impl CoreState {
    /// For a new process.
    pub(crate) fn new(filter: u32) -> CoreState {
        CoreState {
            open: AtomicBool::new(false),
            registers: Monitor::new(CoreRegisters::default()),
            changed: WaitList::new(),
            filter: AtomicU32::new(filter),
        }
    }

    /// A thread of the process has ended.
    pub(crate) fn left(&self) {
        if self.open.load(Ordering::SeqCst) {
            self.changed.wake_all();
        }
    }
}
