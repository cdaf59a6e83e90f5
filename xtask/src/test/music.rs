//! The programs of sound: the same pipelines in the guest and on the host.
//!
//! *Interface*: `run`. Both run `tests/guest/music.sh` with the same binary, and the output of each of its
//! cases must be the same, byte for byte. A pipeline that ends in the loudspeaker is heard as the host
//! computes it, sample for sample.

use super::kit::Kit;
use super::tap::Check;
use crate::compile::{self, Music};
use crate::failure::{Context, Result};
use crate::host;
use crate::machine::Status;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

const SCRIPT: &str = "music.sh";
/// The program of figure 6.7, whose devices are files here.
const FIGURE: &str = "ln -sf $PWD/music /dev/cd; ln -sf $PWD/speaker /dev/speaker; \
    play-cd && cmp music speaker && echo '## played'";
/// A pipeline whose output is played.
const SOUNDS: &str = "rhythm 140 --seconds 1 | echoes 50 --gain 30 | lowpass 6000";
/// Bytes of a WAV file before its samples.
const HEADER: usize = 44;
const LIMIT: Duration = Duration::from_secs(300);

/// On one CPU and on four, whose programs run at once.
pub fn run(kit: &Kit) -> Vec<Check> {
    let compared = || -> Result<Vec<Check>> {
        let music = compile::music()?;
        let expected = cases_on_host(&music.binary)?;
        let mut checks = Vec::new();
        for cpus in [1, 4] {
            checks.extend(in_guest(kit, &music, cpus, &expected)?);
        }
        checks.extend(played(kit, &music)?);
        Ok(checks)
    };
    compared().unwrap_or_else(|failure| vec![Check::new("music", false, failure.message)])
}

/// The output of a line of the host's shell, with the programs.
///
/// # Errors
/// Host failure.
pub(super) fn on_host(binary: &Path, line: &str) -> Result<Vec<u8>> {
    of_host(binary, &["-c", line].map(OsStr::new))
}

/// Of the frames that are expected, those that a recording does not have, and the gaps between those that it
/// has: silence where there should be none. Silence at both ends does not count.
pub(super) fn compare(recording: &[u8], expected: &[u8]) -> (usize, usize) {
    /// Frames behind a gap by which it is seen where the sound goes on.
    const KNOWN: usize = 16;
    let heard: &[[u8; 4]] = sounding(recording.get(HEADER..).unwrap_or_default())
        .as_chunks()
        .0;
    let expected: &[[u8; 4]] = sounding(expected).as_chunks().0;
    let (mut at, mut missing, mut gaps) = (0, 0, 0);
    let mut heard = heard;
    while at < expected.len() && !heard.is_empty() {
        if heard[0] == expected[at] {
            (heard, at) = (&heard[1..], at + 1);
            continue;
        }
        gaps += 1;
        let silent = heard.iter().take_while(|frame| **frame == [0; 4]).count();
        heard = &heard[silent..];
        let known = &heard[..KNOWN.min(heard.len())];
        let rest = &expected[at..];
        match rest
            .windows(known.len().max(1))
            .position(|frames| frames == known)
        {
            Some(lost) if !known.is_empty() => (at, missing) = (at + lost, missing + lost),
            _ => break,
        }
    }
    (missing + expected.len() - at, gaps)
}

/// The output of each case on the host.
fn cases_on_host(binary: &Path) -> Result<Vec<(String, String)>> {
    let script = host::project().join("tests/guest").join(SCRIPT);
    let output = of_host(binary, &[script.as_os_str()])?;
    Ok(cases(&String::from_utf8_lossy(&output)))
}

/// The output of the host's shell with these words, in an empty folder, with the programs.
fn of_host(binary: &Path, words: &[&OsStr]) -> Result<Vec<u8>> {
    // Several suites may do so at once.
    static CALLS: AtomicU32 = AtomicU32::new(0);
    let call = CALLS.fetch_add(1, Ordering::Relaxed);
    let folder = empty(&format!("music-{call}"))?;
    let links = empty(&format!("music-links-{call}"))?;
    for name in host::command_output(Command::new(binary).arg("--links"))?.lines() {
        let link = links.join(name);
        std::os::unix::fs::symlink(binary, &link).context(link.display())?;
    }
    let link = links.join("music");
    std::os::unix::fs::symlink(binary, &link).context(link.display())?;
    let others = std::env::var_os("PATH").unwrap_or_default();
    let all = std::iter::once(links).chain(std::env::split_paths(&others));
    let path = std::env::join_paths(all).context("PATH")?;
    let mut command = Command::new("sh");
    command.args(words).current_dir(folder).env("PATH", path);
    Ok(command.output().context("cannot start sh")?.stdout)
}

fn empty(name: &str) -> Result<PathBuf> {
    let folder = host::build_dir("test")?.join(name);
    if folder.exists() {
        std::fs::remove_dir_all(&folder).context(folder.display())?;
    }
    std::fs::create_dir(&folder).context(folder.display())?;
    Ok(folder)
}

