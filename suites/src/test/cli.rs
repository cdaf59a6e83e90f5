//! The command line as a user meets it: exact streams, exit statuses, clear errors.
//!
//! *Interface*: `streams`, `statuses`; both run `xtask run` itself.

use super::kit::Kit;
use super::tap::Check;
use std::fs::File;
use std::io::Read;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::{Command, Stdio};
use xtask::{compile, host};

/// The required outcome of `xtask run WORDS`.
struct Case {
    name: &'static str,
    words: &'static [&'static str],
    status: i32,
    stdout: &'static str,
    /// The text that standard error must contain; nothing at all when empty.
    stderr: &'static str,
}

const CASES: &[Case] = &[
    Case {
        name: "echo hi; exit 7",
        words: &["--", "/bin/sh", "-c", "echo hi; exit 7"],
        status: 7,
        stdout: "hi\n",
        stderr: "",
    },
    Case {
        name: "standard error is apart",
        words: &["--", "/bin/sh", "-c", "echo out; echo err >&2"],
        status: 0,
        stdout: "out\n",
        stderr: "err\n",
    },
    Case {
        name: "no newline is added",
        words: &["--", "printf", "a\\r\\n\\tb"],
        status: 0,
        stdout: "a\r\n\tb",
        stderr: "",
    },
    Case {
        name: "a signal",
        words: &["--", "/bin/sh", "-c", "kill -9 $$"],
        status: 137,
        stdout: "",
        stderr: "",
    },
    Case {
        name: "a bare name",
        words: &["--", "true"],
        status: 0,
        stdout: "",
        stderr: "",
    },
    Case {
        name: "--env",
        words: &["--env", "A=b c", "--", "/bin/sh", "-c", "echo \"$A\""],
        status: 0,
        stdout: "b c\n",
        stderr: "",
    },
    Case {
        name: "--add",
        words: &["--add", "LICENSE-MIT:/tmp/l", "--", "head", "-n1", "/tmp/l"],
        status: 0,
        stdout: "MIT License\n",
        stderr: "",
    },
    Case {
        name: "--timeout",
        words: &["--timeout", "4", "--", "sleep", "1000"],
        status: 124,
        stdout: "",
        stderr: "time",
    },
    Case {
        name: "an unknown option",
        words: &["--bogus"],
        status: 2,
        stdout: "",
        stderr: "--bogus",
    },
    Case {
        name: "a missing --root",
        words: &["--root", "/no/such"],
        status: 2,
        stdout: "",
        stderr: "/no/such",
    },
    Case {
        name: "a missing --add",
        words: &["--add", "/no/such"],
        status: 2,
        stdout: "",
        stderr: "/no/such",
    },
    Case {
        name: "nine CPUs",
        words: &["--cpus", "9"],
        status: 2,
        stdout: "",
        stderr: "--cpus",
    },
    Case {
        name: "a missing program",
        words: &["--", "./no-such"],
        status: 127,
        stdout: "",
        stderr: "no-such",
    },
    Case {
        name: "a missing command",
        words: &["--", "no-such"],
        status: 127,
        stdout: "",
        stderr: "no-such",
    },
    Case {
        name: "no ELF program",
        words: &["--", "./README.md"],
        status: 126,
        stdout: "",
        stderr: "README.md",
    },
];

