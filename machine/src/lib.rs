//! The x86-64 itself: boot, traps, interrupts, clocks, ports, per-CPU data.
#![cfg_attr(not(test), no_std)]
