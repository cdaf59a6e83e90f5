//! `/proc/sysvipc`: the objects of System V IPC.
//!
//! *Interface.* [`ALL`] is the folder. Each text has all objects, whoever reads.

use alloc::sync::Arc;
use core::fmt::Write;

use file::fs::pseudofs::{FixedEntry, TextOut, TextPiece, long_text};
use process::ipc::{IpcEntry, IpcNamespace, memory, message, semaphore};

/// The texts.
pub const ALL: &[FixedEntry] = &[
    ("msg", || {
        long_text(|from, piece| {
            rows(from, piece, MESSAGES, &message::QUEUES, |out, entry| {
                let one = message::stat(entry);
                let p = one.perm;
                let _ = writeln!(
                    out,
                    "{:10} {:10}  {:4o}  {:10} {:10} {:5} {:5} {:5} {:5} {:5} {:5} {:10} {:10} {:10}",
                    p.key,
                    entry.id,
                    p.mode,
                    one.cbytes,
                    one.qnum,
                    one.lspid,
                    one.lrpid,
                    p.uid,
                    p.gid,
                    p.cuid,
                    p.cgid,
                    one.stime,
                    one.rtime,
                    one.ctime
                );
            });
            Ok(())
        })
    }),
    ("sem", || {
        long_text(|from, piece| {
            rows(from, piece, SEMAPHORES, &semaphore::SETS, |out, entry| {
                let one = semaphore::stat(entry);
                let p = one.perm;
                let _ = writeln!(
                    out,
                    "{:10} {:10}  {:4o} {:10} {:5} {:5} {:5} {:5} {:10} {:10}",
                    p.key,
                    entry.id,
                    p.mode,
                    one.nsems,
                    p.uid,
                    p.gid,
                    p.cuid,
                    p.cgid,
                    one.otime,
                    one.ctime
                );
            });
            Ok(())
        })
    }),
    ("shm", || {
        long_text(|from, piece| {
            rows(from, piece, SEGMENTS, &memory::SEGMENTS, |out, entry| {
                let one = memory::stat(entry);
                let p = one.perm;
                let _ = writeln!(
                    out,
                    "{:10} {:10}  {:4o} {:21} {:5} {:5}  {:5} {:5} {:5} {:5} {:5} {:10} {:10} {:10} {:21} {:21}",
                    p.key,
                    entry.id,
                    p.mode,
                    one.segsz,
                    one.cpid,
                    one.lpid,
                    one.nattch,
                    p.uid,
                    p.gid,
                    p.cuid,
                    p.cgid,
                    one.atime,
                    one.dtime,
                    one.ctime,
                    0,
                    0
                );
            });
            Ok(())
        })
    }),
];

const MESSAGES: &str = "       key      msqid perms      cbytes       qnum lspid lrpid   uid   gid  cuid  cgid      stime      rtime      ctime\n";
const SEMAPHORES: &str =
    "       key      semid perms      nsems   uid   gid  cuid  cgid      otime      ctime\n";
const SEGMENTS: &str = "       key      shmid perms                  size  cpid  lpid nattch   uid   gid  cuid  cgid      atime      dtime      ctime                   rss                  swap\n";

/// The head, which is at place 0, and behind it a row for each object.
fn rows<T>(
    from: u64,
    piece: &mut TextPiece,
    head: &str,
    all: &IpcNamespace<T>,
    row: impl Fn(&mut TextOut, &Arc<IpcEntry<T>>),
) {
    if from == 0 && !piece.record(1, |out| out.push_str(head)) {
        return;
    }
    let mut at = from.max(1) - 1;
    while let Some((place, entry)) = all.from(at) {
        at = place + 1;
        if !piece.record(at + 1, |out| row(out, &entry)) {
            return;
        }
    }
}
