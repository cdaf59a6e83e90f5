//! Monitors are taken in the order that docs/locks.md lists, and no two of one kind together unless it says
//! how.
//!
//! *Interface*: `run`, and [`Noting`] for other tests. A kernel of its own notes which monitors are held
//! while another is taken, and logs that when it ends. An inversion shows even if the two threads did not
//! meet: each half of it is enough. So the whole run has this kernel on all machines of one CPU (`table.rs`),
//! and every test is one of the order, too.

use super::guest::with;
use super::kit::Kit;
use super::shares;
use super::table::uncounted_commands;
use super::tap::Check;
use std::collections::BTreeSet;
use std::time::Duration;
use xtask::failure::{Context, Result};
use xtask::machine::{Machine, Status, Virtio};
use xtask::{host, kernel};

const LIST: &str = "docs/locks.md";
const LIMIT: Duration = Duration::from_secs(300);
const HEADING: &str = "## The order";

/// A kind that is held, and one that is taken meanwhile.
type Pair = (String, String);

/// A kit whose kernel notes the order, and the list.
pub struct Noting {
    kit: Kit,
    order: Order,
}

impl Noting {
    /// Builds the kernel, and reads the list.
    ///
    /// # Errors
    /// Host failure when that cannot be done.
    pub fn new(kit: &Kit) -> Result<Noting> {
        let path = host::project().join(LIST);
        let list = std::fs::read_to_string(&path).context(path.display())?;
        Ok(Noting {
            kit: kit.with_kernel(kernel::build_for_order(kit.profile)?, false)?,
            order: Order::of(&list),
        })
    }

    /// The checks of `run` on a machine with that kernel, and one of what it noted.
    pub fn run(
        &self,
        machine: &mut Machine,
        run: impl FnOnce(&Kit, &Machine) -> Vec<Check>,
    ) -> Vec<Check> {
        machine.kernel = self.kit.kernel().to_path_buf();
        let mut checks = run(&self.kit, machine);
        let name = format!("the order of monitors on {}", machine.name);
        checks.push(self.order.check(&name, &machine.log.text()));
        checks
    }
}

/// Runs what no command of the table does: directories of the host, and bytes through the console's ports.
/// Other tests judge what comes of it. With `--long` the table's commands, too, on 4 CPUs.
pub fn run(kit: &Kit) -> Vec<Check> {
    let noting = match Noting::new(kit) {
        Ok(noting) => noting,
        Err(failure) => return vec![Check::hindered("a kernel that notes", failure)],
    };
    let kit = &noting.kit;
    let check = |name: &str, words: &[&str], mebibytes, virtio: Option<Virtio>| {
        let mut machine = with(kit, &format!("order-{name}"), 4, mebibytes);
        machine.virtio = virtio;
        let input = vec![b'x'; if virtio.is_some() { 1 << 20 } else { 0 }];
        // Without an end in order there are no notes.
        match kit.boot(&machine, words, input, LIMIT) {
            Err(failure) => Check::hindered(name, failure),
            Ok(ran) if ran.hung || !matches!(ran.outcome.status, Status::Exit(_)) => {
                Check::new(name, false, ran.told())
            }
            Ok(_) => noting.order.check(name, &machine.log.text()),
        }
    };
    let mut machine = with(kit, "order-shares", 4, 256);
    let mut checks = vec![match shares::calls(kit, &mut machine) {
        Ok(_) => noting.order.check("shares", &machine.log.text()),
        Err(failure) => Check::hindered("shares", failure),
    }];
    for (name, virtio) in [("messages", Virtio::Messages), ("lines", Virtio::Lines)] {
        checks.push(check(
            name,
            &["/bin/sh", "-c", "cat | cat"],
            256,
            Some(virtio),
        ));
    }
    if kit.long {
        let table = uncounted_commands()
            .map(|(name, words, mebibytes)| check(name, words, mebibytes, None));
        checks.extend(table);
    }
    checks
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
