//! A vector and the handler that is generated for what interrupts there.
//!
//! *Interface*: [`Interrupt::new`] takes a vector, [`Interrupt::add`] binds a [`Source`] to it: the handler is generated again with the source's code in it, in which the source is constants, and published
//! with one store. An interrupt that is dropped gives its vector back. [`on_line`] is the one that the devices of one line share. [`for_each`] is for listings.
//!
//! What a handler cannot do in a few instructions it leaves to [`Source::wake`], ordinary code with interrupts off; what that should not do either, to [`later`]: a procedure chained to the end of the interrupt.
//!
//! Source: dissertation, sections 3.3.3 and 5.3.2.

use crate::Unusable;
use crate::handler::{self, Entry};
use alloc::boxed::Box;
use alloc::sync::Arc;
use alloc::vec::Vec;
use codegen::{Class, Draft, Label, Routine, dynasm};
use core::sync::atomic::{AtomicPtr, Ordering};
use machine::{irq, trap};
use quaject::class::{Ref, create};
use quaject::gauge::{self, Gauge};
use sync::{Monitor, Once};

static CLASS: Class = Class::new("device.interrupt");

/// Something that interrupts.
pub trait Source: Sync {
    /// Emits what is done at once. It may change rax, rcx and rdx.
    fn emit(&self, d: &mut Draft);

    /// Emits a look at whether somebody waits who may go on: to `wake` then. Everything that `emit` has stored is out. The same registers.
    fn look(&self, d: &mut Draft, wake: Label);

    /// Wakes them. Interrupts are off.
    fn wake(&self);
}

/// A source, and the register that says whether a shared line is its device's doing: reading it takes the request back. Those of a device stand together.
#[derive(Clone, Copy)]
struct Member {
    source: &'static dyn Source,
    asks: Option<i32>,
}

#[derive(Default)]
struct Handler {
    members: Vec<Member>,
    image: Option<Routine<Entry>>,
}

/// One vector.
pub struct Interrupt {
    name: &'static str,
    vector: u8,
    count: Ref<Gauge>,
    handler: Monitor<Handler>,
}

/// What this room asks of those beside it.
pub struct Callouts {
    /// Has a procedure called at the end of the interrupt that is being handled. False: there is no room for one more.
    pub chain: fn(fn(usize), usize) -> bool,
}

static CALLOUTS: Once<&'static Callouts> = Once::new();

/// Links the callouts, once, at boot. Before that nothing is chained.
pub fn link(callouts: &'static Callouts) {
    let _again = CALLOUTS.set(callouts);
}

/// Has `procedure(argument)` called at the end of this interrupt, or, where nothing can be chained, at once.
pub fn later(procedure: fn(usize), argument: usize) {
    let chained = CALLOUTS
        .get()
        .is_some_and(|c| (c.chain)(procedure, argument));
    if !chained {
        procedure(argument);
    }
}

/// As many are listed.
const MOST: usize = 32;
static ALL: [AtomicPtr<Interrupt>; MOST] = [const { AtomicPtr::new(core::ptr::null_mut()) }; MOST];

