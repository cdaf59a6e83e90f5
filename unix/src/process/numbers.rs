//! A table by number: what has one of the numbers that processes and threads share.
//!
//! *Interface*: [`Numbers::take`] marks a number taken, [`Numbers::put`] says by what, [`Numbers::free`] gives it back; [`Numbers::get`]
//! looks, [`Numbers::values`] walks in order of the numbers. The caller excludes others.
//!
//! A bit a number says whether it is taken, so reserving one asks for no memory; what has it stands in a chunk of 64 that comes with the first of
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
    /// Bit for each number that is taken, a word a chunk.
    taken: [u64; CHUNKS],
    /// Bit for each chunk with a number that is taken.
    populated: [u64; CHUNKS.div_ceil(64)],
    chunks: [Option<Chunk<T>>; CHUNKS],
    spare: Option<Chunk<T>>,
    count: usize,
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
            count: 0,
        }
    }

    /// How many numbers are taken.
    pub fn len(&self) -> usize {
        self.count
    }

    pub fn is_taken(&self, number: i32) -> bool {
        let (chunk, at) = place(number);
        self.taken[chunk] >> at & 1 != 0
    }

    /// Takes `number`, below [`NUMBERS_MAX`], if nobody has it.
    pub fn take(&mut self, number: i32) {
        debug_assert!((0..NUMBERS_MAX).contains(&number));
        let (chunk, at) = place(number);
        self.count += usize::from(!self.is_taken(number));
        self.taken[chunk] |= 1 << at;
        self.populated[chunk / 64] |= 1 << (chunk % 64);
    }

    /// Says what has `number`, and takes it if that has not been done.
    pub fn put(&mut self, number: i32, value: T) {
        self.take(number);
        let (chunk, at) = place(number);
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
        self.count -= 1;
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

    /// What has `number`; `None` also when it is taken by nothing yet.
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

    fn same(numbers: &Numbers<i32>, model: &BTreeMap<i32, Option<i32>>) {
        assert_eq!(numbers.len(), model.len());
        let values: Vec<_> = numbers.values().copied().collect();
        let expected: Vec<_> = model.values().filter_map(|value| *value).collect();
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
                0..4 => {
                    numbers.take(number);
                    model.entry(number).or_insert(None);
                }
                4..9 => {
                    numbers.put(number, step);
                    model.insert(number, Some(step));
                }
                _ => {
                    numbers.free(number);
                    model.remove(&number);
                }
            }
            assert_eq!(numbers.is_taken(number), model.contains_key(&number));
            assert_eq!(
                numbers.get(number).copied(),
                model.get(&number).copied().flatten()
            );
            if step % 100 == 0 {
                same(&numbers, &model);
            }
        }
        for number in 0..NUMBERS_MAX {
            numbers.free(number);
        }
        assert_eq!(numbers.len(), 0);
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
        assert_eq!(numbers.len(), 1);
    }
}
