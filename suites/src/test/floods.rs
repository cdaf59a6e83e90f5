//! Floods of interrupts: bytes that the host pushes without a pause, beside a program that computes.
//!
//! *Interface*: `run`. The guest's part is `user/tests/floods.c`.

use super::guest::with;
use super::kit::{Kit, Ran};
use super::tap::{self, Check};
use std::time::Duration;
use xtask::machine::Virtio;

/// Four million instructions in a second, about as many as the dissertation's machine has.
const SLOW: u32 = 8;
const LIMIT: Duration = Duration::from_secs(180);

/// A machine into which bytes are pushed.
struct Case {
    name: &'static str,
    cpus: u32,
    virtio: Option<Virtio>,
    /// The name of what interrupts.
    interrupt: &'static str,
    bytes: usize,
    /// An instruction takes two to the power of this many nanoseconds.
    shift: u32,
    /// The share that the program which computes must keep, in per cent.
    keeps: &'static str,
}

const CASES: &[Case] = &[
    Case {
        name: "serial",
        cpus: 1,
        virtio: None,
        interrupt: "com1",
        bytes: 1 << 17,
        shift: SLOW,
        keeps: "30",
    },
    Case {
        name: "port",
        cpus: 1,
        virtio: Some(Virtio::Messages),
        interrupt: "virtio-port",
        bytes: 16 << 20,
        shift: 4,
        keeps: "30",
    },
];

/// The bytes that `user/tests/floods.c` expects.
fn flood(count: usize) -> Vec<u8> {
    (0..count)
        .map(|i| (i.wrapping_mul(167) + (i >> 8) * 13 + (i >> 16)) as u8)
        .collect()
}

/// The checks of `ran`, with all that it said where one does not hold.
fn named(case: &str, ran: &Ran) -> Vec<Check> {
    let named = |check: Check| Check {
        name: format!("{case}: {}", check.name),
        detail: match check.good {
            true => String::new(),
            false => check.detail + &ran.told(),
        },
        ..check
    };
    tap::parse(&ran.text()).into_iter().map(named).collect()
}

/// A machine of some four million instructions in a second, whose timer interrupts so often that a program
/// would have a fifth of the CPU beside it: half of the time.
fn device(kit: &Kit) -> Vec<Check> {
    let mut machine = with(kit, "floods-device", 1, 128);
    if kit.leaves_out(&machine) {
        return Vec::new();
    }
    machine.icount = Some(SLOW);
    machine.append.push_str(" flood=298000");
    let command = ["/tests/floods-glibc", "beside", "4", "80", "pit"];
    let checks = kit.on_suites(&mut machine, |kit, machine| {
        let ran = kit.boot(machine, &command, Vec::new(), LIMIT);
        ran.map(|ran| named("device", &ran))
    });
    match checks.and_then(|ran| ran) {
        Ok(checks) => checks,
        Err(failure) => vec![Check::hindered("device", failure)],
    }
}

/// The suite.
pub fn run(kit: &Kit) -> Vec<Check> {
    let mut checks = device(kit);
    for case in CASES {
        let mut machine = with(kit, &format!("floods-{}", case.name), case.cpus, 128);
        machine.virtio = case.virtio;
        machine.icount = Some(case.shift);
        if kit.leaves_out(&machine) {
            continue;
        }
        let count = case.bytes.to_string();
        let command = [
            "/tests/floods-glibc",
            "bytes",
            &count,
            case.keeps,
            case.interrupt,
        ];
        match kit.boot(&machine, &command, flood(case.bytes), LIMIT) {
            Ok(ran) => checks.extend(named(case.name, &ran)),
            Err(failure) => checks.push(Check::new(case.name, false, failure.message)),
        }
    }
    checks
}
