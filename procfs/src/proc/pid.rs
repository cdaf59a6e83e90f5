//! `/proc/PID` and `/proc/PID/task/TID`: one process, or one of its threads.
//!
//! *Interface.* [`PidDir`].

use abi::errno::{Errno, Result};
use abi::linux::{RLIM_INFINITY, RLIM_NLIMITS};
use alloc::string::{String, ToString};
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::fmt::Write;
use core::ops::Range;
use core::sync::atomic::Ordering;
use vm::AddressSpace;

use super::clear_refs::ClearRefsFile;
use super::fd::{FdDir, FdinfoDir};
use super::map_files::MapFilesDir;
use super::mem::MemFile;
use super::pagemap::PagemapFile;
use super::tunables::{self, TunableFile};
use super::{look_into, net, ns, smaps, status};
use file::fs::attr::FileKind;
use file::fs::mount::{self, VfsPath};
use file::fs::pseudofs::{
    EachEntry, FixedDir, MagicLink, PseudoDir, PseudoEntry, TextOut, TextPiece, TextSource,
    folders_listed, long_text, number_in, records, text,
};
use process::access::{self, AccessSnapshot, PtraceMode};
use process::memory::oom_score::points;
use process::{Process, Program, Task, tree};

/// The directory of a process, or of one of its threads.
pub struct PidDir {
    process: Arc<Process>,
    task: Option<Arc<Task>>,
}

impl PidDir {
    /// The directory of `process`.
    pub fn of(process: Arc<Process>) -> PidDir {
        PidDir {
            process,
            task: None,
        }
    }
}

const NAMES: [(&str, FileKind); 38] = [
    ("stat", FileKind::Regular),
    ("status", FileKind::Regular),
    ("statm", FileKind::Regular),
    ("cmdline", FileKind::Regular),
    ("comm", FileKind::Regular),
    ("environ", FileKind::Regular),
    ("exe", FileKind::Symlink),
    ("cwd", FileKind::Symlink),
    ("root", FileKind::Symlink),
    ("fd", FileKind::Directory),
    ("fdinfo", FileKind::Directory),
    ("maps", FileKind::Regular),
    ("smaps", FileKind::Regular),
    ("mem", FileKind::Regular),
    ("pagemap", FileKind::Regular),
    ("personality", FileKind::Regular),
    ("mounts", FileKind::Regular),
    ("mountinfo", FileKind::Regular),
    ("limits", FileKind::Regular),
    ("oom_score", FileKind::Regular),
    ("oom_score_adj", FileKind::Regular),
    ("oom_adj", FileKind::Regular),
    ("coredump_filter", FileKind::Regular),
    ("timerslack_ns", FileKind::Regular),
    ("auxv", FileKind::Regular),
    ("schedstat", FileKind::Regular),
    ("smaps_rollup", FileKind::Regular),
    ("loginuid", FileKind::Regular),
    ("sessionid", FileKind::Regular),
    ("wchan", FileKind::Regular),
    ("net", FileKind::Directory),
    ("ns", FileKind::Directory),
    ("clear_refs", FileKind::Regular),
    ("map_files", FileKind::Directory),
    ("cgroup", FileKind::Regular),
    ("timers", FileKind::Regular),
    ("children", FileKind::Regular),
    ("task", FileKind::Directory),
];

/// A text about `process` as the program that it is when somebody opens the text, who may look into it then.
pub fn looking(
    process: Arc<Process>,
    write: fn(&AccessSnapshot, u64, &mut TextPiece),
) -> Arc<dyn TextSource> {
    Arc::new(Looking { process, write })
}

struct Looking {
    process: Arc<Process>,
    write: fn(&AccessSnapshot, u64, &mut TextPiece),
}

impl TextSource for Looking {
    fn open(&self) -> Result<Option<Arc<dyn TextSource>>> {
        let sight =
            AccessSnapshot::of(&self.process, PtraceMode::See).map_err(|_| Errno::EACCES)?;
        let write = self.write;
        Ok(Some(records(move |from, piece| {
            write(&sight, from, piece);
            Ok(())
        })))
    }

    fn write(&self, _from: u64, _piece: &mut TextPiece) -> Result<()> {
        // Nobody reads it but by what `open` has made.
        Err(Errno::EACCES)
    }
}

fn tuned(process: Arc<Process>, number: &'static tunables::Tunable) -> PseudoEntry {
    PseudoEntry::File(Arc::new(TunableFile {
        process,
        number,
        private: false,
    }))
}

