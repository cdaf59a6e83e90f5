//! The programs by name, and how they begin and end.
//!
//! *Interface*: [`main`]. A program is found by the name of the link that was called, or by the first word.
//! Its words are described in a table ([`words`]), from which its help comes, too.

mod describing;
mod failure;
mod files;
mod filtering;
mod generating;
mod told;
mod transport;
mod words;

use failure::{Failure, USAGE};
use std::ffi::OsString;
use std::path::Path;
use std::process::ExitCode;
use words::{Given, Word};

/// A program.
pub struct Program {
    name: &'static str,
    about: &'static str,
    /// The words it must or may have, in order.
    words: &'static [Word],
    /// The name of further words, of which it wants one at least.
    rest: Option<&'static str>,
    options: &'static [Word],
    run: fn(&Given) -> Result<(), Failure>,
}

/// All of them.
fn programs() -> impl Iterator<Item = &'static Program> {
    [
        transport::PROGRAMS,
        generating::PROGRAMS,
        filtering::PROGRAMS,
        describing::PROGRAMS,
    ]
    .into_iter()
    .flatten()
}

/// Runs the program that the words name: the first is the name that was called.
pub fn main(words: Vec<OsString>) -> ExitCode {
    let mut words = words.into_iter();
    let called = words.next().unwrap_or_default();
    let called = Path::new(&called).file_name().unwrap_or_default();
    let named = |name: &std::ffi::OsStr| programs().find(|program| name == program.name);
    let (program, words) = match named(called) {
        Some(program) => (Some(program), words.collect()),
        None => {
            let first = words.next();
            let help = first
                .as_ref()
                .is_none_or(|word| word == "--help" || word == "-h");
            if help {
                print!("{}", list());
                return ExitCode::SUCCESS;
            }
            let first = first.unwrap_or_default();
            if first == "--links" {
                programs().for_each(|program| println!("{}", program.name));
                return ExitCode::SUCCESS;
            }
            if named(&first).is_none() {
                let name = first.to_string_lossy();
                eprintln!("music: no program is named `{name}`; `music --help` lists them");
                return ExitCode::from(USAGE);
            }
            (named(&first), words.collect::<Vec<_>>())
        }
    };
    program.map_or(ExitCode::SUCCESS, |program| start(program, words))
}

fn start(program: &'static Program, words: Vec<OsString>) -> ExitCode {
    let result = match Given::parse(program.words, program.rest, program.options, words) {
        Ok(Some(given)) => (program.run)(&given),
        Ok(None) => {
            print!("{}", help(program));
            Ok(())
        }
        Err(failure) => Err(failure),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            if let Some(message) = failure.message {
                eprintln!("{}: {message}", program.name);
            }
            ExitCode::from(failure.status)
        }
    }
}

/// The programs with a line for each.
fn list() -> String {
    let mut text = String::from(
        "usage: music PROGRAM [WORD...], or PROGRAM [WORD...] by a link of that name\n\n\
         Programs for streams of sound: 16 bits with sign, little-endian, left and right in turn, 44,100\n\
         frames in a second. They read standard input and write standard output. PROGRAM --help says more.\n\n",
    );
    for program in programs() {
        text += &format!("  {:12}{}\n", program.name, program.about);
    }
    text + "\n`music --links` prints the names alone.\n"
}

fn help(program: &Program) -> String {
    let mut text = format!("usage: {}", program.name);
    for word in program.words {
        text += &match word.is_needed() {
            true => format!(" {}", word.name),
            false => format!(" [{}]", word.name),
        };
    }
    if let Some(rest) = program.rest {
        text += &format!(" {rest}...");
    }
    text += &format!(" [options]\n\n{}\n\n", program.about);
    for word in program.words {
        text += &word.help("");
    }
    for word in words::COMMON.iter().chain(program.options) {
        text += &word.help("--");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn names_are_different_and_every_program_has_help() {
        let names: BTreeSet<_> = programs().map(|program| program.name).collect();
        assert_eq!(names.len(), programs().count());
        for program in programs() {
            assert!(help(program).lines().count() > 4);
            assert!(list().contains(program.about));
            // A shell's own words would be called instead.
            assert!(!["echo", "test", "cd", "read"].contains(&program.name));
        }
    }
}
