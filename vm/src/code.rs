//! The kernel's code space: pages at `CODE`, readable and executable there, written through `PHYS_MAP`.
//!
//! *Interface*: `SPACE` implements `codegen::CodeSpace`; `init` links it.
