//! The aims of the rows, and the instructions that are left where a row falls short.
//!
//! *Interface*: `markdown` for `docs/results.md`: the rows below their aim, and nothing when there is none;
//! `below` the rows below what must hold.
//!
//! Aims are ratios, Linux over Synthesis: a floor that must hold and, where there is one, an aim beyond. The
//! notes are about the code as it was when they were written and name what they counted; a row that reaches
//! its aim does not show its note.

use super::table::{Row, figure};
use std::fmt::Write;

/// One row's aim.
struct Aim {
    op: &'static str,
    /// At least so many times fewer.
    floor: f64,
    /// Hoped for.
    aim: f64,
    /// Which instructions are left and why; empty when nobody has looked.
    left: &'static str,
}

const fn aim(op: &'static str, floor: f64, aim: f64, left: &'static str) -> Aim {
    Aim {
        op,
        floor,
        aim,
        left,
    }
}

const CALL: &str = "Of each call about 18 are the program's loop, the entry stub, the dispatcher (stack switch, bound check, mask against speculation, call through \
    the procedure table) and the return; `docs/thread.md`.";
const OPEN: &str = "Counted by function: 199 the cached `open` (path 60, identity and directory 25, a description that waited and its flags 35, the table 55), 114 `close`, \
    100 the two stubs' saves and restores and the dispatcher. Six instructions are locked: the table's monitor twice, the list of descriptions that wait. Generated code for a \
    known table would save Rust's bounds and the second look at what an exchange has shown; `docs/file.md`.";

const MADE: &str = "Counted by function, of a file with two directories above it and a name of nine letters: 490 finding it from the directory of the last \
    one, and making and publishing the description, 100 the look in the name cache before, 40 the memory, 240 the close, which drops it, 120 the stubs and the program.";

const AIMS: &[Aim] = &[
    aim("getpid", 8.0, 13.0, ""),
    aim(
        "pipe_1",
        15.0,
        56.0,
        "31 of the two calls are the routines: 16 to write (guard, free room, one byte between `stac` and `clac`, publication by a locked instruction) \
        and 15 to read. The rest is twice 17 for program, entry, dispatcher and return.",
    ),
    aim("pty_1", 8.0, 8.0, ""),
    aim("socketpair_1", 15.0, 15.0, ""),
    aim("unix_pingpong", 8.0, 8.0, ""),
    aim("tcp_lo_pingpong", 8.0, 8.0, ""),
    aim("udp_lo_pingpong", 8.0, 8.0, ""),
    aim("connect_accept_close", 5.0, 5.0, ""),
    aim(
        "pipe_1024",
        4.0,
        6.0,
        "256 are the bytes, eight at a time, in and out; 67 the routines around them; the rest the two calls.",
    ),
    aim(
        "pipe_4096",
        2.5,
        2.5,
        "1024 are the bytes, eight at a time, in and out, as `rep movsq` counts one an iteration.",
    ),
    aim("file_read_1", 12.0, 30.0, CALL),
    aim("pread_1", 8.0, 8.0, ""),
    aim("pwrite_1", 8.0, 8.0, ""),
    aim("readv_1", 8.0, 8.0, ""),
    aim("writev_1", 8.0, 8.0, ""),
    aim(
        "file_loop",
        4.0,
        9.0,
        "2560 are the bytes, eight at a time, in and out; the rest 22 calls.",
    ),
    aim("null_write_1", 10.0, 10.0, CALL),
    aim("null_open_close", 8.0, 26.0, OPEN),
    aim("console_open_close", 8.0, 48.0, OPEN),
    aim("file_open_close", 6.0, 20.0, OPEN),
    aim(
        "pipe_open_close",
        9.0,
        10.0,
        "Counted by function, of three calls: 220 the pipe's ends into the table, 540 the two closes (the queue's flags 110, its parking 200), 150 the stubs and the program.",
    ),
    aim(
        "thread_create",
        5.0,
        5.0,
        "The call alone, before the thread has run: some 270 the call and its way through the room of UNIX, 500 the thread's record there, its number and its places in \
        the tree and the process, 530 the entry, its frame and the one that ended before, 150 the ring; the thread's code waits with its entry.",
    ),
    aim("thread_create_first", 5.0, 5.0, ""),
    aim("thread_destroy", 5.0, 5.0, ""),
    aim("thread_suspend", 5.0, 5.0, ""),
    aim("thread_resume", 5.0, 5.0, ""),
    aim("thread_signal", 5.0, 5.0, ""),
    aim("sched_yield", 6.0, 6.0, CALL),
    aim("select_100", 3.0, 3.0, ""),
    aim("poll_100", 3.0, 3.0, ""),
    aim("poll_1", 8.0, 8.0, ""),
    aim("open_close_made", 5.5, 15.0, MADE),
    aim("open_close_second", 4.8, 15.0, MADE),
    aim("eventfd_handover", 8.0, 8.0, ""),
    aim(
        "epoll_wake",
        6.0,
        8.0,
        "`epoll_wait` makes no trap frame, sleeps in its place, and an interest stays in its wait lists. Counted by function, both ways together: 370 `epoll_wait`, most of it checks of \
        descriptor, interest and description; 136 two wakes, 86 two sleeps, 72 two switches, 100 the callback and its stubs' functions; the rest the ways of the five calls in and out, \
        and their routines.",
    ),
    aim("epoll_wake_10k", 6.0, 8.0, "As `epoll_wake`."),
    aim(
        "pthread_create_join",
        6.5,
        8.0,
        "The C library makes ten calls of it. Stepped through, `clone3` is about 1,240 with the thread's record and entry, the C library itself 1,340, the thread's end 950, the look for pages of \
        the stack to give back 400, the wait 340 with the switch, six small calls 50 each.",
    ),
    aim(
        "pthread_create_join_10k",
        6.5,
        8.0,
        "As `pthread_create_join`.",
    ),
    aim("futex_handover", 5.0, 5.0, ""),
    aim("fork_exit_wait", 7.5, 8.0, ""),
    aim(
        "timer_fire",
        4.5,
        5.0,
        "Counted by function: some 230 the call that sets the timer, 150 its interrupt and 130 the alarm in Rust, 340 generated code (the stubs, the frame of the signal, its return).",
    ),
    aim("key_echo", 6.0, 6.0, ""),
    aim("signal_self", 8.0, 8.0, ""),
    aim("quantum_switch", 30.0, 30.0, ""),
    aim(
        "pipe_pingpong",
        8.0,
        25.0,
        "Counted by function, both ways together: 158 waking (token, insertion into the ring), 144 the pipe's notes of who sleeps and who is \
        to be woken, 120 suspending, 58 saving and restoring eight registers where the reader sleeps, and 390 generated: two switches between address spaces, four calls \
        that succeed and two that find the pipe empty.",
    ),
];

