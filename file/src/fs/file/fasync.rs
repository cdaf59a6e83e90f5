//! Signals about an open file (Linux: `fasync`): when it becomes ready (`O_ASYNC`), when its lease is
//! broken, when its directory changes.
//!
//! *Interface*: [`OpenFile::fasync`] has a description's [`Fasync`], which [`OpenFile::make_fasync`] makes:
//! the receiver ([`Fasync::set_owner`], [`Fasync::own`]) and the signal. [`Fasync::send`] sends.
//! [`set_async`] turns readiness signals on and off; the kernel thread that sends signals, which sleeps on
//! [`ready_list`], calls [`send_sigio`]. A receiver is a [`SignalReceiver`], of a room above. An open
//! directory has a [`Dnotify`]; [`end_notice`] takes it away, also when a descriptor is closed.
//!
//! Readiness uses the same lists as epoll: a description with readiness signals has two members of one ready
//! list, one in the wait lists for data, one in those for room. Other descriptions have neither, and pay one
//! word. A waker notes the member; the signal-sending thread takes it, and then checks the file. So two
//! events before that check give one signal, as with a standard signal number.
//!
//! Source: dissertation, figure 4.3 (callbacks from the queue to parties that wait on many); fcntl(2) defines
//! the signals and receivers.

use abi::errno::{Errno, Result};
use abi::linux::*;
use alloc::boxed::Box;
use alloc::collections::BTreeMap;
use alloc::sync::{Arc, Weak};
use core::sync::atomic::{AtomicBool, AtomicI32, AtomicUsize, Ordering};
use sync::ready_list::{ReadyConsumer, ReadyHooks, ReadyList, ReadyMember};
use sync::{Monitor, Once};

use super::OpenFile;
use crate::callout::{self, FileSignal, SignalReceiver};
use crate::close_cleanup::CloseCleanup;
use crate::fs::fsnotify::{self, InotifyInstance};
use crate::poll::{PollTable, SignalWatch};
use account::caller;
use account::quota;
use account::user::Charge;
use vm::fallible::{try_arc, try_box, try_insert};

/// The kinds of file with readiness signals, and their events.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FasyncKind {
    /// No signals.
    Never,
    /// A pipe, or an event queue: each change.
    Changes,
    /// A socket: new data, the close of the other end, and room after there was none.
    Socket,
    /// A terminal with this foreground group: new data, and room after there was none.
    Terminal(i32),
}

/// The receiver of a description's signals, and the identity that set it.
#[derive(Clone, Default)]
pub struct FileOwner {
    whom: Option<Arc<dyn SignalReceiver>>,
    /// The identity that set it, which decides the permitted receivers.
    uid: u32,
    euid: u32,
}

/// How a description tells by signals.
#[derive(Default)]
pub struct Fasync {
    owner: Monitor<FileOwner>,
    /// The signal; 0 for SIGIO without more.
    signal: AtomicI32,
    /// There was no room: the next room is signalled once.
    short: AtomicBool,
    ready: Monitor<Option<Box<Ready>>>,
    /// That it tells of its directory.
    pub(crate) notice: Monitor<Option<Box<Dnotify>>>,
}

/// A description's part in telling of readiness.
struct Ready {
    /// The descriptor by which it was asked for.
    fd: i32,
    place: ReadyPlace,
    sides: [Side; 2],
    /// The ended directions, as events: each is signalled once.
    ended: u32,
    _charge: Charge,
}

/// One direction.
struct Side {
    member: Arc<ReadyMember>,
    arms: ReadyHooks,
    whose: SignalWatch,
}

/// The side of a directory's changes.
pub(crate) const CHANGES: usize = 2;
/// How many sides there are.
const SIDES: usize = CHANGES + 1;
/// The requests of the sides.
const ASKED: [u32; 2] = [
    POLLIN | POLLRDNORM | POLLPRI | POLLRDHUP,
    POLLOUT | POLLWRNORM,
];
/// The side that reads, in [`ASKED`].
const READS: usize = 0;

/// Descriptions that tell, by the number that their members have. Taken last of all.
static TELLING: Monitor<BTreeMap<usize, Weak<OpenFile>>> = Monitor::new(BTreeMap::new());
static NEXT: AtomicUsize = AtomicUsize::new(0);

/// A place of `of` among those that tell, until it is dropped.
pub(crate) struct ReadyPlace(pub usize);

