//! `/sys`: what programs ask of Linux's about processors, memory, blocks and the network.
//!
//! *Interface.* [`file_system`]. `devices/system/cpu` is [`cpu`], `devices/virtual/net/lo` is [`net`]; there
//! is one node of memory, and no block device.

mod cpu;
mod net;

use abi::errno::{Errno, Result};
use abi::layout::PAGE;
use alloc::sync::Arc;
use core::fmt::Write;

use file::fs::attr::FileKind;
use file::fs::mount::FileSystem;
use file::fs::pseudofs::{
    EachEntry, FixedDir, FixedEntry, PseudoDir, PseudoEntry, PseudoFs, TextOut, number_in, text,
};

/// The kind that `statfs` shows.
const SYSFS_MAGIC: i64 = 0x6265_6572;

/// A new instance.
pub fn file_system() -> Arc<dyn FileSystem> {
    PseudoFs::new("sysfs", SYSFS_MAGIC, Arc::new(FixedDir(ROOT)))
}

const ROOT: &[FixedEntry] = &[
    ("block", || folder(&[])),
    ("class", || folder(CLASS)),
    ("dev", || folder(DEV)),
    ("devices", || folder(DEVICES)),
    // Where control groups are mounted.
    ("fs", || folder(FS)),
];
const FS: &[FixedEntry] = &[("cgroup", || folder(&[]))];
const DEV: &[FixedEntry] = &[("block", || folder(&[])), ("char", || folder(&[]))];
const CLASS: &[FixedEntry] = &[("block", || folder(&[])), ("net", || folder(NETS))];
const NETS: &[FixedEntry] = &[("lo", || link("../../devices/virtual/net/lo"))];
const DEVICES: &[FixedEntry] = &[
    ("system", || folder(SYSTEM)),
    ("virtual", || folder(VIRTUAL)),
];
const VIRTUAL: &[FixedEntry] = &[("net", || folder(LO))];
const LO: &[FixedEntry] = &[("lo", || folder(net::LO))];
const SYSTEM: &[FixedEntry] = &[
    ("clocksource", || folder(CLOCKS)),
    ("cpu", || PseudoEntry::Dir(Arc::new(cpu::CpuDir))),
    ("node", || folder(NODES)),
];
const CLOCKS: &[FixedEntry] = &[("clocksource0", || folder(CLOCK))];
const CLOCK: &[FixedEntry] = &[
    ("available_clocksource", || line("tsc ")),
    ("current_clocksource", || line("tsc")),
];
const NODES: &[FixedEntry] = &[
    ("has_cpu", || line("0")),
    ("has_memory", || line("0")),
    ("has_normal_memory", || line("0")),
    ("node0", || folder(NODE)),
    ("online", || line("0")),
    ("possible", || line("0")),
];
const NODE: &[FixedEntry] = &[
    ("cpulist", || {
        text(|out| cpu::list(machine::cpu::cpus(), out))
    }),
    ("cpumap", || text(|out| cpu::mask(|_| true, out))),
    // Of a node to itself.
    ("distance", || line("10")),
    ("meminfo", || text(memory)),
];

fn folder(names: &'static [FixedEntry]) -> PseudoEntry {
    PseudoEntry::Dir(Arc::new(FixedDir(names)))
}

fn line(value: impl core::fmt::Display + Send + Sync + 'static) -> PseudoEntry {
    text(move |out| {
        // Writing to a string does not fail, here and in the files beside.
        let _ = writeln!(out, "{value}");
        Ok(())
    })
}

#[expect(clippy::disallowed_methods, reason = "a short text")]
fn link(to: &str) -> PseudoEntry {
    PseudoEntry::Link(to.as_bytes().to_vec())
}

/// All memory is the one node's.
fn memory(out: &mut TextOut) -> Result<()> {
    let frames = vm::frame::stats();
    let kib = |frames: usize| frames * PAGE / 1024;
    for (name, value) in [
        ("MemTotal", frames.total),
        ("MemFree", frames.free),
        ("MemUsed", frames.total.saturating_sub(frames.free)),
    ] {
        let _ = writeln!(
            out,
            "Node 0 {name}:{:>width$} kB",
            kib(value),
            width = 23 - name.len()
        );
    }
    Ok(())
}

/// The texts about something with a number.
struct About<T: 'static>(T, Texts<T>);

/// Names, and what they stand for.
type Texts<T> = &'static [(&'static str, fn(T) -> PseudoEntry)];

impl<T: Copy + Send + Sync> PseudoDir for About<T> {
    fn get(&self, name: &str) -> Result<PseudoEntry> {
        let found = self.1.iter().find(|(known, _)| *known == name);
        found.map(|(_, item)| item(self.0)).ok_or(Errno::ENOENT)
    }

    fn list(&self, from: u64, each: EachEntry) {
        for (place, (name, item)) in (0..).zip(self.1) {
            if place >= from && !each(place, name, item(self.0).kind()) {
                return;
            }
        }
    }
}

/// Folders whose names are a word and a number: those below `count`, from place `first` on.
#[expect(clippy::disallowed_macros, reason = "a word and a number")]
fn numbered(word: &str, count: usize, first: u64, from: u64, each: EachEntry) {
    for number in 0..count {
        let place = first + number as u64;
        if place >= from
            && !each(
                place,
                &alloc::format!("{word}{number}"),
                FileKind::Directory,
            )
        {
            return;
        }
    }
}

/// The number behind `word`, if it is one below `count`.
fn number_of(name: &str, word: &str, count: usize) -> Result<usize> {
    let digits = name.strip_prefix(word).ok_or(Errno::ENOENT)?;
    let number = usize::try_from(number_in(digits)?).ok();
    number.filter(|&it| it < count).ok_or(Errno::ENOENT)
}
