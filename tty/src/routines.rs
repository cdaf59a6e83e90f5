//! The generated code of a terminal: one routine to read and one to write, for the settings as they are; of a
//! pseudo-terminal, two more for its master.
//!
//! *Interface*: [`TtyRoutines::new`]; [`TtyRoutines::replug`] whenever what [`RoutineConditions`] tells
//! changes. Every descriptor of the terminal has the same two relays in its tables, so a change is one word
//! for each, whoever has the terminal open.
//!
//! Quasi-invariants, with their guards: the settings (`TCSETS` replugs), output that goes on (`^S`, `^Q` and
//! `TCXONC` replug), `TOSTOP` off (`TCSETS`), a master that is there (its close replugs) and is in no packet
//! mode (`TIOCPKT`). The foreground group is a word that the reading routine looks at.
//!
//! Source: dissertation, sections 3.2 and 4.4.2; quasi-invariants after Pu et al. 1995.

use abi::errno::{Errno, Result};
use abi::linux::{TOSTOP, Termios, VMIN, VTIME};
use abi::nr;
use alloc::sync::Arc;
use quaject::composed::{Composed, Recipe};
use quaject::cook_tty_in::{self, EditBuffer};
use quaject::cook_tty_out::{self, Rule};
use quaject::queue::{RawReadRecipe, Wakes};

use super::editor::Editor;
use super::output::TtyOutput;
use file::routine_env;
use file::{DescRoutine, DescRoutines};

/// A terminal's routines.
pub(super) struct TtyRoutines {
    typed: Arc<EditBuffer>,
    line: TtyOutput,
    own: Pair,
    /// Of a pseudo-terminal's master.
    master: Option<Pair>,
}

/// The routines that a descriptor of one side leads to.
struct Pair {
    read: Arc<Composed>,
    write: Arc<Composed>,
}

/// The conditions that the routines are made for, besides the settings.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct RoutineConditions {
    /// The output is held.
    pub held: bool,
    /// There is no master any more.
    pub gone: bool,
    /// The master reads packets.
    pub packets: bool,
}

impl Pair {
    fn new(read: &'static str, write: &'static str) -> Result<Pair> {
        let env = routine_env::get()?;
        let relay = |name, number| Composed::new(name, number, env).map_err(|_| Errno::ENOMEM);
        Ok(Pair {
            read: relay(read, nr::READ)?,
            write: relay(write, nr::WRITE)?,
        })
    }

    fn tables(&self) -> Result<DescRoutines> {
        Ok(DescRoutines {
            read: Some(self.read.routine().clone()),
            write: Some(self.write.routine().clone()),
            lseek: Some(routine_env::constants()?.no_seek.clone()),
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

/// Whether a reader waits, for ever, for a line or a byte.
fn waits_for_one(settings: &Termios) -> bool {
    cook_tty_in::in_lines(settings) || settings.cc[VMIN] == 1 && settings.cc[VTIME] == 0
}

fn follow(recipe: impl Recipe + 'static) -> Arc<dyn Recipe> {
    Arc::new(recipe)
}

impl TtyRoutines {
    /// Relays that lead to the slow exit. ENOMEM.
    pub fn new(typed: Arc<EditBuffer>, line: TtyOutput) -> Result<TtyRoutines> {
        let master = match line {
            TtyOutput::Serial(_) => None,
            TtyOutput::Master(_) => Some(Pair::new("master read", "master write")?),
        };
        Ok(TtyRoutines {
            typed,
            line,
            own: Pair::new("tty read", "tty write")?,
            master,
        })
    }

    /// Generates the routines for `settings` and `sort`.
    pub fn replug(&self, settings: &Termios, sort: RoutineConditions, editor: &Editor) {
        let Ok(env) = routine_env::get() else { return };
        let (input, output) = editor.ends();
        let read = (!sort.gone).then(|| {
            follow(cook_tty_in::TtyReadRecipe {
                typed: self.typed.clone(),
                from: input.clone(),
                mode: cook_tty_in::mode(settings),
                full: self.master.is_some(),
                // A reader whose master goes gets an error, which the slow way knows.
                patient: self.master.is_none() && waits_for_one(settings),
                env,
            })
        });
        let idle = sort.held || sort.gone || settings.lflag & TOSTOP != 0;
        let rule = Rule::of(settings.oflag).filter(|_| !idle);
        let wakes = match &self.line {
            TtyOutput::Serial(_) => Wakes::Nobody,
            TtyOutput::Master(channel) => Wakes::Channel(channel.clone()),
        };
        let write = rule.map(|rule| {
            follow(cook_tty_out::TtyWriteRecipe {
                from: output.clone(),
                wakes,
                rule,
                env,
            })
        });
        // Without room for code, calls take the slow exit.
        let _read = self.own.read.follow(read);
        let _write = self.own.write.follow(write);
        let (Some(master), TtyOutput::Master(channel)) = (&self.master, &self.line) else {
            return;
        };
        let read = (!sort.packets).then(|| {
            follow(RawReadRecipe {
                queue: channel.queue().clone(),
                wakes: Wakes::Channel(channel.clone()),
                env,
            })
        });
        let write = cook_tty_in::enters_plainly(settings).then(|| {
            follow(cook_tty_in::PtyWriteRecipe {
                typed: self.typed.clone(),
                entrance: editor.entrance().clone(),
                env,
            })
        });
        let _read = master.read.follow(read);
        let _write = master.write.follow(write);
    }

    fn pair(&self, master: bool) -> Option<&Pair> {
        if master {
            self.master.as_ref()
        } else {
            Some(&self.own)
        }
    }

    /// The routines for the tables of the terminal's descriptors, or of its master's.
    pub fn tables(&self, master: bool) -> Result<DescRoutines> {
        self.pair(master).ok_or(Errno::EINVAL)?.tables()
    }

    /// The routine that the relay of `call` leads to now.
    pub fn relayed(&self, call: &str, master: bool) -> Option<DescRoutine> {
        self.pair(master)?.relayed(call)
    }
}
