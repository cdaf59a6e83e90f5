//! The way of a thread to another CPU: only that CPU puts it into its ring.
//!
//! *Interface*: [`send_home`]. `running::block` empties the inbox.

use crate::ring::per_cpu::local;
use crate::ring::reschedule_ipi;
use crate::tte::Tte;
use core::sync::atomic::Ordering;

/// Puts a thread into its home CPU's inbox, and interrupts that CPU when the inbox was empty.
pub(crate) fn send_home(tte: &Tte) {
    let home = tte.cpu();
    let inbox = &local(home).inbox;
    let mut head = inbox.load(Ordering::Relaxed);
    loop {
        tte.inbox_next.store(head, Ordering::Relaxed);
        match inbox.compare_exchange_weak(head, tte.as_ptr(), Ordering::Release, Ordering::Relaxed)
        {
            Ok(_) => break,
            Err(now) => head = now,
        }
    }
    if head.is_null() {
        reschedule_ipi::send(home);
    }
}
