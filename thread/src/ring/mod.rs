//! The scheduler's data of each CPU: its run queue (ready rings and their steal queue), the chain of its
//! interrupts, its timer and alarms, and the interrupts by which other CPUs ask it for something.
//!
//! *Interface*: [`ready`] is the run queue, [`steal_queue`] its threads that any CPU may take, [`budget`] its
//! threads with a deadline; [`idle_cpus`] finds an idle CPU, [`inbox`] sends a thread to another CPU,
//! [`reschedule_ipi`] and [`ipi_pending`] interrupt one; [`cpu_timer`] arms the timer, [`granularity`]
//! chooses the quanta of a turn, [`chain`] runs procedures at the end of an interrupt. [`per_cpu`] has all
//! data of a CPU. Only that CPU uses it, with interrupts off, except for the words that say otherwise.

pub(crate) mod budget;
pub mod chain;
pub(crate) mod cpu_timer;
pub(crate) mod granularity;
pub(crate) mod idle_cpus;
pub(crate) mod inbox;
pub(crate) mod ipi_pending;
pub(crate) mod per_cpu;
pub mod ready;
pub(crate) mod reschedule_ipi;
pub mod steal_queue;
