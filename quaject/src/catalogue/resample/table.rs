//! The coefficients of the polyphase filter: a windowed sinc, computed with integers.
//!
//! *Interface*: [`Table::new`] for a distance of frames. A row of coefficients for each of [`PHASES`] times
//! between two frames; beside each coefficient stands its difference to the next row's. Each row's sum is
//! exactly one, so a constant stays what it is.
//!
//! The window is Kaiser's, with β = 8: what is outside the band is 80 dB down and more. Where fewer frames go
//! than come, the band is narrower and the filter longer.
//!
//! *Unsafe*: coefficients in near blocks.

use crate::kit::near_memory::NearBlock;
use crate::kit::routine_env::{RoutineError, near};

/// Times between two frames that have a row.
const PHASES: usize = 1 << PHASE_BITS;
const PHASE_BITS: u32 = 7;
/// Bits of a time that say how far it is from its row to the next.
pub(super) const BETWEEN: u32 = 32 - PHASE_BITS;
/// Fraction bits of a coefficient.
pub(super) const ONE: u32 = 30;

/// Taps where as many frames go as come, or more.
const TAPS: u64 = 32;
/// The most taps: frames that go are [`super::MOST_RATIO`] times fewer at most, but beyond a fifth the filter
/// grows no longer.
const MOST_TAPS: u64 = 160;
/// Taps are a multiple of this.
pub(super) const UNROLLED: usize = 8;

/// Fraction bits of a distance.
const STEP: u32 = 32;
/// The band that passes, of that which could at most, in sixteenths.
const BAND: u64 = 15;

/// The coefficients for one distance of frames.
pub(super) struct Table {
    block: NearBlock,
    taps: usize,
}

/// A coefficient, and the difference to that of the next row.
#[repr(C)]
#[derive(Clone, Copy)]
pub(super) struct Coefficient {
    pub here: i32,
    pub more: i32,
}

/// Whether frames at the distance `step` lie at rows' times only.
pub(super) fn is_exact(step: u64) -> bool {
    step.trailing_zeros() >= BETWEEN
}

/// The time before the first frame goes: the filter's middle is at the first frame that has come.
pub(super) fn begin(taps: usize) -> u64 {
    (taps as u64 / 2 + 1) << STEP
}

/// Taps for the distance `step`.
fn taps(step: u64) -> usize {
    let wanted = (TAPS * step.max(1 << STEP)) >> STEP;
    wanted.min(MOST_TAPS).next_multiple_of(UNROLLED as u64) as usize
}

impl Table {
    /// The coefficients for the distance `step`. None: there is no memory.
    pub fn new(step: u64) -> Option<Table> {
        let taps = taps(step);
        let half = half(step, taps)?;
        let block = NearBlock::new(PHASES * taps * size_of::<Coefficient>())?;
        let mut table = Table { block, taps };
        let mut next = [0; MOST_TAPS as usize];
        row(&half, taps, PHASES, &mut next);
        for phase in (0..PHASES).rev() {
            let mut here = [0; MOST_TAPS as usize];
            row(&half, taps, phase, &mut here);
            let rows = table.rows_mut();
            for (place, (here, next)) in rows[phase * taps..]
                .iter_mut()
                .zip(here.iter().zip(&next))
                .take(taps)
            {
                *place = Coefficient {
                    here: *here,
                    more: next - here,
                };
            }
            next = here;
        }
        Some(table)
    }

    fn rows_mut(&mut self) -> &mut [Coefficient] {
        // SAFETY: the block has so many, zeroed and aligned, and this is the only way to it yet.
        unsafe {
            core::slice::from_raw_parts_mut(self.block.at().cast().as_ptr(), PHASES * self.taps)
        }
    }

    pub fn taps(&self) -> usize {
        self.taps
    }

    /// Sign-extended address of the first row.
    pub fn at(&self) -> Result<i32, RoutineError> {
        Ok(near(self.block.at().as_ptr())? as i32)
    }

    /// The coefficients of a row.
    #[cfg(test)]
    pub fn row(&self, phase: usize) -> &[Coefficient] {
        // SAFETY: as above; nobody writes.
        let all = unsafe {
            core::slice::from_raw_parts(self.block.at().cast().as_ptr(), PHASES * self.taps)
        };
        &all[phase * self.taps..][..self.taps]
    }
}

