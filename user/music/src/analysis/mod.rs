//! Analysis: what there is in a stream.
//!
//! *Interface*: [`spectrum`] has frequencies, [`correlator`] likeness at a distance in time, [`onsets`] the
//! beginnings of sounds, [`tempo`] their period, [`tracker`] the beat.

pub mod correlator;
pub mod onsets;
pub mod spectrum;
pub mod tempo;
pub mod tracker;
