//! The routines of a description of a file whose pages lie in memory.
//!
//! *Interface*: [`make`].

use abi::errno::{Errno, Result};
use quaject::fsmap::{self, FileCore};
use quaject::{Sharing, Unmade};

use crate::file::{DescRoutine, DescRoutines, OpenFile};
use crate::seam;

/// Routines over the pages of `core` for the description `of`, as far as it may read and write. ENOMEM: no
/// room for code.
///
/// # Safety
/// The description keeps what `core` is a part of.
pub unsafe fn make(core: &FileCore, of: &OpenFile, sharing: Sharing) -> Result<DescRoutines> {
    let seam = seam::get()?;
    let cursor = &of.cursor;
    let made = |routine: core::result::Result<DescRoutine, Unmade>| {
        routine.map(Some).or(Err(Errno::ENOMEM))
    };
    let mut routines = DescRoutines::default();
    // SAFETY: the description owns both the routines and the cursor, and keeps the file. While another CPU
    // may be inside a routine, its descriptor table keeps the description, or has given it to `sync::epoch`.
    unsafe {
        if of.readable() {
            routines.read = made(fsmap::synthesize_read(core, cursor, seam, sharing))?;
        }
        if of.writable() {
            let append = of.appending();
            routines.write = made(fsmap::synthesize_write(core, cursor, seam, sharing, append))?;
        }
        routines.lseek = made(fsmap::synthesize_lseek(core, cursor, seam, sharing))?;
    }
    Ok(routines)
}
