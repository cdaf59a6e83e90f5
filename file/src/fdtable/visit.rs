//! Reading a descriptor table from outside its threads, and changing the code in other tables.
//!
//! *Interface*: [`FdTable::visit`] for `/proc` and `/syn`; [`make_shared`] and [`replug_everywhere`] when the
//! assumptions of a description's code have changed.
//!
//! A visitor waits for a grace period before it reads, unless several threads use the table anyway, or it is
//! the table's own thread; no thread waits for a visitor (`users`).

use abi::errno::Result;
use alloc::sync::Arc;
use core::sync::atomic::{AtomicUsize, Ordering};
use sync::epoch;

use super::{FdTable, tables};
use crate::fs::file::OpenFile;

/// How often routines were plugged again in all tables.
static PLUGGED: AtomicUsize = AtomicUsize::new(0);

/// So many tables at a time: a list of all could be longer than a page, and there is no memory for one.
const PIECE: usize = 32;

/// A look at a table. As long as there is one, the table's threads change it as if they were several.
pub struct TableVisit {
    files: Arc<FdTable>,
}

impl FdTable {
    /// A visit of this table, for a thread that is not one of its threads or does not know. May sleep for a
    /// grace period, but not in a table's own thread: that is not amid a change of its own.
    pub fn visit(self: Arc<FdTable>) -> TableVisit {
        let (visit, wait) = TableVisit::begin(self);
        let is_own = || tables::own().is_ok_and(|own| Arc::ptr_eq(&own, visit.table()));
        if wait && !is_own() {
            // Bound: a grace period, asleep: each CPU’s next interrupt, switch or idle moment.
            epoch::grace();
        }
        visit
    }
}

impl TableVisit {
    /// Comes; whether a grace period must pass before the first look.
    fn begin(files: Arc<FdTable>) -> (TableVisit, bool) {
        let wait = files.users.enter();
        (TableVisit { files }, wait)
    }

    /// The table.
    pub fn table(&self) -> &Arc<FdTable> {
        &self.files
    }

    /// The open file behind `fd`. `EBADF`.
    pub fn get(&self, fd: i32) -> Result<Arc<OpenFile>> {
        self.files.get(fd)
    }

    /// Calls `f(descriptor, open file, close-on-exec)` for each descriptor. A descriptor that is opened or
    /// closed meanwhile may be among them or not.
    pub fn for_each(&self, mut f: impl FnMut(i32, &Arc<OpenFile>, bool)) {
        self.for_each_from(0, |fd, of, cloexec| {
            f(fd, of, cloexec);
            true
        });
    }

    /// The same for those from `from` on, until `f` answers `false`.
    pub fn for_each_from(&self, from: u64, mut f: impl FnMut(i32, &Arc<OpenFile>, bool) -> bool) {
        let from = usize::try_from(from).unwrap_or(usize::MAX);
        for fd in self.files.slots.in_use_from(from) {
            if let Ok((of, cloexec)) = self.files.look(fd)
                && !f(fd as i32, &of, cloexec)
            {
                return;
            }
        }
    }

    /// The entries at `fd` (see [`FdTable::plugged`]) once there are routines for how its file is shared now.
    pub fn entries(&self, fd: i32) -> Option<[usize; 3]> {
        self.get(fd).ok()?.make_ready();
        self.files.follow(fd as u32 as usize);
        self.files.plugged(fd)
    }

    /// Plugs the routines that fit `of` now, at every descriptor that refers to it.
    fn replug(&self, of: &Arc<OpenFile>) {
        for fd in self.files.slots.holding(of) {
            self.files.follow(fd);
        }
    }
}

impl Drop for TableVisit {
    fn drop(&mut self) {
        self.files.users.depart();
    }
}

/// Tables that are looked at after one grace period.
#[derive(Default)]
struct Piece {
    visits: [Option<TableVisit>; PIECE],
    count: usize,
    wait: bool,
}

impl Piece {
    fn add(&mut self, files: Arc<FdTable>) {
        let (visit, wait) = TableVisit::begin(files);
        self.wait |= wait;
        if let Some(place) = self.visits.get_mut(self.count) {
            *place = Some(visit);
            self.count += 1;
        }
    }

    /// Calls `f` with the descriptions of all of them, and leaves them.
    fn show(self, f: &mut impl FnMut(&Arc<OpenFile>)) {
        if self.wait {
            epoch::grace();
        }
        let visits = self.visits.iter().flatten();
        visits.for_each(|visit| visit.for_each(|_, of, _| f(of)));
    }

    /// Plugs the routines that fit `of` now in all of them, and leaves them.
    fn replug(self, of: &Arc<OpenFile>) {
        if self.wait {
            epoch::grace();
        }
        let visits = self.visits.iter().flatten();
        visits.for_each(|visit| visit.replug(of));
    }
}

/// Calls `f` with the descriptions that all tables have, some of them several times. May sleep.
pub fn each_description(mut f: impl FnMut(&Arc<OpenFile>)) {
    let mut piece = Piece::default();
    tables::each(&mut |files| {
        piece.add(files);
        if piece.count == PIECE {
            core::mem::take(&mut piece).show(&mut f);
        }
    });
    piece.show(&mut f);
}

/// How often routines were plugged again in all tables, for a table that is made now.
pub(super) fn plugged() -> usize {
    PLUGGED.load(Ordering::SeqCst)
}

impl FdTable {
    /// Called when the others find this copy of a table: if routines were plugged again in all tables since
    /// its making began, it may have been missed. May sleep for a grace period.
    pub fn catch_up(self: &Arc<FdTable>) {
        if plugged() != self.plugged {
            let visit = self.clone().visit();
            for (fd, _) in self.slots.places() {
                visit.files.follow(fd);
            }
        }
    }
}

/// Plugs the routines that fit `of` now in all tables. Their assumptions were changed before.
fn replug_all(of: &Arc<OpenFile>) {
    PLUGGED.fetch_add(1, Ordering::SeqCst);
    let mut piece = Piece::default();
    tables::each(&mut |files| {
        piece.add(files);
        if piece.count == PIECE {
            core::mem::take(&mut piece).replug(of);
        }
    });
    piece.replug(of);
}

/// `of` is about to be reached by another way than descriptors: no exclusive code of it is left running, and
/// none comes again. May sleep.
pub fn make_shared(of: &Arc<OpenFile>) {
    // First of all: a table that is made from now on plugs no exclusive code of it.
    of.share_for_ever();
    replug_all(of);
    epoch::grace();
}

/// The assumptions of the routines of `of` have changed: plugs fitting routines in every table. A table that
/// is being copied from another [catches up](FdTable::catch_up). May sleep.
pub fn replug_everywhere(of: &Arc<OpenFile>) {
    of.forget_entries();
    of.make_ready();
    replug_all(of);
}
