//! `madvise`: what a program wants of parts of its memory at `fork` and in a core dump.
//!
//! *Interface*: [`AddressSpace::advise`] says a [`Advice`]; areas keep [`AreaAdvice`](super::AreaAdvice).

use super::area::{Area, Content};
use super::{AddressSpace, Machine};
use abi::errno::Errno;

/// One of them, wanted or no more.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Advice {
    /// A child does not have it (`MADV_DONTFORK`).
    LeaveOut(bool),
    /// A child has zeros there (`MADV_WIPEONFORK`).
    Wipe(bool),
    /// It is in no core (`MADV_DONTDUMP`).
    Conceal(bool),
}

impl Area {
    /// EINVAL: only private memory of no file can be wiped.
    fn advise(&mut self, wish: Advice) -> Result<(), Errno> {
        match wish {
            Advice::LeaveOut(on) => self.wishes.left_out = on,
            Advice::Wipe(true) if !matches!(self.content, Content::Zeros) => {
                return Err(Errno::EINVAL);
            }
            Advice::Wipe(on) => self.wishes.wiped = on,
            Advice::Conceal(on) => self.wishes.concealed = on,
        }
        Ok(())
    }
}

impl<M: Machine> AddressSpace<M> {
    /// Notes a wish about all areas of a range. `ENOMEM`: there are holes; the wishes for existing areas have
    /// been recorded. `EINVAL`: it cannot be so of one of them, and those before have it. `EAGAIN`: an area
    /// cannot be cut.
    pub fn advise(&self, start: usize, end: usize, wish: Advice) -> Result<(), Errno> {
        let mut inner = self.change();
        let cut = inner.areas.admit_cuts(start, end);
        cut.and_then(|()| inner.areas.reserve())
            .map_err(|_| Errno::EAGAIN)?;
        inner.wished = true;
        let whole = inner.areas.covers(start, end);
        let first = inner.areas.cut(start);
        let last = inner.areas.cut(end);
        let mut noted = Ok(());
        for index in first..last {
            noted = inner.areas.get_mut(index).1.advise(wish);
            if noted.is_err() {
                break;
            }
        }
        inner.areas.join(first, last);
        noted?;
        if whole { Ok(()) } else { Err(Errno::ENOMEM) }
    }

    /// Whether all that there is of a range is private memory of no file (`MADV_FREE`).
    pub fn is_anonymous(&self, start: usize, end: usize) -> bool {
        let inner = self.held();
        let mut all = inner.areas.touching(start, end).iter();
        all.all(|(_, area)| matches!(area.content, Content::Zeros))
    }
}
