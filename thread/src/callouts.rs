//! What `sync` needs of threads, linked at boot.
//!
//! *Interface*: [`link`]. Source: dissertation, section 4.1.3.

use crate::block::{resume_address, suspend, yield_now};
use crate::flags::INTERRUPTS;
use crate::kick;
use crate::tte::{Tte, current_opt};
use machine::cpu::{irq_restore, irq_save, this_cpu};
use sync::callout::Callouts;

static CALLOUTS: Callouts = Callouts {
    current: || current_opt().map_or(0, Tte::address),
    suspend,
    resume: resume_address,
    interrupted: || current_opt().is_some_and(|me| me.flags() & INTERRUPTS != 0),
    yield_now,
    cpu: || this_cpu().number(),
    irq_save,
    irq_restore,
    nudge: kick::send_to_others,
    ..sync::callout::DEFAULT
};

pub(crate) fn link() {
    sync::callout::link(&CALLOUTS);
}
