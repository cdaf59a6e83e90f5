//! Every call has a kind: what it may make that stays, so that a test takes that until there is no more.
//!
//! *Interface*: `faults`. `tests/kinds.txt` has lines `KIND: CALL...`; a kind other than `none` is one that
//! `user/tests/hogs.c` knows.

use std::collections::BTreeMap;

/// The faults of the `list`, by the sources of the calls and of the program that takes each kind; one
/// line each.
pub fn faults(list: &str, calls: &[String], program: &str) -> Vec<String> {
    let mut known: BTreeMap<&str, usize> = BTreeMap::new();
    let mut faults = Vec::new();
    for line in list.lines().filter(|line| !line.starts_with('#')) {
        let Some((kind, names)) = line.split_once(':') else {
            faults.push(format!("not a kind and its calls: {line}"));
            continue;
        };
        if kind != "none" && !program.contains(&format!("{{\"{kind}\", ")) {
            faults.push(format!("no test takes {kind} until there is no more"));
        }
        for name in names.split_whitespace() {
            *known.entry(name).or_default() += 1;
        }
    }
    let mut there: Vec<&str> = calls.iter().flat_map(|text| named(text)).collect();
    there.sort_unstable();
    there.dedup();
    for name in &there {
        if !known.contains_key(name) {
            faults.push(format!("{name} has no kind"));
        }
    }
    for (name, times) in known {
        if times > 1 {
            faults.push(format!("{name} has {times} kinds"));
        }
        if there.binary_search(&name).is_err() {
            faults.push(format!("{name} is no call (any more)"));
        }
    }
    faults
}

/// The calls that a source names, as `nr::NAME`.
fn named(text: &str) -> impl Iterator<Item = &str> {
    text.split("nr::").skip(1).filter_map(|rest| {
        let part = |c: char| c.is_ascii_uppercase() || c.is_ascii_digit() || c == '_';
        let name = &rest[..rest.find(|c| !part(c)).unwrap_or(rest.len())];
        (!name.is_empty() && name != "COUNT").then_some(name)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_call_without_a_kind_is_a_fault_and_a_kind_without_a_test() {
        let calls = ["&[(nr::OPEN, open), (nr::READ, nr::name)] nr::COUNT".to_owned()];
        let program = "{\"files\", files, 1}";
        assert!(faults("files: OPEN\nnone: READ\n", &calls, program).is_empty());
        for (list, fault) in [
            ("files: OPEN\n", "READ has no kind"),
            (
                "pipes: OPEN\nnone: READ\n",
                "no test takes pipes until there is no more",
            ),
            ("files: OPEN READ\nnone: READ\n", "READ has 2 kinds"),
            ("files: OPEN DUP\nnone: READ\n", "DUP is no call (any more)"),
        ] {
            assert_eq!(faults(list, &calls, program), [fault]);
        }
    }
}
