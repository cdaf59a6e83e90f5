//! Sound cards with Intel's AC97 interface: Sound_DA, which plays, and Sound_AD, which records.
//!
//! *Interface* (table 4.4). [`Card::of_function`] and [`Card::attach`] are for the bus; the room above finds
//! the [`Card`] among the names. [`Card::play`] and [`Card::record`] enable and disable a direction, and
//! say who waits for it; what Sound_DA's callout [`GET_SAMPLE`] and Sound_AD's [`PUT_SAMPLE`] are linked to
//! gets the blocks of frames. A frame is two samples of 16 bits, left and right.
//!
//! The handler is generated for exactly the directions that are enabled, with what is linked standing in it:
//! figure 3.5, at a period of frames instead of one. When a direction, a pace, a link or a client comes or
//! goes, it is generated again. Between the card and the handler are 32 buffers in each direction, of which
//! the handler keeps so many filled ahead of the card as the pace says.
//!
//! Source: dissertation, section 3.3.3 and table 4.4; Intel ICH AC'97 (document 252751).

mod channel;
mod codec;

use crate::Unusable;
use crate::interrupt::{Asks, Interrupt, Source};
use crate::pci::{Function, Odd};
use crate::ports::Ports;
use crate::server::Server;
use alloc::sync::Arc;
use channel::{Channel, Way};
use codec::Codec;
use codegen::{Draft, Label};
use core::sync::atomic::{AtomicBool, Ordering};
use quaject::assembly::Assembly;
use quaject::class::{Ref, create};
use sync::{Monitor, Once};
use vm::fallible::try_arc;

/// Vendor and device number.
pub const ID: (u16, u16) = (0x8086, 0x2415);

/// The name of the card.
pub const NAME: &str = "sound0";

/// Bytes of a frame.
pub const FRAME: usize = 4;
/// The shortest and the longest period, in frames.
pub const SHORTEST: u32 = 64;
/// The longest.
pub const LONGEST: u32 = 1024;
/// The most buffers that may be filled ahead.
pub const MOST_AHEAD: u32 = channel::BUFFERS - 2;

/// How often a register is asked whether it is ready.
const PATIENCE: usize = 10_000;

/// Registers of the bus master: a channel each, and those of all.
const INPUT: u16 = 0;
const OUTPUT: u16 = 0x10;
const GLOBAL_CONTROL: u16 = 0x2c;
const GLOBAL_STATUS: u16 = 0x30;
const ACCESS: u16 = 0x34;
const MASTER_LEN: u16 = 64;
const MIXER_LEN: u16 = 256;

/// Global control: out of reset.
const ALIVE: u32 = 2;
/// Global status: the codec answers; input or output interrupts.
const CODEC: u32 = 1 << 8;
const INTERRUPTS: i32 = 3 << 5;

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

/// The directions of a card, output first.
const DIRECTIONS: usize = 2;
const OUT: usize = 0;
const IN: usize = 1;

/// The parts of a card that handlers name.
struct Parts {
    channels: [Channel; DIRECTIONS],
    da: Ref<SoundDa>,
    ad: Ref<SoundAd>,
}

/// The sections of one handler: the directions that are enabled.
#[derive(Clone)]
struct Sections {
    parts: Arc<Parts>,
    enabled: [Option<Enabled>; DIRECTIONS],
}

/// The present handler's sections, and the channels that the card walks along.
#[derive(Default)]
struct Driven {
    sections: Option<Arc<Sections>>,
    runs: [bool; DIRECTIONS],
}

/// A card.
pub struct Card {
    rate: u32,
    /// The port that says whether it interrupts.
    status: u16,
    parts: Arc<Parts>,
    state: Monitor<Driven>,
    interrupt: Once<Arc<Interrupt>>,
    gone: AtomicBool,
}

impl Card {
    /// The card behind `function`, reset and silent. It is to be [attached](Card::attach).
    ///
    /// # Errors
    /// [`Unusable`].
    pub fn of_function(function: &Function) -> Result<Arc<Card>, Unusable> {
        let codec = Codec {
            mixer: function.ports(0, MIXER_LEN)?,
            master: function.ports(1, MASTER_LEN)?,
        };
        function.enable_ports();
        try_arc(Card::new(codec, function.board())?).map_err(|_| Unusable::Resources)
    }

    /// How a line is asked whether the card interrupts.
    pub fn asks(&self) -> Asks {
        Asks::Port {
            status: self.status,
            mask: INTERRUPTS,
        }
    }

    /// It interrupts there. Once.
    ///
    /// # Errors
    /// [`Unusable::Resources`].
    pub fn attach(&self, interrupt: Arc<Interrupt>) -> Result<(), Unusable> {
        let sections = try_arc(self.silent()).map_err(|_| Unusable::Resources)?;
        interrupt.add(sections.clone(), Some(self.asks()))?;
        self.state.lock().sections = Some(sections);
        // Set once: nobody else has the card yet.
        let _first = self.interrupt.set(interrupt);
        Ok(())
    }

