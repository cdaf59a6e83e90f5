//! The tools of every guest test: the built kernel, the programs that a test names, and ways to boot.
//!
//! *Interface*: `Kit::new`; `boot` one command on a described machine; `script` and `program` boot one
//! of `tests/guest` or `user/tests` and read its checks; `xtask` runs the command line itself.

use super::evidence::Examiner;
use super::hang_watchdog::{Longest, Look, Patience, Watch};
use super::order::Noting;
use super::tap::{self, Check};
use std::cell::Cell;
use std::collections::BTreeMap;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, OnceLock};
use std::time::Duration;
use xtask::compile::{self, Compiler};
use xtask::failure::{Failure, HOST, Result};
use xtask::machine::{Kept, Log, Machine, Outcome, Running, Status, Streams};
use xtask::rootfs::Root;
use xtask::{host, kernel};

/// The result of a guest command.
pub struct Ran {
    /// How the machine ended.
    pub outcome: Outcome,
    /// All of standard output.
    pub stdout: Vec<u8>,
    /// All of standard error.
    pub stderr: Vec<u8>,
    /// It was ended because nothing happened any more.
    pub hung: bool,
    /// The evidence of it, taken then.
    pub evidence: String,
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
            "{}{:?} out[{}] err[{}] report[{}]{}",
            if self.hung { "HUNG " } else { "" },
            self.outcome.status,
            tail(&self.stdout),
            tail(&self.stderr),
            self.outcome
                .report
                .lines()
                .take(12)
                .collect::<Vec<_>>()
                .join(" | "),
            self.evidence
        )
    }
}

/// The cost of a suite's machines on the host.
#[derive(Clone, Copy, Debug, Default)]
pub struct Spent {
    /// How many were booted.
    pub machines: usize,
    /// Their processor time, seconds.
    pub seconds: f64,
}

thread_local! {
    /// Of the suite that this thread runs.
    static SPENT: Cell<Spent> = const {
        Cell::new(Spent { machines: 0, seconds: 0.0 })
    };
}

impl Spent {
    /// One more machine of this thread's suite has ended.
    fn add(seconds: f64) {
        SPENT.with(|spent| {
            let Spent {
                machines,
                seconds: before,
            } = spent.get();
            spent.set(Spent {
                machines: machines + 1,
                seconds: before + seconds,
            });
        });
    }

    /// The cost of this thread's machines since it was last asked for.
    pub fn take() -> Spent {
        SPENT.with(Cell::take)
    }
}

/// The common things.
pub struct Kit {
    /// Repeat as often as a release wants it.
    pub long: bool,
    /// How its kernels are compiled.
    pub profile: kernel::Profile,
    /// How long what may be as long as one likes takes, if one said so.
    pub minutes: Option<u64>,
    kernel: PathBuf,
    /// Whether the kernel has suites of its own.
    has_suites: bool,
    tables: kernel::Tables,
    /// More words for the kernel's command line.
    words: String,
    /// The number of the kernel's mutant, 0 for none. After the first failed check no machine is booted any
    /// more.
    mutant: Option<usize>,
    /// Only machines with this in their names are booted.
    part: String,
    /// How long the machines of a kernel without mutant were silent, by their names.
    silences: Silences,
    /// The kernel that notes the order of monitors, where tests are to use it.
    noting: Option<OnceLock<std::result::Result<Box<Noting>, String>>>,
    failed: AtomicBool,
    /// The host could not start a machine: what failed says nothing about the kernel.
    hindered: AtomicBool,
    /// The logs of a mutant's machines, and whether one said that the mutant's place was reached.
    logs: Mutex<Vec<PathBuf>>,
    reached: AtomicBool,
}

/// A kernel with mutants writes this to its log when the place of the chosen one is reached.
const REACHED: &[u8] = b"mutant reached";

type Silences = Arc<Mutex<BTreeMap<String, Longest>>>;

/// The programs that the words of `command` name, or the script that one of them is.
fn programs_of(command: &[&str]) -> BTreeMap<String, (String, Compiler)> {
    let scripts = host::project().join("tests/guest");
    let mut found = BTreeMap::new();
    for word in command {
        let file = word.strip_prefix("/tests/").unwrap_or(word);
        let script = std::fs::read_to_string(scripts.join(file)).unwrap_or_default();
        found.extend(programs_in(word).chain(programs_in(&script)));
    }
    found
}

