//! Resampler: frames of one format and rate become frames of another, by a routine that is generated for
//! exactly these.
//!
//! *Interface*: [`Resampler`] is made by a [`Spec`]; [`Resampler::convert`] takes frames from one place and
//! puts them into another, as many as there are and as have room. The state between two frames is kept, so
//! it does not matter where a stream is cut. [`Resampler::steer`] moves the rate by parts in a million,
//! while frames pass: a frequency-locked loop can have it follow another clock.
//!
//! The routine loads a frame of its format ([`Sample`], [`format`](mod@format)) as two samples of 16 bits,
//! filters it where the rates differ, and stores it in the other format; formats, taps, phases and addresses
//! are constants in it. The filter is polyphase: [`table`] has its coefficients, and those between two phases
//! are interpolated. The time of the next frame is a fixed-point number of 32 and 32 bits, and the distance
//! of frames is a word beside the code. There is no floating point, and no vector.
//!
//! The reference implementation is in `reference.rs`.
//!
//! Source: dissertation, section 6.3.3 (an FLL generates the timing of a digital interpolation filter).
//!
//! *Unsafe*: words in a near block; safety contract of the routine, which gets the ends of slices.

mod emit;
pub mod format;
mod law;
#[cfg(test)]
mod reference;
mod table;
#[cfg(test)]
mod tests;

pub use format::{Frame, MOST_CHANNELS, Sample};

use crate::kit::near_memory::NearBlock;
use crate::kit::routine_env::{RoutineError, near};
use codegen::{Class, Draft, Routine};
use core::mem::offset_of;
use core::sync::atomic::{AtomicU64, Ordering};
use law::Law;
use sync::Monitor;
use table::Table;

/// The formats and rates of the two sides.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Spec {
    /// Frames that come.
    pub from: Frame,
    /// Frames that go.
    pub to: Frame,
    /// Frames in a second that come; of 1 to [`HIGHEST`].
    pub from_rate: u32,
    /// Frames in a second that go; of 1 to [`HIGHEST`].
    pub to_rate: u32,
    /// The rate will be steered.
    pub steered: bool,
}

/// The highest rate.
pub const HIGHEST: u32 = 192_000;
/// The rates of the two sides differ by this factor at most.
pub const MOST_RATIO: u32 = 64;
/// The rate is steered by so many parts in a million at most.
pub const MOST_STEER: i32 = 10_000;

/// Frames that were moved.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Moved {
    /// Frames taken.
    pub used: usize,
    /// Frames put.
    pub made: usize,
}

/// The routine: from `source` at most `frames` frames, and into `into` at most `room`.
type ConvertFn = unsafe extern "sysv64" fn(
    source: *const u8,
    frames: usize,
    into: *mut u8,
    room: usize,
) -> Moved;

/// The words of a resampler; its past frames follow, twice, so that the last ones always lie in a row.
#[repr(C)]
struct Words {
    /// The next frame's time: above 32 bits, the frames to take before it.
    phase: AtomicU64,
    /// The distance of frames, in those that come.
    step: AtomicU64,
    /// The oldest frame's place, in bytes.
    oldest: AtomicU64,
    _line: [u64; 5],
}

/// Bytes of a past frame: two samples of 64 bits, as the multiplication wants them.
const PAST: usize = 16;

/// One resampler.
pub struct Resampler {
    spec: Spec,
    words: NearBlock,
    table: Option<Table>,
    /// The tables of the logarithmic formats, which the routine names.
    _laws: [Law; 2],
    convert: Routine<ConvertFn>,
    /// Its frames follow each other: one caller at a time.
    alone: Monitor<()>,
}

crate::quaject! {
    /// Converts frames of one format and rate to another
    class Resampler = "Resampler", spec Spec, error RoutineError {
        callentry { CONVERT = "convert", STEER = "steer" }
    }
    make |spec, _| Resampler::new(spec);
}

static CODE: Class = Class::new("resample");

/// Addresses for the routine, sign-extended.
#[derive(Clone, Copy)]
struct At {
    phase: i32,
    step: i32,
    oldest: i32,
    past: i32,
    table: i32,
    taps: i32,
    /// Frames lie at phases of the table only.
    exact: bool,
}

