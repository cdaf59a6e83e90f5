//! The bounds of one change of a space, in bytes.
//!
//! *Interface*: [`Bounds`]; [`link_bounds`] provides them where there is no caller: where a stack grows.

use sync::once::Once;

/// Bounds of one change, in bytes; `usize::MAX` is none.
#[derive(Clone, Copy, Debug)]
pub struct Bounds {
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
static CALLER: Once<fn() -> Bounds> = Once::new();

/// From now on `bounds` says what the running thread may make of a space. Once.
pub fn link_bounds(bounds: fn() -> Bounds) {
    let _ = CALLER.set(bounds);
}

/// The running thread's bounds.
#[cfg(target_os = "none")]
pub(super) fn bounds_of_caller() -> Bounds {
    CALLER.get().map_or(Bounds::NONE, |bounds| bounds())
}

impl Bounds {
    /// No bounds.
    pub const NONE: Bounds = Bounds {
        size: usize::MAX,
        data: usize::MAX,
        heap: usize::MAX,
        locked: usize::MAX,
        stack: usize::MAX,
    };
}
