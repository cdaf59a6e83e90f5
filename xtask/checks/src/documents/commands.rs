//! Command lines in documents: the commands and options exist.
//!
//! *Interface*: `Door`, which asks the tool for its help; `Door::line` the faults of a command line that
//! begins with the tool's name, `Door::short` of one that leaves the name out, `Door::suite` of a guest test.

use std::collections::BTreeMap;
use xtask::failure::Result;

/// The words before the tool's commands.
pub const TOOL: &str = "cargo xtask ";

/// The tool, by what it tells of itself.
pub struct Door {
    /// The help of each command, and of each command with a word that has a help of its own.
    helps: BTreeMap<String, String>,
    /// The names of the guest tests.
    suites: Vec<String>,
    /// The steps of `check`.
    steps: Vec<String>,
}

impl Door {
    /// Asks the tool: `ask` gives what it prints for these words. `steps` are those of `check`.
    pub fn open(ask: impl Fn(&[&str]) -> Result<String>, steps: Vec<String>) -> Result<Self> {
        let mut helps = BTreeMap::new();
        let commands = ask(&["--help"])?;
        let listed = commands.lines().filter(|line| line.starts_with("  "));
        for command in listed.filter_map(|line| line.split_whitespace().next()) {
            let help = ask(&[command, "--help"])?;
            let apart = format!("{TOOL}{command} ");
            for (_, after) in help
                .match_indices(&apart)
                .map(|(at, found)| help.split_at(at + found.len()))
            {
                let word = after
                    .split(|c: char| !is_word(c))
                    .next()
                    .unwrap_or_default();
                if is_command(word) {
                    helps.insert(
                        format!("{command} {word}"),
                        ask(&[command, word, "--help"])?,
                    );
                }
            }
            helps.insert(command.to_owned(), help);
        }
        let suites = ask(&["test", "--list"])?;
        let first = |line: &str| line.split_whitespace().next().map(str::to_owned);
        Ok(Self {
            helps,
            suites: suites.lines().filter_map(first).collect(),
            steps,
        })
    }

    /// Whether `text` is a command line without the tool's name.
    pub fn is_short(&self, text: &str) -> bool {
        let Some((first, rest)) = text.split_once(' ') else {
            return false;
        };
        let plain = |c: char| is_word(c) || " .|[]=-".contains(c);
        self.helps.contains_key(first) && rest.chars().all(plain)
    }

    /// Whether that is a guest test.
    pub fn suite(&self, name: &str) -> bool {
        self.suites.iter().any(|suite| suite == name)
    }

    /// The faults of the words after the tool's name. `is_name` tells of other words whether they are known.
    pub fn faults(&self, line: &str, is_name: impl Fn(&str) -> bool) -> Vec<String> {
        let end = line.find([';', '#', '>', '<', '&', '\\', '`', '\'', '"']);
        let line = &line[..end.unwrap_or(line.len())];
        // Another program's line, behind a pipe or the two dashes.
        let line = line.split(" | ").next().unwrap_or_default();
        let line = line.split(" -- ").next().unwrap_or_default();
        let mut words = line
            .split(|c: char| c.is_whitespace() || "[]|,()".contains(c))
            .map(|word| word.trim_end_matches(['.', ':']))
            .filter(|word| !word.is_empty())
            .peekable();
        let Some(command) = words.next().filter(|word| is_command(word)) else {
            return Vec::new();
        };
        let Some(mut help) = self.helps.get(command) else {
            return vec![format!("`{TOOL}{command}`: no such command")];
        };
        let mut whole = command.to_owned();
        // The options of words with a help of their own are not the command's.
        let own = own_part(help, command);
        help = &own;
        let apart = words.peek().map(|word| format!("{command} {word}"));
        if let Some((apart, own)) =
            apart.and_then(|apart| Some((apart.clone(), self.helps.get(&apart)?)))
        {
            (whole, help) = (apart, own);
            words.next();
        }
        let mut faults = Vec::new();
        let mut planted = false;
        while let Some(word) = words.next() {
            let word = word.split('=').next().unwrap_or_default();
            if word == "--" {
                break;
            }
            if word.starts_with('-') {
                planted |= word == "--mutants";
                match option(help, word) {
                    Some(true) => {
                        words.next_if(|next| !next.starts_with('-'));
                    }
                    Some(false) => {}
                    None => faults.push(format!("`{TOOL}{whole}` has no option `{word}`")),
                }
                continue;
            }
            if !is_command(word) || planted {
                continue;
            }
            let known = match &*whole {
                "test" => self.suite(word),
                "check" => self
                    .steps
                    .iter()
                    .any(|step| step.split(' ').any(|part| part == word)),
                _ => contains(help, word).is_some() || is_name(word),
            };
            if !known {
                faults.push(format!("`{TOOL}{whole}` takes no `{word}`"));
            }
        }
        faults
    }
}

