//! The format of a core file: ELF headers and notes.
//!
//! *Interface*: [`headers`], and functions that append one note each.

use alloc::vec::Vec;

use abi::errno::{Errno, Result};
use abi::layout::PAGE;
use abi::linux::*;
use vm::{AddressSpace, Prot};

use crate::process::Process;
use crate::process::signals::core_state::ThreadRegisters;
use vm::fallible::try_extend;

/// A part of memory.
pub(super) struct CoreSegment {
    /// Its first address.
    pub(super) start: usize,
    /// Its bytes.
    pub(super) length: usize,
    /// How many of them, from the first on, are in the file.
    pub(super) kept: usize,
    /// Rights.
    pub(super) prot: Prot,
    /// Pages that are not present are a file's, not zeros.
    pub(super) of_file: bool,
}

/// Bytes of the header of the file and of that of a segment.
const FILE_HEADER: usize = 64;
const SEGMENT_HEADER: usize = 56;
/// More segments have no number in the header.
const SEGMENTS_MAX: usize = 0xfffe;

/// Words of different sizes, little-endian, one behind the other.
#[derive(Default)]
struct Words(Vec<u8>);

impl Words {
    fn put(&mut self, bytes: &[u8]) -> Result<&mut Self> {
        try_extend(&mut self.0, bytes)?;
        Ok(self)
    }
    fn half(&mut self, word: u16) -> Result<&mut Self> {
        self.put(&word.to_le_bytes())
    }
    fn word(&mut self, word: u32) -> Result<&mut Self> {
        self.put(&word.to_le_bytes())
    }
    fn long(&mut self, word: u64) -> Result<&mut Self> {
        self.put(&word.to_le_bytes())
    }
    fn time(&mut self, ns: u64) -> Result<&mut Self> {
        let time = Timeval::from_ns(ns);
        self.put(bytemuck::bytes_of(&time))
    }
}

/// The headers of the file, in front of `notes` bytes of notes. ENOMEM, EFBIG.
pub(super) fn headers(segments: &[CoreSegment], notes: usize) -> Result<Vec<u8>> {
    const CORE: u16 = 4;
    const X86_64: u16 = 62;
    const LOAD: u32 = 1;
    const NOTE: u32 = 4;
    let count = segments.len() + 1;
    if count > SEGMENTS_MAX {
        return Err(Errno::EFBIG);
    }
    let mut h = Words::default();
    h.put(b"\x7fELF\x02\x01\x01\0\0\0\0\0\0\0\0\0")?;
    h.half(CORE)?.half(X86_64)?.word(1)?.long(0)?;
    h.long(FILE_HEADER as u64)?.long(0)?.word(0)?;
    h.half(FILE_HEADER as u16)?.half(SEGMENT_HEADER as u16)?;
    h.half(count as u16)?.half(0)?.half(0)?.half(0)?;

    let first = (FILE_HEADER + SEGMENT_HEADER * count) as u64;
    h.word(NOTE)?.word(0)?.long(first)?.long(0)?.long(0)?;
    h.long(notes as u64)?.long(0)?.long(4)?;
    let mut at = (first + notes as u64).next_multiple_of(PAGE as u64);
    for segment in segments {
        let bit = |has, bit| if segment.prot.contains(has) { bit } else { 0 };
        let rights = bit(Prot::READ, 4) | bit(Prot::WRITE, 2) | bit(Prot::EXEC, 1);
        h.word(LOAD)?.word(rights)?.long(at)?;
        h.long(segment.start as u64)?.long(0)?;
        h.long(segment.kept as u64)?.long(segment.length as u64)?;
        h.long(PAGE as u64)?;
        at += segment.kept as u64;
    }
    Ok(h.0)
}

/// A kind of note.
pub(super) struct CoreNote {
    kind: usize,
    name: &'static [u8],
}

impl CoreNote {
    /// A note type that all systems know.
    pub(super) const fn of(kind: usize) -> CoreNote {
        CoreNote {
            kind,
            name: b"CORE\0",
        }
    }

    /// Appends one with this content. ENOMEM.
    pub(super) fn put(&self, notes: &mut Vec<u8>, content: &[u8]) -> Result<()> {
        for word in [
            self.name.len() as u32,
            content.len() as u32,
            self.kind as u32,
        ] {
            try_extend(notes, &word.to_le_bytes())?;
        }
        for part in [self.name, content] {
            try_extend(notes, part)?;
            let gap = notes.len().next_multiple_of(4) - notes.len();
            try_extend(notes, &[0; 3][..gap])?;
        }
        Ok(())
    }
}

