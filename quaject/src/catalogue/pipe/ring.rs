//! The small generators that both ends of a pipe share: the code for the ring.

use super::framing::HEADER;
use crate::kit::emit;
use crate::kit::variant::Variant;
use codegen::{Draft, dynasm};

/// Which of a copy's pointers walks through the ring, or where a single byte's place is wanted.
#[derive(Clone, Copy)]
pub(super) enum Index {
    Eax,
    /// The source: the reading end.
    Esi,
    /// The target: the writing end.
    Edi,
}

/// One end's counter and the ring.
#[derive(Clone, Copy)]
pub(super) struct Ring {
    /// Address of the counter that the end moves.
    pub counter: i32,
    /// Address of the first byte.
    pub bytes: i32,
    /// Bytes, a power of two.
    pub size: i32,
}

impl Ring {
    fn mask(self) -> i32 {
        self.size - 1
    }

    /// Loads the counter's place in the ring: for the usual ring of 64 KiB its low half.
    pub fn load_index(self, d: &mut Draft, to: Index) {
        let (counter, mask) = (self.counter, self.mask());
        match (mask, to) {
            (0xffff, Index::Eax) => dynasm!(d ; .arch x64 ; movzx eax, WORD [counter]),
            (0xffff, Index::Esi) => dynasm!(d ; .arch x64 ; movzx esi, WORD [counter]),
            (0xffff, Index::Edi) => dynasm!(d ; .arch x64 ; movzx edi, WORD [counter]),
            (_, Index::Eax) => dynasm!(d ; .arch x64 ; mov eax, [counter] ; and eax, mask),
            (_, Index::Esi) => dynasm!(d ; .arch x64 ; mov esi, [counter] ; and esi, mask),
            (_, Index::Edi) => dynasm!(d ; .arch x64 ; mov edi, [counter] ; and edi, mask),
        }
    }

    /// Copies edx bytes that begin `skip` bytes behind the counter's place and go round the ring's end; eax =
    /// the last one's end behind the ring's start, which is more than its size.
    pub fn copy_round(self, d: &mut Draft, index: Index, skip: i32) {
        let Ring {
            counter,
            bytes,
            size,
        } = self;
        dynasm!(d ; .arch x64 ; mov ecx, edx ; sub eax, size ; sub ecx, eax);
        emit::copy_ecx(d);
        dynasm!(d ; .arch x64 ; mov ecx, [counter]);
        if skip != 0 {
            dynasm!(d ; .arch x64 ; add ecx, skip);
        }
        dynasm!(d ; .arch x64 ; and ecx, self.mask() ; lea ecx, [rcx + rdx - size]);
        match index {
            Index::Edi => dynasm!(d ; .arch x64 ; mov rdi, bytes),
            _ => dynasm!(d ; .arch x64 ; mov rsi, bytes),
        }
        emit::copy_ecx(d);
    }

    /// Moves the counter by rdx. With several CPUs also a full barrier, before the guard is looked at.
    pub fn publish(self, d: &mut Draft, v: Variant) {
        let counter = self.counter;
        if v.several_cpus {
            dynasm!(d ; .arch x64 ; lock add [counter], rdx);
        } else {
            dynasm!(d ; .arch x64 ; add [counter], rdx);
        }
    }

    /// Moves the counter past a message of rcx bytes. Changes rcx.
    pub fn publish_message(self, d: &mut Draft, v: Variant) {
        let (counter, whole) = (self.counter, -(HEADER as i32));
        dynasm!(d ; .arch x64 ; add ecx, 2 * HEADER as i32 - 1 ; and ecx, whole);
        if v.several_cpus {
            dynasm!(d ; .arch x64 ; lock add [counter], rcx);
        } else {
            dynasm!(d ; .arch x64 ; add [counter], rcx);
        }
    }
}
