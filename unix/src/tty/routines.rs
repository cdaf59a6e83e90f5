//! The generated code of a terminal: one routine to read and one to write, for the settings as they are.
//!
//! *Interface*: [`Routines::new`]; [`Routines::replug`] whenever settings change or the output is held or released. Every descriptor of the terminal has the
//! same two relays in its tables, so a change is one word for each, whoever has the terminal open.
//!
//! Quasi-invariants, with their guards: the settings (`TCSETS` replugs), output that goes on (`^S`, `^Q` and `TCXONC` replug), `TOSTOP` off (`TCSETS`). The
//! foreground group is a word that the reading routine looks at.
//!
//! Source: dissertation, sections 3.2 and 4.4.2; quasi-invariants after Pu et al. 1995 (seed 003).

use abi::errno::{Errno, Result};
use abi::linux::{TOSTOP, Termios};
use abi::nr;
use alloc::sync::Arc;
use device::serial::End;
use quaject::cook_tty_in::{self, Guarded, Typed};
use quaject::cook_tty_out::{self, Rule};
use quaject::relay::Relay;

use super::group::CallerGroup;
use crate::file::{DescRoutine, DescRoutines};
use crate::seam;

/// A terminal's routines.
pub(super) struct Routines {
    typed: Arc<Typed>,
    output: End,
    group: Arc<CallerGroup>,
    read: Relay,
    write: Relay,
}

impl Routines {
    /// Relays that lead to the slow exit. ENOMEM.
    pub fn new(typed: Arc<Typed>, output: End) -> Result<Routines> {
        let seam = seam::get()?;
        let relay = |name, number| Relay::new(name, number, seam).map_err(|_| Errno::ENOMEM);
        Ok(Routines {
            typed,
            output,
            group: CallerGroup::new().map_err(|_| Errno::ENOMEM)?,
            read: relay("tty read", nr::READ)?,
            write: relay("tty write", nr::WRITE)?,
        })
    }

    /// Generates both routines for `settings`, and for output that is `held` or not. Without room for code, calls take the slow exit.
    pub fn replug(&self, settings: &Termios, held: bool) {
        let Ok(seam) = seam::get() else { return };
        let guarded = Guarded {
            group: &*self.group,
        };
        let mode = cook_tty_in::mode(settings);
        let read = cook_tty_in::reader(&self.typed, mode, &guarded, seam);
        self.read.plug(read.ok());
        let rule = Rule::of(settings.oflag).filter(|_| !held && settings.lflag & TOSTOP == 0);
        let End { queue, turn } = self.output;
        let write = rule.and_then(|rule| cook_tty_out::writer(queue, turn, rule, seam).ok());
        self.write.plug(write);
    }

    /// What goes into the tables.
    pub fn tables(&self) -> Result<DescRoutines> {
        Ok(DescRoutines {
            read: Some(self.read.routine().clone()),
            write: Some(self.write.routine().clone()),
            lseek: Some(seam::constants()?.no_seek.clone()),
        })
    }

    /// What the relay of `call` leads to now.
    pub fn relayed(&self, call: &str) -> Option<DescRoutine> {
        match call {
            "read" => self.read.plugged(),
            "write" => self.write.plugged(),
            _ => None,
        }
    }
}
