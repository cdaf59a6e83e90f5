//! The master's side of a pty: what a terminal emulator has open.
//!
//! *Interface*: [`open`] makes a pair; [`PtyMaster`] is what its descriptor does. Reading gives what the
//! slave has written, and writing types; both have generated routines. The code here waits, and does what
//! they leave: packets, keys that the editor looks at, ends.

use abi::errno::{Errno, Result};
use abi::linux::*;
use alloc::sync::Arc;
use core::sync::atomic::Ordering;
use vm::user::{get, put};

use super::Tty;
use super::devpts;
use super::pty::{self, Pty};
use file::fasync::FasyncKind;
use file::fs::OpenRequest;
use file::io::IoBuf;
use file::poll::{PollTable, READS, WRITES};
use file::{DescRoutine, DescRoutines, File, OpenFile, Sharing};
use process::Process;
use vm::fallible::{try_arc, try_filled};

/// The largest piece that one pass moves, in bytes.
const PIECE: usize = 4096;
/// Keys between two looks at what they asked for.
const KEYS: usize = 256;

/// The operations of a master's descriptor.
pub(super) struct PtyMaster {
    tty: Arc<Tty>,
}

/// A new pair, as `open("/dev/ptmx")` makes one: the description is its master's. ENOSPC, ENOMEM.
pub(super) fn open(how: OpenRequest) -> Result<Arc<OpenFile>> {
    let tty = pty::make()?;
    let master = try_arc(PtyMaster { tty: tty.clone() })?;
    pty::name(tty)?;
    Ok(how.finish(master))
}

impl PtyMaster {
    fn pair(&self) -> Result<&Pty> {
        self.tty.pair.as_ref().ok_or(Errno::EIO)
    }
}

impl Tty {
    /// Types `keys`; how many of them there was room for.
    fn type_in(&self, keys: &[u8]) -> usize {
        let mut typed = 0;
        for some in keys.chunks(KEYS) {
            let entered = some
                .iter()
                .take_while(|key| {
                    // Bound: at most 4096 bytes through the line editor of this terminal, its echo’s way out
                    // included.
                    let d = self.editor.lock();
                    let room = d.input.has_room(&d.settings);
                    drop(d);
                    if room {
                        self.editor.enter(**key);
                    }
                    room
                })
                .count();
            self.settle();
            typed += entered;
            if entered < some.len() {
                break;
            }
        }
        typed
    }

    fn has_room(&self) -> bool {
        let d = self.editor.lock();
        d.input.has_room(&d.settings)
    }
}

impl File for PtyMaster {
    fn read(&self, of: &OpenFile, buf: &mut IoBuf) -> Result<usize> {
        if buf.remaining() == 0 {
            return Ok(0);
        }
        let pair = self.pair()?;
        let channel = &pair.channel;
        let head = usize::from(pair.reads_packets());
        if head != 0 {
            let status = pair.take_status();
            if status != 0 {
                return buf.put(&[status]);
            }
        }
        // Bytes written before the last close are there after this.
        let deserted = pair.is_deserted();
        let mut piece = try_filled(0, buf.remaining().min(PIECE))?;
        let count = channel.read(&mut piece[head..]);
        if count > 0 || head == piece.len() && !channel.queue().is_empty() {
            return buf.put(&piece[..head + count]);
        }
        if deserted {
            return Err(Errno::EIO);
        }
        if of.nonblocking() {
            return Err(Errno::EAGAIN);
        }
        let something = || !channel.queue().is_empty() || pair.is_deserted() || pair.has_status();
        let waited = channel
            .arrived()
            .wait_interruptible(|| something().then_some(()));
        waited.map_err(|_| Errno::ERESTARTSYS)?;
        // The call is made again, and the generated routine has what came.
        Err(Errno::ERESTARTNOINTR)
    }

    fn write(&self, of: &OpenFile, buf: &mut IoBuf) -> Result<usize> {
        let mut piece = try_filled(0, buf.remaining().min(PIECE))?;
        let mut written = 0;
        while buf.remaining() > 0 {
            let taken = match buf.take(&mut piece) {
                Ok(taken) => taken,
                Err(error) if written == 0 => return Err(error),
                Err(_) => break,
            };
            let mut typed = 0;
            loop {
                typed += self.tty.type_in(&piece[typed..taken]);
                if typed == taken {
                    break;
                }
                let total = written + typed;
                let give_up = |error| if total > 0 { Ok(total) } else { Err(error) };
                if of.nonblocking() {
                    return give_up(Errno::EAGAIN);
                }
                let room = || self.tty.has_room().then_some(());
                if self.tty.typed.room().wait_interruptible(room).is_err() {
                    return give_up(Errno::ERESTARTSYS);
                }
            }
            written += taken;
        }
        Ok(written)
    }

