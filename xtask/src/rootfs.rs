//! The guest's root: busybox, `syntop` and a few text files, or what the user gives, and what was added.
//!
//! *Interface*: `Root::new` from `--root`, `add` from `--add`, `command` resolves the first
//! process, `finish` puts in what the run contract wants and gives the archive's bytes.

use crate::compile::{self, Music};
use crate::cpio::{Archive, Entry};
use crate::failure::{Context, Failure, NOT_EXECUTABLE, NOT_FOUND, Result, USAGE};
use crate::kernel::{PLACES, SYMBOLS, Tables};
use crate::machine::Share;
use crate::wav;
use crate::{host, program, tar};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Component, Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::OnceLock;

/// Where relative names of the guest begin: the first process's working directory.
pub const HOME: &str = "/root";

const PATH: &str = "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

const TEXTS: [(&str, &str); 5] = [
    (
        "etc/passwd",
        "root:x:0:0:root:/root:/bin/sh\nnobody:x:65534:65534:nobody:/:/bin/false\n",
    ),
    ("etc/group", "root:x:0:\ntty:x:5:\nnogroup:x:65534:\n"),
    ("etc/hostname", "synthesis\n"),
    (
        "etc/profile",
        // Dash knows no letters behind a backslash there.
        "case $(readlink /proc/$$/exe) in\n\
         */dash) PS1=\"$(id -un)@synthesis:\"'$PWD'\"$([ $(id -u) = 0 ] && echo '# ' || echo '$ ')\" ;;\n\
         *) PS1='\\u@synthesis:\\w\\$ ' ;;\n\
         esac\n\
         export PS1\nexport PAGER=less EDITOR=vi\nalias ll='ls -l'\numask 022\n",
    ),
    ("etc/shells", "/bin/sh\n"),
];

/// A root on its way into an archive.
pub struct Root {
    archive: Archive,
    /// The table of directories of the host that are to be mounted.
    shares: String,
}

impl Root {
    /// The root that `--root` names, or the default one.
    ///
    /// # Errors
    /// Usage failure when the source is missing or is a disk image.
    pub fn new(source: Option<&Path>) -> Result<Self> {
        let mut root = Self {
            archive: Archive::default(),
            shares: String::new(),
        };
        match source {
            None => root.busybox()?,
            Some(path) if path.is_dir() => root.tree(path, "")?,
            Some(path) => root.archive(path)?,
        }
        for name in ["dev", "proc", "syn", "tmp", "root", "etc"] {
            let permissions = match name {
                "tmp" => 0o1777,
                "root" => 0o700,
                "proc" | "syn" => 0o555,
                _ => 0o755,
            };
            root.archive
                .add_missing(name, Entry::directory(permissions));
        }
        // The texts that the run contract promises in every root.
        for (name, text) in TEXTS {
            let name = root.archive.place(name);
            root.archive.add_missing(&name, Entry::file(0o644, text));
        }
        Ok(root)
    }

    fn busybox(&mut self) -> Result<()> {
        host::need(&[host::BUSYBOX])?;
        let path = host::find(host::BUSYBOX.program).expect("need() found it");
        let bytes = std::fs::read(&path).context(path.display())?;
        for name in [
            "bin",
            "sbin",
            "usr/bin",
            "usr/sbin",
            "usr/local/bin",
            "var/log",
            "var/run",
            "run",
            "mnt",
            "home",
        ] {
            self.archive.add(name, Entry::directory(0o755));
        }
        self.archive.add("var/tmp", Entry::directory(0o1777));
        self.archive.add("bin/busybox", Entry::file(0o755, bytes));
        let applets = host::command_output(Command::new(&path).arg("--list-full"))?;
        for applet in applets.lines() {
            self.archive
                .add_missing(applet, Entry::link("/bin/busybox"));
        }
        if let Some(bytes) = syntop() {
            self.archive
                .add("usr/bin/syntop", Entry::file(0o755, bytes));
        }
        Ok(())
    }

