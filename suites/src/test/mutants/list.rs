//! The list of mutants: small bugs that are planted in a copy of the source, to see whether the tests notice.
//!
//! *Interface*: [`read`] gives all of `tests/mutants`; [`Mutant::place`] where one is in the source. The form
//! of the files is in docs/xtask.md.

use super::super::models::models_of;
use super::on_host::{Kind, parts};
use super::room_source::{lines_of_code, names_a_test};
use std::collections::BTreeSet;
use std::ops::Range;
use std::path::Path;
use xtask::failure::{Context, Failure, HOST, Result};
use xtask::host;

/// Where the files are.
pub const DIRECTORY: &str = "tests/mutants";
/// The names of the quick slice, there.
const SLICE: &str = "slice";

/// One small bug.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Mutant {
    /// Its name, unique.
    pub name: String,
    /// The file it is in, relative to the project.
    pub file: String,
    /// The text around the bug, before it and behind it, so that the place is the only one.
    pub around: [String; 2],
    /// The text in that place.
    pub old: String,
    /// The text with the bug.
    pub new: String,
    /// Suites that should notice, the quickest first: `SUITE`, `SUITE:PART`, `host:ROOM`,
    /// `host:ROOM:PART`, and the same with `models:`.
    pub suites: Vec<String>,
    /// It cannot be switched at run time and is built by itself.
    pub built: bool,
    /// Why no test can notice.
    pub excuse: Option<String>,
}

/// All mutants, by file and line.
pub fn read() -> Result<Vec<Mutant>> {
    let directory = host::project().join(DIRECTORY);
    let entries = std::fs::read_dir(&directory).context(directory.display())?;
    let mut paths: Vec<_> = entries
        .flatten()
        .map(|entry| entry.path())
        .filter(|path| path.extension().is_some_and(|end| end == "txt"))
        .collect();
    paths.sort();
    let mut mutants = Vec::new();
    for path in paths {
        let text = std::fs::read_to_string(&path).context(path.display())?;
        let named = |why| Failure::new(HOST, format!("{}: {why}", path.display()));
        mutants.extend(parse(&text).map_err(named)?);
    }
    Ok(mutants)
}

/// The mutants in the text of one file.
fn parse(text: &str) -> std::result::Result<Vec<Mutant>, String> {
    let mut mutants: Vec<Mutant> = Vec::new();
    let mut file = String::new();
    for (at, line) in text.lines().enumerate() {
        let wrong = |why: &str| format!("line {}: {why}", at + 1);
        let (mark, rest) = line.split_at(line.len().min(1));
        let rest = rest.strip_prefix(' ').unwrap_or(rest);
        match mark {
            "" | "#" => {}
            "@" => file = rest.trim().to_owned(),
            "=" => {
                let (name, suites) = rest.split_once(':').ok_or(wrong("a name and suites"))?;
                let mut suites: Vec<_> = suites.split_whitespace().map(str::to_owned).collect();
                let built = suites.iter().any(|suite| suite == "built");
                suites.retain(|suite| suite != "built");
                mutants.push(Mutant {
                    name: name.trim().to_owned(),
                    file: file.clone(),
                    suites,
                    built,
                    ..Mutant::default()
                });
            }
            "-" | "+" | "!" => {
                let mutant = mutants.last_mut().ok_or(wrong("no mutant yet"))?;
                let part = match mark {
                    "-" => &mut mutant.old,
                    "+" => &mut mutant.new,
                    _ => mutant.excuse.get_or_insert_default(),
                };
                if !part.is_empty() {
                    part.push('\n');
                }
                part.push_str(rest);
            }
            _ => return Err(wrong("begins with none of # @ = - + !")),
        }
    }
    for mutant in &mut mutants {
        if let Some((before, rest)) = mutant.old.split_once("[[")
            && let Some((old, behind)) = rest.rsplit_once("]]")
        {
            mutant.around = [before, behind].map(str::to_owned);
            mutant.old = old.to_owned();
        }
    }
    Ok(mutants)
}

impl Mutant {
    /// Whether its file is of this room.
    pub fn is_in(&self, room: &str) -> bool {
        self.file.split('/').next() == Some(room)
    }

    /// Whether its explanation is that no suite reaches its place.
    pub fn is_out_of_reach(&self) -> bool {
        let excuse = self.excuse.as_deref();
        excuse.is_some_and(|text| text.starts_with("Not reached"))
    }

