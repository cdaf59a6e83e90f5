//! The states that protected calls have interrupted (`entry::protect`).
//!
//! *Interface*: [`Interrupted`]; [`inherit`] for a new thread.

use super::fpu_save_area::FpuSaveArea;
use super::{NoMemory, Tte};
use codegen::fault_injection::refused;
use core::sync::atomic::Ordering;
use machine::trap::TrapFrame;

/// The state that a procedure has interrupted.
pub(crate) struct Interrupted {
    pub(crate) frame: TrapFrame,
    pub(crate) fp: Option<FpuSaveArea>,
}

impl Interrupted {
    fn copy(&self) -> Result<Interrupted, NoMemory> {
        let fp = match &self.fp {
            Some(area) => Some(area.copy()?),
            None => None,
        };
        let frame = self.frame;
        Ok(Interrupted { frame, fp })
    }
}

/// A new thread continues inside the procedures that `me`, the running one, is in (fork). Only the caller can
/// reach `child`.
#[expect(
    clippy::disallowed_methods,
    reason = "room is made, which may be refused"
)]
pub(crate) fn inherit(me: &Tte, child: &Tte) -> Result<(), NoMemory> {
    let ends = me.ends.load(Ordering::Relaxed);
    child.ends.store(ends, Ordering::Relaxed);
    // SAFETY: the thread itself.
    let own = &unsafe { me.parts() }.calls;
    if own.is_empty() {
        return Ok(());
    }
    // SAFETY: the caller's promise.
    let calls = &mut unsafe { child.parts() }.calls;
    if refused() || calls.try_reserve(own.len()).is_err() {
        return Err(NoMemory);
    }
    for interrupted in own {
        calls.push(interrupted.copy()?);
    }
    Ok(())
}
