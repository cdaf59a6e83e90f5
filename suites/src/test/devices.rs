//! Devices on the bus: what they carry, how they interrupt, and what happens when they are not there, or no
//! more.
//!
//! *Interface*: `run`.

use super::balloon;
use super::guest::with;
use super::kit::Kit;
use super::removal;
use super::tap::Check;
use crate::qmp::Monitor;
use std::fs::File;
use std::io::Read;
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};
use xtask::failure::{Context, Failure, HOST, Result};
use xtask::machine::{Chipset, Kept, Machine, Status, Streams, Virtio};

const MINUTE: Duration = Duration::from_secs(60);
const SLICE: Duration = Duration::from_millis(50);

/// A machine whose first process copies its input.
struct Case {
    name: &'static str,
    chipset: Chipset,
    virtio: Option<Virtio>,
    cpus: u32,
    words: &'static str,
    acpi: bool,
    /// Bytes through it.
    size: usize,
    /// The names of its interrupts, and names that they have not.
    has: &'static [&'static str],
    has_not: &'static [&'static str],
}

const BY_MESSAGES: Case = Case {
    name: "messages",
    chipset: Chipset::Q35,
    virtio: Some(Virtio::Messages),
    cpus: 1,
    words: "",
    acpi: true,
    size: (4 << 20) + 1,
    has: &["virtio-port", "virtio-console", "virtio-rng"],
    has_not: &["line"],
};

const CASES: &[Case] = &[
    BY_MESSAGES,
    Case {
        name: "messages, 4 CPUs",
        cpus: 4,
        ..BY_MESSAGES
    },
    Case {
        name: "messages, all mitigations",
        words: " mitigations=all",
        ..BY_MESSAGES
    },
    Case {
        name: "lines",
        virtio: Some(Virtio::Lines),
        has: &["line"],
        has_not: &["virtio"],
        ..BY_MESSAGES
    },
    Case {
        name: "none",
        virtio: None,
        size: (64 << 10) + 1,
        has: &["com1"],
        has_not: &["virtio", "line"],
        ..BY_MESSAGES
    },
    Case {
        name: "no bus",
        chipset: Chipset::Microvm,
        has: &["line"],
        has_not: &["virtio"],
        ..BY_MESSAGES
    },
    Case {
        name: "no bus, 4 CPUs",
        chipset: Chipset::Microvm,
        cpus: 4,
        has: &["line"],
        has_not: &["virtio"],
        ..BY_MESSAGES
    },
    Case {
        name: "no bus and no tables",
        chipset: Chipset::Microvm,
        acpi: false,
        has: &["line"],
        has_not: &["virtio"],
        ..BY_MESSAGES
    },
    Case {
        name: "no bus, none",
        chipset: Chipset::Microvm,
        virtio: None,
        size: (64 << 10) + 1,
        has: &["com1"],
        has_not: &["virtio", "line"],
        ..BY_MESSAGES
    },
];

/// The suite.
pub fn run(kit: &Kit) -> Vec<Check> {
    let mut checks = Vec::new();
    for (at, case) in CASES.iter().enumerate() {
        let mut machine = with(kit, &format!("devices-{at}"), case.cpus, 128);
        machine.chipset = case.chipset;
        machine.virtio = case.virtio;
        machine.acpi = case.acpi;
        machine.append.push_str(case.words);
        if kit.leaves_out(&machine) {
            continue;
        }
        checks.push(match copied(kit, &machine, case) {
            Ok(told) => Check::new(case.name, told.is_empty(), told),
            Err(failure) => Check::new(case.name, false, failure.message),
        });
    }
    let mut machine = with(kit, "devices-removed", 2, 128);
    machine.virtio = Some(Virtio::Messages);
    if !kit.leaves_out(&machine) {
        let name = "a port that is taken away gives EIO";
        checks.push(match removed(kit, &machine) {
            Ok(told) => Check::new(name, told.is_empty(), told),
            Err(failure) => Check::new(name, false, failure.message),
        });
    }
    checks.extend(removal::run(kit));
    checks.extend(balloon::run(kit));
    checks
}

/// The faults of the bytes that came back, and of the interrupts that they took.
fn copied(kit: &Kit, machine: &Machine, case: &Case) -> Result<String> {
    let mut bytes = vec![0; case.size];
    let mut random = File::open("/dev/urandom").context("no random numbers")?;
    random.read_exact(&mut bytes).context("no random numbers")?;
    let script = "cat && cat /proc/interrupts >&2";
    let command = ["/bin/sh", "-c", script];
    let ran = kit.boot(machine, &command, bytes.clone(), 2 * MINUTE)?;
    let interrupts = String::from_utf8_lossy(&ran.stderr).into_owned();
    let taken = |name: &str| interrupts.lines().any(|line| line.contains(name));
    let mut told = String::new();
    if ran.stdout != bytes {
        let pairs = ran.stdout.iter().zip(&bytes);
        let same = pairs.take_while(|(a, b)| a == b).count();
        told += &format!("{} bytes, the same up to {same}; ", ran.stdout.len());
    }
    if !case.has.iter().all(|name| taken(name)) || case.has_not.iter().any(|name| taken(name)) {
        told += &format!("interrupts: {interrupts}; ");
    }
    if ran.outcome.status != Status::Exit(0) {
        told += &ran.told();
    }
    Ok(told)
}

/// Two ports are taken away while a program waits for one and writes to the other; it says on the third what
/// it gets.
fn removed(kit: &Kit, machine: &Machine) -> Result<String> {
    let script = "echo ready >&2; cat; echo \"in $?\" >&2; while echo x; do :; done; echo \"out $?\" >&2; exit 5";
    // Nothing comes in, and no end.
    let (_held, input) = UnixStream::pair().context("no sockets")?;
    let errors = Kept::default();
    let streams = Streams {
        input: Box::new(input),
        output: Box::new(Kept::default()),
        error: Box::new(errors.clone()),
        terminal: false,
    };
    let mut machine = machine.clone();
    machine.monitor = true;
    let mut running = kit.start_with(&machine, &["/bin/sh", "-c", script], streams)?;
    let socket = running
        .monitor()
        .ok_or_else(|| Failure::new(HOST, "no monitor"))?;
    let mut monitor = Monitor::greet(socket, MINUTE)?;
    for (word, port) in [("ready", "stdin"), ("in 1", "stdout")] {
        let begun = Instant::now();
        while !String::from_utf8_lossy(&errors.bytes()).contains(word) {
            if begun.elapsed() > MINUTE {
                return Err(Failure::new(HOST, format!("nobody says {word}")));
            }
            std::thread::sleep(SLICE);
        }
        monitor.ask(&format!("device_del {port}"))?;
    }
    let outcome = running.wait(Some(MINUTE));
    let text = String::from_utf8_lossy(&errors.bytes()).into_owned();
    let eio = |word: &str| {
        let mut lines = text.lines();
        lines.any(|line| {
            line.contains(word)
                && (line.ends_with("I/O error") || line.ends_with("Input/output error"))
        })
    };
    let good = outcome.status == Status::Exit(5) && eio("read") && eio("write");
    Ok(match good {
        true => String::new(),
        false => format!("{:?}, [{text}]", outcome.status),
    })
}
