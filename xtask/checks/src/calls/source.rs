//! The use of Linux's names in the kernel's sources: read from their syntax.
//!
//! *Interface*: `Sources::read` takes the files; `Sources::calls` are the numbers that have a handler;
//! `Sources::deeds` is all that the code reached from one does with names. Code is reached by the names of
//! functions and methods, so more may seem to be than is.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use syn::visit::{self, Visit};
use syn::{Arm, Block, Expr, ImplItemFn, Item, ItemConst, ItemFn, Local, Pat, Stmt, UseTree};

/// Names of constants.
pub type Names = BTreeSet<String>;

/// The use of names in a piece of code.
#[derive(Default, Clone, Debug)]
pub struct Deeds {
    /// Looked at, each by itself.
    pub used: Names,
    /// Known as one of several, or answered by nothing.
    pub taken: Names,
    /// Refused by name, with the error.
    pub refused: BTreeMap<String, String>,
    /// Sets of names beside which everything is refused with the error.
    pub limits: Vec<(Names, String)>,
}

impl Deeds {
    /// The deeds of code that was reached before hold: the nearer code decides whether the other gets
    /// there.
    fn add(&mut self, other: &Deeds) {
        let refused = other.refused.iter();
        let refused: Vec<_> = refused
            .filter(|(name, _)| !self.used.contains(*name) && !other.used.contains(*name))
            .map(|(name, error)| (name.clone(), error.clone()))
            .collect();
        let used = other.used.iter();
        let used: Vec<_> = used
            .filter(|name| !self.refused.contains_key(*name))
            .cloned()
            .collect();
        self.refused.extend(refused);
        self.used.extend(used);
        self.taken.extend(other.taken.iter().cloned());
        self.limits.extend(other.limits.iter().cloned());
    }
}

/// How a call is answered that does nothing.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Plain {
    /// With this error.
    Error(String),
    /// With a value.
    Value,
}

#[derive(Default)]
struct Function {
    file: usize,
    name: String,
    /// The type whose it is.
    of: Option<String>,
    deeds: Deeds,
    /// The functions that it calls or names: the qualifier and the name; a method has the qualifier `.`.
    calls: BTreeSet<(String, String)>,
}

struct File {
    module: String,
    imports: BTreeMap<String, (String, String)>,
}

struct Handler {
    function: usize,
    plain: Option<Plain>,
}

/// The sources of a room.
#[derive(Default)]
pub struct Sources {
    files: Vec<File>,
    functions: Vec<Function>,
    named: BTreeMap<String, Vec<usize>>,
    handlers: BTreeMap<String, Handler>,
}

/// The names of a family's tables.
const TABLES: &[&str] = &["CALLS", "FRAMED"];

/// Errors that say of a flag that it is not known.
const UNKNOWN: &[&str] = &["EINVAL", "ENOSYS", "EOPNOTSUPP"];

/// Methods of the language's own types: what has such a name here is not followed.
const OF_THE_LANGUAGE: &[&str] = &[
    "add", "all", "any", "as_ref", "bytes", "clone", "cmp", "drain", "drop", "end", "eq", "extend",
    "filter", "find", "fmt", "from", "get", "index", "insert", "into", "is_empty", "iter", "len",
    "load", "lock", "map", "name", "new", "next", "parent", "pop", "push", "put", "remove",
    "replace", "set", "start", "store", "swap", "take", "with", "write", "read", "clear", "count",
];

impl Sources {
    /// From the text of each file, with its path.
    pub fn read(texts: &[(String, String)]) -> Result<Self, String> {
        let mut sources = Self::default();
        let mut parsed = Vec::new();
        let mut constants = Constants::default();
        for (path, text) in texts {
            let file = syn::parse_file(text).map_err(|error| format!("{path}: {error}"))?;
            constants.shared(&file.items);
            parsed.push((path, file));
        }
        for (path, file) in &parsed {
            let stem = path.trim_end_matches(".rs").trim_end_matches("/mod");
            let module = stem.rsplit('/').next().unwrap_or_default().to_owned();
            let mut imports = BTreeMap::new();
            for item in &file.items {
                if let Item::Use(item) = item {
                    import(&item.tree, "", &mut imports);
                }
            }
            sources.files.push(File { module, imports });
            let mut own = constants.clone();
            own.of(&file.items);
            sources.items(&file.items, None, &own);
        }
        for (number, function) in sources.functions.iter().enumerate() {
            sources
                .named
                .entry(function.name.clone())
                .or_default()
                .push(number);
        }
        Ok(sources)
    }

