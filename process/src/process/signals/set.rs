//! Sets of signals as 64-bit masks, and the default actions.
//!
//! *Interface*: [`bit`], the constant sets, [`default_action`].

use abi::linux::*;

/// The mask of one signal, 1 to 64; 0 for any other number.
pub const fn bit(signo: i32) -> u64 {
    if signo < 1 || signo > SIGMAX {
        0
    } else {
        1 << (signo - 1)
    }
}

/// Is this a signal's number?
pub const fn valid(signo: i32) -> bool {
    signo >= 1 && signo <= SIGMAX
}

/// Those that can be neither caught, blocked nor ignored.
pub const UNBLOCKABLE: u64 = bit(SIGKILL) | bit(SIGSTOP);
/// Those that stop a process by default.
pub const STOPPERS: u64 = bit(SIGSTOP) | bit(SIGTSTP) | bit(SIGTTIN) | bit(SIGTTOU);
/// Those that by default do nothing.
pub const IGNORED: u64 = bit(SIGCHLD) | bit(SIGURG) | bit(SIGWINCH) | bit(SIGCONT);
/// Those that an instruction causes, delivered before all others.
pub const SYNCHRONOUS: u64 =
    bit(SIGSEGV) | bit(SIGBUS) | bit(SIGILL) | bit(SIGTRAP) | bit(SIGFPE) | bit(SIGSYS);

/// The action without a handler.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DefaultAction {
    /// The process ends.
    Terminate,
    /// The process stops.
    Stop,
    /// Nothing, beyond what sending it did (SIGCONT).
    Ignore,
}

/// The default action of `signo`.
pub fn default_action(signo: i32) -> DefaultAction {
    if bit(signo) & IGNORED != 0 {
        DefaultAction::Ignore
    } else if bit(signo) & STOPPERS != 0 {
        DefaultAction::Stop
    } else {
        DefaultAction::Terminate
    }
}
