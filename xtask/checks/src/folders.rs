//! The parts of a room: no circle between them.
//!
//! *Interface*: `faults` of all sources. A part is what stands directly in a room's `src`: a file, or a
//! folder with all that is in it. An arrow is a path that begins with `crate`, or with as many `super` as
//! lead there; what the room's root takes from a part is that part's. Tests do not count.
//!
//! Source: `docs/architecture.md`, the picture of the rooms.

use std::collections::{BTreeMap, BTreeSet};

use syn::visit::{self, Visit};
use syn::{Attribute, Item, ItemMod, ItemUse, UseTree};

/// Files that stand for the room itself.
const ROOTS: &[&str] = &["lib", "main"];

/// Arrows of a room: from part to part, with a file that has it.
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
    for (room, files) in &rooms {
        faults.extend(told(room, &arrows(files)));
    }
    Ok(faults)
}

/// The circles of `arrows`, with a file for each arrow in them.
fn told(room: &str, arrows: &Arrows) -> Vec<String> {
    let mut faults = Vec::new();
    for circle in circles(arrows) {
        let parts: Vec<&str> = circle.iter().copied().collect();
        faults.push(format!("{room}: a circle of {}", parts.join(", ")));
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

fn arrows(files: &[(&str, syn::File)]) -> Arrows {
    let part = |path: &str| {
        let top = path.split('/').next().unwrap_or_default();
        top.trim_end_matches(".rs").to_owned()
    };
    let parts: BTreeSet<String> = files.iter().map(|(path, _)| part(path)).collect();
    // The names that the root takes from a part.
    let mut taken = BTreeMap::new();
    for (_, file) in files
        .iter()
        .filter(|(path, _)| ROOTS.contains(&&*part(path)))
    {
        for item in &file.items {
            if let Item::Use(item) = item {
                let mut names = Vec::new();
                leaves(&item.tree, &mut Vec::new(), &mut names);
                for (path, name) in names {
                    let first = path
                        .iter()
                        .find(|word| !matches!(&***word, "self" | "crate"));
                    if let Some(first) = first.filter(|first| parts.contains(*first)) {
                        taken.insert(name, first.clone());
                    }
                }
            }
        }
    }
    let mut arrows = Arrows::new();
    for (path, file) in files {
        let from = part(path);
        if ROOTS.contains(&&*from) || path.ends_with("tests.rs") || path.contains("/tests/") {
            continue;
        }
        let inside = path.trim_end_matches(".rs").trim_end_matches("/mod");
        let mut paths = Paths {
            depth: inside.split('/').count(),
            found: BTreeSet::new(),
        };
        paths.visit_file(file);
        for name in paths.found {
            let to = taken.get(&name).unwrap_or(&name);
            if *to != from && parts.contains(to) {
                let to = arrows.entry(from.clone()).or_default().entry(to.clone());
                to.or_insert_with(|| (*path).to_owned());
            }
        }
    }
    arrows
}

/// The paths of `tree`, with the name that each is known by.
fn leaves(tree: &UseTree, path: &mut Vec<String>, found: &mut Vec<(Vec<String>, String)>) {
    match tree {
        UseTree::Path(tree) => {
            path.push(tree.ident.to_string());
            leaves(&tree.tree, path, found);
            path.pop();
        }
        UseTree::Group(tree) => tree.items.iter().for_each(|item| leaves(item, path, found)),
        UseTree::Name(name) => {
            let name = name.ident.to_string();
            let known = match &*name {
                "self" => path.last().cloned().unwrap_or_default(),
                _ => name.clone(),
            };
            let mut whole = path.clone();
            whole.push(name);
            found.push((whole, known));
        }
        UseTree::Rename(tree) => {
            let mut whole = path.clone();
            whole.push(tree.ident.to_string());
            found.push((whole, tree.rename.to_string()));
        }
        UseTree::Glob(_) => {
            let known = path.last().cloned().unwrap_or_default();
            found.push((path.clone(), known));
        }
    }
}

/// The first words of the paths in a file, seen from the room's root.
struct Paths {
    /// How many modules stand above the code.
    depth: usize,
    found: BTreeSet<String>,
}

impl Paths {
    fn add<'a>(&mut self, mut words: impl Iterator<Item = &'a str>) {
        let mut depth = self.depth;
        let first = loop {
            match words.next() {
                Some("crate") => {
                    depth = 0;
                    break words.next();
                }
                Some("super") => depth = depth.saturating_sub(1),
                Some("self") => {}
                other => break other,
            }
        };
        if let Some(first) = first.filter(|_| depth == 0) {
            self.found.insert(first.to_owned());
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

impl<'a> Visit<'a> for Paths {
    fn visit_item_mod(&mut self, item: &'a ItemMod) {
        if is_test(&item.attrs) {
            return;
        }
        self.depth += 1;
        visit::visit_item_mod(self, item);
        self.depth -= 1;
    }

    fn visit_item_use(&mut self, item: &'a ItemUse) {
        if is_test(&item.attrs) {
            return;
        }
        let mut found = Vec::new();
        leaves(&item.tree, &mut Vec::new(), &mut found);
        for (path, _) in found {
            self.add(path.iter().map(|word| &**word));
        }
    }

    fn visit_path(&mut self, path: &'a syn::Path) {
        let words: Vec<String> = path
            .segments
            .iter()
            .map(|part| part.ident.to_string())
            .collect();
        if matches!(words.first().map(|word| &**word), Some("crate" | "super")) {
            self.add(words.iter().map(|word| &**word));
        }
        visit::visit_path(self, path);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn room(files: &[(&str, &str)]) -> Arrows {
        let files: Vec<_> = files
            .iter()
            .map(|(path, text)| (*path, syn::parse_file(text).unwrap()))
            .collect();
        arrows(&files)
    }

    #[test]
    fn a_circle_is_found_by_whatever_path() {
        let arrows = room(&[
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
        let a: BTreeSet<&str> = ["a", "b", "c"].into();
        assert_eq!(circles(&arrows), core::slice::from_ref(&a));
        assert_eq!(
            told("r", &arrows)[..2],
            ["r: a circle of a, b, c", "  a -> b: r/src/a/mod.rs"]
        );
    }

    #[test]
    fn a_straight_line_is_none() {
        let straight = room(&[("a.rs", "use crate::b;"), ("b.rs", "use self::a;")]);
        assert_eq!(told("r", &straight), Vec::<String>::new());
    }
}
