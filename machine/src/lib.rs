//! The x86-64 itself: boot, traps, interrupts, clocks, ports, per-CPU data.
//!
//! *Interface*: one module for each subject. The assembly entry brings the boot CPU up and then calls the
//! kernel room's `kernel_main`; everything else is called from there. `smp::start_others` brings the other
//! processors up. The machine calls higher rooms through [`trap::Callouts`] and [`panic_report::Callouts`]
//! (dissertation, section 4.1.3).
//!
//! On a host (unit tests of this and higher rooms) the crate compiles with no machine underneath: one
//! CPU, no interrupts, user copies are plain copies.
#![cfg_attr(not(test), no_std)]
// On a host nothing boots, so what only boot calls is unused there.
#![cfg_attr(not(target_os = "none"), allow(dead_code, unused_imports))]

pub mod apic;
pub mod boot;
pub mod clock;
pub mod cpio;
pub mod cpu;
pub mod date;
pub mod debug_registers;
pub mod entry_mitigations;
pub mod features;
pub mod fpu;
pub mod irq;
pub mod irqs_off;
pub mod log;
pub mod mitigate;
pub mod paging;
pub mod panic_report;
pub mod pci;
pub mod port;
pub mod power;
pub mod random;
pub mod rtc;
#[cfg(target_os = "none")]
pub mod selfcheck;
pub mod single_step;
#[cfg(target_os = "none")]
pub mod smp;
pub mod symbols;
pub mod syscall_entry;
pub mod topology;
pub mod trap;
pub mod user;

#[cfg(target_os = "none")]
mod acpi_tables;
#[cfg(target_os = "none")]
mod boot_page_tables;
mod handlers;
#[cfg(target_os = "none")]
mod idt;
mod ioapic;
#[cfg(target_os = "none")]
mod kaslr;
#[cfg(target_os = "none")]
mod pvh_entry;
#[cfg(target_os = "none")]
mod segments;
mod trap_frame;
mod tsc_sync;
mod tss;