impl Resampler {
    fn new(spec: Spec) -> Result<Resampler, RoutineError> {
        let step = step(spec)?;
        let table = match spec.from_rate == spec.to_rate && !spec.steered {
            true => None,
            false => Some(Table::new(step).ok_or(RoutineError::OutOfMemory)?),
        };
        let taps = table.as_ref().map_or(0, Table::taps);
        let words = NearBlock::new(size_of::<Words>() + 2 * taps * PAST)
            .ok_or(RoutineError::OutOfMemory)?;
        let laws = [
            Law::decoder(spec.from.sample)?,
            Law::encoder(spec.to.sample)?,
        ];
        let base = near(words.at().as_ptr())? as i32;
        let at = At {
            phase: base + offset_of!(Words, phase) as i32,
            step: base + offset_of!(Words, step) as i32,
            oldest: base + offset_of!(Words, oldest) as i32,
            past: base + size_of::<Words>() as i32,
            table: table.as_ref().map_or(Ok(0), |table| table.at())?,
            taps: taps as i32,
            exact: !spec.steered && table::is_exact(step),
        };
        let mut draft = Draft::new(&CODE, "convert");
        emit::convert(&mut draft, spec, at, [laws[0].at()?, laws[1].at()?]);
        let resampler = Resampler {
            spec,
            words,
            table,
            _laws: laws,
            // SAFETY: the code keeps the System V convention. It reads and writes as many frames as its
            // arguments say, and the blocks that are kept beside it.
            convert: unsafe { Routine::from(draft.seal()?) },
            alone: Monitor::new(()),
        };
        resampler.words().step.store(step, Ordering::Relaxed);
        resampler.begin_again();
        Ok(resampler)
    }

    fn words(&self) -> &Words {
        // SAFETY: the block begins with zeroed words, and is aligned to a line.
        unsafe { self.words.at().cast::<Words>().as_ref() }
    }

    /// As it was made.
    pub fn spec(&self) -> Spec {
        self.spec
    }

    /// Callentry `convert`: moves frames of `source` into `into`; both may end in a part of a frame, which
    /// stays.
    pub fn convert(&self, source: &[u8], into: &mut [u8]) -> Moved {
        let frames = source.len() / self.spec.from.bytes();
        let room = into.len() / self.spec.to.bytes();
        let _alone = self.alone.lock();
        // SAFETY: the frames lie in the two slices, and no other thread is in the routine.
        unsafe { self.convert.function()(source.as_ptr(), frames, into.as_mut_ptr(), room) }
    }

    /// Frames that have come and are heard later: half the filter's length.
    pub fn behind(&self) -> usize {
        self.table.as_ref().map_or(0, |table| table.taps() / 2)
    }

    /// Callentry `steer`: frames that come are `parts` in a million more than their rate says, if positive,
    /// for the same number that go.
    pub fn steer(&self, parts: i32) {
        let Ok(step) = step(self.spec) else { return };
        let parts = i64::from(parts.clamp(-MOST_STEER, MOST_STEER));
        if self.spec.steered {
            let steered = i128::from(step) * i128::from(1_000_000 + parts) / 1_000_000;
            self.words().step.store(steered as u64, Ordering::Relaxed);
        }
    }

    /// Forgets what has passed.
    pub fn begin_again(&self) {
        let _alone = self.alone.lock();
        let taps = self.table.as_ref().map_or(0, Table::taps);
        let words = self.words();
        words.oldest.store(0, Ordering::Relaxed);
        words.phase.store(table::begin(taps), Ordering::Relaxed);
        // SAFETY: the past frames lie behind the words, and the routine does not run.
        unsafe {
            let past = self.words.at().as_ptr().add(size_of::<Words>());
            past.write_bytes(0, 2 * taps * PAST);
        }
    }
}

/// The distance of frames that go, in frames that come, with 32 bits of fraction.
fn step(spec: Spec) -> Result<u64, RoutineError> {
    let (from, to) = (spec.from_rate, spec.to_rate);
    let rates = 1..=HIGHEST;
    let possible = rates.contains(&from) && rates.contains(&to);
    let near = from / MOST_RATIO <= to && to / MOST_RATIO <= from;
    match possible && near && spec.from.is_possible() && spec.to.is_possible() {
        true => Ok((u64::from(from) << 32) / u64::from(to)),
        false => Err(RoutineError::BadSpec),
    }
}
