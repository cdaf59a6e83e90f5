//! The size of a pipe's queue: reading it, and changing it while the pipe is in use.
//!
//! *Interface*: [`Pipe::resize`] is `F_SETPIPE_SZ`; [`Pipe::now`] gives the queue as it is; [`limits`] has
//! the bounds that root may set.
//!
//! The size is a constant of a pipe's routines. A pipe with a new size gets a new queue, and relays in the
//! tables instead of the routines, which lead to routines for the current queue. The first queue stays, empty
//! and closed, for its routines in unknown tables (`quaject::pipe`). A pipe that keeps its size has neither.
//!
//! Source: dissertation, section 3.2.3; quasi-invariants after Pu et al. 1995.

use abi::errno::{Errno, Result};
use abi::layout::PAGE;
use abi::nr;
use alloc::sync::{Arc, Weak};
use core::ops::Deref;
use core::sync::atomic::Ordering;
use quaject::Sharing;
use quaject::pipe::PipeCore;
use quaject::relay::Relay;
use sync::Monitor;

use super::Pipe;
use crate::fdtable;
use crate::fs::file::{DescRoutine, DescRoutines, OpenFile};
use crate::routine_env;
use account::Capability;
use account::quota;
use account::user::Charge;

/// The bounds.
pub mod limits {
    use core::sync::atomic::AtomicUsize;

    /// The most bytes that an ordinary user may ask for (`/proc/sys/fs/pipe-max-size`).
    pub static SIZE: AtomicUsize = AtomicUsize::new(1 << 20);
}

/// The size that is given for `wanted` bytes: a power of two, a page at least. EINVAL.
pub fn round(wanted: usize) -> Result<usize> {
    if wanted > 1 << 31 {
        return Err(Errno::EINVAL);
    }
    Ok(wanted.max(PAGE).next_power_of_two())
}

/// The lock for a change of the size, and the two descriptions of an unnamed pipe.
#[derive(Default)]
pub(super) struct Sizing([Weak<OpenFile>; 2]);

impl Sizing {
    /// Weak counts that are kept here of each of the two.
    pub const COUNTS: usize = 1;

    pub fn know(&mut self, reading: &Arc<OpenFile>, writing: &Arc<OpenFile>) {
        self.0 = [reading, writing].map(Arc::downgrade);
    }
}

/// The replacement of a pipe's first queue.
pub(super) struct Later {
    core: Monitor<Current>,
    read: Relay,
    write: Relay,
}

struct Current {
    core: Arc<PipeCore>,
    _charge: Charge,
}

impl Later {
    fn new(core: Arc<PipeCore>, charge: Charge) -> Result<Later> {
        let env = routine_env::get()?;
        let relay = |name, number| Relay::new(name, number, env).map_err(|_| Errno::ENOMEM);
        Ok(Later {
            core: Monitor::new(Current {
                core,
                _charge: charge,
            }),
            read: relay("sized pipe read", nr::READ)?,
            write: relay("sized pipe write", nr::WRITE)?,
        })
    }

    /// Puts the relays where a description of `of`'s kind has its routines.
    pub fn plug_into(&self, routines: &mut DescRoutines, of: &OpenFile) {
        if of.readable() {
            routines.read = Some(self.read.routine().clone());
        }
        if of.writable() {
            routines.write = Some(self.write.routine().clone());
        }
    }

    /// The target of the relay for `call`.
    pub fn relayed(&self, call: &str) -> Option<DescRoutine> {
        match call {
            "read" => self.read.plugged(),
            "write" => self.write.plugged(),
            _ => None,
        }
    }
}

/// The queue of a pipe at the time of the request.
pub(super) enum Now<'a> {
    First(&'a Arc<PipeCore>),
    Later(Arc<PipeCore>),
}

impl Deref for Now<'_> {
    type Target = Arc<PipeCore>;

    fn deref(&self) -> &Arc<PipeCore> {
        match self {
            Now::First(core) => core,
            Now::Later(core) => core,
        }
    }
}

impl Pipe {
    /// The queue as it is now. It may be retired at any time.
    pub(super) fn now(&self) -> Now<'_> {
        match self.later.get() {
            None => Now::First(&self.first),
            Some(later) => {
                // Bound: copying or exchanging one counted handle.
                let current = later.core.lock();
                Now::Later(current.core.clone())
            }
        }
    }

    /// Gives the queue room for `wanted` bytes, rounded up; `of` is a description. The size. EINVAL, EPERM,
    /// EBUSY, ENOMEM.
    pub(super) fn resize(&self, of: &OpenFile, wanted: usize) -> Result<usize> {
        let size = match self.packets {
            // The longest packet needs more than a page.
            true => round(wanted)?.max(2 * PAGE),
            false => round(wanted)?,
        };
        // Bound: a change of one pipe’s size: two grace periods the first time, one pass over its ring;
        // waited for by others who change it.
        let sizing = self.sizing.lock();
        let old = self.now();
        if size == old.size() {
            return Ok(size);
        }
        let grows = size > old.size();
        let cred = account::caller::cred();
        if grows
            && size > limits::SIZE.load(Ordering::Relaxed)
            && !cred.has(Capability::SysResource)
        {
            return Err(Errno::EPERM);
        }
        if old.available() > size {
            return Err(Errno::EBUSY);
        }
        let charge = quota::pipe_size((size / PAGE) as u64, grows)?;
        if !vm::frame::admits(size / PAGE + 64) {
            return Err(Errno::ENOMEM);
        }
        let core: Arc<PipeCore> = old.succeed(size).ok_or(Errno::ENOMEM)?.into();
        let ends = sizing.0.each_ref().map(Weak::upgrade);
        match self.later.get() {
            Some(later) => {
                // Dropped when the monitor is free again.
                let mut was = None;
                let current = Current {
                    core: core.clone(),
                    _charge: charge,
                };
                let publish = || was = Some(core::mem::replace(&mut *later.core.lock(), current));
                if !old.hand_over(&core, publish) {
                    return Err(Errno::EBUSY);
                }
                drop(was);
            }
            None => {
                // From here on all routines of the first queue take the monitors of their ends.
                for end in ends.iter().flatten() {
                    fdtable::make_shared(end);
                }
                let later = Later::new(core.clone(), charge)?;
                let publish = || {
                    let _first = self.later.set(later);
                };
                if !old.hand_over(&core, publish) {
                    return Err(Errno::EBUSY);
                }
                for end in ends.iter().flatten() {
                    end.use_plain_check();
                    fdtable::replug_everywhere(end);
                }
                of.forget_entries();
            }
        }
        self.tell_ends(&core);
        if let Some(later) = self.later.get() {
            self.plug(later, &core);
        }
        Ok(size)
    }

    /// Parties that came or left while the queue was being replaced have told the old queue.
    fn tell_ends(&self, core: &PipeCore) {
        loop {
            let found = (self.no_reader(), self.no_writer());
            core.set_readers(!found.0);
            core.set_writers(!found.1);
            if found == (self.no_reader(), self.no_writer()) {
                break;
            }
        }
        core.wake_readers();
        core.wake_writers();
    }

    /// Generates the routines for `core`. Without room for code, calls take the slow exit.
    fn plug(&self, later: &Later, core: &Arc<PipeCore>) {
        let Ok(env) = routine_env::get() else { return };
        later
            .read
            .plug(self.reader(core, env, Sharing::Shared).ok());
        later
            .write
            .plug(self.writer(core, env, Sharing::Shared).ok());
    }
}
