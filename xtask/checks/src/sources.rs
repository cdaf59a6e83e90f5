//! Rules that the text of a source file must follow.
//!
//! *Interface*: `faults` of one file: its first line says what it is, `unsafe` stands only where the
//! design allows it, with its reason, all of physical memory is named in few rooms, comments and all lines of
//! C keep to their width, a file in Rust or C to its length, and no sentence of a comment or a chapter begins
//! with a pronoun like "who" instead of a noun.

/// Rooms without any `unsafe`.
const SAFE: &[&str] = &[
    "abi", "account", "feedback", "procfs", "user", "xtask", "suites",
];
/// Rooms whose files with `unsafe` are listed, and how many there may be at most: the rest is safe.
pub const LISTED: &[&str] = &["quaject", "device", "file", "process", "tty", "linux"];

/// Where all physical memory may be named: who can name it can write anywhere. The others go through
/// `vm::frame::FrameBytes`.
const RAW_MEMORY: &[&str] = &["abi", "machine", "vm"];
/// How it is named, and the rooms' files besides that may: routines are generated against these numbers.
const MEMORY_NAMES: &[&str] = &["PHYS_MAP", "phys_to_virt", "for_routines"];
const MEMORY_USERS: &[&str] = &[
    "file/src/tmpfs/page_store.rs",
    "file/src/page_cache/table.rs",
];

/// The widest line of a comment, or of anything in C, in columns.
const WIDTH: usize = 110;

/// The most lines of a file in Rust or C: a longer one has two topics, and becomes two files.
const LENGTH: usize = 800;

/// Words that may not begin a sentence of a comment or a chapter, unless it is a question: the sentence names
/// its subject.
const PRONOUNS: &[&str] = &["Who", "Whoever", "Whom", "Whose", "What", "Whatever"];

/// The word before a file's reason to have `unsafe`, in its first comment.
const UNSAFE: &str = "//! *Unsafe*: ";

/// Why a file has `unsafe`, if it says so.
pub fn reason(text: &str) -> Option<String> {
    let mut lines = text.lines().skip_while(|line| !line.starts_with(UNSAFE));
    let first = lines.next()?.strip_prefix(UNSAFE)?;
    let rest = lines.map_while(|line| line.strip_prefix("//! "));
    let reason = rest.fold(first.to_owned(), |all, line| format!("{all} {line}"));
    Some(reason.trim_end_matches('.').to_owned())
}

/// One line for each broken rule. `path` is relative to the project.
pub fn faults(path: &str, text: &str) -> Vec<String> {
    let mut faults: Vec<String> = text
        .lines()
        .enumerate()
        .filter_map(|(at, line)| Some((at + 1, pronoun(prose(path, line)?)?)))
        .map(|(at, word)| format!("{path}:{at}: a sentence begins with `{word}`: name its subject"))
        .collect();
    let first = text.lines().next().unwrap_or_default();
    // A script's first line belongs to the system.
    let first = if first.starts_with("#!") && !first.starts_with("#![") {
        text.lines().nth(1).unwrap_or_default()
    } else {
        first
    };
    let opening = match path.rsplit_once('.').map(|(_, ending)| ending) {
        Some("rs") => "//! ",
        Some("c" | "h") => "/* ",
        Some("sh") => "# ",
        _ => return faults,
    };
    if !first.starts_with(opening) {
        faults.push(format!("{path}: its first line does not say what it is"));
    }
    if opening == "/* " {
        let lines = text.lines().enumerate();
        let wide = lines.filter(|(_, line)| line.chars().count() > WIDTH);
        faults.extend(wide.map(|(at, _)| format!("{path}:{}: wider than {WIDTH} columns", at + 1)));
    }
    let length = text.lines().count();
    if opening != "# " && length > LENGTH {
        faults.push(format!("{path}: {length} lines, more than {LENGTH}"));
    }
    if !path.ends_with(".rs") {
        return faults;
    }
    let room = path.split('/').next().unwrap_or_default();
    let listed = reason(text).is_some();
    let allowed = !SAFE.contains(&room) && (!LISTED.contains(&room) || listed);
    if listed && !text.contains("unsafe ") && !text.contains("unsafe(") {
        faults.push(format!(
            "{path}: has a reason for `unsafe`, and none (any more)"
        ));
    }
    let lines: Vec<&str> = text.lines().collect();
    for (at, line) in lines.iter().enumerate() {
        if !crate::layers::is_beside(path)
            && !RAW_MEMORY.contains(&room)
            && !MEMORY_USERS.contains(&path)
        {
            let code = line.split("//").next().unwrap_or_default();
            for name in MEMORY_NAMES.iter().filter(|name| code.contains(**name)) {
                let at = at + 1;
                faults.push(format!(
                    "{path}:{at}: `{name}` outside of vm: use FrameBytes"
                ));
            }
        }
        if line.trim_start().starts_with("//") && line.chars().count() > WIDTH {
            faults.push(format!(
                "{path}:{}: a comment wider than {WIDTH} columns",
                at + 1
            ));
        }
        if !is_unsafe(line) {
            continue;
        }
        if !allowed {
            faults.push(format!(
                "{path}:{}: `unsafe` in a room or file that has none",
                at + 1
            ));
        } else if !reasoned(&lines, at) {
            faults.push(format!(
                "{path}:{}: `unsafe` without its reason (SAFETY)",
                at + 1
            ));
        }
    }
    faults
}

