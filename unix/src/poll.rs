//! Waiting for many files at once.

/// The wait lists that one `poll`, `select` or `epoll_wait` has enrolled on.
pub struct PollTable(());
