//! The programs of sound: the same pipelines in the guest and on the host.
//!
//! *Interface*: `run`. Both run `tests/guest/music.sh` with the same binary, and the output of each of its
//! cases must be the same, byte for byte. A pipeline that ends in the loudspeaker is heard as the host
//! computes it, sample for sample.

use super::kit::Kit;
use super::tap::Check;
use std::path::Path;
use std::time::Duration;
use xtask::compile::{self, Music};
use xtask::failure::{Context, Result};
use xtask::host;
use xtask::machine::Status;
use xtask::stream::{compare, of_host, on_host};

const SCRIPT: &str = "music.sh";
/// The program of figure 6.7, whose devices are files here.
const FIGURE: &str = "ln -sf $PWD/music /dev/cd; ln -sf $PWD/speaker /dev/speaker; \
    play-cd && cmp music speaker && echo '## played'";
/// A pipeline whose output is played.
const SOUNDS: &str = "rhythm 140 --seconds 1 | echoes 50 --gain 30 | lowpass 6000";
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
    compared().unwrap_or_else(|failure| vec![Check::hindered("music", failure)])
}

/// The output of each case on the host.
fn cases_on_host(binary: &Path) -> Result<Vec<(String, String)>> {
    let script = host::project().join("tests/guest").join(SCRIPT);
    let output = of_host(binary, &[script.as_os_str()])?;
    Ok(cases(&String::from_utf8_lossy(&output)))
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
    let record = kit.file("music.wav")?;
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
    fn an_output_has_its_cases() {
        let found = cases("## one\n1\n2\n## two\n");
        let expected = [("one", "1\n2\n"), ("two", "")];
        let expected = expected.map(|(name, text)| (name.to_owned(), text.to_owned()));
        assert_eq!(found, expected);
    }
}
