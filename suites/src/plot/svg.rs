//! Pictures of lines over time, as SVG.
//!
//! *Interface*: [`Picture::svg`]. Panels lie one below the other over one axis of time; each line has the
//! colour of its number, in each panel. Points are whole pixels, and what falls on the last one is left out,
//! so that a picture stays small.

use std::fmt::Write;

/// A picture.
pub struct Picture {
    /// The first line.
    pub title: String,
    /// First and last moment, milliseconds.
    pub span: (f64, f64),
    /// Moments that are marked.
    pub marks: Vec<(f64, String)>,
    /// The names of the lines' numbers.
    pub names: Vec<String>,
    /// From above.
    pub panels: Vec<Panel>,
}

/// Lines with one axis.
pub struct Panel {
    /// Quantity and unit.
    pub title: String,
    /// The end of the axis, which begins at 0.
    pub most: f64,
    /// Its lines.
    pub lines: Vec<Line>,
}

/// A line.
pub struct Line {
    /// Its number, which gives the colour.
    pub number: usize,
    /// Drawn with gaps.
    pub dashed: bool,
    /// Time in milliseconds, and value: it stays until the next point.
    pub points: Vec<(f64, f64)>,
}

const WIDTH: f64 = 640.0;
const HEIGHT: f64 = 120.0;
const LEFT: f64 = 60.0;
const GAP: f64 = 34.0;
/// Width of a name in the legend, and of a letter.
const LETTER: f64 = 6.6;

const COLOURS: [&str; 8] = [
    "#c22", "#26b", "#393", "#c70", "#82b", "#088", "#666", "#a63",
];

fn colour(number: usize, count: usize) -> String {
    match COLOURS.get(number) {
        Some(colour) if count <= COLOURS.len() => (*colour).into(),
        _ => {
            let hue = number as f64 * 6.0 / count.max(1) as f64;
            let [red, green, blue] = [0.0, 2.0, 4.0].map(|from| {
                let away = (hue - from).rem_euclid(6.0);
                ((2.0 - away.min(6.0 - away)).clamp(0.0, 1.0) * 200.0) as u8
            });
            format!("#{red:02x}{green:02x}{blue:02x}")
        }
    }
}

/// Text in an element.
fn plain(text: &str) -> String {
    text.replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('>', "&gt;")
}

/// A step of an axis of this length: 1, 2 or 5 times a power of ten, at least a `parts`-th of it.
fn step(length: f64, parts: f64) -> f64 {
    let wanted = (length / parts).max(1e-9);
    let power = 10f64.powf(wanted.log10().floor());
    let factor = [1.0, 2.0, 5.0, 10.0]
        .into_iter()
        .find(|n| n * power >= wanted);
    factor.unwrap_or(10.0) * power
}

/// The names of lines beside each other: their rows, with the place of each.
fn legend(names: &[String]) -> (Vec<(f64, f64)>, f64) {
    let (mut x, mut y, mut places) = (LEFT, 0.0, Vec::new());
    for name in names {
        let width = name.chars().count() as f64 * LETTER + 28.0;
        if x > LEFT && x + width > LEFT + WIDTH {
            (x, y) = (LEFT, y + 16.0);
        }
        places.push((x, y));
        x += width;
    }
    (places, y + 16.0)
}

impl Picture {
    fn x(&self, time: f64) -> f64 {
        let (from, to) = self.span;
        ((time - from) / (to - from).max(1e-9) * WIDTH).clamp(0.0, WIDTH)
    }

