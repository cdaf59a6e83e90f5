//! Guest programs: compiled from the folders of `user/` into `build/user`.
//!
//! *Interface*: `program(name, compiler)` compiles one in C; the compilers; `by_file_name` finds name and
//! compiler of a compiled one; `go(name)` compiles one in Go; [`Music`] has those of sound.

use crate::failure::{Context, Failure, HOST, Result};
use crate::host::{self, Need};
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Mutex, PoisonError};
use std::time::SystemTime;

/// A compiler and its C library.
#[derive(Clone, Copy)]
pub struct Compiler {
    need: Need,
    suffix: &'static str,
    /// Further words for the compiler.
    options: &'static [&'static str],
}

/// The C library of most programs.
const STATIC: &[&str] = &["-O2", "-s", "-static"];

/// gcc with Debian's glibc.
pub const GLIBC: Compiler = Compiler {
    need: host::GCC,
    suffix: "glibc",
    options: STATIC,
};
/// The same, position-independent.
pub const GLIBC_PIE: Compiler = Compiler {
    need: host::GCC,
    suffix: "glibc-pie",
    options: &["-O2", "-s", "-static-pie", "-fPIE"],
};
/// The same for debuggers, linked with shared libraries: for a root that has them.
pub const DEBUGGED: Compiler = Compiler {
    need: host::GCC,
    suffix: "debugged",
    options: &["-O0", "-g", "-pie", "-fPIE"],
};
/// musl's wrapper of gcc.
pub const MUSL: Compiler = Compiler {
    need: host::MUSL_GCC,
    suffix: "musl",
    options: STATIC,
};

/// The compilers of programs that tests name in a guest.
pub const OF_TESTS: [Compiler; 3] = [GLIBC, GLIBC_PIE, MUSL];

/// Name and compiler of the program whose compiled file is `file`, `NAME-glibc` for example.
pub fn by_file_name(file: &str) -> Option<(&str, Compiler)> {
    OF_TESTS.into_iter().find_map(|compiler| {
        let name = file.strip_suffix(compiler.suffix)?.strip_suffix('-')?;
        (!name.is_empty()).then_some((name, compiler))
    })
}

/// The file of a program `name` that `compiler` made.
pub fn file_name(name: &str, compiler: &Compiler) -> String {
    format!("{name}-{}", compiler.suffix)
}

/// The sources of guest programs by their names: a program or a header is named without its folder.
struct Sources(BTreeMap<String, PathBuf>);

impl Sources {
    /// Those in the folders of `user`.
    ///
    /// # Errors
    /// Host failure when a folder cannot be read, or two files have one name.
    fn of(user: &Path) -> Result<Self> {
        let mut sources = BTreeMap::<String, PathBuf>::new();
        for folder in listing(user)?.into_iter().filter(|path| path.is_dir()) {
            for path in listing(&folder)? {
                let ending = path.extension().and_then(|ending| ending.to_str());
                let (Some("c" | "h" | "go"), Some(name)) = (ending, path.file_name()) else {
                    continue;
                };
                let name = name.to_string_lossy().into_owned();
                if let Some(other) = sources.insert(name, path.clone()) {
                    let (one, other) = (path.display(), other.display());
                    let why = format!("{one} and {other} have one name");
                    return Err(Failure::new(HOST, why));
                }
            }
        }
        Ok(Self(sources))
    }

    /// The file with this name.
    fn find(&self, name: &str) -> Result<&Path> {
        let found = self.0.get(name).map(PathBuf::as_path);
        found.ok_or_else(|| Failure::new(HOST, format!("no folder of user/ has {name}")))
    }

    /// All headers.
    fn headers(&self) -> impl Iterator<Item = &Path> {
        let headers = self.0.iter().filter(|(name, _)| name.ends_with(".h"));
        headers.map(|(_, path)| path.as_path())
    }

    /// The folders of all headers.
    fn header_folders(&self) -> BTreeSet<&Path> {
        self.headers().filter_map(Path::parent).collect()
    }
}

/// The paths of all that is in `folder`.
fn listing(folder: &Path) -> Result<Vec<PathBuf>> {
    let items = std::fs::read_dir(folder).context(folder.display())?;
    items
        .map(|item| Ok(item.context(folder.display())?.path()))
        .collect()
}

/// When a file was changed, if it is there.
fn changed(path: &Path) -> Option<SystemTime> {
    path.metadata().and_then(|data| data.modified()).ok()
}

/// The files that are compiled from the sources as they are. It is held during a compilation, so each program
/// is compiled once, however many tests want it at the same time.
static COMPILED: Mutex<BTreeSet<PathBuf>> = Mutex::new(BTreeSet::new());

