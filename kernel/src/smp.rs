//! SMP: the start of every CPU, by its own code.
//!
//! *Interface*: [`synthesize_entry`] on each; [`start`] on the boot processor.

use machine::{entry_mitigations, log, smp, syscall_entry};

/// Generates this processor's system-call entry. Without code memory the assembled one stays.
pub fn synthesize_entry() {
    if syscall_entry::synthesize().is_err() {
        assert!(
            !entry_mitigations::enters_on_kernel_stack(),
            "no code memory for the guarded system-call entry"
        );
        log!("no code memory for the system-call entry");
    }
}

/// Starts the other processors; each becomes idle and takes work.
pub fn start() {
    smp::start_others(main);
}

fn main() -> ! {
    synthesize_entry();
    thread::idle()
}
