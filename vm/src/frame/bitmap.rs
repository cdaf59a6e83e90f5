//! The bitmap of free frames: one bit a frame, set when free, and above it one bit for each word that may
//! have one.
//!
//! *Interface*: [`Bitmap::take_top`], [`Bitmap::take_bottom`], [`Bitmap::take_run`], [`Bitmap::give`];
//! [`Bitmap::blocks`] counts.
//!
//! A word that is emptied clears its summary bit and then looks at the word again, so a bit given in between
//! is never lost: at rest, a word with a free frame has its summary bit. While a giver is between its two
//! steps the word may be overlooked.
//!
//! Progress: lock-free. A failed compare-and-swap on a word means that another succeeded. `take_run` claims
//! word after word, upwards, and gives all back when one of them has lost a member: of several searches that
//! collide, the one that holds the highest contested word meets none of the others further on, so it
//! succeeds, or loses to a party that took single frames. A search may overlook a run that another one has
//! claimed and then gives back.

use crate::primitive::atomic::{AtomicU64, AtomicUsize, Ordering};

/// Where the search begins; hints only.
pub(crate) struct Hints {
    /// No summary word below this one is set.
    pub(crate) bottom: AtomicUsize,
    /// No summary word above this one is set.
    pub(crate) top: AtomicUsize,
    /// Word where the last run was found, or a lower one where one was given back.
    pub(crate) run: AtomicUsize,
}

/// Sizes of blocks that [`Bitmap::blocks`] counts: from 1 to 1024, as Linux does.
pub(crate) const ORDERS: usize = 11;

/// A set of frame numbers.
pub(crate) struct Bitmap<'a> {
    pub(crate) words: &'a [AtomicU64],
    pub(crate) summary: &'a [AtomicU64],
    pub(crate) hints: &'a Hints,
}

