//! `/proc/PID/smaps`: what there is of each area.
//!
//! *Interface.* One function.

use abi::layout::PAGE;
use core::fmt::Write;
use vm::Prot;
use vm::space::{AreaInfo, Lock, Present, Role};

use super::pid::map;
use crate::fs::text::{Out, Piece};
use crate::process::access::Sight;

/// What `maps` has, and behind each line how much of it there is.
pub fn smaps(sight: &Sight, from: u64, piece: &mut Piece) {
    if let (Some(space), Ok(from)) = (sight.space(), usize::try_from(from)) {
        space.for_each_area_with_pages(from, |area, pages| {
            piece.record(area.end as u64, |out| {
                map(&area, out);
                present(&area, &pages, out);
            })
        });
    }
}

fn present(area: &AreaInfo, pages: &Present, out: &mut Out) {
    let page = PAGE / 1024;
    let part = pages.parts * page as u64 / Present::PARTS;
    let proportion = usize::try_from(part).unwrap_or(0);
    let locked = match area.lock {
        Lock::No => 0,
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
        let _ = writeln!(out, "{name:<15} {kibibytes:>8} kB");
    }
    let flags = [
        (area.prot.contains(Prot::READ), "rd "),
        (area.prot.contains(Prot::WRITE), "wr "),
        (area.prot.contains(Prot::EXEC), "ex "),
        (area.shared, "sh "),
        (true, "mr mw me "),
        (matches!(area.role, Role::Stack { .. }), "gd "),
        (area.lock != Lock::No, "lo "),
    ];
    out.push_str("VmFlags: ");
    for (_, word) in flags.iter().filter(|(has, _)| *has) {
        out.push_str(word);
    }
    out.push('\n');
}
