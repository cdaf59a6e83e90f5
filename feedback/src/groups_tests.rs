//! Groups of threads in simulated rounds.

use super::*;

/// A thread: its group, its own quantum, and how long it runs at most before it sleeps to the next round.
struct Thread {
    group: usize,
    own_ns: u64,
    burst_ns: u64,
}

fn busy(group: usize) -> Thread {
    Thread {
        group,
        own_ns: USUAL_NS,
        burst_ns: u64::MAX,
    }
}

/// The groups' shares in thousandths, those below them included, after some rounds on one processor; the
/// last look is at `rounds` rounds.
fn shares(tree: &[(usize, u32)], threads: &[Thread]) -> Vec<u64> {
    let mut factors = vec![[ONE; 2]; tree.len()];
    let mut used = vec![0; threads.len()];
    let mut total = vec![0; tree.len()];
    let mut elapsed = 1;
    for pass in 0..300 {
        let make = |used: &[u64], factors: &[[u32; 2]]| {
            let nodes = tree.iter().zip(factors);
            let mut groups: Vec<Group> = nodes
                .map(|(&(parent, weight), &factors)| Group::new(parent, weight, factors))
                .collect();
            for (thread, used) in threads.iter().zip(used) {
                groups[thread.group].add(0, thread.own_ns, ONE, *used);
            }
            groups
        };
        let mut groups = make(&used, &factors);
        if pass > 0 {
            correct(&mut groups, elapsed);
            factors = groups.iter().map(Group::factors).collect();
            groups = make(&used, &factors);
        }
        let round = divide(&mut groups);
        used.fill(0);
        elapsed = 0;
        while elapsed < 4 * round {
            for (thread, used) in threads.iter().zip(&mut used) {
                let turn = groups[thread.group].turn(0, thread.own_ns);
                // The timer looks at long turns at intervals, and an eighth early is the end.
                let turn = match turn > USUAL_NS {
                    true => (turn - turn / 8).next_multiple_of(USUAL_NS).min(turn),
                    false => turn,
                };
                let ran = turn.min(thread.burst_ns);
                *used += ran;
                elapsed += ran;
            }
        }
        if pass > 200 {
            for (thread, used) in threads.iter().zip(&used) {
                let mut group = thread.group;
                loop {
                    total[group] += used;
                    if group == 0 {
                        break;
                    }
                    group = tree[group].0;
                }
            }
        }
    }
    total.iter().map(|time| time * 1000 / total[0]).collect()
}

fn near(actual: u64, wanted: u64) {
    assert!(
        actual.abs_diff(wanted) * 20 <= wanted,
        "{actual} thousandths, wanted {wanted}"
    );
}

#[test]
fn groups_share_whatever_is_in_them() {
    let tree = [(0, 100), (0, 100), (0, 100)];
    let five = |n: usize| if n == 0 { 1 } else { 2 };
    let threads: Vec<Thread> = (0..6).map(|n| busy(five(n))).collect();
    let shares = shares(&tree, &threads);
    near(shares[1], 500);
    near(shares[2], 500);
}

#[test]
fn weights_count_at_each_level() {
    // 1: 300 with 3: 100 and 4: 200 in it; 2: 100.
    let tree = [(0, 100), (0, 300), (0, 100), (1, 100), (1, 200)];
    let threads = [busy(2), busy(2), busy(3), busy(4), busy(4), busy(4)];
    let shares = shares(&tree, &threads);
    for (share, wanted) in shares.iter().zip([1000, 750, 250, 250, 500]) {
        near(*share, wanted);
    }
}

#[test]
fn a_thread_of_the_root_counts_as_a_group() {
    let tree = [(0, 100), (0, 100)];
    let mut threads = vec![busy(0), busy(1), busy(1)];
    near(shares(&tree, &threads)[1], 500);
    threads.push(busy(0));
    near(shares(&tree, &threads)[1], 333);
    // Twice as nice by their quantum.
    threads[0].own_ns = USUAL_NS / 2;
    threads[3].own_ns = USUAL_NS / 2;
    near(shares(&tree, &threads)[1], 500);
}

