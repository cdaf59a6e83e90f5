//! The open places of templates, and the markers that stand for them.
//!
//! *Interface*: [`Hole`]; [`hole_in_imm32`], [`hole_in_imm64`] and [`hole_in_address`] tell which one a field
//! stands for.

/// Markers stand for holes while a template is assembled: base + hole * 64 Ki + 32 Ki + addend.
const MARK32: i64 = 0x5e00_0000;
const MARK64: i64 = 0x5ea1_ed00_0000_0000;
const STEP: i64 = 1 << 16;
/// Most holes of a template.
pub(crate) const MAX_HOLES: i64 = 64;

/// A key value that is known now ([`Hole::value`]) or that a template leaves open.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Hole(Kind);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Value(i64),
    Open(u8),
}

impl Hole {
    /// Hole number `number` of a template that is being assembled.
    pub(crate) const fn open(number: u8) -> Hole {
        Hole(Kind::Open(number))
    }

    /// Its number in the template, unless its value is known.
    pub(crate) const fn number(self) -> Option<u8> {
        match self.0 {
            Kind::Open(number) => Some(number),
            Kind::Value(_) => None,
        }
    }

    /// A known value: the generator then generates directly.
    pub const fn value(value: i64) -> Hole {
        Hole(Kind::Value(value))
    }

    /// For a 32-bit field, sign-extended by the instruction: an address in the top 2 GiB, a displacement, a
    /// constant.
    ///
    /// # Panics
    /// When a known value does not fit.
    pub fn imm32(self) -> i32 {
        match self.0 {
            Kind::Value(v) => match i32::try_from(v) {
                Ok(v) => v,
                Err(_) => panic!("{v:#x} does not fit a sign-extended 32-bit field"),
            },
            Kind::Open(n) => (MARK32 + i64::from(n) * STEP + STEP / 2) as i32,
        }
    }

    /// For a 64-bit field (`mov r64, QWORD hole.imm64()`).
    pub fn imm64(self) -> i64 {
        match self.0 {
            Kind::Value(v) => v,
            Kind::Open(n) => MARK64 + i64::from(n) * STEP + STEP / 2,
        }
    }
}

fn marked(value: i64, base: i64) -> Option<(u8, i64)> {
    let distance = value.wrapping_sub(base);
    (0..MAX_HOLES * STEP)
        .contains(&distance)
        .then(|| ((distance / STEP) as u8, distance % STEP - STEP / 2))
}

/// The hole that a 32-bit field has the marker of, and the addend to it.
pub(crate) fn hole_in_imm32(value: i32) -> Option<(u8, i64)> {
    marked(i64::from(value), MARK32)
}

/// The same of a 64-bit field.
pub(crate) fn hole_in_imm64(value: i64) -> Option<(u8, i64)> {
    marked(value, MARK64)
}

/// The same of a target that is written relatively: the marker of either width.
pub(crate) fn hole_in_address(value: i64) -> Option<(u8, i64)> {
    hole_in_imm64(value).or_else(|| marked(value, MARK32))
}
