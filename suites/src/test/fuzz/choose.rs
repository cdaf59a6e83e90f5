//! The small corpus: few short sequences that together reach what many random ones did.
//!
//! *Interface*: `choose` makes random sequences with marks, keeps those that reached a block of the kernel
//! first, leaves out what brings nothing beside the others, and writes the rest to `tests/fuzz/corpus.txt`.
//! The earlier contents of that file take part.

use super::coverage::{Mark, Reached};
use super::image::Image;
use super::{KEPT, Run, kept_files, perform, scratch};
use crate::test::kit::Kit;
use std::collections::BTreeMap;
use std::process::Command;
use xtask::failure::{Context, Failure, HOST, Result};
use xtask::{compile, host};

const CORPUS: &str = "corpus.txt";
const HEAD: &str = "# Chosen by `cargo xtask fuzz --choose`: together they reach most of what random sequences do.\n\n";
/// How many sequences may stay.
const MOST: usize = 90;
/// How often the order is changed, so that what others bring, too, comes last and goes.
const ORDERS: usize = 3;

/// A sequence as text: the world, then the steps.
#[derive(Clone, PartialEq, Eq)]
struct Sequence(Vec<String>);

impl Sequence {
    fn all(text: &str) -> Vec<Self> {
        let lines = text.lines().filter(|line| !line.starts_with('#'));
        let lines: Vec<_> = lines.map(str::to_owned).collect();
        let parts = lines.split(|line| line.is_empty());
        let parts = parts.filter(|part| !part.is_empty());
        parts.map(|part| Self(part.to_vec())).collect()
    }

    /// Without the steps that are not `wanted`, nor named by one that is.
    fn shortened(&self, wanted: impl Fn(usize) -> bool) -> Self {
        let steps = &self.0[1..];
        let mut stays: Vec<bool> = (0..steps.len()).map(wanted).collect();
        for at in (0..steps.len()).rev() {
            if stays[at] {
                for named in steps[at].split(' ').filter_map(result) {
                    if named < at {
                        stays[named] = true;
                    }
                }
            }
        }
        // The new numbers of steps.
        let place = |old: usize| stays.iter().take(old).filter(|stays| **stays).count();
        let renamed = |word: &str| match result(word) {
            Some(old) => format!("r:{}", place(old)),
            None => word.to_owned(),
        };
        let mut short = vec![self.0[0].clone()];
        for (step, _) in steps.iter().zip(&stays).filter(|(_, stays)| **stays) {
            short.push(step.split(' ').map(renamed).collect::<Vec<_>>().join(" "));
        }
        Self(short)
    }
}

/// The step whose result a word is.
fn result(word: &str) -> Option<usize> {
    word.strip_prefix("r:")?.parse().ok()
}

fn text_of(sequences: &[Sequence]) -> String {
    let texts = sequences.iter().map(|sequence| sequence.0.join("\n"));
    texts.collect::<Vec<_>>().join("\n\n") + "\n"
}

/// Makes the corpus anew, from so many seconds of the machine for users and for root.
pub fn choose(kit: &Kit, seconds: u64, seed: u64) -> Result<()> {
    let image = &Image::of(kit.kernel())?;
    let own = host::project().join(KEPT).join(CORPUS);
    let mut candidates = Sequence::all(&std::fs::read_to_string(&own).unwrap_or_default());
    let mut random = Reached::default();
    for who in ["user", "root"] {
        let run = Run {
            who: who.into(),
            seconds,
            seed,
            workers: 1,
            marks: true,
            coverage: true,
            ..Run::new("fuzz-choose", 1)
        };
        let done = perform(kit, &run);
        if let Some(why) = done.why {
            return Err(Failure::new(HOST, why));
        }
        let (reached, _) = done
            .reached
            .ok_or_else(|| Failure::new(HOST, "QEMU made no notes"))?;
        for sequence in gains(&reached, image).keys() {
            let Some(id) = done.begun.get(*sequence) else {
                continue;
            };
            let mut show = Command::new(compile::program("fuzz", &compile::MUSL)?);
            show.args(["show", who]).args(kept_files()?).arg(id);
            let shown = show.output().context("show")?;
            candidates.extend(Sequence::all(&String::from_utf8_lossy(&shown.stdout)));
        }
        random.join(reached);
    }
    println!(
        "{} blocks by random sequences; {} sequences to choose from",
        random.blocks(image),
        candidates.len()
    );
    for order in 0..ORDERS {
        let reached = replay(kit, &candidates)?;
        let told = reached.blocks(image);
        let mut order_of: Vec<_> = gains(&reached, image).into_iter().collect();
        order_of.sort_by_key(|(_, gain)| std::cmp::Reverse(*gain));
        println!(
            "order {order}: {told} blocks by {} sequences",
            order_of.len()
        );
        let chosen = order_of.iter().filter_map(|(at, _)| candidates.get(*at));
        candidates = chosen.cloned().collect();
    }
    candidates.truncate(MOST);
    let reached = replay(kit, &candidates)?;
    let steps = reached.gains(image);
    let short: Vec<_> = candidates
        .iter()
        .enumerate()
        .map(|(sequence, whole)| {
            whole.shortened(|step| steps.contains_key(&Mark { sequence, step }))
        })
        .collect();
    let lines = |all: &[Sequence]| all.iter().map(|s| s.0.len() - 1).sum::<usize>();
    println!(
        "{} sequences: {} blocks, {} steps",
        candidates.len(),
        reached.blocks(image),
        lines(&candidates)
    );
    let reached = replay(kit, &short)?;
    println!(
        "shortened: {} blocks, {} steps",
        reached.blocks(image),
        lines(&short)
    );
    std::fs::write(&own, HEAD.to_owned() + &text_of(&short)).context(own.display())
}

/// How much each sequence was the first to reach.
fn gains(reached: &Reached, image: &Image) -> BTreeMap<usize, usize> {
    let mut all = BTreeMap::new();
    for (mark, gain) in reached.gains(image) {
        *all.entry(mark.sequence).or_default() += gain;
    }
    all
}

/// The code that these reach, one after the other.
fn replay(kit: &Kit, sequences: &[Sequence]) -> Result<Reached> {
    let file = scratch("sequence.txt")?;
    std::fs::write(&file, text_of(sequences)).context(file.display())?;
    let run = Run {
        files: vec![file],
        marks: true,
        coverage: true,
        ..Run::new("fuzz-chosen", 1)
    };
    let done = perform(kit, &run);
    match (done.why, done.reached) {
        (None, Some((reached, _))) => Ok(reached),
        (why, _) => Err(Failure::new(
            HOST,
            why.unwrap_or("QEMU made no notes".into()),
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_left_out_moves_the_numbers() {
        let text = "threads 1\nA dup 1\nA dup 2\nA close r:1\nA getpid\n\n# x\nfamily 2\nB fork\n";
        let all = Sequence::all(text);
        assert_eq!(all.len(), 2);
        let short = all[0].shortened(|step| step == 2);
        assert_eq!(short.0, ["threads 1", "A dup 2", "A close r:0"]);
    }
}
