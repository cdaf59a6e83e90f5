//! That an open directory tells by signals of what happens in it: what its description keeps of that.
//!
//! *Interface*: [`crate::event::directory`] makes a [`Notice`]; [`end`] takes it away, also when a descriptor
//! is closed, and [`tell`] sends, for the signal-sending thread.

use alloc::sync::Arc;

use super::OpenFile;
use super::told::{MESSAGE, Place, Told};
use crate::fs::watch::{self, Instance};
use crate::ties::Tie;

/// Of what is asked for: until it is taken back, and not until the first event.
pub(crate) const DN_MULTISHOT: u32 = 1 << 31;

/// A description's notification setting.
pub struct Notice {
    pub(crate) instance: Arc<Instance>,
    pub(crate) place: Place,
    /// The descriptor, and the table where it is, by [`crate::files::Files::lock_owner`].
    pub(crate) fd: i32,
    pub(crate) table: usize,
    /// As the program set it. One shot: until the first event.
    pub(crate) wanted: u32,
    pub(crate) _tie: Tie,
}

impl Drop for Notice {
    fn drop(&mut self) {
        watch::forget_all(&self.instance);
    }
}

/// Ends what `of` was asked for by way of `table`.
pub(crate) fn end(of: &OpenFile, table: usize) {
    let Some(told) = of.told() else {
        return;
    };
    // Bound: a few words.
    let mut notice = told.notice.lock();
    let gone = match notice.as_ref().is_some_and(|own| own.table == table) {
        true => notice.take(),
        false => None,
    };
    drop(notice);
    drop(gone);
}

/// Something has happened that the one with place `id` tells of.
pub(crate) fn tell(told: &Told, id: usize) {
    let mut notice = told.notice.lock();
    let Some(own) = notice.as_mut().filter(|own| own.place.0 == id) else {
        return;
    };
    let fd = own.fd;
    if own.wanted & DN_MULTISHOT == 0 {
        own.wanted = 0;
    }
    drop(notice);
    told.send(fd, MESSAGE);
}
