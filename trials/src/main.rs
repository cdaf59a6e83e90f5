//! The kernel with suites that run in place of the first program, when the command line asks for one.
//!
//! *Interface*: `kernel_main`, which `machine` calls on the boot CPU. Without a word for a suite this kernel
//! is the product's, that has none of their text, and one kind of file system more.
#![cfg_attr(target_os = "none", no_std, no_main)]

#[cfg(target_os = "none")]
extern crate alloc;

#[cfg(target_os = "none")]
mod checks;
#[cfg(target_os = "none")]
mod costs;
#[cfg(target_os = "none")]
mod faulty_fs;
#[cfg(target_os = "none")]
mod flood;
#[cfg(target_os = "none")]
mod selftest;
#[cfg(target_os = "none")]
mod torture;

#[cfg(target_os = "none")]
#[unsafe(no_mangle)]
extern "C" fn kernel_main() -> ! {
    kernel::boot(&kernel::Suites {
        alone: checks::run_if_asked,
        threaded: selftest::run_if_asked,
        with_files: || {
            faulty_fs::add_kind();
            flood::begin_if_asked();
        },
    })
}

#[cfg(not(target_os = "none"))]
fn main() {
    eprintln!("the suites run on the bare machine only: cargo xtask test threads torture");
}
