//! `docs/results.md` and the README's table.
//!
//! *Interface*: `whole` whether a measurement may be written; `write` the tables of a whole measurement;
//! `put` the block of one measurement that stands apart, `put_readme` its table in the README. Each keeps
//! what the other and a person wrote.

use super::aims;
use super::guest::MEMORY;
use super::inside::{self, Cost};
use super::table::{self, Row};
use xtask::failure::{Context, Failure, Result, USAGE};
use xtask::host;

/// Above it everything is written by `write`; below it stand the blocks of `put` and what a person wrote.
const MARK: &str = "<!-- below this line: written by hand, kept by `cargo xtask bench` -->";

/// Fails when documents are to be written and not all is measured that they show.
///
/// # Errors
/// `write` without `whole`.
pub fn whole(write: bool, whole: bool) -> Result<()> {
    if write && !whole {
        let why = "--write: documents show whole measurements, and this one leaves something out";
        return Err(Failure::new(USAGE, why));
    }
    Ok(())
}

fn read() -> String {
    std::fs::read_to_string(host::project().join("docs/results.md")).unwrap_or_default()
}

fn store(text: &str) -> Result<()> {
    let path = host::project().join("docs/results.md");
    std::fs::write(&path, text).context(format!("cannot write {}", path.display()))
}

/// QEMU's own words for its version.
pub fn qemu() -> Result<String> {
    let text =
        host::command_output(std::process::Command::new(host::QEMU.program).arg("--version"))?;
    Ok(text.lines().next().unwrap_or_default().to_owned())
}

/// Writes the tables and the README's short one.
pub fn write(rows: &[Row], inside: &[Cost], version: &str) -> Result<()> {
    let kept = read()
        .split_once(MARK)
        .map_or_else(|| "\n".into(), |(_, kept)| kept.to_owned());
    let text = format!(
        "# Results\n\nWritten by `cargo xtask bench --write`; do not edit above the mark, nor between the marks of a block.\n\n\
         Both kernels ran the same static C program (`user/bench/bench.c`) on the same machine: {}, q35, one CPU, {} MiB, \
         `-icount shift=0,sleep=off -cpu max,-erms,-fsrm`. One instruction is one nanosecond of guest time there, so the \
         figures are instructions per operation, user part and kernel part together, and two runs give the same figure. \
         Linux is Debian's cloud kernel {version}. Files are on tmpfs there and in memory here. \
         *Ratio* is Linux over Synthesis: how many times fewer instructions.\n\n\
         *Off*, *auto* and *all* are the mitigations against defects of processors (`mitigations=`; docs/security.md, \"Speculation\"). Both kernels \
         have *auto* by default, the one for what the processor needs; *all* is whatever it can execute. The model of QEMU claims to have neither \
         Meltdown nor MDS, so Linux chooses little there. An instruction is one here, a `wrmsr` or `verw` too, which on silicon takes a hundred times as \
         long as another. Floors and aims are about *off*.\n{}{}{}\n{MARK}{kept}",
        qemu()?,
        MEMORY >> 20,
        table::markdown(rows),
        aims::markdown(rows),
        inside::markdown(inside),
    );
    store(&text)?;
    write_readme(rows)
}

/// Puts the block `name` in place of the old one, or at the end.
pub fn put(name: &str, text: &str) -> Result<()> {
    store(&replaced(&read(), name, text))
}

fn replaced(old: &str, name: &str, text: &str) -> String {
    let begin = format!("<!-- {name}: written by `cargo xtask bench {name} --write` -->\n");
    let end = format!("<!-- end of {name} -->\n");
    let block = format!("{begin}{}\n{end}", text.trim_end());
    if let Some((before, rest)) = old.split_once(&begin)
        && let Some((_, after)) = rest.split_once(&end)
    {
        return format!("{before}{block}{after}");
    }
    let old = if old.contains(MARK) {
        old.to_owned()
    } else {
        format!("{old}\n{MARK}\n")
    };
    format!("{}\n\n{block}", old.trim_end())
}

/// Puts the figures that matter most into the README.
fn write_readme(rows: &[Row]) -> Result<()> {
    let begin = "<!-- table: written by `cargo xtask bench --write` -->\n";
    between(begin, "<!-- end of table -->", &table::short(rows))
}

/// Puts the table `name` of one measurement into the README.
pub fn put_readme(name: &str, text: &str) -> Result<()> {
    let begin = format!("<!-- {name}: written by `cargo xtask bench {name} --write` -->\n");
    between(&begin, &format!("<!-- end of {name} -->"), text)
}

/// Puts the text between the README's marks; without them nowhere.
fn between(begin: &str, end: &str, text: &str) -> Result<()> {
    let path = host::project().join("README.md");
    let old = std::fs::read_to_string(&path).context("cannot read README.md")?;
    let Some((before, rest)) = old.split_once(begin) else {
        return Ok(());
    };
    let Some((_, after)) = rest.split_once(end) else {
        return Ok(());
    };
    let text = format!("{before}{begin}{text}{end}{after}");
    std::fs::write(&path, text).context("cannot write README.md")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_block_takes_its_own_place_and_no_other() {
        let first = replaced(&format!("top\n{MARK}\nby hand\n"), "a", "old");
        assert!(first.contains("by hand\n\n<!-- a: written"), "{first}");
        let second = replaced(&first, "b", "other");
        let third = replaced(&second, "a", "new");
        assert_eq!(third, second.replace("old", "new"));
        assert!(third.starts_with("top\n"));
    }
}
