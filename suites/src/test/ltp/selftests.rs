//! The selftests of Linux's source, from Debian's package of it: kselftests of some topics, and each case of
//! `nolibc-test`.
//!
//! *Interface*: [`built`] is a folder for the neighbour `folder`, made once in `build/selftests`.
//!
//! Of the source, which is no part of the project, only what the programs are made of is unpacked. They are
//! compiled here and not by the source's makefiles, which want headers that a whole build makes.

use super::folder::PLACE;
use std::ffi::OsStr;
use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::process::Command;
use xtask::failure::{Context, Failure, HOST, Result};
use xtask::host;

/// Debian's package of the source.
const PACKAGE: &str = "linux-source-6.1";
/// Where the selftests are, below the source.
const TESTS: &str = "tools/testing/selftests";
/// The parts of the source that are unpacked.
const PARTS: [&str; 3] = [TESTS, "tools/include", "include/uapi"];
/// The headers of nolibc, and those of its tests.
const NOLIBC: (&str, &str) = ("tools/include/nolibc", "nolibc/nolibc-test");

/// Programs of a folder of the selftests, each of the source of its name.
struct Topic {
    folder: &'static str,
    programs: &'static str,
    /// More for the compiler.
    flags: &'static str,
}

const fn topic(folder: &'static str, programs: &'static str, flags: &'static str) -> Topic {
    Topic {
        folder,
        programs,
        flags,
    }
}

/// The topics that run. From `timers` those are left out that take minutes (`raw_skew`, `skew_consistency`),
/// suspend the machine, or never end (`leapcrash`).
const TOPICS: &[Topic] = &[
    topic("filesystems/epoll", "epoll_wakeup_test", ""),
    topic(
        "pidfd",
        "pidfd_test pidfd_fdinfo_test pidfd_open_test pidfd_poll_test pidfd_wait pidfd_getfd_test pidfd_setns_test",
        "",
    ),
    topic(
        "timers",
        "posix_timers nanosleep nsleep-lat set-timer-lat mqueue-lat inconsistency-check threadtest rtcpie valid-adjtimex set-tai \
         set-2038 set-tz",
        "",
    ),
    topic("sigaltstack", "sas", ""),
    topic(
        "futex/functional",
        "futex_wait_timeout futex_wait_wouldblock futex_requeue_pi futex_requeue_pi_signal_restart futex_requeue_pi_mismatched_ops \
         futex_wait_uninitialized_heap futex_wait_private_mapped_file futex_wait futex_requeue futex_waitv",
        "-I../include",
    ),
    topic("ptrace", "get_syscall_info peeksiginfo vmaccess", ""),
    topic("exec", "execveat non-regular recursion-depth null-argv", ""),
    topic("core", "close_range_test", ""),
    topic("kcmp", "kcmp_test", ""),
    topic(
        "membarrier",
        "membarrier_test_single_thread membarrier_test_multi_thread",
        "",
    ),
    topic("mincore", "mincore_selftest", ""),
    topic(
        "openat2",
        "openat2_test resolve_test rename_attack_test",
        "helpers.c",
    ),
    topic(
        "proc",
        "fd-001-lookup fd-002-posix-eq fd-003-kthread proc-loadavg-001 proc-empty-vm proc-pid-vm proc-self-map-files-001 \
         proc-self-map-files-002 proc-self-syscall proc-self-wchan proc-subset-pid proc-tid0 proc-uptime-001 proc-uptime-002 read self \
         setns-dcache setns-sysvipc thread-self proc-multiple-procfs proc-fsconfig-hidepid",
        "",
    ),
    topic("breakpoints", "breakpoint_test", ""),
    topic("tmpfs", "bug-link-o-tmpfile", ""),
    topic("filesystems", "devpts_pts", ""),
];

/// The files that `execveat` finds beside it.
const BESIDE_EXEC: &str = "mkdir -p subdir && printf '#!/bin/sh\\nexit $*\\n' > script && chmod 755 script && ln -sf execveat execveat.symlink \
                           && cp execveat execveat.denatured && chmod 644 execveat.denatured && touch Makefile";

/// The folder with the programs and the list of cases.
///
/// # Errors
/// Host failure when the package cannot be had or a program cannot be made.
pub fn built() -> Result<PathBuf> {
    let dir = host::build_dir("selftests")?;
    let folder = dir.join("folder");
    let list = folder.join("cases");
    if list.exists() {
        return Ok(folder);
    }
    host::need(&[host::GCC])?;
    let source = source(&dir)?;
    let tests = source.join(TESTS);
    eprintln!("xtask: building Linux's selftests");
    let mut cases = String::new();
    for topic in TOPICS {
        let out = folder.join(topic.folder);
        std::fs::create_dir_all(&out).context(out.display())?;
        for program in topic.programs.split_whitespace() {
            compile(&tests, topic, program, &out)?;
            let name = topic.folder.trim_end_matches("/functional");
            // Writing to a string cannot fail.
            let _ = writeln!(
                cases,
                "{name}/{program} cd {PLACE}/{} && ./{program}",
                topic.folder
            );
        }
    }
    in_folder(&folder.join("exec"), BESIDE_EXEC, &[])?;
    cases += &nolibc(&source, &folder)?;
    std::fs::write(&list, cases).context(list.display())?;
    Ok(folder)
}

