//! `devtmpfs`: a file system in memory with the names of the devices.
//!
//! *Interface*: [`file_system`] makes one.

use abi::errno::Result;
use abi::linux::{S_IFCHR, S_IFDIR, makedev};
use account::Cred;
use alloc::sync::Arc;
use file::fs::dev;
use file::fs::mount::FileSystem;
use file::tmpfs::TmpFs;

/// A file system with the device nodes. ENOMEM.
pub(crate) fn file_system() -> Result<Arc<TmpFs>> {
    let fs = TmpFs::new("devtmpfs", 0o755);
    let cred = Cred::root();
    let dir = fs.root();
    for (name, mode, major, minor) in dev::NODES {
        dir.create(
            name.as_bytes(),
            S_IFCHR | mode,
            0,
            makedev(major, minor),
            &cred,
        )?;
    }
    for (name, target) in dev::LINKS {
        dir.symlink(name.as_bytes(), target.as_bytes(), &cred)?;
    }
    for name in ["pts", "shm", "mqueue"] {
        dir.create(name.as_bytes(), S_IFDIR | 0o1777, 0, 0, &cred)?;
    }
    Ok(fs)
}
