//! A machine that runs: QEMU as a process, and the byte streams between it and us.
//!
//! *Interface*: [`Running::start`] boots a [`Machine`]; [`Running::wait`] until it ends gives an [`Outcome`].
//! The streams are byte-exact and throttle both ways: a full pipe on the host holds the guest's output, a
//! busy guest holds the host's input. Dropping [`Running`] ends QEMU.
//!
//! Source: `docs/run-contract.md`.

use super::{CHANNELS, Log, MONITOR, Machine};
use crate::failure::{Context, Failure, HOST, Result};
use crate::{host, processor_time};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::retry_on_intr;
use rustix::process::{Pid, WaitId, WaitIdOptions, waitid};
use std::io::{self, IsTerminal, Read, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

/// Fewer bytes than this in one read are worth a pause.
const SMALL: usize = 64;
/// How long QEMU may take to connect, and to end after the guest has reported its status.
const GRACE: Duration = Duration::from_secs(20);

/// How a machine ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Status {
    /// The first process ended with this status.
    Exit(i32),
    /// The kernel panicked.
    Panic,
    /// The time was over.
    Timeout,
    /// A signal to us, or three escapes, ended it.
    Interrupted(i32),
    /// It stopped and did not say why.
    Lost,
}

/// The end of a machine.
#[derive(Debug)]
pub struct Outcome {
    /// How it ended.
    pub status: Status,
    /// The report of a panic, or QEMU's own complaints.
    pub report: String,
    /// The `start` report: nanoseconds from reset to the first process.
    pub start_ns: Option<u64>,
}

/// The connections of the host to the guest.
pub struct Streams {
    /// Bytes for the guest's input.
    pub input: Box<dyn Read + Send>,
    /// Bytes of its output.
    pub output: Box<dyn Write + Send>,
    /// Bytes of its standard error.
    pub error: Box<dyn Write + Send>,
    /// COM1 is a terminal: no `eof` notice; three escapes end the machine.
    pub terminal: bool,
}

enum Event {
    Report(String),
    Closed,
    Ended,
    Interrupt(i32),
    Broken,
}

/// Ends or tells a running machine from another thread.
#[derive(Clone)]
pub struct Handle {
    events: Sender<Event>,
    notices: Arc<Mutex<UnixStream>>,
    process: u32,
}

impl Handle {
    /// Processor time that QEMU has used so far, seconds; 0 once it has ended.
    pub fn processor_seconds(&self) -> f64 {
        processor_time::used(self.process)
    }

    /// The same with the time for which its threads waited for a processor of the host, seconds.
    pub fn wanted_seconds(&self) -> f64 {
        processor_time::wanted(self.process)
    }

    /// Ends the machine; it counts as killed by this signal.
    pub fn interrupt(&self, signal: i32) {
        // The receiver is gone when the machine has ended already.
        let _ = self.events.send(Event::Interrupt(signal));
    }

    /// The terminal has a new size.
    pub fn resize(&self, rows: u16, cols: u16) {
        self.notice(&format!("winsize {rows} {cols}\n"));
    }

    fn notice(&self, line: &str) {
        let mut stream = self.notices.lock().expect("no panic while held");
        // A guest that is gone needs no notice.
        let _ = stream.write_all(line.as_bytes());
    }
}

/// A machine that is running.
pub struct Running {
    dir: PathBuf,
    child: Child,
    events: Receiver<Event>,
    handle: Handle,
    outputs: Vec<JoinHandle<()>>,
    complaints: Option<JoinHandle<String>>,
    monitor: Option<UnixStream>,
    /// Open until the machine ends: QEMU drops what it has not read of a connection that is closed.
    _input: Option<UnixStream>,
}

impl Running {
    /// Boots a machine with this root archive.
    ///
    /// # Errors
    /// Host failure when QEMU cannot be started; its own words are in the message.
    pub fn start(machine: &Machine, root: &[u8], streams: Streams) -> Result<Self> {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        host::need(&[host::QEMU])?;
        let count = COUNT.fetch_add(1, Ordering::Relaxed);
        let dir = std::env::temp_dir().join(format!("synthesis-{}-{count}", std::process::id()));
        std::fs::create_dir_all(&dir).context(format!("cannot create {}", dir.display()))?;
        let result = Self::boot(machine, root, streams, &dir);
        if result.is_err() {
            remove(&dir);
        }
        result
    }

