//! The small generators that reading and writing a file share, and the step from template to routine.
//!
//! *Unsafe*: safety contract of a descriptor routine, passed on.

use super::{Cursor, FileCore, offset};
use crate::kit::emit;
use crate::kit::routine_env::{DescFn, RoutineEnv, RoutineError, Sharing, near};
use crate::kit::variant::VARIANTS;
use codegen::idioms::Reg;
use codegen::{Draft, Hole, Routine, Template, dynasm};

/// One of `templates`, filled for `file` and `cursor`.
///
/// # Safety
/// The templates' generator keeps the contract of a descriptor routine; `file` and `cursor` stay in place
/// until a grace period after the last handle to the routine is gone; an exclusive routine is installed only
/// where one thread reaches the cursor, if it has one.
pub(super) unsafe fn fill(
    templates: &[Template<4>; VARIANTS],
    name: &'static str,
    (file, cursor): (&FileCore, Option<&Cursor>),
    env: &RoutineEnv,
    sharing: Sharing,
) -> Result<Routine<DescFn>, RoutineError> {
    let values = [
        near(file)?,
        cursor.map_or(Ok(0), |cursor| near(cursor))?,
        env.slow() as i64,
        env.wake_next.entry() as i64,
    ];
    let sealed = templates[env.variant(sharing).index()].instantiate(name, 0, &values)?;
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

/// Where a routine's position in the file comes from.
#[derive(Clone, Copy)]
pub(super) enum Position {
    /// The description's: the addresses of its offset, which moves on, and of its monitor.
    Cursor { at: i32, monitor: i32 },
    /// The call's fourth argument, r10.
    Argument,
}

#[allow(clippy::useless_conversion, reason = "in dynasm's expansion")]
impl Position {
    /// That of the cursor whose address is in this hole.
    pub fn cursor(cursor: Hole) -> Position {
        let base = cursor.imm32();
        Position::Cursor {
            at: base + offset::AT,
            monitor: base + offset::MONITOR,
        }
    }

    /// The monitor's word; none is looked at where the position is an argument.
    pub fn monitor(self) -> i32 {
        match self {
            Position::Cursor { monitor, .. } => monitor,
            Position::Argument => 0,
        }
    }

    /// The number of the call that is answered.
    pub fn number(self, moving: usize, positional: usize) -> usize {
        match self {
            Position::Cursor { .. } => moving,
            Position::Argument => positional,
        }
    }

    /// Loads it into `reg`.
    pub fn load(self, d: &mut Draft, reg: Reg) {
        let reg = reg as u8;
        match self {
            Position::Cursor { at, .. } => dynasm!(d ; .arch x64 ; mov Rq(reg), [at]),
            Position::Argument => dynasm!(d ; .arch x64 ; mov Rq(reg), r10),
        }
    }

    /// Loads its lower half into `reg`.
    pub fn load_low(self, d: &mut Draft, reg: Reg) {
        let reg = reg as u8;
        match self {
            Position::Cursor { at, .. } => dynasm!(d ; .arch x64 ; mov Rd(reg), [at]),
            Position::Argument => dynasm!(d ; .arch x64 ; mov Rd(reg), r10d),
        }
    }

    /// The flags say "sign" if rax has it or the position is negative. A description's never is.
    pub fn join_sign(self, d: &mut Draft) {
        if matches!(self, Position::Argument) {
            dynasm!(d ; .arch x64 ; or rax, r10);
        }
    }

    /// Moves it rdx bytes on.
    pub fn advance(self, d: &mut Draft) {
        if let Position::Cursor { at, .. } = self {
            dynasm!(d ; .arch x64 ; add [at], rdx);
        }
    }

    /// Moves it to `reg`.
    pub fn store(self, d: &mut Draft, reg: Reg) {
        if let Position::Cursor { at, .. } = self {
            dynasm!(d ; .arch x64 ; mov [at], Rq(reg as u8));
        }
    }
}