#[test]
fn a_large_and_a_small_weight() {
    let tree = [(0, 100), (0, 1000), (0, 10)];
    let shares = shares(&tree, &[busy(1), busy(2)]);
    near(shares[1], 990);
    assert!((9..=11).contains(&shares[2]), "{} thousandths", shares[2]);
}

#[test]
fn a_group_that_ends_its_turns_early_has_longer_ones() {
    let tree = [(0, 100), (0, 100), (0, 100)];
    let mut threads = vec![busy(1), busy(2), busy(2)];
    // It sleeps after a little, and one beside it computes: together they have their half.
    threads[1].burst_ns = 20_000;
    near(shares(&tree, &threads)[1], 500);
}

#[test]
fn a_group_of_sleepers_takes_nothing_from_those_beside_it() {
    let mut groups = [
        Group::new(0, WEIGHT, [ONE; 2]),
        Group::new(0, 100, [ONE; 2]),
        Group::new(1, 100, [ONE; 2]),
        Group::new(1, 10_000, [ONE; 2]),
    ];
    groups[0].add(0, USUAL_NS, ONE, 0);
    groups[2].add(0, USUAL_NS, ONE, 0);
    groups[3].add(0, USUAL_NS, 0, 0);
    divide(&mut groups);
    let [root, busy] = [0, 2].map(|group: usize| groups[group].turn(0, USUAL_NS));
    assert!(root.abs_diff(USUAL_NS) < USUAL_NS / 4, "{root}");
    assert!(busy > USUAL_NS / 5, "{busy}");
    assert!(groups[3].turn(0, USUAL_NS) > root);
}

#[test]
fn alone_in_the_root_all_have_their_own_quanta() {
    let mut groups = [Group::new(0, WEIGHT, [ONE; 2])];
    for own_ns in [USUAL_NS, USUAL_NS / 8, USUAL_NS * 8] {
        groups[0].add(0, own_ns, ONE, 1);
    }
    correct(&mut groups, 1000);
    divide(&mut groups);
    for own_ns in [USUAL_NS, USUAL_NS / 8, USUAL_NS * 8] {
        let turn = groups[0].turn(0, own_ns);
        assert!(turn.abs_diff(own_ns) <= own_ns / 100, "{turn}");
    }
}

#[test]
fn a_thread_cannot_use_more_than_a_processor() {
    // One thread beside five, two processors: the one has a processor of its own by its weight.
    let mut factors = [[ONE; 2]; 3];
    let mut turns = [0; 2];
    for _ in 0..200 {
        let mut groups = [0, 1, 2].map(|index: usize| Group::new(0, 100, factors[index]));
        // On processor 0 the one and two of the five, which use their turns.
        let first: u64 = turns[0] + 2 * turns[1];
        let of = |turn: u64| (turn * 10_000_000).checked_div(first).unwrap_or(3_333_333);
        groups[1].add(0, USUAL_NS, ONE, of(turns[0]));
        for cpu in [0, 0, 1, 1, 1] {
            let used = if cpu == 0 { of(turns[1]) } else { 3_333_333 };
            groups[2].add(cpu, USUAL_NS, ONE, used);
        }
        correct(&mut groups, 10_000_000);
        divide(&mut groups);
        factors = [0, 1, 2].map(|index: usize| groups[index].factors());
        turns = [1, 2].map(|index: usize| groups[index].turn(0, USUAL_NS));
    }
    assert!(turns[0] > 6 * turns[1], "{turns:?}");
}

