//! A model of configuration space, for tests: functions with words that a device compares or ignores.
//!
//! *Interface*: [`Model`]; [`Model::set`] words, [`Model::bar`] for a base address that answers with its
//! size.
//!
//! *Unsafe*: the trait's functions, of a model.

use super::{ConfigAccess, Sizes};
use pci_types::{ConfigRegionAccess, PciAddress};
use std::collections::HashMap;
use std::sync::Mutex;

/// A word: what it holds, and which bits can be written.
type Word = (u32, u32);

/// The space.
#[derive(Default)]
pub struct Model(Mutex<HashMap<(u32, u16), Word>>, Sizes);

fn key(at: PciAddress, offset: u16) -> (u32, u16) {
    let function = u32::from(at.function());
    (
        u32::from(at.bus()) << 8 | u32::from(at.device()) << 3 | function,
        offset,
    )
}

impl Model {
    /// A space that stays.
    pub fn leaked() -> &'static Model {
        Box::leak(Box::default())
    }

    /// A word of the function at `at`, of which the bits `writable` can be written.
    pub fn set(&self, at: PciAddress, offset: u16, value: u32, writable: u32) {
        self.0
            .lock()
            .unwrap()
            .insert(key(at, offset), (value, writable));
    }

    /// A function that is there: its identity, the kind of its header, and a command register.
    pub fn function(&self, at: PciAddress, id: u32, header: u8) {
        self.set(at, 0, id, 0);
        self.set(at, 4, 0, 0xffff);
        self.set(at, 12, u32::from(header) << 16, 0);
    }

    /// Base address `index`: `value` with its flags, of which `mask` is compared.
    pub fn bar(&self, at: PciAddress, index: u16, value: u32, mask: u32) {
        self.set(at, 0x10 + 4 * index, value, mask);
    }

    /// The value of a word.
    pub fn get(&self, at: PciAddress, offset: u16) -> u32 {
        let words = self.0.lock().unwrap();
        let there = words.contains_key(&key(at, 0));
        let nothing = if there { 0 } else { u32::MAX };
        words.get(&key(at, offset)).map_or(nothing, |word| word.0)
    }
}

impl ConfigAccess for Model {
    /// Of the slot's status, above all, where a bit that is written takes itself back.
    fn write_half(&self, at: PciAddress, offset: u16, value: u16) {
        let mut words = self.0.lock().unwrap();
        if let Some((word, writable)) = words.get_mut(&key(at, offset & !3)) {
            let shift = 8 * u32::from(offset & 2);
            let (value, half) = (u32::from(value) << shift, 0xffff << shift);
            match shift {
                0 => *word = *word & !(*writable & half) | value & *writable,
                _ => *word &= !value,
            }
        }
    }

    fn sizes(&self) -> &Sizes {
        &self.1
    }
}

impl ConfigRegionAccess for Model {
    unsafe fn read(&self, at: PciAddress, offset: u16) -> u32 {
        assert!(offset.is_multiple_of(4) && offset < 0x1000);
        self.get(at, offset)
    }

    unsafe fn write(&self, at: PciAddress, offset: u16, value: u32) {
        let mut words = self.0.lock().unwrap();
        if let Some((word, writable)) = words.get_mut(&key(at, offset)) {
            *word = *word & !*writable | value & *writable;
        }
    }
}
