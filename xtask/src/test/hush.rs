//! Ends a machine in which nothing happens any more: a wake-up was lost there, and waiting for the end of its time would tell no more.
//!
//! *Interface*: [`Watch::start`], [`Watch::end`].

use crate::machine::{Handle, Kept};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Silence that is enough, if the machine computes nothing either.
const SILENCE: Duration = Duration::from_secs(20);
/// Processor time in that, seconds, that an idle machine does not need. One that computes gets more even on a busy host.
const IDLE: f64 = 1.5;
/// From look to look.
const STEP: Duration = Duration::from_millis(500);
/// What ends the machine: as a time limit does.
const SIGNAL: i32 = 14;

/// A machine that is being watched.
pub struct Watch {
    over: Sender<()>,
    watcher: JoinHandle<bool>,
}

impl Watch {
    /// Watches the machine of `handle`, which writes to `output`.
    pub fn start(handle: Handle, output: Kept) -> Watch {
        let (over, ends) = channel();
        let watcher = std::thread::spawn(move || watch(&handle, &output, &ends));
        Watch { over, watcher }
    }

    /// The machine has ended; whether it was ended from here.
    pub fn end(self) -> bool {
        // It may have ended the machine and be gone.
        let _ = self.over.send(());
        self.watcher.join().unwrap_or(false)
    }
}

fn watch(handle: &Handle, output: &Kept, over: &Receiver<()>) -> bool {
    let mut said = 0;
    let mut used = handle.processor_seconds();
    let mut since = Instant::now();
    while let Err(RecvTimeoutError::Timeout) = over.recv_timeout(STEP) {
        let (says, uses) = (output.count(), handle.processor_seconds());
        if says != said || uses - used > IDLE {
            (said, used, since) = (says, uses, Instant::now());
        } else if since.elapsed() > SILENCE {
            handle.interrupt(SIGNAL);
            return true;
        }
    }
    false
}
