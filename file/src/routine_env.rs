//! The environment of this kernel's descriptor routines: the constants that all of them are generated
//! against.
//!
//! *Interface.* [`init`] once at boot, when the number of CPUs is known and the code space is linked, before
//! the first descriptor table; [`get`] for generators. Also makes the stubs for words of a kernel procedure
//! table without a routine, and applies the kernel parameter `links=called` (linked code is called, and none
//! is placed in line).
//!
//! *Unsafe*: boot-time statics; safety contract of the stubs.

use abi::errno::{Errno, Result};
use abi::nr;
use alloc::boxed::Box;
use codegen::{Class, Draft, OutOfCode, Routine, dynasm};
use core::ptr;
use core::sync::atomic::{AtomicPtr, Ordering};
use quaject::constant::Constants;
use quaject::filtered::WayBack;
use quaject::{CallAdapter, DescFn, RoutineEnv, RoutineError, UserAccess};

use crate::stubs::{self, Stubs};

static ENV: AtomicPtr<RoutineEnv> = AtomicPtr::new(ptr::null_mut());
static SEGMENTS: AtomicPtr<CallAdapter> = AtomicPtr::new(ptr::null_mut());
static FLAGGED: AtomicPtr<CallAdapter> = AtomicPtr::new(ptr::null_mut());
static WAY_BACK: AtomicPtr<WayBack> = AtomicPtr::new(ptr::null_mut());
static CONSTANTS: AtomicPtr<Constants> = AtomicPtr::new(ptr::null_mut());
static SLOW: Class = Class::new("stub.slow");
static BAD_FD: Class = Class::new("stub.bad_fd");
static WAY_OUT: Class = Class::new("stub.way_out");

/// The kernel parameter that has all links called.
const CALLED: &str = "links=called";

/// Makes the routine environment and the stubs for `cpus` CPUs. `slow`: where a routine leaves a call to
/// Rust, entered as the machine's slow entry is. `ENOMEM` without room for code.
// In its own stack frame, so the frames of the boot steps do not add up.
#[inline(never)]
pub fn init(cpus: usize, slow: usize) -> Result<()> {
    let mut words = machine::boot::info().cmdline.split_ascii_whitespace();
    if words.any(|word| word == CALLED) {
        quaject::inlining::disable_inlining();
    }
    let conv = if machine::features::get().smap() {
        UserAccess::Kernel
    } else {
        UserAccess::Host
    };
    let env = RoutineEnv::new(slow, cpus, conv, &quaject::CALLBACKS)
        .map_err(|OutOfCode| Errno::ENOMEM)?
        .waiting(thread::wait_exit());
    let constants = Constants::new(&env).map_err(|_| Errno::ENOMEM)?;
    CONSTANTS.store(Box::into_raw(Box::new(constants)), Ordering::Release);
    make_calls_around(&env)?;
    ENV.store(Box::into_raw(Box::new(env)), Ordering::Release);
    let stubs = make_stubs(slow).map_err(|OutOfCode| Errno::ENOMEM)?;
    stubs::link(stubs);
    let way_out = stub(&WAY_OUT, "way out", &thread::dispatch::way_out);
    thread::dispatch::link_way_out(way_out.map_err(|OutOfCode| Errno::ENOMEM)?);
    Ok(())
}

/// The code that routines around other routines share. On a frame of its own, as above.
#[inline(never)]
fn make_calls_around(env: &RoutineEnv) -> Result<()> {
    let segments = CallAdapter::segments(env).map_err(|OutOfCode| Errno::ENOMEM)?;
    SEGMENTS.store(Box::into_raw(Box::new(segments)), Ordering::Release);
    let flagged = CallAdapter::flagged(env, thread::wait_exit_named());
    let flagged = flagged.map_err(|OutOfCode| Errno::ENOMEM)?;
    FLAGGED.store(Box::into_raw(Box::new(flagged)), Ordering::Release);
    if env.several_cpus() {
        let way_back = WayBack::new(env).map_err(|OutOfCode| Errno::ENOMEM)?;
        WAY_BACK.store(Box::into_raw(Box::new(way_back)), Ordering::Release);
    }
    Ok(())
}

