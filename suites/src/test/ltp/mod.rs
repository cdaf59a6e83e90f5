//! The Linux Test Project: its cases of system calls, one by one in guests, each judged by its exit code.
//!
//! *Interface*: `run` is the suite, what `tests/ltp/expected.txt` says must pass; `main` is
//! `cargo xtask ltp`: cases as one wants them, on Synthesis or on Linux in the same machine, and other suites
//! in the same guests. The archive of its source is no part of the project.

mod build;
mod expected;
mod folder;
mod guest;
mod posix;
mod selftests;

use super::kit::Kit;
use super::tap::Check;
use build::Tree;
use expected::Expected;
use folder::Folder;
use guest::{Case, Done, Files, On, Tell};
use lexopt::prelude::*;
use posix::Posix;
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use xtask::failure::{Context, Failure, Result, USAGE};
use xtask::{host, kernel};

const HELP: &str = "\
usage: cargo xtask ltp [--linux] [--suites DIR] [--verbose] [--list FILE] [--all]
                       [--posix] [--selftests] [--folder DIR] [CASE...]

Runs cases of the Linux Test Project in a guest with 1 GiB, and prints name, exit code and seconds of each; only
0 counts as passed. Without CASE: those that tests/ltp/expected.txt knows. What failed ones said last is kept
in build/ltp/said-KERNEL, the table in build/ltp/table-KERNEL; with --posix those end in -posix, with
--selftests and --folder in -selftests and -folder.

  --linux        on Debian's Linux instead
  --suites DIR   the folder of ltp-*.tar.xz (the variable SYNTHESIS_SUITES, or ../shared/suites)
  --list FILE    the cases in this file, also one of the folder of suites
  --all          all that LTP lists of system calls
  --posix        all of the open POSIX suite, which is part of LTP
  --selftests    the selftests of Linux's source instead, from Debian's package of it: programs of some topics,
                 and each case of nolibc-test
  --folder DIR   a suite that stands in a folder instead: the lines `NAME COMMAND` of its file `cases`; a guest
                 has the folder as /ltp/folder, and the host's C library
  --verbose      show what failed ones said
";

/// The wish of the words of `cargo xtask ltp`.
#[derive(Default)]
struct Asked {
    linux: bool,
    verbose: bool,
    every: bool,
    posix: bool,
    selftests: bool,
    folder: Option<PathBuf>,
    suites: Option<PathBuf>,
    lists: Vec<PathBuf>,
    names: Vec<String>,
}

/// `cargo xtask ltp`.
pub fn main(words: Vec<OsString>) -> Result<i32> {
    let mut asked = Asked::default();
    let mut parser = lexopt::Parser::from_args(words);
    while let Some(argument) = parser.next()? {
        match argument {
            Long("linux") => asked.linux = true,
            Long("suites") => asked.suites = Some(PathBuf::from(parser.value()?)),
            Long("list") => asked.lists.push(PathBuf::from(parser.value()?)),
            Long("all") => asked.every = true,
            Long("posix") => asked.posix = true,
            Long("selftests") => asked.selftests = true,
            Long("folder") => asked.folder = Some(PathBuf::from(parser.value()?)),
            Short('v') | Long("verbose") => asked.verbose = true,
            Short('h') | Long("help") => {
                print!("{HELP}");
                return Ok(0);
            }
            Value(name) => asked.names.push(name.to_string_lossy().into_owned()),
            other => return Err(other.unexpected().into()),
        }
    }
    if asked.selftests {
        return in_folder(&asked, &selftests::built()?, "-selftests");
    }
    if let Some(folder) = &asked.folder {
        return in_folder(&asked, folder, "-folder");
    }
    of_ltp(asked)
}

/// Cases of a folder.
fn in_folder(asked: &Asked, folder: &Path, part: &str) -> Result<i32> {
    let mut folder = Folder::open(folder)?;
    let all: BTreeMap<_, _> = folder.cases.iter().cloned().collect();
    let mut names = asked.names.clone();
    for list in &asked.lists {
        names.extend(listed(list)?);
    }
    if !names.is_empty() {
        folder.cases = cases(&all, &names);
    }
    judged(asked, &folder, &folder.cases, part)
}

/// Cases of LTP and of its open POSIX suite.
fn of_ltp(mut asked: Asked) -> Result<i32> {
    let tree = match Tree::open(asked.suites.take())? {
        Ok(tree) => tree,
        Err(why) => return Err(Failure::new(USAGE, why)),
    };
    let mut all = tree.commands()?;
    let mut names = std::mem::take(&mut asked.names);
    for list in &asked.lists {
        let path = Some(list.clone()).filter(|path| path.exists());
        names.extend(listed(&path.unwrap_or_else(|| tree.suites.join(list)))?);
    }
    if asked.every {
        names.extend(all.keys().cloned());
    }
    let suite = Posix::open(&tree)?;
    let its = suite.commands();
    if asked.posix {
        names.extend(its.keys().cloned());
    }
    all.extend(its);
    if names.is_empty() {
        names = Expected::read()?.wanted(true);
    }
    let cases = cases(&all, &names);
    tree.build(&commands(&cases), &all)?;
    suite.build(&commands(&cases))?;
    let part = if asked.posix { "-posix" } else { "" };
    judged(&asked, &Programs { tree, all }, &cases, part)
}

/// Runs `cases` and prints what became of them.
fn judged(asked: &Asked, files: &dyn Files, cases: &[Case], part: &str) -> Result<i32> {
    let (on, kernel) = if asked.linux {
        (On::Linux, "linux")
    } else {
        (
            On::Synthesis(kernel::build(kernel::Profile::Kernel)?),
            "synthesis",
        )
    };
    let tell = kept(&format!("{kernel}{part}"), true)?;
    let done = guest::run(files, cases, &on, &tell)?;
    let failed: Vec<_> = done.iter().filter(|done| done.code != Some(0)).collect();
    println!("\n{} of {} passed", done.len() - failed.len(), done.len());
    for done in &failed {
        println!("  {}", guest::row(done));
        if asked.verbose {
            print!("{}", done.said);
        }
    }
    Ok(i32::from(!failed.is_empty()))
}

fn listed(path: &Path) -> Result<Vec<String>> {
    let text = std::fs::read_to_string(path).context(path.display())?;
    Ok(text.split_whitespace().map(str::to_owned).collect())
}

/// The programs of LTP and of its open POSIX suite.
struct Programs {
    tree: Tree,
    all: BTreeMap<String, String>,
}

impl Files for Programs {
    fn files(&self, commands: &[&str]) -> Result<Vec<(PathBuf, String)>> {
        let mut files = Vec::new();
        for path in self.tree.programs(commands, &self.all)? {
            let name = path.file_name().unwrap_or_default().to_string_lossy();
            let target = format!("/ltp/testcases/bin/{name}");
            files.push((path, target));
        }
        let before = files.len();
        for command in commands {
            let path = posix::host_path(&self.tree, command);
            files.extend(path.map(|path| (path, (*command).to_owned())));
        }
        if files.len() > before {
            files.extend(posix::libraries());
        }
        Ok(files)
    }
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
        Err(failure) => vec![Check::hindered("LTP", failure)],
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
    tree.build(&commands(&cases), &all)?;
    suite.build(&commands(&cases))?;
    let on = On::Synthesis(kit.kernel().to_owned());
    let tell = kept("synthesis", kit.long)?;
    let done = guest::run(&Programs { tree, all }, &cases, &on, &tell)?;
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
