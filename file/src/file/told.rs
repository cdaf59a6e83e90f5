//! Who is sent a signal about an open file: when it becomes ready (`O_ASYNC`), when its lease is broken, when
//! its directory changes.
//!
//! *Interface*: [`OpenFile::told`] has a description's [`Told`], which [`OpenFile::tell_by_signals`] makes:
//! whom it tells ([`Told::set_owner`], [`Told::own`]) and by what signal. [`Told::send`] sends. [`set_async`]
//! begins and ends telling of readiness; [`tell_ready`] is called by the kernel thread that sends signals,
//! which sleeps by [`list`]. Who can be told is a [`Hearer`], of the room above.
//!
//! Readiness comes by the lists that feed epoll: a description that tells has two members of one list of
//! ready ones, one in the wait lists that are woken when there is something to read, one in those for room. A
//! description that does not tell has neither, and pays a word. Who wakes notes the member; the thread that
//! sends signals for interrupt handlers takes it, and then looks. So what comes twice before that thread has
//! looked is told once, as one signal of a standard number would be.
//!
//! Source: dissertation, figure 4.3 (callbacks from the queue to those who wait on many); fcntl(2) says what
//! is told to whom.

use abi::errno::{Errno, Result};
use abi::linux::*;
use alloc::boxed::Box;
use alloc::collections::BTreeMap;
use alloc::sync::{Arc, Weak};
use core::sync::atomic::{AtomicBool, AtomicI32, AtomicUsize, Ordering};
use sync::ready::{Arms, Line, Member, ReadyList};
use sync::{Monitor, Once};

use super::OpenFile;
use crate::callout;
use crate::event::directory::{self, Notice};
use crate::poll::{PollTable, Whose};
use account::Cred;
use account::caller;
use account::quota;
use account::user::Charge;
use vm::fallible::{try_arc, try_box, try_insert};

/// What kind of file tells of readiness by signals, and so of what.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tells {
    /// None: nobody is told.
    Never,
    /// A pipe, or a queue of events: of each change.
    Changes,
    /// A socket: of what comes, of the other end's going, and of room after there was none.
    Socket,
    /// A terminal, which has this foreground group: of what comes, and of room after there was none.
    Terminal(i32),
}

/// Who can be told.
pub trait Hearer: Send + Sync {
    /// Kind (`F_OWNER_…`) and number, 0 for who is not there any more.
    fn number(&self) -> (i32, i32);
    /// Sends what `call` says, to all that it is and that may be told. May sleep.
    fn tell(&self, call: &Call);
}

/// What somebody is to be told.
pub struct Call {
    /// The signal of one's choice; SIGIO without more where there is none, or no room for it.
    pub info: Option<Siginfo>,
    /// The identity of who said that it is told.
    uid: u32,
    euid: u32,
}

impl Call {
    /// Whether who said it may have `to` told (Linux: `sigio_perm`).
    pub fn may_tell(&self, to: &Cred) -> bool {
        self.euid == 0
            || [self.euid, self.uid]
                .iter()
                .any(|id| *id == to.suid || *id == to.uid)
    }
}

/// Whom a description tells, and who said so.
#[derive(Clone, Default)]
pub struct Owner {
    whom: Option<Arc<dyn Hearer>>,
    /// The identity of who said it: it decides who may be told.
    uid: u32,
    euid: u32,
}

/// How a description tells by signals.
#[derive(Default)]
pub struct Told {
    owner: Monitor<Owner>,
    /// The signal; 0 for SIGIO without more.
    signal: AtomicI32,
    /// There was no room for something: who waits for room is told of it, once.
    short: AtomicBool,
    ready: Monitor<Option<Box<Ready>>>,
    /// That it tells of its directory.
    pub(crate) notice: Monitor<Option<Box<Notice>>>,
}

/// A description's part in telling of readiness.
struct Ready {
    /// The descriptor by which it was asked for.
    fd: i32,
    place: Place,
    sides: [Side; 2],
    /// What has ended, as events have it: that is told once.
    ended: u32,
    _charge: Charge,
}

/// One direction.
struct Side {
    member: Arc<Member>,
    arms: Arms,
    whose: Whose,
}

