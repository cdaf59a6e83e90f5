//! The needs on the host: programs from Debian's packages, the Rust target, folders.
//!
//! *Interface*: `need` installs a missing program and says so; `need_target` the kernel's Rust
//! target; `project`, `build_dir` where things are; `command_output`, `run_quietly`.

use crate::failure::{Context, Failure, HOST, Result};
use std::io::IsTerminal;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::OnceLock;
use std::sync::mpsc::RecvTimeoutError;
use std::time::Duration;

/// A program that some command needs, and the Debian package that has it.
#[derive(Clone, Copy)]
pub struct Need {
    /// Name of the program, searched in `PATH`.
    pub program: &'static str,
    /// Debian packages, separated by blanks.
    pub package: &'static str,
}

/// The emulator: the reference machine.
pub const QEMU: Need = Need {
    program: "qemu-system-x86_64",
    package: "qemu-system-x86",
};
/// The shell and tools of the default root.
pub const BUSYBOX: Need = Need {
    program: "busybox",
    package: "busybox-static",
};
/// The C compiler of the guest test programs.
pub const GCC: Need = Need {
    program: "gcc",
    package: "gcc libc6-dev",
};
/// The same with another C library.
pub const MUSL_GCC: Need = Need {
    program: "musl-gcc",
    package: "musl-tools",
};

/// The compiler of Go, for what shows that language's run-time.
pub const GO: Need = Need {
    program: "go",
    package: "golang-go",
};

/// The program that unpacks archives whose names end in `.gz`.
pub const GZIP: Need = Need {
    program: "gzip",
    package: "gzip",
};
/// The same for `.xz`.
pub const XZ: Need = Need {
    program: "xz",
    package: "xz-utils",
};
/// The same for `.zst`.
pub const ZSTD: Need = Need {
    program: "zstd",
    package: "zstd",
};
/// The same for `.bz2`.
pub const BZIP2: Need = Need {
    program: "bzip2",
    package: "bzip2",
};

/// Says which files belong to the project.
pub const GIT: Need = Need {
    program: "git",
    package: "git",
};

/// The Rust target of the kernel.
pub const KERNEL_TARGET: &str = "x86_64-unknown-none";

/// The root of the work tree: the one in which cargo runs this program, or else the one around the current
/// folder. It is asked when the program runs, so that a copy of the tree works on itself, whatever was built
/// where.
pub fn project() -> PathBuf {
    static ROOT: OnceLock<PathBuf> = OnceLock::new();
    ROOT.get_or_init(|| {
        let package = std::env::var_os("CARGO_MANIFEST_DIR").map(PathBuf::from);
        let current = std::env::current_dir().ok();
        let is_root = |folder: &&Path| folder.join("xtask/Cargo.toml").is_file();
        [package, current]
            .iter()
            .flatten()
            .find_map(|start| start.ancestors().find(is_root))
            .map_or_else(|| PathBuf::from("."), Path::to_path_buf)
    })
    .clone()
}

/// `build/NAME`, created.
pub fn build_dir(name: &str) -> Result<PathBuf> {
    let path = project().join("build").join(name);
    std::fs::create_dir_all(&path).context(format!("cannot create {}", path.display()))?;
    Ok(path)
}

/// Does `work`, and says on a terminal what that is when it takes longer than a second.
pub fn telling<R>(what: &str, work: impl FnOnce() -> R) -> R {
    if !std::io::stderr().is_terminal() {
        return work();
    }
    std::thread::scope(|scope| {
        let (done, end) = std::sync::mpsc::channel::<()>();
        scope.spawn(move || {
            if end.recv_timeout(Duration::from_secs(1)) == Err(RecvTimeoutError::Timeout) {
                eprintln!("xtask: {what}");
            }
        });
        let result = work();
        drop(done);
        result
    })
}

/// Where a program is, if `PATH` has it.
pub fn find(program: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path)
        .map(|dir| dir.join(program))
        .find(|file| file.is_file())
}

/// Installs what is missing of `needs`, with `apt-get`, saying so.
///
/// # Errors
/// Host failure when there is no `apt-get`, no right to use it, or it fails.
pub fn need(needs: &[Need]) -> Result<()> {
    if needs.iter().all(present) {
        return Ok(());
    }
    // One at a time, of all that this project runs; another may have installed the same meanwhile.
    let lock = build_dir("host")?.join("installing");
    let lock = std::fs::File::create(&lock).context(lock.display())?;
    rustix::fs::flock(&lock, rustix::fs::FlockOperation::LockExclusive).context("a lock")?;
    let missing: Vec<_> = needs.iter().filter(|need| !present(need)).collect();
    if missing.is_empty() {
        return Ok(());
    }
    let packages: Vec<_> = missing
        .iter()
        .flat_map(|need| need.package.split(' '))
        .collect();
    install(&packages)?;
    match missing.iter().find(|need| !present(need)) {
        Some(need) => Err(Failure::new(
            HOST,
            format!(
                "package {} is installed, but {} is not in PATH",
                need.package, need.program
            ),
        )),
        None => Ok(()),
    }
}

