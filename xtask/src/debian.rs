//! Programs from Debian: a root of packages, downloaded and unpacked, nothing of them run or installed on the
//! host.
//!
//! *Interface*: [`whole`] gives the folder that has the packages' files and those of all that they depend on,
//! and the scripts for [`alternatives`]; [`unpacked`] leaves out what the tests do not use.
//!
//! `apt-get` finds what belongs together and fetches it, from the sources and with the checks that the host
//! has. It is told of an empty system, but for what only the scripts of packages need ([`FOR_SCRIPTS`]),
//! since these are not run. Files that scripts make and programs need all the same are in [`BASE`].

use crate::failure::{Context, Failure, HOST, Result};
use crate::{alternatives, host};
use std::collections::hash_map::DefaultHasher;
use std::fmt::Write;
use std::hash::{Hash, Hasher};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Packages that others depend on for what they do while they are installed.
const FOR_SCRIPTS: &[&str] = &[
    "adduser",
    "ca-certificates",
    "debconf",
    "dpkg",
    "init-system-helpers",
    "install-info",
    "libpam-runtime",
    "locales",
    "lsb-base",
    "passwd",
    "sensible-utils",
    "ssl-cert",
    "systemd",
    "sysvinit-utils",
    "ucf",
    "usr-is-merged",
    "usrmerge",
];

/// Packages that others depend on for what no test asks of them (postgres compiles its queries by
/// `libllvm14`, which takes a hundred megabytes, when they are large).
const UNTESTED: &[&str] = &[
    "libllvm14",
    "media-types",
    "perl",
    "postgresql-client-common",
    "postgresql-common",
];

/// Folders that are links in a root.
const MERGED: &[&str] = &["bin", "lib", "lib64", "sbin"];

/// Files that nobody reads in a guest.
const LEFT_OUT: &[&str] = &[
    "./usr/share/doc/*",
    "./usr/share/info/*",
    "./usr/share/lintian/*",
    "./usr/share/locale/*",
    "./usr/share/man/*",
    "./usr/share/bug/*",
];

/// Files that Debian's scripts make, and what is in them.
const BASE: &[(&str, &str)] = &[
    (
        "etc/passwd",
        "root:x:0:0:root:/root:/bin/sh\n\
         daemon:x:1:1:daemon:/usr/sbin:/usr/sbin/nologin\n\
         bin:x:2:2:bin:/bin:/usr/sbin/nologin\n\
         sys:x:3:3:sys:/dev:/usr/sbin/nologin\n\
         sync:x:4:65534:sync:/bin:/bin/sync\n\
         games:x:5:60:games:/usr/games:/usr/sbin/nologin\n\
         man:x:6:12:man:/var/cache/man:/usr/sbin/nologin\n\
         lp:x:7:7:lp:/var/spool/lpd:/usr/sbin/nologin\n\
         mail:x:8:8:mail:/var/mail:/usr/sbin/nologin\n\
         news:x:9:9:news:/var/spool/news:/usr/sbin/nologin\n\
         uucp:x:10:10:uucp:/var/spool/uucp:/usr/sbin/nologin\n\
         proxy:x:13:13:proxy:/bin:/usr/sbin/nologin\n\
         www-data:x:33:33:www-data:/var/www:/usr/sbin/nologin\n\
         backup:x:34:34:backup:/var/backups:/usr/sbin/nologin\n\
         list:x:38:38:Mailing List Manager:/var/list:/usr/sbin/nologin\n\
         irc:x:39:39:ircd:/run/ircd:/usr/sbin/nologin\n\
         user:x:1000:1000:user:/home/user:/bin/sh\n\
         sshd:x:105:65534::/run/sshd:/usr/sbin/nologin\n\
         postgres:x:106:106::/var/lib/postgresql:/bin/sh\n\
         redis:x:107:107::/var/lib/redis:/usr/sbin/nologin\n\
         nobody:x:65534:65534:nobody:/nonexistent:/usr/sbin/nologin\n",
    ),
    (
        "etc/group",
        "root:x:0:\ndaemon:x:1:\nbin:x:2:\nsys:x:3:\nadm:x:4:\ntty:x:5:\ndisk:x:6:\nlp:x:7:\nmail:x:8:\nnews:x:9:\nuucp:x:10:\nman:x:12:\n\
         proxy:x:13:\nkmem:x:15:\ndialout:x:20:\nfax:x:21:\nvoice:x:22:\ncdrom:x:24:\nfloppy:x:25:\ntape:x:26:\nsudo:x:27:\naudio:x:29:\n\
         dip:x:30:\nwww-data:x:33:\nbackup:x:34:\noperator:x:37:\nlist:x:38:\nirc:x:39:\nsrc:x:40:\nshadow:x:42:\nutmp:x:43:\nvideo:x:44:\n\
         sasl:x:45:\nplugdev:x:46:\nstaff:x:50:\ngames:x:60:\nusers:x:100:\npostgres:x:106:\nredis:x:107:\nuser:x:1000:\nnogroup:x:65534:\n",
    ),
    (
        "etc/hosts",
        "127.0.0.1 localhost\n::1 localhost\n127.0.0.1 synthesis\n",
    ),
    ("etc/hostname", "synthesis\n"),
    (
        "etc/nsswitch.conf",
        "passwd: files\ngroup: files\nshadow: files\nhosts: files dns\nservices: files\nprotocols: files\n",
    ),
    ("etc/shells", "/bin/sh\n/bin/bash\n"),
];

