//! The routine behind `read` from a terminal: reads CookTTYin's edit buffer, in the mode of the settings.
//!
//! *Interface*: [`reader`], or [`synthesize_read`] for a buffer that the caller keeps. The mode is a constant
//! of the code: a change of the settings makes a new routine. One routine serves every descriptor of the
//! terminal.
//!
//! Guards, each to the slow exit: the caller's process group is not the foreground group (its number comes
//! from the callout, which is inlined into the routine); another reader; nothing or not enough to read; a
//! count of 0; a kernel address; a fault.
//!
//! Source: dissertation, sections 3.2.1 and 3.2.2, table 4.2.

use super::typed::{ENDS, Mode, NO_BYTE, PLACES, Reader, Typed};
use crate::kit::emit;
use crate::kit::interfacer::{Callentry, place};
use crate::kit::regs::Regs;
use crate::kit::seam::{DescFn, Seam, Sharing, Unmade, near};
use alloc::sync::Arc;
use codegen::harden::clamp;
use codegen::methods::Reg;
use codegen::{Class, Draft, Hole, Routine, dynasm};
use core::mem::offset_of;

static CLASS: Class = Class::new("tty read");

/// How a caller is known to be one of the foreground group.
pub struct Guarded<'a> {
    /// Returns the caller's process group in eax and changes only rax. It is inlined into the routine, or
    /// called.
    pub group: &'a dyn Callentry,
    /// Whether a thread may wait for room in the buffer, and must be woken.
    pub full: bool,
}

/// The routine behind `read` for a buffer that it keeps alive.
///
/// # Errors
/// [`Unmade`].
pub fn reader(
    typed: &Arc<Typed>,
    mode: Mode,
    guarded: &Guarded,
    seam: &Seam,
) -> Result<Routine<DescFn>, Unmade> {
    // SAFETY: the image keeps the buffer whose words it names.
    Ok(unsafe { synthesize_read(typed, mode, guarded, seam)? }.keeping(typed.clone()))
}

/// The routine behind `read` for a buffer.
///
/// # Errors
/// [`Unmade`].
///
/// # Safety
/// `typed` stays in place until a grace period after the last handle to the routine is gone.
pub unsafe fn synthesize_read(
    typed: &Typed,
    mode: Mode,
    guarded: &Guarded,
    seam: &Seam,
) -> Result<Routine<DescFn>, Unmade> {
    near(core::ptr::from_ref(typed).wrapping_add(1))?;
    let base = near(typed)? as i32;
    let reader = base + offset_of!(Typed, reader) as i32;
    let [head, group, places] = [
        offset_of!(Typed, head),
        offset_of!(Typed, group),
        offset_of!(Typed, places),
    ]
    .map(|field| base + field as i32);
    let room = near(typed.room())? as i32;
    let tail = reader + offset_of!(Reader, tail) as i32;
    // The monitor's word is its first field.
    let turn = reader + offset_of!(Reader, turn) as i32;
    let v = seam.variant(Sharing::Shared);
    let slow = Hole::value(seam.slow() as i64);
    let wake_next = Hole::value(seam.wake_next.entry() as i64);
    let mask = PLACES as i32 - 1;

    let name = match mode {
        Mode::Line => "read a line",
        Mode::Bytes(_) => "read bytes",
    };
    let mut draft = Draft::new(&CLASS, name);
    let d = &mut draft;
    let [leave, unlock, done, fault, tell] = core::array::from_fn(|_| d.label());

    emit::look(d, v, turn, leave);
    dynasm!(d ; .arch x64 ; test rsi, rsi ; js =>leave);
    clamp(d, Reg::Rsi);
    place(d, guarded.group, Regs::SYSV - Regs::of(&[Reg::Rax]), &[]);
    dynasm!(d ; .arch x64 ; cmp eax, [group] ; jne =>leave ; push rcx);
    emit::enter(d, v, turn, leave);
    // edi = places there, rdx = bytes asked for, at most what the buffer holds.
    dynasm!(d ; .arch x64
        ; push rdi
        ; mov edi, [head]
        ; sub edi, [tail]
        ; jz =>unlock
        ; test rdx, rdx
        ; jz =>unlock
    );
    if let Mode::Bytes(least @ 2..) = mode {
        // Enough means the smaller of the settings' minimum and the requested count.
        dynasm!(d ; .arch x64
            ; mov eax, i32::from(least)
            ; cmp rdx, rax
            ; cmovb eax, edx
            ; cmp edi, eax
            ; jb =>unlock
        );
    }
    dynasm!(d ; .arch x64
        ; push rdx
        ; push rsi
        ; mov eax, [tail]
        ; add edi, eax
        ; mov ecx, PLACES as i32
        ; cmp rdx, rcx
        ; cmovb ecx, edx
    );
    // rax = position, edi = head, ecx = bytes still wanted, rsi = where the next one goes.
    emit::open_user(d, v.guarded_user);
    dynasm!(d ; .arch x64
        ; next:
        ; mov edx, eax
        ; and edx, mask
        ; movzx edx, WORD [rdx * 2 + places]
        ; inc eax
    );
    if mode == Mode::Line {
        dynasm!(d ; .arch x64 ; test dh, BYTE (NO_BYTE >> 8) as i8 ; jnz =>done);
    }
    d.fault_begin();
    dynasm!(d ; .arch x64 ; mov [rsi], dl);
    d.fault_end(fault);
    dynasm!(d ; .arch x64 ; inc rsi);
    if mode == Mode::Line {
        dynasm!(d ; .arch x64 ; test dh, BYTE (ENDS >> 8) as i8 ; jnz =>done);
    }
    dynasm!(d ; .arch x64
        ; cmp eax, edi
        ; je =>done
        ; dec ecx
        ; jnz <next
    );
    if mode == Mode::Line {
        // Full: a typed end of file right behind goes with it.
        dynasm!(d ; .arch x64
            ; mov edx, eax
            ; and edx, mask
            ; test BYTE [rdx * 2 + places + 1], (NO_BYTE >> 8) as i8
            ; jz =>done
            ; inc eax
        );
    }
    dynasm!(d ; .arch x64 ; =>done);
    emit::close_user(d, v.guarded_user);
    dynasm!(d ; .arch x64
        ; mov [tail], eax
        ; mov rax, rsi
        ; pop rsi
        ; sub rax, rsi
        ; pop rdx
        ; pop rdi
    );
    emit::give(d, v, turn, wake_next);
    dynasm!(d ; .arch x64 ; pop rcx);
    if guarded.full {
        emit::look_for_waiters(d, room, tell);
    }
    dynasm!(d ; .arch x64 ; ret);
    if guarded.full {
        dynasm!(d ; .arch x64 ; =>tell ; push rax);
        emit::wake_waiters(d, room, seam);
        dynasm!(d ; .arch x64 ; pop rax ; ret);
    }
    dynasm!(d ; .arch x64 ; =>fault);
    emit::close_user(d, v.guarded_user);
    dynasm!(d ; .arch x64 ; pop rsi ; pop rdx ; =>unlock ; pop rdi);
    emit::give(d, v, turn, wake_next);
    dynasm!(d ; .arch x64 ; pop rcx ; =>leave);
    emit::leave_slowly(d, abi::nr::READ, slow);
    // SAFETY: the code above keeps the contract of a descriptor routine, on the caller's promise about the
    // buffer.
    Ok(unsafe { Routine::from(draft.seal()?) })
}
