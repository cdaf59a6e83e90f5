//! The map of a routine's inlined code, from the interfacer's record: whose code stands at each of its
//! instructions.
//!
//! *Interface*: [`InlineMap::of`] collects it from the links and their sites; [`InlineMap::at`] is the
//! innermost link whose code an address is in. Nothing is kept for it: it is what [`wiring`](super::wiring)
//! knows.
//!
//! Source: dissertation, sections 4.1.3 and 7.4.3 (the kernel monitor).

use crate::kit::class::{Header, for_each_class};
use alloc::vec::Vec;
use core::fmt;
use core::ops::Range;

/// A stretch of code that a link has led to.
#[derive(Clone, Debug)]
pub struct InlineRange {
    code: Range<usize>,
    class: &'static str,
    number: u32,
    name: &'static str,
    in_line: bool,
}

impl fmt::Display for InlineRange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !self.in_line {
            f.write_str("to ")?;
        }
        match self.number {
            0 => write!(f, "{} {}", self.class, self.name),
            number => write!(f, "{} {number} {}", self.class, self.name),
        }
    }
}

/// The links that stand in a routine.
#[derive(Default)]
pub struct InlineMap {
    links: usize,
    stretches: Vec<InlineRange>,
}

impl InlineMap {
    /// Of the routine at `code`. Links may change meanwhile. As much of it as there is memory for.
    pub fn of(code: Range<usize>) -> InlineMap {
        let mut record = InlineMap::default();
        for_each_class(|class| {
            class.for_each(|header| {
                for port in 0..class.ports.len() {
                    record.add(header, port, &code);
                }
            });
        });
        record
    }

    fn add(&mut self, header: &'static Header, port: usize, code: &Range<usize>) {
        let sites = (0..).map_while(|at| header.site(port, at));
        for placed in sites.filter(|placed| code.contains(&placed.at)) {
            let Some(target) = header.wiring().get(port) else {
                return;
            };
            #[expect(
                clippy::disallowed_methods,
                reason = "two for each link in one routine"
            )]
            if self.stretches.try_reserve(2).is_err() {
                return;
            }
            let owner = target.owner();
            let stretch = |at: usize, bytes: u32| InlineRange {
                code: at..at + bytes as usize,
                class: owner.map_or("kernel", |owner| owner.class().name),
                number: owner.map_or(0, Header::number),
                name: target.name(),
                in_line: placed.in_line,
            };
            self.links += 1;
            let both = [
                stretch(placed.at, placed.bytes),
                stretch(placed.cold, placed.cold_bytes),
            ];
            #[expect(clippy::disallowed_methods, reason = "there is room for them")]
            self.stretches.extend(both);
        }
    }

    /// How many links stand in it.
    pub fn links(&self) -> usize {
        self.links
    }

    /// The innermost link that has led to the instruction at `address`; None for the routine's own.
    pub fn at(&self, address: usize) -> Option<&InlineRange> {
        let around = self.stretches.iter().filter(|s| s.code.contains(&address));
        around.min_by_key(|stretch| stretch.code.len())
    }
}
