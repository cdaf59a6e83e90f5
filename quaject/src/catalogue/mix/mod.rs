//! Mixer: adds the frames of all that play, by a routine that is generated for exactly these.
//!
//! *Interface*: a [`Voice`] ("Player") is a ring of frames; a frame is two samples of 16 bits. The routine
//! goes along the voices that [`Mixer::set`] was given, and fills a block of frames: the first voice is
//! copied there, the others are added, and a sum beyond 16 bits stays at the limit. Place, size and volume
//! of each are constants. [`mix`] is the callentry for a Sound_DA's `get_sample`; one voice stands in the
//! handler, more are called. When a voice comes, goes or has another volume, the routine is generated
//! again.
//!
//! A voice begins when as many frames wait as it is told, or when some have waited for a while. One that has
//! too few for a block is silent in the rest of it, the others play on, and that is counted; then it begins
//! again. Between a voice's ring and the mixer a callentry can be linked, to convert frames on their way
//! ([`FRAMES`]).
//!
//! `Voice::mix_into` and `add` are the reference implementation in Rust.
//!
//! Source: dissertation, sections 3.3.3 (the buffers' code follows each other in the handler) and 4.1.
//!
//! *Unsafe*: safety contracts of the routine and of its signature.

mod capture;
mod emit;
mod split;
mod voice;

pub use capture::{Capture, PUT_FRAMES};
pub use split::{Splitter, split};
pub use voice::{FRAMES, Voice, VoiceSpec};

use crate::kit::assembly::{Assembly, Continuation, Made, Published};
use crate::kit::class::{Header, Holder, Ref};
use crate::kit::interfacer::{Callentry, Entry, Target};
use crate::kit::regs::Regs;
use crate::kit::routine_env::RoutineError;
use crate::kit::signature::Read;
use alloc::sync::Arc;
use codegen::{Class, Draft, dynasm};
use sync::Monitor;

/// Bytes of a frame.
pub const FRAME: usize = 4;
/// The longest block, in frames.
pub const LONGEST: u32 = 1024;

/// The contract of the routine: address of the block in rsi, its bytes in rdx, bytes filled in rax; it
/// changes what its callentry says.
type MixFn = unsafe extern "C" fn();

/// The most voices of a mixer.
pub const MOST: usize = 16;

static CODE: Class = Class::new("mix");

/// One mixer.
pub struct Mixer {
    header: &'static Header,
    voices: Monitor<Arc<[Ref<Voice>]>>,
    mix: Published<MixFn>,
}

crate::quaject! {
    /// Adds sounds
    class Mixer = "Mixer", spec (), error RoutineError {
        callentry { MIX: Read = "mix" }
    }
    make |(), header| Mixer::new(header);
    remake Mixer::remake;
    callentry |mixer: &Ref<Mixer>, number| (number == MIX).then(|| target(mixer));
}

impl Mixer {
    fn new(header: &'static Header) -> Result<Mixer, RoutineError> {
        let none: Arc<[Ref<Voice>]> = Arc::new([]);
        Ok(Mixer {
            header,
            voices: Monitor::new(none.clone()),
            mix: Published::new(generate(&none, header)?),
        })
    }

    /// The voices that are mixed from now on, at most [`MOST`]. A callout that the routine's code
    /// stands in is to be linked again ([`mix`]).
    ///
    /// # Errors
    /// [`RoutineError`]; the voices then stay.
    pub fn set(&self, voices: Arc<[Ref<Voice>]>) -> Result<(), RoutineError> {
        if voices.len() > MOST {
            return Err(RoutineError::BadSpec);
        }
        // Bound: generating one routine for 16 voices at most.
        let mut present = self.voices.lock();
        let made = generate(&voices, self.header)?;
        let old = core::mem::replace(&mut *present, voices);
        self.mix.publish(made);
        drop(present);
        drop(old);
        Ok(())
    }

    fn remake(&self, _: usize) -> Result<(), RoutineError> {
        let present = self.voices.lock();
        self.mix.publish(generate(&present, self.header)?);
        Ok(())
    }

    /// The registers that the code for `voices` changes.
    fn changes(voices: &[Ref<Voice>]) -> Regs {
        if voices.iter().any(|voice| voice.is_staged()) {
            return Regs::SYSV;
        }
        match voices.len() {
            0 => emit::SILENT,
            1 => emit::ALONE,
            _ => emit::SEVERAL,
        }
    }
}

fn generate(
    voices: &Arc<[Ref<Voice>]>,
    header: &'static Header,
) -> Result<Made<MixFn>, RoutineError> {
    let mut a = Assembly::new(&CODE, "mix", Some(Holder::Member(header)));
    emit::mix(&mut a, voices)?;
    dynasm!(a ; .arch x64 ; ret);
    // SAFETY: the code keeps the contract, and its voices with it.
    unsafe { a.seal(Some(Arc::new(voices.clone()))) }
}

/// Callentry `mix` of `mixer`.
pub fn mix(mixer: &Ref<Mixer>) -> Entry<Read> {
    // SAFETY: it fills what it is given, and keeps the mixer.
    unsafe { Entry::new(target(mixer)) }
}

fn target(mixer: &Ref<Mixer>) -> Target {
    // Bound: copying 16 handles.
    let voices = mixer.voices.lock().clone();
    Arc::new(Mix {
        mixer: mixer.clone(),
        voices,
    })
}

/// The callentry for the voices of one moment.
struct Mix {
    mixer: Ref<Mixer>,
    voices: Arc<[Ref<Voice>]>,
}

impl Callentry for Mix {
    fn name(&self) -> &'static &'static str {
        &"mix"
    }
    fn owner(&self) -> Option<&'static Header> {
        Some(self.mixer.header())
    }
    fn changes(&self) -> Regs {
        Mixer::changes(&self.voices)
    }
    // A routine that is called may be for other voices by then.
    fn changes_when_called(&self) -> Regs {
        Regs::SYSV
    }
    fn emit(&self, a: &mut Assembly, _: Continuation) -> bool {
        self.voices.len() <= 1 && emit::mix(a, &self.voices).is_ok()
    }
    fn entry(&self) -> usize {
        self.mixer.mix.entry()
    }
    // Through the word, because there may be other voices at any time.
    fn call(&self, d: &mut Draft) {
        self.mixer.mix.emit_call(d);
    }
}

#[cfg(test)]
mod tests;

/// Reference implementation of the addition: two samples of 16 bits, at the limit where the sum is beyond it.
#[cfg(test)]
pub(super) fn add(one: i16, other: i16) -> i16 {
    one.saturating_add(other)
}
