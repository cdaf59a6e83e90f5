//! Drafts: code being written (dissertation, section 3.1).
//!
//! *Interface*
//! - `dynasm!(d ; .arch x64 ; …)` emits into a `&mut Draft`; local (`name:`, `>name`, `<name`), dynamic
//!   (`=>label`) and absolute (`call extern address`) targets work, as do words at absolute addresses that
//!   the code names relatively to itself (`inc QWORD [extern address]`). Labels resolve as soon as both ends
//!   are known; only absolute targets wait for [`Draft::seal`], which knows the final address.
//! - [`Draft::fault_begin`] and [`Draft::fault_end`] enclose instructions that may fault and name where they
//!   then resume.
//! - [`Draft::mark`], [`Draft::rewind`]: try a fragment, measure it, take it back (layer collapsing decides
//!   with it).
//! - [`Draft::turn`] changes between the hot section and the cold one, which `seal` puts behind it: a
//!   fragment that is copied into another's code leaves its seldom used part there. Dynamic labels lead from
//!   one to the other.
//! - [`Draft::seal`] consumes the draft and puts it into the code space.
//!
//! A generator's mistake (a label used but never bound, a branch out of reach) panics at `seal` with the
//! routine's name: it depends on the generator, not on input. Lack of memory never panics: `seal` reports it.

use alloc::boxed::Box;
use alloc::vec::Vec;
use core::cell::UnsafeCell;
use core::sync::atomic::{AtomicU32, AtomicU64};

use crate::blocks;
use crate::few::Few;
use crate::image::{Class, Fault, Faults, Image, Name, now};
use crate::limbo::Limbo;
use crate::refusal::refused;
use crate::routine::{Sealed, drop_image, publish};
use crate::space::{CodeSpace, OutOfCode, PAGE, linked};
use crate::template::{HoleUse, hole_in_imm32, hole_in_imm64};

/// Bytes for which the first emission asks the heap: more than most routines need.
const FIRST: usize = 512;
const UNBOUND: u32 = u32::MAX;
/// Marks offsets in the cold section, until the sections are joined.
const COLD: u32 = 1 << 30;

/// A place in one draft, bound once by `=>label` (dynasm) or [`Draft::bind`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Label(u32);

/// What `extern` and `[rip + …]` targets may be written as.
pub trait Absolute {
    /// The address, or for `[rip + …]` the displacement.
    fn absolute(self) -> i64;
}

macro_rules! absolute {
    ($($t:ty),*) => { $(impl Absolute for $t {
        fn absolute(self) -> i64 { self as i64 }
    })* };
}
absolute!(usize, isize, i32, i64, u64);

/// A branch or address field and what it is relative to.
#[derive(Clone, Copy)]
struct Field {
    /// Offset of the field.
    at: u32,
    /// Offset that a relative value counts from.
    from: u32,
    /// dynasm's description: bits 0–1 log2 of the size, bits 6–7 what is relative to what.
    kind: u8,
}

impl Field {
    fn size(self) -> usize {
        1 << (self.kind & 3)
    }
    fn relation(self) -> u8 {
        self.kind >> 6
    }
}

/// dynasm's `RelocationKind`.
const RELATIVE: u8 = 0;
const ABS_TO_REL: u8 = 1;
const REL_TO_ABS: u8 = 2;

