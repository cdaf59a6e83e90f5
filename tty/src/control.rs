//! Job control and `ioctl` of a terminal.

use abi::errno::{Errno, Result};
use abi::linux::*;
use core::sync::atomic::Ordering;

use super::Tty;
use super::pty::Pty;
use super::speed;
use account::Capability;
use alloc::sync::Arc;
use file::OpenFile;
use process::signal;
use process::{Process, Session, Terminal, tree};

/// Held while a session gets a terminal or loses it: its number, the session's handle of the terminal and
/// the foreground group are one decision.
pub(super) struct Controlled;

impl Tty {
    /// The present settings.
    pub fn settings(&self) -> Termios {
        // Bound: at most 4096 bytes through the line editor of this terminal, its echo’s way out included.
        self.editor.lock().settings
    }

    /// The speeds of input and output, bits a second.
    fn speeds(&self) -> [u32; 2] {
        let beside = self.speeds.load(Ordering::Relaxed);
        speed::speeds(&self.settings(), [(beside >> 32) as u32, beside as u32])
    }

    /// `TCSETS` and its kin, with speeds that hold where `new` has no codes for them.
    fn change(&self, new: Termios, beside: [u32; 2], when: When) -> Result<()> {
        self.check_background_change()?;
        if when != When::Now {
            self.line.wait_drained();
        }
        if when == When::Flushed {
            self.flush(TCIFLUSH)?;
        }
        let [input, output] = speed::speeds(&new, beside);
        let speeds = u64::from(input) << 32 | u64::from(output);
        self.speeds.store(speeds, Ordering::Relaxed);
        self.set_settings(new);
        Ok(())
    }

    /// `TCSETS2` and its kin, from `address`.
    fn change_with_speeds(&self, address: usize, when: When) -> Result<()> {
        let new: Termios2 = vm::user::get(address)?;
        self.change(new.settings, [new.ispeed, new.ospeed], when)
    }

    fn set_settings(&self, mut new: Termios) {
        if self.pair.is_some() {
            new.cflag = new.cflag & !(CSIZE | PARENB) | CS8 | CREAD;
        }
        let mut guard = self.editor.lock();
        let d = &mut *guard;
        let old = d.set(new);
        d.input.settings_changed(&old, &new);
        let goes_on = d.input.is_stopped() && new.iflag & IXON == 0;
        if goes_on {
            d.input.set_stopped(false);
        }
        self.replug_for(d);
        drop(guard);
        if let Some(pair) = &self.pair {
            tell_change(pair, &old, &new);
        }
        if goes_on {
            self.tell_held(false);
        }
        self.typed.wake_readers();
        self.typed.room().wake_all();
        self.released.wake_all();
    }

    /// Whether this is the caller's controlling terminal and another group has it.
    fn caller_is_background(&self, process: &Process) -> bool {
        self.session() == process.sid()
            && self.session() != 0
            && self.foreground_group().load(Ordering::Acquire) != process.pgrp()
    }

    /// A read from the background stops the group (SIGTTIN), or fails with EIO where it cannot.
    pub(super) fn check_background_read(&self) -> Result<()> {
        let process = Process::current();
        if !self.caller_is_background(&process) {
            return Ok(());
        }
        if signal::blocked_or_ignored(SIGTTIN) || tree::is_orphaned(process.pgrp()) {
            return Err(Errno::EIO);
        }
        super::signal_group(process.pgrp(), SIGTTIN);
        Err(Errno::ERESTARTSYS)
    }

    /// A write from the background stops the group when TOSTOP asks for it.
    pub(super) fn check_background_write(&self) -> Result<()> {
        if self.settings().lflag & TOSTOP == 0 {
            return Ok(());
        }
        self.check_background_change()
    }

    /// A change of the terminal from the background stops the group (SIGTTOU).
    fn check_background_change(&self) -> Result<()> {
        let process = Process::current();
        if !self.caller_is_background(&process) || signal::blocked_or_ignored(SIGTTOU) {
            return Ok(());
        }
        if tree::is_orphaned(process.pgrp()) {
            return Err(Errno::EIO);
        }
        super::signal_group(process.pgrp(), SIGTTOU);
        Err(Errno::ERESTARTSYS)
    }

    /// The output is held, or goes on: a master that reads packets is told.
    pub(super) fn tell_held(&self, held: bool) {
        if let Some(pair) = &self.pair {
            if held {
                pair.tell(TIOCPKT_START, TIOCPKT_STOP);
            } else {
                pair.tell(TIOCPKT_STOP, TIOCPKT_START);
            }
        }
    }

    /// Forgets session and foreground group; the group. With `controlled` held.
    pub(super) fn forget_session(&self) -> i32 {
        self.session.store(0, Ordering::Release);
        self.foreground_group().swap(0, Ordering::AcqRel)
    }

