//! The kernel's table of symbols, packed: it stays in the guest's memory for a panic report.
//!
//! *Interface*: [`pack`]. `machine/src/symbols/table.rs` says what the bytes mean, and reads them.

use std::collections::HashMap;

// The reader, whose constants the packer has too.
#[path = "../../machine/src/symbols/table.rs"]
#[cfg_attr(not(test), allow(dead_code, reason = "the kernel reads"))]
mod table;

use table::{CODES, HEAD, NAME_MAX};

/// Symbols in a block: a look-up goes through so many.
const BLOCK: usize = 32;
/// A pair that is rarer is not worth a code.
const RARE: usize = 8;
/// The longest text of a code: a few codes must do for any name.
const TEXT_MAX: usize = 32;

/// Packs functions, which are sorted by address, of the image that is linked at `start`. Those outside of it
/// are left out.
pub fn pack(start: u64, functions: &[(u64, String)]) -> Vec<u8> {
    let shown = functions.iter().filter_map(|(address, name)| {
        let distance = u32::try_from(address.checked_sub(start)?).ok()?;
        Some((distance, cut(name)))
    });
    let shown: Vec<(u32, &[u8])> = shown.collect();
    // The length that each name has in common with the one before, and the rest.
    let mut rests = Vec::new();
    let mut common = Vec::new();
    for block in shown.chunks(BLOCK) {
        let mut before: &[u8] = &[];
        for (_, name) in block {
            let same = before.iter().zip(*name).take_while(|(a, b)| a == b).count();
            common.push(same as u8);
            rests.push(name[same..].to_vec());
            before = name;
        }
    }
    let texts = shorten(&mut rests);
    let (mut index, mut blocks) = (Vec::new(), Vec::new());
    let mut parts = common.iter().zip(&rests);
    for block in shown.chunks(BLOCK) {
        let mut at = block[0].0;
        index.extend(at.to_le_bytes());
        index.extend((blocks.len() as u32).to_le_bytes());
        for ((address, _), (same, rest)) in block.iter().zip(&mut parts) {
            let mut distance = address - at;
            at = *address;
            while distance > 0x7f {
                blocks.push(distance as u8 | 0x80);
                distance >>= 7;
            }
            blocks.extend([distance as u8, *same, rest.len() as u8]);
            blocks.extend(rest);
        }
    }
    let mut starts = Vec::new();
    let mut all = Vec::new();
    for text in &texts {
        starts.extend((all.len() as u16).to_le_bytes());
        all.extend(text);
    }
    starts.extend((all.len() as u16).to_le_bytes());
    let place = HEAD + starts.len() + all.len() + index.len();
    let head = [index.len() / 8, all.len(), place].map(|number| (number as u32).to_le_bytes());
    [head.as_flattened(), &starts, &all, &index, &blocks].concat()
}

/// The beginning of `name` that a table has room for, whole characters.
fn cut(name: &str) -> &[u8] {
    let end = (0..=NAME_MAX).rfind(|end| name.is_char_boundary(*end));
    &name.as_bytes()[..end.unwrap_or(0).min(name.len())]
}

/// Puts a code that no name has in place of the most frequent pair of codes, again and again. Answers the
/// text of each code.
fn shorten(names: &mut [Vec<u8>]) -> Vec<Vec<u8>> {
    let mut used = [false; CODES];
    for byte in names.iter().flatten() {
        used[usize::from(*byte)] = true;
    }
    let mut texts: Vec<Vec<u8>> = (0..=u8::MAX).map(|byte| vec![byte]).collect();
    for code in (0..=u8::MAX).filter(|code| !used[usize::from(*code)]) {
        let mut counts: HashMap<[u8; 2], usize> = HashMap::new();
        for pair in names.iter().flat_map(|name| name.windows(2)) {
            *counts.entry([pair[0], pair[1]]).or_default() += 1;
        }
        let text = |pair: [u8; 2]| pair.map(|code| &*texts[usize::from(code)]).concat();
        let fitting = counts
            .into_iter()
            .filter(|(pair, _)| text(*pair).len() <= TEXT_MAX);
        // Among equals the same one each time.
        let most = fitting.max_by_key(|(pair, count)| (*count, *pair));
        let Some((pair, _)) = most.filter(|(_, count)| *count >= RARE) else {
            break;
        };
        texts[usize::from(code)] = text(pair);
        for name in names.iter_mut() {
            *name = replaced(name, pair, code);
        }
    }
    texts
}

