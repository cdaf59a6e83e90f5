//! A vector and the handler that is generated for what interrupts there.
//!
//! *Interface*: [`Interrupt::new`] takes a vector, [`Interrupt::watched`] one whose rate is watched.
//! [`Interrupt::add`] binds a [`Source`] to it: the handler
//! is generated again with the source's code in it, in which the source is constants, and published with one
//! store. [`Interrupt::replace`] puts another source in its place, [`Interrupt::remove`] takes a device's
//! sources out again, [`Interrupt::silence`] all of them; each source lives as long as a handler may run
//! that names it. An interrupt that is dropped gives its vector back. [`on_line`] is the one that the
//! devices of one line share. [`Interrupt::list`] and [`for_each`] are for listings.
//!
//! A handler leaves longer work to [`Source::wake`], ordinary code with interrupts off, and still longer
//! work to [`later`]: a procedure chained to the end of the interrupt.
//!
//! Source: dissertation, sections 3.3.3 and 5.3.2.
//!
//! *Unsafe*: safety contract of the handlers, publishing them.

use crate::handler::{self, Entry, Vector};
use crate::interrupt_storm::{self, Mask, WatchedSource};
use crate::{Unusable, callouts};
use alloc::sync::{Arc, Weak};
use alloc::vec::Vec;
use codegen::{Class, Draft, Label, dynasm};
use machine::{irq, trap};
use quaject::RoutineError;
use quaject::assembly::{Assembly, Made};
use quaject::class::{Holder, Ref, Remake, create};
use quaject::gauge::{self, Gauge};
use sync::Monitor;

static CLASS: Class = Class::new("device.interrupt");

/// Something that interrupts.
pub trait Source: Send + Sync {
    /// Emits what is done at once. It may change rax, rcx and rdx. A link that stands in it has the handler
    /// generated again when it changes.
    fn emit(&self, a: &mut Assembly);

    /// Emits the check for a waiter that may continue: jumps to `wake` then. Everything that `emit` has
    /// stored is out. The same registers.
    fn look(&self, d: &mut Draft, wake: Label);

    /// Wakes them. Interrupts are off.
    fn wake(&self);
}

/// The counted objects that are never freed.
pub struct Lasting<T: 'static>(pub &'static T);

impl<T: Source> Source for Lasting<T> {
    fn emit(&self, a: &mut Assembly) {
        self.0.emit(a);
    }

    fn look(&self, d: &mut Draft, wake: Label) {
        self.0.look(d, wake);
    }

    fn wake(&self) {
        self.0.wake();
    }
}

/// The registers by which a device says whether a shared line is its doing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Asks {
    /// Registers in memory, by their addresses.
    DmaMemory {
        /// Not zero when it is: a byte.
        status: i32,
        /// Takes back what `status` has said, a word. None: reading that has done so.
        acknowledge: Option<i32>,
    },
    /// The word at this address, of which one of the bits `mask` is set when it is. The sources take back
    /// what the device has said.
    Word {
        /// The address.
        status: i32,
        /// The bits.
        mask: i32,
    },
    /// The word at a port, of which one of the bits `mask` is set when it is. The sources take back what the
    /// device has said.
    Port {
        /// The port.
        status: u16,
        /// The bits.
        mask: i32,
    },
}

impl Asks {
    /// Goes to `other` unless the device asks; takes the request back. Changes eax.
    fn emit(self, d: &mut Draft, other: Label) {
        match self {
            Asks::DmaMemory {
                status,
                acknowledge: None,
            } => dynasm!(d ; .arch x64 ; mov al, [status] ; test al, al ; jz =>other),
            Asks::DmaMemory {
                status,
                acknowledge: Some(acknowledge),
            } => dynasm!(d ; .arch x64
                ; mov eax, [status]
                ; test eax, eax
                ; jz =>other
                ; mov [acknowledge], eax
            ),
            Asks::Word { status, mask } => dynasm!(d ; .arch x64
                ; mov eax, [status]
                ; test eax, mask
                ; jz =>other
            ),
            Asks::Port { status, mask } => dynasm!(d ; .arch x64
                ; mov edx, i32::from(status)
                ; in eax, dx
                ; test eax, mask
                ; jz =>other
            ),
        }
    }
}

