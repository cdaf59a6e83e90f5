//! Filters and software locked loops: pure arithmetic (dissertation, chapter 6).
#![cfg_attr(not(test), no_std)]
