//! One check and its outcome, and how the guest's programs report theirs.
//!
//! *Interface*: `Check`, which holds, failed, or could not be made since the host failed; `parse` reads the
//! Test Anything Protocol.

use xtask::failure::{Failure, PANIC};

/// One check, or several that are counted together.
#[derive(Clone, Debug)]
pub struct Check {
    /// The subject of the check.
    pub name: String,
    /// Whether it holds.
    pub good: bool,
    /// It says nothing, because the host could not do its part. Then it is not good either.
    pub hindered: bool,
    /// The observation instead.
    pub detail: String,
    /// How many tests it stands for.
    pub count: usize,
}

impl Check {
    /// A check that holds or not; `detail` says what was seen.
    pub fn new(name: impl Into<String>, good: bool, detail: impl Into<String>) -> Self {
        Self {
            name: name.into(),
            good,
            hindered: false,
            detail: if good { String::new() } else { detail.into() },
            count: 1,
        }
    }

    /// Several that passed.
    pub fn passed(name: impl Into<String>, count: usize) -> Self {
        Self {
            name: name.into(),
            good: true,
            hindered: false,
            detail: String::new(),
            count,
        }
    }

    /// One that could not be made: the host failed, unless the failure is that the machine was lost.
    pub fn hindered(name: impl Into<String>, failure: Failure) -> Self {
        Self {
            name: name.into(),
            good: false,
            hindered: failure.status != PANIC,
            detail: failure.message,
            count: 1,
        }
    }

    /// Whether it was made and failed.
    pub fn has_failed(&self) -> bool {
        !self.good && !self.hindered
    }
}

/// The checks in a TAP text. A text without its plan, with fewer checks than planned, or without any, has one
/// failed check more.
pub fn parse(text: &str) -> Vec<Check> {
    let mut checks: Vec<Check> = Vec::new();
    let mut plan = None;
    for line in text.lines() {
        let line = line.trim_end_matches('\r');
        if let Some(rest) = line.strip_prefix("ok ") {
            checks.push(Check::new(label(rest), true, ""));
        } else if let Some(rest) = line.strip_prefix("not ok ") {
            checks.push(Check::new(label(rest), false, ""));
        } else if let Some(rest) = line.strip_prefix("# ") {
            if let Some(check) = checks.last_mut().filter(|check| !check.good) {
                check.detail.push_str(&format!("({rest})"));
            }
        } else if let Some(count) = line.strip_prefix("1..") {
            plan = count.parse().ok();
        }
    }
    if plan != Some(checks.len()) || checks.is_empty() {
        let last = checks.last().map_or("none", |check| &check.name).to_owned();
        let detail = format!(
            "plan {plan:?}, {} checks came, the last was [{last}]",
            checks.len()
        );
        checks.push(Check::new("it came to its end", false, detail));
    }
    checks
}

/// Without the number.
fn label(rest: &str) -> String {
    match rest.split_once(' ') {
        Some((number, name)) if number.bytes().all(|byte| byte.is_ascii_digit()) => name.to_owned(),
        _ => rest.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_text() {
        let checks = parse("# group\nok 1 one\nnot ok 2 two\n# got 1\n1..2\n");
        assert_eq!(checks.len(), 2);
        assert!(checks[0].good && !checks[1].good);
        assert_eq!(
            (checks[1].name.as_str(), checks[1].detail.as_str()),
            ("two", "(got 1)")
        );
    }

    #[test]
    fn one_that_breaks_off_has_failed() {
        assert!(!parse("ok 1 one\n").last().unwrap().good);
        assert!(!parse("ok 1 one\n1..3\n").last().unwrap().good);
        assert!(!parse("").last().unwrap().good);
        // Nobody asks a program for nothing.
        assert!(!parse("1..0\n").last().unwrap().good);
    }
}
