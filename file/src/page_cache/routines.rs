//! The routines of a description of a file whose pages lie in memory.
//!
//! *Interface*: [`make`], [`make_at`].
//!
//! *Unsafe*: generated routines over a description's cursor.

use abi::errno::{Errno, Result};
use quaject::fsmap::{self, FileCore};
use quaject::{RoutineEnv, RoutineError, Sharing};

use crate::fs::file::{DescRoutine, DescRoutines, OpenFile};
use crate::routine_env;

/// Routines over the pages of `core` for the description `of`, as far as it may read and write. ENOMEM: no
/// room for code.
///
/// # Safety
/// The description keeps what `core` is a part of.
pub unsafe fn make(
    core: &FileCore,
    of: &OpenFile,
    sharing: Sharing,
    env: &RoutineEnv,
) -> Result<DescRoutines> {
    let cursor = &of.cursor;
    let mut routines = DescRoutines::default();
    // SAFETY: the description owns both the routines and the cursor, and keeps the file. While another CPU
    // may be inside a routine, its descriptor table keeps the description, or has given it to `sync::epoch`.
    unsafe {
        if of.readable() {
            routines.read = made(fsmap::synthesize_read(core, cursor, env, sharing))?;
        }
        if of.writable() {
            let append = of.appending();
            routines.write = made(fsmap::synthesize_write(core, cursor, env, sharing, append))?;
        }
        routines.lseek = made(fsmap::synthesize_lseek(core, cursor, env, sharing))?;
    }
    Ok(routines)
}

fn made(routine: core::result::Result<DescRoutine, RoutineError>) -> Result<Option<DescRoutine>> {
    routine.map(Some).or(Err(Errno::ENOMEM))
}

/// The routine for `pread64` over the pages of `core` for the description `of`, or for `pwrite64` if it
/// `writes`: that of a description that appends is left to the plain call. ENOMEM.
///
/// # Safety
/// As for [`make`].
pub unsafe fn make_at(core: &FileCore, of: &OpenFile, writes: bool) -> Result<Option<DescRoutine>> {
    let env = routine_env::get()?;
    // SAFETY: the description keeps the file, as above.
    unsafe {
        match writes {
            true if of.appending() => Ok(None),
            true => made(fsmap::synthesize_write_at(core, env)),
            false => made(fsmap::synthesize_read_at(core, env)),
        }
    }
}
