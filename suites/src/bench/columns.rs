//! A table with a column for each kernel: for measurements with more than two.
//!
//! *Interface*: `Columns::add` what one kernel printed; `text`, `markdown`, `json`; `get` one figure.

use super::table::{figure, parse};
use serde_json::{Map, Value, json};
use std::fmt::Write;

/// One line.
struct Line {
    section: String,
    op: String,
    unit: String,
    figures: Vec<Option<f64>>,
}

/// The table.
#[derive(Default)]
pub struct Columns {
    names: Vec<String>,
    lines: Vec<Line>,
}

impl Columns {
    /// Adds the column of a kernel that printed `text`.
    pub fn add(&mut self, name: &str, text: &str) {
        self.names.push(name.into());
        for line in &mut self.lines {
            line.figures.push(None);
        }
        for (section, op, unit, count) in text.lines().filter_map(parse) {
            let at = self.at(&section, &op).unwrap_or_else(|| {
                self.lines.push(Line {
                    section,
                    op,
                    unit,
                    figures: vec![None; self.names.len()],
                });
                self.lines.len() - 1
            });
            *self.lines[at].figures.last_mut().expect("this column") = Some(count);
        }
    }

    fn at(&self, section: &str, op: &str) -> Option<usize> {
        self.lines
            .iter()
            .position(|line| line.section == section && line.op == op)
    }

    /// The figure of `op` in the column of the kernel `name`.
    pub fn get(&self, name: &str, section: &str, op: &str) -> Option<f64> {
        let column = self.names.iter().position(|known| known == name)?;
        let at = self.at(section, op)?;
        *self.lines[at].figures.get(column)?
    }

    fn sections(&self) -> Vec<&str> {
        let mut names: Vec<&str> = Vec::new();
        for line in &self.lines {
            if !names.contains(&line.section.as_str()) {
                names.push(&line.section);
            }
        }
        names
    }

    /// For a terminal.
    pub fn text(&self) -> String {
        let mut out = String::new();
        for section in self.sections() {
            write!(out, "{section:<28} {:<10}", "unit").expect("a string");
            for name in &self.names {
                write!(out, " {name:>16}").expect("a string");
            }
            out.push('\n');
            for line in self.lines.iter().filter(|line| line.section == section) {
                write!(out, "  {:<26} {:<10}", line.op, line.unit).expect("a string");
                for value in &line.figures {
                    write!(out, " {:>16}", figure(*value)).expect("a string");
                }
                out.push('\n');
            }
            out.push('\n');
        }
        out
    }

    /// For a reader of `docs/results.md`.
    pub fn markdown(&self) -> String {
        let mut out = String::new();
        for section in self.sections() {
            writeln!(
                out,
                "\n### {section}\n\n| | unit | {} |\n| --- | --- |{}",
                self.names.join(" | "),
                " ---: |".repeat(self.names.len())
            )
            .expect("a string");
            for line in self.lines.iter().filter(|line| line.section == section) {
                let figures: Vec<_> = line.figures.iter().map(|value| figure(*value)).collect();
                writeln!(
                    out,
                    "| {} | {} | {} |",
                    line.op,
                    line.unit,
                    figures.join(" | ")
                )
                .expect("a string");
            }
        }
        out
    }

    /// For a program: as `bench`'s rows, a field for each column (in small letters, `_` for a blank).
    pub fn json(&self) -> String {
        let rows: Vec<Value> = self
            .lines
            .iter()
            .map(|line| {
                let mut row = Map::new();
                for (key, text) in [
                    ("section", &line.section),
                    ("op", &line.op),
                    ("unit", &line.unit),
                ] {
                    row.insert(key.into(), json!(text));
                }
                for (name, value) in self.names.iter().zip(&line.figures) {
                    row.insert(name.to_lowercase().replace(' ', "_"), json!(value));
                }
                Value::Object(row)
            })
            .collect();
        serde_json::to_string_pretty(&json!({ "rows": rows })).expect("rows are plain values")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_figure_stands_in_its_own_column() {
        let mut table = Columns::default();
        table.add("A b", "row s x ns 1\n");
        table.add("C", "row s y ns 2\nrow s x ns 3\n");
        let value: Value = serde_json::from_str(&table.json()).expect("valid");
        assert_eq!(
            value["rows"],
            json!([
                {"section": "s", "op": "x", "unit": "ns", "a_b": 1.0, "c": 3.0},
                {"section": "s", "op": "y", "unit": "ns", "a_b": null, "c": 2.0},
            ])
        );
        assert!(table.markdown().contains("| y | ns | – | 2 |"));
        assert_eq!(table.get("C", "s", "x"), Some(3.0));
        assert_eq!(table.get("A b", "s", "y"), None);
    }
}
