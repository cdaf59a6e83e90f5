//! An assembly: the code of one routine, put together of the callentries that its callouts are linked to.
//!
//! *Interface*: an [`Assembly`] is a [`Draft`] that knows whose code it becomes. An emitter gets the link of
//! a callout with [`Assembly::use_link`], which records that the code depends on it, and has the code of the
//! linked callentry put in place with [`Assembly::place`]: the callentry's own emitter, or a call of it where
//! it has none or is too large. The emitter may have callouts of its own, so the layers collapse as deep as
//! the links lead. Code that is seldom executed goes into [`Assembly::cold`], behind the hot part of the
//! whole. [`Assembly::seal`] gives the routine, which keeps everything that stands in it, and the
//! [`Registration`], by which the interfacer finds its holder when a link changes that stands in it; the
//! holder drops it when it has published another routine.
//!
//! Around a callentry the registers are saved that live across the place and that the callentry changes, and
//! no others. There is a bound on how deep callentries are placed in each other, and how long they are. Where
//! all links are to be called ([`inlining`]), none is placed in line. The code that is placed around a mover
//! (the caller's code that moves the bytes) is then a subroutine in the cold section: a mover has no entry.
//!
//! Source: dissertation, sections 3.2.2 ("by induction") and 4.1.3.
//!
//! *Unsafe*: safety contract of an assembled routine, passed on.

use crate::kit::class::{Header, Holder};
use crate::kit::inlining;
use crate::kit::interfacer::{Callentry, Target};
use crate::kit::plug::Plug;
use crate::kit::regs::Regs;
use crate::kit::routine_env::RoutineError;
use crate::kit::signature::{Outcome, Shape};
use crate::kit::wiring::{Placed, Site};
use alloc::sync::Arc;
use alloc::vec::Vec;
use codegen::idioms::{Reg, constant};
use codegen::{Class, Draft, Label, Routine, dynasm};
use core::any::Any;
use core::ops::{Deref, DerefMut};
use core::sync::atomic::{AtomicU64, Ordering};
use sync::Monitor;

/// Hot bytes that one link may add to the code around it, with all that stands in it.
pub const IN_LINE: usize = 192;
/// Callentries that may stand in each other.
pub const DEPTH: u8 = 8;
/// Links that stand in most routines which have any.
const USUAL: usize = 8;
/// Bytes of a section behind which nothing more is put in line.
const LONGEST: usize = 2048;

static MAKINGS: AtomicU64 = AtomicU64::new(1);

/// The number that the next making gets.
pub(crate) fn next_making() -> u64 {
    MAKINGS.load(Ordering::SeqCst)
}

/// How a callentry's code goes on.
#[derive(Clone, Copy, Debug)]
pub struct Continuation {
    /// Where it goes when it could not do what it was called for; else it falls through.
    pub no: Label,
    /// The registers that it has to leave alone besides those that it says it changes: its cold part saves
    /// these.
    pub live: Regs,
}

/// Where a ring of bytes lies, for generated code: sign-extended 32-bit addresses. Positions count bytes for
/// ever and are taken modulo the size.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ring {
    /// Bytes ever put, 64 bits.
    pub head: i32,
    /// Bytes ever got, 64 bits.
    pub tail: i32,
    /// The first place.
    pub bytes: i32,
    /// Places, a power of two.
    pub size: i32,
}

/// A caller's part of a callentry that moves many bytes at once: it moves them itself, straight to or from
/// the places that the callentry has found, and says what it needs. Its fault code may go to `undo`.
pub trait Mover {
    /// None: a string of rdx bytes at the user's address rsi. Else a stretch of at most so many bytes that
    /// lie side by side.
    fn stretch(&self) -> Option<i32>;

    /// A string to be put: compares the room, in rax, with what is needed. May change rcx.
    fn compare_room(&self, d: &mut Draft) {
        dynasm!(d ; .arch x64 ; cmp rax, rdx);
    }

    /// The most bytes that become of one byte of a string to be put.
    fn growth(&self) -> i32 {
        1
    }

    /// Moves a string of rdx bytes, or what becomes of them, to where rdi points; rdi then points behind
    /// them. May change rax, rcx, rdx and rsi, and go to `undo`. For a ring whose places are claimed when
    /// their number is known.
    fn emit_beside(&self, _a: &mut Assembly, _undo: Label) {}

    /// Moves the bytes.
    ///
    /// A string goes into a ring at the places from position edi on, and rdi then says how many were filled;
    /// out of one it goes from position rdi on to rsi, and rdx is kept. It may change rax, rcx, rsi and
    /// rdi. Of a stretch the first is place rcx; out of a ring eax says how many there are, and is kept. Else
    /// it may change rax, rcx and rdx.
    fn emit(&self, a: &mut Assembly, ring: &Ring, undo: Label);
}