    fn items(&mut self, items: &[Item], of: Option<&str>, constants: &Constants) {
        for item in items {
            match item {
                Item::Fn(ItemFn { sig, block, .. }) => {
                    self.function(sig.ident.to_string(), of, block, constants);
                }
                Item::Impl(item) => {
                    let of = match &*item.self_ty {
                        syn::Type::Path(path) => path.path.segments.last(),
                        _ => None,
                    };
                    let of = of.map(|segment| segment.ident.to_string());
                    for part in &item.items {
                        if let syn::ImplItem::Fn(ImplItemFn { sig, block, .. }) = part {
                            self.function(sig.ident.to_string(), of.as_deref(), block, constants);
                        }
                    }
                }
                Item::Trait(item) => {
                    let of = item.ident.to_string();
                    for part in &item.items {
                        if let syn::TraitItem::Fn(function) = part
                            && let Some(block) = &function.default
                        {
                            self.function(
                                function.sig.ident.to_string(),
                                Some(&of),
                                block,
                                constants,
                            );
                        }
                    }
                }
                Item::Mod(item) if item.ident != "tests" => {
                    if let Some((_, items)) = &item.content {
                        self.items(items, of, constants);
                    }
                }
                Item::Const(item) if TABLES.iter().any(|name| item.ident == name) => {
                    self.handlers(&item.expr, constants);
                }
                _ => {}
            }
        }
    }

    fn function(&mut self, name: String, of: Option<&str>, block: &Block, constants: &Constants) {
        let mut reader = Reader::new(constants);
        reader.visit_block(block);
        self.note(name, of.map(str::to_owned), reader);
    }

    fn note(&mut self, name: String, of: Option<String>, reader: Reader) -> usize {
        self.functions.push(Function {
            file: self.files.len() - 1,
            name,
            of,
            deeds: reader.deeds,
            calls: reader.calls,
        });
        self.functions.len() - 1
    }

    /// The table of a family of calls.
    fn handlers(&mut self, table: &Expr, constants: &Constants) {
        let Expr::Reference(table) = table else {
            return;
        };
        let Expr::Array(table) = &*table.expr else {
            return;
        };
        for row in &table.elems {
            let Expr::Tuple(row) = row else { continue };
            let (Some(Expr::Path(number)), Some(answer)) = (row.elems.first(), row.elems.get(1))
            else {
                continue;
            };
            let Some(number) = number.path.segments.last() else {
                continue;
            };
            let number = number.ident.to_string().to_lowercase();
            let plain = match answer {
                Expr::Closure(closure) => plain(&closure.body),
                _ => None,
            };
            let mut reader = Reader::new(constants);
            reader.visit_expr(answer);
            let function = self.note(format!("{number} itself"), None, reader);
            self.handlers.insert(number, Handler { function, plain });
        }
    }

    /// The calls that have a handler, by name, and what those are answered with that do nothing.
    pub fn calls(&self) -> BTreeMap<&str, Option<&Plain>> {
        let calls = self.handlers.iter();
        calls
            .map(|(name, handler)| (name.as_str(), handler.plain.as_ref()))
            .collect()
    }

    /// The deeds of the code that answers `call`.
    pub fn deeds(&self, call: &str) -> Deeds {
        let mut deeds = Deeds::default();
        let mut reached = BTreeSet::new();
        let first = self.handlers.get(call).map(|handler| handler.function);
        let mut ahead: VecDeque<usize> = first.into_iter().collect();
        while let Some(number) = ahead.pop_front() {
            if !reached.insert(number) {
                continue;
            }
            let function = &self.functions[number];
            deeds.add(&function.deeds);
            for (of, name) in &function.calls {
                ahead.extend(self.called(function, of, name));
            }
        }
        deeds
    }

    /// Whether any code looks at `name`: flags that a call keeps are looked at by others.
    pub fn looks_at(&self, name: &str) -> bool {
        self.functions
            .iter()
            .any(|function| function.deeds.used.contains(name))
    }