/// Installs Debian packages with `apt-get`, saying so.
pub fn install(packages: &[&str]) -> Result<()> {
    let list = packages.join(" ");
    if find("apt-get").is_none() {
        return Err(Failure::new(
            HOST,
            format!("missing: {list} (Debian's names); install them, there is no apt-get here"),
        ));
    }
    let root = rustix::process::geteuid().is_root();
    if !root && find("sudo").is_none() {
        return Err(Failure::new(
            HOST,
            format!(
                "missing packages; as root run: apt-get install --no-install-recommends {list}"
            ),
        ));
    }
    eprintln!("xtask: installing Debian packages: {list}");
    let mut arguments = vec!["install", "-y", "-qq", "--no-install-recommends"];
    arguments.extend(packages);
    // A fresh machine has no package lists; an old one has stale ones.
    if apt(&["update", "-qq"])? && apt(&arguments)? {
        eprintln!("xtask: installed");
        Ok(())
    } else {
        Err(Failure::new(
            HOST,
            format!("apt-get could not install {list}"),
        ))
    }
}

/// Fetches the lists of packages.
///
/// # Errors
/// Host failure when `apt-get` fails.
pub fn update() -> Result<()> {
    if apt(&["update", "-qq"])? {
        Ok(())
    } else {
        Err(Failure::new(HOST, "apt-get update failed"))
    }
}

/// Whether `apt-get` succeeds, as root; what it says of a failure is printed.
fn apt(arguments: &[&str]) -> Result<bool> {
    let mut command = if rustix::process::geteuid().is_root() {
        Command::new("apt-get")
    } else {
        let mut sudo = Command::new("sudo");
        sudo.arg("apt-get");
        sudo
    };
    command
        .args(arguments)
        .env("DEBIAN_FRONTEND", "noninteractive")
        .stdin(Stdio::null());
    let output = command.output().context("cannot start apt-get")?;
    if !output.status.success() {
        eprint!("{}", String::from_utf8_lossy(&output.stderr));
    }
    Ok(output.status.success())
}

/// Whether `PATH` has the program.
pub fn present(need: &Need) -> bool {
    match find(need.program) {
        // Debian's dynamic busybox has the same name and cannot run in the guest.
        Some(path) if need.program == BUSYBOX.program => {
            crate::program::interpreter(&path).is_ok_and(|interpreter| interpreter.is_none())
        }
        found => found.is_some(),
    }
}

/// Installs the kernel's Rust target, when it is missing.
pub fn need_target() -> Result<()> {
    let sysroot = command_output(Command::new("rustc").arg("--print").arg("sysroot"))?;
    if Path::new(sysroot.trim())
        .join("lib/rustlib")
        .join(KERNEL_TARGET)
        .exists()
    {
        return Ok(());
    }
    eprintln!("xtask: installing the Rust target {KERNEL_TARGET}");
    run_quietly(Command::new("rustup").args(["target", "add", KERNEL_TARGET]))
}

/// Runs a command in the project and returns its standard output; its errors become ours.
pub fn command_output(command: &mut Command) -> Result<String> {
    let name = command.get_program().to_string_lossy().into_owned();
    let output = command
        .current_dir(project())
        .stdin(Stdio::null())
        .output()
        .context(format!("cannot start {name}"))?;
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
    }
    eprint!("{}", String::from_utf8_lossy(&output.stderr));
    Err(Failure::new(
        HOST,
        format!("{name} failed ({})", output.status),
    ))
}

/// Runs a command in the project; its output is shown only when it fails.
pub fn run_quietly(command: &mut Command) -> Result<()> {
    command_output(command).map(drop)
}

/// The `cargo` that started us, in whatever folder we are.
fn same_cargo() -> Command {
    Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()))
}

/// The `cargo` that started us, in the project.
pub fn cargo() -> Command {
    let mut command = same_cargo();
    command.current_dir(project());
    command
}

/// `cargo VERB` for a package beside the rooms, compiled as this program is.
pub fn tool(verb: &str, package: &str) -> Command {
    let mut command = same_cargo();
    command.args([verb, "--quiet", "--profile", "tool", "--package", package]);
    // Not from the project's folder: the command's words may name files of the user's.
    command
        .arg("--manifest-path")
        .arg(project().join("Cargo.toml"));
    command
}
