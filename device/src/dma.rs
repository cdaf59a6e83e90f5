//! Memory that devices and generated code reach, by the addresses that they have for it.
//!
//! *Interface*: [`physical`] is for a device, [`near`] for generated code.

/// The physical address of near memory. On a host, where a test is the device, the address itself.
pub fn physical(at: usize) -> u64 {
    #[cfg(target_os = "none")]
    let at = at.wrapping_sub(machine::paging::window(0));
    at as u64
}

/// The address of near memory as generated code has it: sign-extended from 32 bits.
pub fn near(at: usize) -> Option<i32> {
    (at as i32 as isize as usize == at).then_some(at as i32)
}