/// `name` with `code` in place of each `pair`.
fn replaced(name: &[u8], pair: [u8; 2], code: u8) -> Vec<u8> {
    let mut out = Vec::with_capacity(name.len());
    let mut rest = name;
    while let [first, more @ ..] = rest {
        if rest.starts_with(&pair) {
            out.push(code);
            rest = &more[1..];
        } else {
            out.push(*first);
            rest = more;
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use table::Table;

    const START: u64 = 0xffff_ffff_8010_0000;

    fn functions(names: &[(u64, &str)]) -> Vec<(u64, String)> {
        let of = |(at, name): &(u64, &str)| (START + at, String::from(*name));
        names.iter().map(of).collect()
    }

    fn found(table: &[u8], address: usize) -> Option<(String, usize)> {
        let (name, distance) = Table::over(table)?.find(address)?;
        Some((name.as_str().to_owned(), distance))
    }

    #[test]
    fn the_last_that_is_not_above() {
        let few = functions(&[(0x1000, "first"), (0x2000, "second one"), (0x3000, "third")]);
        let table = pack(START, &few);
        assert_eq!(found(&table, 0xfff), None);
        assert_eq!(found(&table, 0x1000), Some(("first".into(), 0)));
        assert_eq!(found(&table, 0x2fff), Some(("second one".into(), 0xfff)));
        assert_eq!(found(&table, 0x9000), Some(("third".into(), 0x6000)));
    }

    #[test]
    fn every_one_of_many_is_found_and_they_take_a_third_of_their_names() {
        let name = |i: u64| format!("room::place_{}::<impl room::Thing>::step_{i}", i / 7);
        let many: Vec<_> = (0..5000).map(|i| (START + i * i, name(i))).collect();
        let table = pack(START, &many);
        for (address, name) in &many[1..] {
            let at = (address - START) as usize;
            assert_eq!(found(&table, at), Some((name.clone(), 0)));
            assert_eq!(found(&table, at + 1), Some((name.clone(), 1)));
        }
        let names: usize = many.iter().map(|(_, name)| name.len()).sum();
        assert!(table.len() < names / 3, "{} of {names}", table.len());
    }

    #[test]
    fn long_names_are_cut_between_characters() {
        let long = "é".repeat(200);
        let table = pack(
            START,
            &functions(&[(16, &long), (32, "short"), (48, &long)]),
        );
        for at in [16, 48] {
            let (name, _) = found(&table, at).unwrap();
            assert_eq!(name, "é".repeat(127));
        }
        assert_eq!(found(&table, 40), Some(("short".into(), 8)));
    }

    #[test]
    fn bytes_that_are_no_table_find_nothing() {
        assert_eq!(found(b"", 1), None);
        assert_eq!(found(b"garbage, and some more of it", 1), None);
        assert_eq!(found(&pack(START, &[]), usize::MAX), None);
        let table = pack(START, &functions(&[(16, "one"), (32, "other")]));
        for end in 0..table.len() {
            let cut = found(&table[..end], 40);
            assert!(cut.is_none() || cut == Some(("one".into(), 24)));
        }
        for at in 0..table.len() {
            let mut wrong = table.clone();
            wrong[at] ^= 0xff;
            // It ends, with some symbol or none.
            found(&wrong, 40);
        }
    }
}