/// Exit statuses and messages.
pub fn statuses(kit: &Kit) -> Vec<Check> {
    let mut checks = Vec::new();
    for case in CASES {
        let mut words = vec!["run"];
        if !case.words.contains(&"--timeout") && case.words.contains(&"--") {
            words.extend(["--timeout", "60"]);
        }
        words.extend(case.words);
        let output = match kit.xtask(&words).output() {
            Ok(output) => output,
            Err(error) => {
                checks.push(Check::new(case.name, false, error.to_string()));
                continue;
            }
        };
        let stdout = String::from_utf8_lossy(&output.stdout);
        let stderr = String::from_utf8_lossy(&output.stderr);
        let told = if case.stderr.is_empty() {
            stderr.is_empty()
        } else {
            stderr.contains(case.stderr)
        };
        let good = output.status.code() == Some(case.status)
            && stdout == case.stdout
            && told
            && stderr.lines().count() <= 1;
        checks.push(Check::new(
            case.name,
            good,
            format!("{}, out [{stdout}], err [{stderr}]", output.status),
        ));
    }
    checks.push(host_program(kit));
    checks.push(dynamic_program(kit));
    checks.push(missing_call(kit));
    checks.extend(packed_roots(kit));
    checks.push(other_machine(kit));
    checks.push(without_a_reader(kit));
    checks.extend(named_kernels(kit));
    for (kind, cause, place) in TROUBLE {
        checks.push(report(kit, kind, cause, place));
    }
    checks
}

/// A kernel that `--kernel` names moves itself by its tables; one of whose places nothing is known stays
/// where it is.
fn named_kernels(kit: &Kit) -> Vec<Check> {
    const KNOWN: &[u8] = b"__image_start";
    const UNKNOWN: &[u8] = b"__other_start";
    let nameless = host::project().join("build/test/nameless-kernel");
    let mut bytes = std::fs::read(kit.kernel()).unwrap_or_default();
    let found = bytes.windows(KNOWN.len()).position(|part| part == KNOWN);
    if let Some(name) = found.and_then(|at| bytes.get_mut(at..at + KNOWN.len())) {
        name.copy_from_slice(UNKNOWN);
    }
    let copied = std::fs::write(&nameless, bytes).is_ok() && found.is_some();
    let run = |name, kernel: &Path| {
        let words = ["run", "--timeout", "60", "--kernel"];
        let mut command = kit.xtask(&words);
        command.arg(kernel).args(["--", "/bin/sh", "-c", "exit 3"]);
        match command.output() {
            Ok(output) => Check::new(
                name,
                copied && output.status.code() == Some(3),
                String::from_utf8_lossy(&output.stderr),
            ),
            Err(error) => Check::new(name, false, error.to_string()),
        }
    };
    let checks = vec![
        run("--kernel", kit.kernel()),
        run("--kernel without its tables", &nameless),
    ];
    let _ = std::fs::remove_file(nameless);
    checks
}

/// A list whose reader has gone ends without a report.
fn without_a_reader(kit: &Kit) -> Check {
    let name = "a reader that has gone";
    let ended = std::io::pipe().and_then(|(reader, writer)| {
        drop(reader);
        kit.xtask(&["calls"]).stdout(writer).output()
    });
    match ended {
        Ok(ended) => Check::new(
            name,
            ended.status.code() == Some(141) && ended.stderr.is_empty(),
            format!(
                "{}, err [{}]",
                ended.status,
                String::from_utf8_lossy(&ended.stderr)
            ),
        ),
        Err(error) => Check::new(name, false, error.to_string()),
    }
}

/// The troubles that the kernel can be told to get into, how its report names each, and a function that the
/// report shows.
const TROUBLE: [(&str, &str, &str); 3] = [
    ("panic", "provoked by the command line", "provoke"),
    ("fault", "page fault at 0xffffffffd0000000", "provoke"),
    ("overflow", "double fault", "deeper"),
];

/// The end of the kernel: its report on standard error, with names, status 101, and nothing on standard
/// output.
fn report(kit: &Kit, kind: &str, cause: &str, place: &str) -> Check {
    let name = format!("provoke={kind}");
    let words = ["run", "--timeout", "60", "--cpus", "2", "--append"];
    let mut command = kit.xtask(&words);
    // The program would wait for ever; the kernel's end ends it.
    let run = command.args([&name, "--", "sleep", "1000"]).output();
    let Ok(output) = run else {
        return Check::new(name, false, "xtask does not start");
    };
    let told = String::from_utf8_lossy(&output.stderr);
    let good = output.status.code() == Some(101)
        && output.stdout.is_empty()
        && told.starts_with("kernel panic: ")
        && told.contains(cause)
        && told.contains(place)
        // A double fault is reported from a stack that belongs to no thread.
        && (kind == "overflow" || told.contains("thread boot"));
    Check::new(name, good, format!("{}, err [{told}]", output.status))
}

