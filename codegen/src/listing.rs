//! Listings: bytes back into instructions.
//!
//! *Interface*: [`disassemble`] one routine by an address in it, or any [`disassemble_bytes`].

use core::fmt::{self, Write};

use yaxpeax_arch::{Decoder, LengthedInstruction, U8Reader};
use yaxpeax_x86::amd64::{InstDecoder, Instruction, Operand, RegSpec};

use crate::registry::with_image;

/// Write the listing of the routine at `address`: a head line, then a line per instruction with offset, bytes
/// and text, and what `beside` writes about the instruction at its address. `None` when there is no routine
/// at `address`.
///
/// # Errors
/// As `out` reports.
pub fn disassemble(
    address: usize,
    out: &mut dyn Write,
    beside: &dyn Fn(usize, &mut dyn Write) -> fmt::Result,
) -> Option<fmt::Result> {
    with_image(address, |info, bytes| {
        writeln!(
            out,
            "{} {} owner {} at {:#x}, {} bytes",
            info.class, info.name, info.owner, info.entry, info.len
        )?;
        disassemble_bytes(bytes, info.entry, out, beside)
    })
}

/// Write a line per instruction of `bytes`, which run at `entry`, as [`disassemble`] does. Relative branches
/// are shown with their target, and words that are named relatively with their address.
///
/// # Errors
/// As `out` reports.
pub fn disassemble_bytes(
    bytes: &[u8],
    entry: usize,
    out: &mut dyn Write,
    beside: &dyn Fn(usize, &mut dyn Write) -> fmt::Result,
) -> fmt::Result {
    let decoder = InstDecoder::default();
    let mut at = 0;
    while at < bytes.len() {
        let rest = &bytes[at..];
        let decoded = decoder.decode(&mut U8Reader::new(rest));
        let len = decoded
            .as_ref()
            .map_or(1, |i| i.len().to_const() as usize)
            .clamp(1, rest.len());
        write!(out, "{at:5x}  ")?;
        for byte in &rest[..len] {
            write!(out, "{byte:02x}")?;
        }
        for _ in len..11 {
            out.write_str("  ")?;
        }
        match &decoded {
            Ok(instruction) => write!(out, "  {instruction}")?,
            Err(_) => write!(out, "  .byte {:#04x}", rest[0])?,
        }
        if let Some(target) = branch_target(&rest[..len], entry + at) {
            write!(out, "  ; ")?;
            if (entry..entry + bytes.len()).contains(&target) {
                write!(out, "{:x}", target - entry)?;
            } else if let Some(other) = crate::image_at(target) {
                write!(out, "{} {}", other.class, other.name)?;
            } else {
                write!(out, "{target:#x}")?;
            }
        } else if let Some(word) = decoded.ok().and_then(relative_word) {
            write!(out, "  ; {:#x}", (entry + at + len).wrapping_add(word))?;
        }
        beside(entry + at, out)?;
        out.write_char('\n')?;
        at += len;
    }
    Ok(())
}

/// How far behind an instruction the word lies that it names relatively to itself.
fn relative_word(instruction: Instruction) -> Option<usize> {
    (0..instruction.operand_count()).find_map(|n| match instruction.operand(n) {
        Operand::Disp { base, disp } if base == RegSpec::rip() => Some(disp as usize),
        _ => None,
    })
}

/// Where a relative branch goes.
fn branch_target(bytes: &[u8], at: usize) -> Option<usize> {
    let next = at + bytes.len();
    let relative = match *bytes {
        [0xeb | 0x70..=0x7f | 0xe3, d] => i64::from(d as i8),
        [0xe8 | 0xe9, a, b, c, d] | [0x0f, 0x80..=0x8f, a, b, c, d] => {
            i64::from(i32::from_le_bytes([a, b, c, d]))
        }
        _ => return None,
    };
    Some(next.wrapping_add(relative as usize))
}
