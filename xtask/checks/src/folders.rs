//! The files and folders of a room: no circle between those that stand beside each other, at any level.
//!
//! *Interface*: `faults` of all sources; `is_test`. The parts of a folder are the modules directly in it: a
//! file, or a folder with all that is in it and the file of its name. Two parts know each other by an arrow:
//! a path in the one that leads to an item of the other, whatever re-exports it passes. A circle of arrows
//! between the parts of one folder is a fault, from a room's `src` down to its deepest folder. Tests do not
//! count, and methods do not: what is called by a value's type alone is not seen.
//!
//! A module and its children are no parts of one folder, so they may know each other. A child is a piece of
//! its parent that has a file of its own: it sees the parent's private fields, often it implements some of
//! its methods, and the parent holds its types. A path from child to child by way of the parent counts where
//! the parent re-exports the item; the parent's own items are the common ground of its children.
//!
//! A circle that stands has its reason in [`STANDING`], with its parts. It is a fault when it is another one.
//!
//! Source: `docs/architecture.md`, the picture of the rooms.

use std::collections::{BTreeMap, BTreeSet};

use syn::visit::{self, Visit};
use syn::{Attribute, Item, ItemMod, ItemUse, UseTree};

/// Circles that stand: folder, parts, reason.
const STANDING: &[(&str, &[&str], &str)] = &[
    (
        "file/src/fs",
        &[
            "context",
            "dentry",
            "dirents",
            "file",
            "fsnotify",
            "inactive",
            "inactive_inodes",
            "inode",
            "lease",
            "lockfree_walk",
            "meta",
            "mount",
            "parent_cache",
            "path_cache",
            "published",
            "write_count",
        ],
        "the tree of names, inodes and open files know each other; a redesign is to part names from files",
    ),
    (
        "file/src/p9",
        &["file", "node", "pager"],
        "an inode opens files, and tells them when it outgrows its pages; an open file and its pages are of an inode",
    ),
    (
        "file/src/socket",
        &[
            "ancillary",
            "channel",
            "family",
            "inet",
            "local",
            "message",
            "netlink",
            "record",
        ],
        "a socket's record can carry what any family sends with it, and the table of families names them all",
    ),
    (
        "machine/src/trap",
        &["mitigated", "pti"],
        "entries and exits in assembly, which jump into each other",
    ),
    (
        "process/src/process",
        &[
            "debug", "flows", "rseq", "signals", "task", "tracee", "tree", "usage", "waiter",
        ],
        "a task holds a part of each of these, whose steps take the task",
    ),
    (
        "process/src/signal",
        &[
            "coredump",
            "deliver",
            "ptrace_stop",
            "rlimit_cpu",
            "rseq",
            "send",
            "take",
            "timer_signals",
        ],
        "to deliver may send (to a parent, to all threads), and to send may deliver",
    ),
    (
        "quaject/src/kit",
        &["assembly", "class", "interfacer"],
        "a class's header holds links, a link's target emits into an assembly, and that notes the header",
    ),
    (
        "thread/src/ring",
        &[
            "budget",
            "chain",
            "cpu_timer",
            "granularity",
            "idle_cpus",
            "per_cpu",
            "ready",
            "reschedule_ipi",
        ],
        "a CPU's data holds its ring, its chain and the length of its turns, whose steps arm that CPU's timer or interrupt it",
    ),
];

/// Packages beside the rooms: only the parts of their `src` count.
const BESIDE: &[&str] = &["xtask", "xtask/checks", "suites", "user/music"];

/// Files that stand for the folder they are in.
const OWNERS: &[&str] = &["lib", "main", "mod"];

/// Re-exports that a path is followed through, at most.
const FOLLOWED: usize = 8;

/// The modules above an item, from the room's root.
type Path = Vec<String>;

/// Arrows of a folder: from part to part, with a file that has it and the path there.
type Arrows = BTreeMap<String, BTreeMap<String, String>>;

/// Lines for each circle. `files` are paths and texts.
pub fn faults(files: &[(String, String)]) -> Result<Vec<String>, String> {
    let mut rooms = BTreeMap::<&str, Vec<(&str, syn::File)>>::new();
    for (path, text) in files {
        if let Some((room, inside)) = path.split_once("/src/") {
            let file = syn::parse_file(text).map_err(|error| format!("{path}: {error}"))?;
            rooms.entry(room).or_default().push((inside, file));
        }
    }
    let mut faults = Vec::new();
    let mut standing = STANDING.to_vec();
    for (room, files) in &rooms {
        let all = !BESIDE.contains(room);
        for (folder, arrows) in arrows(files).iter().filter(|(at, _)| all || at.is_empty()) {
            faults.extend(told(room, folder, arrows, &mut standing));
        }
    }
    let needless = |(folder, ..): &(&str, &[&str], &str)| {
        format!("{folder}: the circle that is to stand there does not")
    };
    faults.extend(standing.iter().map(needless));
    Ok(faults)
}

