//! The record of one range of a space's addresses.
//!
//! *Interface*: [`Backing`], [`Placement`] are what a caller of `map` chooses; [`AreaInfo`] is what
//! it can look at.

use super::pager::{Pager, PagerInfo};
use crate::table::Prot;
use abi::layout::{PAGE, USER_START};
use alloc::sync::Arc;

/// How an area stays in memory.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum MemoryLock {
    /// It need not.
    #[default]
    No,
    /// Each page from its first use on.
    Used,
    /// All of it.
    All,
}

/// The wishes for one area.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct AreaAdvice {
    /// A child does not have it.
    pub left_out: bool,
    /// A child has zeros there.
    pub wiped: bool,
    /// It is in no core.
    pub concealed: bool,
}

impl AreaAdvice {
    /// Whether a child gets the pages.
    pub(super) fn inherits(self) -> bool {
        !self.left_out && !self.wiped
    }
}

/// Where the content of an area comes from.
#[derive(Clone)]
pub enum Backing {
    /// Zeros at first, private to this space (copied on write after fork).
    Anonymous,
    /// The same, of whatever length: the program says that it does not need all of it (`MAP_NORESERVE`).
    Unreserved,
    /// Zeros at first, shared with the spaces forked from this one.
    AnonymousShared {
        /// It may ever be written.
        may_write: bool,
    },
    /// The same as `Anonymous`, growing down on faults below it as far as there is room (`MAP_GROWSDOWN`).
    Growing,
    /// A private copy of the object's pages from byte `offset` (a multiple of 4096) on.
    FilePrivate {
        /// The supplier of the pages.
        pager: Arc<dyn Pager>,
        /// Byte offset in the object of the area's first byte.
        offset: u64,
        /// Whether the area may ever become executable (`mprotect` refuses otherwise).
        may_exec: bool,
    },
    /// The object's pages themselves.
    FileShared {
        /// The supplier of the pages.
        pager: Arc<dyn Pager>,
        /// Byte offset in the object of the area's first byte.
        offset: u64,
        /// Whether the area may ever become writable (`mprotect` refuses otherwise).
        may_write: bool,
        /// Whether it may ever become executable.
        may_exec: bool,
    },
}

/// Where an area goes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Placement {
    /// Wherever there is room.
    Anywhere,
    /// At this address if there is room, else anywhere.
    Hint(usize),
    /// Below 4 GiB (`MAP_32BIT` means the lower 2 GiB there).
    Below(usize),
    /// At the first address if there is room below the second, else below the second.
    HintBelow(usize, usize),
    /// Exactly there; earlier mappings are unmapped.
    Fixed(usize),
    /// Exactly there, or `EEXIST`.
    FixedNoReplace(usize),
}

/// The purpose of an area, beside its backing.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Role {
    /// Nothing special.
    Plain,
    /// The heap that `brk` moves.
    Heap,
    /// A stack: grows down on faults below it, no further than this address.
    Stack {
        /// The lowest address it may reach.
        floor: usize,
    },
    /// The same as far as there is room (`MAP_GROWSDOWN`).
    Growing,
}

impl Role {
    /// The lowest address that it may reach, of what grows down.
    pub fn floor(self) -> Option<usize> {
        match self {
            Role::Stack { floor } => Some(floor),
            Role::Growing => Some(USER_START),
            Role::Plain | Role::Heap => None,
        }
    }
}

/// One range of addresses with the same rights and backing.
#[derive(Clone)]
pub(super) struct Area {
    pub(super) end: usize,
    pub(super) prot: Prot,
    pub(super) role: Role,
    pub(super) lock: MemoryLock,
    pub(super) wishes: AreaAdvice,
    pub(super) content: Content,
}

/// The backing as the space keeps it.
#[derive(Clone)]
pub(super) enum Content {
    Zeros,
    Pager {
        pager: Arc<dyn Pager>,
        /// Page index in the object of the area's first page.
        first: u64,
        shared: bool,
        /// The rights that the area may ever have.
        may: Prot,
    },
}

impl Area {
    /// Writes go to this space's own copy.
    pub(super) fn private(&self) -> bool {
        !matches!(self.content, Content::Pager { shared: true, .. })
    }

    /// Cuts the area that starts at `start` at `at`, which lies inside; answers the upper part.
    pub(super) fn split(&mut self, start: usize, at: usize) -> Area {
        let mut upper = self.clone();
        upper.advance(at - start);
        self.end = at;
        upper
    }

    /// The start moves up by `bytes`, or down by minus that; the content stays where it is.
    pub(super) fn advance(&mut self, bytes: usize) {
        if let Content::Pager { first, .. } = &mut self.content {
            *first += (bytes / PAGE) as u64;
        }
    }

    /// Could this area, from `start` on, and `next`, which starts where it ends, be one?
    pub(super) fn joins(&self, start: usize, next: &Area) -> bool {
        if self.prot != next.prot
            || self.role != next.role
            || self.lock != next.lock
            || self.wishes != next.wishes
        {
            return false;
        }
        match (&self.content, &next.content) {
            (Content::Zeros, Content::Zeros) => true,
            (
                Content::Pager {
                    pager: a,
                    first: i,
                    shared: s,
                    may: m,
                },
                Content::Pager {
                    pager: b,
                    first: j,
                    shared: t,
                    may: n,
                },
            ) => {
                Arc::ptr_eq(a, b)
                    && s == t
                    && m == n
                    && i + ((self.end - start) / PAGE) as u64 == *j
            }
            _ => false,
        }
    }

    pub(super) fn info(&self, start: usize) -> AreaInfo {
        let (shared, offset, pager) = match &self.content {
            Content::Zeros => (false, 0, None),
            Content::Pager {
                pager,
                first,
                shared,
                ..
            } => (*shared, first * PAGE as u64, Some(pager.describe())),
        };
        AreaInfo {
            start,
            end: self.end,
            prot: self.prot,
            role: self.role,
            lock: self.lock,
            wishes: self.wishes,
            shared,
            offset,
            pager,
        }
    }
}

/// An area, for people and `/proc`.
#[derive(Clone, Debug)]
pub struct AreaInfo {
    /// First address.
    pub start: usize,
    /// First address after it.
    pub end: usize,
    /// Rights.
    pub prot: Prot,
    /// Heap, stack, or neither.
    pub role: Role,
    /// How it stays in memory.
    pub lock: MemoryLock,
    /// The wishes for it in a child, and in a core.
    pub wishes: AreaAdvice,
    /// Are writes seen by others?
    pub shared: bool,
    /// Byte offset in the object.
    pub offset: u64,
    /// The object; `None` for private zeros.
    pub pager: Option<PagerInfo>,
}
