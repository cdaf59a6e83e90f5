//! Values of one machine word, which an atomic cell can hold.

use core::ptr::NonNull;

/// Values that fit into one word and are copied by moving it: the elements of structures whose readers read
/// before they own.
///
/// # Safety
/// `from_word(x.into_word())` is `x`, and a word that came from another thread's `into_word` is valid here.
pub unsafe trait Word: Copy + Send {
    /// The value as a word.
    fn into_word(self) -> u64;
    /// The value that [`into_word`](Word::into_word) gave.
    ///
    /// # Safety
    /// `word` came from `into_word` of the same type.
    unsafe fn from_word(word: u64) -> Self;
}

macro_rules! integers {
    ($($t:ty),*) => { $(
        // SAFETY: an integer of at most 64 bits survives widening and narrowing.
        unsafe impl Word for $t {
            fn into_word(self) -> u64 {
                self as u64
            }
            unsafe fn from_word(word: u64) -> Self {
                word as $t
            }
        }
    )* };
}
integers!(u8, u16, u32, u64, usize, i8, i16, i32, i64, isize);

/// Values that fit into the lower [`BITS`](Small::BITS) of a word and leave the other bits free.
///
/// # Safety
/// The word of [`into_word`](Word::into_word) is below 2 to the power of `BITS`.
pub unsafe trait Small: Word {
    /// How many bits, at most 32.
    const BITS: u32;
}

macro_rules! small {
    ($($t:ty),*) => { $(
        // SAFETY: unsigned, so widening adds zeros.
        unsafe impl Small for $t {
            const BITS: u32 = <$t>::BITS;
        }
    )* };
}
small!(u8, u16, u32);

/// A pointer whose target may be used by any thread that gets it.
#[derive(Debug, PartialEq, Eq)]
pub struct Handle<T>(pub NonNull<T>);

impl<T> Clone for Handle<T> {
    fn clone(&self) -> Self {
        *self
    }
}
impl<T> Copy for Handle<T> {}

// SAFETY: it is only an address; using the target is the business of the code that does.
unsafe impl<T: Send> Send for Handle<T> {}

// SAFETY: the address is exposed on the way in and not null on the way out.
unsafe impl<T: Send> Word for Handle<T> {
    fn into_word(self) -> u64 {
        self.0.as_ptr().expose_provenance() as u64
    }
    unsafe fn from_word(word: u64) -> Self {
        let at = core::ptr::with_exposed_provenance_mut(word as usize);
        // SAFETY: the caller's promise; a `NonNull` went in.
        Handle(unsafe { NonNull::new_unchecked(at) })
    }
}
