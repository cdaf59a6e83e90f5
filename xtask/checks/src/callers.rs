//! Items without a caller: no function, constant or type of a room that others may use is without one.
//!
//! *Interface*: `faults` of all sources. The compiler judges items that only their own file may use. A name
//! counts as used where code of any room, other than tests and benches, has it as a word, but for where it is
//! defined, and for `use`; so two things of one name stand for each other.

use std::collections::{BTreeMap, BTreeSet};

use syn::visit::{self, Visit};
use syn::{Attribute, ImplItem, Item, UseTree, Visibility};

use super::folders::is_test;
use super::layers::is_beside;

/// Items that have no caller in the code of the rooms and stay: name and reason.
const KEPT: &[(&str, &str)] = &[
    ("push_i8", DYNASM),
    ("push_u16", DYNASM),
    ("push_i16", DYNASM),
    ("push_u64", DYNASM),
    ("local_label", DYNASM),
    ("global_label", DYNASM),
    ("forward_reloc", DYNASM),
    ("backward_reloc", DYNASM),
    ("global_reloc", DYNASM),
    ("dynamic_reloc", DYNASM),
    ("send_message", TWIN),
    ("receive_message", TWIN),
    ("into_spare", STRUCTURE),
    ("put_all", STRUCTURE),
];

/// Why some methods of a draft stay.
const DYNASM: &str = "what `dynasm!` becomes calls it";
/// Why what does a routine's work in Rust stays.
const TWIN: &str = "the routine is compared with it";
/// Why some methods of structures of `sync` stay.
const STRUCTURE: &str = "part of a structure that is measured beside others";

/// One line for each definition that nothing uses. `files` are paths and texts.
pub fn faults(files: &[(String, String)]) -> Result<Vec<String>, String> {
    compare(files, KEPT)
}

fn compare(files: &[(String, String)], kept: &[(&str, &str)]) -> Result<Vec<String>, String> {
    let mut seen = Seen::default();
    let mut defined = Vec::new();
    let parsed = files
        .iter()
        .filter(|(path, _)| in_kernel(path))
        .map(|(path, text)| {
            let file = syn::parse_file(text).map_err(|error| format!("{path}: {error}"))?;
            Ok((path, file))
        })
        .collect::<Result<Vec<_>, String>>()?;
    let tests = only_tests(&parsed);
    for (path, file) in &parsed {
        if !tests.iter().any(|test| path.starts_with(&**test)) {
            seen.visit_file(file);
            definitions(path, &file.items, &mut defined);
        }
    }
    // A definition has its own name once.
    let mut own = BTreeMap::<&str, usize>::new();
    for (_, name) in &defined {
        *own.entry(name).or_default() += 1;
    }
    let unused = |name: &str| seen.0.get(name).copied().unwrap_or(0) <= own[name];
    let mut faults = Vec::new();
    for (path, name) in &defined {
        if unused(name) && !kept.iter().any(|(kept, _)| kept == name) {
            faults.push(format!("{path}: `{name}` has no caller"));
        }
    }
    for (name, _) in kept {
        if !own.contains_key(name) || !unused(name) {
            faults.push(format!(
                "`{name}` is listed as without a caller, and is not"
            ));
        }
    }
    Ok(faults)
}

/// Whether the file is part of some room.
fn in_kernel(path: &str) -> bool {
    path.split_once("/src/")
        .is_some_and(|(room, _)| !room.contains('/') && !is_beside(path))
}

/// Beginnings of the paths of modules that are compiled for tests only.
fn only_tests(files: &[(&String, syn::File)]) -> BTreeSet<String> {
    let mut tests = BTreeSet::new();
    for (path, file) in files {
        let (folder, name) = path.rsplit_once('/').unwrap_or_default();
        let folder = match name {
            "mod.rs" | "lib.rs" | "main.rs" => folder.to_owned(),
            _ => path.trim_end_matches(".rs").to_owned(),
        };
        for item in &file.items {
            if let Item::Mod(module) = item
                && module.content.is_none()
                && is_test(&module.attrs)
            {
                tests.insert(format!("{folder}/{}.rs", module.ident));
                tests.insert(format!("{folder}/{}/", module.ident));
            }
        }
        if path.ends_with("tests.rs") {
            tests.insert((*path).clone());
        }
    }
    tests
}

