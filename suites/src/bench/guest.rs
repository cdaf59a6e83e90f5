//! One measuring program on one kernel: Synthesis, or one of Debian's.
//!
//! *Interface*: `Kernel`; `run` boots it on a machine that the caller describes, with the program as the
//! first process, and gives what it printed; `prepare` gives that machine and its root archive without
//! booting, `prepare_in` one with another root; `start` boots any machine; `side_by_side` measures several
//! kernels at once, such as those of `in_real_time`; `only_synthesis` and `number` read what stands behind an
//! option.

use super::linux::{self, Peer};
use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};
use std::time::Duration;
use xtask::failure::{Failure, HOST, Result, USAGE};
use xtask::machine::{Kept, Log, Machine, Running, Status, Streams};
use xtask::rootfs::Root;
use xtask::{host, kernel};

/// Memory of the measured machine.
pub const MEMORY: u64 = 256 << 20;

/// The word after `--only`, which can be nothing but `synthesis`: the peers are left out.
///
/// # Errors
/// Another word, or none.
pub fn only_synthesis(parser: &mut lexopt::Parser) -> Result<bool> {
    let word = parser.value()?;
    if word == "synthesis" {
        return Ok(true);
    }
    let word = word.to_string_lossy();
    Err(Failure::new(USAGE, format!("--only {word}: synthesis")))
}

/// The number behind the option `name` of a command.
///
/// # Errors
/// Another word, none, or a number beyond `range`.
pub fn number(parser: &mut lexopt::Parser, name: &str, range: RangeInclusive<u32>) -> Result<u32> {
    let word = parser.value()?.to_string_lossy().into_owned();
    let number = word.parse().ok().filter(|number| range.contains(number));
    number.ok_or_else(|| {
        let (least, most) = range.into_inner();
        Failure::new(
            USAGE,
            format!("--{name} {word}: a number from {least} to {most}"),
        )
    })
}

/// The kernels of a measurement of lateness: Linux, PREEMPT_RT and ours, or `alone` ours.
///
/// # Errors
/// Host failure when one cannot be had.
pub fn in_real_time(alone: bool) -> Result<Vec<Kernel>> {
    let mut kernels = Vec::new();
    if !alone {
        kernels.push(Kernel::peer("Linux", &linux::CLOUD)?);
        kernels.push(Kernel::peer("PREEMPT_RT", &linux::REALTIME)?);
    }
    kernels.push(Kernel::Synthesis);
    Ok(kernels)
}

/// A kernel to measure.
pub enum Kernel {
    /// Ours.
    Synthesis,
    /// One of Debian's, with the name of its column and the path of its image.
    Linux(&'static str, PathBuf),
}

impl Kernel {
    /// Fetches a peer.
    ///
    /// # Errors
    /// As [`Peer::kernel`].
    pub fn peer(name: &'static str, peer: &Peer) -> Result<Self> {
        Ok(Self::Linux(name, peer.kernel()?))
    }

