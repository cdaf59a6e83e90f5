//! Operations of several words, as subjects of torture: changes of distant words.
//!
//! *Interface*: [`all`].

use lab::mcas::{self, Cell, Change};

use super::subject::Subject;

/// All of them.
pub fn all() -> [&'static dyn Subject; 1] {
    [&WORDS]
}

/// Parties of the changes: every torturer, and those that stand still.
const PARTIES: usize = 32;

/// Of three distant words two are changed at a time, so that their sum stays.
struct Words {
    domain: mcas::Domain<PARTIES, 2>,
    cells: [Cell; 3],
}

static WORDS: Words = Words {
    domain: mcas::Domain::new(),
    cells: [Cell::new(0), Cell::new(0), Cell::new(0)],
};

impl Subject for Words {
    fn name(&self) -> &'static str {
        "several words at once"
    }

    fn operate(&self, _: usize, round: u64) {
        let Some(mut party) = self.domain.join() else {
            return;
        };
        let [up, down] = [0, 1].map(|i| &self.cells[(round + i) as usize % 3]);
        loop {
            let [above, below] = [up, down].map(|cell| party.read(cell));
            let changes =
                [(up, above, 1), (down, below, u64::MAX)].map(|(cell, old, add)| Change {
                    cell,
                    old,
                    new: old.wrapping_add(add),
                });
            // SAFETY: the cells are static, and only this domain changes them.
            if unsafe { party.change(&changes) } {
                return;
            }
        }
    }

    fn settle(&self) {
        let sum = self.cells.iter().map(|cell| self.domain.read(cell));
        assert_eq!(sum.fold(0, u64::wrapping_add), 0, "the sum of three words");
    }
}
