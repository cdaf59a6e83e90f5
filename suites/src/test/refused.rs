//! Fault injection of allocations: each allocation of a boot in turn, every allocation of each kind, every
//! n-th of programs.
//!
//! *Interface*: [`run`].

use super::guest::with;
use super::kit::Kit;
use super::tap::Check;
use std::time::Duration;
use xtask::failure::Result;
use xtask::machine::Status;

const MINUTE: Duration = Duration::from_secs(60);
const PROGRAM: &str = "/tests/refused-glibc";
/// So many boots where there is no time for each question.
const SAMPLE: u64 = 10;
/// The script of a boot's first program: it starts others, and uses files and pipes.
const SESSION: &str = "ls / | cat >/tmp/list && grep -c proc /tmp/list; cat /syn/fail";

/// Programs that do much, and which of their questions are refused.
const PROGRAMS: &[(&str, &str)] = &[
    ("101", "/tests/calls-glibc"),
    ("67", "/tests/calls-files-glibc"),
    ("97", "/tests/calls-signals-glibc"),
    ("211", "/tests/load-glibc"),
];

/// All of it.
pub fn run(kit: &Kit) -> Vec<Check> {
    let mut checks = Vec::new();
    for cpus in if kit.long { &[1, 4][..] } else { &[1] } {
        let machine = with(kit, &format!("refused-{cpus}"), *cpus, 256);
        checks.extend(kit.tap(&machine, &[PROGRAM], 10 * MINUTE));
    }
    for (every, program) in PROGRAMS {
        let machine = with(kit, "refused-programs", 2, 256);
        checks.extend(kit.tap(&machine, &[PROGRAM, "with", every, program], 2 * MINUTE));
    }
    let machine = with(kit, "refused-everybody", 1, 64);
    let words = [PROGRAM, "with", "1000000", PROGRAM, "everybody"];
    checks.extend(kit.tap(&machine, &words, MINUTE));
    checks.extend(boots(kit).unwrap_or_else(|f| vec![Check::hindered("boots", f)]));
    checks
}

/// Boots with one question refused: the session goes through, or says why not, and the machine ends in order.
fn boots(kit: &Kit) -> Result<Vec<Check>> {
    let (_, asked, _) = boot(kit, "0")?;
    let Some(asked) = asked else {
        return Ok(vec![Check::new(
            "questions of a boot",
            false,
            "not counted",
        )]);
    };
    let step = if kit.long { 1 } else { (asked / SAMPLE).max(1) };
    // Then every so many, but not as few as one step asks that is made again until it is through.
    let plans = (1..=asked).step_by(step as usize).map(|n| n.to_string());
    let mut checks = vec![Check::new(
        "questions of a boot",
        asked > SAMPLE,
        asked.to_string(),
    )];
    for plan in plans.chain(["5,211".into(), "20,307".into()]) {
        let (good, _, told) = boot(kit, &plan)?;
        checks.push(Check::new(format!("a boot with fail={plan}"), good, told));
    }
    Ok(checks)
}

/// One boot: whether it was good, how many questions there were, and what it told.
fn boot(kit: &Kit, plan: &str) -> Result<(bool, Option<u64>, String)> {
    // So small that the other programs are left out, which take longer to unpack than all the rest.
    let name = format!("refused-boot-{}", plan.replace(',', "-"));
    let mut machine = with(kit, &name, 1, 48);
    // Beside the word for a console that ends where the input does: a program whose `dup2` was refused reads
    // from there, and a terminal would have it wait.
    machine.append.push_str(&format!(" fail={plan}"));
    let ran = kit.boot(&machine, &["/bin/sh", "-c", SESSION], Vec::new(), MINUTE)?;
    let text = ran.text();
    // The programs' own messages of errors come out there, too.
    let good = match ran.outcome.status {
        Status::Exit(0) => text.contains("asked "),
        Status::Exit(_) => !text.is_empty() || !ran.stderr.is_empty(),
        _ => false,
    };
    let asked = text
        .split_once("asked ")
        .and_then(|(_, rest)| rest.split(' ').next()?.parse().ok());
    Ok((good, asked, ran.told()))
}
