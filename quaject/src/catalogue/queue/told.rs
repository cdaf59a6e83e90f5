//! The party that a routine at one end of a queue notifies when it has moved bytes.
//!
//! *Interface*: [`Told`], for the generators of such routines.

use crate::kit::emit;
use crate::kit::interfacer::Callentry;
use crate::kit::seam::{Unmade, near};
use codegen::{Draft, Label, dynasm};
use sync::WaitList;

/// The party to notify.
#[derive(Clone, Copy)]
pub enum Told<'a> {
    /// The target of the queue's callback, once for each failure of the other end.
    Linked(Option<&'a dyn Callentry>),
    /// The threads and pollers in the list.
    Waiters(&'a WaitList),
}

impl Told<'_> {
    /// Goes to `tell` if there is a party to notify; `failed` is the address of the word in which the other
    /// end notes its failure. Returns the address of the list.
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
