//! File handles: a file's handle, and a file by it.
//!
//! *Interface.* [`CALLS`].

use abi::errno::{Errno, Result};
use abi::linux::{AT_EMPTY_PATH, AT_FDCWD, AT_SYMLINK_FOLLOW, O_CLOEXEC, O_LARGEFILE, O_PATH};
use abi::nr;
use account::Capability;
use bytemuck::{Pod, Zeroable};
use vm::user;

use super::FileCaller;
use crate::call::{Args, Handler};
use file::event::marks;
use file::fs::inode::FileHandle;
use file::fs::{fsnotify, lease, open};

/// Calls of this family.
pub const CALLS: &[(usize, Handler)] = &[
    (nr::NAME_TO_HANDLE_AT, name_to_handle_at),
    (nr::OPEN_BY_HANDLE_AT, open_by_handle_at),
];

/// The longest handle of any file system.
const MAX_HANDLE_SZ: u32 = 128;
/// The type of a handle that there was no room for.
const FILEID_INVALID: i32 = 0xff;
/// That of all others here.
const FILEID_INO32_GEN: i32 = 1;

/// `struct file_handle` without the handle itself.
#[repr(C)]
#[derive(Clone, Copy, Pod, Zeroable)]
struct Head {
    bytes: u32,
    kind: i32,
}

const LENGTH: u32 = size_of::<FileHandle>() as u32;

fn name_to_handle_at(args: &mut Args) -> Result<usize> {
    let (at, mount_id, flags) = (args.word(2), args.word(3), args.uint(4));
    if flags & !(AT_SYMLINK_FOLLOW | AT_EMPTY_PATH) as u32 != 0 {
        return Err(Errno::EINVAL);
    }
    let caller = FileCaller::current();
    let follow = flags & AT_SYMLINK_FOLLOW as u32 != 0;
    let object = caller.object(args.int(0), args.word(1), flags, follow)?;
    // An object without a place is of a file system without handles.
    let place = object.place().ok_or(Errno::EOPNOTSUPP)?;
    let handle = place.inode.handle()?;
    let head: Head = user::get(at)?;
    if head.bytes > MAX_HANDLE_SZ {
        return Err(Errno::EINVAL);
    }
    user::put(mount_id, &(place.mount.id as i32))?;
    let fits = head.bytes >= LENGTH;
    let kind = if fits {
        FILEID_INO32_GEN
    } else {
        FILEID_INVALID
    };
    user::put(
        at,
        &Head {
            bytes: LENGTH,
            kind,
        },
    )?;
    if !fits {
        return Err(Errno::EOVERFLOW);
    }
    user::put(at.wrapping_add(size_of::<Head>()), &handle)?;
    Ok(0)
}

fn open_by_handle_at(args: &mut Args) -> Result<usize> {
    let (dirfd, at, flags) = (args.int(0), args.word(1), args.uint(2));
    let caller = FileCaller::current();
    caller.cred.need(Capability::DacReadSearch)?;
    let head: Head = user::get(at)?;
    if head.bytes == 0 || head.bytes > MAX_HANDLE_SZ {
        return Err(Errno::EINVAL);
    }
    let bytes = user::array::<u8>(at.wrapping_add(size_of::<Head>()), head.bytes as usize)?;
    let start = match dirfd {
        AT_FDCWD => caller.fs.cwd(),
        dirfd => {
            let of = caller.files.get(dirfd)?;
            if of.flags() & O_PATH != 0 {
                return Err(Errno::EBADF);
            }
            of.place().cloned().ok_or(Errno::ESTALE)?
        }
    };
    let handle = bytes.first_chunk::<{ size_of::<FileHandle>() }>();
    let handle = handle.map(|bytes| bytemuck::pod_read_unaligned(bytes));
    let found = handle.and_then(|handle| start.mount.fs.by_handle(handle));
    let place = start.with_inode(found.ok_or(Errno::ESTALE)?);
    caller.files.has_place()?;
    let flags = match flags & O_PATH {
        0 => flags | O_LARGEFILE,
        _ => flags,
    };
    let of = open::at(&caller.view(), place, flags)?;
    fsnotify::opened(&of);
    let fd = caller.files.install(of.clone(), flags & O_CLOEXEC != 0)?;
    marks::settle(&of);
    lease::settle(&of);
    Ok(fd as usize)
}
