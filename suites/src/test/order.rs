//! Monitors are taken in the order that docs/locks.md lists, and no two of one kind together unless it says
//! how.
//!
//! *Interface*: `run`. A kernel that notes which monitors are held while another is taken runs the suites,
//! and logs what it has noted when it ends. So an inversion shows even if nobody met: each half of it is
//! enough.

use super::guest::with;
use super::kit::Kit;
use super::shares;
use super::tap::Check;
use std::collections::BTreeSet;
use std::time::Duration;
use xtask::host;
use xtask::machine::{Status, Virtio};

const LIST: &str = "docs/locks.md";
const HEADING: &str = "## The order";

/// The programs that are run, by the name of the log.
const PROGRAMS: &[(&str, &[&str])] = &[
    ("calls", &["/tests/calls-glibc"]),
    ("jobs", &["/tests/jobs-glibc"]),
    ("timers", &["/tests/timers-glibc"]),
    ("accounts", &["/tests/accounts-glibc"]),
    ("settings", &["/tests/settings-glibc"]),
    ("cores", &["/tests/cores-glibc"]),
    ("tables", &["/tests/tables-musl"]),
    ("texts", &["/tests/texts-musl"]),
    ("locks", &["/tests/locks-musl"]),
    ("trace", &["/tests/trace-glibc"]),
    ("tracers", &["/tests/tracers-glibc"]),
    ("stops", &["/tests/stops-glibc"]),
    ("ptys", &["/tests/ptys-glibc"]),
    ("sockets", &["/tests/sockets-glibc"]),
    ("inets", &["/tests/inets-glibc"]),
    ("netlinks", &["/tests/netlinks-glibc"]),
    ("sigios", &["/tests/sigios-glibc"]),
    ("leases", &["/tests/leases-glibc"]),
    ("filters", &["/tests/filters-glibc"]),
    ("quajects", &["/tests/quajects-glibc"]),
    ("handles", &["/tests/handles-glibc"]),
    ("mounts", &["/tests/mounts-glibc"]),
    ("splices", &["/tests/splices-glibc"]),
    ("packets", &["/tests/packets-glibc"]),
    ("mqueues", &["/tests/mqueues-glibc"]),
    ("inet-messages", &["/tests/inet-messages-glibc"]),
    ("inet-controls", &["/tests/inet-controls-glibc"]),
    ("udp-pairs", &["/tests/udp-pairs-glibc"]),
    ("rights", &["/tests/rights-glibc"]),
    ("threads", &["/tests/threads-glibc"]),
    ("files", &["/bin/sh", "/tests/files.sh"]),
    ("shell", &["/bin/sh", "/tests/shell.sh"]),
    ("system", &["/bin/sh", "/tests/system.sh"]),
];

/// A kind that is held, and one that is taken meanwhile.
type Pair = (String, String);

/// Boots each program on 4 CPUs; one check for each.
pub fn run(kit: &Kit) -> Vec<Check> {
    let list = std::fs::read_to_string(host::project().join(LIST)).unwrap_or_default();
    let order = Order::of(&list);
    let kit = match kit.noting_order() {
        Ok(kit) => kit,
        Err(failure) => return vec![Check::new("a kernel that notes", false, failure.message)],
    };
    let check = |(name, words, virtio): (&str, &[&str], Option<Virtio>)| {
        let log = format!("order-{name}");
        let mut machine = with(&kit, &log, 4, 256);
        machine.virtio = virtio;
        let input = vec![b'x'; if virtio.is_some() { 1 << 20 } else { 0 }];
        // Other suites judge the program's output; without an end in order there are no notes.
        match kit.boot(&machine, words, input, Duration::from_secs(300)) {
            Err(failure) => Check::new(name, false, failure.message),
            Ok(ran) if ran.hung || !matches!(ran.outcome.status, Status::Exit(_)) => {
                Check::new(name, false, ran.told())
            }
            Ok(_) => order.check(name, &machine.log.text()),
        }
    };
    let mut machine = with(&kit, "order-shares", 4, 256);
    let shared = match shares::calls(&kit, &mut machine) {
        Ok(_) => order.check("shares", &machine.log.text()),
        Err(failure) => Check::new("shares", false, failure.message),
    };
    let plain = PROGRAMS.iter().map(|&(name, words)| (name, words, None));
    let streams = [("messages", Virtio::Messages), ("lines", Virtio::Lines)];
    let copy: &[&str] = &["/bin/sh", "-c", "cat | cat"];
    let streams = streams.map(|(name, virtio)| (name, copy, Some(virtio)));
    let checks = plain.chain(streams).map(check);
    checks.chain([shared]).collect()
}

