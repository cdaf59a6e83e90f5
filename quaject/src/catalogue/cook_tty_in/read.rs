//! The routine behind `read` from a terminal: reads CookTTYin's edit buffer, in the mode of the settings.
//!
//! *Interface*: [`TtyReadRecipe`] is the recipe of a [`Composed`](crate::composed::Composed) routine;
//! [`synthesize_read`] is for a buffer that the caller keeps. The mode is a constant of the code: whoever
//! changes the settings has the routine made anew. One routine serves every descriptor of the terminal.
//!
//! Guards, each to the slow exit: the caller's process group is not the foreground group (its number comes
//! from the callout `group`, whose code stands here); another reader is there; nothing or not enough to
//! read; nothing asked for; a kernel address; a fault.
//!
//! Source: dissertation, sections 3.2.1 and 3.2.2, table 4.2.
//!
//! *Unsafe*: safety contract of the routine.

use super::edit_buffer::{ENDS, EditBuffer, Mode, NO_BYTE, PLACES, Reader};
use super::{GROUP, Quaject};
use crate::catalogue::composed::Recipe;
use crate::kit::assembly::{Assembly, Made};
use crate::kit::class::{Holder, Ref};
use crate::kit::emit;
use crate::kit::regs::Regs;
use crate::kit::routine_env::{DescFn, RoutineEnv, RoutineError, Sharing, near};
use alloc::sync::Arc;
use codegen::harden::clamp;
use codegen::idioms::Reg;
use codegen::{Class, Hole, dynasm};
use core::any::Any;
use core::mem::offset_of;

static CLASS: Class = Class::new("tty read");

/// How the routine is made.
pub struct TtyReadRecipe {
    /// The edit buffer.
    pub typed: Arc<EditBuffer>,
    /// The editor, whose `group` is linked.
    pub from: Ref<Quaject>,
    /// How readers take what is there.
    pub mode: Mode,
    /// Whether somebody may wait for room in the buffer, and is woken.
    pub full: bool,
    /// Whether a reader that finds nothing sleeps straight out of the routine, if no other does
    /// ([`EditBuffer::wake_readers`] wakes it). Not with a minimum of more than a byte.
    pub patient: bool,
    /// The routine environment that routines are made against.
    pub env: &'static RoutineEnv,
}

impl Recipe for TtyReadRecipe {
    fn make(&self, holder: Holder) -> Result<Made<DescFn>, RoutineError> {
        let kept = self.typed.clone();
        // SAFETY: the image keeps the buffer whose words it names.
        unsafe { synthesize_read(self, &self.typed, Some(holder), Some(kept)) }
    }

    fn version(&self) -> Option<u32> {
        let mode = match self.mode {
            Mode::Line => 0,
            Mode::Bytes(least) => 1 + u32::from(least),
        };
        Some(mode << 2 | u32::from(self.full) << 1 | u32::from(self.patient))
    }
}

/// The routine behind `read` for the buffer `typed`, in all else as `reads` says.
///
/// # Errors
/// [`RoutineError`].
///
/// # Safety
/// `typed` stays in place until a grace period after the last handle to the routine is gone, if `kept` does
/// not keep it.
pub unsafe fn synthesize_read(
    reads: &TtyReadRecipe,
    typed: &EditBuffer,
    holder: Option<Holder>,
    kept: Option<Arc<dyn Any + Send + Sync>>,
) -> Result<Made<DescFn>, RoutineError> {
    let &TtyReadRecipe {
        mode,
        full,
        patient,
        env,
        ..
    } = reads;
    near(core::ptr::from_ref(typed).wrapping_add(1))?;
    let base = near(typed)? as i32;
    let reader = base + offset_of!(EditBuffer, reader) as i32;
    let [head, group, places] = [
        offset_of!(EditBuffer, head),
        offset_of!(EditBuffer, group),
        offset_of!(EditBuffer, places),
    ]
    .map(|field| base + field as i32);
    let room = near(typed.room())? as i32;
    let tail = reader + offset_of!(Reader, tail) as i32;
    // The monitor's word is its first field.
    let turn = reader + offset_of!(Reader, turn) as i32;
    let v = env.variant(Sharing::Shared);
    let slow = Hole::value(env.slow() as i64);
    let wake_next = Hole::value(env.wake_next.entry() as i64);
    let mask = PLACES as i32 - 1;

    let name = match mode {
        Mode::Line => "read a line",
        Mode::Bytes(_) => "read bytes",
    };
    let mut a = Assembly::new(&CLASS, name, holder);
    let link = a.use_link(reads.from.header(), GROUP.number());
    let link = link.ok_or(RoutineError::BadSpec)?;
    let d = &mut a;
    let [leave, unlock, done, fault, tell] = core::array::from_fn(|_| d.label());
    let nothing = if patient { d.label() } else { unlock };

    emit::look(d, v, turn, leave);
    dynasm!(d ; .arch x64 ; test rsi, rsi ; js =>leave);
    clamp(d, Reg::Rsi);
    d.place(link, Regs::SYSV - Regs::of(&[Reg::Rax]), None, &[]);
    dynasm!(d ; .arch x64 ; cmp eax, [group] ; jne =>leave ; push rcx);
    emit::enter(d, v, turn, leave);
    // edi = places there, rdx = bytes asked for, at most what the buffer holds.
    dynasm!(d ; .arch x64
        ; push rdi
        ; test rdx, rdx
        ; jz =>unlock
        ; mov edi, [head]
        ; sub edi, [tail]
        ; jz =>nothing
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
    if full {
        emit::look_for_waiters(d, room, tell);
    }
    dynasm!(d ; .arch x64 ; ret);
    if full {
        dynasm!(d ; .arch x64 ; =>tell ; push rax);
        emit::wake_waiters(d, room, env.wake_all.entry());
        dynasm!(d ; .arch x64 ; pop rax ; ret);
    }
    dynasm!(d ; .arch x64 ; =>fault);
    emit::close_user(d, v.guarded_user);
    dynasm!(d ; .arch x64 ; pop rsi ; pop rdx ; =>unlock ; pop rdi);
    emit::give(d, v, turn, wake_next);
    dynasm!(d ; .arch x64 ; pop rcx ; =>leave);
    emit::leave_slowly(d, abi::nr::READ, slow);
    if patient {
        let sleep = base + offset_of!(EditBuffer, sleeper) as i32;
        dynasm!(d ; .arch x64 ; =>nothing ; pop rdi);
        emit::give(d, v, turn, wake_next);
        dynasm!(d ; .arch x64 ; pop rcx ; mov rax, sleep);
        d.jmp_abs(env.wait_for_data());
    }
    // SAFETY: the code above keeps the contract of a descriptor routine, on the caller's promise about the
    // buffer.
    unsafe { a.seal(kept) }
}
