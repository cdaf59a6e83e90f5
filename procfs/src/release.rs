//! The release and version that `uname` and `/proc` tell.
//!
//! *Interface*: [`RELEASE`], [`VERSION`].

/// The Linux whose interface this is.
pub const RELEASE: &str = "6.1.0-synthesis";
/// The kernel's own version.
pub const VERSION: &str = concat!("Synthesis ", env!("CARGO_PKG_VERSION"));
