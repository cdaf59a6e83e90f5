//! The rooms that passed here before: their models need not be tried again.
//!
//! *Interface*: [`unless_passed`] runs checks of a room, unless they passed when the room, and all that it is
//! made of, was as it is now. That is noted below `target`, by a hash of the contents; a new copy of the
//! project has no notes.

use super::tap::Check;
use serde_json::Value;
use std::collections::BTreeSet;
use std::hash::{DefaultHasher, Hasher};
use std::process::Command;
use xtask::failure::{Context, Result};
use xtask::host;

/// The sources of every room besides its own files and those of the rooms that it uses.
const COMMON: &[&str] = &[
    "Cargo.toml",
    "Cargo.lock",
    "rust-toolchain.toml",
    ".cargo",
    "scripts",
    "suites/src/test/host_tests.rs",
];

/// The checks of `room` by the means `kind`; none if they passed before, which is said, but when they are to
/// be done `again`.
pub fn unless_passed(
    kind: &str,
    room: &str,
    again: bool,
    checks: impl FnOnce() -> Result<Vec<Check>>,
) -> Result<Vec<Check>> {
    let folder = host::project().join("target/passed");
    let note = folder.join(format!("{kind}-{room}"));
    let now = format!("{:016x}\n", contents(room)?);
    if !again && std::fs::read_to_string(&note).is_ok_and(|before| before == now) {
        println!("{kind}: {room} is as it was when it passed");
        return Ok(Vec::new());
    }
    let checks = checks()?;
    // A change made meanwhile was not tried, or not all of it.
    let same = format!("{:016x}\n", contents(room)?) == now;
    if same && !checks.is_empty() && checks.iter().all(|check| check.good) {
        std::fs::create_dir_all(&folder).context(folder.display())?;
        std::fs::write(&note, now).context(note.display())?;
    }
    Ok(checks)
}

/// A hash of all that `room` is made of, the compiler included.
fn contents(room: &str) -> Result<u64> {
    let text = host::command_output(host::cargo().args([
        "metadata",
        "--format-version",
        "1",
        "--no-deps",
        "--offline",
    ]))?;
    let metadata = serde_json::from_str(&text).context("cargo metadata")?;
    let compiler = host::command_output(Command::new("rustc").arg("--version"))?;
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
    let mut hasher = DefaultHasher::new();
    hasher.write(compiler.as_bytes());
    for file in files {
        // One that is deleted but still listed is no part of it.
        if let Ok(bytes) = std::fs::read(host::project().join(&file)) {
            hasher.write(file.as_bytes());
            hasher.write_usize(bytes.len());
            hasher.write(&bytes);
        }
    }
    Ok(hasher.finish())
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
    fn what_passed_is_not_tried_again_and_what_failed_is() {
        let room = "feedback";
        let kind = format!("test-{}", std::process::id());
        let run = |again, good| {
            let mut ran = false;
            unless_passed(&kind, room, again, || {
                ran = true;
                Ok(vec![Check::new("x", good, "")])
            })
            .unwrap();
            ran
        };
        assert!(run(false, false));
        assert!(run(false, true));
        assert!(!run(false, true));
        assert!(run(true, true));
        std::fs::remove_file(
            host::project()
                .join("target/passed")
                .join(format!("{kind}-{room}")),
        )
        .unwrap();
    }
}
