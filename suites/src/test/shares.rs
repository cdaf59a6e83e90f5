//! Directories of the host in a guest: what programs do there, and what the host then has.
//!
//! *Interface*: `run`. Directories are made for the test, and removed.

use super::guest::with;
use super::kit::{Kit, Ran};
use super::tap::Check;
use std::collections::BTreeMap;
use std::io::ErrorKind;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;
use xtask::debian;
use xtask::failure::{Context, Failure, HOST, Result};
use xtask::machine::{Machine, Status, Virtio};
use xtask::rootfs::Root;

const MINUTE: Duration = Duration::from_secs(60);
/// Where the guest has it.
const GUEST: &str = "/mnt/share";

/// A directory of the host, removed in the end.
pub struct Folder(PathBuf);

impl Folder {
    /// A new one of its own, called after `name`.
    pub fn new(name: &str) -> Result<Self> {
        // Machines of one name run at the same time where mutants are looked at.
        static NEXT: AtomicU32 = AtomicU32::new(0);
        loop {
            let (process, count) = (std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
            let path = std::env::temp_dir().join(format!("synthesis-{name}-{process}-{count}"));
            match std::fs::create_dir(&path) {
                Ok(()) => return Ok(Self(path)),
                // Left behind by one that was killed.
                Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
                Err(error) => return Err(error).context(path.display()),
            }
        }
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.0
    }

    /// Makes a file of these bytes, and the directories above it.
    pub fn make(&self, name: &str, bytes: &[u8]) -> Result<()> {
        let path = self.0.join(name);
        if let Some(above) = path.parent() {
            std::fs::create_dir_all(above).context(above.display())?;
        }
        std::fs::write(&path, bytes).context(path.display())
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        // In the directory of temporary files, whoever made it unreadable.
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// The suite.
pub fn run(kit: &Kit) -> Vec<Check> {
    let mut checks = Vec::new();
    let cases = [
        ("calls-1", 1, Virtio::Messages),
        ("calls-4", 4, Virtio::Messages),
        ("calls-lines", 2, Virtio::Lines),
    ];
    for (name, cpus, virtio) in cases {
        let mut machine = with(kit, &format!("shares-{name}"), cpus, 128);
        machine.virtio = Some(virtio);
        if kit.leaves_out(&machine) {
            continue;
        }
        checks.extend(or_failed(name, || calls(kit, &mut machine)));
    }
    let parts = [
        ("trees", trees as Part, 256),
        ("mounted", mounted, 256),
        ("git", git, 1024),
        ("seen", seen, 512),
    ];
    for (name, check, mebibytes) in parts {
        let mut machine = with(kit, &format!("shares-{name}"), 2, mebibytes);
        if !kit.leaves_out(&machine) {
            checks.extend(or_failed(name, || check(kit, &mut machine)));
        }
    }
    checks
}

/// Every call, and what is left of it.
///
/// # Errors
/// Host failure when there is no directory, or nothing was left.
pub fn calls(kit: &Kit, machine: &mut Machine) -> Result<Vec<Check>> {
    let folder = Folder::new(&machine.name)?;
    let words = ["/tests/shares-glibc", GUEST];
    let root = shared(kit, machine, &words, &folder)?;
    let mut checks = kit.tap_in(Ok(root), machine, &words, 3 * MINUTE);
    // The guest has not left a file that is missing.
    let left = left(&folder.0);
    checks.push(left.unwrap_or_else(|lost| Check::new(LEFT, false, lost.message)));
    Ok(checks)
}

type Part = fn(&Kit, &mut Machine) -> Result<Vec<Check>>;

fn or_failed(name: &str, make: impl FnOnce() -> Result<Vec<Check>>) -> Vec<Check> {
    make().unwrap_or_else(|failure| vec![Check::hindered(name, failure)])
}

/// A root for `command`, and a machine, that have `folder`.
fn shared(kit: &Kit, machine: &mut Machine, command: &[&str], folder: &Folder) -> Result<Root> {
    let mut root = kit.root(command)?;
    let share = root.share(&format!("{}:{GUEST}", folder.0.display()))?;
    machine.shares = vec![share];
    Ok(root)
}

const LEFT: &str = "the host has what was left";

/// The host sees the files that `user/tests/shares.c` leaves.
fn left(folder: &Path) -> Result<Check> {
    let at = |name: &str| folder.join("left").join(name);
    let text = std::fs::read_to_string(at("text")).context("text")?;
    let meta = at("text").metadata().context("text")?;
    let link = std::fs::read_link(at("link")).context("link")?;
    let long = std::fs::read(at("bytes")).context("bytes")?;
    let mapped = std::fs::read(at("mapped")).context("mapped")?;
    let mut seed = 99u32;
    let mut next = || {
        seed = seed.wrapping_mul(1_103_515_245).wrapping_add(12_345);
        (seed >> 16) as u8
    };
    let good = text == "from inside\n"
        && meta.permissions().mode() & 0o7777 == 0o604
        && (meta.mtime(), meta.mtime_nsec()) == (1_000_000_002, 5000)
        && link == Path::new("../text")
        && long.len() == 300 * 1024 + 17
        && long.iter().all(|byte| *byte == next())
        && mapped == long;
    let told = format!("{text:?}, {meta:?}, {link:?}, {} bytes", long.len());
    Ok(Check::new(LEFT, good, told))
}

/// A tree of many files goes in and comes out again, and is the same.
fn trees(kit: &Kit, machine: &mut Machine) -> Result<Vec<Check>> {
    let files = if kit.long { 5000 } else { 400 };
    let folder = Folder::new("trees")?;
    for number in 0..files {
        let length = match number % 500 {
            0 => 200_000 + number,
            some => some * 7,
        };
        let bytes: Vec<u8> = (0..length).map(|at| ((at * number) >> 3) as u8).collect();
        let name = format!("in/{}/{}/file-{number}", number % 7, number % 40);
        folder.make(&name, &bytes)?;
        if number % 100 == 0 {
            let path = folder.0.join(name);
            let permissions = std::fs::Permissions::from_mode(0o440 | (number as u32 & 0o311));
            std::fs::set_permissions(&path, permissions).context(path.display())?;
            let link = path.with_extension("link");
            std::os::unix::fs::symlink(format!("file-{number}"), link).context("a link")?;
        }
    }
    std::fs::create_dir(folder.0.join("out")).context("out")?;
    let script = "cd /mnt/share && mkdir /tmp/x && tar -c -C in . | tar -x -C /tmp/x && tar -c -C /tmp/x . | tar -x -C out && find in | wc -l && find /tmp/x | wc -l";
    let words = ["/bin/sh", "-c", script];
    let root = shared(kit, machine, &words, &folder)?;
    let ran = kit.boot_root(root, machine, &words, Vec::new(), 10 * MINUTE)?;
    let (before, after) = (tree(&folder.0.join("in"))?, tree(&folder.0.join("out"))?);
    let other = before
        .iter()
        .find(|(name, what)| after.get(*name) != Some(what));
    let good =
        ended(&ran) && other.is_none() && before.len() == after.len() && before.len() > files;
    let told = format!(
        "{} and {}, {other:?}; {}",
        before.len(),
        after.len(),
        ran.told()
    );
    let name = format!("a tree of {files} files in and out again, equal");
    let counts = String::from_utf8_lossy(&ran.stdout).into_owned();
    let mut lines = counts.lines();
    let same = lines
        .next()
        .is_some_and(|first| Some(first) == lines.next());
    Ok(vec![
        Check::new(name, good, told),
        Check::new("as many files inside as outside", same, counts),
    ])
}

/// Permissions, time of change, bytes or target.
type Found = (u32, i64, Vec<u8>);

/// The entries below `root`, by their names.
fn tree(root: &Path) -> Result<BTreeMap<PathBuf, Found>> {
    let mut found = BTreeMap::new();
    let mut folders = vec![root.to_path_buf()];
    while let Some(folder) = folders.pop() {
        for item in std::fs::read_dir(&folder).context(folder.display())? {
            let path = item.context(folder.display())?.path();
            let meta = path.symlink_metadata().context(path.display())?;
            let bytes = if meta.is_dir() {
                folders.push(path.clone());
                Vec::new()
            } else if meta.is_symlink() {
                let target = std::fs::read_link(&path).context(path.display())?;
                target.into_os_string().into_encoded_bytes()
            } else {
                std::fs::read(&path).context(path.display())?
            };
            let name = path.strip_prefix(root).unwrap_or(&path).to_path_buf();
            // A new entry changes the time of a directory, and the time of a link is its own.
            let time = if meta.is_file() { meta.mtime() } else { 0 };
            found.insert(name, (meta.mode(), time, bytes));
        }
    }
    Ok(found)
}

fn ended(ran: &Ran) -> bool {
    ran.outcome.status == Status::Exit(0)
}

/// Mounted by hand, at a second place, read-only, and a name that there is not.
fn mounted(kit: &Kit, machine: &mut Machine) -> Result<Vec<Check>> {
    let folder = Folder::new("mounted")?;
    folder.make("file", b"of the host\n")?;
    let script = "
        mkdir /tmp/other && mount -t 9p -o trans=virtio,version=9p2000.L share0 /tmp/other || exit 1
        [ \"$(cat /tmp/other/file)\" = 'of the host' ] || exit 2
        echo more >>/mnt/share/file; [ \"$(wc -l </tmp/other/file)\" = 2 ] || exit 3
        grep -q '^share0 /tmp/other 9p rw' /proc/mounts || exit 4
        mount -o remount,ro /tmp/other && ! touch /tmp/other/new 2>/dev/null || exit 5
        umount /tmp/other && [ -z \"$(ls /tmp/other)\" ] || exit 6
        mount -t 9p none /tmp/other 2>/tmp/said && exit 7
        grep -q 'No such' /tmp/said || exit 8
        mount -t 9p -o version=9p2000.u share0 /tmp/other 2>/dev/null && exit 9
        exit 0";
    let words = ["/bin/sh", "-c", script];
    let root = shared(kit, machine, &words, &folder)?;
    let ran = kit.boot_root(root, machine, &words, Vec::new(), MINUTE)?;
    let name = "mounted by hand";
    Ok(vec![Check::new(name, ended(&ran), ran.told())])
}

/// Questions to git about a working tree, for people and for programs; without moving anything but the index.
const ASKED_OF_GIT: &[&str] = &[
    "status",
    "status --porcelain=v2 --branch --ignored",
    "diff",
    "diff --cached --stat",
    "log --stat",
    "fsck --full",
];

/// Makes a repository by the host's git, with every kind of change in its working tree.
fn repository(folder: &Folder) -> Result<()> {
    for number in 0..400 {
        let name = format!("d{}/e{}/file-{number}", number % 9, number % 23);
        folder.make(&name, format!("{number}\n").repeat(number % 60).as_bytes())?;
    }
    folder.make(".gitignore", b"*.o\n/out/\n")?;
    folder.make("gone", b"is removed\n")?;
    folder.make(
        "old name",
        b"gets another name, and is long enough for that to be seen\n",
    )?;
    std::os::unix::fs::symlink("gone", folder.0.join("link")).context("link")?;
    // Git tells how long it took to look for new files where that takes it more than two seconds.
    for words in [
        "init -q -b main",
        "config advice.statusUoption false",
        "add -A",
        "commit -q -m first",
    ] {
        on_host(folder, words)?;
    }
    folder.make("d1/e1/file-1", b"changed\n")?;
    folder.make("d2/e2/file-2", b"changed, too, and staged\n")?;
    folder.make("new", b"nobody knows it\n")?;
    folder.make("staged", b"new, and staged\n")?;
    folder.make("out/x", b"ignored\n")?;
    folder.make("a.o", b"ignored\n")?;
    for words in [
        "add staged d2",
        "mv old\u{a0}name new\u{a0}name",
        "rm -q d3/e3/file-3",
    ] {
        on_host(folder, words)?;
    }
    std::fs::remove_file(folder.0.join("gone")).context("gone")?;
    let executable = std::fs::Permissions::from_mode(0o755);
    std::fs::set_permissions(folder.0.join("d4/e4/file-4"), executable).context("file-4")
}

/// The answer of the host's git; a no-break space is a space within a word.
fn on_host(folder: &Folder, words: &str) -> Result<String> {
    let mut command = std::process::Command::new("git");
    command.args(["-c", "user.name=Host", "-c", "user.email=host@example.org"]);
    command.args(words.split(' ').map(|word| word.replace('\u{a0}', " ")));
    let output = (command.current_dir(&folder.0).env("LC_ALL", "C"))
        .env("GIT_CONFIG_NOSYSTEM", "1")
        .env("HOME", "/nowhere")
        .env("TZ", "UTC0")
        .output()
        .context("git")?;
    match output.status.success() {
        true => Ok(String::from_utf8_lossy(&output.stdout).into_owned()),
        false => {
            let said = String::from_utf8_lossy(&output.stderr).into_owned();
            Err(Failure::new(HOST, format!("git {words}: {said}")))
        }
    }
}

/// A repository of the host's is for git in the guest what it is for git on the host, and what that commits
/// the host has.
fn git(kit: &Kit, machine: &mut Machine) -> Result<Vec<Check>> {
    let folder = Folder::new("git")?;
    repository(&folder)?;
    let all = || -> Result<String> {
        let each: Result<Vec<_>> =
            (ASKED_OF_GIT.iter().map(|what| on_host(&folder, what))).collect();
        Ok(each?.concat())
    };
    let before = all()?;
    let mut script = String::from(
        "export LC_ALL=C TZ=UTC0 HOME=/tmp GIT_CONFIG_NOSYSTEM=1; cd /mnt/share || exit 1\n",
    );
    for what in ASKED_OF_GIT {
        script += &format!("git {what} </dev/null || exit 2\n");
    }
    script += "git add -A && git -c user.name=Guest -c user.email=guest@example.org commit -q -m second || exit 3\n";
    script += "[ -z \"$(git status --porcelain)\" ] || exit 4\n";
    let words = ["/bin/sh", "-c", script.as_str()];
    let packages = debian::unpacked(&["git", "coreutils"])?;
    let mut root = Root::new(Some(&packages))?;
    machine.shares = vec![root.share(&format!("{}:{GUEST}", folder.0.display()))?];
    let ran = kit.boot_root(root, machine, &words, Vec::new(), 10 * MINUTE)?;
    let said = String::from_utf8_lossy(&ran.stdout).into_owned();
    let differs = (said.lines().zip(before.lines())).find(|(guest, host)| guest != host);
    let good = ended(&ran) && said == before && before.contains("renamed:");
    let told = format!("{differs:?}; {}", ran.told());
    // The guest has left it as it is, even if git does not understand it.
    let told_of = |what| on_host(&folder, what).unwrap_or_else(|lost| lost.message);
    let log = told_of("log --format=%an:%s");
    let left = told_of("status --porcelain");
    let sound = told_of("fsck --full --strict");
    let kept = log == "Guest:second\nHost:first\n" && left.is_empty();
    Ok(vec![
        Check::new(
            "git says of a shared tree what it says on the host",
            good,
            told,
        ),
        Check::new(
            "the host has what git commits there",
            kept,
            format!("{log} {left} {sound}"),
        ),
    ])
}

/// Two devices with the same directory know nothing of each other: what one has closed, the other opens. At
/// the end four processors write and read at once.
fn seen(kit: &Kit, machine: &mut Machine) -> Result<Vec<Check>> {
    let folder = Folder::new("seen")?;
    folder.make("file", b"of the host\n")?;
    // The middle lines are as long as what they take the place of, so that the time alone tells.
    let script = "
        cd /mnt/share && other=/mnt/other
        [ \"$(cat file)\" = 'of the host' ] && [ \"$(cat $other/file)\" = 'of the host' ] || exit 1
        echo of a guest! >$other/file && [ \"$(cat file)\" = 'of a guest!' ] || exit 2
        echo OF A GUEST! >file && [ \"$(cat $other/file)\" = 'OF A GUEST!' ] || exit 3
        exec 3<>file && echo ONE >&3 || exit 4
        [ \"$(stat -c %s file)\" = 12 ] && [ \"$(head -n 1 $other/file)\" = ONE ] || exit 5
        echo TWO >&3 && sync && [ \"$(head -n 2 $other/file | tail -n 1)\" = TWO ] || exit 6
        exec 3>&- && rm file || exit 7
        for n in 1 2 3 4; do
            (seq $n 1000000 >part$n && cat part$n part$n >whole$n &&
             [ \"$(md5sum <$other/whole$n)\" = \"$(cat part$n part$n | md5sum)\" ] && : >good$n) &
        done
        wait
        [ -e good1 ] && [ -e good2 ] && [ -e good3 ] && [ -e good4 ] || exit 8
        rm part* whole* good* && [ -z \"$(ls $other)\" ] || exit 9
        exit 0";
    let words = ["/bin/sh", "-c", script];
    let mut root = kit.root(&words)?;
    for guest in [GUEST, "/mnt/other"] {
        let share = root.share(&format!("{}:{guest}", folder.0.display()))?;
        machine.shares.push(share);
    }
    machine.cpus = 4;
    let ran = kit.boot_root(root, machine, &words, Vec::new(), 10 * MINUTE)?;
    let name = "what one device has closed another opens";
    Ok(vec![Check::new(name, ended(&ran), ran.told())])
}