    /// Where it is in `text`, which is the file's: the one place that reads like it, blanks and line ends
    /// aside.
    pub fn place(&self, text: &str) -> std::result::Result<Range<usize>, String> {
        let mut places = text.char_indices().filter_map(|(at, _)| {
            let start = at + length(&text[at..], &self.around[0])?;
            let end = start + length(&text[start..], &self.old)?;
            length(&text[end..], &self.around[1])?;
            Some(start..end)
        });
        let Mutant { name, file, .. } = self;
        let Some(place) = places.next() else {
            return Err(format!("mutant {name}: {file} has no such text"));
        };
        // With blanks before it, it is the same.
        if places.any(|other| other != place) {
            return Err(format!("mutant {name}: its text is not unique in {file}"));
        }
        Ok(place)
    }

    /// The text for that place, of `old` as it is written, without the bug and with it, by switch `number`.
    pub fn switched(&self, old: &str, number: usize) -> String {
        let new = &self.new;
        let test = format!("if crate::mutant::is({number}) {{ {new} }} else {{ {old} }}");
        if old.ends_with([';', '}']) {
            test
        } else {
            format!("({test})")
        }
    }
}

/// How long the start of `text` is that reads like `like`, if it does: where that has blanks the text may
/// have others, and at its ends none.
fn length(text: &str, like: &str) -> Option<usize> {
    let mut rest = text;
    for (at, word) in like.split_whitespace().enumerate() {
        let trimmed = rest.trim_start();
        if at > 0 && trimmed.len() == rest.len() {
            return None;
        }
        if at > 0 || like.starts_with(char::is_whitespace) {
            rest = trimmed;
        }
        rest = rest.strip_prefix(word)?;
    }
    if like.ends_with(char::is_whitespace) {
        rest = rest.trim_start();
    }
    Some(text.len() - rest.len())
}

/// The faults of the list: one line each. `suites` are the names that there are.
pub fn faults(mutants: &[Mutant], suites: &[&str]) -> Vec<String> {
    let mut faults = Vec::new();
    for (at, mutant) in mutants.iter().enumerate() {
        let name = &mutant.name;
        if mutants[..at].iter().any(|other| other.name == *name) {
            faults.push(format!("mutant {name}: two have this name"));
        }
        if mutant.old == mutant.new {
            faults.push(format!("mutant {name}: it changes nothing"));
        }
        let known = |suite: &&String| {
            let exists = |room: &str| host::project().join(room).join("Cargo.toml").exists();
            match Kind::of(suite) {
                Some((Kind::Host, tests)) => {
                    let (room, part) = parts(tests);
                    exists(room) && (part.is_empty() || names_a_test(room, part))
                }
                Some((Kind::Models, tests)) => models_of(parts(tests).0).is_some(),
                None => suites.contains(&parts(suite).0),
            }
        };
        match mutant.suites.iter().find(|suite| !known(suite)) {
            Some(suite) => faults.push(format!("mutant {name}: no suite is named {suite}")),
            None if mutant.suites.is_empty() => faults.push(format!("mutant {name}: no suite")),
            None => {}
        }
        match std::fs::read_to_string(host::project().join(Path::new(&mutant.file))) {
            Err(error) => faults.push(format!("mutant {name}: {}: {error}", mutant.file)),
            Ok(text) => faults.extend(mutant.place(&text).err()),
        }
    }
    faults
}

/// The names in the text of [`SLICE`].
fn names(text: &str) -> Vec<&str> {
    let lines = text.lines().map(str::trim);
    lines
        .filter(|line| !line.is_empty() && !line.starts_with('#'))
        .collect()
}

/// Those of `mutants` that are in the quick slice.
pub fn slice(mutants: &[Mutant]) -> Result<BTreeSet<String>> {
    let path = host::project().join(DIRECTORY).join(SLICE);
    let text = std::fs::read_to_string(&path).context(path.display())?;
    let known = |name: &&str| mutants.iter().any(|mutant| mutant.name == **name);
    let names = names(&text);
    match names.iter().find(|name| !known(name)) {
        Some(name) => Err(Failure::new(HOST, format!("{SLICE}: no mutant {name}"))),
        None => Ok(names.into_iter().map(str::to_owned).collect()),
    }
}

