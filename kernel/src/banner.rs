//! The banner: the first lines of the log at boot.
//!
//! *Interface*: [`greet`].

use machine::{apic, boot, clock, cpu, features, log};

/// The machine, as the firmware and the processor describe it.
pub fn greet() {
    let info = boot::info();
    let free: usize = info.regions.iter().map(|r| r.len).sum();
    log!("Synthesis {}", env!("CARGO_PKG_VERSION"));
    log!(
        "{} KiB free, initrd {} KiB, command line \"{}\"",
        free >> 10,
        info.initrd.len() >> 10,
        info.cmdline
    );
    log!(
        "{} processors, tsc {} kHz, apic timer {} kHz, {} s since 1970",
        cpu::present(),
        clock::tsc_khz(),
        apic::timer_khz(),
        clock::wall_at_boot()
    );
    let mut line = log::LogLine::new();
    for name in features::get().names() {
        use core::fmt::Write;
        // Writing to a line cannot fail.
        let _ = write!(line, "{name} ");
    }
    line.flush();
}
