//! Streams of sound on the host: the output of the same programs, and a recording compared with it.
//!
//! *Interface*: `on_host`, `of_host` run a pipeline; `compare` a recording; [`Stream`] is the one that is
//! played through five filters by `tests/guest/dropouts.sh`.

use crate::compile::Music;
use crate::failure::{Context, Result};
use crate::host;
use crate::rootfs::Root;
use std::ffi::OsStr;
use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};

/// Bytes of a WAV file before its samples.
const HEADER: usize = 44;

/// A stream for `tests/guest/dropouts.sh`, and what is to be heard.
pub struct Stream {
    /// Its frames before the filters.
    pub disc: PathBuf,
    numbers: PathBuf,
    /// The sound after the filters.
    pub expected: Vec<u8>,
}

impl Stream {
    /// One of so many seconds, whose files are in `folder`.
    ///
    /// # Errors
    /// Host failure.
    pub fn new(music: &Music, seconds: u32, folder: &Path) -> Result<Self> {
        std::fs::create_dir_all(folder).context(folder.display())?;
        let disc = folder.join("cd.raw");
        let source = format!("rhythm 110 --seconds {seconds}");
        let stream = on_host(&music.binary, &source)?;
        std::fs::write(&disc, stream).context(disc.display())?;
        let filters = format!(
            "cat '{}' | lowpass 9000 | highpass 50 | echoes 180 --gain 30 | reverb | delay 20",
            disc.display()
        );
        let expected = on_host(&music.binary, &filters)?;
        let mut text = String::new();
        let mut number = 1u64;
        for _ in 0..2000 {
            number = number
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1);
            // Writing to a string does not fail.
            let _ = writeln!(text, "{}", number >> 40);
        }
        let numbers = folder.join("numbers");
        std::fs::write(&numbers, text).context(numbers.display())?;
        Ok(Self {
            disc,
            numbers,
            expected,
        })
    }

    /// How long it sounds, with the end of the reverberation.
    pub fn seconds(&self) -> usize {
        self.expected.len() / 4 / 44_100 + 1
    }

    /// Puts its files where the script looks for them.
    ///
    /// # Errors
    /// Host failure.
    pub fn put(&self, root: &mut Root, music: &Music) -> Result<()> {
        root.music(music)?;
        root.add(&format!("{}:/tests/cd.raw", self.disc.display()))?;
        root.add(&format!("{}:/tests/numbers", self.numbers.display()))
    }
}

/// The output of a line of the host's shell, with the programs.
///
/// # Errors
/// Host failure.
pub fn on_host(binary: &Path, line: &str) -> Result<Vec<u8>> {
    of_host(binary, &["-c", line].map(OsStr::new))
}

/// The output of the host's shell with these words, in an empty folder, with the programs.
///
/// # Errors
/// Host failure.
pub fn of_host(binary: &Path, words: &[&OsStr]) -> Result<Vec<u8>> {
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

/// Of the frames that are expected, those that a recording does not have, and the gaps between those that it
/// has: silence where there should be none. Silence at both ends does not count.
pub fn compare(recording: &[u8], expected: &[u8]) -> (usize, usize) {
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

/// Frames of silence between the first and the last sound of a recording that lacks so many of those
/// expected.
pub fn silence(recording: &[u8], expected: &[u8], missing: usize) -> usize {
    let heard = sounding(recording.get(HEADER..).unwrap_or_default()).len() / 4;
    (heard + missing).saturating_sub(sounding(expected).len() / 4)
}

/// Without the silent frames at the beginning and the end.
fn sounding(bytes: &[u8]) -> &[u8] {
    let mut frames: &[[u8; 4]] = bytes.as_chunks().0;
    while let [[0, 0, 0, 0], rest @ ..] | [rest @ .., [0, 0, 0, 0]] = frames {
        frames = rest;
    }
    frames.as_flattened()
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
        assert_eq!(
            (silence(&gap, &frames, 0), silence(&lost, &frames, 10)),
            (4, 4)
        );
        assert_eq!(compare(&record(&[&frames[..80]]), &frames), (180, 0));
        assert_eq!(compare(&record(&[]), &frames), (200, 0));
    }
}
