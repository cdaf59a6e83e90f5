//! The boot order, as a table of contents.
//!
//! *Interface*: [`boot`], which the `kernel_main` of a binary calls: the product's (`main.rs`), which has no
//! suites, or that of the room `trials`.
#![cfg(target_os = "none")]
#![no_std]

extern crate alloc;

mod banner;
mod boot_thread;
mod panic_report;
mod provoke;
mod smp;

/// The suite to run in place of the first program, if the command line asks for it.
pub struct Suites {
    /// When there is memory, before there are threads.
    pub alone: fn(),
    /// In a thread of its own.
    pub threaded: fn(),
    /// When there are files, before the first program.
    pub with_files: fn(),
}

/// Brings the rooms up, from the lowest to the highest, on the boot CPU, which has its own page tables,
/// descriptor tables and clocks by now. Interrupts are off until the boot thread becomes the idle thread.
pub fn boot(suites: &'static Suites) -> ! {
    banner::greet(); // say what machine this is
    boot_thread::root_fits(); // stops with the needed memory size if the root archive does not fit
    vm::init(); // frames, heap, address spaces, code space
    smp::synthesize_entry(); // this processor's system-call entry
    panic_report::link(); // names for the panic report
    (suites.alone)(); // in place of the rest, if asked for
    boot_thread::needed(thread::init(), "memory for the first threads"); // ready ring, switches, timer
    linux::trap::link(); // exceptions, calls, returns to user mode
    device::measure(); // where devices' registers lie, while nobody else reaches for any
    smp::start(); // the other processors
    boot_thread::needed(thread::grace::start(), "memory for a thread"); // what waits for all of them
    boot_thread::spawn(suites); // console, files, the first program: a thread of its own
    thread::idle() // the boot thread idles from here on
}
