//! The routine behind `write` at a pseudo-terminal's master: CookTTYin's `put` for bytes that the settings
//! pass unchanged.
//!
//! *Interface*: [`PtyWriteRecipe`] is the recipe of a [`Composed`](crate::composed::Composed) routine;
//! [`synthesize_type`] is for a buffer that the caller keeps; [`EditBuffer::enter`] is the reference
//! implementation. [`enters_plainly`] says for which settings: others leave the slow stub in place, and each
//! byte goes through the editor.
//!
//! Guards, each to the slow exit: another thread uses the editor; not enough room for all bytes; a count of
//! 0; a kernel address; a fault. Waiting readers are woken.
//!
//! Source: dissertation, sections 3.2.1 and 3.2.2, table 4.2.
//!
//! *Unsafe*: safety contract of the routine.

use super::CAPACITY;
use super::edit_buffer::{EditBuffer, PLACES, Reader};
use crate::catalogue::composed::Recipe;
use crate::catalogue::serializer::Serializer;
use crate::kit::assembly::{Assembly, Made};
use crate::kit::class::{Holder, Ref};
use crate::kit::emit;
use crate::kit::routine_env::{DescFn, RoutineEnv, RoutineError, Sharing, near};
use abi::linux::*;
use alloc::sync::Arc;
use codegen::harden::clamp;
use codegen::idioms::Reg;
use codegen::{Class, Hole, dynasm};
use core::any::Any;
use core::mem::offset_of;
use core::sync::atomic::Ordering;
use sync::monitor::RawMonitor;

static CLASS: Class = Class::new("tty type");

/// Whether each byte goes to the readers at once, unchanged and unshown, under the settings `t`.
pub fn enters_plainly(t: &Termios) -> bool {
    t.lflag & EXTPROC != 0
        || t.iflag & (ISTRIP | INLCR | IGNCR | ICRNL | IXON) == 0
            && t.lflag & (ICANON | ISIG | ECHO) == 0
}

impl EditBuffer {
    /// Reference implementation of the typing routine: all of `bytes` or nothing, for settings under which
    /// they enter plainly. None where the routine takes the slow exit.
    pub fn enter(&self, turn: &RawMonitor, bytes: &[u8]) -> Option<usize> {
        if bytes.is_empty() || !turn.try_lock() {
            return None;
        }
        let edit = self.edit();
        let waiting = edit.wrapping_sub(self.tail()) as usize;
        let fits = waiting + bytes.len() <= CAPACITY;
        if fits {
            let mut position = edit;
            for byte in bytes {
                self.place(position)
                    .store(u16::from(*byte), Ordering::Relaxed);
                position = position.wrapping_add(1);
            }
            self.set_edit(position);
            self.head.store(position, Ordering::Release);
        }
        turn.unlock();
        if fits {
            self.wake_readers();
        }
        fits.then_some(bytes.len())
    }
}

/// How the routine is made.
pub struct PtyWriteRecipe {
    /// The edit buffer.
    pub typed: Arc<EditBuffer>,
    /// The monitor at its editor's entrance.
    pub entrance: Ref<Serializer>,
    /// The routine environment that routines are made against.
    pub env: &'static RoutineEnv,
}

impl Recipe for PtyWriteRecipe {
    fn make(&self, holder: Holder) -> Result<Made<DescFn>, RoutineError> {
        let kept = Arc::new((self.typed.clone(), self.entrance.clone()));
        let turn = self.entrance.monitor();
        // SAFETY: the image keeps the buffer and the quaject whose words it names.
        unsafe { synthesize_type(&self.typed, turn, self.env, Some(holder), Some(kept)) }
    }

    fn version(&self) -> Option<u32> {
        Some(0)
    }
}

/// The routine behind `write` for a buffer and the turn of its editor.
///
/// # Errors
/// [`RoutineError`].
///
/// # Safety
/// Both stay in place until a grace period after the last handle to the routine is gone, if `kept` does not
/// keep them.
pub unsafe fn synthesize_type(
    typed: &EditBuffer,
    turn: &RawMonitor,
    env: &RoutineEnv,
    holder: Option<Holder>,
    kept: Option<Arc<dyn Any + Send + Sync>>,
) -> Result<Made<DescFn>, RoutineError> {
    near(core::ptr::from_ref(typed).wrapping_add(1))?;
    let base = near(typed)? as i32;
    let tail = base + (offset_of!(EditBuffer, reader) + offset_of!(Reader, tail)) as i32;
    let [head, edit, places] = [
        offset_of!(EditBuffer, head),
        offset_of!(EditBuffer, edit),
        offset_of!(EditBuffer, places),
    ]
    .map(|field| base + field as i32);
    let readable = near(typed.readable())? as i32;
    // The monitor's word is its first field.
    let turn = near(turn)? as i32;
    let v = env.variant(Sharing::Shared);
    let slow = Hole::value(env.slow() as i64);
    let wake_next = Hole::value(env.wake_next.entry() as i64);
    let mask = PLACES as i32 - 1;
    let mut a = Assembly::new(&CLASS, "type", holder);
    let d = &mut *a;
    let [leave, unlock, fault, tell] = core::array::from_fn(|_| d.label());

    emit::look(d, v, turn, leave);
    dynasm!(d ; .arch x64
        ; test rsi, rsi
        ; js =>leave
        ; test rdx, rdx
        ; jz =>leave
        ; cmp rdx, CAPACITY as i32
        ; ja =>leave
    );
    clamp(d, Reg::Rsi);
    dynasm!(d ; .arch x64 ; push rcx);
    emit::enter(d, v, turn, leave);
    dynasm!(d ; .arch x64
        ; mov eax, [edit]
        ; mov ecx, eax
        ; sub ecx, [tail]
        ; add ecx, edx
        ; cmp ecx, CAPACITY as i32
        ; ja =>unlock
        ; push rdi
        ; push rsi
        ; push rdx
    );
    // eax = position, edx = bytes still to come, rsi = where the next one is.
    emit::open_user(d, v.guarded_user);
    dynasm!(d ; .arch x64 ; next:);
    d.fault_begin();
    dynasm!(d ; .arch x64 ; movzx ecx, BYTE [rsi]);
    d.fault_end(fault);
    dynasm!(d ; .arch x64
        ; mov edi, eax
        ; and edi, mask
        ; mov [rdi * 2 + places], cx
        ; inc rsi
        ; inc eax
        ; dec edx
        ; jnz <next
    );
    emit::close_user(d, v.guarded_user);
    dynasm!(d ; .arch x64
        ; mov [edit], eax
        ; mov [head], eax
        ; pop rdx
        ; pop rsi
        ; pop rdi
        ; mov eax, edx
    );
    emit::give(d, v, turn, wake_next);
    dynasm!(d ; .arch x64 ; pop rcx);
    emit::look_for_waiters(d, readable, tell);
    dynasm!(d ; .arch x64 ; ret ; =>tell ; push rax);
    emit::wake_waiters(d, readable, env.wake_all.entry());
    dynasm!(d ; .arch x64 ; pop rax ; ret ; =>fault);
    emit::close_user(d, v.guarded_user);
    dynasm!(d ; .arch x64 ; pop rdx ; pop rsi ; pop rdi ; =>unlock);
    emit::give(d, v, turn, wake_next);
    dynasm!(d ; .arch x64 ; pop rcx ; =>leave);
    emit::leave_slowly(d, abi::nr::WRITE, slow);
    // SAFETY: the code above keeps the contract of a descriptor routine, on the caller's promise.
    unsafe { a.seal(kept) }
}