/// Folders that are there on each system, with their rights.
const FOLDERS: &[(&str, u32)] = &[
    ("etc", 0o755),
    ("home", 0o755),
    ("root", 0o700),
    ("run", 0o755),
    ("tmp", 0o1777),
    ("var/tmp", 0o1777),
    ("var/log", 0o755),
    ("var/lib", 0o755),
];

/// Packages that each Debian has, so that none of the others says that it needs them. Essential too, but not
/// here, are those that manage packages, logins and services.
const ESSENTIAL: &[&str] = &[
    "bash",
    "bsdutils",
    "coreutils",
    "debianutils",
    "diffutils",
    "findutils",
    "grep",
    "gzip",
    "hostname",
    "ncurses-base",
    "ncurses-bin",
    "perl-base",
    "sed",
    "tar",
    "util-linux",
];

/// The folder with the files of `packages`, of what they depend on, of the tools that each Debian has, and of
/// more tools from busybox. It is made once.
///
/// # Errors
/// Host failure without `apt-get`, when it knows a package not, or when files cannot be had or written.
pub fn whole(packages: &[&str]) -> Result<PathBuf> {
    let more = ESSENTIAL.iter().filter(|name| !packages.contains(name));
    let all: Vec<_> = packages.iter().chain(more).copied().collect();
    made(&all, &[FOR_SCRIPTS], true)
}

/// As [`whole`], without what the tests do not use: of tools only those of busybox.
///
/// # Errors
/// As those of [`whole`].
pub fn unpacked(packages: &[&str]) -> Result<PathBuf> {
    made(packages, &[FOR_SCRIPTS, UNTESTED], false)
}

fn made(packages: &[&str], without: &[&[&str]], scripts: bool) -> Result<PathBuf> {
    let folder = host::build_dir("debian")?;
    let lock = std::fs::File::create(folder.join("lock")).context("build/debian/lock")?;
    // Two that want the same share one download.
    lock.lock().context("build/debian/lock")?;
    // The shell of scripts, and what says how text is encoded.
    let packages = &[packages, &["dash", "libc-bin"]].concat();
    let mut hasher = DefaultHasher::new();
    (packages, BASE, without, LEFT_OUT).hash(&mut hasher);
    let name = format!(
        "{}-{:016x}",
        packages.first().unwrap_or(&"none"),
        hasher.finish()
    );
    let root = folder.join(&name);
    if root.is_dir() {
        return Ok(root);
    }
    if host::find("apt-get").is_none() {
        return Err(Failure::new(
            HOST,
            "packages are fetched by apt-get, and there is none here",
        ));
    }
    eprintln!(
        "xtask: Debian packages for the guest: {}",
        packages.join(" ")
    );
    let files = fetched(&folder, packages, without)?;
    let half = folder.join(format!("{name}.half"));
    if half.exists() {
        std::fs::remove_dir_all(&half).context(half.display())?;
    }
    bare(&half)?;
    for (number, file) in files.iter().enumerate() {
        if number % 20 == 19 {
            eprintln!("xtask: unpacked {number} of {} packages", files.len());
        }
        unpack(file, &half)?;
        if scripts {
            keep_script(file, &half)?;
        }
    }
    finish(&half)?;
    std::fs::rename(&half, &root).context(root.display())?;
    Ok(root)
}

