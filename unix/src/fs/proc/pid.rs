//! `/proc/PID` and `/proc/PID/task/TID`: one process, or one of its threads.
//!
//! *Interface.* [`Pid`].

use abi::errno::{Errno, Result};
use abi::linux::{RLIM_INFINITY, RLIM_NLIMITS};
use alloc::string::{String, ToString};
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::fmt::Write;
use vm::Prot;
use vm::space::Role;

use super::descriptors::{Descriptors, Infos};
use super::status;
use crate::fs::attr::Kind;
use crate::fs::place::{self, Place};
use crate::fs::text::{Folder, Item, Magic, text};
use crate::process::{Process, Task};

/// The directory of a process, or of one of its threads.
pub struct Pid {
    process: Arc<Process>,
    task: Option<Arc<Task>>,
}

impl Pid {
    /// The directory of `process`.
    pub fn of(process: Arc<Process>) -> Pid {
        Pid {
            process,
            task: None,
        }
    }
}

const NAMES: [(&str, Kind); 19] = [
    ("stat", Kind::Regular),
    ("status", Kind::Regular),
    ("statm", Kind::Regular),
    ("cmdline", Kind::Regular),
    ("comm", Kind::Regular),
    ("environ", Kind::Regular),
    ("exe", Kind::Symlink),
    ("cwd", Kind::Symlink),
    ("root", Kind::Symlink),
    ("fd", Kind::Directory),
    ("fdinfo", Kind::Directory),
    ("maps", Kind::Regular),
    ("mounts", Kind::Regular),
    ("mountinfo", Kind::Regular),
    ("limits", Kind::Regular),
    ("oom_score", Kind::Regular),
    ("oom_score_adj", Kind::Regular),
    ("wchan", Kind::Regular),
    ("task", Kind::Directory),
];

/// Whether the caller may look into `process`. `EACCES`.
pub fn may_look(process: &Process) -> Result<()> {
    let caller = Process::current();
    let (mine, its) = (caller.cred.get(), process.cred.get());
    if caller.pid == process.pid
        || mine.privileged()
        || (mine.fsuid == its.uid && mine.fsuid == its.euid)
    {
        Ok(())
    } else {
        Err(Errno::EACCES)
    }
}

impl Folder for Pid {
    fn get(&self, name: &str) -> Result<Item> {
        let process = self.process.clone();
        let task = self.task.clone();
        Ok(match name {
            "stat" => text(move |out| status::stat(&process, task.as_deref(), out)),
            "status" => text(move |out| status::status(&process, task.as_deref(), out)),
            "statm" => text(move |out| status::statm(&process, out)),
            "cmdline" => text(move |out| {
                out.push_str(&String::from_utf8_lossy(&process.program().cmdline));
                Ok(())
            }),
            "comm" => text(move |out| {
                out.push_str(&process.program().comm);
                out.push('\n');
                Ok(())
            }),
            "environ" => Item::Private(Arc::new(move |out| {
                may_look(&process)?;
                out.push_str(&String::from_utf8_lossy(&process.program().environ));
                Ok(())
            })),
            "exe" => Item::Magic(Arc::new(Exe(process))),
            "cwd" => Item::Magic(Arc::new(Stands(process, false))),
            "root" => Item::Magic(Arc::new(Stands(process, true))),
            "fd" => Item::Folder(Arc::new(Descriptors(process))),
            "fdinfo" => Item::Folder(Arc::new(Infos(process))),
            "maps" => text(move |out| maps(&process, out)),
            "mounts" => text(mounts),
            "mountinfo" => text(mountinfo),
            "limits" => text(move |out| limits(&process, out)),
            "oom_score" | "oom_score_adj" | "wchan" => text(|out| {
                out.push_str("0\n");
                Ok(())
            }),
            "task" if self.task.is_none() => Item::Folder(Arc::new(Tasks(process))),
            _ => return Err(Errno::ENOENT),
        })
    }

    fn list(&self, each: &mut dyn FnMut(u64, &str, Kind)) {
        let names = NAMES.len() - usize::from(self.task.is_some());
        for (place, (name, kind)) in NAMES[..names].iter().enumerate() {
            each(place as u64, name, *kind);
        }
    }

    fn owner(&self) -> (u32, u32) {
        let cred = self.process.cred.get();
        (cred.euid, cred.egid)
    }
}

/// `/proc/PID/task`.
struct Tasks(Arc<Process>);

impl Folder for Tasks {
    fn get(&self, name: &str) -> Result<Item> {
        let tid: i32 = name.parse().map_err(|_| Errno::ENOENT)?;
        let task = self.0.threads().into_iter().find(|t| t.tid == tid);
        Ok(Item::Folder(Arc::new(Pid {
            process: self.0.clone(),
            task: Some(task.ok_or(Errno::ENOENT)?),
        })))
    }

    fn list(&self, each: &mut dyn FnMut(u64, &str, Kind)) {
        let mut tids: Vec<i32> = self.0.threads().iter().map(|t| t.tid).collect();
        tids.sort_unstable();
        for tid in tids {
            each(tid as u64, &tid.to_string(), Kind::Directory);
        }
    }

    fn owner(&self) -> (u32, u32) {
        let cred = self.0.cred.get();
        (cred.euid, cred.egid)
    }
}

/// `/proc/PID/exe`.
struct Exe(Arc<Process>);

impl Magic for Exe {
    fn text(&self) -> Result<Vec<u8>> {
        let program = self.0.program();
        if program.exe.is_empty() {
            return Err(Errno::ENOENT);
        }
        Ok(program.exe.clone().into_bytes())
    }