/// The programs that `text` names, by their files: `/tests/NAME-glibc` is one, and `/tests/NAME-$KIND` is one
/// of each compiler.
fn programs_in(text: &str) -> impl Iterator<Item = (String, (String, Compiler))> {
    let paths = text.split("/tests/").skip(1);
    let found = paths.flat_map(|path| {
        let is_other = |letter: char| !letter.is_ascii_alphanumeric() && letter != '-';
        let (file, rest) = path.split_at(path.find(is_other).unwrap_or(path.len()));
        match file.strip_suffix('-') {
            Some(name) if rest.starts_with('$') => {
                let each = compile::OF_TESTS.into_iter();
                each.map(|compiler| (name, compiler)).collect()
            }
            _ => Vec::from_iter(compile::by_file_name(file)),
        }
    });
    found.map(|(name, compiler)| {
        let file = compile::file_name(name, &compiler);
        (file, (name.to_owned(), compiler))
    })
}

/// Machines whose programs wait for longer than others on purpose, idle and silent: a test of python's waits
/// 30 seconds for what must not happen.
const QUIET: [(&str, Duration); 1] = [("runtimes", Duration::from_secs(90))];

/// Silence of a machine whose kernel has a mutant that is enough, if without a mutant it is never silent for
/// half as long: idle, and seconds that it computes.
const SILENCE: (Duration, f64) = (Duration::from_secs(6), 6.0);
/// By the clock a machine may take so long, or so many times its limit of processor time: the host may be
/// busy. Only one that idles, and prints something now and then, comes to that.
const PATIENCE: Duration = Duration::from_secs(900);
const SLOWEST: u32 = 5;
/// Processor time in all that is enough, seconds.
const WHOLE: f64 = 20.0;
/// How much longer than without a mutant.
const LONGER: u32 = 3;

impl Kit {
    /// Builds the kernel.
    pub fn new(profile: kernel::Profile, long: bool, minutes: Option<u64>) -> Result<Self> {
        let build = || kernel::build(profile);
        Self::around(build, profile, long, minutes, false)
    }

    /// The same around a kernel that has suites of its own.
    pub fn with_suites(
        build: impl FnOnce() -> Result<PathBuf>,
        profile: kernel::Profile,
    ) -> Result<Self> {
        Self::around(build, profile, false, None, true)
    }

    fn around(
        build: impl FnOnce() -> Result<PathBuf>,
        profile: kernel::Profile,
        long: bool,
        minutes: Option<u64>,
        has_suites: bool,
    ) -> Result<Self> {
        // Some tests put files there before any machine has its log in it.
        host::build_dir("test")?;
        host::need(&[host::QEMU, host::BUSYBOX, host::GCC, host::MUSL_GCC])?;
        let kernel = build()?;
        let tables = kernel::tables(&kernel)?;
        Ok(Self {
            long,
            profile,
            minutes,
            kernel,
            has_suites,
            tables,
            words: String::new(),
            mutant: None,
            part: String::new(),
            silences: Silences::default(),
            noting: None,
            failed: AtomicBool::new(false),
            hindered: AtomicBool::new(false),
            logs: Mutex::default(),
            reached: AtomicBool::new(false),
        })
    }

    /// The same; machines of one CPU have a kernel that notes the order of monitors.
    pub fn that_notes_order(self) -> Self {
        Self {
            noting: Some(OnceLock::new()),
            ..self
        }
    }

    /// The kernel that notes the order of monitors, built when it is first asked for, or why the host has
    /// none; nothing if this kit is not to have one.
    pub fn noting(&self) -> Option<std::result::Result<&Noting, &str>> {
        let make = || {
            let noting = Noting::new(self).map_err(|failure| failure.message)?;
            Ok(Box::new(noting))
        };
        let made = self.noting.as_ref()?.get_or_init(make);
        Some(made.as_deref().map_err(String::as_str))
    }

    /// The same programs, and another kernel; whether that has suites of its own.
    pub fn with_kernel(&self, kernel: PathBuf, has_suites: bool) -> Result<Self> {
        Ok(Self {
            long: self.long,
            profile: self.profile,
            minutes: self.minutes,
            tables: kernel::tables(&kernel)?,
            kernel,
            has_suites,
            words: String::new(),
            mutant: None,
            part: String::new(),
            silences: Silences::default(),
            noting: None,
            failed: AtomicBool::new(false),
            hindered: AtomicBool::new(false),
            logs: Mutex::default(),
            reached: AtomicBool::new(false),
        })
    }

