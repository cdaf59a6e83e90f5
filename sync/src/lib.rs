//! Structures that wait for no lock, one algorithm a file (dissertation, chapter 5).
#![cfg_attr(not(test), no_std)]
