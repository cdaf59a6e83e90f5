//! KASLR: before anything else the kernel moves itself to an address drawn by lot.
//!
//! *Interface*: [`slide`], called by the entry on the temporary tables. The image stays where it is in
//! memory; what moves is where it is seen, with all of `WINDOW`, in steps of 2 MiB. `nokaslr` on the command
//! line, or no list of places, leaves it where it is linked.
//!
//! Code reaches the image relative to itself or by addresses that the linker has filled in. The latter are
//! listed by the host tool in `.synthesis/kernel.rel` (docs/run-contract.md): each gets the distance added,
//! in place, while the image can be seen at both addresses; then the entry goes on at the new one. A value
//! computed from an address before would be stale, so there is none.

use crate::paging::{bits, phys_to_virt};
use crate::{boot, cpio, features, random};
use abi::layout::{WINDOW, WINDOW_LEN};
use core::arch::asm;

/// The list's place in the initrd.
const FILE: &[u8] = b".synthesis/kernel.rel";
const STEP: usize = 2 << 20;
/// At least so much of the window may be given up for the lot.
const LEAST: usize = 256 << 20;

unsafe extern "C" {
    static __image_start: [u8; 0];
    static __image_end: [u8; 0];
    static mut boot_pdpt_high: [u64; 512];
    static boot_pd_window: [u64; 512];
}

/// Moves the image and answers how far. The loader's structures are at physical `start_info`.
///
/// # Safety
/// First of all, on the temporary tables; the caller goes on at the new address, with its stack too.
pub(crate) unsafe extern "C" fn slide(start_info: usize) -> usize {
    // SAFETY: the entry passes what the loader passed.
    let (line, initrd, top) = unsafe { boot::glance(start_info) };
    let fixed = line
        .split(|byte| *byte == b' ')
        .any(|word| word == b"nokaslr");
    // SAFETY: the loader's module, which the temporary tables show.
    let initrd =
        unsafe { core::slice::from_raw_parts(phys_to_virt(initrd.start) as *const u8, initrd.len) };
    let mut files = cpio::entries(initrd).take(4).map_while(Result::ok);
    let Some(list) = files.find(|file| file.name == FILE) else {
        return 0;
    };
    if fixed {
        return 0;
    }
    features::init();
    // The image as linked, which is not to be hidden by what moves.
    let linked = (&raw const __image_end as usize - WINDOW).div_ceil(STEP);
    let room = WINDOW_LEN.saturating_sub(top).max(LEAST) / STEP;
    let steps = linked + random::u64() as usize % (room - linked);
    let distance = steps * STEP;
    // SAFETY: the boot CPU alone runs, with nothing but this function; both addresses show the image while it
    // changes.
    unsafe {
        show(steps, linked);
        move_by(distance, list.data);
        // Instructions that were fetched before are stale.
        core::arch::x86_64::__cpuid(0);
    }
    distance
}

/// Maps the window `steps` further up, and the image's first `linked` steps where they are linked.
///
/// # Safety
/// On the temporary tables, with nothing else running.
unsafe fn show(steps: usize, linked: usize) {
    let table = (&raw const boot_pd_window).cast_mut().cast::<u64>();
    for at in 0..512usize {
        let from = match at.checked_sub(steps) {
            Some(from) => Some(from),
            None => Some(at).filter(|at| *at < linked),
        };
        let entry = from.map_or(0, |from| {
            (from * STEP) as u64 | bits::PRESENT | bits::WRITE | bits::LARGE
        });
        // SAFETY: the table is this function's, and has 512 entries.
        unsafe { table.add(at).write(entry) };
    }
    // SAFETY: the new table shows the image where it is, and more.
    unsafe {
        boot_pdpt_high[510] = (table as usize - WINDOW) as u64 | bits::PRESENT | bits::WRITE;
        asm!("mov {0}, cr3", "mov cr3, {0}", out(reg) _, options(nostack));
    }
}

/// Adds `distance` to every place of the list.
///
/// # Safety
/// The list is that of this image, which can be written.
unsafe fn move_by(distance: usize, list: &[u8]) {
    let start = &raw const __image_start as usize;
    let mut bytes = list.iter().copied();
    for long in [false, true] {
        let mut at = start;
        loop {
            let step = match bytes.next() {
                None | Some(0) => break,
                Some(255) => {
                    let word = [(); 4].map(|()| bytes.next().unwrap_or(0));
                    u32::from_le_bytes(word) as usize
                }
                Some(step) => step as usize,
            };
            at += step;
            // SAFETY: the caller's promise; places are not aligned.
            unsafe {
                if long {
                    let place = at as *mut usize;
                    place.write_unaligned(place.read_unaligned().wrapping_add(distance));
                } else {
                    let place = at as *mut u32;
                    place.write_unaligned(place.read_unaligned().wrapping_add(distance as u32));
                }
            }
        }
    }
}
