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
//! Rights: every user may write; a process's descriptors are for who may control it as `ptrace` does, and a
//! quaject by its number for who has `CAP_SYS_ADMIN`.
//!
//! Source: dissertation, section 4.1.4.

use abi::errno::{Errno, Result};
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

/// Takes one request. EINVAL: it is none. ESRCH: no such process or quaject. EBADF, EPERM, ENOENT, ENOMEM,
/// EBUSY, ELOOP, EMLINK, EPROTOTYPE.
pub fn set(text: &str) -> Result<()> {
    let mut words = text.split_ascii_whitespace();
    let mut word = || words.next().ok_or(Errno::EINVAL);
    match word()? {
        "quaject" => {
            let (number, port, what) = (self::number(word()?)?, word()?, word()?);
            let from = any(number as usize)?;
            match what {
                "off" => {
                    let which = u32::try_from(self::number(word()?)?);
                    by_name::remove(&from, port, which.map_err(|_| Errno::ENOENT)?)?;
                }
                class => by_name::insert(&from, port, &filter(class, words.next())?)?,
            }
        }
        pid => {
            let (pid, fd) = (self::number(pid)?, self::number(word()?)?);
            let (way, what) = (word()?, word()?);
            let way = WAYS.iter().find(|(name, _)| *name == way);
            let &(_, course) = way.ok_or(Errno::EINVAL)?;
            let pid = i32::try_from(pid).map_err(|_| Errno::ESRCH)?;
            let fd = i32::try_from(fd).map_err(|_| Errno::EBADF)?;
            let process = tree::find(pid).ok_or(Errno::ESRCH)?;
            let visit = process.files.get().visit();
            let of = access::with(&process, PtraceMode::Steer, || visit.get(fd))??;
            drop(visit);
            match (what, words.next()) {
                ("off", None) => of.remove_filter(course, None)?,
                ("off", Some(which)) => {
                    let which = u32::try_from(self::number(which)?).map_err(|_| Errno::ENOENT)?;
                    of.remove_filter(course, Some(which))?;
                }
                (class, number) => of.insert_filter(course, &filter(class, number)?)?,
            }
        }
    }
    Ok(())
}

fn number(word: &str) -> Result<u64> {
    word.parse().map_err(|_| Errno::EINVAL)
}

fn filter(class: &str, number: Option<&str>) -> Result<Made> {
    let number = number.map(self::number).transpose()?.unwrap_or(0);
    match (class, number) {
        ("Gauge", 0) => made_counter(),
        _ => made(class, number),
    }
}
