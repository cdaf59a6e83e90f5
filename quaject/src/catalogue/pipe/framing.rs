//! How messages lie in a ring: a word with the length, and as many words as the bytes need.
//!
//! *Interface*: [`footprint`], and the sizes.

/// The usual size of a ring of messages, in bytes.
pub const MESSAGES: usize = 8192;

/// The longest message that goes into one.
pub const LONGEST: usize = 2048;

/// Bytes of a length.
pub const HEADER: usize = 8;

/// The bytes that a message of `length` bytes takes in the ring.
pub const fn footprint(length: usize) -> usize {
    HEADER + length.next_multiple_of(HEADER)
}
