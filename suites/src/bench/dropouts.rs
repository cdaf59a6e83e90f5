//! `cargo xtask bench dropouts`: a stream of sound beside programs that compute, on Synthesis, Linux and
//! PREEMPT_RT.
//!
//! *Interface*: `main`. The stream, its five filters and the load are those of the suite `dropouts`
//! (`tests/guest/dropouts.sh`), the same static binaries on each kernel, and a compiler beside them. The load
//! doubles until the recording of QEMU's sound card has a gap. Linux plays by ALSA's own device
//! (`user/bench/alsa.c`); its modules are in Debian's packages for hardware.

use super::guest::{Kernel, number};
use super::{linux, results};
use lexopt::prelude::*;
use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::ffi::OsString;
use std::fmt::Write;
use std::path::PathBuf;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;
use xtask::compile::{self, Music};
use xtask::failure::{Context, Result};
use xtask::rootfs::Root;
use xtask::stream::{Stream, compare, silence};
use xtask::{debian, host};

const HELP: &str = "\
usage: cargo xtask bench dropouts [--seconds N] [--cpus N] [--programs N]... [--only synthesis] [--write]

Plays a stream of sound through five filters in blocks of 64 frames beside programs that compute, a loop of forks, a sort, a compressor
and a compiler, on Debian's Linux, its PREEMPT_RT kernel and Synthesis, without priorities and with SCHED_FIFO for the stream's programs.
Prints gaps and missing frames of the recording. The load doubles until there is a gap; 20 programs also run beside 30 seconds of sound, on 1
CPU and on 4, where Synthesis is alone: Linux does not come up there. One instruction is 2 ns of guest time.

  --programs N        so many programs that compute, and no other number; repeatable
  --seconds N         with --programs: length of the stream, without its end of 1.8 seconds (3)
  --cpus N            with --programs: CPUs of the machine (1)
  --only synthesis    leave the others out
  --write             write docs/results.md: with the usual loads and all kernels
";

/// Seconds of the stream, if nothing else is said.
const SECONDS: u32 = 3;
/// The loads of each system; one that doubled another's which was too much is left out.
const LOADS: [Load; 8] = [
    Load::new(SECONDS, 1, 0, 1),
    Load::new(SECONDS, 1, 20, 1),
    Load::new(SECONDS, 1, 40, 1),
    Load::new(SECONDS, 1, 80, 1),
    Load::new(SECONDS, 1, 160, 1),
    Load::new(SECONDS, 1, 20, 2),
    Load::new(30, 1, 20, 1),
    Load::new(30, 4, 20, 1),
];
/// The priority of the stream's programs, if they have one.
const PRIORITY: u32 = 40;
/// Of the kernels' modules those of the sound card, in the order in which they can be loaded.
const MODULES: [&str; 7] = [
    "sound/soundcore.ko",
    "sound/core/snd.ko",
    "sound/core/snd-timer.ko",
    "sound/core/snd-pcm.ko",
    "sound/ac97_bus.ko",
    "sound/pci/ac97/snd-ac97-codec.ko",
    "sound/pci/snd-intel8x0.ko",
];
/// The files of its package that the compiler needs for a source that includes nothing.
const COMPILER: [&str; 4] = [
    "/usr/bin/tcc",
    "/lib/x86_64-linux-gnu/libc.so.6",
    "/lib/x86_64-linux-gnu/libdl.so.2",
    "/lib64/ld-linux-x86-64.so.2",
];
const MEMORY: u64 = 512 << 20;
const LIMIT: Duration = Duration::from_secs(3 * 3600);

/// A kernel, and whether the stream's programs have a priority.
struct System {
    kernel: Kernel,
    urgent: bool,
}

/// Of one run.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Load {
    /// Of sound.
    seconds: u32,
    cpus: u32,
    /// Programs that compute.
    programs: u32,
    /// The power of two of an instruction's nanoseconds.
    shift: u32,
}

impl Load {
    const fn new(seconds: u32, cpus: u32, programs: u32, shift: u32) -> Self {
        Self {
            seconds,
            cpus,
            programs,
            shift,
        }
    }

