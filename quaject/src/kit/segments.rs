//! A call with one segment by the routine of the call with a buffer: `readv` by that of `read`, `writev` by
//! that of `write`.
//!
//! *Interface*: [`Segments::new`], once. A routine that is to be called so is generated against
//! [`Segments::seam`]; [`Segments::routine`] puts the code around it that takes the segment apart. More or
//! fewer segments than one, a fault at the segment, and all that the inner routine leaves, take the slow exit
//! with every register as it was.
//!
//! The inner routine's own slow exit is the way back through that code: it finds on the stack what the code
//! around the routine has put there, since a routine leaves at the depth at which it was entered. It waits
//! for nothing: an empty pipe is left to the slow exit, too.
//!
//! Source: dissertation, sections 3.2.2 (layers collapse) and 4.2.

use crate::kit::emit;
use crate::kit::seam::{Conv, DescFn, Seam, Unmade};
use abi::nr;
use alloc::sync::Arc;
use codegen::harden::clamp;
use codegen::methods::Reg;
use codegen::{Class, Draft, Hole, OutOfCode, Routine, dynasm};

static CLASS: Class = Class::new("segment");

/// From the number of a call with a buffer to that of the call with segments.
const MORE: i32 = (nr::READV - nr::READ) as i32;
const _: () = assert!(nr::WRITEV - nr::WRITE == nr::READV - nr::READ);

/// What such routines share.
#[derive(Debug)]
pub struct Segments {
    seam: Seam,
    slow: usize,
    /// The inner routines' slow exit.
    _way_out: Routine<DescFn>,
}

impl Segments {
    /// For routines like those that are generated against `seam`.
    ///
    /// # Errors
    /// [`OutOfCode`].
    pub fn new(seam: &Seam) -> Result<Segments, OutOfCode> {
        let mut draft = Draft::new(&CLASS, "way out");
        let d = &mut draft;
        // On the stack: where the inner routine would have returned to, and rsi. One segment: rdx was 1.
        dynasm!(d ; .arch x64 ; add rsp, 8 ; pop rsi ; mov edx, 1 ; add eax, MORE);
        d.jmp_abs(Hole::value(seam.slow() as i64));
        // SAFETY: it is entered from inner routines only, and takes the slow exit.
        let way_out: Routine<DescFn> = unsafe { Routine::from(draft.seal()?) };
        Ok(Segments {
            seam: seam.leaving_to(way_out.entry())?,
            slow: seam.slow(),
            _way_out: way_out,
        })
    }

    /// What inner routines are generated against.
    pub fn seam(&self) -> &Seam {
        &self.seam
    }

    /// The routine behind `readv` or `writev`. `inner`, generated against [`Segments::seam`], is the one
    /// behind `read` or `write`, whose call number is `number`.
    ///
    /// # Errors
    /// [`Unmade`].
    pub fn routine(
        &self,
        inner: Routine<DescFn>,
        number: usize,
    ) -> Result<Routine<DescFn>, Unmade> {
        let guarded = self.seam.conv() == Conv::Kernel;
        let name = if number == nr::READ {
            "readv"
        } else {
            "writev"
        };
        let mut draft = Draft::new(&CLASS, name);
        let d = &mut draft;
        let [leave, fault] = core::array::from_fn(|_| d.label());
        dynasm!(d ; .arch x64
            ; cmp rdx, 1
            ; jne =>leave
            ; test rsi, rsi
            ; js =>leave
            ; push rsi
        );
        clamp(d, Reg::Rsi);
        emit::open_user(d, guarded);
        d.fault_begin();
        dynasm!(d ; .arch x64 ; mov rdx, [rsi + 8] ; mov rsi, [rsi]);
        d.fault_end(fault);
        emit::close_user(d, guarded);
        d.call_abs(inner.entry());
        dynasm!(d ; .arch x64 ; pop rsi ; mov edx, 1 ; ret ; =>fault);
        emit::close_user(d, guarded);
        dynasm!(d ; .arch x64 ; pop rsi ; mov edx, 1 ; =>leave);
        emit::leave_slowly(d, number + MORE as usize, Hole::value(self.slow as i64));
        // SAFETY: it changes rax alone where it returns and where it leaves, as a descriptor routine does. It
        // keeps the routine that it calls.
        let routine: Routine<DescFn> = unsafe { Routine::from(draft.seal()?) };
        Ok(routine.keeping(Arc::new(inner)))
    }
}

#[cfg(all(test, not(loom)))]
#[path = "segments_tests.rs"]
mod tests;
