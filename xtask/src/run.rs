//! `cargo xtask run`: a shell on this terminal, or one command in the guest.
//!
//! *Interface*: `main`; `boot_words` for the kernel's command line.

use crate::failure::{Failure, PANIC, Result, TIMEOUT, USAGE};
use crate::machine::{
    Log, Machine, Running, Share, Status, Streams, Virtio, memory_for_root, usual_memory,
};
use crate::options::{HELP, Options};
use crate::rootfs::Root;
use crate::terminal::{self, Raw};
use crate::{alternatives, compile, debian, host, kernel};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM, SIGWINCH};
use signal_hook::iterator::Signals;
use std::ffi::OsString;
use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::AsFd;
use std::path::PathBuf;

/// Runs the command; gives the guest's exit status.
pub fn main(words: Vec<OsString>) -> Result<i32> {
    let options = Options::parse(words)?;
    if options.help {
        print!("{HELP}");
        return Ok(0);
    }
    let terminal = terminal::interactive();
    prepare(&options)?;
    let (mut root, command) = host::telling("reading the root", || root(&options))?;
    let shares = shares(&options, &mut root)?;
    host::need(&[host::QEMU])?;
    let kernel = kernel_for(&options)?;
    let tables = match options.kernel {
        // Another project's kernel, or one without its names, has no tables.
        Some(_) => kernel::tables(&kernel).unwrap_or_default(),
        None => kernel::tables(&kernel)?,
    };
    let mut environment = options.environment.clone();
    if terminal {
        let kind = std::env::var("TERM").unwrap_or_else(|_| "linux".into());
        environment.insert(0, format!("TERM={kind}"));
    }
    let archive = host::telling("packing the root", || {
        root.finish(tables, &command, &environment)
    });
    let memory = memory(&options, archive.len())?;

    let mut machine = describe(&options, &kernel, memory)?;
    machine.append = format!("{} {}", boot_words(terminal), options.append);
    machine.shares = shares;
    machine.virtio = (!terminal).then_some(Virtio::Messages);
    if let Some(wish) = &options.mitigations {
        machine.append.push_str(&format!(" mitigations={wish}"));
    }
    let raw = if terminal { Some(Raw::enter()?) } else { None };
    let streams = Streams {
        input: standard_input()?,
        output: standard(rustix::stdio::stdout())?,
        error: standard(rustix::stdio::stderr())?,
        terminal,
    };
    let running = Running::start(&machine, &archive, streams)?;
    forward_signals(&running, terminal)?;
    let outcome = running.wait(options.timeout);
    drop(raw);
    Ok(match outcome.status {
        Status::Exit(status) => status,
        Status::Panic => {
            eprint!("{}", outcome.report);
            PANIC
        }
        Status::Timeout => {
            eprintln!("xtask: the time is over (--timeout)");
            TIMEOUT
        }
        Status::Interrupted(signal) => 128 + signal,
        Status::Lost => {
            let why = outcome.report.trim();
            let why = if why.is_empty() {
                "reset or triple fault"
            } else {
                why
            };
            eprintln!("xtask: the machine stopped without a status: {why}");
            PANIC
        }
    })
}

/// Installs what is missing for the usual root and the machine. The kernel is built meanwhile, since both
/// take long on a new machine.
fn prepare(options: &Options) -> Result<()> {
    let usual = options.root.is_none() && options.packages.is_empty() && options.kernel.is_none();
    if !usual || (host::present(&host::QEMU) && host::present(&host::BUSYBOX)) {
        return Ok(());
    }
    std::thread::scope(|scope| {
        let built = scope.spawn(|| kernel_for(options));
        // In one go, with the compiler of the root's own programs.
        host::need(&[host::QEMU, host::BUSYBOX, host::MUSL_GCC])?;
        built.join().unwrap_or_else(|_| kernel_for(options))?;
        Ok(())
    })
}

/// The machine's memory for a root archive of `len` bytes: what the options say, or the usual, and a large
/// root's size besides.
///
/// # Errors
/// A usage failure that names the memory that would do, if the options say less.
pub fn memory(options: &Options, len: usize) -> Result<u64> {
    let enough = memory_for_root(len as u64);
    let Some(memory) = options.memory else {
        return Ok(usual_memory(len));
    };
    if enough <= memory {
        return Ok(memory);
    }
    Err(Failure::new(
        USAGE,
        format!(
            "a root of {} MiB does not fit into {} MiB of memory: --mem {}M would do",
            len.div_ceil(1 << 20),
            memory >> 20,
            enough.div_ceil(1 << 20)
        ),
    ))
}

/// The kernel that the options ask for.
fn kernel_for(options: &Options) -> Result<PathBuf> {
    match &options.kernel {
        Some(kernel) => Ok(kernel.clone()),
        None => kernel::build(kernel::Profile::quick(options.quick)),
    }
}

/// A root of packages, with the names for which they offer programs.
fn of_packages(options: &Options, packages: &[&str]) -> Result<Root> {
    let folder = debian::whole(packages)?;
    host::need(&[host::QEMU])?;
    alternatives::choose(&folder, &kernel_for(options)?)?;
    Root::new(Some(&folder))
}

