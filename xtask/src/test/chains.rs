//! The code of the usual paths was made by linking: the interfacer's record (`/syn`) beside the blocks
//! that QEMU has translated.
//!
//! *Interface*: `run`. `user/chains.c` goes along the paths and prints what the kernel says of its code; then
//! each generated routine that was executed has a link's site in it or is what a link leads to, or
//! docs/caveats.md names its class.

use super::guest::with;
use super::kit::Kit;
use super::tap::Check;
use crate::failure::{Context, Result};
use crate::host;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::time::Duration;

const LIMIT: Duration = Duration::from_secs(300);
/// Addresses of generated code (`abi::layout::CODE`).
const CODE: &str = "0xffffffffc0000000+0x10000000";
const LIST: &str = "docs/caveats.md";
/// The sentences of it that name classes and kinds begin so.
const UNLINKED: &str = "Executed without a link:";
const UNUSED: &str = "Kinds of queues that nothing executes:";
/// The kinds of queues, as their code is named.
const KINDS: [&str; 4] = ["SP-SC", "MP-SC", "SP-MC", "MP-MC"];
/// The paths whose routine the program shows.
const PATHS: [&str; 9] = [
    "keyboard",
    "terminal",
    "pipe-write",
    "pipe-read",
    "file-write",
    "file-read",
    "file-lseek",
    "null-write",
    "timer",
];

/// The suite.
pub fn run(kit: &Kit) -> Vec<Check> {
    match checks(kit) {
        Ok(checks) => checks,
        Err(failure) => vec![Check::new("chains", false, failure.message)],
    }
}

fn checks(kit: &Kit) -> Result<Vec<Check>> {
    let notes = host::build_dir("test")?.join("chains.blocks");
    let mut machine = with(kit, "chains", 1, 128);
    let words = machine
        .append
        .replace("console=stream", "console=tty rows=25 cols=80");
    machine.append = words;
    machine
        .extra
        .extend(["-d", "in_asm", "-dfilter", CODE, "-D"].map(Into::into));
    machine.extra.push(notes.clone().into());
    let ran = kit.boot(
        &machine,
        &["/tests/chains-glibc"],
        b"type\r".to_vec(),
        LIMIT,
    )?;
    let text = ran.text().replace('\r', "");
    let blocks = std::fs::read_to_string(&notes).context(notes.display())?;
    let _ = std::fs::remove_file(&notes);
    let list = std::fs::read_to_string(host::project().join(LIST)).context(LIST)?;
    let seen = Seen::of(&text, &blocks);
    let whole = text.ends_with("end\n") && !text.contains("fail ");
    let mut checks = vec![Check::new(
        "the program goes along its paths",
        whole,
        ran.told(),
    )];
    for path in PATHS {
        let entries = seen.shown(path);
        let executed = !entries.is_empty() && entries.iter().all(|entry| seen.executes(*entry));
        checks.push(Check::new(
            format!("{path}: the routine that is shown is executed"),
            executed,
            format!("{entries:x?}"),
        ));
    }
    let named = named(&list, UNLINKED);
    let unlinked = seen.unlinked();
    let missing: Vec<_> = unlinked.difference(&named).collect();
    checks.push(Check::new(
        "what is executed was made by linking, or docs/caveats.md names its class",
        missing.is_empty(),
        format!("{missing:?}"),
    ));
    let needless: Vec<_> = named.difference(&unlinked).collect();
    checks.push(Check::new(
        "docs/caveats.md names no class needlessly",
        needless.is_empty(),
        format!("{needless:?}"),
    ));
    let unused = self::named(&list, UNUSED);
    for kind in KINDS {
        let used = seen.executed_names().any(|name| name.contains(kind));
        checks.push(Check::new(
            format!("{kind}: executed, or docs/caveats.md says that nothing does"),
            used != unused.contains(kind),
            format!("executed: {used}"),
        ));
    }
    for (path, quajects) in [
        ("terminal", &["Queue"][..]),
        ("keyboard", &["group"][..]),
        ("pump", &["BufferIn", "Monitor"][..]),
        ("echo", &["BufferOut"][..]),
    ] {
        let beside = seen.beside(path);
        for quaject in quajects {
            checks.push(Check::new(
                format!("{path}: {quaject} stands beside its instructions"),
                beside.iter().any(|note| note.contains(quaject)),
                format!("{beside:?}"),
            ));
        }
    }
    Ok(checks)
}

/// The words between ` marks behind `begin` in the list, up to the next empty line.
fn named(list: &str, begin: &str) -> BTreeSet<String> {
    let behind = list.split_once(begin).map_or("", |(_, behind)| behind);
    let sentence = behind.split("\n\n").next().unwrap_or_default();
    sentence
        .split('`')
        .skip(1)
        .step_by(2)
        .map(str::to_owned)
        .collect()
}

/// A routine of the index.
struct Routine {
    code: Range<u64>,
    class: String,
    name: String,
}

/// The program's and QEMU's texts.
struct Seen {
    /// By what stands before them in the program's text.
    sections: BTreeMap<String, String>,
    routines: Vec<Routine>,
    /// Where links stand, and where they lead.
    sites: BTreeSet<u64>,
    /// Instructions of the blocks that were translated.
    executed: BTreeSet<u64>,
}

