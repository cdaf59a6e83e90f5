//! What every guest test uses: the built kernel, the compiled programs, and ways to boot.
//!
//! *Interface*: `Kit::new`; `boot` one command on a described machine; `script` and `program` boot one
//! of `tests/guest` or `user/` and read its checks; `xtask` runs the command line itself.

use super::hush::Watch;
use super::tap::{self, Check};
use crate::failure::{Failure, HOST, Result};
use crate::machine::{Kept, Log, Machine, Outcome, Running, Status, Streams};
use crate::rootfs::Root;
use crate::{compile, host, kernel};
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// What a guest command did.
pub struct Ran {
    /// How the machine ended.
    pub outcome: Outcome,
    /// All of standard output.
    pub stdout: Vec<u8>,
    /// All of standard error.
    pub stderr: Vec<u8>,
    /// It was ended because nothing happened any more.
    pub hung: bool,
}

impl Ran {
    /// Standard output as text.
    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.stdout).into_owned()
    }

    /// For the detail of a failed check: how it ended and the last of what it said.
    pub fn told(&self) -> String {
        let tail = |bytes: &[u8]| {
            let text = String::from_utf8_lossy(bytes);
            let from = text.char_indices().rev().nth(300).map_or(0, |(at, _)| at);
            text[from..].trim().replace('\n', " | ")
        };
        format!(
            "{}{:?} out[{}] err[{}] report[{}]",
            if self.hung { "HUNG " } else { "" },
            self.outcome.status,
            tail(&self.stdout),
            tail(&self.stderr),
            self.outcome
                .report
                .lines()
                .take(12)
                .collect::<Vec<_>>()
                .join(" | ")
        )
    }
}

/// The common things.
pub struct Kit {
    /// Repeat as often as a release wants it.
    pub long: bool,
    /// How long what may be as long as one likes takes, if one said so.
    pub minutes: Option<u64>,
    kernel: PathBuf,
    tables: kernel::Tables,
    programs: Vec<(String, PathBuf)>,
    /// More words for the kernel's command line.
    words: String,
    /// After the first failed check no machine is booted any more.
    hasty: bool,
    failed: AtomicBool,
    /// The host could not start a machine: what failed says nothing about the kernel.
    hindered: AtomicBool,
}

/// Memory, in bytes, from which a machine has room for programs that it does not run.
const ROOMY: u64 = 64 << 20;

/// Whether `program` is named by one of the words of `command`, or in the script that it is.
fn names(command: &[&str], program: &str) -> bool {
    command.iter().any(|word| {
        let file = word.strip_prefix("/tests/").unwrap_or(word);
        let script = host::project().join("tests/guest").join(file);
        word.contains(program)
            || std::fs::read_to_string(script).is_ok_and(|text| text.contains(program))
    })
}

/// Time for a machine whose kernel has a mutant.
const ENOUGH: Duration = Duration::from_secs(100);

impl Kit {
    /// Builds kernel and programs.
    pub fn new(long: bool, minutes: Option<u64>) -> Result<Self> {
        // Some tests put files there before any machine has its log in it.
        host::build_dir("test")?;
        host::need(&[host::QEMU, host::BUSYBOX, host::GCC, host::MUSL_GCC])?;
        let kernel = kernel::build()?;
        let tables = kernel::tables(&kernel)?;
        let mut programs = Vec::new();
        for name in [
            "hello",
            "extremes",
            "calls",
            "jobs",
            "timers",
            "corrupt",
            "hungry",
            "scarce",
            "lists",
            "load",
            "revoke",
            "pages",
            "forks",
            "floating",
            "threads",
            "stopper",
            "trace",
            "speculation",
            "lateness",
            "holes",
            "rip",
            "adverse",
            "rights",
            "survey",
            "secrets",
            "capabilities",
        ] {
            programs.push((
                format!("{name}-glibc"),
                compile::program(name, &compile::GLIBC)?,
            ));
        }
        programs.push((
            "hello-glibc-pie".into(),
            compile::program("hello", &compile::GLIBC_PIE)?,
        ));
        // Small, for the machine with little memory has them all.
        for name in [
            "hello", "tables", "switches", "texts", "locks", "hogs", "fuzz",
        ] {
            programs.push((
                format!("{name}-musl"),
                compile::program(name, &compile::MUSL)?,
            ));
        }
        for name in ["calls-files", "calls-signals", "calls-waits"] {
            programs.push((
                format!("{name}-glibc"),
                compile::program(name, &compile::GLIBC)?,
            ));
        }
        for name in ["calls-rights", "as"] {
            programs.push((
                format!("{name}-musl"),
                compile::program(name, &compile::MUSL)?,
            ));
        }
        Ok(Self {
            long,
            minutes,
            kernel,
            tables,
            programs,
            words: String::new(),
            hasty: false,
            failed: AtomicBool::new(false),
            hindered: AtomicBool::new(false),
        })
    }

