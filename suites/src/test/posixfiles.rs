//! `pjdfstest`: what POSIX asks of a file system, by a suite that others keep, from Rust's package registry.
//!
//! *Interface*: `run`, with `--long` only, since its build takes a minute. The cases run as three users in a
//! file system in memory that has nothing else, with a second one beside it for links that cross the border.

use super::guest::with;
use super::kit::Kit;
use super::tap::Check;
use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;
use xtask::failure::{Failure, HOST, Result};
use xtask::host;
use xtask::rootfs::Root;

const NAME: &str = "pjdfstest";
const VERSION: &str = "0.2.2";
/// The program is linked with its libraries, so it runs in any root.
const TARGET: &str = "x86_64-unknown-linux-gnu";

pub(super) fn run(kit: &Kit) -> Vec<Check> {
    let machine = with(kit, "posixfiles", 1, 256);
    if !kit.long || kit.leaves_out(&machine) {
        return Vec::new();
    }
    let root = installed().and_then(|program| {
        let mut root = Root::new(None)?;
        let scripts = host::project().join("tests/guest");
        root.add(&format!("{}:/tests", scripts.display()))?;
        root.add(&format!("{}:/bin/{NAME}", program.display()))?;
        Ok(root)
    });
    let words = ["/bin/sh", "/tests/posixfiles.sh"];
    kit.tap_in(root, &machine, &words, Duration::from_secs(300))
}

/// The program, compiled once.
fn installed() -> Result<PathBuf> {
    let folder = host::build_dir(&format!("{NAME}-{VERSION}"))?;
    let program = folder.join("bin").join(NAME);
    if program.is_file() {
        return Ok(program);
    }
    eprintln!("xtask: compiling {NAME} {VERSION}");
    let mut command = Command::new("cargo");
    command
        .args(["install", "--quiet", "--debug", "--locked", "--no-track"])
        .args(["--version", VERSION, "--target", TARGET, "--root"])
        .arg(&folder)
        .arg(NAME)
        .env(
            "RUSTFLAGS",
            "-C target-feature=+crt-static -C strip=symbols",
        );
    host::run_quietly(&mut command)?;
    if !program.is_file() {
        let message = format!("cargo made no {}", program.display());
        return Err(Failure::new(HOST, message));
    }
    Ok(program)
}