#[test]
fn threads_go_where_they_get_their_part() {
    // Two groups of the same weight, four threads on processors of their own and twelve on one.
    let mut cpus: Vec<(usize, usize)> = (0..4).map(|n| (1, [1, 2, 3, 1][n])).collect();
    cpus.extend((0..12).map(|_| (2, 0)));
    let mut moves = 0;
    loop {
        let mut groups = [0, 1, 2].map(|_: usize| Group::new(0, 100, [ONE; 2]));
        for &(group, cpu) in &cpus {
            groups[group].add(cpu, USUAL_NS, ONE, 0);
        }
        divide(&mut groups);
        let mut places = Places::new(4);
        let part = |group: usize| groups[group].part(USUAL_NS, ONE);
        assert!(
            part(1).abs_diff(WHOLE / 8) < WHOLE / 100 && part(2).abs_diff(WHOLE / 24) < WHOLE / 100
        );
        cpus.iter()
            .for_each(|&(group, cpu)| places.add(cpu, part(group)));
        let (most, least) = places.ends();
        let here = (0..cpus.len()).filter(|&n| cpus[n].1 == most);
        let Some(best) = here.max_by_key(|&n| places.better(part(cpus[n].0))) else {
            break;
        };
        if places.better(part(cpus[best].0)) == 0 {
            break;
        }
        cpus[best].1 = least;
        moves += 1;
        assert!(moves < 30);
    }
    let count = |group: usize, on: usize| cpus.iter().filter(|&&it| it == (group, on)).count();
    let sums: Vec<usize> = (0..4)
        .map(|cpu| 3 * count(1, cpu) + count(2, cpu))
        .collect();
    assert!(sums.iter().all(|sum| (5..=7).contains(sum)), "{sums:?}");
}

#[test]
fn hostile_numbers_do_no_harm() {
    let mut groups: Vec<Group> = (0..300)
        .map(|index: usize| Group::new(index.saturating_sub(1), 10_000, [u32::MAX; 2]))
        .collect();
    for (index, group) in groups.iter_mut().enumerate() {
        group.add(index, u64::MAX >> 20, u32::MAX, u64::MAX >> 20);
    }
    correct(&mut groups, u64::MAX);
    divide(&mut groups);
    for group in &groups {
        for cpu in 0..CPUS {
            assert!(group.turn(cpu, USUAL_NS) >= SHORTEST_NS);
        }
    }
}

/// A root with groups of these weights directly below it.
fn flat(weights: &[u32]) -> Vec<Group> {
    let root = Group::new(0, WEIGHT, [ONE; 2]);
    let below = weights
        .iter()
        .map(|&weight| Group::new(0, weight, [ONE; 2]));
    [root].into_iter().chain(below).collect()
}

#[test]
fn what_is_below_counts_above() {
    let mut groups = vec![
        Group::new(0, WEIGHT, [ONE; 2]),
        Group::new(0, WEIGHT, [ONE; 2]),
        Group::new(1, WEIGHT, [ONE; 2]),
    ];
    groups[0].add(0, USUAL_NS, ONE / 2, 1);
    groups[1].add(0, USUAL_NS, ONE / 4, 10);
    groups[2].add(0, USUAL_NS, ONE / 8, 100);
    add_up(&mut groups);
    let sums = groups
        .iter()
        .map(|group| (group.whole.active, group.whole.used_ns));
    let one = u64::from(ONE);
    let wanted = [(one * 7 / 8, 111), (one * 3 / 8, 110), (one / 8, 100)];
    assert!(sums.eq(wanted));
}

#[test]
fn a_thread_weighs_as_much_as_it_is_active() {
    for (active, load, counted) in [
        (0, 1000 / 64, 0),
        (ONE / 128, 1000 / 64, ONE / 128),
        (ONE / 2, 500, ONE / 2),
        (ONE, 1000, ONE),
        (2 * ONE, 1000, ONE),
    ] {
        let mut group = Group::new(0, WEIGHT, [ONE; 2]);
        group.add(3, 1000, active, 5);
        let own = &group.own;
        assert_eq!((own.load[3], own.load[ALL], own.load[0]), (load, load, 0));
        assert_eq!((own.active, own.used_ns), (u64::from(counted), 5));
    }
    let hungry = |active: u32| {
        let active = u64::from(active);
        let part = Part {
            active,
            ..Part::default()
        };
        part.is_hungry()
    };
    assert!(hungry(ONE * 3 / 4) && !hungry(ONE * 3 / 4 - 1));
}

