//! Compare-and-swap of two adjacent words.
//!
//! *Interface*: [`AtomicPair`], an atomic pair of words; [`AtomicPair::load`],
//! [`AtomicPair::compare_exchange`]; [`AtomicPair::read`] for pairs with a version.
//!
//! Source: the dissertation's `CAS2` (section 5.1) compares any two words. This machine has `cmpxchg16b`,
//! which compares two adjacent ones, so the structures here place words that must change together side by
//! side: a pointer and its tag, a value and its round.
//!
//! Progress: wait-free; one locked instruction. Memory order: both are acquire and release, a full barrier on
//! this machine. Every x86-64 processor since 2006 has the instruction; `machine` refuses to boot on one that
//! does not.

/// Two words that change together. Aligned to 16 bytes.
#[repr(C, align(16))]
pub struct AtomicPair {
    #[cfg(not(loom))]
    words: core::cell::UnsafeCell<[u64; 2]>,
    /// loom has no 128-bit atomics; a lock of its own orders accesses as the locked instruction does.
    #[cfg(loom)]
    words: loom::sync::Mutex<u128>,
}

// SAFETY: `words` is reached only by locked instructions (or under loom's lock).
unsafe impl Sync for AtomicPair {}
// SAFETY: plain words.
unsafe impl Send for AtomicPair {}

fn pack((low, high): (u64, u64)) -> u128 {
    u128::from(low) | u128::from(high) << 64
}

fn unpack(words: u128) -> (u64, u64) {
    (words as u64, (words >> 64) as u64)
}

impl AtomicPair {
    crate::primitive::constructor! {
        /// A pair holding `low` and `high`.
        pub fn new(low: u64, high: u64) -> AtomicPair {
            #[cfg(not(loom))]
            return AtomicPair { words: core::cell::UnsafeCell::new([low, high]) };
            #[cfg(loom)]
            return AtomicPair { words: loom::sync::Mutex::new(pack((low, high))) };
        }
    }

    #[cfg(not(any(loom, miri)))]
    #[inline]
    fn exchange(&self, old: u128, new: u128) -> u128 {
        let ((old_low, old_high), (new_low, new_high)) = (unpack(old), unpack(new));
        let (low, high): (u64, u64);
        // SAFETY: aligned to 16 bytes, valid while borrowed, accessed only so; the instruction exists (see
        // the head of the file). rbx is the compiler's, so it is put aside and back.
        unsafe {
            core::arch::asm!(
                "xchg rsi, rbx",
                "lock cmpxchg16b [rdi]",
                "mov rbx, rsi",
                in("rdi") self.words.get(),
                inout("rsi") new_low => _,
                in("rcx") new_high,
                inout("rax") old_low => low,
                inout("rdx") old_high => high,
                options(nostack),
            );
        }
        pack((low, high))
    }

    /// Miri has no assembler, but knows the intrinsic (which the compiler turns into a library call on
    /// targets that do not name the instruction).
    #[cfg(miri)]
    fn exchange(&self, old: u128, new: u128) -> u128 {
        use core::sync::atomic::Ordering::{AcqRel, Acquire};
        // SAFETY: as above.
        unsafe {
            core::arch::x86_64::cmpxchg16b(self.words.get().cast(), old, new, AcqRel, Acquire)
        }
    }

    #[cfg(loom)]
    fn exchange(&self, old: u128, new: u128) -> u128 {
        // Bound: models only (loom has no 16-byte exchange).
        let mut words = self.words.lock().unwrap();
        let was = *words;
        if was == old {
            *words = new;
        }
        was
    }

    /// Both words at one instant.
    #[inline]
    pub fn load(&self) -> (u64, u64) {
        // Writes the same value back when both words are zero, and nothing otherwise.
        unpack(self.exchange(0, 0))
    }

    /// Both words without a locked instruction, for pairs whose high word never has one value twice (a count
    /// of changes): when it is the same before and after the low word was read, the two belong together. (The
    /// low word may change alone meanwhile.) Otherwise as [`load`](AtomicPair::load).
    #[cfg(not(any(loom, miri)))]
    #[inline]
    pub fn read(&self) -> (u64, u64) {
        let (low, high, again): (u64, u64, u64);
        // SAFETY: as above. Loads are not reordered with each other on this machine, and the compiler sees
        // one opaque access to memory.
        unsafe {
            core::arch::asm!(
                "mov {high}, [{at} + 8]",
                "mov {low}, [{at}]",
                "mov {again}, [{at} + 8]",
                at = in(reg) self.words.get(),
                high = out(reg) high,
                low = out(reg) low,
                again = out(reg) again,
                options(nostack, preserves_flags),
            );
        }
        if high == again {
            (low, high)
        } else {
            self.load()
        }
    }

    /// As [`load`](AtomicPair::load): the checkers know no accesses of mixed size.
    #[cfg(any(loom, miri))]
    pub fn read(&self) -> (u64, u64) {
        self.load()
    }

    /// Both words, perhaps from different instants: for a caller that then exchanges both, which detects a
    /// difference, and that uses only one of them until then.
    #[cfg(not(any(loom, miri)))]
    #[inline]
    pub fn guess(&self) -> (u64, u64) {
        let (low, high): (u64, u64);
        // SAFETY: as above.
        unsafe {
            core::arch::asm!(
                "mov {high}, [{at} + 8]",
                "mov {low}, [{at}]",
                at = in(reg) self.words.get(),
                high = out(reg) high,
                low = out(reg) low,
                options(nostack, preserves_flags),
            );
        }
        (low, high)
    }

