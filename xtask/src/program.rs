//! Programs that the user names: can the guest execute them at all?
//!
//! *Interface*: `check` says in one line why not, with the status that a shell would give.

use crate::failure::{Context, Failure, NOT_EXECUTABLE, NOT_FOUND, Result};
use object::read::elf::{ElfFile64, FileHeader, ProgramHeader};
use object::{Endianness, elf};
use std::path::Path;

/// Whether the file looks as if the guest could execute it.
///
/// `has` tells whether the guest's root has a file, for the loader of a dynamic program.
///
/// # Errors
/// 127 when it is missing; 126 when it is no program, one for another machine, or one that needs
/// a dynamic loader which is not there.
pub fn check(path: &Path, has: impl Fn(&str) -> bool) -> Result<()> {
    let name = path.display();
    let refuse = |why: &str| Err(Failure::new(NOT_EXECUTABLE, format!("{name}: {why}")));
    if path.is_dir() {
        return refuse("is a directory");
    }
    let bytes = match std::fs::read(path) {
        Ok(bytes) => bytes,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            return Err(Failure::new(NOT_FOUND, format!("{name}: no such file")));
        }
        Err(error) => return refuse(&error.to_string()),
    };
    if bytes.starts_with(b"#!") {
        return Ok(());
    }
    if !bytes.starts_with(b"\x7fELF") {
        return refuse("neither an ELF program nor a script that starts with #!");
    }
    let machine = bytes
        .get(18..20)
        .map_or(0, |half| u16::from_le_bytes([half[0], half[1]]));
    if bytes.get(4) != Some(&elf::ELFCLASS64)
        || bytes.get(5) != Some(&elf::ELFDATA2LSB)
        || machine != elf::EM_X86_64
    {
        return refuse(&format!(
            "a program for another machine ({}); the guest is x86-64",
            machine_name(machine)
        ));
    }
    match loader(&bytes) {
        Err(why) => refuse(&format!("broken ELF file ({why})")),
        Ok(Some(loader)) if !has(&loader) => refuse(&format!(
            "the host's file (a path with a slash is) needs the dynamic loader {loader}, which the root does not have: link it with -static, or take a root that has it (--package, --root)"
        )),
        Ok(_) => Ok(()),
    }
}

/// The dynamic loader that a program asks for.
pub fn interpreter(path: &Path) -> Result<Option<String>> {
    let bytes = std::fs::read(path).context(format!("cannot read {}", path.display()))?;
    loader(&bytes).context(path.display())
}

fn loader(bytes: &[u8]) -> object::Result<Option<String>> {
    let file = ElfFile64::<Endianness>::parse(bytes)?;
    let endian = file.endian();
    for header in file.elf_header().program_headers(endian, bytes)? {
        if let Some(path) = header.interpreter(endian, bytes)? {
            return Ok(Some(String::from_utf8_lossy(path).into_owned()));
        }
    }
    Ok(None)
}

fn machine_name(machine: u16) -> String {
    match machine {
        elf::EM_386 => "32-bit x86".into(),
        elf::EM_X86_64 => "x32 or big-endian".into(),
        elf::EM_AARCH64 => "aarch64".into(),
        elf::EM_ARM => "32-bit ARM".into(),
        elf::EM_RISCV => "RISC-V".into(),
        elf::EM_68K => "68000".into(),
        other => format!("ELF machine {other}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(bytes: &[u8]) -> Failure {
        let path = std::env::temp_dir().join(format!(
            "xtask-program-{}-{}",
            std::process::id(),
            bytes.len()
        ));
        std::fs::write(&path, bytes).unwrap();
        let failure = check(&path, |_| false).unwrap_err();
        std::fs::remove_file(&path).unwrap();
        failure
    }

    #[test]
    fn another_machine_and_rubbish_are_told_apart() {
        let mut header = std::fs::read("/proc/self/exe").unwrap()[..64].to_vec();
        header[18] = elf::EM_AARCH64 as u8;
        let failure = refused(&header);
        assert_eq!(failure.status, NOT_EXECUTABLE);
        assert!(failure.message.contains("aarch64"), "{}", failure.message);
        assert!(refused(b"hello").message.contains("neither"));
        assert!(
            refused(b"\x7fELF\x02\x01")
                .message
                .contains("another machine")
        );
    }

    #[test]
    fn a_missing_program_is_127() {
        assert_eq!(
            check(Path::new("/no/such/program"), |_| true)
                .unwrap_err()
                .status,
            NOT_FOUND
        );
    }

    #[test]
    fn a_dynamic_program_needs_its_loader() {
        let own = Path::new("/proc/self/exe");
        assert!(check(own, |_| true).is_ok());
        assert!(
            check(own, |_| false)
                .unwrap_err()
                .message
                .contains("-static")
        );
    }
}
