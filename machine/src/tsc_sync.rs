//! The time stamp counters of several processors: checked against each other when a processor comes up, and
//! set right where they differ.
//!
//! *Interface*: the boot CPU calls `lead` while the new one is in `follow`. A CPU whose counter differs and
//! cannot be set is not used: time would go back for a thread that moves there.
//!
//! The boot CPU asks for the other's count and reads its own before and behind, as a client asks a server for
//! the time (F. Cristian, "Probabilistic clock synchronization", 1989): the answer with the shortest wait
//! bounds the difference best. A difference within that bound, and below the time that a thread needs to go
//! from one CPU to another, is none.

#[cfg(target_os = "none")]
pub(crate) use exchange::{follow, lead};

/// Ticks of one question: of the asking CPU before and behind it, and of the other in between.
#[derive(Clone, Copy, Debug)]
struct Answer {
    before: u64,
    there: u64,
    behind: u64,
}

/// How far a counter is ahead, in ticks, and by how many that may be wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Ahead {
    /// Ticks; negative: it is behind.
    pub by: i64,
    /// Ticks.
    pub error: u64,
}

/// Questions of one comparison.
const QUESTIONS: usize = 16;
/// Comparisons, and so how often the counter is set, and once more.
const TRIES: usize = 3;

/// Asks, and takes the best answer. None: there is no answer.
fn compare(mut ask: impl FnMut() -> Option<Answer>) -> Option<Ahead> {
    let mut best: Option<Ahead> = None;
    for _ in 0..QUESTIONS {
        let answer = ask()?;
        let waited = answer.behind.wrapping_sub(answer.before);
        let middle = answer.before.wrapping_add(waited / 2);
        let here = Ahead {
            by: answer.there.wrapping_sub(middle).cast_signed(),
            error: waited / 2 + 1,
        };
        best = best.filter(|best| best.error <= here.error).or(Some(here));
    }
    best
}

/// Has the counter set by `set`, which is told how far it is ahead, until it agrees with the own one to
/// `slack` ticks. By how much it was set, or the difference that stays; None: there is no answer.
fn relate(
    slack: u64,
    mut ask: impl FnMut() -> Option<Answer>,
    mut set: impl FnMut(i64),
) -> Option<Result<i64, Ahead>> {
    let mut moved = 0_i64;
    let mut tries = 0;
    loop {
        let ahead = compare(&mut ask)?;
        if ahead.by.unsigned_abs() <= ahead.error.max(slack) {
            return Some(Ok(moved));
        }
        if tries == TRIES {
            return Some(Err(ahead));
        }
        tries += 1;
        set(ahead.by);
        moved = moved.wrapping_sub(ahead.by);
    }
}

/// The words by which both sides talk, and both sides.
#[cfg(target_os = "none")]
mod exchange {
    use super::{Ahead, Answer, relate};
    use core::arch::x86_64::{_mm_lfence, _rdtsc};
    use core::hint::spin_loop;
    use core::sync::atomic::{AtomicI64, AtomicU64, Ordering};

    /// The number of the question, above what is asked for.
    static ASKED: AtomicU64 = AtomicU64::new(0);
    /// The number of the last question that is answered, in the same form.
    static ANSWERED: AtomicU64 = AtomicU64::new(0);
    /// The answer: ticks.
    static COUNT: AtomicU64 = AtomicU64::new(0);
    /// How far the other is ahead, for [`SET`].
    static AHEAD: AtomicI64 = AtomicI64::new(0);

    /// For the count; to be set; to go on; to stop.
    const READ: u64 = 0;
    const SET: u64 = 1;
    const GO: u64 = 2;
    const STOP: u64 = 3;
    const KINDS: u64 = 4;

    /// The counter, behind all loads before.
    fn ticks() -> u64 {
        // SAFETY: every x86-64 has both instructions; one waits, and one reads a counter.
        unsafe {
            _mm_lfence();
            _rdtsc()
        }
    }

    fn tell(what: u64) -> u64 {
        let question = (ASKED.load(Ordering::Relaxed) / KINDS + 1) * KINDS + what;
        ASKED.store(question, Ordering::SeqCst);
        question
    }

    /// Asks, and waits at most `limit` ticks for the answer. None: there is none.
    fn ask(what: u64, limit: u64) -> Option<Answer> {
        let before = ticks();
        let question = tell(what);
        while ANSWERED.load(Ordering::Acquire) != question {
            if ticks().wrapping_sub(before) > limit {
                return None;
            }
            // Bound: boot only: ten seconds for an answer, then the CPU is not used; the new CPU waits for
            // questions.
            spin_loop();
        }
        let behind = ticks();
        Some(Answer {
            before,
            there: COUNT.load(Ordering::Relaxed),
            behind,
        })
    }

