//! Voice: the ring of frames of one that plays, and what the mixer keeps about it.
//!
//! *Interface*: [`Voice`] is made over a [`Channel`], whose writers may have generated routines;
//! [`FRAMES`] is the callout by which the mixer gets frames in place of those of the ring.
//!
//! *Unsafe*: words in a near block.

use super::{FRAME, LONGEST};
use crate::kit::class::Header;
use crate::kit::near_memory::NearBlock;
use crate::kit::routine_env::{RoutineError, near};
use crate::kit::signature::Read;
use crate::queue::{Channel, Layout};
use alloc::sync::Arc;
use core::mem::offset_of;
use core::sync::atomic::{AtomicU16, AtomicU32, Ordering};

/// The description of a voice.
#[derive(Clone)]
pub struct VoiceSpec {
    /// Its ring.
    pub channel: Arc<Channel>,
    /// Frames that have to wait before it begins.
    pub start: u32,
    /// Blocks after which it begins with fewer.
    pub patience: u32,
    /// Its volume, of [`Voice::FULL`].
    pub volume: u16,
}

/// The words of a voice that the mixer's code reads and writes, in near memory.
#[repr(C)]
pub(super) struct Words {
    /// Frames that have to wait before it plays: 0 while it does.
    pub threshold: AtomicU32,
    /// The first value of `threshold`.
    pub start: AtomicU32,
    /// Blocks that it will still wait for.
    pub patience: AtomicU32,
    /// The first value of `patience`.
    pub patient: AtomicU32,
    /// How often it ran dry.
    pub dry: AtomicU32,
    /// No more frames come: to run dry is its end.
    pub ends: AtomicU32,
}

/// One voice.
pub struct Voice {
    spec: VoiceSpec,
    volume: AtomicU16,
    words: NearBlock,
    /// Where a converted block lies.
    block: NearBlock,
    header: &'static Header,
}

crate::quaject! {
    /// Plays frames
    class Voice = "Player", spec VoiceSpec, error RoutineError {
        callout { FRAMES: Read = "get_frames" ("those of its ring") }
    }
    make Voice::new;
}

/// Sign-extended addresses of a voice's parts.
#[derive(Clone, Copy)]
pub(super) struct At {
    pub ring: Layout,
    pub threshold: i32,
    pub start: i32,
    pub patience: i32,
    pub patient: i32,
    pub dry: i32,
    pub ends: i32,
    pub block: i32,
    pub volume: u16,
}

impl Voice {
    /// Full volume.
    pub const FULL: u16 = 256;

    fn new(spec: VoiceSpec, header: &'static Header) -> Result<Voice, RoutineError> {
        let voice = Voice {
            words: NearBlock::new(size_of::<Words>()).ok_or(RoutineError::OutOfMemory)?,
            block: NearBlock::new(LONGEST as usize * FRAME).ok_or(RoutineError::OutOfMemory)?,
            volume: AtomicU16::new(spec.volume),
            spec,
            header,
        };
        let words = voice.words();
        words.start.store(voice.spec.start, Ordering::Relaxed);
        words.patient.store(voice.spec.patience, Ordering::Relaxed);
        voice.begin_again();
        Ok(voice)
    }

    pub(super) fn words(&self) -> &Words {
        // SAFETY: the block holds zeroed words, and is aligned to a line.
        unsafe { self.words.at().cast::<Words>().as_ref() }
    }

    pub(super) fn at(&self) -> Result<At, RoutineError> {
        let words = near(self.words.at().as_ptr())? as i32;
        Ok(At {
            ring: self.spec.channel.queue().layout()?,
            threshold: words + offset_of!(Words, threshold) as i32,
            start: words + offset_of!(Words, start) as i32,
            patience: words + offset_of!(Words, patience) as i32,
            patient: words + offset_of!(Words, patient) as i32,
            dry: words + offset_of!(Words, dry) as i32,
            ends: words + offset_of!(Words, ends) as i32,
            block: near(self.block.at().as_ptr())? as i32,
            volume: self.volume(),
        })
    }

    /// Its ring.
    pub fn channel(&self) -> &Arc<Channel> {
        &self.spec.channel
    }

    /// Its description.
    pub fn spec(&self) -> &VoiceSpec {
        &self.spec
    }

    /// Its volume, of [`Voice::FULL`].
    pub fn volume(&self) -> u16 {
        self.volume.load(Ordering::Relaxed)
    }

    /// Sets it; the mixer is to be set again.
    pub fn set_volume(&self, volume: u16) {
        self.volume.store(volume, Ordering::Relaxed);
    }

    /// How often it ran dry.
    pub fn dry(&self) -> u32 {
        self.words().dry.load(Ordering::Relaxed)
    }

    /// Whether it has begun and has not run dry since.
    pub fn plays(&self) -> bool {
        self.words().threshold.load(Ordering::Acquire) == 0
    }

    /// It begins with what there is: no more frames come. Or it goes on as before.
    pub fn end(&self, ends: bool) {
        let words = self.words();
        words.ends.store(u32::from(ends), Ordering::Release);
        if ends {
            words.threshold.store(1, Ordering::Release);
        }
    }

    /// It waits for its first frames.
    pub fn begin_again(&self) {
        let words = self.words();
        words.ends.store(0, Ordering::Release);
        words.patience.store(self.spec.patience, Ordering::Release);
        words.threshold.store(self.spec.start, Ordering::Release);
    }

    /// Begins at once, when some frames are there.
    pub fn begin(&self) {
        self.words().threshold.store(1, Ordering::Release);
    }

    /// Whether its frames come by a link.
    pub fn is_staged(&self) -> bool {
        self.header.is_linked(&[FRAMES.number()])
    }

    /// Reference implementation of its part of the mixing routine: into `block`, which has what other voices
    /// have played, or nothing yet if this is the `first`. Not for a voice whose frames come by a link.
    #[cfg(test)]
    pub(super) fn mix_into(&self, block: &mut [[i16; 2]], first: bool) {
        let words = self.words();
        let queue = self.spec.channel.queue();
        let waiting = queue.len() / FRAME;
        if first {
            block.fill([0; 2]);
        }
        if waiting < words.threshold.load(Ordering::Acquire) as usize {
            let patience = words.patience.load(Ordering::Relaxed);
            if waiting > 0 && patience > 0 {
                words.patience.store(patience - 1, Ordering::Relaxed);
            } else if waiting > 0 {
                words.threshold.store(1, Ordering::Relaxed);
            }
            return;
        }
        words.threshold.store(0, Ordering::Relaxed);
        if waiting < block.len() {
            let ends = words.ends.load(Ordering::Acquire);
            words.dry.fetch_add(1 - ends, Ordering::Relaxed);
            let start = words.start.load(Ordering::Relaxed);
            words.threshold.store(start, Ordering::Relaxed);
            let patient = words.patient.load(Ordering::Relaxed);
            words.patience.store(patient, Ordering::Relaxed);
        }
        let count = waiting.min(block.len());
        for frame in &mut block[..count] {
            let mut bytes = [0; FRAME];
            queue.read(&mut bytes);
            let [a, b, c, d] = bytes;
            let played = [i16::from_le_bytes([a, b]), i16::from_le_bytes([c, d])];
            for (sum, sample) in frame.iter_mut().zip(played) {
                let volume = i32::from(self.volume());
                let sample = (i32::from(sample) * volume) >> 8;
                *sum = super::add(*sum, sample as i16);
            }
        }
    }
}
