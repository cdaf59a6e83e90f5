//! The boot order.
#![cfg_attr(target_os = "none", no_std, no_main)]

#[cfg(target_os = "none")]
mod boot;

#[cfg(not(target_os = "none"))]
fn main() {
    eprintln!("the kernel runs on the bare machine only: cargo xtask run");
}
