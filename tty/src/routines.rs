//! The generated code of a terminal: one routine to read and one to write, for the settings as they are; of a
//! pseudo-terminal, two more for its master.
//!
//! *Interface*: [`Routines::new`]; [`Routines::replug`] whenever what [`Sort`] tells changes. Every
//! descriptor of the terminal has the same two relays in its tables, so a change is one word for each,
//! whoever has the terminal open.
//!
//! Quasi-invariants, with their guards: the settings (`TCSETS` replugs), output that goes on (`^S`, `^Q` and
//! `TCXONC` replug), `TOSTOP` off (`TCSETS`), a master that is there (its close replugs) and is in no packet
//! mode (`TIOCPKT`). The foreground group is a word that the reading routine looks at.
//!
//! Source: dissertation, sections 3.2 and 4.4.2; quasi-invariants after Pu et al. 1995.

use abi::errno::{Errno, Result};
use abi::linux::{TOSTOP, Termios};
use abi::nr;
use alloc::sync::Arc;
use device::stream::{End, Stream};
use quaject::cook_tty_in::{self, Guarded, Typed};
use quaject::cook_tty_out::{self, Rule};
use quaject::relay::Relay;

use super::editor::Editor;
use super::group::CallerGroup;
use super::line::Line;
use file::seam;
use file::{DescRoutine, DescRoutines};

/// A terminal's routines.
pub(super) struct Routines {
    typed: Arc<Typed>,
    line: Line,
    group: Arc<CallerGroup>,
    own: Pair,
    /// Of a pseudo-terminal's master.
    master: Option<Pair>,
}

/// What a descriptor of one side leads to.
struct Pair {
    read: Relay,
    write: Relay,
}

/// What the routines are made for, besides the settings.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Sort {
    /// The output is held.
    pub held: bool,
    /// There is no master any more.
    pub gone: bool,
    /// The master reads packets.
    pub packets: bool,
}

impl Pair {
    fn new(read: &'static str, write: &'static str) -> Result<Pair> {
        let seam = seam::get()?;
        let relay = |name, number| Relay::new(name, number, seam).map_err(|_| Errno::ENOMEM);
        Ok(Pair {
            read: relay(read, nr::READ)?,
            write: relay(write, nr::WRITE)?,
        })
    }

    fn tables(&self) -> Result<DescRoutines> {
        Ok(DescRoutines {
            read: Some(self.read.routine().clone()),
            write: Some(self.write.routine().clone()),
            lseek: Some(seam::constants()?.no_seek.clone()),
        })
    }

    fn relayed(&self, call: &str) -> Option<DescRoutine> {
        match call {
            "read" => self.read.plugged(),
            "write" => self.write.plugged(),
            _ => None,
        }
    }
}

impl Routines {
    /// Relays that lead to the slow exit. ENOMEM.
    pub fn new(typed: Arc<Typed>, line: Line) -> Result<Routines> {
        let master = match line {
            Line::Serial(_) => None,
            Line::Master(_) => Some(Pair::new("master read", "master write")?),
        };
        Ok(Routines {
            typed,
            line,
            group: CallerGroup::new().map_err(|_| Errno::ENOMEM)?,
            own: Pair::new("tty read", "tty write")?,
            master,
        })
    }

    /// Generates the routines for `settings` and `sort`. Without room for code, calls take the slow exit.
    pub fn replug(&self, settings: &Termios, sort: Sort, editor: &Editor) {
        let Ok(seam) = seam::get() else { return };
        let guarded = Guarded {
            group: &*self.group,
            full: self.master.is_some(),
        };
        let mode = cook_tty_in::mode(settings);
        let read = (!sort.gone)
            .then(|| cook_tty_in::reader(&self.typed, mode, &guarded, seam).ok())
            .flatten();
        self.own.read.plug(read);
        let idle = sort.held || sort.gone || settings.lflag & TOSTOP != 0;
        let rule = Rule::of(settings.oflag).filter(|_| !idle);
        let write = rule.and_then(|rule| match &self.line {
            Line::Serial(line) => {
                let End { queue, turn } = line.output()?;
                cook_tty_out::writer(queue, turn, rule, seam).ok()
            }
            Line::Master(channel) => cook_tty_out::channel_writer(channel, rule, seam).ok(),
        });
        self.own.write.plug(write);
        let (Some(master), Line::Master(channel)) = (&self.master, &self.line) else {
            return;
        };
        let read = (!sort.packets).then(|| channel.reader(seam).ok());
        master.read.plug(read.flatten());
        let write = cook_tty_in::enters_plainly(settings)
            .then(|| cook_tty_in::typist(&self.typed, editor.entrance(), seam).ok());
        master.write.plug(write.flatten());
    }

    fn pair(&self, master: bool) -> Option<&Pair> {
        if master {
            self.master.as_ref()
        } else {
            Some(&self.own)
        }
    }

    /// What goes into the tables of the terminal's descriptors, or of its master's.
    pub fn tables(&self, master: bool) -> Result<DescRoutines> {
        self.pair(master).ok_or(Errno::EINVAL)?.tables()
    }

    /// What the relay of `call` leads to now.
    pub fn relayed(&self, call: &str, master: bool) -> Option<DescRoutine> {
        self.pair(master)?.relayed(call)
    }
}