/// The prose in `line` of the file `path`: its comment, or all of it in a chapter.
fn prose<'a>(path: &str, line: &'a str) -> Option<&'a str> {
    let behind = |mark: &str| {
        let (code, comment) = line.split_once(mark)?;
        let quoted = !code.matches('"').count().is_multiple_of(2);
        (!quoted).then_some(comment)
    };
    match path.rsplit_once('.')?.1 {
        "md" => Some(line),
        "rs" | "go" | "js" => behind("//").map(|comment| comment.trim_start_matches(['/', '!'])),
        "c" | "h" => {
            (behind("/*").or_else(|| behind("//"))).or_else(|| line.trim_start().strip_prefix("* "))
        }
        "sh" => line.trim_start().strip_prefix('#'),
        _ => None,
    }
}

/// A pronoun that begins a sentence of `prose`, which is one line; the end of a sentence is not looked for
/// beyond it, so a question mark on it is enough. Code in backticks and quoted strings are no words.
fn pronoun(prose: &str) -> Option<&'static str> {
    if prose.contains('?') {
        return None;
    }
    let mut words = prose.split_whitespace();
    words.find_map(|word| PRONOUNS.iter().find(|pronoun| word == **pronoun).copied())
}

/// Whether a line of code opens a block or an implementation that is unsafe.
fn is_unsafe(line: &str) -> bool {
    let code = line.split("//").next().unwrap_or_default();
    ["unsafe {", "unsafe impl"]
        .iter()
        .any(|what| match code.find(what) {
            // Inside a string it is none.
            Some(at) => code[..at].matches('"').count().is_multiple_of(2),
            None => false,
        })
}

