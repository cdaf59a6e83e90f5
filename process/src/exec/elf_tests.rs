//! Tests of the ELF reader: a good file, and every way to spoil one.

use super::*;

fn header(kind: u16, phnum: u16) -> Vec<u8> {
    let mut h = vec![0x7f, b'E', b'L', b'F', 2, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0];
    h.extend(kind.to_le_bytes());
    h.extend(62u16.to_le_bytes());
    h.extend(1u32.to_le_bytes());
    h.extend(0x40_1000u64.to_le_bytes());
    h.extend(64u64.to_le_bytes());
    h.extend(0u64.to_le_bytes());
    h.extend(0u32.to_le_bytes());
    for v in [64u16, 56, phnum, 64, 0, 0] {
        h.extend(v.to_le_bytes());
    }
    h
}

fn program(kind: u32, flags: u32, offset: u64, vaddr: u64, filesz: u64, memsz: u64) -> Vec<u8> {
    let mut p = Vec::new();
    p.extend(kind.to_le_bytes());
    p.extend(flags.to_le_bytes());
    for v in [offset, vaddr, vaddr, filesz, memsz, 0x1000] {
        p.extend(v.to_le_bytes());
    }
    p
}

/// As the loader does it.
fn read(file: &[u8]) -> Result<ElfImage> {
    let (offset, length) = table(file)?;
    let end = offset as usize + length;
    parse(file, file.get(offset as usize..end).ok_or(Errno::ENOEXEC)?)
}

fn good() -> Vec<u8> {
    let mut file = header(2, 2);
    file.extend(program(1, 5, 0, 0x40_0000, 0x1800, 0x1800));
    file.extend(program(1, 6, 0x1f00, 0x40_2f00, 0x200, 0x2000));
    file
}

#[test]
fn a_good_program() {
    let image = read(&good()).unwrap();
    assert!(!image.relocatable);
    assert_eq!(image.phdr, 0x40_0040);
    assert_eq!(image.span(), (0x40_0000, 0x40_5000));
    assert_eq!(
        image.segments[1].prot,
        abi::linux::PROT_READ | abi::linux::PROT_WRITE
    );
}

#[test]
fn truncated_anywhere_is_refused() {
    let file = good();
    for len in 0..file.len() {
        assert_eq!(read(&file[..len]), Err(Errno::ENOEXEC), "{len}");
    }
}

#[test]
fn wrong_machine_class_and_kind_are_refused() {
    for (at, value) in [(4, 1), (5, 2), (16, 1), (18, 3), (54, 57), (0, 0)] {
        let mut file = good();
        file[at] = value;
        assert_eq!(read(&file), Err(Errno::ENOEXEC), "byte {at}");
    }
}

#[test]
fn hostile_segments_are_refused() {
    let bad = [
        program(1, 5, 0, u64::MAX - 0xfff, 0x1000, 0x2000),
        program(1, 5, 0, 0, 0x1000, 0x1000),
        program(1, 5, 0, 0x40_0000, 0x2000, 0x1000),
        program(1, 5, 1, 0x40_0000, 0x1000, 0x1000),
        program(1, 5, u64::MAX - 0xfff, 0x40_0000, 0x1000, 0x1000),
        program(1, 5, 0, 0x7fff_ffff_e000, 0x1000, 0x2000),
        program(1, 5, 0, 0xffff_8000_0000_0000, 0x1000, 0x1000),
        program(3, 4, u64::MAX, 0, 16, 16),
        program(3, 4, 0, 0, 1 << 40, 16),
    ];
    for p in bad {
        let mut file = header(2, 1);
        file.extend(&p);
        assert_eq!(read(&file), Err(Errno::ENOEXEC), "{p:x?}");
    }
}

#[test]
fn an_entry_outside_the_program_is_refused() {
    for entry in [0u64, 0x3f_ffff, 0x40_5000, 0x7fff_0000_0000, u64::MAX] {
        let mut file = good();
        file[24..32].copy_from_slice(&entry.to_le_bytes());
        assert_eq!(read(&file), Err(Errno::ENOEXEC), "{entry:x}");
    }
}

#[test]
fn overlapping_segments_are_refused() {
    let mut file = header(2, 2);
    file.extend(program(1, 5, 0, 0x40_0000, 0x1800, 0x1800));
    file.extend(program(1, 6, 0x1000, 0x40_1000, 0x200, 0x2000));
    assert_eq!(read(&file), Err(Errno::ENOEXEC));
}

#[test]
fn flipped_bytes_never_panic_and_never_pass_the_bounds() {
    let mut state = 0x9e37_79b9_7f4a_7c15u64;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state
    };
    for _ in 0..200_000 {
        let mut file = good();
        for _ in 0..1 + next() % 4 {
            let at = (next() % file.len() as u64) as usize;
            file[at] = next() as u8;
        }
        if let Ok(image) = read(&file) {
            for s in &image.segments {
                assert!(s.vaddr + s.memsz <= USER_END && s.filesz <= s.memsz);
            }
            let (first, end) = image.span();
            assert!(first < end && end <= USER_END);
        }
    }
}
