//! QEMU's monitor protocol, as much as it takes to let a machine run and stand still.
//!
//! *Interface*: `Monitor::greet` on the socket of a machine with `Machine::monitor`; `send` a command, then
//! `answer`: whoever has several machines sends to all before it waits for any. `ask` is for what people ask,
//! `dump` keeps a machine's memory.
//!
//! Source: QEMU's documentation, `interop/qmp-spec`: a JSON object a line; each command has one answer;
//! events may come between.

use serde_json::{Value, json};
use std::io::{BufRead, BufReader, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;
use xtask::failure::{Context, Failure, HOST, Result};

/// Lets a machine run, its clock too.
pub const CONT: &str = "cont";
/// Makes a machine stand still, its clock too.
pub const STOP: &str = "stop";

/// The outcome of a command.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Answer {
    /// It is done.
    Done,
    /// The machine has ended.
    Ended,
}

/// A connection to a machine's monitor.
pub struct Monitor {
    stream: BufReader<UnixStream>,
}

impl Monitor {
    /// Takes QEMU's greeting and leaves the negotiation that every connection begins with. No answer may take
    /// longer than `patience`.
    ///
    /// # Errors
    /// Host failure when this is no monitor, or one that says nothing.
    pub fn greet(stream: UnixStream, patience: Duration) -> Result<Self> {
        stream
            .set_read_timeout(Some(patience))
            .context("cannot limit the wait for QEMU's monitor")?;
        let mut monitor = Self {
            stream: BufReader::new(stream),
        };
        match monitor.object()? {
            Some(greeting) if greeting.get("QMP").is_some() => {}
            other => {
                return Err(Failure::new(
                    HOST,
                    format!("QEMU's monitor does not greet: {other:?}"),
                ));
            }
        }
        monitor.send("qmp_capabilities")?;
        match monitor.answer()? {
            Answer::Done => Ok(monitor),
            Answer::Ended => Err(Failure::new(HOST, "QEMU ended at its monitor's greeting")),
        }
    }

    /// Sends a command that has no arguments. A machine that has ended is no error: its answer says so.
    ///
    /// # Errors
    /// Host failure when the socket does not take it.
    pub fn send(&mut self, command: &str) -> Result<()> {
        self.write(&json!({"execute": command}))
    }

    fn write(&mut self, command: &Value) -> Result<()> {
        let line = format!("{command}\n");
        match self.stream.get_mut().write_all(line.as_bytes()) {
            Err(error) if !gone(&error) => Err(error).context("cannot speak to QEMU's monitor"),
            _ => Ok(()),
        }
    }

    /// The answer of the monitor for people to `line`; nothing when the machine has ended.
    ///
    /// # Errors
    /// As those of `send` and `answer`.
    pub fn ask(&mut self, line: &str) -> Result<String> {
        let command =
            json!({"execute": "human-monitor-command", "arguments": {"command-line": line}});
        self.write(&command)?;
        let text = self.returned()?;
        Ok(text.map_or(String::new(), |text| {
            text.as_str().unwrap_or_default().to_owned()
        }))
    }

    /// Writes the machine's memory to a file, as it is in the machine and not as its tables show it.
    ///
    /// # Errors
    /// As those of `send` and `answer`.
    pub fn dump(&mut self, file: &Path) -> Result<()> {
        let protocol = format!("file:{}", file.display());
        self.write(&json!({
            "execute": "dump-guest-memory",
            "arguments": {"paging": false, "protocol": protocol},
        }))?;
        self.answer().map(|_| ())
    }

    /// Waits for the answer to the oldest command that has none yet.
    ///
    /// # Errors
    /// Host failure when there is none in time, or QEMU refuses.
    pub fn answer(&mut self) -> Result<Answer> {
        let returned = self.returned()?;
        Ok(returned.map_or(Answer::Ended, |_| Answer::Done))
    }

    /// The value that the oldest command without an answer has returned; `None` when the machine has ended.
    fn returned(&mut self) -> Result<Option<Value>> {
        while let Some(object) = self.object()? {
            if let Some(error) = object.get("error") {
                return Err(Failure::new(
                    HOST,
                    format!("QEMU's monitor refuses: {error}"),
                ));
            }
            if let Some(returned) = object.get("return") {
                return Ok(Some(returned.clone()));
            }
        }
        Ok(None)
    }

