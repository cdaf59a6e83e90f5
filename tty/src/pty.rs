//! The pseudo-terminal (pty): what it has besides a terminal's parts: its number, its lock, how many have
//! it open, the notes for its master's packets.
//!
//! *Interface*: [`make`] makes a terminal with a pair, and [`name`] gives it its name; [`find`] and
//! [`named_from`] are what `devpts` shows; [`Tty::enrol`] and [`Tty::leave`] count the descriptions of the
//! slave's side; [`Tty::master_left`] is the hang-up.
//!
//! A pair has a name while its master is open, and its number until nobody has either side open.
//!
//! Source: pty(7), Linux's `drivers/tty/pty.c` for what is seen; dissertation, section 1.3.1 for what it is
//! made of.

use abi::errno::{Errno, Result};
use abi::linux::*;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering};
use quaject::cook_tty_in::sane;
use quaject::queue::{Channel, Parties};
use sync::Monitor;

use super::Tty;
use super::output::TtyOutput;
use account::quota;
use account::user::Charge;
use file::fs::ownership::Ownership;
use file::routine_env;
use process::Terminal;
use process::signal;
use vm::fallible::{try_arc, try_push, try_reserve};

/// Pairs that there may be.
pub const MOST: usize = quota::PTYS;
/// The group of terminals (`gid=5`).
const TTY_GROUP: u32 = 5;
/// Permission bits of a new slave (`mode=620`).
const MODE: u32 = 0o620;
/// Major number of the slaves.
pub(super) const MAJOR: u32 = 136;
/// Bytes of a pair with its code, about.
pub(super) const WEIGHT: usize = 40 << 10;
/// Bytes that wait for the master.
const CHANNEL: usize = 16 << 10;

static TAKEN: [AtomicU64; MOST / 64] = [const { AtomicU64::new(0) }; MOST / 64];

/// The number of a pair, given back when this goes.
pub(super) struct PtyNumber(u32);

impl PtyNumber {
    /// The lowest that is free. ENOSPC.
    fn take() -> Result<PtyNumber> {
        for (at, word) in (0..).zip(&TAKEN) {
            let lowest = |word: u64| (word != u64::MAX).then(|| word | (word + 1));
            if let Ok(before) = word.fetch_update(Ordering::AcqRel, Ordering::Acquire, lowest) {
                quota::pty_made();
                return Ok(PtyNumber(at * 64 + before.trailing_ones()));
            }
        }
        Err(Errno::ENOSPC)
    }
}

impl Drop for PtyNumber {
    fn drop(&mut self) {
        if let Some(word) = TAKEN.get(self.0 as usize / 64) {
            word.fetch_and(!(1 << (self.0 % 64)), Ordering::AcqRel);
            quota::pty_gone();
        }
    }
}

/// Those that have a name, by number.
static NAMED: Monitor<Vec<Option<Arc<Tty>>>> = Monitor::new(Vec::new());

/// The terminal called `number`.
pub(super) fn find(number: u32) -> Option<Arc<Tty>> {
    // Bound: a look through at most 4096 words.
    NAMED.lock().get(number as usize)?.clone()
}

/// The first number from `from` on that is a name.
pub(super) fn named_from(from: u32) -> Option<u32> {
    let named = NAMED.lock();
    let (at, _) = named
        .iter()
        .enumerate()
        .skip(from as usize)
        .find(|(_, tty)| tty.is_some())?;
    u32::try_from(at).ok()
}

/// Its users.
#[derive(Default)]
struct Open {
    /// Descriptions of the slave.
    slaves: usize,
    /// The master has been closed.
    gone: bool,
    /// Only the superuser opens the slave (`TIOCEXCL`).
    exclusive: bool,
}

/// The other parts of a pseudo-terminal.
pub(super) struct Pty {
    number: PtyNumber,
    pub channel: Arc<Channel>,
    /// The slave cannot be opened yet (`TIOCSPTLCK`).
    pub locked: AtomicBool,
    open: Monitor<Open>,
    gone: AtomicBool,
    /// The slave was open, and no longer is.
    deserted: AtomicBool,
    packets: AtomicBool,
    /// The notes for the master's next packet (`TIOCPKT_*`).
    status: AtomicU8,
    /// The answer of `stat` for the slave's name.
    pub node: Monitor<Ownership>,
    _charge: Charge,
}

impl Pty {
    fn new() -> Result<Pty> {
        let charge = quota::pty()?;
        let several = routine_env::get()?.several_cpus();
        let channel = Channel::new(Parties::Many, Parties::Many, CHANNEL, several)
            .map_err(|_| Errno::ENOMEM)?;
        Ok(Pty {
            number: PtyNumber::take()?,
            channel: try_arc(channel)?,
            locked: AtomicBool::new(true),
            open: Monitor::default(),
            gone: AtomicBool::new(false),
            deserted: AtomicBool::new(false),
            packets: AtomicBool::new(false),
            status: AtomicU8::new(0),
            node: Monitor::new(Ownership::new(
                S_IFCHR | MODE,
                account::caller::cred().fsuid,
                TTY_GROUP,
            )),
            _charge: charge,
        })
    }

    /// Its number.
    pub fn number(&self) -> u32 {
        self.number.0
    }

    /// Whether the master has been closed.
    pub fn is_gone(&self) -> bool {
        self.gone.load(Ordering::SeqCst)
    }

    /// Whether the slave was open, and no longer is.
    pub fn is_deserted(&self) -> bool {
        self.deserted.load(Ordering::SeqCst)
    }

