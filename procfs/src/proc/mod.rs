//! `/proc`: processes and the system as Linux shows them: the files that `ps`, `top`, `free`, `uptime`,
//! `mount`, `pidof` and `fuser` read.
//!
//! *Interface.* [`file_system`]. `pid` is a process's directory, `fd` its descriptors, `system` what
//! concerns the whole machine.

mod clear_refs;
pub(crate) mod counters;
mod fd;
mod map_files;
mod mem;
mod net;
mod ns;
mod pagemap;
mod pid;
mod smaps;
mod status;
pub(crate) mod system;
mod sysvipc;
mod tunables;

use abi::errno::{Errno, Result};
use abi::linux::PROC_SUPER_MAGIC;
use alloc::format;
use alloc::string::ToString;
use alloc::sync::Arc;

use account::Cred;
use file::fs::attr::{FileKind, ModeBits};
use file::fs::mount::FileSystem;
use file::fs::perm;
use file::fs::pseudofs::{EachEntry, PseudoDir, PseudoEntry, PseudoFs, number_in};
use process::access::{self, PtraceMode};
use process::{Process, Task, tree};

/// A new instance.
pub fn file_system() -> Arc<dyn FileSystem> {
    PseudoFs::new("proc", PROC_SUPER_MAGIC, Arc::new(Root))
}

/// The result of `look` into `process`, if the caller may look into it. `EACCES`.
pub(crate) fn look_into<R>(process: &Process, look: impl FnOnce() -> R) -> Result<R> {
    access::with(process, PtraceMode::See, look).map_err(|_| Errno::EACCES)
}

/// The permission bits of a writable file of a process.
pub(crate) const OWNER_WRITES: u32 = 0o644;

/// Whether `opener`, who could open a file of `process` to write when it belonged to another program perhaps,
/// could open it now. EACCES.
pub(crate) fn still_writes(process: &Process, opener: &Cred) -> Result<()> {
    let (uid, gid) = access::owner_of(process);
    let bits = ModeBits {
        mode: OWNER_WRITES,
        uid,
        gid,
    };
    perm::check(opener, bits, None, perm::WRITE)
}

struct Root;

/// Where processes begin among the places of the root: `self` and `thread-self`, fixed names, then numbers.
const FIRST_PID: u64 = 64;

impl PseudoDir for Root {
    #[expect(
        clippy::disallowed_methods,
        clippy::disallowed_macros,
        reason = "two numbers"
    )]
    fn get(&self, name: &str) -> Result<PseudoEntry> {
        match name {
            "self" => {
                let pid = Process::current().pid;
                return Ok(PseudoEntry::Link(pid.to_string().into_bytes()));
            }
            "thread-self" => {
                let task = Task::current();
                let text = format!("{}/task/{}", task.process.pid, task.tid);
                return Ok(PseudoEntry::Link(text.into_bytes()));
            }
            _ => {}
        }
        if let Ok(item) = system::ROOT.get(name) {
            return Ok(item);
        }
        let number = number_in(name)?;
        let process = match tree::find(number) {
            Some(process) => process,
            // A thread's number leads to its process, although it is not listed.
            None => tree::find_task(number)
                .ok_or(Errno::ENOENT)?
                .process
                .clone(),
        };
        Ok(PseudoEntry::Dir(Arc::new(pid::PidDir::of(process))))
    }

    fn list(&self, from: u64, each: EachEntry) {
        for (place, name) in (0..).zip(["self", "thread-self"]) {
            if place >= from && !each(place, name, FileKind::Symlink) {
                return;
            }
        }
        let mut more = true;
        system::ROOT.list(from.saturating_sub(2), &mut |place, name, kind| {
            more = each(place + 2, name, kind);
            more
        });
        if more {
            list_processes(FIRST_PID, from, each);
        }
    }

    fn folders(&self) -> usize {
        system::ROOT.folders() + tree::from(0).count()
    }
}

/// Lists a directory for each process from place `first` on, in the order of their numbers.
#[expect(clippy::disallowed_methods, reason = "a number")]
pub(crate) fn list_processes(first: u64, from: u64, each: EachEntry) {
    for process in tree::from(from.saturating_sub(first)) {
        let place = first + process.pid as u64;
        if !each(place, &process.pid.to_string(), FileKind::Directory) {
            return;
        }
    }
}