impl Seen {
    fn of(text: &str, blocks: &str) -> Seen {
        let mut sections: BTreeMap<String, String> = BTreeMap::new();
        let mut section = String::new();
        for line in text.lines() {
            match line {
                "index" | "quajects" | "pump" | "echo" => section = line.into(),
                _ if line.starts_with("path ") => section = line[5..].into(),
                _ => {
                    let of = sections.entry(section.clone()).or_default();
                    of.push_str(line);
                    of.push('\n');
                }
            }
        }
        let of = |name: &str| sections.get(name).map_or("", String::as_str);
        let routines = of("index").lines().filter_map(routine).collect();
        let sites = of("quajects").lines().filter_map(site).collect();
        let executed = blocks.lines().filter_map(|line| {
            let (number, _) = line.strip_prefix("0x")?.split_once(':')?;
            u64::from_str_radix(number, 16).ok()
        });
        Seen {
            routines,
            sites,
            executed: executed.collect(),
            sections,
        }
    }

    /// Entries of the routines that a path's text shows.
    fn shown(&self, path: &str) -> Vec<u64> {
        let text = self.sections.get(path).map_or("", String::as_str);
        let heads = text
            .lines()
            .filter(|line| line.starts_with("; ") && line.contains(" bytes at "));
        heads
            .filter_map(|line| address(line.split(" bytes at ").nth(1)?))
            .collect()
    }

    /// The notes beside the instructions of a path's text.
    fn beside(&self, path: &str) -> BTreeSet<&str> {
        let text = self.sections.get(path).map_or("", String::as_str);
        text.lines()
            .filter_map(|line| Some(line.split_once("  | ")?.1))
            .collect()
    }

    fn executes(&self, entry: u64) -> bool {
        let of = |routine: &&Routine| routine.code.start == entry;
        let routine = self.routines.iter().find(of);
        routine.is_some_and(|routine| self.is_executed(routine))
    }

    fn is_executed(&self, routine: &Routine) -> bool {
        self.executed.range(routine.code.clone()).next().is_some()
    }

    /// Classes of routines that were executed and have no link in them.
    fn unlinked(&self) -> BTreeSet<String> {
        let executed = self
            .routines
            .iter()
            .filter(|routine| self.is_executed(routine));
        let without =
            executed.filter(|routine| self.sites.range(routine.code.clone()).next().is_none());
        without.map(|routine| routine.class.clone()).collect()
    }

    fn executed_names(&self) -> impl Iterator<Item = &str> {
        let executed = self
            .routines
            .iter()
            .filter(|routine| self.is_executed(routine));
        executed.map(|routine| routine.name.as_str())
    }
}

/// The number behind `0x`, up to what is no digit.
fn address(text: &str) -> Option<u64> {
    let digits = text.trim_start().strip_prefix("0x")?;
    let end = digits
        .find(|c: char| !c.is_ascii_hexdigit())
        .unwrap_or(digits.len());
    u64::from_str_radix(&digits[..end], 16).ok()
}

/// A line of `/syn/code/index`: entry, bytes, references, owner, a class in 20 columns, and a name.
fn routine(line: &str) -> Option<Routine> {
    let entry = u64::from_str_radix(line.get(..16)?, 16).ok()?;
    let bytes: u64 = line.get(16..22)?.trim().parse().ok()?;
    let (class, name) = line.get(35..)?.split_at_checked(20)?;
    Some(Routine {
        code: entry..entry + bytes,
        class: class.trim().into(),
        name: name.trim().into(),
    })
}

/// A site of `/syn/quajects`, or the entry that a port leads to.
fn site(line: &str) -> Option<u64> {
    let line = line.trim_start();
    if let Some((_, to)) = line.split_once(" -> ") {
        return address(to.split(" at ").nth(1)?);
    }
    let how = ["in line, ", "called, "]
        .iter()
        .any(|how| line.starts_with(how));
    address(line.split(" bytes at ").nth(1)?).filter(|_| how)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_routine_without_a_site_is_found() {
        let text = "path terminal\n; write (tty write), 16 bytes at 0x10, 1 references, owner x\n    0  90  nop  | Queue 3 Q_put\n\
                    index\n\
                    0000000000000010    16    1      0 tty write            write, newlines\n\
                    0000000000000020    16    1      0 pipe write           write\n\
                    0000000000000040    16    1      0 idle                 wait\n\
                    0000000000000050     9    1      0 Q_put                SP-SC put\n\
                    quajects\n    output -> Q_put 12 at 0x50\n      in line, 4 bytes at 0x14, 3 at 0x18 in tty write write, newlines\nend\n";
        let seen = Seen::of(
            text,
            "IN: \n0x00000010:  90  nop\n0x0000002f:  90  nop\n0x00000051: c3 ret\n",
        );
        assert_eq!(seen.shown("terminal"), [0x10]);
        assert!(seen.executes(0x10) && !seen.executes(0x40));
        assert_eq!(seen.unlinked(), BTreeSet::from(["pipe write".to_owned()]));
        assert_eq!(seen.beside("terminal"), BTreeSet::from(["Queue 3 Q_put"]));
    }

    #[test]
    fn the_list_is_one_paragraph() {
        let list = "x\nExecuted without a link: `a b` (because),\n`c`.\n\n`d`\n";
        assert_eq!(
            named(list, UNLINKED),
            BTreeSet::from(["a b".into(), "c".into()])
        );
    }
}
