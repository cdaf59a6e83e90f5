//! The kernel as users have it, without suites. The boot order is in `kernel/src/lib.rs`.
//!
//! *Interface*: `kernel_main`, which `machine` calls on the boot CPU when it has its own page tables,
//! descriptor tables and clocks.
#![cfg_attr(target_os = "none", no_std, no_main)]

#[cfg(target_os = "none")]
#[unsafe(no_mangle)]
extern "C" fn kernel_main() -> ! {
    kernel::boot(&kernel::Suites {
        alone: || (),
        threaded: || (),
        with_files: || (),
    })
}

#[cfg(not(target_os = "none"))]
fn main() {
    eprintln!("the kernel runs on the bare machine only: cargo xtask run");
}
