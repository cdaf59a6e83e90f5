//! A call with flags and an address by the routine of the call without: `recvfrom` by that of `read`,
//! `sendto` by that of `write`.
//!
//! *Interface*: `KIND`, for [`Around::flagged`]. An address, flags that change what is done, and a count of 0
//! take the slow exit.
//!
//! Arguments stay in their registers, so the inner routine's slow exit only has another call number. Where it
//! waits, the call is made again as `read`, which without flags and address is the same.

use super::{Around, Kind};
use crate::kit::emit;
use abi::linux::{MSG_DONTWAIT, MSG_NOSIGNAL};
use abi::nr;
use codegen::{Class, Draft, Hole, dynasm};

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

fn front(d: &mut Draft, around: &Around, inner: usize, number: usize) {
    // A routine that writes never waits, and sends no signal.
    let harmless = match number {
        nr::READ => 0,
        _ => MSG_NOSIGNAL | MSG_DONTWAIT,
    };
    let leave = d.label();
    dynasm!(d ; .arch x64
        ; test r10d, !harmless as i32
        ; jnz =>leave
        ; test r8, r8
        ; jnz =>leave
        ; test rdx, rdx
        ; jz =>leave
    );
    d.jmp_abs(Hole::value(inner as i64));
    d.bind(leave);
    emit::leave_slowly(d, SUM - number, Hole::value(around.slow as i64));
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::catalogue::constant::Constants;
    use crate::catalogue::testing::{Ended, call_flagged, seam};
    use crate::kit::seam::Conv;

    #[test]
    fn plain_calls_go_by_the_inner_routine_and_the_others_leave_as_what_they_are() {
        let outer = seam(1, Conv::Host);
        let flagged = Around::flagged(&outer).unwrap();
        let inner = Constants::new(flagged.seam()).unwrap();
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
}
