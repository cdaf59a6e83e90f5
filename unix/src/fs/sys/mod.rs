//! `/sys`: what programs ask of Linux's about the processors.
//!
//! *Interface.* [`file_system`]. `devices/system/cpu` has the lists of processors, and in `vulnerabilities` a text for each defect of processors that Linux
//! names: what is done about it here (`machine::mitigate`).

use abi::errno::{Errno, Result};
use alloc::sync::Arc;
use core::fmt::Write;
use machine::cpu;
use machine::mitigate::{self, Bug};

use super::attr::Kind;
use super::place::FileSystem;
use super::text::{Each, Fixed, Folder, Item, Named, Out, TextFs, text};

/// What `statfs` shows.
const SYSFS_MAGIC: i64 = 0x6265_6572;

/// A new instance.
pub fn file_system() -> Arc<dyn FileSystem> {
    TextFs::new("sysfs", SYSFS_MAGIC, Arc::new(Fixed(ROOT)))
}

const ROOT: &[Named] = &[("devices", || Item::Folder(Arc::new(Fixed(DEVICES))))];
const DEVICES: &[Named] = &[("system", || Item::Folder(Arc::new(Fixed(SYSTEM))))];
const SYSTEM: &[Named] = &[("cpu", || Item::Folder(Arc::new(Fixed(CPU))))];
const CPU: &[Named] = &[
    ("kernel_max", || {
        text(|out| {
            // Writing to a string does not fail, here and below.
            let _ = writeln!(out, "{}", cpu::MAX_CPUS - 1);
            Ok(())
        })
    }),
    ("online", || text(|out| first(cpu::cpus(), out))),
    ("possible", || text(|out| first(cpu::present(), out))),
    ("present", || text(|out| first(cpu::present(), out))),
    ("vulnerabilities", || {
        Item::Folder(Arc::new(Vulnerabilities))
    }),
];

/// The numbers of the first `count` processors, as a list of ranges.
fn first(count: usize, out: &mut Out) -> Result<()> {
    let _ = match count {
        1 => writeln!(out, "0"),
        count => writeln!(out, "0-{}", count - 1),
    };
    Ok(())
}

struct Vulnerabilities;

impl Folder for Vulnerabilities {
    fn get(&self, name: &str) -> Result<Item> {
        let known = |bug: &&Bug| !name.is_empty() && bug.file() == name;
        let bug = *Bug::ALL.iter().find(known).ok_or(Errno::ENOENT)?;
        Ok(text(move |out| {
            let _ = mitigate::plan().tell(bug, out);
            out.push('\n');
            Ok(())
        }))
    }

    fn list(&self, from: u64, each: Each) {
        let files = (0..)
            .zip(Bug::ALL)
            .filter(|(_, bug)| !bug.file().is_empty());
        for (place, bug) in files {
            if place >= from && !each(place, bug.file(), Kind::Regular) {
                return;
            }
        }
    }
}
