//! `/syn`: what the kernel made of itself, as text.
//!
//! *Interface.* [`file_system`]. `code` shows generated routines, `kernel_state` most of the other files; the
//! rest have a module each.
//!
//! Source: dissertation, 7.4.3 (the kernel monitor: a kernel whose code exists only at run time needs to be
//! looked at there).

pub mod code;
mod descriptors;
mod filter;
mod flows;
pub mod kernel_state;
pub mod kptr_restrict;
mod links;
mod probe;
mod sched;
mod trace;

use alloc::sync::Arc;

use file::fs::mount::FileSystem;
use file::fs::pseudofs::{FixedDir, PseudoEntry, PseudoFs, long_text, records, text, whole};
use kptr_restrict::KptrRestrict;
use process::access::{self, PtraceMode};
use process::memory::{fault_injection, shrink};
use process::{Process, Task, tree};

/// The kind that `statfs` shows.
const MAGIC: i64 = 0x5359_4e54;

/// The processes that the reader may look into, for a text whose places have the process's number in their
/// upper half; those from place `from` on.
fn visible(from: u64) -> impl Iterator<Item = Arc<Process>> {
    tree::from(from >> 32).filter(|process| access::may(process, PtraceMode::See).is_ok())
}

/// Calls `show` with the threads of the processes that the reader may see, behind the one where a text that
/// is read in pieces has come to at `from`; with the place behind each. Until it answers false.
fn each_thread(from: u64, mut show: impl FnMut(u64, &Arc<Process>, &Task) -> bool) {
    let mut more = true;
    for process in visible(from) {
        process.each_thread(|task| {
            let next = ((process.pid as u64) << 32 | task.tid as u64) + 1;
            more = next <= from || show(next, &process, task);
            more
        });
        if !more {
            break;
        }
    }
}

/// A new instance.
pub fn file_system() -> Arc<dyn FileSystem> {
    let root = FixedDir(&[
        ("code", || PseudoEntry::Dir(Arc::new(code::CodeDir))),
        ("fail", || {
            PseudoEntry::Setting(whole(fault_injection::show), fault_injection::set)
        }),
        ("devices", || text(kernel_state::devices)),
        ("filters", || {
            PseudoEntry::Request(records(filter::show), filter::set)
        }),
        ("flows", || long_text(flows::show)),
        ("interrupts", || text(kernel_state::interrupts)),
        ("links", || {
            let kptr = KptrRestrict::now();
            long_text(move |from, piece| links::show(kptr, from, piece))
        }),
        ("log", || PseudoEntry::Private(records(kernel_state::log))),
        ("memory", || {
            PseudoEntry::Setting(whole(kernel_state::memory), shrink::set)
        }),
        ("mitigations", || text(kernel_state::mitigations)),
        ("nosys", || text(kernel_state::nosys)),
        ("probes", || {
            PseudoEntry::Setting(records(probe::show), probe::set)
        }),
        ("quajects", || {
            let kptr = KptrRestrict::now();
            long_text(move |from, piece| kernel_state::quajects(kptr, from, piece))
        }),
        ("rights", || {
            PseudoEntry::Private(whole(kernel_state::rights))
        }),
        ("sched", || long_text(sched::show)),
        ("sound", || text(kernel_state::sound)),
        ("threads", || long_text(kernel_state::threads)),
        ("trace", || {
            PseudoEntry::Control(Arc::new(trace::TraceFile), trace::set)
        }),
    ]);
    PseudoFs::new("synfs", MAGIC, Arc::new(root))
}
