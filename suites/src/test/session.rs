//! An interactive session under a pseudo-terminal: type, edit, interrupt, suspend, end.
//!
//! *Interface*: `run`. Waits for conditions with a deadline, never for a time.

use super::kit::Kit;
use super::tap::Check;
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{Winsize, tcgetattr, tcsetwinsize};
use std::fs::File;
use std::io::{self, Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::process::{Child, Stdio};
use std::sync::{Arc, Condvar, Mutex};
use std::time::{Duration, Instant};
use xtask::compile;

/// How long anything may take to show.
const PATIENCE: Duration = Duration::from_secs(30);
const PROMPT: &str = "# ";

/// The bytes that the terminal has shown, and up to where we have looked.
struct Screen {
    shown: Arc<(Mutex<Vec<u8>>, Condvar)>,
    seen: usize,
    keys: File,
}

impl Screen {
    /// Waits until `text` shows after what we have looked at.
    fn expect(&mut self, text: &str) -> Result<(), String> {
        let deadline = Instant::now() + PATIENCE;
        let (bytes, changed) = &*self.shown;
        let mut bytes = bytes.lock().expect("no panic while held");
        loop {
            let fresh = &bytes[self.seen..];
            if let Some(at) = fresh
                .windows(text.len())
                .position(|window| window == text.as_bytes())
            {
                self.seen += at + text.len();
                return Ok(());
            }
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Err(format!(
                    "waited for {text:?}, saw {:?}",
                    String::from_utf8_lossy(fresh)
                ));
            }
            bytes = changed
                .wait_timeout(bytes, left)
                .expect("no panic while held")
                .0;
        }
    }

    fn keys(&mut self, keys: &str) -> Result<(), String> {
        self.keys
            .write_all(keys.as_bytes())
            .map_err(|error| error.to_string())
    }

    /// Starts a program and waits until it runs: before that the shell still has the terminal, in
    /// its own mode. The typed text must not contain the word that is waited for.
    fn program(&mut self, command: &str) -> Result<(), String> {
        self.keys(&format!("sh -c 'echo rea\"\"dy >&2; exec {command}'"))?;
        self.keys("\r")?;
        self.expect("ready\r\n")
    }

    /// Types a line to the shell and waits for what it prints, then for the prompt.
    fn command(&mut self, line: &str, answer: &str) -> Result<(), String> {
        self.keys(&format!("{line}\r"))?;
        self.expect(answer)?;
        self.expect(PROMPT)
    }
}