/// A command's help without the usage of its words that have a help of their own.
fn own_part(help: &str, command: &str) -> String {
    let apart = |line: &&str| {
        let word = line.split_once(&format!("{TOOL}{command} "));
        !word.is_some_and(|(_, after)| after.starts_with(|c: char| c.is_ascii_lowercase()))
    };
    let lines = help.lines().filter(apart);
    lines.fold(String::new(), |all, line| all + line + "\n")
}

/// Whether a help has an option, and whether it takes a value.
fn option(help: &str, word: &str) -> Option<bool> {
    if ["--help", "-h"].contains(&word) {
        return Some(false);
    }
    let after = contains(help, word)?.strip_prefix(' ');
    let next = after.and_then(|rest| rest.split([' ', '\n', ']']).next());
    Some(next.is_some_and(|next| {
        next.contains('|')
            || !next.is_empty()
                && next
                    .chars()
                    .all(|c| c.is_ascii_uppercase() || !c.is_alphabetic())
    }))
}

/// The text behind a whole word of a text.
fn contains<'a>(text: &'a str, word: &str) -> Option<&'a str> {
    let mut found = text
        .match_indices(word)
        .map(|(at, _)| (&text[..at], &text[at + word.len()..]));
    let inside = |c: char| is_word(c) || c == '-';
    let whole =
        |(before, after): &(&str, &str)| !before.ends_with(inside) && !after.starts_with(inside);
    found.find(whole).map(|(_, after)| after)
}

fn is_word(c: char) -> bool {
    c.is_ascii_alphanumeric() || c == '_'
}

/// Whether a word can be a command or another fixed word; capitals stand for what the user chooses.
fn is_command(word: &str) -> bool {
    word.starts_with(|c: char| c.is_ascii_lowercase())
        && word
            .chars()
            .all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_' || c == '-')
}

#[cfg(test)]
mod tests {
    use super::*;

    fn door() -> Door {
        let ask = |words: &[&str]| {
            Ok(match words {
                ["--help"] => "usage: cargo xtask COMMAND\n\n  run [options]  boot\n  bench [NAME...]  figures\n  test  all\n  check\n",
                ["run", _] => "usage: cargo xtask run\n  --cpus N   CPUs\n  --quick  fast\n",
                ["bench", "--help"] => "usage: cargo xtask bench [--json FILE]\n   cargo xtask bench late [--long]\n",
                ["bench", "late", _] => "usage: cargo xtask bench late [--long | --only here|there]\n",
                ["test", "--list"] => "calls   all\ncli  the line\n",
                ["test", _] => "usage: cargo xtask test [--quick] [--mutants] [NAME...]\n",
                _ => "usage: cargo xtask check [STEP...]\n",
            }
            .to_owned())
        };
        Door::open(ask, vec!["lists".into(), "clippy for the kernel".into()]).unwrap()
    }

    #[test]
    fn commands_options_and_names_must_exist() {
        let door = door();
        let faults = |line: &str| door.faults(line, |word| word == "getpid");
        for good in [
            "run --cpus 2 -- ./program --any thing",
            "run --cpus 4 -- sh -c 'x'; echo $?",
            "bench getpid --json FILE",
            "bench late --only here --long",
            "bench late [--long]",
            "test --quick calls | head -1",
            "test --mutants [NAME...]",
            "check lists   # one step",
            "COMMAND --help",
            "",
        ] {
            assert_eq!(faults(good), Vec::<String>::new(), "{good}");
        }
        for bad in [
            "boot",
            "run --cpu 2",
            "bench gotpid",
            "bench --long",
            "bench late --json FILE",
            "test called",
            "check list",
        ] {
            assert_eq!(faults(bad).len(), 1, "{bad}");
        }
    }

    #[test]
    fn a_command_without_the_name_of_the_tool_is_recognized() {
        let door = door();
        assert!(door.is_short("bench late --long") && door.is_short("check lists"));
        assert!(
            !door.is_short("test rsi, rsi; js slow")
                && !door.is_short("bench")
                && !door.is_short("make it")
        );
    }
}
