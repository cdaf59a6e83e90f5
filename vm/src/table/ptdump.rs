//! Reading tables through: every mapping with the rights that all levels together give.
//!
//! *Interface*: [`Tables::each_mapping`], [`Tables::mapping`].

use super::{ADDRESS, ENTRIES, LARGE, NO_EXECUTE, PRESENT, Tables, USER, WRITE, index, shift};
use crate::frame::PhysMemory;
use core::ops::Range;
use core::sync::atomic::Ordering;

/// One mapping: a page, small or large.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Mapping {
    /// Its first address.
    pub address: usize,
    /// Its first physical address.
    pub physical: u64,
    /// Its bytes.
    pub length: u64,
    /// It can be written.
    pub write: bool,
    /// It can be executed.
    pub execute: bool,
    /// Programs reach it.
    pub user: bool,
}

impl<M: PhysMemory> Tables<'_, M> {
    /// Calls `visit` with every mapping under the entries `top` of the top table, in order.
    pub fn each_mapping(&self, top: Range<usize>, visit: &mut dyn FnMut(Mapping)) {
        self.survey(self.root, 4, 0, WRITE | USER, top, visit);
    }

    fn survey(
        &self,
        physical: u64,
        level: u32,
        base: usize,
        rights: u64,
        part: Range<usize>,
        visit: &mut dyn FnMut(Mapping),
    ) {
        for at in part {
            let entry = self.table(physical)[at].load(Ordering::Acquire);
            if entry & PRESENT == 0 {
                continue;
            }
            let mut address = base | at << shift(level);
            if level == 4 && at >= ENTRIES / 2 {
                address |= usize::MAX << shift(5);
            }
            let rights = both(rights, entry);
            if level == 1 || entry & LARGE != 0 {
                visit(mapping(address, entry, level, rights));
            } else {
                let below = entry & ADDRESS;
                self.survey(below, level - 1, address, rights, 0..ENTRIES, visit);
            }
        }
    }

    /// The mapping that `address` is in.
    pub fn mapping(&self, address: usize) -> Option<Mapping> {
        let mut physical = self.root;
        let mut rights = WRITE | USER;
        for level in [4, 3, 2, 1] {
            let entry = self.table(physical)[index(address, level)].load(Ordering::Acquire);
            if entry & PRESENT == 0 {
                return None;
            }
            rights = both(rights, entry);
            if level == 1 || entry & LARGE != 0 {
                let first = address & (usize::MAX << shift(level));
                return Some(mapping(first, entry, level, rights));
            }
            physical = entry & ADDRESS;
        }
        None
    }
}

/// The rights of an entry below others that give `rights`.
fn both(rights: u64, entry: u64) -> u64 {
    rights & entry & (WRITE | USER) | (rights | entry) & NO_EXECUTE
}

fn mapping(address: usize, entry: u64, level: u32, rights: u64) -> Mapping {
    let length = 1u64 << shift(level);
    Mapping {
        address,
        physical: entry & ADDRESS & !(length - 1),
        length,
        write: rights & WRITE != 0,
        execute: rights & NO_EXECUTE == 0,
        user: rights & USER != 0,
    }
}
