//! The boot order, as a table of contents.
//!
//! *Interface*: [`kernel_main`], which `machine` calls on the boot CPU when it has its own page
//! tables, descriptor tables and clocks. Interrupts are off until the boot thread becomes the idle thread.
#![cfg_attr(target_os = "none", no_std, no_main)]

#[cfg(target_os = "none")]
extern crate alloc;

#[cfg(target_os = "none")]
mod checks;
#[cfg(target_os = "none")]
mod costs;
#[cfg(target_os = "none")]
mod hello;
#[cfg(target_os = "none")]
mod others;
#[cfg(target_os = "none")]
mod provoke;
#[cfg(target_os = "none")]
mod report;
#[cfg(target_os = "none")]
mod selftest;
#[cfg(target_os = "none")]
mod session;
#[cfg(target_os = "none")]
mod torture;

/// Brings the rooms up, from the lowest to the highest.
#[cfg(target_os = "none")]
#[unsafe(no_mangle)]
extern "C" fn kernel_main() -> ! {
    hello::greet(); // say what machine this is
    session::root_fits(); // or a line that says what would do
    vm::init(); // frames, heap, address spaces, code space
    others::synthesize_entry(); // this processor's system-call entry
    report::link(); // names for the panic report
    checks::run_if_asked(); // the rooms' own checks, in place of the rest
    session::needed(thread::init(), "memory for the first thread"); // ready ring, switches, timer
    unix::trap::link(); // exceptions, calls, returns to user mode
    others::start(); // the other processors
    session::needed(thread::grace::start(), "memory for a thread"); // what waits for all of them
    session::spawn(); // console, files, the first program: a thread of its own
    thread::idle() // the boot thread idles from here on
}

#[cfg(not(target_os = "none"))]
fn main() {
    eprintln!("the kernel runs on the bare machine only: cargo xtask run");
}