/// A callout, and what it is linked to.
struct Linked {
    from: &'static Header,
    port: u8,
    /// Whether it was put in place, and how.
    placed: Option<Stood>,
    target: Option<Target>,
}

/// Where a link stands in a draft: the places at which its parts in both sections begin, and their bytes.
#[derive(Clone, Copy)]
struct Stood {
    here: (u32, u32),
    there: (u32, u32),
    in_line: bool,
}

impl Linked {
    fn shape(&self) -> &'static Shape {
        self.from.class().ports[usize::from(self.port)].shape
    }
}

/// A link in the code that is being made: from [`Assembly::use_link`] to [`Assembly::place`].
#[derive(Clone, Copy, Debug)]
pub struct Link(usize);

/// The code of a routine that is being made.
pub struct Assembly {
    draft: Draft,
    holder: Option<Holder>,
    depth: u8,
    via: u8,
    noted: Noted,
    whole: bool,
}

/// The links in code that is being made. They are forgotten if it is not sealed.
struct Noted {
    making: u64,
    links: Vec<Linked>,
}

impl Drop for Noted {
    fn drop(&mut self) {
        remove_uses(self.making, &self.links);
    }
}

fn remove_uses(making: u64, links: &[Linked]) {
    links
        .iter()
        .for_each(|link| link.from.wiring().remove_uses(making));
}

impl Deref for Assembly {
    type Target = Draft;
    fn deref(&self) -> &Draft {
        &self.draft
    }
}

impl DerefMut for Assembly {
    fn deref_mut(&mut self) -> &mut Draft {
        &mut self.draft
    }
}

impl Assembly {
    /// Code of a routine of `class` that `holder` will publish and make again when a link in it changes.
    /// None: its links never change while it is used.
    // A draft is large: the callers' frames hold one, and not another on its way.
    #[inline(never)]
    pub fn new(class: &'static Class, name: &'static str, holder: Option<Holder>) -> Assembly {
        Assembly {
            draft: Draft::new(class, name),
            holder,
            depth: 0,
            via: 0,
            noted: Noted {
                making: MAKINGS.fetch_add(1, Ordering::SeqCst),
                links: Vec::new(),
            },
            whole: true,
        }
    }

    /// Has `f` emit into `draft`, which is a template's: nothing in it is linked.
    pub fn over(draft: &mut Draft, f: impl FnOnce(&mut Assembly)) {
        static CLASS: Class = Class::new("template");
        let mut assembly = Assembly::new(&CLASS, "", None);
        core::mem::swap(&mut assembly.draft, draft);
        f(&mut assembly);
        core::mem::swap(&mut assembly.draft, draft);
    }

    /// The link of callout number `port` of `from`, if any. The code depends on it from now on.
    pub fn use_link(&mut self, from: &'static Header, port: usize) -> Option<Link> {
        let own = matches!(&self.holder, Some(Holder::Member(own)) if core::ptr::eq(*own, from));
        if self.depth == 0 {
            self.via = port as u8;
        }
        let target = match &self.holder {
            None => from.wiring().get(port),
            Some(holder) => {
                let site = Site {
                    holder: holder.clone(),
                    via: self.via,
                    making: self.noted.making,
                    port: port as u8,
                    placed: None,
                };
                // A quaject makes its code anew whenever a port of its own is linked.
                let target = from.wiring().record_use(site, own);
                self.whole &= target.is_some();
                target?
            }
        };
        if own && target.is_none() {
            return None;
        }
        self.note(from, port, target)
    }