/// Compiles `NAME.c` in whatever folder of `user/` it is, unless the program is newer than that and every
/// header; gives the path of the program.
///
/// # Errors
/// Host failure when there is no such source, or a compiler cannot be had or refuses.
pub fn program(name: &str, compiler: &Compiler) -> Result<PathBuf> {
    let target = host::build_dir("user")?.join(file_name(name, compiler));
    let mut compiled = COMPILED.lock().unwrap_or_else(PoisonError::into_inner);
    if compiled.contains(&target) {
        return Ok(target);
    }
    host::need(&[compiler.need])?;
    let sources = Sources::of(&host::project().join("user"))?;
    let source = sources.find(&format!("{name}.c"))?;
    let newest = sources.headers().chain([source]).map(changed).max();
    let is_new = matches!(
        (newest.flatten(), changed(&target)),
        (Some(source), Some(target)) if source < target
    );
    if !is_new {
        let mut command = Command::new(compiler.need.program);
        command.args(compiler.options);
        command.args(["-Wall", "-Wextra", "-pthread"]);
        for folder in sources.header_folders() {
            command.arg("-I").arg(folder);
        }
        // Another tool may start the program meanwhile: it finds the old one or the new one.
        let fresh = target.with_extension("new");
        host::run_quietly(command.arg("-o").arg(&fresh).arg(source))?;
        std::fs::rename(&fresh, &target).context(target.display())?;
    }
    compiled.insert(target.clone());
    Ok(target)
}

/// Compiles `NAME.go` in whatever folder of `user/` it is; gives the path of the program. It uses nothing but
/// Go's own library.
///
/// # Errors
/// Host failure when there is no such source, or the compiler cannot be had or refuses.
pub fn go(name: &str) -> Result<PathBuf> {
    host::need(&[host::GO])?;
    let target = host::build_dir("user")?.join(format!("{name}-go"));
    let sources = Sources::of(&host::project().join("user"))?;
    let source = sources.find(&format!("{name}.go"))?;
    let mut command = Command::new(host::GO.program);
    command
        .args(["build", "-trimpath", "-ldflags", "-s -w", "-o"])
        .args([&target, source])
        .env("CGO_ENABLED", "0")
        .env("GO111MODULE", "off");
    // Where nobody has a home, the compiler has no place for what it keeps.
    if std::env::var_os("HOME").is_none() && std::env::var_os("GOCACHE").is_none() {
        command.env("GOCACHE", host::build_dir("go")?);
    }
    host::run_quietly(&mut command)?;
    Ok(target)
}

/// The Rust target of guest programs: Linux as the host has it.
const TARGET: &str = "x86_64-unknown-linux-gnu";

/// The programs of sound.
pub struct Music {
    /// Those of `user/music`, all in one static binary.
    pub binary: PathBuf,
    /// Other programs and their names.
    pub others: Vec<(&'static str, PathBuf)>,
}

/// Compiles the programs of sound.
///
/// # Errors
/// Host failure when the C library cannot be had or a compiler refuses.
pub fn music() -> Result<Music> {
    host::need(&[host::GCC])?;
    let target = host::project().join("target/user");
    let mut command = host::cargo();
    command
        .args(["build", "--quiet", "--release", "--package", "music"])
        .args(["--target", TARGET])
        .env("CARGO_TARGET_DIR", &target)
        // In place of what concerns the host's programs. The binary needs no loader.
        .env(
            "RUSTFLAGS",
            "-C target-feature=+crt-static -C relocation-model=static -C strip=symbols",
        );
    host::telling("compiling the programs of sound", || {
        host::run_quietly(&mut command)
    })?;
    Ok(Music {
        binary: target.join(TARGET).join("release/music"),
        others: vec![("play-cd", program("play-cd", &GLIBC)?)],
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_name_says_program_and_compiler() {
        for (file, name, suffix) in [
            ("hello-glibc", "hello", "glibc"),
            ("hello-glibc-pie", "hello", "glibc-pie"),
            ("calls-rights-musl", "calls-rights", "musl"),
        ] {
            let (found, compiler) = by_file_name(file).expect("it has a compiler's suffix");
            assert_eq!((found, compiler.suffix), (name, suffix));
            assert_eq!(file_name(found, &compiler), file);
        }
        assert!(by_file_name("files").is_none());
        assert!(by_file_name("-musl").is_none());
    }

    #[test]
    fn a_name_is_in_one_folder_only() {
        let user = std::env::temp_dir().join(format!("sources-{}", std::process::id()));
        for folder in ["bench", "tests"] {
            std::fs::create_dir_all(user.join(folder)).expect("a folder can be made");
        }
        let write = |name: &str| std::fs::write(user.join(name), "").expect("it can be written");
        for name in ["bench/one.c", "bench/both.h", "tests/two.c"] {
            write(name);
        }
        let sources = Sources::of(&user).expect("all names differ");
        let two = sources.find("two.c").expect("it is there");
        assert_eq!(two, user.join("tests/two.c"));
        assert!(sources.find("three.c").is_err());
        assert!(sources.headers().eq([user.join("bench/both.h")]));
        assert!(
            sources
                .header_folders()
                .into_iter()
                .eq([user.join("bench")])
        );
        write("tests/both.h");
        assert!(Sources::of(&user).is_err());
        std::fs::remove_dir_all(&user).expect("it can be removed");
    }
}
