//! Memory of a size or number that a user chooses: asked for, and ENOMEM when there is none.
//!
//! *Interface*: [`try_push`], [`try_insert_at`], [`try_extend`], [`try_insert`] let grow, and [`try_reserve`]
//! or [`try_reserve_kept`] make room before; [`try_filled`], [`try_copy`], [`try_concat`], [`try_string`],
//! [`try_text`] make; [`try_arc`], [`try_slice`], [`try_placed`] and [`try_box`] for what is made once for
//! each thing that a user makes; [`roomy`] for a list that a monitor guards.
//!
//! `account/clippy.toml` forbids the forms that cannot be refused; where one is used all the same, an
//! `expect` states its bound or where room was made. Each leaves the kernel its reserve, and is a question
//! that may be answered with no on purpose ([`crate::frame::fault_injection`]).

mod lock_with_capacity;

use alloc::boxed::Box;
use alloc::collections::{BTreeMap, VecDeque};
use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::fmt;

use abi::errno::{Errno, Result};
use abi::layout::PAGE;
use codegen::fault_injection::refused;

pub use lock_with_capacity::{Growing, roomy};

/// Room for `bytes` more beyond what is kept. ENOMEM.
fn ask(bytes: usize) -> Result<()> {
    if crate::frame::admits(bytes.div_ceil(PAGE).max(1)) {
        Ok(())
    } else {
        Err(Errno::ENOMEM)
    }
}

/// Room for `more` further elements. ENOMEM.
#[expect(clippy::disallowed_methods, reason = "asked for")]
pub fn try_reserve<T>(list: &mut Vec<T>, more: usize) -> Result<()> {
    if list.capacity() - list.len() < more {
        // It at least doubles.
        let wanted = more.max(list.capacity());
        ask(wanted.saturating_mul(size_of::<T>()))?;
        list.try_reserve(more).map_err(|_| Errno::ENOMEM)?;
    }
    Ok(())
}

/// As [`try_reserve`], for what is small and has to do with calls that are answered when memory is short: it
/// may use what is kept. ENOMEM.
#[expect(clippy::disallowed_methods, reason = "may be refused")]
pub fn try_reserve_kept<T>(list: &mut Vec<T>, more: usize) -> Result<()> {
    if list.capacity() - list.len() < more && (refused() || list.try_reserve(more).is_err()) {
        return Err(Errno::ENOMEM);
    }
    Ok(())
}

/// One more element. ENOMEM.
#[expect(clippy::disallowed_methods, reason = "room is asked for")]
pub fn try_push<T>(list: &mut Vec<T>, value: T) -> Result<()> {
    try_reserve(list, 1)?;
    list.push(value);
    Ok(())
}

/// One more element, at `place`. ENOMEM.
#[expect(clippy::disallowed_methods, reason = "room is asked for")]
pub fn try_insert_at<T>(list: &mut Vec<T>, place: usize, value: T) -> Result<()> {
    try_reserve(list, 1)?;
    list.insert(place, value);
    Ok(())
}

/// As many more elements as `more` has. ENOMEM.
#[expect(clippy::disallowed_methods, reason = "room is asked for")]
pub fn try_extend<T: Clone>(list: &mut Vec<T>, more: &[T]) -> Result<()> {
    try_reserve(list, more.len())?;
    list.extend_from_slice(more);
    Ok(())
}

/// `value` at `key`, for what was there; of a node's size the kernel's own share is left. ENOMEM.
#[expect(clippy::disallowed_methods, reason = "a node is asked for")]
pub fn try_insert<K: Ord, V>(map: &mut BTreeMap<K, V>, key: K, value: V) -> Result<Option<V>> {
    const { assert!(16 * (size_of::<K>() + size_of::<V>()) <= PAGE) };
    ask(PAGE)?;
    Ok(map.insert(key, value))
}

/// `count` times `value`. ENOMEM.
#[expect(clippy::disallowed_methods, reason = "room is asked for")]
pub fn try_filled<T: Clone>(value: T, count: usize) -> Result<Vec<T>> {
    let mut list = Vec::new();
    try_reserve(&mut list, count)?;
    list.resize(count, value);
    Ok(list)
}

/// A queue with room for `count` elements. ENOMEM.
#[expect(clippy::disallowed_methods, reason = "asked for")]
pub fn try_queue<T>(count: usize) -> Result<VecDeque<T>> {
    let mut queue = VecDeque::new();
    ask(count.saturating_mul(size_of::<T>()))?;
    queue.try_reserve(count).map_err(|_| Errno::ENOMEM)?;
    Ok(queue)
}

