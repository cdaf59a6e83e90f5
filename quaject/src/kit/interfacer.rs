//! The interfacer: connects a callback or callout of one quaject with a callentry of another.
//!
//! *Interface*: a [`Callentry`] is what can be linked to, an [`Entry`] one whose signature is known to the
//! compiler; [`Function`] makes one of a Rust function. [`link`] and [`unlink`] connect a [`Port`]: what does
//! not fit does not compile; for those who have names only there is [`by_name`](crate::by_name). After a
//! change, every routine in whose code the port's link stands is made anew and published (`kit/assembly.rs`),
//! its quaject's own first; the old ones stay until nobody is inside.
//!
//! Links lead from quaject to quaject and never back: a link that would close a cycle is refused, and so is
//! one that makes a chain of more than [`LONGEST`].
//!
//! Source: dissertation, sections 3.2.2 and 4.1.3.
//!
//! *Unsafe*: safety contract of a callentry's signature; calling linked callentries from Rust.

use crate::kit::assembly::{Assembly, Continuation, Mover, next_making};
use crate::kit::class::{Body, Header, Holder, Port, Ref};
use crate::kit::regs::Regs;
use crate::kit::routine_env::RoutineError;
use crate::kit::signature::{Event, Put, Read, Retry, Signature, Write};
use alloc::sync::Arc;
use codegen::Draft;
use core::marker::PhantomData;
use core::sync::atomic::{AtomicU64, Ordering};
use sync::Monitor;

/// The most links that may follow each other.
pub const LONGEST: u8 = 16;

/// Something that a callback or callout can be linked to.
pub trait Callentry: Send + Sync {
    /// Its name, as shown beside the port that is linked to it.
    fn name(&self) -> &'static &'static str;

    /// The quaject that it belongs to; None for a function of the kernel.
    fn owner(&self) -> Option<&'static Header> {
        None
    }

    /// The ports of its quaject through which its code goes on, a bit each.
    fn through(&self) -> u16 {
        0
    }

    /// The registers that its code changes where it stands in line; its cold part saves what is live.
    fn changes(&self) -> Regs;

    /// The registers that it changes when it is called.
    fn changes_when_called(&self) -> Regs {
        Regs::SYSV
    }

    /// Emits the body for a caller's place: arguments in the registers of the signature, falling through at
    /// the end or going to `way.no`. False when there is no body that may stand in another's code.
    fn emit(&self, _a: &mut Assembly, _way: Continuation) -> bool {
        false
    }

    /// As [`emit`](Self::emit) for many bytes at once, which `mover` moves. False when the callentry has no
    /// places for them, or not for this mover.
    fn emit_around(&self, _a: &mut Assembly, _way: Continuation, _mover: &dyn Mover) -> bool {
        false
    }

    /// Entry of the shared code, which ends in `ret`.
    fn entry(&self) -> usize;

    /// Emits a call of code that is not compiled.
    fn call(&self, d: &mut Draft) {
        d.call_abs(self.entry());
    }

    /// The value of rdi before a call: the object that the callentry is about.
    fn this(&self) -> Option<usize> {
        None
    }

    /// Whether the code wants the stack aligned, as compiled code does.
    fn is_compiled(&self) -> bool {
        false
    }

    /// Whether a caller may have to wait, so that no interrupt handler may call it.
    fn may_wait(&self) -> bool {
        false
    }
}

/// The other end of a port's link.
pub type Target = Arc<dyn Callentry>;

/// A callentry of signature `S`.
pub struct Entry<S> {
    target: Target,
    signature: PhantomData<fn() -> S>,
}

impl<S: Signature> Entry<S> {
    /// Promises that `target` has the signature.
    ///
    /// # Safety
    /// Its code takes, gives and changes what `S` and [`Callentry`] say, wherever it is placed or called, and
    /// names nothing that may go before it does.
    pub unsafe fn new(target: Target) -> Entry<S> {
        Entry {
            target,
            signature: PhantomData,
        }
    }

    /// Its name.
    pub fn name(&self) -> &'static str {
        self.target.name()
    }
}

impl<S> Clone for Entry<S> {
    fn clone(&self) -> Self {
        Entry {
            target: self.target.clone(),
            signature: PhantomData,
        }
    }
}

/// A Rust function as a callentry. It gets `this`, then the signature's arguments.
pub struct Function {
    name: &'static &'static str,
    owner: Option<&'static Header>,
    entry: usize,
    this: usize,
}