    /// The name of its column.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Synthesis => "Synthesis",
            Self::Linux(name, _) => name,
        }
    }

    /// Its version, as far as it has one of its own.
    pub fn version(&self) -> String {
        match self {
            Self::Synthesis => "this tree".into(),
            Self::Linux(_, image) => linux::version(image),
        }
    }

    /// The folder of its modules, if it has any.
    pub fn modules(&self) -> Option<PathBuf> {
        match self {
            Self::Synthesis => None,
            Self::Linux(_, image) => linux::modules(image),
        }
    }

    /// The machine that runs `program` (in the guest `/bin/NAME`) with its `words`, and the root archive.
    /// `describe` completes it.
    ///
    /// # Errors
    /// Host failure when something of it cannot be built or read.
    pub fn prepare(
        &self,
        program: &Path,
        words: &[String],
        describe: impl Fn(&mut Machine),
    ) -> Result<(Machine, Vec<u8>)> {
        self.prepare_in(Root::new(None)?, program, words, describe)
    }

    /// The same with this root.
    ///
    /// # Errors
    /// As [`Self::prepare`].
    pub fn prepare_in(
        &self,
        mut root: Root,
        program: &Path,
        words: &[String],
        describe: impl Fn(&mut Machine),
    ) -> Result<(Machine, Vec<u8>)> {
        let inside = format!("/bin/{}", stem(program));
        root.add(&format!("{}:{inside}", program.display()))?;
        let prepare = |image: &Path, append: String| -> Result<Machine> {
            let mut machine = Machine::new(image);
            machine.append = append;
            machine.memory = MEMORY;
            machine.log = Log::File(host::build_dir("bench")?.join(format!("{}.log", self.name())));
            describe(&mut machine);
            Ok(machine)
        };
        match self {
            Self::Synthesis => {
                let built = kernel::build(kernel::Profile::Kernel)?;
                let machine = prepare(
                    &built,
                    format!("{} mitigations=off", xtask::run::boot_words(false)),
                )?;
                let mut command = vec![inside];
                command.extend(words.iter().cloned());
                let environment = [format!("MEMORY_KIB={}", MEMORY >> 10)];
                let archive = root.finish(kernel::tables(&built)?, &command, &environment);
                Ok((machine, archive))
            }
            Self::Linux(_, image) => {
                let append = format!(
                    "console=ttyS0 quiet mitigations=off MEMORY_KIB={} -- {}",
                    MEMORY >> 10,
                    words.join(" ")
                );
                let mut machine = prepare(image, append)?;
                machine.foreign = true;
                root.add(&format!("{}:/init", program.display()))?;
                Ok((machine, root.finish(kernel::Tables::default(), &[], &[])))
            }
        }
    }

    /// Boots with `program` and its `words`, waits, and gives what was printed.
    ///
    /// # Errors
    /// Host failure when the machine does not end in order within `limit`; what it printed is shown then.
    pub fn run(
        &self,
        program: &Path,
        words: &[String],
        limit: Duration,
        describe: impl Fn(&mut Machine),
    ) -> Result<String> {
        self.run_in(Root::new(None)?, program, words, limit, describe)
    }

    /// The same with this root.
    ///
    /// # Errors
    /// As [`Self::run`].
    pub fn run_in(
        &self,
        root: Root,
        program: &Path,
        words: &[String],
        limit: Duration,
        describe: impl Fn(&mut Machine),
    ) -> Result<String> {
        let (machine, archive) = self.prepare_in(root, program, words, describe)?;
        let output = Kept::default();
        let outcome = start(&machine, &archive, output.clone())?.wait(Some(limit));
        let text = String::from_utf8_lossy(&output.bytes()).into_owned();
        if outcome.status == Status::Exit(0) {
            return Ok(text);
        }
        eprint!("{text}{}", outcome.report);
        Err(Failure::new(
            HOST,
            format!(
                "{} did not finish the measurement: {:?}",
                self.name(),
                outcome.status
            ),
        ))
    }
}

/// Boots with no input, keeping what is printed.
///
/// # Errors
/// As [`Running::start`].
pub fn start(machine: &Machine, archive: &[u8], output: Kept) -> Result<Running> {
    let streams = Streams {
        input: Box::new(std::io::empty()),
        output: Box::new(output),
        error: Box::new(std::io::stderr()),
        terminal: false,
    };
    Running::start(machine, archive, streams)
}

/// Has Linux take the time-stamp counter for its clock: else it may watch it with a slower one.
pub fn steady(machine: &mut Machine) {
    machine.append = format!("tsc=reliable {}", machine.append);
}

/// Runs `measure` for each kernel side by side: time that is counted in instructions is not disturbed by
/// other machines.
///
/// # Errors
/// The first of theirs.
pub fn side_by_side<T: Send>(
    kernels: &[Kernel],
    measure: impl Fn(&Kernel) -> Result<T> + Sync,
) -> Result<Vec<T>> {
    std::thread::scope(|scope| {
        let measure = &measure;
        let begin = |kernel| scope.spawn(move || measure(kernel));
        let running: Vec<_> = kernels.iter().map(begin).collect();
        let joined = running.into_iter().map(|run| match run.join() {
            Ok(result) => result,
            Err(panic) => std::panic::resume_unwind(panic),
        });
        joined.collect()
    })
}

/// The program's name without its compiler's suffix.
fn stem(program: &Path) -> String {
    let name = program.file_name().unwrap_or_default().to_string_lossy();
    name.split('-').next().unwrap_or_default().to_owned()
}