    /// The next line; `None` after the last one.
    fn object(&mut self) -> Result<Option<Value>> {
        let mut line = String::new();
        match self.stream.read_line(&mut line) {
            Ok(0) => Ok(None),
            Ok(_) => serde_json::from_str(&line)
                .map(Some)
                .context(format!("QEMU's monitor says {line:?}")),
            Err(error) if gone(&error) => Ok(None),
            Err(error) => Err(error).context("no answer from QEMU's monitor"),
        }
    }
}

/// Whether the other end of the socket has closed.
fn gone(error: &std::io::Error) -> bool {
    use std::io::ErrorKind::{BrokenPipe, ConnectionReset};
    matches!(error.kind(), BrokenPipe | ConnectionReset)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::thread::{self, JoinHandle};

    const GREETING: &str = r#"{"QMP": {"version": {}, "capabilities": ["oob"]}}"#;
    const DONE: &str = r#"{"return": {}}"#;
    const PATIENCE: Duration = Duration::from_secs(10);

    /// A machine's end of a monitor: greets, then for each command it is sent says the next lines of the
    /// script; closes after the last. Gives the commands that it got.
    fn scripted(
        script: &'static [&'static [&'static str]],
    ) -> (UnixStream, JoinHandle<Vec<String>>) {
        let (ours, theirs) = UnixStream::pair().expect("a pair");
        let machine = thread::spawn(move || {
            let mut theirs = BufReader::new(theirs);
            let mut got = Vec::new();
            writeln!(theirs.get_mut(), "{GREETING}").expect("somebody listens");
            for lines in script {
                let mut command = String::new();
                theirs.read_line(&mut command).expect("a command");
                let command: Value = serde_json::from_str(&command).expect("an object");
                got.push(command["execute"].as_str().expect("a name").to_owned());
                for line in *lines {
                    writeln!(theirs.get_mut(), "{line}").expect("somebody listens");
                }
            }
            got
        });
        (ours, machine)
    }

    #[test]
    fn events_are_passed_over_and_an_end_is_no_error() {
        let (stream, machine) = scripted(&[
            &[DONE],
            &[r#"{"event": "RESUME", "timestamp": {}}"#, DONE],
            &[r#"{"event": "SHUTDOWN", "data": {"guest": true}}"#],
        ]);
        let mut monitor = Monitor::greet(stream, PATIENCE).expect("a monitor");
        monitor.send(CONT).expect("sent");
        assert_eq!(monitor.answer().expect("an answer"), Answer::Done);
        monitor.send(STOP).expect("sent");
        assert_eq!(monitor.answer().expect("an answer"), Answer::Ended);
        assert_eq!(
            machine.join().expect("no panic"),
            ["qmp_capabilities", "cont", "stop"]
        );
        // It stays so, however often it is asked.
        monitor.send(CONT).expect("no error");
        assert_eq!(monitor.answer().expect("an answer"), Answer::Ended);
    }

    #[test]
    fn a_refusal_and_nonsense_are_failures() {
        let (stream, machine) = scripted(&[
            &[DONE],
            &[r#"{"error": {"class": "GenericError", "desc": "not now"}}"#],
            &["Segmentation fault"],
        ]);
        let mut monitor = Monitor::greet(stream, PATIENCE).expect("a monitor");
        for complaint in ["not now", "Segmentation"] {
            monitor.send(CONT).expect("sent");
            let failure = monitor.answer().expect_err("refused");
            assert!(failure.message.contains(complaint), "{}", failure.message);
        }
        machine.join().expect("no panic");
    }

    #[test]
    fn silence_is_a_failure_after_a_while() {
        let (ours, theirs) = UnixStream::pair().expect("a pair");
        let failure = Monitor::greet(ours, Duration::from_millis(20)).err();
        assert!(failure.expect("silence").message.contains("no answer"));
        drop(theirs);
    }

    #[test]
    fn what_closes_without_a_greeting_is_no_monitor() {
        let (ours, theirs) = UnixStream::pair().expect("a pair");
        drop(theirs);
        let failure = Monitor::greet(ours, PATIENCE).err();
        assert!(failure.expect("closed").message.contains("greet"));
    }
}
