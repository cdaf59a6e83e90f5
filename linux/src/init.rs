//! The first program.
//!
//! *Interface*: [`start`] runs the command that the root archive names (docs/run-contract.md); when it ends,
//! its status is reported and the machine powers off. Orphans belong to the built-in process number 1, which
//! reaps them by never keeping them.
#![expect(
    clippy::disallowed_methods,
    clippy::disallowed_macros,
    reason = "the first program, before others, and what the host is told at the end"
)]

use alloc::vec::Vec;

use abi::errno::{Errno, Result};
use abi::linux::*;
use machine::{clock, power};

use file::fdtable::FdTable;
use file::fs::{FsContext, VfsPath};
use file::io::IoBuf;
use process::dispatch;
use process::exec::load::Executable;
use process::exec::stack::ArgStrings;
use process::exec::{self, become_program};
use process::hostname::{NodeOrDomain, rename};
use process::init_process::{self, power_off};
use process::signal;
use process::{Process, Task, TaskRights, fork, tree};
use tty::Console;

const DEFAULT_PATH: &[u8] = b"/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

/// The program to run.
struct Command {
    argv: ArgStrings,
    envp: ArgStrings,
    cwd: Vec<u8>,
}

/// Starts the first process in the tree with `root`. In thread context, all rooms up. A failure is reported
/// to the host as the process's own end.
// On a frame of its own: one step of bringing up is not to lie above the next on the stack.
#[inline(never)]
pub fn start(root: VfsPath, console: Console) -> Result<()> {
    init_process::link_drain(console.drain);
    file::fdtable::link_moved(dispatch::files_moved);
    signal::start()?;
    file::page_cache::flusher::start()?;
    process::memory::start(machine::boot::info().cmdline);
    process::time::rtc::register();
    let context = FsContext::new(root);
    let init = fork::make_init(context)?;
    let command = command(&init)?;
    let path = command.argv.iter().next().unwrap_or_default().to_vec();
    if let Err(error) = run(&init, command, &console) {
        let reason = match error {
            Errno::ENOENT | Errno::ENOTDIR => "not found",
            Errno::ENOEXEC => "not a program for this machine",
            Errno::EACCES => "permission denied",
            Errno::ENOMEM => "out of memory",
            other => other.name(),
        };
        let line = alloc::format!(
            "synthesis: {}: {reason}\n",
            alloc::string::String::from_utf8_lossy(&path)
        );
        // The console may be closed; the status still tells.
        let errors = &console.files[2];
        let _ = errors
            .file()
            .write(errors, &mut IoBuf::drain(line.as_bytes()));
        power_off(if matches!(error, Errno::ENOENT | Errno::ENOTDIR) {
            127
        } else {
            126
        });
    }
    Ok(())
}

/// The whole content of a file of the root archive, if it is there.
fn content(init: &Process, path: &[u8]) -> Option<Vec<u8>> {
    let context = init.fs.get();
    let cred = init.cred.get();
    let view = file::fs::walk::WalkContext::new(context.root(), &cred, 0);
    let place = file::fs::walk::walk(&view, context.root(), path, true)
        .ok()?
        .place?;
    let size = place.inode.attr().size as usize;
    let how = file::fs::OpenRequest {
        flags: O_RDONLY,
        place: Some(place.clone()),
    };
    let of = place.inode.clone().open(how).ok()?;
    let mut bytes = alloc::vec![0; size.min(process::exec::stack::TOTAL_MAX)];
    let count = of
        .file()
        .read_at(&of, 0, &mut IoBuf::fill(&mut bytes))
        .ok()?;
    bytes.truncate(count);
    Some(bytes)
}

fn list(bytes: &[u8]) -> Result<ArgStrings> {
    let mut strings = ArgStrings::default();
    let bytes = bytes.strip_suffix(&[0]).unwrap_or(bytes);
    for string in bytes.split(|&byte| byte == 0) {
        strings.push(string)?;
    }
    Ok(strings)
}

fn command(init: &Process) -> Result<Command> {
    let argv = match content(init, b"/.synthesis/cmd").filter(|bytes| !bytes.is_empty()) {
        Some(bytes) => list(&bytes)?,
        None => list(b"/bin/sh\0-l\0")?,
    };
    let envp = match content(init, b"/.synthesis/env") {
        Some(bytes) if bytes.is_empty() => ArgStrings::default(),
        Some(bytes) => list(&bytes)?,
        None => list(&[b"PATH=", DEFAULT_PATH, b"\0HOME=/root\0TERM=linux\0"].concat())?,
    };
    let cwd = content(init, b"/.synthesis/cwd").unwrap_or_else(|| b"/root".to_vec());
    if let Some(name) = content(init, b"/etc/hostname") {
        rename(NodeOrDomain::Host, name.trim_ascii());
    }
    Ok(Command { argv, envp, cwd })
}

/// Opens the program called `name`: a path, or searched in `PATH`.
fn search(process: &Process, name: &[u8], envp: &ArgStrings) -> Result<Executable> {
    let cwd = process.fs.get().cwd();
    if name.contains(&b'/') {
        return Executable::open(process, cwd, name, true);
    }
    let path = envp
        .iter()
        .find_map(|s| s.strip_prefix(b"PATH="))
        .unwrap_or(DEFAULT_PATH);
    let mut outcome = Err(Errno::ENOENT);
    for directory in path.split(|&byte| byte == b':') {
        let full = [directory, b"/", name].concat();
        match Executable::open(process, cwd.clone(), &full, true) {
            Ok(source) => return Ok(source),
            Err(error @ Errno::EACCES) => outcome = Err(error),
            Err(_) => {}
        }
    }
    outcome
}

fn run(init: &Process, command: Command, console: &Console) -> Result<()> {
    let files = FdTable::new(1024)?;
    for (fd, of) in (0..).zip(&console.files) {
        files.install_at(fd, of.clone(), false)?;
    }
    let number = tree::reserve(true)?;
    let process = fork::first_process(init, number, files);
    let context = process.fs.get();
    let cred = process.cred.get();
    let view = file::fs::walk::WalkContext::new(context.root(), &cred, 0);
    let cwd = file::fs::walk::walk(&view, context.root(), &command.cwd, true);
    if let Ok(cwd) = cwd.and_then(|target| target.existing()) {
        context.set_cwd(cwd)?;
    }
    let name = command.argv.iter().next().unwrap_or_default().to_vec();
    let source = search(&process, &name, &command.envp)?;
    let prepared = exec::prepare(&process, source, command.argv, command.envp)?;
    process.space.set(Some(prepared.space().clone()));
    let frame = exec::begin(&prepared);
    let thread = dispatch::user_thread(&frame, &|_| {}, prepared.space(), 0, false)?;
    let rights = TaskRights {
        cred,
        no_new_privileges: false,
    };
    let shared = process.clone();
    let task = Task::new(number, shared, 0, thread, None, rights, Default::default);
    become_program(&task, &prepared);
    process.admit(&task);
    tree::found(&process, Some(init));
    init_process::set_first(number);
    if let Some(terminal) = &console.terminal {
        terminal.adopted(number, number);
        // Bound: copying or exchanging one counted handle.
        *process.session.get().terminal.lock() = Some(terminal.clone());
    }
    let by = if tty::streams_by_ports() {
        " ports"
    } else {
        ""
    };
    power::report(&alloc::format!("start {}{by}", clock::now_ns()));
    thread::start(&task.thread);
    Ok(())
}
