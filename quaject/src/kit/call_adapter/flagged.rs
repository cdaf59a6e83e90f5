//! A call with flags and an address by the routine of the call without: `recvfrom` by that of `read`,
//! `sendto` by that of `write`.
//!
//! *Interface*: `KIND`, for [`CallAdapter::flagged`]. Flags that change what is done, and a count of 0, take
//! the slow exit, and so does an address that no routine serves.
//!
//! Arguments stay in their registers, so the inner routine's slow exit only has another call number. Where it
//! waits, the call is made again as `read`, which without flags and address is the same. The address of a
//! `sendto` is compared with the one that the routine is for; the routine of a `recvfrom` knows the sender.

use super::{CallAdapter, Inner, Kind, SocketName};
use crate::kit::emit;
use crate::kit::routine_env::UserAccess;
use abi::linux::{MSG_DONTWAIT, MSG_NOSIGNAL};
use abi::nr;
use codegen::harden::clamp;
use codegen::idioms::Reg;
use codegen::{Class, Draft, Hole, Label, dynasm};

static CLASS: Class = Class::new("flagged");

pub(super) static KIND: Kind = Kind {
    class: &CLASS,
    calls: ["recvfrom", "sendto"],
    back: |d| dynasm!(d ; .arch x64 ; neg eax ; add eax, SUM as i32),
    front,
};

/// The number of the call with flags, less that of the call without, is this.
const SUM: usize = nr::RECVFROM + nr::READ;
const _: () = assert!(nr::SENDTO + nr::WRITE == SUM);

fn front(d: &mut Draft, around: &CallAdapter, inner: &Inner) {
    // A routine that writes never waits, and sends no signal.
    let harmless = match inner.number {
        nr::READ => 0,
        _ => MSG_NOSIGNAL | MSG_DONTWAIT,
    };
    let [leave, with_name] = core::array::from_fn(|_| d.label());
    let named = if inner.named.is_some() {
        with_name
    } else {
        leave
    };
    dynasm!(d ; .arch x64
        ; test r10d, !harmless as i32
        ; jnz =>leave
        ; test rdx, rdx
        ; jz =>leave
        ; test r8, r8
        ; jnz =>named
    );
    match inner.plain {
        Some(routine) => d.jmp_abs(Hole::value(routine.entry() as i64)),
        None => dynasm!(d ; .arch x64 ; jmp =>leave),
    }
    if let Some(named) = inner.named {
        d.bind(with_name);
        if let SocketName::To { word, length, .. } = named {
            is_to(d, around, *word, *length, leave);
        }
        d.jmp_abs(Hole::value(named.routine().entry() as i64));
    }
    d.bind(leave);
    emit::leave_slowly(d, SUM - inner.number, Hole::value(around.slow as i64));
}