    /// The same; the kernel has this of its mutants, only machines with `part` in their names are booted, and
    /// the first check that fails is enough.
    pub fn mutated(&self, number: usize, part: &str) -> Self {
        Self {
            long: self.long,
            profile: self.profile,
            minutes: self.minutes,
            tables: self.tables.clone(),
            kernel: self.kernel.clone(),
            has_suites: self.has_suites,
            words: format!(" mutant={number}"),
            mutant: Some(number),
            part: part.to_owned(),
            silences: self.silences.clone(),
            noting: None,
            failed: AtomicBool::new(false),
            hindered: AtomicBool::new(false),
            logs: Mutex::default(),
            reached: AtomicBool::new(false),
        }
    }

    /// Whether mutants are looked at, or what is so without them.
    pub fn is_mutated(&self) -> bool {
        self.mutant.is_some()
    }

    /// Whether the host could not start a machine.
    pub fn is_hindered(&self) -> bool {
        self.hindered.load(Ordering::Relaxed)
    }

    /// Notes whether a check is good.
    pub fn note(&self, good: bool) {
        self.failed.fetch_or(!good, Ordering::Relaxed);
    }

    /// A file of this name in `build/test`. Two mutants may be looked at by one suite at a time: each has its
    /// own.
    pub fn file(&self, name: &str) -> Result<PathBuf> {
        let name = match self.mutant {
            None => name.to_owned(),
            Some(number) => format!("mutant-{number}-{name}"),
        };
        Ok(host::build_dir("test")?.join(name))
    }

    /// Whether the log of a machine says that the mutant's place was reached.
    pub fn has_reached(&self) -> bool {
        self.look_for_reached();
        self.reached.load(Ordering::Relaxed)
    }

    /// A log is written anew when a machine of its name is booted again.
    fn look_for_reached(&self) {
        let logs = self.logs.lock().expect("no panic while held");
        let says = |path: &PathBuf| {
            let text = std::fs::read(path).unwrap_or_default();
            (text.windows(REACHED.len())).any(|part| part == REACHED)
        };
        if logs.iter().any(says) {
            self.reached.store(true, Ordering::Relaxed);
        }
    }

    /// A machine of this kernel; its log goes to `build/test/NAME.log`.
    pub fn machine(&self, name: &str) -> Machine {
        let mut machine = Machine::new(&self.kernel);
        machine.append = xtask::run::boot_words(false);
        machine.append.push_str(&self.words);
        if let Ok(path) = self.file(&format!("{name}.log")) {
            if self.mutant.is_some_and(|number| number != 0) {
                // Of an earlier run.
                let _ = std::fs::remove_file(&path);
                (self.logs.lock().expect("no panic while held")).push(path.clone());
            }
            machine.log = Log::File(path);
        }
        machine.name = name.to_owned();
        machine.monitor = true;
        machine
    }

    /// When a machine hangs.
    fn patience(&self, name: &str) -> Patience {
        let mut hasty = Patience {
            hasty: self.mutant.is_some(),
            ..Patience::default()
        };
        if let Some(&(_, idle)) = QUIET.iter().find(|(quiet, _)| *quiet == name) {
            hasty.idle = idle;
        }
        if self.mutant.is_none_or(|number| number == 0) {
            return hasty;
        }
        let silences = self.silences.lock().expect("no panic while held");
        silences.get(name).map_or(hasty, |longest| Patience {
            idle: SILENCE.0.max(LONGER * longest.silence),
            computing: SILENCE.1.max(f64::from(LONGER) * longest.computing),
            whole: WHOLE.max(f64::from(LONGER) * longest.whole),
            ..hasty
        })
    }

    /// Without a mutant `name` was silent for so long.
    fn note_silence(&self, name: &str, longest: Longest) {
        if self.mutant == Some(0) {
            let mut silences = self.silences.lock().expect("no panic while held");
            let known = silences.entry(name.to_owned()).or_default();
            *known = known.or(longest);
        }
    }

    /// The kernel's file.
    pub fn kernel(&self) -> &std::path::Path {
        &self.kernel
    }

    /// Boots and runs one command with this input, in the root that [`Self::root`] gives.
    pub fn boot(
        &self,
        machine: &Machine,
        command: &[&str],
        input: Vec<u8>,
        limit: Duration,
    ) -> Result<Ran> {
        let root = self.root(command)?;
        self.boot_root(root, machine, command, input, limit)
    }

