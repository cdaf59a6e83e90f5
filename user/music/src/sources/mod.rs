//! Generators: streams out of nothing, always the same.
//!
//! *Interface*: [`tone`] has waves and noise, [`drums`] the sounds of a drum kit, [`rhythm`] music with a
//! beat for those that listen to the beat of music.

pub mod drums;
pub mod rhythm;
pub mod tone;
