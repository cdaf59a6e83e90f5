//! Upper: small letters of ASCII become capital ones.

use super::{Treatment, filter};
use crate::kit::assembly::Assembly;
use crate::kit::routine_env::RoutineError;
use codegen::dynasm;

/// The filter's treatment.
pub struct Capitals;

filter! {
    /// Turns small letters into capital ones
    Upper = "Upper", Capitals, spec (), make |()| Ok::<_, RoutineError>(Capitals)
}

impl Treatment for Capitals {
    fn change(&self, a: &mut Assembly) {
        dynasm!(a ; .arch x64
            ; lea eax, [rdi - i32::from(b'a')]
            ; cmp eax, BYTE 26
            ; jae >other
            ; sub edi, BYTE 32
            ; other:
        );
    }
}
