//! The small generators that reading and writing a file share, and the step from template to routine.

use super::{Cursor, FileCore};
use crate::kit::emit;
use crate::kit::seam::{DescFn, Seam, Sharing, Unmade, VARIANTS, near};
use codegen::{Draft, Routine, Template, dynasm};

/// One of `templates`, filled for `file` and `cursor`.
///
/// # Safety
/// The templates' generator keeps the contract of a descriptor routine; `file` and `cursor` stay in place
/// until a grace period after the last handle to the routine is gone; an exclusive routine is installed only
/// where one thread reaches the cursor.
pub(super) unsafe fn fill(
    templates: &[Template<4>; VARIANTS],
    name: &'static str,
    (file, cursor): (&FileCore, &Cursor),
    seam: &Seam,
    sharing: Sharing,
) -> Result<Routine<DescFn>, Unmade> {
    let values = [
        near(file)?,
        near(cursor)?,
        seam.slow() as i64,
        seam.wake_next.entry() as i64,
    ];
    let sealed = templates[seam.variant(sharing).index()].instantiate(name, 0, &values)?;
    // SAFETY: the caller's promise.
    Ok(unsafe { Routine::from(sealed) })
}

/// Which side of a copy the file is.
#[derive(Clone, Copy)]
pub(super) enum Side {
    Source,
    Target,
}

/// Copies r8 bytes page by page, the file's from offset r9 on, eax = that offset within its page. r9 ends
/// behind them.
pub(super) fn copy_pages(d: &mut Draft, pages: i32, side: Side) {
    dynasm!(d ; .arch x64 ; next: ; mov rcx, r9 ; shr rcx, 12);
    match side {
        Side::Source => dynasm!(d ; .arch x64
            ; mov rsi, [pages] ; mov rsi, [rsi + rcx * 8] ; add rsi, rax),
        Side::Target => dynasm!(d ; .arch x64
            ; mov rdi, [pages] ; mov rdi, [rdi + rcx * 8] ; add rdi, rax),
    }
    dynasm!(d ; .arch x64
        ; mov ecx, 0x1000
        ; sub ecx, eax
        ; cmp rcx, r8
        ; cmova rcx, r8
        ; sub r8, rcx
        ; add r9, rcx
    );
    emit::copy_ecx(d);
    dynasm!(d ; .arch x64 ; xor eax, eax ; test r8, r8 ; jnz <next);
}
