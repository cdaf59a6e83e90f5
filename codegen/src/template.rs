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

use crate::blocks;
use crate::draft::{Absolute, Draft, Origin, apply, record, write};
use crate::hole::{Hole, MAX_HOLES};
use crate::image::{Class, Fault, Faults, Name, now};
use crate::notes::{HoleUse, Placed};
use crate::refusal::refused;
use crate::routine::Sealed;
use crate::space::{OutOfCode, PAGE, linked};

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

#[cold]
fn out_of_reach(class: &Class, name: Name, field: &HoleUse, value: i64) -> ! {
    panic!(
        "{} {name}: {value:#x} is out of the reach of hole {}",
        class.name, field.hole
    )
}

/// The assembled form. Kept for ever once published.
struct Assembled {
    code: Box<[u8]>,
    placed: Box<[Placed]>,
    holes: Box<[HoleUse]>,
    faults: Box<[Fault]>,
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
        let inside = |u: &HoleUse| u.at as usize + usize::from(u.size) <= draft.code.len();
        assert!(
            holes.iter().all(inside),
            "{}: a hole outside the code",
            self.class.name
        );
        let new = Box::into_raw(
            blocks::try_box(Assembled {
                code: Box::from(&*draft.code),
                placed: Box::from(placed),
                holes: Box::from(holes),
                faults: faults.as_slice().into(),
            })
            .ok_or(OutOfCode)?,
        );
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
        let entry = blocks::allocate(space, len)?;
        let fill = |code: &mut [u8]| {
            code.copy_from_slice(&template.code);
            for placed in &template.placed {
                apply(code, placed, entry, self.class, name);
            }
            for field in &template.holes {
                let mut value = values[field.hole as usize].wrapping_add(i64::from(field.addend));
                if field.branch {
                    value = value.wrapping_sub((entry as i64).wrapping_add(i64::from(field.from)));
                }
                // SAFETY: `assembled` saw that the field lies within the code.
                let at = unsafe { code.as_mut_ptr().add(field.at as usize) };
                if field.size == 8 {
                    // SAFETY: as above.
                    unsafe { at.cast::<i64>().write_unaligned(value) };
                } else if let Ok(value) = i32::try_from(value) {
                    // SAFETY: as above.
                    unsafe { at.cast::<i32>().write_unaligned(value) };
                } else {
                    out_of_reach(self.class, name, field, value);
                }
            }
        };
        if len <= PAGE {
            // SAFETY: allocated just now within one committed page, and nobody else's.
            unsafe { space.write(entry, len, &mut |code| fill(code)) };
        } else {
            let mut code = Vec::new();
            if refused() || code.try_reserve_exact(len).is_err() {
                blocks::free(space, entry, len);
                return Err(OutOfCode);
            }
            code.resize(len, 0);
            fill(&mut code);
            write(space, entry, &code);
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