impl ReadyPlace {
    /// A new one. ENOMEM.
    pub fn new(of: &Arc<OpenFile>) -> Result<ReadyPlace> {
        let id = NEXT.fetch_add(1, Ordering::Relaxed);
        // Bound: **global**: one description’s place among those that tell by signals that they are ready.
        let mut telling = TELLING.lock();
        try_insert(&mut telling, id, Arc::downgrade(of))?;
        drop(telling);
        Ok(ReadyPlace(id))
    }

    /// The key of the member for one side.
    pub fn key(&self, side: usize) -> usize {
        self.0.wrapping_mul(SIDES) + side
    }
}

impl Drop for ReadyPlace {
    fn drop(&mut self) {
        let _known = TELLING.lock().remove(&self.0);
    }
}

/// A reason to tell, as `si_code` has it, and the events that `si_band` has for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SigioReason(i32, u32);

/// There is something to read.
pub const INPUT: SigioReason = SigioReason(1, POLLIN | POLLRDNORM);
/// There is room.
pub const OUTPUT: SigioReason = SigioReason(2, POLLOUT | POLLWRNORM | POLLWRBAND);
/// Something has happened.
pub const MESSAGE: SigioReason = SigioReason(3, POLLIN | POLLRDNORM | POLLMSG);
/// The other end has gone.
pub const HANG_UP: SigioReason = SigioReason(6, POLLHUP | POLLERR);

impl OpenFile {
    /// Its settings for signals, if they were made.
    #[inline]
    pub fn fasync(&self) -> Option<&Fasync> {
        self.fasync.get().map(|fasync| &**fasync)
    }

    /// The same, made if need be. ENOMEM.
    pub fn make_fasync(&self) -> Result<&Fasync> {
        if self.fasync.get().is_none() {
            // A faster thread has made the same.
            let _same = self.fasync.set(try_box(Fasync::default())?);
        }
        self.fasync().ok_or(Errno::EAGAIN)
    }

    /// Not all that was given found room.
    #[inline]
    pub fn note_short_transfer(&self) {
        if let Some(fasync) = self.fasync() {
            fasync.short.store(true, Ordering::SeqCst);
            // There may be room by now without a signal. A thread that is checking takes the mark afterwards.
            // The caller may hold the end of a pipe, so this never waits.
            // Bound: a few words, once: a thread that finds it taken continues.
            if let Some(ready) = fasync.ready.try_lock().as_deref().and_then(Option::as_ref) {
                ready
                    .sides
                    .last()
                    .iter()
                    .for_each(|side| side.member.note());
            }
        }
    }
}

impl FileOwner {
    /// Finds the receiver by `kind` (`F_OWNER_…`) and `number`. ESRCH, EINVAL, ENOMEM.
    fn new(kind: i32, number: i32) -> Result<FileOwner> {
        let whom = callout::signal_receiver(kind, number)?;
        let (uid, euid) = match whom {
            None => (0, 0),
            Some(_) => {
                let cred = caller::cred();
                (cred.uid, cred.euid)
            }
        };
        Ok(FileOwner { whom, uid, euid })
    }

    /// The running process, or the group `foreground` if there is one. ENOMEM.
    pub fn caller(foreground: i32) -> Result<FileOwner> {
        let owner = match foreground {
            0 => FileOwner::new(F_OWNER_PID, caller::number()),
            group => FileOwner::new(F_OWNER_PGRP, group),
        };
        match owner {
            // The last of the group has just gone.
            Err(Errno::ESRCH) => Ok(FileOwner::default()),
            owner => owner,
        }
    }
}

impl Fasync {
    /// Sets the receiver, as `F_SETOWN`: a process's number, or the negative number of a group. ESRCH,
    /// EINVAL, ENOMEM.
    pub fn set_owner(&self, who: i32) -> Result<()> {
        match who {
            0.. => self.set_owner_by(F_OWNER_PID, who),
            _ => self.set_owner_by(F_OWNER_PGRP, who.checked_neg().ok_or(Errno::EINVAL)?),
        }
    }

    /// The same, as `F_SETOWN_EX` has it.
    pub fn set_owner_by(&self, kind: i32, number: i32) -> Result<()> {
        let new = FileOwner::new(kind, number)?;
        // Bound: a few words.
        let before = core::mem::replace(&mut *self.owner.lock(), new);
        drop(before);
        Ok(())
    }

    /// Makes `new` the receiver, unless there is one.
    pub fn own(&self, new: FileOwner) {
        let mut owner = self.owner.lock();
        if owner.whom.is_none() {
            *owner = new;
        }
    }

    /// Removes the receiver and the chosen signal.
    pub fn disown(&self) {
        let before = core::mem::take(&mut *self.owner.lock());
        drop(before);
        self.signal.store(0, Ordering::Relaxed);
    }

