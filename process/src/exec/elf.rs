//! Reading an ELF64 program's headers, and nothing else of it.
//!
//! *Interface*: [`table`](fn@table) locates the program headers, [`parse`] turns them into an [`ElfImage`]:
//! the parts of the file with their addresses, and how the program starts. It touches no memory but the bytes
//! given, so every check can be tested on the host. All numbers in an [`ElfImage`] are checked: the entry
//! lies in them, segments are in order, do not wrap, are congruent to their file offsets, and lie below the
//! end of user memory.
//!
//! Source: System V ABI, chapters 4 and 5; decoding by the `elf` crate.

use abi::errno::{Errno, Result};
use abi::layout::{PAGE, USER_END, USER_START, page_ceil, page_floor};
use alloc::vec::Vec;
use elf::endian::LittleEndian;
use elf::file::{Class, FileHeader};
use elf::segment::SegmentTable;
use vm::fallible::try_push;

/// The most program headers that are accepted.
const MAX_HEADERS: usize = 128;
/// Bytes of one program header.
const ENTRY: usize = 56;

/// One loadable segment; bounds not yet rounded to pages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ElfSegment {
    /// Address of the first byte, relative to the load bias.
    pub vaddr: usize,
    /// Bytes in memory.
    pub memsz: usize,
    /// Offset of its bytes in the file; same offset within a page as `vaddr`.
    pub offset: u64,
    /// Bytes from the file; at most `memsz`.
    pub filesz: usize,
    /// `PROT_READ | PROT_WRITE | PROT_EXEC` as the header says.
    pub prot: u32,
}

/// The requirements of a program file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ElfImage {
    /// May be loaded anywhere (`ET_DYN`).
    pub relocatable: bool,
    /// First instruction, relative to the load bias.
    pub entry: usize,
    /// The segments to map, by rising address.
    pub segments: Vec<ElfSegment>,
    /// Address of the program headers in memory (relative to the bias), for `AT_PHDR`; 0 when they are not
    /// loaded.
    pub phdr: usize,
    /// How many program headers there are.
    pub phnum: usize,
    /// The interpreter's path in the file: offset and length with its NUL.
    pub interpreter: Option<(u64, usize)>,
    /// The program asks for an executable stack.
    pub executable_stack: bool,
}

impl ElfImage {
    /// First page and end of all segments, page-rounded and relative to the bias.
    pub fn span(&self) -> (usize, usize) {
        let first = self.segments.first().map_or(0, |s| page_floor(s.vaddr));
        let last = self.segments.last().map_or(0, |s| s.vaddr + s.memsz);
        (first, page_ceil(last).unwrap_or(USER_END))
    }
}

fn bad<E>(_: E) -> Errno {
    Errno::ENOEXEC
}

fn require(holds: bool) -> Result<()> {
    if holds { Ok(()) } else { Err(Errno::ENOEXEC) }
}

/// The program headers in a file that starts with `head`: offset and length in bytes. ENOEXEC when it is no
/// x86-64 program.
pub fn table(head: &[u8]) -> Result<(u64, usize)> {
    let header = header(head)?;
    let length = header.e_phnum as usize * ENTRY;
    header
        .e_phoff
        .checked_add(length as u64)
        .ok_or(Errno::ENOEXEC)?;
    Ok((header.e_phoff, length))
}

fn header(head: &[u8]) -> Result<FileHeader<LittleEndian>> {
    require(head.len() >= 64)?;
    let ident = elf::file::parse_ident::<LittleEndian>(&head[..16]).map_err(bad)?;
    require(ident.1 == Class::ELF64)?;
    let header = FileHeader::parse_tail(ident, &head[16..64]).map_err(bad)?;
    require(header.e_machine == elf::abi::EM_X86_64)?;
    require(header.e_type == elf::abi::ET_EXEC || header.e_type == elf::abi::ET_DYN)?;
    require(header.e_phentsize as usize == ENTRY)?;
    require((1..=MAX_HEADERS).contains(&(header.e_phnum as usize)))?;
    Ok(header)
}

/// Reads the headers: `head` is the first bytes of the file, `table` those that [`table`](fn@table) named.
/// ENOEXEC when anything in them does not add up.
pub fn parse(head: &[u8], table: &[u8]) -> Result<ElfImage> {
    let header = header(head)?;
    let phnum = header.e_phnum as usize;
    require(table.len() == phnum * ENTRY)?;
    let table = SegmentTable::new(LittleEndian, Class::ELF64, table);

    let relocatable = header.e_type == elf::abi::ET_DYN;
    let lowest = if relocatable { 0 } else { USER_START };
    let mut image = ElfImage {
        relocatable,
        entry: usize::try_from(header.e_entry).map_err(bad)?,
        segments: Vec::new(),
        phdr: 0,
        phnum,
        interpreter: None,
        executable_stack: false,
    };
    for p in table.iter() {
        match p.p_type {
            elf::abi::PT_LOAD if p.p_memsz > 0 => {
                let segment = segment(&p, lowest)?;
                if let Some(before) = image.segments.last() {
                    require(segment.vaddr >= before.vaddr + before.memsz)?;
                }
                let inside = header.e_phoff.checked_sub(segment.offset);
                if let Some(inside) = inside.filter(|&i| i < segment.filesz as u64) {
                    image.phdr = segment.vaddr + inside as usize;
                }
                try_push(&mut image.segments, segment)?;
            }
            elf::abi::PT_INTERP => {
                let len = usize::try_from(p.p_filesz).map_err(bad)?;
                require((2..=abi::linux::PATH_MAX).contains(&len))?;
                p.p_offset.checked_add(p.p_filesz).ok_or(Errno::ENOEXEC)?;
                image.interpreter = Some((p.p_offset, len));
            }
            elf::abi::PT_GNU_STACK => image.executable_stack = p.p_flags & elf::abi::PF_X != 0,
            _ => {}
        }
    }
    require(!image.segments.is_empty())?;
    // Inside the mapped segments, so at any load address the first address is a valid user address.
    let (first, end) = image.span();
    require((first..end).contains(&image.entry))?;
    Ok(image)
}

/// Checks one loadable header.
fn segment(p: &elf::segment::ProgramHeader, lowest: usize) -> Result<ElfSegment> {
    let vaddr = usize::try_from(p.p_vaddr).map_err(bad)?;
    let memsz = usize::try_from(p.p_memsz).map_err(bad)?;
    let filesz = usize::try_from(p.p_filesz).map_err(bad)?;
    let end = vaddr.checked_add(memsz).ok_or(Errno::ENOEXEC)?;
    require(vaddr >= lowest && end <= USER_END)?;
    require(filesz <= memsz)?;
    require(
        p.p_offset
            .checked_add(p.p_filesz)
            .is_some_and(|end| end <= i64::MAX as u64),
    )?;
    require(p.p_offset as usize % PAGE == vaddr % PAGE)?;
    let mut prot = 0;
    for (flag, right) in [
        (elf::abi::PF_R, abi::linux::PROT_READ),
        (elf::abi::PF_W, abi::linux::PROT_WRITE),
        (elf::abi::PF_X, abi::linux::PROT_EXEC),
    ] {
        if p.p_flags & flag != 0 {
            prot |= right;
        }
    }
    Ok(ElfSegment {
        vaddr,
        memsz,
        offset: p.p_offset,
        filesz,
        prot,
    })
}

#[cfg(test)]
#[path = "elf_tests.rs"]
mod tests;