    /// Takes this terminal away from `session`, if it is its, and does `and` before anybody sees that.
    pub(super) fn take_from(
        &self,
        session: &Session,
        and: impl FnOnce(),
    ) -> Option<Arc<dyn Terminal>> {
        // Bound: exchanging one counted handle.
        let mut terminal = session.terminal.lock();
        let ours = |terminal: &mut Arc<dyn Terminal>| {
            core::ptr::addr_eq(Arc::as_ptr(terminal), core::ptr::from_ref(self))
        };
        let taken = terminal.take_if(ours)?;
        and();
        Some(taken)
    }

    /// The present session's record, if its leader is there.
    pub(super) fn session_of(&self) -> Option<(Arc<Process>, Arc<Session>)> {
        let number = self.session();
        let leader = tree::find(number).filter(|_| number > 0)?;
        let session = leader.session.get();
        (session.id == number).then_some((leader, session))
    }

    /// Makes this the controlling terminal of the caller's session, if the caller leads one that has none.
    pub fn adopt(self: &Arc<Self>, steal: bool) -> Result<()> {
        let process = Process::current();
        let session = process.session.get();
        if process.pid != session.id {
            return Err(Errno::EPERM);
        }
        // Bound: exchanging two counted handles.
        let held = self.controlled.lock();
        let other = self.session();
        if other == session.id {
            return Ok(());
        }
        if other != 0 && !steal {
            return Err(Errno::EPERM);
        }
        // Its master was closed: nobody would tell the session.
        if self.pair.as_ref().is_some_and(Pty::is_gone) {
            return Err(Errno::EIO);
        }
        // Bound: copying or exchanging one counted handle.
        let mut terminal = session.terminal.lock();
        if terminal.is_some() {
            return Err(Errno::EPERM);
        }
        *terminal = Some(self.clone());
        drop(terminal);
        let lost = (self.session_of()).and_then(|(_, robbed)| self.take_from(&robbed, || ()));
        self.session.store(session.id, Ordering::Release);
        self.foreground_group()
            .store(process.pgrp(), Ordering::Release);
        drop(held);
        drop(lost);
        Ok(())
    }

    fn must_control(&self) -> Result<Arc<Process>> {
        let process = Process::current();
        if self.session() == process.sid() {
            Ok(process)
        } else {
            Err(Errno::ENOTTY)
        }
    }

    fn set_foreground(&self, group: i32) -> Result<usize> {
        let process = self.must_control()?;
        self.check_background_change()?;
        if group < 0 {
            return Err(Errno::EINVAL);
        }
        let session = tree::session_of_group(group).ok_or(Errno::ESRCH)?;
        if session != process.sid() {
            return Err(Errno::EPERM);
        }
        // Bound: two words. Another session may have taken it since the look above: the group is none of its.
        let _held = self.controlled.lock();
        self.must_control()?;
        self.foreground_group().store(group, Ordering::Release);
        Ok(0)
    }

    fn flush(&self, which: u32) -> Result<usize> {
        let told = match which {
            TCIFLUSH => TIOCPKT_FLUSHREAD,
            TCOFLUSH => TIOCPKT_FLUSHWRITE,
            TCIOFLUSH => TIOCPKT_FLUSHREAD | TIOCPKT_FLUSHWRITE,
            _ => return Err(Errno::EINVAL),
        };
        if which != TCOFLUSH {
            self.editor.lock().input.flush();
        }
        if let Some(pair) = &self.pair {
            pair.tell(0, told);
        }
        Ok(0)
    }

    /// `TCXONC`.
    fn hold(&self, action: u32) -> Result<()> {
        let held = match action {
            TCOOFF => true,
            TCOON => false,
            TCIOFF | TCION => {
                let settings = self.settings();
                let which = if action == TCIOFF { VSTOP } else { VSTART };
                if settings.cc[which] != 0 {
                    self.line.show(0, &settings.cc[which..=which]);
                }
                return Ok(());
            }
            _ => return Err(Errno::EINVAL),
        };
        let changed = {
            let mut d = self.editor.lock();
            let changed = d.input.is_stopped() != held;
            d.input.set_stopped(held);
            changed
        };
        self.replug();
        if changed {
            self.tell_held(held);
        }
        self.released.wake_all();
        Ok(())
    }

    /// `TIOCNOTTY`: a leader gives the terminal up for its session.
    fn give_up(&self) -> Result<()> {
        let process = self.must_control()?;
        let session = process.session.get();
        if process.pid == session.id {
            let lost = self.take_from(&session, || ());
            let group = Terminal::release(self, session.id).unwrap_or(0);
            if group > 0 {
                super::signal_group(group, SIGHUP);
                super::signal_group(group, SIGCONT);
            }
            drop(lost);
        }
        Ok(())
    }

