//! The words of a command line, read by a table.
//!
//! *Interface*: [`Word`] describes one, [`Given::parse`] reads them. A wrong word is one line and status 2.

use super::failure::Failure;
use crate::frame::RATE;
use std::collections::BTreeMap;
use std::ffi::OsString;

/// A word or an option with its value.
pub struct Word {
    /// Its name: an option's without dashes.
    pub name: &'static str,
    /// Its kind.
    pub kind: Kind,
    /// One line about it.
    pub about: &'static str,
}

/// The values that a word may have.
#[derive(Clone, Copy)]
pub enum Kind {
    /// An option without a value.
    Flag,
    /// A number from the first to the second; the third is usual. Without that it must be said.
    Number(f64, f64, Option<f64>),
    /// A whole number, likewise.
    Whole(u32, u32, u32),
    /// A text, and the usual one.
    Text(&'static str),
}

/// The options of all programs.
pub const COMMON: &[Word] = &[
    Word {
        name: "rate",
        kind: Kind::Whole(1000, 768_000, RATE),
        about: "frames in a second",
    },
    Word {
        name: "frames",
        kind: Kind::Whole(1, 65_536, 64),
        about: "most frames that are read and written at a time",
    },
];

impl Word {
    /// Whether it must be said.
    pub const fn is_needed(&self) -> bool {
        matches!(self.kind, Kind::Number(_, _, None))
    }

    /// Its line of help.
    pub fn help(&self, dashes: &str) -> String {
        let value = match self.kind {
            Kind::Flag => String::new(),
            Kind::Number(least, most, usual) => {
                let range = match most.is_finite() {
                    true => format!("{least} to {most}"),
                    false => format!("{least} and more"),
                };
                match usual.filter(|usual| usual.is_finite()) {
                    Some(usual) => format!(", {range} ({usual})"),
                    None => format!(", {range}"),
                }
            }
            Kind::Whole(least, most, usual) => format!(", {least} to {most} ({usual})"),
            Kind::Text("") => String::new(),
            Kind::Text(usual) => format!(" ({usual})"),
        };
        let takes = match (self.kind, dashes) {
            (Kind::Flag, _) | (_, "") => "",
            (Kind::Text(_), _) => " TEXT",
            _ => " N",
        };
        let name = format!("{dashes}{}{takes}", self.name);
        format!("  {name:16}{}{value}\n", self.about)
    }

    fn usual(&self) -> Option<Value> {
        match self.kind {
            Kind::Flag => Some(Value::Number(0.0)),
            Kind::Number(_, _, usual) => usual.map(Value::Number),
            Kind::Whole(_, _, usual) => Some(Value::Number(usual.into())),
            Kind::Text(usual) => Some(Value::Text(usual.into())),
        }
    }

    fn read(&self, dashes: &str, text: OsString) -> Result<Value, Failure> {
        let (least, most) = match self.kind {
            Kind::Text(_) => return Ok(Value::Text(text)),
            Kind::Flag => (0.0, 1.0),
            Kind::Number(least, most, _) => (least, most),
            Kind::Whole(least, most, _) => (least.into(), most.into()),
        };
        let text = text.to_string_lossy();
        let number = text.parse::<f64>().ok();
        let whole = matches!(self.kind, Kind::Whole(..));
        number
            .filter(|number| (least..=most).contains(number))
            .filter(|number| number.is_finite() && (!whole || libm::floor(*number) == *number))
            .map(Value::Number)
            .ok_or_else(|| {
                let kind = if whole { "whole number" } else { "number" };
                let range = match most.is_finite() {
                    true => format!("from {least} to {most}"),
                    false => format!("of {least} or more"),
                };
                Failure::usage(format!(
                    "{dashes}{} {text}: not a {kind} {range}",
                    self.name
                ))
            })
    }
}

#[derive(Clone)]
enum Value {
    Number(f64),
    Text(OsString),
}

/// The values of all words that the table has.
pub struct Given {
    values: BTreeMap<&'static str, Value>,
    rest: Vec<OsString>,
}

impl Given {
    /// Reads `given`; `None` when it asks for help.
    ///
    /// # Errors
    /// A usage failure.
    pub fn parse(
        words: &'static [Word],
        rest: Option<&'static str>,
        options: &'static [Word],
        given: Vec<OsString>,
    ) -> Result<Option<Self>, Failure> {
        let mut values: BTreeMap<_, _> = words
            .iter()
            .chain(COMMON)
            .chain(options)
            .filter_map(|word| Some((word.name, word.usual()?)))
            .collect();
        let (mut expected, mut others) = (words.iter(), Vec::new());
        let mut parser = lexopt::Parser::from_args(given);
        let wrong = |error: lexopt::Error| Failure::usage(error.to_string());
        while let Some(argument) = parser.next().map_err(wrong)? {
            match argument {
                lexopt::Arg::Short('h') | lexopt::Arg::Long("help") => return Ok(None),
                lexopt::Arg::Long(name) => {
                    let all = COMMON.iter().chain(options);
                    let Some(word) = all.into_iter().find(|word| word.name == name) else {
                        return Err(wrong(argument.unexpected()));
                    };
                    let value = match word.kind {
                        Kind::Flag => Value::Number(1.0),
                        _ => word.read("--", parser.value().map_err(wrong)?)?,
                    };
                    values.insert(word.name, value);
                }
                lexopt::Arg::Value(text) => match expected.next() {
                    Some(word) => {
                        values.insert(word.name, word.read("", text)?);
                    }
                    None if rest.is_some() => others.push(text),
                    None => return Err(wrong(lexopt::Arg::Value(text).unexpected())),
                },
                short @ lexopt::Arg::Short(_) => return Err(wrong(short.unexpected())),
            }
        }
        let missing = words.iter().find(|word| !values.contains_key(word.name));
        if let Some(word) = missing {
            return Err(Failure::usage(format!("{} is missing", word.name)));
        }
        if let Some(rest) = rest.filter(|_| others.is_empty()) {
            return Err(Failure::usage(format!("{rest} is missing")));
        }
        Ok(Some(Self {
            values,
            rest: others,
        }))
    }

