//! Every place that takes a lock, masks interrupts or spins is listed with its bound, and nothing else is.
//!
//! *Interface*: `places` of one source file; `listed` in `docs/locks.md`; `faults` compares them.
//!
//! A place is known by its file and what is taken there, with the number of times: code may move within a
//! file, but one more or one fewer is looked at. Source: dissertation, section 5.1.4; `docs/locks.md`.

use std::collections::BTreeMap;

/// Where the list is.
pub const LIST: &str = "docs/locks.md";

/// How often something is taken, by file and thing.
pub type Places = BTreeMap<(String, String), usize>;

/// Calls that mask interrupts or wait for another party's progress.
const WORDS: &[&str] = &[
    "irq_save",
    "irq_disable",
    "without_interrupts",
    "spin_loop",
    "synchronize",
];

/// The places of one file. Tests, models, benchmarks and what only they link have none.
pub fn places(path: &str, text: &str) -> Places {
    let mut found = Places::new();
    let aside = ["tests", "benches", "testing", "selftest", "fuzz"];
    let name = path.trim_end_matches(".rs");
    if !path.ends_with(".rs")
        || path.starts_with("xtask/")
        || path.starts_with("trials/")
        || path.starts_with("lab/")
        || name.ends_with("tests")
        || name.ends_with("model")
        || path.split(['/', '.']).any(|part| aside.contains(&part))
    {
        return found;
    }
    let mut add = |thing: String| *found.entry((path.to_owned(), thing)).or_default() += 1;
    let mut before = String::new();
    for line in text.lines() {
        // Tests within a file stand at its end.
        if line.starts_with("#[cfg(") && line.contains("test") && !line.contains("not(test") {
            break;
        }
        let code = line.split("//").next().unwrap_or_default().trim();
        if code.is_empty() {
            continue;
        }
        for taking in [".lock()", ".try_lock()", ".lock_for_code()"] {
            for (at, _) in code.match_indices(taking) {
                let receiver = match receiver(&code[..at]) {
                    "" => receiver(&before),
                    own => own,
                };
                add(format!("{receiver}{taking}"));
            }
        }
        for word in WORDS {
            for (at, _) in code.match_indices(&format!("{word}(")) {
                let head = &code[..at];
                let is_call = !head.ends_with("fn ")
                    && !head.ends_with(|c: char| c.is_alphanumeric() || c == '_');
                if is_call {
                    add((*word).to_owned());
                }
            }
        }
        if masks(code) {
            add("cli".into());
        }
        before = code.to_owned();
    }
    found
}

/// The last names of the expression that a text ends with: `self.state` of `let a = self.state`.
fn receiver(text: &str) -> &str {
    let text = text.trim_end();
    let mut depth = 0;
    let mut start = text.len();
    for (at, c) in text.char_indices().rev() {
        match c {
            ')' | ']' => depth += 1,
            '(' | '[' if depth > 0 => depth -= 1,
            _ if depth > 0 => {}
            c if c.is_alphanumeric() || "_.:".contains(c) => {}
            _ => break,
        }
        start = at;
    }
    text[start..].trim_start_matches('.')
}

/// Whether a line of assembly clears the interrupt flag.
fn masks(code: &str) -> bool {
    code.contains("\"cli") || code.contains("; cli") || code.trim_start().starts_with("cli;")
}

/// The rows `| `file` | `thing` | times | bound |` of the list.
pub fn listed(list: &str) -> Places {
    list.lines().filter_map(row).collect()
}

fn row(line: &str) -> Option<((String, String), usize)> {
    let mut cells = line.strip_prefix('|')?.split('|').map(str::trim);
    let mut quoted = || {
        Some(
            cells
                .next()?
                .strip_prefix('`')?
                .strip_suffix('`')?
                .to_owned(),
        )
    };
    let key = (quoted()?, quoted()?);
    let times = cells.next()?.parse().ok()?;
    // A place without a bound is not listed.
    cells.next().filter(|bound| !bound.is_empty())?;
    Some((key, times))
}

/// The entries that one has and the other lacks.
pub fn faults(found: &Places, listed: &Places) -> Vec<String> {
    let mut faults = Vec::new();
    for ((file, thing), times) in found {
        match listed.get(&(file.clone(), thing.clone())) {
            Some(known) if known == times => {}
            Some(known) => faults.push(format!(
                "{file}: `{thing}` is taken {times} times, {LIST} knows {known}: look at its bound again"
            )),
            None => faults.push(format!(
                "{file}: `{thing}` ({times}) is not in {LIST} with its bound"
            )),
        }
    }
    for (file, thing) in listed.keys() {
        if !found.contains_key(&(file.clone(), thing.clone())) {
            faults.push(format!("{LIST}: {file} has no `{thing}` (any more)"));
        }
    }
    faults
}

#[cfg(test)]
mod tests {
    use super::*;

    fn one(text: &str) -> Vec<(String, usize)> {
        places("vm/src/a.rs", text)
            .into_iter()
            .map(|((_, thing), times)| (thing, times))
            .collect()
    }

    #[test]
    fn locks_masks_and_spins_are_found() {
        assert_eq!(
            one("let g = self.state.lock();\nself.state.lock().x();\n"),
            [("self.state.lock()".into(), 2)]
        );
        assert_eq!(one("TREE\n    .lock()\n"), [("TREE.lock()".into(), 1)]);
        assert_eq!(
            one("f(of(x).a[1].try_lock())"),
            [("of(x).a[1].try_lock()".into(), 1)]
        );
        assert_eq!(one("let s = irq_save();"), [("irq_save".into(), 1)]);
        assert_eq!(
            one("\"cli\",\nhint::spin_loop();"),
            [("cli".into(), 1), ("spin_loop".into(), 1)]
        );
    }

    #[test]
    fn declarations_comments_and_tests_are_no_places() {
        let text = "pub fn irq_save() {}\n// x.lock()\n#[cfg(test)]\nmod tests { x.lock(); }\n";
        assert!(one(text).is_empty());
        assert!(places("vm/src/a_tests.rs", "x.lock()").is_empty());
        assert!(places("xtask/src/a.rs", "x.lock()").is_empty());
    }

    #[test]
    fn the_list_and_the_source_must_agree() {
        let found = places("vm/src/a.rs", "x.lock(); irq_save();");
        let list = listed(
            "| `vm/src/a.rs` | `x.lock()` | 1 | a page |\n| `vm/src/a.rs` | `irq_save` | 2 | ten |\n| `b` | `cli` | 1 | |\n| `b` | `y.lock()` | 1 | z |",
        );
        let faults = faults(&found, &list);
        assert_eq!(faults.len(), 2, "{faults:?}");
        assert!(faults[0].contains("1 times"), "{faults:?}");
        assert!(faults[1].contains("b has no `y.lock()`"), "{faults:?}");
    }
}
