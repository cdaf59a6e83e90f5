//! Quajects: their definition, linking, and the catalogue (dissertation, chapter 4).
#![cfg_attr(not(test), no_std)]
