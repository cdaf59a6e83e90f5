//! The programs that change a stream.
//!
//! *Interface*: [`PROGRAMS`].

use super::failure::Failure;
use super::words::{Given, Kind, Word};
use super::{Program, files};
use crate::analysis::tracker::Tracker;
use crate::drummer::{Drummer, Patterns};
use crate::filters::Filter;
use crate::filters::delay::Delay;
use crate::filters::echoes::Echoes;
use crate::filters::oversample::{Oversample, RATIO};
use crate::filters::pass::Pass;
use crate::filters::reverb::Reverb;
use crate::frame::Frame;

/// The longest delay in milliseconds.
const LONGEST: f64 = 60_000.0;

const MILLISECONDS: Word = Word {
    name: "MS",
    kind: Kind::Number(0.0, LONGEST, None),
    about: "milliseconds",
};
const HERTZ: Word = Word {
    name: "HZ",
    kind: Kind::Number(1.0, 384_000.0, None),
    about: "frequency in hertz, below half of the rate",
};
pub const LOW: Word = Word {
    name: "low",
    kind: Kind::Number(30.0, 120.0, Some(60.0)),
    about: "slowest beat that is looked for, in beats per minute",
};
pub const HIGH: Word = Word {
    name: "high",
    kind: Kind::Number(121.0, 400.0, Some(180.0)),
    about: "fastest beat that is looked for",
};

const fn percent(name: &'static str, usual: f64, about: &'static str) -> Word {
    Word {
        name,
        kind: Kind::Number(0.0, 100.0, Some(usual)),
        about,
    }
}

const fn pattern(name: &'static str, usual: &'static str, about: &'static str) -> Word {
    Word {
        name,
        kind: Kind::Text(usual),
        about,
    }
}

/// The programs of this file.
pub const PROGRAMS: &[Program] = &[
    Program {
        name: "delay",
        about: "the same stream, later",
        words: &[MILLISECONDS],
        rest: None,
        options: &[],
        run: |given| {
            let frames = given.frames(given.number("MS") / 1000.0);
            through(given, Delay::new(frames as usize))
        },
    },
    Program {
        name: "echoes",
        about: "an echo that comes again and again, softer each time",
        words: &[MILLISECONDS],
        rest: None,
        options: &[
            Word {
                name: "gain",
                kind: Kind::Number(0.0, 99.0, Some(50.0)),
                about: "loudness of each echo, in percent of the one before",
            },
            Word {
                name: "beat",
                kind: Kind::Whole(0, 16, 0),
                about: "so many echoes in a beat of the music, once its beat is known",
            },
            LOW,
            HIGH,
        ],
        run: echoes,
    },
    Program {
        name: "reverb",
        about: "a room around the stream",
        words: &[],
        rest: None,
        options: &[
            percent("room", 50.0, "size of the room, in percent"),
            percent(
                "damp",
                50.0,
                "how much of the high frequencies its walls swallow",
            ),
            percent("wet", 30.0, "part of the room in the output"),
        ],
        run: |given| {
            let [room, damp, wet] = ["room", "damp", "wet"].map(|name| given.number(name));
            through(given, Reverb::new(given.rate(), room, damp, wet))
        },
    },
    Program {
        name: "lowpass",
        about: "only frequencies below HZ, 24 dB per octave",
        words: &[HERTZ],
        rest: None,
        options: &[],
        run: |given| through(given, Pass::low(given.rate(), given.hertz("HZ")?)),
    },
    Program {
        name: "highpass",
        about: "only frequencies above HZ, 24 dB per octave",
        words: &[HERTZ],
        rest: None,
        options: &[],
        run: |given| through(given, Pass::high(given.rate(), given.hertz("HZ")?)),
    },
    Program {
        name: "bandpass",
        about: "only frequencies near HZ",
        words: &[HERTZ],
        rest: None,
        options: &[Word {
            name: "q",
            kind: Kind::Number(0.1, 1000.0, Some(2.0)),
            about: "how narrow: HZ divided by the width of the band",
        }],
        run: |given| {
            let filter = Pass::band(given.rate(), given.hertz("HZ")?, given.number("q"));
            through(given, filter)
        },
    },
    Program {
        name: "oversample",
        about: "four frames for each, by interpolation",
        words: &[],
        rest: None,
        options: &[],
        run: oversample,
    },
    Program {
        name: "drummer",
        about: "adds drums to music, on its beat",
        words: &[],
        rest: None,
        options: &[
            pattern(
                "kick",
                "x.......",
                "strokes for each quarter of a beat, 1 to 16 of x and .",
            ),
            pattern("snare", "....x...", "likewise"),
            pattern("hat", "..x.", "likewise"),
            percent("gain", 80.0, "loudness of the drums, in percent"),
            LOW,
            HIGH,
        ],
        run: drummer,
    },
];

