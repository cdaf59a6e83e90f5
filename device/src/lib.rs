//! Device servers: protocol from kept crates, data path synthesized (dissertation, 4.4.2).
#![cfg_attr(not(test), no_std)]