    /// The number that has this name in the table.
    pub fn number(&self, name: &str) -> f64 {
        match self.values.get(name) {
            Some(Value::Number(number)) => *number,
            _ => unreachable!("{name} is no number of the table"),
        }
    }

    /// The same as a whole number.
    pub fn whole(&self, name: &str) -> usize {
        self.number(name) as usize
    }

    /// Whether the flag with this name was said.
    pub fn flag(&self, name: &str) -> bool {
        self.number(name) != 0.0
    }

    /// The text that has this name in the table.
    pub fn text(&self, name: &str) -> &OsString {
        match self.values.get(name) {
            Some(Value::Text(text)) => text,
            _ => unreachable!("{name} is no text of the table"),
        }
    }

    /// The words after those of the table.
    pub fn rest(&self) -> &[OsString] {
        &self.rest
    }

    /// Frames in a second.
    pub fn rate(&self) -> u32 {
        self.number("rate") as u32
    }

    /// The frames of so many seconds.
    pub fn frames(&self, seconds: f64) -> u64 {
        libm::round(seconds * f64::from(self.rate())) as u64
    }

    /// The frequency that has this name, which must be below half of the rate.
    ///
    /// # Errors
    /// A usage failure.
    pub fn hertz(&self, name: &str) -> Result<f64, Failure> {
        let (hertz, most) = (self.number(name), f64::from(self.rate()) / 2.0);
        match hertz < most {
            true => Ok(hertz),
            false => Err(Failure::usage(format!(
                "{name} {hertz}: not below half of the rate, {most}"
            ))),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const WORDS: &[Word] = &[Word {
        name: "HZ",
        kind: Kind::Number(1.0, f64::INFINITY, None),
        about: "a frequency",
    }];
    const OPTIONS: &[Word] = &[
        Word {
            name: "loud",
            kind: Kind::Flag,
            about: "loudly",
        },
        Word {
            name: "with",
            kind: Kind::Text("x"),
            about: "a text",
        },
    ];

    fn parse(rest: Option<&'static str>, line: &str) -> Result<Option<Given>, Failure> {
        let words = line.split_whitespace().map(OsString::from).collect();
        Given::parse(WORDS, rest, OPTIONS, words)
    }

    #[test]
    fn words_and_options_are_read_in_any_order() {
        let given = parse(None, "--loud 440.5 --rate=8000 --with y")
            .ok()
            .flatten()
            .unwrap();
        assert_eq!(
            (given.number("HZ"), given.rate(), given.whole("frames")),
            (440.5, 8000, 64)
        );
        assert!(given.flag("loud"));
        assert_eq!(given.text("with"), "y");
        assert_eq!(given.frames(0.5), 4000);
        assert!(given.hertz("HZ").is_ok());
        let more = parse(Some("PATH"), "7 a b").ok().flatten().unwrap();
        assert_eq!(more.rest(), ["a", "b"]);
        assert!(!more.flag("loud"));
        assert!(parse(None, "--help").ok().unwrap().is_none());
    }

    #[test]
    fn wrong_words_are_one_line() {
        for line in [
            "",
            "x",
            "0",
            "nan",
            "inf",
            "-1",
            "440 9",
            "440 --soft",
            "440 -x",
            "440 --rate",
            "440 --rate 44100.5",
            "440 --rate 1",
            "440 --frames 0",
            "440 --loud=3",
        ] {
            let failure = parse(None, line).err().unwrap_or_else(|| panic!("{line}"));
            assert_eq!(failure.status, 2);
            assert!(!failure.message.unwrap().contains('\n'), "{line}");
        }
        assert!(parse(Some("PATH"), "440").is_err());
        let low = parse(None, "4000 --rate 8000").ok().flatten().unwrap();
        assert!(low.hertz("HZ").is_err());
    }
}
