//! The synthesizer: drafts, routines and the code space (dissertation, chapter 3).
#![cfg_attr(not(test), no_std)]
