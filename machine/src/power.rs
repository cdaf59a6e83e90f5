//! Ending, and telling the host why: power-off and the control channel.
//!
//! *Interface*: [`report`] writes one line to the control port (0xe8); [`off`] powers off.
//! docs/run-contract.md says which lines the host understands.

use core::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

const CONTROL: u16 = 0xe8;
const PRESENT: u8 = 0xe9;
const DEBUG_EXIT: u16 = 0xf4;
const RESET: u16 = 0xcf9;
const SLEEP_ENABLE: u16 = 1 << 13;

static HAVE_CONTROL: AtomicBool = AtomicBool::new(false);
/// PM1a control port and sleep type: `port << 8 | type`; 0: none.
static PM1A: AtomicUsize = AtomicUsize::new(0);
/// Sleep control register of reduced hardware: its physical address; 0: none.
static SLEEP_REGISTER: AtomicUsize = AtomicUsize::new(0);
static SLEEP_TYPE: AtomicUsize = AtomicUsize::new(0);

/// Looks for the control port.
#[cfg(target_os = "none")]
pub(crate) fn init() {
    // SAFETY: reading this port has no effect where nothing or a debug console is.
    let found = unsafe { crate::port::inb(CONTROL) } == PRESENT;
    HAVE_CONTROL.store(found, Ordering::Relaxed);
}

#[cfg(target_os = "none")]
pub(crate) fn set_pm1a(port: u16, sleep_type: u8) {
    PM1A.store(
        usize::from(port) << 8 | usize::from(sleep_type),
        Ordering::Relaxed,
    );
}

#[cfg(target_os = "none")]
pub(crate) fn set_sleep_register(address: usize, sleep_type: u8) {
    SLEEP_REGISTER.store(address, Ordering::Relaxed);
    SLEEP_TYPE.store(sleep_type as usize, Ordering::Relaxed);
}

/// Physical address of the memory-mapped sleep register, when there is one.
#[cfg(target_os = "none")]
pub(crate) fn sleep_register() -> Option<usize> {
    match SLEEP_REGISTER.load(Ordering::Relaxed) {
        0 => None,
        address => Some(address),
    }
}

/// Writes `line` and a newline to the control port, when there is one.
pub fn report(line: &str) {
    report_bytes(line.as_bytes());
    report_bytes(b"\n");
}

/// Writes raw bytes to the control port, when there is one.
pub fn report_bytes(bytes: &[u8]) {
    if HAVE_CONTROL.load(Ordering::Relaxed) {
        for &byte in bytes {
            // SAFETY: `init` found the host's debug console at this port.
            unsafe { crate::port::outb(CONTROL, byte) };
        }
    }
}

/// Powers the machine off: ACPI's S5, else QEMU's debug exit, else a reset.
pub fn off() -> ! {
    // Bound: the end of the machine.
    crate::cpu::irq_disable();
    #[cfg(target_os = "none")]
    // SAFETY: the registers are the ones that the firmware names for this purpose; those of QEMU and the
    // reset register are reached only when the former did nothing.
    unsafe {
        let pm1a = PM1A.load(Ordering::Relaxed);
        if pm1a != 0 {
            let sleep_type = (pm1a & 7) as u16;
            crate::port::outw((pm1a >> 8) as u16, SLEEP_ENABLE | sleep_type << 10);
        }
        if sleep_register().is_some() {
            let value = 1 << 5 | (SLEEP_TYPE.load(Ordering::Relaxed) as u8 & 7) << 2;
            (crate::paging::SLEEP_REGISTER_PAGE as *mut u8)
                .add(sleep_register().unwrap_or(0) & (abi::layout::PAGE - 1))
                .write_volatile(value);
        }
        crate::port::outb(DEBUG_EXIT, 0);
        crate::port::outb(RESET, 6);
    }
    crate::cpu::halt()
}