/// The faults of the quick slice: a name that is none, one that needs a machine, a room without any.
pub fn slice_faults(mutants: &[Mutant]) -> Vec<String> {
    let names = match slice(mutants) {
        Ok(names) => names,
        Err(failure) => return vec![failure.message],
    };
    let chosen = || mutants.iter().filter(|mutant| names.contains(&mutant.name));
    let mut faults = Vec::new();
    for mutant in chosen() {
        if mutant.suites.iter().all(|suite| Kind::of(suite).is_none()) {
            faults.push(format!("{SLICE}: {} has no suite on the host", mutant.name));
        }
    }
    for room in rooms() {
        // Of some rooms nothing runs on the host.
        let may = |mutant: &&Mutant| mutant.suites.iter().any(|suite| Kind::of(suite).is_some());
        let has = chosen().any(|mutant| mutant.is_in(&room));
        if !has && mutants.iter().filter(may).any(|mutant| mutant.is_in(&room)) {
            faults.push(format!("{SLICE}: none of the room {room}"));
        }
    }
    faults
}

/// Folders of the workspace that are no rooms of the kernel.
const NO_ROOMS: &[&str] = &["xtask", "suites", "trials", "tool"];
/// A room has a mutant for so many lines that are neither blank nor comments nor tests, and
const LINES: usize = 400;
/// at least so many.
const LEAST: usize = 3;

/// The rooms of the kernel.
fn rooms() -> Vec<String> {
    let entries = std::fs::read_dir(host::project());
    let names = entries.into_iter().flatten().flatten();
    let mut rooms: Vec<_> = names
        .filter(|entry| entry.path().join("src/lib.rs").exists())
        .filter_map(|entry| entry.file_name().into_string().ok())
        .filter(|name| !NO_ROOMS.contains(&name.as_str()))
        .collect();
    rooms.sort();
    rooms
}

/// The rooms with fewer mutants than their share.
pub fn shares(mutants: &[Mutant]) -> Vec<String> {
    let mut faults = Vec::new();
    for room in rooms() {
        let lines = lines_of_code(&room);
        let share = (lines / LINES).max(LEAST);
        let has = mutants.iter().filter(|mutant| mutant.is_in(&room)).count();
        if has < share {
            faults.push(format!(
                "room {room}: {has} mutants for {lines} lines, {share} are its share"
            ));
        }
    }
    faults
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIST: &str = "# rights\n@ a/src/x.rs\n= one: calls host:linux\n- a + 1\n+ a\n= two: built calls\n- f();\n! none can\n";

    #[test]
    fn a_list_is_read() {
        let mutants = parse(LIST).unwrap();
        assert_eq!(mutants.len(), 2);
        assert_eq!(
            (mutants[0].old.as_str(), mutants[0].new.as_str()),
            ("a + 1", "a")
        );
        assert_eq!(mutants[0].suites, ["calls", "host:linux"]);
        assert_eq!(mutants[1].file, "a/src/x.rs");
        assert!(mutants[1].built && mutants[1].new.is_empty() && mutants[1].suites == ["calls"]);
        assert_eq!(mutants[1].excuse.as_deref(), Some("none can"));
        assert!(parse("- text\n").is_err() && parse("= name\n").is_err() && parse("x\n").is_err());
    }

    #[test]
    fn its_place_is_the_only_one_whatever_the_blanks() {
        let mutant = &parse(LIST).unwrap()[0];
        assert_eq!(mutant.place("let b = a +\n    1;"), Ok(8..17));
        assert!(mutant.place("a+1").is_err());
        assert!(mutant.place("a + 1; a + 1").is_err());
    }

    #[test]
    fn what_stands_around_says_where() {
        let list = parse("@ x\n= one: calls\n- let b =\n-     [[a]] + 1;\n+ 0\n").unwrap();
        let text = "let c = a + 1; let b = a\n + 1;";
        assert_eq!(list[0].place(text), Ok(23..24));
        assert!(list[0].place("let c = a + 1;").is_err());
    }

    #[test]
    fn the_slice_is_a_list_of_names() {
        assert_eq!(names("# a\nb\n\n c\n"), ["b", "c"]);
    }

    #[test]
    fn a_switch_has_both() {
        let mutants = parse(LIST).unwrap();
        let one = mutants[0].switched("a +  1", 7);
        assert_eq!(one, "(if crate::mutant::is(7) { a } else { a +  1 })");
        let two = mutants[1].switched("f();", 8);
        assert_eq!(two, "if crate::mutant::is(8) {  } else { f(); }");
    }
}
