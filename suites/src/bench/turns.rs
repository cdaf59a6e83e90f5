//! Machines that take turns: all are booted, and a slice of the host's time goes to one group after the other
//! until all have ended.
//!
//! *Interface*: `Group` says which machines run side by side; `run` boots all groups and gives what became of
//! each; who is ahead of another, as the caller counts what was printed, has no turn. A machine that stands
//! still does not notice: its clock and its time-stamp counter stand still, too. So groups whose figures are
//! compared have the same host, however its speed changes from second to second.

use super::guest;
use crate::qmp::{Answer, CONT, Monitor, STOP};
use std::time::{Duration, Instant};
use xtask::failure::Result;
use xtask::machine::{Kept, Machine, Running, Status};

/// How long QEMU may take to answer, and to end after the guest has.
const PATIENCE: Duration = Duration::from_secs(20);

/// Machines that run side by side.
pub struct Group {
    /// The machines to boot, with `Machine::monitor`, each with its root archive.
    pub machines: Vec<(Machine, std::rc::Rc<Vec<u8>>)>,
}

/// The outcome of a group.
pub struct Ended {
    /// The output of each machine.
    pub printed: std::result::Result<Vec<String>, Trouble>,
    /// The output of each until then, whatever the outcome.
    pub until: Vec<String>,
    /// Processor time, and the time of the slices in which it was used, seconds; of slices that all its
    /// machines saw the end of.
    pub processor: (f64, f64),
}

/// Why a group has no figures; all its machines were ended then.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Trouble {
    /// Which of its machines.
    pub machine: usize,
    /// The failure, in words.
    pub what: String,
}

/// Runs all groups in slices of this length until each has ended. One that has had `limit` and has not is
/// ended. `steps` counts how far a machine is by what it has printed; only groups behind which nobody is have
/// a slice.
///
/// # Errors
/// Host failure when a machine cannot be booted.
pub fn run(
    groups: &[Group],
    slice: Duration,
    limit: Duration,
    steps: fn(&str) -> usize,
) -> Result<Vec<Ended>> {
    let mut running: Vec<_> = groups.iter().map(Turner::boot).collect::<Result<_>>()?;
    for number in 0.. {
        let far: Vec<_> = running.iter().map(|turner| turner.far(steps)).collect();
        let turn = turn(number, &last(&far));
        if turn.is_empty() {
            break;
        }
        for at in turn {
            running[at].run(slice, limit);
        }
    }
    Ok(running.into_iter().map(Turner::ended).collect())
}

/// The living machines that are not ahead of another.
fn last(far: &[Option<usize>]) -> Vec<bool> {
    let least = far.iter().flatten().min();
    far.iter()
        .map(|far| far.is_some() && far.as_ref() == least)
        .collect()
}

/// The machines with a slice in this turn, in order: the living ones, forwards and backwards in turn, so that
/// none always follows the same one.
fn turn(number: usize, alive: &[bool]) -> Vec<usize> {
    let forwards = (0..alive.len()).filter(|at| alive[*at]);
    match number % 2 {
        0 => forwards.collect(),
        _ => forwards.rev().collect(),
    }
}

/// A machine of a group.
struct Boot {
    /// Until it has ended.
    running: Option<Running>,
    monitor: Monitor,
    output: Kept,
}

impl Boot {
    fn new(machine: &Machine, archive: &[u8]) -> Result<Self> {
        let output = Kept::default();
        let mut running = guest::start(machine, archive, output.clone())?;
        let socket = running.monitor().expect("it was asked for");
        Ok(Self {
            monitor: Monitor::greet(socket, PATIENCE)?,
            running: Some(running),
            output,
        })
    }

    fn printed(&self) -> String {
        String::from_utf8_lossy(&self.output.bytes()).into_owned()
    }

    /// Takes the answer to a command.
    fn answer(&mut self) -> std::result::Result<(), String> {
        match self.monitor.answer() {
            Ok(Answer::Done) => Ok(()),
            Ok(Answer::Ended) => {
                let running = self.running.take().expect("it was alive");
                let outcome = running.wait(Some(PATIENCE));
                match outcome.status {
                    Status::Exit(0) => Ok(()),
                    status => Err(format!("ended with {status:?} {}", outcome.report.trim())),
                }
            }
            Err(failure) => Err(failure.message),
        }
    }
}

/// A group while it runs.
struct Turner {
    boots: Vec<Boot>,
    /// Time of all its slices.
    given: Duration,
    processor: (f64, f64),
    trouble: Option<Trouble>,
}

impl Turner {
    fn boot(group: &Group) -> Result<Self> {
        let boot =
            |(machine, archive): &(Machine, std::rc::Rc<Vec<u8>>)| Boot::new(machine, archive);
        Ok(Self {
            boots: group.machines.iter().map(boot).collect::<Result<_>>()?,
            given: Duration::ZERO,
            processor: (0.0, 0.0),
            trouble: None,
        })
    }

