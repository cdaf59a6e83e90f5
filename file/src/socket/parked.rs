//! The inactive list of queues of connections: those that were given up wait for the next connection.
//!
//! *Interface*: [`take`], [`park`]; [`clear`] lets them all go.
//!
//! Source: dissertation, 4.1.2: quajects that were destroyed wait in an inactive list, so that creating one
//! is cheap.
//!
//! *Unsafe*: counted pointers in a list of addresses.

use alloc::sync::Arc;
use quaject::pipe::PipeCore;
use sync::ValueStack;

/// Queues that may wait: as many as four connections have, half a megabyte.
const QUEUES: usize = 8;

/// Their addresses, each with its only count.
static INACTIVE: ValueStack<usize, QUEUES> = ValueStack::new();

/// A queue of the usual size, as new. Nobody else knows it.
pub(super) fn take() -> Option<Arc<PipeCore>> {
    let core = INACTIVE.pop()?;
    // SAFETY: `park` gave its count to the list, and only who popped it takes it.
    let core = unsafe { Arc::from_raw(core as *const PipeCore) };
    core.renew();
    Some(core)
}

/// `core`, of the usual size, waits for the next connection, if nobody else has it and there is room.
pub(super) fn park(mut core: Arc<PipeCore>) {
    if Arc::get_mut(&mut core).is_none() {
        return;
    }
    if let Err(core) = INACTIVE.push(Arc::into_raw(core).addr()) {
        // SAFETY: it was not taken.
        drop(unsafe { Arc::from_raw(core as *const PipeCore) });
    }
}

/// Lets all that wait go.
pub(super) fn clear() {
    while take().is_some() {}
}
