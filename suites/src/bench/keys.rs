//! `key_echo`: a typed and echoed key, from its interrupt to the return of the read, on the serial line.
//!
//! *Interface*: [`NAME`]; `measure` boots a kernel with `user/bench/keys.c`, types a return for each line in
//! which the program asks for one, and gives what was printed, with one row.

use super::guest::Kernel;
use std::io::{self, Read};
use std::time::Duration;
use xtask::compile;
use xtask::failure::{Failure, HOST, Result};
use xtask::machine::{Kept, Machine, Running, Status, Streams};

/// The row's name.
pub const NAME: &str = "key_echo";
const ASKED: &[u8] = b"key?";
const LIMIT: Duration = Duration::from_secs(300);
/// How often the output is looked at.
const PAUSE: Duration = Duration::from_millis(2);

/// Types a return each time that the output asks for it.
struct Typist {
    output: Kept,
    typed: usize,
}

impl Typist {
    fn asked(&self) -> usize {
        let printed = self.output.bytes();
        let asks = |window: &&[u8]| *window == ASKED;
        printed.windows(ASKED.len()).filter(asks).count()
    }

    fn is_over(&self) -> bool {
        self.output.bytes().windows(4).any(|word| word == b"\nend")
    }
}

impl Read for Typist {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        while self.asked() == self.typed {
            if self.is_over() {
                return Ok(0);
            }
            std::thread::sleep(PAUSE);
        }
        let Some(first) = buffer.first_mut() else {
            return Ok(0);
        };
        // The program has yet to wait for it.
        std::thread::sleep(PAUSE);
        *first = b'\r';
        self.typed += 1;
        Ok(1)
    }
}

/// Measures on `kernel`, on a machine that `describe` completes.
///
/// # Errors
/// Host failure when something cannot be built or booted, or does not end in order.
pub fn measure(kernel: &Kernel, describe: impl Fn(&mut Machine)) -> Result<String> {
    let program = compile::program("keys", &compile::GLIBC)?;
    let (machine, archive) = kernel.prepare(&program, &[], |machine| {
        super::counting(machine);
        machine.append = machine
            .append
            .replace("console=stream", "console=tty rows=25 cols=80");
        describe(machine);
    })?;
    let output = Kept::default();
    let streams = Streams {
        input: Box::new(Typist {
            output: output.clone(),
            typed: 0,
        }),
        output: Box::new(output.clone()),
        error: Box::new(io::stderr()),
        terminal: false,
    };
    let outcome = Running::start(&machine, &archive, streams)?.wait(Some(LIMIT));
    let text = String::from_utf8_lossy(&output.bytes()).into_owned();
    if outcome.status == Status::Exit(0) {
        return Ok(text);
    }
    eprint!("{text}{}", outcome.report);
    let name = kernel.name();
    let what = format!("{name} did not finish typing: {:?}", outcome.status);
    Err(Failure::new(HOST, what))
}
