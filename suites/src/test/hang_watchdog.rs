//! A watchdog: ends a guest that hangs or has already failed, where one failed check is enough.
//!
//! *Interface*: [`Watch::start`], [`Watch::end`]; a [`Look`] says why, before a machine is ended; a
//! [`Patience`] says when a machine hangs, and a [`Longest`] how long one was silent that does not.

use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use xtask::machine::{Handle, Kept};

/// Processor time in twenty seconds, seconds, that an idle machine does not need. One that computes gets more
/// even on a busy host.
const IDLE: f64 = 1.5;
/// The part of its silence for which an idle machine, all its processors together, would have run at most if
/// it had been let.
const WANTED: f64 = 0.5;
/// From look to look.
const STEP: Duration = Duration::from_millis(250);
/// So long before the machine's time is over it is looked at.
const BEFORE: Duration = Duration::from_secs(2);
/// The end of the machine, as by a time limit.
const SIGNAL: i32 = 14;

/// Looks at a machine that hangs or has had its time, and says what it sees.
pub type Look = Box<dyn FnOnce() -> String + Send>;

/// When a machine that says nothing hangs.
#[derive(Clone, Copy, Debug)]
pub struct Patience {
    /// It computes nothing, for so long: a wake-up was lost there.
    pub idle: Duration,
    /// It computes, and has done so for so many seconds of processor time.
    pub computing: f64,
    /// In all, seconds of processor time.
    pub whole: f64,
    /// One failed check is enough.
    pub hasty: bool,
    /// By the clock, after which somebody else ends it.
    pub limit: Duration,
}

impl Default for Patience {
    fn default() -> Self {
        Patience {
            idle: Duration::from_secs(20),
            computing: f64::INFINITY,
            whole: f64::INFINITY,
            hasty: false,
            limit: Duration::MAX,
        }
    }
}

/// The longest that a machine said nothing, and ran.
#[derive(Clone, Copy, Debug, Default)]
pub struct Longest {
    /// By the clock.
    pub silence: Duration,
    /// In processor time, seconds.
    pub computing: f64,
    /// All its processor time, seconds.
    pub whole: f64,
}

impl Longest {
    /// Of both the longer.
    pub fn or(self, other: Longest) -> Longest {
        Longest {
            silence: self.silence.max(other.silence),
            computing: self.computing.max(other.computing),
            whole: self.whole.max(other.whole),
        }
    }
}

/// The observation of a machine.
#[derive(Clone, Debug, Default)]
pub struct Seen {
    /// It was ended because nothing happened any more, or too much.
    pub hung: bool,
    /// How long it was silent, and ran.
    pub longest: Longest,
    /// The findings of the look at it, if there was one.
    pub evidence: String,
}

/// A machine that is being watched.
pub struct Watch {
    over: Sender<()>,
    watcher: JoinHandle<Seen>,
}

impl Watch {
    /// Watches the machine of `handle`, which writes to `output`.
    pub fn start(handle: Handle, output: Kept, patience: Patience, look: Option<Look>) -> Watch {
        let (over, ends) = channel();
        let watcher = std::thread::spawn(move || watch(&handle, &output, patience, look, &ends));
        Watch { over, watcher }
    }

    /// The machine has ended; what was seen of it.
    pub fn end(self) -> Seen {
        // It may have ended the machine and be gone.
        let _ = self.over.send(());
        self.watcher.join().unwrap_or_default()
    }
}

fn watch(
    handle: &Handle,
    output: &Kept,
    patience: Patience,
    mut look: Option<Look>,
    over: &Receiver<()>,
) -> Seen {
    let start = Instant::now();
    let mut seen = Seen::default();
    let mut said = 0;
    let (mut word, mut idle) = (Moment::now(handle), Moment::now(handle));
    while let Err(RecvTimeoutError::Timeout) = over.recv_timeout(STEP) {
        let now = Moment::now(handle);
        seen.longest.whole = seen.longest.whole.max(now.used);
        if output.count() != said {
            said = output.count();
            (word, idle) = (now, now);
            if patience.hasty && has_failed(&output.bytes()) {
                handle.interrupt(SIGNAL);
                return seen;
            }
        }
        seen.longest = seen.longest.or(Longest {
            silence: now.since(&word),
            computing: now.used - word.used,
            whole: now.used,
        });
        let part = patience.idle.as_secs_f64() / 20.0;
        if now.used - idle.used > IDLE * part {
            idle = now;
        }
        let stands = now.since(&idle) > patience.idle
            && now.wanted - idle.wanted < WANTED * now.since(&idle).as_secs_f64();
        let ends = stands || now.used - word.used > patience.computing || now.used > patience.whole;
        if (ends || start.elapsed() > patience.limit.saturating_sub(BEFORE))
            && let Some(look) = look.take()
        {
            seen.evidence = look();
        }
        if ends {
            handle.interrupt(SIGNAL);
            seen.hung = true;
            return seen;
        }
    }
    seen
}

/// A machine's time so far.
#[derive(Clone, Copy)]
struct Moment {
    at: Instant,
    /// Processor time, seconds.
    used: f64,
    /// The same on a host with nothing else to do.
    wanted: f64,
}

impl Moment {
    fn now(handle: &Handle) -> Moment {
        Moment {
            at: Instant::now(),
            used: handle.processor_seconds(),
            wanted: handle.wanted_seconds(),
        }
    }

    fn since(&self, earlier: &Moment) -> Duration {
        self.at - earlier.at
    }
}

/// Whether a check has failed and, if it says why, has said so: the line behind it has come.
fn has_failed(output: &[u8]) -> bool {
    let text = String::from_utf8_lossy(output);
    let whole = text.rsplit_once('\n').map_or("", |(whole, _)| whole);
    let mut lines = whole
        .lines()
        .skip_while(|line| !line.starts_with("not ok "));
    lines.next().is_some() && lines.next().is_some()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_check_has_failed_when_its_reason_is_there() {
        assert!(!has_failed(b"ok 1 a\nok 2 b\n"));
        assert!(!has_failed(b"ok 1 a\nnot ok 2 b\n# got"));
        assert!(has_failed(b"ok 1 a\nnot ok 2 b\n# got 1\n"));
        assert!(has_failed(b"not ok 1 a\nok 2 b\n"));
        assert!(!has_failed(b""));
    }
}
