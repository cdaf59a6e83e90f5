//! The programs of sound: the same pipelines in the guest and on the host.
//!
//! *Interface*: `run`. Both run `tests/guest/music.sh` with the same binary, and the output of each of its
//! cases must be the same, byte for byte.

use super::kit::Kit;
use super::tap::Check;
use crate::compile::{self, Music};
use crate::failure::{Context, Result};
use crate::host;
use crate::machine::Status;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

const SCRIPT: &str = "music.sh";
/// The program of figure 6.7, whose devices are files here.
const FIGURE: &str = "ln -sf $PWD/music /dev/cd; ln -sf $PWD/speaker /dev/speaker; \
    play-cd && cmp music speaker && echo '## played'";
const LIMIT: Duration = Duration::from_secs(300);

/// On one CPU and on four, whose programs run at once.
pub fn run(kit: &Kit) -> Vec<Check> {
    let compared = || -> Result<Vec<Check>> {
        let music = compile::music()?;
        let expected = on_host(&music.binary)?;
        let mut checks = Vec::new();
        for cpus in [1, 4] {
            checks.extend(in_guest(kit, &music, cpus, &expected)?);
        }
        Ok(checks)
    };
    compared().unwrap_or_else(|failure| vec![Check::new("music", false, failure.message)])
}

/// The output of each case on the host.
fn on_host(binary: &Path) -> Result<Vec<(String, String)>> {
    let folder = empty("music")?;
    let links = empty("music-links")?;
    for name in host::command_output(Command::new(binary).arg("--links"))?.lines() {
        let link = links.join(name);
        std::os::unix::fs::symlink(binary, &link).context(link.display())?;
    }
    let link = links.join("music");
    std::os::unix::fs::symlink(binary, &link).context(link.display())?;
    let others = std::env::var_os("PATH").unwrap_or_default();
    let all = std::iter::once(links).chain(std::env::split_paths(&others));
    let path = std::env::join_paths(all).context("PATH")?;
    let script = host::project().join("tests/guest").join(SCRIPT);
    let mut command = Command::new("sh");
    command.arg(script).current_dir(folder).env("PATH", path);
    let output = command.output().context("cannot start sh")?;
    Ok(cases(&String::from_utf8_lossy(&output.stdout)))
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
