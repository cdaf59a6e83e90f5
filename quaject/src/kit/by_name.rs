//! Linking by name: the interfacer's interface for programs and for `/syn`.
//!
//! *Interface*: a [`Quaject`] is a handle to one of whatever class. [`link_by_name`] and [`unlink_by_name`]
//! are [`link`](crate::interfacer::link) and [`unlink`](crate::interfacer::unlink) for parties that have
//! names only: they compare the signatures' numbers. [`insert`] puts a quaject between a port and its
//! target, [`remove`] takes it out again; [`along`] shows the chain behind a port. A quaject can be inserted
//! if it has a callentry and a callout of the port's signature: of several, the first ones.
//!
//! Source: dissertation, section 4.1.3; Ritchie's streams, as section 4.1.4 compares them.

use crate::kit::assembly::{Assembly, Continuation, Mover};
use crate::kit::class::{Body, Element, Header, Held, Kind, Ref};
use crate::kit::interfacer::{Callentry, LONGEST, Target, alone, replace_link};
use crate::kit::regs::Regs;
use crate::kit::routine_env::RoutineError;
use abi::errno::Errno;
use alloc::sync::Arc;
use codegen::Draft;
use core::any::Any;

/// A handle to a quaject.
pub trait Quaject: Send + Sync {
    /// The record of it.
    fn header(&self) -> &'static Header;
    /// Callentry number `number`, where others' callouts can be linked to it.
    fn target(&self, number: usize) -> Option<Target>;
}

impl<B: Body> Quaject for Ref<B> {
    fn header(&self) -> &'static Header {
        Ref::header(self)
    }
    fn target(&self, number: usize) -> Option<Target> {
        B::callentry(self, number)
    }
}

/// One that others' ports are not linked to by name.
impl Quaject for Held {
    fn header(&self) -> &'static Header {
        Held::header(self)
    }
    fn target(&self, _: usize) -> Option<Target> {
        None
    }
}

/// A callentry that keeps something more, wherever it stands: what its maker has paid for the quaject.
pub(crate) struct Kept {
    pub target: Target,
    pub _paid: Arc<dyn Any + Send + Sync>,
}

impl Callentry for Kept {
    fn name(&self) -> &'static &'static str {
        self.target.name()
    }
    fn owner(&self) -> Option<&'static Header> {
        self.target.owner()
    }
    fn through(&self) -> u16 {
        self.target.through()
    }
    fn changes(&self) -> Regs {
        self.target.changes()
    }
    fn changes_when_called(&self) -> Regs {
        self.target.changes_when_called()
    }
    fn emit(&self, a: &mut Assembly, way: Continuation) -> bool {
        self.target.emit(a, way)
    }
    fn emit_around(&self, a: &mut Assembly, way: Continuation, mover: &dyn Mover) -> bool {
        self.target.emit_around(a, way, mover)
    }
    fn entry(&self) -> usize {
        self.target.entry()
    }
    fn call(&self, d: &mut Draft) {
        self.target.call(d);
    }
    fn this(&self) -> Option<usize> {
        self.target.this()
    }
    fn is_compiled(&self) -> bool {
        self.target.is_compiled()
    }
    fn may_wait(&self) -> bool {
        self.target.may_wait()
    }
}

/// Why a link that was asked for by name is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refused {
    /// The class has no callout or callback of this name.
    NoSuchPort,
    /// The class has no callentry of this name that can be linked to.
    NoSuchCallentry,
    /// The two are of different signatures.
    WrongSignature,
    /// The quaject that is to be inserted leads elsewhere already.
    Busy,
    /// The quaject that is to be removed is not there.
    NotThere,
    /// The reason that stands in the way of any link.
    RoutineError(RoutineError),
}

impl From<Refused> for Errno {
    fn from(refused: Refused) -> Errno {
        match refused {
            Refused::NoSuchPort | Refused::NoSuchCallentry | Refused::NotThere => Errno::ENOENT,
            Refused::WrongSignature => Errno::EPROTOTYPE,
            Refused::Busy => Errno::EBUSY,
            Refused::RoutineError(RoutineError::Cycle) => Errno::ELOOP,
            Refused::RoutineError(RoutineError::TooLong) => Errno::EMLINK,
            Refused::RoutineError(RoutineError::Waits) => Errno::EDEADLK,
            Refused::RoutineError(RoutineError::BadSpec | RoutineError::OutOfReach) => {
                Errno::EINVAL
            }
            Refused::RoutineError(RoutineError::OutOfCode | RoutineError::OutOfMemory) => {
                Errno::ENOMEM
            }
        }
    }
}

/// Links the callout or callback `port` of `from` to the callentry `callentry` of `to`.
///
/// # Errors
/// [`Refused`]; everything then stays as it was.
pub fn link_by_name(
    from: &dyn Quaject,
    port: &str,
    to: &dyn Quaject,
    callentry: &str,
) -> Result<(), Refused> {
    let (number, shape) = port_named(from.header(), port)?;
    let entry = |element: &Element| element.kind == Kind::Callentry && element.name == callentry;
    let (at, entry) = find(to.header(), entry).ok_or(Refused::NoSuchCallentry)?;
    let target = to.target(at).ok_or(Refused::NoSuchCallentry)?;
    if entry.shape.number != shape {
        return Err(Refused::WrongSignature);
    }
    change(from.header(), number, Some(target))
}

