//! A word for each number of a process or thread.
//!
//! *Interface*: [`NumberTable`], which the tables by number are made over: the kernel's own
//! (`vm::sparse::SparseTable`), of which only those pages have memory whose numbers were reserved, or an
//! array.

/// Words by number. All may be read; those of reserved numbers may be written.
pub(crate) trait NumberTable<T> {
    /// The word of `number`; `None` if that is out of range.
    fn word(&self, number: i32) -> Option<&T>;
}

impl<T, const COUNT: usize> NumberTable<T> for [T; COUNT] {
    fn word(&self, number: i32) -> Option<&T> {
        self.get(number as usize)
    }
}
