//! `cargo xtask plot`: pictures of recorded quanta.
//!
//! *Interface*: `main`. A trace is the text of `/syn/trace`, or a program's that prints in its form.

mod svg;
mod trace;

use crate::bench::guest::Kernel;
use lexopt::prelude::*;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;
use svg::{Line, Panel, Picture};
use trace::{Event, Trace};
use xtask::failure::{Context, Failure, HOST, Result, USAGE};
use xtask::{compile, host};

const HELP: &str = "\
usage: cargo xtask plot TRACE [--out DIR]
       cargo xtask plot feeds [--out DIR]
       cargo xtask plot loop [--out DIR]

Writes a picture of quanta, fills and CPU time, for each thread over time.
TRACE is a file with the text of the guest's /syn/trace: NAME.svg is written to the working directory.
`feeds` measures: a guest under icount, with a pipeline, and a step of load beside it.
`loop` simulates the loop of a quantum on the host: a step, a ramp, jitter, twenty stages.

  --out DIR    where the pictures go (`feeds` and `loop`: docs/pictures)
";

/// Where the pictures of the documentation are.
const PICTURES: &str = "docs/pictures";
/// The simulations, with their titles.
const LOOPS: [(&str, &str); 4] = [
    (
        "step",
        "Simulated: a stage that needs 40 % of the CPU, and a step of load",
    ),
    (
        "ramp",
        "Simulated: a stage beside three threads that compute, and a rate that grows from 10 % to 42 %",
    ),
    (
        "jitter",
        "Simulated: a stage beside three threads, 30 % of the CPU at a rate that varies by half",
    ),
    (
        "twenty",
        "Simulated: a chain of twenty stages, of which the eighth needs 35 % of the CPU",
    ),
];
/// Threads in a picture.
const SHOWN: usize = 24;

/// Runs the command.
pub fn main(words: Vec<OsString>) -> Result<i32> {
    let (mut what, mut out) = (None, None);
    let mut parser = lexopt::Parser::from_args(words);
    while let Some(argument) = parser.next()? {
        match argument {
            Long("out") => out = Some(PathBuf::from(parser.value()?)),
            Short('h') | Long("help") => {
                print!("{HELP}");
                return Ok(0);
            }
            Value(word) if what.is_none() => what = Some(word),
            other => return Err(other.unexpected().into()),
        }
    }
    let what =
        what.ok_or_else(|| Failure::new(USAGE, "plot: of which trace? (--help tells more)"))?;
    let pictures = || host::project().join(PICTURES);
    match what.to_str() {
        Some("feeds") => feeds(&out.unwrap_or_else(pictures))?,
        Some("loop") => loops(&out.unwrap_or_else(pictures))?,
        _ => {
            let path = PathBuf::from(&what);
            let wrong = |why: String| Failure::new(USAGE, format!("{}: {why}", path.display()));
            let bytes = std::fs::read(&path).map_err(|error| wrong(error.to_string()))?;
            let trace = trace::parse(&String::from_utf8_lossy(&bytes)).map_err(wrong)?;
            let name = path.file_stem().unwrap_or_default().to_string_lossy();
            write(
                &out.unwrap_or_else(|| ".".into()),
                &name,
                &picture(&name, &trace),
            )?;
        }
    }
    Ok(0)
}

/// Writes a picture, and says so.
fn write(folder: &Path, name: &str, picture: &Picture) -> Result<()> {
    std::fs::create_dir_all(folder).context(format!("cannot make {}", folder.display()))?;
    let path = folder.join(format!("{name}.svg"));
    std::fs::write(&path, picture.svg()).context(format!("cannot write {}", path.display()))?;
    println!("{}", path.display());
    Ok(())
}