    /// The same programs, and the kernel that notes the order in which monitors are taken.
    pub fn noting_order(&self) -> Result<Self> {
        self.with_kernel(kernel::build_for_order()?)
    }

    /// The same programs, and another kernel.
    pub fn with_kernel(&self, kernel: PathBuf) -> Result<Self> {
        Ok(Self {
            long: self.long,
            minutes: self.minutes,
            tables: kernel::tables(&kernel)?,
            kernel,
            programs: self.programs.clone(),
            words: String::new(),
            hasty: false,
            failed: AtomicBool::new(false),
            hindered: AtomicBool::new(false),
        })
    }

    /// The same; the kernel has this of its mutants, and the first check that fails is enough.
    pub fn mutated(&self, number: usize) -> Self {
        Self {
            long: self.long,
            minutes: self.minutes,
            tables: self.tables.clone(),
            kernel: self.kernel.clone(),
            programs: self.programs.clone(),
            words: format!(" mutant={number}"),
            hasty: true,
            failed: AtomicBool::new(false),
            hindered: AtomicBool::new(false),
        }
    }

    /// Whether the host could not start a machine.
    pub fn is_hindered(&self) -> bool {
        self.hindered.load(Ordering::Relaxed)
    }

    /// Notes whether a check is good.
    pub fn note(&self, good: bool) {
        self.failed.fetch_or(!good, Ordering::Relaxed);
    }

    /// A machine of this kernel; its log goes to `build/test/NAME.log`.
    pub fn machine(&self, name: &str) -> Machine {
        let mut machine = Machine::new(&self.kernel);
        machine.append = crate::run::boot_words(false);
        machine.append.push_str(&self.words);
        if let Ok(dir) = host::build_dir("test") {
            machine.log = Log::File(dir.join(format!("{name}.log")));
        }
        machine
    }

    /// Where a compiled program is on the host.
    pub fn program_path(&self, name: &str) -> PathBuf {
        self.programs
            .iter()
            .find(|(known, _)| known == name)
            .expect("a program of the kit")
            .1
            .clone()
    }

    /// The kernel's symbol table.
    pub fn symbols(&self) -> &[u8] {
        &self.tables.symbols
    }

    /// Boots and runs one command with this input, in the root that [`Self::root`] gives.
    pub fn boot(
        &self,
        machine: &Machine,
        command: &[&str],
        input: Vec<u8>,
        limit: Duration,
    ) -> Result<Ran> {
        let root = self.root(machine, command)?;
        self.boot_root(root, machine, command, input, limit)
    }

    /// The root for a machine. It has all programs, scripts and kept sequences in `/tests`; that of a machine below [`ROOMY`] only those
    /// programs that its command or script names.
    pub fn root(&self, machine: &Machine, command: &[&str]) -> Result<Root> {
        let made = Root::new(None).inspect_err(|_| self.hindered.store(true, Ordering::Relaxed));
        let mut root = made?;
        for (from, to) in [("tests/guest", "/tests"), ("tests/fuzz", "/tests/fuzz")] {
            root.add(&format!("{}:{to}", host::project().join(from).display()))?;
        }
        for (name, path) in &self.programs {
            if machine.memory >= ROOMY || names(command, name) {
                root.add(&format!("{}:/tests/{name}", path.display()))?;
            }
        }
        Ok(root)
    }

