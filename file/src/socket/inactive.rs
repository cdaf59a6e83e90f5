//! The inactive list of queues of connections: those that were given up wait for the next connection.
//!
//! *Interface*: [`take`], [`park`]; [`clear`] lets them all go.

use alloc::sync::Arc;
use quaject::inactive::Inactive;
use quaject::pipe::PipeCore;

/// Queues that may wait: as many as four connections have, half a megabyte.
const QUEUES: usize = 8;

/// Nobody else has them.
static INACTIVE: Inactive<Arc<PipeCore>, QUEUES> = Inactive::new(drop);

/// A queue of the usual size, as new. Nobody else knows it.
pub(super) fn take() -> Option<Arc<PipeCore>> {
    INACTIVE.take().inspect(|core| core.renew())
}

/// `core`, of the usual size, waits for the next connection, if nobody else has it and there is room.
pub(super) fn park(mut core: Arc<PipeCore>) {
    if Arc::get_mut(&mut core).is_some() {
        core.rest();
        INACTIVE.put(core);
    }
}

/// Lets all that wait go.
pub(super) fn clear() {
    INACTIVE.clear();
}