impl Bitmap<'_> {
    /// Takes a member, a high one if the hint is good.
    #[inline]
    pub(crate) fn take_top(&self) -> Option<usize> {
        let top = self.hints.top.load(Ordering::Relaxed);
        if top < self.summary.len()
            && let Some(index) = self.take_in_group(top, usize::MAX, highest)
        {
            return Some(index);
        }
        self.search_top(top)
    }

    /// The hint was bad: looks below it, then above, where frames may have been freed since.
    #[cold]
    fn search_top(&self, top: usize) -> Option<usize> {
        let below = (0..self.summary.len().min(top)).rev();
        for group in below.chain((top..self.summary.len()).rev()) {
            if let Some(index) = self.take_in_group(group, usize::MAX, highest) {
                self.hints.top.store(group, Ordering::Relaxed);
                return Some(index);
            }
        }
        None
    }

    /// Takes a member below `limit` (a multiple of 64), a low one if the hint is good.
    #[inline]
    pub(crate) fn take_bottom(&self, limit: usize) -> Option<usize> {
        let bottom = self.hints.bottom.load(Ordering::Relaxed);
        let end = self.summary.len().min(limit.div_ceil(64 * 64));
        for group in bottom..end {
            if let Some(index) = self.take_in_group(group, limit, lowest) {
                if group != bottom {
                    self.hints.bottom.store(group, Ordering::Relaxed);
                }
                return Some(index);
            }
        }
        (0..bottom.min(end)).find_map(|group| self.take_in_group(group, limit, lowest))
    }

    /// Takes a member below `limit` from the 64 words of summary word `group`; `pick` chooses one bit of a
    /// word.
    #[inline]
    fn take_in_group(&self, group: usize, limit: usize, pick: fn(u64) -> u32) -> Option<usize> {
        let mut candidates = self.summary[group].load(Ordering::Acquire);
        while candidates != 0 {
            let bit = pick(candidates);
            // Numbers of frames: not even of the last do 64 wrap.
            let word = group.wrapping_mul(64) | bit as usize;
            if word.wrapping_mul(64) < limit
                && let Some(index) = self.take_in_word(word, pick)
            {
                return Some(index);
            }
            candidates &= !(1 << bit);
        }
        None
    }

    #[inline]
    fn take_in_word(&self, word: usize, pick: fn(u64) -> u32) -> Option<usize> {
        let mut seen = self.words[word].load(Ordering::Acquire);
        while seen != 0 {
            let bit = pick(seen);
            let rest = seen & !(1 << bit);
            match self.words[word].compare_exchange_weak(
                seen,
                rest,
                Ordering::AcqRel,
                Ordering::Acquire,
            ) {
                Ok(_) => {
                    if rest == 0 {
                        self.settle(word);
                    }
                    return Some(word.wrapping_mul(64) | bit as usize);
                }
                Err(now) => seen = now,
            }
        }
        self.settle(word);
        None
    }

    /// Clears the summary bit of a word that was seen empty, unless a frame is freed meanwhile.
    fn settle(&self, word: usize) {
        let bit = 1 << (word % 64);
        let summary = &self.summary[word / 64];
        summary.fetch_and(!bit, Ordering::SeqCst);
        if self.words[word].load(Ordering::SeqCst) != 0 {
            summary.fetch_or(bit, Ordering::SeqCst);
        }
    }

    /// Puts a number in that is not in.
    #[inline]
    pub(crate) fn give(&self, index: usize) {
        let word = index / 64;
        let before = self.words[word].fetch_or(1 << (index % 64), Ordering::SeqCst);
        debug_assert!(before & (1 << (index % 64)) == 0, "frame given twice");
        if before == 0 {
            self.announce(word);
        }
    }

    /// Puts `count` numbers from `start` in, none of which is in.
    pub(crate) fn give_run(&self, start: usize, count: usize) {
        self.unclaim(start, count);
        if start / 64 < self.hints.run.load(Ordering::Relaxed) {
            self.hints.run.store(start / 64, Ordering::Relaxed);
        }
    }

    fn unclaim(&self, start: usize, count: usize) {
        for (word, mask) in parts(start, count) {
            let before = self.words[word].fetch_or(mask, Ordering::SeqCst);
            debug_assert!(before & mask == 0, "frame given twice");
            if before == 0 {
                self.announce(word);
            }
        }
    }

    /// A word that was empty has a member now.
    fn announce(&self, word: usize) {
        let group = word / 64;
        self.summary[group].fetch_or(1 << (word % 64), Ordering::SeqCst);
        if group < self.hints.bottom.load(Ordering::Relaxed) {
            self.hints.bottom.store(group, Ordering::Relaxed);
        }
        if group > self.hints.top.load(Ordering::Relaxed) {
            self.hints.top.store(group, Ordering::Relaxed);
        }
    }

    /// How many blocks of 2^n members there are, each n its own element: aligned to their size, and in no
    /// larger one.
    pub(crate) fn blocks(&self) -> [usize; ORDERS] {
        let mut found = [0; ORDERS];
        // A word's bits, then the whole words of a largest block.
        let (small, large) = found.split_at_mut(6);
        for group in self.words.chunks(1 << (ORDERS - 7)) {
            let mut whole = 0;
            for (at, word) in group.iter().enumerate() {
                let left = halve(word.load(Ordering::Relaxed), small);
                whole |= left << at;
            }
            if let Some((largest, rest)) = large.split_last_mut() {
                *largest += halve(whole, rest) as usize;
            }
        }
        found
    }

    /// Takes `count` numbers in a row below `limit`, the first a multiple of `align` (a power of two). Looks
    /// first where the last run was found.
    pub(crate) fn take_run(&self, count: usize, align: usize, limit: usize) -> Option<usize> {
        let limit = limit.min(self.words.len() * 64);
        let hint = self.hints.run.load(Ordering::Relaxed) * 64;
        let found = self
            .take_run_between(hint, count, align, limit)
            .or_else(|| self.take_run_between(0, count, align, limit.min(hint + count)))?;
        self.hints.run.store(found / 64, Ordering::Relaxed);
        Some(found)
    }

    fn take_run_between(
        &self,
        from: usize,
        count: usize,
        align: usize,
        limit: usize,
    ) -> Option<usize> {
        let mut start = from.next_multiple_of(align);
        while count != 0 && start + count <= limit {
            let word = self.next_word(start / 64)?;
            if word > start / 64 {
                start = (word * 64).next_multiple_of(align);
                continue;
            }
            let next = self.candidate(start, count, align);
            if next > start {
                start = next;
                continue;
            }
            match self.obstacle(start, count) {
                Some(obstacle) => start = (obstacle + 1).next_multiple_of(align),
                None if self.claim(start, count) => return Some(start),
                None => {}
            }
        }
        None
    }

    /// The first number from `start` on, a multiple of `align` as that is, where a run of `count` may begin
    /// as far as the word of `start` shows: one that lies in the word, or one with which the word ends.
    fn candidate(&self, start: usize, count: usize, align: usize) -> usize {
        let word = start / 64;
        let bits = self.words[word].load(Ordering::Acquire) & u64::MAX << (start % 64);
        let mut runs = match count {
            0..=64 => bits,
            _ => 0,
        };
        let mut whole = 1;
        while whole < count && runs != 0 {
            let more = whole.min(count - whole);
            runs &= runs >> more;
            whole += more;
        }
        if align > 1 {
            // Of a larger alignment `start` is in the first place.
            runs &= u64::MAX / (u64::MAX >> (64 - align.min(64)));
        }
        match runs {
            0 => (word * 64 + 64 - bits.leading_ones() as usize).next_multiple_of(align),
            runs => word * 64 + lowest(runs) as usize,
        }
    }

    /// The first word from `word` on that may have members.
    fn next_word(&self, word: usize) -> Option<usize> {
        let mut mask = u64::MAX << (word % 64);
        for group in word / 64..self.summary.len() {
            let candidates = self.summary[group].load(Ordering::Acquire) & mask;
            if candidates != 0 {
                return Some(group * 64 + lowest(candidates) as usize);
            }
            mask = u64::MAX;
        }
        None
    }

    /// The last number of the first word's part of `start..start + count` that is not in; `None` when all are
    /// in.
    fn obstacle(&self, start: usize, count: usize) -> Option<usize> {
        parts(start, count).find_map(|(word, mask)| {
            let missing = mask & !self.words[word].load(Ordering::Acquire);
            (missing != 0).then(|| word * 64 + highest(missing) as usize)
        })
    }

    /// Takes all of `start..start + count` or nothing.
    fn claim(&self, start: usize, count: usize) -> bool {
        for (done, (word, mask)) in parts(start, count).enumerate() {
            if !self.claim_in_word(word, mask) {
                if let Some((first_left, _)) = parts(start, count).nth(done) {
                    self.unclaim(start, (first_left * 64).saturating_sub(start));
                }
                return false;
            }
        }
        true
    }

    fn claim_in_word(&self, word: usize, mask: u64) -> bool {
        let mut seen = self.words[word].load(Ordering::Acquire);
        while seen & mask == mask {
            match self.words[word].compare_exchange_weak(
                seen,
                seen & !mask,
                Ordering::AcqRel,
                Ordering::Acquire,
            ) {
                Ok(_) => {
                    if seen == mask {
                        self.settle(word);
                    }
                    return true;
                }
                Err(now) => seen = now,
            }
        }
        false
    }
}

