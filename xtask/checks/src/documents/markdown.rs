//! A document's code: its spans between backquotes, its links, its headings and its blocks.
//!
//! *Interface*: `Document::read`.

/// A piece of a document, with the line on which it begins.
#[derive(Clone, Debug, PartialEq)]
pub struct Piece {
    /// From 1.
    pub line: usize,
    /// Pieces with the same number stand in one paragraph, list item or row of a table.
    pub paragraph: usize,
    /// The text.
    pub text: String,
}

/// A document, taken apart.
#[derive(Debug, Default)]
pub struct Document {
    /// The texts between backquotes within prose.
    pub spans: Vec<Piece>,
    /// The targets of links.
    pub links: Vec<Piece>,
    /// The headings, without their marks.
    pub headings: Vec<String>,
    /// The beginnings of paragraphs and items in bold letters.
    pub bold: Vec<String>,
    /// The lines of fenced blocks, with the language of each block.
    pub block: Vec<(String, Piece)>,
    /// The rows of tables, each with the heading of its section and its cells.
    pub rows: Vec<(String, Piece)>,
}

impl Document {
    /// Takes `text` apart.
    pub fn read(text: &str) -> Self {
        let mut document = Self::default();
        let mut fence: Option<String> = None;
        let mut paragraph = Piece {
            line: 0,
            paragraph: 0,
            text: String::new(),
        };
        for (at, line) in text.lines().enumerate() {
            let at = at + 1;
            let bare = line.trim_start();
            if let Some(language) = bare.strip_prefix("```") {
                document.end(&mut paragraph);
                fence = match fence {
                    Some(_) => None,
                    None => Some(language.trim().to_owned()),
                };
                continue;
            }
            if let Some(language) = &fence {
                let piece = Piece {
                    line: at,
                    paragraph: paragraph.paragraph,
                    text: line.to_owned(),
                };
                document.block.push((language.clone(), piece));
                continue;
            }
            let begins = bare.is_empty()
                || ["* ", "- ", "|", "#"]
                    .iter()
                    .any(|mark| bare.starts_with(mark));
            if begins {
                document.end(&mut paragraph);
            }
            if bare.starts_with("| |") {
                // A row without a first cell goes on with the row before.
                paragraph.paragraph -= 1;
            }
            if bare.starts_with('#') {
                document
                    .headings
                    .push(bare.trim_start_matches('#').trim().to_owned());
            }
            if paragraph.text.is_empty() {
                paragraph.line = at;
            } else {
                paragraph.text.push('\n');
            }
            paragraph.text.push_str(line);
            if bare.starts_with('|') {
                let heading = document.headings.last().cloned().unwrap_or_default();
                document.rows.push((heading, paragraph.clone()));
            }
        }
        document.end(&mut paragraph);
        document
    }

    /// Whether a heading, or the beginning of a paragraph in bold letters, begins with these words.
    pub fn has(&self, words: &str) -> bool {
        let plain = |text: &str| text.replace('`', "").to_lowercase();
        let titles = self.headings.iter().chain(&self.bold);
        titles
            .map(|title| plain(title))
            .any(|title| title.starts_with(&plain(words)))
    }

    /// Takes the spans and links of a paragraph, and begins the next one.
    fn end(&mut self, paragraph: &mut Piece) {
        let text = std::mem::take(&mut paragraph.text);
        let bare = text.trim_start_matches(['*', '-', ' ']);
        if text.len() >= bare.len() + 2
            && let Some((title, _)) = bare.split_once("**")
        {
            self.bold.push(title.replace('\n', " "));
        }
        let piece = |at: usize, part: &str| Piece {
            line: paragraph.line + text[..at].matches('\n').count(),
            paragraph: paragraph.paragraph,
            text: part.replace('\n', " ").replace("\\|", "|"),
        };
        let mut at = 0;
        while let Some(found) = text[at..].find(['`', ']']) {
            at += found;
            let rest = &text[at..];
            if let Some(target) = rest.strip_prefix("](") {
                let end = target.find(')').unwrap_or(0);
                self.links.push(piece(at, &target[..end]));
                at += 2;
                continue;
            }
            let marks = rest.len() - rest.trim_start_matches('`').len();
            if marks == 0 {
                at += 1;
                continue;
            }
            let inside = &rest[marks..];
            match inside.find(&rest[..marks]) {
                Some(end) => {
                    self.spans.push(piece(at, inside[..end].trim()));
                    at += marks + end + marks;
                }
                None => at += marks,
            }
        }
        paragraph.paragraph += 1;
    }
}

/// The name by which a link reaches a heading.
pub fn anchor(heading: &str) -> String {
    heading
        .chars()
        .filter_map(|c| match c {
            ' ' => Some('-'),
            '-' | '_' => Some(c),
            _ if c.is_alphanumeric() => Some(c.to_ascii_lowercase()),
            _ => None,
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spans_links_and_blocks_are_told_apart() {
        let document = Document::read(
            "# The `first`\n\nA `b c`, [`d`](e.md#f) and ``g ` h``, `wrapped\nhere`.\n\n```rust\nlet `x`;\n```\n| `a\\|b` | c |\n",
        );
        let spans: Vec<_> = document
            .spans
            .iter()
            .map(|span| (span.line, &*span.text))
            .collect();
        assert_eq!(
            spans,
            [
                (1, "first"),
                (3, "b c"),
                (3, "d"),
                (3, "g ` h"),
                (3, "wrapped here"),
                (9, "a|b")
            ]
        );
        assert_eq!(document.links[0].text, "e.md#f");
        assert_eq!(document.headings, ["The `first`"]);
        assert_eq!(document.block[0].0, "rust");
        assert_eq!(document.block[0].1.line, 7);
        assert_eq!(document.rows[0].0, "The `first`");
        assert_eq!(anchor("The `first`, again"), "the-first-again");
    }
}