/// Numbers of the processes that `task` has made: all of `process` are its first thread's here.
fn children(process: &Process, task: Option<&Task>, from: u64, piece: &mut TextPiece) {
    if task.is_none_or(|task| task.tid != process.pid) {
        return;
    }
    for child in tree::from(from) {
        let next = child.pid as u64 + 1;
        let ours = child.ppid() == process.pid;
        if ours
            && !piece.record(next, |out| {
                let _ = write!(out, "{} ", child.pid);
            })
        {
            return;
        }
    }
}

/// The timers that `process` has made, a record each.
fn timers(process: &Process, from: u64, piece: &mut TextPiece) -> Result<()> {
    let mut next = usize::try_from(from).unwrap_or(usize::MAX);
    while let Some((index, made)) = process.timers.made_from(next) {
        next = index + 1;
        let notify = made.notify;
        let more = piece.record(next as u64, |out| {
            let how = if notify.signo == 0 { "none" } else { "signal" };
            let (whom, number) = match notify.tid {
                0 => ("pid", process.pid),
                tid => ("tid", tid),
            };
            let _ = writeln!(
                out,
                "ID: {index}\nsignal: {}/{:016x}\nnotify: {how}/{whom}.{number}\nClockID: {}",
                notify.signo, notify.value, made.clock,
            );
        });
        if !more {
            break;
        }
    }
    Ok(())
}

impl PseudoDir for PidDir {
    fn get(&self, name: &str) -> Result<PseudoEntry> {
        let process = self.process.clone();
        let task = self.task.clone();
        Ok(match name {
            "stat" => text(move |out| status::stat(&process, task.as_deref(), out)),
            "status" => {
                long_text(move |from, piece| status::status(&process, task.as_deref(), from, piece))
            }
            "statm" => text(move |out| status::statm(&process, out)),
            "cmdline" => long_text(move |from, piece| {
                // Bound: copying two counted handles.
                let rights = process.rights.lock();
                let (program, space) = whole_program(&process);
                drop(rights);
                if let Some(space) = space {
                    bytes(&space, &program.arguments, from, piece);
                }
                Ok(())
            }),
            "comm" => text(move |out| {
                out.push_str(&process.program().comm);
                out.push('\n');
                Ok(())
            }),
            "environ" => PseudoEntry::Private(looking(process, |sight, from, piece| {
                if let Some((program, Some(space))) = sight.with(whole_program) {
                    bytes(&space, &program.environment, from, piece);
                }
            })),
            "exe" => PseudoEntry::MagicLink(Arc::new(Exe(process))),
            "cwd" => PseudoEntry::MagicLink(Arc::new(Stands(process, false))),
            "root" => PseudoEntry::MagicLink(Arc::new(Stands(process, true))),
            "fd" => PseudoEntry::Dir(Arc::new(FdDir(process))),
            "fdinfo" => PseudoEntry::Dir(Arc::new(FdinfoDir(process))),
            "maps" => PseudoEntry::Text(looking(process, maps)),
            "smaps" => PseudoEntry::Text(looking(process, smaps::smaps)),
            "mem" => PseudoEntry::File(Arc::new(MemFile(process))),
            "pagemap" => PseudoEntry::File(Arc::new(PagemapFile(process))),
            "personality" => PseudoEntry::Private(looking(process, |sight, from, piece| {
                let told = |process: &Arc<Process>| process.personality.load(Ordering::Relaxed);
                if from == 0
                    && let Some(personality) = sight.with(told)
                {
                    piece.record(1, |out| {
                        let _ = writeln!(out, "{personality:08x}");
                    });
                }
            })),
            "mounts" => long_text(move |from, piece| each_mount(&process, from, piece, mount)),
            "mountinfo" => {
                long_text(move |from, piece| each_mount(&process, from, piece, mountinfo))
            }
            "net" => PseudoEntry::Dir(Arc::new(FixedDir(net::ALL))),
            "cgroup" => text(move |out| crate::cgroupfs::line(&process, out)),
            "limits" => text(move |out| limits(&process, out)),
            "oom_score_adj" => tuned(process, &tunables::ADJUSTMENT),
            "oom_adj" => tuned(process, &tunables::OLD_ADJUSTMENT),
            "coredump_filter" => tuned(process, &tunables::FILTER),
            "timerslack_ns" => tuned(process, &tunables::SLACK),
            "auxv" => PseudoEntry::Private(looking(process, |sight, from, piece| {
                if let Some((program, Some(space))) = sight.with(whole_program) {
                    bytes(&space, &program.aux, from, piece);
                }
            })),
            "schedstat" => text(move |out| {
                let (cpu_ns, switches) = match &task {
                    Some(task) => (task.cpu_ns(), task.thread.switches()),
                    None => match process.a_thread() {
                        Some(first) => (first.cpu_ns(), first.thread.switches()),
                        None => (0, 0),
                    },
                };
                // How long it waited nobody counts.
                let _ = writeln!(out, "{cpu_ns} 0 {switches}");
                Ok(())
            }),
            "smaps_rollup" => PseudoEntry::Text(looking(process, smaps::rollup)),
            "loginuid" => tuned(process, &tunables::LOGIN),
            "sessionid" => text(move |out| {
                let _ = write!(out, "{}", process.login.session());
                Ok(())
            }),
            "oom_score" => text(move |out| {
                // From 0 to 2000; 667 for one that holds nothing.
                let all = vm::frame::total() as isize;
                let thousandths = |points: isize| (1000 + points * 1000 / all) * 2 / 3;
                let _ = writeln!(out, "{}", points(&process).map_or(0, thousandths));
                Ok(())
            }),
            // Nobody sleeps in a function with a name.
            "wchan" => text(|out| {
                out.push('0');
                Ok(())
            }),
            "ns" => PseudoEntry::Dir(Arc::new(FixedDir(ns::ALL))),
            "clear_refs" => PseudoEntry::File(Arc::new(ClearRefsFile(process))),
            "map_files" if self.task.is_none() => PseudoEntry::Dir(Arc::new(MapFilesDir(process))),
            "timers" if self.task.is_none() => {
                long_text(move |from, piece| timers(&process, from, piece))
            }
            "children" if self.task.is_some() => long_text(move |from, piece| {
                children(&process, task.as_deref(), from, piece);
                Ok(())
            }),
            "task" if self.task.is_none() => PseudoEntry::Dir(Arc::new(Tasks(process))),
            _ => return Err(Errno::ENOENT),
        })
    }

