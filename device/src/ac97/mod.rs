//! The driver for sound cards with Intel's AC97 interface.
//!
//! *Interface*: [`Ac97::of_function`] is for the bus. Between the card and the handler are 32 buffers in each
//! direction, which the card walks along by itself; it stops behind the last one that was filled.
//!
//! Source: Intel ICH AC'97 (document 252751).

mod channel;
mod codec;

use crate::Unusable;
use crate::error::DeviceError;
use crate::interrupt::Asks;
use crate::pci::Function;
use crate::ports::Ports;
use crate::sound::{CardDriver, DIRECTIONS, Direction, Pace, ServedDirection};
use alloc::sync::Arc;
use channel::Channel;
use codec::Codec;
use quaject::assembly::Assembly;
use vm::fallible::try_arc;

/// Vendor and device number.
pub const ID: (u16, u16) = (0x8086, 0x2415);

/// Frames that a card may have taken and not sounded yet.
const BEHIND: u32 = 1024;

/// How often a register is asked whether it is ready.
const PATIENCE: usize = 10_000;

/// Registers of the bus master: a channel each, and those of all.
const INPUT: u16 = 0;
const OUTPUT: u16 = 0x10;
const GLOBAL_CONTROL: u16 = 0x2c;
const GLOBAL_STATUS: u16 = 0x30;
const ACCESS: u16 = 0x34;
const MASTER_LEN: u16 = 64;
const MIXER_LEN: u16 = 256;

/// Global control: out of reset.
const ALIVE: u32 = 2;
/// Global status: the codec answers; input or output interrupts.
const CODEC: u32 = 1 << 8;
const INTERRUPTS: i32 = 3 << 5;

/// A card's registers.
pub struct Ac97 {
    rate: u32,
    /// The port that says whether it interrupts.
    status: u16,
    channels: [Channel; DIRECTIONS],
}

impl Ac97 {
    /// The card behind `function`, reset and silent.
    ///
    /// # Errors
    /// [`Unusable`].
    pub fn of_function(function: &Function) -> Result<Arc<Ac97>, Unusable> {
        let codec = Codec {
            mixer: function.ports(0, MIXER_LEN)?,
            master: function.ports(1, MASTER_LEN)?,
        };
        function.enable_ports();
        try_arc(Ac97::new(codec, function.board())?).map_err(|_| Unusable::Resources)
    }

    /// How a line is asked whether it interrupts.
    pub fn asks(&self) -> Asks {
        Asks::Port {
            status: self.status,
            mask: INTERRUPTS,
        }
    }

    /// The card of `codec`.
    fn new(codec: Codec, board: u16) -> Result<Ac97, Unusable> {
        let master = codec.master;
        master.write32(GLOBAL_CONTROL, ALIVE);
        let mut tries = (0..PATIENCE).map(|_| master.read32(GLOBAL_STATUS));
        match tries.find(|status| status & CODEC != 0) {
            None | Some(u32::MAX) => return Err(DeviceError::Gone.into()),
            Some(_) => {}
        }
        let channel = |way, at| {
            let ports: Ports = master.part(at, channel::LEN).ok_or(DeviceError::Fit)?;
            let channel = Channel::new(way, ports)?;
            channel.reset()?;
            Ok::<_, Unusable>(channel)
        };
        Ok(Ac97 {
            rate: codec.start(board)?,
            status: master.at(GLOBAL_STATUS),
            channels: [
                channel(Direction::Out, OUTPUT)?,
                channel(Direction::In, INPUT)?,
            ],
        })
    }

    fn channel(&self, way: Direction) -> &Channel {
        &self.channels[way as usize]
    }
}

impl CardDriver for Ac97 {
    fn kind(&self) -> &'static str {
        "AC97"
    }

    fn rate(&self) -> u32 {
        self.rate
    }

    fn behind(&self) -> u32 {
        BEHIND
    }

    fn has(&self, _: Direction) -> bool {
        true
    }

    fn begin(&self, way: Direction, pace: Pace) -> Result<(), DeviceError> {
        self.channel(way).begin(pace)
    }

    fn go(&self, way: Direction) {
        self.channel(way).go();
    }

    fn end(&self, way: Direction) {
        self.channel(way).end();
    }

    fn passed(&self, way: Direction) -> u64 {
        self.channel(way).passed()
    }

    fn in_hand(&self, pace: Pace) -> u64 {
        self.channel(Direction::Out).in_hand(pace)
    }

    fn emit(&self, a: &mut Assembly, served: [Option<ServedDirection>; DIRECTIONS]) {
        for (channel, served) in self.channels.iter().zip(served) {
            if let Some(served) = served {
                channel.emit(a, served);
            }
        }
    }
}

#[cfg(test)]
mod tests;