/// The unpacked source.
fn source(dir: &Path) -> Result<PathBuf> {
    let source = dir.join("source");
    if source.join(TESTS).is_dir() {
        return Ok(source);
    }
    if host::find("apt-get").is_none() {
        return Err(Failure::new(
            HOST,
            format!("{PACKAGE} is fetched by apt-get, and there is none here"),
        ));
    }
    let half = dir.join("source.half");
    std::fs::create_dir_all(&half).context(half.display())?;
    eprintln!("xtask: fetching and unpacking Debian's {PACKAGE} (140 MB)");
    let get = "apt-get download -qq -o APT::Sandbox::User=root \"$1\"";
    if in_folder(dir, get, &[PACKAGE.as_ref()]).is_err() {
        // A fresh machine has no list of packages.
        host::update()?;
        in_folder(dir, get, &[PACKAGE.as_ref()])?;
    }
    let wanted: String = PARTS.map(|part| format!(" '{PACKAGE}/{part}'")).concat();
    let script = format!(
        "dpkg-deb --fsys-tarfile {PACKAGE}_*.deb | tar -xO ./usr/src/{PACKAGE}.tar.xz | tar -xJ -C source.half --strip-components=1{wanted} \
         && rm {PACKAGE}_*.deb"
    );
    in_folder(dir, &script, &[])?;
    std::fs::rename(&half, &source).context(source.display())?;
    Ok(source)
}

/// Runs a shell's script in a folder, with words.
fn in_folder(dir: &Path, script: &str, words: &[&OsStr]) -> Result<()> {
    let mut shell = Command::new("sh");
    shell
        .arg("-c")
        .arg(format!("cd \"$0\" && {script}"))
        .arg(dir)
        .args(words);
    host::run_quietly(&mut shell)
}

fn compile(tests: &Path, topic: &Topic, program: &str, out: &Path) -> Result<()> {
    let script = format!(
        "gcc -O2 -w -s -D_GNU_SOURCE -I\"$1\" -o \"$2\" {program}.c {} -lpthread -lrt -lm",
        topic.flags
    );
    let out = out.join(program);
    in_folder(
        &tests.join(topic.folder),
        &script,
        &[tests.as_ref(), out.as_ref()],
    )
}

/// Makes `nolibc-test` and gives its cases.
fn nolibc(source: &Path, folder: &Path) -> Result<String> {
    let headers = folder.with_file_name("nolibc");
    let from = source.join(NOLIBC.0);
    let out = folder.join(NOLIBC.1);
    let script = "mkdir -p \"$1\" \"$(dirname \"$2\")\" && cp *.h \"$1\" && cp arch-x86_64.h \"$1/arch.h\" \
                  && gcc -Os -w -s -fno-asynchronous-unwind-tables -nostdlib -static -I\"$1\" -include nolibc.h -o \"$2\" \"$3\" -lgcc";
    let file = source.join(TESTS).join(format!("{}.c", NOLIBC.1));
    let words = [&headers, &out, &file].map(|path| path.as_os_str());
    in_folder(&from, script, &words)?;
    let text = std::fs::read_to_string(&file).context(file.display())?;
    Ok(numbered(&text)
        .iter()
        .map(|(set, number, name)| {
            format!(
                "nolibc/{name} NOLIBC_TEST={set}:{number} {PLACE}/{}\n",
                NOLIBC.1
            )
        })
        .collect())
}

/// The cases of `nolibc-test`, by their set, their number, which is that of the line behind the set's
/// `switch`, and their name.
fn numbered(text: &str) -> Vec<(&str, usize, &str)> {
    let mut cases = Vec::new();
    let (mut set, mut first) = ("", 0);
    for (line, words) in text.lines().enumerate() {
        let words = words.trim();
        if let Some(rest) = words.strip_prefix("int run_") {
            set = rest.split('(').next().unwrap_or_default();
        } else if words.starts_with("switch (test + __LINE__ + 1)") {
            first = line + 1;
        } else if let Some(rest) = words.strip_prefix("CASE_TEST(") {
            cases.push((
                set,
                line - first,
                rest.split(')').next().unwrap_or_default(),
            ));
        }
    }
    cases
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cases_have_the_numbers_of_their_lines() {
        let text = "int run_syscall(int min)\n{\n\tswitch (test + __LINE__ + 1) {\n\tCASE_TEST(a); x;\n#ifdef B\n\tCASE_TEST(b); y;\n}\n\
                    int run_stdlib(int min)\n\tswitch (test + __LINE__ + 1) {\n\tCASE_TEST(c);\n";
        assert_eq!(
            numbered(text),
            [("syscall", 0, "a"), ("syscall", 2, "b"), ("stdlib", 0, "c")]
        );
    }
}