    fn note(&mut self, from: &'static Header, port: usize, target: Option<Target>) -> Option<Link> {
        let room = if self.noted.links.is_empty() {
            USUAL
        } else {
            1
        };
        #[expect(
            clippy::disallowed_methods,
            reason = "as many as there are links in the code"
        )]
        if codegen::fault_injection::refused() || self.noted.links.try_reserve(room).is_err() {
            self.whole = false;
            from.wiring().remove_uses(self.noted.making);
            return None;
        }
        let leads = target.is_some();
        #[expect(clippy::disallowed_methods, reason = "there is room for it")]
        self.noted.links.push(Linked {
            from,
            port: port as u8,
            placed: None,
            target,
        });
        leads.then(|| Link(self.noted.links.len() - 1))
    }

    /// Puts what is linked into this place, where the registers `live` hold what is needed afterwards and
    /// `arguments` are the constants that it is given. Falls through when it is done, goes to `no` when it
    /// could not be. Changes, besides what is not live, only flags. Returns whether it stands in line.
    pub fn place(
        &mut self,
        link: Link,
        live: Regs,
        no: Option<Label>,
        arguments: &[(Reg, u64)],
    ) -> bool {
        let linked = &self.noted.links[link.0];
        let shape = linked.shape();
        let Some(target) = linked.target.clone() else {
            return false;
        };
        let end = self.label();
        let begin = self.begin();
        let way = Continuation {
            no: no.unwrap_or(end),
            live,
        };
        let emit = &mut |a: &mut Assembly, way| target.emit(a, way);
        let in_line = !inlining::is_disabled()
            && self.in_line(&*target, shape, way, arguments, IN_LINE, emit);
        if !in_line {
            self.call(&*target, shape, live, no, arguments);
        }
        self.noted.links[link.0].placed = Some(self.stood(begin, in_line));
        self.bind(end);
        in_line
    }

    /// As [`place`](Self::place), around the caller's `mover`. False, and nothing is emitted, when what is
    /// linked cannot have it.
    pub fn place_around(&mut self, link: Link, live: Regs, no: Label, mover: &dyn Mover) -> bool {
        let linked = &self.noted.links[link.0];
        let shape = linked.shape();
        let Some(target) = linked.target.clone() else {
            return false;
        };
        let begin = self.begin();
        let called = inlining::is_disabled();
        let emit = &mut |a: &mut Assembly, way| match called {
            false => target.emit_around(a, way, mover),
            true => a.apart(way, |a, way| target.emit_around(a, way, mover)),
        };
        let placed = self.in_line(
            &*target,
            shape,
            Continuation { no, live },
            &[],
            LONGEST,
            emit,
        );
        if placed {
            self.noted.links[link.0].placed = Some(self.stood(begin, !called));
        }
        placed
    }

    /// The end of what there is in both sections.
    fn begin(&self) -> [u32; 2] {
        [self.here(), self.there()]
    }

    /// All that stands behind `begin`.
    fn stood(&self, begin: [u32; 2], in_line: bool) -> Stood {
        let [here, there] = begin;
        Stood {
            here: (here, self.here() - here),
            there: (there, self.there() - there),
            in_line,
        }
    }

    /// Calls what `emit` emits, which stands as a subroutine in the cold section.
    fn apart(
        &mut self,
        way: Continuation,
        emit: impl FnOnce(&mut Assembly, Continuation) -> bool,
    ) -> bool {
        let [begin, no] = core::array::from_fn(|_| self.label());
        dynasm!(self ; .arch x64 ; call =>begin);
        let mut emitted = false;
        self.cold(|a| {
            a.bind(begin);
            emitted = emit(a, Continuation { no, live: way.live });
            dynasm!(a ; .arch x64 ; ret ; =>no ; lea rsp, [rsp + 8] ; jmp =>way.no);
        });
        emitted
    }

    fn in_line(
        &mut self,
        target: &dyn Callentry,
        shape: &Shape,
        way: Continuation,
        arguments: &[(Reg, u64)],
        longest: usize,
        emit: &mut dyn FnMut(&mut Assembly, Continuation) -> bool,
    ) -> bool {
        let Continuation { no: out, live } = way;
        if self.depth >= DEPTH || self.len() > LONGEST {
            return false;
        }
        let saved = live & (target.changes() | given(arguments));
        let (mark, links) = (self.mark(), self.noted.links.len());
        let no = if saved.is_empty() { out } else { self.label() };
        saved.save(self);
        give(self, arguments);
        let before = self.len();
        let live = live - saved;
        self.depth += 1;
        let emitted = emit(self, Continuation { no, live });
        self.depth -= 1;
        if !emitted || self.len() - before > longest {
            self.rewind(mark);
            let inside = self.noted.links[links..].iter_mut();
            inside.for_each(|link| link.placed = None);
            return false;
        }
        saved.restore(self);
        if !saved.is_empty() && shape.outcome != Outcome::Done {
            self.cold(|a| {
                a.bind(no);
                saved.restore(a);
                dynasm!(a ; .arch x64 ; jmp =>out);
            });
        }
        true
    }

    fn call(
        &mut self,
        target: &dyn Callentry,
        shape: &Shape,
        live: Regs,
        no: Option<Label>,
        arguments: &[(Reg, u64)],
    ) {
        let this = target.this().map(|this| (Reg::Rdi, this as u64));
        let this = this.as_slice();
        let saved = live & (target.changes_when_called() | given(arguments) | given(this));
        saved.save(self);
        give(self, arguments);
        give(self, this);
        if target.is_compiled() {
            aligned(self, target.entry());
        } else {
            target.call(self);
        }
        saved.restore(self);
        if let Some(no) = no {
            shape.test(self, no);
        }
    }

    /// Calls compiled code at `entry`, with its arguments in place, on any alignment of the stack. Saves what
    /// is `live`.
    pub fn call_compiled(&mut self, entry: usize, live: Regs) {
        let saved = live & Regs::SYSV;
        saved.save(self);
        aligned(self, entry);
        saved.restore(self);
    }

    /// The code from `f` is seldom executed: it stands behind the hot part of the whole. Labels lead there
    /// and back.
    pub fn cold(&mut self, f: impl FnOnce(&mut Assembly)) {
        if self.turn(true) {
            let over = self.label();
            dynasm!(self ; .arch x64 ; jmp =>over);
            f(self);
            self.bind(over);
        } else {
            f(self);
            self.turn(false);
        }
    }

    /// Whether all that is linked so far, however deep, stands in line.
    pub fn is_in_line(&self) -> bool {
        let is = |link: &Linked| match link.placed {
            Some(stood) => stood.in_line,
            None => link.target.is_none(),
        };
        self.noted.links.iter().all(is)
    }

    /// The routine, which keeps what stands in it, and `more`. Once.
    ///
    /// # Errors
    /// [`RoutineError`].
    ///
    /// # Safety
    /// As [`Routine::from`]; what the callentries in the code name, they keep.
    pub unsafe fn seal<F>(
        &mut self,
        more: Option<Arc<dyn Any + Send + Sync>>,
    ) -> Result<(Routine<F>, Registration), RoutineError> {
        for link in &mut self.noted.links {
            if let Some(stood) = &mut link.placed {
                stood.here.0 = self.draft.found(stood.here.0);
                stood.there.0 = self.draft.found(stood.there.0);
            }
        }
        let contents = Arc::new(Contents {
            links: core::mem::take(&mut self.noted.links),
            _more: more,
        });
        let registration = Registration {
            making: self.noted.making,
            contents: Some(contents.clone()),
        };
        if !self.whole {
            return Err(RoutineError::OutOfMemory);
        }
        // SAFETY: the caller's promise.
        let routine = unsafe { Routine::from(self.draft.seal_in_place()?) };
        for link in &contents.links {
            if let Some(stood) = link.placed {
                let placed = Placed {
                    at: routine.entry() + stood.here.0 as usize,
                    bytes: stood.here.1,
                    cold: routine.entry() + stood.there.0 as usize,
                    cold_bytes: stood.there.1,
                    in_line: stood.in_line,
                };
                link.from
                    .wiring()
                    .set_address(registration.making, link.port, placed);
            }
        }
        Ok((routine.keeping(contents), registration))
    }
}