/// The pairs that a log has noted.
fn pairs(log: &str) -> BTreeSet<Pair> {
    let noted = log.lines().filter_map(|line| line.split_once("order: "));
    noted
        .filter_map(|(_, pair)| pair.split_once(" | "))
        .map(|(held, taken)| (short(held), short(taken)))
        .collect()
}

/// A type without its paths: `Vec<Arc<Process>>`.
fn short(kind: &str) -> String {
    let mut short = String::new();
    let mut word = String::new();
    let mut letters = kind.chars().peekable();
    while let Some(letter) = letters.next() {
        if letter == ':' && letters.peek() == Some(&':') {
            letters.next();
            word.clear();
        } else if letter.is_alphanumeric() || letter == '_' {
            word.push(letter);
        } else {
            short.push_str(&word);
            word.clear();
            short.push(letter);
        }
    }
    short + &word
}

/// The list: kinds by their place, and whether two of one kind may be held.
struct Order(Vec<(String, usize, bool)>);

impl Order {
    /// The check of the notes of the machine called `name`, in its log.
    fn check(&self, name: &str, log: &str) -> Check {
        let pairs = pairs(log);
        let faults = self.faults(&pairs);
        let good = faults.is_empty() && !pairs.is_empty();
        Check::new(name, good, format!("{} pairs; {faults:?}", pairs.len()))
    }

    fn of(text: &str) -> Order {
        let section = text.split(HEADING).nth(1).unwrap_or_default();
        let section = section.split("\n## ").next().unwrap_or_default();
        let mut kinds = Vec::new();
        // A line that is indented belongs to the entry above it.
        let section = section.replace("\n    ", " ");
        for line in section.lines() {
            let Some((place, rest)) = line.split_once(". ") else {
                continue;
            };
            let (Ok(place), Some((names, about))) = (place.parse(), rest.split_once("`: ")) else {
                continue;
            };
            let two = about.contains("two at once");
            let names = names.trim_start_matches('`').split("`, `");
            kinds.extend(names.map(|name| (name.to_owned(), place, two)));
        }
        Order(kinds)
    }

    fn place(&self, kind: &str) -> Option<(usize, bool)> {
        let is = |name: &str| kind == name || kind.starts_with(&format!("{name}<"));
        self.0
            .iter()
            .find(|(name, ..)| is(name))
            .map(|&(_, place, two)| (place, two))
    }

    fn faults(&self, pairs: &BTreeSet<Pair>) -> Vec<String> {
        let fault = |(held, taken): &Pair| match (self.place(held), self.place(taken)) {
            (None, _) => Some(format!("{LIST} has no `{held}`")),
            (_, None) => Some(format!("{LIST} has no `{taken}`")),
            (Some((first, _)), Some((second, _))) if first < second => None,
            (Some((_, true)), _) if held == taken => None,
            _ => Some(format!("`{taken}` is taken with `{held}` held")),
        };
        pairs.iter().filter_map(fault).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_list_does_not_allow_is_a_fault() {
        let list = "## The order\nText.\n1. `Tree`: first.\n2. `Vec<Arc<Process>>`, `B`: two\n    at once: so.\n3. `Held`: last.\n\n## Else\n1. `Tree`: no.\n";
        let log = "[    0.1] order: a::Tree | alloc::vec::Vec<alloc::sync::Arc<u::Process>>\n\
                   order: alloc::vec::Vec<alloc::sync::Arc<u::Process>> | alloc::vec::Vec<alloc::sync::Arc<u::Process>>\n\
                   order: a::Tree | q::Held<fn(u8)>\n";
        let order = Order::of(list);
        assert!(order.faults(&pairs(log)).is_empty());
        for (bad, why) in [
            ("order: q::Held<fn()> | a::Tree", "`Tree` is taken with"),
            ("order: a::Tree | a::Tree", "`Tree` is taken with `Tree`"),
            ("order: a::Tree | u/src/x.rs", "no `u/src/x.rs`"),
        ] {
            let faults = order.faults(&pairs(bad));
            assert!(faults.len() == 1 && faults[0].contains(why), "{faults:?}");
        }
    }
}
