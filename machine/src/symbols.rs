//! Names for code addresses: the kernel's own functions, and generated code.
//!
//! *Interface*: [`name`]. The table is the file `.synthesis/kernel.sym` of the initrd (docs/run-contract.md),
//! read in place, so that it works before and after everything else does.

/// The path of the table in the initrd.
pub const FILE: &str = ".synthesis/kernel.sym";

/// The function that `address` lies in, and the distance from its start.
pub fn name(address: usize) -> Option<(&'static str, usize)> {
    lookup(table()?, address.wrapping_sub(crate::paging::distance()))
}

/// Bytes at the head of the initrd that hold the table.
pub fn bytes() -> usize {
    let initrd = crate::boot::info().initrd.as_ptr() as usize;
    table().map_or(0, |table| table.as_ptr() as usize + table.len() - initrd)
}

fn table() -> Option<&'static str> {
    // The host tool puts the table among the first entries.
    let file = crate::cpio::entries(crate::boot::info().initrd)
        .take(4)
        .map_while(Result::ok)
        .find(|entry| entry.name == FILE.as_bytes())?;
    core::str::from_utf8(file.data).ok()
}

/// Lines `xxxxxxxxxxxxxxxx name`, ascending: the last that is not above `address`.
fn lookup(table: &str, address: usize) -> Option<(&str, usize)> {
    let (mut low, mut high) = (0, table.len());
    let mut best = None;
    while low < high {
        let middle = (low + high) / 2;
        let start = table.as_bytes()[..middle]
            .iter()
            .rposition(|&b| b == b'\n')
            .map_or(0, |i| i + 1);
        let line = table.get(start..)?.lines().next()?;
        let (number, name) = line.split_once(' ')?;
        let at = usize::from_str_radix(number, 16).ok()?;
        if at <= address {
            best = Some((name, address - at));
            low = start + line.len() + 1;
        } else {
            high = start;
        }
    }
    best
}

#[cfg(test)]
mod tests {
    use super::lookup;

    #[test]
    fn the_last_line_not_above() {
        let table = "0000000000001000 first\n0000000000002000 second one\n0000000000003000 third\n";
        assert_eq!(lookup(table, 0xfff), None);
        assert_eq!(lookup(table, 0x1000), Some(("first", 0)));
        assert_eq!(lookup(table, 0x2fff), Some(("second one", 0xfff)));
        assert_eq!(lookup(table, 0x9000), Some(("third", 0x6000)));
        assert_eq!(lookup("", 1), None);
        assert_eq!(lookup("garbage", 1), None);
    }
}