    /// Starts one command on a machine that nobody waits for; dropped, it ends.
    ///
    /// # Errors
    /// Host failure when it cannot be booted.
    pub fn start(&self, machine: &Machine, command: &[&str]) -> Result<Running> {
        let root = self.root(machine, command)?;
        let command: Vec<_> = command.iter().map(|word| (*word).to_owned()).collect();
        let archive = root.finish(self.tables.clone(), &command, &[]);
        let streams = Streams {
            input: Box::new(std::io::empty()),
            output: Box::new(Kept::default()),
            error: Box::new(Kept::default()),
            terminal: false,
        };
        Running::start(machine, &archive, streams)
            .inspect_err(|_| self.hindered.store(true, Ordering::Relaxed))
    }

    /// The same with another root.
    pub fn boot_root(
        &self,
        root: Root,
        machine: &Machine,
        command: &[&str],
        input: Vec<u8>,
        limit: Duration,
    ) -> Result<Ran> {
        if self.hasty && self.failed.load(Ordering::Relaxed) {
            return Err(Failure::new(HOST, "not run after a failure"));
        }
        let command: Vec<_> = command.iter().map(|word| (*word).to_owned()).collect();
        let archive = root.finish(self.tables.clone(), &command, &[]);
        let (stdout, stderr) = (Kept::default(), Kept::default());
        let streams = Streams {
            input: Box::new(std::io::Cursor::new(input)),
            output: Box::new(stdout.clone()),
            error: Box::new(stderr.clone()),
            terminal: false,
        };
        let running = Running::start(machine, &archive, streams)
            .inspect_err(|_| self.hindered.store(true, Ordering::Relaxed))?;
        let watch = Watch::start(running.handle(), stdout.clone());
        // A mutant that computes for ever needs no five minutes to be found out.
        let limit = if self.hasty { limit.min(ENOUGH) } else { limit };
        let outcome = running.wait(Some(limit));
        Ok(Ran {
            outcome,
            stdout: stdout.bytes(),
            stderr: stderr.bytes(),
            hung: watch.end(),
        })
    }

    /// Boots a command that reports in TAP; a bad end is one failed check more.
    pub fn tap(&self, machine: &Machine, command: &[&str], limit: Duration) -> Vec<Check> {
        match self.boot(machine, command, Vec::new(), limit) {
            Err(failure) => vec![Check::new("boots", false, failure.message)],
            Ok(ran) => {
                let mut checks = tap::parse(&ran.text());
                if ran.hung {
                    let last = ran.text().lines().last().unwrap_or_default().to_owned();
                    let detail = "silent, and the machine idle";
                    checks.push(Check::new(
                        format!("what comes after [{last}]"),
                        false,
                        detail,
                    ));
                }
                let orderly = matches!(ran.outcome.status, Status::Exit(_));
                checks.push(Check::new("the machine ends in order", orderly, ran.told()));
                self.note(checks.iter().all(|check| check.good));
                checks
            }
        }
    }

    /// Boots a command whose last line must begin with `ok`.
    pub fn says_ok(&self, machine: &Machine, command: &[&str], limit: Duration) -> Vec<Check> {
        let name = command.join(" ");
        match self.boot(machine, command, Vec::new(), limit) {
            Err(failure) => vec![Check::new(name, false, failure.message)],
            Ok(ran) => {
                let text = ran.text();
                let good = text
                    .lines()
                    .last()
                    .is_some_and(|line| line.starts_with("ok"))
                    && ran.outcome.status == Status::Exit(0);
                self.note(good);
                vec![Check::new(name, good, ran.told())]
            }
        }
    }

    /// The command line itself, as a user types it; not connected to any terminal.
    pub fn xtask(&self, words: &[&str]) -> Command {
        let own = std::env::current_exe().expect("we are running from a file");
        let mut command = Command::new(own);
        command
            .args(words)
            .current_dir(host::project())
            .stdin(Stdio::null());
        command
    }
}
