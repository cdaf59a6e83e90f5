//! Sound: players, recorders, and the mixing of what is played; the mixer itself is `quaject::mix`.
//!
//! *Interface*: [`client`] has a [`Player`](client::Player) and a [`Recorder`](client::Recorder) for each
//! program that plays or records; [`init`] at boot makes `/dev/speaker` and `/dev/mic` of them
//! ([`mod@file`]), and `/dev/cd`. [`card_clients`] knows all clients, and has the mixing routine generated
//! for exactly these.
//!
//! Source: dissertation, sections 3.3.3, 4.4.2 and 6.3.1.
#![cfg_attr(not(test), no_std)]
// Every action of a program is answered by a value, never by a panic.

extern crate alloc;

use abi::errno::Result;

pub mod card_clients;
mod cd;
pub mod client;
pub mod file;
pub mod oss;
pub mod stream;
mod syn_text;

/// Registers the devices, those of a card if there is one, at boot. ENOMEM.
pub fn init() -> Result<()> {
    if device::registry::sound(device::sound::NAME).is_some() {
        card_clients::start()?;
        ::file::gauge::link_sound(syn_text::show);
        file::register();
        oss::register();
    }
    cd::register();
    Ok(())
}
