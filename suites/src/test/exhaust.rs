//! Too much of everything: roots that do not fit, and each kind of object taken until there is no more.
//!
//! *Interface*: `roots`, `hogs`, `returns`, `crowd`.

use super::guest::with;
use super::kit::Kit;
use super::tap::Check;
use std::io::Write;
use std::path::PathBuf;
use std::time::Duration;
use xtask::failure::Result;
use xtask::machine::{Machine, Status};
use xtask::rootfs::Root;

const MINUTE: Duration = Duration::from_secs(60);

/// Each kind of thing is taken until there is no more, as user 1000 and as root; with more memory only where
/// it may take long.
pub fn hogs(kit: &Kit) -> Vec<Check> {
    let mut checks = Vec::new();
    for mebibytes in [24, 64, 256] {
        for cpus in [1, 4] {
            let short = mebibytes == 24 && cpus == 1;
            for (who, words) in [("user", &[PROGRAM][..]), ("root", &[PROGRAM, "root"])] {
                if kit.long || short {
                    let name = format!("hogs-{who}-{mebibytes}m-{cpus}");
                    let machine = with(kit, &name, cpus, mebibytes);
                    checks.extend(kit.tap(&machine, words, 10 * MINUTE));
                }
            }
        }
    }
    checks
}

/// A killed process gives its memory back, also where nobody does anything then but wait for that.
pub fn returns(kit: &Kit) -> Vec<Check> {
    let machine = with(kit, "returns", 4, 24);
    let rounds = if kit.long { "1000" } else { "100" };
    kit.tap(&machine, &["/tests/returns-musl", rounds], 10 * MINUTE)
}

/// Thousands of processes, threads and sockets are there at once, do something, and give their memory back.
pub fn crowd(kit: &Kit) -> Vec<Check> {
    let machine = with(kit, "crowd", 4, 1024);
    let all = ["/tests/crowd-musl", "twice"];
    let words = if kit.long { &all[..] } else { &all[..1] };
    kit.tap(&machine, words, 10 * MINUTE)
}

const PROGRAM: &str = "/tests/hogs-musl";

/// A file of so many MiB, whose bytes are its lines' numbers.
fn ballast(kit: &Kit, mebibytes: usize) -> Result<PathBuf> {
    let path = kit.file(&format!("ballast-{mebibytes}m"))?;
    let mut text = Vec::with_capacity((mebibytes << 20) + 16);
    for line in 0.. {
        if text.len() >= mebibytes << 20 {
            break;
        }
        let _ = writeln!(text, "{line}");
    }
    text.truncate((mebibytes << 20) - 6);
    text.extend_from_slice(b"\nlast\n");
    std::fs::write(&path, text).map_err(|e| xtask::failure::Failure::new(1, e.to_string()))?;
    Ok(path)
}

/// A root that fits takes little more than its size; one that does not is told so before boot.
pub fn roots(kit: &Kit) -> Vec<Check> {
    try_roots(kit).unwrap_or_else(|failure| vec![Check::hindered("roots", failure)])
}

fn try_roots(kit: &Kit) -> Result<Vec<Check>> {
    let mut checks = Vec::new();
    let (large, medium) = (ballast(kit, 195)?, ballast(kit, 40)?);
    let boot = |machine: &Machine, path: &PathBuf| {
        let mut root = Root::new(None)?;
        root.add(&format!("{}:/ballast", path.display()))?;
        let words = ["/bin/sh", "-c", "tail -n 1 /ballast; wc -c </ballast"];
        kit.boot_root(root, machine, &words, Vec::new(), 3 * MINUTE)
    };
    let ran = boot(&with(kit, "roots-large", 1, 256), &large)?;
    let good = ran.outcome.status == Status::Exit(0) && ran.stdout == b"last\n204472320\n";
    checks.push(Check::new("195 MiB at 256 MiB", good, ran.told()));
    // Past the tool, which would refuse it, the kernel itself says what would do. With less memory the
    // machine would put the archive over the kernel's image.
    let tight = with(kit, "roots-tight", 1, 50);
    let ran = boot(&tight, &medium)?;
    let log = tight.log.text();
    let enough = log
        .split(" MiB would do")
        .next()
        .and_then(|before| before.rsplit(' ').next()?.parse().ok());
    let good = ran.outcome.status == Status::Exit(125) && enough.is_some();
    checks.push(Check::new("40 MiB at 50 MiB", good, ran.told()));
    let named = with(kit, "roots-named", 1, enough.unwrap_or(50));
    let ran = boot(&named, &medium)?;
    let good = ran.outcome.status == Status::Exit(0) && ran.stdout.starts_with(b"last\n");
    checks.push(Check::new(
        "40 MiB at what the kernel names",
        good,
        ran.told(),
    ));
    if kit.is_mutated() {
        // The tool boots a kernel without mutants.
        return Ok(checks);
    }
    let add = format!("{}:/ballast", medium.display());
    let run = |memory: &str| {
        let words = ["run", "--mem", memory, "--add", &add, "--", "true"];
        kit.xtask(&words).output()
    };
    let refused = run("48M").map_err(|e| xtask::failure::Failure::new(1, e.to_string()))?;
    let said = String::from_utf8_lossy(&refused.stderr).into_owned();
    let named = said
        .split("--mem ")
        .nth(1)
        .and_then(|rest| rest.split(' ').next());
    let good = refused.status.code() == Some(2) && named.is_some();
    checks.push(Check::new(
        "40 MiB at 48 MiB is refused by the tool, before it boots",
        good,
        &said,
    ));
    let with_that = run(named.unwrap_or("48M"))
        .ok()
        .and_then(|done| done.status.code());
    checks.push(Check::new(
        "with what it names the root fits",
        with_that == Some(0),
        said,
    ));
    Ok(checks)
}
