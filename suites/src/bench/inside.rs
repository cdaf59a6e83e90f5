//! Costs that only the kernel can measure in itself: `selftest=costs` prints them to the log, this makes
//! tables of them.
//!
//! *Interface*: `measure`, `rows`, `markdown`; `asked` and `tables` are for a measurement that stands apart.
//! A line is `cost SECTION|OPERATION|COLUMN=NUMBER|…` (docs/run-contract.md).

use super::guest;
use super::table::Row;
use std::fmt::Write;
use std::time::Duration;
use xtask::failure::{Context, Failure, HOST, Result};
use xtask::machine::{Kept, Log, Machine, Status};
use xtask::rootfs::Root;
use xtask::{host, kernel};

const LIMIT: Duration = Duration::from_secs(300);

/// One operation, measured in several ways.
#[derive(Debug, PartialEq)]
pub struct Cost {
    section: String,
    op: String,
    columns: Vec<(String, u64)>,
}

/// A section's facts beside our own figures.
pub struct Known {
    pub section: &'static str,
    pub about: &'static str,
    /// The column that is set beside ours in the JSON rows, and ours.
    pub compared: (&'static str, &'static str),
    /// The names of the source's columns.
    pub columns: &'static [&'static str],
    /// Operation, and the source's figures for it.
    pub figures: &'static [(&'static str, &'static [&'static str])],
}

const KNOWN: &[Known] = &[
    Known {
        section: "table 5.1",
        about: "Instructions in the kernel: without synchronization; with interrupts off and a spin lock; lock-free; lock-free when the same operation by \
            another comes between, at the worst place. Beside them the dissertation's microseconds on a 68030 at 25 MHz.",
        compared: ("locked", "lock-free"),
        columns: &[
            "non sync, µs",
            "locked, µs",
            "no retry, µs",
            "one retry, µs",
        ],
        figures: &[
            ("counter_increment", &["0.3", "2.4", "1.3", "2.3"]),
            ("list_insert", &["0.6", "2.7", "1.4", "2.3"]),
            ("list_delete", &["1.0", "3.2", "2.1", "4.1"]),
            ("queue_insert", &["2.0", "4.2", "3.3", "6.0"]),
            ("queue_delete", &["2.1", "4.3", "3.3", "6.0"]),
            ("stack_push", &["0.7", "2.8", "2.0", "3.5"]),
            ("stack_pop", &["0.7", "2.8", "2.0", "3.5"]),
        ],
    },
    Known {
        section: "helping, table 2",
        about: "The cost of serializing without contention, in instructions. Beside it Hohmuth and Härtig's cycles on a Pentium and a Pentium II: their helping lock, \
            their older single server (which includes a switch), and a one-way message between address spaces where we have the wake-up of a thread and the switch to it.",
        compared: ("", "instructions"),
        columns: &["P5 133 MHz, cycles", "P-II 400 MHz, cycles"],
        figures: &[
            ("counter_unsynchronized", &["2", "2"]),
            ("counter_cas", &["13", "12"]),
            ("counter_helping_lock", &["245", "245"]),
            ("counter_monitor", &["–", "–"]),
            ("counter_single_server", &["627", "607"]),
            ("hand_over_one_way", &["653", "810"]),
        ],
    },
    Known {
        section: "table 5.3",
        about: "A switch in instructions, from the last one of a thread to the first one of the next, both in the kernel with integer registers only. Beside it the \
            dissertation's microseconds: with one ring (table 3.3), and with eight levels and several processors (table 5.3).",
        compared: ("", "instructions"),
        columns: &["table 3.3, µs", "table 5.3, µs"],
        figures: &[
            ("switch", &["10.5", "14"]),
            ("switch_other_space", &["16", "20 + 1.6 × TLB fill"]),
        ],
    },
    Known {
        section: "chaining",
        about: "Putting a procedure to the end of the interrupt that is being handled, and that with calling it there, interrupts taken before it; in instructions. Beside it \
            Massalin and Pu's microseconds for chaining, without and with a retry.",
        compared: ("", "instructions"),
        columns: &["no retry, µs", "one retry, µs"],
        figures: &[("chain", &["4", "7"]), ("chain_and_call", &["–", "–"])],
    },
];

/// Boots the kernel to measure itself.
pub fn measure() -> Result<Vec<Cost>> {
    asked("costs", 0)
}

