//! Templates: code assembled once, with holes for key values (dissertation, section 3.1).
//!
//! *Interface*: declare `static T: Template<N>` from a class and a generator over `N` [`Hole`]s;
//! [`Template::instantiate`] copies the code and fills the holes. The generator is the same function that
//! generates directly when given values ([`Hole::value`]), so the two ways are always the same code; only
//! holes must stand in 32- or 64-bit fields.
//!
//! Progress: lock-free. Of two that assemble the same template at once, one's is published and the other's
//! freed; filling touches only the new routine's own bytes.
//!
//! ```ignore
//! static CLASS: Class = Class::new("counter.add");
//! fn add(d: &mut Draft, [word]: &[Hole; 1]) {
//!     dynasm!(d ; .arch x64 ; lock add [word.imm32()], rdi ; ret)
//! }
//! static ADD: Template<1> = Template::new(&CLASS, add);
//! let sealed = ADD.instantiate("add", 0, &[address])?;
//! ```

use alloc::boxed::Box;
use alloc::vec::Vec;
use core::ptr;
use core::sync::atomic::{AtomicPtr, Ordering};

use crate::block_alloc;
use crate::draft::fields::apply;
use crate::draft::{Absolute, Draft, Origin, record, write};
use crate::draft_buffers::{HoleUse, Placed};
use crate::fault_injection::refused;
use crate::hole::{Hole, MAX_HOLES};
use crate::image::{Class, Fault, Faults, Name, now};
use crate::routine::Sealed;
use crate::space::{Lent, OutOfCode, PAGE, linked};

impl Absolute for Hole {
    /// As a target of `call extern`, `jmp extern`, [`Draft::call_abs`], [`Draft::jmp_abs`].
    fn absolute(self) -> i64 {
        self.imm64()
    }
}

impl Draft {
    /// Say that this variant of a generator has no use for `hole`, which a template otherwise takes for a
    /// mistake.
    pub fn spare(&mut self, hole: Hole) {
        if let Some(n) = hole.number() {
            self.spared |= 1 << n;
        }
    }
}

/// A field of four bytes that a value fills, together with a number that is known.
struct Spot {
    at: u32,
    /// Of the value; not used where none is.
    hole: u32,
    addend: i64,
}

/// Many fields of four bytes that get one value, each with its own number added.
struct Same {
    hole: u32,
    /// The lowest value that all of them hold, and how far above it the highest is.
    lowest: i64,
    span: u64,
    /// Where each is, and its number.
    spots: Box<[(u32, i32)]>,
}

/// So many fields are many.
const MANY: usize = 4;

impl Same {
    /// The fields of `hole` among `all`, which are so many.
    fn new(hole: u8, all: &[HoleUse]) -> Option<Same> {
        let these = all.iter().filter(|u| is_plain(u) && u.hole == hole);
        let (mut least, mut most) = (0, 0);
        for field in these.clone() {
            least = i64::from(field.addend).min(least);
            most = i64::from(field.addend).max(most);
        }
        let lowest = i64::from(i32::MIN) - least;
        Some(Same {
            hole: hole.into(),
            lowest,
            span: (i64::from(i32::MAX) - most - lowest) as u64,
            spots: list(these.map(|u| (u.at, u.addend)))?,
        })
    }
}

/// A list; None when the heap is empty.
fn list<T>(items: impl Iterator<Item = T> + Clone) -> Option<Box<[T]>> {
    let mut list = Vec::new();
    if refused() || list.try_reserve_exact(items.clone().count()).is_err() {
        return None;
    }
    list.extend(items);
    Some(list.into_boxed_slice())
}

/// Whether the field is one of four bytes that gets the value itself.
fn is_plain(field: &HoleUse) -> bool {
    field.size == 4 && !field.branch
}

/// The assembled form. Kept for ever once published.
struct Assembled {
    code: Box<[u8]>,
    same: Box<[Same]>,
    /// They get the value itself,
    plain: Box<[Spot]>,
    /// its distance from the entry,
    near: Box<[Spot]>,
    /// and the distance of what is known from the entry.
    fixed: Box<[Spot]>,
    /// Other fields, which few templates have.
    wide: Box<[HoleUse]>,
    placed: Box<[Placed]>,
    faults: Box<[Fault]>,
}

