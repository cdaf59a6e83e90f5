//! No function of the kernel takes much of a stack for itself.
//!
//! *Interface*: `faults`, of the kernel's file. A kernel stack has 16 KiB, and what one frame takes nobody
//! below has: a compiler that folds functions into each other adds up their frames, and has done so until the
//! kernel did not boot. A frame is what the instructions of a function subtract from the stack pointer, one
//! after the other, as compiled code does at its beginning, page by page if it is large.

use object::{Object, ObjectSection, ObjectSymbol, SymbolKind};
use std::collections::BTreeSet;
use xtask::failure::{Context, Result};
use yaxpeax_arch::{Decoder, LengthedInstruction, U8Reader};
use yaxpeax_x86::amd64::{InstDecoder, Instruction, Opcode, Operand, RegSpec};

/// Bytes that a function may take, a fifth of a stack: room for three drafts of code.
const BOUND: u64 = (16 << 10) / 5;

/// The functions that take more, one line each.
///
/// # Errors
/// The kernel's file cannot be read as one.
pub fn faults(kernel: &[u8]) -> Result<Vec<String>> {
    let file = object::File::parse(kernel).context("the kernel")?;
    let mut large = BTreeSet::new();
    for symbol in file.symbols() {
        if symbol.kind() != SymbolKind::Text || symbol.size() == 0 {
            continue;
        }
        let code = symbol
            .section_index()
            .and_then(|index| file.section_by_index(index).ok())
            .and_then(|section| {
                let data = section.data_range(symbol.address(), symbol.size());
                data.ok().flatten()
            });
        let bytes = frame(code.unwrap_or_default());
        if bytes > BOUND {
            let name = symbol.name().unwrap_or_default();
            large.insert((format!("{:#}", rustc_demangle::demangle(name)), bytes));
        }
    }
    let line =
        |(name, bytes)| format!("{name} takes {bytes} bytes of its stack, not {BOUND} at most");
    Ok(large.into_iter().map(line).collect())
}

/// Bytes that a function with this `code` takes of its stack for its variables.
fn frame(code: &[u8]) -> u64 {
    let decoder = InstDecoder::default();
    let mut rest = code;
    let mut bytes = 0;
    // A loop that touches a frame's pages says first where it ends.
    let mut looped = false;
    while let Ok(instruction) = decoder.decode(&mut U8Reader::new(rest)) {
        let length = instruction.len().to_const() as usize;
        match taken(&instruction) {
            Some(Taken::Whole(all)) => {
                looped = true;
                bytes += all;
            }
            Some(Taken::Part(_)) if looped => {}
            Some(Taken::Part(part)) => bytes += part,
            None => looped &= instruction.opcode() != Opcode::JNZ,
        }
        rest = rest.get(length..).unwrap_or_default();
        if rest.is_empty() {
            break;
        }
    }
    bytes
}

/// The effect of an instruction on the stack pointer.
enum Taken {
    /// It subtracts so much.
    Part(u64),
    /// It reckons where the pointer will be so much lower.
    Whole(u64),
}

fn taken(instruction: &Instruction) -> Option<Taken> {
    let is =
        |operand: &Operand, reg| matches!(operand, Operand::Register { reg: one } if *one == reg);
    let (to, from) = (instruction.operand(0), instruction.operand(1));
    match (instruction.opcode(), from) {
        (Opcode::SUB, from) if is(&to, RegSpec::rsp()) => {
            let bytes = match from {
                Operand::ImmediateI8 { imm } => i64::from(imm),
                Operand::ImmediateI32 { imm } => i64::from(imm),
                Operand::ImmediateI64 { imm } => imm,
                _ => return None,
            };
            u64::try_from(bytes).ok().map(Taken::Part)
        }
        (Opcode::LEA, Operand::Disp { base, disp }) if base == RegSpec::rsp() && disp < 0 => {
            let bytes = u64::from(disp.unsigned_abs());
            match () {
                () if is(&to, RegSpec::rsp()) => Some(Taken::Part(bytes)),
                () if is(&to, RegSpec::r11()) => Some(Taken::Whole(bytes)),
                () => None,
            }
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn small_frames_and_large_ones() {
        // push rbp; mov rbp, rsp; push rbx; sub rsp, 0x18; ret
        assert_eq!(frame(b"\x55\x48\x89\xe5\x53\x48\x83\xec\x18\xc3"), 0x18);
        // push rbp; sub rsp, 0x720; nop; ret
        assert_eq!(frame(b"\x55\x48\x81\xec\x20\x07\x00\x00\x90\xc3"), 0x720);
        // push rbp; ret
        assert_eq!(frame(b"\x55\xc3"), 0);
        assert_eq!(frame(b""), 0);
    }

    #[test]
    fn pages_one_after_the_other() {
        let page = b"\x48\x81\xec\x00\x10\x00\x00\x48\xc7\x04\x24\x00\x00\x00\x00";
        let mut code = [page.as_slice(), page].concat();
        code.extend(b"\x48\x81\xec\x58\x06\x00\x00\xc3");
        assert_eq!(frame(&code), 2 * 0x1000 + 0x658);
    }

    #[test]
    fn pages_in_a_loop() {
        // lea r11, [rsp - 0x5000]
        let mut code = b"\x4c\x8d\x9c\x24\x00\xb0\xff\xff".to_vec();
        // sub rsp, 0x1000; mov qword [rsp], 0; cmp rsp, r11; jne
        code.extend(
            b"\x48\x81\xec\x00\x10\x00\x00\x48\xc7\x04\x24\x00\x00\x00\x00\x4c\x39\xdc\x75\xec",
        );
        // sub rsp, 0x28; ret
        code.extend(b"\x48\x83\xec\x28\xc3");
        assert_eq!(frame(&code), 0x5028);
    }
}