    /// The receiver: kind and number.
    pub fn owner(&self) -> (i32, i32) {
        let whom = self.owner.lock().whom.clone();
        whom.map_or((F_OWNER_TID, 0), |whom| whom.number())
    }

    /// The same as one number: a group's is below zero.
    pub fn owner_number(&self) -> i32 {
        match self.owner() {
            (F_OWNER_PGRP, group) => -group,
            (_, number) => number,
        }
    }

    /// The user who set the receiver: real and effective.
    pub fn said_by(&self) -> [u32; 2] {
        let owner = self.owner.lock();
        [owner.uid, owner.euid]
    }

    /// The signal that it tells by, 0 for SIGIO without more.
    pub fn signal(&self) -> i32 {
        self.signal.load(Ordering::Relaxed)
    }

    /// Sets it. EINVAL.
    pub fn set_signal(&self, signo: usize) -> Result<()> {
        let signo = i32::try_from(signo).ok().filter(|&signo| signo <= SIGMAX);
        self.signal
            .store(signo.ok_or(Errno::EINVAL)?, Ordering::Relaxed);
        Ok(())
    }

    /// Tells for `reason`, of descriptor `fd`. May sleep.
    pub fn send(&self, fd: i32, reason: SigioReason) {
        let FileOwner { whom, uid, euid } = self.owner.lock().clone();
        let Some(whom) = whom else {
            return;
        };
        let info = match self.signal() {
            0 => None,
            signo => Some(siginfo(signo, fd, reason)),
        };
        whom.tell(&FileSignal { info, uid, euid });
    }
}

/// The information of a chosen signal.
fn siginfo(signo: i32, fd: i32, reason: SigioReason) -> Siginfo {
    // Their codes mean something else.
    const SPECIFIC: [i32; 7] = [SIGILL, SIGFPE, SIGSEGV, SIGBUS, SIGTRAP, SIGCHLD, SIGSYS];
    let mut info = Siginfo {
        signo,
        code: match SPECIFIC.contains(&signo) {
            true => SI_SIGIO,
            false => reason.0,
        },
        ..Siginfo::default()
    };
    info.fields[0] = u64::from(reason.1);
    info.fields[1] = u64::from(fd as u32);
    info
}

impl Side {
    fn new(list: &Arc<sync::ready_list::ReadyList>, key: usize) -> Result<Side> {
        let member = try_arc(ReadyMember::new(list, key))?;
        Ok(Side {
            arms: ReadyHooks::new(member.clone(), false),
            member,
            whose: None,
        })
    }

    /// Lets each change on side `side` note the member, and returns the events that hold.
    fn watch(&mut self, of: &OpenFile, side: usize) -> u32 {
        let asked = ASKED[side.min(1)];
        let mut table = PollTable::member(&mut self.arms, &mut self.whose, asked);
        of.file().poll(of, asked | POLLHUP, Some(&mut table))
    }
}

/// The list on which the signal-sending thread sleeps: descriptions with readiness signals enter it when they
/// are ready.
static READY: Once<Arc<ReadyList>> = Once::new();

/// The list of descriptions that are ready, after [`start`].
pub fn ready_list() -> Option<&'static Arc<ReadyList>> {
    READY.get()
}

/// Makes that list, once. ENOMEM.
pub fn start() -> Result<()> {
    let _first = READY.set(try_arc(ReadyList::new())?);
    Ok(())
}

/// Begins or ends telling of what happens to `of` by descriptor `fd`. ENOTTY for a file that tells nothing;
/// ENOMEM.
pub fn set_async(of: &Arc<OpenFile>, fd: i32, on: bool) -> Result<()> {
    let kind = of.file().tells();
    if kind == FasyncKind::Never {
        return Err(Errno::ENOTTY);
    }
    if !on {
        if let Some(fasync) = of.fasync() {
            // Bound: one description’s: making its members, or a look at its file.
            let mut ready = fasync.ready.lock();
            let gone = ready.take();
            of.flags.fetch_and(!O_ASYNC, Ordering::Relaxed);
            drop(ready);
            drop(gone);
        }
        return Ok(());
    }
    let fasync = of.make_fasync()?;
    if let FasyncKind::Terminal(foreground) = kind {
        fasync.own(FileOwner::caller(foreground)?);
    }
    let mut ready = fasync.ready.lock();
    if let Some(ready) = ready.as_mut() {
        ready.fd = fd;
        return Ok(());
    }
    let charge = quota::watch().map_err(|_| Errno::ENOMEM)?;
    let list = ready_list().ok_or(Errno::ENOMEM)?;
    let place = ReadyPlace::new(of)?;
    let sides = [
        Side::new(list, place.key(0))?,
        Side::new(list, place.key(1))?,
    ];
    let mut new = try_box(Ready {
        fd,
        place,
        sides,
        ended: 0,
        _charge: charge,
    })?;
    for (i, side) in new.sides.iter_mut().enumerate() {
        side.watch(of, i);
    }
    *ready = Some(new);
    of.flags.fetch_or(O_ASYNC, Ordering::Relaxed);
    Ok(())
}