/// Boots the kernel for its suite `suite`, at 2^`shift` nanoseconds for each instruction.
pub fn asked(suite: &str, shift: u32) -> Result<Vec<Cost>> {
    eprintln!("xtask: measuring inside Synthesis: {suite}");
    let built = kernel::build_trials(kernel::Profile::Kernel)?;
    let log = host::build_dir("bench")?.join("inside.log");
    let mut machine = Machine::new(&built);
    machine.memory = guest::MEMORY;
    machine.log = Log::File(log.clone());
    machine.append = format!(
        "{} selftest={suite} mitigations=off",
        xtask::run::boot_words(false)
    );
    super::counting(&mut machine);
    machine.icount = Some(shift);
    let root = Root::new(None)?.finish(kernel::tables(&built)?, &["/bin/true".into()], &[]);
    let outcome = guest::start(&machine, &root, Kept::default())?.wait(Some(LIMIT));
    if outcome.status != Status::Exit(0) {
        eprint!("{}", outcome.report);
        return Err(Failure::new(
            HOST,
            format!(
                "the kernel did not finish measuring itself: {:?}",
                outcome.status
            ),
        ));
    }
    let text = std::fs::read_to_string(&log).context(format!("cannot read {}", log.display()))?;
    Ok(text.lines().filter_map(parse).collect())
}

fn parse(line: &str) -> Option<Cost> {
    let (_, line) = line.split_once("cost ")?;
    let mut parts = line.split('|');
    let (section, op) = (parts.next()?.to_owned(), parts.next()?.to_owned());
    let column = |part: &str| {
        let (name, number) = part.split_once('=')?;
        Some((name.to_owned(), number.parse().ok()?))
    };
    let columns = parts.map(column).collect::<Option<Vec<_>>>()?;
    Some(Cost {
        section,
        op,
        columns,
    })
}

impl Cost {
    /// Whether it is of that section.
    pub fn is_of(&self, section: &str) -> bool {
        self.section == section
    }

    /// Whether that is its operation.
    pub fn is_called(&self, op: &str) -> bool {
        self.op == op
    }

    /// Its number in a column.
    pub fn column(&self, name: &str) -> Option<f64> {
        let (_, number) = self.columns.iter().find(|(column, _)| column == name)?;
        Some(*number as f64)
    }
}

/// One comparison for each operation.
pub fn rows(costs: &[Cost]) -> Vec<Row> {
    let row = |cost: &Cost| {
        let known = KNOWN.iter().find(|known| known.section == cost.section)?;
        Some(Row {
            section: format!("inside, {}", cost.section),
            op: cost.op.clone(),
            unit: "instructions".into(),
            linux: cost.column(known.compared.0),
            synthesis: cost.column(known.compared.1),
            paired: None,
            mitigated: None,
        })
    };
    costs.iter().filter_map(row).collect()
}

/// For a reader of `docs/results.md`: all columns, and the source's.
pub fn markdown(costs: &[Cost]) -> String {
    tables(KNOWN, costs)
}

/// The tables of these sections.
pub fn tables(sections: &[Known], costs: &[Cost]) -> String {
    let mut out = String::new();
    for known in sections {
        let mut own = costs.iter().filter(|cost| cost.section == known.section);
        let Some(first) = own.clone().next() else {
            continue;
        };
        let names = first.columns.iter().map(|(name, _)| name.as_str());
        let head: Vec<&str> = names.chain(known.columns.iter().copied()).collect();
        writeln!(
            out,
            "\n## inside the kernel, {}\n\n{}\n\n| operation | {} |\n| --- |{}",
            known.section,
            known.about,
            head.join(" | "),
            " ---: |".repeat(head.len())
        )
        .expect("a string");
        own.try_for_each(|cost| {
            let figures = known.figures.iter().find(|(op, _)| *op == cost.op);
            let ours = cost.columns.iter().map(|(_, number)| number.to_string());
            let theirs = figures.map_or(&[][..], |(_, figures)| figures);
            let cells: Vec<String> = ours.chain(theirs.iter().map(|&cell| cell.into())).collect();
            writeln!(out, "| {} | {} |", cost.op, cells.join(" | "))
        })
        .expect("a string");
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_becomes_a_row_and_a_table() {
        let line = "[    0.5] cost table 5.1|stack_pop|unsynchronized=9|locked=30|lock-free=20|one retry=31";
        let costs = [parse(line).expect("a cost")];
        let rows = rows(&costs);
        assert_eq!(rows[0].ratio(), Some(1.5));
        let table = markdown(&costs);
        assert!(table.contains("| stack_pop | 9 | 30 | 20 | 31 | 0.7 | 2.8 | 2.0 | 3.5 |"));
        assert_eq!(parse("cost table 5.1|stack_pop|locked=many"), None);
    }
}