fn in_guest(
    kit: &Kit,
    music: &Music,
    cpus: u32,
    expected: &[(String, String)],
) -> Result<Vec<Check>> {
    let mut machine = kit.machine(&format!("music-{cpus}"));
    machine.cpus = cpus;
    machine.memory = 128 << 20;
    if kit.leaves_out(&machine) {
        return Ok(Vec::new());
    }
    let line = format!("mkdir /tmp/music && cd /tmp/music && sh /tests/{SCRIPT}; {FIGURE}");
    let command = ["/bin/sh", "-c", &line];
    let mut root = kit.root(&command)?;
    root.music(music)?;
    let ran = kit.boot_root(root, &machine, &command, Vec::new(), LIMIT)?;
    let found = cases(&ran.text());
    let mut checks: Vec<Check> = expected
        .iter()
        .map(|(name, text)| {
            let name = format!("{name}, {cpus} CPUs");
            let here = found.iter().find(|(found, _)| name.starts_with(found));
            let here = here.map_or("", |(_, here)| here);
            let differs = text.lines().zip(here.lines()).find(|(a, b)| a != b);
            Check::new(
                name,
                text == here && !text.is_empty(),
                format!("{differs:?}"),
            )
        })
        .collect();
    let played = found.iter().any(|(name, _)| name == "played");
    checks.push(Check::new("the program of figure 6.7", played, ran.told()));
    let orderly = ran.outcome.status == Status::Exit(0) && ran.stderr.is_empty();
    checks.push(Check::new("it ends in order", orderly, ran.told()));
    kit.note(checks.iter().all(|check| check.good));
    Ok(checks)
}

/// A pipeline into the loudspeaker. Under icount time passes by instructions: a busy host makes no gap.
fn played(kit: &Kit, music: &Music) -> Result<Option<Check>> {
    const NAME: &str = "music-played";
    let mut machine = kit.machine(NAME);
    if kit.leaves_out(&machine) {
        return Ok(None);
    }
    let record = host::build_dir("test")?.join("music.wav");
    machine.icount = Some(0);
    machine.audio = Some(record.clone());
    let line = format!("{SOUNDS} | play --report");
    let command = ["/bin/sh", "-c", &line];
    let mut root = kit.root(&command)?;
    root.music(music)?;
    let ran = kit.boot_root(root, &machine, &command, Vec::new(), LIMIT)?;
    let expected = on_host(&music.binary, SOUNDS)?;
    let heard = std::fs::read(&record).context(record.display())?;
    let (missing, gaps) = compare(&heard, &expected);
    let said = String::from_utf8_lossy(&ran.stderr).contains(" 0 xruns, ");
    let good = !expected.is_empty() && (missing, gaps) == (0, 0) && said;
    let lengths = format!("{missing} frames are missing, {gaps} gaps, {}", ran.told());
    kit.note(good);
    Ok(Some(Check::new(NAME, good, lengths)))
}

/// Without the silent frames at the beginning and the end.
fn sounding(bytes: &[u8]) -> &[u8] {
    let mut frames: &[[u8; 4]] = bytes.as_chunks().0;
    while let [[0, 0, 0, 0], rest @ ..] | [rest @ .., [0, 0, 0, 0]] = frames {
        frames = rest;
    }
    frames.as_flattened()
}

/// The cases of an output by name.
fn cases(text: &str) -> Vec<(String, String)> {
    let parts = text.split("## ").skip(1);
    let case = |part: &str| {
        let (name, rest) = part.split_once('\n').unwrap_or((part, ""));
        (name.to_owned(), rest.to_owned())
    };
    parts.map(case).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn silence_around_a_sound_does_not_count() {
        let bytes = [0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 7, 0, 0, 0, 0, 0, 0, 0];
        assert_eq!(sounding(&bytes), &bytes[4..16]);
        assert!(sounding(&[0; 12]).is_empty());
    }

    #[test]
    fn gaps_and_losses_are_found() {
        let frames: Vec<u8> = (1..=200u32).flat_map(u32::to_le_bytes).collect();
        let record = |parts: &[&[u8]]| [&[0; HEADER], parts.concat().as_slice()].concat();
        assert_eq!(
            compare(&record(&[&[0; 8], &frames, &[0; 4]]), &frames),
            (0, 0)
        );
        let gap = record(&[&frames[..80], &[0; 16], &frames[80..]]);
        assert_eq!(compare(&gap, &frames), (0, 1));
        let lost = record(&[&frames[..80], &[0; 16], &frames[120..]]);
        assert_eq!(compare(&lost, &frames), (10, 1));
        assert_eq!(compare(&record(&[&frames[..80]]), &frames), (180, 0));
        assert_eq!(compare(&record(&[]), &frames), (200, 0));
    }

    #[test]
    fn an_output_has_its_cases() {
        let found = cases("## one\n1\n2\n## two\n");
        let expected = [("one", "1\n2\n"), ("two", "")];
        let expected = expected.map(|(name, text)| (name.to_owned(), text.to_owned()));
        assert_eq!(found, expected);
    }
}