/// One half of the filter, by `1 / PHASES` of a frame.
struct Half(NearBlock);

impl Half {
    fn values(&self, taps: usize) -> &[i32] {
        // SAFETY: `half` has made so many.
        unsafe { core::slice::from_raw_parts(self.0.at().cast().as_ptr(), taps / 2 * PHASES + 1) }
    }
}

fn half(step: u64, taps: usize) -> Option<Half> {
    let count = taps / 2 * PHASES + 1;
    let block = NearBlock::new(count * size_of::<i32>())?;
    // The highest frequency that passes, of half the rate of the frames that come.
    let band = ((BAND << (2 * STEP - 4)) / step.max(1 << STEP)) as i64;
    let widest = bessel(WINDOW);
    for index in 0..count {
        // The window's argument is β²/4 · (1 - (t / half)²).
        let square = (index * index) as i128 * i128::from(WINDOW);
        let end = (count - 1) as i128;
        let argument = WINDOW - (square / (end * end)) as i64;
        let window = (bessel(argument) << ONE) / widest;
        // Half turns, with STEP bits of fraction.
        let turns = (index as i64 * band) >> PHASE_BITS;
        let value = (((sinc(turns) * (band >> 2)) >> ONE) * window) >> ONE;
        // SAFETY: the block has a place for it, and is not shared yet.
        unsafe { block.at().cast::<i32>().add(index).write(value as i32) };
    }
    Some(Half(block))
}

/// The row for the time `phase` behind the frame in the middle, into the first `taps` of `into`.
fn row(half: &Half, taps: usize, phase: usize, into: &mut [i32; MOST_TAPS as usize]) {
    let values = half.values(taps);
    let middle = taps / 2 - 1;
    let into = &mut into[..taps];
    for (tap, place) in into.iter_mut().enumerate() {
        *place = values[(tap * PHASES).abs_diff(middle * PHASES + phase)];
    }
    let sum: i64 = into.iter().map(|value| i64::from(*value)).sum();
    for place in into.iter_mut() {
        *place = ((i64::from(*place) << ONE) / sum) as i32;
    }
    let sum: i64 = into.iter().map(|value| i64::from(*value)).sum();
    into[middle] += ((1 << ONE) - sum) as i32;
}

/// Fraction bits of the window's argument and of [`bessel`].
const WIDE: u32 = 24;
/// β²/4.
const WINDOW: i64 = 16 << WIDE;

/// The sum of `yⁿ / n!²`, which is the modified Bessel function I₀ of `2√y`; `y` of 0 to [`WINDOW`].
fn bessel(y: i64) -> i64 {
    let (mut sum, mut term) = (0, 1 << WIDE);
    let mut n = 1;
    while term > 0 {
        sum += term;
        term = ((term * y) >> WIDE) / (n * n);
        n += 1;
    }
    sum
}

/// `sin πx / πx`, with [`ONE`] bits of fraction; `x` has [`STEP`].
fn sinc(x: i64) -> i64 {
    /// π, with `ONE` bits of fraction.
    const PI: i64 = 3_373_259_426;
    if x == 0 {
        return 1 << ONE;
    }
    let (whole, part) = (x >> STEP, x & ((1 << STEP) - 1));
    let part = part.min((1 << STEP) - part) >> (STEP - ONE);
    let sine = sine((part * PI) >> ONE);
    let sine = if whole & 1 == 0 { sine } else { -sine };
    let angle = ((i128::from(x) * i128::from(PI)) >> STEP) as i64;
    (sine << ONE) / angle.max(1)
}

/// The sine of an angle of 0 to π/2; both have [`ONE`] bits of fraction.
fn sine(z: i64) -> i64 {
    let one = 1 << ONE;
    let square = (z * z) >> ONE;
    let series = [156, 110, 72, 42, 20, 6];
    let factor = series.iter().fold(one, |inner, divisor| {
        one - ((square * inner) >> ONE) / divisor
    });
    (z * factor) >> ONE
}
