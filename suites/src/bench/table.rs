//! The rows of a measurement: merged, printed, written as JSON and as `docs/results.md`.
//!
//! *Interface*: `Row`; `merge`, `add_mitigated`, `text`, `json`, `markdown`, `short`.

use serde_json::{Value, json};
use std::fmt::Write;

/// One operation.
#[derive(Clone, Debug, PartialEq)]
pub struct Row {
    /// Which table it belongs to.
    pub section: String,
    /// Name of the operation.
    pub op: String,
    /// Unit of both figures.
    pub unit: String,
    /// The peer's figure: Linux, or on the host what generated code is compared with.
    pub linux: Option<f64>,
    /// Ours.
    pub synthesis: Option<f64>,
    /// Their ratio, where it was measured by itself: figures that were taken minutes or a change of the clock
    /// apart make a worse one.
    pub paired: Option<f64>,
    /// The same with mitigations against defects of processors, where it was measured.
    pub mitigated: Option<Mitigated>,
}

/// The figures of an operation with mitigations.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Mitigated {
    /// Linux with those that it chooses itself, which is its default.
    pub linux: Option<f64>,
    /// Ours with those that the processor needs, which is our default.
    pub auto: Option<f64>,
    /// Ours with whatever the processor can do.
    pub all: Option<f64>,
}

impl Mitigated {
    /// How many times less we need than the peer, each with its default.
    pub fn ratio(&self) -> Option<f64> {
        quotient(self.linux, self.auto)
    }
}

/// The quotient of two figures that were both measured.
fn quotient(linux: Option<f64>, synthesis: Option<f64>) -> Option<f64> {
    match (linux, synthesis) {
        (Some(linux), Some(synthesis)) if synthesis > 0.0 => Some(linux / synthesis),
        _ => None,
    }
}

impl Row {
    /// How many times less we need than the peer.
    pub fn ratio(&self) -> Option<f64> {
        if self.paired.is_some() {
            return self.paired;
        }
        quotient(self.linux, self.synthesis)
    }
}

/// One line `row SECTION OP UNIT COUNT` of the guest's program.
pub fn parse(line: &str) -> Option<(String, String, String, f64)> {
    let mut words = line.split_whitespace();
    if words.next()? != "row" {
        return None;
    }
    let mut word = || words.next().map(str::to_owned);
    let (section, op, unit, count) = (word()?, word()?, word()?, word()?);
    Some((section, op, unit, count.parse().ok()?))
}

/// Puts what both kernels printed side by side, in the order of whoever printed first.
pub fn merge(linux: &str, synthesis: &str) -> Vec<Row> {
    let mut rows: Vec<Row> = Vec::new();
    for (text, ours) in [(linux, false), (synthesis, true)] {
        for (section, op, unit, count) in text.lines().filter_map(parse) {
            let at = rows
                .iter()
                .position(|row| row.section == section && row.op == op)
                .unwrap_or_else(|| {
                    rows.push(Row {
                        section,
                        op,
                        unit,
                        linux: None,
                        synthesis: None,
                        paired: None,
                        mitigated: None,
                    });
                    rows.len() - 1
                });
            let figure = if ours {
                &mut rows[at].synthesis
            } else {
                &mut rows[at].linux
            };
            *figure = Some(count);
        }
    }
    rows
}

/// Adds to the rows what the kernels printed with mitigations: Linux with its own, ours with `auto` and
/// `all`.
pub fn add_mitigated(rows: &mut [Row], linux: &str, auto: &str, all: &str) {
    let figures = |text: &str| -> Vec<_> { text.lines().filter_map(parse).collect() };
    let [linux, auto, all] = [linux, auto, all].map(figures);
    for row in rows {
        let of = |figures: &[(String, String, String, f64)]| {
            let same = |figure: &&(String, String, String, f64)| {
                figure.0 == row.section && figure.1 == row.op
            };
            figures.iter().find(same).map(|figure| figure.3)
        };
        row.mitigated = Some(Mitigated {
            linux: of(&linux),
            auto: of(&auto),
            all: of(&all),
        });
    }
}

/// A figure as a reader wants it.
pub fn figure(value: Option<f64>) -> String {
    match value {
        None => "–".into(),
        Some(value) if value.fract() != 0.0 && value < 1000.0 => format!("{value:.2}"),
        Some(value) => {
            let digits = format!("{value:.0}");
            let mut out = String::new();
            for (at, digit) in digits.chars().enumerate() {
                if at > 0 && (digits.len() - at).is_multiple_of(3) {
                    out.push(' ');
                }
                out.push(digit);
            }
            out
        }
    }
}

/// The ratio as a reader wants it.
pub fn ratio(row: &Row) -> String {
    shown(row.ratio())
}