/// A program of the host that the default root has no loader for: the line says what helps.
fn dynamic_program(kit: &Kit) -> Check {
    let name = "a dynamic program of the host";
    let run = std::env::current_exe().and_then(|this| kit.xtask(&["run", "--"]).arg(this).output());
    match run {
        Ok(output) => {
            let told = String::from_utf8_lossy(&output.stderr);
            let good = output.status.code() == Some(126)
                && ["loader", "the host's file", "--root"]
                    .iter()
                    .all(|word| told.contains(word));
            Check::new(name, good, told)
        }
        Err(error) => Check::new(name, false, error.to_string()),
    }
}

/// A call that is not there is named once in the kernel's log, with who wants it.
fn missing_call(kit: &Kit) -> Check {
    let name = "a call that is not there";
    let twice = "pivot_root / /; pivot_root / /; exit 5";
    let words = ["run", "--timeout", "60", "-v", "--", "sh", "-c", twice];
    match kit.xtask(&words).output() {
        Ok(output) => {
            let told = String::from_utf8_lossy(&output.stderr);
            let line = "pivot_root wants the call pivot_root, which is not there";
            let good = output.status.code() == Some(5) && told.matches(line).count() == 1;
            Check::new(name, good, told)
        }
        Err(error) => Check::new(name, false, error.to_string()),
    }
}

/// A root from a tar archive, as it is and compressed, gets what each root has.
fn packed_roots(kit: &Kit) -> Vec<Check> {
    let folder = host::project().join("build/test/packed-root");
    let _ = std::fs::remove_dir_all(&folder);
    let made = pack(&folder);
    let checks = ["root.tar", "root.tar.gz"].map(|name| {
        let name_of_check = format!("--root {name}");
        let mut command = kit.xtask(&["run", "--timeout", "60", "--root"]);
        command.arg(folder.join(name));
        command.args([
            "--",
            "sh",
            "-c",
            "cat /etc/hostname && readlink /bin/sh && id -un && test -d /tmp",
        ]);
        match (&made, &command.output()) {
            (Ok(()), Ok(output)) => Check::new(
                name_of_check,
                output.status.success() && output.stdout == b"synthesis\nbusybox\nroot\n",
                format!(
                    "{}, err [{}]",
                    output.status,
                    String::from_utf8_lossy(&output.stderr)
                ),
            ),
            (Err(error), _) | (_, Err(error)) => {
                Check::new(name_of_check, false, error.to_string())
            }
        }
    });
    let _ = std::fs::remove_dir_all(folder);
    checks.into()
}

/// A busybox and its links in `folder/root.tar`, and the same compressed.
fn pack(folder: &Path) -> std::io::Result<()> {
    let tools = folder.join("tree/bin");
    std::fs::create_dir_all(&tools)?;
    std::fs::copy(
        host::find(host::BUSYBOX.program).unwrap_or_default(),
        tools.join("busybox"),
    )?;
    for applet in ["sh", "cat", "readlink", "id", "test"] {
        symlink("busybox", tools.join(applet))?;
    }
    let archive = folder.join("root.tar");
    let mut builder = tar::Builder::new(File::create(&archive)?);
    builder.follow_symlinks(false);
    builder.append_dir_all(".", folder.join("tree"))?;
    builder.into_inner()?.sync_all()?;
    let status = Command::new("gzip").arg("-k").arg(&archive).status()?;
    status
        .success()
        .then_some(())
        .ok_or_else(|| std::io::Error::other("gzip"))
}

