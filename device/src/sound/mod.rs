//! Sound cards: Sound_DA, which plays, and Sound_AD, which records.
//!
//! *Interface* (table 4.4). A driver makes a [`Card`] of its [`CardDriver`], and [attaches](Card::attach) it
//! to its interrupt; the room above finds the card among the names. [`Card::play`] and [`Card::record`]
//! enable and disable a direction, and say who waits for it; what Sound_DA's callout [`GET_SAMPLE`] and
//! Sound_AD's [`PUT_SAMPLE`] are linked to gets the blocks of frames. A frame is two samples of 16 bits, left
//! and right.
//!
//! The handler is generated for exactly the directions that are enabled, with what is linked standing in it:
//! figure 3.5, at a period of frames instead of one. When a direction, a pace, a link or a client comes or
//! goes, it is generated again. Between the card and the handler are buffers in each direction, of which the
//! handler keeps so many filled ahead of the card as the pace says.
//!
//! Source: dissertation, section 3.3.3 and table 4.4.

mod driver;

use crate::Unusable;
use crate::deferred_work::DeferredWork;
use crate::error::DeviceError;
use crate::interrupt::{Asks, Interrupt, Source};
use alloc::sync::Arc;
use codegen::{Draft, Label, dynasm};
use core::sync::atomic::{AtomicBool, Ordering};
use quaject::assembly::Assembly;
use quaject::class::{Ref, create};
use sync::{Monitor, Once};
use vm::fallible::try_arc;

pub use driver::{CardDriver, DIRECTIONS, Direction, ServedDirection};

/// The name of the card.
pub const NAME: &str = "sound0";

/// Bytes of a frame.
pub const FRAME: usize = 4;
/// The shortest and the longest period, in frames.
pub const SHORTEST: u32 = 64;
/// The longest.
pub const LONGEST: u32 = 1024;
/// The most buffers that may be filled ahead.
pub const MOST_AHEAD: u32 = 30;

mod output {
    use quaject::signature::{Event, Read};

    quaject::quaject! {
        /// Plays sound
        presence SoundDa = "Sound_DA" {
            callentry { ENABLE: Event = "enable", DISABLE: Event = "disable" }
            callout { GET_SAMPLE: Read = "get_sample" ("silence") }
        }
    }
}

mod input {
    use quaject::signature::{Event, Write};

    quaject::quaject! {
        /// Records sound
        presence SoundAd = "Sound_AD" {
            callentry { ENABLE: Event = "enable", DISABLE: Event = "disable" }
            callout { PUT_SAMPLE: Write = "put_sample" ("the samples are lost") }
        }
    }
}

pub use input::{PUT_SAMPLE, SoundAd};
pub use output::{GET_SAMPLE, SoundDa};

/// How a direction moves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pace {
    /// Frames that pass at an interrupt, from [`SHORTEST`] to [`LONGEST`], a multiple of 16.
    pub period: u32,
    /// Periods that an output is filled ahead of the card, from 2 to [`MOST_AHEAD`].
    pub ahead: u32,
}

impl Pace {
    /// Bytes of a period.
    pub(crate) fn bytes(self) -> i32 {
        (self.period as usize * FRAME) as i32
    }

    /// Emits code that clears the period at rsi. It may change rax, rcx and rdx.
    pub(crate) fn silence(self, a: &mut Assembly) {
        dynasm!(a ; .arch x64
            ; push rdi
            ; mov rdi, rsi
            ; mov ecx, self.bytes() / 8
            ; xor eax, eax
            ; cld
            ; rep stosq
            ; pop rdi
        );
    }

    fn is_possible(self) -> bool {
        (SHORTEST..=LONGEST).contains(&self.period)
            && self.period.is_multiple_of(16)
            && (2..=MOST_AHEAD).contains(&self.ahead)
    }
}

/// Someone who waits for frames to pass.
pub trait Client: Send + Sync {
    /// Emits the check for a waiter that may continue, as [`Source::look`].
    fn look(&self, d: &mut Draft, wake: Label);
    /// Wakes, with interrupts off, those who may continue; all, when the card has gone.
    fn wake(&self);
}

/// An enabled direction.
#[derive(Clone)]
pub struct Enabled {
    /// Its pace.
    pub pace: Pace,
    /// Those that wait for it.
    pub clients: Arc<[Arc<dyn Client>]>,
}

/// The parts of a card that handlers name.
struct Parts {
    works: Arc<dyn CardDriver>,
    da: Ref<SoundDa>,
    ad: Ref<SoundAd>,
}

/// The sections of one handler: the directions that are enabled.
#[derive(Clone)]
struct Sections {
    parts: Arc<Parts>,
    enabled: [Option<Enabled>; DIRECTIONS],
}

/// The present handler's sections, and the directions that the card walks along.
#[derive(Default)]
struct Driven {
    sections: Option<Arc<Sections>>,
    runs: [bool; DIRECTIONS],
}

/// A card.
pub struct Card {
    parts: Arc<Parts>,
    state: Monitor<Driven>,
    interrupt: Once<Arc<Interrupt>>,
    gone: AtomicBool,
}

impl Card {
    /// The card that `works`, silent. It is to be [attached](Card::attach).
    ///
    /// # Errors
    /// [`Unusable::Resources`].
    pub fn new(works: Arc<dyn CardDriver>) -> Result<Card, Unusable> {
        let parts = Parts {
            works,
            da: create::<SoundDa>(())?,
            ad: create::<SoundAd>(())?,
        };
        Ok(Card {
            parts: try_arc(parts).map_err(|_| Unusable::Resources)?,
            state: Monitor::default(),
            interrupt: Once::new(),
            gone: AtomicBool::new(false),
        })
    }