    /// Whether it is another one with more programs or fewer instructions a second.
    fn exceeds(&self, other: &Self) -> bool {
        (self.seconds, self.cpus) == (other.seconds, other.cpus)
            && self.programs >= other.programs
            && self.shift >= other.shift
    }
}

/// One run.
struct Heard {
    system: usize,
    load: Load,
    gaps: usize,
    missing: usize,
    silent: usize,
    /// The other programs' works.
    works: String,
}

impl Heard {
    fn whole(&self) -> bool {
        (self.gaps, self.missing) == (0, 0)
    }
}

/// All that a run needs.
struct Parts {
    music: Music,
    /// By their seconds.
    streams: BTreeMap<u32, Stream>,
    source: PathBuf,
    compiler: PathBuf,
    conduct: PathBuf,
    urgent: PathBuf,
    alsa: PathBuf,
}

/// Runs the command.
pub fn main(words: Vec<OsString>, write: bool) -> Result<i32> {
    let (mut seconds, mut cpus, mut alone, mut chosen) = (SECONDS, 1, false, Vec::new());
    let mut parser = lexopt::Parser::from_args(words);
    while let Some(argument) = parser.next()? {
        match argument {
            Long("seconds") => seconds = number(&mut parser, "seconds", 1..=600)?,
            Long("cpus") => cpus = number(&mut parser, "cpus", 1..=64)?,
            Long("programs") => chosen.push(number(&mut parser, "programs", 0..=1000)?),
            Long("only") => alone = super::guest::only_synthesis(&mut parser)?,
            Short('h') | Long("help") => {
                print!("{HELP}");
                return Ok(0);
            }
            other => return Err(other.unexpected().into()),
        }
    }
    results::whole(write, chosen.is_empty() && !alone)?;
    host::need(&[host::QEMU, host::BUSYBOX, host::GCC])?;
    let mut systems = Vec::new();
    for urgent in [false, true] {
        if !alone {
            for (name, peer) in [
                ("Linux", &linux::HARDWARE),
                ("PREEMPT_RT", &linux::REALTIME),
            ] {
                let kernel = Kernel::peer(name, peer)?;
                systems.push(System { kernel, urgent });
            }
        }
        let kernel = Kernel::Synthesis;
        systems.push(System { kernel, urgent });
    }
    let loads = if chosen.is_empty() {
        LOADS.to_vec()
    } else {
        let load = |programs: &u32| Load::new(seconds, cpus, *programs, 1);
        chosen.iter().map(load).collect()
    };
    let parts = Parts::new(&loads)?;
    let heard = measured(&parts, &systems, &loads)?;
    let table = table(&systems, &heard);
    print!("{table}");
    if write {
        results::put("dropouts", &report(&systems, &table)?)?;
    }
    let ours = |heard: &&Heard| matches!(systems[heard.system].kernel, Kernel::Synthesis);
    let promised = |heard: &&Heard| (heard.load.programs, heard.load.shift) == (20, 1);
    let broken = |heard: &Heard| !heard.whole();
    Ok(i32::from(
        heard.iter().filter(ours).filter(promised).any(broken),
    ))
}

/// Each system's runs, until one has a gap; two systems at a time, as each takes a processor of the host.
fn measured(parts: &Parts, systems: &[System], loads: &[Load]) -> Result<Vec<Heard>> {
    let (next, all) = (AtomicUsize::new(0), Mutex::new(Vec::new()));
    let work = || -> Result<()> {
        loop {
            let number = next.fetch_add(1, Ordering::Relaxed);
            let Some(system) = systems.get(number) else {
                return Ok(());
            };
            let mut broken = Vec::new();
            for load in loads {
                if !comes_up(system, *load) || broken.iter().any(|less| load.exceeds(less)) {
                    continue;
                }
                let heard = parts.run(system, number, *load)?;
                if !heard.whole() {
                    broken.push(*load);
                }
                all.lock().expect("no panic while held").push(heard);
            }
        }
    };
    std::thread::scope(|scope| {
        let workers = [(); 2].map(|()| scope.spawn(work));
        workers
            .into_iter()
            .try_for_each(|worker| match worker.join() {
                Ok(result) => result,
                Err(panic) => std::panic::resume_unwind(panic),
            })
    })?;
    let mut all = all.into_inner().expect("no panic while held");
    all.sort_by_key(|heard| {
        let load = heard.load;
        (
            load.seconds,
            load.cpus,
            heard.system,
            load.shift,
            load.programs,
        )
    });
    Ok(all)
}

