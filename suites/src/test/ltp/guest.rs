//! Runs cases in guests of 1 GiB, some at a time, and hears what became of them.
//!
//! *Interface*: [`run`]; what guests need for their cases comes from a [`Files`]. Another guest takes what is
//! left when one ends before its last case; the case that was running then has failed.

use crate::bench::linux::CLOUD;
use std::collections::BTreeSet;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use xtask::failure::{Context, Result};
use xtask::machine::{Log, Machine, Running, Status, Streams};
use xtask::rootfs::Root;
use xtask::{host, kernel, run as command_line};

const MEMORY: u64 = 1 << 30;
/// Programs of one guest, bytes.
const ROOM: u64 = 160 << 20;
/// Seconds that most cases may take.
const SECONDS: u64 = 150;
/// After so many seconds more without a word a guest is ended.
const SILENCE: u64 = 60;

/// Which kernel.
#[derive(Clone)]
pub enum On {
    /// Ours, from this file.
    Synthesis(PathBuf),
    /// Debian's Linux.
    Linux,
}

/// A case: its name and its command.
pub type Case = (String, String);

/// The files of guests beside the usual root.
pub trait Files {
    /// The needs of these commands: files or folders of the host, and where a guest has them. Room is kept
    /// for those that are files there.
    ///
    /// # Errors
    /// Host failure when a folder cannot be read.
    fn files(&self, commands: &[&str]) -> Result<Vec<(PathBuf, String)>>;

    /// Seconds that a case may take.
    fn seconds(&self) -> u64 {
        SECONDS
    }
}

/// The outcome of a case.
#[derive(Clone, Debug)]
pub struct Done {
    /// Its name.
    pub name: String,
    /// Its exit code; none if its machine ended.
    pub code: Option<i32>,
    /// How long it took.
    pub seconds: f64,
    /// Its last line, or why its machine ended.
    pub said: String,
}

/// Hears of each case as it ends.
pub type Tell = Arc<dyn Fn(&Done) + Send + Sync>;

/// The bytes that a guest has written so far.
#[derive(Default)]
struct Heard {
    line: Vec<u8>,
    running: Option<(String, Instant)>,
    said: String,
    done: Vec<Done>,
    all: bool,
    bytes: u64,
    tell: Option<Tell>,
}

impl Heard {
    fn line(&mut self, line: &str) {
        let words: Vec<_> = line.split_whitespace().collect();
        match (words.as_slice(), line.strip_prefix(": ")) {
            (_, Some(said)) => {
                self.said.push_str(said);
                self.said.push('\n');
            }
            (["@", "begin", name], _) => self.running = Some(((*name).to_owned(), Instant::now())),
            (["@", "end", name, code], _) => {
                let began = self.running.take().map_or_else(Instant::now, |(_, at)| at);
                self.finish(Done {
                    name: (*name).to_owned(),
                    code: code.parse().ok(),
                    seconds: began.elapsed().as_secs_f64(),
                    said: String::new(),
                });
            }
            (["@", "all"], _) => self.all = true,
            _ => {}
        }
    }

    fn finish(&mut self, mut done: Done) {
        done.said.insert_str(0, &std::mem::take(&mut self.said));
        if let Some(tell) = &self.tell {
            tell(&done);
        }
        self.done.push(done);
    }
}

/// A line of the table.
pub fn row(done: &Done) -> String {
    let code = done.code.map_or("-".to_owned(), |code| code.to_string());
    format!("{:<28} {code:>4} {:>7.1} s", done.name, done.seconds)
}

#[derive(Clone, Default)]
struct Ear(Arc<Mutex<Heard>>);

