//! The Open Sound System as programs for Linux know it: `/dev/dsp`, `/dev/audio`, `/dev/mixer`.
//!
//! *Interface*: [`register`] at boot. [`settings`] is what `ioctl` sets, and its arithmetic, without a card;
//! [`play`] and [`record`] are the two directions of an open file, [`dsp`] answers calls for it, and
//! [`mixer`] has the volumes.
//!
//! Source: Linux's OSS emulation (`sound/core/oss`), from its manual; Open Sound System Programmer's Guide.

mod dsp;
mod mixer;
mod play;
mod rate_match;
mod record;
mod settings;
#[cfg(test)]
mod settings_tests;

use abi::errno::{Errno, Result};
use abi::linux::{O_ACCMODE, O_RDONLY, O_WRONLY, minor};
use alloc::sync::Arc;
use file::OpenFile;
use file::fs::{OpenRequest, dev};
use settings::Settings;
use vm::fallible::try_arc;

/// Minor numbers.
const MIXER: u32 = 0;
const DSP: u32 = 3;
const AUDIO: u32 = 4;

/// Gives the device numbers their behaviour.
pub fn register() {
    dev::register(dev::OSS, MIXER..=MIXER, open);
    dev::register(dev::OSS, DSP..=AUDIO, open);
}

fn open(rdev: u64, how: OpenRequest) -> Result<Arc<OpenFile>> {
    let settings = match minor(rdev) {
        MIXER => return Ok(how.finish(try_arc(mixer::Mixer)?)),
        DSP => Settings::DSP,
        AUDIO => Settings::AUDIO,
        _ => return Err(Errno::ENXIO),
    };
    let access = how.flags & O_ACCMODE;
    let (plays, records) = (access != O_RDONLY, access != O_WRONLY);
    let dsp = try_arc(dsp::Dsp::new(settings, plays, records)?)?;
    Ok(how.finish(dsp))
}
