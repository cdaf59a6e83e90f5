//! Call adapters: a call by the routine of a simpler call, the code in front of it, and the way back from
//! where it leaves.
//!
//! *Interface*: [`CallAdapter::segments`] for `readv` and `writev` of one segment, [`CallAdapter::flagged`]
//! for `recvfrom` and `sendto` without flags: once each. A routine that is to be called so is generated
//! against [`CallAdapter::env`]; [`CallAdapter::routine`] puts the code in front of it. A call with an
//! address goes by another routine, [`SocketName`]. A call that the routine or that code leaves takes the
//! slow exit, as the call that it is, with every register as it was.
//!
//! Source: dissertation, sections 3.2.2 (layers collapse) and 4.2.
//!
//! *Unsafe*: safety contract of routines around routines.

mod flagged;
mod iovec;

use crate::kit::routine_env::{DescFn, RoutineEnv, RoutineError};
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
    front: fn(&mut Draft, &CallAdapter, &Inner),
}

/// The routines that a call goes by, and the number of the call without what is around it.
struct Inner<'a> {
    plain: Option<&'a Routine<DescFn>>,
    named: Option<&'a SocketName>,
    number: usize,
}

/// A call with an address.
pub enum SocketName {
    /// `recvfrom`: this routine also tells the sender. It was generated against [`CallAdapter::named`].
    From(Routine<DescFn>),
    /// `sendto`: to this address, of which the first word tells it from all others of its length in bytes,
    /// by this routine for `write`.
    To {
        /// The first word.
        word: u64,
        /// The length.
        length: u32,
        /// For the bytes, generated against [`CallAdapter::env`].
        routine: Routine<DescFn>,
    },
}

impl SocketName {
    fn routine(&self) -> &Routine<DescFn> {
        match self {
            SocketName::From(routine) | SocketName::To { routine, .. } => routine,
        }
    }
}

/// The parts that the routines of one kind share.
pub struct CallAdapter {
    kind: &'static Kind,
    env: RoutineEnv,
    named: Option<RoutineEnv>,
    slow: usize,
    /// The inner routines' slow exit.
    _way_back: Routine<DescFn>,
}

impl CallAdapter {
    /// Routines that take one segment apart, for inner ones like those that are generated against `env`.
    ///
    /// # Errors
    /// [`OutOfCode`].
    pub fn segments(env: &RoutineEnv) -> Result<CallAdapter, OutOfCode> {
        Self::new(&iovec::KIND, env)
    }

    /// Routines that ask for flags and an address, for inner ones like those that are generated against
    /// `env`, which may wait as those do. One for `recvfrom` with an address waits by the code at `waiting`,
    /// which makes that call again, and not `read`; else it is as [`RoutineEnv::waiting`] has it.
    ///
    /// # Errors
    /// [`OutOfCode`].
    pub fn flagged(env: &RoutineEnv, waiting: usize) -> Result<CallAdapter, OutOfCode> {
        let around = Self::new(&flagged::KIND, env)?;
        let named = around.env.leaving_to(around.env.slow())?.waiting(waiting);
        Ok(CallAdapter {
            env: around.env.waiting_as(env),
            named: Some(named),
            ..around
        })
    }

    fn new(kind: &'static Kind, env: &RoutineEnv) -> Result<CallAdapter, OutOfCode> {
        let mut draft = Draft::new(kind.class, "way back");
        (kind.back)(&mut draft);
        draft.jmp_abs(Hole::value(env.slow() as i64));
        // SAFETY: it is entered from inner routines only, and takes the slow exit.
        let way_back: Routine<DescFn> = unsafe { Routine::from(draft.seal()?) };
        Ok(CallAdapter {
            kind,
            env: env.leaving_to(way_back.entry())?,
            named: None,
            slow: env.slow(),
            _way_back: way_back,
        })
    }

    /// The routine environment that inner routines are generated against.
    pub fn env(&self) -> &RoutineEnv {
        &self.env
    }

    /// The routine environment that a routine for `recvfrom` with an address is generated against, if the
    /// calls have one.
    pub fn named(&self) -> Option<&RoutineEnv> {
        self.named.as_ref()
    }

    /// The routine around `inner`, which was generated against [`CallAdapter::env`] for call `number`:
    /// `read` or `write`.
    ///
    /// # Errors
    /// [`RoutineError`].
    pub fn routine(
        &self,
        inner: Routine<DescFn>,
        number: usize,
    ) -> Result<Routine<DescFn>, RoutineError> {
        self.routine_of(Some(inner), None, number)
    }

    /// The same where a call with an address goes by `named`; one that has no routine takes the slow exit.
    ///
    /// # Errors
    /// [`RoutineError`].
    pub fn routine_of(
        &self,
        plain: Option<Routine<DescFn>>,
        named: Option<SocketName>,
        number: usize,
    ) -> Result<Routine<DescFn>, RoutineError> {
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
