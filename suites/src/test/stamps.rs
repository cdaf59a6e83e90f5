//! A cache of passed model checks, by content hash of the crate: they need not run again.
//!
//! *Interface*: [`unless_passed`] runs checks of a room, unless they passed when the room, and all that it is
//! made of, was as it is now; [`Stamp`] serves checks of several rooms at once. The file `tests/passed.txt`
//! says what passed by a hash of the contents, without comments. The tool writes it, and it is committed with
//! the change that it is about; so a new copy of the project tries only what changed.

use super::tap::Check;
use serde_json::Value;
use std::collections::BTreeSet;
use std::process::Command;
use std::sync::Mutex;
use xtask::failure::{Context, Result};
use xtask::host;

/// The sources of every room besides its own files and those of the rooms that it uses.
const COMMON: &[&str] = &[
    "Cargo.toml",
    "Cargo.lock",
    "rust-toolchain.toml",
    ".cargo",
    "scripts",
    "suites/src/test/models.rs",
    "tests/mutants/slice",
];

/// Where it is written what passed: lines `KIND ROOM HASH`, sorted.
const RECORD: &str = "tests/passed.txt";

/// A room as it is, before it is tried by some means.
pub struct Stamp {
    kind: &'static str,
    /// The room's name.
    pub room: String,
    contents: u64,
}

impl Stamp {
    /// Of `room`, unless it passed by the means `kind` as it is now. Then that is said, but not when it is to
    /// be tried `again`.
    ///
    /// # Errors
    /// Host failure when the room cannot be read.
    pub fn unless_passed(kind: &'static str, room: &str, again: bool) -> Result<Option<Stamp>> {
        let contents = contents(kind, room)?;
        if !again && passed(&record(), kind, room) == Some(contents) {
            println!("{kind}: {room} is as it was when it passed");
            return Ok(None);
        }
        let room = room.to_owned();
        Ok(Some(Stamp {
            kind,
            room,
            contents,
        }))
    }

    /// The room passed: that is recorded, unless it was changed meanwhile.
    ///
    /// # Errors
    /// Host failure when the record cannot be written.
    pub fn pass(self) -> Result<()> {
        if contents(self.kind, &self.room)? != self.contents {
            return Ok(());
        }
        // Two workers may have something to write.
        static WRITER: Mutex<()> = Mutex::new(());
        let _one = WRITER.lock().expect("no panic while held");
        let path = host::project().join(RECORD);
        let fresh = path.with_extension("new");
        let text = entered(&record(), self.kind, &self.room, self.contents);
        std::fs::write(&fresh, text).context(fresh.display())?;
        std::fs::rename(&fresh, &path).context(path.display())
    }
}

/// The checks of `room` by the means `kind`; none if they passed before, which is said, but when they are to
/// be done `again`.
///
/// # Errors
/// Those of the checks, and of [`Stamp`].
pub fn unless_passed(
    kind: &'static str,
    room: &str,
    again: bool,
    checks: impl FnOnce() -> Result<Vec<Check>>,
) -> Result<Vec<Check>> {
    let Some(stamp) = Stamp::unless_passed(kind, room, again)? else {
        return Ok(Vec::new());
    };
    let checks = checks()?;
    if !checks.is_empty() && checks.iter().all(|check| check.good) {
        stamp.pass()?;
    }
    Ok(checks)
}

/// The text of the record; none yet: nothing.
fn record() -> String {
    std::fs::read_to_string(host::project().join(RECORD)).unwrap_or_default()
}

/// The hash that the record has of a room.
fn passed(record: &str, kind: &str, room: &str) -> Option<u64> {
    let line = record.lines().find_map(|line| {
        let rest = line.strip_prefix(kind)?.strip_prefix(' ')?;
        rest.strip_prefix(room)?.strip_prefix(' ')
    });
    u64::from_str_radix(line?, 16).ok()
}

/// The record with this hash of a room in place of an older one.
fn entered(record: &str, kind: &str, room: &str, hash: u64) -> String {
    let key = format!("{kind} {room} ");
    let others = record.lines().filter(|line| !line.starts_with(&key));
    let mut lines: Vec<_> = others.map(str::to_owned).collect();
    lines.push(format!("{key}{hash:016x}"));
    lines.sort();
    lines.join("\n") + "\n"
}

/// The version of the compiler that the means `kind` uses. Miri is part of a nightly one; where there is
/// none, nothing passes.
fn compiler(kind: &str) -> Result<String> {
    let mut command = Command::new("rustc");
    if kind != "miri" {
        return host::command_output(command.arg("--version"));
    }
    command.args(["+nightly", "--version"]);
    Ok(host::command_output(&mut command).unwrap_or_default())
}

