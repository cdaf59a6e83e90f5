//! Symtab: the symbol table, strings to values.
//!
//! *Interface* (table 4.3): callentries [`Symtab::lookup`] and [`Symtab::add`], from anywhere in thread
//! context. An added symbol stays; its value can be changed. A look-up never waits.
//!
//! A hash table of fixed width whose chains only grow: a new symbol is published with one compare-and-swap on
//! the end of its chain, so when two threads add the same string, one finds the other's symbol.
//!
//! Progress: looking up is wait-free (a load for each symbol of the chain), adding lock-free (a failed
//! exchange means a longer chain).
//!
//! Source: dissertation, sections 4.1.3 (names of callentries) and 4.2.3 (dynamic linking), table 4.3.
//!
//! *Unsafe*: chains that only grow.

#[cfg(not(loom))]
use crate::kit::routine_env::RoutineError;
use crate::primitive::{AtomicPtr, AtomicU64, Ordering};
use alloc::boxed::Box;
use core::ptr;

/// Chains of a table.
const WIDTH: usize = 64;

struct Symbol {
    name: Box<str>,
    value: AtomicU64,
    next: AtomicPtr<Symbol>,
}

/// One table.
pub struct Symtab {
    chains: [AtomicPtr<Symbol>; WIDTH],
}

#[cfg(not(loom))]
crate::quaject! {
    /// Symbol table (associative mapping)
    class Symtab = "Symtab", spec (), error RoutineError {
        callentry { LOOKUP = "lookup", ADD = "add" }
    }
    make |(), _| Ok(Symtab::new());
}

impl Symtab {
    /// An empty table.
    pub fn new() -> Symtab {
        Symtab {
            chains: core::array::from_fn(|_| AtomicPtr::new(ptr::null_mut())),
        }
    }

    /// FNV-1a, folded to the width.
    fn chain(&self, name: &str) -> &AtomicPtr<Symbol> {
        let hash = name.bytes().fold(0xcbf2_9ce4_8422_2325u64, |hash, byte| {
            (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3)
        });
        &self.chains[(hash ^ hash >> 32) as usize % WIDTH]
    }

    /// Goes along a chain to the symbol `name`, or to the word at its end.
    fn find<'a>(
        mut at: &'a AtomicPtr<Symbol>,
        name: &str,
    ) -> Result<&'a Symbol, &'a AtomicPtr<Symbol>> {
        // SAFETY: symbols stay until the table is dropped.
        while let Some(symbol) = unsafe { at.load(Ordering::Acquire).as_ref() } {
            if *symbol.name == *name {
                return Ok(symbol);
            }
            at = &symbol.next;
        }
        Err(at)
    }

    /// Callentry `lookup`: the value of `name`.
    pub fn lookup(&self, name: &str) -> Option<u64> {
        let symbol = Self::find(self.chain(name), name).ok()?;
        Some(symbol.value.load(Ordering::Acquire))
    }

    /// Callentry `add`: gives `name` the value, and returns the one it had.
    pub fn add(&self, name: &str, value: u64) -> Option<u64> {
        let mut end = match Self::find(self.chain(name), name) {
            Ok(symbol) => return Some(symbol.value.swap(value, Ordering::AcqRel)),
            Err(end) => end,
        };
        let new = Box::into_raw(Box::new(Symbol {
            name: name.into(),
            value: AtomicU64::new(value),
            next: AtomicPtr::new(ptr::null_mut()),
        }));
        loop {
            let published =
                end.compare_exchange(ptr::null_mut(), new, Ordering::AcqRel, Ordering::Acquire);
            if published.is_ok() {
                return None;
            }
            end = match Self::find(end, name) {
                Ok(symbol) => {
                    // SAFETY: never published, so still ours.
                    drop(unsafe { Box::from_raw(new) });
                    return Some(symbol.value.swap(value, Ordering::AcqRel));
                }
                Err(end) => end,
            };
        }
    }

    /// Calls `f` with every symbol and its value.
    pub fn for_each(&self, mut f: impl FnMut(&str, u64)) {
        for mut at in &self.chains {
            // SAFETY: symbols stay until the table is dropped.
            while let Some(symbol) = unsafe { at.load(Ordering::Acquire).as_ref() } {
                f(&symbol.name, symbol.value.load(Ordering::Acquire));
                at = &symbol.next;
            }
        }
    }
}

impl Default for Symtab {
    fn default() -> Self {
        Self::new()
    }
}

impl Drop for Symtab {
    fn drop(&mut self) {
        for chain in &self.chains {
            let mut at = chain.load(Ordering::Acquire);
            while !at.is_null() {
                // SAFETY: the table goes, so its symbols are ours.
                let symbol = unsafe { Box::from_raw(at) };
                at = symbol.next.load(Ordering::Acquire);
            }
        }
    }
}

#[cfg(all(test, loom))]
mod model {
    use super::*;

    #[test]
    fn of_two_who_add_the_same_name_one_finds_the_other() {
        loom::model(|| {
            let table = loom::sync::Arc::new(Symtab::new());
            let other = {
                let table = table.clone();
                loom::thread::spawn(move || table.add("x", 1))
            };
            let mine = table.add("x", 2);
            let theirs = other.join().unwrap();
            assert!(matches!((mine, theirs), (None, Some(2)) | (Some(1), None)));
            let left = if mine.is_none() { 1 } else { 2 };
            assert_eq!(table.lookup("x"), Some(left));
        });
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::catalogue::testing::Random;
    use std::collections::HashMap;

    #[test]
    fn a_table_is_a_map() {
        let table = Symtab::new();
        let mut model = HashMap::new();
        let mut random = Random::new(1);
        for _ in 0..5000 {
            let name = format!("symbol {}", random.below(700));
            if random.below(2) == 0 {
                let value = random.next();
                assert_eq!(table.add(&name, value), model.insert(name, value));
            } else {
                assert_eq!(table.lookup(&name), model.get(&name).copied());
            }
        }
        let mut all = HashMap::new();
        table.for_each(|name, value| {
            all.insert(name.to_string(), value);
        });
        assert_eq!(all, model);
    }

    #[test]
    fn threads_add_each_name_once() {
        let table = Symtab::new();
        std::thread::scope(|scope| {
            for n in 0..4 {
                let table = &table;
                scope.spawn(move || {
                    (0..500).for_each(|at| {
                        table.add(&format!("name {at}"), n);
                    })
                });
            }
        });
        let mut count = 0;
        table.for_each(|_, _| count += 1);
        assert_eq!(count, 500);
    }
}
