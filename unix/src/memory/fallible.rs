//! Memory of a size or number that a user chooses: asked for, and ENOMEM when there is none.
//!
//! *Interface*: [`try_reserve`] or [`try_reserve_kept`] before something is pushed; [`try_filled`], [`try_copy`], [`try_string`]; [`try_arc`], [`try_placed`] and [`try_box`] for what is made once for each thing that a user makes.
//!
//! Each leaves the kernel its reserve, and is a question that may be answered with no on purpose ([`super::fail`]).

use alloc::boxed::Box;
use alloc::collections::VecDeque;
use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;

use abi::errno::{Errno, Result};
use abi::layout::PAGE;
use codegen::refusal::refused;

use crate::process::shared::placed;

/// Room for `bytes` more beyond what is kept. ENOMEM.
fn ask(bytes: usize) -> Result<()> {
    if vm::frame::admits(bytes.div_ceil(PAGE).max(1)) {
        Ok(())
    } else {
        Err(Errno::ENOMEM)
    }
}

/// Room for `more` further elements. ENOMEM.
pub(crate) fn try_reserve<T>(list: &mut Vec<T>, more: usize) -> Result<()> {
    if list.capacity() - list.len() < more {
        ask(more.saturating_mul(size_of::<T>()))?;
        list.try_reserve(more).map_err(|_| Errno::ENOMEM)?;
    }
    Ok(())
}

/// As [`try_reserve`], for what is small and has to do with calls that are answered when memory is short: it may use what is kept. ENOMEM.
pub(crate) fn try_reserve_kept<T>(list: &mut Vec<T>, more: usize) -> Result<()> {
    if list.capacity() - list.len() < more && (refused() || list.try_reserve(more).is_err()) {
        return Err(Errno::ENOMEM);
    }
    Ok(())
}

/// `count` times `value`. ENOMEM.
pub(crate) fn try_filled<T: Clone>(value: T, count: usize) -> Result<Vec<T>> {
    let mut list = Vec::new();
    try_reserve(&mut list, count)?;
    list.resize(count, value);
    Ok(list)
}

/// A queue with room for `count` elements. ENOMEM.
pub(crate) fn try_queue<T>(count: usize) -> Result<VecDeque<T>> {
    let mut queue = VecDeque::new();
    ask(count.saturating_mul(size_of::<T>()))?;
    queue.try_reserve(count).map_err(|_| Errno::ENOMEM)?;
    Ok(queue)
}

/// A copy. ENOMEM.
pub(crate) fn try_copy<T: Clone>(from: &[T]) -> Result<Vec<T>> {
    let mut list = Vec::new();
    try_reserve(&mut list, from.len())?;
    list.extend_from_slice(from);
    Ok(list)
}

/// `from` as text, what is not UTF-8 replaced. ENOMEM.
pub(crate) fn try_string(from: &[u8]) -> Result<String> {
    let mut text = String::new();
    for chunk in from.utf8_chunks() {
        let more = chunk.valid().len() + char::REPLACEMENT_CHARACTER.len_utf8();
        if refused() || text.try_reserve(more).is_err() {
            return Err(Errno::ENOMEM);
        }
        text.push_str(chunk.valid());
        if !chunk.invalid().is_empty() {
            text.push(char::REPLACEMENT_CHARACTER);
        }
    }
    Ok(text)
}

/// `value`, counted. ENOMEM.
pub(crate) fn try_arc<T>(value: T) -> Result<Arc<T>> {
    const { assert!(size_of::<T>() <= PAGE) };
    ask(size_of::<T>())?;
    Ok(Arc::new(value))
}

/// What `make` makes, counted, made where it stays: for large values. ENOMEM.
#[inline(always)]
pub(crate) fn try_placed<T>(make: impl FnOnce() -> T) -> Result<Arc<T>> {
    const { assert!(size_of::<T>() <= PAGE) };
    ask(size_of::<T>())?;
    Ok(placed(make))
}

/// `value` in a place of its own. ENOMEM.
pub(crate) fn try_box<T>(value: T) -> Result<Box<T>> {
    const { assert!(size_of::<T>() <= PAGE) };
    ask(size_of::<T>())?;
    Ok(Box::new(value))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_there_is_no_room_for_is_refused() {
        assert_eq!(try_filled(0u8, 1 << 50), Err(Errno::ENOMEM));
        let mut list = alloc::vec![1u64];
        assert_eq!(try_reserve(&mut list, usize::MAX), Err(Errno::ENOMEM));
        assert_eq!(try_copy(&[1, 2, 3]), Ok(alloc::vec![1, 2, 3]));
        assert_eq!(try_string(b"a\xffb").as_deref(), Ok("a\u{fffd}b"));
        assert_eq!((*try_arc(5).unwrap(), *try_box(6).unwrap()), (5, 6));
    }
}
