//! The supplier of file pages.
//!
//! *Interface*: [`Pager`], implemented by the owner of the pages (a file in memory, a device); [`PagerInfo`]
//! with its [`PagerLabel`], for people.
//! Source: Massalin and Pu 1991, section on virtual memory: the address space holds a list of segments,
//! each with the pager that is expected to supply the content of its pages.

use crate::frame::{BatchSlots, FrameRef};
use abi::errno::Errno;
use alloc::boxed::Box;
use alloc::string::String;
use alloc::sync::Arc;
use core::any::Any;

/// The supplier of a mapping's pages. Called without the space's monitor, so it may sleep and take its own.
pub trait Pager: Send + Sync {
    /// The frame that holds page `index` (in units of 4096 bytes) of the object, with one share for the
    /// caller. `write`: a shared mapping is about to be written; otherwise the frame is only read.
    /// Errors: `ENOMEM` when there is no memory for it; anything else means that the
    /// object has no such page (past its end, or an I/O error), and the program gets SIGBUS.
    fn frame(&self, index: u64, write: bool) -> Result<FrameRef, Errno>;

    /// Puts shares of the frames of the pages from `first` on into `found`, a place each, as far as they are
    /// in memory now; must not sleep. Lets one fault map the neighbours too.
    fn resident(&self, _first: u64, _found: &mut BatchSlots<'_>) {}

    /// Whether [`Pager::frame`] is the same with `write` and without: pages of a shared mapping may be made
    /// writable before it is asked, as those that are [resident](Pager::resident) are.
    fn lets_write(&self) -> bool {
        false
    }

    /// Device and number of the object: the same for all that have it, and for no other object ever. Of what
    /// is no file: a device that there is not.
    fn object(&self) -> (u64, u64);

    /// The object's file, for opening it by its mapping, in the form of the file room: none for an object
    /// that is not a file, or is beyond memory.
    fn file(&self) -> Option<Box<dyn Any>> {
        None
    }

    /// Whether it is to be asked again at the first write of a page behind a shield
    /// ([`super::AddressSpace::shield`]).
    fn follows_writes(&self) -> bool {
        false
    }

    /// Stores what was written through it where it is kept (`msync`). EIO, ENOSPC.
    fn store(&self) -> Result<(), Errno> {
        Ok(())
    }

    /// The data for `/proc/PID/maps`: path, device, inode.
    fn describe(&self) -> PagerInfo {
        PagerInfo::default()
    }
}

/// The name of a mapping's content, which is copied without memory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PagerLabel {
    /// Of what has no path.
    Fixed(&'static str),
    /// A path.
    Path(Arc<String>),
}

impl PagerLabel {
    /// The text.
    pub fn as_str(&self) -> &str {
        match self {
            PagerLabel::Fixed(name) => name,
            PagerLabel::Path(path) => path,
        }
    }
}

impl Default for PagerLabel {
    fn default() -> PagerLabel {
        PagerLabel::Fixed("")
    }
}

/// Where a mapping's content comes from, for people.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PagerInfo {
    /// The path, or a name in brackets.
    pub path: PagerLabel,
    /// Device number, as `stat` gives it.
    pub device: u64,
    /// Inode number.
    pub inode: u64,
}
