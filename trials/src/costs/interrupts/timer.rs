//! The PC's timer in the place of a device that interrupts for each sample.
//!
//! *Interface*: [`start`] and [`stop`]; or [`route`], and then [`set`] and [`rest`] again and again.
//! Its interrupt is edge triggered and wants no answer.
//! Source: Intel 8254 data sheet, mode 2.
//!
//! *Unsafe*: ports of the PC's timer.

use machine::{irq, port};

/// Its frequency, its ports, and its interrupt line.
const HZ: u32 = 1_193_182;
const COMMAND: u16 = 0x43;
const COUNTER: u16 = 0x40;
const LINE: u8 = 0;

/// Command: counter 0, both bytes, again and again; the same, once.
const PERIODIC: u8 = 0x34;
const ONCE: u8 = 0x30;

/// The global number of its interrupt.
pub fn line() -> u32 {
    irq::isa(LINE)
}

/// Has it interrupt at `vector` of the first CPU.
pub fn route(vector: u8) {
    irq::route(line(), vector, 0);
}

/// Has it interrupt there, at least `wanted` times in a second; says how often.
pub fn start(vector: u8, wanted: u32) -> u64 {
    route(vector);
    set(wanted)
}

/// The same where it interrupts already. At least 20 times.
pub fn set(wanted: u32) -> u64 {
    let divisor = (HZ / wanted.max(20)).max(1) as u16;
    // SAFETY: the timer's own ports, which the kernel does not use after its start.
    unsafe {
        port::outb(COMMAND, PERIODIC);
        port::outb(COUNTER, divisor as u8);
        port::outb(COUNTER, (divisor >> 8) as u8);
    }
    u64::from(HZ / u32::from(divisor))
}

/// It interrupts no more.
pub fn stop() {
    irq::mask(line());
    rest();
}

/// It interrupts no more until it is set again.
pub fn rest() {
    // SAFETY: as above. Without a count it waits.
    unsafe { port::outb(COMMAND, ONCE) };
}