impl Assembled {
    /// None when the heap is empty.
    fn new(
        code: &[u8],
        holes: &[HoleUse],
        placed: &[Placed],
        faults: &[Fault],
    ) -> Option<Assembled> {
        let of_hole = |u: &HoleUse| Spot {
            at: u.at,
            hole: u.hole.into(),
            addend: i64::from(u.addend) - if u.branch { i64::from(u.from) } else { 0 },
        };
        let of_place = |placed: &Placed| Spot {
            at: placed.at,
            hole: 0,
            addend: placed.value,
        };
        let is_near = |placed: &&Placed| placed.size == 4 && placed.subtract;
        let is_branch = |u: &&HoleUse| u.size == 4 && u.branch;
        let mut fields = [0; MAX_HOLES as usize];
        for field in holes.iter().filter(|u| is_plain(u)) {
            fields[usize::from(field.hole)] += 1;
        }
        let mut many = Vec::new();
        let count = fields.iter().filter(|fields| **fields >= MANY).count();
        if refused() || many.try_reserve_exact(count).is_err() {
            return None;
        }
        for (hole, _) in (0..).zip(&fields).filter(|(_, fields)| **fields >= MANY) {
            many.push(Same::new(hole, holes)?);
        }
        let is_alone = |u: &&HoleUse| is_plain(u) && fields[usize::from(u.hole)] < MANY;
        Some(Assembled {
            code: list(code.iter().copied())?,
            same: many.into_boxed_slice(),
            plain: list(holes.iter().filter(is_alone).map(of_hole))?,
            near: list(holes.iter().filter(is_branch).map(of_hole))?,
            fixed: list(placed.iter().filter(is_near).map(of_place))?,
            wide: list(holes.iter().filter(|u| u.size != 4).copied())?,
            placed: list(placed.iter().filter(|p| !is_near(p)).copied())?,
            faults: list(faults.iter().copied())?,
        })
    }

    /// The code, with `values` in its fields, to run at `entry`. False: a value is out of its field's reach.
    ///
    /// # Safety
    /// There is a value for each hole.
    #[inline(always)]
    unsafe fn fill(&self, code: &mut [u8], entry: i64, values: *const i64) -> bool {
        code.copy_from_slice(&self.code);
        let start = code.as_mut_ptr();
        let mut beyond = 0;
        // SAFETY: `code` is as long as the template's, or copying panics; `assembled` saw that the fields lie
        // within, and that their holes are the template's.
        unsafe {
            let value = |spot: &Spot| (*values.add(spot.hole as usize)).wrapping_add(spot.addend);
            let mut put = |spot: &Spot, value: i64| {
                beyond |= value ^ i64::from(value as i32);
                start
                    .add(spot.at as usize)
                    .cast::<i32>()
                    .write_unaligned(value as i32);
            };
            for same in &self.same {
                let value = *values.add(same.hole as usize);
                if value.wrapping_sub(same.lowest) as u64 > same.span {
                    return false;
                }
                for &(at, addend) in &same.spots {
                    start
                        .add(at as usize)
                        .cast::<i32>()
                        .write_unaligned((value as i32).wrapping_add(addend));
                }
            }
            self.plain.iter().for_each(|spot| put(spot, value(spot)));
            self.near
                .iter()
                .for_each(|spot| put(spot, value(spot).wrapping_sub(entry)));
            self.fixed
                .iter()
                .for_each(|spot| put(spot, spot.addend.wrapping_sub(entry)));
            for field in &self.wide {
                let value = *values.add(field.hole as usize);
                start
                    .add(field.at as usize)
                    .cast::<i64>()
                    .write_unaligned(value.wrapping_add(i64::from(field.addend)));
            }
        }
        beyond == 0
    }
}

/// The function that emits the code of a template.
enum Generator<const N: usize> {
    One(fn(&mut Draft, &[Hole; N])),
    Variant(fn(&mut Draft, &[Hole; N], u8), u8),
}

/// Code with `N` holes, assembled at its first use.
pub struct Template<const N: usize> {
    class: &'static Class,
    generator: Generator<N>,
    assembled: AtomicPtr<Assembled>,
}

impl<const N: usize> Template<N> {
    /// A template of what `generate` emits. At most 64 holes.
    pub const fn new(class: &'static Class, generate: fn(&mut Draft, &[Hole; N])) -> Template<N> {
        Self::by(class, Generator::One(generate))
    }

    /// The same for a generator of several variants: other code, which a value that is known here chooses.
    pub const fn of_variant(
        class: &'static Class,
        generate: fn(&mut Draft, &[Hole; N], u8),
        variant: u8,
    ) -> Template<N> {
        Self::by(class, Generator::Variant(generate, variant))
    }

    const fn by(class: &'static Class, generator: Generator<N>) -> Template<N> {
        assert!(N as i64 <= MAX_HOLES);
        Template {
            class,
            generator,
            assembled: AtomicPtr::new(ptr::null_mut()),
        }
    }

    fn emit(&self, draft: &mut Draft, holes: &[Hole; N]) {
        match self.generator {
            Generator::One(generate) => generate(draft, holes),
            Generator::Variant(generate, variant) => generate(draft, holes, variant),
        }
    }

