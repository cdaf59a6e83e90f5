//! Who asks: identities, capabilities, and what each user holds of the machine.
//!
//! *Interface*: [`Cred`] is one identity with its [`capability`] sets; [`user`] counts what a user holds and
//! [`quota`] bounds it; [`caller`] is whoever runs. Nothing here knows a process or a file: what has an
//! identity keeps it, and asks it.
#![cfg_attr(not(test), no_std)]
#![cfg_attr(test, allow(clippy::disallowed_methods, clippy::disallowed_macros))]
// Whatever a program does is answered by a value.
#![cfg_attr(
    not(test),
    deny(
        clippy::unwrap_used,
        clippy::expect_used,
        clippy::panic,
        clippy::unreachable,
        clippy::todo,
        clippy::unimplemented
    )
)]

extern crate alloc;

pub mod caller;
pub mod capability;
pub mod cred;
pub mod quota;
pub mod user;

pub use capability::Capability;
pub use cred::{Cred, NOBODY, Who};
pub use user::User;
