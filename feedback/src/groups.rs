//! How the time of processors is divided among groups of threads, by their weights.
//!
//! *Interface*: a [`Group`] for each control group, parents before children, the root first, filled with
//! [`Group::add`] for each thread. [`divide`] calculates the turns: [`Group::turn`] is that of a thread of
//! the group on a processor, and [`Group::part`] what it should have of all processors; by that
//! [`Places::better`] finds a thread that is in the wrong place. [`correct`] compares the time used since the
//! last division with the weights.
//!
//! A thread competes with the other threads of its group and with the groups directly below it, and a group
//! with the threads and groups beside it. The share of each on a processor is its weight by the sum of the
//! weights that are active there; the weight of a group is spread over processors in proportion to its load.
//! Turns follow each other in rounds, so a turn is that share of a round, and the round is as long as the
//! threads' own quanta together, or longer if a turn would be too short.
//!
//! Turns alone divide the time of threads that use them up. Threads that sleep, end their turns early or have
//! longer ones because of their data (`quantum.rs`) get another share. So each part has a factor, an integral
//! of the quotient of what it should have had and what it had, which leaks towards 1.

/// Processors at most.
pub const CPUS: usize = 8;
/// Each processor, and all of them as if they were one.
const PLACES: usize = CPUS + 1;
const ALL: usize = CPUS;
/// A whole: of a thread's activity, of a factor, of a turn in the thread's own quanta.
pub const ONE: u32 = 4096;
/// The shortest turn and the longest one that is given on purpose, nanoseconds.
const SHORTEST_NS: u64 = 50_000;
const LONGEST_NS: u64 = 12_800_000;
/// A thread's weight is its own quantum; this is the usual one, nanoseconds.
const USUAL_NS: u64 = 400_000;
/// The weight of a group without one of its own, and so of a group that counts as much as a usual thread.
pub const WEIGHT: u32 = 100;
/// A sleeping thread counts so much of an active one.
const LEAST_ACTIVE: u32 = ONE / 64;
/// The bounds of a factor.
const FACTORS: [u64; 2] = [ONE as u64 / 4, ONE as u64 * 4];
/// The factor's gain and leak at each division, as right shifts.
const GAIN: u32 = 2;
const LEAK: u32 = 5;
/// A whole share.
pub const WHOLE: u64 = 1 << 32;

/// Threads that are counted together.
#[derive(Clone, Copy, Debug, Default)]
struct Part {
    /// Weight by activity on each processor, and on all together.
    load: [u64; PLACES],
    /// The sum of the activities.
    active: u64,
    /// CPU time since the last division, nanoseconds.
    used_ns: u64,
}

impl Part {
    fn total(&self) -> u64 {
        self.load[ALL]
    }

    /// Whether at least about one of its threads has always been ready.
    fn is_hungry(&self) -> bool {
        self.active >= u64::from(ONE) * 3 / 4
    }
}

/// One of those that compete in a group: a group below it, or its own threads together.
#[derive(Clone, Copy, Debug, Default)]
struct Rival {
    weight: u64,
    used_ns: u64,
    /// It cannot use more.
    most_ns: u64,
    due_ns: u64,
    is_hungry: bool,
    is_full: bool,
}

/// The sums of the rivals in a group that are hungry.
#[derive(Clone, Copy, Debug, Default)]
struct Sum {
    weight: u64,
    used_ns: u64,
    rivals: u32,
}

/// A group whose weight counts.
#[derive(Clone, Debug)]
pub struct Group {
    parent: usize,
    weight: u64,
    /// The factors of the group, and of its own threads.
    factors: [u32; 2],
    own: Part,
    whole: Part,
    share: [u64; PLACES],
    turn: [u64; PLACES],
    /// As a whole, and its own threads.
    rivals: [Rival; 2],
    sum: Sum,
}

impl Group {
    /// The group of `weight`, 1 to 10000, inside the one at index `parent`, which is lower than its own; the
    /// root's is 0. `factors` are those of the last division, [`ONE`] at first.
    pub fn new(parent: usize, weight: u32, factors: [u32; 2]) -> Group {
        Group {
            parent,
            weight: u64::from(weight) * USUAL_NS / u64::from(WEIGHT),
            factors,
            own: Part::default(),
            whole: Part::default(),
            share: [0; PLACES],
            turn: [0; PLACES],
            rivals: [Rival::default(); 2],
            sum: Sum::default(),
        }
    }

    /// A thread of the group, with this own quantum, on `cpu`; `active` says how much of the time it was
    /// ready, up to [`ONE`], and `used_ns` how much it ran since the last division.
    pub fn add(&mut self, cpu: usize, own_ns: u64, active: u32, used_ns: u64) {
        let counted = active.clamp(LEAST_ACTIVE, ONE);
        for place in [cpu % CPUS, ALL] {
            self.own.load[place] += own_ns * u64::from(counted) / u64::from(ONE);
        }
        self.own.active += u64::from(active.min(ONE));
        self.own.used_ns += used_ns;
    }

