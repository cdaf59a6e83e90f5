//! Filters and software locked loops: pure arithmetic (dissertation, chapter 6).
//!
//! *Interface*: [`filter`] has the three filters of figures 6.4 to 6.6, [`fll`] the frequency locked loop of
//! figure 6.3, [`ill`] the interval locked loop of section 6.2.2, [`quantum`] the loop of a thread's quantum
//! of section 6.3.1, [`granularity`] how many quanta make a turn, [`groups`] the turns of threads by the
//! weights of their groups, [`wake_affinity`] whether two threads share a CPU (section 6.4.3),
//! [`interrupt_storm`] the loop that meets interrupts which come too fast, [`clock_discipline`] the
//! discipline of the clock of the day of section 6.4.1, [`estimate`] predicts whether a job meets its
//! deadline (section 6.4.2). Integers only, no clock, no interrupt: the caller brings the time and acts on
//! the answer.
//!
//! Which loop (section 6.2.4): slow events and a fine clock favour the interval; fast events and a coarse
//! clock, or events that must not be lost, favour the frequency.
#![cfg_attr(not(test), no_std)]

pub mod clock_discipline;
pub mod estimate;
pub mod filter;
pub mod fll;
pub mod granularity;
pub mod groups;
pub mod ill;
pub mod interrupt_storm;
pub mod quantum;
pub mod wake_affinity;

pub use clock_discipline::Discipline;
pub use filter::LowPass;
pub use fll::Fll;
pub use ill::Ill;
pub use interrupt_storm::StormLoop;
pub use quantum::QuantumLoop;
