//! The pending work of the running thread, which its marks name: it runs supervisor procedures, and waits
//! until it is released.
//!
//! *Interface*: [`safe_point`] for a kernel thread; [`stop_here`] at a return to user mode.
//!
//! The marks are set by `native::ops`, on behalf of other threads.
//! Source: dissertation, sections 4.3.2 and 5.3.2.

use crate::running::block::suspend;
use crate::running::procedures::run_supervisor;
use crate::tte::flags::{CALL, HELD, KILLED, PENDING, SIGNAL, STEP, STOPME, STOPPED, TOKEN};
use crate::tte::{Tte, current};
use core::sync::atomic::Ordering;

/// Where a kernel thread stops or is suspended on request. It holds nothing here that others may wait for.
/// Interrupts on.
#[inline]
pub fn safe_point() {
    let me = current();
    if me.flags() & (PENDING | STOPME | HELD) != 0 {
        attend(me);
    }
}

#[cold]
fn attend(me: &Tte) {
    loop {
        if me.flags() & PENDING != 0 {
            run_supervisor(me);
        }
        if !waits(me.flags()) {
            return;
        }
        stop_here(me);
    }
}

/// Whether the marks `flags` say that their thread waits until it is released.
fn waits(flags: u32) -> bool {
    let held = flags & (HELD | PENDING | CALL | SIGNAL | STEP) == HELD;
    flags & KILLED == 0 && (flags & STOPME != 0 || held)
}

/// The running thread waits until it is released. Interrupts on.
pub(crate) fn stop_here(me: &Tte) {
    me.state.fetch_or(STOPPED, Ordering::AcqRel);
    let mut took = false;
    while waits(me.flags()) {
        suspend();
        took = true;
    }
    me.state.fetch_and(!STOPPED, Ordering::AcqRel);
    if took {
        // A token that came for another reason must not be lost; an extra token does no harm.
        me.state.fetch_or(TOKEN, Ordering::AcqRel);
    }
}
