//! A call by the routine of a simpler call: the code in front of it, and the way back from where it leaves.
//!
//! *Interface*: [`Around::segments`] for `readv` and `writev` of one segment, [`Around::flagged`] for
//! `recvfrom` and `sendto` without flags: once each. A routine that is to be called so is generated against
//! [`Around::seam`]; [`Around::routine`] puts the code in front of it. A call with an address goes by another
//! routine, [`Named`]. A call that the routine or that code leaves takes the slow exit, as the call that it
//! is, with every register as it was.
//!
//! Source: dissertation, sections 3.2.2 (layers collapse) and 4.2.
//!
//! *Unsafe*: promise of routines around routines.

mod flagged;
mod segments;

use crate::kit::seam::{DescFn, Seam, Unmade};
use abi::nr;
use alloc::sync::Arc;
use codegen::{Class, Draft, Hole, OutOfCode, Routine};

/// One kind of call around another.
struct Kind {
    class: &'static Class,
    /// The calls around `read` and around `write`.
    calls: [&'static str; 2],
    /// Emits the way back, entered where the inner routine leaves, with its call number in eax: undoes what
    /// `front` has done, and eax is the number of the call around it.
    back: fn(&mut Draft),
    /// Emits the code in front of the inner routines.
    front: fn(&mut Draft, &Around, &Inner),
}

/// The routines that a call goes by, and the number of the call without what is around it.
struct Inner<'a> {
    plain: Option<&'a Routine<DescFn>>,
    named: Option<&'a Named>,
    number: usize,
}

/// A call with an address.
pub enum Named {
    /// `recvfrom`: this routine also tells the sender. It was generated against [`Around::named`].
    From(Routine<DescFn>),
    /// `sendto`: to this address, of which the first word tells it from all others of its length in bytes,
    /// by this routine for `write`.
    To {
        /// The first word.
        word: u64,
        /// The length.
        length: u32,
        /// For the bytes, generated against [`Around::seam`].
        routine: Routine<DescFn>,
    },
}

impl Named {
    fn routine(&self) -> &Routine<DescFn> {
        match self {
            Named::From(routine) | Named::To { routine, .. } => routine,
        }
    }
}

/// The parts that the routines of one kind share.
pub struct Around {
    kind: &'static Kind,
    seam: Seam,
    named: Option<Seam>,
    slow: usize,
    /// The inner routines' slow exit.
    _way_back: Routine<DescFn>,
}

impl Around {
    /// Routines that take one segment apart, for inner ones like those that are generated against `seam`.
    ///
    /// # Errors
    /// [`OutOfCode`].
    pub fn segments(seam: &Seam) -> Result<Around, OutOfCode> {
        Self::new(&segments::KIND, seam)
    }

    /// Routines that ask for flags and an address, for inner ones like those that are generated against
    /// `seam`, which may wait as those do. One for `recvfrom` with an address waits by the code at `waiting`,
    /// which makes that call again, and not `read`; else it is as [`Seam::waiting`] has it.
    ///
    /// # Errors
    /// [`OutOfCode`].
    pub fn flagged(seam: &Seam, waiting: usize) -> Result<Around, OutOfCode> {
        let around = Self::new(&flagged::KIND, seam)?;
        let named = around.seam.leaving_to(around.seam.slow())?.waiting(waiting);
        Ok(Around {
            seam: around.seam.waiting_as(seam),
            named: Some(named),
            ..around
        })
    }

    fn new(kind: &'static Kind, seam: &Seam) -> Result<Around, OutOfCode> {
        let mut draft = Draft::new(kind.class, "way back");
        (kind.back)(&mut draft);
        draft.jmp_abs(Hole::value(seam.slow() as i64));
        // SAFETY: it is entered from inner routines only, and takes the slow exit.
        let way_back: Routine<DescFn> = unsafe { Routine::from(draft.seal()?) };
        Ok(Around {
            kind,
            seam: seam.leaving_to(way_back.entry())?,
            named: None,
            slow: seam.slow(),
            _way_back: way_back,
        })
    }

    /// The seam that inner routines are generated against.
    pub fn seam(&self) -> &Seam {
        &self.seam
    }

    /// The seam that a routine for `recvfrom` with an address is generated against, if the calls have one.
    pub fn named(&self) -> Option<&Seam> {
        self.named.as_ref()
    }

    /// The routine around `inner`, which was generated against [`Around::seam`] for call `number`: `read` or
    /// `write`.
    ///
    /// # Errors
    /// [`Unmade`].
    pub fn routine(
        &self,
        inner: Routine<DescFn>,
        number: usize,
    ) -> Result<Routine<DescFn>, Unmade> {
        self.routine_of(Some(inner), None, number)
    }

    /// The same where a call with an address goes by `named`; one that has no routine takes the slow exit.
    ///
    /// # Errors
    /// [`Unmade`].
    pub fn routine_of(
        &self,
        plain: Option<Routine<DescFn>>,
        named: Option<Named>,
        number: usize,
    ) -> Result<Routine<DescFn>, Unmade> {
        let name = self.kind.calls[usize::from(number != nr::READ)];
        let mut draft = Draft::new(self.kind.class, name);
        let inner = Inner {
            plain: plain.as_ref(),
            named: named.as_ref(),
            number,
        };
        (self.kind.front)(&mut draft, self, &inner);
        // SAFETY: both kinds of code change rax alone where they return and where they leave, as a descriptor
        // routine does. The routines that they call are kept.
        let routine: Routine<DescFn> = unsafe { Routine::from(draft.seal()?) };
        Ok(routine.keeping(Arc::new((
            plain,
            named.map(|named| named.routine().clone()),
        ))))
    }
}