/// The side of a directory's changes.
pub(crate) const CHANGES: usize = 2;
/// How many sides there are.
const SIDES: usize = CHANGES + 1;
/// What the sides ask for.
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
pub(crate) struct Place(pub usize);

impl Place {
    /// A new one. ENOMEM.
    pub fn new(of: &Arc<OpenFile>) -> Result<Place> {
        let id = NEXT.fetch_add(1, Ordering::Relaxed);
        let mut telling = TELLING.lock();
        try_insert(&mut telling, id, Arc::downgrade(of))?;
        drop(telling);
        Ok(Place(id))
    }

    /// What the member of one of its sides is known by.
    pub fn key(&self, side: usize) -> usize {
        self.0.wrapping_mul(SIDES) + side
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let _known = TELLING.lock().remove(&self.0);
    }
}

/// A reason to tell, as `si_code` has it, and the events that `si_band` has for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reason(i32, u32);

/// There is something to read.
pub const INPUT: Reason = Reason(1, POLLIN | POLLRDNORM);
/// There is room.
pub const OUTPUT: Reason = Reason(2, POLLOUT | POLLWRNORM | POLLWRBAND);
/// Something has happened.
pub const MESSAGE: Reason = Reason(3, POLLIN | POLLRDNORM | POLLMSG);
/// The other end has gone.
pub const HANG_UP: Reason = Reason(6, POLLHUP | POLLERR);

impl OpenFile {
    /// How it tells by signals, if anybody has asked for that.
    #[inline]
    pub fn told(&self) -> Option<&Told> {
        self.told.get().map(|told| &**told)
    }

    /// The same, made if need be. ENOMEM.
    pub fn tell_by_signals(&self) -> Result<&Told> {
        if self.told.get().is_none() {
            // Whoever was faster has made the same.
            let _same = self.told.set(try_box(Told::default())?);
        }
        self.told().ok_or(Errno::EAGAIN)
    }

    /// Not all that was given found room.
    #[inline]
    pub fn fell_short(&self) {
        if let Some(told) = self.told() {
            told.short.store(true, Ordering::SeqCst);
            // There may be room by now, which nobody was told of. Who looks at it just now asks for the mark
            // after that. The caller may hold the end of a pipe, so nothing is waited for.
            if let Some(ready) = told.ready.try_lock().as_deref().and_then(Option::as_ref) {
                ready
                    .sides
                    .last()
                    .iter()
                    .for_each(|side| side.member.note());
            }
        }
    }
}

impl Owner {
    /// Whom `kind` (`F_OWNER_…`) and `number` name. ESRCH, EINVAL, ENOMEM.
    fn new(kind: i32, number: i32) -> Result<Owner> {
        let whom = callout::hearer(kind, number)?;
        let (uid, euid) = match whom {
            None => (0, 0),
            Some(_) => {
                let cred = caller::cred();
                (cred.uid, cred.euid)
            }
        };
        Ok(Owner { whom, uid, euid })
    }

    /// The running process, or the group `foreground` if there is one. ENOMEM.
    pub fn caller(foreground: i32) -> Result<Owner> {
        let owner = match foreground {
            0 => Owner::new(F_OWNER_PID, caller::number()),
            group => Owner::new(F_OWNER_PGRP, group),
        };
        match owner {
            // The last of the group has just gone.
            Err(Errno::ESRCH) => Ok(Owner::default()),
            owner => owner,
        }
    }
}

impl Told {
    /// Sets whom it tells, as `F_SETOWN` has it: a process's number, or that of a group below zero. ESRCH,
    /// EINVAL, ENOMEM.
    pub fn set_owner(&self, who: i32) -> Result<()> {
        match who {
            0.. => self.set_owner_by(F_OWNER_PID, who),
            _ => self.set_owner_by(F_OWNER_PGRP, who.checked_neg().ok_or(Errno::EINVAL)?),
        }
    }

    /// The same, as `F_SETOWN_EX` has it.
    pub fn set_owner_by(&self, kind: i32, number: i32) -> Result<()> {
        let new = Owner::new(kind, number)?;
        let before = core::mem::replace(&mut *self.owner.lock(), new);
        drop(before);
        Ok(())
    }

    /// It tells `new`, unless it tells somebody.
    pub fn own(&self, new: Owner) {
        let mut owner = self.owner.lock();
        if owner.whom.is_none() {
            *owner = new;
        }
    }