/// Goes to `leave` unless the address at r8 has `length` bytes, in r9, and begins with `word`.
fn is_to(d: &mut Draft, around: &CallAdapter, word: u64, length: u32, leave: Label) {
    let guarded = around.env.conv() == UserAccess::Kernel;
    let fault = d.label();
    dynasm!(d ; .arch x64
        ; cmp r9d, length as i32
        ; jne =>leave
        ; test r8, r8
        ; js =>leave
    );
    clamp(d, Reg::R8);
    emit::open_user(d, guarded);
    d.fault_begin();
    dynasm!(d ; .arch x64 ; mov rax, [r8]);
    d.fault_end(fault);
    emit::close_user(d, guarded);
    dynasm!(d ; .arch x64
        ; push rcx
        ; mov rcx, QWORD word as i64
        ; cmp rax, rcx
        ; pop rcx
        ; jne =>leave
    );
    let was_cold = d.turn(true);
    dynasm!(d ; .arch x64 ; =>fault);
    emit::close_user(d, guarded);
    dynasm!(d ; .arch x64 ; jmp =>leave);
    d.turn(was_cold);
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::catalogue::constant::Constants;
    use crate::catalogue::testing::{Ended, call_flagged, call_named, env};
    use crate::kit::routine_env::UserAccess;
    use alloc::boxed::Box;

    #[test]
    fn plain_calls_go_by_the_inner_routine_and_the_others_leave_as_what_they_are() {
        let outer = env(1, UserAccess::Host);
        let flagged = CallAdapter::flagged(&outer, outer.slow()).unwrap();
        let inner = Constants::new(flagged.env()).unwrap();
        let read = flagged.routine(inner.zeros.clone(), nr::READ).unwrap();
        let write = flagged.routine(inner.swallow.clone(), nr::WRITE).unwrap();
        let mut byte = [1u8; 8];
        let here = byte.as_mut_ptr().expose_provenance() as u64;
        let (slow_read, slow_write) = (Ended::Slowly(nr::RECVFROM), Ended::Slowly(nr::SENDTO));
        assert_eq!(call_flagged(&read, [3, here, 8, 0, 0]), Ended::With(8));
        assert_eq!(byte, [0; 8]);
        // The upper half of the flags is not looked at by Linux either.
        assert_eq!(
            call_flagged(&read, [3, here, 8, 1 << 40, 0]),
            Ended::With(8)
        );
        for flags in [
            0,
            u64::from(MSG_NOSIGNAL),
            u64::from(MSG_NOSIGNAL | MSG_DONTWAIT),
        ] {
            assert_eq!(call_flagged(&write, [3, here, 8, flags, 0]), Ended::With(8));
        }
        for (flags, address, count) in [(2, 0, 8), (0, here, 8), (0, 0, 0), (0x8000, 0, 8)] {
            assert_eq!(
                call_flagged(&read, [3, here, count, flags, address]),
                slow_read
            );
            assert_eq!(
                call_flagged(&write, [3, here, count, flags, address]),
                slow_write
            );
        }
        assert_eq!(
            call_flagged(&read, [3, here, 8, u64::from(MSG_DONTWAIT), 0]),
            slow_read
        );
        // A call that the inner routine leaves.
        assert_eq!(call_flagged(&read, [3, 1 << 63, 8, 0, 0]), slow_read);
        assert_eq!(call_flagged(&write, [3, here, u64::MAX, 0, 0]), slow_write);
    }

    #[test]
    fn a_call_with_an_address_goes_by_the_routine_for_it() {
        let outer = env(1, UserAccess::Host);
        let flagged = CallAdapter::flagged(&outer, outer.slow()).unwrap();
        let inner = Constants::new(flagged.env()).unwrap();
        let word = 0x0100_007f_3930_0002_u64;
        let named = SocketName::To {
            word,
            length: 16,
            routine: inner.swallow.clone(),
        };
        let write = flagged.routine_of(None, Some(named), nr::WRITE).unwrap();
        let [here, other] = [word, word + 1].map(|word| {
            let address: &'static [u64; 2] = Box::leak(Box::new([word, 7]));
            address.as_ptr().expose_provenance() as u64
        });
        let slowly = Ended::Slowly(nr::SENDTO);
        for flags in [0, u64::from(MSG_NOSIGNAL)] {
            let call = [3, here, 8, flags, here, 16];
            assert_eq!(call_named(&write, call), Ended::With(8));
        }
        // Another address, none, one of another length, one nowhere; and what is left without an address.
        for (address, length) in [(other, 16), (0, 16), (here, 15), (here, 28), (8, 16)] {
            let call = [3, here, 8, 0, address, length];
            assert_eq!(call_named(&write, call), slowly);
        }
        assert_eq!(call_named(&write, [3, here, 0, 0, here, 16]), slowly);
        assert_eq!(call_named(&write, [3, here, 8, 1, here, 16]), slowly);

        let named = SocketName::From(inner.nothing.clone());
        let zeros = Some(inner.zeros.clone());
        let read = flagged.routine_of(zeros, Some(named), nr::READ).unwrap();
        assert_eq!(call_named(&read, [3, here, 8, 0, here, 16]), Ended::With(0));
        let mut bytes = [1u8; 8];
        let into = bytes.as_mut_ptr().expose_provenance() as u64;
        assert_eq!(call_named(&read, [3, into, 8, 0, 0, 0]), Ended::With(8));
        assert_eq!(
            call_named(&read, [3, into, 8, u64::from(MSG_DONTWAIT), into, 16]),
            Ended::Slowly(nr::RECVFROM)
        );
    }
}