/// The operations below their floors, with the ratio they have.
pub fn below(rows: &[Row]) -> Vec<String> {
    let short = |aim: &Aim| {
        let row = rows.iter().find(|row| row.op == aim.op)?;
        let ratio = row.ratio().filter(|ratio| *ratio < aim.floor)?;
        Some(format!("{}: {ratio:.2}, not {}", aim.op, aim.floor))
    };
    AIMS.iter().filter_map(short).collect()
}

/// The rows below their aims, as a section; empty when all reach them.
pub fn markdown(rows: &[Row]) -> String {
    let mut out = String::new();
    for aim in AIMS {
        let Some(row) = rows.iter().find(|row| row.op == aim.op) else {
            continue;
        };
        let Some(ratio) = row.ratio().filter(|ratio| *ratio < aim.aim) else {
            continue;
        };
        let below = if ratio < aim.floor {
            format!("**below its floor of {}**, aim {}", aim.floor, aim.aim)
        } else {
            format!("aim {}", aim.aim)
        };
        let left = if aim.left.is_empty() {
            "Not looked into yet."
        } else {
            aim.left
        };
        writeln!(
            out,
            "* `{}`: {ratio:.1} times fewer, {below}; {} are left. {left}",
            aim.op,
            figure(row.synthesis)
        )
        .expect("a string");
    }
    if out.is_empty() {
        return out;
    }
    format!("\n## Where an aim is missed\n\nWhich instructions are left, and why.\n\n{out}")
}

#[cfg(test)]
mod tests {
    use super::super::table::merge;
    use super::*;

    #[test]
    fn a_row_below_its_aim_is_explained_and_others_are_not() {
        let linux = "row calls getpid instructions 300\nrow calls pipe_1 instructions 3000\nrow calls sched_yield instructions 100\n";
        let rows = merge(
            linux,
            "row calls getpid instructions 10\nrow calls pipe_1 instructions 100\nrow calls sched_yield instructions 20\n",
        );
        let text = markdown(&rows);
        assert!(!text.contains("getpid"));
        assert!(text.contains("`pipe_1`: 30.0 times fewer, aim 56; 100 are left. 31 of"));
        assert!(text.contains("`sched_yield`: 5.0 times fewer, **below its floor of 6**"));
        assert_eq!(markdown(&rows[..1]), "");
        assert_eq!(below(&rows), ["sched_yield: 5.00, not 6"]);
    }
}