fn given(arguments: &[(Reg, u64)]) -> Regs {
    arguments
        .iter()
        .fold(Regs::NONE, |set, (reg, _)| set | Regs::of(&[*reg]))
}

fn give(d: &mut Draft, arguments: &[(Reg, u64)]) {
    arguments
        .iter()
        .for_each(|(reg, value)| constant(d, *reg, *value));
}

fn aligned(d: &mut Draft, entry: usize) {
    dynasm!(d ; .arch x64 ; push rbp ; mov rbp, rsp ; and rsp, -16);
    d.call_abs(entry);
    dynasm!(d ; .arch x64 ; mov rsp, rbp ; pop rbp);
}

/// The contents of a routine.
struct Contents {
    links: Vec<Linked>,
    _more: Option<Arc<dyn Any + Send + Sync>>,
}

/// The interfacer knows of a routine, by the links that stand in it, as long as this is kept.
#[derive(Default)]
pub struct Registration {
    making: u64,
    /// None where no link stands.
    contents: Option<Arc<Contents>>,
}

impl Drop for Registration {
    fn drop(&mut self) {
        if let Some(contents) = &self.contents {
            remove_uses(self.making, &contents.links);
        }
    }
}

/// A routine and what the interfacer knows of it: what [`Assembly::seal`] gives.
pub type Made<F> = (Routine<F>, Registration);

/// A quaject's published routine, with what the interfacer knows of it.
pub struct Published<F> {
    plug: Plug<F>,
    known: Monitor<Registration>,
}

impl<F: Copy> Published<F> {
    /// With `made` plugged.
    pub fn new((routine, known): Made<F>) -> Published<F> {
        Published {
            plug: Plug::new(routine),
            known: Monitor::new(known),
        }
    }

    /// Plugs `made` in place of what was plugged.
    pub fn publish(&self, (routine, known): Made<F>) {
        self.plug.replug(routine);
        // Bound: exchanging one counted handle; only threads that generate the routine again.
        let old = core::mem::replace(&mut *self.known.lock(), known);
        // It takes monitors of its own when it goes.
        drop(old);
    }
}

impl<F> Deref for Published<F> {
    type Target = Plug<F>;
    fn deref(&self) -> &Plug<F> {
        &self.plug
    }
}
