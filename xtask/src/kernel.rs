//! The kernel: built, found, and its symbol table extracted.
//!
//! *Interface*: `build` gives the ELF file's path; `symbols` the table of `docs/run-contract.md`.

use crate::failure::{Context, Failure, HOST, Result};
use crate::host;
use object::{Object, ObjectSymbol, SymbolKind};
use std::fmt::Write;
use std::io::IsTerminal;
use std::path::{Path, PathBuf};
use std::process::Stdio;

/// Builds the kernel in its own profile. Cargo's progress shows on a terminal; else silence
/// unless it fails.
pub fn build() -> Result<PathBuf> {
    build_with(&host::project().join("target"), &[])
}

/// A kernel that notes which monitors are held while another is taken, and logs it at its end.
pub fn build_for_order() -> Result<PathBuf> {
    let noting = format!(
        "target.{}.rustflags=['--cfg', 'order']",
        host::KERNEL_TARGET
    );
    build_with(
        &host::project().join("target/order"),
        &["--config", &noting],
    )
}

fn build_with(target: &Path, options: &[&str]) -> Result<PathBuf> {
    host::need_target()?;
    let path = target.join(host::KERNEL_TARGET).join("kernel/kernel");
    let mut command = host::cargo();
    command.args([
        "build",
        "--profile",
        "kernel",
        "--package",
        "kernel",
        "--target",
        host::KERNEL_TARGET,
    ]);
    command.args(options).env("CARGO_TARGET_DIR", target);
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
        let output = command
            .stdin(Stdio::null())
            .output()
            .context("cannot start cargo")?;
        if !output.status.success() {
            eprint!("{}", String::from_utf8_lossy(&output.stderr));
            return Err(Failure::new(HOST, "the kernel does not build"));
        }
    }
    Ok(path)
}

/// The symbol table: lines `address name`, sorted.
pub fn symbols(kernel: &Path) -> Result<Vec<u8>> {
    let bytes = std::fs::read(kernel).context(format!("cannot read {}", kernel.display()))?;
    let file = object::File::parse(&*bytes).context(kernel.display())?;
    let text: Vec<_> = {
        use object::ObjectSection;
        file.sections()
            .filter(|s| s.kind() == object::SectionKind::Text)
            .map(|s| s.index())
            .collect()
    };
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
    let mut lines = String::new();
    for (address, name) in table {
        writeln!(lines, "{address:016x} {name}").expect("writing to a string");
    }
    Ok(lines.into_bytes())
}
