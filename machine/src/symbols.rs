//! Names for code addresses: the kernel's own functions, and generated code.
//!
//! *Interface*: [`name`]. The table is the file `.synthesis/kernel.sym` of the initrd (docs/run-contract.md),
//! read in place, so that it works before and after everything else does. `symbols/table.rs` says how it is
//! packed; its tests are beside what makes it, in the host tool.

mod table;

use abi::layout::KERNEL;
pub use table::Name;
use table::Table;

/// The path of the table in the initrd.
pub const FILE: &str = ".synthesis/kernel.sym";

/// The function that `address` lies in, and the distance from its start.
pub fn name(address: usize) -> Option<(Name, usize)> {
    let linked = address.wrapping_sub(crate::paging::distance());
    Table::over(bytes_of_table()?)?.find(linked.checked_sub(KERNEL)?)
}

/// Bytes at the head of the initrd that hold the table.
pub fn bytes() -> usize {
    let initrd = crate::boot::info().initrd.as_ptr() as usize;
    bytes_of_table().map_or(0, |table| table.as_ptr() as usize + table.len() - initrd)
}

fn bytes_of_table() -> Option<&'static [u8]> {
    // The host tool puts the table among the first entries.
    let file = crate::cpio::entries(crate::boot::info().initrd)
        .take(4)
        .map_while(Result::ok)
        .find(|entry| entry.name == FILE.as_bytes())?;
    Some(file.data)
}