    fn list(&self, from: u64, each: EachEntry) {
        let elsewhere: &[&str] = match self.task {
            Some(_) => &["task", "map_files", "timers"],
            None => &["children"],
        };
        for (place, (name, kind)) in (0..).zip(NAMES) {
            if elsewhere.contains(&name) {
                continue;
            }
            if place >= from && !each(place, name, kind) {
                return;
            }
        }
    }

    fn folders(&self) -> usize {
        folders_listed(self)
    }

    fn whose(&self) -> Option<Arc<dyn core::any::Any + Send + Sync>> {
        let process = self.task.is_none().then(|| self.process.clone());
        process.map(|process| process as _)
    }

    fn owner(&self) -> (u32, u32) {
        let cred = self.process.cred.get();
        (cred.euid, cred.egid)
    }

    fn owner_inside(&self) -> (u32, u32) {
        access::owner_of(&self.process)
    }
}

/// `/proc/PID/task`.
struct Tasks(Arc<Process>);

impl PseudoDir for Tasks {
    fn get(&self, name: &str) -> Result<PseudoEntry> {
        let task = self.0.task(number_in(name)?);
        Ok(PseudoEntry::Dir(Arc::new(PidDir {
            process: self.0.clone(),
            task: Some(task.ok_or(Errno::ENOENT)?),
        })))
    }

    #[expect(clippy::disallowed_methods, reason = "a number")]
    fn list(&self, from: u64, each: EachEntry) {
        let last = i32::try_from(from).unwrap_or(i32::MAX).saturating_sub(1);
        self.0.each_thread_after(last, |task| {
            each(task.tid as u64, &task.tid.to_string(), FileKind::Directory)
        });
    }

    // Programs learn from it that they have no other thread.
    fn folders(&self) -> usize {
        self.0.thread_count()
    }

    fn owner(&self) -> (u32, u32) {
        let cred = self.0.cred.get();
        (cred.euid, cred.egid)
    }
}

/// `/proc/PID/exe`.
struct Exe(Arc<Process>);

impl MagicLink for Exe {
    fn text(&self) -> Result<Vec<u8>> {
        Ok(self.place()?.display_path()?.into_bytes())
    }

    fn place(&self) -> Result<VfsPath> {
        // Not by its path, which may lead elsewhere by now.
        let program = look_into(&self.0, || self.0.program())?;
        program.place.clone().ok_or(Errno::ENOENT)
    }
}

/// `/proc/PID/cwd` and `/proc/PID/root`.
struct Stands(Arc<Process>, bool);

impl MagicLink for Stands {
    fn text(&self) -> Result<Vec<u8>> {
        let root = Process::current().fs.get().root();
        self.place()?.path(&root)
    }

