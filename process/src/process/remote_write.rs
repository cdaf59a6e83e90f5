//! Writing into another process's memory, as a debugger does: also into pages that the process only reads
//! or executes.
//!
//! *Interface*: [`write()`]. The caller checks the rights ([`super::access`]).

use abi::errno::{Errno, Result};
use abi::layout::{PAGE, page_ceil};
use vm::space::FaultError;
use vm::{AddressSpace, Prot};

/// Writes `bytes`, which lie in one or two pages; into pages that are only read or executed, too, where the
/// process has a copy of its own then. EIO.
pub fn write(space: &AddressSpace, address: usize, bytes: &[u8]) -> Result<()> {
    match space.write_at(address, bytes) {
        Ok(()) => return Ok(()),
        Err(FaultError::Protection) => {}
        Err(_) => return Err(Errno::EIO),
    }
    let first = address & !(PAGE - 1);
    let end = address.checked_add(bytes.len()).and_then(page_ceil);
    let length = end.and_then(|end| end.checked_sub(first));
    let (end, length) = end.zip(length).ok_or(Errno::EIO)?;
    let mut prot = None;
    space.for_each_area(|area| {
        if area.start <= first && end <= area.end && !area.shared {
            prot = Some(area.prot);
        }
    });
    let prot = prot.ok_or(Errno::EIO)?;
    space.protect(first, length, prot.or(Prot::RW))?;
    let written = space.write_at(address, bytes);
    space.protect(first, length, prot)?;
    written.map_err(|_| Errno::EIO)
}
