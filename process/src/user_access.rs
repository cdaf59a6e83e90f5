//! Access to user memory in generated code.
//!
//! *Interface*: [`open`] and [`close`] emit the instructions around it. No thread sleeps or is preempted
//! between them, and a fault leads to code that closes it.

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
