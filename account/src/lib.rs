//! Identities, capabilities, and the resources that each user holds.
//!
//! *Interface*: [`Cred`] is one identity with its [`capability`] sets; [`user`] counts what a user holds and
//! [`quota`] bounds it; [`caller`] is the running process. Nothing here knows a process or a file: an object
//! with an identity keeps a `Cred` and asks it.
#![cfg_attr(not(test), no_std)]
// Every action of a program is answered by a value, never by a panic.

extern crate alloc;

pub mod caller;
pub mod capability;
pub mod cred;
pub mod quota;
pub mod user;

pub use capability::Capability;
pub use cred::{Cred, CredId, NOBODY};
pub use user::User;
