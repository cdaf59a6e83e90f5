//! Low-pass, integrator and derivative (dissertation, figures 6.4 to 6.6).
//!
//! *Interface*: `next(x)` takes one measurement and gives the filtered value. Inputs up to 2⁴⁰ in size never
//! overflow; the integrator saturates.

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

/// `accum = accum + x` (figure 6.5), within bounds: a loop that cannot follow does not wind up without end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Integrator {
    sum: i64,
    bound: i64,
}

impl Integrator {
    /// A sum of zero that stays within `-bound..=bound`.
    pub const fn new(bound: i64) -> Self {
        assert!(bound > 0);
        Integrator { sum: 0, bound }
    }

    /// Take `x`; the sum.
    pub const fn next(&mut self, x: i64) -> i64 {
        self.sum = self.sum.saturating_add(x);
        if self.sum > self.bound {
            self.sum = self.bound;
        } else if self.sum < -self.bound {
            self.sum = -self.bound;
        }
        self.sum
    }
}

/// `x - old_x` (figure 6.6). Never used alone.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Derivative {
    old: i64,
}

impl Derivative {
    /// A filter that has seen `x` for ever.
    pub const fn new(x: i64) -> Self {
        Derivative { old: x }
    }

    /// Take `x`; how much it changed.
    pub const fn next(&mut self, x: i64) -> i64 {
        let change = x - self.old;
        self.old = x;
        change
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

    #[test]
    fn integrator_is_bounded_and_derivative_telescopes() {
        let mut sum = Integrator::new(100);
        assert_eq!((0..50).map(|_| sum.next(7)).last(), Some(100));
        assert_eq!(sum.next(-30), 70);
        assert_eq!((0..50).map(|_| sum.next(i64::MIN / 2)).last(), Some(-100));
        let mut change = Derivative::new(3);
        let changes: i64 = [5, 1, 9, 4].iter().map(|x| change.next(*x)).sum();
        assert_eq!(changes, 4 - 3);
    }
}