/// A function that something has happened to.
pub type EventFn = extern "sysv64" fn(this: usize);
/// A function that a string of bytes is handed to.
pub type BytesFn = extern "sysv64" fn(this: usize, bytes: *mut u8, count: usize) -> usize;

impl Function {
    /// `entry` called with `this`.
    pub fn event(name: &'static &'static str, entry: EventFn, this: usize) -> Entry<Event> {
        Self::make(name, entry as usize, this, None)
    }

    /// `entry` called with `this`; whether the attempt that has failed is to be made again.
    pub fn retry(
        name: &'static &'static str,
        entry: extern "sysv64" fn(this: usize) -> bool,
        this: usize,
    ) -> Entry<Retry> {
        Self::make(name, entry as usize, this, None)
    }

    /// `entry` called with `this` and memory to fill; how many bytes it has.
    pub fn read(name: &'static &'static str, entry: BytesFn, this: usize) -> Entry<Read> {
        Self::make(name, entry as usize, this, None)
    }

    /// `entry` called with `this` and bytes to take; how many it has.
    pub fn write(name: &'static &'static str, entry: BytesFn, this: usize) -> Entry<Write> {
        Self::make(name, entry as usize, this, None)
    }

    /// `entry` called with `this` and a byte, for quaject `owner`; 0 when it has not taken it.
    pub fn put(
        name: &'static &'static str,
        entry: extern "sysv64" fn(this: usize, byte: usize) -> usize,
        this: usize,
        owner: Option<&'static Header>,
    ) -> Entry<Put> {
        Self::make(name, entry as usize, this, owner)
    }

    fn make<S: Signature>(
        name: &'static &'static str,
        entry: usize,
        this: usize,
        owner: Option<&'static Header>,
    ) -> Entry<S> {
        let function = Function {
            name,
            owner,
            entry,
            this,
        };
        // SAFETY: the constructors take functions of the signature that they promise.
        unsafe { Entry::new(Arc::new(function)) }
    }
}

impl Callentry for Function {
    fn name(&self) -> &'static &'static str {
        self.name
    }
    fn owner(&self) -> Option<&'static Header> {
        self.owner
    }
    fn changes(&self) -> Regs {
        Regs::SYSV
    }
    fn entry(&self) -> usize {
        self.entry
    }
    fn this(&self) -> Option<usize> {
        Some(self.this)
    }
    fn is_compiled(&self) -> bool {
        true
    }
}

/// Calls from Rust what `port`, whose signature is [`Read`] or [`Write`], is linked to. None when it is not.
///
/// # Safety
/// As the signature says of the memory.
pub(crate) unsafe fn call_with_bytes(
    from: &Header,
    port: usize,
    bytes: *mut u8,
    count: usize,
) -> Option<usize> {
    let target = from.wiring().get(port)?;
    // SAFETY: a callentry of this signature is a function of `this` and the bytes, or code that takes these
    // in the same registers and keeps what the System V convention does; it is held here.
    let function: BytesFn = unsafe { core::mem::transmute(target.entry()) };
    Some(function(target.this().unwrap_or(0), bytes, count))
}

/// Hands `bytes` to what `port` is linked to, from Rust; how many it has taken. None when it is not linked.
pub fn hand_over<B: Body>(from: &Ref<B>, port: Port<B, Write>, bytes: &mut [u8]) -> Option<usize> {
    // SAFETY: the bytes are the caller's alone until the return.
    unsafe {
        call_with_bytes(
            from.header(),
            port.number(),
            bytes.as_mut_ptr(),
            bytes.len(),
        )
    }
}

/// Calls from Rust what `port`, whose signature is [`Event`], is linked to, if it is.
pub(crate) fn call_event(from: &Header, port: usize) {
    let Some(target) = from.wiring().get(port) else {
        return;
    };
    // SAFETY: as above, without bytes.
    let function: EventFn = unsafe { core::mem::transmute(target.entry()) };
    function(target.this().unwrap_or(0));
}

/// Links are changed one at a time.
static ALONE: Monitor<Alone> = Monitor::new(Alone);

struct Alone;

/// Links `port` of `from` to `to`; returns whether the layers collapsed in the code of `from` itself. A port
/// that was linked is linked anew. Thread context; the caller holds no monitor that a holder of code takes
/// to make it.
///
/// # Errors
/// [`RoutineError`]; everything then stays as it was.
pub fn link<B: Body, S: Signature>(
    from: &Ref<B>,
    port: Port<B, S>,
    to: Entry<S>,
) -> Result<bool, RoutineError> {
    relink(from.header(), port.number(), Some(to.target))?;
    let own = from.header().site(port.number(), 0);
    Ok(own.is_some_and(|placed| placed.in_line))
}