    /// Reads a `newc` or tar archive, compressed or not.
    fn archive(&mut self, path: &Path) -> Result<()> {
        let name = path.display();
        let bytes = unpacked(path)?;
        if bytes.starts_with(b"07070") {
            return self.archive.read(&bytes);
        }
        if !tar::is_one(&bytes) {
            return Err(Failure::new(
                USAGE,
                format!(
                    "--root {name}: neither a directory nor a newc cpio or tar archive (there is no disk driver yet for images)"
                ),
            ));
        }
        tar::read(&mut self.archive, &bytes)
            .map_err(|error| Failure::new(USAGE, format!("--root {name}: {error}")))?;
        if self.has("/oci-layout") || self.has("/manifest.json") {
            return Err(Failure::new(
                USAGE,
                format!(
                    "--root {name}: an image in layers; give the files of a container made of it (`docker export`)"
                ),
            ));
        }
        Ok(())
    }

    /// Puts a file or a tree of the host into the guest; `HOST[:GUEST]`, by default at
    /// `/root/NAME`.
    ///
    /// # Errors
    /// Usage failure when there is no such file.
    pub fn add(&mut self, what: &str) -> Result<()> {
        let (source, target) = names("--add", what)?;
        let path = Path::new(source);
        let target = target.map_or_else(
            || {
                let name = path.file_name().map(|name| name.to_string_lossy());
                format!("{HOME}/{}", name.unwrap_or_default())
            },
            str::to_owned,
        );
        if !path.exists() {
            return Err(Failure::new(USAGE, format!("--add {source}: no such file")));
        }
        let target = if target.starts_with('/') {
            target
        } else {
            format!("{HOME}/{target}")
        };
        let target = self.archive.place(target.trim_matches('/'));
        if path.is_dir() {
            self.tree(path, &target)
        } else {
            self.file(path, &target)
        }
    }

    /// Puts in the programs of sound, with a link for each of those that are one binary.
    ///
    /// # Errors
    /// Host failure when the binary does not tell their names.
    pub fn music(&mut self, music: &Music) -> Result<()> {
        let binary = ("music", music.binary.clone());
        for (name, path) in music.others.iter().chain([&binary]) {
            self.add(&format!("{}:/usr/bin/{name}", path.display()))?;
        }
        let names = host::command_output(Command::new(&music.binary).arg("--links"))?;
        for name in names.lines() {
            let place = self.archive.place(&format!("usr/bin/{name}"));
            self.archive.add(&place, Entry::link("music"));
        }
        Ok(())
    }

    /// Puts a disc of sound into the guest's drive: a WAV file, or raw frames.
    ///
    /// # Errors
    /// A usage failure for a WAV of another kind than a disc has.
    pub fn disc(&mut self, path: &Path) -> Result<()> {
        let bytes = std::fs::read(path).context(path.display())?;
        let frames = wav::frames(&bytes)
            .map_err(|why| Failure::new(USAGE, format!("--cd {}: {why}", path.display())))?;
        (self.archive).add(".synthesis/cd", Entry::file(0o444, frames.to_vec()));
        Ok(())
    }

    /// Has the guest mount a directory of the host, `HOST[:GUEST]`, by default at `/mnt/NAME`. The answer is
    /// a device that the machine must have for that.
    ///
    /// # Errors
    /// Usage failure when there is no such directory.
    pub fn share(&mut self, what: &str) -> Result<Share> {
        let (source, target) = names("--share", what)?;
        let wrong = |why: &str| Failure::new(USAGE, format!("--share {what}: {why}"));
        let directory = std::fs::canonicalize(source).map_err(|_| wrong("no such directory"))?;
        if !directory.is_dir() {
            return Err(wrong("not a directory"));
        }
        let name = directory.file_name().unwrap_or_default().to_string_lossy();
        let target = match target {
            Some(target) if target.starts_with('/') => target.to_owned(),
            Some(target) => format!("{HOME}/{target}"),
            None if name.is_empty() => "/mnt/share".into(),
            None => format!("/mnt/{name}"),
        };
        if target.contains('\n') {
            return Err(wrong("a line feed in the guest's name"));
        }
        let place = self.archive.place(target.trim_matches('/'));
        self.archive.add_missing(&place, Entry::directory(0o755));
        let tag = format!("share{}", self.shares.lines().count());
        let (user, group) = (rustix::process::geteuid(), rustix::process::getegid());
        let (user, group) = (user.as_raw(), group.as_raw());
        self.shares += &format!("{tag} {user} {group} {target}\n");
        Ok(Share { tag, directory })
    }