/// The names that `items` let others use.
fn definitions(path: &str, items: &[Item], found: &mut Vec<(String, String)>) {
    let mut add = |visibility: &Visibility, attributes: &[Attribute], name: &syn::Ident| {
        let exported = |attribute: &Attribute| attribute.path().is_ident("unsafe");
        let open = !matches!(visibility, Visibility::Inherited);
        if open && !is_test(attributes) && !attributes.iter().any(exported) {
            found.push((path.to_owned(), name.to_string()));
        }
    };
    let mut inner = Vec::new();
    for item in items {
        match item {
            Item::Fn(item) => add(&item.vis, &item.attrs, &item.sig.ident),
            Item::Const(item) => add(&item.vis, &item.attrs, &item.ident),
            Item::Static(item) => add(&item.vis, &item.attrs, &item.ident),
            Item::Struct(item) => add(&item.vis, &item.attrs, &item.ident),
            Item::Enum(item) => add(&item.vis, &item.attrs, &item.ident),
            Item::Trait(item) => add(&item.vis, &item.attrs, &item.ident),
            Item::Type(item) => add(&item.vis, &item.attrs, &item.ident),
            Item::Impl(item) if item.trait_.is_none() && !is_test(&item.attrs) => {
                for item in &item.items {
                    match item {
                        ImplItem::Fn(item) => add(&item.vis, &item.attrs, &item.sig.ident),
                        ImplItem::Const(item) => add(&item.vis, &item.attrs, &item.ident),
                        _ => {}
                    }
                }
            }
            Item::Mod(item) if !is_test(&item.attrs) => {
                inner.extend(item.content.iter().map(|(_, items)| items));
            }
            _ => {}
        }
    }
    for items in inner {
        definitions(path, items, found);
    }
}

/// How often each word stands in code.
#[derive(Default)]
struct Seen(BTreeMap<String, usize>);

impl Seen {
    fn text(&mut self, text: &str) {
        for word in text.split(|c: char| !c.is_alphanumeric() && c != '_') {
            if !word.is_empty() {
                *self.0.entry(word.to_owned()).or_default() += 1;
            }
        }
    }

    /// Names that are known by another one from here on.
    fn renamed(&mut self, tree: &UseTree) {
        match tree {
            UseTree::Path(tree) => self.renamed(&tree.tree),
            UseTree::Group(tree) => tree.items.iter().for_each(|tree| self.renamed(tree)),
            UseTree::Rename(tree) => self.text(&tree.ident.to_string()),
            UseTree::Name(_) | UseTree::Glob(_) => {}
        }
    }
}

impl<'a> Visit<'a> for Seen {
    fn visit_item(&mut self, item: &'a Item) {
        let attributes = match item {
            Item::Fn(item) => &item.attrs,
            Item::Mod(item) => &item.attrs,
            Item::Impl(item) => &item.attrs,
            Item::Use(item) => return self.renamed(&item.tree),
            _ => &Vec::new(),
        };
        if !is_test(attributes) {
            visit::visit_item(self, item);
        }
    }

    fn visit_attribute(&mut self, _: &'a Attribute) {}

    fn visit_ident(&mut self, ident: &'a syn::Ident) {
        self.text(&ident.to_string());
    }

    fn visit_macro(&mut self, item: &'a syn::Macro) {
        visit::visit_macro(self, item);
        self.text(&item.tokens.to_string());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn files(texts: &[(&str, &str)]) -> Vec<(String, String)> {
        let owned = |(path, text): &(&str, &str)| ((*path).to_owned(), (*text).to_owned());
        texts.iter().map(owned).collect()
    }

    #[test]
    fn what_nothing_but_tests_and_imports_names_is_found() {
        let files = files(&[
            (
                "a/src/lib.rs",
                "mod b; pub use b::{idle, used}; #[cfg(test)] mod rig; pub struct S; impl S { pub fn m(&self) {} pub fn n() {} }",
            ),
            (
                "a/src/b.rs",
                "pub fn used() {} pub fn idle() {} fn own() {} pub(crate) const C: u8 = 1; #[cfg(test)] mod tests { fn t() { super::idle() } }",
            ),
            ("a/src/rig.rs", "pub fn rig() { crate::idle() }"),
            ("a/tests/t.rs", "fn t() { a::idle() }"),
            (
                "c/src/lib.rs",
                "fn f(s: a::S) { assert!(a::used() == s.m()) }",
            ),
        ]);
        assert_eq!(
            compare(&files, &[]).unwrap(),
            [
                "a/src/lib.rs: `n` has no caller",
                "a/src/b.rs: `idle` has no caller",
                "a/src/b.rs: `C` has no caller"
            ]
        );
        let kept = [("idle", "r"), ("n", "r"), ("C", "r"), ("used", "r")];
        assert_eq!(
            compare(&files, &kept).unwrap(),
            ["`used` is listed as without a caller, and is not"]
        );
    }
}
