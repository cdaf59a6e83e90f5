//! A call with flags and an address by the routine of the call without: `recvfrom` by that of `read`,
//! `sendto` by that of `write`.
//!
//! *Interface*: [`Flagged::new`], once. A routine that is to be called so is generated against
//! [`Flagged::seam`]; [`Flagged::routine`] puts the questions in front of it. An address, flags that change
//! what is done, a count of 0, and all that the inner routine leaves, take the slow exit.
//!
//! Arguments stay in their registers, so the inner routine's slow exit only has another call number. Where it
//! waits, the call is made again as `read`, which without flags and address is the same.
//!
//! Source: dissertation, sections 3.2.2 (layers collapse) and 4.2.

use crate::kit::emit;
use crate::kit::seam::{DescFn, Seam, Unmade};
use abi::linux::{MSG_DONTWAIT, MSG_NOSIGNAL};
use abi::nr;
use alloc::sync::Arc;
use codegen::{Class, Draft, Hole, OutOfCode, Routine, dynasm};

static CLASS: Class = Class::new("flagged");

/// The number of the call with flags, less that of the call without, is this.
const SUM: usize = nr::RECVFROM + nr::READ;
const _: () = assert!(nr::SENDTO + nr::WRITE == SUM);

/// What such routines share.
#[derive(Debug)]
pub struct Flagged {
    seam: Seam,
    slow: usize,
    /// The inner routines' slow exit.
    _way_out: Routine<DescFn>,
}

impl Flagged {
    /// For routines like those that are generated against `seam`.
    ///
    /// # Errors
    /// [`OutOfCode`].
    pub fn new(seam: &Seam) -> Result<Flagged, OutOfCode> {
        let mut draft = Draft::new(&CLASS, "way out");
        let d = &mut draft;
        dynasm!(d ; .arch x64 ; neg eax ; add eax, SUM as i32);
        d.jmp_abs(Hole::value(seam.slow() as i64));
        // SAFETY: it takes the slow exit, as a descriptor routine may.
        let way_out: Routine<DescFn> = unsafe { Routine::from(draft.seal()?) };
        Ok(Flagged {
            seam: seam.leaving_to(way_out.entry())?.waiting_as(seam),
            slow: seam.slow(),
            _way_out: way_out,
        })
    }

    /// What inner routines are generated against.
    pub fn seam(&self) -> &Seam {
        &self.seam
    }

    /// The routine behind `recvfrom` or `sendto`. `inner`, generated against [`Flagged::seam`], is the one
    /// behind `read` or `write`, whose call number is `number`.
    ///
    /// # Errors
    /// [`Unmade`].
    pub fn routine(
        &self,
        inner: Routine<DescFn>,
        number: usize,
    ) -> Result<Routine<DescFn>, Unmade> {
        // A routine that writes never waits, and sends no signal.
        let (name, harmless) = match number {
            nr::READ => ("recvfrom", 0),
            _ => ("sendto", MSG_NOSIGNAL | MSG_DONTWAIT),
        };
        let mut draft = Draft::new(&CLASS, name);
        let d = &mut draft;
        let leave = d.label();
        dynasm!(d ; .arch x64
            ; test r10d, !harmless as i32
            ; jnz =>leave
            ; test r8, r8
            ; jnz =>leave
            ; test rdx, rdx
            ; jz =>leave
        );
        d.jmp_abs(Hole::value(inner.entry() as i64));
        d.bind(leave);
        emit::leave_slowly(d, SUM - number, Hole::value(self.slow as i64));
        // SAFETY: it changes rax alone and goes on to a descriptor routine, which it keeps, or leaves.
        let routine: Routine<DescFn> = unsafe { Routine::from(draft.seal()?) };
        Ok(routine.keeping(Arc::new(inner)))
    }
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
        let flagged = Flagged::new(&outer).unwrap();
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
        // What the inner routine leaves.
        assert_eq!(call_flagged(&read, [3, 1 << 63, 8, 0, 0]), slow_read);
        assert_eq!(call_flagged(&write, [3, here, u64::MAX, 0, 0]), slow_write);
    }
}
