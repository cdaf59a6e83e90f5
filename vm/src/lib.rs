//! Frames, page tables, address spaces, and the kernel's code space.
//!
//! *Interface*: `init` once at boot; [`frame`] (physical memory), the kernel heap ([`heap`]), [`fallible`]
//! (memory that may be refused), [`space::AddressSpace`] (a process's memory), [`user`] (the kernel's access
//! to user memory), [`stack`] (kernel stacks), [`code`] (where generated code lives), [`mmio`] (device
//! registers).
//!
//! Nothing here knows threads, files or system calls. A space asks a [`space::Pager`] for the
//! content of a file page; running out of memory is an error value everywhere.
//! On the host an arena of fake physical memory stands for the machine's ([`frame::Kernel`]),
//! made at first use, so that higher rooms can test against frames and spaces.
#![cfg_attr(not(test), no_std)]
// On the host nothing boots, so what only boot calls is unused there.
#![cfg_attr(not(target_os = "none"), allow(dead_code))]

extern crate alloc;
#[cfg(not(target_os = "none"))]
extern crate std;

#[cfg(target_os = "none")]
mod boot;
mod boot_cell;
pub mod code;
#[cfg(test)]
mod fake;
pub mod fallible;
pub mod frame;
pub mod heap;
mod kernel;
mod magazine;
pub mod mmio;
mod primitive;
#[cfg(target_os = "none")]
pub mod selfcheck;
pub mod space;
pub mod sparse;
pub mod stack;
pub mod table;
pub mod tlb;
pub mod user;
pub mod wx_audit;

pub use frame::{Frame, FrameRef};
pub use space::{Access, AddressSpace, AreaInfo, Backing, FaultError, Pager, Placement};
pub use table::Prot;

/// Takes over the machine's memory: frame metadata from the boot memory map, the heap, the code space.
/// On the boot CPU, with interrupts off, before any allocation. Panics when the memory map
/// holds too little memory for the metadata.
#[cfg(target_os = "none")]
pub fn init() {
    // SAFETY: the caller promises to be alone and early.
    unsafe {
        boot::memory();
        kernel::init();
    }
    tlb::init();
    code::link();
}
