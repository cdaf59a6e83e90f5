//! The driver for sound cards with Intel's High Definition Audio interface.
//!
//! *Interface*: [`Hda::of_function`] is for the bus. The card's codec is looked through for a way to play and
//! one to record ([`codec`]); each is a ring of frames that the card goes round by itself ([`stream`]).
//!
//! Source: High Definition Audio Specification 1.0a.

mod codec;
mod commands;
mod dma_memory;
mod format;
mod stream;

use crate::Unusable;
use crate::error::DeviceError;
use crate::interrupt::Asks;
use crate::pci::Function;
use crate::registers::Registers;
use crate::sound::{CardDriver, DIRECTIONS, Direction, Pace, ServedDirection};
use alloc::sync::Arc;
use codec::{Codec, Found};
use codegen::dynasm;
use commands::Commands;
use quaject::assembly::Assembly;
use stream::Stream;
use vm::fallible::try_arc;

/// Base class and subclass of such a function.
pub const CLASS: (u8, u8) = (4, 3);

/// How often a register is asked whether it is ready.
const PATIENCE: usize = 10_000;

/// Frames that a card may have taken and not sounded yet: what waits in a codec, and in a host behind it.
const BEHIND: u32 = 2048;

/// Registers that are mapped: those of the card, and of as many streams as there can be.
const REGISTERS_LEN: u32 = 0x80 + 30 * stream::LEN as u32;

/// Registers.
const ABILITIES: usize = 0;
const CONTROL: usize = 8;
const WAKES: usize = 0xc;
const CODECS: usize = 0xe;
const INTERRUPT_CONTROL: usize = 0x20;
const INTERRUPT_STATUS: usize = 0x24;
const STREAMS: usize = 0x80;

/// Control: out of reset.
const ALIVE: u32 = 1;
/// Interrupt control: any at all.
const ALL: u32 = 1 << 31;

/// The tags of both streams, output first.
const TAGS: [u8; DIRECTIONS] = [1, 2];

/// Asks up to `times` whether something is so.
///
/// # Errors
/// [`DeviceError::Gone`]: it never is.
fn soon(times: usize, is: impl Fn() -> bool) -> Result<(), DeviceError> {
    match (0..times).any(|_| is()) {
        true => Ok(()),
        false => Err(DeviceError::Gone),
    }
}

/// A card's registers and streams.
pub struct Hda {
    rate: u32,
    streams: [Option<Stream>; DIRECTIONS],
    /// The addresses of interrupt control and status, for generated code, and the streams' bits there.
    control: i32,
    status: i32,
    bits: [u32; DIRECTIONS],
}

impl Hda {
    /// The card behind `function`, reset and silent.
    ///
    /// # Errors
    /// [`Unusable`].
    pub fn of_function(function: &Function) -> Result<Arc<Hda>, Unusable> {
        let registers = function.registers(0, 0, REGISTERS_LEN)?;
        try_arc(Hda::new(registers)?).map_err(|_| Unusable::Resources)
    }

    /// How a line is asked whether it interrupts.
    pub fn asks(&self) -> Asks {
        Asks::Word {
            status: self.status,
            mask: self.mask() as i32,
        }
    }

    /// The bits of the streams that there are.
    fn mask(&self) -> u32 {
        let [output, input] = self.bits;
        output | input
    }

    /// The card with these registers.
    fn new(registers: Registers) -> Result<Hda, Unusable> {
        reset(registers)?;
        let found = open(registers)?;
        let abilities = registers.read::<u16>(ABILITIES);
        let (inputs, outputs) = (abilities >> 8 & 0xf, abilities >> 12);
        // Streams of inputs come first.
        let places = [
            (outputs > 0).then_some(inputs),
            (inputs > 0 && found.input.is_some()).then_some(0),
        ];
        let format = format::format(found.rate).ok_or(DeviceError::Fit)?;
        let (mut streams, mut bits) = ([None, None], [0; DIRECTIONS]);
        for way in Direction::ALL {
            let which = way as usize;
            let Some(place) = places[which] else { continue };
            let at = STREAMS + usize::from(place) * stream::LEN;
            let part = registers.part(at, stream::LEN).ok_or(DeviceError::Fit)?;
            let stream = Stream::new(way, part, TAGS[which], format)?;
            stream.reset()?;
            streams[which] = Some(stream);
            bits[which] = 1 << place;
        }
        if streams[Direction::Out as usize].is_none() {
            return Err(DeviceError::Fit.into());
        }
        let near = |at| registers.address(at, 4).ok_or(DeviceError::Fit);
        let card = Hda {
            rate: found.rate,
            streams,
            control: near(INTERRUPT_CONTROL)?,
            status: near(INTERRUPT_STATUS)?,
            bits,
        };
        registers.write(INTERRUPT_CONTROL, ALL | card.mask());
        Ok(card)
    }