    fn tree(&mut self, directory: &Path, target: &str) -> Result<()> {
        if !target.is_empty() {
            let metadata = directory.metadata().context(directory.display())?;
            self.archive
                .add(target, Entry::directory(metadata.mode() & 0o7777));
        }
        let listing = std::fs::read_dir(directory).context(directory.display())?;
        for item in listing {
            let item = item.context(directory.display())?;
            let name = item.file_name().to_string_lossy().into_owned();
            let target = if target.is_empty() {
                name
            } else {
                format!("{target}/{name}")
            };
            let path = item.path();
            let kind = item.file_type().context(path.display())?;
            if kind.is_symlink() {
                let link = std::fs::read_link(&path).context(path.display())?;
                self.archive
                    .add(&target, Entry::link(link.as_os_str().as_bytes()));
            } else if kind.is_dir() {
                self.tree(&path, &target)?;
            } else if kind.is_file() {
                self.file(&path, &target)?;
            }
        }
        Ok(())
    }

    fn file(&mut self, path: &Path, target: &str) -> Result<()> {
        let metadata = path.metadata().context(path.display())?;
        let data = std::fs::read(path).context(path.display())?;
        let mut entry = Entry::file(metadata.mode() & 0o7777, data);
        entry.mtime = metadata.mtime() as u32;
        if rustix::process::geteuid().is_root() {
            entry.owner = (metadata.uid(), metadata.gid());
        }
        self.archive.add(target, entry);
        Ok(())
    }

    /// Whether the guest has this file.
    pub fn has(&self, path: &str) -> bool {
        self.archive.resolve(path).is_some()
    }

    /// The guest's name for the program that the user means: a bare name is searched in the
    /// guest; a path names a file of the host, which is put in, or else one of the guest.
    ///
    /// # Errors
    /// 127 when neither has it, 126 when it cannot be executed.
    pub fn command(&mut self, name: &str) -> Result<String> {
        if !name.contains('/') {
            let found = PATH["PATH=".len()..]
                .split(':')
                .any(|dir| self.has(&format!("{dir}/{name}")));
            return if found {
                Ok(name.to_owned())
            } else {
                Err(Failure::new(NOT_FOUND, format!("{name}: not found")))
            };
        }
        let guest = guest_path(name);
        // An absolute path that the root has is the guest's own.
        let own = self
            .archive
            .resolve(&guest)
            .filter(|_| name.starts_with('/') || !Path::new(name).exists());
        if let Some(entry) = own {
            return if entry.is_file() && entry.mode & 0o111 != 0 {
                Ok(guest)
            } else {
                Err(Failure::new(
                    NOT_EXECUTABLE,
                    format!("{name}: cannot be executed"),
                ))
            };
        }
        let path = Path::new(name);
        program::check(path, |loader| self.has(loader))?;
        self.file(path, guest.trim_start_matches('/'))?;
        match self.archive.resolve(&guest) {
            Some(entry) if entry.mode & 0o111 == 0 => Err(Failure::new(
                NOT_EXECUTABLE,
                format!("{name}: permission denied (not executable)"),
            )),
            _ => Ok(guest),
        }
    }

    /// The archive, with the kernel's tables and the first process (none: the kernel's default).
    pub fn finish(mut self, tables: Tables, command: &[String], environment: &[String]) -> Vec<u8> {
        self.archive
            .add(SYMBOLS, Entry::file(0o444, tables.symbols));
        // A kernel that is told of no places stays where it is linked; an empty list would say that nothing
        // has to be changed.
        if !tables.places.is_empty() {
            self.archive.add(PLACES, Entry::file(0o400, tables.places));
        }
        if !command.is_empty() {
            self.archive
                .add(".synthesis/cmd", Entry::file(0o444, strings(command)));
        }
        let mut all = vec![PATH.to_owned(), "HOME=/root".into(), "USER=root".into()];
        all.extend(environment.iter().cloned());
        self.archive
            .add(".synthesis/env", Entry::file(0o444, strings(&all)));
        self.archive.add(".synthesis/cwd", Entry::file(0o444, HOME));
        if !self.shares.is_empty() {
            self.archive
                .add(".synthesis/shares", Entry::file(0o444, self.shares));
        }
        self.archive.write()
    }
}