/// The stream goes through a filter, block by block.
fn through(given: &Given, mut filter: impl Filter) -> Result<(), Failure> {
    let frame = |frame: Frame| [filter.next(frame)];
    blocks(given, frame)?;
    flush(given, std::iter::from_fn(|| filter.tail()))
}

/// Each frame of the input becomes some of the output.
fn blocks<const N: usize>(
    given: &Given,
    mut next: impl FnMut(Frame) -> [Frame; N],
) -> Result<(), Failure> {
    let (mut input, mut output) = (files::input(given)?, files::output()?);
    let (mut block, mut out) = (Vec::new(), Vec::new());
    loop {
        let read = input.block(&mut block);
        read.map_err(|error| Failure::with("standard input", &error))?;
        if block.is_empty() {
            return Ok(());
        }
        out.clear();
        out.extend(block.iter().flat_map(|frame| next(*frame)));
        let written = output.block(&out);
        written.map_err(|error| Failure::writing("standard output", &error))?;
    }
}

/// Writes frames block by block.
pub fn flush(given: &Given, mut frames: impl Iterator<Item = Frame>) -> Result<(), Failure> {
    let mut output = files::output()?;
    let mut block = Vec::new();
    loop {
        block.clear();
        block.extend(frames.by_ref().take(given.whole("frames")));
        if block.is_empty() {
            return Ok(());
        }
        let written = output.block(&block);
        written.map_err(|error| Failure::writing("standard output", &error))?;
    }
}

/// The tracker that the options ask for.
pub fn tracker(given: &Given) -> Tracker {
    Tracker::new(given.rate(), given.number("low"), given.number("high"))
}

/// Echoes whose delay follows the beat.
struct OnBeat {
    echoes: Echoes,
    tracker: Tracker,
    parts: u64,
    rate: u64,
}

impl Filter for OnBeat {
    fn next(&mut self, frame: Frame) -> Frame {
        // At each beat the loop has a new interval.
        let begun = self.tracker.next(frame);
        if begun.is_some_and(|part| part.number == 0)
            && let Some(interval) = self.tracker.interval_ns()
        {
            let frames = interval * self.rate / 1_000_000_000 / self.parts;
            self.echoes.set_delay(frames as usize);
        }
        self.echoes.next(frame)
    }

    fn tail(&mut self) -> Option<Frame> {
        self.echoes.tail()
    }
}

fn echoes(given: &Given) -> Result<(), Failure> {
    let delay = given.frames(given.number("MS") / 1000.0) as usize;
    let gain = given.number("gain");
    let parts = given.whole("beat") as u64;
    if parts == 0 {
        return through(given, Echoes::new(delay, delay, gain));
    }
    let slowest = given.frames(60.0 / given.number("low")) as usize;
    let filter = OnBeat {
        echoes: Echoes::new(delay, 2 * slowest, gain),
        tracker: tracker(given),
        parts,
        rate: given.rate().into(),
    };
    through(given, filter)
}

fn oversample(given: &Given) -> Result<(), Failure> {
    let mut filter = Oversample::new();
    blocks::<RATIO>(given, |frame| filter.next(frame))?;
    flush(given, std::iter::from_fn(|| filter.tail()).flatten())
}

fn drummer(given: &Given) -> Result<(), Failure> {
    let texts = ["kick", "snare", "hat"].map(|name| given.text(name).to_string_lossy());
    let patterns = Patterns::new(texts.each_ref().map(|text| &**text)).map_err(|text| {
        Failure::usage(format!(
            "pattern `{text}`: not 1 to 16 of the letters x and ."
        ))
    })?;
    let drummer = Drummer::new(given.rate(), tracker(given), patterns, given.number("gain"));
    through(given, drummer)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::frame::{RATE, SILENCE};
    use crate::sources::rhythm::{Rhythm, Score};

    #[test]
    fn echoes_take_the_interval_of_the_beat() {
        let mut filter = OnBeat {
            echoes: Echoes::new(100, 2 * RATE as usize, 30.0),
            tracker: Tracker::new(RATE, 60.0, 180.0),
            parts: 2,
            rate: RATE.into(),
        };
        let mut rhythm = Rhythm::new(RATE, Score::steady(100.0));
        for _ in 0..8 * RATE {
            filter.next(rhythm.frame());
        }
        // The music dies away.
        for _ in 0..10 * RATE {
            filter.next(SILENCE);
        }
        assert_eq!(filter.next([10_000, 0]), [10_000, 0]);
        let back = (1..RATE).find(|_| filter.next(SILENCE) != SILENCE);
        let expected = 60 * RATE / 100 / 2;
        assert!(
            back.is_some_and(|back| back.abs_diff(expected) < expected / 50),
            "{back:?}"
        );
    }
}