    /// On the boot CPU, while another is in [`follow`]: relates its counter to the own one, and lets it go on
    /// or stop. A difference of `slack` ticks is none; an answer takes `limit` ticks at most. By how many it
    /// was set, or the difference that stays, None: it has not answered.
    pub(crate) fn lead(slack: u64, limit: u64) -> Result<i64, Option<Ahead>> {
        let set = |by| {
            AHEAD.store(by, Ordering::Relaxed);
            let _set = ask(SET, limit);
        };
        let related = relate(slack, || ask(READ, limit), set);
        let verdict = related.ok_or(None).and_then(|set| set.map_err(Some));
        tell(if verdict.is_ok() { GO } else { STOP });
        verdict
    }

    /// On the new CPU, which is awaited: answers until the boot CPU has decided; `set_back` sets the counter
    /// back by so many ticks. False: the CPU is not used.
    pub(crate) fn follow(set_back: fn(i64)) -> bool {
        let mut last = ANSWERED.load(Ordering::Relaxed);
        loop {
            let question = ASKED.load(Ordering::Acquire);
            if question == last {
                spin_loop();
                continue;
            }
            let decided = match question % KINDS {
                READ => {
                    COUNT.store(ticks(), Ordering::Relaxed);
                    None
                }
                SET => {
                    set_back(AHEAD.load(Ordering::Relaxed));
                    None
                }
                decided => Some(decided == GO),
            };
            last = question;
            ANSWERED.store(question, Ordering::Release);
            if let Some(used) = decided {
                return used;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Ahead, Answer, TRIES, relate};

    /// Two counters, and a way between them that takes a random time.
    struct Pair {
        now: u64,
        ahead: i64,
        seed: u64,
        /// Ticks of the longest way.
        longest: u64,
    }

    impl Pair {
        fn new(ahead: i64, seed: u64, longest: u64) -> Pair {
            Pair {
                now: u64::MAX / 2,
                ahead,
                seed: seed * 2 + 1,
                longest,
            }
        }

        fn pass(&mut self) {
            self.seed = self
                .seed
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1);
            self.now += 20 + (self.seed >> 33) % self.longest;
        }

        fn ask(&mut self) -> Option<Answer> {
            let before = self.now;
            self.pass();
            let there = self.now.wrapping_add_signed(self.ahead);
            self.pass();
            Some(Answer {
                before,
                there,
                behind: self.now,
            })
        }
    }

    /// With `set` answered by `sets`: what comes of it, and how far the counter is ahead in the end.
    fn related(pair: Pair, slack: u64, sets: impl Fn(&mut Pair, i64)) -> (Result<i64, Ahead>, i64) {
        let pair = core::cell::RefCell::new(pair);
        let ask = || pair.borrow_mut().ask();
        let set = |by| sets(&mut pair.borrow_mut(), by);
        let result = relate(slack, ask, set).unwrap();
        let ahead = pair.borrow().ahead;
        (result, ahead)
    }

    #[test]
    fn counters_that_agree_are_left_alone() {
        for seed in 0..1000 {
            for longest in [1, 300, 1_000_000] {
                let sets = |_: &mut Pair, _| panic!("set");
                let (result, _) = related(Pair::new(0, seed, longest), 0, sets);
                assert_eq!(result, Ok(0));
            }
        }
    }

    #[test]
    fn one_that_differs_is_set() {
        for seed in 0..1000 {
            for ahead in [-3_000_000_000_000, -5_000, 5_000, 1 << 40] {
                let sets = |pair: &mut Pair, by: i64| {
                    pair.ahead = pair.ahead.wrapping_sub(by);
                    // Reading and writing the counter takes a while.
                    pair.ahead -= 30;
                };
                let (result, left) = related(Pair::new(ahead, seed, 300), 1000, sets);
                let moved = result.unwrap();
                assert!(left.unsigned_abs() <= 1000, "{left}");
                assert!((ahead + moved).unsigned_abs() <= 1100, "{ahead} {moved}");
            }
        }
    }

    #[test]
    fn one_that_cannot_be_set_is_told() {
        let calls = core::cell::Cell::new(0);
        let sets = |_: &mut Pair, _| calls.set(calls.get() + 1);
        let (result, _) = related(Pair::new(-50_000, 7, 300), 1000, sets);
        let stays = result.unwrap_err();
        assert!(
            (stays.by + 50_000).unsigned_abs() <= stays.error,
            "{stays:?}"
        );
        assert_eq!(calls.get(), TRIES);
        assert!(relate(0, || None, |_| ()).is_none());
    }
}
