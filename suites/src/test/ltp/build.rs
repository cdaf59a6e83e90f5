//! The Linux Test Project's programs, static, from its source archive.
//!
//! *Interface*: [`Tree::open`] unpacks and configures it in `build/ltp`, or says that the archive is not
//! there; `commands` are the cases that it lists; `build` makes the folders that some cases need, once;
//! `programs` finds what a case runs. `each_file` and `logged` are for the neighbour `posix`.

use crate::foreign;
use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use xtask::failure::{Context, Failure, HOST, Result};
use xtask::host::{self, Need};

/// Where the cases' sources are, below the tree.
const SOURCES: [&str; 2] = ["testcases/kernel/syscalls", "testcases/kernel/ipc/pipeio"];

const TOOLS: [Need; 8] = [
    Need {
        program: "gcc",
        package: "gcc libc6-dev",
    },
    Need {
        program: "make",
        package: "make",
    },
    Need {
        program: "autoconf",
        package: "autoconf",
    },
    Need {
        program: "automake",
        package: "automake",
    },
    Need {
        program: "m4",
        package: "m4",
    },
    Need {
        program: "bison",
        package: "bison",
    },
    Need {
        program: "flex",
        package: "flex",
    },
    Need {
        program: "pkgconf",
        package: "pkgconf",
    },
];

/// The unpacked and configured source.
pub struct Tree {
    /// Where it is.
    pub top: PathBuf,
    /// The folders that have a source of this name, without its end.
    sources: BTreeMap<String, BTreeSet<PathBuf>>,
    /// The folder of the archive, where lists of others are too.
    pub suites: PathBuf,
}

impl Tree {
    /// The tree in `build/ltp`, made from the archive in `suites` or the usual folder. `Ok(Err(why))`: there
    /// is no archive.
    ///
    /// # Errors
    /// Host failure when it cannot be unpacked or configured.
    pub fn open(suites: Option<PathBuf>) -> Result<std::result::Result<Self, String>> {
        let suites = foreign::folder(suites);
        let archive = match foreign::archive(&suites, "ltp") {
            Ok(archive) => archive,
            Err(why) => return Ok(Err(why)),
        };
        let dir = host::build_dir("ltp")?;
        let top = dir.join("ltp");
        if !top.join("include/mk/config.mk").exists() {
            host::need(&TOOLS)?;
            eprintln!("xtask: unpacking and configuring {}", archive.display());
            let mut tar = Command::new("tar");
            host::run_quietly(tar.arg("-C").arg(&dir).arg("-xf").arg(&archive))?;
            let script = "make autotools && ./configure CFLAGS=-O0 'LDFLAGS=-static -s' \
                          --without-numa --without-tirpc --disable-metadata";
            logged(Command::new("sh").args(["-c", script]), &top)?;
        }
        let sources = sources(&top)?;
        Ok(Ok(Self {
            top,
            sources,
            suites,
        }))
    }

    /// The names of the cases of system calls in the tree, and their commands.
    ///
    /// # Errors
    /// Host failure when it has no such list.
    pub fn commands(&self) -> Result<BTreeMap<String, String>> {
        let path = self.top.join("runtest/syscalls");
        let text = std::fs::read_to_string(&path).context(path.display())?;
        let pairs = text
            .lines()
            .map(str::trim)
            .filter(|line| !line.starts_with('#'));
        Ok(pairs
            .filter_map(|line| line.split_once(char::is_whitespace))
            .map(|(name, command)| (name.to_owned(), command.trim().to_owned()))
            .collect())
    }