/// The words that `start..start + count` touches, each with the mask of the bits in it.
fn parts(start: usize, count: usize) -> impl Iterator<Item = (usize, u64)> {
    let end = start + count;
    let last = if count == 0 { 0 } else { end.div_ceil(64) };
    (start / 64..last).map(move |word| {
        let from = start.max(word * 64) - word * 64;
        let to = end.min(word * 64 + 64) - word * 64;
        (word, (u64::MAX >> (64 - (to - from))) << from)
    })
}

/// Firsts of pairs of bits, of pairs of pairs, and so on.
const FIRSTS: [u64; 6] = [
    0x5555_5555_5555_5555,
    0x1111_1111_1111_1111,
    0x0101_0101_0101_0101,
    0x0001_0001_0001_0001,
    0x0000_0001_0000_0001,
    1,
];

/// Counts what stands in `bits`, aligned runs of 1, 2, 4 and so on that are in no longer one, an element of
/// `counts` each. Returns the first bits of runs twice as long as the last of these.
fn halve(mut bits: u64, counts: &mut [usize]) -> u64 {
    for (order, (count, firsts)) in counts.iter_mut().zip(FIRSTS).enumerate() {
        let pairs = bits & bits >> (1 << order) & firsts;
        *count += (bits.count_ones() - 2 * pairs.count_ones()) as usize;
        bits = pairs;
    }
    bits
}

#[inline]
fn lowest(bits: u64) -> u32 {
    bits.trailing_zeros()
}

#[inline]
fn highest(bits: u64) -> u32 {
    63 - bits.leading_zeros()
}