/// Quanta, fills and CPU time of a trace. Times begin with the first event or mark.
fn picture(title: &str, trace: &Trace) -> Picture {
    let moments = trace.events.iter().map(|event| event.at);
    let moments = moments.chain(trace.marks.iter().map(|mark| mark.0));
    let (begin, end) = moments.fold((u64::MAX, 0), |(least, most), at| {
        (least.min(at), most.max(at))
    });
    let time = |at: u64| (at - begin) as f64 / 1e6;
    let threads = trace.threads();
    let mut title = title.to_owned();
    if threads.len() > SHOWN {
        title += &format!(" ({SHOWN} of {} threads)", threads.len());
    }
    if trace.lost > 0 {
        title += &format!(" ({} events forgotten)", trace.lost);
    }
    let (mut quanta, mut fills, mut shares) = (Vec::new(), Vec::new(), Vec::new());
    for (number, (thread, _)) in threads.iter().take(SHOWN).enumerate() {
        let events: Vec<&Event> = trace.of(*thread).collect();
        let points = |value: &dyn Fn(&Event) -> Option<f64>| -> Vec<_> {
            let each = events
                .iter()
                .filter_map(|event| Some((time(event.at), value(event)?)));
            each.collect()
        };
        let line = |dashed, points| Line {
            number,
            dashed,
            points,
        };
        quanta.push(line(
            false,
            points(&|event| Some(event.quantum as f64 / 1e3)),
        ));
        for writes in [false, true] {
            let fill = |event: &Event| {
                let of_side = event
                    .channels
                    .iter()
                    .filter(|channel| channel.writes == writes);
                of_side
                    .map(|channel| channel.held as f64 * 100.0 / channel.size as f64)
                    .reduce(f64::max)
            };
            fills.push(line(writes, points(&fill)));
        }
        shares.push(line(
            false,
            share(&events)
                .map(|(at, share)| (time(at), share * 100.0))
                .collect(),
        ));
    }
    let most = trace
        .events
        .iter()
        .map(|event| event.quantum)
        .max()
        .unwrap_or(0);
    let panel = |title: &str, most, lines| Panel {
        title: title.into(),
        most,
        lines,
    };
    Picture {
        title,
        span: (0.0, time(end)),
        marks: trace
            .marks
            .iter()
            .map(|(at, text)| (time(*at), text.clone()))
            .collect(),
        names: threads
            .iter()
            .take(SHOWN)
            .map(|(thread, name)| format!("{name} {thread}"))
            .collect(),
        panels: vec![
            panel("quantum, µs", most as f64 * 1.05 / 1e3, quanta),
            panel(
                "fill of the fullest channel, %: read from (drawn through), written to (dashed)",
                105.0,
                fills,
            ),
            panel("share of the CPU since the event before, %", 105.0, shares),
        ],
    }
}

/// The part of the time that a thread has run between each event and the one before, from that on.
fn share<'a>(events: &'a [&Event]) -> impl Iterator<Item = (u64, f64)> + 'a {
    let of = |pair: &[&Event]| {
        let (passed, used) = (
            pair[1].at - pair[0].at,
            pair[1].used.saturating_sub(pair[0].used),
        );
        used as f64 / passed.max(1) as f64
    };
    let last = events
        .windows(2)
        .last()
        .map(move |pair| (pair[1].at, of(pair)));
    events
        .windows(2)
        .map(move |pair| (pair[0].at, of(pair)))
        .chain(last)
}

/// Measures, and says how long the consumer took.
fn feeds(folder: &Path) -> Result<()> {
    host::need(&[host::QEMU])?;
    let program = compile::program("step", &compile::GLIBC)?;
    let limit = Duration::from_secs(120);
    let text = Kernel::Synthesis.run(&program, &[], limit, |machine| machine.icount = Some(0))?;
    let trace = trace::parse(&text).map_err(|why| Failure::new(HOST, why))?;
    let title = "Measured: a consumer whose pipe is full, beside programs that compute";
    write(folder, "feeds", &picture(title, &trace))?;
    for number in 0..trace.marks.len() {
        let found = settling(&trace, number).ok_or_else(|| {
            Failure::new(HOST, "the trace has no consumer that runs after a step")
        })?;
        println!(
            "{}: twice its own quantum after {:.1} ms, the longest after {:.1} ms, {:.0} % of the CPU in the end, nine tenths of that \
             after {:.1} ms",
            trace.marks[number].1,
            found.twice,
            found.longest,
            found.share * 100.0,
            found.settled
        );
    }
    Ok(())
}

/// How a consumer comes to its share: milliseconds after a mark.
#[derive(Debug, PartialEq)]
struct Settling {
    /// Its quantum is twice its own.
    twice: f64,
    /// Its quantum is the longest that it gets.
    longest: f64,
    /// It has nine tenths of the share of the CPU that it has in the end.
    settled: f64,
    /// That share.
    share: f64,
}