    /// The functions that `name`, said in `caller` with a qualifier, may mean.
    fn called(&self, caller: &Function, qualifier: &str, name: &str) -> Vec<usize> {
        let file = &self.files[caller.file];
        let (mut qualifier, mut name) = (qualifier, name);
        if qualifier == "." {
            if OF_THE_LANGUAGE.contains(&name) {
                return Vec::new();
            }
            let methods = self.named.get(name).into_iter().flatten().copied();
            return methods
                .filter(|&number| self.functions[number].of.is_some())
                .collect();
        }
        if qualifier.is_empty() {
            let here = self.named.get(name).into_iter().flatten().copied();
            let here: Vec<_> = here
                .filter(|&number| self.functions[number].file == caller.file)
                .collect();
            if !here.is_empty() {
                return here;
            }
            match file.imports.get(name) {
                Some((of, original)) => (qualifier, name) = (of, original),
                None => return Vec::new(),
            }
        } else if let Some((_, original)) = file.imports.get(qualifier) {
            qualifier = original;
        }
        let own = match qualifier {
            "Self" => caller.of.as_deref(),
            _ => None,
        };
        let named = self.named.get(name).into_iter().flatten().copied();
        named
            .filter(|&number| {
                let function = &self.functions[number];
                let of = function.of.as_deref();
                match own {
                    Some(own) => of == Some(own),
                    None => of == Some(qualifier) || self.files[function.file].module == qualifier,
                }
            })
            .collect()
    }
}

fn import(tree: &UseTree, above: &str, into: &mut BTreeMap<String, (String, String)>) {
    match tree {
        UseTree::Path(path) => import(&path.tree, &path.ident.to_string(), into),
        UseTree::Name(name) if name.ident == "self" => {
            into.insert(above.to_owned(), (String::new(), above.to_owned()));
        }
        UseTree::Name(name) => {
            let name = name.ident.to_string();
            into.insert(name.clone(), (above.to_owned(), name));
        }
        UseTree::Rename(name) => {
            let original = match name.ident == "self" {
                true => above.to_owned(),
                false => name.ident.to_string(),
            };
            into.insert(name.rename.to_string(), (above.to_owned(), original));
        }
        UseTree::Group(group) => {
            for tree in &group.items {
                import(tree, above, into);
            }
        }
        UseTree::Glob(_) => {}
    }
}

/// Constants that stand for others.
#[derive(Default, Clone)]
struct Constants(BTreeMap<String, Names>);

impl Constants {
    /// Those of a file, for itself.
    fn of(&mut self, items: &[Item]) {
        for item in items {
            if let Item::Const(item) = item {
                self.note(item.ident.to_string(), &item.expr);
            }
        }
    }

    /// Those of a file, for others.
    fn shared(&mut self, items: &[Item]) {
        for item in items {
            if let Item::Const(item) = item
                && !matches!(item.vis, syn::Visibility::Inherited)
            {
                self.note(item.ident.to_string(), &item.expr);
            }
        }
    }

    fn note(&mut self, name: String, value: &Expr) {
        let parts = self.names(value);
        if parts.is_empty() {
            self.0.remove(&name);
        } else {
            self.0.insert(name, parts);
        }
    }

    /// The names in `value`, without such as stand for others.
    fn names(&self, value: &Expr) -> Names {
        let mut words = Words::default();
        words.visit_expr(value);
        let names = words.0.iter().flat_map(|word| self.meant(word));
        names.collect()
    }

    fn meant(&self, word: &str) -> Names {
        match self.0.get(word) {
            Some(names) => names.clone(),
            None if is_constant(word) => Names::from([word.to_owned()]),
            None => Names::new(),
        }
    }
}

fn is_constant(word: &str) -> bool {
    word.len() > 2
        && word.starts_with(|c: char| c.is_ascii_uppercase())
        && word
            .chars()
            .all(|c| c.is_ascii_uppercase() || c.is_ascii_digit() || c == '_')
}

/// The last words of all paths.
#[derive(Default)]
struct Words(BTreeSet<String>);

