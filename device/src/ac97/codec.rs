//! The codec behind a card: volumes and rates, in registers of 16 bits.
//!
//! *Interface*: [`Codec::start`] resets it and gives the rate that it plays and records at. A register that
//! does not become ready is waited for so long and no longer.
//! Source: Audio Codec '97 Revision 2.3, section 5.7; Intel ICH AC'97 (document 252751), section 2.2.

use super::{ACCESS, PATIENCE};
use crate::error::DeviceError;
use crate::ports::Ports;

/// Registers.
const RESET: u16 = 0x00;
const MASTER_VOLUME: u16 = 0x02;
const OUTPUT_VOLUME: u16 = 0x18;
const RECORD_SELECT: u16 = 0x1a;
const RECORD_GAIN: u16 = 0x1c;
const POWER: u16 = 0x26;
const EXTENDED: u16 = 0x28;
const EXTENDED_CONTROL: u16 = 0x2a;
const OUTPUT_RATE: u16 = 0x2c;
const INPUT_RATE: u16 = 0x32;

/// Parts that are ready, in [`POWER`].
const READY: u16 = 0xf;
/// Variable rates, in both extended registers.
const VARIABLE: u16 = 1;

/// The rate of compact discs, and of this kernel wherever the codec can.
const WANTED: u32 = 44_100;
/// The rate of a codec that has one.
const FIXED: u32 = 48_000;

/// The vendor number of boards that a virtual machine makes up. Their volumes attenuate only, so that full
/// volume leaves each sample as it is; on others the middle is where nothing is amplified.
const VIRTUAL: u16 = 0x1af4;

/// A codec.
#[derive(Clone, Copy)]
pub struct Codec {
    /// Its own registers.
    pub mixer: Ports,
    /// The bus master's, which has the turn for an access.
    pub master: Ports,
}

impl Codec {
    /// Takes the turn for one access.
    ///
    /// # Errors
    /// [`DeviceError::Gone`].
    fn turn(&self) -> Result<(), DeviceError> {
        let mut tries = (0..PATIENCE).map(|_| self.master.read8(ACCESS));
        // All ones: nothing is there.
        match tries.find(|busy| matches!(busy & 1, 0) || *busy == u8::MAX) {
            Some(u8::MAX) | None => Err(DeviceError::Gone),
            Some(_) => Ok(()),
        }
    }

    fn read(&self, register: u16) -> Result<u16, DeviceError> {
        self.turn()?;
        Ok(self.mixer.read16(register))
    }

    fn write(&self, register: u16, value: u16) -> Result<(), DeviceError> {
        self.turn()?;
        self.mixer.write16(register, value);
        Ok(())
    }

    /// Resets it, sets volumes, and says how many frames it plays and records in a second.
    ///
    /// # Errors
    /// [`DeviceError`].
    pub fn start(&self, board: u16) -> Result<u32, DeviceError> {
        self.write(RESET, 0)?;
        let mut ready = Ok(0);
        for _ in 0..PATIENCE {
            ready = self.read(POWER);
            match ready {
                Ok(u16::MAX) | Err(_) => return Err(DeviceError::Gone),
                Ok(parts) if parts & READY == READY => break,
                Ok(_) => {}
            }
        }
        if ready? & READY != READY {
            return Err(DeviceError::Fit);
        }
        let (output, gain) = match board {
            VIRTUAL => (0, 0x0f0f),
            _ => (0x0808, 0),
        };
        self.write(MASTER_VOLUME, 0)?;
        self.write(OUTPUT_VOLUME, output)?;
        // The microphone, on both sides.
        self.write(RECORD_SELECT, 0)?;
        self.write(RECORD_GAIN, gain)?;
        self.rate()
    }

    /// Sets the wanted rate, if it can have one.
    fn rate(&self) -> Result<u32, DeviceError> {
        if self.read(EXTENDED)? & VARIABLE == 0 {
            return Ok(FIXED);
        }
        let control = self.read(EXTENDED_CONTROL)?;
        self.write(EXTENDED_CONTROL, control | VARIABLE)?;
        for register in [OUTPUT_RATE, INPUT_RATE] {
            self.write(register, WANTED as u16)?;
            if u32::from(self.read(register)?) != WANTED {
                self.write(EXTENDED_CONTROL, control & !VARIABLE)?;
                return Ok(FIXED);
            }
        }
        Ok(WANTED)
    }
}
