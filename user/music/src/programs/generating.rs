//! The programs that make a stream out of nothing.
//!
//! *Interface*: [`PROGRAMS`].

use super::Program;
use super::failure::Failure;
use super::filtering::flush;
use super::words::{Given, Kind, Word};
use crate::frame::Frame;
use crate::sources::rhythm::{Rhythm, Score, softer};
use crate::sources::tone::{Shape, Tone};

const SECONDS: Word = Word {
    name: "seconds",
    kind: Kind::Number(0.0, f64::INFINITY, Some(f64::INFINITY)),
    about: "length; without it, no end",
};
const GAIN: Word = Word {
    name: "gain",
    kind: Kind::Number(0.0, 100.0, Some(50.0)),
    about: "loudness, in percent of the loudest",
};
const TEMPO: Word = Word {
    name: "TEMPO",
    kind: Kind::Number(20.0, 400.0, Some(120.0)),
    about: "beats per minute",
};

/// The programs of this file.
pub const PROGRAMS: &[Program] = &[
    Program {
        name: "tone",
        about: "a tone of HZ",
        words: &[Word {
            name: "HZ",
            kind: Kind::Number(0.1, 384_000.0, Some(440.0)),
            about: "frequency in hertz, below half of the rate",
        }],
        rest: None,
        options: &[
            Word {
                name: "square",
                kind: Kind::Flag,
                about: "a square wave in place of a sine",
            },
            GAIN,
            SECONDS,
        ],
        run: |given| {
            let shape = if given.flag("square") {
                Shape::Square
            } else {
                Shape::Sine
            };
            wave(given, shape, given.hertz("HZ")?)
        },
    },
    Program {
        name: "noise",
        about: "white noise",
        words: &[],
        rest: None,
        options: &[GAIN, SECONDS],
        run: |given| wave(given, Shape::Noise, 1.0),
    },
    Program {
        name: "metronome",
        about: "a click on each beat",
        words: &[TEMPO],
        rest: None,
        options: &[GAIN, SECONDS],
        run: |given| {
            let score = Score {
                plain: true,
                ..Score::steady(given.number("TEMPO"))
            };
            play(given, score)
        },
    },
    Program {
        name: "rhythm",
        about: "music with a beat: drums, a bass, noise",
        words: &[TEMPO],
        rest: None,
        options: &[
            Word {
                name: "later",
                kind: Kind::Number(0.0, 400.0, Some(0.0)),
                about: "another tempo later; 0 is none",
            },
            Word {
                name: "from",
                kind: Kind::Number(0.0, 86_400.0, Some(10.0)),
                about: "when the other tempo begins, in seconds",
            },
            Word {
                name: "during",
                kind: Kind::Number(0.0, 86_400.0, Some(0.0)),
                about: "how long the change takes, in seconds",
            },
            Word {
                name: "noise",
                kind: Kind::Number(0.0, 100.0, Some(1.0)),
                about: "loudness of noise in it, in percent",
            },
            Word {
                name: "jitter",
                kind: Kind::Number(0.0, 50.0, Some(2.0)),
                about: "how early or late strokes are at most, in milliseconds",
            },
            Word {
                name: "seed",
                kind: Kind::Whole(0, u32::MAX, 1),
                about: "which music of many",
            },
            GAIN,
            SECONDS,
        ],
        run: rhythm,
    },
];

fn wave(given: &Given, shape: Shape, hertz: f64) -> Result<(), Failure> {
    let tone = Tone::new(given.rate(), shape, hertz, given.number("gain"));
    long(given, tone.map(|sample| [sample; 2]))
}

fn rhythm(given: &Given) -> Result<(), Failure> {
    let tempo = given.number("TEMPO");
    let later = Some(given.number("later")).filter(|later| *later > 0.0);
    if later.is_some_and(|later| later < 20.0) {
        return Err(Failure::usage("--later: not 0, and not 20 or more"));
    }
    let score = Score {
        tempo,
        later: later.unwrap_or(tempo),
        from: given.number("from"),
        during: given.number("during"),
        noise: given.number("noise"),
        jitter: given.number("jitter") / 1000.0,
        plain: false,
        seed: given.whole("seed") as u64,
    };
    play(given, score)
}

fn play(given: &Given, score: Score) -> Result<(), Failure> {
    let mut rhythm = Rhythm::new(given.rate(), score);
    // The usual gain is the kit's own loudness.
    let gain = given.number("gain") * 2.0;
    let frames = std::iter::from_fn(|| Some(softer(rhythm.frame(), gain)));
    long(given, frames)
}

/// As long as was asked for.
fn long(given: &Given, frames: impl Iterator<Item = Frame>) -> Result<(), Failure> {
    let seconds = given.number("seconds");
    if seconds.is_finite() {
        flush(given, frames.take(given.frames(seconds) as usize))
    } else {
        flush(given, frames)
    }
}
