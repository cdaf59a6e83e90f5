//! The code of the usual paths was made by linking: the interfacer's record (`/syn`) beside the blocks
//! that QEMU has translated.
//!
//! *Interface*: `run`. `user/tests/chains.c` goes along the paths, at a terminal and with streams, and prints
//! what the kernel says of its code; then each generated routine that was executed has a link's site in
//! it, or is what a link or one of the words in `/syn/links` leads to, or docs/caveats.md names its
//! class. Queues of all four kinds are among the code: that of an end by itself, or where a link to it
//! stands.

use super::guest::with;
use super::kit::Kit;
use super::tap::Check;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::time::Duration;
use xtask::failure::{Context, Result};
use xtask::host;
use xtask::machine::Machine;

const LIMIT: Duration = Duration::from_secs(300);
/// Addresses of generated code (`abi::layout::CODE`).
const CODE: &str = "0xffffffffc0000000+0x10000000";
const LIST: &str = "docs/caveats.md";
/// The sentence of it that names classes begins so.
const UNLINKED: &str = "Executed without a link:";
/// A class that is executed without a link too, only where a source of interrupts floods: on a machine that
/// is slowed by the trace one may or may not.
const AT_TIMES: &str = "device.poll";
const PROGRAM: &str = "/tests/chains-glibc";
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

/// The same where the console is no terminal.
const STREAMS: [&str; 2] = ["stream-read", "stream-write"];

/// The suite.
pub fn run(kit: &Kit) -> Vec<Check> {
    match checks(kit) {
        Ok(checks) => checks,
        Err(failure) => vec![Check::hindered("chains", failure)],
    }
}

/// Has the program go along its paths on `machine`; its and QEMU's texts, and a check that it did.
fn go(kit: &Kit, machine: &mut Machine, arguments: &[&str]) -> Result<(Seen, Check)> {
    let notes = kit.file("chains.blocks")?;
    machine
        .extra
        .extend(["-d", "in_asm", "-dfilter", CODE, "-D"].map(Into::into));
    machine.extra.push(notes.clone().into());
    let ran = kit.boot(machine, arguments, b"type\r".to_vec(), LIMIT)?;
    let text = ran.text().replace('\r', "");
    let blocks = std::fs::read_to_string(&notes).context(notes.display())?;
    let _ = std::fs::remove_file(&notes);
    let whole = text.ends_with("end\n") && !text.contains("fail ");
    let name = format!("{}: the program goes along its paths", arguments.join(" "));
    Ok((
        Seen::of(&text, &blocks),
        Check::new(name, whole, ran.told()),
    ))
}

fn checks(kit: &Kit) -> Result<Vec<Check>> {
    let mut machine = with(kit, "chains", 1, 128);
    let words = machine
        .append
        .replace("console=stream", "console=tty rows=25 cols=80");
    machine.append = words;
    let (seen, whole) = go(kit, &mut machine, &[PROGRAM])?;
    let mut machine = with(kit, "chains", 1, 128);
    let (streams, whole_too) = go(kit, &mut machine, &[PROGRAM, "streams"])?;
    let list = std::fs::read_to_string(host::project().join(LIST)).context(LIST)?;
    let mut checks = vec![whole, whole_too];
    let of = |seen, paths: &'static [&'static str]| paths.iter().map(move |path| (seen, *path));
    for (seen, path) in of(&seen, &PATHS).chain(of(&streams, &STREAMS)) {
        let entries = seen.shown(path);
        let executed = !entries.is_empty() && entries.iter().all(|entry| seen.executes(*entry));
        checks.push(Check::new(
            format!("{path}: the routine that is shown is executed"),
            executed,
            format!("{entries:x?}"),
        ));
    }
    let named = named(&list, UNLINKED);
    let mut unlinked = seen.unlinked();
    unlinked.extend(streams.unlinked());
    unlinked.retain(|name| name != AT_TIMES);
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
    for (kind, seen, path) in [
        ("SP-SC", &seen, "the notices"),
        ("MP-SC", &seen, "the terminal's output"),
        ("MP-SC", &streams, "the stream's output"),
        ("SP-MC", &streams, "the stream's input"),
        ("MP-MC", &seen, "a program's queue"),
    ] {
        checks.push(Check::new(
            format!("{kind}: executed, by {path}"),
            seen.executes_kind(kind),
            format!("{:?}", seen.executed_names().collect::<Vec<_>>()),
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
    /// Where links stand, and where they and the words of the ready ring and the tables lead.
    sites: BTreeSet<u64>,
    /// The callentry that a site is of, with the kind of its queue, and the site's code.
    ends: Vec<(String, Range<u64>)>,
    /// Instructions of the blocks that were translated.
    executed: BTreeSet<u64>,
}

impl Seen {
    fn of(text: &str, blocks: &str) -> Seen {
        let mut sections: BTreeMap<String, String> = BTreeMap::new();
        let mut section = String::new();
        for line in text.lines() {
            match line {
                "index" | "quajects" | "links" | "pump" | "echo" => section = line.into(),
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
        let words = of("links").lines();
        let sites = of("quajects")
            .lines()
            .chain(words)
            .filter_map(site)
            .collect();
        let (mut ends, mut end) = (Vec::new(), "");
        for line in of("quajects").lines() {
            match (line.split_once(" -> "), stretch(line)) {
                (Some((_, to)), _) => end = to.split(" at ").next().unwrap_or_default(),
                (None, Some(code)) => ends.push((end.to_owned(), code)),
                (None, None) => {}
            }
        }
        let executed = blocks.lines().filter_map(|line| {
            let (number, _) = line.strip_prefix("0x")?.split_once(':')?;
            u64::from_str_radix(number, 16).ok()
        });
        Seen {
            routines,
            sites,
            ends,
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

    /// Whether code of a queue of the kind was executed: a routine that has it in its name, or a site of a
    /// link to such a queue's end.
    fn executes_kind(&self, kind: &str) -> bool {
        let mut ends = self.ends.iter().filter(|(end, _)| end.contains(kind));
        self.executed_names().any(|name| name.contains(kind))
            || ends.any(|(_, code)| self.executed.range(code.clone()).next().is_some())
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

/// The code of a site's line.
fn stretch(line: &str) -> Option<Range<u64>> {
    let (bytes, at) = line
        .trim_start()
        .strip_prefix("in line, ")?
        .split_once(" bytes at ")?;
    let (bytes, at) = (bytes.parse::<u64>().ok()?, address(at)?);
    Some(at..at + bytes)
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
                    quajects\n    output -> Q_put, MP-SC 12 at 0x50\n      in line, 4 bytes at 0x14, 3 at 0x18 in tty write write, newlines\nend\n";
        let seen = Seen::of(
            text,
            "IN: \n0x00000010:  90  nop\n0x0000002f:  90  nop\n0x00000051: c3 ret\n",
        );
        assert_eq!(seen.shown("terminal"), [0x10]);
        assert!(seen.executes(0x10) && !seen.executes(0x40));
        assert_eq!(seen.unlinked(), BTreeSet::from(["pipe write".to_owned()]));
        assert!(seen.executes_kind("SP-SC") && !seen.executes_kind("MP-MC"));
        assert!(!seen.executes_kind("MP-SC"), "the site is behind the block");
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
