//! Texts with lines for some of the open descriptors of all processes that the reader may look into.
//!
//! *Interface*: [`show`] writes one, from any place on.

use abi::errno::Result;

use file::OpenFile;
use file::fdtable::FdTable;
use file::fs::pseudofs::{TextOut, TextPiece};

/// The place of descriptor `fd` of process `pid` in the text, behind the heading.
fn place(pid: i32, fd: i32) -> u64 {
    (pid as u64) << 32 | fd as u64
}

/// The text from place `from` on: `head`, and the `lines` of each descriptor, by process and number, of the
/// descriptions that are `told`.
pub fn show(
    from: u64,
    piece: &mut TextPiece,
    head: &dyn Fn(&mut TextOut),
    told: &dyn Fn(&OpenFile) -> bool,
    lines: &dyn Fn(i32, i32, &OpenFile, &FdTable, &mut TextOut),
) -> Result<()> {
    if from == 0 && !piece.record(1, head) {
        return Ok(());
    }
    let mut more = true;
    for process in super::visible(from) {
        let first = from.saturating_sub(place(process.pid, 0));
        let visit = process.files.get().visit();
        visit.for_each_from(first, |fd, of, _| {
            if told(of) {
                let next = place(process.pid, fd).saturating_add(1);
                more = piece.record(next, |out| lines(process.pid, fd, of, visit.table(), out));
            }
            more
        });
        if !more {
            break;
        }
    }
    Ok(())
}
