//! `cargo xtask image`: what another machine needs to boot, in `build/image`.
//!
//! *Interface*: `main`. Takes the options of `run`.

use crate::failure::{Context, Result};
use crate::options::Options;
use crate::{host, kernel, run};
use std::ffi::OsString;
use std::os::unix::fs::PermissionsExt;

const HELP: &str = "\
usage: cargo xtask image [options of run] [-- CMD ARG...]

Writes build/image: `kernel` (an ELF64 with a PVH entry), `root.cpio`, and `boot.sh`, which shows how
QEMU boots them with nothing else.
";

const BOOT: &str = "#!/bin/sh
# Boots the kernel on this terminal. Ctrl-A x ends QEMU.
cd \"$(dirname \"$0\")\" || exit 1
exec qemu-system-x86_64 -machine q35 -cpu max -smp CPUS -m MEMk -no-reboot -display none \\
    -chardev stdio,id=com1,mux=on,signal=off -serial chardev:com1 -mon chardev=com1 -serial null \\
    -device isa-debugcon,iobase=0xe9,chardev=log -chardev file,id=log,path=kernel.log \\
    -device isa-debug-exit,iobase=0xf4,iosize=1 \\
    -kernel kernel -initrd root.cpio -append 'console=tty rows=24 cols=80'
";

/// Writes the artefacts.
pub fn main(words: Vec<OsString>) -> Result<i32> {
    let options = Options::parse(words)?;
    if options.help {
        print!("{HELP}");
        return Ok(0);
    }
    let (root, command) = run::root(&options)?;
    let built = kernel::build(kernel::Profile::Kernel)?;
    let archive = root.finish(kernel::tables(&built)?, &command, &options.environment);
    let memory = run::memory(&options, archive.len())?;
    let dir = host::build_dir("image")?;
    let boot = BOOT
        .replace("CPUS", &options.cpus.to_string())
        .replace("MEM", &(memory >> 10).to_string());
    std::fs::copy(&built, dir.join("kernel")).context("cannot copy the kernel")?;
    std::fs::write(dir.join("root.cpio"), archive).context("cannot write the root")?;
    std::fs::write(dir.join("boot.sh"), boot).context("cannot write boot.sh")?;
    std::fs::set_permissions(dir.join("boot.sh"), std::fs::Permissions::from_mode(0o755))
        .context("cannot make boot.sh executable")?;
    println!("{}", dir.display());
    Ok(0)
}
