//! The tests that a change reaches, so that its author need not wait for all.
//!
//! *Interface*: [`Reach::since`] looks at what differs from a revision, [`Reach::has`] tells whether a guest
//! test is reached, [`Reach::rooms`] the rooms whose host tests are.
//!
//! A room that all programs use reaches every test. Those that do not are in [`NARROW`], with their tests.
//! An unknown path reaches everything.

use super::table::{QUICK, Test, commands};
use serde_json::Value;
use std::collections::BTreeSet;
use std::process::Command;
use xtask::failure::{Context, Result};
use xtask::host;

/// Beginnings of paths, and the guest tests that they reach besides [`QUICK`]; none: no guest runs them.
const NARROW: &[(&str, &[&str])] = &[
    ("docs/", &[]),
    ("README.md", &[]),
    (".ci/", &[]),
    ("lab/", &[]),
    ("user/bench/", &[]),
    ("user/music/", SOUND),
    ("sound/", SOUND),
    ("device/src/ac97/", SOUND),
    ("device/src/hda/", SOUND),
    ("device/src/sound/", SOUND),
    (
        "tty/",
        &["ptys", "session", "shell", "shell-smp", "jobs", "tools"],
    ),
    ("file/src/p9/", &["shares", "order", "page-cache"]),
    (
        "feedback/",
        &[
            "feeds", "traces", "pairs", "cgroups", "policies", "clocks", "floods", "dropouts",
        ],
    ),
    ("tests/mutants/", &[]),
    ("tests/passed.txt", &[]),
    ("tests/bench/", &[]),
    ("tests/ltp/", &["ltp"]),
    ("tests/fuzz/", &["fuzz"]),
    ("suites/src/bench/", &[]),
    ("suites/src/plot/", &[]),
    ("xtask/checks/", &[]),
];

/// Everything that is heard.
const SOUND: &[&str] = &["sounds", "dsp", "music", "players", "dropouts"];

/// The extent of a run; by default everything.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Reach {
    /// Guest tests by name; none: all.
    guests: Option<BTreeSet<String>>,
    /// Packages whose host tests are run; none: all.
    rooms: Option<BTreeSet<String>>,
}

impl Reach {
    /// The extent of what the differences of the work tree from a revision reach.
    ///
    /// # Errors
    /// Host failure when git does not know the revision.
    pub fn since(revision: &str) -> Result<Reach> {
        let mut changed = String::new();
        for words in [
            &["diff", "--name-only", "--no-renames", revision, "--"][..],
            &["ls-files", "--others", "--exclude-standard"],
        ] {
            changed.push_str(&host::command_output(Command::new("git").args(words))?);
        }
        let words = [
            "metadata",
            "--format-version",
            "1",
            "--no-deps",
            "--offline",
        ];
        let text = host::command_output(host::cargo().args(words))?;
        let metadata = serde_json::from_str(&text).context("cargo metadata")?;
        Ok(of(&changed.lines().collect::<Vec<_>>(), &metadata))
    }

    /// Whether a guest test is reached.
    pub fn has(&self, test: &Test) -> bool {
        let reached = |tests: &BTreeSet<String>| tests.contains(test.name);
        self.guests.as_ref().is_none_or(reached)
    }

    /// The packages whose host tests are reached; none: all.
    pub fn rooms(&self) -> Option<&BTreeSet<String>> {
        self.rooms.as_ref()
    }
}

/// The extent of changes of these files.
fn of(changed: &[&str], metadata: &Value) -> Reach {
    let mut guests = Some(BTreeSet::new());
    let mut rooms = Some(BTreeSet::new());
    for path in changed {
        match guests_of(path) {
            Some(more) => {
                if let Some(guests) = &mut guests {
                    guests.extend(more);
                }
            }
            None => guests = None,
        }
        match packages(metadata, path) {
            Some(more) => {
                if let Some(rooms) = &mut rooms {
                    rooms.extend(more);
                }
            }
            None => rooms = None,
        }
    }
    Reach { guests, rooms }
}

