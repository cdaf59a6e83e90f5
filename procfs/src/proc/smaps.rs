//! `/proc/PID/smaps` and `smaps_rollup`: what there is of each area, and of all.
//!
//! *Interface.* One function a text.

use abi::layout::PAGE;
use core::fmt::Write;
use vm::Prot;
use vm::space::{AreaInfo, AreaPages, MemoryLock, Role};

use file::fs::pseudofs::{TextOut, TextPiece};
use process::access::AccessSnapshot;

/// The lines of `maps`, and behind each how much of the area is in memory.
pub fn smaps(sight: &AccessSnapshot, from: u64, piece: &mut TextPiece) {
    if let (Some(space), Ok(from)) = (sight.space(), usize::try_from(from)) {
        space.for_each_area_with_pages(from, |area, pages| {
            piece.record(area.end as u64, |out| {
                map(&area, out);
                present(&area, &pages, out);
            })
        });
    }
}

/// The sum of all areas, with the names that `smaps` has for the parts.
pub fn rollup(sight: &AccessSnapshot, from: u64, piece: &mut TextPiece) {
    let Some(space) = sight.space().filter(|_| from == 0) else {
        return;
    };
    let (mut sum, mut proportions, mut locked) = (AreaPages::default(), 0, 0);
    let (mut first, mut end) = (usize::MAX, 0);
    space.for_each_area_with_pages(0, |area, pages| {
        for at in [0, 1] {
            sum.private[at] += pages.private[at];
            sum.shared[at] += pages.shared[at];
        }
        sum.accessed += pages.accessed;
        sum.own += pages.own;
        proportions += pages.parts;
        if area.lock != MemoryLock::No {
            locked += pages.parts;
        }
        (first, end) = (first.min(area.start), area.end);
        true
    });
    let page = PAGE as u64 / 1024;
    let share = |parts: u64| parts * page / AreaPages::PARTS;
    piece.record(1, |out| {
        let start = out.written();
        let _ = write!(
            out,
            "{:08x}-{end:08x} ---p 00000000 00:00 0 ",
            first.min(end)
        );
        out.blanks((start + 73).saturating_sub(out.written()));
        out.push_str("[rollup]\n");
        for (name, kibibytes) in [
            ("Rss:", sum.all() as u64 * page),
            ("Pss:", share(proportions)),
            ("Shared_Clean:", sum.shared[0] as u64 * page),
            ("Shared_Dirty:", sum.shared[1] as u64 * page),
            ("Private_Clean:", sum.private[0] as u64 * page),
            ("Private_Dirty:", sum.private[1] as u64 * page),
            ("Referenced:", sum.accessed as u64 * page),
            ("Anonymous:", sum.own as u64 * page),
            ("Swap:", 0),
            ("SwapPss:", 0),
            ("Locked:", share(locked)),
        ] {
            row(out, name, kibibytes);
        }
    });
}

/// A line of one amount.
fn row(out: &mut TextOut, name: &str, kibibytes: u64) {
    out.push_str(name);
    out.blanks(16usize.saturating_sub(name.len()));
    out.right(kibibytes, 8);
    out.push_str(" kB\n");
}

fn present(area: &AreaInfo, pages: &AreaPages, out: &mut TextOut) {
    let page = PAGE / 1024;
    let part = pages.parts * page as u64 / AreaPages::PARTS;
    let proportion = usize::try_from(part).unwrap_or(0);
    let locked = match area.lock {
        MemoryLock::No => 0,
        _ => proportion,
    };
    for (name, kibibytes) in [
        ("Size:", (area.end - area.start) / 1024),
        ("KernelPageSize:", page),
        ("MMUPageSize:", page),
        ("Rss:", pages.all() * page),
        ("Pss:", proportion),
        ("Shared_Clean:", pages.shared[0] * page),
        ("Shared_Dirty:", pages.shared[1] * page),
        ("Private_Clean:", pages.private[0] * page),
        ("Private_Dirty:", pages.private[1] * page),
        ("Referenced:", pages.accessed * page),
        ("Anonymous:", pages.own * page),
        ("Swap:", 0),
        ("SwapPss:", 0),
        ("Locked:", locked),
    ] {
        row(out, name, kibibytes as u64);
    }
    let flags = [
        (area.prot.contains(Prot::READ), "rd "),
        (area.prot.contains(Prot::WRITE), "wr "),
        (area.prot.contains(Prot::EXEC), "ex "),
        (area.shared, "sh "),
        (true, "mr mw me "),
        (area.role.floor().is_some(), "gd "),
        (area.lock != MemoryLock::No, "lo "),
        (area.wishes.left_out, "dc "),
        (area.wishes.concealed, "dd "),
        (area.wishes.wiped, "wf "),
    ];
    out.push_str("VmFlags: ");
    for (_, word) in flags.iter().filter(|(has, _)| *has) {
        out.push_str(word);
    }
    out.push('\n');
}

/// The line of an area in `maps`.
pub(super) fn map(area: &AreaInfo, out: &mut TextOut) {
    let bit = |has: bool, letter: u8| if has { letter } else { b'-' };
    let start = out.written();
    let (device, inode) = area.pager.as_ref().map_or((0, 0), |p| (p.device, p.inode));
    let shared = if area.shared { b's' } else { b'p' };
    // `TextOut` notes by itself that memory is out.
    out.hex(area.start as u64, 8);
    out.push_str("-");
    out.hex(area.end as u64, 8);
    out.push_bytes(&[
        b' ',
        bit(area.prot.contains(Prot::READ), b'r'),
        bit(area.prot.contains(Prot::WRITE), b'w'),
        bit(area.prot.contains(Prot::EXEC), b'x'),
        shared,
        b' ',
    ]);
    out.hex(area.offset, 8);
    out.push_str(" ");
    out.hex(abi::linux::major(device).into(), 2);
    out.push_str(":");
    out.hex(abi::linux::minor(device).into(), 2);
    out.push_str(" ");
    out.decimal(inode);
    out.push_str(" ");
    let name = match (&area.pager, area.role) {
        (Some(pager), _) => pager.path.as_str(),
        (None, Role::Heap) => "[heap]",
        (None, Role::Stack { .. }) => "[stack]",
        (None, Role::Plain | Role::Growing) => "",
    };
    if !name.is_empty() {
        out.blanks((start + 73).saturating_sub(out.written()));
        out.octal(name.as_bytes(), b"\n");
    }
    out.push('\n');
}
