//! Histograms of lateness, whose cells double.
//!
//! *Interface*: `cells` of what a kernel printed, lines `hist KIND FROM_NS COUNT`; `text` for a terminal,
//! `markdown` with a column for each kernel.

use std::fmt::Write;

/// The cells: kind, from (nanoseconds), count.
pub fn cells(text: &str) -> impl Iterator<Item = (&str, u64, u64)> {
    text.lines().filter_map(|line| {
        let mut words = line.split_whitespace();
        if words.next()? != "hist" {
            return None;
        }
        Some((
            words.next()?,
            words.next()?.parse().ok()?,
            words.next()?.parse().ok()?,
        ))
    })
}

/// One kernel's, for a terminal.
pub fn text(text: &str) -> String {
    let mut out = String::new();
    for (kind, from, count) in cells(text) {
        writeln!(out, "  {kind:<8} from {:>6} µs {count:>10}", from / 1000).expect("a string");
    }
    out
}

/// A table of `kinds`, whose first column is headed `head`; `names` and `texts` are the kernels'.
pub fn markdown(head: &str, kinds: &[&str], names: &[&str], texts: &[String]) -> String {
    let mut out = format!(
        "| {head} | from µs | {} |\n| --- | ---: |{}\n",
        names.join(" | "),
        " ---: |".repeat(names.len())
    );
    for kind in kinds {
        let mut starts: Vec<u64> = texts
            .iter()
            .flat_map(|text| cells(text))
            .filter(|cell| cell.0 == *kind)
            .map(|cell| cell.1)
            .collect();
        starts.sort_unstable();
        starts.dedup();
        for from in starts {
            let counts: Vec<String> = texts
                .iter()
                .map(|text| {
                    cells(text)
                        .find(|cell| (cell.0, cell.1) == (*kind, from))
                        .map_or_else(|| "–".into(), |cell| cell.2.to_string())
                })
                .collect();
            writeln!(out, "| {kind} | {} | {} |", from / 1000, counts.join(" | "))
                .expect("a string");
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cells_of_the_histogram_are_read() {
        let text = "row a b ns 1\nhist sleep 2000 7\nhist broken\n";
        assert_eq!(cells(text).collect::<Vec<_>>(), [("sleep", 2000, 7)]);
    }

    #[test]
    fn kernels_stand_side_by_side() {
        let texts = ["hist a 0 1\nhist b 0 2\n", "hist a 1000 3\n"].map(str::to_owned);
        let table = markdown("kind", &["a"], &["X", "Y"], &texts);
        assert_eq!(
            table.lines().collect::<Vec<_>>(),
            [
                "| kind | from µs | X | Y |",
                "| --- | ---: | ---: | ---: |",
                "| a | 0 | 1 | – |",
                "| a | 1 | – | 3 |",
            ]
        );
    }
}
