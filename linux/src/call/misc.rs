//! Calls about the machine as a whole, and those that fit nowhere else.

use alloc::vec::Vec;
use core::sync::atomic::Ordering;

use abi::errno::{Errno, Result};
use abi::layout::PAGE;
use abi::linux::*;
use abi::nr;
use file::fs::fs_types;
use machine::clock::now_ns;
use thread::UserBase;
use vm::user;

use super::{Args, Handler};
use account::Capability;
use process::hostname::{LONGEST, NodeOrDomain, names, rename};
use process::{Process, Task, tree};
use procfs::release::{RELEASE, VERSION};

/// See [`super::FAMILIES`].
pub const CALLS: &[(usize, Handler)] = &[
    (nr::UNAME, |a| uname(a.word(0))),
    (nr::SETHOSTNAME, |a| set_name(a, NodeOrDomain::Host)),
    (nr::SETDOMAINNAME, |a| set_name(a, NodeOrDomain::Domain)),
    (nr::SYSINFO, sysinfo),
    (nr::GETRANDOM, getrandom),
    (nr::REBOOT, reboot),
    (nr::MEMBARRIER, membarrier),
    (nr::PERSONALITY, |a| {
        let (process, new) = (Process::current(), a.uint(0));
        let old = match new {
            u32::MAX => process.personality.load(Ordering::Relaxed),
            new => process.personality.swap(new, Ordering::Relaxed),
        };
        Ok(old as usize)
    }),
    (nr::ARCH_PRCTL, arch_prctl),
    (nr::VHANGUP, |_| need(Capability::SysTtyConfig).map(|()| 0)),
    (nr::SYSFS, sysfs),
];

/// EPERM unless the caller has this right.
pub(super) fn need(right: Capability) -> Result<()> {
    account::caller::cred().need(right)
}

/// The release for programs that know no version after 2.6.
const OLD_RELEASE: &str = "2.6.61-synthesis";

/// A field of a [`Utsname`] without a text.
const NO_TEXT: [u8; LONGEST + 1] = [0; LONGEST + 1];

fn uname(at: usize) -> Result<usize> {
    let old = Task::here(|task| task.process.personality.load(Ordering::Relaxed) & UNAME26 != 0);
    let release = match old {
        Some(true) => OLD_RELEASE,
        _ => RELEASE,
    };
    // Each text goes where it stays.
    let mut out = Utsname {
        sysname: NO_TEXT,
        nodename: NO_TEXT,
        release: NO_TEXT,
        version: NO_TEXT,
        machine: NO_TEXT,
        domainname: NO_TEXT,
    };
    let set = |field: &mut [u8; LONGEST + 1], text: &[u8]| {
        let len = text.len().min(LONGEST);
        field[..len].copy_from_slice(&text[..len]);
    };
    set(&mut out.sysname, b"Linux");
    set(&mut out.release, release.as_bytes());
    set(&mut out.version, VERSION.as_bytes());
    set(&mut out.machine, b"x86_64");
    names(|host, domain| {
        set(&mut out.nodename, host);
        set(&mut out.domainname, domain);
    });
    user::put(at, &out).map(|()| 0)
}

fn set_name(a: &mut Args, which: NodeOrDomain) -> Result<usize> {
    need(Capability::SysAdmin)?;
    if !(0..=LONGEST as i32).contains(&a.int(1)) {
        return Err(Errno::EINVAL);
    }
    let name: Vec<u8> = user::array(a.word(0), a.int(1) as usize)?;
    rename(which, &name);
    Ok(0)
}

/// The kinds of file systems: names by number, numbers by name, how many there are.
fn sysfs(a: &mut Args) -> Result<usize> {
    match a.int(0) {
        1 => {
            let name = user::cstr(a.word(1), PATH_MAX)?;
            fs_types::number(&name).ok_or(Errno::EINVAL)
        }
        2 => {
            let kind = fs_types::all()
                .nth(a.uint(1) as usize)
                .ok_or(Errno::EINVAL)?
                .name;
            user::copy_out(a.word(2), kind.as_bytes())?;
            user::put(a.word(2).wrapping_add(kind.len()), &0u8)?;
            Ok(0)
        }
        3 => Ok(fs_types::all().count()),
        _ => Err(Errno::EINVAL),
    }
}

fn sysinfo(a: &mut Args) -> Result<usize> {
    let frames = vm::frame::stats();
    let info = Sysinfo {
        uptime: (now_ns().div_ceil(NSEC_PER_SEC)) as i64,
        // In units of 1/65536.
        loads: thread::cpu_time_sampling::load().map(|average| average << 5),
        totalram: (frames.total * PAGE) as u64,
        freeram: (frames.free * PAGE) as u64,
        procs: tree::count().min(u16::MAX as usize) as u16,
        unit: 1,
        ..Sysinfo::default()
    };
    user::put(a.word(0), &info).map(|()| 0)
}

fn getrandom(a: &mut Args) -> Result<usize> {
    let (address, length) = (a.word(0), a.word(1).min(i32::MAX as usize));
    let (flags, exclusive) = (a.uint(2), GRND_RANDOM | GRND_INSECURE);
    if flags & !(GRND_NONBLOCK | exclusive) != 0 || flags & exclusive == exclusive {
        return Err(Errno::EINVAL);
    }
    let mut block = [0; 256];
    let mut done = 0;
    while done < length {
        // A long wish can be interrupted, as on Linux.
        if done != 0 && (sync::callout::get().interrupted)() {
            break;
        }
        let part = (length - done).min(block.len());
        machine::random::fill(&mut block[..part]);
        match user::copy_out(address.wrapping_add(done), &block[..part]) {
            Err(error) if done == 0 => return Err(error),
            Err(_) => break,
            Ok(()) => done += part,
        }
    }
    Ok(done)
}