    /// The picture as the text of a file.
    pub fn svg(&self) -> String {
        let (places, names) = legend(&self.names);
        let above = 28.0 + names;
        let height = above + self.panels.len() as f64 * (HEIGHT + GAP) + 20.0;
        let width = LEFT + WIDTH + 20.0;
        let mut out = format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width} {height}\" width=\"{width}\" \
             height=\"{height}\" font-family=\"sans-serif\" font-size=\"11\">\n\
             <rect width=\"100%\" height=\"100%\" fill=\"#fff\"/>\n\
             <text x=\"{LEFT}\" y=\"18\" font-size=\"13\" font-weight=\"bold\">{}</text>\n",
            plain(&self.title)
        );
        // `write!` to a string cannot fail, here and below.
        for (number, (name, (x, y))) in self.names.iter().zip(places).enumerate() {
            let colour = colour(number, self.names.len());
            let _ = writeln!(
                out,
                "<path d=\"M{x} {}h14\" stroke=\"{colour}\" stroke-width=\"3\"/><text x=\"{}\" y=\"{}\">{}</text>",
                y + 34.0,
                x + 18.0,
                y + 38.0,
                plain(name)
            );
        }
        for (n, panel) in self.panels.iter().enumerate() {
            let top = above + 20.0 + n as f64 * (HEIGHT + GAP);
            let _ = writeln!(out, "<g transform=\"translate({LEFT} {top})\">");
            self.panel(panel, n == 0, &mut out);
            out.push_str("</g>\n");
        }
        let _ = writeln!(
            out,
            "<text x=\"{}\" y=\"{}\" text-anchor=\"end\">time, ms</text>\n</svg>",
            LEFT + WIDTH,
            height - 4.0
        );
        out
    }

    /// The marks have their texts in the first one.
    fn panel(&self, panel: &Panel, is_first: bool, out: &mut String) {
        let most = panel.most.max(1e-9);
        let _ = writeln!(
            out,
            "<text y=\"-5\" fill=\"#333\">{}</text><path d=\"M0 0V{HEIGHT}H{WIDTH}\" fill=\"none\" stroke=\"#333\"/>",
            plain(&panel.title)
        );
        let rise = step(most, 4.0);
        for n in 0..=(most / rise + 1e-6) as u32 {
            let value = f64::from(n) * rise;
            let y = HEIGHT - value / most * HEIGHT;
            let _ = writeln!(
                out,
                "<path d=\"M0 {y:.0}H{WIDTH}\" stroke=\"#ddd\"/><text x=\"-5\" y=\"{:.0}\" text-anchor=\"end\">{value}</text>",
                y + 4.0
            );
        }
        let (from, to) = self.span;
        let pace = step(to - from, 10.0);
        let first = (from / pace).ceil();
        for n in 0..=((to / pace + 1e-6).floor() - first).max(0.0) as u32 {
            let time = (first + f64::from(n)) * pace;
            let _ = writeln!(
                out,
                "<text x=\"{:.0}\" y=\"{}\" text-anchor=\"middle\">{}</text>",
                self.x(time),
                HEIGHT + 13.0,
                (time * 1e6).round() / 1e6
            );
        }
        for (time, text) in &self.marks {
            let x = self.x(*time);
            let _ = writeln!(
                out,
                "<path d=\"M{x:.0} 0V{HEIGHT}\" stroke=\"#000\" stroke-dasharray=\"3 3\"/>"
            );
            if is_first {
                let (x, y, text) = (x + 4.0, HEIGHT - 5.0, plain(text));
                let _ = writeln!(
                    out,
                    "<text x=\"{x:.0}\" y=\"{y}\" fill=\"#555\">{text}</text>"
                );
            }
        }
        for line in &panel.lines {
            let Some(path) = self.path(line, most) else {
                continue;
            };
            let dash = if line.dashed {
                " stroke-dasharray=\"5 3\""
            } else {
                ""
            };
            let _ = writeln!(
                out,
                "<path d=\"{path}\" fill=\"none\" stroke=\"{}\" stroke-width=\"1.5\"{dash}/>",
                colour(line.number, self.names.len())
            );
        }
    }

    /// The line in whole pixels: along, then up or down.
    fn path(&self, line: &Line, most: f64) -> Option<String> {
        let pixels = line.points.iter().map(|(time, value)| {
            let y = HEIGHT - (value / most * HEIGHT).clamp(0.0, HEIGHT);
            (self.x(*time).round() as i64, y.round() as i64)
        });
        let mut pixels = pixels.peekable();
        let (mut x, mut y) = *pixels.peek()?;
        let mut path = format!("M{x} {y}");
        for (to_x, to_y) in pixels {
            if to_y != y {
                if to_x != x {
                    let _ = write!(path, "h{}", to_x - x);
                }
                let _ = write!(path, "v{}", to_y - y);
                (x, y) = (to_x, to_y);
            }
        }
        let last = self.x(line.points.last()?.0).round() as i64;
        if last != x {
            let _ = write!(path, "h{}", last - x);
        }
        Some(path)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn picture(points: Vec<(f64, f64)>) -> Picture {
        let line = Line {
            number: 0,
            dashed: false,
            points,
        };
        Picture {
            title: "a < b & c".into(),
            span: (0.0, 64.0),
            marks: vec![(32.0, "now".into())],
            names: vec!["one".into()],
            panels: vec![Panel {
                title: "height".into(),
                most: 100.0,
                lines: vec![line],
            }],
        }
    }

    #[test]
    fn a_line_goes_by_steps_and_stays_small() {
        let path = |points: &[(f64, f64)]| {
            let picture = picture(points.to_vec());
            picture.path(&picture.panels[0].lines[0], 100.0)
        };
        assert_eq!(path(&[]), None);
        assert_eq!(
            path(&[(0.0, 0.0), (1.0, 50.0), (2.0, 50.0)]).as_deref(),
            Some("M0 120h10v-60h10")
        );
        let many: Vec<_> = (0..100_000)
            .map(|n| (f64::from(n) / 2000.0, 50.0))
            .collect();
        assert_eq!(path(&many).as_deref(), Some("M0 60h500"));
        // Values off the axis stay at its end.
        assert_eq!(
            path(&[(0.0, 1e9), (64.0, -5.0)]).as_deref(),
            Some("M0 0h640v120")
        );
    }

    #[test]
    fn text_is_text() {
        let svg = picture(vec![(0.0, 1.0)]).svg();
        assert!(svg.contains("a &lt; b &amp; c") && svg.ends_with("</svg>\n"));
    }

    #[test]
    fn axes_have_round_steps() {
        let step = |length| step(length, 4.0);
        assert_eq!([4.0, 100.0, 1600.0].map(step), [1.0, 50.0, 500.0]);
    }
}