    /// The factors, for the next division.
    pub fn factors(&self) -> [u32; 2] {
        self.factors
    }

    /// The part of all processors together that a thread with this own quantum, which is `active`, should
    /// have, up to [`WHOLE`].
    pub fn part(&self, own_ns: u64, active: u32) -> u64 {
        let weight = own_ns * u64::from(active.min(ONE)) / u64::from(ONE);
        let load = mul_div(
            self.whole.load[ALL],
            u64::from(ONE),
            u64::from(self.factors[1]),
        );
        mul_div(self.share[ALL], weight, load).min(WHOLE)
    }

    /// The turn of a thread with this own quantum on `cpu`, nanoseconds.
    pub fn turn(&self, cpu: usize, own_ns: u64) -> u64 {
        let turn = mul_div(own_ns, self.turn[cpu % CPUS], u64::from(ONE));
        turn.clamp(SHORTEST_NS, LONGEST_NS.max(own_ns))
    }
}

fn mul_div(one: u64, by: u64, through: u64) -> u64 {
    let product = u128::from(one) * u128::from(by);
    u64::try_from(product / u128::from(through.max(1))).unwrap_or(u64::MAX)
}

/// Adds each group to the one that it is in.
fn add_up(groups: &mut [Group]) {
    for group in groups.iter_mut() {
        group.whole = group.own;
    }
    for index in (1..groups.len()).rev() {
        let below = groups[index].whole;
        let above = &mut groups[groups[index].parent].whole;
        above.active += below.active;
        above.used_ns += below.used_ns;
    }
}

/// Corrects the factors by the time that has been used in the last `elapsed_ns`.
pub fn correct(groups: &mut [Group], elapsed_ns: u64) {
    add_up(groups);
    for group in groups.iter_mut() {
        let rival = |part: &Part, weight| Rival {
            weight,
            used_ns: part.used_ns,
            most_ns: mul_div(part.active, elapsed_ns, u64::from(ONE)),
            due_ns: 0,
            is_hungry: part.is_hungry(),
            is_full: false,
        };
        group.rivals = [
            rival(&group.whole, group.weight),
            rival(&group.own, group.own.total()),
        ];
    }
    // A rival that cannot use what is due to it leaves the rest to the others.
    for _ in 0..3 {
        allot(groups);
    }
    for index in 0..groups.len() {
        for which in 0..2 {
            let inside = if which == 0 {
                groups[index].parent
            } else {
                index
            };
            let competes = groups[inside].sum.rivals > 1 && (which == 1 || index > 0);
            let rival = groups[index].rivals[which];
            let factor = &mut groups[index].factors[which];
            *factor = corrected(*factor, rival, competes);
        }
    }
}

fn corrected(factor: u32, rival: Rival, competes: bool) -> u32 {
    let (one, mut next) = (i64::from(ONE), i64::from(factor));
    // One that has got far less than it was due does not want it: its threads sleep between two looks.
    let wants = rival.is_hungry && rival.used_ns >= rival.due_ns / 4;
    if competes && wants {
        let quotient = mul_div(rival.due_ns, u64::from(ONE), rival.used_ns);
        let quotient = (quotient as i64).clamp(one / 2, one * 2);
        next += (next * (quotient - one) / one) >> GAIN;
    }
    next += (one - next) / (1 << LEAK);
    next.clamp(FACTORS[0] as i64, FACTORS[1] as i64) as u32
}

/// Divides the time that the rivals in each group have used together by their weights.
fn allot(groups: &mut [Group]) {
    for group in groups.iter_mut() {
        group.sum = Sum::default();
    }
    let each = |index: usize, parent: usize| {
        [(0, parent), (1, index)]
            .into_iter()
            .filter(move |&(which, _)| which == 1 || index > 0)
    };
    for index in 0..groups.len() {
        for (which, inside) in each(index, groups[index].parent) {
            let rival = groups[index].rivals[which];
            let sum = &mut groups[inside].sum;
            sum.rivals += u32::from(rival.is_hungry);
            if rival.is_hungry {
                sum.used_ns += rival.used_ns;
                // The time of a full one is not for the others.
                if rival.is_full {
                    sum.used_ns = sum.used_ns.saturating_sub(rival.due_ns);
                } else {
                    sum.weight += rival.weight;
                }
            }
        }
    }
    for index in 0..groups.len() {
        for (which, inside) in each(index, groups[index].parent) {
            let sum = groups[inside].sum;
            let rival = &mut groups[index].rivals[which];
            if !rival.is_full {
                rival.due_ns = mul_div(sum.used_ns, rival.weight, sum.weight);
                if rival.due_ns > rival.most_ns {
                    (rival.due_ns, rival.is_full) = (rival.most_ns, true);
                }
            }
        }
    }
}