impl Visit<'_> for Words {
    fn visit_path(&mut self, path: &syn::Path) {
        let ends_in_error = path
            .segments
            .first()
            .is_some_and(|first| first.ident == "Errno");
        if let Some(last) = path.segments.last().filter(|_| !ends_in_error) {
            self.0.insert(last.ident.to_string());
        }
        visit::visit_path(self, path);
    }

    fn visit_macro(&mut self, text: &syn::Macro) {
        for word in text
            .tokens
            .to_string()
            .split(|c: char| !(c.is_alphanumeric() || c == '_'))
        {
            if is_constant(word) {
                self.0.insert(word.to_owned());
            }
        }
    }
}

/// Reads one function.
struct Reader {
    constants: Constants,
    deeds: Deeds,
    calls: BTreeSet<(String, String)>,
}

impl Reader {
    fn new(constants: &Constants) -> Self {
        Self {
            constants: constants.clone(),
            deeds: Deeds::default(),
            calls: BTreeSet::new(),
        }
    }

    /// One word of the code: a constant that means one thing is looked at.
    fn word(&mut self, word: &str) {
        let names = self.constants.meant(word);
        if names.len() == 1 && is_constant(word) {
            self.deeds.used.extend(names);
        } else {
            self.deeds.taken.extend(names);
        }
    }

    /// A condition whose case is refused with `error`.
    fn refusal(&mut self, condition: &Expr, error: &str) {
        match condition {
            Expr::Paren(inner) => self.refusal(&inner.expr, error),
            Expr::Binary(both) if matches!(both.op, syn::BinOp::Or(_)) => {
                self.refusal(&both.left, error);
                self.refusal(&both.right, error);
            }
            Expr::Binary(test) if matches!(test.op, syn::BinOp::Ne(_)) => {
                match some_bits(&test.left) {
                    Some((mask, true)) => self.limit(mask, error),
                    // Other errors say that something is not so, not that the flag is unknown.
                    Some((mask, false)) if UNKNOWN.contains(&error) => {
                        for name in self.constants.names(mask) {
                            self.deeds.refused.insert(name, error.to_owned());
                        }
                    }
                    Some((mask, false)) => self.visit_expr(mask),
                    None => {
                        self.visit_expr(condition);
                        let only = self.constants.names(&test.right);
                        if !only.is_empty() {
                            self.deeds.limits.push((only, error.to_owned()));
                        }
                    }
                }
            }
            _ => self.visit_expr(condition),
        }
    }

    fn limit(&mut self, mask: &Expr, error: &str) {
        let names = self.constants.names(mask);
        self.deeds.taken.extend(names.iter().cloned());
        self.deeds.limits.push((names, error.to_owned()));
    }
}

/// The mask of `x & mask`, and whether it is the complement that is left.
fn some_bits(expr: &Expr) -> Option<(&Expr, bool)> {
    match expr {
        Expr::Paren(inner) => some_bits(&inner.expr),
        Expr::Binary(both) if matches!(both.op, syn::BinOp::BitAnd(_)) => {
            let inverted = complement(&both.right).map(|mask| (mask, true));
            Some(inverted.unwrap_or((&both.right, false)))
        }
        _ => None,
    }
}

fn complement(mask: &Expr) -> Option<&Expr> {
    match mask {
        Expr::Cast(cast) => complement(&cast.expr),
        Expr::Unary(not) if matches!(not.op, syn::UnOp::Not(_)) => Some(&not.expr),
        _ => None,
    }
}

/// The kind of an expression that does nothing.
fn plain(expr: &Expr) -> Option<Plain> {
    match expr {
        Expr::Return(it) => plain(it.expr.as_ref()?),
        Expr::Paren(it) => plain(&it.expr),
        Expr::Lit(_) => Some(Plain::Value),
        Expr::Tuple(it) if it.elems.is_empty() => Some(Plain::Value),
        Expr::Block(it) => match &it.block.stmts[..] {
            [] => Some(Plain::Value),
            [Stmt::Expr(one, _)] => plain(one),
            _ => None,
        },
        Expr::Call(call) => {
            let Expr::Path(what) = &*call.func else {
                return None;
            };
            match (
                what.path.get_ident()?.to_string().as_str(),
                call.args.first()?,
            ) {
                ("Ok", value) => plain(value),
                ("Err", Expr::Path(error)) => {
                    let error = error.path.segments.last()?.ident.to_string();
                    Some(Plain::Error(error))
                }
                _ => None,
            }
        }
        _ => None,
    }
}

