//! Guest tests with programs from Debian's packages, in roots that the packages make.
//!
//! *Interface*: `packages`, `servers`, `tmpfiles`, `timekeepers`, `alternatives`, `tools`, `browsers`: a
//! script of `tests/guest` each, which reports by the Test Anything Protocol.

use super::guest::with;
use super::kit::Kit;
use super::tap::Check;
use std::time::Duration;
use xtask::failure::Result;
use xtask::machine::Machine;
use xtask::rootfs::Root;
use xtask::{compile, debian, host};

const MINUTE: Duration = Duration::from_secs(60);

/// The packages whose programs `tests/guest/packages.sh` runs.
const PACKAGES: &[&str] = &[
    "redis-server",
    "redis-tools",
    "iproute2",
    "bsdutils",
    "expect",
    "screen",
    "tmux",
    "rsync",
    "coreutils",
    "socat",
    "nginx",
    "curl",
    "apache2-utils",
    "fish",
    "python3",
    "perl",
    "ruby",
];

pub fn packages(kit: &Kit) -> Vec<Check> {
    of_packages(kit, "packages", PACKAGES, |_| Ok(()))
}

/// The packages whose programs `tests/guest/servers.sh` runs.
const SERVERS: &[&str] = &[
    "postgresql-15",
    "openssh-server",
    "openssh-client",
    "apache2-utils",
    "nodejs",
    "curl",
    "procps",
    "coreutils",
];

pub fn servers(kit: &Kit) -> Vec<Check> {
    of_packages(kit, "servers", SERVERS, |root| {
        let serve = compile::go("serve")?;
        root.add(&format!("{}:/bin/serve", serve.display()))
    })
}

/// The packages whose programs `tests/guest/tmpfiles.sh` runs.
const TMPFILES: &[&str] = &["systemd", "coreutils", "bsdutils"];

pub fn tmpfiles(kit: &Kit) -> Vec<Check> {
    of_packages(kit, "tmpfiles", TMPFILES, |_| Ok(()))
}

/// The packages whose daemons `tests/guest/timekeepers.sh` runs. They exclude each other.
const TIMEKEEPERS: [&str; 2] = ["chrony", "ntpsec"];

/// Under icount, where time that nobody uses passes at once.
pub fn timekeepers(kit: &Kit) -> Vec<Check> {
    let one = |package| {
        let mut machine = with(kit, &format!("timekeepers-{package}"), 1, 1024);
        machine.icount = Some(0);
        let script = ["/bin/sh", "/tests/timekeepers.sh", package];
        of_packages_on(kit, &machine, &[package, "coreutils"], &script, |root| {
            let clock = compile::program("refclock", &compile::GLIBC)?;
            root.add(&format!("{}:/bin/refclock", clock.display()))
        })
    };
    TIMEKEEPERS.into_iter().flat_map(one).collect()
}

/// Packages whose installation scripts ask for names of programs.
const NAMED: &[&str] = &["less", "netcat-openbsd"];

pub fn alternatives(kit: &Kit) -> Vec<Check> {
    let machine = with(kit, "alternatives", 1, 256);
    if kit.leaves_out(&machine) {
        return Vec::new();
    }
    let root = debian::whole(NAMED).and_then(|folder| {
        xtask::alternatives::choose(&folder, kit.kernel())?;
        let mut root = Root::new(Some(&folder))?;
        root.add(&format!(
            "{}:/tests",
            host::project().join("tests/guest").display()
        ))?;
        Ok(root)
    });
    kit.tap_in(
        root,
        &machine,
        &["/bin/sh", "/tests/alternatives.sh"],
        MINUTE,
    )
}

/// The packages whose programs `tests/guest/tools.sh` runs.
const TOOLS: &[&str] = &[
    "gdb-minimal",
    "strace",
    "ltrace",
    "procps",
    "htop",
    "lsof",
    "util-linux",
    "bsdutils",
    "ncurses-base",
    "sbcl",
];

pub fn tools(kit: &Kit) -> Vec<Check> {
    of_packages(kit, "tools", TOOLS, |root| {
        let stepped = compile::program("stepped", &compile::DEBUGGED)?;
        root.add(&format!("{}:/tmp/stepped", stepped.display()))
    })
}

const BROWSERS: &[&str] = &[
    "chromium",
    "firefox-esr",
    "netpbm",
    "mawk",
    "sed",
    "coreutils",
];

pub fn browsers(kit: &Kit) -> Vec<Check> {
    if !kit.long {
        return Vec::new();
    }
    let machine = with(kit, "browsers", 2, 3072);
    let script = ["/bin/sh", "/tests/browsers.sh"];
    of_packages_on(kit, &machine, BROWSERS, &script, |_| Ok(()))
}

/// Runs `tests/guest/NAME.sh` in a root of packages, and of what `more` adds.
fn of_packages(
    kit: &Kit,
    name: &str,
    packages: &[&str],
    more: impl Fn(&mut Root) -> Result<()>,
) -> Vec<Check> {
    let script = ["/bin/sh", &format!("/tests/{name}.sh")];
    of_packages_on(kit, &with(kit, name, 2, 1024), packages, &script, more)
}

fn of_packages_on(
    kit: &Kit,
    machine: &Machine,
    packages: &[&str],
    command: &[&str],
    more: impl Fn(&mut Root) -> Result<()>,
) -> Vec<Check> {
    if kit.leaves_out(machine) {
        return Vec::new();
    }
    let root = debian::unpacked(packages).and_then(|folder| {
        let mut root = Root::new(Some(&folder))?;
        root.add(&format!(
            "{}:/tests",
            host::project().join("tests/guest").display()
        ))?;
        more(&mut root)?;
        Ok(root)
    });
    kit.tap_in(root, machine, command, 10 * MINUTE)
}
