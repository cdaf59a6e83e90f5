//! SMAP in generated code: the instructions around an access to user memory.
//!
//! *Interface*: [`open`] emits `stac` and [`close`] `clac`, where the processor has SMAP. No thread sleeps or
//! is preempted between them, and a fault leads to code that closes it. For the copies that Rust code makes,
//! see `vm/src/user.rs`.

use codegen::{Draft, dynasm};

pub(crate) fn open(d: &mut Draft) {
    if machine::features::get().smap() {
        dynasm!(d ; .arch x64 ; stac);
    }
}

pub(crate) fn close(d: &mut Draft) {
    if machine::features::get().smap() {
        dynasm!(d ; .arch x64 ; clac);
    }
}
