//! The host name and the NIS domain name of the machine.
//!
//! *Interface*: [`names`], [`name`], [`rename`].

use alloc::vec::Vec;
use sync::Monitor;

/// Bytes of the longest one.
pub const LONGEST: usize = 64;

/// Which name of the machine.
#[derive(Clone, Copy)]
pub enum NodeOrDomain {
    /// Its own.
    Host,
    /// Its domain's.
    Domain,
}

/// As they were set, by [`NodeOrDomain`].
static NAMES: Monitor<[Option<Vec<u8>>; 2]> = Monitor::new([None, None]);

/// Shows the machine's own name and its domain's, at most [`LONGEST`] bytes each.
pub fn names<R>(show: impl FnOnce(&[u8], &[u8]) -> R) -> R {
    // Bound: 64 bytes each, copied.
    let [host, domain] = &*NAMES.lock();
    show(
        host.as_deref().unwrap_or(b"synthesis"),
        domain.as_deref().unwrap_or(b"(none)"),
    )
}

/// A name of the machine.
#[expect(clippy::disallowed_methods, reason = "64 bytes at most")]
pub fn name(which: NodeOrDomain) -> Vec<u8> {
    names(|host, domain| {
        match which {
            NodeOrDomain::Host => host,
            NodeOrDomain::Domain => domain,
        }
        .to_vec()
    })
}

/// Sets a name, at most 64 bytes of it.
#[expect(clippy::disallowed_methods, reason = "64 bytes at most")]
pub fn rename(which: NodeOrDomain, name: &[u8]) {
    let name = name[..name.len().min(LONGEST)].to_vec();
    let [host, domain] = &mut *NAMES.lock();
    *match which {
        NodeOrDomain::Host => host,
        NodeOrDomain::Domain => domain,
    } = Some(name);
}
