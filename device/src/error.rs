//! Errors of devices.

/// A device's description of itself makes no sense, or the kernel cannot use it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DeviceError {
    /// A base address of a reserved kind, of no size, or beyond the last one.
    Bar,
    /// Registers that the firmware has put nowhere, or where memory is.
    Place,
    /// A list of capabilities that leads back, or out of its space.
    List,
    /// A structure that does not fit into what holds it.
    Fit,
    /// Nothing answers any more.
    Gone,
}