/// Whether the system comes up in the load's machine: Linux stops at its second CPU where QEMU counts
/// instructions (docs/caveats.md).
fn comes_up(system: &System, load: Load) -> bool {
    load.cpus == 1 || matches!(system.kernel, Kernel::Synthesis)
}

impl Parts {
    fn new(loads: &[Load]) -> Result<Self> {
        let folder = host::build_dir("bench")?.join("dropouts");
        std::fs::create_dir_all(&folder).context(folder.display())?;
        let music = compile::music()?;
        let mut streams = BTreeMap::new();
        for &Load { seconds, .. } in loads {
            let folder = folder.join(seconds.to_string());
            if let Entry::Vacant(place) = streams.entry(seconds) {
                place.insert(Stream::new(&music, seconds, &folder)?);
            }
        }
        let source = folder.join("source.c");
        std::fs::write(&source, functions(300)).context(source.display())?;
        Ok(Self {
            music,
            streams,
            source,
            compiler: debian::unpacked(&["tcc"])?,
            conduct: compile::program("conduct", &compile::GLIBC)?,
            urgent: compile::program("urgent", &compile::GLIBC)?,
            alsa: compile::program("alsa", &compile::GLIBC)?,
        })
    }

    fn root(&self, kernel: &Kernel, stream: &Stream) -> Result<Root> {
        let mut root = Root::new(None)?;
        stream.put(&mut root, &self.music)?;
        let tests = host::project().join("tests");
        for (from, to) in [
            (&tests.join("guest/dropouts.sh"), "/tests/dropouts.sh"),
            (&tests.join("bench"), "/bench"),
            (&self.source, "/tests/source.c"),
            (&self.urgent, "/usr/bin/urgent"),
            (&self.alsa, "/usr/bin/alsa"),
        ] {
            root.add(&format!("{}:{to}", from.display()))?;
        }
        for file in COMPILER {
            root.add(&format!("{}{file}:{file}", self.compiler.display()))?;
        }
        if let Some(modules) = kernel.modules() {
            for (number, module) in MODULES.iter().enumerate() {
                let (_, name) = module.rsplit_once('/').unwrap_or(("", module));
                let from = modules.join(module);
                root.add(&format!("{}:/modules/{number}-{name}", from.display()))?;
            }
        }
        Ok(root)
    }

    fn run(&self, system: &System, number: usize, load: Load) -> Result<Heard> {
        let Load {
            seconds,
            cpus,
            programs,
            shift,
        } = load;
        let stream = &self.streams[&seconds];
        let name = format!("{number}-{seconds}-{cpus}-{programs}-{shift}");
        let record = host::build_dir("bench")?.join(format!("dropouts/{name}.wav"));
        let priority = if system.urgent { PRIORITY } else { 0 };
        // A stream that is not heard in twice its time is given up.
        let words = [
            "/bench/dropouts.sh".into(),
            programs.to_string(),
            "/tests/cd.raw".into(),
            priority.to_string(),
            (2 * stream.seconds() + 1).to_string(),
        ];
        let root = self.root(&system.kernel, stream)?;
        let printed = system
            .kernel
            .run_in(root, &self.conduct, &words, LIMIT, |machine| {
                machine.memory = MEMORY;
                machine.cpus = cpus;
                machine.icount = Some(shift);
                machine.audio = Some(record.clone());
                super::guest::steady(machine);
            })?;
        let text = record.with_extension("txt");
        std::fs::write(&text, &printed).context(text.display())?;
        let bytes = std::fs::read(&record).context(record.display())?;
        let (missing, gaps) = compare(&bytes, &stream.expected);
        let heard = Heard {
            system: number,
            load,
            gaps,
            missing,
            silent: silence(&bytes, &stream.expected, missing),
            works: works(&printed),
        };
        eprintln!(
            "xtask: {}, {}, {seconds} s, CPUs {cpus}, programs {programs}, shift {shift}: {gaps} gaps, {missing} frames missing",
            system.kernel.name(),
            policy(system)
        );
        Ok(heard)
    }
}

