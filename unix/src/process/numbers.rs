//! A table by number: what has one of the numbers that processes and threads share.
//!
//! *Interface*: [`Numbers::put`] says what has a number, [`Numbers::free`] that nothing has; [`Numbers::get`]
//! looks, [`Numbers::values`] walks in order of the numbers. The caller excludes others. Who may have a number is `reserve.rs`'s affair.
//!
//! A bit a number says whether something has it; what stands in a chunk of 64 that comes with the first of
//! them. One chunk that has emptied waits for the next, since new numbers follow one another.

use alloc::boxed::Box;

/// One more than the largest number.
pub const NUMBERS_MAX: i32 = 32768;
/// Numbers of a chunk.
const CHUNK: usize = 64;
/// Chunks; the last one is never used, all that is no number is looked for there.
const CHUNKS: usize = NUMBERS_MAX as usize / CHUNK + 1;

type Chunk<T> = Box<[Option<T>; CHUNK]>;

/// The table.
pub(crate) struct Numbers<T> {
    /// Bit for each number that something has, a word a chunk.
    taken: [u64; CHUNKS],
    /// Bit for each chunk with such a number.
    populated: [u64; CHUNKS.div_ceil(64)],
    chunks: [Option<Chunk<T>>; CHUNKS],
    spare: Option<Chunk<T>>,
}

/// The bits of `word`, lowest first.
fn bits(mut word: u64) -> impl Iterator<Item = usize> {
    core::iter::from_fn(move || {
        let lowest = (word != 0).then(|| word.trailing_zeros() as usize)?;
        word &= word - 1;
        Some(lowest)
    })
}

/// Chunk and place of `number`.
fn place(number: i32) -> (usize, usize) {
    let number = (number as u32).min(NUMBERS_MAX as u32) as usize;
    (number / CHUNK, number % CHUNK)
}

impl<T> Numbers<T> {
    pub const fn new() -> Self {
        Numbers {
            taken: [0; CHUNKS],
            populated: [0; CHUNKS.div_ceil(64)],
            chunks: [const { None }; CHUNKS],
            spare: None,
        }
    }

    pub fn is_taken(&self, number: i32) -> bool {
        let (chunk, at) = place(number);
        self.taken[chunk] >> at & 1 != 0
    }

    /// Says what has `number`, below [`NUMBERS_MAX`].
    pub fn put(&mut self, number: i32, value: T) {
        debug_assert!((0..NUMBERS_MAX).contains(&number));
        let (chunk, at) = place(number);
        self.taken[chunk] |= 1 << at;
        self.populated[chunk / 64] |= 1 << (chunk % 64);
        let spare = &mut self.spare;
        let chunk = self.chunks[chunk].get_or_insert_with(|| {
            let spare = spare.take();
            spare.unwrap_or_else(|| Box::new([const { None }; CHUNK]))
        });
        chunk[at] = Some(value);
    }

    /// Gives `number` back.
    pub fn free(&mut self, number: i32) {
        if !self.is_taken(number) {
            return;
        }
        let (chunk, at) = place(number);
        if let Some(values) = &mut self.chunks[chunk] {
            values[at] = None;
        }
        self.taken[chunk] &= !(1 << at);
        if self.taken[chunk] == 0 {
            self.populated[chunk / 64] &= !(1 << (chunk % 64));
            let empty = self.chunks[chunk].take();
            self.spare = self.spare.take().or(empty);
        }
    }

    /// What has `number`.
    pub fn get(&self, number: i32) -> Option<&T> {
        let (chunk, at) = place(number);
        self.chunks[chunk].as_ref()?[at].as_ref()
    }

    /// As [`Numbers::get`].
    pub fn get_mut(&mut self, number: i32) -> Option<&mut T> {
        let (chunk, at) = place(number);
        self.chunks[chunk].as_mut()?[at].as_mut()
    }

    /// What has a number, in order.
    pub fn values(&self) -> impl Iterator<Item = &T> {
        let populated = self.populated.iter().enumerate();
        let chunks = populated.flat_map(|(i, &word)| bits(word).map(move |bit| i * 64 + bit));
        chunks.flat_map(|chunk| {
            let values = self.chunks[chunk].as_deref();
            bits(self.taken[chunk]).filter_map(move |at| values?[at].as_ref())
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::collections::BTreeMap;
    use alloc::vec::Vec;

    fn same(numbers: &Numbers<i32>, model: &BTreeMap<i32, i32>) {
        let values: Vec<_> = numbers.values().copied().collect();
        let expected: Vec<_> = model.values().copied().collect();
        assert_eq!(values, expected);
    }

    #[test]
    fn as_a_map_would_have_it() {
        let mut numbers = Numbers::new();
        let mut model = BTreeMap::new();
        let mut random = 1u64;
        for step in 0..20_000 {
            random = random
                .wrapping_mul(6364136223846793005)
                .wrapping_add(1442695040888963407);
            let number =
                (random >> 40) as i32 % 700 + if random >> 33 & 1 == 0 { 0 } else { 32_000 };
            match random >> 60 {
                0..9 => {
                    numbers.put(number, step);
                    model.insert(number, step);
                }
                _ => {
                    numbers.free(number);
                    model.remove(&number);
                }
            }
            assert_eq!(numbers.is_taken(number), model.contains_key(&number));
            assert_eq!(numbers.get(number), model.get(&number));
            if step % 100 == 0 {
                same(&numbers, &model);
            }
        }
        for number in 0..NUMBERS_MAX {
            numbers.free(number);
        }
        assert_eq!(numbers.values().count(), 0);
        assert!(numbers.chunks.iter().all(Option::is_none));
    }

    #[test]
    fn what_is_no_number_is_not_there() {
        let mut numbers = Numbers::new();
        numbers.put(NUMBERS_MAX - 1, ());
        for number in [-1, i32::MIN, NUMBERS_MAX, i32::MAX] {
            assert!(!numbers.is_taken(number));
            assert!(numbers.get(number).is_none());
            numbers.free(number);
        }
        assert_eq!(numbers.values().count(), 1);
    }
}
