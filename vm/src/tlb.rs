//! Making CPUs forget translations.
//!
//! *Interface*: [`forget`] after table entries of a space were changed; [`leave`] before its root is freed.

/// Every CPU on which `root` is loaded forgets the `pages` pages from `address` on (`usize::MAX`: all).
pub fn forget(root: u64, address: usize, pages: usize) {
    todo!()
}

/// No CPU has `root` loaded afterwards.
pub fn leave(root: u64) {
    todo!()
}
