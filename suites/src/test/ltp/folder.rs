//! Suites that stand ready in a folder: programs, and a list of cases.
//!
//! *Interface*: [`Folder::open`] reads the list, `cases`, of lines `NAME COMMAND`; a guest has the whole
//! folder as [`PLACE`].

use super::guest::{Case, Files};
use super::posix;
use std::path::{Path, PathBuf};
use xtask::failure::{Context, Failure, Result, USAGE};

/// Where a guest has the folder.
pub const PLACE: &str = "/ltp/folder";

/// Seconds that a case may take: some measure for minutes.
const SECONDS: u64 = 600;

/// A folder with programs, and its cases.
pub struct Folder {
    path: PathBuf,
    /// The cases, in the list's order.
    pub cases: Vec<Case>,
}

impl Folder {
    /// The folder at `path`.
    ///
    /// # Errors
    /// It has no list, or one with a line that is no case.
    pub fn open(path: &Path) -> Result<Self> {
        let list = path.join("cases");
        let text = std::fs::read_to_string(&list).context(list.display())?;
        let cases = parse(&text)
            .map_err(|line| Failure::new(USAGE, format!("{}: {line}?", list.display())))?;
        Ok(Self {
            path: path.to_owned(),
            cases,
        })
    }
}

fn parse(text: &str) -> std::result::Result<Vec<Case>, String> {
    let lines = text.lines().filter(|line| !line.is_empty());
    lines
        .map(|line| {
            let (name, command) = line.split_once(' ').ok_or(line)?;
            Ok((name.to_owned(), command.to_owned()))
        })
        .collect()
}

impl Files for Folder {
    fn files(&self, _: &[&str]) -> Result<Vec<(PathBuf, String)>> {
        let all = (self.path.clone(), PLACE.to_owned());
        Ok(std::iter::once(all).chain(posix::libraries()).collect())
    }

    fn seconds(&self) -> u64 {
        SECONDS
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_case_has_a_name_and_a_command() {
        let cases = parse("a x y\n\nb cd z && ./b\n").unwrap();
        let wanted = [("a", "x y"), ("b", "cd z && ./b")];
        assert_eq!(
            cases,
            wanted.map(|(name, command)| (name.to_owned(), command.to_owned()))
        );
        assert_eq!(parse("a\n"), Err("a".to_owned()));
    }
}