/// The packages' files, of which those that are not there yet are fetched.
fn fetched(folder: &Path, packages: &[&str], without: &[&[&str]]) -> Result<Vec<PathBuf>> {
    let files = folder.join("files");
    std::fs::create_dir_all(files.join("partial")).context(files.display())?;
    let status = folder.join("status");
    std::fs::write(&status, told(packages, without)).context(status.display())?;
    let apt = |more: &[&str]| {
        let mut command = Command::new("apt-get");
        command
            .args(["install", "-y", "-qq", "--no-install-recommends"])
            .args(["-o", "Debug::NoLocking=1", "-o", "APT::Sandbox::User=root"])
            .arg("-o")
            .arg(format!("Dir::State::status={}", status.display()))
            .arg("-o")
            .arg(format!("Dir::Cache::archives={}", files.display()))
            .args(more)
            .args(packages)
            .env("DEBIAN_FRONTEND", "noninteractive")
            .stdin(Stdio::null());
        host::command_output(&mut command)
    };
    // A fresh machine has no list of packages.
    let plan = match apt(&["--simulate"]) {
        Ok(plan) => plan,
        Err(_) => {
            host::update()?;
            apt(&["--simulate"])?
        }
    };
    apt(&["--download-only"])?;
    let listed = plan.lines().filter_map(file_of);
    Ok(listed.map(|name| files.join(name)).collect())
}

/// The file of a package that is to be installed: of `Inst NAME (VERSION SOURCE [KIND])`.
fn file_of(line: &str) -> Option<String> {
    let (name, rest) = line.strip_prefix("Inst ")?.split_once(" (")?;
    let version = rest.split_whitespace().next()?.replace(':', "%3a");
    let kind = rest.split_once('[')?.1.split_once(']')?.0;
    Some(format!("{name}_{version}_{kind}.deb"))
}

/// The packages that `apt-get` is to take for installed: those of `without` that are not asked for.
fn told(packages: &[&str], without: &[&[&str]]) -> String {
    let mut text = String::new();
    let names = without.iter().copied().flatten();
    for name in names.filter(|name| !packages.contains(name)) {
        // Writing to a string cannot fail.
        let _ = write!(
            text,
            "Package: {name}\nStatus: install ok installed\nArchitecture: all\nMulti-Arch: allowed\nVersion: 9999:1\nMaintainer: none\nDescription: left out\n\n"
        );
    }
    text
}

/// A root without programs.
fn bare(root: &Path) -> Result<()> {
    use std::os::unix::fs::{PermissionsExt, symlink};
    for (name, mode) in FOLDERS {
        let path = root.join(name);
        std::fs::create_dir_all(&path).context(path.display())?;
        let mode = std::fs::Permissions::from_mode(*mode);
        std::fs::set_permissions(&path, mode).context(path.display())?;
    }
    for name in MERGED {
        let path = root.join("usr").join(name);
        std::fs::create_dir_all(&path).context(path.display())?;
        symlink(format!("usr/{name}"), root.join(name)).context(name)?;
    }
    Ok(())
}