/// The project's own program in the default root, with the smaller C library if there is its compiler;
/// without any compiler the root does without.
fn syntop() -> Option<&'static [u8]> {
    static BYTES: OnceLock<Option<Vec<u8>>> = OnceLock::new();
    let made = || {
        let small = compile::program("syntop", &compile::MUSL);
        let made = small.or_else(|_| compile::program("syntop", &compile::GLIBC));
        let bytes = made.and_then(|path| std::fs::read(&path).context(path.display()));
        bytes
            .inspect_err(|failure| eprintln!("xtask: no syntop: {}", failure.message))
            .ok()
    };
    BYTES.get_or_init(made).as_deref()
}

/// Strings as the run contract wants them: each ended by NUL.
fn strings(list: &[String]) -> Vec<u8> {
    list.iter()
        .flat_map(|text| text.bytes().chain([0]))
        .collect()
}

/// Where a host path goes in the guest: absolute ones stay, others are below `/root`.
fn guest_path(name: &str) -> String {
    if name.starts_with('/') {
        return name.to_owned();
    }
    let mut path = PathBuf::from(HOME);
    path.extend(
        Path::new(name)
            .components()
            .filter(|part| matches!(part, Component::Normal(_))),
    );
    path.to_string_lossy().into_owned()
}

/// How compressed archives begin, and what unpacks them.
const COMPRESSED: [(&[u8], host::Need); 4] = [
    (b"\x1f\x8b", host::GZIP),
    (b"\xfd7zXZ\0", host::XZ),
    (b"\x28\xb5\x2f\xfd", host::ZSTD),
    (b"BZh", host::BZIP2),
];

/// The bytes of the archive, uncompressed.
fn unpacked(path: &Path) -> Result<Vec<u8>> {
    let name = path.display();
    let wrong = |why: &dyn std::fmt::Display| Failure::new(USAGE, format!("--root {name}: {why}"));
    let bytes = std::fs::read(path).map_err(|error| wrong(&error))?;
    let Some((_, tool)) = COMPRESSED
        .iter()
        .find(|(magic, _)| bytes.starts_with(magic))
    else {
        return Ok(bytes);
    };
    host::need(&[*tool])?;
    let output = Command::new(tool.program)
        .arg("-dc")
        .arg(path)
        .stdin(Stdio::null())
        .output()
        .context(format!("cannot start {}", tool.program))?;
    if output.status.success() {
        Ok(output.stdout)
    } else {
        Err(wrong(&format_args!("{} cannot read it", tool.program)))
    }
}

/// The two names in `HOST[:GUEST]`, the value of `option`.
///
/// # Errors
/// A usage failure: one of them is empty.
fn names<'a>(option: &str, what: &'a str) -> Result<(&'a str, Option<&'a str>)> {
    let (source, target) = match what.split_once(':') {
        Some((source, target)) => (source, Some(target)),
        None => (what, None),
    };
    let wrong = |why: &str| Failure::new(USAGE, format!("{option} {what}: {why}"));
    if target == Some("") {
        return Err(wrong("no name for the guest behind the colon"));
    }
    if source.is_empty() {
        return Err(wrong("no name of the host"));
    }
    Ok((source, target))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn host_paths_stay_inside_the_guests_home() {
        assert_eq!(guest_path("./a/b"), "/root/a/b");
        assert_eq!(guest_path("../../x"), "/root/x");
        assert_eq!(guest_path("/usr/x"), "/usr/x");
    }

    #[test]
    fn a_name_for_the_guest_is_left_out_with_its_colon() {
        assert_eq!(names("--add", "a/b").unwrap(), ("a/b", None));
        assert_eq!(names("--add", "a:/b:c").unwrap(), ("a", Some("/b:c")));
        for what in ["a:", ":", ":b"] {
            let refused = names("--share", what).unwrap_err();
            assert_eq!(refused.status, USAGE);
            assert!(refused.message.starts_with(&format!("--share {what}: ")));
        }
    }

    #[test]
    fn strings_end_in_nul() {
        assert_eq!(strings(&["a".into(), "".into(), "bc".into()]), b"a\0\0bc\0");
    }
}