fn reboot(a: &mut Args) -> Result<usize> {
    need(Capability::SysBoot)?;
    /// The other magic numbers.
    const SECOND: [u32; 4] = [672_274_793, 85_072_278, 369_367_448, 537_993_216];
    if a.uint(0) != REBOOT_MAGIC1 || !SECOND.contains(&a.uint(1)) {
        return Err(Errno::EINVAL);
    }
    match a.uint(2) {
        REBOOT_CMD_RESTART | REBOOT_CMD_HALT | REBOOT_CMD_POWER_OFF => {
            process::init_process::power_off(0)
        }
        REBOOT_CMD_CAD_ON | REBOOT_CMD_CAD_OFF => Ok(0),
        _ => Err(Errno::EINVAL),
    }
}

/// A grace period passes every CPU through a serializing point, which is more than any of the commands
/// promises.
fn membarrier(a: &mut Args) -> Result<usize> {
    const QUERY: i32 = 0;
    const MEMBARRIER_CMD_GLOBAL: i32 = 1;
    const MEMBARRIER_CMD_GLOBAL_EXPEDITED: i32 = 2;
    const MEMBARRIER_CMD_REGISTER_GLOBAL_EXPEDITED: i32 = 4;
    const MEMBARRIER_CMD_PRIVATE_EXPEDITED: i32 = 8;
    const MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED: i32 = 16;
    const MEMBARRIER_CMD_PRIVATE_EXPEDITED_SYNC_CORE: i32 = 32;
    const MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED_SYNC_CORE: i32 = 64;
    const MEMBARRIER_CMD_PRIVATE_EXPEDITED_RSEQ: i32 = 128;
    const MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED_RSEQ: i32 = 256;
    const MEMBARRIER_CMD_FLAG_CPU: u32 = 1;
    const SUPPORTED: i32 = MEMBARRIER_CMD_GLOBAL
        | MEMBARRIER_CMD_GLOBAL_EXPEDITED
        | MEMBARRIER_CMD_REGISTER_GLOBAL_EXPEDITED
        | MEMBARRIER_CMD_PRIVATE_EXPEDITED
        | MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED
        | MEMBARRIER_CMD_PRIVATE_EXPEDITED_SYNC_CORE
        | MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED_SYNC_CORE
        | MEMBARRIER_CMD_PRIVATE_EXPEDITED_RSEQ
        | MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED_RSEQ;
    let process = Process::current();
    let (command, flags) = (a.int(0), a.uint(1));
    // One command is told for which CPU it is.
    let known = match command {
        MEMBARRIER_CMD_PRIVATE_EXPEDITED_RSEQ => MEMBARRIER_CMD_FLAG_CPU,
        _ => 0,
    };
    if flags & !known != 0 {
        return Err(Errno::EINVAL);
    }
    match command {
        QUERY => return Ok(SUPPORTED as usize),
        MEMBARRIER_CMD_GLOBAL | MEMBARRIER_CMD_GLOBAL_EXPEDITED => {}
        MEMBARRIER_CMD_PRIVATE_EXPEDITED
        | MEMBARRIER_CMD_PRIVATE_EXPEDITED_SYNC_CORE
        | MEMBARRIER_CMD_PRIVATE_EXPEDITED_RSEQ => {
            // The next bit registers for this command.
            if process.barriers.load(Ordering::Relaxed) as i32 & (command << 1) == 0 {
                return Err(Errno::EPERM);
            }
            if command == MEMBARRIER_CMD_PRIVATE_EXPEDITED_RSEQ {
                // A thread that moves to another CPU meanwhile is aborted by the move.
                let cpu = (flags & MEMBARRIER_CMD_FLAG_CPU != 0).then_some(a.uint(2) as usize);
                process.each_thread_after(0, |task| {
                    if cpu.is_none_or(|cpu| task.thread.cpu() == cpu) {
                        task.thread.interrupt_sequence();
                    }
                    true
                });
            }
        }
        MEMBARRIER_CMD_REGISTER_GLOBAL_EXPEDITED
        | MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED
        | MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED_SYNC_CORE
        | MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED_RSEQ => {
            process.barriers.fetch_or(command as u32, Ordering::Relaxed);
            return Ok(0);
        }
        _ => return Err(Errno::EINVAL),
    }
    // Each CPU's next quiescent point is a serializing instruction.
    // Bound: a grace period, asleep: each CPU’s next interrupt, switch or idle moment.
    sync::epoch::grace();
    Ok(0)
}

fn arch_prctl(a: &mut Args) -> Result<usize> {
    let base = a.word(1);
    let thread = thread::current();
    let user_base = || UserBase::new(base as u64).ok_or(Errno::EPERM);
    match a.int(0) {
        ARCH_SET_FS => thread.set_fs_base(user_base()?),
        ARCH_SET_GS => thread.set_gs_base(user_base()?),
        ARCH_GET_FS => user::put(base, &thread.fs_base())?,
        ARCH_GET_GS => user::put(base, &thread.gs_base())?,
        // Everybody may execute it: nothing makes it fault.
        ARCH_GET_CPUID => return Ok(1),
        ARCH_SET_CPUID => return Err(Errno::ENODEV),
        _ => return Err(Errno::EINVAL),
    }
    Ok(0)
}