/// The root and the first process's words that the options ask for.
pub fn root(options: &Options) -> Result<(Root, Vec<String>)> {
    let packages: Vec<_> = options.packages.iter().map(String::as_str).collect();
    let mut root = match (packages.as_slice(), options.root.as_deref()) {
        (&[], source) => Root::new(source)?,
        (packages, None) => of_packages(options, packages)?,
        _ => {
            return Err(Failure::new(
                USAGE,
                "--root and --package: one of them makes the root",
            ));
        }
    };
    for item in &options.add {
        root.add(item)?;
    }
    if options.music {
        root.music(&compile::music()?)?;
    }
    if let Some(disc) = &options.cd {
        root.disc(disc)?;
    }
    let mut command = options.command.clone();
    match command.first_mut() {
        Some(name) => *name = root.command(name)?,
        // A Debian system's shell for users, where it is there; else the kernel starts `/bin/sh`.
        None if !packages.is_empty() && root.has(BASH) => command = vec![BASH.into(), "-l".into()],
        None => {}
    }
    Ok((root, command))
}

const BASH: &str = "/bin/bash";

/// The directories of the host that the options ask for.
fn shares(options: &Options, root: &mut Root) -> Result<Vec<Share>> {
    options.share.iter().map(|what| root.share(what)).collect()
}

/// The machine that the options ask for, with so many bytes of memory.
pub fn describe(options: &Options, kernel: &std::path::Path, memory: u64) -> Result<Machine> {
    let mut machine = Machine::new(kernel);
    machine.chipset = options.chipset;
    machine.cpus = options.cpus;
    machine.memory = memory;
    machine.icount = options.icount.then_some(0);
    machine.accel = options.accel;
    machine.display = options.display;
    machine.log = if options.verbose {
        Log::Stderr
    } else {
        Log::File(host::build_dir("")?.join("kernel.log"))
    };
    let mut extra = |words: &[String]| machine.extra.extend(words.iter().map(OsString::from));
    if options.gdb {
        eprintln!(
            "xtask: waiting for gdb: gdb {} -ex 'target remote :1234'",
            kernel.display()
        );
        extra(&["-s".into(), "-S".into()]);
    }
    let undriven = |what: &str| {
        eprintln!("xtask: note: {what} is attached, but the kernel has no driver for it yet")
    };
    if let Some(disk) = &options.disk {
        undriven("the disk");
        extra(&[
            "-drive".into(),
            format!("if=none,id=disk,format=raw,file={}", disk.display()),
        ]);
        extra(&["-device".into(), "virtio-blk-pci,drive=disk".into()]);
    }
    if let Some(audio) = &options.audio {
        machine.audio = Some(audio.clone());
        machine.card = options.card;
    }
    if options.display {
        undriven("the display");
        extra(&["-vga".into(), "std".into()]);
    }
    Ok(machine)
}

/// The kernel's command line: see the run contract.
pub fn boot_words(terminal: bool) -> String {
    if terminal {
        let (rows, cols) = terminal::size();
        format!("console=tty rows={rows} cols={cols}")
    } else {
        "console=stream".into()
    }
}

/// A standard stream without a buffer of Rust's.
fn standard(fd: impl AsFd) -> Result<Box<dyn Write + Send>> {
    Ok(Box::new(File::from(copy(fd)?)))
}

fn standard_input() -> Result<Box<dyn Read + Send>> {
    Ok(Box::new(File::from(copy(rustix::stdio::stdin())?)))
}

fn copy(fd: impl AsFd) -> Result<std::os::fd::OwnedFd> {
    fd.as_fd().try_clone_to_owned().map_err(|error| {
        Failure::new(
            crate::failure::HOST,
            format!("a standard stream is closed: {error}"),
        )
    })
}

/// Signals to us end the machine (after which the terminal is restored) or resize it.
fn forward_signals(running: &Running, terminal: bool) -> Result<()> {
    use crate::failure::Context;
    let handle = running.handle();
    let mut signals =
        Signals::new([SIGINT, SIGTERM, SIGHUP, SIGWINCH]).context("cannot catch signals")?;
    std::thread::spawn(move || {
        for signal in signals.forever() {
            match signal {
                SIGWINCH if terminal => {
                    let (rows, cols) = terminal::size();
                    handle.resize(rows, cols);
                }
                SIGWINCH => {}
                signal => handle.interrupt(signal),
            }
        }
    });
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_follows_the_root() {
        let options = |words: &[&str]| Options::parse(words.iter().map(OsString::from).collect());
        let unsaid = options(&[]).unwrap();
        let usual = memory(&unsaid, 1 << 20).unwrap();
        assert_eq!(usual, 256 << 20);
        let large = memory(&unsaid, 300 << 20).unwrap();
        assert!((usual + (300 << 20)..700 << 20).contains(&large), "{large}");
        let said = options(&["--mem", "64M"]).unwrap();
        assert_eq!(memory(&said, 1 << 20).unwrap(), 64 << 20);
        let refused = memory(&said, 300 << 20).unwrap_err();
        assert!(
            refused.message.contains("--mem 333M"),
            "{}",
            refused.message
        );
    }
}
