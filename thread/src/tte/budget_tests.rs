//! Budgets by their arithmetic: the promise is kept over any sequence of sleeps, and exceeded by none.

use super::*;

const TERMS: Terms = Terms {
    runtime_ns: 2_000_000,
    deadline_ns: 10_000_000,
    period_ns: 10_000_000,
};

fn at(left_ns: i64, due_ns: u64) -> BudgetState {
    BudgetState { left_ns, due_ns }
}

#[test]
fn a_spent_budget_waits_for_the_next_period() {
    let spent = at(0, 20_000_000);
    assert_eq!(TERMS.renewed(spent, 19_999_999, false), None);
    assert_eq!(TERMS.renewed(spent, 19_999_999, true), None);
    assert_eq!(
        TERMS.renewed(spent, 20_000_000, false),
        Some(at(2_000_000, 30_000_000))
    );
    // A deadline before the end of the period.
    let early = Terms {
        deadline_ns: 4_000_000,
        ..TERMS
    };
    assert_eq!(early.renewed(at(0, 14_000_000), 19_999_999, false), None);
    assert_eq!(
        early.renewed(at(0, 14_000_000), 20_000_000, false),
        Some(at(2_000_000, 24_000_000))
    );
}

#[test]
fn a_debt_is_paid_back() {
    // Two and a half budgets too many: the fourth period is the first with something left.
    let next = TERMS.renewed(at(-5_000_000, 20_000_000), 20_000_000, false);
    assert_eq!(next, Some(at(1_000_000, 50_000_000)));
    // A thread that was away for long begins anew.
    let next = TERMS.renewed(at(-5_000_000, 20_000_000), 90_000_000, true);
    assert_eq!(next, Some(at(2_000_000, 100_000_000)));
}

#[test]
fn a_sleeper_has_no_more_than_its_share() {
    // Half of the period is left, and half of the budget: it keeps both.
    let half = at(1_000_000, 20_000_000);
    assert_eq!(TERMS.renewed(half, 15_000_000, true), Some(half));
    // More is left than its share until the deadline: a new period begins.
    let next = TERMS.renewed(half, 16_000_000, true);
    assert_eq!(next, Some(at(2_000_000, 26_000_000)));
    // One that has not slept keeps its deadline.
    assert_eq!(TERMS.renewed(half, 19_000_000, false), Some(half));
    let early = Terms {
        deadline_ns: 4_000_000,
        ..TERMS
    };
    // With an earlier deadline it has its share until then, or waits for the next period.
    let whole = at(2_000_000, 14_000_000);
    assert_eq!(
        early.renewed(whole, 12_000_000, true),
        Some(at(1_000_000, 14_000_000))
    );
    assert_eq!(early.renewed(whole, 14_000_001, true), None);
    assert_eq!(
        early.renewed(whole, 20_000_000, true),
        Some(at(2_000_000, 24_000_000))
    );
}

/// At random: in any window the thread runs no more than its share of the window and two budgets, and a
/// thread that always wants to run has a budget in each period.
#[test]
fn the_promise_is_kept_and_not_exceeded() {
    let mut seed = 1u64;
    let mut random = |below: u64| {
        seed = seed.wrapping_mul(6364136223846793005).wrapping_add(1);
        (seed >> 33) % below
    };
    for sleeps in [false, true] {
        let (mut now, mut standing, mut ran) = (0, at(0, 0), 0u64);
        let mut slept = true;
        while now < 10_000_000_000 {
            match TERMS.renewed(standing, now, slept) {
                None => {
                    now = TERMS.next_ns(standing.due_ns);
                    slept = true;
                }
                Some(next) => {
                    let wanted = match sleeps {
                        true => 1 + random(3_000_000),
                        false => u64::MAX,
                    };
                    let run = wanted.min(next.left_ns as u64);
                    (now, ran) = (now + run, ran + run);
                    standing = at(next.left_ns - run as i64, next.due_ns);
                    slept = sleeps && wanted == run;
                    if slept {
                        now += random(20_000_000);
                    }
                    assert!(sleeps || now <= next.due_ns);
                }
            }
            let most = now / 5 + 2 * TERMS.runtime_ns;
            assert!(ran <= most, "{ran} of {most} at {now}");
        }
        assert!(sleeps || ran >= now / 5 - TERMS.runtime_ns);
    }
}

#[test]
fn shares_are_parts_of_a_cpu() {
    assert_eq!(TERMS.share(), ONE / 5);
    let all = Terms {
        runtime_ns: 10_000_000,
        ..TERMS
    };
    assert!(all.share() > MOST);
    let senseless = Terms {
        runtime_ns: u64::MAX,
        deadline_ns: 0,
        period_ns: 0,
    };
    assert_eq!(senseless.share(), u64::from(u32::MAX));
    // No arithmetic overflows.
    senseless.renewed(at(i64::MIN, u64::MAX), u64::MAX, true);
    senseless.renewed(at(i64::MAX, 0), u64::MAX, true);
}
