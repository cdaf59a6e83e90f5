//! Programs from Debian's packages that play by the Open Sound System, and what is heard of them.
//!
//! *Interface*: `run`, and `dsp` for the calls one by one. Each program plays a tone of its own
//! ([`PLAYERS`]), which the host looks for in the file that the machine's sound card records into: its pitch,
//! its length, and that it has no gap. The machine's time is counted in instructions, so how busy the host is
//! makes no gap. With `--long` all programs; else those of sox, whose packages are few.

use super::kit::Kit;
use super::tap::Check;
use std::f64::consts::TAU;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::time::Duration;
use xtask::failure::{Context, Result};
use xtask::machine::Card;
use xtask::rootfs::Root;
use xtask::{debian, host};

/// The name in `tests/guest/players.sh`, and its tone: hertz, frames in a second, channels.
struct Player(&'static str, u32, u32, u16);

const PLAYERS: &[Player] = &[
    Player("sox", 500, 44_100, 2),
    Player("play", 600, 22_050, 1),
    Player("cat", 700, 8000, 1),
];
const PACKAGES: &[&str] = &["sox", "libsox-fmt-oss"];

/// Those that have many packages.
const MORE_PLAYERS: &[Player] = &[
    Player("mpg123", 800, 48_000, 2),
    Player("aplay", 900, 32_000, 2),
    Player("ffmpeg", 1000, 44_100, 2),
    Player("ffplay", 1100, 48_000, 1),
    Player("mplayer", 1200, 11_025, 2),
];
const MORE_PACKAGES: &[&str] = &[
    "sox",
    "libsox-fmt-oss",
    "libsox-fmt-mp3",
    "mpg123",
    "alsa-utils",
    "libasound2-plugins",
    "ffmpeg",
    "mplayer",
];

/// Seconds that a tone lasts.
const SECONDS: f64 = 1.5;
/// The card's frames in a second.
const RATE: f64 = 44_100.0;
/// Silence of so many frames parts two tones.
const PAUSE: usize = 8820;
/// Silence of so many frames in a tone is a gap.
const GAP: usize = 44;

pub(super) fn run(kit: &Kit) -> Vec<Check> {
    let mut checks = on_machine(kit, "players", Card::Ac97, 256, PLAYERS, PACKAGES);
    checks.extend(on_machine(
        kit,
        "players-hda",
        Card::Hda,
        256,
        PLAYERS,
        PACKAGES,
    ));
    if kit.long {
        checks.extend(on_machine(
            kit,
            "players-more",
            Card::Ac97,
            1536,
            MORE_PLAYERS,
            MORE_PACKAGES,
        ));
    }
    checks
}

/// `user/tests/dsp.c` on one CPU and on four, and with another card.
pub(super) fn dsp(kit: &Kit) -> Vec<Check> {
    let mut checks = Vec::new();
    for (name, cpus, card) in [
        ("dsp-1", 1, Card::Ac97),
        ("dsp-4", 4, Card::Ac97),
        ("dsp-hda", 1, Card::Hda),
    ] {
        let mut machine = super::guest::with(kit, name, cpus, 128);
        machine.card = card;
        match kit.file(&format!("{name}.wav")) {
            Ok(file) => machine.audio = Some(file),
            Err(failure) => return vec![Check::hindered(name, failure)],
        }
        let limit = Duration::from_secs(300);
        checks.extend(kit.tap(&machine, &["/tests/dsp-glibc"], limit));
    }
    checks
}

fn on_machine(
    kit: &Kit,
    name: &str,
    card: Card,
    mebibytes: u64,
    players: &[Player],
    packages: &[&str],
) -> Vec<Check> {
    let tried = || -> Result<Vec<Check>> {
        let mut machine = super::guest::with(kit, name, 1, mebibytes);
        if kit.leaves_out(&machine) {
            return Ok(Vec::new());
        }
        let heard = kit.file(&format!("{name}.wav"))?;
        machine.audio = Some(heard.clone());
        machine.card = card;
        machine.icount = Some(0);
        let mut command = vec!["/bin/sh", "/tests/players.sh"];
        command.extend(players.iter().map(|player| player.0));
        let root = root(players, packages);
        let mut checks = kit.tap_in(root, &machine, &command, Duration::from_secs(600));
        let bytes = std::fs::read(&heard).context(heard.display())?;
        let tones = tones(&samples(&bytes));
        for player in players {
            let name = format!("{}: the tone, whole", player.0);
            let good = tones.iter().any(|tone| tone.is_of(player));
            checks.push(Check::new(name, good, format!("heard were {tones:.1?}")));
        }
        Ok(checks)
    };
    tried().unwrap_or_else(|failure| vec![Check::hindered(name, failure)])
}

fn root(players: &[Player], packages: &[&str]) -> Result<Root> {
    let mut root = Root::new(Some(&debian::unpacked(packages)?))?;
    let scripts = host::project().join("tests/guest");
    root.add(&format!("{}:/tests", scripts.display()))?;
    for player in players {
        let path = written(player)?;
        root.add(&format!("{}:/tones/{}.wav", path.display(), player.0))?;
    }
    Ok(root)
}

/// A player's tone as a file.
fn written(&Player(name, hertz, rate, channels): &Player) -> Result<PathBuf> {
    let frames = (SECONDS * f64::from(rate)) as u32;
    let bytes = frames * u32::from(channels) * 2;
    let mut file = Vec::new();
    file.extend(b"RIFF");
    file.extend((bytes + 36).to_le_bytes());
    file.extend(b"WAVEfmt \x10\0\0\0\x01\0");
    file.extend(channels.to_le_bytes());
    file.extend(rate.to_le_bytes());
    file.extend((rate * u32::from(channels) * 2).to_le_bytes());
    file.extend((channels * 2).to_le_bytes());
    file.extend(b"\x10\0data");
    file.extend(bytes.to_le_bytes());
    for frame in 0..frames {
        let turn = f64::from(frame) * f64::from(hertz) / f64::from(rate);
        let sample = (12_000.0 * (TAU * turn).sin()) as i16;
        for _ in 0..channels {
            file.extend(sample.to_le_bytes());
        }
    }
    let path: &Path = &host::build_dir("test")?.join(format!("tone-{name}.wav"));
    std::fs::write(path, file).context(path.display())?;
    Ok(path.to_owned())
}

/// The left samples of a file with frames of two.
fn samples(wav: &[u8]) -> Vec<i16> {
    const HEADER: usize = 44;
    let frames = wav.get(HEADER..).unwrap_or_default().chunks_exact(4);
    frames
        .map(|frame| i16::from_le_bytes([frame[0], frame[1]]))
        .collect()
}

/// A tone that was heard.
#[derive(Debug)]
struct Tone {
    hertz: f64,
    seconds: f64,
    /// Pieces of silence in it.
    gaps: usize,
}

impl Tone {
    fn is_of(&self, player: &Player) -> bool {
        let hertz = f64::from(player.1);
        let pitch = (self.hertz / hertz - 1.0).abs() < 0.005;
        pitch && (self.seconds / SECONDS - 1.0).abs() < 0.04 && self.gaps == 0
    }
}

/// The tones between pauses.
fn tones(samples: &[i16]) -> Vec<Tone> {
    parts(samples, PAUSE)
        .into_iter()
        .map(|part| tone(&samples[part]))
        .collect()
}

/// The parts between `silence` frames, or more, that are nearly zero.
fn parts(samples: &[i16], silence: usize) -> Vec<Range<usize>> {
    let mut parts: Vec<Range<usize>> = Vec::new();
    // Coding and filters make small values next to a tone.
    let loud = samples
        .iter()
        .enumerate()
        .filter(|(_, sample)| sample.unsigned_abs() > 200);
    for (at, _) in loud {
        match parts.last_mut() {
            Some(part) if at - part.end < silence => part.end = at + 1,
            _ => parts.push(at..at + 1),
        }
    }
    parts
}

fn tone(samples: &[i16]) -> Tone {
    let pairs = samples.windows(2).enumerate();
    let rising = pairs.filter(|(_, pair)| pair[0] < 0 && pair[1] >= 0);
    let times: Vec<f64> = rising
        .map(|(at, pair)| {
            let [before, after] = [pair[0], pair[1]].map(f64::from);
            at as f64 - before / (after - before)
        })
        .collect();
    let hertz = match times[..] {
        [first, .., last] => (times.len() - 1) as f64 * RATE / (last - first),
        _ => 0.0,
    };
    Tone {
        hertz,
        seconds: samples.len() as f64 / RATE,
        gaps: parts(samples, GAP).len().saturating_sub(1),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tone_is_heard_and_its_gaps() {
        let sine = |n: usize| (12_000.0 * (TAU * 1000.0 * n as f64 / RATE).sin()) as i16;
        let whole: Vec<i16> = (0..66_150).map(sine).collect();
        let broken: Vec<i16> = (0..66_150)
            .map(|n| if n / 100 == 9 { 0 } else { sine(n) })
            .collect();
        let all = [
            vec![0; 20_000],
            whole,
            vec![0; 20_000],
            broken,
            vec![0; 100],
        ]
        .concat();
        let heard = tones(&all);
        assert_eq!(heard.len(), 2);
        assert!(heard.iter().all(|tone| (tone.hertz - 1000.0).abs() < 2.0));
        assert_eq!((heard[0].gaps, heard[1].gaps), (0, 1));
        let player = |hertz| Player("", hertz, 0, 0);
        assert!(heard[0].is_of(&player(1000)) && !heard[0].is_of(&player(1010)));
        assert!(!heard[1].is_of(&player(1000)));
    }
}
