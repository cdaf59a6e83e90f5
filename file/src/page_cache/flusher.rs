//! The flusher: the thread that writes back pages that have been dirty for a while.
//!
//! *Interface*: [`start`] makes it, at boot; [`soon`] is called when a page becomes dirty.
//!
//! While no page is dirty it sleeps, and no alarm is set. The first page that becomes dirty sets an alarm for
//! [`AGE_NS`] later; then all dirty pages are stored, and if there are still, or again, dirty pages, the next
//! alarm is set. When more than half of the limit is dirty, the thread does not wait for the alarm.

use abi::errno::{Errno, Result};
use core::sync::atomic::{AtomicBool, Ordering};
use machine::clock::now_ns;
use sync::WaitList;

use super::{dirty, index, most_dirty};

/// So long a page may be dirty before it is stored, about, in nanoseconds.
const AGE_NS: u64 = 5_000_000_000;

/// There is a thread.
static STARTED: AtomicBool = AtomicBool::new(false);
/// The alarm is set.
static SET: AtomicBool = AtomicBool::new(false);
/// It is time.
static DUE: AtomicBool = AtomicBool::new(false);
static WRITER: WaitList = WaitList::new();

/// Makes the thread. ENOMEM.
pub fn start() -> Result<()> {
    thread::spawn(b"pages", run, 0).map_err(|_| Errno::ENOMEM)?;
    STARTED.store(true, Ordering::SeqCst);
    Ok(())
}

/// A page has become dirty.
pub(super) fn soon() {
    if !STARTED.load(Ordering::Relaxed) {
        return;
    }
    if dirty() > most_dirty() / 2 && !DUE.load(Ordering::Relaxed) {
        ring(0);
    }
    if SET.load(Ordering::Relaxed) || SET.swap(true, Ordering::SeqCst) {
        return;
    }
    if thread::clock::alarm(now_ns().saturating_add(AGE_NS), ring, 0).is_err() {
        ring(0);
    }
}

/// The alarm.
fn ring(_: usize) {
    DUE.store(true, Ordering::SeqCst);
    WRITER.wake_all();
}

fn run(_: usize) {
    loop {
        thread::safe_point();
        WRITER.wait_until(|| {
            thread::safe_point();
            DUE.swap(false, Ordering::SeqCst).then_some(())
        });
        SET.store(false, Ordering::SeqCst);
        index::flush_all(None);
        if dirty() > 0 {
            soon();
        }
    }
}
