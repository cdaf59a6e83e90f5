//! Guest programs: compiled from `user/` into `build/user`.
//!
//! *Interface*: `program(name, compiler)` compiles one in C; the compilers; `go(name)` one in Go; [`Music`]
//! has those of sound.

use crate::failure::Result;
use crate::host::{self, Need};
use std::path::PathBuf;
use std::process::Command;

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

/// Compiles `user/NAME.c`; gives the path of the program.
///
/// # Errors
/// Host failure when a compiler cannot be had or refuses.
pub fn program(name: &str, compiler: &Compiler) -> Result<PathBuf> {
    host::need(&[compiler.need])?;
    let source = host::project().join("user").join(format!("{name}.c"));
    let target = host::build_dir("user")?.join(format!("{name}-{}", compiler.suffix));
    let headers = std::fs::read_dir(host::project().join("user"))
        .into_iter()
        .flatten()
        .filter_map(|item| Some(item.ok()?.path()))
        .filter(|path| path.extension().is_some_and(|end| end == "h"));
    let changed = |path: &PathBuf| path.metadata().and_then(|data| data.modified()).ok();
    let newest = headers
        .chain([source.clone()])
        .map(|path| changed(&path))
        .max();
    if let (Some(Some(source)), Some(target_time)) = (newest, changed(&target))
        && source < target_time
    {
        return Ok(target);
    }
    let mut command = Command::new(compiler.need.program);
    command.args(compiler.options);
    command.args(["-Wall", "-Wextra", "-pthread"]);
    host::run_quietly(command.arg("-o").arg(&target).arg(&source))?;
    Ok(target)
}

/// Compiles `user/NAME.go`; gives the path of the program. It uses nothing but Go's own library.
///
/// # Errors
/// Host failure when the compiler cannot be had or refuses.
pub fn go(name: &str) -> Result<PathBuf> {
    host::need(&[host::GO])?;
    let target = host::build_dir("user")?.join(format!("{name}-go"));
    let source = host::project().join("user").join(format!("{name}.go"));
    let mut command = Command::new(host::GO.program);
    command
        .args(["build", "-trimpath", "-ldflags", "-s -w", "-o"])
        .args([&target, &source])
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
