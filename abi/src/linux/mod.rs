//! Structures and flags of the Linux x86-64 ABI, one file a family, re-exported flat.
//!
//! Every structure is `repr(C)` without hidden padding and derives
//! `bytemuck::Pod`, so that it may be copied to and from user memory as bytes.

macro_rules! constants {
    ($type:ty: $($name:ident = $value:expr),* $(,)?) => {
        $(#[allow(missing_docs)] pub const $name: $type = $value;)*
    };
}

macro_rules! plain {
    ($($(#[$meta:meta])* pub struct $name:ident { $($(#[$fmeta:meta])* pub $field:ident: $type:ty,)* })*) => {
        $(
            $(#[$meta])*
            #[allow(missing_docs)]
            #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, bytemuck::Pod, bytemuck::Zeroable)]
            #[repr(C)]
            pub struct $name { $($(#[$fmeta])* pub $field: $type,)* }
        )*
    };
}

mod file;
mod internet;
mod ipc;
mod memory;
mod netlink;
mod poll;
mod process;
mod signal;
mod socket;
mod sound;
mod system;
mod termios;
mod time;
mod trace;

pub use file::*;
pub use internet::*;
pub use ipc::*;
pub use memory::*;
pub use netlink::*;
pub use poll::*;
pub use process::*;
pub use signal::*;
pub use socket::*;
pub use sound::*;
pub use system::*;
pub use termios::*;
pub use time::*;
pub use trace::*;
