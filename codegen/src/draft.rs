//! Drafts: code being written (dissertation, section 3.1).
//!
//! *Interface*
//! - `dynasm!(d ; .arch x64 ; …)` emits into a `&mut Draft`; local (`name:`, `>name`, `<name`), dynamic
//!   (`=>label`) and absolute (`call extern address`) targets work, as do words at absolute addresses that
//!   the code names relatively to itself (`inc QWORD [extern address]`). Dynamic labels that lie ahead
//!   resolve in one pass at [`Draft::seal`], which also knows the final address, for which absolute targets
//!   wait.
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

mod assembler;
pub(crate) mod fields;

use alloc::boxed::Box;
use alloc::vec::Vec;
use core::cell::UnsafeCell;
use core::sync::atomic::{AtomicU32, AtomicU64};

use crate::block_alloc;
use crate::draft_buffers::{
    self, ByteBuffer, DraftBuffers, Field, HoleUse, Placed, Reference, Waiting,
};
use crate::fault_injection::refused;
use crate::holding_tank::TankLink;
use crate::image::{Class, Fault, Faults, Image, Name, now};
use crate::routine::{Sealed, drop_image, publish};
use crate::space::{Lent, OutOfCode, PAGE, linked};
use fields::{
    COLD, LABEL, NEAR, REL_TO_ABS, RELATIVE, UNBOUND, apply, distance, fill_in, joined, put, store,
};

/// A place in one draft, bound once by `=>label` (dynasm) or [`Draft::bind`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Label(u32);

/// The types that `extern` and `[rip + …]` targets may be written as.
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

/// A state of a draft to [`rewind`](Draft::rewind) to.
#[derive(Clone, Copy, Debug, Default)]
pub struct Mark {
    code: usize,
    other: usize,
    labels: usize,
    later: usize,
    waiting: usize,
    locals: usize,
    globals: usize,
    placed: usize,
    faults: usize,
    holes: usize,
}

/// Code being written.
pub struct Draft {
    /// The section that is being written.
    pub(crate) code: ByteBuffer,
    /// The other section.
    other: ByteBuffer,
    /// None before there is something to note.
    pub(crate) notes: Option<Box<DraftBuffers>>,
    /// The cold section is being written.
    in_cold: bool,
    fault_open: Option<u32>,
    /// Record pushes of hole markers (the draft is a template's).
    pub(crate) with_holes: bool,
    /// Holes that the generator says it does without, a bit each.
    pub(crate) spared: u64,
    class: &'static Class,
    name: Name,
    owner: u64,
    /// Time-stamp count at which the draft was begun.
    began: u64,
    out_of_memory: bool,
}

impl Drop for Draft {
    fn drop(&mut self) {
        if let Some(notes) = self.notes.take() {
            draft_buffers::keep(notes, &mut self.code, &mut self.other);
        }
    }
}

impl Draft {
    /// An empty draft of a routine of `class`.
    pub fn new(class: &'static Class, name: impl Into<Name>) -> Draft {
        let began = now();
        let (code, other, notes) = draft_buffers::take();
        Draft {
            code,
            other,
            notes,
            in_cold: false,
            fault_open: None,
            with_holes: false,
            spared: 0,
            class,
            name: name.into(),
            owner: 0,
            began,
            out_of_memory: false,
        }
    }

    /// The notes; None when there is no memory for any.
    #[inline(always)]
    fn notes(&mut self) -> Option<&mut DraftBuffers> {
        if self.notes.is_none() {
            self.begin_notes();
        }
        self.notes.as_deref_mut()
    }

    #[cold]
    fn begin_notes(&mut self) {
        self.notes = block_alloc::try_box(const { DraftBuffers::new() });
    }

