//! The low-pass filter (dissertation, figure 6.4).
//!
//! *Interface*: `next(x)` takes one measurement and gives the filtered value. Inputs up to 2⁴⁰ in size never
//! overflow.

/// `lopass = ((2^S - 1) * lopass + x) / 2^S`. Figure 6.4 has `S` = 3.
///
/// The history is kept with `S` more bits than the output, so that a constant input is reached exactly and
/// not merely to within rounding.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LowPass<const S: u32 = 3> {
    /// The output times 2^S.
    history: i64,
}

impl<const S: u32> LowPass<S> {
    /// A filter that has seen `x` for ever.
    pub const fn new(x: i64) -> Self {
        const { assert!(S > 0 && S < 20) };
        LowPass { history: x << S }
    }

    /// Take `x`; the filtered value.
    pub const fn next(&mut self, x: i64) -> i64 {
        self.history += x - self.value();
        self.value()
    }

    /// The filtered value now, rounded to the nearest.
    pub const fn value(&self) -> i64 {
        (self.history + (1 << (S - 1))) >> S
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn low_pass_reaches_a_constant_and_halves_noise() {
        for target in [0, 1, -1, 1000, -1000, 1 << 40, -(1 << 40)] {
            let mut filter: LowPass = LowPass::new(0);
            (0..400).for_each(|_| {
                filter.next(target);
            });
            assert_eq!(filter.value(), target);
        }
        // A residue that cycles between -2 and 2 goes to about zero.
        let mut filter: LowPass = LowPass::new(0);
        let worst = (0..1000)
            .map(|n| filter.next([1000, 0, -1000, 0][n % 4]).abs())
            .max();
        assert!(worst.is_some_and(|w| w <= 130), "{worst:?}");
    }

    #[test]
    fn low_pass_is_monotone_between_old_and_new() {
        let mut seed = 1u64;
        let mut filter: LowPass<4> = LowPass::new(0);
        for _ in 0..10_000 {
            seed = seed
                .wrapping_mul(6364136223846793005)
                .wrapping_add(1442695040888963407);
            let x = (seed >> 33) as i64 - (1 << 30);
            let old = filter.value();
            let new = filter.next(x);
            assert!(
                (old.min(x) - 1..=old.max(x) + 1).contains(&new),
                "{old} {x} {new}"
            );
        }
    }
}
