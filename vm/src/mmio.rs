//! Device registers, mapped uncached into `MMIO`.
//!
//! *Interface*: [`map`]. Mappings stay for ever; the same range twice gives two mappings.

/// Maps `length` bytes from physical address `physical` on; both of any alignment. `None`: no room or no memory.
pub fn map(physical: u64, length: usize) -> Option<*mut u8> {
    todo!()
}
