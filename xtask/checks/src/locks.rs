//! Every place that takes a lock, masks interrupts or spins has its bound beside it.
//!
//! *Interface*: `places` of one source file; `table` of all, for `docs/locks.md`; `faults`.
//!
//! The bound is a comment, `// Bound: ...`, before the place. A place is known by its file and what is taken
//! there, with the number of times: further uses in a file share the first one's bound, and their number is
//! in the table, so one more is looked at. `try_lock` never waits and needs none. Source: dissertation,
//! section 5.1.4; `docs/locks.md`.

use std::collections::BTreeMap;
use std::fmt::Write;

/// The chapter with the table.
pub const LIST: &str = "docs/locks.md";

/// How often something is taken, and its bound; empty if there is none.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Place {
    pub times: usize,
    pub bound: String,
}

/// By file and thing.
pub type Places = BTreeMap<(String, String), Place>;

/// The word before a bound.
const BOUND: &str = "Bound: ";
const TRY: &str = ".try_lock()";

/// Calls that mask interrupts or wait for another party's progress.
const WORDS: &[&str] = &[
    "irq_save",
    "irq_disable",
    "irqs_off",
    "without_interrupts",
    "spin_loop",
    "grace",
    "synchronize",
];

/// The places of one file. Tests, models, benchmarks and what only they link have none.
pub fn places(path: &str, text: &str) -> Places {
    let mut found = Places::new();
    let aside = ["tests", "benches", "testing", "selftest", "fuzz"];
    let name = path.trim_end_matches(".rs");
    if !path.ends_with(".rs")
        || crate::layers::is_beside(path)
        || path.starts_with("trials/")
        || path.starts_with("lab/")
        || name.ends_with("tests")
        || name.ends_with("model")
        || path.split(['/', '.']).any(|part| aside.contains(&part))
    {
        return found;
    }
    let mut comments = Comments::default();
    let mut before = String::new();
    for line in text.lines() {
        // Tests within a file stand at its end.
        if line.starts_with("#[cfg(") && line.contains("test") && !line.contains("not(test") {
            break;
        }
        let code = line.split("//").next().unwrap_or_default().trim();
        if code.is_empty() {
            comments.read(line);
            continue;
        }
        let things = things(code, &before);
        if !things.is_empty() {
            let bound = comments.take();
            for thing in things {
                let never = thing.ends_with(TRY) && bound.is_empty();
                let place = found.entry((path.to_owned(), thing)).or_default();
                place.times += 1;
                if never && place.bound.is_empty() {
                    place.bound = "never waits".into();
                } else if place.times == 1 {
                    place.bound.clone_from(&bound);
                }
            }
        }
        comments.open = false;
        before = code.to_owned();
    }
    found
}

/// The bound that was read last, until a place takes it.
#[derive(Default)]
struct Comments {
    bound: String,
    /// The next comment goes on with it.
    open: bool,
}

impl Comments {
    /// A line without code.
    fn read(&mut self, line: &str) {
        let Some(comment) = line.trim_start().strip_prefix("// ") else {
            self.open = false;
            return;
        };
        if let Some(bound) = comment.strip_prefix(BOUND) {
            (self.bound, self.open) = (bound.to_owned(), true);
        } else if comment.starts_with("SAFETY: ") {
            self.open = false;
        } else if self.open {
            self.bound.push(' ');
            self.bound.push_str(comment);
        }
    }

    fn take(&mut self) -> String {
        let bound = core::mem::take(&mut self.bound);
        bound.trim_end_matches('.').to_owned()
    }
}

/// Everything that a line of code takes; the line `before` may have the name of the lock.
fn things(code: &str, before: &str) -> Vec<String> {
    let mut things = Vec::new();
    for taking in [".lock()", TRY, ".lock_for_code()"] {
        for (at, _) in code.match_indices(taking) {
            let receiver = match receiver(&code[..at]) {
                "" => receiver(before),
                own => own,
            };
            things.push(format!("{receiver}{taking}"));
        }
    }
    for word in WORDS {
        for (at, _) in code.match_indices(&format!("{word}(")) {
            let head = &code[..at];
            let is_call = !head.ends_with("fn ")
                && !head.ends_with(|c: char| c.is_alphanumeric() || c == '_');
            if is_call {
                things.push((*word).to_owned());
            }
        }
    }
    if masks(code) {
        things.push("cli".into());
    }
    things
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

/// The table of all places, a section for each room.
pub fn table(places: &Places) -> String {
    let mut out = String::new();
    let mut last = "";
    for ((file, thing), Place { times, bound }) in places {
        let room = file.split('/').next().unwrap_or_default();
        if room != last {
            let head = "| file | what is taken | times | bound |\n| --- | --- | ---: | --- |";
            // Writing to a string does not fail.
            let _ = write!(out, "\n## {room}\n\n{head}\n");
            last = room;
        }
        let _ = writeln!(out, "| `{file}` | `{thing}` | {times} | {bound} |");
    }
    out
}

/// The places without a bound.
pub fn faults(places: &Places) -> Vec<String> {
    let bare = places.iter().filter(|(_, place)| place.bound.is_empty());
    bare.map(|((file, thing), _)| {
        format!("{file}: `{thing}` has no bound beside it (`// {BOUND}...`)")
    })
    .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn one(text: &str) -> Vec<(String, usize)> {
        places("vm/src/a.rs", text)
            .into_iter()
            .map(|((_, thing), place)| (thing, place.times))
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
    fn a_bound_stands_before_its_place() {
        let found = places(
            "vm/src/a.rs",
            "// Bound: a page,\n// or two.\n// SAFETY: fine.\nlet a = x\n    .lock();\nx.lock();\nif y.try_lock() {}\nirq_save();\n",
        );
        assert_eq!(
            table(&found),
            "\n## vm\n\n| file | what is taken | times | bound |\n| --- | --- | ---: | --- |\n\
             | `vm/src/a.rs` | `irq_save` | 1 |  |\n\
             | `vm/src/a.rs` | `x.lock()` | 2 | a page, or two |\n\
             | `vm/src/a.rs` | `y.try_lock()` | 1 | never waits |\n"
        );
        let faults = faults(&found);
        assert_eq!(faults.len(), 1, "{faults:?}");
        assert!(faults[0].contains("`irq_save`"), "{faults:?}");
    }
}
