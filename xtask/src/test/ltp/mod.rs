//! The Linux Test Project: its cases of system calls, one by one in guests, each judged by its exit code.
//!
//! *Interface*: `run` is the suite, what `tests/ltp/expected.txt` says must pass; `main` is `cargo xtask ltp`: cases as one wants them,
//! on Synthesis or on Linux in the same machine. The archive of its source is no part of the project.

mod build;
mod expected;
mod guest;
mod posix;

use super::kit::Kit;
use super::tap::Check;
use crate::failure::{Context, Failure, Result, USAGE};
use crate::{host, kernel};
use build::Tree;
use expected::Expected;
use guest::{Case, Done, On, Tell};
use lexopt::prelude::*;
use posix::Posix;
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs::File;
use std::io::Write;
use std::path::PathBuf;
use std::sync::Arc;

const HELP: &str = "\
usage: cargo xtask ltp [--linux] [--suites DIR] [--verbose] [--list FILE] [--all]
                       [--posix] [CASE...]

Runs cases of the Linux Test Project in a guest with 1 GiB, and prints name, exit code and seconds of each; only
0 counts as passed. Without CASE: those that tests/ltp/expected.txt knows. What failed ones said last is kept
in build/ltp/said-KERNEL, the table in build/ltp/table-KERNEL; with --posix those end in -posix.

  --linux        on Debian's Linux instead
  --suites DIR   the folder of ltp-*.tar.xz (the variable SYNTHESIS_SUITES, or ../shared/suites)
  --list FILE    the cases in this file, also one of the folder of suites
  --all          all that LTP lists of system calls
  --posix        all of the open POSIX suite, which is part of LTP
  --verbose      show what failed ones said
";

/// `cargo xtask ltp`.
pub fn main(words: Vec<OsString>) -> Result<i32> {
    let (mut linux, mut verbose, mut every, mut posix) = (false, false, false, false);
    let (mut suites, mut lists, mut names) = (None, Vec::new(), Vec::new());
    let mut parser = lexopt::Parser::from_args(words);
    while let Some(argument) = parser.next()? {
        match argument {
            Long("linux") => linux = true,
            Long("suites") => suites = Some(PathBuf::from(parser.value()?)),
            Long("list") => lists.push(PathBuf::from(parser.value()?)),
            Long("all") => every = true,
            Long("posix") => posix = true,
            Short('v') | Long("verbose") => verbose = true,
            Short('h') | Long("help") => {
                print!("{HELP}");
                return Ok(0);
            }
            Value(name) => names.push(name.to_string_lossy().into_owned()),
            other => return Err(other.unexpected().into()),
        }
    }
    let tree = match Tree::open(suites)? {
        Ok(tree) => tree,
        Err(why) => return Err(Failure::new(USAGE, why)),
    };
    let mut all = tree.commands()?;
    for list in &lists {
        let path = Some(list.clone()).filter(|path| path.exists());
        let path = path.unwrap_or_else(|| tree.suites.join(list));
        let text = std::fs::read_to_string(&path).context(path.display())?;
        names.extend(text.split_whitespace().map(str::to_owned));
    }
    if every {
        names.extend(all.keys().cloned());
    }
    let suite = Posix::open(&tree)?;
    let its = suite.commands();
    if posix {
        names.extend(its.keys().cloned());
    }
    all.extend(its);
    if names.is_empty() {
        names = Expected::read()?.wanted(true);
    }
    let on = if linux {
        On::Linux
    } else {
        On::Synthesis(kernel::build()?)
    };
    let cases = cases(&all, &names);
    tree.build(&commands(&cases))?;
    suite.build(&commands(&cases))?;
    let kernel = if linux { "linux" } else { "synthesis" };
    let part = if posix { "-posix" } else { "" };
    let tell = kept(&format!("{kernel}{part}"), true)?;
    let done = guest::run(&tree, &all, &cases, &on, &tell)?;
    let failed: Vec<_> = done.iter().filter(|done| done.code != Some(0)).collect();
    println!("\n{} of {} passed", done.len() - failed.len(), done.len());
    for done in &failed {
        println!("  {}", guest::row(done));
        if verbose {
            print!("{}", done.said);
        }
    }
    Ok(i32::from(!failed.is_empty()))
}

/// The cases of these names, each once. Some lists know one that LTP's has not: its name is its command.
fn cases(all: &BTreeMap<String, String>, names: &[String]) -> Vec<Case> {
    let mut cases: Vec<Case> = Vec::new();
    let mut seen = std::collections::BTreeSet::new();
    for name in names.iter().filter(|name| seen.insert(name.as_str())) {
        let command = all.get(name).unwrap_or(name);
        cases.push((name.clone(), command.clone()));
    }
    cases
}

fn commands(cases: &[Case]) -> Vec<&str> {
    cases.iter().map(|(_, command)| command.as_str()).collect()
}

/// Writes the table and what failed cases said, as they end; with `shown`, the table on standard output too.
fn kept(kernel: &str, shown: bool) -> Result<Tell> {
    let dir = host::build_dir("ltp")?;
    let create = |name: &str| {
        let path = dir.join(format!("{name}-{kernel}"));
        File::create(&path).context(path.display())
    };
    let (table, said) = (create("table")?, create("said")?);
    Ok(Arc::new(move |done: &Done| {
        let row = guest::row(done);
        if shown {
            println!("{row}");
        }
        // A full disk shows where the files are read.
        let _ = writeln!(&table, "{row}");
        if done.code != Some(0) {
            let _ = writeln!(&said, "=== {row}\n{}", done.said);
        }
    }))
}

/// The suite.
pub fn run(kit: &Kit) -> Vec<Check> {
    match suite(kit) {
        Ok(checks) => checks,
        Err(failure) => vec![Check::new("LTP", false, failure.message)],
    }
}

fn suite(kit: &Kit) -> Result<Vec<Check>> {
    let tree = match Tree::open(None)? {
        Ok(tree) => tree,
        Err(why) => {
            println!("ltp: SKIPPED, not passed: {why}");
            return Ok(Vec::new());
        }
    };
    let expected = Expected::read()?;
    let suite = Posix::open(&tree)?;
    let mut all = tree.commands()?;
    all.extend(suite.commands());
    let cases = cases(&all, &expected.wanted(kit.long));
    tree.build(&commands(&cases))?;
    suite.build(&commands(&cases))?;
    let on = On::Synthesis(kit.kernel().to_owned());
    let tell = kept("synthesis", kit.long)?;
    let done = guest::run(&tree, &all, &cases, &on, &tell)?;
    let mut checks = Vec::new();
    for done in &done {
        let passed = done.code == Some(0);
        match expected.reason(&done.name) {
            Some(reason) if passed => {
                println!(
                    "ltp: {} passes, though it is known for: {reason}",
                    done.name
                );
            }
            Some(reason) => println!("ltp: {}: {reason}", guest::row(done)),
            None => {
                let last: Vec<_> = done.said.lines().rev().take(12).collect();
                let last: Vec<_> = last.into_iter().rev().collect();
                let detail = format!("{} | {}", guest::row(done), last.join(" | "));
                checks.push(Check::new(&done.name, passed, detail));
            }
        }
    }
    Ok(checks)
}