/// The guest tests that one file reaches; none: all.
fn guests_of(path: &str) -> Option<BTreeSet<String>> {
    let owned = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
    let own = path
        .strip_prefix("user/tests/")
        .or_else(|| path.strip_prefix("tests/guest/"));
    // The list of the order of monitors is what every test is compared with.
    if path == "docs/locks.md" {
        return None;
    }
    if let Some(file) = own {
        let name = file.rsplit_once('.').map_or(file, |(name, _)| name);
        let file = [format!("/tests/{name}-"), format!("/tests/{name}.sh")];
        let names = |word: &&str| file.iter().any(|file| word.starts_with(file.as_str()));
        let tests: BTreeSet<String> = commands()
            .filter(|(test, words)| *test == name || words.iter().any(&names))
            .map(|(test, _)| test.to_owned())
            .collect();
        // A header, or a program of a test that is a function.
        return (!tests.is_empty()).then_some(tests);
    }
    let (_, tests) = NARROW.iter().find(|(start, _)| path.starts_with(start))?;
    let mut reached: BTreeSet<String> = owned(tests);
    if !tests.is_empty() {
        reached.extend::<BTreeSet<String>>(owned(QUICK));
    }
    Some(reached)
}

/// The package that a file belongs to, and those that use it; none: all.
fn packages(metadata: &Value, path: &str) -> Option<BTreeSet<String>> {
    let list = metadata["packages"].as_array()?;
    let root = metadata["workspace_root"].as_str()?;
    let folder = |package: &Value| -> Option<String> {
        let manifest = package["manifest_path"].as_str()?;
        let inside = manifest.strip_prefix(root)?.strip_prefix('/')?;
        Some(inside.strip_suffix("Cargo.toml")?.to_owned())
    };
    let holds = |package: &&Value| folder(package).is_some_and(|folder| path.starts_with(&folder));
    let deepest = list
        .iter()
        .filter(holds)
        .max_by_key(|package| folder(package).map(|folder| folder.len()));
    let Some(own) = deepest.and_then(|package| package["name"].as_str()) else {
        // Cargo's own files are everybody's; documents and programs of the guest are no package's.
        let shared =
            path.starts_with("Cargo.") || path.starts_with(".cargo/") || path.starts_with("rust");
        return (!shared).then(BTreeSet::new);
    };
    let mut found = BTreeSet::new();
    let mut next = vec![own.to_owned()];
    while let Some(room) = next.pop() {
        let uses = |package: &&Value| {
            let dependencies = package["dependencies"].as_array();
            dependencies.is_some_and(|all| all.iter().any(|one| one["name"] == *room))
        };
        let users = list.iter().filter(uses);
        next.extend(
            users
                .filter_map(|package| Some(package["name"].as_str()?.to_owned()))
                .filter(|name| !found.contains(name)),
        );
        found.insert(room);
    }
    Some(found)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn reach(changed: &[&str]) -> Reach {
        let package = |name: &str, uses: &[&str]| {
            let uses: Vec<_> = uses.iter().map(|name| json!({"name": name})).collect();
            json!({"name": name, "manifest_path": format!("/p/{name}/Cargo.toml"), "dependencies": uses})
        };
        let packages = [
            package("vm", &[]),
            package("tty", &["vm"]),
            package("sound", &[]),
        ];
        of(
            changed,
            &json!({"workspace_root": "/p", "packages": packages}),
        )
    }

    fn names(set: Option<BTreeSet<String>>) -> Vec<String> {
        set.into_iter().flatten().collect()
    }

    #[test]
    fn a_room_that_everybody_uses_reaches_every_guest_test() {
        let reach = reach(&["docs/sync.md", "vm/src/lib.rs"]);
        assert_eq!(reach.guests, None);
        assert_eq!(names(reach.rooms), ["tty", "vm"]);
    }

    #[test]
    fn documents_reach_no_test() {
        let reach = reach(&["docs/sync.md", "README.md"]);
        assert_eq!(names(reach.guests), Vec::<String>::new());
        assert_eq!(names(reach.rooms), Vec::<String>::new());
    }

    #[test]
    fn a_room_with_few_users_reaches_their_tests_and_a_little_of_everything() {
        let guests = names(reach(&["sound/src/lib.rs"]).guests);
        for name in SOUND.iter().chain(QUICK) {
            assert!(guests.iter().any(|guest| guest == name), "{name}");
        }
        assert!(!guests.iter().any(|guest| guest == "futexes"));
    }

    #[test]
    fn a_program_reaches_the_tests_that_run_it() {
        let guests = names(reach(&["user/tests/inet-messages.c"]).guests);
        assert_eq!(guests, ["inets"]);
        assert_eq!(reach(&["user/tests/tap.h"]).guests, None);
        assert_eq!(reach(&["Cargo.lock"]).rooms, None);
    }
}