/// The shared images of routines without an object; `EAGAIN` before [`init`].
pub fn constants() -> Result<&'static Constants> {
    // SAFETY: the pointer is null or comes from the box leaked in `init`.
    unsafe { CONSTANTS.load(Ordering::Acquire).as_ref() }.ok_or(Errno::EAGAIN)
}

/// The routine environment; `EAGAIN` before [`init`].
pub fn get() -> Result<&'static RoutineEnv> {
    // SAFETY: the pointer is null or comes from the box leaked in `init`.
    unsafe { ENV.load(Ordering::Acquire).as_ref() }.ok_or(Errno::EAGAIN)
}

/// The code that routines behind `readv` and `writev` share; `EAGAIN` before [`init`].
pub fn segments() -> Result<&'static CallAdapter> {
    // SAFETY: the pointer is null or comes from the box leaked in `init`.
    unsafe { SEGMENTS.load(Ordering::Acquire).as_ref() }.ok_or(Errno::EAGAIN)
}

/// The code that routines behind `recvfrom` and `sendto` share; `EAGAIN` before [`init`].
pub fn flagged() -> Result<&'static CallAdapter> {
    // SAFETY: the pointer is null or comes from the box leaked in `init`.
    unsafe { FLAGGED.load(Ordering::Acquire).as_ref() }.ok_or(Errno::EAGAIN)
}

/// The way back from the routines that filtered ones call on several CPUs; `EAGAIN` before [`init`], and with
/// one CPU.
pub fn way_back() -> Result<&'static WayBack> {
    // SAFETY: the pointer is null or comes from the box leaked in `init`.
    unsafe { WAY_BACK.load(Ordering::Acquire).as_ref() }.ok_or(Errno::EAGAIN)
}

/// The result of a generator, for a description: nothing where its data is out of reach. `ENOMEM` without
/// room for code.
pub fn made<F>(
    routine: core::result::Result<Routine<F>, RoutineError>,
) -> Result<Option<Routine<F>>> {
    match routine {
        Ok(routine) => Ok(Some(routine)),
        Err(RoutineError::OutOfReach) => Ok(None),
        Err(_) => Err(Errno::ENOMEM),
    }
}

fn make_stubs(slow: usize) -> core::result::Result<Stubs, OutOfCode> {
    let mut entries = [0; 3];
    let calls = [
        ("slow read", nr::READ),
        ("slow write", nr::WRITE),
        ("slow lseek", nr::LSEEK),
    ];
    for (entry, (name, number)) in entries.iter_mut().zip(calls) {
        *entry = stub(&SLOW, name, &|d| {
            dynasm!(d ; .arch x64 ; mov eax, number as i32);
            d.jmp_abs(slow);
        })?;
    }
    let bad_fd = stub(&BAD_FD, "closed descriptor", &|d| {
        dynasm!(d ; .arch x64 ; mov rax, -Errno::EBADF.0 ; ret);
    })?;
    Ok(Stubs {
        slow: entries,
        bad_fd,
    })
}

/// The entry of a stub, which is never freed. On a frame of its own, since a draft is large.
#[inline(never)]
fn stub(
    class: &'static Class,
    name: &'static str,
    emit: &dyn Fn(&mut Draft),
) -> core::result::Result<usize, OutOfCode> {
    let mut draft = Draft::new(class, name);
    emit(&mut draft);
    keep(draft)
}

/// Seals a stub, which is never freed, and answers its entry.
pub fn keep(draft: Draft) -> core::result::Result<usize, OutOfCode> {
    // SAFETY: the stubs keep the contract of a descriptor routine: they change rax only, and return or take
    // the slow exit.
    let routine = unsafe { Routine::<DescFn>::from(draft.seal()?) };
    let entry = routine.entry();
    core::mem::forget(routine);
    Ok(entry)
}
