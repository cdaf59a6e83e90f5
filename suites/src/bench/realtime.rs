//! Debian's package rt-tests: its programs and the libraries that they need, for a small root.
//!
//! *Interface*: `root` has them and the scripts of `tests/bench`; `runs` cuts what a script printed into the
//! runs of its program.

use xtask::failure::Result;
use xtask::rootfs::Root;
use xtask::{debian, host};

/// The files of the packages that the programs need; all the rest belongs to scripts in Python.
const FILES: [&str; 7] = [
    "/usr/bin/cyclictest",
    "/usr/bin/hackbench",
    "/lib/x86_64-linux-gnu/libc.so.6",
    "/lib/x86_64-linux-gnu/libnuma.so.1",
    "/lib/x86_64-linux-gnu/libpthread.so.0",
    "/lib/x86_64-linux-gnu/librt.so.1",
    "/lib64/ld-linux-x86-64.so.2",
];

/// A root with the programs, unmodified.
///
/// # Errors
/// Host failure when the package cannot be had.
pub fn root() -> Result<Root> {
    let from = debian::unpacked(&["rt-tests"])?;
    let mut root = Root::new(None)?;
    for file in FILES {
        root.add(&format!("{}{file}:{file}", from.display()))?;
    }
    let scripts = host::project().join("tests/bench");
    root.add(&format!("{}:/bench", scripts.display()))?;
    Ok(root)
}

/// The runs of a script: what stands behind each line `run NAME`.
pub fn runs(printed: &str) -> Vec<(&str, Vec<&str>)> {
    let mut runs: Vec<(&str, Vec<&str>)> = Vec::new();
    for line in printed.lines().map(str::trim_end) {
        if let Some(name) = line.strip_prefix("run ") {
            runs.push((name, Vec::new()));
        } else if let Some((_, lines)) = runs.last_mut() {
            lines.push(line);
        }
    }
    runs
}

/// The lines that tell of failures.
pub fn failures(printed: &str) -> impl Iterator<Item = &str> {
    printed.lines().filter(|line| line.starts_with("failed "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_run_has_its_lines() {
        let printed = "noise\nrun a\r\n1\r\n2\nrun b\nfailed b 1\n";
        assert_eq!(
            runs(printed),
            [("a", vec!["1", "2"]), ("b", vec!["failed b 1"])]
        );
        assert_eq!(failures(printed).collect::<Vec<_>>(), ["failed b 1"]);
    }
}
