//! The tests of a room on the host, or its models, one program after the other until the first test fails.
//!
//! *Interface*: [`HostTests::run`]; [`Kind::of`] reads the name of a suite. [`HostTests::expect`] names rooms
//! that will be asked: they are built together. A run without a mutant tells how much processor time each
//! program takes.

use super::super::host_tests::test_program;
use super::super::models::{LOOM, models_of};
use super::copy::Copy;
use rustix::process::{Pid, Signal, kill_process};
use std::collections::{BTreeMap, BTreeSet};
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use xtask::failure::{Context, Failure, HOST, Result};
use xtask::processor_time;

/// Processor time for a program of tests with no mutant, seconds.
const LIMIT: f64 = 300.0;
/// Processor time for one with a mutant, at least, seconds, and how much longer than without.
const LEAST: f64 = 20.0;
const LONGER: f64 = 5.0;
/// A program that has wanted no processor for so long waits for something that does not come.
const STANDS: Duration = Duration::from_secs(20);
/// Less processor time than this, seconds, is none.
const NOTHING: f64 = 0.05;
/// From look to look at a running program.
const STEP: Duration = Duration::from_millis(250);

/// One program of tests.
struct Program {
    path: PathBuf,
    directory: PathBuf,
    /// Processor time that it took without a mutant, seconds.
    took: Mutex<Option<f64>>,
}

/// The two kinds of programs that run on the host.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Kind {
    /// Its tests.
    Host,
    /// Its models, under loom, which tries every order that memory allows.
    Models,
}

impl Kind {
    /// The kind of a suite, and of what rooms it names; a suite of guests is none.
    pub fn of(suite: &str) -> Option<(Kind, &str)> {
        let host = suite.strip_prefix("host:").map(|tests| (Kind::Host, tests));
        let models = || suite.strip_prefix("models:");
        host.or_else(|| models().map(|tests| (Kind::Models, tests)))
    }
}

type Programs = std::result::Result<Arc<Vec<Program>>, String>;

/// The rooms that will be asked, and the programs that are built, by room; why not, of a room that does not
/// compile.
#[derive(Default)]
pub struct HostTests {
    wanted: Mutex<BTreeSet<(Kind, String)>>,
    rooms: Mutex<BTreeMap<(Kind, String), Programs>>,
}

/// The answer of a suite about a mutant.
#[derive(Debug)]
pub struct Seen {
    /// The check or test that failed.
    pub failed: Option<String>,
    /// The mutant's place was reached.
    pub reached: bool,
}

impl HostTests {
    /// These suites will be asked.
    pub fn expect<'a>(&self, suites: impl Iterator<Item = &'a str>) {
        let mut wanted = self.wanted.lock().expect("no panic while held");
        let rooms = suites.filter_map(Kind::of);
        wanted.extend(rooms.map(|(kind, tests)| (kind, parts(tests).0.to_owned())));
    }

    /// Runs the tests of a room, or `ROOM:PART` those with `PART` in their names, with mutant `number`, 0 for
    /// none; the first that failed.
    ///
    /// # Errors
    /// The host could not do it, or the tests do not compile, or none has such a name: that says nothing.
    pub fn run(&self, copy: &Copy, kind: Kind, tests: &str, number: usize) -> Result<Seen> {
        let (room, part) = parts(tests);
        let programs = self.programs(copy, kind, room)?;
        let note = copy.target("reached").join(number.to_string());
        if let Some(folder) = note.parent() {
            std::fs::create_dir_all(folder).context(folder.display())?;
        }
        // Of an earlier suite.
        let _ = std::fs::remove_file(&note);
        let (mut failed, mut began) = (None, 0);
        for program in &*programs {
            let end = program.run(kind, part, number, &note)?;
            began += end.began;
            failed = end.failed;
            if failed.is_some() {
                break;
            }
        }
        if began == 0 && failed.is_none() {
            return Err(Failure::new(
                HOST,
                format!("{tests}: no test has this name"),
            ));
        }
        let reached = note.exists();
        Ok(Seen { failed, reached })
    }

    fn programs(&self, copy: &Copy, kind: Kind, room: &str) -> Result<Arc<Vec<Program>>> {
        // Held meanwhile: cargo builds one thing at a time anyway.
        let mut rooms = self.rooms.lock().expect("no panic while held");
        let key = (kind, room.to_owned());
        if !rooms.contains_key(&key) {
            let wanted = self.wanted.lock().expect("no panic while held");
            let others = wanted
                .iter()
                .filter(|(of, _)| *of == kind && kind == Kind::Host);
            let mut together: BTreeSet<_> = others.map(|(_, room)| room.as_str()).collect();
            together.insert(room);
            let mut built = build(copy, kind, &together)?;
            for name in together {
                let programs = match &mut built {
                    Ok(programs) => Ok(Arc::new(programs.remove(name).unwrap_or_default())),
                    Err(said) => Err(said.clone()),
                };
                rooms.insert((kind, name.to_owned()), programs);
            }
        }
        let fault = |said: &String| Failure::new(HOST, format!("does not compile: {said}"));
        rooms[&key].as_ref().map(Arc::clone).map_err(fault)
    }
}

