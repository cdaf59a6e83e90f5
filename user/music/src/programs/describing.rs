//! The programs that describe a stream in lines of text.
//!
//! *Interface*: [`PROGRAMS`]. A line is printed as soon as it is certain.

use super::Program;
use super::failure::Failure;
use super::files::{self, Text};
use super::filtering::{HIGH, LOW, tracker};
use super::words::{Given, Kind, Word};
use crate::analysis::correlator::{self, SAME};
use crate::analysis::spectrum::{self, SIZES, Spectrum};
use crate::frame::{Frame, mono};
use crate::stream::Input;
use std::fmt::Write;
use std::fs::File;

const PEAKS: Word = Word {
    name: "peaks",
    kind: Kind::Whole(1, 4096, 4),
    about: "lines for each window at most, the strongest first",
};

/// The programs of this file.
pub const PROGRAMS: &[Program] = &[
    Program {
        name: "fft",
        about: "the spectrum: lines of seconds, hertz and decibels",
        words: &[],
        rest: None,
        options: &[
            Word {
                name: "size",
                kind: Kind::Whole(256, 4096, 1024),
                about: "frames of a window, a power of two",
            },
            PEAKS,
            Word {
                name: "all",
                kind: Kind::Flag,
                about: "a line for each frequency, not for peaks only",
            },
            Word {
                name: "floor",
                kind: Kind::Number(-200.0, 0.0, Some(-80.0)),
                about: "softest level that is printed, in decibels of the loudest",
            },
        ],
        run: fft,
    },
    Program {
        name: "correlator",
        about: "likeness to itself some time later: lines of seconds, milliseconds and -1 to 1",
        words: &[],
        rest: None,
        options: &[
            Word {
                name: "window",
                kind: Kind::Whole(16, 65_536, 4096),
                about: "frames that are compared",
            },
            Word {
                name: "lags",
                kind: Kind::Whole(1, 65_536, 1024),
                about: "lags in frames that are tried, from 0 on",
            },
            PEAKS,
            Word {
                name: "cross",
                kind: Kind::Flag,
                about: "likeness of the right channel to the left",
            },
            Word {
                name: "with",
                kind: Kind::Text(""),
                about: "likeness of another stream, by path, to this one",
            },
        ],
        run: correlate,
    },
    Program {
        name: "tracker",
        about: "the beat of music: lines of seconds and beats per minute",
        words: &[],
        rest: None,
        options: &[LOW, HIGH],
        run: track,
    },
];

/// `numerator` / `denominator` with so many decimals, in whole numbers.
fn decimal(numerator: u64, denominator: u64, decimals: u32) -> String {
    let scale = 10u128.pow(decimals);
    let rounded =
        (u128::from(numerator) * scale + u128::from(denominator) / 2) / u128::from(denominator);
    let (whole, part) = (rounded / scale, rounded % scale);
    format!("{whole}.{part:0width$}", width = decimals as usize)
}

/// Samples one after the other, from windows that overlap or do not.
struct Window {
    input: Input<File>,
    block: Vec<Frame>,
    samples: Vec<i32>,
    of: fn(Frame) -> i32,
}

impl Window {
    const fn new(input: Input<File>, of: fn(Frame) -> i32) -> Self {
        Self {
            input,
            block: Vec::new(),
            samples: Vec::new(),
            of,
        }
    }

    /// Takes what one read brings; whether there was something.
    fn more(&mut self) -> Result<bool, Failure> {
        let read = self.input.block(&mut self.block);
        read.map_err(|error| Failure::with("input", &error))?;
        self.samples.extend(self.block.iter().copied().map(self.of));
        Ok(!self.block.is_empty())
    }

    /// Waits for so many samples; whether they came.
    fn fill(&mut self, count: usize) -> Result<bool, Failure> {
        while self.samples.len() < count {
            if !self.more()? {
                return Ok(false);
            }
        }
        Ok(true)
    }
}