/// A program of the host, by its path, with arguments, environment and input.
fn host_program(kit: &Kit) -> Check {
    let name = "a program of the host";
    let path = match compile::program("hello", &compile::GLIBC) {
        Ok(path) => path,
        Err(failure) => return Check::new(name, false, failure.message),
    };
    let path = path
        .strip_prefix(host::project())
        .unwrap_or(&path)
        .to_string_lossy()
        .into_owned();
    let mut command = kit.xtask(&[
        "run",
        "--timeout",
        "60",
        "--env",
        "GREETING=hello",
        "--",
        &format!("./{path}"),
        "x y",
    ]);
    let run = command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .and_then(|mut child| {
            use std::io::Write;
            child
                .stdin
                .take()
                .expect("it was piped")
                .write_all(b"shout")?;
            child.wait_with_output()
        });
    match run {
        Err(error) => Check::new(name, false, error.to_string()),
        Ok(output) => {
            let text = String::from_utf8_lossy(&output.stdout);
            let good = output.status.code() == Some(2)
                && text == "arg 0: -\narg 1: x y\nGREETING=hello\n3.000\nSHOUT";
            Check::new(
                name,
                good,
                format!(
                    "{}, [{text}] [{}]",
                    output.status,
                    String::from_utf8_lossy(&output.stderr)
                ),
            )
        }
    }
}

/// A program for another machine is refused with 126.
fn other_machine(kit: &Kit) -> Check {
    let name = "a program for another machine";
    let run = || -> std::io::Result<Check> {
        let own = compile::program("hello", &compile::GLIBC)
            .map_err(|failure| std::io::Error::other(failure.message))?;
        let mut bytes = std::fs::read(&own)?;
        bytes[18] = 0xb7;
        let path = host::project().join("build/test/aarch64-program");
        std::fs::write(&path, bytes)?;
        let output = kit
            .xtask(&["run", "--", "build/test/aarch64-program"])
            .output()?;
        let told = String::from_utf8_lossy(&output.stderr).into_owned();
        Ok(Check::new(
            name,
            output.status.code() == Some(126) && told.contains("aarch64"),
            told,
        ))
    };
    run().unwrap_or_else(|error| Check::new(name, false, error.to_string()))
}

/// Ten megabytes of random bytes through a pipeline of three `cat`s and through a single one (with `--long` a
/// hundred): the ports carry the same bytes in both. The suite `devices` looks at what the serial lines carry
/// where there are no ports.
pub fn streams(kit: &Kit) -> Vec<Check> {
    let mut checks = Vec::new();
    let single = if kit.long { 100 << 20 } else { (10 << 20) + 1 };
    for (name, size, words) in [
        ("through cat", single, &["cat"] as &[&str]),
        (
            "through three processes",
            10 << 20,
            &["/bin/sh", "-c", "cat | cat | cat"],
        ),
        ("nothing", 0, &["cat"]),
        ("one byte", 1, &["cat"]),
    ] {
        checks.push(match through(kit, size, words) {
            Err(error) => Check::new(name, false, error.to_string()),
            Ok(difference) => {
                Check::new(name, difference.is_none(), difference.unwrap_or_default())
            }
        });
    }
    checks
}

fn through(kit: &Kit, size: usize, words: &[&str]) -> std::io::Result<Option<String>> {
    let mut bytes = vec![0; size];
    File::open("/dev/urandom")?.read_exact(&mut bytes)?;
    let path = host::project().join(format!("build/test/random-{size}-{}", words.len()));
    std::fs::write(&path, &bytes)?;
    let mut all = vec!["run", "--timeout", "900", "--"];
    all.extend(words);
    let output = kit.xtask(&all).stdin(File::open(&path)?).output()?;
    std::fs::remove_file(&path)?;
    if output.stdout == bytes && output.status.success() && output.stderr.is_empty() {
        return Ok(None);
    }
    let same = output
        .stdout
        .iter()
        .zip(&bytes)
        .take_while(|(a, b)| a == b)
        .count();
    Ok(Some(format!(
        "{}: {} of {size} bytes, the same up to {same}; err [{}]",
        output.status,
        output.stdout.len(),
        String::from_utf8_lossy(&output.stderr)
    )))
}