fn shown(ratio: Option<f64>) -> String {
    ratio.map_or("–".into(), |ratio| {
        if ratio < 0.01 {
            format!("{ratio:.4}")
        } else if ratio < 10.0 {
            format!("{ratio:.2}")
        } else if ratio < 1000.0 {
            format!("{ratio:.1}")
        } else {
            figure(Some(ratio.round()))
        }
    })
}

fn sections(rows: &[Row]) -> Vec<&str> {
    let mut names: Vec<&str> = Vec::new();
    for row in rows {
        if !names.contains(&row.section.as_str()) {
            names.push(&row.section);
        }
    }
    names
}

/// The heads of the columns of a section, and for each of its rows the operation, the unit and the figures.
fn laid_out(rows: &[Row], section: &str) -> (Vec<&'static str>, Vec<Vec<String>>) {
    let rows: Vec<&Row> = rows.iter().filter(|row| row.section == section).collect();
    let wide = rows.iter().any(|row| row.mitigated.is_some());
    let heads = match (wide, section.starts_with("host")) {
        (true, _) => MITIGATED.to_vec(),
        (false, true) => vec!["peer", "Synthesis", "ratio"],
        (false, false) => vec!["Linux", "Synthesis", "ratio"],
    };
    let cells = |row: &&Row| {
        let mut cells = vec![row.op.clone(), row.unit.clone()];
        cells.extend([figure(row.linux), figure(row.synthesis), ratio(row)]);
        if wide {
            let with = row.mitigated.unwrap_or_default();
            cells.extend([figure(with.linux), figure(with.auto), shown(with.ratio())]);
            cells.push(figure(with.all));
        }
        cells
    };
    (heads, rows.iter().map(cells).collect())
}

/// The columns of what is measured with mitigations and without.
const MITIGATED: [&str; 7] = [
    "Linux, off",
    "Synthesis, off",
    "ratio",
    "Linux, auto",
    "Synthesis, auto",
    "ratio",
    "Synthesis, all",
];

/// For a terminal.
pub fn text(rows: &[Row]) -> String {
    let mut out = String::new();
    for section in sections(rows) {
        let (heads, lines) = laid_out(rows, section);
        let names: Vec<String> = heads.iter().map(|head| (*head).to_owned()).collect();
        out.push_str(&aligned(
            &format!("{section:<28} {:<14}", "unit"),
            &heads,
            &names,
        ));
        for cells in &lines {
            let first = format!("  {:<26} {:<14}", cells[0], cells[1]);
            out.push_str(&aligned(&first, &heads, &cells[2..]));
        }
        out.push('\n');
    }
    out
}

/// A line of cells, each as wide as its column wants.
fn aligned(first: &str, heads: &[&str], cells: &[String]) -> String {
    let mut out = first.to_owned();
    for (head, cell) in heads.iter().zip(cells) {
        let width = if *head == "ratio" { 8 } else { 15 };
        write!(out, " {cell:>width$}").expect("a string");
    }
    out.push('\n');
    out
}

/// For a reader of `docs/results.md`.
pub fn markdown(rows: &[Row]) -> String {
    let mut out = String::new();
    for section in sections(rows) {
        let (heads, lines) = laid_out(rows, section);
        writeln!(
            out,
            "\n## {section}\n\n| operation | unit | {} |\n| --- | --- |{}",
            heads.join(" | "),
            " ---: |".repeat(heads.len())
        )
        .expect("a string");
        for cells in lines {
            writeln!(out, "| {} |", cells.join(" | ")).expect("a string");
        }
    }
    out
}

/// The rows that a newcomer wants to see, in his words.
const SHORT: &[(&str, &str)] = &[
    ("getpid", "getpid"),
    ("pipe_1", "write and read 1 byte through a pipe"),
    ("pipe_1024", "write and read 1 KiB through a pipe"),
    ("pipe_4096", "write and read 4 KiB through a pipe"),
    ("file_read_1", "read 1 byte of a file"),
    (
        "file_loop",
        "write and read 10 KB of a file, 1 KB at a time",
    ),
    ("null_write_1", "write to /dev/null"),
    ("null_open_close", "open and close /dev/null"),
    ("console_open_close", "open and close the console"),
    ("file_open_close", "open and close a file"),
    ("sched_yield", "yield"),
    ("pipe_pingpong", "1-byte ping-pong between two processes"),
    ("fork_exit_wait", "fork, exit, wait"),
    ("page_touch", "touch a new page"),
    (
        "first_instruction",
        "reset to the first program's first instruction, ns",
    ),
    ("memory_at_prompt", "memory in use at the prompt, KiB"),
];