/// The circles of the `arrows` in `folder`, with a file for each arrow in them; those of `standing` are taken
/// out of it instead.
fn told(
    room: &str,
    folder: &[String],
    arrows: &Arrows,
    standing: &mut Vec<(&str, &[&str], &str)>,
) -> Vec<String> {
    let name = match folder {
        [] => format!("{room}/src"),
        _ => format!("{room}/src/{}", folder.join("/")),
    };
    let mut faults = Vec::new();
    for circle in circles(arrows) {
        let parts: Vec<&str> = circle.iter().copied().collect();
        let stands =
            |(folder, known, _): &(&str, &[&str], &str)| *folder == name && *known == parts;
        if let Some(at) = standing.iter().position(stands) {
            standing.remove(at);
            continue;
        }
        faults.push(format!("{name}: a circle of {}", parts.join(", ")));
        for (from, to) in arrows.iter().filter(|(from, _)| circle.contains(&***from)) {
            for (to, place) in to.iter().filter(|(to, _)| circle.contains(&***to)) {
                faults.push(format!("  {from} -> {to}: {room}/src/{place}"));
            }
        }
    }
    faults
}

/// The sets of parts each of which leads to each other.
fn circles(arrows: &Arrows) -> Vec<BTreeSet<&str>> {
    let reached: BTreeMap<&str, BTreeSet<&str>> = arrows
        .keys()
        .map(|from| (&**from, reach(arrows, from)))
        .collect();
    let both = |a: &str, b: &str| {
        let leads = |from: &str, to: &str| reached.get(from).is_some_and(|set| set.contains(to));
        leads(a, b) && leads(b, a)
    };
    let mut found: Vec<BTreeSet<&str>> = Vec::new();
    for part in reached.keys() {
        if found.iter().any(|circle| circle.contains(part)) {
            continue;
        }
        let circle: BTreeSet<&str> = reached
            .keys()
            .copied()
            .filter(|other| both(part, other))
            .collect();
        if circle.len() > 1 {
            found.push(circle);
        }
    }
    found
}

/// The parts that `from` leads to.
fn reach<'a>(arrows: &'a Arrows, from: &str) -> BTreeSet<&'a str> {
    let mut reached = BTreeSet::new();
    let mut next: Vec<&str> = vec![from];
    while let Some(part) = next.pop() {
        for to in arrows.get(part).into_iter().flat_map(|to| to.keys()) {
            if reached.insert(&**to) {
                next.push(to);
            }
        }
    }
    reached
}

/// A file's module.
struct Module<'a> {
    file: &'a str,
    /// The names that it has by `use`, and the words of their paths.
    names: BTreeMap<String, Path>,
    /// The modules of which it takes all names.
    globs: Vec<Path>,
    /// The names of its own items.
    items: BTreeSet<String>,
    /// The paths in it, made absolute as far as `crate` and `super` go.
    paths: BTreeSet<Path>,
    /// All words of its code.
    words: BTreeSet<String>,
}

/// The modules of a room.
struct Room<'a>(BTreeMap<Path, Module<'a>>);

/// The arrows in each folder of a room, of which these are the files.
fn arrows(files: &[(&str, syn::File)]) -> BTreeMap<Path, Arrows> {
    let mut found = BTreeMap::<Path, Arrows>::new();
    let room = Room::new(files);
    for (from, module) in &room.0 {
        for (to, path) in room.known(from, module) {
            let common = from.iter().zip(&to).take_while(|(a, b)| a == b).count();
            if let (Some(part), Some(other)) = (from.get(common), to.get(common)) {
                let arrows = found.entry(from[..common].to_vec()).or_default();
                let to = arrows.entry(part.clone()).or_default();
                to.entry(other.clone())
                    .or_insert_with(|| format!("{} ({})", module.file, path.join("::")));
            }
        }
    }
    found
}