    /// It interrupts there; `asks` says how a shared line is asked. Once.
    ///
    /// # Errors
    /// [`Unusable::Resources`].
    pub fn attach(&self, interrupt: Arc<Interrupt>, asks: Option<Asks>) -> Result<(), Unusable> {
        let sections = try_arc(self.silent()).map_err(|_| Unusable::Resources)?;
        interrupt.add(sections.clone(), asks)?;
        // Bound: generating one handler, and 10,000 looks at a register of a card that does not come back.
        self.state.lock().sections = Some(sections);
        // Set once: nobody else has the card yet.
        let _first = self.interrupt.set(interrupt);
        Ok(())
    }

    /// No direction is enabled.
    fn silent(&self) -> Sections {
        Sections {
            parts: self.parts.clone(),
            enabled: [None, None],
        }
    }

    /// The name that a mixer shows.
    pub fn kind(&self) -> &'static str {
        self.parts.works.kind()
    }

    /// Frames in a second, of both directions.
    pub fn rate(&self) -> u32 {
        self.parts.works.rate()
    }

    /// Frames that it may have taken and not sounded yet.
    pub fn behind(&self) -> u32 {
        self.parts.works.behind()
    }

    /// Whether it is there no more.
    pub fn is_gone(&self) -> bool {
        self.gone.load(Ordering::Acquire)
    }

    /// The quaject that plays.
    pub fn da(&self) -> &Ref<SoundDa> {
        &self.parts.da
    }

    /// The quaject that records.
    pub fn ad(&self) -> &Ref<SoundAd> {
        &self.parts.ad
    }

    /// Frames that the card was given and has not taken yet, about, while it plays at `pace`.
    pub fn in_hand(&self, pace: Pace) -> u64 {
        self.parts.works.in_hand(pace)
    }

    /// Frames ever given to it.
    pub fn given(&self) -> u64 {
        self.parts.works.passed(Direction::Out)
    }

    /// Frames ever taken from it.
    pub fn taken(&self) -> u64 {
        self.parts.works.passed(Direction::In)
    }

    /// Callentries `enable` and `disable` of Sound_DA: plays at a pace, and the clients wait for it; or not.
    ///
    /// # Errors
    /// [`Unusable`]; it then goes on as before. [`Unusable::Absent`]: it plays nothing.
    pub fn play(&self, how: Option<Enabled>) -> Result<(), Unusable> {
        self.set(Direction::Out, how)
    }

    /// The same of Sound_AD.
    ///
    /// # Errors
    /// [`Unusable`]; it then goes on as before. [`Unusable::Absent`]: it records nothing.
    pub fn record(&self, how: Option<Enabled>) -> Result<(), Unusable> {
        self.set(Direction::In, how)
    }

    fn set(&self, way: Direction, how: Option<Enabled>) -> Result<(), Unusable> {
        if how.as_ref().is_some_and(|how| !how.pace.is_possible()) {
            return Err(DeviceError::Fit.into());
        }
        let works = &self.parts.works;
        if !works.has(way) {
            return how.map_or(Ok(()), |_| Err(Unusable::Absent));
        }
        let interrupt = self.interrupt.get().ok_or(Unusable::Absent)?;
        let mut state = self.state.lock();
        let old = state.sections.clone().ok_or(Unusable::Absent)?;
        let which = way as usize;
        let ran = core::mem::replace(&mut state.runs[which], false);
        if how.is_none() && ran {
            // First, since a line that still interrupts would find no section.
            works.end(way);
        }
        let mut new = (*old).clone();
        new.enabled[which] = how;
        let begins = new.enabled[which].as_ref().filter(|_| !ran);
        let begins = begins
            .map(|enabled| works.begin(way, enabled.pace))
            .transpose()?;
        let new = try_arc(new).map_err(|_| Unusable::Resources)?;
        state.runs[which] = ran && new.enabled[which].is_some();
        let (before, after): (Arc<dyn Source>, Arc<dyn Source>) = (old, new.clone());
        interrupt.replace(&before, after)?;
        state.sections = Some(new);
        if begins.is_some() {
            state.runs[which] = true;
            works.go(way);
        }
        Ok(())
    }
}

impl Source for Sections {
    fn emit(&self, a: &mut Assembly) {
        let Parts { works, da, ad } = &*self.parts;
        let served = |way, from, port| {
            let enabled = self.enabled[way as usize].as_ref()?;
            let pace = enabled.pace;
            Some(ServedDirection { pace, from, port })
        };
        let output = served(Direction::Out, da.header(), GET_SAMPLE.number());
        let input = served(Direction::In, ad.header(), PUT_SAMPLE.number());
        works.emit(a, [output, input]);
    }

    fn look(&self, d: &mut Draft, wake: Label) {
        self.each_client(|client| client.look(d, wake));
    }

    fn wake(&self) {
        self.each_client(|client| client.wake());
    }
}

impl Sections {
    fn each_client(&self, f: impl FnMut(&Arc<dyn Client>)) {
        let clients = self
            .enabled
            .iter()
            .flatten()
            .flat_map(|enabled| enabled.clients.iter());
        clients.for_each(f);
    }
}

impl DeferredWork for Card {
    fn remove(&self) {
        self.gone.store(true, Ordering::SeqCst);
        let sections = self.state.lock().sections.take();
        Direction::ALL
            .into_iter()
            .for_each(|way| self.parts.works.end(way));
        if let Some(sections) = sections {
            sections.wake();
        }
    }

    fn name(&self) -> Option<&str> {
        Some(NAME)
    }
}
