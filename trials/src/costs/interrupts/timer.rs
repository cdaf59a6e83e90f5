//! The PC's timer in the place of a device that interrupts for each sample.
//!
//! *Interface*: [`start`] and [`stop`]. Its interrupt is edge triggered and wants no answer.
//! Source: Intel 8254 data sheet, mode 2.

use machine::{irq, port};

/// Its frequency, its ports, and its interrupt line.
const HZ: u32 = 1_193_182;
const COMMAND: u16 = 0x43;
const COUNTER: u16 = 0x40;
const LINE: u8 = 0;

/// Command: counter 0, both bytes, again and again; the same, once.
const PERIODIC: u8 = 0x34;
const ONCE: u8 = 0x30;

/// Has it interrupt at `vector` of the first CPU, at least `wanted` times in a second; says how often.
pub fn start(vector: u8, wanted: u32) -> u64 {
    let divisor = (HZ / wanted).max(1) as u16;
    irq::route(irq::isa(LINE), vector, 0);
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
    irq::mask(irq::isa(LINE));
    // SAFETY: as above. Without a count it waits.
    unsafe { port::outb(COMMAND, ONCE) };
}
