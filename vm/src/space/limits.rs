//! The bounds of one change of a space, in bytes.
//!
//! *Interface*: [`SpaceLimits`]; [`link_limits`] provides them where there is no caller: where a stack grows.

use sync::once::Once;

/// Bounds of one change, in bytes; `usize::MAX` is none.
#[derive(Clone, Copy, Debug)]
pub struct SpaceLimits {
    /// Of all areas.
    pub size: usize,
    /// Of those that are private and may be written, stacks left out.
    pub data: usize,
    /// Of the heap and the program's own data.
    pub heap: usize,
    /// Of those that are locked.
    pub locked: usize,
    /// Of the stack.
    pub stack: usize,
}

/// The running thread's.
static CALLER: Once<fn() -> SpaceLimits> = Once::new();

/// From now on `bounds` says what the running thread may make of a space. Once.
pub fn link_limits(bounds: fn() -> SpaceLimits) {
    let _ = CALLER.set(bounds);
}

/// The running thread's bounds.
#[cfg(target_os = "none")]
pub(super) fn limits_of_caller() -> SpaceLimits {
    CALLER.get().map_or(SpaceLimits::NONE, |bounds| bounds())
}

impl SpaceLimits {
    /// No bounds.
    pub const NONE: SpaceLimits = SpaceLimits {
        size: usize::MAX,
        data: usize::MAX,
        heap: usize::MAX,
        locked: usize::MAX,
        stack: usize::MAX,
    };
}
