//! Estimates: whether work that is divided into strips will be done by its deadline.
//!
//! *Interface*: [`Estimate::new`] at the beginning of a job, [`Estimate::strip_done`] after each strip,
//! [`Estimate::look`] from time to time; [`Estimate::thousandths`] says how much of the CPU the job needs
//! until its deadline, as a part of how much it gets. Times are nanoseconds, and CPU times those of the job's
//! thread.
//!
//! Both the time of a strip and the thread's part of the CPU are measured and go through a low-pass filter,
//! so the estimate follows both as they change. Before the first strip is done, the time that it has taken
//! so far stands for its time.
//! Source: dissertation, section 6.4.2.

use crate::filter::LowPass;

/// The estimate of a job that needs exactly what it gets.
pub const ENOUGH: u64 = 1000;
/// A whole CPU.
const WHOLE: i64 = 1 << 16;

/// A job of the thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Estimate {
    deadline_ns: u64,
    /// Strips that are not done.
    left: u64,
    /// CPU time of a strip, once one is done.
    strip_ns: Option<LowPass<2>>,
    /// CPU time at the beginning of the current strip.
    began_cpu_ns: u64,
    looked_ns: u64,
    looked_cpu_ns: u64,
    /// The part of a CPU that the thread has, once it was measured.
    part: Option<LowPass<2>>,
}

/// The filter with one more value.
fn filtered(filter: &mut Option<LowPass<2>>, value: i64) {
    match filter {
        Some(filter) => {
            filter.next(value);
        }
        None => *filter = Some(LowPass::new(value)),
    }
}

impl Estimate {
    /// A job of so many strips.
    pub fn new(strips: u64, deadline_ns: u64, now: u64, cpu_ns: u64) -> Self {
        Estimate {
            deadline_ns,
            left: strips,
            strip_ns: None,
            began_cpu_ns: cpu_ns,
            looked_ns: now,
            looked_cpu_ns: cpu_ns,
            part: None,
        }
    }

    /// Strips that are not done.
    pub fn left(&self) -> u64 {
        self.left
    }

    /// One more strip is done.
    pub fn strip_done(&mut self, cpu_ns: u64) {
        let took = cpu_ns.saturating_sub(self.began_cpu_ns).min(1 << 40);
        filtered(&mut self.strip_ns, took as i64);
        self.began_cpu_ns = cpu_ns;
        self.left = self.left.saturating_sub(1);
    }

    /// Measures the thread's part of the CPU since the last look.
    pub fn look(&mut self, now: u64, cpu_ns: u64) {
        let passed = now.saturating_sub(self.looked_ns);
        if passed > 0 {
            let ran = cpu_ns.saturating_sub(self.looked_cpu_ns).min(passed);
            let part = u128::from(ran) * WHOLE as u128 / u128::from(passed);
            filtered(&mut self.part, part as i64);
        }
        (self.looked_ns, self.looked_cpu_ns) = (now, cpu_ns);
    }

    /// The part of a CPU that the job needs from now on, in thousandths of the part that it has had: above
    /// [`ENOUGH`] it will miss its deadline.
    pub fn thousandths(&self, now: u64, cpu_ns: u64) -> u64 {
        if self.left == 0 {
            return 0;
        }
        let taken = u128::from(cpu_ns.saturating_sub(self.began_cpu_ns));
        let strip = match self.strip_ns {
            Some(filter) => u128::from(filter.value().max(0) as u64),
            None => taken,
        };
        let needed = u128::from(self.left - 1)
            .saturating_mul(strip)
            .saturating_add(strip.saturating_sub(taken))
            .saturating_mul(WHOLE as u128 * u128::from(ENOUGH));
        let until = u128::from(self.deadline_ns.saturating_sub(now));
        let part = self.part.map_or(WHOLE, |part| part.value()).max(1) as u128;
        let had = until * part;
        match needed.checked_div(had) {
            Some(estimate) => estimate.min(u128::from(u32::MAX)) as u64,
            None => u64::from(u32::MAX),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    /// A thread that has `percent` of the CPU does strips of a millisecond from `now` on: the estimate after
    /// `strips` of them.
    fn after(job: &mut Estimate, [now, cpu]: &mut [u64; 2], strips: u64, percent: u64) -> u64 {
        for _ in 0..strips {
            *now += MS * 100 / percent;
            *cpu += MS;
            job.strip_done(*cpu);
            job.look(*now, *cpu);
        }
        job.thousandths(*now, *cpu)
    }

    #[test]
    fn a_job_alone_is_done_in_time() {
        let mut at = [5 * MS, 3 * MS];
        let mut job = Estimate::new(20, 45 * MS, at[0], at[1]);
        assert_eq!(after(&mut job, &mut at, 10, 100), 10 * 1000 / 30);
        assert_eq!(after(&mut job, &mut at, 10, 100), 0);
        assert_eq!(job.left(), 0);
    }

    #[test]
    fn a_load_that_comes_is_seen_before_the_deadline() {
        let mut at = [0, 0];
        let mut job = Estimate::new(20, 30 * MS, at[0], at[1]);
        assert!(after(&mut job, &mut at, 5, 100) < ENOUGH);
        // From here on it has a half: 15 ms of work take 30, and 25 are left.
        let mut strips = 0;
        while after(&mut job, &mut at, 1, 50) <= ENOUGH {
            strips += 1;
        }
        assert!(strips < 5, "{strips}");
        assert!(at[0] < 20 * MS);
    }

    #[test]
    fn a_part_that_is_enough_is_no_miss() {
        let mut at = [0, 0];
        let mut job = Estimate::new(20, 45 * MS, at[0], at[1]);
        for _ in 0..20 {
            assert!(after(&mut job, &mut at, 1, 50) < ENOUGH);
        }
    }

    #[test]
    fn longer_strips_are_seen() {
        let mut job = Estimate::new(10, 20 * MS, 0, 0);
        job.strip_done(MS);
        job.look(MS, MS);
        assert_eq!(job.thousandths(MS, MS), 9 * 1000 / 19);
        // In the middle of the next one only its rest is still to be done.
        assert_eq!(job.thousandths(MS * 3 / 2, MS * 3 / 2), 8500 * 10 / 185);
        // The first one that takes longer, in its middle and at its end.
        assert!(job.thousandths(4 * MS, 4 * MS) < ENOUGH);
        job.strip_done(5 * MS);
        job.strip_done(9 * MS);
        job.look(9 * MS, 9 * MS);
        assert!(job.thousandths(9 * MS, 9 * MS) > ENOUGH);
    }

    #[test]
    fn before_the_first_strip_and_after_the_deadline() {
        let mut job = Estimate::new(10, 20 * MS, 0, 0);
        assert_eq!(job.thousandths(0, 0), 0);
        job.look(3 * MS, 3 * MS);
        assert!(job.thousandths(3 * MS, 3 * MS) > ENOUGH);
        assert_eq!(job.thousandths(20 * MS, 4 * MS), u64::from(u32::MAX));
        // A thread that sleeps gets nothing.
        let mut job = Estimate::new(2, 20 * MS, 0, 0);
        job.strip_done(MS);
        for now in 1..19 {
            job.look(now * MS, MS);
        }
        assert!(job.thousandths(18 * MS, MS) > ENOUGH);
        // No arithmetic overflows.
        let mut job = Estimate::new(u64::MAX, u64::MAX, 0, 0);
        job.look(u64::MAX, u64::MAX);
        job.strip_done(u64::MAX);
        job.thousandths(0, u64::MAX);
    }
}
