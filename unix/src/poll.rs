//! Waiting for many files at once.

/// The wait lists that the running thread is enrolled in while it looks at many files:
/// `table.watch(&list)` in [`crate::file::File::poll`].
pub type PollTable<'a> = sync::Watch<'a>;