    /// The root for a command: all scripts and kept sequences in `/tests`, and there those programs that it
    /// or its script names, compiled now if they are not yet.
    pub fn root(&self, command: &[&str]) -> Result<Root> {
        let made = Self::new_root(command);
        made.inspect_err(|_| self.hindered.store(true, Ordering::Relaxed))
    }

    /// The variables that programs find: in a long run they make all their repeats (`tap.h`, `repeats`).
    fn environment(&self) -> Vec<String> {
        self.long.then(|| "LONG=1".to_owned()).into_iter().collect()
    }

    fn new_root(command: &[&str]) -> Result<Root> {
        let mut root = Root::new(None)?;
        for (from, to) in [("tests/guest", "/tests"), ("tests/fuzz", "/tests/fuzz")] {
            root.add(&format!("{}:{to}", host::project().join(from).display()))?;
        }
        for (file, (name, compiler)) in programs_of(command) {
            let path = compile::program(&name, &compiler)?;
            root.add(&format!("{}:/tests/{file}", path.display()))?;
        }
        Ok(root)
    }

    /// Starts one command on a machine that nobody waits for; dropped, it ends.
    ///
    /// # Errors
    /// Host failure when it cannot be booted.
    pub fn start(&self, machine: &Machine, command: &[&str]) -> Result<Running> {
        let streams = Streams {
            input: Box::new(std::io::empty()),
            output: Box::new(Kept::default()),
            error: Box::new(Kept::default()),
            terminal: false,
        };
        self.start_with(machine, command, streams)
    }

    /// The same with these streams.
    ///
    /// # Errors
    /// Host failure when it cannot be booted.
    pub fn start_with(
        &self,
        machine: &Machine,
        command: &[&str],
        streams: Streams,
    ) -> Result<Running> {
        self.start_root(self.root(command)?, machine, command, streams)
    }

    /// The same in another root.
    ///
    /// # Errors
    /// Host failure when it cannot be booted.
    pub fn start_root(
        &self,
        root: Root,
        machine: &Machine,
        command: &[&str],
        streams: Streams,
    ) -> Result<Running> {
        let command: Vec<_> = command.iter().map(|word| (*word).to_owned()).collect();
        let archive = root.finish(self.tables.clone(), &command, &self.environment());
        Running::start(machine, &archive, streams)
            .inspect_err(|_| self.hindered.store(true, Ordering::Relaxed))
    }

    /// Boots the machine on a kernel that has suites of its own, of which its command line names one.
    pub fn boot_suite(&self, machine: &mut Machine, limit: Duration) -> Result<Ran> {
        let boot = |kit: &Self, machine: &mut Machine| {
            kit.boot_root(Root::new(None)?, machine, &["/bin/true"], Vec::new(), limit)
        };
        self.on_suites(machine, boot)?
    }

    /// The result of `act` on the kernel that has suites of its own.
    ///
    /// # Errors
    /// Host failure when that is not built.
    pub fn on_suites<R>(
        &self,
        machine: &mut Machine,
        act: impl FnOnce(&Self, &mut Machine) -> R,
    ) -> Result<R> {
        if self.has_suites {
            return Ok(act(self, machine));
        }
        let trials = self.with_kernel(kernel::build_trials(self.profile)?, true)?;
        machine.kernel.clone_from(&trials.kernel);
        Ok(act(&trials, machine))
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
        if self.mutant.is_some() && self.failed.load(Ordering::Relaxed) {
            return Err(Failure::new(HOST, "not run after a failure"));
        }
        let command: Vec<_> = command.iter().map(|word| (*word).to_owned()).collect();
        let archive = root.finish(self.tables.clone(), &command, &self.environment());
        let (stdout, stderr) = (Kept::default(), Kept::default());
        let streams = Streams {
            input: Box::new(std::io::Cursor::new(input)),
            output: Box::new(stdout.clone()),
            error: Box::new(stderr.clone()),
            terminal: false,
        };
        let mut running = Running::start(machine, &archive, streams)
            .inspect_err(|_| self.hindered.store(true, Ordering::Relaxed))?;
        // How busy the host is says nothing about the kernel; the processor time of the machine does.
        let usual = self.patience(&machine.name);
        let patience = Patience {
            whole: usual
                .whole
                .min(limit.as_secs_f64() * f64::from(machine.cpus)),
            limit: PATIENCE.max(SLOWEST * limit),
            ..usual
        };
        let limit = patience.limit;
        let look = running.monitor().map(|monitor| self.look(machine, monitor));
        let watch = Watch::start(running.handle(), stdout.clone(), patience, look);
        let outcome = running.wait(Some(limit));
        let seen = watch.end();
        self.look_for_reached();
        self.note_silence(&machine.name, seen.longest);
        Spent::add(seen.longest.whole);
        Ok(Ran {
            outcome,
            stdout: stdout.bytes(),
            stderr: stderr.bytes(),
            hung: seen.hung,
            evidence: seen.evidence,
        })
    }

