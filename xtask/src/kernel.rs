//! The kernel: built, found, and its symbol table extracted.
//!
//! *Interface*: `build` gives the ELF file's path, [`Profile`] says how it is compiled; `tables` what of the
//! file the kernel finds in its archive (`docs/run-contract.md`): names, and the places by which it moves
//! itself.

use crate::failure::{Context, Failure, HOST, Result, USAGE};
use crate::host;
use crate::symbols;
use object::read::elf::{ElfFile64, ProgramHeader};
use object::{
    Endianness, Object, ObjectSection, ObjectSymbol, RelocationFlags, RelocationTarget, SymbolKind,
};
use std::io::IsTerminal;
use std::path::{Path, PathBuf};
use std::process::Stdio;

/// How a kernel is compiled: the name of Cargo's profile.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Profile {
    /// As users have it, and as it is measured: all rooms as one piece.
    Kernel,
    /// For whoever changes it: only what has changed is compiled.
    Quick,
}

impl Profile {
    /// The quick one, if so.
    pub const fn quick(quick: bool) -> Self {
        if quick { Self::Quick } else { Self::Kernel }
    }

    const fn name(self) -> &'static str {
        match self {
            Self::Kernel => "kernel",
            Self::Quick => "quick",
        }
    }
}

/// Builds the kernel. Cargo's progress shows on a terminal; else silence
/// unless it fails.
pub fn build(profile: Profile) -> Result<PathBuf> {
    build_with(
        "kernel",
        profile,
        &host::project(),
        &host::project().join("target"),
        &[],
    )
}

/// The kernel that has suites of its own besides.
pub fn build_trials(profile: Profile) -> Result<PathBuf> {
    build_with(
        TRIALS,
        profile,
        &host::project(),
        &host::project().join("target"),
        &[],
    )
}

/// The package of the kernel with suites.
const TRIALS: &str = "trials";

/// A kernel that notes which monitors are held while another is taken, and logs it at its end.
pub fn build_for_order(profile: Profile) -> Result<PathBuf> {
    let noting = format!(
        "target.{}.rustflags=['--cfg', 'order']",
        host::KERNEL_TARGET
    );
    build_with(
        "kernel",
        profile,
        &host::project(),
        &host::project().join("target/order"),
        &["--config", &noting],
    )
}

/// The kernel with suites of another copy of the source, quickly built.
pub fn build_elsewhere(source: &Path, target: &Path) -> Result<PathBuf> {
    build_with(TRIALS, Profile::Quick, source, target, &[])
}

fn build_with(
    package: &str,
    profile: Profile,
    source: &Path,
    target: &Path,
    options: &[&str],
) -> Result<PathBuf> {
    host::need_target()?;
    let path = target
        .join(host::KERNEL_TARGET)
        .join(profile.name())
        .join(package);
    let mut command = host::cargo();
    command.args([
        "build",
        "--profile",
        profile.name(),
        "--package",
        package,
        "--target",
        host::KERNEL_TARGET,
    ]);
    command.args(options).env("CARGO_TARGET_DIR", target);
    command.current_dir(source);
    // The first build takes a minute and may talk about it; later ones must not
    // disturb the guest's standard error.
    if !path.exists() && std::io::stderr().is_terminal() {
        eprintln!("xtask: building the kernel");
        command.stdin(Stdio::null());
        if !command.status().context("cannot start cargo")?.success() {
            return Err(Failure::new(HOST, "the kernel does not build"));
        }
    } else {
        command.arg("--quiet");
        command.stdin(Stdio::null());
        let output = host::telling("building the kernel", || command.output());
        let output = output.context("cannot start cargo")?;
        if !output.status.success() {
            eprint!("{}", String::from_utf8_lossy(&output.stderr));
            return Err(Failure::new(HOST, "the kernel does not build"));
        }
    }
    Ok(path)
}

/// Where the symbol table is in the root archive.
pub const SYMBOLS: &str = ".synthesis/kernel.sym";
/// The path of the list of places that hold an address of the kernel.
pub const PLACES: &str = ".synthesis/kernel.rel";

/// The tables of the kernel's file that the kernel gets.
#[derive(Clone, Default)]
pub struct Tables {
    /// The functions' addresses and names, packed.
    pub symbols: Vec<u8>,
    /// The places that hold an address of the image.
    pub places: Vec<u8>,
}

/// The tables of `kernel`.
pub fn tables(kernel: &Path) -> Result<Tables> {
    let bytes = std::fs::read(kernel).context(format!("cannot read {}", kernel.display()))?;
    let file = object::File::parse(&*bytes).context(kernel.display())?;
    Ok(Tables {
        symbols: symbols::pack(value(&file, "__image_start")?, &symbols(&file)),
        places: places(&file)?,
    })
}

/// `path`, if QEMU can boot the file: a program with a note of where a PVH loader enters it, or an image of
/// Linux.
///
/// # Errors
/// A usage failure: it cannot.
pub fn bootable(path: PathBuf) -> Result<PathBuf> {
    let wrong = |why: &str| Failure::new(USAGE, format!("--kernel {}: {why}", path.display()));
    let bytes = std::fs::read(&path).map_err(|error| wrong(&error.to_string()))?;
    if has_pvh_entry(&bytes) || is_linux(&bytes) {
        return Ok(path);
    }
    Err(wrong("no kernel that QEMU can boot"))
}