    /// It tells nobody, and no signal is chosen.
    pub fn disown(&self) {
        let before = core::mem::take(&mut *self.owner.lock());
        drop(before);
        self.signal.store(0, Ordering::Relaxed);
    }

    /// Whom it tells: kind and number.
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

    /// Who said whom it tells: real and effective user.
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
    pub fn send(&self, fd: i32, reason: Reason) {
        let Owner { whom, uid, euid } = self.owner.lock().clone();
        let Some(whom) = whom else {
            return;
        };
        let info = match self.signal() {
            0 => None,
            signo => Some(siginfo(signo, fd, reason)),
        };
        whom.tell(&Call { info, uid, euid });
    }
}

/// What is told by a signal of one's choice.
fn siginfo(signo: i32, fd: i32, reason: Reason) -> Siginfo {
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
    fn new(list: &Arc<sync::ready::ReadyList>, key: usize) -> Result<Side> {
        let member = try_arc(Member::new(list, key))?;
        Ok(Side {
            arms: Arms::new(member.clone(), false),
            member,
            whose: None,
        })
    }

    /// Has the member noted each time something changes on side `side`, and says what holds.
    fn watch(&mut self, of: &OpenFile, side: usize) -> u32 {
        let asked = ASKED[side.min(1)];
        let mut table = PollTable::member(&mut self.arms, &mut self.whose, asked);
        of.file().poll(of, asked | POLLHUP, Some(&mut table))
    }
}

/// Where the thread sleeps that sends signals: descriptions that tell come there when they are ready.
static READY: Once<Arc<ReadyList>> = Once::new();

/// The list of descriptions that are ready, after [`start`].
pub fn list() -> Option<&'static Arc<ReadyList>> {
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
    if kind == Tells::Never {
        return Err(Errno::ENOTTY);
    }
    if !on {
        if let Some(told) = of.told() {
            let mut ready = told.ready.lock();
            let gone = ready.take();
            of.flags.fetch_and(!O_ASYNC, Ordering::Relaxed);
            drop(ready);
            drop(gone);
        }
        return Ok(());
    }
    let told = of.tell_by_signals()?;
    if let Tells::Terminal(foreground) = kind {
        told.own(Owner::caller(foreground)?);
    }
    let mut ready = told.ready.lock();
    if let Some(ready) = ready.as_mut() {
        ready.fd = fd;
        return Ok(());
    }
    let charge = quota::watch().map_err(|_| Errno::ENOMEM)?;
    let list = list().ok_or(Errno::ENOMEM)?;
    let place = Place::new(of)?;
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

/// Tells of all descriptions whose members stand in the list of ready ones. Whether there was one.
pub fn tell_ready() -> bool {
    let mut line = Line::new();
    if let Some(list) = list() {
        line.refill(list);
    }
    let some = !line.is_empty();
    while let Some(member) = line.take() {
        let (id, side) = (member.key / SIDES, member.key % SIDES);
        let of = TELLING.lock().get(&id).and_then(Weak::upgrade);
        if let Some(of) = of
            && let Some(told) = of.told()
        {
            match side {
                CHANGES => directory::tell(told, id),
                _ => tell(&of, told, id, side),
            }
        }
    }
    some
}

/// The member of `of` on `side` was noted.
fn tell(of: &OpenFile, told: &Told, id: usize, side: usize) {
    let mut ready = told.ready.lock();
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
    if let Some(reason) = reason(kind, side, found, told) {
        told.send(fd, reason);
    }
}

/// What is to be told of `found` on `side`, if anything is.
fn reason(kind: Tells, side: usize, found: u32, told: &Told) -> Option<Reason> {
    let ended = found & POLLHUP != 0;
    let (input, output) = (found & POLLIN != 0, found & (POLLOUT | POLLERR) != 0);
    match (kind, side) {
        (Tells::Changes, READS) => (input || ended).then_some(INPUT),
        (Tells::Changes, _) => output.then_some(OUTPUT),
        (Tells::Socket, READS) if ended => Some(HANG_UP),
        (Tells::Terminal(_), _) if ended => None,
        (_, READS) => input.then_some(INPUT),
        _ => (output && told.short.swap(false, Ordering::SeqCst)).then_some(OUTPUT),
    }
}
