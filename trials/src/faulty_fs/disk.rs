//! The store of one file: a number for each sector of 512 bytes.
//!
//! *Interface*: [`FaultyDisk`], through [`Backing`].
//!
//! All 64 words of a sector follow from its first ([`word`]; `user/tests/kept.c` makes them alike), so that
//! is all that is kept of it: more than the machine's memory fits. A sector that is stored while a program
//! writes it may be a mixture of two, for which there is [`TORN`]; whoever reads that has found an error of
//! the cache.

use abi::errno::{Errno, Result};
use abi::layout::PAGE;
use alloc::sync::Arc;
use alloc::vec::Vec;
use file::page_cache::{Backing, UNIT};
use sync::Monitor;
use vm::fallible::{try_arc, try_filled};
use vm::frame::FrameRef;

use super::faults::FaultPlan;

/// The length of the longest file, bytes.
pub const LENGTH: u64 = 24 << 20;
const SECTOR: usize = 512;
const WORDS: usize = SECTOR / 8;
const PER_PAGE: usize = PAGE / SECTOR;
/// The first word of a sector that no program writes.
const TORN: u64 = u64::MAX;

/// Word `at` of the sector whose first is `first`. One of zeros is all zeros.
fn word(first: u64, at: usize) -> u64 {
    if first == 0 || at == 0 {
        return first;
    }
    let mixed = first.wrapping_add((at as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15));
    (mixed ^ mixed >> 29).wrapping_mul(0xbf58_476d_1ce4_e5b9)
}

/// The first words of all sectors.
struct Sectors(Vec<u64>);

/// The store of a file.
pub struct FaultyDisk {
    sectors: Monitor<Sectors>,
    plan: Arc<FaultPlan>,
}

impl FaultyDisk {
    /// An empty one, on which goes wrong what `plan` says. ENOMEM.
    pub fn new(plan: Arc<FaultPlan>) -> Result<Arc<FaultyDisk>> {
        let sectors = try_filled(0, LENGTH as usize / SECTOR)?;
        try_arc(FaultyDisk {
            sectors: Monitor::new(Sectors(sectors)),
            plan,
        })
    }

    /// The bytes behind byte `size` are zeros.
    pub fn cut(&self, size: u64) {
        let from = (size as usize).div_ceil(SECTOR);
        let mut sectors = self.sectors.lock();
        let behind = sectors.0.get_mut(from..).unwrap_or_default();
        behind.fill(0);
    }
}

impl Backing for FaultyDisk {
    fn unit(&self) -> usize {
        UNIT
    }

    fn fill(&self, offset: u64, pages: &[FrameRef]) -> Result<()> {
        let planned = self.plan.fill();
        let first = offset as usize / SECTOR;
        let mut seeds = [0; UNIT * PER_PAGE];
        for (at, seed) in seeds.iter_mut().enumerate() {
            *seed = self.sectors.lock().0.get(first + at).copied().unwrap_or(0);
        }
        // Its answer is of now, and comes later.
        self.plan.delay();
        planned?;
        for (page, seeds) in pages.iter().zip(seeds.chunks(PER_PAGE)) {
            for (at, seed) in seeds.iter().enumerate() {
                let mut bytes = [0; SECTOR];
                for (number, into) in bytes.chunks_exact_mut(8).enumerate() {
                    into.copy_from_slice(&word(*seed, number).to_ne_bytes());
                }
                let from = at * SECTOR;
                page.bytes(from..from + SECTOR)?.write(0, &bytes)?;
            }
        }
        Ok(())
    }

    fn store(&self, offset: u64, pages: &[FrameRef], count: usize) -> Result<()> {
        let planned = self.plan.store();
        self.plan.delay();
        planned?;
        if !count.is_multiple_of(SECTOR) {
            return Err(Errno::EINVAL);
        }
        let first = offset as usize / SECTOR;
        for at in 0..count / SECTOR {
            let page = pages.get(at / PER_PAGE).ok_or(Errno::EIO)?;
            let mut bytes = [0; SECTOR];
            let from = at % PER_PAGE * SECTOR;
            page.bytes(from..from + SECTOR)?.read(0, &mut bytes)?;
            let mut words = [0; WORDS];
            for (from, into) in bytes.chunks_exact(8).zip(&mut words) {
                *into = u64::from_ne_bytes(from.try_into().map_err(|_| Errno::EIO)?);
            }
            let seed = words[0];
            let whole = (words.iter().enumerate()).all(|(at, here)| *here == word(seed, at));
            let mut sectors = self.sectors.lock();
            let place = sectors.0.get_mut(first + at).ok_or(Errno::ENOSPC)?;
            *place = if whole { seed } else { TORN };
        }
        Ok(())
    }
}