/// A copy. ENOMEM.
pub fn try_copy<T: Clone>(from: &[T]) -> Result<Vec<T>> {
    let mut list = Vec::new();
    try_extend(&mut list, from)?;
    Ok(list)
}

/// The parts, one behind the other. ENOMEM.
pub fn try_concat<T: Clone>(parts: &[&[T]]) -> Result<Vec<T>> {
    let mut list = Vec::new();
    try_reserve(&mut list, parts.iter().map(|part| part.len()).sum())?;
    for part in parts {
        try_extend(&mut list, part)?;
    }
    Ok(list)
}

/// `from` as text, what is not UTF-8 replaced. ENOMEM.
#[expect(clippy::disallowed_methods, reason = "may be refused")]
pub fn try_string(from: &[u8]) -> Result<String> {
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

/// The text of `format_args!`. ENOMEM.
pub fn try_text(words: fmt::Arguments) -> Result<String> {
    struct Text(Vec<u8>);
    impl fmt::Write for Text {
        fn write_str(&mut self, text: &str) -> fmt::Result {
            try_extend(&mut self.0, text.as_bytes()).map_err(|_| fmt::Error)
        }
    }
    let mut text = Text(Vec::new());
    fmt::write(&mut text, words).map_err(|_| Errno::ENOMEM)?;
    String::from_utf8(text.0).map_err(|_| Errno::EINVAL)
}

/// A copy of what is short, counted. ENOMEM, for more than a page as well.
pub fn try_slice<T: Clone>(from: &[T]) -> Result<Arc<[T]>> {
    if size_of_val(from) > PAGE / 2 {
        return Err(Errno::ENOMEM);
    }
    ask(PAGE)?;
    Ok(from.into())
}

/// `value`, counted. ENOMEM.
pub fn try_arc<T>(value: T) -> Result<Arc<T>> {
    const { assert!(size_of::<T>() <= PAGE) };
    ask(size_of::<T>())?;
    Ok(Arc::new(value))
}

/// The value from `make`, counted, made where it stays: for large values. ENOMEM.
#[inline(always)]
pub fn try_placed<T>(make: impl FnOnce() -> T) -> Result<Arc<T>> {
    const { assert!(size_of::<T>() <= PAGE) };
    ask(size_of::<T>())?;
    Ok(placed(make))
}

/// A counted value, made where it stays: for large ones, which would otherwise be made elsewhere first.
#[inline(always)]
pub fn placed<T>(make: impl FnOnce() -> T) -> Arc<T> {
    let place = Arc::into_raw(Arc::<T>::new_uninit()).cast_mut().cast::<T>();
    // SAFETY: this alone has the new count, which it takes back once there is a value.
    unsafe {
        place.write(make());
        Arc::from_raw(place)
    }
}

/// As [`try_placed`], for what takes more than a page. ENOMEM.
pub fn try_arc_large<T>(make: impl FnOnce() -> T) -> Result<Arc<T>> {
    ask(size_of::<T>())?;
    Ok(placed(make))
}

/// `value` in a place of its own. ENOMEM.
pub fn try_box<T>(value: T) -> Result<Box<T>> {
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
        assert_eq!(try_push(&mut list, 2), Ok(()));
        assert_eq!(try_insert_at(&mut list, 1, 3), Ok(()));
        assert_eq!(try_extend(&mut list, &[4, 5]), Ok(()));
        assert_eq!(list, [1, 3, 2, 4, 5]);
        assert_eq!(
            try_concat(&[&b"ab"[..], b"", b"c"]).as_deref(),
            Ok(&b"abc"[..])
        );
        let text = try_text(format_args!("{}-{:02}", "a", 7));
        assert_eq!(text.as_deref(), Ok("a-07"));
        let mut map = BTreeMap::new();
        assert_eq!(try_insert(&mut map, 1, 2), Ok(None));
        assert_eq!(try_insert(&mut map, 1, 3), Ok(Some(2)));
        assert_eq!(try_slice(&[1, 2]).as_deref(), Ok(&[1, 2][..]));
        assert_eq!(try_string(b"a\xffb").as_deref(), Ok("a\u{fffd}b"));
        assert_eq!((*try_arc(5).unwrap(), *try_box(6).unwrap()), (5, 6));
    }
}