    fn can_be_watched(&self) -> bool {
        true
    }

    fn tells(&self) -> FasyncKind {
        FasyncKind::Terminal(0)
    }

    fn poll<'a>(
        &'a self,
        _of: &'a OpenFile,
        events: u32,
        table: Option<&mut PollTable<'a>>,
    ) -> u32 {
        let Some(pair) = &self.tty.pair else { return 0 };
        if let Some(table) = table {
            table.watch_for(READS | POLLPRI | POLLHUP, pair.channel.arrived());
            if events & WRITES != 0 {
                table.watch(self.tty.typed.room());
            }
        }
        let mut found = 0;
        let deserted = pair.is_deserted();
        if !pair.channel.queue().is_empty() {
            found |= READS;
        }
        if pair.has_status() {
            found |= READS | POLLPRI;
        }
        if deserted {
            found |= POLLHUP;
        }
        if self.tty.has_room() {
            found |= WRITES;
        }
        found & (events | POLLHUP)
    }

    /// One code for all, however the description is shared.
    fn synthesize(&self, _of: &OpenFile, _sharing: Sharing) -> Result<DescRoutines> {
        self.tty.routines.tables(true)
    }

    fn relayed(&self, call: &str) -> Option<DescRoutine> {
        self.tty.routines.relayed(call, true)
    }

    fn ioctl(&self, of: &OpenFile, cmd: u32, arg: usize) -> Result<usize> {
        let (tty, pair) = (&self.tty, self.pair()?);
        match cmd {
            TIOCGPTN => put(arg, &pair.number())?,
            TIOCSPTLCK => {
                let locked: i32 = get(arg)?;
                pair.locked.store(locked != 0, Ordering::Release);
            }
            TIOCGPTLCK => put(arg, &i32::from(pair.locked.load(Ordering::Acquire)))?,
            TIOCPKT => {
                let on: i32 = get(arg)?;
                pair.set_packets(on != 0);
                tty.replug();
            }
            TIOCGPKT => put(arg, &i32::from(pair.reads_packets()))?,
            TIOCGPTPEER => {
                let flags = arg as u32;
                let peer = devpts::peer(tty, of, flags)?;
                let files = Process::current().files.get();
                return Ok(files.install(peer, flags & O_CLOEXEC != 0)? as usize);
            }
            TIOCSIG => {
                let number = arg as i32;
                if !matches!(number, SIGINT | SIGQUIT | SIGTSTP) {
                    return Err(Errno::EINVAL);
                }
                tty.signal_foreground(number);
            }
            FIONREAD => {
                let count = pair.channel.queue().len();
                put(arg, &(count as i32))?;
            }
            TCFLSH => {
                if !matches!(arg as u32, TCIFLUSH | TCOFLUSH | TCIOFLUSH) {
                    return Err(Errno::EINVAL);
                }
                if arg as u32 != TCOFLUSH {
                    pair.channel.discard();
                }
            }
            TIOCSTI => return Err(Errno::EPERM),
            TIOCNOTTY => return Err(Errno::ENOTTY),
            TIOCGPGRP => {
                let group = process::Terminal::foreground(&**tty);
                put(arg, &group)?;
            }
            TIOCGSID => {
                let session = tty.session();
                if session == 0 {
                    return Err(Errno::ENOTTY);
                }
                put(arg, &session)?;
            }
            TCXONC => match arg as u32 {
                // A byte for the other side, as if it had been typed.
                TCIOFF | TCION => {
                    let cc = tty.settings().cc;
                    let which = if arg as u32 == TCIOFF { VSTOP } else { VSTART };
                    tty.type_in(&cc[which..=which]);
                }
                TCOOFF | TCOON => {}
                _ => return Err(Errno::EINVAL),
            },
            _ => return tty.control(of, cmd, arg),
        }
        Ok(0)
    }

    fn close(&self, _of: &OpenFile) {
        self.tty.master_left();
    }

    fn weight(&self, _of: &OpenFile) -> usize {
        pty::WEIGHT
    }
}