    fn boot(machine: &Machine, root: &[u8], streams: Streams, dir: &Path) -> Result<Self> {
        let archive = dir.join("root.cpio");
        std::fs::write(&archive, root).context(format!("cannot write {}", archive.display()))?;
        let mut names = CHANNELS.to_vec();
        if matches!(machine.log, Log::Stderr) {
            names.push("log");
        }
        if machine.monitor {
            names.push(MONITOR);
        }
        names.extend(machine.port_channels());
        let listeners: Vec<_> = names
            .iter()
            .map(|name| UnixListener::bind(dir.join(name)).context("cannot create a socket"))
            .collect::<Result<_>>()?;
        let mut command = qemu();
        command.args(machine.words(&archive, dir)?);
        command
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped());
        let mut child = command.spawn().context("cannot start QEMU")?;
        let mut stderr = child.stderr.take().expect("it was piped");
        let complaints = thread::spawn(move || {
            let mut text = String::new();
            // Not UTF-8 or gone: nothing to show then.
            let _ = stderr.read_to_string(&mut text);
            text
        });
        let mut connected = match connect(&listeners, &mut child) {
            Ok(connected) => connected,
            Err(failure) => {
                let _ = child.kill();
                let _ = child.wait();
                let text = complaints.join().unwrap_or_default();
                return Err(Failure::new(
                    HOST,
                    format!("{}: {}", failure.message, one_line(&text)),
                ));
            }
        };
        let mut more = connected.split_off(CHANNELS.len()).into_iter();
        let log =
            matches!(machine.log, Log::Stderr).then(|| more.next().expect("it is the fourth"));
        let monitor = machine.monitor.then(|| more.next()).flatten();
        let ports = <[UnixStream; 3]>::try_from(more.collect::<Vec<_>>()).ok();
        let [com1, com2, control] = <[UnixStream; 3]>::try_from(connected).expect("three channels");