/// Of the first thread that reads from a channel, from a mark until the next one.
fn settling(trace: &Trace, mark: usize) -> Option<Settling> {
    let from = trace.marks.get(mark)?.0;
    let to = trace.marks.get(mark + 1).map_or(u64::MAX, |next| next.0);
    let reads = |event: &&Event| event.channels.iter().any(|channel| !channel.writes);
    let consumer = trace.events.iter().find(reads)?.thread;
    let during = |event: &&Event| (from..to).contains(&event.at);
    let events: Vec<_> = trace.of(consumer).filter(during).collect();
    let after = |at: u64| (at - from) as f64 / 1e6;
    let longest = events.iter().map(|event| event.quantum).max()?;
    let first = |wanted: u64| events.iter().find(|event| event.quantum >= wanted);
    let (middle, last) = (events.get(events.len() / 2)?, events.last()?);
    let passed = last.at.checked_sub(middle.at).filter(|time| *time > 0)?;
    let share = last.used.saturating_sub(middle.used) as f64 / passed as f64;
    let settled = self::share(&events).find(|(_, now)| *now >= share * 0.9)?.0;
    Some(Settling {
        twice: after(first(2 * events[0].own)?.at),
        longest: after(first(longest)?.at),
        settled: after(settled),
        share,
    })
}

/// Simulates.
fn loops(folder: &Path) -> Result<()> {
    for (name, title) in LOOPS {
        let mut command = Command::new(env!("CARGO"));
        command.current_dir(host::project());
        command.args([
            "run",
            "--quiet",
            "--package",
            "feedback",
            "--example",
            "loop",
            name,
        ]);
        let text = host::command_output(&mut command)?;
        let trace = trace::parse(&text).map_err(|why| Failure::new(HOST, why))?;
        write(folder, &format!("loop-{name}"), &picture(title, &trace))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A consumer whose quantum grows by half its own at each event, beside another thread.
    fn trace() -> Trace {
        let mut text = String::from("# quanta 1 off\n");
        let (mut now, mut used) = (10_000_000, 0);
        for n in 0..20 {
            let quantum = 400_000 + 200_000 * n.min(6);
            text += &format!("{now} 0 1 1 400000 {quantum} 100 256 {used} r:1/1 consumer\n");
            text += &format!("{} 0 2 2 400000 400000 100 - 0 - other\n", now + quantum);
            (now, used) = (now + quantum + 400_000, used + quantum);
        }
        trace::parse(&(text + "# mark 9000000 it begins\n")).unwrap()
    }

    #[test]
    fn the_time_to_a_share_is_found() {
        let found = settling(&trace(), 0).unwrap();
        assert_eq!(
            (found.twice, found.longest),
            (1.0 + 0.8 + 1.0, 1.0 + 5.4 + 2.4)
        );
        assert!((found.share - 0.8).abs() < 0.001, "{found:?}");
        // Nine tenths of 0.8 is the share of a quantum of 1.2 ms beside 0.4.
        assert!(
            (found.settled - (1.0 + 2.8 + 1.6)).abs() < 0.001,
            "{found:?}"
        );
        assert_eq!(settling(&trace(), 1), None);
    }

    #[test]
    fn a_picture_has_each_thread_and_each_side() {
        let picture = picture("title", &trace());
        assert_eq!(picture.names, ["consumer 1", "other 2"]);
        assert_eq!(
            picture
                .panels
                .iter()
                .map(|panel| panel.lines.len())
                .collect::<Vec<_>>(),
            [2, 4, 2]
        );
        assert_eq!(picture.marks[0], (0.0, "it begins".to_owned()));
        assert!(picture.svg().len() < 10_000);
    }

    #[test]
    fn a_wrong_trace_is_the_users_fault() {
        let folder = std::env::temp_dir().join(format!("xtask-plot-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let run = |name: &str, text: Option<&str>| {
            let path = folder.join(name);
            text.into_iter()
                .for_each(|text| std::fs::write(&path, text).unwrap());
            main(vec![path.into(), "--out".into(), folder.clone().into()])
                .map_err(|failure| failure.status)
        };
        assert_eq!(run("missing", None), Err(USAGE));
        assert_eq!(run("bad", Some("hello")), Err(USAGE));
        assert_eq!(run("empty", Some("# quanta 1 on\n")), Err(USAGE));
        assert_eq!(
            run(
                "good.txt",
                Some("# quanta 1 on\n20 0 2 2 1 1 100 - 7 - sh\n")
            ),
            Ok(0)
        );
        assert!(folder.join("good.svg").exists());
        assert_eq!(
            main(Vec::new()).map_err(|failure| failure.status),
            Err(USAGE)
        );
        std::fs::remove_dir_all(&folder).unwrap();
    }
}
