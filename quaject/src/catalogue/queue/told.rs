//! Whom a routine at one end of a queue tells that it has moved bytes.
//!
//! *Interface*: [`Told`], for the generators of such routines.

use crate::kit::emit;
use crate::kit::interfacer::Callentry;
use crate::kit::seam::{Unmade, near};
use codegen::{Draft, Label, dynasm};
use sync::WaitList;

/// Whom to tell.
#[derive(Clone, Copy)]
pub enum Told<'a> {
    /// What the queue's callback is linked to, once for each time that the other end failed.
    Linked(Option<&'a dyn Callentry>),
    /// Whoever waits in the list, threads and pollers.
    Waiters(&'a WaitList),
}

impl Told<'_> {
    /// Goes to `tell` if there is anybody to tell; `failed` is the address of the word in which the other end
    /// notes that it failed. Answers the address of the list.
    pub(crate) fn look(self, d: &mut Draft, failed: i32, tell: Label) -> Result<i32, Unmade> {
        match self {
            Told::Linked(_) => {
                dynasm!(d ; .arch x64 ; cmp DWORD [failed], 0 ; jne =>tell);
                Ok(0)
            }
            Told::Waiters(list) => {
                let list = near(list)? as i32;
                emit::look_for_waiters(d, list, tell);
                Ok(list)
            }
        }
    }
}
