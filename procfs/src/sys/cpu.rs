//! `/sys/devices/system/cpu`: which processors there are, how they lie together, their caches, and what is
//! done about their defects.
//!
//! *Interface.* [`CpuDir`] is the folder; [`list`] and [`mask`] write sets of processors. `vulnerabilities`
//! has a text for each defect of processors that Linux names: what is done about it here
//! (`machine::mitigate`).

use abi::errno::{Errno, Result};
use alloc::sync::Arc;
use core::fmt::Write;
use machine::cpu;
use machine::mitigate::{self, Bug};
use machine::topology::{self, Cache, CacheKind};

use super::{About, Texts, line, number_of, numbered};
use file::fs::attr::FileKind;
use file::fs::pseudofs::{EachEntry, FixedDir, PseudoDir, PseudoEntry, TextOut, text};

/// The folder.
pub struct CpuDir;

const NAMES: FixedDir = FixedDir(&[
    ("kernel_max", || line(cpu::MAX_CPUS - 1)),
    // None is online, and present all the same.
    ("offline", || {
        text(|out| {
            let (up, all) = (cpu::cpus(), cpu::present());
            match all - up.min(all) {
                0 => out.push('\n'),
                1 => {
                    let _ = writeln!(out, "{up}");
                }
                _ => {
                    let _ = writeln!(out, "{up}-{}", all - 1);
                }
            }
            Ok(())
        })
    }),
    ("online", || text(|out| list(cpu::cpus(), out))),
    ("possible", || text(|out| list(cpu::present(), out))),
    ("present", || text(|out| list(cpu::present(), out))),
    ("vulnerabilities", || {
        PseudoEntry::Dir(Arc::new(Vulnerabilities))
    }),
]);

impl PseudoDir for CpuDir {
    fn get(&self, name: &str) -> Result<PseudoEntry> {
        NAMES.get(name).or_else(|_| {
            let number = number_of(name, "cpu", cpu::cpus())?;
            Ok(PseudoEntry::Dir(Arc::new(About(number, ONE))))
        })
    }

    fn list(&self, from: u64, each: EachEntry) {
        let mut more = true;
        NAMES.list(from, &mut |place, name, kind| {
            more = each(place, name, kind);
            more
        });
        if more {
            numbered("cpu", cpu::cpus(), NAMES.0.len() as u64, from, each);
        }
    }
}

const ONE: Texts<usize> = &[
    ("cache", |cpu| PseudoEntry::Dir(Arc::new(Caches(cpu)))),
    ("topology", |cpu| {
        PseudoEntry::Dir(Arc::new(About(cpu, TOPOLOGY)))
    }),
];

const TOPOLOGY: Texts<usize> = &[
    ("core_cpus", |cpu| map(cpu, same_core)),
    ("core_cpus_list", |cpu| ranges(cpu, same_core)),
    ("core_id", |cpu| line(topology::core_of(cpu))),
    ("core_siblings", |cpu| map(cpu, same_package)),
    ("core_siblings_list", |cpu| ranges(cpu, same_package)),
    // No processor tells of dies here: there is one in a package.
    ("die_cpus", |cpu| map(cpu, same_package)),
    ("die_cpus_list", |cpu| ranges(cpu, same_package)),
    ("die_id", |_| line(0)),
    ("package_cpus", |cpu| map(cpu, same_package)),
    ("package_cpus_list", |cpu| ranges(cpu, same_package)),
    ("physical_package_id", |cpu| line(topology::package_of(cpu))),
    ("thread_siblings", |cpu| map(cpu, same_core)),
    ("thread_siblings_list", |cpu| ranges(cpu, same_core)),
];

fn same_package(one: usize, other: usize) -> bool {
    topology::package_of(one) == topology::package_of(other)
}

fn same_core(one: usize, other: usize) -> bool {
    same_package(one, other) && topology::core_of(one) == topology::core_of(other)
}

fn map(cpu: usize, with: fn(usize, usize) -> bool) -> PseudoEntry {
    text(move |out| mask(|other| with(cpu, other), out))
}