    fn assembled(&self) -> Result<&'static Assembled, OutOfCode> {
        // SAFETY: published below, never freed.
        if let Some(ready) = unsafe { self.assembled.load(Ordering::Acquire).as_ref() } {
            return Ok(ready);
        }
        let mut draft = Draft::new(self.class, "template");
        draft.with_holes = true;
        let holes = core::array::from_fn(|n| Hole::open(n as u8));
        self.emit(&mut draft, &holes);
        let faults = draft.finish()?;
        let notes = draft.notes.as_deref();
        let (holes, placed): (&[HoleUse], &[Placed]) = notes
            .map_or_else(Default::default, |notes| {
                (&notes.holes[..], &notes.placed[..])
            });
        for n in 0..N {
            let used = holes.iter().any(|u| usize::from(u.hole) == n);
            assert!(
                used || draft.spared & 1 << n != 0,
                "{}: hole {n} is in no 32- or 64-bit field",
                self.class.name
            );
        }
        let len = draft.code.len();
        let inside = |at: u32, size: u8| at as usize + usize::from(size) <= len;
        assert!(
            holes.iter().all(|u| inside(u.at, u.size))
                && placed.iter().all(|p| inside(p.at, p.size)),
            "{}: a hole outside the code",
            self.class.name
        );
        assert!(
            holes.iter().all(|u| usize::from(u.hole) < N),
            "{}: a hole that the template has not",
            self.class.name
        );
        let new = Assembled::new(&draft.code, holes, placed, faults.as_slice())
            .and_then(block_alloc::try_box)
            .map(Box::into_raw)
            .ok_or(OutOfCode)?;
        match self.assembled.compare_exchange(
            ptr::null_mut(),
            new,
            Ordering::AcqRel,
            Ordering::Acquire,
        ) {
            // SAFETY: published just now, never freed.
            Ok(_) => Ok(unsafe { &*new }),
            Err(other) => {
                // SAFETY: ours was never published; the other is never freed.
                unsafe {
                    drop(Box::from_raw(new));
                    Ok(&*other)
                }
            }
        }
    }

    /// One more routine: copy the code, fill the holes with `values`.
    ///
    /// # Errors
    /// [`OutOfCode`] when addresses, frames or heap are exhausted, or no code space is linked.
    ///
    /// # Panics
    /// When a value does not fit its field.
    pub fn instantiate(
        &self,
        name: impl Into<Name>,
        owner: u64,
        values: &[i64; N],
    ) -> Result<Sealed, OutOfCode> {
        let name = name.into();
        let template = self.assembled()?;
        let began = now();
        let space = linked().ok_or(OutOfCode)?;
        let len = template.code.len();
        let entry = block_alloc::allocate(space, len)?;
        if len <= PAGE {
            let fill = |code: &mut [u8]| self.fill(template, code, entry, values, name);
            // SAFETY: allocated just now within one committed page, and nobody else's.
            unsafe { space.write(entry, len, fill) };
        } else if !self.write_pages(space, template, entry, values, name) {
            block_alloc::free(space, entry, len);
            return Err(OutOfCode);
        }
        let faults = if template.faults.is_empty() {
            Faults::None
        } else {
            Faults::Shared(&template.faults)
        };
        let origin = Origin {
            class: self.class,
            name,
            owner,
            began,
        };
        record(space, entry, len, origin, faults)
    }

    /// Makes `code`, which is as long as the template's, the routine at `entry`.
    #[inline(always)]
    fn fill(
        &self,
        template: &Assembled,
        code: &mut [u8],
        entry: usize,
        values: &[i64; N],
        name: Name,
    ) {
        // SAFETY: the array has a value for each hole, and a copy of another length panics.
        let fits = unsafe { template.fill(code, entry as i64, values.as_ptr()) };
        if !fits {
            self.out_of_reach(name, entry, values);
        }
        for placed in &template.placed {
            apply(code, placed, entry, self.class, name);
        }
    }

    /// A routine that is larger than a page is made beside its place. False when the heap is empty.
    #[cold]
    fn write_pages(
        &self,
        space: &Lent,
        template: &Assembled,
        entry: usize,
        values: &[i64; N],
        name: Name,
    ) -> bool {
        let len = template.code.len();
        let mut code = Vec::new();
        if refused() || code.try_reserve_exact(len).is_err() {
            return false;
        }
        code.resize(len, 0);
        self.fill(template, &mut code, entry, values, name);
        write(space, entry, &code);
        true
    }

    #[cold]
    fn out_of_reach(&self, name: Name, entry: usize, values: &[i64; N]) -> ! {
        panic!(
            "{} {name}: one of {values:x?} is out of the reach of its hole, from {entry:#x}",
            self.class.name
        )
    }

    /// The same routine generated directly, for comparison and for values that choose other code.
    ///
    /// # Errors
    /// As [`Draft::seal`].
    pub fn generate(
        &self,
        name: impl Into<Name>,
        owner: u64,
        values: &[i64; N],
    ) -> Result<Sealed, OutOfCode> {
        let mut draft = Draft::new(self.class, name);
        draft.owner(owner);
        self.emit(&mut draft, &values.map(Hole::value));
        draft.seal()
    }
}
