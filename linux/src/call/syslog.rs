//! `syslog`: the kernel's log, for programs that may see addresses of the kernel.
//!
//! *Interface*: [`CALLS`].

use core::sync::atomic::{AtomicI32, Ordering};

use abi::errno::{Errno, Result};
use abi::nr;
use account::Capability;
use file::fs::klog;
use file::io::IoBuf;
use machine::log::{LINES, RING};
use procfs::printk_levels::{LEAST, LEVELS};

use super::misc::need;
use super::{Args, Handler};

/// See [`super::FAMILIES`].
pub const CALLS: &[(usize, Handler)] = &[(nr::SYSLOG, syslog)];

/// The highest level of the console.
const MOST: i32 = 8;

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
        action::READ => return klog::read(&mut buffer(a)?, true),
        action::READ_ALL => return Ok(klog::last(&mut buffer(a)?)?.0),
        action::READ_CLEAR => {
            let (count, end) = klog::last(&mut buffer(a)?)?;
            klog::clear(end);
            return Ok(count);
        }
        action::CLEAR => klog::clear(LINES.end()),
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
        action::SIZE_UNREAD => return Ok(klog::unread()),
        action::SIZE_BUFFER => return Ok(RING),
        _ => return Err(Errno::EINVAL),
    }
    Ok(0)
}

/// The buffer of `a`. EINVAL, EFAULT.
fn buffer(a: &Args) -> Result<IoBuf<'static>> {
    let length = usize::try_from(a.int(2)).map_err(|_| Errno::EINVAL)?;
    match a.word(1) {
        0 => Err(Errno::EINVAL),
        at => IoBuf::user(at, length),
    }
}