/// `struct elf_prstatus` of a thread.
pub(super) fn thread_status(
    notes: &mut Vec<u8>,
    process: &Process,
    stand: &ThreadRegisters,
    info: &Siginfo,
) -> Result<()> {
    let children = process.children_usage();
    let mut s = Words::default();
    s.word(info.signo as u32)?.word(info.code as u32)?.word(0)?;
    s.half(info.signo as u16)?.half(0)?;
    s.long(stand.pending)?.long(stand.blocked)?;
    for number in [stand.tid, process.ppid(), process.pgrp(), process.sid()] {
        s.word(number as u32)?;
    }
    s.time(stand.user_ns)?.time(stand.system_ns)?;
    s.time(children.user_ns)?.time(children.system_ns)?;
    s.put(bytemuck::bytes_of(&stand.registers))?;
    s.word(1)?.word(0)?;
    CoreNote::of(NT_PRSTATUS).put(notes, &s.0)
}

/// Its vector registers.
pub(super) fn vectors(notes: &mut Vec<u8>, stand: &ThreadRegisters) -> Result<()> {
    let (all, legacy) = crate::fp::image_bytes();
    CoreNote::of(NT_PRFPREG).put(notes, &stand.vectors[..legacy])?;
    if all > legacy {
        let note = CoreNote {
            kind: NT_X86_XSTATE,
            name: b"LINUX\0",
        };
        note.put(notes, &stand.vectors[..all])?;
    }
    Ok(())
}

/// `struct elf_prpsinfo`.
pub(super) fn process_info(
    notes: &mut Vec<u8>,
    process: &Process,
    space: &AddressSpace,
) -> Result<()> {
    const NAME: usize = 16;
    const ARGUMENTS: usize = 80;
    let cred = process.cred_here();
    let program = process.program();
    let mut i = Words::default();
    i.put(&[0, b'R', 0, process.nice() as u8])?.word(0)?;
    i.long(0x40_0000)?.word(cred.uid)?.word(cred.gid)?;
    for number in [process.pid, process.ppid(), process.pgrp(), process.sid()] {
        i.word(number as u32)?;
    }
    let mut name = [0; NAME];
    let comm = program.comm.as_bytes();
    let length = comm.len().min(NAME - 1);
    name[..length].copy_from_slice(&comm[..length]);
    i.put(&name)?;
    let mut arguments = [0; ARGUMENTS];
    let length = program.arguments.len().min(ARGUMENTS - 1);
    if space
        .read_at(program.arguments.start, &mut arguments[..length])
        .is_err()
    {
        arguments = [0; ARGUMENTS];
    }
    for byte in &mut arguments[..length] {
        if *byte == 0 {
            *byte = b' ';
        }
    }
    i.put(&arguments)?;
    CoreNote::of(NT_PRPSINFO).put(notes, &i.0)
}

/// Which parts of memory are files.
#[derive(Default)]
pub(super) struct CoreFiles {
    count: u64,
    places: Words,
    names: Vec<u8>,
}

impl CoreFiles {
    /// Adds one. ENOMEM.
    pub(super) fn add(&mut self, start: usize, end: usize, offset: u64, path: &str) -> Result<()> {
        self.count += 1;
        self.places.long(start as u64)?.long(end as u64)?;
        self.places.long(offset / PAGE as u64)?;
        try_extend(&mut self.names, path.as_bytes())?;
        try_extend(&mut self.names, b"\0")
    }

    /// The note.
    pub(super) fn put(&self, notes: &mut Vec<u8>) -> Result<()> {
        if self.count == 0 {
            return Ok(());
        }
        let mut content = Words::default();
        content.long(self.count)?.long(PAGE as u64)?;
        content.put(&self.places.0)?.put(&self.names)?;
        CoreNote::of(NT_FILE).put(notes, &content.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn segments_follow_each_other() {
        let segment = |start, length, kept| CoreSegment {
            start,
            length,
            kept,
            prot: Prot::RW,
            of_file: false,
        };
        let list = [
            segment(0x1000, 0x3000, 0x1000),
            segment(0x8000, 0x2000, 0x2000),
        ];
        let made = headers(&list, 100).unwrap();
        assert_eq!(made.len(), 64 + 3 * 56);
        let long = |at: usize| u64::from_le_bytes(made[at..at + 8].try_into().unwrap());
        assert_eq!(&made[..4], b"\x7fELF");
        assert_eq!((long(64 + 8), long(64 + 32)), (64 + 3 * 56, 100));
        assert_eq!((long(120 + 8), long(176 + 8)), (0x1000, 0x2000));
        assert_eq!((long(176 + 32), long(176 + 40)), (0x2000, 0x2000));
    }

    #[test]
    fn notes_are_aligned() {
        let mut notes = Vec::new();
        CoreNote::of(7).put(&mut notes, b"12345").unwrap();
        assert_eq!(notes.len(), 12 + 8 + 8);
        assert_eq!(&notes[12..20], b"CORE\0\0\0\0");
    }
}