/// The room and the part of it that `tests` names; an empty part is in every name.
pub fn parts(tests: &str) -> (&str, &str) {
    tests.split_once(':').unwrap_or((tests, ""))
}

/// The programs of several rooms, or what the compiler says.
type Built = std::result::Result<BTreeMap<String, Vec<Program>>, String>;

/// Builds the tests of `rooms`, of each its own first.
fn build(copy: &Copy, kind: Kind, rooms: &BTreeSet<&str>) -> Result<Built> {
    let own_folder = (kind == Kind::Models).then_some("models");
    let mut cargo = copy.cargo(own_folder);
    cargo.args(["test", "--no-run", "--message-format=json"]);
    for room in rooms {
        cargo.args(["--package", room]);
    }
    if kind == Kind::Models {
        let which = rooms.first().and_then(|room| models_of(room));
        cargo.arg("--release").args(which.unwrap_or_default());
        cargo.env(LOOM.0, LOOM.1);
    }
    let built = cargo
        .stdin(Stdio::null())
        .output()
        .context("cannot start cargo")?;
    let text = String::from_utf8_lossy(&built.stdout);
    if !built.status.success() {
        let said = String::from_utf8_lossy(&built.stderr);
        let errors = text.lines().filter_map(error).next();
        let last = said.lines().last().unwrap_or_default();
        return Ok(Err(errors.unwrap_or_else(|| last.to_owned())));
    }
    let mut programs: Vec<_> = text.lines().filter_map(program).collect();
    programs.sort_by_key(|(own, _)| !own);
    let mut of_rooms = BTreeMap::<_, Vec<_>>::new();
    for (_, program) in programs {
        let room = program.directory.file_name().unwrap_or_default();
        let room = room.to_string_lossy().into_owned();
        of_rooms.entry(room).or_default().push(program);
    }
    Ok(Ok(of_rooms))
}

/// The error that a message of cargo tells of.
fn error(line: &str) -> Option<String> {
    let message: serde_json::Value = serde_json::from_str(line).ok()?;
    let inner = &message["message"];
    if inner["level"] != "error" {
        return None;
    }
    Some(inner["rendered"].as_str()?.to_owned())
}

/// The program of tests that a message of cargo tells of, and whether it is the room's own rather than one of
/// `tests/`.
fn program(line: &str) -> Option<(bool, Program)> {
    let message: serde_json::Value = serde_json::from_str(line).ok()?;
    let (directory, path) = test_program(&message)?;
    let program = Program {
        path,
        directory,
        took: Mutex::new(None),
    };
    Some((message["target"]["kind"][0] != "test", program))
}

/// How a program of tests ended.
struct Ended {
    /// Its tests that began.
    began: usize,
    /// The first test that failed or did not end.
    failed: Option<String>,
}

