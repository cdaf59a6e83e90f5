//! The code that `dynasm!` becomes: bytes, labels and references to them.
//!
//! *Interface*: the methods that the macro calls; generators write `dynasm!` lines.

use super::fields::{COLD, REL_TO_ABS, UNBOUND, put};
use super::{Absolute, Draft, Label, same};
use crate::draft_buffers::{HoleUse, Placed};
use crate::hole::{hole_in_address, hole_in_imm32, hole_in_imm64};

/// The functions that `dynasm!` expands to. Public because the macro needs it; generators write `dynasm!`
/// lines.
#[doc(hidden)]
impl Draft {
    #[inline]
    pub fn extend(&mut self, bytes: &[u8]) {
        if !self.code.extend(bytes) {
            self.out_of_memory = true;
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
            self.note_hole(HoleUse::imm32(self.here(), hole, addend));
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
            self.note_hole(HoleUse::imm64(self.here(), hole, addend));
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
        self.note(|notes| notes.locals.push((name, here)));
        self.arrived(name, false);
    }

    pub fn global_label(&mut self, name: &'static str) {
        let here = self.here();
        assert!(
            self.out_of_memory || self.global(name).is_none(),
            "{} {}: label {name} bound twice",
            self.class.name,
            self.name
        );
        self.note(|notes| notes.globals.push((name, here)));
        self.arrived(name, true);
    }

    pub fn dynamic_label(&mut self, label: Label) {
        let here = self.here();
        let labels = self.notes.as_deref_mut().map(|notes| &mut notes.labels);
        let Some(place) = labels.and_then(|labels| labels.get_mut(label.0 as usize)) else {
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
        self.wait(name, false, field, addend);
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
        let notes = self.notes.as_deref();
        let bound = notes.and_then(|notes| notes.locals.iter().rev().find(|l| same(l.0, name)));
        let Some(&(_, target)) = bound else {
            assert!(
                self.out_of_memory,
                "{} {}: label {name} is not bound before its use",
                self.class.name, self.name
            );
            return;
        };
        self.resolve(field, target, addend as i32);
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
        match self.global(name) {
            Some(target) => self.resolve(field, target, addend as i32),
            None => self.wait(name, true, field, addend),
        }
    }

    #[inline]
    pub fn dynamic_reloc(&mut self, label: Label, addend: isize, field: u8, from: u8, kind: u8) {
        let field = self.field(field, from, kind);
        self.refer(label.0, field, addend as i32);
    }

    pub fn value_reloc(&mut self, target: impl Absolute, field: u8, from: u8, kind: u8) {
        let field = self.field(field, from, kind);
        let target = target.absolute();
        match field.relation() {
            REL_TO_ABS => {
                if self.with_holes
                    && let Some((hole, addend)) = hole_in_address(target)
                {
                    assert!(
                        field.size() == 4,
                        "{} {}: a hole needs a 32-bit branch",
                        self.class.name,
                        self.name
                    );
                    self.note_hole(HoleUse::rel32(field.at, field.from(), hole, addend));
                    return;
                }
                let value = target.wrapping_sub(i64::from(field.from()));
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
                field.at & !COLD,
                field.size(),
                target,
                self.class,
                self.name,
            ),
        }
    }
}
