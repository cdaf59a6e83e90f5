//! The 9p client (9P2000.L): directories of the host, which `--share` and `mount -t 9p` bring into the
//! tree.
//!
//! *Interface*: [`file_system`] is the one behind a device, by the name that the host has for it;
//! [`mount_all`] mounts at boot what the root archive names (docs/run-contract.md).
//!
//! Names and attributes are asked for by each look-up; what regular files hold is kept in pages, which are
//! believed as long as the host says the same size and time of change ([`mod@file`]). Layers, from below:
//! [`transport`] carries messages, [`message`] lays them out and checks them, [`session`] asks the questions,
//! [`backing`] fills and stores pages, [`node`] and [`mod@file`] are what the tree sees. A server that
//! answers nonsense gets an error to who asked, and nothing else.

mod backing;
mod file;
mod message;
mod node;
mod pager;
mod session;
mod transport;

use abi::errno::{Errno, Result};
use abi::linux::{NAME_MAX, O_RDONLY, Statfs, V9FS_MAGIC};
use account::Cred;
use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;
use device::registry;
use device::virtio::p9_transport::PREFIX;
use sync::Monitor;

use crate::fs::attr::{Attr, FileKind};
use crate::fs::inode::{Inode, OpenRequest};
use crate::fs::mount::{self, FileSystem, VfsPath};
use crate::fs::walk::{WalkContext, walk};
use crate::io::IoBuf;
use crate::page_cache::WritebackErrors;
use node::{P9Inode, P9Inodes};
use session::{Fid, Session};
use transport::{Transport, VirtioTransport};
use vm::fallible::{try_arc, try_filled, try_push, try_string, try_text};

/// The host user as whom the file server runs, which corresponds to the superuser. Each sees the other's
/// files as its own.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct HostOwner {
    uid: u32,
    gid: u32,
}

impl HostOwner {
    /// User and group of the machine, as the host calls them; and the other way round.
    fn to_host(self, uid: u32, gid: u32) -> (u32, u32) {
        let other = |id, match_| match id {
            0 => match_,
            id if id == match_ => 0,
            id => id,
        };
        (other(uid, self.uid), other(gid, self.gid))
    }
}

/// The parts that all files of a share have in common.
pub struct P9Mount {
    session: Arc<Session>,
    dev: u64,
    owner: HostOwner,
    nodes: P9Inodes,
    /// The failures to store.
    errors: Arc<WritebackErrors>,
}

impl P9Mount {
    /// The attributes of `fid`, as the machine sees them. EIO for what is no kind of file.
    fn attr(&self, fid: &Fid) -> Result<Attr> {
        let attr = self.session.attr(fid)?;
        if attr.mode & abi::linux::S_IFMT == 0 || FileKind::of_mode(attr.mode).is_none() {
            return Err(Errno::EIO);
        }
        let (uid, gid) = self.owner.to_host(attr.uid, attr.gid);
        Ok(Attr {
            dev: self.dev,
            uid,
            gid,
            ..attr
        })
    }
}

/// A directory of the host's.
pub struct P9Fs {
    name: String,
    root: Arc<P9Inode>,
}

impl P9Fs {
    /// The one behind `link`.
    fn new(name: String, link: Arc<dyn Transport>, owner: HostOwner) -> Result<Arc<P9Fs>> {
        let session = Session::begin(link)?;
        let top = session.attach(owner.to_host(0, 0).0)?;
        let shared = try_arc(P9Mount {
            session,
            dev: crate::fs::mount::anonymous_dev(),
            owner,
            nodes: P9Inodes::default(),
            errors: try_arc(WritebackErrors::new())?,
        })?;
        let root = P9Inode::root(&shared, top)?;
        try_arc(P9Fs { name, root })
    }
}

impl FileSystem for P9Fs {
    fn kind(&self) -> &'static str {
        "9p"
    }

    fn root(&self) -> Arc<dyn Inode> {
        self.root.clone()
    }

    fn options(&self) -> &'static str {
        ",access=client,trans=virtio"
    }

    fn statfs(&self) -> Statfs {
        let none = mount::without_room(V9FS_MAGIC);
        let shared = &self.root.shared;
        let Ok(room) = shared.session.statfs(&self.root.fid()) else {
            return none;
        };
        let [blocks, bfree, bavail] = room.blocks;
        let [files, ffree] = room.files;
        Statfs {
            bsize: i64::from(room.bsize),
            frsize: i64::from(room.bsize),
            blocks,
            bfree,
            bavail,
            files,
            ffree,
            namelen: NAME_MAX as i64,
            fsid: [shared.dev as i32, 0],
            ..none
        }
    }
}

