//! A stream of sound beside programs that compute: nothing of it may be missing.
//!
//! *Interface*: `run`. A disc, which turns at its own rate whatever its reader does, goes through five
//! filters to the loudspeaker (`tests/guest/dropouts.sh`), in blocks of 64 frames, beside twenty programs
//! that compute, one that forks, one that sorts and one that packs. Nobody has a priority. The samples
//! that the card plays must be those that the same filters give on the host, each one, in order, without
//! a gap. Under icount a machine is as fast as its instructions: a busy host makes no gap. QEMU runs
//! several CPUs in turn then, so the machine with four has half as many instructions a second on each as
//! that with one. With `--long` the stream has 30 seconds.

use super::kit::Kit;
use super::tap::Check;
use std::time::Duration;
use xtask::compile::{self, Music};
use xtask::failure::{Context, Result};
use xtask::host;
use xtask::machine::Status;
use xtask::stream::{Stream, compare};

/// CPUs of each machine, and the power of two of an instruction's nanoseconds: 500 million a second, of which
/// the filters need a quarter, and 1000 million among four.
const MACHINES: [(u32, u32); 2] = [(1, 1), (4, 0)];
const HOGS: &str = "20";
const LIMIT: Duration = Duration::from_secs(1800);

/// Runs the test.
pub fn run(kit: &Kit) -> Vec<Check> {
    let seconds = if kit.long { 30 } else { 2 };
    let tried = || -> Result<Vec<Check>> {
        let music = compile::music()?;
        let folder = host::build_dir("test")?.join("dropouts");
        let stream = Stream::new(&music, seconds, &folder)?;
        let mut checks = Vec::new();
        for (cpus, shift) in MACHINES {
            checks.extend(played(kit, &music, &stream, cpus, shift)?);
        }
        Ok(checks)
    };
    tried().unwrap_or_else(|failure| vec![Check::hindered("dropouts", failure)])
}

fn played(
    kit: &Kit,
    music: &Music,
    stream: &Stream,
    cpus: u32,
    shift: u32,
) -> Result<Option<Check>> {
    let name = format!("dropouts-{cpus}");
    let mut machine = kit.machine(&name);
    if kit.leaves_out(&machine) {
        return Ok(None);
    }
    let record = kit.file(&format!("{name}.wav"))?;
    machine.cpus = cpus;
    machine.memory = 256 << 20;
    machine.icount = Some(shift);
    machine.audio = Some(record.clone());
    let command = ["/bin/sh", "/tests/dropouts.sh", HOGS, "/dev/cd"];
    let mut root = kit.root(&command)?;
    stream.put(&mut root, music)?;
    root.disc(&stream.disc)?;
    let ran = kit.boot_root(root, &machine, &command, Vec::new(), LIMIT)?;
    let text = record.with_extension("txt");
    std::fs::write(&text, ran.text()).context(text.display())?;
    let heard = std::fs::read(&record).context(record.display())?;
    let (missing, gaps) = compare(&heard, &stream.expected);
    let good = !stream.expected.is_empty()
        && (missing, gaps) == (0, 0)
        && ran.outcome.status == Status::Exit(0);
    let told = format!("{missing} frames are missing, {gaps} gaps, {}", ran.told());
    kit.note(good);
    let name = format!("five filters beside 23 programs, processors {cpus}");
    Ok(Some(Check::new(&name, good, told)))
}