    fn stream(&self, way: Direction) -> Option<&Stream> {
        self.streams[way as usize].as_ref()
    }
}

/// Resets the card and its codecs.
fn reset(registers: Registers) -> Result<(), DeviceError> {
    let alive = || registers.read::<u32>(CONTROL) & ALIVE != 0;
    registers.write(CONTROL, 0u32);
    soon(PATIENCE, || !alive())?;
    // Both states have to last for a tenth of a millisecond; a look takes a tenth of a microsecond at least.
    let _lasts = soon(PATIENCE / 10, || false);
    registers.write(CONTROL, ALIVE);
    soon(PATIENCE, || {
        alive() && registers.read::<u32>(CONTROL) != u32::MAX
    })?;
    registers.write(WAKES, 0u16);
    registers.write(INTERRUPT_CONTROL, 0u32);
    soon(PATIENCE, || registers.read::<u16>(CODECS) != 0)?;
    // Others may come a moment later than the first.
    let _later = soon(PATIENCE / 10, || registers.read::<u16>(CODECS) == u16::MAX);
    Ok(())
}

/// Opens the ways of the first codec that can play.
fn open(registers: Registers) -> Result<Found, Unusable> {
    let mut commands = Commands::new(registers)?;
    let codecs = registers.read::<u16>(CODECS);
    for address in (0..15).filter(|address| codecs & 1 << address != 0) {
        let Some(mut codec) = Codec::new(&mut commands, address)? else {
            continue;
        };
        if let Some(found) = codec::find(&mut codec)? {
            let [output, input] = TAGS;
            found.set(&mut codec, output, input)?;
            return Ok(found);
        }
    }
    Err(DeviceError::Fit.into())
}

impl CardDriver for Hda {
    fn kind(&self) -> &'static str {
        "HDA"
    }

    fn rate(&self) -> u32 {
        self.rate
    }

    fn behind(&self) -> u32 {
        BEHIND
    }

    fn has(&self, way: Direction) -> bool {
        self.stream(way).is_some()
    }

    fn begin(&self, way: Direction, pace: Pace) -> Result<(), DeviceError> {
        self.stream(way).map_or(Ok(()), |stream| stream.begin(pace))
    }

    fn go(&self, way: Direction) {
        if let Some(stream) = self.stream(way) {
            stream.go();
        }
    }

    fn end(&self, way: Direction) {
        if let Some(stream) = self.stream(way) {
            stream.end();
        }
    }

    fn passed(&self, way: Direction) -> u64 {
        self.stream(way).map_or(0, Stream::passed)
    }

    fn in_hand(&self, _: Pace) -> u64 {
        self.stream(Direction::Out).map_or(0, Stream::in_hand)
    }

    fn emit(&self, a: &mut Assembly, served: [Option<ServedDirection>; DIRECTIONS]) {
        let both = served.iter().all(Option::is_some);
        for (stream, served) in self.streams.iter().zip(served) {
            if let (Some(stream), Some(served)) = (stream, served) {
                stream.emit(a, served);
            }
        }
        // A message is sent when something is said where nothing was. If one direction has said something
        // again before the other's was taken back, there was no such moment; this makes one.
        if both {
            let nothing = a.label();
            dynasm!(a ; .arch x64
                ; mov eax, [self.status]
                ; test eax, self.mask() as i32
                ; jz =>nothing
                ; mov DWORD [self.control], 0
                ; mov DWORD [self.control], (ALL | self.mask()) as i32
                ; =>nothing
            );
        }
    }
}

#[cfg(test)]
mod tests;
