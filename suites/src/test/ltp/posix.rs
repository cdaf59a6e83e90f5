//! LTP's open POSIX suite: programs that need nothing of LTP's own library, each a case.
//!
//! *Interface*: [`Posix::open`] finds its sources in an unpacked tree; `commands` are its cases, `build`
//! makes their programs, linked with the host's C library, [`host_path`] finds them and [`libraries`] are
//! what they run with.

use super::build::{Tree, each_file, logged};
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::Command;
use xtask::failure::{Context, Result};

/// Below the tree.
const SOURCE: &str = "testcases/open_posix_testsuite";
/// Where a guest has the programs.
pub const PLACE: &str = "/ltp/posix/";
/// The parts whose programs are cases.
const PARTS: [&str; 2] = ["conformance", "functional"];
/// The host's interpreter and C library.
const LIBRARIES: [&str; 4] = [
    "/lib64/ld-linux-x86-64.so.2",
    "/lib/x86_64-linux-gnu/libc.so.6",
    "/lib/x86_64-linux-gnu/libm.so.6",
    "/lib/x86_64-linux-gnu/libgcc_s.so.1",
];

/// The files that a program linked with the host's C library needs, at the same places in a guest.
pub fn libraries() -> impl Iterator<Item = (PathBuf, String)> {
    LIBRARIES
        .iter()
        .map(|library| (PathBuf::from(library), (*library).to_owned()))
}

/// How its own makefiles compile.
const RULES: &str = "\
all: $(addprefix $(OUT)/,$(CASES))
$(OUT)/common.o: $(TOP)/lib/common.c
\tgcc -c -O1 -w -std=gnu99 -D_GNU_SOURCE -I$(TOP)/include -o $@ $<
$(OUT)/%: $(TOP)/%.c $(OUT)/common.o
\t@mkdir -p $(@D)
\tgcc -s -w -std=c99 -D_POSIX_C_SOURCE=200809L -D_XOPEN_SOURCE=700 -I$(TOP)/include \\
\t    -I$(<D) -o $@ $< $(OUT)/common.o -lpthread -lrt -lm
";

/// The suite's sources and programs.
pub struct Posix {
    source: PathBuf,
    out: PathBuf,
    /// Paths of the cases below the source, without `.c`.
    cases: BTreeSet<String>,
}

/// The name of a case: its path without what all have.
fn name(case: &str) -> &str {
    let case = case.strip_prefix("conformance/").unwrap_or(case);
    case.strip_prefix("interfaces/").unwrap_or(case)
}

/// Whether a source is a case's: `NUMBER-NUMBER.c`.
fn is_case(path: &Path) -> bool {
    let Some(stem) = path.file_stem().and_then(|stem| stem.to_str()) else {
        return false;
    };
    let number = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    path.extension().is_some_and(|end| end == "c")
        && stem
            .split_once('-')
            .is_some_and(|(clause, count)| number(clause) && number(count))
}

impl Posix {
    /// The suite in this tree.
    ///
    /// # Errors
    /// Host failure when it cannot be read.
    pub fn open(tree: &Tree) -> Result<Self> {
        let source = tree.top.join(SOURCE);
        let mut cases = BTreeSet::new();
        for part in PARTS {
            each_file(&source.join(part), &mut |path| {
                if is_case(path)
                    && let Ok(below) = path.with_extension("").strip_prefix(&source)
                {
                    cases.insert(below.to_string_lossy().into_owned());
                }
            })?;
        }
        Ok(Self {
            source,
            out: tree.top.with_file_name("posix"),
            cases,
        })
    }

    /// The cases and their commands.
    pub fn commands(&self) -> BTreeMap<String, String> {
        let pairs = self.cases.iter();
        pairs
            .map(|case| (name(case).to_owned(), format!("{PLACE}{case}")))
            .collect()
    }

    /// Makes the programs of these commands that are not made yet. The failures to make a program are in
    /// `make.log`, and its cases fail.
    ///
    /// # Errors
    /// Host failure when nothing can be made at all.
    pub fn build(&self, commands: &[&str]) -> Result<()> {
        let missing: Vec<_> = commands
            .iter()
            .filter_map(|command| command.strip_prefix(PLACE))
            .filter(|case| !self.out.join(case).exists())
            .collect();
        if missing.is_empty() {
            return Ok(());
        }
        std::fs::create_dir_all(&self.out).context(self.out.display())?;
        let rules = self.out.join("rules.mk");
        std::fs::write(&rules, RULES).context(rules.display())?;
        let list = self.out.join("cases.mk");
        let cases = format!("CASES := {}\n", missing.join(" "));
        std::fs::write(&list, cases).context(list.display())?;
        eprintln!("xtask: building {} programs of POSIX", missing.len());
        let jobs = std::thread::available_parallelism().map_or(1, usize::from);
        let mut make = Command::new("make");
        make.args(["-s", "-k", &format!("-j{jobs}")])
            .arg(format!("TOP={}", self.source.display()))
            .arg(format!("OUT={}", self.out.display()))
            .arg("-f")
            .arg(&list)
            .arg("-f")
            .arg(&rules)
            .arg("all");
        // Some ask for headers that the host has not.
        if logged(&mut make, &self.out).is_err() {
            eprintln!("xtask: not all of them can be built");
        }
        Ok(())
    }
}

/// The host's file of a command's program, if the command is one of this suite's and made.
pub fn host_path(tree: &Tree, command: &str) -> Option<PathBuf> {
    let case = command.strip_prefix(PLACE)?;
    let path = tree.top.with_file_name("posix").join(case);
    path.exists().then_some(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cases_are_named_by_clause_and_count() {
        assert!(is_case(Path::new("mmap/1-12.c")));
        for other in [
            "mmap/1-1-buildonly.c",
            "mmap/test.c",
            "mmap/1-1.sh",
            "x/1-.c",
        ] {
            assert!(!is_case(Path::new(other)), "{other}");
        }
        assert_eq!(name("conformance/interfaces/mmap/1-1"), "mmap/1-1");
        assert_eq!(name("functional/timers/1-1"), "functional/timers/1-1");
    }
}