/// Calculates the turns. The length of the longest round of a processor, nanoseconds.
pub fn divide(groups: &mut [Group]) -> u64 {
    add_up(groups);
    let natural: [u64; PLACES] =
        core::array::from_fn(|place| groups.iter().map(|group| group.own.load[place]).sum());
    // Bottom up: the load in each group, its own threads as their factor has them.
    for group in groups.iter_mut() {
        let factor = u64::from(group.factors[1]);
        group.whole.load = group
            .own
            .load
            .map(|load| mul_div(load, factor, u64::from(ONE)));
    }
    for index in (1..groups.len()).rev() {
        let group = &groups[index];
        let (total, parent) = (group.whole.total(), group.parent);
        let active = group
            .whole
            .active
            .clamp(u64::from(LEAST_ACTIVE), u64::from(ONE));
        let weight = mul_div(group.weight, active, u64::from(ONE));
        let weight = mul_div(weight, u64::from(group.factors[0]), u64::from(ONE)).max(1);
        let spread = group.whole.load.map(|load| match load {
            0 => 0,
            load => mul_div(weight, load, total).max(1),
        });
        // From here on the weight that the group has on each processor, for the way down.
        groups[index].share = spread;
        for (load, spread) in groups[parent].whole.load.iter_mut().zip(spread) {
            *load += spread;
        }
    }
    if let Some(root) = groups.first_mut() {
        root.share = [WHOLE; PLACES];
    }
    for index in 0..groups.len() {
        for (cpu, natural) in natural.iter().enumerate() {
            if index > 0 {
                let above = &groups[groups[index].parent];
                let weight = groups[index].share[cpu];
                groups[index].share[cpu] = mul_div(above.share[cpu], weight, above.whole.load[cpu]);
            }
            let group = &mut groups[index];
            let factor = u64::from(group.factors[1]);
            let round = mul_div(*natural, group.share[cpu], WHOLE);
            group.turn[cpu] = mul_div(round, factor, group.whole.load[cpu]);
        }
    }
    stretch(groups, &natural)
}

/// Makes the rounds longer in which a turn would be too short.
fn stretch(groups: &mut [Group], natural: &[u64; PLACES]) -> u64 {
    let mut longest = 0;
    for (cpu, natural) in natural.iter().enumerate().take(CPUS) {
        // Turns of threads that are likely to be ready.
        let counts = |group: &&Group| {
            group.own.load[cpu] >= USUAL_NS / 4 && group.own.active >= u64::from(ONE) / 4
        };
        let turns = groups.iter().filter(counts).map(|group| group.turn[cpu]);
        let (least, most) = turns.fold((u64::MAX, 0), |(least, most), turn| {
            (turn.min(least), turn.max(most))
        });
        let unit = u64::from(ONE);
        let wanted = mul_div(SHORTEST_NS, unit, USUAL_NS);
        let bound = mul_div(LONGEST_NS, unit, USUAL_NS);
        let mut by = unit;
        if most > 0 && least < wanted {
            by = mul_div(wanted, unit, least)
                .min(mul_div(bound, unit, most))
                .max(unit);
            for group in groups.iter_mut() {
                group.turn[cpu] = mul_div(group.turn[cpu], by, unit);
            }
        }
        longest = longest.max(mul_div(*natural, by, unit));
    }
    longest
}

/// The threads' places, by what they should have.
#[derive(Clone, Debug)]
pub struct Places {
    parts: [u64; CPUS],
    count: usize,
}

impl Places {
    /// `count` processors without threads.
    pub fn new(count: usize) -> Places {
        Places {
            parts: [0; CPUS],
            count: count.clamp(1, CPUS),
        }
    }

    /// The most that a thread that should have `part` of all can have of one.
    fn bounded(&self, part: u64) -> u64 {
        part.min(WHOLE / self.count as u64)
    }

    /// A thread on `cpu` should have `part` of all processors.
    pub fn add(&mut self, cpu: usize, part: u64) {
        self.parts[cpu % CPUS] += self.bounded(part);
    }

    /// The processor whose threads should have most, and the one whose threads should have least.
    pub fn ends(&self) -> (usize, usize) {
        let by_part = |cpu: &usize| self.parts[*cpu];
        let most = (0..self.count).max_by_key(by_part).unwrap_or(0);
        (most, (0..self.count).min_by_key(by_part).unwrap_or(0))
    }

    /// How much better it would be if a thread with this `part` went from the one end to the other; 0: not by
    /// as much that it is worth the way.
    pub fn better(&self, part: u64) -> u64 {
        let (most, least) = self.ends();
        let part = self.bounded(part);
        let gap = self.parts[most] - self.parts[least];
        let after = gap.abs_diff(2 * part);
        let gain = gap.saturating_sub(after);
        if gain >= WHOLE / self.count as u64 / 8 {
            gain
        } else {
            0
        }
    }
}

#[cfg(test)]
#[path = "groups_tests.rs"]
mod tests;
