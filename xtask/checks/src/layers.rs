//! The layers: an arrow between rooms may only point down.
//!
//! *Interface*: `upward` lists the edges of a `cargo metadata` graph that break the rule, `unused` those that
//! no source needs.
//!
//! Source: `docs/architecture.md`, the picture of the rooms.

use std::collections::BTreeMap;

use serde_json::Value;

/// Every room and its level. Rooms of one level are peers, which know nothing of each other.
const LEVELS: &[(&str, u32)] = &[
    ("abi", 0),
    ("feedback", 0),
    ("sync", 0),
    ("codegen", 0),
    ("machine", 1),
    ("quaject", 1),
    ("vm", 2),
    ("thread", 3),
    ("device", 3),
    ("account", 3),
    ("file", 4),
    ("process", 5),
    ("tty", 6),
    ("procfs", 6),
    ("sound", 6),
    ("linux", 7),
    ("kernel", 8),
    ("trials", 9),
];

/// Programs for the guest, and the only room that they may use: pure arithmetic. Nobody knows them.
const PROGRAMS: &[&str] = &["music"];
const PROGRAMS_USE: &str = "feedback";

/// The packages beside the rooms, which may know none of them: the door, then the checks and the suites,
/// which use it.
const BESIDE: &[&str] = &["xtask", "checks", "suites"];

/// Whether a file of the sources belongs to a package beside the rooms.
pub fn is_beside(path: &str) -> bool {
    BESIDE.contains(&path.split('/').next().unwrap_or_default())
}

/// Algorithms without a user in the kernel. It may know what is at the bottom; it is known by tests and
/// benches and by who has suites, so the product does not link it.
const LAB: &str = "lab";
const LAB_LEVEL: u32 = 1;
const LAB_USERS: &[&str] = &["trials"];

fn level(name: &str) -> Option<u32> {
    LEVELS
        .iter()
        .chain(&[(LAB, LAB_LEVEL)])
        .find(|(room, _)| *room == name)
        .map(|(_, level)| *level)
}

/// One line for each edge that points up or sideways, and for each unknown member. Dependencies of every
/// kind count, those of tests too.
pub fn upward(metadata: &Value) -> Vec<String> {
    let empty = Vec::new();
    let packages = metadata["packages"].as_array().unwrap_or(&empty);
    let members: Vec<&str> = packages
        .iter()
        .filter_map(|package| package["name"].as_str())
        .collect();
    let mut broken = Vec::new();
    for package in packages {
        let Some(from) = package["name"].as_str() else {
            continue;
        };
        let beside = BESIDE.contains(&from);
        let program = PROGRAMS.contains(&from);
        let Some(upper) = level(from).or((beside || program).then_some(0)) else {
            broken.push(format!("{from}: a package that is in no layer"));
            continue;
        };
        for dependency in package["dependencies"].as_array().unwrap_or(&empty) {
            let Some(to) = dependency["name"].as_str() else {
                continue;
            };
            // Others come from the registry; a room's tests may ask for more features of itself.
            if dependency["path"].is_null() || !members.contains(&to) || to == from {
                continue;
            }
            if beside {
                let before = |name| BESIDE.iter().position(|package| *package == name);
                if before(to).is_some_and(|to| Some(to) < before(from)) {
                    continue;
                }
                broken.push(format!("{from} -> {to}: {from} stands beside the rooms"));
                continue;
            }
            if program {
                if to != PROGRAMS_USE {
                    broken.push(format!(
                        "{from} -> {to}: a program uses no room but {PROGRAMS_USE}"
                    ));
                }
                continue;
            }
            if to == LAB {
                if dependency["kind"] != "dev" && !LAB_USERS.contains(&from) {
                    broken.push(format!("{from} -> {to}: the product would link it"));
                }
                continue;
            }
            match level(to) {
                Some(lower) if lower < upper => {}
                Some(lower) if lower == upper => {
                    broken.push(format!("{from} -> {to}: peers of level {upper}"))
                }
                _ => broken.push(format!("{from} -> {to}: points up")),
            }
        }
    }
    broken
}

/// One line for each dependency of a member, of whatever kind and wherever from, that its sources do not
/// name. `sources` has the text of those of each.
pub fn unused(metadata: &Value, sources: &BTreeMap<String, String>) -> Vec<String> {
    let empty = Vec::new();
    let mut idle = Vec::new();
    for package in metadata["packages"].as_array().unwrap_or(&empty) {
        let Some(from) = package["name"].as_str() else {
            continue;
        };
        let text = sources.get(from).map_or("", String::as_str);
        for dependency in package["dependencies"].as_array().unwrap_or(&empty) {
            let Some(to) = dependency["name"].as_str() else {
                continue;
            };
            // A room's tests ask for more features of itself.
            if to != from && !names(text, &to.replace('-', "_")) {
                idle.push(format!("{from} -> {to}: no source of {from} names it"));
            }
        }
    }
    idle
}