fn ranges(cpu: usize, with: fn(usize, usize) -> bool) -> PseudoEntry {
    text(move |out| listed(|other| with(cpu, other), out))
}

/// `/sys/devices/system/cpu/cpuN/cache`.
struct Caches(usize);

impl PseudoDir for Caches {
    fn get(&self, name: &str) -> Result<PseudoEntry> {
        let number = number_of(name, "index", usize::MAX)?;
        let cache = topology::caches().nth(number).ok_or(Errno::ENOENT)?;
        Ok(PseudoEntry::Dir(Arc::new(About((self.0, cache), CACHE))))
    }

    fn list(&self, from: u64, each: EachEntry) {
        numbered("index", topology::caches().count(), 0, from, each);
    }
}

const CACHE: Texts<(usize, Cache)> = &[
    ("coherency_line_size", |(_, cache)| line(cache.line)),
    ("id", |(cpu, cache)| line(cache.number(cpu))),
    ("level", |(_, cache)| line(cache.level)),
    ("number_of_sets", |(_, cache)| line(cache.sets)),
    ("physical_line_partition", |(_, cache)| {
        line(cache.partitions)
    }),
    ("shared_cpu_list", |(cpu, cache)| {
        text(move |out| listed(|other| cache.shares(cpu, other), out))
    }),
    ("shared_cpu_map", |(cpu, cache)| {
        text(move |out| mask(|other| cache.shares(cpu, other), out))
    }),
    ("size", |(_, cache)| {
        text(move |out| {
            let _ = writeln!(out, "{}K", cache.size() / 1024);
            Ok(())
        })
    }),
    ("type", |(_, cache)| {
        line(match cache.holds {
            CacheKind::Data => "Data",
            CacheKind::Instructions => "Instruction",
            CacheKind::Both => "Unified",
        })
    }),
    ("ways_of_associativity", |(_, cache)| line(cache.ways)),
];

/// The numbers of the first `count` processors, as a list of ranges.
pub fn list(count: usize, out: &mut TextOut) -> Result<()> {
    let _ = match count {
        1 => writeln!(out, "0"),
        count => writeln!(out, "0-{}", count - 1),
    };
    Ok(())
}

/// The numbers of the processors that are `wanted`, as a list of ranges.
fn listed(wanted: impl Fn(usize) -> bool, out: &mut TextOut) -> Result<()> {
    let count = cpu::cpus();
    let mut between = "";
    let mut at = 0;
    while at < count {
        if !wanted(at) {
            at += 1;
            continue;
        }
        let last = (at..count).take_while(|cpu| wanted(*cpu)).last();
        let last = last.unwrap_or(at);
        let _ = match last == at {
            true => write!(out, "{between}{at}"),
            false => write!(out, "{between}{at}-{last}"),
        };
        between = ",";
        at = last + 1;
    }
    out.push('\n');
    Ok(())
}

/// A bit for each processor that is `wanted`, as many digits as all need.
pub fn mask(wanted: impl Fn(usize) -> bool, out: &mut TextOut) -> Result<()> {
    let count = cpu::cpus();
    let bits = (0..count).filter(|cpu| wanted(*cpu)).map(|cpu| 1u64 << cpu);
    let width = cpu::present().div_ceil(4);
    let _ = writeln!(out, "{:0width$x}", bits.sum::<u64>());
    Ok(())
}

struct Vulnerabilities;

impl PseudoDir for Vulnerabilities {
    fn get(&self, name: &str) -> Result<PseudoEntry> {
        let known = |bug: &&Bug| !name.is_empty() && bug.file() == name;
        let bug = *Bug::ALL.iter().find(known).ok_or(Errno::ENOENT)?;
        Ok(text(move |out| {
            let _ = mitigate::plan().tell(bug, out);
            out.push('\n');
            Ok(())
        }))
    }

    fn list(&self, from: u64, each: EachEntry) {
        let files = (0..)
            .zip(Bug::ALL)
            .filter(|(_, bug)| !bug.file().is_empty());
        for (place, bug) in files {
            if place >= from && !each(place, bug.file(), FileKind::Regular) {
                return;
            }
        }
    }
}
