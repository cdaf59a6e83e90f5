//! Descriptor routines without an object: constants, `/dev/null`, `/dev/zero`, `/dev/full`. One image of each
//! serves all descriptors.
//!
//! *Interface*: [`Constants::new`] makes the images, once; clones of its routines go into any number of
//! tables.
//!
//! Source: dissertation, section 3.2.4 (only one branch of an `if` on a constant is left; here it is often
//! all that is left).
//!
//! *Unsafe*: safety contract of the constants.

use crate::catalogue::fsmap::LARGEST;
use crate::kit::emit;
use crate::kit::routine_env::{DescFn, RoutineEnv, RoutineError, UserAccess};
use abi::errno::Errno;
use abi::nr;
use codegen::harden::clamp;
use codegen::idioms::Reg;
use codegen::{Class, Draft, Hole, Routine, dynasm};

static CLASS: Class = Class::new("constant");

/// The most bytes that one call reports, as Linux limits them.
const MOST: i32 = 0x7fff_f000;

/// The shared images.
#[derive(Debug, Clone)]
pub struct Constants {
    /// `read` of `/dev/null`, `lseek` of all three: 0.
    pub nothing: Routine<DescFn>,
    /// `write` to `/dev/null` and `/dev/zero`: the count.
    pub swallow: Routine<DescFn>,
    /// `read` of `/dev/zero` and `/dev/full`: zeros.
    pub zeros: Routine<DescFn>,
    /// `write` to `/dev/full`: no space left.
    pub no_space: Routine<DescFn>,
    /// `lseek` of a pipe, a terminal, a socket: illegal seek.
    pub no_seek: Routine<DescFn>,
}

impl Constants {
    /// Makes the images.
    ///
    /// # Errors
    /// [`RoutineError::OutOfCode`].
    pub fn new(env: &RoutineEnv) -> Result<Constants, RoutineError> {
        Ok(Constants {
            nothing: constant("nothing", 0)?,
            swallow: swallow(env)?,
            zeros: zeros(env)?,
            no_space: constant("no space", -(Errno::ENOSPC.0 as isize))?,
            no_seek: constant("no seek", -(Errno::ESPIPE.0 as isize))?,
        })
    }
}

/// A routine that always returns `value`.
///
/// # Errors
/// [`RoutineError::OutOfCode`].
pub fn constant(name: &'static str, value: isize) -> Result<Routine<DescFn>, RoutineError> {
    let mut draft = Draft::new(&CLASS, name);
    codegen::idioms::constant(&mut draft, codegen::idioms::Reg::Rax, value as u64);
    let d = &mut draft;
    dynasm!(d ; .arch x64 ; ret);
    seal(draft)
}

fn swallow(env: &RoutineEnv) -> Result<Routine<DescFn>, RoutineError> {
    let mut draft = Draft::new(&CLASS, "swallow");
    let d = &mut draft;
    dynasm!(d ; .arch x64 ; cmp rdx, MOST ; ja >slow ; mov eax, edx ; ret ; slow:);
    emit::leave_slowly(d, nr::WRITE, Hole::value(env.slow() as i64));
    seal(draft)
}

fn zeros(env: &RoutineEnv) -> Result<Routine<DescFn>, RoutineError> {
    let guarded = env.conv() == UserAccess::Kernel;
    let mut draft = Draft::new(&CLASS, "zeros");
    let d = &mut draft;
    let fault = d.label();
    dynasm!(d ; .arch x64
        ; test rsi, rsi
        ; js >slow
        ; cmp rdx, LARGEST as i32
        ; ja >slow
        ; push rcx
        ; push rdi
        ; mov rdi, rsi
        ; mov ecx, edx
        ; shr ecx, 3
        ; xor eax, eax
    );
    clamp(d, Reg::Rdi);
    emit::open_user(d, guarded);
    d.fault_begin();
    dynasm!(d ; .arch x64 ; rep stosq ; mov ecx, edx ; and ecx, 7 ; rep stosb);
    d.fault_end(fault);
    emit::close_user(d, guarded);
    dynasm!(d ; .arch x64 ; mov eax, edx ; pop rdi ; pop rcx ; ret ; =>fault);
    emit::close_user(d, guarded);
    dynasm!(d ; .arch x64 ; pop rdi ; pop rcx ; slow:);
    emit::leave_slowly(d, nr::READ, Hole::value(env.slow() as i64));
    seal(draft)
}

fn seal(draft: Draft) -> Result<Routine<DescFn>, RoutineError> {
    // SAFETY: every generator above keeps the contract of a descriptor routine, and names no object.
    Ok(unsafe { Routine::from(draft.seal()?) })
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::catalogue::testing::{Ended, UserMemory, call, env, hot_path};

    #[test]
    fn constants_answer_at_once() {
        let env = env(1, UserAccess::Kernel);
        let made = Constants::new(&env).unwrap();
        assert_eq!(call(&made.nothing, [0, 1, 2]), Ended::With(0));
        assert_eq!(call(&made.no_space, [0, 1, 2]), Ended::With(-28));
        assert_eq!(call(&made.no_seek, [0, 1, 2]), Ended::With(-29));
        assert_eq!(call(&made.swallow, [0, 1, 12345]), Ended::With(12345));
        assert_eq!(
            call(&made.swallow, [0, 1, MOST as u64 + 1]),
            Ended::Slowly(nr::WRITE)
        );
        assert!(hot_path(&made.swallow) <= 4 && hot_path(&made.nothing) <= 2);
    }

    #[test]
    fn zeros_fill_what_was_asked_for_and_nothing_else() {
        let made = Constants::new(&env(1, UserAccess::Host)).unwrap();
        let mut user = UserMemory::new(8192);
        for count in [0, 1, 7, 8, 9, 100, 4096, 8000] {
            user.bytes().fill(0xff);
            let ended = call(&made.zeros, [0, user.at(5), count as u64]);
            assert_eq!(ended, Ended::With(count as isize));
            let zeros = |at: usize| (5..5 + count).contains(&at);
            assert!((0..8192).all(|at| (user.bytes()[at] == 0) == zeros(at)));
        }
        for (at, count) in [(8190, 3), (8192, 1), (8000, LARGEST as u64 + 1)] {
            assert_eq!(
                call(&made.zeros, [0, user.at(at), count]),
                Ended::Slowly(nr::READ)
            );
        }
        assert_eq!(call(&made.zeros, [0, 1 << 63, 1]), Ended::Slowly(nr::READ));
    }
}
