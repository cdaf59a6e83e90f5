//! `/syn/filters`: filters in the streams of open files, and between the stages of any other.
//!
//! *Interface.* Writing `PID FD WAY CLASS [NUMBER]` puts a new filter of the class into an open descriptor of
//! a process, in front of those that are there: for the bytes that it reads (`in`) or writes (`out`). `PID FD
//! WAY off [NUMBER]` takes the filter of this number out, or all. `quaject NUMBER PORT CLASS [NUMBER]` and
//! `quaject NUMBER PORT off NUMBER` do the same between a port of the quaject of this number and its target.
//! The classes are `Upper`, `Newline` with 13 or 10, `Gauge`, `Checksum`, and `Rate` with bytes in a second.
//! Reading gives a line for each filter of each descriptor: process, descriptor, way, class, number, and its
//! count.
//!
//! Rights: every user may open it to write. A request has the rights of the identity that opened the text,
//! and not those of the process that writes to it: a process's descriptors need the right to control it as
//! `ptrace` does, a quaject by its number `CAP_SYS_ADMIN`.
//!
//! Source: dissertation, section 4.1.4.

use abi::errno::{Errno, Result};
use account::Cred;
use alloc::sync::Arc;
use core::fmt::Write;

use super::descriptors;
use file::OpenFile;
use file::fdtable::FdTable;
use file::filters::Direction;
use file::fs::pseudofs::{TextOut, TextPiece};
use process::access::{self, PtraceMode};
use process::tree;
use process::user_quajects::{any, made, made_counter};
use quaject::by_name;
use quaject::maker::{self, Made};

/// The ways, by name.
const WAYS: [(&str, Direction); 2] = [("in", Direction::Incoming), ("out", Direction::Outgoing)];

/// The text from place `from` on: a process's number in the upper half, below it a descriptor's.
pub fn show(from: u64, piece: &mut TextPiece) -> Result<()> {
    // `TextOut` notes by itself that memory is out, here and below.
    let head = |out: &mut TextOut| {
        let _ = writeln!(
            out,
            "{:>6} {:>4} {:<3} {:<10} {:>8} {:>12}",
            "pid", "fd", "way", "class", "number", "count"
        );
    };
    descriptors::show(from, piece, &head, &is_filtered, &lines)
}

fn is_filtered(of: &OpenFile) -> bool {
    let mut any = false;
    for (_, course) in WAYS {
        of.each_filter(course, |_| any = true);
    }
    any
}

fn lines(pid: i32, fd: i32, of: &OpenFile, _: &FdTable, out: &mut TextOut) {
    for (way, course) in WAYS {
        of.each_filter(course, |filter| {
            let (class, number) = (filter.class().name, filter.number());
            let _ = write!(out, "{pid:>6} {fd:>4} {way:<3} {class:<10} {number:>8} ");
            let _ = match maker::value(filter) {
                Some(count) => writeln!(out, "{count:>12}"),
                None => writeln!(out, "{:>12}", "-"),
            };
        });
    }
}

/// Takes one request, with the rights of `opener`. EINVAL: it is none. ESRCH: no such process or quaject.
/// EBADF, EPERM, ENOENT, ENOMEM, EBUSY, ELOOP, EMLINK, EPROTOTYPE.
pub fn set(opener: &Arc<Cred>, text: &str) -> Result<()> {
    let (words, more) = words(text);
    // Too long, or half of one.
    if more || words[3].is_empty() {
        return Err(Errno::EINVAL);
    }
    match words {
        ["quaject", from, port, "off", which, ""] => {
            let (from, which) = (number(from)?, number(which)?);
            let from = any(opener, from as usize)?;
            let which = u32::try_from(which).map_err(|_| Errno::ENOENT)?;
            by_name::remove(&from, port, which)?;
        }
        ["quaject", from, port, class, count, ""] => {
            let from = any(opener, number(from)? as usize)?;
            by_name::insert(&from, port, &filter(opener, class, count)?)?;
        }
        [pid, fd, way, what, count, ""] => {
            let (pid, fd) = (number(pid)?, number(fd)?);
            let way = WAYS.iter().find(|(name, _)| *name == way);
            let &(_, course) = way.ok_or(Errno::EINVAL)?;
            let pid = i32::try_from(pid).map_err(|_| Errno::ESRCH)?;
            let fd = i32::try_from(fd).map_err(|_| Errno::EBADF)?;
            let process = tree::find(pid).ok_or(Errno::ESRCH)?;
            let visit = process.files.get().visit();
            let find = || visit.get(fd);
            let of = access::with_opener(opener, &process, PtraceMode::Steer, find)??;
            drop(visit);
            match (what, count) {
                ("off", "") => of.remove_filter(opener, course, None)?,
                ("off", which) => {
                    let which = u32::try_from(number(which)?).map_err(|_| Errno::ENOENT)?;
                    of.remove_filter(opener, course, Some(which))?;
                }
                (class, count) => {
                    of.insert_filter(opener, course, &filter(opener, class, count)?)?;
                }
            }
        }
        _ => return Err(Errno::EINVAL),
    }
    Ok(())
}

/// The longest request: `quaject NUMBER PORT off NUMBER`, and one word too many.
const WORDS: usize = 6;

/// The words of a request, behind the last ones that are empty, and whether there are more.
fn words(text: &str) -> ([&str; WORDS], bool) {
    let mut words = [""; WORDS];
    let mut left = text.split_ascii_whitespace();
    for (word, next) in words.iter_mut().zip(&mut left) {
        *word = next;
    }
    (words, left.next().is_some())
}

fn number(word: &str) -> Result<u64> {
    word.parse().map_err(|_| Errno::EINVAL)
}

/// The filter of `class` that `count`, a number or nothing, describes, for `user`.
fn filter(user: &Arc<Cred>, class: &str, count: &str) -> Result<Made> {
    let count = match count {
        "" => 0,
        count => number(count)?,
    };
    match (class, count) {
        ("Gauge", 0) => made_counter(user),
        _ => made(user, class, count),
    }
}