impl<'a> Room<'a> {
    fn new(files: &'a [(&'a str, syn::File)]) -> Room<'a> {
        let path = |file: &str| -> Path {
            let mut words: Path = file
                .trim_end_matches(".rs")
                .split('/')
                .map(str::to_owned)
                .collect();
            words.pop_if(|last| OWNERS.contains(&&**last));
            words
        };
        let mut tests = Vec::new();
        for (file, code) in files {
            for item in &code.items {
                if let Item::Mod(item) = item
                    && is_test(&item.attrs)
                {
                    let mut test = path(file);
                    test.push(item.ident.to_string());
                    tests.push(test);
                }
            }
        }
        let mut modules = BTreeMap::new();
        for (file, code) in files {
            let path = path(file);
            let named = file.ends_with("tests.rs") || file.contains("/tests/");
            if named || tests.iter().any(|test| path.starts_with(test)) {
                continue;
            }
            let mut reader = Reader {
                at: path.clone(),
                module: Module {
                    file,
                    names: BTreeMap::new(),
                    globs: Vec::new(),
                    items: code.items.iter().filter_map(name_of).collect(),
                    paths: BTreeSet::new(),
                    words: BTreeSet::new(),
                },
            };
            reader.visit_file(code);
            modules.insert(path, reader.module);
        }
        Room(modules)
    }

    /// The modules whose items `module` at `from` knows, with the paths there.
    fn known(&self, from: &Path, module: &Module) -> Vec<(Path, Path)> {
        let mut paths: Vec<Path> = Vec::new();
        for path in &module.paths {
            paths.extend(self.seen(from, path));
        }
        for glob in &module.globs {
            let Some(whole) = self.seen(from, glob).and_then(|path| self.owner(&path, 0)) else {
                continue;
            };
            let names = self
                .0
                .get(&whole)
                .into_iter()
                .flat_map(|module| module.names.keys());
            for name in names.filter(|name| module.words.contains(*name)) {
                paths.push([&whole[..], std::slice::from_ref(name)].concat());
            }
        }
        let mut known = Vec::new();
        for path in paths {
            known.extend(self.owner(&path, 0).map(|owner| (owner, path)));
        }
        known
    }

    /// `path`, which stands in the module `from`, seen from the room's root: None where it leads out of the
    /// room.
    fn seen(&self, from: &[String], path: &[String]) -> Option<Path> {
        let (first, rest) = path.split_first()?;
        let under = |above: &[String]| [above, path].concat();
        if first == "crate" {
            return Some(rest.to_vec());
        }
        let child = under(from);
        if self.0.contains_key(&child[..=from.len()]) {
            return Some(child);
        }
        let named = self.0.get(from)?.names.get(first)?;
        let begin = named.first()?;
        if begin == first && named.len() == 1 {
            return None;
        }
        let whole = match &**begin {
            "crate" => named[1..].to_vec(),
            _ if self.0.contains_key(&[from, &named[..1]].concat()) => [from, &named[..]].concat(),
            _ => return None,
        };
        Some([&whole[..], rest].concat())
    }

    /// The module that has the item at `path`, followed through what modules re-export.
    fn owner(&self, path: &[String], depth: usize) -> Option<Path> {
        let length = (0..=path.len())
            .rev()
            .find(|length| self.0.contains_key(&path[..*length]))?;
        let (above, rest) = path.split_at(length);
        let module = &self.0[above];
        let Some((name, behind)) = rest.split_first().filter(|_| depth < FOLLOWED) else {
            return Some(above.to_vec());
        };
        if let Some(named) = module.names.get(name) {
            let whole = match named.first().map(|word| &**word) {
                Some("crate") => Some(named[1..].to_vec()),
                _ if *named == [name.clone()] => None,
                _ => self.seen(above, named),
            };
            // Another package's.
            let whole = whole?;
            return match whole[..] == *path {
                true => Some(above.to_vec()),
                false => self.owner(&[&whole[..], behind].concat(), depth + 1),
            };
        }
        if !module.items.contains(name) {
            for glob in &module.globs {
                let from = self
                    .seen(above, glob)
                    .and_then(|glob| self.owner(&glob, depth + 1));
                if let Some(from) = from
                    && self.0[&from].items.contains(name)
                {
                    return Some(from);
                }
            }
        }
        Some(above.to_vec())
    }
}

