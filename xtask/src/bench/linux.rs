//! The peer: Debian's Linux cloud kernel, fetched as a package, unpacked, never installed.
//!
//! *Interface*: `kernel` gives the path of its bzImage.

use crate::failure::{Context, Failure, HOST, Result};
use crate::host;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// The package that names the current one.
const META: &str = "linux-image-cloud-amd64";

/// The kernel, from `build/linux`; fetched when it is not there.
pub fn kernel() -> Result<PathBuf> {
    let dir = host::build_dir("linux")?;
    if let Some(found) = image(&dir) {
        return Ok(found);
    }
    for tool in ["apt-get", "apt-cache", "dpkg-deb"] {
        if host::find(tool).is_none() {
            return Err(Failure::new(
                HOST,
                format!("{tool} is missing: the Linux to compare with is a Debian package"),
            ));
        }
    }
    let package = match package() {
        Ok(package) => package,
        Err(_) => {
            // A fresh machine has no package lists.
            eprintln!("xtask: updating Debian's package lists");
            host::run_quietly(Command::new("apt-get").args(["update", "-qq"]))?;
            package()?
        }
    };
    eprintln!("xtask: fetching Debian package {package} (unpacked in build/linux, not installed)");
    let output = Command::new("apt-get")
        .args(["download", "-q", &package])
        .current_dir(&dir)
        .stdin(Stdio::null())
        .output()
        .context("cannot start apt-get")?;
    let archive = std::fs::read_dir(&dir)
        .context(dir.display())?
        .filter_map(|item| Some(item.ok()?.path()))
        .find(|path| {
            path.file_name()
                .is_some_and(|name| name.to_string_lossy().starts_with(&package))
        });
    let Some(archive) = archive.filter(|_| output.status.success()) else {
        eprint!("{}", String::from_utf8_lossy(&output.stderr));
        return Err(Failure::new(
            HOST,
            format!("apt-get could not download {package}"),
        ));
    };
    host::run_quietly(Command::new("dpkg-deb").arg("-x").arg(&archive).arg(&dir))?;
    image(&dir)
        .ok_or_else(|| Failure::new(HOST, format!("{} has no boot/vmlinuz", archive.display())))
}

/// Its version, as in the name of the image.
pub fn version(image: &Path) -> String {
    let name = image.file_name().unwrap_or_default().to_string_lossy();
    name.trim_start_matches("vmlinuz-").to_owned()
}

fn package() -> Result<String> {
    let text = host::command_output(Command::new("apt-cache").args(["depends", META]))?;
    text.split_whitespace()
        .find(|word| word.starts_with("linux-image-") && *word != META)
        .map(str::to_owned)
        .ok_or_else(|| Failure::new(HOST, format!("apt-cache does not know {META}")))
}

fn image(dir: &Path) -> Option<PathBuf> {
    let boot = std::fs::read_dir(dir.join("boot")).ok()?;
    boot.filter_map(|item| Some(item.ok()?.path()))
        .find(|path| {
            path.file_name()
                .is_some_and(|name| name.to_string_lossy().starts_with("vmlinuz-"))
        })
}