impl Program {
    /// Runs its tests with `part` in their names until one fails. A model that does not end says nothing:
    /// with a weaker order there is more to try.
    fn run(&self, kind: Kind, part: &str, number: usize, note: &Path) -> Result<Ended> {
        let took = *self.took.lock().expect("no panic while held");
        let limit = match took {
            Some(took) if number != 0 => LEAST.max(LONGER * took),
            _ => LIMIT,
        };
        let mut command = Command::new(&self.path);
        // One after the other, and told before it begins: so one that does not end has a name.
        command.args(["--test-threads", "1", part]);
        let mut child = command
            .current_dir(&self.directory)
            .env("MUTANT", number.to_string())
            .env("MUTANT_REACHED", note)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .context(self.path.display())?;
        let output = BufReader::new(child.stdout.take().expect("it was piped"));
        // Its number is its own until `wait`.
        let process = Pid::from_child(&child);
        let (over, ends) = channel();
        let watch = std::thread::spawn(move || watch(process, limit, &ends));
        let (mut last, mut failed, mut began) = (String::new(), None, 0);
        for line in output.split(b'\n').map_while(std::result::Result::ok) {
            let line = String::from_utf8_lossy(&line).into_owned();
            let Some(test) = line.strip_prefix("test ") else {
                continue;
            };
            if let Some((name, end)) = test.split_once(" ... ") {
                began += 1;
                last = name.to_owned();
                if end.ends_with("FAILED") {
                    failed = Some(last.clone());
                    break;
                }
            }
        }
        // The watch may have ended it and be gone.
        let _ = over.send(());
        let watched = watch.join();
        let seen = watched.map_err(|_| Failure::new(HOST, "the watch of a test failed"))?;
        if failed.is_some() {
            // It may have ended by itself meanwhile.
            let _ = kill_process(process, Signal::TERM);
        }
        let status = child.wait().context(self.path.display())?;
        if failed.is_none() && !status.success() && !(seen.is_late && kind == Kind::Models) {
            failed = Some(format!("{last}: {status}"));
        }
        if number == 0 {
            let mut took = self.took.lock().expect("no panic while held");
            *took = Some(seen.used.max(took.unwrap_or_default()));
        }
        Ok(Ended { began, failed })
    }
}

/// The observations of a program that ran.
struct Watched {
    /// Its processor time at the last look, seconds.
    used: f64,
    /// It was ended.
    is_late: bool,
}

/// Ends `process` when it has used `limit` seconds of processor time, or wants none any more; until `over`.
fn watch(process: Pid, limit: f64, over: &Receiver<()>) -> Watched {
    let number = process.as_raw_nonzero().get().unsigned_abs();
    let (mut ran, mut since) = (0.0_f64, Instant::now());
    let mut used = 0.0;
    loop {
        let is_over = over.recv_timeout(STEP) != Err(RecvTimeoutError::Timeout);
        used = processor_time::used(number).max(used);
        let wanted = processor_time::wanted(number);
        if (wanted - ran).abs() > NOTHING {
            (ran, since) = (wanted, Instant::now());
        }
        let is_late = !is_over && (used > limit || since.elapsed() > STANDS);
        if is_late {
            // It may have ended by itself meanwhile.
            let _ = kill_process(process, Signal::TERM);
        }
        if is_over || is_late {
            return Watched { used, is_late };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn programs_of_tests_are_told_from_others() {
        let line = |test: bool, kind: &str| {
            format!(
                r#"{{"profile":{{"test":{test}}},"manifest_path":"/a/Cargo.toml","executable":"/t/x","target":{{"kind":["{kind}"]}}}}"#
            )
        };
        let (own, one) = program(&line(true, "lib")).unwrap();
        assert!(own && one.path.ends_with("x") && one.directory.ends_with("a"));
        assert!(!program(&line(true, "test")).unwrap().0);
        assert!(program(&line(false, "lib")).is_none());
        assert!(program("no message").is_none());
    }
}
