//! `/syn/sched`: threads and their turns, for programs: a line each, its fields separated by single blanks.
//!
//! *Interface*: [`show`]. The first line names the fields. Times are in nanoseconds, `settled` in hundredths
//! of the own quantum. `channels` is `-` or a list, separated by commas, of `r:HELD/SIZE:PASSED` for those
//! that the thread reads from and `w:…` for those that it writes to, in bytes; `PASSED` are those that have
//! ever passed at its side. A sound device's client has `:XRUNS` behind that. The name comes last and may
//! have blanks.
//!
//! Source: dissertation, section 6.3.1.

use abi::errno::Result;
use core::fmt::Write;

use crate::proc::look_into;
use file::fs::pseudofs::{TextOut, TextPiece};
use process::flows::{self, ChannelSide};
use process::{Process, Task};

/// A line for each thread of the processes that the reader may look into.
pub fn show(from: u64, piece: &mut TextPiece) -> Result<()> {
    let head = |out: &mut TextOut| {
        out.push_str(
            "thread process cpu level state own quantum settled used switches channels name\n",
        );
    };
    if from == 0 && !piece.record(1, head) {
        return Ok(());
    }
    super::each_thread(from, |next, process, task| {
        piece.record(next, |out| line(process, task, out))
    });
    Ok(())
}

fn line(process: &Process, task: &Task, out: &mut TextOut) {
    let thread = &task.thread;
    // `TextOut` notes by itself that memory is out.
    let _ = write!(
        out,
        "{} {} {} {} {} {} {} {} {} {} ",
        task.tid,
        process.pid,
        thread.cpu(),
        thread.level(),
        super::kernel_state::state(thread),
        thread.own_quantum_ns(),
        thread.turn_ns(),
        thread.share_percent(),
        thread.cpu_ns(),
        thread.switches(),
    );
    channels(process, task, out);
    let mut name = [0; thread::NAME_LEN];
    out.push(' ');
    out.plain(thread.name(&mut name));
    out.push('\n');
}

fn channels(process: &Process, task: &Task, out: &mut TextOut) {
    // The process may have become another user's.
    let Ok(found) = look_into(process, || flows::find(task)) else {
        return out.push('-');
    };
    let Ok(found) = found else {
        return out.lack();
    };
    let mut before = "";
    for shown in found.iter().filter_map(flows::FlowChannel::shown) {
        let side = match shown.side {
            ChannelSide::Reads => 'r',
            ChannelSide::Writes => 'w',
        };
        let _ = write!(
            out,
            "{before}{side}:{}/{}:{}",
            shown.held, shown.size, shown.passed
        );
        if let Some(xruns) = shown.xruns {
            let _ = write!(out, ":{xruns}");
        }
        before = ",";
    }
    if before.is_empty() {
        out.push('-');
    }
}
