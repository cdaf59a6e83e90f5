//! The programs that bring streams from devices and files, and to them.
//!
//! *Interface*: [`PROGRAMS`].

use super::failure::Failure;
use super::told::Told;
use super::words::{Given, Kind, Word};
use super::{Program, files};
use crate::frame::saturated;
use crate::sources::rhythm::softer;

const REPORT: Word = Word {
    name: "report",
    kind: Kind::Flag,
    about: "at the end: frames, how often the device ran dry, and its largest delay",
};
const AHEAD: Word = Word {
    name: "ahead",
    kind: Kind::Number(0.0, 10_000.0, Some(0.0)),
    about: "milliseconds of the stream that are read before it begins to sound",
};
/// Blocks between two looks at the delay.
const LOOK: u64 = 16;

/// The programs of this file.
pub const PROGRAMS: &[Program] = &[
    Program {
        name: "play",
        about: "plays the stream on a loudspeaker",
        words: &[Word {
            name: "PATH",
            kind: Kind::Text("/dev/speaker"),
            about: "the device, or a file that is there; - is standard output",
        }],
        rest: None,
        options: &[REPORT, AHEAD],
        run: play,
    },
    Program {
        name: "record",
        about: "the stream of a microphone",
        words: &[Word {
            name: "PATH",
            kind: Kind::Text("/dev/mic"),
            about: "the device, or a file",
        }],
        rest: None,
        options: &[Word {
            name: "seconds",
            kind: Kind::Number(0.0, f64::INFINITY, Some(f64::INFINITY)),
            about: "length; without it, up to the end",
        }],
        run: record,
    },
    Program {
        name: "mix",
        about: "the sum of several streams",
        words: &[],
        rest: Some("PATH"),
        options: &[Word {
            name: "gain",
            kind: Kind::Number(0.0, 400.0, Some(100.0)),
            about: "loudness of each stream, in percent",
        }],
        run: mix,
    },
];

fn play(given: &Given) -> Result<(), Failure> {
    let path = given.text("PATH");
    let (mut input, mut output) = (files::input(given)?, files::writing(path)?);
    let report = given.flag("report");
    let (mut block, mut frames, mut blocks, mut delay) = (Vec::new(), 0, 0, 0);
    // Those that come before may be slow to begin.
    let (ahead, mut first) = (given.frames(given.number("ahead") / 1000.0), Vec::new());
    loop {
        let read = input.block(&mut block);
        read.map_err(|error| Failure::with("standard input", &error))?;
        let at_end = block.is_empty();
        if blocks == 0 && ahead > 0 {
            first.append(&mut block);
            if (first.len() as u64) < ahead && !at_end {
                continue;
            }
            core::mem::swap(&mut first, &mut block);
        }
        if block.is_empty() {
            break;
        }
        let written = output.block(&block);
        written.map_err(|error| Failure::writing(&path.to_string_lossy(), &error))?;
        frames += block.len() as u64;
        blocks += 1;
        if report && blocks % LOOK == 1 {
            delay = delay.max(Told::of(output.file()).delay.unwrap_or(0));
        }
    }
    if report {
        // Before the device is closed: it runs dry at the end, which is no fault.
        let xruns = Told::of(output.file()).xruns;
        let xruns = xruns.map_or("xruns unknown".into(), |count| format!("{count} xruns"));
        let milliseconds = delay as f64 * 1000.0 / f64::from(given.rate());
        eprintln!("play: {frames} frames, {xruns}, at most {milliseconds:.1} ms behind");
    }
    Ok(())
}

fn record(given: &Given) -> Result<(), Failure> {
    let path = given.text("PATH");
    let (mut input, mut output) = (files::reading(given, path)?, files::output()?);
    let seconds = given.number("seconds");
    let mut left = match seconds.is_finite() {
        true => given.frames(seconds),
        false => u64::MAX,
    };
    let mut block = Vec::new();
    while left > 0 {
        let read = input.block(&mut block);
        read.map_err(|error| Failure::with(&path.to_string_lossy(), &error))?;
        block.truncate(usize::try_from(left).unwrap_or(usize::MAX));
        if block.is_empty() {
            return Ok(());
        }
        left -= block.len() as u64;
        let written = output.block(&block);
        written.map_err(|error| Failure::writing("standard output", &error))?;
    }
    Ok(())
}

/// The sum lasts as long as the longest stream.
fn mix(given: &Given) -> Result<(), Failure> {
    let mut inputs = Vec::new();
    for path in given.rest() {
        inputs.push((path.to_string_lossy(), files::reading(given, path)?));
    }
    let mut output = files::output()?;
    let gain = given.number("gain");
    let (mut block, mut sums, mut out) = (Vec::new(), Vec::<[i32; 2]>::new(), Vec::new());
    loop {
        sums.clear();
        for (name, input) in &mut inputs {
            let read = input.whole(&mut block);
            read.map_err(|error| Failure::with(name, &error))?;
            if sums.len() < block.len() {
                sums.resize(block.len(), [0; 2]);
            }
            for (sum, frame) in sums.iter_mut().zip(&block) {
                let frame = softer(*frame, gain);
                *sum = std::array::from_fn(|side| sum[side] + i32::from(frame[side]));
            }
        }
        if sums.is_empty() {
            return Ok(());
        }
        out.clear();
        out.extend(sums.iter().map(|sum| sum.map(saturated)));
        let written = output.block(&out);
        written.map_err(|error| Failure::writing("standard output", &error))?;
    }
}
