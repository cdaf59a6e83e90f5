//! The root file system at boot.
//!
//! *Interface.* [`init`] makes the root from the initial archives and mounts what stands on it.

use abi::errno::{Errno, Result};
use abi::linux::S_IFDIR;
use alloc::sync::Arc;

use crate::devtmpfs;
use account::Cred;
use file::fs::attr::FileKind;
use file::fs::dev;
use file::fs::fs_types;
use file::fs::inode::Inode;
use file::fs::mount::{self, FileSystem, VfsPath};
use file::fs::walk::{WalkContext, walk};
use file::tmpfs::TmpFs;
use file::tmpfs::unpack::unpack;
use process::ipc::mqueue;
use vm::fallible::try_string;

/// Makes the root file system from `initrd`, mounts `/dev`, `/proc`, `/syn`, `/sys`, the control groups in
/// it and `/tmp`, and answers the root. Corrupt parts of the archive are left out and logged; only running
/// out of memory is an error.
/// `done` is told of each part of the archive that nobody will read any more, in order.
// On a frame of its own: one step of bringing up is not to lie above the next on the stack.
#[inline(never)]
pub fn init(initrd: &'static [u8], done: &mut dyn FnMut(&'static [u8])) -> Result<VfsPath> {
    dev::init();
    for kind in crate::call::file::mount::KINDS {
        fs_types::add(*kind);
    }
    let fs = TmpFs::new("tmpfs", 0o755);
    let top = fs.root();
    let root = mount::mount(fs, top, None, try_string(b"root")?, 0)?;
    unpack(&root, initrd, done)?;
    let cred = Cred::root();
    let view = WalkContext::new(root.clone(), &cred, 0);
    let covered = |name: &str| -> Result<VfsPath> {
        let target = walk(&view, root.clone(), name.as_bytes(), true)?;
        match &target.place {
            Some(place) if place.inode.kind() == FileKind::Directory => Ok(place.clone()),
            Some(_) => Err(Errno::ENOTDIR),
            None => {
                let made = target
                    .dir
                    .inode
                    .create(&target.name, S_IFDIR | 0o755, 0, 0, &cred)?;
                Ok(target.dir.with_inode(made))
            }
        }
    };
    let put = |fs: Arc<dyn FileSystem>, at: &str| -> Result<()> {
        let top = fs.root();
        let kind = try_string(fs.kind().as_bytes())?;
        mount::mount(fs.clone(), top, Some(covered(at)?), kind, 0)?;
        Ok(())
    };
    put(devtmpfs::file_system()?, "/dev")?;
    put(mqueue::names::file_system(), "/dev/mqueue")?;
    put(procfs::proc::file_system(), "/proc")?;
    put(procfs::syn::file_system(), "/syn")?;
    put(procfs::sys::file_system(), "/sys")?;
    put(procfs::cgroupfs::file_system("")?, "/sys/fs/cgroup")?;
    let tmp = covered("/tmp")?;
    if is_empty(&*tmp.inode) {
        let fs = TmpFs::new("tmpfs", 0o1777);
        let top = fs.root();
        mount::mount(fs, top, Some(tmp), try_string(b"tmpfs")?, 0)?;
    }
    Ok(root)
}

fn is_empty(dir: &dyn Inode) -> bool {
    let mut entries = 0;
    let mut count = |_: file::fs::DirEntry<'_>| {
        entries += 1;
        true
    };
    dir.readdir(0, &mut count).is_ok() && entries <= 2
}
