//! The kernel's half of every address space.

/// The entries of the top table's upper half, as (index, entry) pairs, constant after boot.
pub fn entries() -> &'static [(usize, u64)] {
    todo!()
}
