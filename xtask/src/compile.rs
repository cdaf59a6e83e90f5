//! Guest programs: compiled from `user/` into `build/user`, static.
//!
//! *Interface*: `program(name, compiler)` compiles one in C; the two compilers; `go(name)` one in Go.

use crate::failure::Result;
use crate::host::{self, Need};
use std::path::PathBuf;
use std::process::Command;

/// A compiler and its C library.
#[derive(Clone, Copy)]
pub struct Compiler {
    need: Need,
    suffix: &'static str,
    /// What the linker is told.
    link: &'static str,
}

/// gcc with Debian's glibc.
pub const GLIBC: Compiler = Compiler {
    need: host::GCC,
    suffix: "glibc",
    link: "-static",
};
/// The same, position-independent.
pub const GLIBC_PIE: Compiler = Compiler {
    need: host::GCC,
    suffix: "glibc-pie",
    link: "-static-pie",
};
/// musl's wrapper of gcc.
pub const MUSL: Compiler = Compiler {
    need: host::MUSL_GCC,
    suffix: "musl",
    link: "-static",
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
    command.args(["-O2", "-s", "-Wall", "-Wextra", compiler.link, "-pthread"]);
    if compiler.link == "-static-pie" {
        command.arg("-fPIE");
    }
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
