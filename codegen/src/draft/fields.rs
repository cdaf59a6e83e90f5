//! The fields of code that wait for a place: what is written into them, when it is known.
//!
//! *Interface*: [`fill_in`] for labels that a draft has, [`apply`] for what waits for the final address,
//! [`put`] for a value that is there.

use crate::draft_buffers::{DraftBuffers, Field, Placed, Reference};
use crate::image::{Class, Name};
use crate::space::OutOfCode;

/// The place of a label that is not bound.
pub(super) const UNBOUND: u32 = u32::MAX;
/// Marks offsets in the cold section, until the sections are joined.
pub(super) const COLD: u32 = 1 << 30;
/// Marks the number of a dynamic label, where else an offset stands.
pub(super) const LABEL: u32 = 1 << 31;

/// dynasm's `RelocationKind`.
pub(super) const RELATIVE: u8 = 0;
pub(super) const ABS_TO_REL: u8 = 1;
pub(super) const REL_TO_ABS: u8 = 2;
/// A relative field of four bytes.
pub(super) const NEAR: u8 = 2 | RELATIVE << 6;

/// Where what was written at `at` stands when `behind` bytes are in front of the cold section.
#[inline(always)]
pub(super) fn joined(at: u32, behind: u32) -> u32 {
    let moved = at.wrapping_add(behind.wrapping_sub(COLD));
    if at & COLD == 0 { at } else { moved }
}

/// Fills the fields of `code` that waited until all was written.
pub(super) fn fill_in(
    code: &mut [u8],
    notes: &mut DraftBuffers,
    behind: u32,
    class: &Class,
    name: Name,
) -> Result<(), OutOfCode> {
    let mut bound = notes.waiting.is_empty();
    let labels = &notes.labels[..];
    for reference in notes.later.iter() {
        let Reference { field, target, .. } = *reference;
        let target = if target & LABEL == 0 {
            target
        } else {
            labels[(target & !LABEL) as usize]
        };
        if target == UNBOUND {
            bound = false;
            continue;
        }
        let [at, target] = [field.at, target].map(|at| joined(at, behind));
        // Nearly all. Places are far apart by less than such a field holds.
        if field.kind == NEAR {
            let filled = store(code, at, distance(field, at, target, reference.addend));
            debug_assert!(filled, "{} {name}: a field outside the code", class.name);
            continue;
        }
        let value = i64::from(target) + i64::from(reference.addend);
        match field.relation() {
            RELATIVE => {
                let value = value - i64::from(at) - i64::from(field.gap);
                put(code, at, field.size(), value, class, name);
            }
            ABS_TO_REL => {
                let placed = Placed {
                    at,
                    size: field.size() as u8,
                    subtract: false,
                    value,
                };
                if !notes.placed.push(placed) {
                    return Err(OutOfCode);
                }
            }
            _ => panic!("{} {name}: a label cannot be absolute", class.name),
        }
    }
    assert!(
        bound,
        "{} {name}: a label is used but not bound",
        class.name
    );
    Ok(())
}

/// The contents of a field of kind `NEAR` at `at` for the place `target`.
#[inline(always)]
pub(super) fn distance(field: Field, at: u32, target: u32, addend: i32) -> [u8; 4] {
    let from = at.wrapping_add(field.gap.into());
    let value = target.wrapping_add_signed(addend).wrapping_sub(from);
    value.to_le_bytes()
}

/// Store `value` into a field of `size` bytes, which must hold it.
#[inline]
pub(crate) fn put(code: &mut [u8], at: u32, size: usize, value: i64, class: &Class, name: Name) {
    // Nearly all fields have four bytes. With its length known each is one store.
    if size == 4
        && let Ok(value) = i32::try_from(value)
        && store(code, at, value.to_le_bytes())
    {
        return;
    }
    put_other(code, at, size, value, class, name);
}

#[inline(never)]
fn put_other(code: &mut [u8], at: u32, size: usize, value: i64, class: &Class, name: Name) {
    let fits = match size {
        4 => false,
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
#[inline(always)]
pub(super) fn store<const N: usize>(code: &mut [u8], at: u32, bytes: [u8; N]) -> bool {
    let there = (at as usize).wrapping_add(N) <= code.len();
    if there {
        // SAFETY: so many bytes of the code are there.
        unsafe {
            code.as_mut_ptr()
                .add(at as usize)
                .cast::<[u8; N]>()
                .write(bytes)
        };
    }
    there
}

/// Fill in a field that waited for the final address.
#[inline]
pub(crate) fn apply(code: &mut [u8], placed: &Placed, entry: usize, class: &Class, name: Name) {
    let value = if placed.subtract {
        placed.value.wrapping_sub(entry as i64)
    } else {
        placed.value.wrapping_add(entry as i64)
    };
    put(code, placed.at, placed.size as usize, value, class, name);
}
