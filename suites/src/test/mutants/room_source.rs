//! The contents of the source of a room: its lines of code, and its tests on the host by name.
//!
//! *Interface*: [`lines_of_code`], [`names_a_test`].

use std::path::{Path, PathBuf};
use xtask::host;

/// The lines of code of `room`, but for files of tests.
pub fn lines_of_code(room: &str) -> usize {
    let files = files_below(&host::project().join(room).join("src"));
    let is_code = |path: &&PathBuf| {
        let within = path.strip_prefix(host::project()).unwrap_or(path);
        let is_test =
            |name: &str| name == "tests" || name.ends_with("_tests") || name.ends_with("model");
        let mut names = within
            .iter()
            .map(|name| Path::new(name).file_stem().unwrap_or(name));
        !names.any(|name| is_test(&name.to_string_lossy()))
    };
    files
        .iter()
        .filter(is_code)
        .map(|path| lines(&read(path)))
        .sum()
}

/// Lines of code in `text`: neither blank nor a comment, nor behind the start of its tests.
fn lines(text: &str) -> usize {
    let code = text.split("\n#[cfg(test)]\nmod ").next().unwrap_or(text);
    let lines = code.lines().map(str::trim);
    lines
        .filter(|line| !line.is_empty() && !line.starts_with("//"))
        .count()
}

/// Whether a test of `room` has `part` in its name, which begins with the modules that it is in.
pub fn names_a_test(room: &str, part: &str) -> bool {
    ["src", "tests"].iter().any(|folder| {
        let folder = host::project().join(room).join(folder);
        files_below(&folder).iter().any(|path| {
            let within = path.strip_prefix(&folder).unwrap_or(path);
            let mut names = functions(within, &read(path)).into_iter();
            names.any(|name| name.contains(part))
        })
    })
}

/// The names of the functions in `text`, the source at `path` of a room. Those that are no tests are among
/// them: macros make tests, too.
fn functions(path: &Path, text: &str) -> Vec<String> {
    let path = path.with_extension("");
    let modules = path.iter().map(|word| word.to_string_lossy());
    let modules: Vec<_> = modules
        .filter(|word| !matches!(&**word, "mod" | "lib"))
        .collect();
    let modules = modules.join("::");
    let mut inner = "";
    let mut names = Vec::new();
    for line in text.lines().map(str::trim_start) {
        if let Some(rest) = line.strip_prefix("mod ")
            && rest.ends_with('{')
        {
            inner = first_word(rest);
        } else if let Some(rest) = line.strip_prefix("fn ") {
            let words = [modules.as_str(), inner, first_word(rest)];
            let words = words.into_iter().filter(|word| !word.is_empty());
            names.push(words.collect::<Vec<_>>().join("::"));
        }
    }
    names
}

fn first_word(text: &str) -> &str {
    let end = text.find(|c: char| !c.is_alphanumeric() && c != '_');
    &text[..end.unwrap_or(text.len())]
}

fn read(path: &Path) -> String {
    std::fs::read_to_string(path).unwrap_or_default()
}

/// The files of Rust below `folder`.
fn files_below(folder: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    let mut files = Vec::new();
    for path in entries.map(|entry| entry.path()) {
        if path.is_dir() {
            files.extend(files_below(&path));
        } else if path.extension().is_some_and(|end| end == "rs") {
            files.push(path);
        }
    }
    files
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_code_are_counted() {
        let text = "//! x\n\nfn f() {\n    // y\n}\n\n#[cfg(test)]\nmod tests {\n}\n";
        assert_eq!(lines(text), 2);
    }

    #[test]
    fn a_test_is_named_with_its_modules() {
        let text = "fn f() {\n}\nmod tests {\n    #[test]\n    fn holds() {\n";
        let names = functions(Path::new("queue/mod.rs"), text);
        assert_eq!(names, ["queue::f", "queue::tests::holds"]);
        assert_eq!(functions(Path::new("lib.rs"), "fn f<T>()"), ["f"]);
        assert!(names_a_test("suites", "tests::a_test_is_named_with"));
        assert!(!names_a_test("suites", "queue::tests::holds"));
    }
}