    /// As [`load`](AtomicPair::load): the checkers know no accesses of mixed size.
    #[cfg(any(loom, miri))]
    pub fn guess(&self) -> (u64, u64) {
        self.load()
    }

    /// The low word.
    #[cfg(not(any(loom, miri)))]
    #[inline]
    pub fn low(&self) -> u64 {
        let low: u64;
        // SAFETY: as above.
        unsafe {
            core::arch::asm!(
                "mov {low}, [{at}]",
                at = in(reg) self.words.get(),
                low = out(reg) low,
                options(nostack, preserves_flags),
            );
        }
        low
    }

    /// The low word.
    #[cfg(any(loom, miri))]
    pub fn low(&self) -> u64 {
        self.load().0
    }

    /// The high word.
    #[cfg(not(any(loom, miri)))]
    #[inline]
    pub fn high(&self) -> u64 {
        let high: u64;
        // SAFETY: as above.
        unsafe {
            core::arch::asm!(
                "mov {high}, [{at} + 8]",
                at = in(reg) self.words.get(),
                high = out(reg) high,
                options(nostack, preserves_flags),
            );
        }
        high
    }

    /// The high word.
    #[cfg(any(loom, miri))]
    pub fn high(&self) -> u64 {
        self.load().1
    }

    /// Put `new` into the low word if that is `old`, whatever the high one is: half the cost of
    /// [`compare_exchange`](AtomicPair::compare_exchange).
    ///
    /// # Errors
    /// The current low word, when it was not `old`.
    #[inline]
    pub fn compare_exchange_low(&self, old: u64, new: u64) -> Result<(), u64> {
        self.compare_exchange_half::<0>(old, new)
    }

    /// Put `new` into the high word if that is `old`, whatever the low one is: half the cost of
    /// [`compare_exchange`](AtomicPair::compare_exchange); but an exchange of both words that follows at once
    /// takes longer.
    ///
    /// # Errors
    /// The current high word, when it was not `old`.
    #[inline]
    pub fn compare_exchange_high(&self, old: u64, new: u64) -> Result<(), u64> {
        self.compare_exchange_half::<1>(old, new)
    }

    #[cfg(not(any(loom, miri)))]
    #[inline]
    fn compare_exchange_half<const HALF: usize>(&self, old: u64, new: u64) -> Result<(), u64> {
        let was: u64;
        // SAFETY: as above; a locked instruction of eight bytes and one of sixteen exclude each other.
        unsafe {
            core::arch::asm!(
                "lock cmpxchg [{at} + 8 * {half}], {new}",
                at = in(reg) self.words.get(),
                half = const HALF,
                new = in(reg) new,
                inout("rax") old => was,
                options(nostack),
            );
        }
        if was == old { Ok(()) } else { Err(was) }
    }

    /// As on the machine, by an exchange of both words.
    #[cfg(any(loom, miri))]
    fn compare_exchange_half<const HALF: usize>(&self, old: u64, new: u64) -> Result<(), u64> {
        let mut both = self.load();
        loop {
            let mut halves: [u64; 2] = both.into();
            if halves[HALF] != old {
                return Err(halves[HALF]);
            }
            halves[HALF] = new;
            match self.compare_exchange(both, halves.into()) {
                Ok(()) => return Ok(()),
                Err(now) => both = now,
            }
        }
    }

    /// Put `new` by two stores, the high word first, where others may read but discard the result, and none
    /// of their exchanges can succeed (their high word is out of date).
    #[cfg(not(any(loom, miri)))]
    #[inline]
    pub fn renew(&self, (low, high): (u64, u64)) {
        // SAFETY: as above.
        unsafe {
            core::arch::asm!(
                "mov [{at} + 8], {high}",
                "mov [{at}], {low}",
                at = in(reg) self.words.get(),
                high = in(reg) high,
                low = in(reg) low,
                options(nostack, preserves_flags),
            );
        }
    }

    /// As on the machine, by an exchange.
    #[cfg(any(loom, miri))]
    pub fn renew(&self, new: (u64, u64)) {
        let mut old = self.load();
        while let Err(now) = self.compare_exchange(old, new) {
            old = now;
        }
    }

    /// Put `new` while no other party can reach the pair; the publication of its address publishes the value.
    ///
    /// # Safety
    /// No other access to the pair at the same time.
    #[cfg(not(loom))]
    pub unsafe fn set(&self, new: (u64, u64)) {
        // SAFETY: the caller's promise.
        unsafe { self.words.get().write([new.0, new.1]) };
    }

    /// Put `new` while no other party can reach the pair.
    ///
    /// # Safety
    /// No other access to the pair at the same time.
    #[cfg(loom)]
    pub unsafe fn set(&self, new: (u64, u64)) {
        *self.words.lock().unwrap() = pack(new);
    }

    /// Put `new` if both words are `old`; else the words that are there.
    ///
    /// # Errors
    /// The current pair, when it was not `old`.
    #[inline]
    pub fn compare_exchange(&self, old: (u64, u64), new: (u64, u64)) -> Result<(), (u64, u64)> {
        let old = pack(old);
        let was = self.exchange(old, pack(new));
        if was == old { Ok(()) } else { Err(unpack(was)) }
    }
}