/// Gives a port its default action back.
///
/// # Errors
/// [`RoutineError`]; everything then stays as it was.
pub fn unlink<B: Body, S: Signature>(from: &Ref<B>, port: Port<B, S>) -> Result<(), RoutineError> {
    relink(from.header(), port.number(), None)
}

/// The change itself, in the code of all whom it concerns.
fn relink(from: &'static Header, port: usize, to: Option<Target>) -> Result<(), RoutineError> {
    // Bound: generating every routine in which one link stands, or two; only threads that link.
    let alone = ALONE.lock();
    let (made, gone) = replace_link(from, port, to);
    drop(alone);
    // The quaject that was linked may take monitors of its own when it goes.
    drop(gone);
    made
}

/// Does `changes`, in which links are looked at and replaced ([`replace_link`]), while nobody else changes
/// any.
pub(super) fn alone<R>(changes: impl FnOnce() -> R) -> R {
    let _alone = ALONE.lock();
    changes()
}

/// How often links have changed, and one more.
static CHANGES: AtomicU64 = AtomicU64::new(1);

/// A number that is another after each change of any link: for those who remember how links are.
pub fn changes() -> u64 {
    CHANGES.load(Ordering::Acquire)
}

/// As [`relink`], by the party that is [`alone`]; the second is what is no more linked, for it to drop
/// afterwards.
pub(super) fn replace_link(
    from: &'static Header,
    port: usize,
    to: Option<Target>,
) -> (Result<(), RoutineError>, Option<Target>) {
    let owner = |target: &Option<Target>| target.as_ref().and_then(|target| target.owner());
    let led = owner(&to);
    if let Some(led) = led {
        led.is_led();
    }
    if let Some(target) = &to
        && let Err(unmade) = descend(
            (from, port),
            target,
            from.above().saturating_add(1),
            from.is_hurried(),
        )
    {
        if let Some(led) = led {
            led.is_left();
        }
        return (Err(unmade), to);
    }
    let old = from.wiring().replace_link(port, to);
    CHANGES.fetch_add(1, Ordering::AcqRel);
    let made = remake(from, port);
    if made.is_ok() {
        if let Some(left) = owner(&old) {
            left.is_left();
        }
        return (made, old);
    }
    let new = from.wiring().replace_link(port, old);
    CHANGES.fetch_add(1, Ordering::AcqRel);
    if let Some(led) = led {
        led.is_left();
    }
    // A routine that could be made then can be made now, or stays as it is.
    let _again = remake(from, port);
    (made, new)
}

/// Has every routine made anew in which the link of `port` stands.
fn remake(from: &'static Header, port: usize) -> Result<(), RoutineError> {
    let limit = next_making();
    from.remake(port)?;
    let mut last = 0;
    while let Some((holder, via, making)) = from.wiring().dependent(port, last, limit) {
        last = making;
        match holder {
            Holder::Member(own) if core::ptr::eq(own, from) && usize::from(via) == port => {}
            Holder::Member(own) => own.remake(usize::from(via))?,
            Holder::Lasting(holder) => holder.remake()?,
            Holder::Other(holder) => {
                if let Some(holder) = holder.upgrade() {
                    holder.remake()?;
                }
            }
        }
    }
    Ok(())
}

/// Goes along the chains behind `entry`, the last of `above` links: none may lead back to the port `begin`,
/// nor further than is allowed, nor, if an interrupt handler may come along (`hurried`), to where it would
/// wait.
fn descend(
    begin: (&Header, usize),
    entry: &Target,
    above: u8,
    hurried: bool,
) -> Result<(), RoutineError> {
    if above > LONGEST {
        return Err(RoutineError::TooLong);
    }
    if hurried && entry.may_wait() {
        return Err(RoutineError::Waits);
    }
    let Some(owner) = entry.owner() else {
        return Ok(());
    };
    let through = entry.through();
    for port in (0..crate::kit::class::PORTS).filter(|port| through & 1 << port != 0) {
        if core::ptr::eq(owner, begin.0) && port == begin.1 {
            return Err(RoutineError::Cycle);
        }
        if let Some(next) = owner.wiring().get(port) {
            descend(begin, &next, above + 1, hurried)?;
        }
    }
    owner.is_below(above, hurried);
    Ok(())
}