/// The name that an item has in its module.
fn name_of(item: &Item) -> Option<String> {
    Some(match item {
        Item::Const(item) => item.ident.to_string(),
        Item::Enum(item) => item.ident.to_string(),
        Item::Fn(item) => item.sig.ident.to_string(),
        Item::Mod(item) => item.ident.to_string(),
        Item::Static(item) => item.ident.to_string(),
        Item::Struct(item) => item.ident.to_string(),
        Item::Trait(item) => item.ident.to_string(),
        Item::Type(item) => item.ident.to_string(),
        Item::Union(item) => item.ident.to_string(),
        _ => return None,
    })
}

/// The paths of `tree`, with the name that each is known by.
fn leaves(tree: &UseTree, path: &mut Path, found: &mut Vec<(Path, String)>) {
    match tree {
        UseTree::Path(tree) => {
            path.push(tree.ident.to_string());
            leaves(&tree.tree, path, found);
            path.pop();
        }
        UseTree::Group(tree) => tree.items.iter().for_each(|item| leaves(item, path, found)),
        UseTree::Name(tree) => {
            let name = tree.ident.to_string();
            let mut whole = path.clone();
            if name == "self" {
                let known = path.last().cloned().unwrap_or_default();
                found.push((whole, known));
            } else {
                whole.push(name.clone());
                found.push((whole, name));
            }
        }
        UseTree::Rename(tree) => {
            let mut whole = path.clone();
            if tree.ident != "self" {
                whole.push(tree.ident.to_string());
            }
            found.push((whole, tree.rename.to_string()));
        }
        UseTree::Glob(_) => found.push((path.clone(), "*".to_owned())),
    }
}

/// Reads the code of a file.
struct Reader<'a> {
    /// The modules above the code, those inside the file too.
    at: Path,
    module: Module<'a>,
}

impl Reader<'_> {
    /// `words` with `crate` in front instead of `super` and `self`.
    fn absolute(&self, words: Path) -> Path {
        let Some(first) = words
            .first()
            .filter(|first| *first == "super" || *first == "self")
        else {
            return words;
        };
        let up = words.iter().take_while(|word| *word == "super").count();
        let rest = &words[if *first == "self" { 1 } else { up }..];
        let above = &self.at[..self.at.len().saturating_sub(up)];
        let root = ["crate".to_owned()];
        [&root[..], above, rest].concat()
    }

    /// Notes a path in code.
    fn add(&mut self, words: Path) {
        if words.len() > 1 {
            let path = self.absolute(words);
            self.module.paths.insert(path);
        }
    }
}

/// Whether what has these attributes is there for tests only.
pub fn is_test(attributes: &[Attribute]) -> bool {
    attributes.iter().any(|attribute| {
        let list = attribute.meta.require_list();
        attribute.path().is_ident("cfg")
            && list.is_ok_and(|list| {
                let words = list.tokens.to_string();
                words.contains("test") && !words.replace("not (loom)", "").contains("not")
            })
    })
}

