//! The control characters of a terminal: a Switch from the editor's requests to the terminal's services.
//!
//! *Interface*: [`link_services`] once for a terminal; its switch is then given the number of a `Control`.
//!
//! Source: Massalin and Pu 1989, section 2.3 (switches direct interrupts to the appropriate service
//! routines).
//!
//! *Unsafe*: targets of links.

use abi::linux::{NOFLSH, SIGINT, SIGQUIT, SIGTSTP, TIOCPKT_FLUSHREAD, TIOCPKT_FLUSHWRITE};
use alloc::sync::Arc;
use quaject::RoutineError;
use quaject::class::Ref;
use quaject::interfacer::{Function, link};
use quaject::switch::{BY_NUMBER, Switch};

use super::Tty;
use quaject::cook_tty_in::Control;

/// A service: its name in listings and its code, which gets the terminal.
type Service = (Control, &'static &'static str, extern "sysv64" fn(usize));

const SERVICES: [Service; 5] = [
    (Control::Interrupt, &"interrupt", interrupt),
    (Control::Quit, &"quit", quit),
    (Control::Suspend, &"suspend", suspend),
    (Control::Stop, &"hold output", hold),
    (Control::Start, &"release output", release),
];

/// Links the cases of `switch` to the services of `tty`, which owns it.
///
/// # Errors
/// [`RoutineError`].
pub(super) fn link_services(switch: &Ref<Switch>, tty: &Arc<Tty>) -> Result<(), RoutineError> {
    let this = Arc::as_ptr(tty).expose_provenance();
    for (control, name, service) in SERVICES {
        let case = BY_NUMBER[control as usize];
        link(switch, case, Function::event(name, service, this))?;
    }
    Ok(())
}

fn tty(this: usize) -> &'static Tty {
    let tty: *const Tty = core::ptr::with_exposed_provenance(this);
    // SAFETY: the links pass the terminal that owns the switch, and it alone calls it.
    unsafe { &*tty }
}

/// Typed bytes are flushed, unless the settings keep it; a master that reads packets is told.
fn signal(this: usize, number: i32) {
    let tty = tty(this);
    if let Some(pair) = &tty.pair
        && tty.settings().lflag & NOFLSH == 0
    {
        pair.tell(0, TIOCPKT_FLUSHREAD | TIOCPKT_FLUSHWRITE);
    }
    tty.signal_foreground(number);
}

extern "sysv64" fn interrupt(this: usize) {
    signal(this, SIGINT);
}

extern "sysv64" fn quit(this: usize) {
    signal(this, SIGQUIT);
}

extern "sysv64" fn suspend(this: usize) {
    signal(this, SIGTSTP);
}

extern "sysv64" fn hold(this: usize) {
    tty(this).replug();
    tty(this).tell_held(true);
}

extern "sysv64" fn release(this: usize) {
    tty(this).replug();
    tty(this).tell_held(false);
    tty(this).released.wake_all();
}