impl Write for Ear {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let mut heard = self.0.lock().expect("no panic while held");
        heard.bytes += bytes.len() as u64;
        for &byte in bytes {
            if byte == b'\n' {
                let line = std::mem::take(&mut heard.line);
                let line = String::from_utf8_lossy(&line).into_owned();
                heard.line(line.trim_end_matches('\r'));
            } else {
                heard.line.push(byte);
            }
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Runs `cases`; `tell` hears of each as it ends.
///
/// # Errors
/// Host failure when no machine can be booted.
pub fn run(files: &dyn Files, cases: &[Case], on: &On, tell: &Tell) -> Result<Vec<Done>> {
    let mut done: Vec<Done> = Vec::new();
    let mut rest = cases;
    while !rest.is_empty() {
        let count = fitting(files, rest)?;
        let heard = boot(files, &rest[..count], on, tell)?;
        // A guest that could not even begin has failed with its first case.
        rest = &rest[heard.len().clamp(1, count)..];
        done.extend(heard);
    }
    Ok(done)
}

/// How many of `cases` one guest takes, at least one.
fn fitting(files: &dyn Files, cases: &[Case]) -> Result<usize> {
    let mut bytes = 0;
    let mut seen = BTreeSet::new();
    for (count, (_, command)) in cases.iter().enumerate() {
        for (path, target) in files.files(&[command])? {
            if seen.insert(target) {
                bytes += path.metadata().context(path.display())?.len();
            }
        }
        if bytes > ROOM && count > 0 {
            return Ok(count);
        }
    }
    Ok(cases.len())
}

fn boot(files: &dyn Files, cases: &[Case], on: &On, tell: &Tell) -> Result<Vec<Done>> {
    let (machine, archive) = prepare(files, cases, on)?;
    let ear = Ear::default();
    ear.0.lock().expect("no panic while held").tell = Some(tell.clone());
    let streams = Streams {
        input: Box::new(io::empty()),
        output: Box::new(ear.clone()),
        error: Box::new(io::sink()),
        terminal: false,
    };
    let running = Running::start(&machine, &archive, streams)?;
    let (handle, watched) = (running.handle(), ear.clone());
    let silence = Duration::from_secs(files.seconds() + SILENCE);
    let (over, ends) = channel::<()>();
    let watcher = std::thread::spawn(move || {
        let mut last = (0, Instant::now());
        while ends.recv_timeout(Duration::from_secs(1)) == Err(RecvTimeoutError::Timeout) {
            let bytes = watched.0.lock().expect("no panic while held").bytes;
            if bytes != last.0 {
                last = (bytes, Instant::now());
            } else if last.1.elapsed() > silence {
                handle.interrupt(14);
                return;
            }
        }
    });
    let outcome = running.wait(None);
    drop(over);
    // It ends by itself, and has nothing to say.
    let _ = watcher.join();
    let mut heard = ear.0.lock().expect("no panic while held");
    if !heard.all {
        let (name, began) = heard.running.take().unwrap_or_else(|| {
            let next = cases.get(heard.done.len()).map_or("", |(name, _)| name);
            (next.to_owned(), Instant::now())
        });
        let said = match outcome.status {
            Status::Interrupted(_) => "silent for long\n".to_owned(),
            status => format!("the machine ended: {status:?}\n{}\n", outcome.report),
        };
        heard.finish(Done {
            name,
            code: None,
            seconds: began.elapsed().as_secs_f64(),
            said,
        });
    }
    Ok(std::mem::take(&mut heard.done))
}

fn prepare(files: &dyn Files, cases: &[Case], on: &On) -> Result<(Machine, Vec<u8>)> {
    let mut root = Root::new(None)?;
    root.add(&format!(
        "{}:/",
        host::project().join("tests/ltp/root").display()
    ))?;
    let commands: Vec<_> = cases.iter().map(|(_, command)| command.as_str()).collect();
    for (path, target) in files.files(&commands)? {
        root.add(&format!("{}:{target}", path.display()))?;
    }
    let seconds = files.seconds();
    let lines: String = cases
        .iter()
        .map(|(name, command)| format!("{name} {seconds} {command}\n"))
        .collect();
    let list = host::build_dir("ltp")?.join(format!("cases-{}", std::process::id()));
    std::fs::write(&list, lines).context(list.display())?;
    let added = root.add(&format!("{}:/ltp/cases", list.display()));
    // A leftover is no reason to fail.
    let _ = std::fs::remove_file(&list);
    added?;
    let machine = |image: &Path, append: &str, name: &str| -> Result<Machine> {
        let mut machine = Machine::new(image);
        machine.name = format!("ltp-{name}");
        machine.memory = MEMORY;
        machine.append = append.to_owned();
        machine.log = Log::File(host::build_dir("test")?.join(format!("ltp-{name}.log")));
        Ok(machine)
    };
    match on {
        On::Synthesis(file) => {
            let machine = machine(file, &command_line::boot_words(false), "synthesis")?;
            let command = ["/bin/sh".to_owned(), "/ltp/run".to_owned()];
            Ok((machine, root.finish(kernel::tables(file)?, &command, &[])))
        }
        On::Linux => {
            let words = "console=ttyS0 quiet loglevel=0 mitigations=off";
            let mut machine = machine(&CLOUD.kernel()?, words, "linux")?;
            machine.foreign = true;
            Ok((machine, root.finish(kernel::Tables::default(), &[], &[])))
        }
    }
}