/// A source of so many functions.
fn functions(count: u32) -> String {
    let mut text = String::new();
    for number in 0..count {
        writeln!(
            text,
            "static int f{number}(int a, int b)\n{{\n    int sum = {number};\n    while (a > 0) {{\n        sum += a * b;\n        a--;\n    }}\n    return sum;\n}}\n\
             int g{number}(int *a)\n{{\n    return f{number}(a[0], a[1]) + a[{number} % 7];\n}}"
        )
        .expect("a string");
    }
    text
}

/// How often the other programs have ended their work, by kind.
fn works(printed: &str) -> String {
    let mut sums: Vec<(&str, u64)> = Vec::new();
    for line in printed.lines() {
        // `uniq`'s count, name, number.
        let words: Vec<_> = line.split_whitespace().collect();
        let [times, name, number] = words.as_slice() else {
            continue;
        };
        let (Ok(times), Ok(number)) = (times.parse::<u64>(), number.parse::<u64>()) else {
            continue;
        };
        match sums.iter_mut().find(|(known, _)| known == name) {
            Some((_, sum)) => *sum += times * number,
            None => sums.push((name, times * number)),
        }
    }
    sums.sort_unstable();
    let each: Vec<String> = sums
        .iter()
        .map(|(name, sum)| format!("{sum} {name}"))
        .collect();
    each.join(", ")
}

fn policy(system: &System) -> &'static str {
    match system.urgent {
        true => "`SCHED_FIFO`",
        false => "none",
    }
}

fn table(systems: &[System], heard: &[Heard]) -> String {
    let mut out = String::from(
        "| sound, s | CPUs | system | priorities | programs that compute | million instructions a second | gaps | frames missing | silence, ms | other works done |\n\
         | ---: | ---: | --- | --- | ---: | ---: | ---: | ---: | ---: | --- |\n",
    );
    for heard in heard {
        let system = &systems[heard.system];
        writeln!(
            out,
            "| {} | {} | {} | {} | {} | {} | {} | {} | {} | {} |",
            heard.load.seconds,
            heard.load.cpus,
            system.kernel.name(),
            policy(system),
            heard.load.programs,
            1000 >> heard.load.shift,
            heard.gaps,
            heard.missing,
            heard.silent * 1000 / 44_100,
            heard.works
        )
        .expect("a string");
    }
    out
}

fn report(systems: &[System], table: &str) -> Result<String> {
    let mut versions: Vec<String> = Vec::new();
    for System { kernel, .. } in systems {
        let version = format!("{} {}", kernel.name(), kernel.version());
        if !versions.contains(&version) {
            versions.push(version);
        }
    }
    Ok(format!(
        "## Drop-outs\n\n\
         `cargo xtask bench dropouts`: seconds of sound, and 1.8 in which they die away, go from a file through five filters to the loudspeaker, in blocks of 64 frames, beside so many programs that \
         compute, a loop of forks, a sort, a compressor and a compiler (tcc). The same static programs run on each kernel; {}, `-icount`: its CPUs run in turn and share the instructions, and Linux does not come up with several. The stream needs about \
         125 million instructions a second. Priority `SCHED_FIFO` {PRIORITY} is that of all six programs of the stream. QEMU's recording of the card is compared with the host's \
         computation, frame by frame; a stream that is not through in twice its time is given up, and the rest of its frames is missing. Synthesis plays by `/dev/speaker`, a ring \
         of 4096 frames before 1024 that the card is filled ahead; Linux by ALSA's device (`hw:0,0`, `user/bench/alsa.c`) with a buffer of 5120 frames in periods of 320. \
         Both play silence while they have nothing, and read half a second before they begin. A system's load grows until there is a gap, and then once more with half as many instructions a second. Kernels: {}.\n\n{table}",
        results::qemu()?,
        versions.join(", "),
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn works_are_summed_by_kind() {
        let printed = "play: 441 frames, 0 xruns, at most 1.0 ms behind\n      2 spun 10\n      1 spun 9\n      1 packed 40\n";
        assert_eq!(works(printed), "40 packed, 29 spun");
    }

    #[test]
    fn a_source_has_its_functions() {
        assert_eq!(functions(3).matches("return f").count(), 3);
    }
}