type Step = (&'static str, fn(&mut Screen) -> Result<(), String>);

const STEPS: &[Step] = &[
    ("the prompt", |s| s.expect(PROMPT)),
    ("a command", |s| s.command("echo one-$((1+1))", "one-2\r\n")),
    ("the shell's own line editing: backspace", |s| {
        s.command("echo hexx\x7f\x7fllo-$((2+1))", "hello-3\r\n")
    }),
    ("cooked input: echo and a line back", |s| {
        s.program("cat")?;
        s.keys("typed\r")?;
        s.expect("typed\r\ntyped\r\n")
    }),
    ("cooked input: backspace", |s| {
        s.keys("abx\x7fc\r")?;
        s.expect("\r\nabc\r\n")
    }),
    ("cooked input: ^U", |s| {
        s.keys("rubbish\x15kept\r")?;
        s.expect("\r\nkept\r\n")
    }),
    ("cooked input: ^W", |s| {
        s.keys("two words\x17gone\r")?;
        s.expect("\r\ntwo gone\r\n")
    }),
    ("^D ends input", |s| {
        s.keys("\x04")?;
        s.expect(PROMPT)
    }),
    ("single keys, each when the one before has shown", |s| {
        s.program("cat")?;
        for key in ["o", "n", "e", "\t", "x"] {
            s.keys(key)?;
            s.expect(key)?;
        }
        s.keys("\x7f")?;
        s.expect("\x08 \x08")?;
        for key in ["\u{e9}", "2"] {
            s.keys(key)?;
            s.expect(key)?;
        }
        s.keys("\r")?;
        s.expect("\r\none\t\u{e9}2\r\n")?;
        s.keys("\x04")?;
        s.expect(PROMPT)
    }),
    ("a reader that sleeps meets signals and O_NONBLOCK", |s| {
        s.keys("sleepers\r")?;
        s.expect("[rang]\r\ninter-rupted\r\n[rang]\r\n")?;
        s.keys("first\r")?;
        s.expect("first\r\nwent-on\r\n[changed]\r\n")?;
        s.keys("second\r")?;
        s.expect("second\r\nslept-on\r\nwaits-no-more\r\n")?;
        s.expect(PROMPT)
    }),
    ("lines typed ahead wait for their reader", |s| {
        s.program("sh -c \"read -r word; echo got-\\$word; cat\"")?;
        s.keys("first\rone\rtwo\r\x04")?;
        s.expect("got-first\r\none\r\ntwo\r\n")?;
        s.expect(PROMPT)
    }),
    ("what was typed ahead is thrown away by ^C", |s| {
        s.program("sleep 1000")?;
        s.keys("echo lo\"\"st\r\x03")?;
        s.expect(PROMPT)?;
        s.command("echo kept-$((1+1))", "kept-2\r\n")
    }),
    (
        "a terminal's routines are generated for its settings",
        |s| {
            let look = |what: &str| format!("cat /syn/code/$$/0/write | grep -c '^; {what}'");
            let newlines = look("write, newlines (tty write)");
            s.command(&newlines, "\r\n1\r\n")?;
            let plain = look("write (tty write)");
            s.command(&format!("stty -opost; {plain}; stty opost"), "\n1\n")?;
            s.command(&newlines, "\r\n1\r\n")?;
            let any = look("write.*(tty write)");
            s.command(&format!("stty tostop; {any}; stty -tostop"), "\r\n0\r\n")?;
            s.command(
                "cat /syn/code/$$/0/read | grep -c '(tty read)'",
                "\r\n1\r\n",
            )
        },
    ),
    ("what is typed and shown goes through them", |s| {
        s.command("echo \"$$ 0\" >/syn/probes; echo on-$((1+1))", "on-2\r\n")?;
        s.program("cat")?;
        s.keys("through\r")?;
        s.expect("through\r\nthrough\r\n")?;
        s.keys("\x04")?;
        s.expect(PROMPT)?;
        let seen = "$1 == me && $2 == 0 && $5 > 0 { print $3 \"-seen\" }";
        s.command(
            &format!("awk -v me=$$ '{seen}' /syn/probes"),
            "\r\nread-seen\r\nwrite-seen\r\n",
        )?;
        s.command(
            "echo \"$$ 0 off\" >/syn/probes; wc -l </syn/probes",
            "\r\n1\r\n",
        )
    }),
    (
        "a filter between the terminal's pump and its monitor passes what is typed",
        |s| {
            let put = "grep -c 'output -> put' /syn/quajects";
            let pump = "/^  Pump /{n=$2+0} /output -> enter/{print n; exit}";
            s.command(
                &format!("n=$(awk '{pump}' /syn/quajects); echo quaject $n output Gauge >/syn/filters; {put}"),
                "\r\n1\r\n",
            )?;
            s.command("echo typed-$((1+1))", "typed-2\r\n")?;
            let filter = "/output -> put/{print $4}";
            s.command(
                &format!("f=$(awk '{filter}' /syn/quajects); echo quaject $n output off $f >/syn/filters; {put}"),
                "\r\n0\r\n",
            )
        },
    ),
    ("^D after part of a line gives that part", |s| {
        s.keys("sh -c 'echo rea\"\"dy >&2; exec cat' | od -c\r")?;
        s.expect("ready\r\n")?;
        s.keys("ab\x04\x04")?;
        s.expect("a   b\r\n")?;
        s.expect(PROMPT)
    }),
    ("^C interrupts", |s| {
        s.program("sleep 1000")?;
        s.keys("\x03")?;
        s.expect(PROMPT)?;
        s.command("echo status-$?", "status-130\r\n")
    }),
    ("^C at the prompt gives a new one", |s| {
        s.keys("half a li\x03")?;
        s.expect(PROMPT)?;
        s.command("echo still-$((3+1))", "still-4\r\n")
    }),
    ("^\\ quits", |s| {
        s.program("sleep 1000")?;
        s.keys("\x1c")?;
        s.expect(PROMPT)?;
        s.command("echo status-$?", "status-131\r\n")
    }),
    ("^Z suspends", |s| {
        s.program("sleep 1000")?;
        s.keys("\x1a")?;
        s.expect("Stopped")?;
        s.expect(PROMPT)
    }),
    ("jobs shows it", |s| s.command("jobs", "Stopped")),
    ("bg lets it run", |s| {
        s.command("bg", "sleep")?;
        s.command("jobs", "Running")?;
        s.command("kill %1; wait; echo gone-$((2+1))", "gone-3\r\n")
    }),
    ("fg brings it back, ^C ends it", |s| {
        s.keys(
            "sh -c 'trap \"echo on\"\"ward\" CONT; echo rea\"\"dy; while :; do sleep 1; done'\r",
        )?;
        s.expect("ready\r\n")?;
        s.keys("\x1a")?;
        s.expect("Stopped")?;
        s.expect(PROMPT)?;
        s.keys("fg\r")?;
        s.expect("onward\r\n")?;
        s.keys("\x03")?;
        s.expect(PROMPT)?;
        s.command("jobs; echo jobs-$((4+1))", "jobs-5\r\n")
    }),
    ("fg of a suspended cat, which reads on", |s| {
        s.program("cat")?;
        s.keys("before\r")?;
        s.expect("before\r\nbefore\r\n")?;
        s.keys("\x1a")?;
        s.expect(PROMPT)?;
        s.keys("fg\r")?;
        s.expect("exec cat")?;
        s.keys("after\r")?;
        s.expect("after\r\nafter\r\n")?;
        s.keys("\x04")?;
        s.expect(PROMPT)
    }),
    ("a background job that reads is stopped", |s| {
        s.command("cat &", "\r\n")?;
        s.command("sleep 1; jobs", "Stopped")?;
        s.command("kill -9 %1; wait; echo gone-$((5+1))", "gone-6\r\n")
    }),
    ("a pipeline is interrupted as a whole", |s| {
        s.keys("sh -c 'echo rea\"\"dy >&2; exec sleep 1000' | cat\r")?;
        s.expect("ready\r\n")?;
        s.keys("\x03")?;
        s.expect(PROMPT)?;
        s.command("ps | grep -c '[s]leep'", "0\r\n")
    }),
    ("stty shows the size", |s| {
        s.command("stty size", "24 80\r\n")
    }),
    ("without echo nothing shows", |s| {
        s.keys("stty -echo; echo rea\"\"dy; read x; stty echo; echo got-$x-$((6+1))\r")?;
        s.expect("ready\r\n")?;
        s.keys("secret\r")?;
        s.expect("got-secret-7\r\n")?;
        s.expect(PROMPT)
    }),
    ("vi", |s| {
        s.keys("vi /tmp/made\r")?;
        s.expect("~")?;
        s.expect("- /tmp/made")?;
        s.keys("ihello from vi")?;
        s.expect("from vi")?;
        // On its own, or it would begin an escape sequence.
        s.keys("\x1b")?;
        s.expect("- /tmp/made")?;
        s.keys(":wq\r")?;
        s.expect(PROMPT)?;
        s.command(
            "cat /tmp/made; echo vi-$((7+1))",
            "hello from vi\r\nvi-8\r\n",
        )
    }),
    ("the terminal's flow: much output", |s| {
        s.command("seq 1 3000 | tail -n 3000", "\n2999\r\n3000\r\n")
    }),
];

/// The whole session.
pub fn run(kit: &Kit) -> Vec<Check> {
    match start(kit) {
        Ok((child, screen, terminal)) => play(child, screen, &terminal),
        Err(error) => vec![Check::new("a pseudo-terminal", false, error.to_string())],
    }
}

fn play(mut child: Child, mut screen: Screen, terminal: &File) -> Vec<Check> {
    let mut checks = Vec::new();
    let before = tcgetattr(terminal);
    for (name, step) in STEPS {
        let result = step(&mut screen);
        let failed = result.is_err();
        checks.push(Check::new(*name, !failed, result.err().unwrap_or_default()));
        if failed {
            // The further steps would only repeat the failure.
            break;
        }
    }
    if checks.iter().all(|check| check.good) {
        checks.push(resize(&child, &mut screen));
        checks.push(ends(&mut child, &mut screen));
        // It runs in raw mode, so the modes before it started are cooked ones.
        let cooked = tcgetattr(terminal).is_ok_and(|modes| {
            use rustix::termios::LocalModes;
            modes
                .local_modes
                .contains(LocalModes::ICANON | LocalModes::ECHO)
        });
        checks.push(Check::new(
            "the terminal is put back",
            cooked && before.is_ok(),
            "still raw",
        ));
    }
    // Harmless when it has ended.
    let _ = child.kill();
    let _ = child.wait();
    checks
}

/// A new size of the terminal reaches the guest.
fn resize(child: &Child, screen: &mut Screen) -> Check {
    let name = "a new size";
    let size = Winsize {
        ws_row: 40,
        ws_col: 100,
        ws_xpixel: 0,
        ws_ypixel: 0,
    };
    let mut result = tcsetwinsize(&screen.keys, size).map_err(|error| error.to_string());
    if let Some(pid) = rustix::process::Pid::from_raw(child.id() as i32) {
        // The terminal does not control the child, so nobody else tells it.
        result = result.and(
            rustix::process::kill_process(pid, rustix::process::Signal::WINCH)
                .map_err(|error| error.to_string()),
        );
    }
    let deadline = Instant::now() + PATIENCE;
    while result.is_ok() {
        result = screen.command("stty size; echo size-$((8+1))", "size-9\r\n");
        let shown = screen.shown.0.lock().expect("no panic while held");
        if String::from_utf8_lossy(&shown).contains("40 100\r\n") {
            break;
        }
        if Instant::now() > deadline {
            result = Err("stty still shows the old size".into());
        }
    }
    Check::new(name, result.is_ok(), result.err().unwrap_or_default())
}

/// ^D ends the shell, and that ends the machine.
fn ends(child: &mut Child, screen: &mut Screen) -> Check {
    let name = "^D at the prompt ends the machine with status 0";
    if let Err(error) = screen.keys("\x04") {
        return Check::new(name, false, error);
    }
    let deadline = Instant::now() + PATIENCE;
    loop {
        match child.try_wait() {
            Ok(Some(status)) => return Check::new(name, status.success(), status.to_string()),
            Ok(None) if Instant::now() > deadline => {
                return Check::new(name, false, "it does not end");
            }
            Ok(None) => std::thread::sleep(Duration::from_millis(10)),
            Err(error) => return Check::new(name, false, error.to_string()),
        }
    }
}

fn start(kit: &Kit) -> io::Result<(Child, Screen, File)> {
    let master = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY)?;
    grantpt(&master)?;
    unlockpt(&master)?;
    let path = ptsname(&master, Vec::new())?;
    let path = path.to_string_lossy().into_owned();
    let no_control = rustix::fs::OFlags::NOCTTY.bits() as i32;
    let terminal = File::options()
        .read(true)
        .write(true)
        .custom_flags(no_control)
        .open(path)?;
    tcsetwinsize(
        &terminal,
        Winsize {
            ws_row: 24,
            ws_col: 80,
            ws_xpixel: 0,
            ws_ypixel: 0,
        },
    )?;
    let sleepers = compile::program("sleepers", &compile::GLIBC)
        .map_err(|failure| io::Error::other(failure.message))?;
    let sleepers = format!("{}:/bin/sleepers", sleepers.display());
    let mut command = kit.xtask(&["run", "--timeout", "300", "--add", &sleepers]);
    // It builds none, for which it would wait while another is built.
    command.arg("--kernel").arg(kit.kernel());
    command.env("TERM", "vt100");
    command.stdin(Stdio::from(terminal.try_clone()?));
    command
        .stdout(Stdio::from(terminal.try_clone()?))
        .stderr(Stdio::from(terminal.try_clone()?));
    let child = command.spawn()?;
    let shown = Arc::new((Mutex::new(Vec::new()), Condvar::new()));
    let mut from = File::from(master.try_clone()?);
    let writer = Arc::clone(&shown);
    // Ends with the terminal.
    std::thread::spawn(move || {
        let mut buffer = [0; 4096];
        while let Ok(count @ 1..) = from.read(&mut buffer) {
            writer
                .0
                .lock()
                .expect("no panic while held")
                .extend_from_slice(&buffer[..count]);
            writer.1.notify_all();
        }
    });
    Ok((
        child,
        Screen {
            shown,
            seen: 0,
            keys: File::from(master),
        },
        terminal,
    ))
}
