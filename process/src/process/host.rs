//! The names of the machine, its own and its domain's.
//!
//! *Interface*: [`name`], [`rename`].

use alloc::vec::Vec;
use sync::Monitor;

/// Bytes of the longest one.
pub const LONGEST: usize = 64;

/// Which name of the machine.
#[derive(Clone, Copy)]
pub enum Named {
    /// Its own.
    Host,
    /// Its domain's.
    Domain,
}

/// As they were set, by [`Named`].
static NAMES: Monitor<[Option<Vec<u8>>; 2]> = Monitor::new([None, None]);

/// A name of the machine.
#[expect(clippy::disallowed_methods, reason = "64 bytes at most")]
pub fn name(which: Named) -> Vec<u8> {
    // Bound: 64 bytes.
    let [host, domain] = &*NAMES.lock();
    let (set, usual): (_, &[u8]) = match which {
        Named::Host => (host, b"synthesis"),
        Named::Domain => (domain, b"(none)"),
    };
    set.as_deref().unwrap_or(usual).to_vec()
}

/// Sets a name, at most 64 bytes of it.
#[expect(clippy::disallowed_methods, reason = "64 bytes at most")]
pub fn rename(which: Named, name: &[u8]) {
    let name = name[..name.len().min(LONGEST)].to_vec();
    let [host, domain] = &mut *NAMES.lock();
    *match which {
        Named::Host => host,
        Named::Domain => domain,
    } = Some(name);
}