    fn place(&self) -> Result<VfsPath> {
        if self.0.is_zombie() {
            return Err(Errno::ENOENT);
        }
        look_into(&self.0, || {
            let fs = self.0.fs.get();
            if self.1 { fs.root() } else { fs.cwd() }
        })
    }
}

/// A process's program and its memory. Its rights are held.
fn whole_program(process: &Arc<Process>) -> (Arc<Program>, Option<Arc<AddressSpace>>) {
    (process.program(), process.space())
}

/// The bytes of `space` at `range`, from byte `from` on; they end where the memory does.
fn bytes(space: &AddressSpace, range: &Range<usize>, from: u64, piece: &mut TextPiece) {
    /// A record of them.
    const RECORD: usize = 512;
    let from = usize::try_from(from).unwrap_or(usize::MAX);
    let mut at = range.start.saturating_add(from);
    let mut part = [0; RECORD];
    while at < range.end {
        let part = &mut part[..(range.end - at).min(RECORD)];
        if space.read_at(at, part).is_err() {
            return;
        }
        at += part.len();
        let next = (at - range.start) as u64;
        if !piece.record(next, |out| out.push_bytes(part)) {
            return;
        }
    }
}

/// A line for each area that ends above `from`.
fn maps(sight: &AccessSnapshot, from: u64, piece: &mut TextPiece) {
    if let (Some(space), Ok(from)) = (sight.space(), usize::try_from(from)) {
        space.for_each_area_above(from, |area| {
            piece.record(area.end as u64, |out| smaps::map(&area, out))
        });
    }
}

#[expect(clippy::disallowed_methods, reason = "four short words")]
fn options(flags: u64) -> String {
    let mut options = String::from(if flags & mount::MS_RDONLY != 0 {
        "ro"
    } else {
        "rw"
    });
    for (flag, name) in [
        (mount::MS_NOSUID, ",nosuid"),
        (mount::MS_NODEV, ",nodev"),
        (mount::MS_NOEXEC, ",noexec"),
    ] {
        if flags & flag != 0 {
            options.push_str(name);
        }
    }
    options
}

/// The bytes of a path that would end a field of a table of mounts.
const IN_PATHS: &[u8] = b" \t\n\\";
/// Those of a source, which could also begin a comment.
const IN_SOURCES: &[u8] = b" \t\n\\#";

/// A record for each mount with number `from` or more that `process` can reach from its root directory.
fn each_mount(
    process: &Process,
    from: u64,
    piece: &mut TextPiece,
    show: fn(&mount::Mount, &[u8], &mut TextOut),
) -> Result<()> {
    let root = process.fs.get().root();
    let mut from = from;
    while let Some(mount) = mount::mount_from(from) {
        from = u64::from(mount.id) + 1;
        let path = match mount.top().path(&root) {
            Err(Errno::ENOENT) => continue,
            path => path?,
        };
        if !piece.record(from, |out| show(&mount, &path, out)) {
            break;
        }
    }
    Ok(())
}

/// A mount at `path` in the form of fstab(5).
fn mount(mount: &mount::Mount, path: &[u8], out: &mut TextOut) {
    out.octal(mount.source.as_bytes(), IN_SOURCES);
    out.push(' ');
    out.octal(path, IN_PATHS);
    let (kind, options) = (mount.fs.kind(), options(mount.flags()));
    let own = mount.fs.options();
    let _ = writeln!(out, " {kind} {options},noatime{own} 0 0");
}

/// As `mount`, with numbers, and the directory of the file system that is seen there.
fn mountinfo(mount: &mount::Mount, path: &[u8], out: &mut TextOut) {
    let covers = mount.covers();
    let above = covers.as_ref().as_ref().map_or(0, |c| c.mount.id);
    let (dev, _) = mount.root.id();
    let flags = options(mount.flags());
    let (id, major, minor) = (mount.id, abi::linux::major(dev), abi::linux::minor(dev));
    let _ = write!(out, "{id} {above} {major}:{minor} ");
    match mount.origin() {
        Ok(Some(origin)) => out.octal(&origin, IN_PATHS),
        Ok(None) => out.push_str("//deleted"),
        Err(_) => return out.lack(),
    }
    out.push(' ');
    out.octal(path, IN_PATHS);
    let _ = write!(out, " {flags},noatime - {} ", mount.fs.kind());
    out.octal(mount.source.as_bytes(), IN_SOURCES);
    let _ = writeln!(out, " {flags}");
}

fn limits(process: &Process, out: &mut TextOut) -> Result<()> {
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
    #[expect(clippy::disallowed_methods, reason = "a number")]
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
    // Bound: a few words of one process.
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