    fn place(&self) -> Result<Place> {
        may_look(&self.0)?;
        // Not by its path, which may lead elsewhere by now.
        self.0.program().place.clone().ok_or(Errno::ENOENT)
    }
}

/// `/proc/PID/cwd` and `/proc/PID/root`.
struct Stands(Arc<Process>, bool);

impl Magic for Stands {
    fn text(&self) -> Result<Vec<u8>> {
        let root = Process::current().fs.get().root();
        self.place()?.path(&root)
    }

    fn place(&self) -> Result<Place> {
        may_look(&self.0)?;
        if self.0.is_zombie() {
            return Err(Errno::ENOENT);
        }
        let fs = self.0.fs.get();
        Ok(if self.1 { fs.root() } else { fs.cwd() })
    }
}

fn maps(process: &Process, out: &mut String) -> Result<()> {
    may_look(process)?;
    let Some(space) = process.space() else {
        return Ok(());
    };
    let bit = |has: bool, letter: char| if has { letter } else { '-' };
    space.for_each_area(|area| {
        let start = out.len();
        let (device, inode) = area.pager.as_ref().map_or((0, 0), |p| (p.device, p.inode));
        // Writing to a string does not fail.
        let _ = write!(
            out,
            "{:08x}-{:08x} {}{}{}{} {:08x} {:02x}:{:02x} {} ",
            area.start,
            area.end,
            bit(area.prot.contains(Prot::READ), 'r'),
            bit(area.prot.contains(Prot::WRITE), 'w'),
            bit(area.prot.contains(Prot::EXEC), 'x'),
            if area.shared { 's' } else { 'p' },
            area.offset,
            abi::linux::major(device),
            abi::linux::minor(device),
            inode,
        );
        let name = match (&area.pager, area.role) {
            (Some(pager), _) => pager.path.as_str(),
            (None, Role::Heap) => "[heap]",
            (None, Role::Stack { .. }) => "[stack]",
            (None, Role::Plain) => "",
        };
        if !name.is_empty() {
            while out.len() - start < 73 {
                out.push(' ');
            }
            out.push_str(name);
        }
        out.push('\n');
    });
    Ok(())
}

fn options(flags: u64) -> String {
    let mut options = String::from(if flags & place::MS_RDONLY != 0 {
        "ro"
    } else {
        "rw"
    });
    for (flag, name) in [
        (place::MS_NOSUID, ",nosuid"),
        (place::MS_NODEV, ",nodev"),
        (place::MS_NOEXEC, ",noexec"),
    ] {
        if flags & flag != 0 {
            options.push_str(name);
        }
    }
    options
}

/// The path of what a mount covers, with blanks written as `mount` expects them.
fn covered(mount: &place::Mount) -> String {
    let path = match (&mount.covers, place::root()) {
        (Some(covered), Some(root)) => covered.path(&root).unwrap_or_default(),
        _ => b"/".to_vec(),
    };
    String::from_utf8_lossy(&path)
        .replace('\\', "\\134")
        .replace(' ', "\\040")
        .replace('\n', "\\012")
}

/// Every mount in the form of fstab(5).
pub fn mounts(out: &mut String) -> Result<()> {
    for mount in place::mounts() {
        let (at, kind) = (covered(&mount), mount.fs.kind());
        let _ = writeln!(
            out,
            "{} {at} {kind} {},noatime 0 0",
            mount.source,
            options(mount.flags())
        );
    }
    Ok(())
}

fn mountinfo(out: &mut String) -> Result<()> {
    for mount in place::mounts() {
        let above = mount.covers.as_ref().map_or(0, |c| c.mount.id);
        let (dev, _) = mount.root.id();
        let flags = options(mount.flags());
        let _ = writeln!(
            out,
            "{} {above} {}:{} / {} {flags},noatime - {} {} {flags}",
            mount.id,
            abi::linux::major(dev),
            abi::linux::minor(dev),
            covered(&mount),
            mount.fs.kind(),
            mount.source,
        );
    }
    Ok(())
}

fn limits(process: &Process, out: &mut String) -> Result<()> {
    const ROWS: [(&str, &str); RLIM_NLIMITS] = [
        ("Max cpu time", "seconds"),
        ("Max file size", "bytes"),
        ("Max data size", "bytes"),
        ("Max stack size", "bytes"),
        ("Max core file size", "bytes"),
        ("Max resident set", "bytes"),
        ("Max processes", "processes"),
        ("Max open files", "files"),
        ("Max locked memory", "bytes"),
        ("Max address space", "bytes"),
        ("Max file locks", "locks"),
        ("Max pending signals", "signals"),
        ("Max msgqueue size", "bytes"),
        ("Max nice priority", ""),
        ("Max realtime priority", ""),
        ("Max realtime timeout", "us"),
    ];
    let amount = |value: u64| {
        if value == RLIM_INFINITY {
            String::from("unlimited")
        } else {
            value.to_string()
        }
    };
    let _ = writeln!(
        out,
        "{:<25} {:<20} {:<20} {:<10}",
        "Limit", "Soft Limit", "Hard Limit", "Units"
    );
    let limits = process.limits.lock().clone();
    for (resource, (name, unit)) in ROWS.iter().enumerate() {
        let limit = limits.get(resource)?;
        let _ = writeln!(
            out,
            "{name:<25} {:<20} {:<20} {unit:<10}",
            amount(limit.cur),
            amount(limit.max)
        );
    }
    Ok(())
}