    /// Notes what `f` pushes, if there is memory for it.
    #[inline(always)]
    fn note(&mut self, f: impl FnOnce(&mut DraftBuffers) -> bool) {
        if !self.notes().is_some_and(f) {
            self.out_of_memory = true;
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

    /// Goes on in the cold section, or in the hot one; returns whether it was the cold one until now.
    pub fn turn(&mut self, cold: bool) -> bool {
        if cold != self.in_cold {
            core::mem::swap(&mut self.code, &mut self.other);
        }
        core::mem::replace(&mut self.in_cold, cold)
    }

    /// This place, to be [`found`](Self::found) again.
    pub fn here(&self) -> u32 {
        self.code.len() as u32 | if self.in_cold { COLD } else { 0 }
    }

    /// The end of the section that is not being written, to be [`found`](Self::found) again.
    pub fn there(&self) -> u32 {
        self.other.len() as u32 | if self.in_cold { 0 } else { COLD }
    }

    /// Offset in the sealed code of the place that [`here`](Self::here) or [`there`](Self::there) gave, once
    /// all is written.
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
    #[inline]
    pub fn label(&mut self) -> Label {
        if let Some(notes) = self.notes()
            && notes.labels.push(UNBOUND)
        {
            return Label(notes.labels.len() as u32 - 1);
        }
        self.out_of_memory = true;
        Label(0)
    }

    /// Bind `label` here; the same as `=>label` in `dynasm!`.
    pub fn bind(&mut self, label: Label) {
        self.dynamic_label(label);
    }

    /// `call` an absolute address within 2 GiB of the code space.
    pub fn call_abs(&mut self, address: impl Absolute) {
        self.extend(&[0xe8, 0, 0, 0, 0]);
        self.value_reloc(address, 4, 0, 2 | (REL_TO_ABS << 6));
    }

    /// `jmp` to an absolute address within 2 GiB of the code space.
    pub fn jmp_abs(&mut self, address: impl Absolute) {
        self.extend(&[0xe9, 0, 0, 0, 0]);
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
        self.note(|notes| notes.faults.push(fault));
    }

    /// Remember this place.
    pub fn mark(&self) -> Mark {
        let mark = Mark {
            code: self.code.len(),
            other: self.other.len(),
            ..Mark::default()
        };
        let Some(notes) = self.notes.as_deref() else {
            return mark;
        };
        Mark {
            labels: notes.labels.len(),
            later: notes.later.len(),
            waiting: notes.waiting.len(),
            locals: notes.locals.len(),
            globals: notes.globals.len(),
            placed: notes.placed.len(),
            faults: notes.faults.len(),
            holes: notes.holes.len(),
            ..mark
        }
    }

    /// Take back everything since `mark`, in the same section. The code since then may not have bound labels
    /// that the code before `mark` waits for, and its own labels are forgotten.
    pub fn rewind(&mut self, mark: Mark) {
        self.code.truncate(mark.code);
        self.other.truncate(mark.other);
        self.fault_open = None;
        let Some(notes) = self.notes.as_deref_mut() else {
            return;
        };
        debug_assert!(
            notes.waiting.len() >= mark.waiting || self.out_of_memory,
            "{}: rewound over a bound label",
            self.name
        );
        notes.labels.truncate(mark.labels);
        notes.later.truncate(mark.later);
        notes.waiting.truncate(mark.waiting);
        notes.locals.truncate(mark.locals);
        notes.globals.truncate(mark.globals);
        notes.placed.truncate(mark.placed);
        notes.faults.truncate(mark.faults);
        notes.holes.truncate(mark.holes);
        debug_assert!(
            self.out_of_memory || !self.has_bound_beyond(),
            "{}: rewound over a bound label",
            self.name
        );
    }

    /// Whether a label is bound behind what is written.
    fn has_bound_beyond(&self) -> bool {
        let beyond = |at: &u32| {
            let same = (at & COLD != 0) == self.in_cold;
            let section = if same { &self.code } else { &self.other };
            *at != UNBOUND && (at & !COLD) as usize > section.len()
        };
        let notes = self.notes.as_deref();
        notes.is_some_and(|notes| notes.labels.iter().any(beyond))
    }

    /// Finish: bind check, the sections joined, fault table. Panics on a generator's mistake.
    pub(crate) fn finish(&mut self) -> Result<Faults, OutOfCode> {
        self.complete()
    }

    /// The same, in its caller's frame.
    #[inline(always)]
    fn complete(&mut self) -> Result<Faults, OutOfCode> {
        if self.out_of_memory {
            return Err(OutOfCode);
        }
        self.turn(false);
        let behind = self.code.len() as u32;
        if !self.other.is_empty() && !self.code.extend(&self.other) {
            return Err(OutOfCode);
        }
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
        let Some(notes) = self.notes.as_deref_mut() else {
            return Ok(Faults::None);
        };
        for placed in notes.placed.iter_mut().filter(|p| p.at & COLD != 0) {
            placed.at = joined(placed.at, behind);
            if placed.subtract {
                // It counts from the field.
                placed.value += i64::from(COLD) - i64::from(behind);
            }
        }
        for hole in notes.holes.iter_mut() {
            hole.move_by(|at| joined(at, behind));
        }
        let (class, name) = (self.class, self.name);
        fill_in(&mut self.code, notes, behind, class, name)?;
        for fault in notes.faults.iter_mut() {
            fault.fixup = notes.labels[fault.fixup as usize];
            assert!(
                fault.fixup != UNBOUND,
                "{} {name}: a fix-up is not bound",
                class.name
            );
            for at in [&mut fault.start, &mut fault.end, &mut fault.fixup] {
                *at = joined(*at, behind);
            }
        }
        Ok(match &*notes.faults {
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
        let faults = self.complete()?;
        let space = linked().ok_or(OutOfCode)?;
        let entry = block_alloc::allocate(space, self.code.len())?;
        let placed = self.notes.as_deref().map_or(&[][..], |notes| &notes.placed);
        for placed in placed {
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

    /// Fills `field` with the place of a dynamic label.
    #[inline(never)]
    fn refer(&mut self, label: u32, field: Field, addend: i32) {
        if let Some(notes) = self.notes.as_deref_mut()
            && let Some(&target) = notes.labels.get(label as usize)
        {
            if target != UNBOUND && (target ^ field.at) & COLD == 0 {
                // Behind, in the section that is being written.
                let at = field.at & !COLD;
                let bytes = distance(field, field.at, target, addend);
                if field.kind == NEAR && store(&mut self.code, at, bytes) {
                    return;
                }
            } else if notes.later.has_room() {
                let noted = notes.later.push(Reference {
                    field,
                    target: label | LABEL,
                    addend,
                });
                debug_assert!(noted, "there is room");
                return;
            }
        }
        self.refer_otherwise(label, field, addend);
    }

    /// The same where the field is of another kind, or the list is full.
    #[inline(never)]
    fn refer_otherwise(&mut self, label: u32, field: Field, addend: i32) {
        let notes = self.notes.as_deref();
        match notes.and_then(|notes| notes.labels.get(label as usize)) {
            Some(&UNBOUND) => self.note(|notes| {
                let target = label | LABEL;
                notes.later.push(Reference {
                    field,
                    target,
                    addend,
                })
            }),
            Some(&target) => self.resolve(field, target, addend),
            None => self.out_of_memory = true,
        }
    }

    /// Fills `field` with a place that is known: now, if that can be.
    #[inline]
    fn resolve(&mut self, field: Field, target: u32, addend: i32) {
        let current = if self.in_cold { COLD } else { 0 };
        // Nearly all fields and their places are in the section that is being written.
        if ((target ^ current) | (field.at ^ current)) & COLD == 0
            && field.kind == NEAR
            && !self.out_of_memory
        {
            let bytes = distance(field, field.at, target, addend);
            if store(&mut self.code, field.at & !COLD, bytes) {
                return;
            }
        }
        self.resolve_otherwise(field, target, addend);
    }

    #[inline(never)]
    fn resolve_otherwise(&mut self, field: Field, target: u32, addend: i32) {
        if self.out_of_memory {
            return;
        }
        if (target ^ field.at) & COLD == 0 && field.relation() == RELATIVE {
            let here = (field.at & COLD != 0) == self.in_cold;
            let code = if here {
                &mut self.code
            } else {
                &mut self.other
            };
            let value = i64::from(target) + i64::from(addend) - i64::from(field.from());
            let at = field.at & !COLD;
            put(code, at, field.size(), value, self.class, self.name);
            return;
        }
        let reference = Reference {
            field,
            target,
            addend,
        };
        self.note(|notes| notes.later.push(reference));
    }

    fn place(&mut self, placed: Placed) {
        self.note(|notes| notes.placed.push(placed));
    }

    fn wait(&mut self, name: &'static str, global: bool, field: Field, addend: isize) {
        let waiting = Waiting {
            field,
            global,
            name,
            addend: addend as i32,
        };
        self.note(|notes| notes.waiting.push(waiting));
    }

    /// Local or global label `name` is bound here.
    fn arrived(&mut self, name: &'static str, global: bool) {
        let here = self.here();
        let mut i = 0;
        while let Some(notes) = self.notes.as_deref_mut()
            && let Some(&waiting) = notes.waiting.get(i)
        {
            if waiting.global == global && same(waiting.name, name) {
                notes.waiting.swap_remove(i);
                self.resolve(waiting.field, here, waiting.addend);
            } else {
                i += 1;
            }
        }
    }

    #[inline(always)]
    fn field(&self, field_offset: u8, ref_offset: u8, kind: u8) -> Field {
        Field {
            // A place outside the draft is refused when it is filled.
            at: self.here().wrapping_sub(u32::from(field_offset)),
            gap: field_offset.wrapping_sub(ref_offset),
            kind,
        }
    }

    /// Where global label `name` is bound.
    fn global(&self, name: &'static str) -> Option<u32> {
        let globals = &self.notes.as_deref()?.globals;
        globals.iter().find(|g| same(g.0, name)).map(|g| g.1)
    }

    fn note_hole(&mut self, hole: HoleUse) {
        self.note(|notes| notes.holes.push(hole));
    }

    #[inline]
    fn push_u32_raw(&mut self, value: u32) {
        self.extend(&value.to_le_bytes());
    }
}

/// Whether two labels have one name. Nearly always it is the same text in memory, or they differ at once.
#[inline(always)]
fn same(one: &'static str, other: &'static str) -> bool {
    one.len() == other.len() && (one.as_ptr() == other.as_ptr() || one.bytes().eq(other.bytes()))
}

/// Copy finished code to its place through the alias.
#[inline]
pub(crate) fn write(space: &Lent, entry: usize, code: &[u8]) {
    if code.len() > PAGE {
        return write_pages(space, entry, code);
    }
    // SAFETY: `entry..entry + len` was just allocated, within one page, so it is committed and the bytes are
    // ours alone.
    unsafe { space.write(entry, code.len(), |bytes| bytes.copy_from_slice(code)) };
}

/// The same page by page.
#[cold]
fn write_pages(space: &Lent, entry: usize, code: &[u8]) {
    for (n, page) in code.chunks(PAGE).enumerate() {
        // SAFETY: as in `write`; images that are larger than a page begin with one.
        unsafe {
            space.write(entry + n * PAGE, page.len(), |bytes| {
                bytes.copy_from_slice(page)
            })
        };
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
#[inline(always)]
pub(crate) fn record(
    space: &Lent,
    entry: usize,
    len: usize,
    origin: Origin,
    faults: Faults,
) -> Result<Sealed, OutOfCode> {
    let image = block_alloc::try_box_with(|| Image {
        limbo: TankLink::new(drop_image),
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
            block_alloc::free(space, entry, len);
            Err(OutOfCode)
        }
    }
}