fn fft(given: &Given) -> Result<(), Failure> {
    let size = given.whole("size");
    let spectrum = Spectrum::new(size).ok_or_else(|| {
        let sizes = SIZES.map(|size| size.to_string()).join(", ");
        Failure::usage(format!("--size {size}: none of {sizes}"))
    })?;
    let (floor, most) = (given.number("floor"), given.whole("peaks"));
    let step = f64::from(given.rate()) / size as f64;
    let mut window = Window::new(files::input(given)?, mono);
    let (mut text, mut at) = (Text::new()?, 0);
    while window.fill(size)? {
        let levels = spectrum.of(&window.samples[..size]);
        let found: Vec<(f64, f64)> = if given.flag("all") {
            let all = levels.iter().enumerate();
            all.map(|(n, level)| (n as f64, *level))
                .filter(|(_, level)| *level >= floor)
                .collect()
        } else {
            spectrum::peaks(&levels, floor, most)
        };
        let time = decimal(at, given.rate().into(), 3);
        let mut lines = String::new();
        for (place, level) in found {
            let _ = writeln!(lines, "{time} {:.1} {level:.1}", place * step);
        }
        text.print(&lines)?;
        window.samples.drain(..size);
        at += size as u64;
    }
    Ok(())
}

fn correlate(given: &Given) -> Result<(), Failure> {
    let (size, lags) = (given.whole("window"), given.whole("lags"));
    let rate = u64::from(given.rate());
    let path = given.text("with");
    let left = |frame: Frame| i32::from(frame[0]);
    let right = |frame: Frame| i32::from(frame[1]);
    // Of its own channels, or of another stream: the first is fixed and the second moves.
    let cross = given.flag("cross");
    if cross && !path.is_empty() {
        return Err(Failure::usage("--cross and --with: only one of them"));
    }
    let of = if cross { left } else { mono };
    let mut one = Window::new(files::input(given)?, of);
    let mut other = match path.is_empty() {
        true => None,
        false => Some(Window::new(files::reading(given, path)?, mono)),
    };
    let mut beside = Vec::new();
    let (mut text, mut at) = (Text::new()?, 0);
    let all = size + lags - 1;
    loop {
        // Right samples come with the left ones.
        while one.samples.len() < all {
            if !one.more()? {
                return Ok(());
            }
            if cross {
                beside.extend(one.block.iter().copied().map(right));
            }
        }
        if let Some(other) = &mut other
            && !other.fill(all)?
        {
            return Ok(());
        }
        let moved = match &other {
            Some(other) => &other.samples[..all],
            None if cross => &beside[..all],
            None => &one.samples[..all],
        };
        let values = correlator::correlation(&one.samples[..size], moved, lags);
        // A signal is like itself without a lag.
        let from = usize::from(!cross && other.is_none());
        let mut lines = String::new();
        for (lag, value) in correlator::peaks(&values, from, given.whole("peaks")) {
            let (time, lag) = (decimal(at, rate, 3), decimal(lag as u64 * 1000, rate, 3));
            let value = decimal(value.unsigned_abs().into(), SAME as u64, 3);
            let _ = writeln!(lines, "{time} {lag} {value}");
        }
        text.print(&lines)?;
        one.samples.drain(..size);
        if cross {
            beside.drain(..size);
        }
        if let Some(other) = &mut other {
            other.samples.drain(..size);
        }
        at += size as u64;
    }
}

fn track(given: &Given) -> Result<(), Failure> {
    let mut tracker = tracker(given);
    let (mut input, mut text) = (files::input(given)?, Text::new()?);
    let (mut block, mut at) = (Vec::new(), 0);
    loop {
        let read = input.block(&mut block);
        read.map_err(|error| Failure::with("standard input", &error))?;
        if block.is_empty() {
            return Ok(());
        }
        for frame in &block {
            let part = tracker.next(*frame);
            if part.is_some_and(|part| part.number == 0)
                && let Some(interval) = tracker.interval_ns()
            {
                let time = decimal(at, given.rate().into(), 3);
                let tempo = decimal(60_000_000_000, interval.max(1), 1);
                text.print(&format!("{time} {tempo}\n"))?;
            }
            at += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_rounded_exactly() {
        assert_eq!(decimal(44_100, 44_100, 3), "1.000");
        assert_eq!(decimal(1, 44_100, 3), "0.000");
        assert_eq!(decimal(23, 44_100, 3), "0.001");
        assert_eq!(decimal(60_000_000_000, 500_000_001, 1), "120.0");
        assert_eq!(decimal(u64::MAX, 1, 1), format!("{}.0", u64::MAX));
    }
}
