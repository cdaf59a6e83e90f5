//! The routines behind `read` and `write` of a counter.
//!
//! Numbers are taken or added by one exchange, on one processor by a plain store. Operations that cannot
//! complete at once, and counts with the top bit, take the slow exit; a reader that finds nothing sleeps.
//!
//! *Unsafe*: safety contract of the routines.

use super::{BYTES, CounterCore, offset};
use crate::kit::emit;
use crate::kit::routine_env::{DescFn, RoutineEnv, RoutineError, Sharing, near};
use codegen::harden::clamp;
use codegen::idioms::Reg;
use codegen::{Class, Draft, Hole, Routine, dynasm};

static CLASS: Class = Class::new("counter");

/// The routine behind `read`.
///
/// # Safety
/// `counter` stays in place until a grace period after the last handle to the routine is gone.
pub(super) unsafe fn synthesize_take(
    counter: &CounterCore,
    env: &RoutineEnv,
) -> Result<Routine<DescFn>, RoutineError> {
    let core = near(counter)? as i32;
    let v = env.variant(Sharing::Shared);
    let mut draft = Draft::new(&CLASS, "take");
    let d = &mut draft;
    let [leave, fault, empty, wake, again, slowly] = core::array::from_fn(|_| d.label());
    dynasm!(d ; .arch x64
        ; test rsi, rsi
        ; js =>leave
        ; cmp rdx, BYTES as i32
        ; jb =>leave
    );
    clamp(d, Reg::Rsi);
    dynasm!(d ; .arch x64 ; push rcx ; =>again ; mov rax, [core + offset::COUNT] ; test rax, rax ; js =>slowly ; jz =>empty);
    emit::open_user(d, v.guarded_user);
    d.fault_begin();
    if counter.single {
        dynasm!(d ; .arch x64 ; mov QWORD [rsi], 1);
    } else {
        dynasm!(d ; .arch x64 ; mov [rsi], rax);
    }
    d.fault_end(fault);
    emit::close_user(d, v.guarded_user);
    if counter.single {
        dynasm!(d ; .arch x64 ; lea rcx, [rax - 1]);
    } else {
        dynasm!(d ; .arch x64 ; xor ecx, ecx);
    }
    if v.several_cpus {
        dynasm!(d ; .arch x64 ; lock cmpxchg [core + offset::COUNT], rcx ; jne =>again);
    } else {
        dynasm!(d ; .arch x64 ; mov [core + offset::COUNT], rcx);
    }
    dynasm!(d ; .arch x64
        ; pop rcx
        ; mov eax, BYTES as i32
        ; cmp QWORD [core + offset::ADDERS], 0
        ; jne =>wake
        ; ret
        ; =>wake
        ; mov rax, core
    );
    d.call_abs(env.room_came.entry());
    dynasm!(d ; .arch x64 ; mov eax, BYTES as i32 ; ret ; =>empty ; pop rcx ; mov rax, core + offset::SLEEPER);
    d.jmp_abs(Hole::value(env.wait_for_data() as i64));
    dynasm!(d ; .arch x64 ; =>fault);
    emit::close_user(d, v.guarded_user);
    dynasm!(d ; .arch x64 ; =>slowly ; pop rcx ; =>leave);
    emit::leave_slowly(d, abi::nr::READ, Hole::value(env.slow() as i64));
    // SAFETY: the code above keeps the contract of a descriptor routine, on the caller's promise about
    // `counter`.
    Ok(unsafe { Routine::from(draft.seal()?) })
}

/// The routine behind `write`.
///
/// # Safety
/// As for [`synthesize_take`].
pub(super) unsafe fn synthesize_add(
    counter: &CounterCore,
    env: &RoutineEnv,
) -> Result<Routine<DescFn>, RoutineError> {
    let core = near(counter)? as i32;
    let v = env.variant(Sharing::Shared);
    let mut draft = Draft::new(&CLASS, "add");
    let d = &mut draft;
    let [leave, fault, wake, again, slowly] = core::array::from_fn(|_| d.label());
    dynasm!(d ; .arch x64
        ; test rsi, rsi
        ; js =>leave
        ; cmp rdx, BYTES as i32
        ; jb =>leave
    );
    clamp(d, Reg::Rsi);
    dynasm!(d ; .arch x64 ; push rcx ; push rdx);
    emit::open_user(d, v.guarded_user);
    d.fault_begin();
    dynasm!(d ; .arch x64 ; mov rdx, [rsi]);
    d.fault_end(fault);
    emit::close_user(d, v.guarded_user);
    // The sum of a number that may not be added, the largest there is, is that number itself or carries.
    dynasm!(d ; .arch x64
        ; =>again
        ; mov rax, [core + offset::COUNT]
        ; mov rcx, rax
        ; add rcx, rdx
        ; jc =>slowly
        ; cmp rcx, -1
        ; je =>slowly
    );
    if v.several_cpus {
        dynasm!(d ; .arch x64 ; lock cmpxchg [core + offset::COUNT], rcx ; jne =>again);
    } else {
        dynasm!(d ; .arch x64 ; mov [core + offset::COUNT], rcx);
    }
    dynasm!(d ; .arch x64
        ; pop rdx
        ; pop rcx
        ; mov rax, [core + offset::TAKERS]
        ; or rax, [core + offset::SLEEPING]
        ; jnz =>wake
        ; mov eax, BYTES as i32
        ; ret
        ; =>wake
        ; mov rax, core
    );
    d.call_abs(env.some_came.entry());
    dynasm!(d ; .arch x64 ; mov eax, BYTES as i32 ; ret ; =>fault);
    emit::close_user(d, v.guarded_user);
    dynasm!(d ; .arch x64 ; =>slowly ; pop rdx ; pop rcx ; =>leave);
    emit::leave_slowly(d, abi::nr::WRITE, Hole::value(env.slow() as i64));
    // SAFETY: as above.
    Ok(unsafe { Routine::from(draft.seal()?) })
}