#[test]
fn a_factor_follows_what_was_had_and_leaks() {
    let rival = |due_ns, used_ns, is_hungry| Rival {
        due_ns,
        used_ns,
        is_hungry,
        ..Rival::default()
    };
    // Half of what was due: a quarter of the way, and one part in 32 of the difference leaks.
    assert_eq!(corrected(ONE, rival(200, 100, true), true), 5088);
    // Far less counts as half, but so little that it cannot have wanted it counts as nothing.
    assert_eq!(corrected(ONE, rival(100, 25, true), true), 5088);
    assert_eq!(corrected(ONE, rival(100, 24, true), true), ONE);
    assert_eq!(corrected(ONE, rival(200, 100, false), true), ONE);
    // One that has nobody beside it only forgets.
    assert_eq!(corrected(2 * ONE, rival(200, 100, true), false), 8064);
    assert_eq!(corrected(4 * ONE, rival(200, 100, true), true), 4 * ONE);
    assert_eq!(corrected(ONE / 4, rival(100, 200, true), true), ONE / 4);
}

#[test]
fn what_one_cannot_use_is_for_the_others() {
    let mut groups = flat(&[WEIGHT, WEIGHT]);
    for (index, used_ns, most_ns) in [(1, 100, 50), (2, 300, 1000)] {
        groups[index].rivals[0] = Rival {
            weight: 1,
            used_ns,
            most_ns,
            is_hungry: true,
            ..Rival::default()
        };
    }
    allot(&mut groups);
    let due = |groups: &[Group]| [1, 2].map(|index| groups[index].rivals[0].due_ns);
    assert_eq!(due(&groups), [50, 200]);
    allot(&mut groups);
    assert_eq!(due(&groups), [50, 350]);
}

#[test]
fn a_weight_is_spread_over_processors_and_counts_as_far_as_it_is_active() {
    let mut groups = flat(&[WEIGHT]);
    groups[0].add(0, USUAL_NS, ONE, 0);
    for cpu in [0, 1] {
        groups[1].add(cpu, USUAL_NS, ONE, 0);
    }
    divide(&mut groups);
    let share = groups[1].share;
    assert_eq!(
        (share[0], share[1], share[ALL]),
        (WHOLE / 3, WHOLE, WHOLE / 2)
    );
    assert_eq!(groups[1].part(USUAL_NS, ONE), WHOLE / 4);
    assert_eq!(groups[1].part(USUAL_NS, ONE / 2), WHOLE / 8);
    let mut groups = flat(&[WEIGHT]);
    groups[0].add(0, USUAL_NS, ONE, 0);
    groups[1].add(0, USUAL_NS, ONE / 2, 0);
    divide(&mut groups);
    assert_eq!(groups[1].share[0], WHOLE / 3);
    // Alone, a factor of its own threads changes nothing.
    let mut groups = vec![Group::new(0, WEIGHT, [ONE, 2 * ONE])];
    groups[0].add(0, USUAL_NS, ONE, 0);
    divide(&mut groups);
    assert_eq!(groups[0].turn(0, USUAL_NS), USUAL_NS);
}

#[test]
fn rounds_are_longer_where_a_turn_would_be_too_short_but_not_without_end() {
    for (weights, least, most) in [
        ([1, 100], 4_900_000, 5_200_000),
        ([1, 10_000], 12_700_000, 12_800_000),
    ] {
        let mut groups = flat(&weights);
        groups[1].add(0, USUAL_NS, ONE, 0);
        groups[2].add(0, USUAL_NS, ONE, 0);
        let round = divide(&mut groups);
        let turn = groups[2].turn(0, USUAL_NS);
        assert!((least..=most).contains(&turn), "{turn}");
        assert!((least..=most + 100_000).contains(&round), "{round}");
        assert_eq!(groups[1].turn(0, USUAL_NS), SHORTEST_NS);
        groups[2].turn[0] = u64::MAX / 2;
        assert_eq!(groups[2].turn(0, USUAL_NS), LONGEST_NS);
        assert_eq!(groups[2].turn(0, 2 * LONGEST_NS), 2 * LONGEST_NS);
    }
}

#[test]
fn a_little_is_not_worth_the_way() {
    let mut places = Places::new(2);
    places.add(0, WHOLE / 4);
    assert_eq!(places.better(WHOLE / 64), 0);
    assert_eq!(places.better(WHOLE / 8), WHOLE / 4);
    // No thread can have more than one processor.
    places.add(1, WHOLE);
    assert_eq!(places.parts[1], WHOLE / 2);
}