/// A hash of all that `room` is made of, the compiler included.
fn contents(kind: &str, room: &str) -> Result<u64> {
    let text = host::command_output(host::cargo().args([
        "metadata",
        "--format-version",
        "1",
        "--no-deps",
        "--offline",
    ]))?;
    let metadata = serde_json::from_str(&text).context("cargo metadata")?;
    let compiler = compiler(kind)?;
    let mut list = Command::new("git");
    list.args([
        "ls-files",
        "--cached",
        "--others",
        "--exclude-standard",
        "--",
    ]);
    list.args(rooms(&metadata, room)).args(COMMON);
    list.current_dir(host::project());
    let files: BTreeSet<String> = host::command_output(&mut list)?
        .lines()
        .map(str::to_owned)
        .collect();
    let mut hash = Fnv::default();
    hash.add(compiler.as_bytes());
    for file in files {
        // One that is deleted but still listed is no part of it.
        if let Ok(bytes) = std::fs::read(host::project().join(&file)) {
            hash.add(file.as_bytes());
            let bytes = without_comments(&file, bytes);
            hash.add(&bytes.len().to_le_bytes());
            hash.add(&bytes);
        }
    }
    Ok(hash.0)
}

/// A file without what is no part of any model: in Rust, lines that are only a comment.
fn without_comments(file: &str, bytes: Vec<u8>) -> Vec<u8> {
    if !file.ends_with(".rs") {
        return bytes;
    }
    let code = |line: &&[u8]| !line.trim_ascii_start().starts_with(b"//");
    let lines: Vec<_> = bytes.split(|byte| *byte == b'\n').filter(code).collect();
    lines.join(&b'\n')
}

/// The hash of Fowler, Noll and Vo (FNV-1a, 64 bits): the same on every machine and with every compiler.
struct Fnv(u64);

impl Default for Fnv {
    fn default() -> Self {
        Fnv(0xcbf2_9ce4_8422_2325)
    }
}

impl Fnv {
    fn add(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.0 = (self.0 ^ u64::from(*byte)).wrapping_mul(0x100_0000_01b3);
        }
    }
}

/// `room` and the rooms that it uses, its tests' included.
fn rooms(metadata: &Value, room: &str) -> BTreeSet<String> {
    let empty = Vec::new();
    let packages = metadata["packages"].as_array().unwrap_or(&empty);
    let mut found = BTreeSet::new();
    let mut next = vec![room.to_owned()];
    while let Some(room) = next.pop() {
        let package = packages.iter().find(|package| package["name"] == *room);
        if !found.insert(room) {
            continue;
        }
        let used = package.and_then(|package| package["dependencies"].as_array());
        let used = used.into_iter().flatten();
        let used = used.filter(|dependency| !dependency["path"].is_null());
        next.extend(used.filter_map(|dependency| Some(dependency["name"].as_str()?.to_owned())));
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_room_is_made_of_those_that_it_uses() {
        let metadata = json!({"packages": [
            {"name": "a", "dependencies": [{"name": "b", "path": "/b"}, {"name": "loom", "path": null}]},
            {"name": "b", "dependencies": [{"name": "c", "path": "/c"}, {"name": "b", "path": "/b"}]},
            {"name": "c", "dependencies": []},
            {"name": "d", "dependencies": [{"name": "a", "path": "/a"}]},
        ]});
        let found = rooms(&metadata, "a");
        assert_eq!(found.iter().collect::<Vec<_>>(), ["a", "b", "c"]);
    }

    #[test]
    fn what_passed_is_found_by_kind_room_and_hash() {
        let text = entered("", "miri", "sync", 7);
        let text = entered(&text, "models", "sync", 8);
        assert_eq!(
            text,
            "miri sync 0000000000000007\nmodels sync 0000000000000008\n"
        );
        assert_eq!(passed(&text, "models", "sync"), Some(8));
        assert_eq!(passed(&text, "models", "syn"), None);
        let text = entered(&text, "models", "sync", 9);
        assert_eq!(passed(&text, "models", "sync"), Some(9));
        assert_eq!(passed(&text, "miri", "sync"), Some(7));
        assert_eq!(text.lines().count(), 2);
    }

    #[test]
    fn a_comment_is_no_part_of_a_model() {
        let text = b"/// What it does.\nfn f() {\n    // Why.\n    g(); // and so on\n}\n";
        let code = without_comments("sync/src/a.rs", text.to_vec());
        assert_eq!(code, b"fn f() {\n    g(); // and so on\n}\n");
        assert_eq!(without_comments("Cargo.toml", text.to_vec()), text);
    }

    #[test]
    fn the_hash_is_the_known_one() {
        let mut hash = Fnv::default();
        hash.add(b"foobar");
        assert_eq!(hash.0, 0x8594_4171_f739_67e8);
    }
}