/// A source, and how a shared line is asked for its device. Those of a device stand together.
struct Member {
    source: Arc<dyn Source>,
    asks: Option<Asks>,
}

#[derive(Default)]
struct Handler {
    members: Vec<Member>,
    image: Option<Made<Entry>>,
}

/// One vector.
pub struct Interrupt {
    name: &'static str,
    vector: u8,
    count: Ref<Gauge>,
    /// Its place among those that are watched.
    watch: Option<WatchedSource>,
    quaject: Ref<Vector>,
    own: Weak<Interrupt>,
    handler: Monitor<Handler>,
}

/// Has `procedure(argument)` called at the end of this interrupt, or, where nothing can be chained, at once.
pub fn later(procedure: fn(usize), argument: usize) {
    let chained = callouts::get().is_some_and(|c| (c.chain)(procedure, argument));
    if !chained {
        procedure(argument);
    }
}

/// Those that are listed.
static ALL: Monitor<Vec<Arc<Interrupt>>> = Monitor::new(Vec::new());

/// Calls `f` with name, vector and count of every interrupt that is listed.
pub fn for_each(mut f: impl FnMut(&'static str, u8, u64)) {
    // Bound: a look at the interrupts that are listed, or a listing of them.
    for interrupt in ALL.lock().iter() {
        f(interrupt.name, interrupt.vector, interrupt.count());
    }
}

/// The interrupts of shared lines, by the number of the line.
static LINES: Monitor<Vec<(u32, Arc<Interrupt>)>> = Monitor::new(Vec::new());

/// The interrupt of `line`, a global interrupt number, for all devices on it.
///
/// # Errors
/// [`Unusable::Resources`].
pub fn on_line(line: u32) -> Result<Arc<Interrupt>, Unusable> {
    // Bound: a look at the lines that devices share; the first time generating one handler.
    let mut lines = LINES.lock();
    if let Some((_, shared)) = lines.iter().find(|(number, _)| *number == line) {
        return Ok(shared.clone());
    }
    let made = Interrupt::watched("line", Mask::Line(line))?;
    made.renew()?;
    lines.try_reserve(1).map_err(|_| Unusable::Resources)?;
    if !irq::route(line, made.vector, 0) {
        return Err(Unusable::Resources);
    }
    made.list();
    lines.push((line, made.clone()));
    Ok(made)
}

impl Interrupt {
    /// Takes a vector. Nothing is bound to it yet. It is not watched.
    ///
    /// # Errors
    /// [`Unusable::Resources`].
    pub fn new(name: &'static str) -> Result<Arc<Interrupt>, Unusable> {
        Interrupt::make(name, None)
    }

    /// The same, and its rate is watched; what `mask` says keeps it from interrupting when it floods.
    ///
    /// # Errors
    /// [`Unusable::Resources`].
    pub fn watched(name: &'static str, mask: Mask) -> Result<Arc<Interrupt>, Unusable> {
        Interrupt::make(name, WatchedSource::open(mask))
    }

    fn make(name: &'static str, watch: Option<WatchedSource>) -> Result<Arc<Interrupt>, Unusable> {
        let count = match watch.as_ref().and_then(WatchedSource::gauge) {
            Some(gauge) => gauge.clone(),
            None => create::<Gauge>(false)?,
        };
        let quaject = create::<Vector>(())?;
        quaject::interfacer::link(&quaject, handler::COUNT, gauge::count(&count))?;
        let vector = irq::alloc_vector().ok_or(Unusable::Resources)?;
        Ok(Arc::new_cyclic(|own| Interrupt {
            name,
            vector,
            count,
            watch,
            quaject,
            own: own.clone(),
            handler: Monitor::default(),
        }))
    }

    /// Lists it, until it is silenced, and begins to watch it. Without memory it works unlisted.
    pub fn list(self: &Arc<Self>) {
        if let Some(watch) = &self.watch {
            watch.begin(self.vector, interrupt_storm::LONGEST_NS);
        }
        let mut all = ALL.lock();
        if all.try_reserve(1).is_ok() {
            all.push(self.clone());
        }
    }

    /// Its vector.
    pub fn vector(&self) -> u8 {
        self.vector
    }

    /// How often it was taken.
    pub fn count(&self) -> u64 {
        self.count.read()
    }

    /// The word and the address of a device's interrupt message.
    pub fn message(&self) -> (u64, u32) {
        irq::message(self.vector, 0)
    }

    /// Binds `source`; `asks` says how a shared line is asked whether it is its doing.
    ///
    /// # Errors
    /// [`Unusable::Resources`]; then it is not bound.
    pub fn add(&self, source: Arc<dyn Source>, asks: Option<Asks>) -> Result<(), Unusable> {
        // Bound: generating one handler, when a source is bound, changes or goes.
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

    /// Puts `new` in the place of `old`, which interrupts no more.
    ///
    /// # Errors
    /// [`Unusable::Resources`]; `old` then stays. [`Unusable::Absent`]: it is not there.
    pub fn replace(&self, old: &Arc<dyn Source>, new: Arc<dyn Source>) -> Result<(), Unusable> {
        let mut handler = self.handler.lock();
        let is_old =
            |member: &Member| core::ptr::addr_eq(Arc::as_ptr(&member.source), Arc::as_ptr(old));
        let place = handler
            .members
            .iter()
            .position(is_old)
            .ok_or(Unusable::Absent)?;
        handler.members[place].source = new;
        let plugged = self.plug(&mut handler);
        if plugged.is_err() {
            handler.members[place].source = old.clone();
        }
        plugged
    }

    /// Takes out the sources that a line is asked for by `asks`.
    pub fn remove(&self, asks: Asks) {
        let mut handler = self.handler.lock();
        handler
            .members
            .retain(|member| member.asks.is_none_or(|other| other != asks));
        // Without room for code the old handler stays, with the sources that it names: it asks a register
        // that says nothing.
        let _stays = self.plug(&mut handler);
    }

    /// Takes out all sources and the handler; the devices that interrupt here are masked. It is listed no
    /// more.
    pub fn silence(&self) {
        if let Some(watch) = &self.watch {
            watch.end();
        }
        irq::quiet(self.vector);
        let old = core::mem::take(&mut *self.handler.lock());
        drop(old);
        ALL.lock().retain(|other| !core::ptr::eq(&**other, self));
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
        let mut sources = Vec::new();
        (sources.try_reserve_exact(handler.members.len())).map_err(|_| Unusable::Resources)?;
        sources.extend(handler.members.iter().map(|member| member.source.clone()));
        let sources = Arc::new(sources);
        let holder = Holder::Other(self.own.clone());
        let mut a = Assembly::new(&CLASS, self.name, Some(holder));
        handler::begin(&mut a, self.quaject.header());
        let d = &mut a;
        // One look for all of a device's sources: it takes the request back.
        for device in handler.members.chunk_by(|a, b| a.asks == b.asks) {
            let other = d.label();
            if let Some(asks) = device.iter().find_map(|member| member.asks) {
                asks.emit(d, other);
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
        // SAFETY: entered by an interrupt gate only; it saves what it changes and leaves with `iretq` or
        // through the machine's interrupt tail. Its callees are kept with it.
        let image = unsafe { a.seal(Some(sources))? };
        // SAFETY: such a handler, kept in `self.handler` until the next one is in place, and then through a
        // grace period.
        unsafe { irq::set_image(self.vector, image.0.entry()) };
        handler.image = Some(image);
        Ok(())
    }
}

impl Remake for Interrupt {
    fn remake(&self) -> Result<(), RoutineError> {
        self.renew().map_err(|_| RoutineError::OutOfCode)
    }
}

impl Drop for Interrupt {
    fn drop(&mut self) {
        if let Some(watch) = &self.watch {
            watch.end();
        }
        irq::free_vector(self.vector);
    }
}

/// Called by the generated handlers when a thread waits.
extern "C" fn wake(sources: &Vec<Arc<dyn Source>>) {
    sources.iter().for_each(|source| source.wake());
}