/// The table of the README: each kernel with the mitigations that it has by default.
pub fn short(rows: &[Row]) -> String {
    let mut out = String::from(
        "Each kernel with the mitigations against defects of processors that it has by default:\n\n\
         | operation | Linux | Synthesis | times fewer |\n| --- | ---: | ---: | ---: |\n",
    );
    for (op, words) in SHORT {
        if let Some(row) = rows.iter().find(|row| row.op == *op) {
            let with = row.mitigated.unwrap_or_default();
            let (linux, synthesis) = (figure(with.linux), figure(with.auto));
            let ratio = shown(with.ratio());
            writeln!(out, "| {words} | {linux} | {synthesis} | {ratio} |").expect("a string");
        }
    }
    out
}

/// A row of the host's benchmark: an object with `section`, `op`, `unit`, `peer`, `ours`.
pub fn parse_host(line: &str) -> Option<Row> {
    let value: Value = serde_json::from_str(line).ok()?;
    let text = |key: &str| value[key].as_str().map(str::to_owned);
    Some(Row {
        section: text("section")?,
        op: text("op")?,
        unit: text("unit")?,
        linux: value["peer"].as_f64(),
        synthesis: value["ours"].as_f64(),
        paired: value["ratio"].as_f64(),
        mitigated: None,
    })
}

/// For a program.
pub fn json(rows: &[Row]) -> String {
    let rows: Vec<Value> = rows
        .iter()
        .map(|row| {
            let mut value = json!({
                "section": row.section, "op": row.op, "unit": row.unit,
                "linux": row.linux, "synthesis": row.synthesis, "ratio": row.ratio(),
            });
            if let Some(with) = row.mitigated {
                value["linux_auto"] = json!(with.linux);
                value["synthesis_auto"] = json!(with.auto);
                value["synthesis_all"] = json!(with.all);
            }
            value
        })
        .collect();
    serde_json::to_string_pretty(&json!({ "rows": rows })).expect("rows are plain values")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_of_both_kernels_meet_in_one_row() {
        let rows = merge(
            "noise\nrow calls getpid instructions 330\r\n",
            "row calls getpid instructions 30\nrow x y z 1\n",
        );
        assert_eq!(rows.len(), 2);
        assert_eq!(rows[0].ratio(), Some(11.0));
        assert_eq!(rows[1].ratio(), None);
        assert!(text(&rows).contains("11.0"));
    }

    #[test]
    fn mitigations_have_columns_of_their_own_and_the_readme_has_the_defaults() {
        let mut rows = merge(
            "row calls getpid instructions 330",
            "row calls getpid instructions 30",
        );
        let with = |count: u32| format!("row calls getpid instructions {count}");
        add_mitigated(&mut rows, &with(400), &with(40), &with(80));
        assert!(
            markdown(&rows)
                .contains("| getpid | instructions | 330 | 30 | 11.0 | 400 | 40 | 10.0 | 80 |")
        );
        assert!(short(&rows).contains("| getpid | 400 | 40 | 10.0 |"));
        assert_eq!(rows[0].ratio(), Some(11.0));
        let value: Value = serde_json::from_str(&json(&rows)).unwrap();
        assert_eq!(value["rows"][0]["synthesis_auto"], json!(40.0));
        // A machine that was left out has no figures, and no quotient.
        add_mitigated(&mut rows, "", &with(40), "");
        assert!(text(&rows).contains("–"));
    }

    #[test]
    fn json_has_the_promised_fields() {
        let value: Value =
            serde_json::from_str(&json(&merge("row a b c 4", "row a b c 2"))).unwrap();
        assert_eq!(
            value["rows"][0],
            json!({"section": "a", "op": "b", "unit": "c", "linux": 4.0, "synthesis": 2.0, "ratio": 2.0})
        );
    }

    #[test]
    fn rows_of_the_host_are_read() {
        let line = r#"{"section":"host","op":"x/c","unit":"ns","peer":2.0,"ours":1.0,"ratio":2.0}"#;
        assert_eq!(parse_host(line).unwrap().ratio(), Some(2.0));
        assert_eq!(parse_host("noise"), None);
    }

    #[test]
    fn large_figures_are_grouped() {
        assert_eq!(figure(Some(148159.0)), "148 159");
        assert_eq!(figure(Some(1.5)), "1.50");
        assert_eq!(figure(None), "–");
    }

    #[test]
    fn ratios_far_from_one_can_be_read() {
        let shown = |linux: &str, synthesis: &str| {
            let row = |count: &str| format!("row a b c {count}");
            ratio(&merge(&row(linux), &row(synthesis))[0])
        };
        assert_eq!(shown("3", "1000"), "0.0030");
        assert_eq!(shown("1", "2"), "0.50");
        assert_eq!(shown("31", "2"), "15.5");
        assert_eq!(shown("43053.6", "1"), "43 054");
    }
}
