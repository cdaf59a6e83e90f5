//! A session with a file server: each question of 9P2000.L that is asked here is a function.
//!
//! *Interface*: [`Session::begin`] agrees on version and length, [`Session::attach`] gives the [`Fid`] of the
//! root directory; the rest are the calls. A fid that is dropped is given back (*clunked*).
//!
//! A caller gets, whatever the answer, values that it can use: no more bytes read or written than it asked
//! for, names without slashes and zeros, times within a second. The rest is EIO.
//! Source: as [`super::message`].

use abi::errno::{Errno, Result};
use abi::linux::{NAME_MAX, PATH_MAX};
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use sync::Monitor;

use super::message::{self, HEAD, MessageType, Reader, Writer};
use super::transport::{Long, Transport, Use};
use crate::fs::attr::{Attr, FileTime};
use crate::fs::inode::{DirEntry, DirSink};
use vm::fallible::{try_arc, try_copy, try_reserve};

const VERSION: &[u8] = b"9P2000.L";
/// No fid, and no tag.
const NO_FID: u32 = u32::MAX;
const NO_TAG: u16 = u16::MAX;
/// A server that wants shorter messages is refused: names would not fit.
const LEAST: u32 = 8 << 10;
/// The bytes of a message beside its data, at most.
const BESIDE: u32 = 24;

/// Attributes to set, and how [`Session::set`] is told of them.
pub mod set {
    /// Permission bits.
    pub const MODE: u32 = 1;
    /// Owner.
    pub const UID: u32 = 2;
    /// Group.
    pub const GID: u32 = 4;
    /// Length.
    pub const SIZE: u32 = 8;
    /// Last read, to what is given.
    pub const ATIME: u32 = 0x10 | 0x80;
    /// Last change, to what is given.
    pub const MTIME: u32 = 0x20 | 0x100;
}

/// New attributes: those that `valid` names.
#[derive(Clone, Copy, Default)]
pub struct NewAttr {
    /// Bits of [`set`].
    pub valid: u32,
    /// Permission bits.
    pub mode: u32,
    /// Owner.
    pub uid: u32,
    /// Group.
    pub gid: u32,
    /// Length in bytes.
    pub size: u64,
    /// Last read.
    pub atime: FileTime,
    /// Last change.
    pub mtime: FileTime,
}

/// Room in a file system.
pub struct FsRoom {
    /// Bytes of a block.
    pub bsize: u32,
    /// Blocks, those that are free, and those that are free for everybody.
    pub blocks: [u64; 3],
    /// Files, and those that there is room for.
    pub files: [u64; 2],
}

/// A session.
pub struct Session {
    link: Arc<dyn Transport>,
    /// The longest message.
    most: u32,
    next: AtomicU32,
    late: Monitor<Late>,
    has_late: AtomicBool,
}

/// Fids that are to be given back, but for which there was no place.
#[derive(Default)]
struct Late {
    fids: Vec<u32>,
    /// Fids that there are: for so many more there is room in the list.
    live: usize,
}

/// The server's handle of a file.
pub struct Fid {
    session: Arc<Session>,
    number: u32,
}

impl Fid {
    /// Its session.
    pub fn session(&self) -> &Arc<Session> {
        &self.session
    }
}

impl Drop for Fid {
    fn drop(&mut self) {
        let session = &self.session;
        let told = session.clunk(self.number);
        // Bound: a few words.
        let mut late = session.late.lock();
        late.live -= 1;
        if !told && late.fids.len() < late.fids.capacity() {
            #[expect(clippy::disallowed_methods, reason = "there is room")]
            late.fids.push(self.number);
            session.has_late.store(true, Ordering::Release);
        }
    }
}

impl Session {
    /// Whether the server is there no more.
    pub fn is_gone(&self) -> bool {
        self.link.is_gone()
    }

    /// Agrees with the server behind `link`. EIO, ENOMEM.
    pub fn begin(link: Arc<dyn Transport>) -> Result<Arc<Session>> {
        let most = link.longest();
        let mut agreed = most;
        let mut session = Session {
            link,
            most,
            next: AtomicU32::new(0),
            late: Monitor::new(Late::default()),
            has_late: AtomicBool::new(false),
        };
        session.exchange(
            Use::Call,
            Long::Reply,
            MessageType::Version,
            Some(NO_TAG),
            &mut |w| {
                w.u32(most);
                w.string(VERSION);
                Ok(())
            },
            &mut |r| {
                agreed = r.u32()?;
                if !(LEAST..=most).contains(&agreed) || r.string()? != VERSION {
                    return Err(Errno::EIO);
                }
                Ok(())
            },
        )?;
        session.most = agreed;
        try_arc(session)
    }