/// Gives the callout or callback `port` of `from` its default action back.
///
/// # Errors
/// [`Refused`]; everything then stays as it was.
pub fn unlink_by_name(from: &dyn Quaject, port: &str) -> Result<(), Refused> {
    let (number, _) = port_named(from.header(), port)?;
    change(from.header(), number, None)
}

fn change(from: &'static Header, port: usize, to: Option<Target>) -> Result<(), Refused> {
    let (made, _gone) = alone(|| replace_link(from, port, to));
    made.map_err(Refused::RoutineError)
}

/// Puts `filter` between `port` of `from` and what that is linked to: what passes the port passes the filter
/// first.
///
/// # Errors
/// [`Refused`]; everything then stays as it was.
pub fn insert(from: &dyn Quaject, port: &str, filter: &dyn Quaject) -> Result<(), Refused> {
    let (begin, own) = (from.header(), filter.header());
    let (number, shape) = port_named(begin, port)?;
    let (entry, _) = find(own, |e| {
        e.kind == Kind::Callentry && e.shape.number == shape
    })
    .ok_or(Refused::WrongSignature)?;
    let out = port_of(own, shape).ok_or(Refused::WrongSignature)?;
    let target = filter.target(entry).ok_or(Refused::NoSuchCallentry)?;
    let steps = || {
        if own.wiring().get(out).is_some() {
            return (Err(Refused::Busy), [None, None]);
        }
        // Nothing passes the filter yet: first it leads on.
        let (led, first) = replace_link(own, out, begin.wiring().get(number));
        if let Err(unmade) = led {
            return (Err(Refused::RoutineError(unmade)), [first, None]);
        }
        let (made, second) = replace_link(begin, number, Some(target));
        match made {
            Ok(()) => (Ok(()), [first, second]),
            Err(unmade) => {
                let (_back, led) = replace_link(own, out, None);
                (Err(Refused::RoutineError(unmade)), [second, led])
            }
        }
    };
    let (result, _gone) = alone(steps);
    result
}

/// Takes the quaject number `which` out of the chain behind `port` of `from`: its place leads where it led,
/// and it leads nowhere.
///
/// # Errors
/// [`Refused`]; everything then stays as it was.
pub fn remove(from: &dyn Quaject, port: &str, which: u32) -> Result<(), Refused> {
    let (mut number, shape) = port_named(from.header(), port)?;
    let mut at = from.header();
    let steps = || {
        for _ in 0..=LONGEST {
            let Some(owner) = at.wiring().get(number).and_then(|to| to.owner()) else {
                break;
            };
            let Some(out) = port_of(owner, shape) else {
                break;
            };
            if owner.number() != which {
                (at, number) = (owner, out);
                continue;
            }
            let (made, first) = replace_link(at, number, owner.wiring().get(out));
            if let Err(unmade) = made {
                return (Err(Refused::RoutineError(unmade)), [first, None]);
            }
            let (made, second) = replace_link(owner, out, None);
            return (made.map_err(Refused::RoutineError), [first, second]);
        }
        (Err(Refused::NotThere), [None, None])
    };
    let (result, _gone) = alone(steps);
    result
}

/// Calls `f` with each quaject of the chain behind port number `port` of `from`, as far as it goes on by the
/// same signature.
pub fn along(from: &'static Header, port: usize, mut f: impl FnMut(&'static Header)) {
    let Some(element) = from.class().ports.get(port) else {
        return;
    };
    let (mut at, mut port) = (from, port);
    // A chain that is changed meanwhile may be seen longer than it is.
    for _ in 0..=LONGEST {
        let Some(owner) = at.wiring().get(port).and_then(|to| to.owner()) else {
            return;
        };
        f(owner);
        let Some(out) = port_of(owner, element.shape.number) else {
            return;
        };
        (at, port) = (owner, out);
    }
}

fn find(
    header: &'static Header,
    is: impl Fn(&Element) -> bool,
) -> Option<(usize, &'static Element)> {
    let mut elements = header.class().ports.iter().enumerate();
    elements.find(|(_, element)| is(element))
}

/// Number of a callout or callback by name, and of its signature.
fn port_named(from: &'static Header, port: &str) -> Result<(usize, u16), Refused> {
    let (number, element) =
        find(from, |e| e.kind != Kind::Callentry && e.name == port).ok_or(Refused::NoSuchPort)?;
    Ok((number, element.shape.number))
}

/// Number of the first callout of signature `shape`.
fn port_of(header: &'static Header, shape: u16) -> Option<usize> {
    let out = |e: &Element| e.kind == Kind::Callout && e.shape.number == shape;
    find(header, out).map(|(number, _)| number)
}