    /// The folders that have the sources of these commands' programs, each with the programs.
    fn folders<'a>(&self, commands: &[&'a str]) -> BTreeMap<PathBuf, BTreeSet<&'a str>> {
        let mut folders = BTreeMap::<_, BTreeSet<_>>::new();
        for command in commands {
            let program = first(command);
            let bare = program.trim_end_matches("_16").trim_end_matches("_64");
            if let Some(dirs) = self.sources.get(program).or_else(|| self.sources.get(bare)) {
                for dir in dirs {
                    folders.entry(dir.clone()).or_default().insert(program);
                }
                continue;
            }
            // Its makefile gives it another name: it stands in the folder of the call.
            let call = bare.trim_end_matches(|letter: char| letter.is_ascii_digit());
            let folder = self.top.join(SOURCES[0]).join(call);
            if folder.join("Makefile").exists() {
                folders.entry(folder).or_default().insert(program);
            }
        }
        folders
    }

    /// Makes what these commands need and what is not made yet. `all` has the commands of all cases: a
    /// program of none of them may be one that the cases of its folder start, and is made with them.
    ///
    /// # Errors
    /// Host failure when the library cannot be made. A program that cannot be made is named, and its cases
    /// fail.
    pub fn build(&self, commands: &[&str], all: &BTreeMap<String, String>) -> Result<()> {
        let missing: Vec<_> = self
            .folders(commands)
            .into_iter()
            .filter(|(dir, programs)| !programs.iter().all(|name| dir.join(name).exists()))
            .collect();
        if missing.is_empty() {
            return Ok(());
        }
        host::need(&TOOLS)?;
        let jobs = std::thread::available_parallelism().map_or(1, usize::from);
        let make = |dir: &str| {
            let mut make = Command::new("make");
            make.args(["-s", "-k", "-C", dir, &format!("-j{jobs}")]);
            make
        };
        eprintln!("xtask: building the library of LTP (build/ltp/make.log)");
        logged(&mut make("lib"), &self.top)?;
        logged(&mut make("libs"), &self.top)?;
        let cases: BTreeSet<_> = all.values().map(|command| first(command)).collect();
        for (count, (dir, programs)) in missing.iter().enumerate() {
            if count % 20 == 0 {
                eprintln!("xtask: building LTP, folder {count} of {}", missing.len());
            }
            let started = self.started_by_cases(dir, &cases);
            let mut some = make(&dir.to_string_lossy());
            let made = logged(some.args(programs).args(started), &self.top);
            let absent = |name: &&&str| !dir.join(name).exists();
            if let Some(name) = programs.iter().find(absent)
                && logged(&mut make(&dir.to_string_lossy()), &self.top).is_err()
                && absent(&name)
            {
                eprintln!("xtask: {name} of {} cannot be built", dir.display());
            } else if made.is_err() {
                eprintln!("xtask: not all of {} can be built", dir.display());
            }
        }
        Ok(())
    }

    /// The programs in `dir` that are none of the `cases`.
    fn started_by_cases(&self, dir: &Path, cases: &BTreeSet<&str>) -> Vec<&str> {
        let here = self.sources.iter().filter(|(_, dirs)| dirs.contains(dir));
        here.map(|(name, _)| name.as_str())
            .filter(|name| !cases.contains(name))
            .filter(|name| {
                // A part of other programs has no beginning of its own.
                let text = std::fs::read(dir.join(name).with_extension("c")).unwrap_or_default();
                String::from_utf8_lossy(&text).contains(" main(")
            })
            .collect()
    }

    /// Files that these commands run or may want: their programs, and what else in the same folders is no
    /// case's program.
    ///
    /// # Errors
    /// Host failure when a folder cannot be read.
    pub fn programs(
        &self,
        commands: &[&str],
        all: &BTreeMap<String, String>,
    ) -> Result<Vec<PathBuf>> {
        let wanted: BTreeSet<_> = commands.iter().map(|command| first(command)).collect();
        let cases: BTreeSet<_> = all.values().map(|command| first(command)).collect();
        let mut found = Vec::new();
        for dir in self.folders(commands).into_keys() {
            each_file(&dir, &mut |path| {
                let name = path.file_name().unwrap_or_default().to_string_lossy();
                let plain = path.extension().is_none_or(|end| end == "sh");
                let of_another = cases.contains(&*name) && !wanted.contains(&*name);
                if plain && executable(path) && !of_another {
                    found.push(path.to_owned());
                }
            })?;
        }
        Ok(found)
    }
}

/// The program of a command.
fn first(command: &str) -> &str {
    command.split_whitespace().next().unwrap_or_default()
}

fn sources(top: &Path) -> Result<BTreeMap<String, BTreeSet<PathBuf>>> {
    let mut sources: BTreeMap<String, BTreeSet<PathBuf>> = BTreeMap::new();
    for part in SOURCES {
        each_file(&top.join(part), &mut |path| {
            if let (Some(stem), Some(dir)) = (path.file_stem(), path.parent())
                && path.extension().is_some_and(|end| end == "c")
            {
                let stem = stem.to_string_lossy().into_owned();
                sources.entry(stem).or_default().insert(dir.to_owned());
            }
        })?;
    }
    Ok(sources)
}

fn executable(path: &Path) -> bool {
    use std::os::unix::fs::PermissionsExt;
    path.metadata()
        .is_ok_and(|data| data.is_file() && data.permissions().mode() & 0o111 != 0)
}

/// Calls `act` for each file below `dir`.
///
/// # Errors
/// Host failure when a folder cannot be read.
pub fn each_file(dir: &Path, act: &mut impl FnMut(&Path)) -> Result<()> {
    for item in std::fs::read_dir(dir).context(dir.display())? {
        let path = item.context(dir.display())?.path();
        if path.is_dir() && path.file_name() != Some(OsStr::new(".git")) {
            each_file(&path, act)?;
        } else {
            act(&path);
        }
    }
    Ok(())
}

/// Runs a command in `top`; what it says is added to `make.log` beside it.
///
/// # Errors
/// Host failure when it fails.
pub fn logged(command: &mut Command, top: &Path) -> Result<()> {
    let path = top.with_file_name("make.log");
    let mut options = std::fs::OpenOptions::new();
    let log = options.create(true).append(true).open(&path);
    let log = log.context(path.display())?;
    let status = command
        .current_dir(top)
        .stdin(Stdio::null())
        .stderr(log.try_clone().context(path.display())?)
        .stdout(log)
        .status()
        .context("cannot start the building of LTP")?;
    if status.success() {
        return Ok(());
    }
    let told = format!("LTP is not built: see {}", path.display());
    Err(Failure::new(HOST, told))
}