fn unpack(file: &Path, root: &Path) -> Result<()> {
    let mut package = Command::new("dpkg-deb")
        .arg("--fsys-tarfile")
        .arg(file)
        .stdout(Stdio::piped())
        .stdin(Stdio::null())
        .spawn()
        .context("cannot start dpkg-deb")?;
    let mut tar = Command::new("tar");
    tar.args(["-x", "--keep-directory-symlink", "--no-same-owner", "-p"]);
    if rustix::process::geteuid().is_root() {
        tar.arg("--same-owner");
    }
    for pattern in LEFT_OUT {
        tar.arg(format!("--exclude={pattern}"));
    }
    tar.arg("-C").arg(root);
    if let Some(stdout) = package.stdout.take() {
        tar.stdin(stdout);
    }
    let status = tar.status().context("cannot start tar")?;
    let other = package.wait().context("dpkg-deb")?;
    if status.success() && other.success() {
        Ok(())
    } else {
        Err(Failure::new(
            HOST,
            format!("cannot unpack {}", file.display()),
        ))
    }
}

/// Keeps the script that a package has for its installation if it asks for other names of programs
/// ([`alternatives`]).
fn keep_script(file: &Path, root: &Path) -> Result<()> {
    use std::os::unix::fs::PermissionsExt;
    let mut command = Command::new("dpkg-deb");
    command.arg("--info").arg(file).arg("postinst");
    // Many packages have none, which is an error there.
    let output = command.output().context("cannot start dpkg-deb")?;
    let asks = |text: &[u8]| text.windows(19).any(|word| word == b"update-alternatives");
    if !output.status.success() || !asks(&output.stdout) {
        return Ok(());
    }
    let folder = root.join(alternatives::SCRIPTS);
    std::fs::create_dir_all(&folder).context(folder.display())?;
    let name = file.file_name().unwrap_or_default().to_string_lossy();
    let name = name.split('_').next().unwrap_or_default();
    let path = folder.join(format!("{name}.postinst"));
    std::fs::write(&path, output.stdout).context(path.display())?;
    let runs = std::fs::Permissions::from_mode(0o755);
    std::fs::set_permissions(&path, runs).context(path.display())
}

/// The files that scripts would have made.
fn finish(root: &Path) -> Result<()> {
    for (name, text) in BASE {
        let path = root.join(name);
        if !path.exists() {
            std::fs::write(&path, text).context(path.display())?;
        }
    }
    host::need(&[host::BUSYBOX])?;
    let busybox =
        host::find(host::BUSYBOX.program).ok_or_else(|| Failure::new(HOST, "no busybox"))?;
    let own = root.join("usr/bin/busybox");
    std::fs::copy(&busybox, &own).context(own.display())?;
    let shell = root.join("usr/bin/sh");
    if shell.symlink_metadata().is_err() {
        std::os::unix::fs::symlink("dash", &shell).context(shell.display())?;
    }
    let applets = host::command_output(Command::new(&busybox).arg("--list-full"))?;
    for applet in applets.lines() {
        let path = root.join(applet);
        let name = Path::new(applet).file_name().unwrap_or_default();
        let taken = ["usr/bin", "usr/sbin"]
            .iter()
            .any(|folder| root.join(folder).join(name).symlink_metadata().is_ok());
        if !taken && let Some(folder) = path.parent() {
            std::fs::create_dir_all(folder).context(folder.display())?;
            std::os::unix::fs::symlink("/usr/bin/busybox", &path).context(path.display())?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_plan_names_files() {
        let line =
            "Inst redis-tools (5:7.0.15-1~deb12u10 Debian-Security:12/oldstable-security [amd64])";
        let file = "redis-tools_5%3a7.0.15-1~deb12u10_amd64.deb";
        assert_eq!(file_of(line).as_deref(), Some(file));
        assert_eq!(file_of("Conf redis-tools (5:7 [amd64])"), None);
    }

    #[test]
    fn who_is_asked_for_is_not_left_out() {
        let without: &[&[&str]] = &[FOR_SCRIPTS, UNTESTED];
        assert!(told(&[], without).contains("Package: perl\n"));
        assert!(!told(&["perl"], without).contains("Package: perl\n"));
        assert!(!told(&[], &[FOR_SCRIPTS]).contains("Package: perl\n"));
    }
}