    /// Whether the master reads packets.
    pub fn reads_packets(&self) -> bool {
        self.packets.load(Ordering::SeqCst)
    }

    /// The master reads packets from now on, or no longer.
    pub fn set_packets(&self, on: bool) {
        if self.packets.swap(on, Ordering::SeqCst) != on {
            self.status.store(0, Ordering::SeqCst);
        }
    }

    /// The master is told `new`, in place of `old`.
    pub fn tell(&self, old: u32, new: u32) {
        if self.reads_packets() && new != 0 {
            let change = |status: u8| Some(status & !(old as u8) | new as u8);
            let _always = self
                .status
                .fetch_update(Ordering::SeqCst, Ordering::SeqCst, change);
            self.channel.arrived().wake_all();
        }
    }

    /// Whether the master is to be told something.
    pub fn has_status(&self) -> bool {
        self.reads_packets() && self.status.load(Ordering::SeqCst) != 0
    }

    /// The notes for the master, once.
    pub fn take_status(&self) -> u8 {
        self.status.swap(0, Ordering::SeqCst)
    }

    /// `TIOCEXCL` and `TIOCNXCL`.
    pub fn set_exclusive(&self, on: bool) {
        // Bound: one word.
        self.open.lock().exclusive = on;
    }

    /// `TIOCGEXCL`.
    pub fn is_exclusive(&self) -> bool {
        self.open.lock().exclusive
    }
}

/// A terminal with a new pair. ENOSPC, ENOMEM.
pub(super) fn make() -> Result<Arc<Tty>> {
    let pair = Pty::new()?;
    let line = TtyOutput::Master(pair.channel.clone());
    let device = makedev(MAJOR, pair.number());
    let size = Monitor::new(Winsize::default());
    Tty::make(line, device, size, settings(), Some(pair))
}

/// Gives the pair `tty` its name: its master is about to be open. ENOMEM.
pub(super) fn name(tty: Arc<Tty>) -> Result<()> {
    let Some(pair) = &tty.pair else {
        return Ok(());
    };
    let number = pair.number() as usize;
    let mut named = NAMED.lock();
    let more = (number + 1).saturating_sub(named.len());
    try_reserve(&mut named, more)?;
    for _ in 0..more {
        try_push(&mut named, None)?;
    }
    if let Some(place) = named.get_mut(number) {
        *place = Some(tty);
    }
    Ok(())
}

/// The settings of a new slave, which are not quite the console's.
const fn settings() -> Termios {
    Termios {
        iflag: ICRNL | IXON,
        cflag: B38400 | CS8 | CREAD,
        ..sane()
    }
}

impl Tty {
    /// One description more of the slave's side: checks what `open` checks. EIO: locked, or without a master;
    /// EBUSY.
    pub(super) fn enrol(&self, by_name: bool) -> Result<()> {
        let Some(pair) = &self.pair else {
            return Ok(());
        };
        if by_name && pair.locked.load(Ordering::Acquire) {
            return Err(Errno::EIO);
        }
        let privileged = || {
            let cred = account::caller::cred();
            cred.has(account::Capability::SysAdmin)
        };
        // Bound: a few words.
        let mut open = pair.open.lock();
        if open.gone {
            return Err(Errno::EIO);
        }
        if open.exclusive && !privileged() {
            return Err(Errno::EBUSY);
        }
        open.slaves += 1;
        pair.deserted.store(false, Ordering::SeqCst);
        Ok(())
    }

    /// One description less of the slave's side. After the last the master finds an end.
    pub(super) fn leave(&self) {
        let Some(pair) = &self.pair else { return };
        let mut open = pair.open.lock();
        open.slaves = open.slaves.saturating_sub(1);
        if open.slaves == 0 {
            pair.deserted.store(true, Ordering::SeqCst);
        }
        drop(open);
        pair.channel.arrived().wake_all();
    }

    /// The master was closed: the name goes, whoever has the slave open finds its end, and the session is
    /// told.
    pub(super) fn master_left(&self) {
        let Some(pair) = &self.pair else { return };
        let number = pair.number() as usize;
        let mut named = NAMED.lock();
        let own = named.get_mut(number).and_then(Option::take);
        while named.last().is_some_and(Option::is_none) {
            named.pop();
        }
        if named.is_empty() {
            *named = Vec::new();
        }
        drop(named);
        pair.open.lock().gone = true;
        pair.gone.store(true, Ordering::SeqCst);
        self.replug();
        self.end_session();
        self.typed.wake_readers();
        self.typed.room().wake_all();
        self.released.wake_all();
        self.hung_up.wake_all();
        pair.channel.drained().wake_all();
        drop(own);
    }

    /// The leader of the session gets SIGHUP and SIGCONT, and the session has no terminal any more. The
    /// former foreground group hears of it when the leader ends.
    fn end_session(&self) {
        // Bound: exchanging one counted handle, and two words.
        let held = self.controlled.lock();
        let Some((leader, session)) = self.session_of() else {
            return;
        };
        let group = Terminal::foreground(self);
        let left = || session.left_group.store(group, Ordering::Release);
        let Some(old) = self.take_from(&session, left) else {
            return;
        };
        self.forget_session();
        drop(held);
        for signo in [SIGHUP, SIGCONT] {
            let _gone = signal::send(&leader, None, Siginfo::sent(signo, SI_KERNEL, 0, 0));
        }
        drop(old);
    }
}
