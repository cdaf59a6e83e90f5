//! `/dev/mixer`: the volumes of all that play by the Open Sound System.
//!
//! *Interface*: [`Mixer`] is the file, [`control`] answers its operations, and [`volume`] is what follows
//! from them for a player, from its next write on. Both volumes, `volume` and `pcm`, are one for both sides.

use abi::errno::{Errno, Result};
use abi::linux::*;
use core::sync::atomic::{AtomicI32, AtomicU8, Ordering};
use device::{registry, sound};
use file::{File, OpenFile};
use quaject::mix::Voice;
use vm::user::{get, put};

/// The largest volume.
const FULL: u8 = 100;
/// Numbers of the volumes.
const VOLUME: u32 = 0;
const PCM: u32 = 4;
/// Directions in an operation's number: the program gives a value, or gets one.
const GIVES: u32 = 0x4000_0000;
const GETS: u32 = 0x8000_0000;
/// The letter in the operations' numbers.
const LETTER: u32 = b'M' as u32;

static LEVELS: [AtomicU8; 2] = [const { AtomicU8::new(FULL) }; 2];
/// How often one was changed.
static CHANGES: AtomicI32 = AtomicI32::new(0);

fn level(number: u32) -> Option<&'static AtomicU8> {
    match number {
        VOLUME => Some(&LEVELS[0]),
        PCM => Some(&LEVELS[1]),
        _ => None,
    }
}

/// The volume of a player, of [`Voice::FULL`].
pub fn volume() -> u16 {
    let [all, pcm] = [0, 1].map(|n| u32::from(LEVELS[n].load(Ordering::Relaxed)));
    (all * pcm * u32::from(Voice::FULL) / (u32::from(FULL) * u32::from(FULL))) as u16
}

/// Left and right, as programs get them.
fn both(level: u8) -> i32 {
    i32::from(level) << 8 | i32::from(level)
}

/// Changes a volume to that of the left side; says what it is then.
fn change(number: u32, value: i32) -> i32 {
    let Some(place) = level(number) else {
        return 0;
    };
    let level = (value & 0xff).min(i32::from(FULL)) as u8;
    if place.swap(level, Ordering::Relaxed) != level {
        CHANGES.fetch_add(1, Ordering::Relaxed);
    }
    both(level)
}

fn info() -> MixerInfo {
    let mut info = MixerInfo {
        id: [0; 16],
        name: [0; 32],
        modify_counter: CHANGES.load(Ordering::Relaxed),
        fillers: [0; 10],
    };
    if let Some(card) = registry::sound(sound::NAME) {
        let put = |into: &mut [u8], words: &[&str]| {
            let text = words.iter().flat_map(|word| word.bytes());
            into.iter_mut().zip(text).for_each(|(to, from)| *to = from);
        };
        put(&mut info.id, &[card.kind()]);
        put(&mut info.name, &[card.kind(), " codec"]);
    }
    info
}

/// Answers an operation. ENXIO, EFAULT.
pub fn control(command: u32, arg: usize) -> Result<()> {
    const MIC: i32 = SOUND_MASK_MIC.cast_signed();
    match command {
        OSS_GETVERSION => put(arg, &OSS_VERSION),
        SOUND_MIXER_INFO => put(arg, &info()),
        SOUND_OLD_MIXER_INFO => {
            let MixerInfo { id, name, .. } = info();
            put(arg, &OldMixerInfo { id, name })
        }
        SOUND_MIXER_READ_DEVMASK => put(arg, &(SOUND_MASK_VOLUME | SOUND_MASK_PCM)),
        SOUND_MIXER_READ_RECMASK | SOUND_MIXER_READ_RECSRC => put(arg, &MIC),
        SOUND_MIXER_READ_STEREODEVS => put(arg, &0),
        SOUND_MIXER_READ_CAPS => put(arg, &SOUND_CAP_EXCL_INPUT),
        // There is one source, which stays.
        SOUND_MIXER_WRITE_RECSRC => get::<i32>(arg).and_then(|_| put(arg, &MIC)),
        _ if command >> 8 & 0xff != LETTER => Err(Errno::ENXIO),
        _ if command & GIVES != 0 => {
            let value = get::<i32>(arg)?;
            put(arg, &change(command & 0xff, value))
        }
        _ if command & GETS != 0 => {
            let level = level(command & 0xff).map_or(0, |level| level.load(Ordering::Relaxed));
            put(arg, &both(level))
        }
        _ => Err(Errno::ENXIO),
    }
}

/// The file.
pub struct Mixer;

impl File for Mixer {
    fn ioctl(&self, _of: &OpenFile, command: u32, arg: usize) -> Result<usize> {
        control(command, arg).map(|()| 0)
    }

    fn is_always_ready(&self) -> bool {
        true
    }
}
