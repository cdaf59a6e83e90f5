//! `/syn/code`: every generated routine, with owner, size and listing.
//!
//! *Interface.* [`CodeDir`], and [`listed`] for the texts of handles. `index` is a table of all routines,
//! `classes` one of the generators with what a routine of each costs to make; `at/ENTRY` one of them by its
//! address in hexadecimal; `PID/FD/read`, `write` and `lseek` are the routines of a process's open
//! descriptors, for who may look into the process. A descriptor without a routine has no file. Addresses are
//! behind a kptr (`kptr`), and `at` is the superuser's.

use abi::errno::{Errno, Result};
use alloc::format;
use alloc::string::ToString;
use alloc::sync::Arc;
use core::fmt::Write;

use super::kptr_restrict::KptrRestrict;
use crate::proc::{list_processes, look_into};
use file::fdtable::FdTable;
use file::fs::attr::FileKind;
use file::fs::pseudofs::{
    EachEntry, PseudoDir, PseudoEntry, TextOut, TextPiece, long_text, number_in, text,
};
use file::stubs::stubs;
use file::{DescRoutine, OpenFile, Operation};
use process::{Process, access, tree};
use quaject::inline_map::InlineMap;
use vm::fallible::try_text;

/// A line for each routine at address `from` or above, behind a heading.
fn index(kptr: KptrRestrict, from: u64, piece: &mut TextPiece) -> Result<()> {
    // `TextOut` notes by itself that memory is out, here and below.
    let head = |out: &mut TextOut| {
        let _ = writeln!(
            out,
            "{:<16} {:>5} {:>4} {:>6} {:<20} name",
            "entry", "bytes", "refs", "owner", "class"
        );
    };
    if from == 0 && !piece.record(1, head) {
        return Ok(());
    }
    codegen::for_each_from(from as usize, |info| {
        piece.record(info.entry as u64 + 1, |out| {
            let _ = writeln!(
                out,
                "{:016x} {:>5} {:>4} {:>6} {:<20} {}",
                kptr.address(info.entry),
                info.len,
                info.references,
                info.owner,
                info.class,
                info.name
            );
        })
    });
    Ok(())
}

/// The routines that each generator has made, and their cost: the *Probe* of the synthesizer.
fn classes(out: &mut TextOut) -> Result<()> {
    let _ = writeln!(
        out,
        "{:<20} {:>6} {:>10} {:>12}",
        "class", "live", "made", "ticks/each"
    );
    codegen::for_each_class(|class| {
        let _ = writeln!(
            out,
            "{:<20} {:>6} {:>10} {:>12}",
            class.name,
            class.live(),
            class.made(),
            class.mean_ticks()
        );
    });
    Ok(())
}

/// The listing of the routine at `entry`, with the quaject beside each instruction to which a link has led,
/// as the interfacer's record has it. None when there is no such routine.
pub fn listed(kptr: KptrRestrict, entry: usize, out: &mut TextOut) -> Option<()> {
    let info = codegen::image_at(entry)?;
    let record = InlineMap::of(info.entry..info.entry + info.len);
    let beside = |at, out: &mut dyn Write| match record.at(at) {
        Some(stretch) => write!(out, "  | {stretch}"),
        None => Ok(()),
    };
    let _ = writeln!(out, "; {} links", record.links());
    // `TextOut` notes by itself that memory is out.
    kptr.listing(out, |out| codegen::disassemble(entry, out, &beside))
        .map(|_| ())
}

/// One routine, listed.
fn show(kptr: KptrRestrict, entry: usize, owner: &str, out: &mut TextOut) -> Result<()> {
    let info = codegen::image_at(entry).ok_or(Errno::ENOENT)?;
    let _ = write!(
        out,
        "; {} ({}), {} bytes at {:#x}, {} references, owner ",
        info.name,
        info.class,
        info.len,
        kptr.address(info.entry),
        info.references
    );
    out.plain(owner);
    out.push('\n');
    listed(kptr, entry, out).ok_or(Errno::ENOENT)
}

/// The root of it.
pub struct CodeDir;

/// Its names, before those of processes.
const NAMES: [(&str, FileKind); 4] = [
    ("index", FileKind::Regular),
    ("at", FileKind::Directory),
    ("self", FileKind::Symlink),
    ("classes", FileKind::Regular),
];

impl PseudoDir for CodeDir {
    fn get(&self, name: &str) -> Result<PseudoEntry> {
        match name {
            "index" => {
                let kptr = KptrRestrict::now();
                return Ok(long_text(move |from, piece| index(kptr, from, piece)));
            }
            "classes" => return Ok(text(classes)),
            "at" => return Ok(PseudoEntry::Dir(Arc::new(All))),
            "self" => {
                let pid = try_text(format_args!("{}", Process::current().pid))?;
                return Ok(PseudoEntry::Link(pid.into_bytes()));
            }
            _ => {}
        }
        let pid = number_in(name)?;
        let process = tree::find(pid).ok_or(Errno::ENOENT)?;
        Ok(PseudoEntry::Dir(Arc::new(Owned(process))))
    }

    fn list(&self, from: u64, each: EachEntry) {
        for (place, (name, kind)) in (0..).zip(NAMES) {
            if place >= from && !each(place, name, kind) {
                return;
            }
        }
        list_processes(NAMES.len() as u64, from, each);
    }
}

/// Routines by entry address.
struct All;

