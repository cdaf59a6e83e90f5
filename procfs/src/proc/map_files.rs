//! `/proc/PID/map_files`: a link for each mapping of a file, named by its addresses.
//!
//! *Interface*: [`MapFilesDir`]. The link leads to the file that is mapped, whatever its path leads to by
//! now; who follows it needs rights of the superuser, as on Linux.

use abi::errno::{Errno, Result};
use alloc::boxed::Box;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::fmt::Write;
use vm::fallible::{try_arc, try_copy};
use vm::space::{AreaInfo, Pager};

use super::tunables::NumberLine;
use account::Capability;
use file::fs::attr::FileKind;
use file::fs::inode::Inode;
use file::fs::mount::{self, VfsPath};
use file::fs::pseudofs::{EachEntry, MagicLink, PseudoDir, PseudoEntry};
use process::Process;
use process::access::{self, PtraceMode};

/// The directory of a process.
pub struct MapFilesDir(pub Arc<Process>);

/// Whether an area has a link: it is of an object that has a path.
fn has_link(area: &AreaInfo) -> bool {
    let pager = area.pager.as_ref();
    pager.is_some_and(|pager| pager.path.as_str().starts_with('/'))
}

/// The addresses that a name is: two numbers as `maps` would write them, but without zeros in front. ENOENT.
fn addresses(name: &str) -> Result<(usize, usize)> {
    let number = |text: &str| {
        let digits = text
            .bytes()
            .all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'));
        let plain = digits && (text == "0" || !text.starts_with('0'));
        let number = usize::from_str_radix(text, 16).ok();
        number.filter(|_| plain).ok_or(Errno::ENOENT)
    };
    let (start, end) = name.split_once('-').ok_or(Errno::ENOENT)?;
    Ok((number(start)?, number(end)?))
}

impl PseudoDir for MapFilesDir {
    fn get(&self, name: &str) -> Result<PseudoEntry> {
        let (start, end) = addresses(name)?;
        let space = access::space(&self.0, PtraceMode::See).map_err(|_| Errno::EACCES)?;
        let space = space.ok_or(Errno::ENOENT)?;
        let mut found = None;
        space.for_each_area_above(start, |area| {
            let is = (area.start, area.end) == (start, end) && has_link(&area);
            found = is.then_some(area);
            false
        });
        let area = found.ok_or(Errno::ENOENT)?;
        let pager = space.pager_of(start, end).ok_or(Errno::ENOENT)?;
        Ok(PseudoEntry::MagicLink(try_arc(Link { area, pager })?))
    }

    fn list(&self, from: u64, each: EachEntry) {
        let Ok(Some(space)) = access::space(&self.0, PtraceMode::See) else {
            return;
        };
        let mut from = usize::try_from(from).unwrap_or(usize::MAX);
        loop {
            let mut next = None;
            space.for_each_area_above(from, |area| {
                // Of those that end behind the place the ones that began before it have been shown.
                let is = area.start >= from && has_link(&area);
                next = is.then_some((area.start, area.end));
                !is
            });
            // Without the space: who is told may touch its memory.
            let Some((start, end)) = next else {
                return;
            };
            let mut name = NumberLine::default();
            // Two addresses and what is between them fit.
            let _ = write!(name, "{start:x}-{end:x}");
            if !each(start as u64, name.as_str(), FileKind::Symlink) {
                return;
            }
            from = start + 1;
        }
    }

    fn owner(&self) -> (u32, u32) {
        access::owner_of(&self.0)
    }

    fn permissions(&self) -> u32 {
        0o500
    }
}

/// One link.
struct Link {
    area: AreaInfo,
    pager: Arc<dyn Pager>,
}

impl MagicLink for Link {
    fn permissions(&self) -> u32 {
        let writes = self.area.shared && self.area.prot.contains(vm::Prot::WRITE);
        if writes { 0o600 } else { 0o400 }
    }

    fn text(&self) -> Result<Vec<u8>> {
        let path = self.area.pager.as_ref().map(|pager| pager.path.as_str());
        try_copy(path.unwrap_or_default().as_bytes())
    }

    fn place(&self) -> Result<VfsPath> {
        let cred = account::caller::cred();
        cred.need(Capability::SysAdmin)
            .or_else(|_| cred.need(Capability::CheckpointRestore))?;
        let file = self.pager.file().ok_or(Errno::ENOENT)?;
        let inode: Box<Arc<dyn Inode>> = file.downcast().map_err(|_| Errno::ENOENT)?;
        let (device, _) = inode.id();
        // By the first place at which its file system stands.
        let mut from = 0;
        while let Some(mount) = mount::mount_from(from) {
            if mount.root.id().0 == device {
                return Ok(VfsPath {
                    mount,
                    inode: *inode,
                });
            }
            from = u64::from(mount.id) + 1;
        }
        Ok(mount::root().ok_or(Errno::ENOENT)?.with_inode(*inode))
    }
}