    /// How a machine that hangs is looked at through its monitor, and what that says. Of a mutant's nobody
    /// wants to know why.
    fn look(&self, machine: &Machine, monitor: UnixStream) -> Look {
        if self.mutant.is_some() {
            return Box::new(String::new);
        }
        let core = match &machine.log {
            Log::File(path) => path.with_extension("core"),
            Log::Stderr => std::env::temp_dir().join("synthesis.core"),
        };
        let told = format!(" {}; ", machine.log);
        let examiner = Examiner::new(monitor, self.tables.symbols.clone(), core);
        Box::new(|| told + &examiner.look())
    }

    /// Whether a machine is left out.
    pub fn leaves_out(&self, machine: &Machine) -> bool {
        !machine.name.contains(&self.part)
    }

    /// Boots a command that reports in TAP; a bad end is one failed check more.
    pub fn tap(&self, machine: &Machine, command: &[&str], limit: Duration) -> Vec<Check> {
        if self.leaves_out(machine) {
            return Vec::new();
        }
        let root = self.root(command);
        self.tap_in(root, machine, command, limit)
    }

    /// The same in another root.
    pub fn tap_in(
        &self,
        root: Result<Root>,
        machine: &Machine,
        command: &[&str],
        limit: Duration,
    ) -> Vec<Check> {
        let boot = |root| self.boot_root(root, machine, command, Vec::new(), limit);
        match root.and_then(boot) {
            Err(failure) => vec![Check::hindered("boots", failure)],
            Ok(ran) => {
                let mut checks = tap::parse(&ran.text());
                if ran.hung {
                    let last = ran.text().lines().last().unwrap_or_default().to_owned();
                    let detail = "silent, and nothing happens, or all its processor time is spent";
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
        if self.leaves_out(machine) {
            return Vec::new();
        }
        let name = command.join(" ");
        match self.boot(machine, command, Vec::new(), limit) {
            Err(failure) => vec![Check::hindered(name, failure)],
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

    /// The command line itself, as a user types it; not connected to any terminal. Its program stands beside
    /// that of the suites.
    pub fn xtask(&self, words: &[&str]) -> Command {
        let own = std::env::current_exe().expect("we are running from a file");
        let mut command = Command::new(own.with_file_name("xtask"));
        // The kernel that the other machines have, too.
        let (first, rest) = words.split_at(words.len().min(1));
        command.args(first);
        if first == ["run"] && self.profile == kernel::Profile::Quick {
            command.arg("--quick");
        }
        command
            .args(rest)
            .current_dir(host::project())
            .stdin(Stdio::null());
        command
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn files(command: &[&str]) -> Vec<String> {
        programs_of(command).into_keys().collect()
    }

    #[test]
    fn a_command_names_its_programs() {
        assert!(files(&["/bin/true", "/tests/cd.raw"]).is_empty());
        assert_eq!(
            files(&["/tests/as-musl", "1000", "/tests/calls-glibc"]),
            ["as-musl", "calls-glibc"]
        );
        let line = "/tests/sounds-glibc ramp >/tmp/said & /tests/sounds-glibc mic; wait";
        assert_eq!(files(&["/bin/sh", "-c", line]), ["sounds-glibc"]);
    }

    #[test]
    fn a_script_names_its_programs() {
        let of_each = ["hello-glibc", "hello-glibc-pie", "hello-musl"];
        assert_eq!(files(&["/bin/sh", "/tests/programs.sh"]), of_each);
        assert_eq!(files(&["/bin/sh", "/tests/leaks.sh"]), ["load-glibc"]);
        assert!(files(&["/bin/sh", "/tests/shell.sh"]).is_empty());
    }
}
