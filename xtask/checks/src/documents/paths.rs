//! Paths in documents: each names one file or folder of the tree.
//!
//! *Interface*: `Tree::of` the paths of all files; `Tree::fault` of a path that a document names, in full or
//! by its end. A chapter is about a room: of several files with that end, the room's is meant, and of several
//! in the room the one that stands nearest to the path named before in the same paragraph.

use std::collections::BTreeSet;

/// The endings of the files that documents name.
const ENDINGS: &[&str] = &[
    "rs", "c", "h", "s", "S", "sh", "md", "txt", "toml", "py", "go", "svg", "ld", "js",
];

/// Folders that the tools make.
const MADE: &[&str] = &["build", "target"];

/// Chapters that are about a room or a folder whose name they do not have.
const ABOUT: &[(&str, &str)] = &[
    ("calls", "linux"),
    ("ipc", "process"),
    ("locks", ""),
    ("music", "user/music"),
    ("native", "linux"),
    ("results", "suites/src/bench"),
    ("sockets", "file/src/socket"),
];

/// The files and folders of the project.
pub struct Tree {
    all: BTreeSet<String>,
}

impl Tree {
    /// All files, and the folders that they stand in.
    pub fn of<'a>(files: impl Iterator<Item = &'a str>) -> Self {
        let mut all = BTreeSet::new();
        for file in files {
            all.insert(file.to_owned());
            for (at, _) in file.match_indices('/') {
                all.insert(file[..at].to_owned());
            }
        }
        Self { all }
    }

    /// Whether that is a file or folder, by its full path.
    pub fn has(&self, path: &str) -> bool {
        self.all.contains(path.trim_end_matches('/'))
    }

    /// Whether `text` names a path of the project.
    pub fn is_path(&self, text: &str) -> bool {
        let part = |c: char| c.is_ascii_alphanumeric() || "_./-*".contains(c);
        if text.starts_with(['/', '.', '-']) || !text.chars().all(part) {
            return false;
        }
        let ending = text
            .rsplit_once('.')
            .is_some_and(|(stem, ending)| !stem.is_empty() && ENDINGS.contains(&ending));
        let Some((first, _)) = text.split_once('/') else {
            return ending;
        };
        !MADE.contains(&first) && (ending || text.ends_with('/') || self.has(first))
    }

    /// The file or folder that `text` means in the chapter `chapter` (`docs/file.md`), after the path
    /// `before` of the same paragraph; else what is wrong.
    pub fn find(&self, text: &str, chapter: &str, before: Option<&str>) -> Result<&str, String> {
        let wanted = text.trim_end_matches('/');
        let ends = |path: &&String| {
            matches(path, wanted)
                || path
                    .match_indices('/')
                    .any(|(at, _)| matches(&path[at + 1..], wanted))
        };
        let all: Vec<&str> = self.all.iter().filter(ends).map(|path| &**path).collect();
        if let Some(exact) = all.iter().find(|path| **path == wanted) {
            return Ok(exact);
        }
        let one = |found: &[&str]| found.len() == 1 || wanted.contains('*') && !found.is_empty();
        if all.is_empty() {
            return Err(format!("`{text}` is not there"));
        }
        let stem = chapter.rsplit('/').next().unwrap_or_default();
        let stem = stem.trim_end_matches(".md");
        let about = ABOUT.iter().find(|(name, _)| *name == stem);
        let mut found = below(about.map_or(stem, |(_, folder)| folder), &all);
        if found.is_empty() {
            found.clone_from(&all);
        }
        if one(&found) {
            return Ok(found[0]);
        }
        // The nearest to the path before: in its folder, else in the folder above that, and so on.
        let mut folder = before.unwrap_or_default();
        while !folder.is_empty() {
            for of in [&found, &all] {
                let near = below(folder, of);
                if one(&near) {
                    return Ok(near[0]);
                }
            }
            folder = folder.rsplit_once('/').map_or("", |(above, _)| above);
        }
        Err(format!("`{text}` may be {}", found.join(" or ")))
    }
}

/// Those of the paths that stand in a folder.
fn below<'a>(folder: &str, of: &[&'a str]) -> Vec<&'a str> {
    let inside = |path: &&&str| {
        let rest = path.strip_prefix(folder);
        rest.is_some_and(|rest| rest.starts_with('/')) && !folder.is_empty()
    };
    of.iter().filter(inside).copied().collect()
}

/// Whether a path is what was written, where `*` stands for any part of a name.
fn matches(path: &str, wanted: &str) -> bool {
    let Some((start, end)) = wanted.split_once('*') else {
        return path == wanted;
    };
    let middle = path
        .strip_prefix(start)
        .and_then(|rest| rest.strip_suffix(end));
    middle.is_some_and(|middle| !middle.contains('/'))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tree() -> Tree {
        Tree::of(
            [
                "file/src/fs/walk.rs",
                "file/src/mem/dir.rs",
                "file/src/mem/mod.rs",
                "file/src/share/dir.rs",
                "vm/src/mod.rs",
                "docs/file.md",
                "tests/a-one.txt",
                "tests/a-two.txt",
            ]
            .into_iter(),
        )
    }

    #[test]
    fn a_path_by_its_end_is_found_when_only_one_is_meant() {
        let (tree, file) = (tree(), "docs/file.md");
        let found = |text: &str, before| tree.find(text, file, before);
        assert_eq!(found("fs/walk.rs", None), Ok("file/src/fs/walk.rs"));
        assert_eq!(found("walk.rs", None), Ok("file/src/fs/walk.rs"));
        assert_eq!(found("mem/", None), Ok("file/src/mem"));
        assert_eq!(found("tests/a-*.txt", None), Ok("tests/a-one.txt"));
        assert_eq!(found("docs/file.md", None), Ok(file));
        // The chapter's room, and the folder that the paragraph is about.
        assert_eq!(found("mod.rs", None), Ok("file/src/mem/mod.rs"));
        assert_eq!(
            found("dir.rs", Some("file/src/mem")),
            Ok("file/src/mem/dir.rs")
        );
        assert_eq!(
            found("dir.rs", Some("file/src/mem/mod.rs")),
            Ok("file/src/mem/dir.rs")
        );
        let two = "`dir.rs` may be file/src/mem/dir.rs or file/src/share/dir.rs";
        assert_eq!(found("dir.rs", None), Err(two.into()));
        assert_eq!(
            found("walks.rs", None),
            Err("`walks.rs` is not there".into())
        );
        assert_eq!(found("alk.rs", None), Err("`alk.rs` is not there".into()));
    }

    #[test]
    fn not_everything_with_a_slash_is_a_path() {
        let tree = tree();
        for (text, is) in [
            ("file/src/none", true),
            ("none.rs", true),
            ("share/", true),
            ("queue/twin", false),
            ("/proc/self", false),
            ("build/kernel.log", false),
            ("a b.rs", false),
            ("-h", false),
            ("x.y", false),
        ] {
            assert_eq!(tree.is_path(text), is, "{text}");
        }
    }
}
