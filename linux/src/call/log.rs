//! `syslog`: the kernel's log, for programs that may see addresses of the kernel.
//!
//! *Interface*: [`CALLS`].

use core::sync::atomic::{AtomicI32, AtomicUsize, Ordering};

use abi::errno::{Errno, Result};
use abi::nr;
use account::Capability;
use machine::log::{RING, copy, written};
use texts::levels::{LEAST, LEVELS};
use vm::user;

use super::misc::need;
use super::{Args, Handler};

/// See [`super::FAMILIES`].
pub const CALLS: &[(usize, Handler)] = &[(nr::SYSLOG, syslog)];

/// The highest level of the console.
const MOST: i32 = 8;

/// Up to where `READ` has told the log, which is one for all.
static TOLD: AtomicUsize = AtomicUsize::new(0);
/// Up to where it was cleared.
static CLEARED: AtomicUsize = AtomicUsize::new(0);
/// The level before the console was switched off; -1 if it is not.
static BEFORE: AtomicI32 = AtomicI32::new(-1);

/// The names of the actions in `linux/syslog.h`.
mod action {
    pub const CLOSE: i32 = 0;
    pub const OPEN: i32 = 1;
    pub const READ: i32 = 2;
    pub const READ_ALL: i32 = 3;
    pub const READ_CLEAR: i32 = 4;
    pub const CLEAR: i32 = 5;
    pub const CONSOLE_OFF: i32 = 6;
    pub const CONSOLE_ON: i32 = 7;
    pub const CONSOLE_LEVEL: i32 = 8;
    pub const SIZE_UNREAD: i32 = 9;
    pub const SIZE_BUFFER: i32 = 10;
}

fn syslog(a: &mut Args) -> Result<usize> {
    need(Capability::Syslog)?;
    match a.int(0) {
        action::CLOSE | action::OPEN => {}
        action::READ => return told(a),
        action::READ_ALL => return last(a),
        action::READ_CLEAR => {
            let end = written();
            let count = last(a)?;
            CLEARED.fetch_max(end, Ordering::Relaxed);
            return Ok(count);
        }
        action::CLEAR => {
            CLEARED.fetch_max(written(), Ordering::Relaxed);
        }
        action::CONSOLE_OFF => {
            let level = LEVELS[0].swap(LEAST, Ordering::Relaxed);
            // Switched off twice, the first level counts.
            let _ = BEFORE.compare_exchange(-1, level, Ordering::Relaxed, Ordering::Relaxed);
        }
        action::CONSOLE_ON => {
            let level = BEFORE.swap(-1, Ordering::Relaxed);
            if level >= 0 {
                LEVELS[0].store(level, Ordering::Relaxed);
            }
        }
        action::CONSOLE_LEVEL => {
            if !(1..=MOST).contains(&a.int(2)) {
                return Err(Errno::EINVAL);
            }
            let level = a.int(2).max(LEVELS[2].load(Ordering::Relaxed));
            LEVELS[0].store(level, Ordering::Relaxed);
            BEFORE.store(-1, Ordering::Relaxed);
        }
        action::SIZE_UNREAD => return Ok(unread(&TOLD).1),
        action::SIZE_BUFFER => return Ok(RING),
        _ => return Err(Errno::EINVAL),
    }
    Ok(0)
}

/// From where the ring has something behind `mark`, and how much.
fn unread(mark: &AtomicUsize) -> (usize, usize) {
    let end = written();
    let from = mark.load(Ordering::Relaxed).max(end.saturating_sub(RING));
    (from, end.saturating_sub(from))
}

/// The buffer of `a`: its address and length. EINVAL.
fn buffer(a: &Args) -> Result<(usize, usize)> {
    let length = usize::try_from(a.int(2)).map_err(|_| Errno::EINVAL)?;
    match a.word(1) {
        0 => Err(Errno::EINVAL),
        at => Ok((at, length)),
    }
}

/// The lines that were not told yet, once. Nothing at the end of the log: nobody waits here.
fn told(a: &Args) -> Result<usize> {
    let (at, length) = buffer(a)?;
    let (from, count) = unread(&TOLD);
    let count = copied(from, at, count.min(length))?;
    TOLD.fetch_max(from + count, Ordering::Relaxed);
    Ok(count)
}

/// The log's end behind where it was cleared, as much as fits.
fn last(a: &Args) -> Result<usize> {
    let (at, length) = buffer(a)?;
    let (from, count) = unread(&CLEARED);
    let fitting = count.min(length);
    copied(from + (count - fitting), at, fitting)
}

/// Copies `count` bytes of the log from position `from` to the program. EFAULT.
fn copied(from: usize, at: usize, count: usize) -> Result<usize> {
    let (mut from, end, mut done) = (from, from + count, 0);
    while from < end {
        let mut bytes = [0; 256];
        let want = bytes.len().min(end - from);
        let (begin, got) = copy(from, &mut bytes[..want]);
        // Bytes that were overwritten meanwhile are left out.
        let got = got.min(end.saturating_sub(begin));
        if got == 0 {
            break;
        }
        user::copy_out(at.wrapping_add(done), &bytes[..got])?;
        from = begin + got;
        done += got;
    }
    Ok(done)
}