    /// The card of `codec`.
    fn new(codec: Codec, board: u16) -> Result<Card, Unusable> {
        let master = codec.master;
        master.write32(GLOBAL_CONTROL, ALIVE);
        let mut tries = (0..PATIENCE).map(|_| master.read32(GLOBAL_STATUS));
        match tries.find(|status| status & CODEC != 0) {
            None | Some(u32::MAX) => return Err(Odd::Gone.into()),
            Some(_) => {}
        }
        let channel = |way, at| {
            let ports: Ports = master.part(at, channel::LEN).ok_or(Odd::Fit)?;
            let channel = Channel::new(way, ports)?;
            channel.reset()?;
            Ok::<_, Unusable>(channel)
        };
        let rate = codec.start(board)?;
        let parts = Parts {
            channels: [channel(Way::Out, OUTPUT)?, channel(Way::In, INPUT)?],
            da: create::<SoundDa>(())?,
            ad: create::<SoundAd>(())?,
        };
        Ok(Card {
            rate,
            status: master.at(GLOBAL_STATUS),
            parts: try_arc(parts).map_err(|_| Unusable::Resources)?,
            state: Monitor::default(),
            interrupt: Once::new(),
            gone: AtomicBool::new(false),
        })
    }

    /// No direction is enabled.
    fn silent(&self) -> Sections {
        Sections {
            parts: self.parts.clone(),
            enabled: [None, None],
        }
    }

    /// Frames in a second, of both directions.
    pub fn rate(&self) -> u32 {
        self.rate
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
        self.parts.channels[OUT].in_hand(pace)
    }

    /// Frames ever given to it.
    pub fn given(&self) -> u64 {
        self.parts.channels[OUT].passed()
    }

    /// Frames ever taken from it.
    pub fn taken(&self) -> u64 {
        self.parts.channels[IN].passed()
    }

    /// Callentries `enable` and `disable` of Sound_DA: plays at a pace, and the clients wait for it; or not.
    ///
    /// # Errors
    /// [`Unusable`]; it then goes on as before.
    pub fn play(&self, how: Option<Enabled>) -> Result<(), Unusable> {
        self.set(OUT, how)
    }

    /// The same of Sound_AD.
    ///
    /// # Errors
    /// [`Unusable`]; it then goes on as before.
    pub fn record(&self, how: Option<Enabled>) -> Result<(), Unusable> {
        self.set(IN, how)
    }

    fn set(&self, which: usize, how: Option<Enabled>) -> Result<(), Unusable> {
        if how.as_ref().is_some_and(|how| !how.pace.is_possible()) {
            return Err(Odd::Fit.into());
        }
        let interrupt = self.interrupt.get().ok_or(Unusable::Absent)?;
        let mut state = self.state.lock();
        let old = state.sections.clone().ok_or(Unusable::Absent)?;
        let channel = &self.parts.channels[which];
        let ran = core::mem::replace(&mut state.runs[which], false);
        if how.is_none() && ran {
            // First, since a line that still interrupts would find no section.
            channel.end();
        }
        let mut new = (*old).clone();
        new.enabled[which] = how;
        let begins = new.enabled[which].as_ref().filter(|_| !ran);
        let begins = begins
            .map(|enabled| channel.begin(enabled.pace))
            .transpose()?;
        let new = try_arc(new).map_err(|_| Unusable::Resources)?;
        state.runs[which] = ran && new.enabled[which].is_some();
        let (before, after): (Arc<dyn Source>, Arc<dyn Source>) = (old, new.clone());
        interrupt.replace(&before, after)?;
        state.sections = Some(new);
        if begins.is_some() {
            state.runs[which] = true;
            channel.go();
        }
        Ok(())
    }
}

impl Source for Sections {
    fn emit(&self, a: &mut Assembly) {
        let Parts { channels, da, ad } = &*self.parts;
        if let Some(Enabled { pace, .. }) = self.enabled[OUT] {
            channels[OUT].emit(a, pace, da.header(), GET_SAMPLE.number());
        }
        if let Some(Enabled { pace, .. }) = self.enabled[IN] {
            channels[IN].emit(a, pace, ad.header(), PUT_SAMPLE.number());
        }
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

impl Server for Card {
    fn remove(&self) {
        self.gone.store(true, Ordering::SeqCst);
        let sections = self.state.lock().sections.take();
        self.parts.channels.iter().for_each(Channel::end);
        if let Some(sections) = sections {
            sections.wake();
        }
    }

    fn name(&self) -> Option<&str> {
        Some(NAME)
    }
}

#[cfg(test)]
mod tests;
