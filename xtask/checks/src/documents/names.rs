//! Names in documents: each occurs in the code, or is known from outside.
//!
//! *Interface*: `Names::of` the sources; `Names::missing` of what stands between backquotes; `Names::unused`
//! of the list of outside words.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};

/// The words of the sources, and those from outside.
pub struct Names {
    /// For each word the files that have it in their code or in their path.
    files: BTreeMap<String, BTreeSet<usize>>,
    outside: BTreeSet<String>,
    used: RefCell<BTreeSet<String>>,
}

impl Names {
    /// The words of `sources` (paths and texts), and of the list `outside`.
    pub fn of<'a>(sources: impl Iterator<Item = (&'a str, &'a str)>, outside: &str) -> Self {
        let mut files = BTreeMap::<String, BTreeSet<usize>>::new();
        for (at, (path, text)) in sources.enumerate() {
            let code = code(path, text);
            for word in words(path).chain(words(&code)) {
                match files.get_mut(word) {
                    Some(known) => {
                        known.insert(at);
                    }
                    None => {
                        files.insert(word.to_owned(), [at].into());
                    }
                }
            }
        }
        Self {
            files,
            outside: outside.lines().map(str::to_owned).collect(),
            used: RefCell::default(),
        }
    }

    /// Whether the word is known; a word from outside counts as used.
    fn knows(&self, word: &str) -> bool {
        if self.files.contains_key(word) {
            return true;
        }
        let known = self.outside.contains(word);
        if known {
            self.used.borrow_mut().insert(word.to_owned());
        }
        known
    }

    /// Whether a word begins so.
    fn begins(&self, start: &str) -> bool {
        let mut from = self.files.range(start.to_owned()..);
        from.next().is_some_and(|(word, _)| word.starts_with(start))
    }

    /// The faults of the names in `text`, which stands between backquotes. All words of a name count; of
    /// several words, only those that can be nothing but names.
    pub fn missing(&self, text: &str) -> Vec<String> {
        let several = text.contains(char::is_whitespace);
        let mut faults = Vec::new();
        for word in words(text).filter(|word| word.len() > 1 && (!several || is_name(word))) {
            // `word*` stands for all that begin so.
            let known = match word.ends_with('_') && text.contains(&format!("{word}*")) {
                true => self.begins(word),
                false => self.knows(word),
            };
            if !known {
                faults.push(format!("`{word}` is not in the sources"));
            }
        }
        if faults.is_empty() {
            faults.extend(self.strangers(text));
        }
        faults
    }

    /// Of `a::b`: when no file has both.
    fn strangers(&self, text: &str) -> Option<String> {
        for (at, _) in text.match_indices("::") {
            let before = words(&text[..at]).last()?;
            let Some(after) = words(&text[at..]).next() else {
                continue;
            };
            if let (Some(before_in), Some(after_in)) =
                (self.files.get(before), self.files.get(after))
                && before_in.is_disjoint(after_in)
            {
                return Some(format!("`{before}::{after}`: no file has both names"));
            }
        }
        None
    }

    /// The words from outside that nothing needs, and those that are not in order.
    pub fn unused(&self, list: &str, path: &str) -> Vec<String> {
        let used = self.used.borrow();
        let mut faults: Vec<String> = self
            .outside
            .iter()
            .filter(|word| !used.contains(*word))
            .map(|word| format!("{path}: no document needs `{word}` any more"))
            .collect();
        if !list.lines().is_sorted_by(|a, b| a < b) {
            faults.push(format!("{path}: not in order, or with a word twice"));
        }
        faults
    }
}

/// Whether a word can be nothing but a name of the code.
fn is_name(word: &str) -> bool {
    let inner = word.trim_matches('_');
    let mixed = inner.contains(|c: char| c.is_ascii_lowercase())
        && inner.chars().skip(1).any(|c| c.is_ascii_uppercase());
    inner.contains('_') || mixed
}

/// The words of a text, without numbers.
fn words(text: &str) -> impl Iterator<Item = &str> {
    text.split(|c: char| !(c.is_ascii_alphanumeric() || c == '_'))
        .filter(|word| word.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_'))
}

/// A source without its comments.
fn code(path: &str, text: &str) -> String {
    let ending = path.rsplit_once('.').map_or("", |(_, ending)| ending);
    let slashes = ["rs", "c", "h", "go", "js", "S", "ld"].contains(&ending);
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    // C's comments; in Rust `/*` stands in strings and patterns of shells only.
    if ["c", "h"].contains(&ending) {
        while let Some(at) = rest.find("/*") {
            out.push_str(&rest[..at]);
            rest = rest[at..].split_once("*/").map_or("", |(_, after)| after);
            out.push(' ');
        }
    }
    out.push_str(rest);
    let lines = out.lines().map(|line| {
        if !slashes {
            return if line.trim_start().starts_with('#') {
                ""
            } else {
                line
            };
        }
        let mut ends = line.match_indices("//").map(|(at, _)| &line[..at]);
        let end = ends.find(|before| {
            before.chars().next_back().is_none_or(char::is_whitespace)
                && before.matches('"').count().is_multiple_of(2)
        });
        end.unwrap_or(line)
    });
    lines.fold(String::new(), |all, line| all + line + "\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    const OUTSIDE: &str = "strace\nvim\n";

    fn names() -> Names {
        let sources = [
            (
                "vm/src/space.rs",
                "//! `gone`\npub struct Space; // was_here\nfn fault(url: \"http://x_y\") {}",
            ),
            ("sync/src/list.rs", "pub fn wake_all() {}"),
            ("user/a.c", "/* old_name\n */ int syn_make;"),
            ("tests/a.sh", "# a_comment\nwait_for it"),
        ];
        Names::of(sources.into_iter(), OUTSIDE)
    }

    #[test]
    fn a_name_must_occur_in_code() {
        let names = names();
        for good in [
            "Space",
            "fault()",
            "Space::fault",
            "space::fault",
            "wake_all",
            "syn_make(x)",
            "wait_for",
            "x_y",
            "vim",
            "0x12",
            "some prose in code",
            "wake_*",
        ] {
            assert_eq!(names.missing(good), Vec::<String>::new(), "{good}");
        }
        for bad in [
            "gone",
            "was_here",
            "old_name",
            "a_comment",
            "Spaces::fault",
            "let x = was_here",
            "was_*",
        ] {
            assert_eq!(names.missing(bad).len(), 1, "{bad}");
        }
        assert_eq!(
            names.missing("Space::wake_all"),
            ["`Space::wake_all`: no file has both names"]
        );
    }

    #[test]
    fn a_word_from_outside_is_needed_and_in_order() {
        let names = names();
        names.missing("vim");
        let unused = "list: no document needs `strace` any more";
        assert_eq!(names.unused(OUTSIDE, "list"), [unused]);
        names.missing("strace");
        assert_eq!(names.unused("b\na\n", "list").len(), 1);
        assert_eq!(names.unused(OUTSIDE, "list"), Vec::<String>::new());
    }
}