/// Sends the signals of all descriptions whose members are in the ready list. Whether there was one.
pub fn send_sigio() -> bool {
    let mut line = ReadyConsumer::new();
    if let Some(list) = ready_list() {
        line.refill(list);
    }
    let some = !line.is_empty();
    while let Some(member) = line.take() {
        let (id, side) = (member.key / SIDES, member.key % SIDES);
        let of = TELLING.lock().get(&id).and_then(Weak::upgrade);
        if let Some(of) = of
            && let Some(fasync) = of.fasync()
        {
            match side {
                CHANGES => send_sigio_of_directory(fasync, id),
                _ => send_sigio_of_side(&of, fasync, id, side),
            }
        }
    }
    some
}

/// The member of `of` on `side` was noted: sends the signal, if there is a reason.
fn send_sigio_of_side(of: &OpenFile, fasync: &Fasync, id: usize, side: usize) {
    let mut ready = fasync.ready.lock();
    let Some(there) = ready.as_mut().filter(|ready| ready.place.0 == id) else {
        return;
    };
    let fd = there.fd;
    let kind = of.file().tells();
    let Some(found) = there.sides.get_mut(side).map(|one| one.watch(of, side)) else {
        return;
    };
    if side == READS {
        let before = core::mem::replace(&mut there.ended, found & (POLLHUP | POLLRDHUP));
        if before != 0 && before == there.ended {
            return;
        }
    }
    drop(ready);
    if let Some(reason) = reason(kind, side, found, fasync) {
        fasync.send(fd, reason);
    }
}

/// The signal for `found` on `side`, if there is one.
fn reason(kind: FasyncKind, side: usize, found: u32, fasync: &Fasync) -> Option<SigioReason> {
    let ended = found & POLLHUP != 0;
    let (input, output) = (found & POLLIN != 0, found & (POLLOUT | POLLERR) != 0);
    match (kind, side) {
        (FasyncKind::Changes, READS) => (input || ended).then_some(INPUT),
        (FasyncKind::Changes, _) => output.then_some(OUTPUT),
        (FasyncKind::Socket, READS) if ended => Some(HANG_UP),
        (FasyncKind::Terminal(_), _) if ended => None,
        (_, READS) => input.then_some(INPUT),
        _ => (output && fasync.short.swap(false, Ordering::SeqCst)).then_some(OUTPUT),
    }
}

/// Of what is asked for: until it is taken back, and not until the first event.
pub(crate) const DN_MULTISHOT: u32 = 1 << 31;

/// That an open directory tells of what happens in it: [`crate::event::dnotify`] makes it.
pub struct Dnotify {
    pub(crate) instance: Arc<InotifyInstance>,
    pub(crate) place: ReadyPlace,
    /// The descriptor, and the table where it is, by [`crate::fdtable::FdTable::lock_owner`].
    pub(crate) fd: i32,
    pub(crate) table: usize,
    /// As the program set it. One shot: until the first event.
    pub(crate) wanted: u32,
    pub(crate) _tie: CloseCleanup,
}

impl Drop for Dnotify {
    fn drop(&mut self) {
        fsnotify::forget_all(&self.instance);
    }
}

/// Ends what directory `of` was asked to tell of by way of `table`: the descriptor is closed, or the program
/// takes it back.
pub(crate) fn end_notice(of: &OpenFile, table: usize) {
    let Some(fasync) = of.fasync() else {
        return;
    };
    // Bound: a few words.
    let mut notice = fasync.notice.lock();
    let gone = match notice.as_ref().is_some_and(|own| own.table == table) {
        true => notice.take(),
        false => None,
    };
    drop(notice);
    drop(gone);
}

/// Something has happened that the directory with place `id` tells of.
fn send_sigio_of_directory(fasync: &Fasync, id: usize) {
    let mut notice = fasync.notice.lock();
    let Some(own) = notice.as_mut().filter(|own| own.place.0 == id) else {
        return;
    };
    let fd = own.fd;
    if own.wanted & DN_MULTISHOT == 0 {
        own.wanted = 0;
    }
    drop(notice);
    fasync.send(fd, MESSAGE);
}