#[derive(Clone, Copy, PartialEq)]
enum Awaited {
    /// The next definition of a local label.
    Local(&'static str),
    Global(&'static str),
    Dynamic(u32),
}

/// A field whose label is not bound yet.
#[derive(Clone, Copy)]
struct Pending {
    field: Field,
    awaited: Awaited,
    addend: i64,
}

/// A field in one section whose label lies in the other.
#[derive(Clone, Copy)]
struct Crossing {
    field: Field,
    target: u32,
    addend: i64,
}

/// A field that depends on the final address: an absolute target seen relatively, or a place in the draft
/// seen absolutely.
#[derive(Clone, Copy)]
pub(crate) struct Placed {
    pub at: u32,
    pub size: u8,
    /// Subtract (true) or add (false) the image's entry.
    pub subtract: bool,
    pub value: i64,
}

/// A state of a draft to [`rewind`](Draft::rewind) to.
#[derive(Clone, Copy, Debug)]
pub struct Mark {
    code: usize,
    locals: usize,
    globals: usize,
    labels: usize,
    pending: usize,
    placed: usize,
    faults: usize,
    holes: usize,
    other: usize,
    crossing: usize,
}

/// Code being written.
pub struct Draft {
    /// The section that is being written: the hot one, unless `in_cold`.
    pub(crate) code: Vec<u8>,
    /// The other section.
    other: Vec<u8>,
    in_cold: bool,
    crossing: Few<Crossing, 0>,
    /// Definitions of local labels, latest last.
    locals: Few<(&'static str, u32), 8>,
    globals: Few<(&'static str, u32), 2>,
    labels: Few<u32, 8>,
    pending: Few<Pending, 6>,
    pub(crate) placed: Few<Placed, 6>,
    /// `fixup` is a dynamic label's number until the draft is finished.
    faults: Few<Fault, 2>,
    fault_open: Option<u32>,
    /// Record pushes of hole markers (the draft is a template's).
    pub(crate) with_holes: bool,
    pub(crate) holes: Few<HoleUse, 0>,
    /// Holes that the generator says it does without, a bit each.
    pub(crate) spared: u64,
    class: &'static Class,
    name: Name,
    owner: u64,
    /// Time-stamp count at which the draft was begun.
    began: u64,
    out_of_memory: bool,
}

impl Draft {
    /// An empty draft of a routine of `class`.
    pub fn new(class: &'static Class, name: impl Into<Name>) -> Draft {
        Draft {
            code: Vec::new(),
            other: Vec::new(),
            in_cold: false,
            crossing: Few::new(),
            locals: Few::new(),
            globals: Few::new(),
            labels: Few::new(),
            pending: Few::new(),
            placed: Few::new(),
            faults: Few::new(),
            fault_open: None,
            with_holes: false,
            spared: 0,
            holes: Few::new(),
            class,
            name: name.into(),
            owner: 0,
            began: now(),
            out_of_memory: false,
        }
    }

    /// Say whose the routine will be (a process or thread number).
    pub fn owner(&mut self, owner: u64) -> &mut Draft {
        self.owner = owner;
        self
    }

    /// Bytes so far, of the section that is being written.
    pub fn len(&self) -> usize {
        self.code.len()
    }

    /// Whether nothing was emitted yet.
    pub fn is_empty(&self) -> bool {
        self.code.is_empty()
    }

    /// Whether nothing has been lost for want of memory. If something has, positions mean nothing and
    /// [`seal`](Draft::seal) says so: generators go on as if nothing were.
    pub fn is_whole(&self) -> bool {
        !self.out_of_memory
    }

    /// The bytes so far. Fields that wait for a label or for the final address read as zero.
    pub fn bytes(&self) -> &[u8] {
        &self.code
    }

    /// Goes on in the cold section, or in the hot one; returns whether it was the cold one until now. Not for
    /// templates.
    pub fn turn(&mut self, cold: bool) -> bool {
        debug_assert!(!self.with_holes, "{}: a template in sections", self.name);
        if cold != self.in_cold {
            core::mem::swap(&mut self.code, &mut self.other);
        }
        core::mem::replace(&mut self.in_cold, cold)
    }

    /// This place, to be [`found`](Self::found) again.
    pub fn here(&self) -> u32 {
        self.code.len() as u32 | if self.in_cold { COLD } else { 0 }
    }

    /// Offset in the sealed code of the place that [`here`](Self::here) gave, once all is written.
    pub fn found(&self, here: u32) -> u32 {
        let (offset, hot) = (
            here & !COLD,
            if self.in_cold {
                &self.other
            } else {
                &self.code
            },
        );
        if here & COLD == 0 {
            offset
        } else {
            offset + hot.len() as u32
        }
    }

    /// A new label, not bound yet.
    pub fn label(&mut self) -> Label {
        if !self.labels.push(UNBOUND) {
            self.out_of_memory = true;
            return Label(0);
        }
        Label(self.labels.len() as u32 - 1)
    }

    /// Bind `label` here; the same as `=>label` in `dynasm!`.
    pub fn bind(&mut self, label: Label) {
        self.dynamic_label(label);
    }

    /// `call` an absolute address within 2 GiB of the code space.
    pub fn call_abs(&mut self, address: impl Absolute) {
        self.push(0xe8);
        self.push_u32_raw(0);
        self.value_reloc(address, 4, 0, 2 | (REL_TO_ABS << 6));
    }

    /// `jmp` to an absolute address within 2 GiB of the code space.
    pub fn jmp_abs(&mut self, address: impl Absolute) {
        self.push(0xe9);
        self.push_u32_raw(0);
        self.value_reloc(address, 4, 0, 2 | (REL_TO_ABS << 6));
    }

    /// From here to [`fault_end`](Draft::fault_end) page faults are expected. The ranges do not nest.
    pub fn fault_begin(&mut self) {
        debug_assert!(
            self.fault_open.is_none(),
            "{}: fault ranges do not nest",
            self.name
        );
        self.fault_open = Some(self.here());
    }

    /// Ends the range of [`fault_begin`](Draft::fault_begin): a fault in it resumes at `fixup`, with the
    /// registers of the faulting instruction.
    pub fn fault_end(&mut self, fixup: Label) {
        let Some(start) = self.fault_open.take() else {
            debug_assert!(false, "{}: fault_end without fault_begin", self.name);
            return;
        };
        let fault = Fault {
            start,
            end: self.here(),
            fixup: fixup.0,
        };
        self.out_of_memory |= !self.faults.push(fault);
    }

    /// Remember this place.
    pub fn mark(&self) -> Mark {
        Mark {
            code: self.code.len(),
            locals: self.locals.len(),
            globals: self.globals.len(),
            labels: self.labels.len(),
            pending: self.pending.len(),
            placed: self.placed.len(),
            faults: self.faults.len(),
            holes: self.holes.len(),
            other: self.other.len(),
            crossing: self.crossing.len(),
        }
    }

    /// Take back everything since `mark`, in the same section. What came since may not have bound labels that
    /// the code before `mark` waits for, and its own labels are forgotten.
    pub fn rewind(&mut self, mark: Mark) {
        debug_assert!(
            self.pending.len() >= mark.pending,
            "{}: rewound over a bound label",
            self.name
        );
        self.code.truncate(mark.code);
        self.locals.truncate(mark.locals);
        self.globals.truncate(mark.globals);
        self.labels.truncate(mark.labels);
        self.pending.truncate(mark.pending);
        self.placed.truncate(mark.placed);
        self.faults.truncate(mark.faults);
        self.holes.truncate(mark.holes);
        self.other.truncate(mark.other);
        self.crossing.truncate(mark.crossing);
        self.fault_open = None;
    }

    /// Finish: bind check, fault table. Panics on a generator's mistake.
    pub(crate) fn finish(&mut self) -> Result<Faults, OutOfCode> {
        if self.out_of_memory {
            return Err(OutOfCode);
        }
        if self.in_cold || !self.other.is_empty() {
            self.join()?;
        }
        assert!(
            self.pending.is_empty(),
            "{} {}: a label is used but not bound",
            self.class.name,
            self.name
        );
        assert!(
            self.fault_open.is_none(),
            "{} {}: fault_begin without fault_end",
            self.class.name,
            self.name
        );
        assert!(
            !self.code.is_empty(),
            "{} {}: an empty routine",
            self.class.name,
            self.name
        );
        for fault in self.faults.iter_mut() {
            fault.fixup = self.labels[fault.fixup as usize];
            assert!(
                fault.fixup != UNBOUND,
                "{} {}: a fix-up is not bound",
                self.class.name,
                self.name
            );
        }
        Ok(match &*self.faults {
            [] => Faults::None,
            [one] => Faults::One(*one),
            all => {
                let mut list = Vec::new();
                if refused() || list.try_reserve_exact(all.len()).is_err() {
                    return Err(OutOfCode);
                }
                list.extend_from_slice(all);
                Faults::Owned(list.into_boxed_slice())
            }
        })
    }

    /// Put the cold section behind the hot one.
    fn join(&mut self) -> Result<(), OutOfCode> {
        self.turn(false);
        let behind = self.code.len() as u32;
        if refused() || self.code.try_reserve(self.other.len()).is_err() {
            return Err(OutOfCode);
        }
        self.code.append(&mut self.other);
        let moved = |at: &mut u32| {
            if *at != UNBOUND && *at & COLD != 0 {
                *at = *at - COLD + behind;
            }
        };
        self.labels.iter_mut().for_each(moved);
        for fault in self.faults.iter_mut() {
            moved(&mut fault.start);
            moved(&mut fault.end);
        }
        for placed in self.placed.iter_mut() {
            let before = placed.at;
            moved(&mut placed.at);
            if placed.subtract {
                // It counts from the field.
                placed.value += i64::from(before) - i64::from(placed.at);
            }
        }
        for at in 0..self.crossing.len() {
            let Crossing {
                mut field,
                mut target,
                addend,
            } = self.crossing[at];
            moved(&mut field.at);
            moved(&mut field.from);
            moved(&mut target);
            self.resolve(field, target, addend);
        }
        Ok(())
    }

    /// Put the code into the code space.
    ///
    /// # Errors
    /// [`OutOfCode`] when addresses, frames or heap are exhausted, or no code space is linked.
    ///
    /// # Panics
    /// When a label was never bound or a target is out of its field's reach: the generator is wrong.
    pub fn seal(mut self) -> Result<Sealed, OutOfCode> {
        self.seal_in_place()
    }

    /// As [`seal`](Draft::seal), where moving the draft would cost a frame its size. Once: it is used up.
    ///
    /// # Errors
    /// As there.
    pub fn seal_in_place(&mut self) -> Result<Sealed, OutOfCode> {
        let faults = self.finish()?;
        let space = linked().ok_or(OutOfCode)?;
        let entry = blocks::allocate(space, self.code.len())?;
        for placed in self.placed.iter() {
            apply(&mut self.code, placed, entry, self.class, self.name);
        }
        write(space, entry, &self.code);
        record(
            space,
            entry,
            self.code.len(),
            Origin {
                class: self.class,
                name: self.name,
                owner: self.owner,
                began: self.began,
            },
            faults,
        )
    }

    fn resolve(&mut self, field: Field, target: u32, addend: i64) {
        if self.out_of_memory {
            return;
        }
        let absolute = field.relation() == ABS_TO_REL;
        if (target ^ field.at) & COLD != 0 || absolute && target & COLD != 0 {
            self.out_of_memory |= !self.crossing.push(Crossing {
                field,
                target,
                addend,
            });
            return;
        }
        let target = i64::from(target).wrapping_add(addend);
        match field.relation() {
            RELATIVE => {
                let value = target.wrapping_sub(i64::from(field.from));
                let code = if (field.at & COLD != 0) == self.in_cold {
                    &mut self.code
                } else {
                    &mut self.other
                };
                put(
                    code,
                    (field.at & !COLD) as usize,
                    field.size(),
                    value,
                    self.class,
                    self.name,
                );
            }
            ABS_TO_REL => self.place(Placed {
                at: field.at,
                size: field.size() as u8,
                subtract: false,
                value: target,
            }),
            _ => panic!(
                "{} {}: a label cannot be absolute",
                self.class.name, self.name
            ),
        }
    }

    fn place(&mut self, placed: Placed) {
        self.out_of_memory |= !self.placed.push(placed);
    }

    fn await_label(&mut self, awaited: Awaited, field: Field, addend: i64) {
        let pending = Pending {
            field,
            awaited,
            addend,
        };
        self.out_of_memory |= !self.pending.push(pending);
    }

    /// Fills `field` if its label is bound, else later.
    fn resolve_or_await(
        &mut self,
        bound: Option<u32>,
        awaited: Awaited,
        field: Field,
        addend: isize,
    ) {
        match bound {
            Some(target) => self.resolve(field, target, addend as i64),
            None => self.await_label(awaited, field, addend as i64),
        }
    }

    fn arrived(&mut self, awaited: Awaited) {
        let here = self.here();
        let mut i = 0;
        while i < self.pending.len() {
            if self.pending[i].awaited == awaited {
                let pending = self.pending.swap_remove(i);
                self.resolve(pending.field, here, pending.addend);
            } else {
                i += 1;
            }
        }
    }

    fn field(&self, field_offset: u8, ref_offset: u8, kind: u8) -> Field {
        let here = self.here();
        Field {
            // What is not in the draft is refused when it is filled.
            at: here.wrapping_sub(u32::from(field_offset)),
            from: here.wrapping_sub(u32::from(ref_offset)),
            kind,
        }
    }

    fn note_hole(&mut self, hole: HoleUse) {
        self.out_of_memory |= !self.holes.push(hole);
    }

    /// Room for `n` more bytes, or false.
    #[cold]
    fn grow(&mut self, n: usize) -> bool {
        let wish = if self.code.capacity() == 0 { FIRST } else { 0 };
        let enough = self.is_whole() && !refused() && self.code.try_reserve(n.max(wish)).is_ok();
        self.out_of_memory |= !enough;
        enough
    }

    #[inline]
    fn push_u32_raw(&mut self, value: u32) {
        self.extend(&value.to_le_bytes());
    }
}

/// What `dynasm!` expands to. Public because the macro needs it; generators write `dynasm!` lines.
#[doc(hidden)]
impl Draft {
    #[inline]
    pub fn extend(&mut self, bytes: &[u8]) {
        let (len, n) = (self.code.len(), bytes.len());
        // A vector is never longer than its room, which is never more than can be addressed: neither wraps.
        if self.code.capacity().wrapping_sub(len) < n && !self.grow(n) {
            return;
        }
        // SAFETY: there is room for `n` more bytes, and a draft's buffer is nobody else's.
        unsafe {
            let end = self.code.as_mut_ptr().add(len);
            end.copy_from_nonoverlapping(bytes.as_ptr(), n);
            self.code.set_len(len.wrapping_add(n));
        }
    }

    #[inline]
    pub fn push(&mut self, byte: u8) {
        self.extend(&[byte]);
    }

    #[inline]
    pub fn push_i8(&mut self, value: i8) {
        self.extend(&value.to_le_bytes());
    }

    #[inline]
    pub fn push_u16(&mut self, value: u16) {
        self.extend(&value.to_le_bytes());
    }

    #[inline]
    pub fn push_i16(&mut self, value: i16) {
        self.extend(&value.to_le_bytes());
    }

    #[inline]
    pub fn push_u32(&mut self, value: u32) {
        self.push_i32(value as i32);
    }

    #[inline]
    pub fn push_i32(&mut self, value: i32) {
        if self.with_holes
            && let Some((hole, addend)) = hole_in_imm32(value)
        {
            self.note_hole(HoleUse::imm32(self.code.len(), hole, addend));
        }
        self.push_u32_raw(value as u32);
    }

    #[inline]
    pub fn push_u64(&mut self, value: u64) {
        self.push_i64(value as i64);
    }

    #[inline]
    pub fn push_i64(&mut self, value: i64) {
        if self.with_holes
            && let Some((hole, addend)) = hole_in_imm64(value)
        {
            self.note_hole(HoleUse::imm64(self.code.len(), hole, addend));
        }
        self.extend(&value.to_le_bytes());
    }

    pub fn align(&mut self, alignment: usize, with: u8) {
        while !self.code.len().is_multiple_of(alignment) && !self.out_of_memory {
            self.push(with);
        }
    }

    pub fn local_label(&mut self, name: &'static str) {
        let here = self.here();
        self.out_of_memory |= !self.locals.push((name, here));
        self.arrived(Awaited::Local(name));
    }

    pub fn global_label(&mut self, name: &'static str) {
        let here = self.here();
        assert!(
            self.out_of_memory || !self.globals.iter().any(|g| g.0 == name),
            "{} {}: label {name} bound twice",
            self.class.name,
            self.name
        );
        self.out_of_memory |= !self.globals.push((name, here));
        self.arrived(Awaited::Global(name));
    }

    pub fn dynamic_label(&mut self, label: Label) {
        let here = self.here();
        let Some(place) = self.labels.get_mut(label.0 as usize) else {
            assert!(
                self.out_of_memory,
                "{} {}: a label of another draft",
                self.class.name, self.name
            );
            return;
        };
        // Labels that there was no memory for are all the same one.
        assert!(
            *place == UNBOUND || self.out_of_memory,
            "{} {}: a label bound twice",
            self.class.name,
            self.name
        );
        *place = here;
        self.arrived(Awaited::Dynamic(label.0));
    }

    pub fn forward_reloc(
        &mut self,
        name: &'static str,
        addend: isize,
        field: u8,
        from: u8,
        kind: u8,
    ) {
        let field = self.field(field, from, kind);
        self.await_label(Awaited::Local(name), field, addend as i64);
    }

    pub fn backward_reloc(
        &mut self,
        name: &'static str,
        addend: isize,
        field: u8,
        from: u8,
        kind: u8,
    ) {
        let field = self.field(field, from, kind);
        let bound = self.locals.iter().rev().find(|l| l.0 == name);
        let Some(&(_, target)) = bound else {
            assert!(
                self.out_of_memory,
                "{} {}: label {name} is not bound before its use",
                self.class.name, self.name
            );
            return;
        };
        self.resolve(field, target, addend as i64);
    }

    pub fn global_reloc(
        &mut self,
        name: &'static str,
        addend: isize,
        field: u8,
        from: u8,
        kind: u8,
    ) {
        let field = self.field(field, from, kind);
        let bound = self.globals.iter().find(|g| g.0 == name).map(|g| g.1);
        self.resolve_or_await(bound, Awaited::Global(name), field, addend);
    }

    pub fn dynamic_reloc(&mut self, label: Label, addend: isize, field: u8, from: u8, kind: u8) {
        let field = self.field(field, from, kind);
        let bound = self.labels.get(label.0 as usize).copied();
        let bound = bound.filter(|target| *target != UNBOUND);
        self.resolve_or_await(bound, Awaited::Dynamic(label.0), field, addend);
    }

    pub fn value_reloc(&mut self, target: impl Absolute, field: u8, from: u8, kind: u8) {
        let field = self.field(field, from, kind);
        let target = target.absolute();
        match field.relation() {
            REL_TO_ABS => {
                if self.with_holes
                    && let Some((hole, addend)) = hole_in_imm64(target)
                {
                    assert!(
                        field.size() == 4,
                        "{} {}: a hole needs a 32-bit branch",
                        self.class.name,
                        self.name
                    );
                    self.note_hole(HoleUse::rel32(
                        field.at as usize,
                        field.from as usize,
                        hole,
                        addend,
                    ));
                    return;
                }
                let value = target.wrapping_sub(i64::from(field.from));
                self.place(Placed {
                    at: field.at,
                    size: field.size() as u8,
                    subtract: true,
                    value,
                });
            }
            _ if self.out_of_memory => {}
            // A displacement or an address, as it stands.
            _ => put(
                &mut self.code,
                (field.at & !COLD) as usize,
                field.size(),
                target,
                self.class,
                self.name,
            ),
        }
    }
}

/// Store `value` into a field of `size` bytes, which must hold it.
pub(crate) fn put(code: &mut [u8], at: usize, size: usize, value: i64, class: &Class, name: Name) {
    // Nearly all fields have four bytes. With its length known each is one store.
    let fits = match size {
        4 => i32::try_from(value).is_ok_and(|value| store(code, at, value.to_le_bytes())),
        1 => i8::try_from(value).is_ok_and(|value| store(code, at, value.to_le_bytes())),
        2 => i16::try_from(value).is_ok_and(|value| store(code, at, value.to_le_bytes())),
        _ => store(code, at, value.to_le_bytes()),
    };
    assert!(
        fits,
        "{} {}: {value:#x} is out of the reach of {size} bytes at {at:#x}",
        class.name, name
    );
}

/// Whether there is such a field, which then holds `bytes`.
fn store<const N: usize>(code: &mut [u8], at: usize, bytes: [u8; N]) -> bool {
    let field = code.get_mut(at..at + N);
    field.map(|field| field.copy_from_slice(&bytes)).is_some()
}

/// Fill in a field that waited for the final address.
pub(crate) fn apply(code: &mut [u8], placed: &Placed, entry: usize, class: &Class, name: Name) {
    let value = if placed.subtract {
        placed.value.wrapping_sub(entry as i64)
    } else {
        placed.value.wrapping_add(entry as i64)
    };
    put(
        code,
        placed.at as usize,
        placed.size as usize,
        value,
        class,
        name,
    );
}

/// Copy finished code to its place through the alias, page by page.
pub(crate) fn write(space: &dyn CodeSpace, entry: usize, code: &[u8]) {
    let mut at = entry;
    let mut rest = code;
    while !rest.is_empty() {
        let (now, later) = rest.split_at(rest.len().min(PAGE - at % PAGE));
        // SAFETY: `entry..entry + len` was just allocated, so its pages are committed and the bytes are ours
        // alone.
        unsafe { space.write(at, now.len(), &mut |bytes| bytes.copy_from_slice(now)) };
        at += now.len();
        rest = later;
    }
}

/// Where a routine comes from.
pub(crate) struct Origin {
    pub class: &'static Class,
    pub name: Name,
    pub owner: u64,
    /// Time-stamp count at which its making began.
    pub began: u64,
}

/// Make the record of written code and publish it.
pub(crate) fn record(
    space: &dyn CodeSpace,
    entry: usize,
    len: usize,
    origin: Origin,
    faults: Faults,
) -> Result<Sealed, OutOfCode> {
    let image: Option<Box<Image>> = blocks::try_box(Image {
        limbo: Limbo::new(drop_image),
        entry,
        len: len as u32,
        count: AtomicU32::new(1),
        owner: AtomicU64::new(origin.owner),
        class: origin.class,
        name: origin.name,
        faults,
        keep: UnsafeCell::new(None),
    });
    match image {
        Some(image) => Ok(publish(space, image, origin.began)),
        None => {
            blocks::free(space, entry, len);
            Err(OutOfCode)
        }
    }
}
