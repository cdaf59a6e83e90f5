//! Putting a program's segments into a new address space.
//!
//! *Interface*: [`Executable`] is an executable file, [`load`] maps an [`ElfImage`] from it.

use alloc::sync::Arc;
use alloc::vec::Vec;

use abi::errno::{Errno, Result};
use abi::layout::{PAGE, USER_PIE_BASE, page_ceil, page_floor};
use abi::linux::*;
use vm::space::{Backing, Placement};
use vm::{AddressSpace, Pager, Prot};

use super::elf::{self, ElfImage};
use crate::process::Process;
use account::Cred;
use account::capability::file::{FileCaps, NAME};
use file::OpenFile;
use file::fs::walk::{WalkContext, walk};
use file::fs::write_count::DenyWrite;
use file::fs::{FileKind, OpenRequest, VfsPath, perm};
use file::io::IoBuf;
use vm::fallible::{try_copy, try_filled};

/// Pages over which a position-independent program's place is spread.
const SPREAD_PAGES: u64 = 1 << 16;
/// As many first bytes as usually hold all headers.
const HEAD: usize = 1024;

/// An executable file, opened and checked.
pub struct Executable {
    of: Arc<OpenFile>,
    /// The path it was found under.
    pub path: Vec<u8>,
    /// Its mode, owner and group, for set-user-ID.
    pub mode: u32,
    /// See `mode`.
    pub uid: u32,
    /// See `mode`.
    pub gid: u32,
    size: u64,
    /// Its first bytes: all of them, or [`HEAD`].
    pub head: Vec<u8>,
    /// It cannot be written meanwhile.
    running: Option<DenyWrite>,
}

impl Executable {
    /// Opens `path` from `start` for `process`. ENOENT, EACCES, ENOTDIR, ELOOP, ENOMEM.
    pub fn open(
        process: &Process,
        start: VfsPath,
        path: &[u8],
        follow: bool,
    ) -> Result<Executable> {
        let cred = process.cred_here();
        let context = process.fs.get();
        let view = WalkContext::new(context.root(), &cred, context.umask());
        let target = walk(&view, start, path, follow)?;
        let place = target.existing()?;
        if !follow && place.inode.attr().kind() == FileKind::Symlink {
            return Err(Errno::ELOOP);
        }
        Self::at(&cred, place, path)
    }

    /// The file at `place`, called `path`.
    pub fn at(cred: &Cred, place: VfsPath, path: &[u8]) -> Result<Executable> {
        let attr = place.inode.attr();
        if attr.kind() != FileKind::Regular || place.is_noexec() {
            return Err(Errno::EACCES);
        }
        place.inode.permits(cred, perm::EXEC)?;
        let how = OpenRequest {
            flags: O_RDONLY,
            place: Some(place.clone()),
        };
        let of = place.inode.clone().open(how)?;
        let running = DenyWrite::begin(&place.inode)?;
        let head = read(&of, 0, HEAD.min(attr.size as usize))?;
        Ok(Executable {
            of,
            path: try_copy(path)?,
            mode: attr.mode,
            uid: attr.uid,
            gid: attr.gid,
            size: attr.size,
            head,
            running,
        })
    }

    /// That it is run, to be kept as long as it is.
    pub fn take_running(&mut self) -> Option<DenyWrite> {
        self.running.take()
    }

    /// Whether `cred` may read it, not only execute it.
    pub fn may_be_read(&self, cred: &Cred) -> bool {
        let readable = |place: &VfsPath| place.inode.permits(cred, perm::READ).is_ok();
        self.place().is_some_and(readable)
    }

    /// Whether mode, owner or group have changed since it was opened. A write would have removed set-id bits
    /// before.
    pub fn has_changed(&self) -> bool {
        self.place().is_none_or(|place| {
            let now = place.inode.bits();
            (now.mode, now.uid, now.gid) != (self.mode, self.uid, self.gid)
        })
    }

