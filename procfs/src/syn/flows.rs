//! `/syn/flows`: the threads that move data, with their quanta and channels.
//!
//! *Interface*: [`show`].
//!
//! Source: dissertation, section 6.3.1.

use abi::errno::Result;
use core::fmt::Write;

use file::fs::pseudofs::{TextOut, TextPiece};
use process::Task;
use process::flows::{ChannelSide, FlowChannel};

/// A line for each thread with channels, and one for each of these, by process; behind a heading.
pub fn show(from: u64, piece: &mut TextPiece) -> Result<()> {
    let head = |out: &mut TextOut| {
        let _ = writeln!(
            out,
            "{:>7} {:<16} {:>8} {:>8} {:>7}",
            "thread", "name", "own us", "turn us", "settled"
        );
    };
    if from == 0 && !piece.record(1, head) {
        return Ok(());
    }
    super::each_thread(from, |next, _, task| {
        task.thread.channels() == 0 || piece.record(next, |out| lines(task, out))
    });
    Ok(())
}

fn lines(task: &Task, out: &mut TextOut) {
    let thread = &task.thread;
    let mut name = [0; thread::NAME_LEN];
    let _ = write!(out, "{:>7} ", task.tid);
    out.plain_column(thread.name(&mut name), 16);
    let _ = writeln!(
        out,
        " {:>8} {:>8} {:>6}%",
        thread.own_quantum_ns() / 1000,
        thread.turn_ns() / 1000,
        thread.share_percent(),
    );
    task.flows.show(|channel| line(channel, out));
}

fn line(channel: &FlowChannel, out: &mut TextOut) {
    let Some(shown) = channel.shown() else {
        return;
    };
    let side = match shown.side {
        ChannelSide::Reads => "reads",
        ChannelSide::Writes => "writes",
    };
    let _ = writeln!(
        out,
        "        {side:<6} {:>8} of {:>8}",
        shown.held, shown.size
    );
}
