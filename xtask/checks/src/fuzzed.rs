//! Every call and sub-command that the kernel answers is known to the fuzzer.
//!
//! *Interface*: `answered` by one source file of the kernel; `known` to `user/tests/fuzz-calls.h`; `faults`
//! compares them. So a new call without a row in the fuzzer's table fails.

use std::collections::BTreeSet;

/// Where the fuzzer's table is.
pub const TABLE: &str = "user/tests/fuzz-calls.h";
/// Where the kernel's calls are.
pub const CALLS: &str = "linux/src/call/";

/// Sub-commands by the beginning of their names. Other names with these beginnings are no sub-commands.
const COMMANDS: &[&str] = &["PR_", "PTRACE_", "FUTEX_", "F_"];
const ASIDE: &[&str] = &[
    "F_RDLCK",
    "F_WRLCK",
    "F_UNLCK",
    "F_OK",
    "FUTEX_BITSET_MATCH_ANY",
    "FUTEX_CMD_MASK",
    "FUTEX_OWNER_DIED",
    "FUTEX_TID_MASK",
    "FUTEX_WAITERS",
];
const ASIDE_BEGINNINGS: &[&str] = &[
    "PTRACE_O_",
    "PTRACE_EVENT_",
    "PTRACE_PEEKSIGINFO_",
    "PR_CAP_AMBIENT_",
];

/// The calls (in lower case) and sub-commands that a file of the kernel answers.
pub fn answered(text: &str) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    let lists = ["CALLS: &[(usize, Handler)]", "FRAMED: &[(usize, Framed)]"];
    for list in lists.iter().flat_map(|head| text.split(head).skip(1)) {
        let list = list.split("];").next().unwrap_or_default();
        found.extend(
            words(list)
                .filter_map(|word| word.strip_prefix("nr::"))
                .map(str::to_lowercase),
        );
    }
    let command = |word: &&str| {
        COMMANDS.iter().any(|start| word.starts_with(start))
            && !ASIDE.contains(word)
            && !ASIDE_BEGINNINGS.iter().any(|start| word.starts_with(start))
            && word.chars().all(|c| !c.is_lowercase())
    };
    let code = text
        .lines()
        .map(|line| line.split("//").next().unwrap_or_default());
    found.extend(code.flat_map(words).filter(command).map(str::to_owned));
    found
}

/// The names in the fuzzer's table: the first word of each row, and all constants.
pub fn known(table: &str) -> BTreeSet<String> {
    let mut found: BTreeSet<String> = words(table)
        .map(|word| word.trim_end_matches('_').to_owned())
        .collect();
    found.extend(words(table).map(str::to_owned));
    found
}

fn words(text: &str) -> impl Iterator<Item = &str> {
    text.split(|c: char| !(c.is_alphanumeric() || c == '_' || c == ':'))
        .map(|word| word.trim_matches(':'))
        .filter(|word| !word.is_empty())
}

/// The calls that the kernel answers and the fuzzer does not know.
pub fn faults(answered: &BTreeSet<String>, known: &BTreeSet<String>) -> Vec<String> {
    answered
        .difference(known)
        .map(|name| {
            format!("{TABLE}: the kernel answers `{name}`, the fuzzer has no row or list with it")
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_call_without_a_row_is_a_fault() {
        let kernel = "pub const CALLS: &[(usize, Handler)] = &[(nr::READ, read), (nr::SPLICE, splice)];\n\
                      pub const FRAMED: &[(usize, Framed)] = &[(nr::FORK, fork)];\n\
                      fn a() { match b { PR_SET_NAME | PR_NEW => {} F_RDLCK => {} } } // PR_WORD\n";
        let found = faults(
            &answered(kernel),
            &known("C(read, 1, FD),\n ONE(PR_SET_NAME)"),
        );
        assert_eq!(found.len(), 3, "{found:?}");
        let names = ["`PR_NEW`", "`fork`", "`splice`"];
        assert!(
            found
                .iter()
                .zip(names)
                .all(|(fault, name)| fault.contains(name))
        );
    }
}
