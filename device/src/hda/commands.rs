//! Commands for codecs, and their answers: two rings in memory, which the card walks along.
//!
//! *Interface*: [`Commands::new`] sets the rings up; [`Commands::ask`](Asks::ask) gives one command and waits
//! for its answer, for so long and no longer. [`Asks`] is what the codec's side needs of it.
//! Source: High Definition Audio Specification 1.0a, sections 3.3.18 to 3.3.31, 4.4 and 7.3.

use super::dma_memory::DmaMemory;
use super::{PATIENCE, soon};
use crate::Unusable;
use crate::error::DeviceError;
use crate::registers::Registers;
use core::sync::atomic::Ordering;

/// Registers of the ring of commands; those of the ring of answers stand likewise, [`ANSWERS`] later.
const BASE: usize = 0x40;
const WRITTEN: usize = 0x48;
const READ: usize = 0x4a;
const CONTROL: usize = 0x4c;
const SIZE: usize = 0x4e;
const ANSWERS: usize = 0x10;
/// Of answers alone: after how many it says so, and that it has.
const COUNT: usize = 0x5a;
const STATUS: usize = 0x5d;

/// In a place: it begins at the first again.
const AGAIN: u16 = 1 << 15;
/// Controls: say so; walk.
const SAY: u8 = 1;
const RUN: u8 = 2;
/// Status: an answer has come, or was lost.
const SAID: u8 = 5;
/// In an answer's second word: nobody has asked.
const UNASKED: u32 = 1 << 4;
/// Bytes of the longest rings, of 256 commands and of 256 answers.
const COMMANDS_LEN: usize = 1024;
const ANSWERS_LEN: usize = 2048;

/// Gives commands to codecs.
pub trait Asks {
    /// Gives `node` of `codec` a command of 20 bits, and waits for its answer.
    ///
    /// # Errors
    /// [`DeviceError::Gone`].
    fn ask(&mut self, codec: u8, node: u8, command: u32) -> Result<u32, DeviceError>;
}

/// Both rings. Dropped, they stand still.
pub struct Commands {
    registers: Registers,
    commands: DmaMemory,
    answers: DmaMemory,
    /// Places of each ring.
    places: [u16; 2],
    /// The answer that was read last.
    seen: u16,
}

impl Commands {
    /// The rings of a card that was just reset.
    ///
    /// # Errors
    /// [`DeviceError::Gone`], [`DeviceError::Fit`]; [`Unusable::Resources`].
    pub fn new(registers: Registers) -> Result<Commands, Unusable> {
        let mut rings = Commands {
            registers,
            commands: DmaMemory::new(COMMANDS_LEN)?,
            answers: DmaMemory::new(ANSWERS_LEN)?,
            places: [0; 2],
            seen: 0,
        };
        rings.stop()?;
        rings.places = [rings.choose(0)?, rings.choose(ANSWERS)?];
        for (ring, memory) in [(0, &rings.commands), (ANSWERS, &rings.answers)] {
            let [low, high] = memory.halves();
            registers.write(ring + BASE, low);
            registers.write(ring + BASE + 4, high);
        }
        registers.write(WRITTEN, 0u16);
        registers.write(READ, AGAIN);
        // Some cards never show that they have begun again.
        let is_again = || registers.read::<u16>(READ) & AGAIN != 0;
        let _shown = soon(PATIENCE / 10, is_again);
        registers.write(READ, 0u16);
        soon(PATIENCE, || !is_again())?;
        registers.write(ANSWERS + WRITTEN, AGAIN);
        registers.write(COUNT, 1u16);
        registers.write(ANSWERS + CONTROL, RUN | SAY);
        registers.write(CONTROL, RUN);
        Ok(rings)
    }

    /// Has both stand still.
    fn stop(&self) -> Result<(), DeviceError> {
        for ring in [0, ANSWERS] {
            self.registers.write(ring + CONTROL, 0u8);
            soon(PATIENCE, || {
                self.registers.read::<u8>(ring + CONTROL) & RUN == 0
            })?;
        }
        Ok(())
    }

    /// Chooses the largest size that the ring at `ring` can have; says how many places that is.
    fn choose(&self, ring: usize) -> Result<u16, DeviceError> {
        let offered = self.registers.read::<u8>(ring + SIZE);
        let (number, places) = match offered >> 4 {
            able if able & 4 != 0 => (2, 256),
            able if able & 2 != 0 => (1, 16),
            able if able & 1 != 0 => (0, 2),
            _ => return Err(DeviceError::Fit),
        };
        self.registers.write(ring + SIZE, offered & !3 | number);
        Ok(places)
    }

    /// The next answer and its second word, when there is one.
    fn answer(&mut self) -> Option<[u32; 2]> {
        let [_, places] = self.places;
        let written = self.registers.read::<u16>(ANSWERS + WRITTEN) % places;
        if written == self.seen {
            return None;
        }
        self.seen = (self.seen + 1) % places;
        let at = 2 * usize::from(self.seen);
        Some([at, at + 1].map(|at| self.answers.word(at).load(Ordering::Acquire)))
    }
}

impl Asks for Commands {
    fn ask(&mut self, codec: u8, node: u8, command: u32) -> Result<u32, DeviceError> {
        let [places, _] = self.places;
        let next = (self.registers.read::<u16>(WRITTEN) % places + 1) % places;
        let word = u32::from(codec & 15) << 28 | u32::from(node) << 20 | command & 0xf_ffff;
        let place = self.commands.word(usize::from(next));
        place.store(word, Ordering::Release);
        self.registers.write(WRITTEN, next);
        for _ in 0..PATIENCE {
            let Some([answer, of]) = self.answer() else {
                continue;
            };
            self.registers.write(STATUS, SAID);
            if of & UNASKED == 0 {
                return Ok(answer);
            }
        }
        Err(DeviceError::Gone)
    }
}

impl Drop for Commands {
    fn drop(&mut self) {
        // A card that has gone walks no more, too.
        let _gone = self.stop();
    }
}