    fn exchange(
        &self,
        what: Use,
        long: Long,
        kind: MessageType,
        tag: Option<u16>,
        fill: &mut dyn FnMut(&mut Writer<'_>) -> Result<()>,
        heed: &mut dyn FnMut(&mut Reader<'_>) -> Result<()>,
    ) -> Result<()> {
        self.link.exchange(
            what,
            long,
            &mut |bytes, place| {
                let mut writer = Writer::new(bytes, kind, tag.unwrap_or(place));
                fill(&mut writer)?;
                writer.finish()
            },
            &mut |bytes, place| heed(&mut message::open(bytes, kind, tag.unwrap_or(place))?),
        )
    }

    /// A question of a call, whose answer is short, and what is made of that.
    fn ask<R>(
        &self,
        kind: MessageType,
        mut fill: impl FnMut(&mut Writer<'_>),
        mut heed: impl FnMut(&mut Reader<'_>) -> Result<R>,
    ) -> Result<R> {
        self.give_back();
        let mut result = Err(Errno::EIO);
        self.exchange(
            Use::Call,
            Long::Question,
            kind,
            None,
            &mut |w| {
                fill(w);
                Ok(())
            },
            &mut |r| {
                result = heed(r);
                Ok(())
            },
        )?;
        result
    }

    /// Gives back what could not be given back before.
    fn give_back(&self) {
        if !self.has_late.load(Ordering::Acquire) {
            return;
        }
        // Bound: a few words; or a message for each handle that could not be given back before, none of which
        // is waited for.
        let mut late = self.late.lock();
        while let Some(&fid) = late.fids.last() {
            if !self.clunk(fid) {
                return;
            }
            late.fids.pop();
        }
        self.has_late.store(false, Ordering::Release);
    }

    /// Tells the server that nobody will use this fid any more; false: there was no place. Never sleeps.
    fn clunk(&self, fid: u32) -> bool {
        self.link.tell(&mut |bytes, tag| {
            let mut writer = Writer::new(bytes, MessageType::Clunk, tag);
            writer.u32(fid);
            writer.finish()
        })
    }

    /// A number that no file has yet: they go round after four thousand million. ENOMEM.
    fn fid(self: &Arc<Self>) -> Result<Fid> {
        let mut late = self.late.lock();
        let room = late.live + 1;
        try_reserve(&mut late.fids, room)?;
        late.live += 1;
        drop(late);
        let number = loop {
            let number = self.next.fetch_add(1, Ordering::Relaxed);
            if number != NO_FID {
                break number;
            }
        };
        Ok(Fid {
            session: self.clone(),
            number,
        })
    }

    /// The root directory, for the host's user `uid`.
    pub fn attach(self: &Arc<Self>, uid: u32) -> Result<Arc<Fid>> {
        let fid = self.fid()?;
        let number = fid.number;
        self.ask(
            MessageType::Attach,
            |w| {
                w.u32(number);
                w.u32(NO_FID);
                w.string(b"");
                w.string(b"");
                w.u32(uid);
            },
            |r| qid(r).map(drop),
        )?;
        try_arc(fid)
    }

    /// A fid of what is called `name` in the directory `from`, or of the same file.
    pub fn walk(self: &Arc<Self>, from: &Fid, name: Option<&[u8]>) -> Result<Arc<Fid>> {
        let fid = self.fid()?;
        let number = fid.number;
        self.ask(
            MessageType::Walk,
            |w| {
                w.u32(from.number);
                w.u32(number);
                w.u16(name.is_some().into());
                if let Some(name) = name {
                    w.string(name);
                }
            },
            |r| match (r.u16()?, name) {
                (0, None) => Ok(()),
                (1, Some(_)) => qid(r).map(drop),
                _ => Err(Errno::EIO),
            },
        )?;
        try_arc(fid)
    }

    /// The attributes of a file; `dev` is left 0.
    pub fn attr(&self, fid: &Fid) -> Result<Attr> {
        const BASIC: u64 = 0x7ff;
        self.ask(
            MessageType::Getattr,
            |w| {
                w.u32(fid.number);
                w.u64(BASIC);
            },
            |r| {
                let _valid = r.u64()?;
                let ino = qid(r)?;
                let (mode, uid, gid) = (r.u32()?, r.u32()?, r.u32()?);
                let nlink = u32::try_from(r.u64()?).unwrap_or(u32::MAX);
                let (rdev, size) = (r.u64()?, r.u64()?.min(i64::MAX as u64));
                let (_blksize, blocks) = (r.u64()?, r.u64()?);
                let [atime, mtime, ctime] = [time(r)?, time(r)?, time(r)?];
                Ok(Attr {
                    dev: 0,
                    ino,
                    mode,
                    nlink,
                    uid,
                    gid,
                    rdev,
                    size,
                    blocks,
                    atime,
                    mtime,
                    ctime,
                    btime: ctime,
                })
            },
        )
    }

    /// Changes attributes.
    pub fn set(&self, fid: &Fid, new: &NewAttr) -> Result<()> {
        self.ask(
            MessageType::Setattr,
            |w| {
                w.u32(fid.number);
                w.u32(new.valid);
                w.u32(new.mode);
                w.u32(new.uid);
                w.u32(new.gid);
                w.u64(new.size);
                for time in [new.atime, new.mtime] {
                    w.u64(time.sec as u64);
                    w.u64(time.nsec.into());
                }
            },
            |_| Ok(()),
        )
    }

    /// Opens the file for reading and writing as `flags` (`O_*`) say. How many bytes one message moves.
    pub fn open(&self, fid: &Fid, flags: u32) -> Result<u32> {
        self.ask(
            MessageType::Open,
            |w| {
                w.u32(fid.number);
                w.u32(flags);
            },
            |r| self.opened(r),
        )
    }

    /// Makes a regular file called `name` in the directory `fid`, which is then that file, open.
    pub fn create(&self, fid: &Fid, name: &[u8], flags: u32, mode: u32, gid: u32) -> Result<u32> {
        self.ask(
            MessageType::Create,
            |w| {
                w.u32(fid.number);
                w.string(name);
                w.u32(flags);
                w.u32(mode);
                w.u32(gid);
            },
            |r| self.opened(r),
        )
    }

    fn opened(&self, r: &mut Reader<'_>) -> Result<u32> {
        qid(r)?;
        let most = self.most - BESIDE;
        Ok(match r.u32()? {
            0 => most,
            unit => unit.min(most),
        })
    }

    /// Makes a directory.
    pub fn mkdir(&self, dir: &Fid, name: &[u8], mode: u32, gid: u32) -> Result<()> {
        self.ask(
            MessageType::Mkdir,
            |w| {
                w.u32(dir.number);
                w.string(name);
                w.u32(mode);
                w.u32(gid);
            },
            |_| Ok(()),
        )
    }

    /// Makes a file of the kind that `mode` says.
    pub fn mknod(
        &self,
        dir: &Fid,
        name: &[u8],
        mode: u32,
        device: (u32, u32),
        gid: u32,
    ) -> Result<()> {
        self.ask(
            MessageType::Mknod,
            |w| {
                w.u32(dir.number);
                w.string(name);
                w.u32(mode);
                w.u32(device.0);
                w.u32(device.1);
                w.u32(gid);
            },
            |_| Ok(()),
        )
    }

    /// Makes a symbolic link.
    pub fn symlink(&self, dir: &Fid, name: &[u8], target: &[u8], gid: u32) -> Result<()> {
        self.ask(
            MessageType::Symlink,
            |w| {
                w.u32(dir.number);
                w.string(name);
                w.string(target);
                w.u32(gid);
            },
            |_| Ok(()),
        )
    }

    /// The text of a symbolic link.
    pub fn readlink(&self, fid: &Fid) -> Result<Vec<u8>> {
        let mut text = Err(Errno::EIO);
        self.exchange(
            Use::Call,
            Long::Reply,
            MessageType::Readlink,
            None,
            &mut |w| {
                w.u32(fid.number);
                Ok(())
            },
            &mut |r| {
                let answer = r.string()?;
                if answer.len() >= PATH_MAX || answer.contains(&0) {
                    return Err(Errno::EIO);
                }
                text = try_copy(answer);
                Ok(())
            },
        )?;
        text
    }

    /// Gives a file one more name.
    pub fn link(&self, dir: &Fid, name: &[u8], file: &Fid) -> Result<()> {
        self.ask(
            MessageType::Link,
            |w| {
                w.u32(dir.number);
                w.u32(file.number);
                w.string(name);
            },
            |_| Ok(()),
        )
    }

    /// Moves a name.
    pub fn rename(&self, from: (&Fid, &[u8]), to: (&Fid, &[u8])) -> Result<()> {
        self.ask(
            MessageType::Renameat,
            |w| {
                for (dir, name) in [from, to] {
                    w.u32(dir.number);
                    w.string(name);
                }
            },
            |_| Ok(()),
        )
    }

    /// Removes a name, of a directory or of anything else.
    pub fn unlink(&self, dir: &Fid, name: &[u8], directory: bool) -> Result<()> {
        const AT_REMOVEDIR: u32 = 0x200;
        self.ask(
            MessageType::Unlinkat,
            |w| {
                w.u32(dir.number);
                w.string(name);
                w.u32(if directory { AT_REMOVEDIR } else { 0 });
            },
            |_| Ok(()),
        )
    }

    /// Waits until what was written is on the host's disk.
    pub fn fsync(&self, fid: &Fid, data: bool) -> Result<()> {
        self.ask(
            MessageType::Fsync,
            |w| {
                w.u32(fid.number);
                w.u32(data.into());
            },
            |_| Ok(()),
        )
    }

    /// How much room there is.
    pub fn statfs(&self, fid: &Fid) -> Result<FsRoom> {
        self.ask(
            MessageType::Statfs,
            |w| w.u32(fid.number),
            |r| {
                let (_kind, bsize) = (r.u32()?, r.u32()?);
                Ok(FsRoom {
                    bsize,
                    blocks: [r.u64()?, r.u64()?, r.u64()?],
                    files: [r.u64()?, r.u64()?],
                })
            },
        )
    }

    /// Bytes that one message reads or writes at most.
    pub fn unit(&self) -> usize {
        (self.most - BESIDE) as usize
    }

    /// Hands up to `count` bytes from `offset` on to `taker`, which says how many it took. How many that
    /// were, and whether there were more of them than the file had left.
    pub fn read(
        &self,
        what: Use,
        fid: &Fid,
        offset: u64,
        count: u32,
        taker: &mut dyn FnMut(&[u8]) -> Result<usize>,
    ) -> Result<usize> {
        self.give_back();
        let count = count.min(self.most - BESIDE);
        let mut moved = 0;
        self.exchange(
            what,
            Long::Reply,
            MessageType::Read,
            None,
            &mut |w| {
                w.u32(fid.number);
                w.u64(offset);
                w.u32(count);
                Ok(())
            },
            &mut |r| {
                let data = r.data()?;
                if data.len() > count as usize {
                    return Err(Errno::EIO);
                }
                moved = taker(data)?;
                Ok(())
            },
        )?;
        Ok(moved)
    }

    /// Writes what `giver` puts into the memory that it is given, at most `count` bytes, at `offset`. How
    /// many were written, and how many given.
    pub fn write(
        &self,
        what: Use,
        fid: &Fid,
        offset: u64,
        count: u32,
        giver: &mut dyn FnMut(&mut [u8]) -> Result<usize>,
    ) -> Result<(usize, usize)> {
        self.give_back();
        let count = count.min(self.most - BESIDE) as usize;
        let (mut given, mut written) = (0, 0);
        self.exchange(
            what,
            Long::Question,
            MessageType::Write,
            None,
            &mut |w| {
                w.u32(fid.number);
                w.u64(offset);
                w.u32(0);
                let room = w.room();
                let room_len = room.len();
                given = giver(&mut room[..count.min(room_len)])?;
                w.filled(given);
                Ok(())
            },
            &mut |r| {
                written = r.u32()? as usize;
                Ok(())
            },
        )?;
        if written > given {
            return Err(Errno::EIO);
        }
        Ok((written, given))
    }

    /// Hands the entries of the open directory `fid` from place `from` on to `sink`. Where it stopped.
    pub fn readdir(&self, fid: &Fid, from: u64, sink: &mut dyn DirSink) -> Result<u64> {
        self.give_back();
        let count = self.most - BESIDE;
        let mut at = from;
        self.exchange(
            Use::Call,
            Long::Reply,
            MessageType::Readdir,
            None,
            &mut |w| {
                w.u32(fid.number);
                w.u64(from);
                w.u32(count);
                Ok(())
            },
            &mut |r| {
                let mut entries = Reader::of(r.data()?);
                while !entries.is_empty() {
                    let ino = qid(&mut entries)?;
                    let (next, kind) = (entries.u64()?, entries.u8()?);
                    let name = entries.string()?;
                    if i64::try_from(next).is_err() {
                        return Err(Errno::EIO);
                    }
                    let entry = DirEntry {
                        ino,
                        next,
                        kind,
                        name,
                    };
                    if is_name(name) && !sink.entry(entry) {
                        break;
                    }
                    at = next;
                }
                Ok(())
            },
        )?;
        Ok(at)
    }
}

/// Whether a directory can have this name.
fn is_name(name: &[u8]) -> bool {
    (1..=NAME_MAX).contains(&name.len()) && !name.iter().any(|byte| matches!(byte, 0 | b'/'))
}

/// The number by which a server tells files apart.
fn qid(r: &mut Reader<'_>) -> Result<u64> {
    let (_kind, _version) = (r.u8()?, r.u32()?);
    r.u64()
}

fn time(r: &mut Reader<'_>) -> Result<FileTime> {
    let (sec, nsec) = (r.u64()? as i64, r.u64()?);
    let nsec = u32::try_from(nsec)
        .ok()
        .filter(|nsec| *nsec < 1_000_000_000);
    Ok(FileTime {
        sec,
        nsec: nsec.unwrap_or(0),
    })
}

const _: () = assert!(BESIDE as usize >= HEAD + 4 + 8 + 4);