        let (sender, events) = channel();
        let clone = |stream: &UnixStream| stream.try_clone().context("cannot copy a socket");
        let handle = Handle {
            events: sender.clone(),
            notices: Arc::new(Mutex::new(clone(&com2)?)),
            process: child.id(),
        };
        let (output, error) = (shared(streams.output), shared(streams.error));
        let mut outputs = vec![
            relay(clone(&com1)?, output.clone(), sender.clone(), false),
            relay(com2, error.clone(), sender.clone(), false),
        ];
        let (mut input_port, mut kept) = (None, None);
        if let Some([input, out, err]) = ports {
            outputs.push(relay(out, output, sender.clone(), false));
            outputs.push(relay(err, error, sender.clone(), false));
            kept = Some(clone(&input)?);
            input_port = Some(input);
        }
        if let Some(log) = log {
            outputs.push(relay(
                log,
                shared(Box::new(io::stderr())),
                sender.clone(),
                streams.terminal,
            ));
        }
        let (started, start) = channel();
        outputs.push(reports(control, sender.clone(), started));
        // Not joined: it may be waiting for the user's next key when the machine ends.
        let notices = handle.clone();
        let (input, terminal) = (streams.input, streams.terminal);
        thread::spawn(move || {
            // Setting up a serial line clears its receive queue, so nothing is sent before.
            let soon = start.recv_timeout(Duration::from_secs(1));
            if soon == Err(RecvTimeoutError::Timeout) && io::stderr().is_terminal() {
                eprint!("xtask: starting the machine\r\n");
            }
            if let Ok(by_ports) = soon.or_else(|_| start.recv()) {
                let into = input_port.filter(|_| by_ports).unwrap_or(com1);
                feed(input, into, &notices, terminal);
            }
        });
        watch(&child, sender);
        Ok(Self {
            dir: dir.to_path_buf(),
            child,
            events,
            handle,
            outputs,
            complaints: Some(complaints),
            monitor,
            _input: kept,
        })
    }

    /// The socket of its monitor, once, if it was asked for.
    pub fn monitor(&mut self) -> Option<UnixStream> {
        self.monitor.take()
    }

    /// Whether QEMU has ended; what it said on the way may come later.
    pub fn has_ended(&self) -> bool {
        let options = WaitIdOptions::EXITED | WaitIdOptions::NOWAIT | WaitIdOptions::NOHANG;
        let child = Pid::from_child(&self.child);
        !matches!(
            retry_on_intr(|| waitid(WaitId::Pid(child), options)),
            Ok(None)
        )
    }

    /// Processor time that QEMU has used so far, seconds; 0 once it has ended.
    pub fn processor_seconds(&self) -> f64 {
        self.handle.processor_seconds()
    }

    /// The part that other threads may hold.
    pub fn handle(&self) -> Handle {
        self.handle.clone()
    }

    /// Waits until the machine has ended and all its output has been passed on.
    pub fn wait(mut self, timeout: Option<Duration>) -> Outcome {
        let mut deadline = timeout.map(|timeout| Instant::now() + timeout);
        let mut outcome = Outcome {
            status: Status::Lost,
            report: String::new(),
            start_ns: None,
        };
        loop {
            let event = match deadline {
                None => self
                    .events
                    .recv()
                    .map_err(|_| RecvTimeoutError::Disconnected),
                Some(at) => self
                    .events
                    .recv_timeout(at.saturating_duration_since(Instant::now())),
            };
            match event {
                Ok(Event::Report(line)) if outcome.status == Status::Panic => {
                    outcome.report.push_str(&line);
                }
                Ok(Event::Report(line)) => {
                    let (word, rest) = line
                        .trim_end()
                        .split_once(' ')
                        .unwrap_or((line.trim_end(), ""));
                    match word {
                        "start" => {
                            let time = rest.split_whitespace().next();
                            outcome.start_ns = time.and_then(|time| time.parse().ok());
                        }
                        "exit" => {
                            outcome.status = rest.parse().map_or(Status::Lost, Status::Exit);
                            deadline = Some(Instant::now() + GRACE);
                        }
                        "panic" => {
                            outcome.status = Status::Panic;
                            outcome.report = format!("kernel panic: {rest}\n");
                            deadline = Some(Instant::now() + GRACE);
                        }
                        _ => {}
                    }
                }
                Ok(Event::Ended) => break,
                Ok(Event::Closed) => {}
                Ok(Event::Interrupt(signal)) => {
                    outcome.status = Status::Interrupted(signal);
                    break;
                }
                // The reader of the output has gone, as after `| head`.
                Ok(Event::Broken) => {
                    outcome.status = Status::Interrupted(13);
                    break;
                }
                Err(_) => {
                    // After a report this is only a machine that was slow to power off.
                    if outcome.status == Status::Lost {
                        outcome.status = Status::Timeout;
                    }
                    break;
                }
            }
        }
        self.end();
        for output in self.outputs.drain(..) {
            // A relay that panicked has lost its stream; the status still stands.
            let _ = output.join();
        }
        // The bytes that came between the end of the machine and now.
        while let Ok(event) = self.events.try_recv() {
            if let Event::Report(line) = event {
                if outcome.status == Status::Panic {
                    outcome.report.push_str(&line);
                } else if let (Status::Lost, Some(status)) =
                    (outcome.status, line.trim().strip_prefix("exit "))
                {
                    outcome.status = status.parse().map_or(Status::Lost, Status::Exit);
                } else if let (Status::Lost, Some(cause)) =
                    (outcome.status, line.strip_prefix("panic "))
                {
                    outcome.status = Status::Panic;
                    outcome.report = format!("kernel panic: {cause}");
                }
            }
        }
        if let Some(complaints) = self.complaints.take()
            && outcome.status == Status::Lost
        {
            outcome.report = complaints.join().unwrap_or_default();
        }
        outcome
    }

    fn end(&mut self) {
        // It may have ended by itself.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.end();
        remove(&self.dir);
    }
}

fn remove(dir: &Path) {
    // A leftover folder in /tmp is no reason to fail.
    let _ = std::fs::remove_dir_all(dir);
}

/// QEMU, which ends when the thread that started it ends, however that comes.
fn qemu() -> Command {
    match host::find("setpriv") {
        Some(setpriv) => {
            let mut command = Command::new(setpriv);
            command.args(["--pdeathsig", "KILL", host::QEMU.program]);
            command
        }
        None => Command::new(host::QEMU.program),
    }
}

/// The connections that QEMU makes to our sockets, in order.
fn connect(listeners: &[UnixListener], child: &mut Child) -> Result<Vec<UnixStream>> {
    let deadline = Instant::now() + GRACE;
    let mut streams = Vec::new();
    for listener in listeners {
        loop {
            let mut fds = [PollFd::new(listener, PollFlags::IN)];
            let pause = Timespec {
                tv_sec: 0,
                tv_nsec: 50_000_000,
            };
            if poll(&mut fds, Some(&pause)).is_ok_and(|ready| ready > 0) {
                streams.push(
                    listener
                        .accept()
                        .context("cannot accept QEMU's connection")?
                        .0,
                );
                break;
            }
            if !matches!(child.try_wait(), Ok(None)) {
                return Err(Failure::new(HOST, "QEMU does not start"));
            }
            if Instant::now() > deadline {
                return Err(Failure::new(HOST, "QEMU does not connect"));
            }
        }
    }
    Ok(streams)
}

