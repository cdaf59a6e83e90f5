//! Threads: table entries, ready rings, generated switches (dissertation, 3.3.2, 4.3, 5.3).
#![cfg_attr(not(test), no_std)]