/// Calls `f` with name, vector and count of every interrupt that was kept.
pub fn for_each(mut f: impl FnMut(&'static str, u8, u64)) {
    for slot in &ALL {
        // SAFETY: only `keep` stores here: what is never freed.
        if let Some(interrupt) = unsafe { slot.load(Ordering::Acquire).as_ref() } {
            f(interrupt.name, interrupt.vector, interrupt.count.read());
        }
    }
}

/// The interrupts of shared lines, by the number of the line.
static LINES: Monitor<Vec<(u8, &'static Interrupt)>> = Monitor::new(Vec::new());

/// The interrupt of `line`, an input of the PC's interrupt controller, for all who are connected to it.
///
/// # Errors
/// [`Unusable::Resources`].
pub fn on_line(line: u8) -> Result<&'static Interrupt, Unusable> {
    let known = |lines: &Vec<(u8, &'static Interrupt)>| {
        let found = lines.iter().find(|(number, _)| *number == line);
        found.map(|(_, shared)| *shared)
    };
    let shared = known(&LINES.lock());
    if let Some(shared) = shared {
        return Ok(shared);
    }
    // Devices are started one after the other, so nobody makes the same one meanwhile.
    let made = Interrupt::new("line")?;
    made.renew()?;
    if !irq::route(irq::isa(line), made.vector, 0) {
        return Err(Unusable::Resources);
    }
    let mut lines = LINES.lock();
    lines.try_reserve(1).map_err(|_| Unusable::Resources)?;
    let shared = made.keep();
    lines.push((line, shared));
    Ok(shared)
}

impl Interrupt {
    /// Takes a vector. Nothing is bound to it yet.
    ///
    /// # Errors
    /// [`Unusable::Resources`].
    pub fn new(name: &'static str) -> Result<Box<Interrupt>, Unusable> {
        let count = create::<Gauge>(false)?;
        let vector = irq::alloc_vector().ok_or(Unusable::Resources)?;
        Ok(Box::new(Interrupt {
            name,
            vector,
            count,
            handler: Monitor::default(),
        }))
    }

    /// Keeps it for ever.
    pub fn keep(self: Box<Self>) -> &'static Interrupt {
        let kept: &'static Interrupt = Box::leak(self);
        let at = core::ptr::from_ref(kept).cast_mut();
        let null = core::ptr::null_mut();
        // One that finds no slot works unlisted.
        let _slot = (ALL.iter()).find(|slot| {
            (slot.compare_exchange(null, at, Ordering::Release, Ordering::Relaxed)).is_ok()
        });
        kept
    }

    /// What a device writes, and where, to interrupt here.
    pub fn message(&self) -> (u64, u32) {
        irq::message(self.vector, 0)
    }

    /// Binds `source`; `asks` is the register that says whether a shared line is its doing.
    ///
    /// # Errors
    /// [`Unusable::Resources`]; then it is not bound.
    pub fn add(&self, source: &'static dyn Source, asks: Option<i32>) -> Result<(), Unusable> {
        let mut handler = self.handler.lock();
        let members = &mut handler.members;
        members.try_reserve(1).map_err(|_| Unusable::Resources)?;
        members.push(Member { source, asks });
        let plugged = self.plug(&mut handler);
        if plugged.is_err() {
            handler.members.pop();
        }
        plugged
    }

    /// A source's code has become another.
    ///
    /// # Errors
    /// [`Unusable::Resources`]; the code then stays as it was.
    pub fn renew(&self) -> Result<(), Unusable> {
        self.plug(&mut self.handler.lock())
    }

    /// Generates the handler and publishes it; the old one is retired.
    fn plug(&self, handler: &mut Handler) -> Result<(), Unusable> {
        let sources: Vec<_> = handler.members.iter().map(|m| m.source).collect();
        let sources = Arc::new(sources);
        let mut draft = Draft::new(&CLASS, self.name);
        let d = &mut draft;
        handler::begin(d, &*gauge::count(&self.count));
        // One look for all of a device's sources: it takes the request back.
        for device in handler.members.chunk_by(|a, b| a.asks == b.asks) {
            let other = d.label();
            if let Some(asks) = device.iter().find_map(|member| member.asks) {
                dynasm!(d ; .arch x64 ; mov al, [asks] ; test al, al ; jz =>other);
            }
            device.iter().for_each(|member| member.source.emit(d));
            dynasm!(d ; .arch x64 ; =>other);
        }
        handler::acknowledge(d, irq::eoi_address());
        let waking = d.label();
        for member in &handler.members {
            member.source.look(d, waking);
        }
        handler::end(d);
        dynasm!(d ; .arch x64 ; =>waking);
        let argument = Arc::as_ptr(&sources).expose_provenance();
        handler::wake(d, wake as *const () as usize, argument, trap::irq_tail());
        // SAFETY: entered by an interrupt gate only; it saves what it changes and leaves with `iretq` or through the machine's interrupt tail. What it calls is kept with it.
        let image = unsafe { Routine::from(draft.seal()?) }.keeping(sources);
        // SAFETY: such a handler, kept in `self.handler` until the next one is in place, and then through a grace period.
        unsafe { irq::set_image(self.vector, image.entry()) };
        handler.image = Some(image);
        Ok(())
    }
}

impl Drop for Interrupt {
    fn drop(&mut self) {
        irq::free_vector(self.vector);
    }
}

/// Called by the generated handlers when somebody waits.
extern "C" fn wake(sources: &Vec<&'static dyn Source>) {
    sources.iter().for_each(|source| source.wake());
}