    /// The capabilities that it has now; none where set-id bits count for nothing. EINVAL: they cannot be
    /// understood.
    pub fn capabilities(&self) -> Result<Option<FileCaps>> {
        let gives = |place: &&VfsPath| !place.is_nosuid();
        let Some(place) = self.place().filter(gives) else {
            return Ok(None);
        };
        match place.inode.attribute(NAME) {
            Ok(bytes) => FileCaps::from_bytes(&bytes),
            Err(Errno::ENODATA | Errno::EOPNOTSUPP) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// The file's place.
    pub fn place(&self) -> Option<&VfsPath> {
        self.of.place()
    }

    /// The interpreter's path in this file. ENOEXEC.
    pub fn interpreter(&self, offset: u64, length: usize) -> Result<Vec<u8>> {
        let mut path = read(&self.of, offset, length)?;
        if path.len() != length || path.pop() != Some(0) || path.contains(&0) {
            return Err(Errno::ENOEXEC);
        }
        Ok(path)
    }

    /// Reads the program headers. ENOEXEC.
    pub fn image(&self) -> Result<ElfImage> {
        let (offset, length) = elf::table(&self.head)?;
        let end = offset as usize + length;
        let image = match self.head.get(offset as usize..end) {
            Some(table) => elf::parse(&self.head, table)?,
            None => elf::parse(&self.head, &read(&self.of, offset, length)?)?,
        };
        let complete = |s: &elf::ElfSegment| s.offset + s.filesz as u64 <= self.size;
        if image.segments.iter().all(complete) {
            Ok(image)
        } else {
            Err(Errno::ENOEXEC)
        }
    }
}

/// `length` bytes of a file from `offset` on, or as many as it has. ENOMEM.
fn read(of: &OpenFile, offset: u64, length: usize) -> Result<Vec<u8>> {
    let mut bytes = try_filled(0, length)?;
    let mut filled = 0;
    while filled < length {
        let mut rest = IoBuf::fill(&mut bytes[filled..]);
        match of.file().read_at(of, offset + filled as u64, &mut rest)? {
            0 => break,
            count => filled += count,
        }
    }
    bytes.truncate(filled);
    Ok(bytes)
}

/// The addresses of a loaded program.
pub struct LoadedProgram {
    /// The bias of its addresses.
    pub bias: usize,
    /// Its first instruction.
    pub entry: usize,
    /// Its program headers, 0 if they are not in memory.
    pub phdr: usize,
    /// The end of its last segment.
    pub end: usize,
    /// How much of that the file has: the program's data.
    pub data: usize,
}

/// The role of an image in its process.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum ImageRole {
    /// The program.
    Program,
    /// Its interpreter: loaded anywhere but in the program's region.
    Interpreter,
}

/// A random number of pages less than `most`, in bytes; 0 for a program of a `personality` with
/// `ADDR_NO_RANDOMIZE`.
pub fn spread(personality: u32, most: u64) -> usize {
    if personality & ADDR_NO_RANDOMIZE != 0 {
        return 0;
    }
    (machine::random::u64() % most) as usize * PAGE
}

/// Maps `image` of `source` into `space`, for a program of this personality. ENOMEM, ENOEXEC, ENODEV.
pub fn load(
    space: &AddressSpace,
    source: &Executable,
    image: &ElfImage,
    part: ImageRole,
    personality: u32,
) -> Result<LoadedProgram> {
    let (first, end) = image.span();
    let bias = match part {
        _ if !image.relocatable => 0,
        ImageRole::Program => {
            // Wherever the file would like to be, above or below.
            (USER_PIE_BASE + spread(personality, SPREAD_PAGES)).wrapping_sub(first)
        }
        ImageRole::Interpreter => {
            let room = space.map(
                Placement::Anywhere,
                end - first,
                Prot::NONE,
                Backing::Anonymous,
            )?;
            room.wrapping_sub(first)
        }
    };
    let of = &source.of;
    let pager = of.file().pager(of)?;
    for segment in &image.segments {
        map_segment(space, &pager, segment, bias)?;
    }
    Ok(LoadedProgram {
        bias,
        entry: image.entry.wrapping_add(bias),
        phdr: if image.phdr != 0 {
            image.phdr.wrapping_add(bias)
        } else {
            0
        },
        end: end.wrapping_add(bias),
        data: image.segments.last().map_or(0, |last| last.filesz),
    })
}

fn map_segment(
    space: &AddressSpace,
    pager: &Arc<dyn Pager>,
    segment: &elf::ElfSegment,
    bias: usize,
) -> Result<()> {
    let start = segment.vaddr.wrapping_add(bias);
    let prot = Prot::from_bits(segment.prot as usize);
    let file_end = start + segment.filesz;
    let mapped_end = if segment.filesz == 0 {
        page_floor(start)
    } else {
        page_ceil(file_end).ok_or(Errno::ENOEXEC)?
    };
    if segment.filesz != 0 {
        let skew = (start % PAGE) as u64;
        let backing = Backing::FilePrivate {
            pager: pager.clone(),
            offset: segment.offset - skew,
            may_exec: true,
        };
        let length = mapped_end - page_floor(start);
        space.map(Placement::Fixed(page_floor(start)), length, prot, backing)?;
    }
    if segment.memsz == segment.filesz {
        return Ok(());
    }
    // The memory after the file's bytes is zero: the rest of their last page, then separate pages.
    let end = page_ceil(start + segment.memsz).ok_or(Errno::ENOEXEC)?;
    if segment.filesz != 0 && mapped_end > file_end && prot.contains(Prot::WRITE) {
        const ZEROS: [u8; PAGE] = [0; PAGE];
        space
            .write_at(file_end, &ZEROS[..mapped_end - file_end])
            .map_err(|_| Errno::ENOMEM)?;
    }
    if end > mapped_end {
        space.map(
            Placement::Fixed(mapped_end),
            end - mapped_end,
            prot,
            Backing::Anonymous,
        )?;
    }
    Ok(())
}
