//! Running a program: from a path to the first user instruction.

pub mod elf;