/// Those that are mounted, or were: a device has one session.
static SHARES: Monitor<Vec<Arc<P9Fs>>> = Monitor::new(Vec::new());

/// The file system behind the device that the host calls `tag`, whose owner is `owner` if nobody has asked
/// for it before. ENOENT: there is no such device.
fn found(tag: &str, owner: HostOwner) -> Result<Arc<P9Fs>> {
    let known = || {
        // Bound: **linear** in the directories of the host that are mounted.
        let mut shares = SHARES.lock();
        let place = shares.iter().position(|share| share.name == tag)?;
        if !shares[place].root.shared.session.is_gone() {
            return Some(shares[place].clone());
        }
        // Another device may have the name of one that was taken away.
        let gone = shares.swap_remove(place);
        drop(shares);
        drop(gone);
        None
    };
    if let Some(share) = known() {
        return Ok(share);
    }
    let name = try_text(format_args!("{PREFIX}{tag}"))?;
    let device = registry::share(&name).ok_or(Errno::ENOENT)?;
    let share = P9Fs::new(
        try_string(tag.as_bytes())?,
        try_arc(VirtioTransport(device))?,
        owner,
    )?;
    let mut shares = SHARES.lock();
    if let Some(first) = shares.iter().find(|share| share.name == tag).cloned() {
        // Somebody was faster. Two sessions of one device would end each other.
        drop(shares);
        return Ok(first);
    }
    try_push(&mut shares, share.clone())?;
    Ok(share)
}

/// The file system that `mount` asks for, by the device's name and options. EINVAL, ENOENT.
pub fn file_system(tag: &str, options: &str) -> Result<Arc<dyn FileSystem>> {
    for option in options.split(',').filter(|option| !option.is_empty()) {
        let good = match option.split_once('=').unwrap_or((option, "")) {
            ("trans", kind) => kind == "virtio",
            ("version", version) => version == "9p2000.L",
            // How much is kept, how long messages are, and who asks: what files hold, as long as may be, the
            // server's user.
            ("cache" | "msize" | "access" | "uname" | "nodevmap" | "noextend" | "debug", _) => true,
            ("dfltuid" | "dfltgid", _) => true,
            ("aname", path) => path.is_empty(),
            _ => false,
        };
        if !good {
            return Err(Errno::EINVAL);
        }
    }
    Ok(found(tag, HostOwner::default())?)
}

/// Where the root archive names what is to be mounted.
const TABLE: &[u8] = b"/.synthesis/shares";

/// Mounts the shares that the root archive names. The log tells which cannot be mounted.
pub fn mount_all(root: &VfsPath) {
    let table = match table(root) {
        Ok(table) => table,
        Err(Errno::ENOENT) => return,
        Err(error) => return machine::log!("shares: {error}"),
    };
    for line in core::str::from_utf8(&table).unwrap_or_default().lines() {
        if let Err(error) = mount_one(root, line) {
            machine::log!("share {line}: {error}");
        }
    }
}

fn table(root: &VfsPath) -> Result<Vec<u8>> {
    let cred = Cred::root();
    let place = walk(
        &WalkContext::new(root.clone(), &cred, 0),
        root.clone(),
        TABLE,
        true,
    )?
    .existing()?;
    let how = OpenRequest {
        flags: O_RDONLY,
        place: Some(place.clone()),
    };
    let of = place.inode.clone().open(how)?;
    let mut bytes = try_filled(0, abi::layout::PAGE)?;
    let count = of.file().read_at(&of, 0, &mut IoBuf::fill(&mut bytes))?;
    bytes.truncate(count);
    Ok(bytes)
}

/// A line: name of the device, user and group of the host, path.
fn mount_one(root: &VfsPath, line: &str) -> Result<()> {
    let mut words = line.splitn(4, ' ');
    let mut word = || words.next().ok_or(Errno::EINVAL);
    let (tag, uid, gid, path) = (word()?, word()?, word()?, word()?);
    let number = |text: &str| text.parse().map_err(|_| Errno::EINVAL);
    let owner = HostOwner {
        uid: number(uid)?,
        gid: number(gid)?,
    };
    let fs = found(tag, owner)?;
    let cred = Cred::root();
    let at = walk(
        &WalkContext::new(root.clone(), &cred, 0),
        root.clone(),
        path.as_bytes(),
        true,
    )?
    .existing()?;
    if at.inode.kind() != FileKind::Directory {
        return Err(Errno::ENOTDIR);
    }
    let top = fs.root();
    mount::mount(fs, top, Some(at), try_string(tag.as_bytes())?, 0).map(drop)
}

#[cfg(test)]
mod exact_tests;
#[cfg(test)]
mod server_tests;
#[cfg(test)]
mod tests;
