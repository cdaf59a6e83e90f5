//! `remap_file_pages`: other pages of the object behind a shared mapping appear in the same place.
//!
//! *Interface*: [`AddressSpace::show`].

use super::area::{Area, Content};
use super::{AddressSpace, Machine};
use abi::errno::Errno;
use alloc::sync::Arc;

impl<M: Machine> AddressSpace<M> {
    /// From now on the range, which is a part of one shared mapping, or of several of one object and kind
    /// side by side, shows the object's pages from page `first` on. Errors: `EINVAL` (it is no such range),
    /// `ENOMEM`.
    pub fn show(&self, start: usize, end: usize, first: u64) -> Result<(), Errno> {
        self.admit()?;
        let mut inner = self.change();
        let (_, (_, area)) = inner.areas.find(start).ok_or(Errno::EINVAL)?;
        let Content::Pager {
            pager,
            shared: true,
            may,
            ..
        } = &area.content
        else {
            return Err(Errno::EINVAL);
        };
        let alike = |other: &Area| {
            let same = matches!(&other.content, Content::Pager { pager: theirs, shared: true, may: rights, .. } if Arc::ptr_eq(pager, theirs) && rights == may);
            same && other.prot == area.prot
                && other.role == area.role
                && other.lock == area.lock
                && other.wishes == area.wishes
        };
        let mut touched = inner.areas.touching(start, end).iter();
        if !inner.areas.covers(start, end) || !touched.all(|(_, other)| alike(other)) {
            return Err(Errno::EINVAL);
        }
        let content = Content::Pager {
            pager: pager.clone(),
            first,
            shared: true,
            may: *may,
        };
        let shown = Area {
            end,
            content,
            ..area.clone()
        };
        inner.areas.admit_another()?;
        inner.areas.admit_hole(start, end)?;
        inner.areas.reserve()?;
        self.clear(&mut inner, start, end);
        inner.add(start, shown);
        Ok(())
    }

    /// Where the area that contains `address` starts, if that one grows down.
    pub fn growing_from(&self, address: usize) -> Option<usize> {
        let inner = self.held();
        let (_, (start, area)) = inner.areas.find(address)?;
        area.role.floor().map(|_| *start)
    }
}