    /// Answers an `ioctl`. ENOTTY for what a terminal does not know.
    pub(super) fn control(self: &Arc<Self>, of: &OpenFile, cmd: u32, arg: usize) -> Result<usize> {
        use vm::user::{get, put};
        let address = arg;
        let change = |new, when| self.change(new, self.speeds(), when);
        match cmd {
            TCGETS => put(address, &self.settings())?,
            TCSETS => change(get(address)?, When::Now)?,
            TCSETSW => change(get(address)?, When::Drained)?,
            TCSETSF => change(get(address)?, When::Flushed)?,
            TCGETA => put(address, &short(&self.settings()))?,
            TCSETA => change(long(&get(address)?, self.settings()), When::Now)?,
            TCSETAW => change(long(&get(address)?, self.settings()), When::Drained)?,
            TCSETAF => change(long(&get(address)?, self.settings()), When::Flushed)?,
            TCGETS2 => {
                let [ispeed, ospeed] = self.speeds();
                let settings = self.settings();
                put(
                    address,
                    &Termios2 {
                        settings,
                        ispeed,
                        ospeed,
                    },
                )?;
            }
            TCSETS2 => self.change_with_speeds(address, When::Now)?,
            TCSETSW2 => self.change_with_speeds(address, When::Drained)?,
            TCSETSF2 => self.change_with_speeds(address, When::Flushed)?,
            TIOCGWINSZ => put(address, &self.size())?,
            TIOCSWINSZ => self.set_size(get::<Winsize>(address)?),
            TIOCGPGRP => {
                self.must_control()?;
                put(address, &self.foreground_group().load(Ordering::Acquire))?;
            }
            TIOCSPGRP => return self.set_foreground(get::<i32>(address)?),
            TIOCGSID => {
                self.must_control()?;
                put(address, &self.session())?;
            }
            TIOCSCTTY => {
                let privileged = account::caller::cred().has(Capability::SysAdmin);
                if !of.readable() && !privileged {
                    return Err(Errno::EPERM);
                }
                self.adopt(arg == 1 && privileged)?;
            }
            TIOCNOTTY => self.give_up()?,
            FIONREAD => {
                put(address, &(self.typed.available() as i32))?;
            }
            TIOCOUTQ => put(address, &(self.line.unsent() as i32))?,
            TIOCGETD => put(address, &0i32)?,
            TCFLSH => {
                self.check_background_change()?;
                return self.flush(arg as u32);
            }
            TCSBRK | TCSBRKP => self.line.wait_drained(),
            TCXONC => {
                self.check_background_change()?;
                self.hold(arg as u32)?;
            }
            TIOCEXCL | TIOCNXCL => {
                if let Some(pair) = &self.pair {
                    pair.set_exclusive(cmd == TIOCEXCL);
                }
            }
            TIOCGEXCL => {
                let exclusive = self.pair.as_ref().is_some_and(Pty::is_exclusive);
                put(address, &i32::from(exclusive))?;
            }
            TIOCGDEV => put(address, &(self.device as u32))?,
            TIOCSETD => {
                if get::<i32>(address)? != 0 {
                    return Err(Errno::EINVAL);
                }
            }
            TIOCSTI => {
                let process = Process::current();
                if self.session() != process.sid() && !process.cred_here().has(Capability::SysAdmin)
                {
                    return Err(Errno::EPERM);
                }
                let byte = get::<u8>(address)?;
                self.editor.enter(byte);
                self.settle();
            }
            _ => return Err(Errno::ENOTTY),
        }
        Ok(0)
    }
}

/// When settings change.
#[derive(Clone, Copy, PartialEq, Eq)]
enum When {
    Now,
    /// When all that was written has gone.
    Drained,
    /// And what was typed is thrown away.
    Flushed,
}

/// Settings in their older form, which has the lower halves of the words and the first characters.
fn short(settings: &Termios) -> Termio {
    let mut old = Termio {
        iflag: settings.iflag as u16,
        oflag: settings.oflag as u16,
        cflag: settings.cflag as u16,
        lflag: settings.lflag as u16,
        line: settings.line,
        ..Termio::default()
    };
    let kept = old.cc.len();
    old.cc.copy_from_slice(&settings.cc[..kept]);
    old
}

/// `now` with what the older form says.
fn long(old: &Termio, now: Termios) -> Termios {
    let half = |whole: u32, low: u16| whole & !0xffff | u32::from(low);
    let mut new = Termios {
        iflag: half(now.iflag, old.iflag),
        oflag: half(now.oflag, old.oflag),
        cflag: half(now.cflag, old.cflag),
        lflag: half(now.lflag, old.lflag),
        line: old.line,
        ..now
    };
    new.cc[..old.cc.len()].copy_from_slice(&old.cc);
    new
}

/// A master that reads packets is told of a change of settings that it may have to follow.
fn tell_change(pair: &Pty, old: &Termios, new: &Termios) {
    let flow = |t: &Termios| t.iflag & IXON != 0 && t.cc[VSTOP] == 0o23 && t.cc[VSTART] == 0o21;
    if flow(old) != flow(new) {
        let told = if flow(new) {
            TIOCPKT_DOSTOP
        } else {
            TIOCPKT_NOSTOP
        };
        pair.tell(TIOCPKT_DOSTOP | TIOCPKT_NOSTOP, told);
    }
    if (old.lflag | new.lflag) & EXTPROC != 0 {
        pair.tell(0, TIOCPKT_IOCTL);
    }
}
