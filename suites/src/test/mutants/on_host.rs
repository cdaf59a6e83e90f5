//! The tests of a room on the host, one program after the other until the first test fails.
//!
//! *Interface*: [`HostTests::run`]. The programs are built when a room is first asked, and a run without a
//! mutant tells how long each takes.

use super::copy::Copy;
use rustix::process::{Pid, Signal, kill_process};
use std::collections::BTreeMap;
use std::io::{BufRead, BufReader};
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use xtask::failure::{Context, Result};

/// Time for a program of tests with no mutant.
const LIMIT: Duration = Duration::from_secs(300);
/// Time for one with a mutant, at least, and how much longer than without.
const LEAST: Duration = Duration::from_secs(20);
const LONGER: u32 = 5;

/// One program of tests.
struct Program {
    path: PathBuf,
    directory: PathBuf,
    /// How long it took without a mutant.
    took: Mutex<Option<Duration>>,
}

/// The programs that are built, by room; nothing of a room that does not compile.
#[derive(Default)]
pub struct HostTests(Mutex<BTreeMap<String, Option<Arc<Vec<Program>>>>>);

impl HostTests {
    /// Runs the tests of a room, or `ROOM:PART` those with `PART` in their names, with mutant `number`, 0 for
    /// none; the first that failed.
    ///
    /// # Errors
    /// The host could not do it: that says nothing.
    pub fn run(&self, copy: &Copy, tests: &str, number: usize) -> Result<Option<String>> {
        let (room, part) = parts(tests);
        let Some(programs) = self.programs(copy, room)? else {
            return Ok(Some("its tests do not compile".to_owned()));
        };
        for program in &*programs {
            if let Some(test) = program.run(part, number)? {
                return Ok(Some(test));
            }
        }
        Ok(None)
    }

    fn programs(&self, copy: &Copy, room: &str) -> Result<Option<Arc<Vec<Program>>>> {
        // Held meanwhile: cargo builds one room at a time anyway.
        let mut rooms = self.0.lock().expect("no panic while held");
        if let Some(known) = rooms.get(room) {
            return Ok(known.clone());
        }
        let programs = build(copy, room)?.map(Arc::new);
        rooms.insert(room.to_owned(), programs.clone());
        Ok(programs)
    }
}

/// The room and the part of it that `tests` names; an empty part is in every name.
pub fn parts(tests: &str) -> (&str, &str) {
    tests.split_once(':').unwrap_or((tests, ""))
}

/// Builds the tests of `room`, its own first.
fn build(copy: &Copy, room: &str) -> Result<Option<Vec<Program>>> {
    let mut cargo = copy.cargo()?;
    cargo.args(["test", "--no-run", "--message-format=json", "--package"]);
    let built = cargo
        .arg(room)
        .stdin(Stdio::null())
        .output()
        .context("cannot start cargo")?;
    if !built.status.success() {
        return Ok(None);
    }
    let text = String::from_utf8_lossy(&built.stdout);
    let mut programs: Vec<_> = text.lines().filter_map(program).collect();
    programs.sort_by_key(|(own, _)| !own);
    Ok(Some(programs.into_iter().map(|(_, one)| one).collect()))
}

/// The program of tests that a message of cargo tells of, and whether it is the room's own rather than one of
/// `tests/`.
fn program(line: &str) -> Option<(bool, Program)> {
    let message: serde_json::Value = serde_json::from_str(line).ok()?;
    if message["profile"]["test"] != true {
        return None;
    }
    let manifest = PathBuf::from(message["manifest_path"].as_str()?);
    let program = Program {
        path: message["executable"].as_str()?.into(),
        directory: manifest.parent()?.to_path_buf(),
        took: Mutex::new(None),
    };
    Some((message["target"]["kind"][0] != "test", program))
}

impl Program {
    /// The first test that fails or does not end.
    fn run(&self, part: &str, number: usize) -> Result<Option<String>> {
        let took = *self.took.lock().expect("no panic while held");
        let limit = match took {
            Some(took) if number != 0 => LEAST.max(LONGER * took),
            _ => LIMIT,
        };
        let start = Instant::now();
        let mut command = Command::new("timeout");
        command.arg(limit.as_secs().to_string()).arg(&self.path);
        // One after the other, and told before it begins: so one that does not end has a name.
        command.args(["--test-threads", "1", part]);
        let mut child = command
            .current_dir(&self.directory)
            .env("MUTANT", number.to_string())
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .context(self.path.display())?;
        let output = BufReader::new(child.stdout.take().expect("it was piped"));
        let (mut last, mut failed) = (String::new(), None);
        for line in output.split(b'\n').map_while(std::result::Result::ok) {
            let line = String::from_utf8_lossy(&line).into_owned();
            let Some(test) = line.strip_prefix("test ") else {
                continue;
            };
            if let Some((name, end)) = test.split_once(" ... ") {
                last = name.to_owned();
                if end.ends_with("FAILED") {
                    failed = Some(last.clone());
                    break;
                }
            }
        }
        if failed.is_some() {
            // `timeout` passes it on; both may have ended by themselves meanwhile.
            let _ = kill_process(Pid::from_child(&child), Signal::TERM);
        }
        let status = child.wait().context(self.path.display())?;
        if failed.is_none() && !status.success() {
            failed = Some(format!("{last}: {status}"));
        }
        if number == 0 {
            let mut took = self.took.lock().expect("no panic while held");
            *took = Some(start.elapsed().max(took.unwrap_or_default()));
        }
        Ok(failed)
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