impl<'a> Visit<'a> for Reader<'_> {
    fn visit_item(&mut self, item: &'a Item) {
        let attributes = match item {
            Item::Fn(item) => &item.attrs,
            Item::Impl(item) => &item.attrs,
            _ => &Vec::new(),
        };
        if !is_test(attributes) {
            visit::visit_item(self, item);
        }
    }

    fn visit_item_mod(&mut self, item: &'a ItemMod) {
        if is_test(&item.attrs) {
            return;
        }
        self.at.push(item.ident.to_string());
        visit::visit_item_mod(self, item);
        self.at.pop();
    }

    fn visit_item_use(&mut self, item: &'a ItemUse) {
        if is_test(&item.attrs) {
            return;
        }
        let mut found = Vec::new();
        leaves(&item.tree, &mut Vec::new(), &mut found);
        for (path, name) in found {
            let path = self.absolute(path);
            if name == "*" {
                self.module.globs.push(path);
                continue;
            }
            self.module.paths.insert(path.clone());
            self.module.names.insert(name, path);
        }
    }

    fn visit_path(&mut self, path: &'a syn::Path) {
        let words = path.segments.iter().map(|part| part.ident.to_string());
        self.add(words.collect());
        visit::visit_path(self, path);
    }

    fn visit_ident(&mut self, ident: &'a syn::Ident) {
        self.module.words.insert(ident.to_string());
    }

    fn visit_macro(&mut self, item: &'a syn::Macro) {
        visit::visit_macro(self, item);
        let tokens = item.tokens.to_string();
        let mut path = Path::new();
        let mut colons = 0;
        let is_word = |c: char| c.is_alphanumeric() || c == '_';
        // Words, and the signs between them.
        for part in tokens.split_inclusive(|c: char| !is_word(c)) {
            let word = part.trim_end_matches(|c: char| !is_word(c));
            if !word.is_empty() {
                self.module.words.insert(word.to_owned());
                if colons != 2 {
                    self.add(core::mem::take(&mut path));
                }
                path.push(word.to_owned());
                colons = 0;
            }
            match &part[word.len()..] {
                ":" => colons += 1,
                " " | "" => {}
                _ => {
                    self.add(core::mem::take(&mut path));
                    colons = 0;
                }
            }
        }
        self.add(path);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn room(files: &[(&str, &str)]) -> BTreeMap<Path, Arrows> {
        let files: Vec<_> = files
            .iter()
            .map(|(path, text)| (*path, syn::parse_file(text).unwrap()))
            .collect();
        arrows(&files)
    }

    fn lines(files: &[(&str, &str)]) -> Vec<String> {
        let told = |(folder, arrows): (&Path, &Arrows)| told("r", folder, arrows, &mut Vec::new());
        room(files).iter().flat_map(told).collect()
    }

    #[test]
    fn a_circle_is_found_by_whatever_path() {
        let found = lines(&[
            ("lib.rs", "mod a; mod b; mod c; pub use c::made;"),
            ("a/mod.rs", "use super::b::x;"),
            ("a/deep.rs", "fn f() { super::super::c::x() }"),
            ("b.rs", "use crate::{made, d};"),
            (
                "c.rs",
                "mod inner { use super::super::a; } #[cfg(test)] mod tests { use crate::b; }",
            ),
            ("d.rs", ""),
            ("d/tests/mod.rs", "use crate::a;"),
        ]);
        assert_eq!(
            found,
            [
                "r/src: a circle of a, b, c",
                "  a -> b: r/src/a/mod.rs (b::x)",
                "  a -> c: r/src/a/deep.rs (c::x)",
                "  b -> c: r/src/b.rs (made)",
                "  c -> a: r/src/c.rs (a)",
            ]
        );
    }

    #[test]
    fn a_circle_is_found_in_a_folder_and_behind_a_re_export() {
        let found = lines(&[
            ("lib.rs", "mod a;"),
            ("a/mod.rs", "mod b; mod c; pub use b::X; pub use c::*;"),
            ("a/b.rs", "fn f() { assert!(super::y(1)) }"),
            ("a/c.rs", "use super::X; pub fn y(_: u8) -> bool { true }"),
        ]);
        let expected = [
            "r/src/a: a circle of b, c",
            "  b -> c: r/src/a/b.rs (a::y)",
            "  c -> b: r/src/a/c.rs (a::X)",
        ];
        assert_eq!(found, expected);
    }

    #[test]
    fn all_names_of_the_parent_are_those_that_are_used() {
        let parent = ("a/mod.rs", "mod b; mod c; mod d; use b::B; use c::C;");
        let child = ("a/b.rs", "use super::*; fn f(_: C) {}");
        let other = |text| lines(&[parent, child, ("a/c.rs", text), ("a/d.rs", "")]);
        assert_eq!(other("use super::b::B;").len(), 3);
        assert_eq!(other("use super::d::D;"), Vec::<String>::new());
    }

    #[test]
    fn a_parent_and_its_children_may_know_each_other() {
        let found = lines(&[
            ("lib.rs", "mod a;"),
            (
                "a.rs",
                "mod b; mod c; pub struct A(b::B); fn f() { c::g() }",
            ),
            ("a/b.rs", "use super::A; pub struct B;"),
            ("a/c.rs", "use super::{A, b}; pub fn g() {}"),
        ]);
        assert_eq!(found, Vec::<String>::new());
    }

    #[test]
    fn a_circle_that_stands_is_that_one() {
        let arrows = room(&[("a.rs", "use crate::b;"), ("b.rs", "use crate::a;")]);
        let left = |parts: &'static [&str]| {
            let mut standing = vec![("r/src", parts, "why")];
            let told = told("r", &[], &arrows[&Path::new()], &mut standing);
            (told.len(), standing.len())
        };
        assert_eq!(left(&["a", "b"]), (0, 0));
        assert_eq!(left(&["a", "b", "c"]), (3, 1));
    }

    #[test]
    fn a_straight_line_is_none() {
        let straight = lines(&[("a.rs", "use crate::b;"), ("b.rs", "use self::a;")]);
        assert_eq!(straight, Vec::<String>::new());
    }
}