fn refused(expr: &Expr) -> Option<String> {
    match plain(expr)? {
        Plain::Error(error) => Some(error),
        Plain::Value => None,
    }
}

fn refused_block(block: &Block) -> Option<String> {
    match &block.stmts[..] {
        [Stmt::Expr(one, _)] => refused(one),
        _ => None,
    }
}

/// Whether a pattern is for all the rest.
fn is_rest(arm: &Arm) -> bool {
    arm.guard.is_none()
        && match &arm.pat {
            Pat::Wild(_) => true,
            Pat::Ident(pat) => !is_constant(&pat.ident.to_string()),
            _ => false,
        }
}

fn pattern_names(constants: &Constants, pat: &Pat) -> Names {
    struct Found<'a>(&'a Constants, Names);
    impl Visit<'_> for Found<'_> {
        fn visit_ident(&mut self, word: &syn::Ident) {
            let word = word.to_string();
            if is_constant(&word) {
                self.1.extend(self.0.meant(&word));
            }
        }
    }
    let mut found = Found(constants, Names::new());
    found.visit_pat(pat);
    found.1
}

impl Visit<'_> for Reader {
    fn visit_item_const(&mut self, item: &ItemConst) {
        self.constants.note(item.ident.to_string(), &item.expr);
    }

    fn visit_local(&mut self, local: &Local) {
        if let (Pat::Ident(name), Some(init)) = (&local.pat, &local.init)
            && is_union(&init.expr)
        {
            self.constants.note(name.ident.to_string(), &init.expr);
        } else {
            visit::visit_local(self, local);
        }
    }

    fn visit_expr_if(&mut self, it: &syn::ExprIf) {
        match refused_block(&it.then_branch) {
            Some(error) => self.refusal(&it.cond, &error),
            None => self.visit_expr(&it.cond),
        }
        self.visit_block(&it.then_branch);
        if let Some((_, other)) = &it.else_branch {
            self.visit_expr(other);
        }
    }

    fn visit_expr_match(&mut self, it: &syn::ExprMatch) {
        self.visit_expr(&it.expr);
        let rest = it.arms.iter().find(|arm| is_rest(arm));
        let rest = rest.and_then(|arm| refused(&arm.body));
        let mut known = Names::new();
        for arm in &it.arms {
            let names = pattern_names(&self.constants, &arm.pat);
            match plain(&arm.body).filter(|_| arm.guard.is_none()) {
                Some(Plain::Error(error)) => {
                    let refused = names.iter().map(|name| (name.clone(), error.clone()));
                    self.deeds.refused.extend(refused);
                }
                Some(Plain::Value) if !says_number(&arm.body) => {
                    self.deeds.taken.extend(names.clone());
                }
                _ => self.deeds.used.extend(names.clone()),
            }
            known.extend(names);
            if let Some((_, guard)) = &arm.guard {
                // Only what has no other bits gets here: the rest is refused.
                match (guard_limit(guard), &rest) {
                    (Some(mask), Some(error)) => self.limit(mask, error),
                    _ => self.visit_expr(guard),
                }
            }
            self.visit_expr(&arm.body);
        }
        if let Some(error) = rest.filter(|_| !known.is_empty()) {
            self.deeds.limits.push((known, error));
        }
    }

    fn visit_expr_binary(&mut self, it: &syn::ExprBinary) {
        if matches!(it.op, syn::BinOp::BitAnd(_))
            && let Some(mask) = complement(&it.right)
        {
            self.visit_expr(&it.left);
            let names = self.constants.names(mask);
            self.deeds.taken.extend(names);
        } else {
            visit::visit_expr_binary(self, it);
        }
    }

    fn visit_expr_method_call(&mut self, it: &syn::ExprMethodCall) {
        self.calls.insert((".".to_owned(), it.method.to_string()));
        visit::visit_expr_method_call(self, it);
    }

    fn visit_expr_path(&mut self, it: &syn::ExprPath) {
        let words: Vec<_> = it
            .path
            .segments
            .iter()
            .map(|s| s.ident.to_string())
            .collect();
        let Some((last, before)) = words.split_last() else {
            return;
        };
        if before.last().is_some_and(|of| of == "Errno" || of == "nr") {
            return;
        }
        self.word(last);
        let of = before.last().cloned().unwrap_or_default();
        self.calls.insert((of, last.clone()));
    }

    fn visit_macro(&mut self, text: &syn::Macro) {
        let mut words = Words::default();
        words.visit_macro(text);
        for word in words.0 {
            self.word(&word);
        }
    }
}

