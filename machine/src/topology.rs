//! How processors lie together, and what they share: read from CPUID, and from the identifiers that the
//! firmware named.
//!
//! *Interface*: [`core_of`], [`package_of`]; [`caches`] and [`Cache::shares`]. The boot processor's answers
//! are taken for all.
//! Source: Intel, Software Developer's Manual, volume 2, CPUID, leaves 1, 4 and 0Bh; AMD, Programmer's
//! Manual, volume 3, appendix E.4.

use crate::cpu;
use crate::features::cpuid;
use core::sync::atomic::Ordering;

/// A source of CPUID's answers: `[eax, ebx, ecx, edx]` of a leaf and its part.
type Ask = fn(u32, u32) -> [u32; 4];

/// The number of the core in its package that CPU number `cpu` belongs to.
pub fn core_of(cpu: usize) -> u32 {
    let [core, package] = shifts(cpuid);
    let within = 1u32.checked_shl(package).map_or(u32::MAX, |end| end - 1);
    (identifier(cpu) & within) >> core
}

/// The number of the package that CPU number `cpu` belongs to.
pub fn package_of(cpu: usize) -> u32 {
    identifier(cpu).checked_shr(shifts(cpuid)[1]).unwrap_or(0)
}

fn identifier(cpu: usize) -> u32 {
    cpu::cpu(cpu).apic_id.load(Ordering::Relaxed)
}

/// Bits of an identifier below those of the core, and below those of the package.
fn shifts(ask: Ask) -> [u32; 2] {
    const LEVELS: u32 = 0xb;
    /// Kinds of levels.
    const THREADS: u32 = 1;
    const CORES: u32 = 2;
    let mut shifts = [0; 2];
    let mut known = false;
    for part in 0..8 {
        let [shift, count, level, _] = ask(LEVELS, part);
        let shift = shift & 0x1f;
        match level >> 8 & 0xff {
            0 => break,
            _ if count & 0xffff == 0 => break,
            THREADS => shifts = [shift, shift.max(shifts[1])],
            CORES => shifts[1] = shift,
            _ => {}
        }
        known = true;
    }
    if !known {
        let [_, count, _, flags] = ask(1, 0);
        // Without the flag there is one in a package, and the count says nothing.
        let all = if flags >> 28 & 1 != 0 {
            count >> 16 & 0xff
        } else {
            1
        };
        let cores = (ask(4, 0)[0] >> 26) + 1;
        let package = bits_for(all);
        shifts = [package.saturating_sub(bits_for(cores)), package];
    }
    shifts
}

/// Bits that tell `count` apart.
fn bits_for(count: u32) -> u32 {
    count.max(1).next_power_of_two().trailing_zeros()
}

/// The contents of a cache.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum CacheKind {
    /// Data.
    Data,
    /// Instructions.
    Instructions,
    /// Both.
    Both,
}

/// A cache.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Cache {
    /// Its contents.
    pub holds: CacheKind,
    /// 1 is next to the processor.
    pub level: u32,
    /// Bytes of a line.
    pub line: u32,
    /// Lines that share a tag.
    pub partitions: u32,
    /// Places where a line may be.
    pub ways: u32,
    /// Sets of such places.
    pub sets: u32,
    /// Bits of an identifier that those who share it differ in.
    shift: u32,
}

impl Cache {
    /// Bytes.
    pub fn size(&self) -> u64 {
        let factors = [self.line, self.partitions, self.ways, self.sets];
        factors.map(u64::from).iter().product()
    }

    /// Whether the CPUs with these numbers share it.
    pub fn shares(&self, one: usize, other: usize) -> bool {
        self.number(one) == self.number(other)
    }

    /// The number by which Linux tells this one, as CPU number `cpu` has it, from others of its level.
    pub fn number(&self, cpu: usize) -> u32 {
        identifier(cpu).checked_shr(self.shift).unwrap_or(0)
    }
}

/// The caches that each processor has; none where it does not tell.
pub fn caches() -> impl Iterator<Item = Cache> {
    caches_by(cpuid)
}

fn caches_by(ask: Ask) -> impl Iterator<Item = Cache> {
    const INTEL: u32 = 4;
    const AMD: u32 = 0x8000_001d;
    let kind = move |leaf: u32, part: u32| ask(leaf, part)[0] & 0x1f;
    let leaf = if kind(AMD, 0) != 0 { AMD } else { INTEL };
    let known = (0..16).take_while(move |part| kind(leaf, *part) != 0);
    known.map(move |part| {
        let [about, shape, sets, _] = ask(leaf, part);
        Cache {
            holds: match about & 0x1f {
                1 => CacheKind::Data,
                2 => CacheKind::Instructions,
                _ => CacheKind::Both,
            },
            level: about >> 5 & 7,
            line: (shape & 0xfff) + 1,
            partitions: (shape >> 12 & 0x3ff) + 1,
            ways: (shape >> 22) + 1,
            sets: sets.saturating_add(1),
            shift: bits_for((about >> 14 & 0xfff) + 1),
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn levels_say_where_cores_and_packages_begin() {
        // Two threads a core, 16 of them a package.
        let levels: Ask = |leaf, part| match (leaf, part) {
            (0xb, 0) => [1, 2, 0x100, 0],
            (0xb, 1) => [4, 16, 0x201, 0],
            _ => [0; 4],
        };
        assert_eq!(shifts(levels), [1, 4]);
        let alone: Ask = |leaf, part| match (leaf, part) {
            (0xb, 0) => [0, 1, 0x100, 0],
            (0xb, 1) => [3, 6, 0x201, 0],
            _ => [0; 4],
        };
        assert_eq!(shifts(alone), [0, 3]);
    }

    #[test]
    fn without_levels_the_older_leaves_do() {
        // Eight in a package, four of them cores.
        let older: Ask = |leaf, _| match leaf {
            1 => [0, 8 << 16, 0, 1 << 28],
            4 => [3 << 26, 0, 0, 0],
            _ => [0; 4],
        };
        assert_eq!(shifts(older), [1, 3]);
        let single: Ask = |leaf, _| match leaf {
            1 => [0, 8 << 16, 0, 0],
            _ => [0; 4],
        };
        assert_eq!(shifts(single), [0, 0]);
    }

    #[test]
    fn a_cache_has_its_size() {
        let told: Ask = |leaf, part| match (leaf, part) {
            (4, 0) => [1 | 1 << 5 | 1 << 14, 63 | 7 << 22, 63, 0],
            (4, 1) => [3 | 3 << 5 | 15 << 14, 63 | 15 << 22, 16383, 0],
            _ => [0; 4],
        };
        let mut caches = caches_by(told);
        let first = caches.next().unwrap();
        assert_eq!(
            (first.holds, first.level, first.size(), first.shift),
            (CacheKind::Data, 1, 32 << 10, 1)
        );
        let last = caches.next().unwrap();
        assert_eq!(
            (last.holds, last.level, last.size(), last.shift),
            (CacheKind::Both, 3, 16 << 20, 4)
        );
        assert_eq!(caches.next(), None);
    }
}