/// A writer for several relays.
type Sink = Arc<Mutex<Box<dyn Write + Send>>>;

fn shared(sink: Box<dyn Write + Send>) -> Sink {
    Arc::new(Mutex::new(sink))
}

/// Passes bytes on until the guest's end closes. A terminal in raw mode needs carriage returns.
fn relay(mut from: UnixStream, to: Sink, events: Sender<Event>, raw: bool) -> JoinHandle<()> {
    thread::spawn(move || {
        let mut buffer = [0; 65536];
        while let Ok(count @ 1..) = from.read(&mut buffer) {
            let mut to = to.lock().expect("no panic while held");
            let passed = if raw {
                let text = String::from_utf8_lossy(&buffer[..count]).replace('\n', "\r\n");
                to.write_all(text.as_bytes())
            } else {
                to.write_all(&buffer[..count])
            };
            if passed.and_then(|()| to.flush()).is_err() {
                let _ = events.send(Event::Broken);
                return;
            }
            drop(to);
            // QEMU writes byte by byte: a short pause lets a whole lot come together.
            if count < SMALL {
                thread::sleep(Duration::from_micros(500));
            }
        }
        let _ = events.send(Event::Closed);
    })
}

/// Turns the control channel into events, a line each; tells `started` of the start report, and whether the
/// input is expected at its port.
fn reports(from: UnixStream, events: Sender<Event>, started: Sender<bool>) -> JoinHandle<()> {
    thread::spawn(move || {
        let mut from = io::BufReader::new(from);
        let mut line = Vec::new();
        while let Ok(1..) = io::BufRead::read_until(&mut from, b'\n', &mut line) {
            if line.starts_with(b"start") {
                let _ = started.send(line.trim_ascii_end().ends_with(b"ports"));
            }
            let _ = events.send(Event::Report(String::from_utf8_lossy(&line).into_owned()));
            line.clear();
        }
    })
}

/// Sends the input to the guest, then the notice of its end.
fn feed(mut input: Box<dyn Read + Send>, mut into: UnixStream, handle: &Handle, terminal: bool) {
    const ESCAPE: u8 = 0x1d;
    let mut sent = 0u64;
    let mut escapes: Vec<Instant> = Vec::new();
    let mut buffer = [0; 65536];
    loop {
        let count = match input.read(&mut buffer) {
            Ok(0) => break,
            Ok(count) => count,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(_) => break,
        };
        if terminal {
            for byte in &buffer[..count] {
                if *byte == ESCAPE {
                    escapes.push(Instant::now());
                } else {
                    escapes.clear();
                }
            }
            escapes.retain(|at| at.elapsed() < Duration::from_secs(1));
            if escapes.len() >= 3 {
                handle.interrupt(15);
            }
        }
        if into.write_all(&buffer[..count]).is_err() {
            return;
        }
        sent += count as u64;
    }
    if terminal {
        handle.interrupt(1);
    } else {
        handle.notice(&format!("eof {sent}\n"));
    }
}

/// Tells when QEMU has ended. The process is left for `Running::end` to collect.
fn watch(child: &Child, events: Sender<Event>) {
    let child = Pid::from_child(child);
    thread::spawn(move || {
        let options = WaitIdOptions::EXITED | WaitIdOptions::NOWAIT;
        // An error says that it has been collected already.
        let _ = retry_on_intr(|| waitid(WaitId::Pid(child), options));
        let _ = events.send(Event::Ended);
    });
}

fn one_line(text: &str) -> String {
    text.lines().last().unwrap_or("no reason given").to_owned()
}

/// A sink that keeps what was written, for tests and measurements.
#[derive(Clone, Default)]
pub struct Kept(Arc<Mutex<Vec<u8>>>);

impl Kept {
    /// The bytes written so far.
    pub fn bytes(&self) -> Vec<u8> {
        self.0.lock().expect("no panic while held").clone()
    }

    /// How many bytes that are.
    pub fn count(&self) -> usize {
        self.0.lock().expect("no panic while held").len()
    }
}

impl Write for Kept {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0
            .lock()
            .expect("no panic while held")
            .extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
