//! The boot order, as a table of contents. `machine` calls [`kernel_main`] on the boot CPU when it has its own page
//! tables, descriptor tables and clocks.

use machine::{apic, boot, clock, cpu, features, log, power};

/// Brings the rooms up from the lowest to the highest.
#[unsafe(no_mangle)]
extern "C" fn kernel_main() -> ! {
    hello();
    cpu::start_others(other_main); // the other processors
    log!("{} cpus up", cpu::cpus());
    power::off()
}

/// What every other processor runs.
fn other_main() -> ! {
    log!("cpu {} up", cpu::this_cpu().number());
    loop {
        cpu::wait_for_interrupt();
    }
}

fn hello() {
    let info = boot::info();
    let free: usize = info.regions.iter().map(|r| r.len).sum();
    log!("Synthesis");
    log!(
        "  {} KiB of memory free, initrd {} bytes, command line: {}",
        free >> 10,
        info.initrd.len(),
        info.cmdline
    );
    log!(
        "  {} cpus, tsc {} kHz, apic timer {} kHz, {} s since 1970",
        cpu::present(),
        clock::tsc_khz(),
        apic::timer_khz(),
        clock::wall_at_boot()
    );
    for name in features::get().names() {
        log!("  has {name}");
    }
}

#[panic_handler]
fn panic(info: &core::panic::PanicInfo) -> ! {
    match info.location() {
        Some(at) => machine::report::panic(format_args!("{} ({at})", info.message())),
        None => machine::report::panic(format_args!("{}", info.message())),
    }
}
