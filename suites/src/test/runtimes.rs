//! The own tests of python and of Go, in a guest.
//!
//! *Interface*: `run`. With `--long` the modules that take minutes too.

use super::guest;
use super::kit::Kit;
use super::tap::Check;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;
use xtask::failure::{Context, Failure, HOST, Result};
use xtask::rootfs::Root;
use xtask::{debian, host};

/// The packages for `tests/guest/runtimes.sh`.
const PACKAGES: &[&str] = &[
    "libpython3.11-testsuite",
    "python3",
    "coreutils",
    "procps",
    "netbase",
];

/// Go, with the source of its library and the tests of that.
const GO: &str = "golang-1.19-go";

/// The language whose tests are compiled.
const TESTED: &[&str] = &[
    "os",
    "os/exec",
    "os/signal",
    "syscall",
    "time",
    "net",
    "runtime",
];

/// The library's source, which the tests read too.
const SOURCE: &str = "usr/share/go-1.19/src";

/// The parts of it that they read.
const READ: &[&str] = &["os", "syscall", "time", "net", "runtime", "testdata"];

pub(super) fn run(kit: &Kit) -> Vec<Check> {
    let machine = guest::with(kit, "runtimes", 2, 1024);
    if kit.leaves_out(&machine) {
        return Vec::new();
    }
    let (how, minutes) = if kit.long {
        ("long", 60)
    } else {
        ("short", 10)
    };
    let limit = Duration::from_secs(60 * minutes);
    let words = ["/bin/sh", "/tests/runtimes.sh", how];
    kit.tap_in(root(), &machine, &words, limit)
}

fn root() -> Result<Root> {
    let mut root = Root::new(Some(&debian::unpacked(PACKAGES)?))?;
    let scripts = host::project().join("tests/guest");
    root.add(&format!("{}:/tests", scripts.display()))?;
    let go = debian::unpacked(&[GO])?;
    root.add(&format!("{}:/go/bin", compiled(&go)?.display()))?;
    for name in READ {
        let source = go.join(SOURCE).join(name);
        root.add(&format!("{}:/go/src/{name}", source.display()))?;
    }
    Ok(root)
}

/// The folder of the tests that Go under `root` has compiled. It is made once.
fn compiled(root: &Path) -> Result<PathBuf> {
    let name = root.file_name().unwrap_or_default().to_string_lossy();
    let folder = host::build_dir("user")?.join(format!("tests-of-{name}"));
    if folder.is_dir() {
        return Ok(folder);
    }
    let half = folder.with_extension("half");
    let goroot = root.join("usr/lib/go-1.19");
    let cache = host::build_dir("go")?;
    std::fs::create_dir_all(&half).context(half.display())?;
    for package in TESTED {
        eprintln!("xtask: compiling Go's tests of {package}");
        let program = half.join(format!("{}.test", package.replace('/', "_")));
        let mut command = Command::new(goroot.join("bin/go"));
        command
            .args(["test", "-c", "-vet=off", "-trimpath"])
            // Zones of time are in the program.
            .args(["-tags", "timetzdata", "-ldflags", "-s -w", "-o"])
            .arg(&program)
            .arg(package)
            .env("GOROOT", &goroot)
            .env("GOCACHE", &cache)
            .env("GOTOOLCHAIN", "local")
            .env("GO111MODULE", "off")
            .env("CGO_ENABLED", "0")
            .current_dir(&goroot);
        host::run_quietly(&mut command)?;
        if !program.is_file() {
            let message = format!("Go made no tests of {package}");
            return Err(Failure::new(HOST, message));
        }
    }
    std::fs::remove_dir_all(&cache).context(cache.display())?;
    std::fs::rename(&half, &folder).context(folder.display())?;
    Ok(folder)
}
