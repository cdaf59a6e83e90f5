//! The known outcomes of LTP's cases: `tests/ltp/expected.txt`.
//!
//! *Interface*: [`Expected::read`]; [`Expected::wanted`] are the cases of a run.

use xtask::failure::{Context, Failure, Result, USAGE};
use xtask::host;

const FILE: &str = "tests/ltp/expected.txt";

/// Cases by what is known of them, in the file's order.
#[derive(Default, Debug, PartialEq, Eq)]
pub struct Expected {
    /// Pass, and belong to the part that always runs.
    pub part: Vec<String>,
    /// Pass too.
    pub long: Vec<String>,
    /// Fail, each with the reason.
    pub fails: Vec<(String, String)>,
}

impl Expected {
    /// Reads the file.
    ///
    /// # Errors
    /// It is not there or not of its form.
    pub fn read() -> Result<Self> {
        let text = std::fs::read_to_string(host::project().join(FILE)).context(FILE)?;
        Self::parse(&text).map_err(|told| Failure::new(USAGE, format!("{FILE}: {told}")))
    }

    fn parse(text: &str) -> std::result::Result<Self, String> {
        let mut expected = Self::default();
        let mut under = None;
        for line in text.lines().filter(|line| !line.starts_with('#')) {
            if let Some(title) = line.strip_prefix("@ ") {
                under = Some(title.trim());
                continue;
            }
            for name in line.split_whitespace().map(str::to_owned) {
                match under {
                    Some("part") => expected.part.push(name),
                    Some("long") => expected.long.push(name),
                    Some(title) => match title.strip_prefix("fails ") {
                        Some(reason) => expected.fails.push((name, reason.to_owned())),
                        None => return Err(format!("what is `@ {title}`?")),
                    },
                    None => return Err(format!("{name} stands under no title")),
                }
            }
        }
        let mut names: Vec<_> = expected.names().collect();
        names.sort_unstable();
        match names.windows(2).find(|pair| pair[0] == pair[1]) {
            Some(pair) => Err(format!("{} stands there twice", pair[0])),
            None => Ok(expected),
        }
    }

    fn names(&self) -> impl Iterator<Item = &String> {
        let fails = self.fails.iter().map(|(name, _)| name);
        self.part.iter().chain(&self.long).chain(fails)
    }

    /// The cases of a run.
    pub fn wanted(&self, long: bool) -> Vec<String> {
        if long {
            self.names().cloned().collect()
        } else {
            self.part.clone()
        }
    }

    /// Why a case is known to fail.
    pub fn reason(&self, name: &str) -> Option<&str> {
        let known = self.fails.iter().find(|(known, _)| known == name);
        known.map(|(_, reason)| reason.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_file_is_of_its_form() {
        let expected = Expected::read().map_err(|failure| failure.message);
        assert!(!expected.unwrap().part.is_empty());
    }

    #[test]
    fn titles_group_names() {
        let text = "# x\n@ part\na b\nc\n@ long\nd\n@ fails no disk\ne\n";
        let expected = Expected::parse(text).unwrap();
        assert_eq!(expected.wanted(false), ["a", "b", "c"]);
        assert_eq!(expected.wanted(true), ["a", "b", "c", "d", "e"]);
        assert_eq!(
            (expected.reason("e"), expected.reason("d")),
            (Some("no disk"), None)
        );
    }

    #[test]
    fn a_name_stands_under_one_title() {
        assert!(Expected::parse("a\n").is_err());
        assert!(Expected::parse("@ other\na\n").is_err());
        assert!(Expected::parse("@ part\na\n@ fails x\na\n").is_err());
    }
}