/// Whether the program in `bytes` tells of a PVH entry.
fn has_pvh_entry(bytes: &[u8]) -> bool {
    /// The kind of such a note, whose name is `Xen`.
    const PHYS32_ENTRY: u32 = 18;
    let Ok(file) = ElfFile64::<Endianness>::parse(bytes) else {
        return false;
    };
    let endian = file.endian();
    let notes = file.elf_program_headers().iter().filter_map(|header| {
        let notes = header.notes(endian, bytes).ok()??;
        Some(notes)
    });
    notes.into_iter().any(|mut notes| {
        core::iter::from_fn(|| notes.next().ok()?)
            .any(|note| note.name() == b"Xen" && note.n_type(endian) == PHYS32_ENTRY)
    })
}

/// Whether `bytes` begin with the header of an image of Linux for x86.
fn is_linux(bytes: &[u8]) -> bool {
    bytes.get(0x202..0x206) == Some(b"HdrS")
}

/// The address of a symbol.
fn value(file: &object::File, name: &str) -> Result<u64> {
    file.symbol_by_name(name)
        .map(|symbol| symbol.address())
        .ok_or_else(|| Failure::new(HOST, format!("the kernel has no symbol {name}")))
}

/// The places in the image whose content moves with it, as differences: first the words of four bytes, that
/// are extended by their sign, then those of eight. Each list begins with its first place, counted from the
/// image's first byte, and ends with a zero. A difference is a byte, or 255 and four bytes.
fn places(file: &object::File) -> Result<Vec<u8>> {
    const R_64: u32 = 1;
    const R_32S: u32 = 11;
    const GOT: [u32; 2] = [41, 42];
    let (start, end) = (value(file, "__image_start")?, value(file, "__image_end")?);
    let (mut short, mut long) = (Vec::new(), Vec::new());
    for section in file.sections() {
        if !(start..end).contains(&section.address()) {
            continue;
        }
        if section.name() == Ok(".got") {
            long.extend((section.address()..section.address() + section.size()).step_by(8));
        }
        for (place, relocation) in section.relocations() {
            let RelocationFlags::Elf { r_type } = relocation.flags() else {
                continue;
            };
            if GOT.contains(&r_type) {
                // The linker may have made an immediate of it, which the list does not show.
                return Err(Failure::new(HOST, "the kernel has a relaxed relocation"));
            }
            let RelocationTarget::Symbol(symbol) = relocation.target() else {
                continue;
            };
            let symbol = file.symbol_by_index(symbol).context("a symbol")?;
            if !(start..=end).contains(&symbol.address()) {
                continue;
            }
            match r_type {
                R_64 => long.push(place),
                R_32S => short.push(place),
                _ => {}
            }
        }
    }
    if short.is_empty() {
        return Err(Failure::new(
            HOST,
            "the kernel is linked without its relocations",
        ));
    }
    let mut out = Vec::new();
    for mut list in [short, long] {
        list.sort_unstable();
        list.dedup();
        let mut before = start;
        for place in list {
            let step = u32::try_from(place - before).context("the image is large")?;
            before = place;
            match u8::try_from(step) {
                Ok(step @ 1..=254) => out.push(step),
                _ => {
                    out.push(255);
                    out.extend(step.to_le_bytes());
                }
            }
        }
        out.push(0);
    }
    Ok(out)
}

/// Each function's address and name, by address.
fn symbols(file: &object::File) -> Vec<(u64, String)> {
    let text: Vec<_> = file
        .sections()
        .filter(|s| s.kind() == object::SectionKind::Text)
        .map(|s| s.index())
        .collect();
    let mut table: Vec<(u64, String)> = file
        .symbols()
        .filter(|symbol| match symbol.kind() {
            SymbolKind::Text => true,
            // Labels in assembly have no type.
            SymbolKind::Unknown => symbol.is_global(),
            _ => false,
        })
        .filter(|symbol| {
            symbol
                .section_index()
                .is_some_and(|section| text.contains(&section))
        })
        .filter_map(|symbol| {
            let name = symbol.name().ok().filter(|name| !name.is_empty())?;
            // `{:#}` leaves the hash out.
            Some((
                symbol.address(),
                format!("{:#}", rustc_demangle::demangle(name)),
            ))
        })
        .collect();
    table.sort();
    table.dedup_by_key(|(address, _)| *address);
    table
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_that_is_no_kernel_is_refused() {
        assert!(!has_pvh_entry(b"root:x:0:0") && !has_pvh_entry(b""));
        let own = std::fs::read("/proc/self/exe").unwrap();
        assert!(!has_pvh_entry(&own) && !is_linux(&own));
        let mut image = vec![0; 0x210];
        image[0x202..0x206].copy_from_slice(b"HdrS");
        assert!(is_linux(&image));
        let refused = bootable("/proc/self/exe".into()).unwrap_err();
        assert_eq!(refused.status, USAGE);
    }
}
