//! Job control and `ioctl` of a terminal.

use abi::errno::{Errno, Result};
use abi::linux::*;
use core::sync::atomic::Ordering;

use super::Tty;
use crate::process::{Capability, Process, tree};
use crate::signal;
use alloc::sync::Arc;

impl Tty {
    /// The present settings.
    pub fn settings(&self) -> Termios {
        self.editor.lock().settings
    }

    fn set_settings(&self, new: Termios) {
        let mut guard = self.editor.lock();
        let d = &mut *guard;
        let old = d.set(new);
        d.input.settings_changed(&old, &new);
        if new.iflag & IXON == 0 {
            d.input.set_stopped(false);
        }
        self.routines.replug(&d.settings, d.input.is_stopped());
        drop(guard);
        self.readable.wake_all();
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

    /// Makes this the controlling terminal of the caller's session, if the caller leads one that has none.
    pub fn adopt(self: &Arc<Self>, steal: bool) -> Result<()> {
        let process = Process::current();
        let session = process.session.get();
        if process.pid != session.id {
            return Err(Errno::EPERM);
        }
        if self.session() == session.id {
            return Ok(());
        }
        let mut terminal = session.terminal.lock();
        if terminal.is_some() || (self.session() != 0 && !steal) {
            return Err(Errno::EPERM);
        }
        *terminal = Some(self.clone());
        self.session.store(session.id, Ordering::Release);
        self.foreground_group()
            .store(process.pgrp(), Ordering::Release);
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
        self.foreground_group().store(group, Ordering::Release);
        Ok(0)
    }

    fn flush(&self, which: usize) -> Result<usize> {
        match which as u32 {
            TCIFLUSH | TCIOFLUSH => self.editor.lock().input.flush(),
            TCOFLUSH => {}
            _ => return Err(Errno::EINVAL),
        }
        Ok(0)
    }

    /// Answers an `ioctl`. ENOTTY for what a terminal does not know.
    pub(super) fn control(self: &Arc<Self>, cmd: u32, arg: usize) -> Result<usize> {
        use vm::user::{get, put};
        let address = arg;
        match cmd {
            TCGETS => put(address, &self.settings())?,
            TCSETS | TCSETSW | TCSETSF => {
                let new = get::<Termios>(address)?;
                self.check_background_change()?;
                if cmd != TCSETS {
                    self.line.wait_drained();
                }
                if cmd == TCSETSF {
                    self.editor.lock().input.flush();
                }
                self.set_settings(new);
            }
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
                self.adopt(arg == 1 && Process::current().cred.get().has(Capability::SysAdmin))?
            }
            TIOCNOTTY => {
                let process = self.must_control()?;
                let session = process.session.get();
                if process.pid == session.id {
                    self.hang_up();
                    *session.terminal.lock() = None;
                    crate::process::Terminal::release(&**self);
                }
            }
            FIONREAD => {
                put(address, &(self.typed.available() as i32))?;
            }
            TIOCOUTQ => put(address, &(self.line.unsent() as i32))?,
            TIOCGETD => put(address, &0i32)?,
            TCFLSH => return self.flush(arg),
            TCSBRK | TCSBRKP => self.line.wait_drained(),
            TCXONC => {
                let stop = match arg {
                    0 => true,
                    1 => false,
                    2 | 3 => return Ok(0),
                    _ => return Err(Errno::EINVAL),
                };
                self.editor.lock().input.set_stopped(stop);
                self.replug();
                self.released.wake_all();
            }
            TIOCEXCL | TIOCNXCL => {}
            TIOCSTI => {
                let byte = get::<u8>(address)?;
                self.editor.enter(byte);
                self.settle();
            }
            _ => return Err(Errno::ENOTTY),
        }
        Ok(0)
    }
}