impl PseudoDir for All {
    fn get(&self, name: &str) -> Result<PseudoEntry> {
        let entry = usize::from_str_radix(name, 16).map_err(|_| Errno::ENOENT)?;
        let info = codegen::image_at(entry).ok_or(Errno::ENOENT)?;
        if info.entry != entry {
            return Err(Errno::ENOENT);
        }
        let (kptr, owner) = (
            KptrRestrict::now(),
            try_text(format_args!("{}", info.owner))?,
        );
        Ok(text(move |out| show(kptr, entry, &owner, out)))
    }

    #[expect(clippy::disallowed_macros, reason = "a number")]
    fn list(&self, from: u64, each: EachEntry) {
        // Places are offsets in the code space: they fit, and keep the order.
        let first = abi::layout::CODE.saturating_add(usize::try_from(from).unwrap_or(usize::MAX));
        codegen::for_each_from(first, |info| {
            let place = info.entry.saturating_sub(abi::layout::CODE) as u64;
            each(place, &format!("{:016x}", info.entry), FileKind::Regular)
        });
    }

    /// Its names are addresses.
    fn permissions(&self) -> u32 {
        0o500
    }
}

/// The descriptors of one process.
struct Owned(Arc<Process>);

impl PseudoDir for Owned {
    fn get(&self, name: &str) -> Result<PseudoEntry> {
        let fd = number_in(name)?;
        let files = look_into(&self.0, || self.0.files.get())?;
        files.clone().visit().get(fd).map_err(|_| Errno::ENOENT)?;
        Ok(PseudoEntry::Dir(Arc::new(Descriptor {
            files,
            fd,
            pid: self.0.pid,
        })))
    }

    #[expect(clippy::disallowed_methods, reason = "a number")]
    fn list(&self, from: u64, each: EachEntry) {
        if let Ok(files) = look_into(&self.0, || self.0.files.get()) {
            files.visit().for_each_from(from, |fd, _, _| {
                each(fd as u64, &fd.to_string(), FileKind::Directory)
            });
        }
    }

    fn owner(&self) -> (u32, u32) {
        access::owner_of(&self.0)
    }

    fn permissions(&self) -> u32 {
        0o500
    }

    fn is_open_to_caller(&self) -> bool {
        Process::current().pid == self.0.pid
    }
}

/// The routines of one descriptor.
struct Descriptor {
    files: Arc<FdTable>,
    fd: i32,
    pid: i32,
}

/// The calls that the kernel procedure table has arrays for.
pub(super) const CALLS: [&str; 3] = ["read", "write", "lseek"];

/// The name of call number `call` of those and of the further operations.
fn name(call: usize) -> Option<&'static str> {
    let further = || Some(Operation::ALL.get(call - CALLS.len())?.call());
    CALLS.get(call).copied().or_else(further)
}

/// The routine behind the relay at `entry` of `call`, where it is one.
pub(super) fn behind(of: &OpenFile, entry: usize, call: &str) -> Option<DescRoutine> {
    of.behind(entry).or_else(|| of.file().relayed(call))
}

impl Descriptor {
    fn open_file(&self) -> Result<Arc<OpenFile>> {
        let visit = self.files.clone().visit();
        visit.get(self.fd).map_err(|_| Errno::ENOENT)
    }

    /// The entry that a dispatcher would find for call number `call`, unless that is a stub. After a fork,
    /// the next call would have better code plugged than there is; looking does the same.
    fn entry(&self, call: usize) -> Option<usize> {
        if let Some(further) = call.checked_sub(CALLS.len()) {
            return self
                .open_file()
                .ok()?
                .operation_entry(*Operation::ALL.get(further)?);
        }
        let entry = self.files.clone().visit().entries(self.fd)?[call];
        let stubs = stubs();
        (entry != stubs.bad_fd && !stubs.slow.contains(&entry)).then_some(entry)
    }
}

impl PseudoDir for Descriptor {
    fn get(&self, name: &str) -> Result<PseudoEntry> {
        if name == "file" {
            let of = self.open_file()?;
            return Ok(text(move |out| {
                out.plain(&of.path()?);
                out.push('\n');
                Ok(())
            }));
        }
        let calls = CALLS.len() + Operation::ALL.len();
        let call = (0..calls).find(|call| self::name(*call) == Some(name));
        let call = call.ok_or(Errno::ENOENT)?;
        let entry = self.entry(call).ok_or(Errno::ENOENT)?;
        let of = self.open_file()?;
        let path = of.path()?;
        let owner = try_text(format_args!(
            "process {}, descriptor {}: {path}",
            self.pid, self.fd
        ))?;
        let call = self::name(call).unwrap_or_default();
        let kptr = KptrRestrict::now();
        Ok(text(move |out| {
            show(kptr, entry, &owner, out)?;
            match behind(&of, entry, call) {
                Some(routine) => show(kptr, routine.entry(), "whoever has the relay", out),
                None => Ok(()),
            }
        }))
    }

    fn list(&self, from: u64, each: EachEntry) {
        if from == 0 && !each(0, "file", FileKind::Regular) {
            return;
        }
        for (call, name) in (0..).map_while(|call| Some((call, name(call)?))) {
            let place = 1 + call as u64;
            if place >= from && self.entry(call).is_some() && !each(place, name, FileKind::Regular)
            {
                return;
            }
        }
    }
}
