//! The atomics and cells that every algorithm here and in `lab` is written with: the machine's own, or
//! loom's.
//!
//! *Interface*: `atomic`, [`UnsafeCell`] with `with` and `with_mut`, and [`constructor!`] for constructors
//! that are `const` except under loom.

#[cfg(loom)]
pub use loom::{cell::UnsafeCell, sync::atomic};

#[cfg(not(loom))]
pub use core::sync::atomic;

/// The machine's cell with the interface of loom's, which checks each access.
#[cfg(not(loom))]
#[repr(transparent)]
pub struct UnsafeCell<T>(core::cell::UnsafeCell<T>);

#[cfg(not(loom))]
impl<T> UnsafeCell<T> {
    /// A cell with this in it.
    pub const fn new(value: T) -> Self {
        UnsafeCell(core::cell::UnsafeCell::new(value))
    }

    /// The value in it.
    pub fn into_inner(self) -> T {
        self.0.into_inner()
    }

    /// `f` looks at it.
    pub fn with<R>(&self, f: impl FnOnce(*const T) -> R) -> R {
        f(self.0.get())
    }

    /// `f` changes it.
    pub fn with_mut<R>(&self, f: impl FnOnce(*mut T) -> R) -> R {
        f(self.0.get())
    }
}

/// Defines a function that is `const` on the machine and ordinary under loom, whose atomics count their
/// creation.
#[macro_export]
macro_rules! constructor {
    ($(#[$attribute:meta])* $visible:vis fn $name:ident($($argument:ident: $type:ty),*) -> $result:ty $body:block) => {
        $(#[$attribute])*
        #[cfg(not(loom))]
        $visible const fn $name($($argument: $type),*) -> $result $body
        $(#[$attribute])*
        #[cfg(loom)]
        $visible fn $name($($argument: $type),*) -> $result $body
    };
}
pub use constructor;
