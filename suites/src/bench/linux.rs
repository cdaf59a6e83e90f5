//! The peers: Debian's Linux kernels, fetched as packages, unpacked, never installed.
//!
//! *Interface*: `CLOUD`, `HARDWARE`, `REALTIME`; `Peer::kernel` gives the path of its bzImage, `version` its
//! version, `modules` the folder of its modules.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use xtask::failure::{Context, Failure, HOST, Result};
use xtask::host;

/// A kernel that Debian packages.
pub struct Peer {
    /// The package that names the current one.
    meta: &'static str,
    /// Where it is unpacked, in `build`.
    dir: &'static str,
}

/// The one for virtual machines, which every figure is compared with.
pub const CLOUD: Peer = Peer {
    meta: "linux-image-cloud-amd64",
    dir: "linux",
};
/// The one for hardware of all kinds, which has sound cards.
pub const HARDWARE: Peer = Peer {
    meta: "linux-image-amd64",
    dir: "linux-hardware",
};
/// The one with PREEMPT_RT.
pub const REALTIME: Peer = Peer {
    meta: "linux-image-rt-amd64",
    dir: "linux-rt",
};

impl Peer {
    /// The kernel, from `build`; fetched when it is not there.
    ///
    /// # Errors
    /// Host failure when the package cannot be fetched or unpacked.
    pub fn kernel(&self) -> Result<PathBuf> {
        kernel(self)
    }
}

fn kernel(peer: &Peer) -> Result<PathBuf> {
    let dir = host::build_dir(peer.dir)?;
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
    let package = match package(peer.meta) {
        Ok(package) => package,
        Err(_) => {
            // A fresh machine has no package lists.
            eprintln!("xtask: updating Debian's package lists");
            host::run_quietly(Command::new("apt-get").args(["update", "-qq"]))?;
            package(peer.meta)?
        }
    };
    eprintln!(
        "xtask: fetching Debian package {package} (unpacked in build/{}, not installed)",
        peer.dir
    );
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

/// The folder of the modules of the kernel whose image this is.
pub fn modules(image: &Path) -> Option<PathBuf> {
    let root = image.parent()?.parent()?;
    Some(root.join("lib/modules").join(version(image)).join("kernel"))
}

fn package(meta: &str) -> Result<String> {
    let text = host::command_output(Command::new("apt-cache").args(["depends", meta]))?;
    text.split_whitespace()
        .find(|word| word.starts_with("linux-image-") && *word != meta)
        .map(str::to_owned)
        .ok_or_else(|| Failure::new(HOST, format!("apt-cache does not know {meta}")))
}

fn image(dir: &Path) -> Option<PathBuf> {
    let boot = std::fs::read_dir(dir.join("boot")).ok()?;
    boot.filter_map(|item| Some(item.ok()?.path()))
        .find(|path| {
            path.file_name()
                .is_some_and(|name| name.to_string_lossy().starts_with("vmlinuz-"))
        })
}
