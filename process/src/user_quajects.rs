//! Quajects that programs make, at the expense of the caller's user.
//!
//! *Interface*: [`made`] by the name of a class, [`made_counter`], [`paid`] for other makers, and [`any`]
//! finds a quaject of any kind.

use abi::errno::{Errno, Result};
use account::{Capability, quota};
use alloc::sync::Arc;
use core::any::Any;
use quaject::class::Held;
use quaject::maker::{self, Made};
use vm::fallible::try_arc;

/// A quaject's charge to its maker's user, bytes: its code and itself.
const WEIGHT: u64 = 4096;
/// The same for each byte that a queue holds.
const PLACE: u64 = 8;

/// Makes a quaject of the class of this name, as `number` says. ENOENT, EINVAL, ENOMEM.
pub fn made(class: &str, number: u64) -> Result<Made> {
    let places = match class {
        "Queue" => number,
        _ => 0,
    };
    let paid = paid(places.saturating_mul(PLACE))?;
    if class == "Clock" {
        return thread::clock::quaject::make(number, paid);
    }
    maker::make(class, number, several_cpus()?, paid)
}

/// A filter that counts the bytes. ENOMEM.
pub fn made_counter() -> Result<Made> {
    maker::make_counter(several_cpus()?, paid(WEIGHT)?)
}

fn several_cpus() -> Result<bool> {
    Ok(file::routine_env::get()?.several_cpus())
}

/// The caller's user pays for a quaject, and for `more` bytes. ENOMEM.
pub fn paid(more: u64) -> Result<Arc<dyn Any + Send + Sync>> {
    let charge = quota::bytes(WEIGHT.saturating_add(more));
    Ok(try_arc(charge.ok_or(Errno::ENOMEM)?)?)
}

/// A quaject of any kind by its number, for who may: EPERM, ESRCH.
pub fn any(number: usize) -> Result<Held> {
    account::caller::cred().need(Capability::SysAdmin)?;
    let number = u32::try_from(number).map_err(|_| Errno::ESRCH)?;
    Held::find(number).ok_or(Errno::ESRCH)
}