/// Whether `SAFETY` stands on the line or above it, with nothing but the same statement between.
fn reasoned(lines: &[&str], at: usize) -> bool {
    let from = at.saturating_sub(12);
    lines[from..=at]
        .iter()
        .any(|line| line.contains("SAFETY") || line.contains("# Safety"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_line_says_what_a_file_is() {
        assert!(faults("vm/src/a.rs", "//! Its name.\n").is_empty());
        assert_eq!(faults("vm/src/a.rs", "use core;\n").len(), 1);
        assert_eq!(faults("user/a.c", "int x;\n").len(), 1);
        assert!(faults("scripts/a.sh", "#!/bin/sh\n# Its name.\n").is_empty());
    }

    #[test]
    fn unsafe_stands_where_it_is_allowed_with_its_reason() {
        let bare = "//! X.\nfn f() { unsafe { g() } }\n";
        let reasoned = "//! X.\n// SAFETY: g is fine.\nfn f() { unsafe { g() } }\n";
        assert_eq!(faults("vm/src/a.rs", bare).len(), 1);
        assert!(faults("vm/src/a.rs", reasoned).is_empty());
        assert_eq!(faults("file/src/a.rs", reasoned).len(), 1);
        let told = "//! X.\n//!\n//! *Unsafe*: calls\n//! g.\n// SAFETY: g is fine.\nfn f() { unsafe { g() } }\n";
        assert_eq!(reason(told).as_deref(), Some("calls g"));
        assert!(faults("file/src/a.rs", told).is_empty());
        assert_eq!(faults("abi/src/a.rs", told).len(), 1);
        assert_eq!(
            faults("file/src/a.rs", "//! X.\n//!\n//! *Unsafe*: calls g.\n").len(),
            1
        );
    }

    #[test]
    fn a_comment_keeps_to_its_width() {
        let wide = format!("//! X.\n/// {}\nfn f() {{}}\n", "é".repeat(WIDTH - 3));
        assert_eq!(faults("vm/src/a.rs", &wide).len(), 1);
        let kept = format!("//! X.\n/// {}\nfn f() {{}}\n", "é".repeat(WIDTH - 4));
        assert!(faults("vm/src/a.rs", &kept).is_empty());
    }

    #[test]
    fn a_line_of_c_keeps_to_its_width() {
        let of = |path: &str, width| {
            let text = format!("/* X. */\nchar text[] = \"{}\";\n", "é".repeat(width - 17));
            faults(path, &text).len()
        };
        for path in ["user/tests/a.c", "user/tests/a.h"] {
            assert_eq!((of(path, WIDTH), of(path, WIDTH + 1)), (0, 1));
        }
    }

    #[test]
    fn a_file_keeps_to_its_length() {
        let of = |path: &str, first: &str, lines: usize| {
            let text = format!("{first}\n{}", "\n".repeat(lines - 1));
            faults(path, &text).len()
        };
        for (path, first) in [
            ("vm/src/a.rs", "//! X."),
            ("xtask/src/a.rs", "//! X."),
            ("user/music/src/a.rs", "//! X."),
            ("user/tests/a.c", "/* X. */"),
            ("user/tests/a.h", "/* X. */"),
        ] {
            let count = |lines| of(path, first, lines);
            assert_eq!((count(LENGTH), count(LENGTH + 1)), (0, 1), "{path}");
        }
    }

    #[test]
    fn a_sentence_names_its_subject() {
        let count = |text: &str| faults("vm/src/a.rs", text).len();
        assert_eq!(count("//! X.\n/// Who waits is woken.\nfn f() {}\n"), 1);
        assert_eq!(
            count("//! X.\nfn f() {} // Found. Whoever comes sees it.\n"),
            1
        );
        assert_eq!(
            count("//! X.\n/// A thread who waits. Who is it?\nfn f() {}\n"),
            0
        );
        assert_eq!(count("//! X.\n/// The key ([`Who`]).\nfn f() {}\n"), 0);
        assert_eq!(count("//! X.\nconst S: &str = \"// Who\";\n"), 0);
        assert_eq!(count("//! What it is.\n"), 1);
        assert_eq!(count("//! X.\n/// The rest. What is it?\n"), 0);
        let of = |path: &str, text: &str| faults(path, text).len();
        assert_eq!(of("user/a.c", "/* X.\n * What comes is read. */\n"), 1);
        assert_eq!(of("user/a.c", "/* X. */\nputs(\"What\");\n"), 0);
        assert_eq!(of("tests/a.sh", "# X.\necho What\n# What is left\n"), 1);
        assert_eq!(of("docs/a.md", "# X\n## What it costs\nSee \"What\".\n"), 1);
    }

    #[test]
    fn all_memory_is_named_in_few_places() {
        let names = "//! X.\nfn f() { g(frame.for_routines() as *mut u8) }\n";
        assert_eq!(faults("file/src/a.rs", names).len(), 1);
        assert_eq!(faults("kernel/src/a.rs", names).len(), 1);
        assert!(faults("file/src/tmpfs/page_store.rs", names).is_empty());
        assert!(faults("vm/src/a.rs", names).is_empty());
    }

    #[test]
    fn comments_and_strings_are_no_code() {
        assert!(
            faults(
                "abi/src/a.rs",
                "//! X.\n// unsafe { is a word\nconst S: &str = \"unsafe {\";\n",
            )
            .is_empty()
        );
    }
}
