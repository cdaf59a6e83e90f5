//! The kernel's functions and their basic blocks, read from its file.
//!
//! *Interface*: `Image::of` a file. Blocks that only panic are left out: nobody should come there.

use object::{Object, ObjectSection, ObjectSymbol, SymbolKind};
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use xtask::failure::{Context, Result};
use yaxpeax_arch::{Decoder, LengthedInstruction, U8Reader};
use yaxpeax_x86::amd64::{InstDecoder, Instruction, Opcode, Operand};

/// A function.
pub struct Function {
    /// Its demangled name.
    pub name: String,
    /// The first instruction of each basic block; the first is the function's own.
    pub blocks: Vec<u64>,
}

impl Function {
    /// The room that it belongs to: that of its crate, or of the type whose method it is.
    pub fn room(&self) -> &str {
        let name = self.name.trim_start_matches(['<', '&']);
        name.split("::").next().unwrap_or_default()
    }
}

/// The code in a kernel's file.
pub struct Image {
    /// All functions, by address.
    pub functions: Vec<Function>,
}

impl Image {
    /// That of `kernel`.
    pub fn of(kernel: &Path) -> Result<Self> {
        let bytes = std::fs::read(kernel).context(kernel.display())?;
        let file = object::File::parse(&*bytes).context(kernel.display())?;
        let mut found = BTreeMap::new();
        for symbol in file.symbols() {
            if symbol.kind() != SymbolKind::Text || symbol.size() == 0 {
                continue;
            }
            let section = symbol.section_index();
            let section = section.and_then(|index| file.section_by_index(index).ok());
            let code = section.and_then(|section| {
                let range = section.data_range(symbol.address(), symbol.size());
                range.ok().flatten()
            });
            if let (Some(code), Ok(name)) = (code, symbol.name()) {
                let name = format!("{:#}", rustc_demangle::demangle(name));
                // Equal functions are one.
                found.entry(symbol.address()).or_insert((name, code));
            }
        }
        let panics = found.iter().filter(|(_, (name, _))| panics(name));
        let panics: BTreeSet<u64> = panics.map(|(address, _)| *address).collect();
        let functions = found.iter().map(|(address, (name, code))| Function {
            name: name.clone(),
            blocks: blocks(*address, code, &panics),
        });
        Ok(Self {
            functions: functions.collect(),
        })
    }
}

/// Whether a function is called only when something is wrong that never should be.
fn panics(name: &str) -> bool {
    let parts = [
        "core::panicking::",
        "core::slice::index::slice_",
        "core::option::",
        "core::result::",
        "core::cell::panic_",
        "alloc::alloc::handle_alloc_error",
    ];
    let ends = ["_failed", "unwrap_failed", "expect_failed"];
    parts.iter().any(|part| name.starts_with(part))
        && (!name.contains("Option") || ends.iter().any(|end| name.ends_with(end)))
}

/// Where basic blocks begin in `code`, which lies at `start`: at its begin, where a jump leads, and behind a
/// jump. A call ends none. Without those that call one of `panics`.
fn blocks(start: u64, code: &[u8], panics: &BTreeSet<u64>) -> Vec<u64> {
    let decoder = InstDecoder::default();
    let end = start + code.len() as u64;
    let (mut begins, mut instructions) = (BTreeSet::from([start]), BTreeSet::new());
    let mut dead_ends = Vec::new();
    let mut at = 0;
    while at < code.len() {
        let Ok(instruction) = decoder.decode(&mut U8Reader::new(&code[at..])) else {
            at += 1;
            continue;
        };
        let here = start + at as u64;
        instructions.insert(here);
        at += instruction.len().to_const() as usize;
        let next = start + at as u64;
        let to = target(&instruction, next);
        if instruction.opcode() == Opcode::CALL && to.is_some_and(|to| panics.contains(&to)) {
            dead_ends.push(here);
            begins.insert(next);
        }
        if leaves(&instruction) {
            begins.insert(next);
            begins.extend(to.filter(|to| (start..end).contains(to)));
        }
    }
    for end in dead_ends {
        let begin = begins.range(..=end).next_back().copied();
        begins.remove(&begin.unwrap_or(end));
    }
    // Bytes that only fill the space behind a jump are no instruction that anybody executes.
    let filling = |at: u64| matches!(code.get((at - start) as usize), Some(0xcc | 0x90) | None);
    begins
        .into_iter()
        .filter(|at| instructions.contains(at) && !filling(*at))
        .collect()
}

fn leaves(instruction: &Instruction) -> bool {
    let opcode = instruction.opcode();
    opcode.is_jcc()
        || matches!(
            opcode,
            Opcode::JMP | Opcode::RETURN | Opcode::UD2 | Opcode::IRETQ | Opcode::HLT
        )
}

fn target(instruction: &Instruction, next: u64) -> Option<u64> {
    match instruction.operand(0) {
        Operand::ImmediateI8 { imm } => Some(next.wrapping_add_signed(imm.into())),
        Operand::ImmediateI32 { imm } => Some(next.wrapping_add_signed(imm.into())),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_block_begins_where_a_jump_leads_and_behind_it() {
        // test eax, eax; je +1; nop-like `inc eax` of two bytes; ret; int3.
        let code = [0x85, 0xc0, 0x74, 0x02, 0xff, 0xc0, 0xc3, 0xcc];
        assert_eq!(
            blocks(0x100, &code, &BTreeSet::new()),
            [0x100, 0x104, 0x106]
        );
    }
}