/// `x & !mask == 0`: the mask.
fn guard_limit(guard: &Expr) -> Option<&Expr> {
    match guard {
        Expr::Binary(test) if matches!(test.op, syn::BinOp::Eq(_)) => {
            match some_bits(&test.left)? {
                (mask, true) => Some(mask),
                _ => None,
            }
        }
        _ => None,
    }
}

/// Whether all that is there is names joined by `|`.
fn is_union(expr: &Expr) -> bool {
    match expr {
        Expr::Paren(it) => is_union(&it.expr),
        Expr::Cast(it) => is_union(&it.expr),
        Expr::Binary(it) => {
            matches!(it.op, syn::BinOp::BitOr(_)) && is_union(&it.left) && is_union(&it.right)
        }
        Expr::Path(it) => it
            .path
            .segments
            .last()
            .is_some_and(|s| is_constant(&s.ident.to_string())),
        _ => false,
    }
}

/// Whether an arm is a number that the rest goes on with.
fn says_number(body: &Expr) -> bool {
    matches!(body, Expr::Lit(_))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn deeds(code: &str) -> Deeds {
        let text = format!(
            "use a::other;\n\
             pub const CALLS: &[(usize, Handler)] = &[(nr::ONE, one), (nr::TWO, |_| Err(Errno::EPERM))];\n\
             pub const FRAMED: &[(usize, Framed)] = &[(nr::THREE, three)];\n\
             {code}"
        );
        let other = "pub fn other(x: u32) { if x & FLAG_FAR != 0 { act() } }".to_owned();
        let files = [("x/b.rs".to_owned(), text), ("x/a.rs".to_owned(), other)];
        let sources = Sources::read(&files).unwrap();
        assert_eq!(
            sources.calls()["two"],
            Some(&Plain::Error("EPERM".to_owned()))
        );
        assert_eq!(sources.calls()["three"], None);
        sources.deeds("one")
    }

    fn names(list: &[&str]) -> Names {
        list.iter().map(|name| (*name).to_owned()).collect()
    }

    #[test]
    fn a_mask_is_the_limit_of_what_is_known() {
        let deeds = deeds(
            "const ALL: u32 = FLAG_A | FLAG_B;\n\
             fn one(a: &mut Args) { let f = a.uint(0); if f & !ALL != 0 || f == 7 { return Err(Errno::EINVAL); } \
             if f & FLAG_A != 0 { act() } }",
        );
        assert_eq!(deeds.used, names(&["FLAG_A"]));
        assert_eq!(deeds.taken, names(&["FLAG_A", "FLAG_B"]));
        assert_eq!(
            deeds.limits,
            [(names(&["FLAG_A", "FLAG_B"]), "EINVAL".to_owned())]
        );
    }

    #[test]
    fn arms_are_done_refused_or_taken() {
        let deeds = deeds(
            "fn one(a: &mut Args) { match a.int(0) { CMD_A => act(), CMD_B | CMD_C => Err(Errno::EPERM), CMD_D => {}, \
             _ => Err(Errno::ENOTTY) } }",
        );
        assert_eq!(deeds.used, names(&["CMD_A"]));
        assert_eq!(deeds.taken, names(&["CMD_D"]));
        assert_eq!(deeds.refused.len(), 2);
        assert_eq!(deeds.limits[0].1, "ENOTTY");
    }

    #[test]
    fn code_is_reached_through_other_files() {
        assert_eq!(
            deeds("fn one(a: &mut Args) { other(1) }").used,
            names(&["FLAG_FAR"])
        );
        assert!(deeds("fn one(a: &mut Args) { strange(1) }").used.is_empty());
    }

    #[test]
    fn the_nearer_code_decides() {
        let near =
            "fn one(a: &mut Args) { if f & FLAG_FAR != 0 { return Err(Errno::EINVAL); } other(f) }";
        assert_eq!(deeds(near).refused["FLAG_FAR"], "EINVAL");
        assert!(deeds(near).used.is_empty());
    }
}