    /// How many steps its machines have made, the slowest of them; none when all have ended.
    fn far(&self, steps: fn(&str) -> usize) -> Option<usize> {
        let living = self.boots.iter().filter(|boot| boot.running.is_some());
        living.map(|boot| steps(&boot.printed())).min()
    }

    fn living(&self) -> usize {
        let living = self.boots.iter().filter(|boot| boot.running.is_some());
        living.count()
    }

    /// One slice.
    fn run(&mut self, slice: Duration, limit: Duration) {
        let (start, before) = (Instant::now(), self.processor());
        let result = self.tell(CONT).and_then(|()| {
            std::thread::sleep(slice);
            self.tell(STOP)
        });
        self.given += start.elapsed();
        if self.living() == self.boots.len() {
            self.processor.0 += self.processor() - before;
            self.processor.1 += start.elapsed().as_secs_f64();
        }
        // A complaint says more than the status that comes of it.
        let result = self.complaint().and(result);
        let result = result.and_then(|()| self.late(limit));
        if let Err(trouble) = result {
            self.trouble = Some(trouble);
            for boot in &mut self.boots {
                boot.running = None;
            }
        }
    }

    /// A command for all that live; nobody's answer is waited for before all have been told.
    fn tell(&mut self, command: &str) -> std::result::Result<(), Trouble> {
        let living = |(_, boot): &(usize, &mut Boot)| boot.running.is_some();
        let mut living: Vec<_> = self.boots.iter_mut().enumerate().filter(living).collect();
        for (machine, boot) in &mut living {
            let sent = boot.monitor.send(command);
            sent.map_err(|failure| trouble(*machine, failure.message))?;
        }
        for (machine, boot) in living {
            boot.answer().map_err(|what| trouble(machine, what))?;
        }
        Ok(())
    }

    /// An error if a program has complained.
    fn complaint(&self) -> std::result::Result<(), Trouble> {
        for (machine, boot) in self.boots.iter().enumerate() {
            if let Some(line) = failed(&boot.printed()) {
                return Err(trouble(machine, format!("printed `{line}`")));
            }
        }
        Ok(())
    }

    /// Whether a machine has not ended within the limit.
    fn late(&self, limit: Duration) -> std::result::Result<(), Trouble> {
        let lives = |boot: &Boot| boot.running.is_some();
        match self.boots.iter().position(lives) {
            Some(machine) if self.given >= limit => {
                let what = format!("did not end within {} s", limit.as_secs());
                Err(trouble(machine, what))
            }
            _ => Ok(()),
        }
    }

    fn processor(&self) -> f64 {
        let running = self.boots.iter().filter_map(|boot| boot.running.as_ref());
        running.map(Running::processor_seconds).sum()
    }

    fn ended(self) -> Ended {
        Ended {
            until: self.boots.iter().map(Boot::printed).collect(),
            printed: match self.trouble {
                Some(trouble) => Err(trouble),
                None => Ok(self.boots.iter().map(Boot::printed).collect()),
            },
            processor: self.processor,
        }
    }
}

fn trouble(machine: usize, what: String) -> Trouble {
    Trouble { machine, what }
}

/// The line with which a program says that something failed.
fn failed(printed: &str) -> Option<String> {
    let mut lines = printed.lines();
    lines
        .find(|line| line.starts_with("fail "))
        .map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn turns_go_forwards_and_backwards_among_those_who_live() {
        assert_eq!(turn(0, &[true; 4]), [0, 1, 2, 3]);
        assert_eq!(turn(1, &[true; 4]), [3, 2, 1, 0]);
        assert_eq!(turn(2, &[true, false, true, true]), [0, 2, 3]);
        assert_eq!(turn(3, &[true, false, true, true]), [3, 2, 0]);
        assert!(turn(4, &[false; 4]).is_empty());
        assert!(turn(5, &[]).is_empty());
    }

    #[test]
    fn who_is_ahead_waits_for_who_lives() {
        assert_eq!(last(&[Some(2), Some(1), None]), [false, true, false]);
        assert_eq!(last(&[Some(2), None, Some(2)]), [true, false, true]);
        assert_eq!(last(&[None; 2]), [false; 2]);
    }

    #[test]
    fn in_two_turns_everybody_waits_equally_long_on_average() {
        // The middle of a group's two slices, as in a host that grows faster steadily.
        for at in 0..6 {
            let place = |number| turn(number, &[true; 6]).iter().position(|who| *who == at);
            assert_eq!(place(0).expect("a slice") + place(1).expect("a slice"), 5);
        }
    }

    #[test]
    fn a_programs_complaint_is_found() {
        assert_eq!(
            failed("sample pipes 1\nfail pread\n").as_deref(),
            Some("fail pread")
        );
        assert_eq!(failed("sample fail 1\nit did not fail \n"), None);
    }
}