/// Whether `text` has a path that begins with `package`.
fn names(text: &str, package: &str) -> bool {
    text.match_indices(package).any(|(at, _)| {
        let before = text[..at].chars().next_back();
        let part = |c: char| c.is_alphanumeric() || c == '_';
        !before.is_some_and(|c| part(c) || c == ':') && text[at + package.len()..].starts_with("::")
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn graph(edges: &[(&str, &[&str])]) -> Value {
        let packages: Vec<_> = edges
            .iter()
            .map(|(name, to)| {
                let to: Vec<_> = to
                    .iter()
                    .map(|name| json!({"name": name, "path": format!("/{name}")}))
                    .collect();
                json!({"name": name, "dependencies": to})
            })
            .collect();
        json!({ "packages": packages })
    }

    #[test]
    fn downward_edges_are_fine() {
        let good = graph(&[
            ("kernel", &["linux", "abi"]),
            ("linux", &["thread"]),
            ("thread", &["vm"]),
            ("vm", &[]),
            ("abi", &[]),
        ]);
        assert_eq!(upward(&good), Vec::<String>::new());
    }

    #[test]
    fn upward_and_sideways_edges_are_found() {
        let bad = graph(&[
            ("vm", &["thread"]),
            ("thread", &["device"]),
            ("device", &[]),
            ("sync", &["codegen"]),
            ("codegen", &[]),
        ]);
        let found = upward(&bad);
        assert_eq!(found.len(), 3, "{found:?}");
        assert!(found[0].contains("vm -> thread: points up"));
        assert!(found[1].contains("peers"));
    }

    #[test]
    fn a_room_that_nobody_placed_and_a_tool_that_knows_one_are_found() {
        let bad = graph(&[("attic", &[]), ("xtask", &["abi"]), ("abi", &[])]);
        assert_eq!(upward(&bad).len(), 2);
        let of =
            |from, to: &'static [&'static str]| upward(&graph(&[(from, to), (to[0], &[])])).len();
        assert_eq!(of("suites", &["xtask"]), 0);
        assert_eq!(of("xtask", &["suites"]), 1);
        assert_eq!(of("suites", &["abi"]), 1);
    }

    #[test]
    fn a_program_uses_arithmetic_and_is_used_by_nobody() {
        let room = |name| json!({"name": name, "dependencies": []});
        let of = |from: &str, to: &str| {
            let edge = json!({"name": to, "path": format!("/{to}")});
            let user = json!({"name": from, "dependencies": [edge]});
            let others = ["music", "feedback", "abi"].map(room).into_iter();
            let others = others.filter(|other| other["name"] != from);
            let packages: Vec<_> = others.chain([user]).collect();
            upward(&json!({ "packages": packages }))
        };
        assert!(of("music", "feedback").is_empty());
        assert_eq!(of("music", "abi").len(), 1);
        assert_eq!(of("kernel", "music").len(), 1);
    }

    #[test]
    fn only_tests_and_suites_use_the_lab() {
        let on_lab = |from: &str, kind: Value| {
            upward(&json!({"packages": [
                {"name": from, "dependencies": [{"name": "lab", "path": "/lab", "kind": kind}]},
                {"name": "lab", "dependencies": [{"name": "sync", "path": "/sync"}]},
                {"name": "sync", "dependencies": []},
            ]}))
        };
        assert!(on_lab("trials", Value::Null).is_empty());
        assert!(on_lab("quaject", json!("dev")).is_empty());
        assert_eq!(on_lab("quaject", Value::Null).len(), 1);
        assert_eq!(on_lab("kernel", json!("build")).len(), 1);
        let lifted = graph(&[("lab", &["machine"]), ("machine", &[])]);
        assert_eq!(upward(&lifted).len(), 1);
    }

    #[test]
    fn registry_packages_are_no_rooms() {
        let metadata = json!({"packages": [{"name": "abi", "dependencies": [{"name": "libc", "path": null}]}]});
        assert!(upward(&metadata).is_empty());
    }
    #[test]
    fn an_edge_that_nothing_uses_is_found() {
        let metadata = json!({"packages": [
            {"name": "vm", "dependencies": [{"name": "sync"}, {"name": "a-b"}, {"name": "abi"}]},
        ]});
        let text = "use sync::Monitor; // cabi::x\nlet x = a_b::y; self::abi::z";
        let sources = BTreeMap::from([("vm".to_owned(), text.to_owned())]);
        assert_eq!(
            unused(&metadata, &sources),
            ["vm -> abi: no source of vm names it"]
        );
    }
}
