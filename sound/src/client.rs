//! A client: one that plays, or records, with a ring of frames of its own.
//!
//! *Interface*: [`Player::open`] and [`Recorder::open`], as [`StreamParams`] asks. A frame is two samples of
//! 16 bits, left and right, lowest byte first. [`Player::write`] and [`Recorder::read`] never wait;
//! [`Player::wait`] and [`Recorder::wait`] do, and [`Player::list`] and [`Recorder::list`] are for `poll`.
//! Dropping a client closes it: what it has not played is gone, unless it is [drained](Player::drain) before.
//!
//! A client's frames have its own rate. The card's is [`Player::card_rate`]; where the two differ, a stage
//! that converts is linked between the ring and the mixer ([`Player::set_stage`]): a callentry that fills a
//! block of frames of the card's rate, in the interrupt handler, from [`Player::channel`]'s queue, whose one
//! consumer it then is.
//!
//! Source: dissertation, sections 4.1.4 and 6.3.1.

use abi::errno::{Errno, Result};
use account::quota;
use account::user::Charge;
use alloc::sync::Arc;
use core::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use device::registry;
use device::sound::{self, Card, FRAME};
use file::gauge::Gauge;
use quaject::class::create;
use quaject::interfacer::{Entry, link, unlink};
use quaject::mix::{Capture, FRAMES, PUT_FRAMES, Voice, VoiceSpec};
use quaject::queue::{Channel, Parties};
use quaject::signature::{Read, Write};
use sync::WaitList;
use thread::deadline::Deadline;
use vm::fallible::try_arc;

use crate::card_clients;
pub use crate::stream::StreamParams;
use crate::stream::{PlayStream, RecordStream, no_memory};

/// The card. ENODEV.
fn card() -> Result<Arc<Card>> {
    registry::sound(sound::NAME).ok_or(Errno::ENODEV)
}

/// A ring for so many at its ends, and its user's charge for it and for the code around it. ENOMEM.
fn ring(
    how: StreamParams,
    producers: Parties,
    consumers: Parties,
) -> Result<(Arc<Channel>, Charge)> {
    /// Memory of a client beside its ring, about.
    const BESIDE: usize = 12 << 10;
    let charge = quota::bytes((how.bytes() + BESIDE) as u64).ok_or(Errno::ENOMEM)?;
    if !vm::frame::admits((how.bytes() + BESIDE) / abi::layout::PAGE + 16) {
        return Err(Errno::ENOMEM);
    }
    let several = machine::cpu::cpus() > 1;
    let channel = Channel::new(producers, consumers, how.bytes(), several).map_err(no_memory)?;
    Ok((try_arc(channel)?, charge))
}

/// One that plays.
pub struct Player(Arc<PlayStream>);

impl Player {
    /// One that plays as `how` says, or as near as can be. EINVAL, ENODEV, ENOMEM; EBUSY: there are as many
    /// as can be.
    pub fn open(how: StreamParams) -> Result<Player> {
        let how = how.possible()?;
        let card = card()?;
        let (channel, charge) = ring(how, Parties::Many, Parties::One)?;
        let list = channel.drained().word_address() as i32;
        let layout = channel.queue().layout().map_err(no_memory)?;
        let pace = how.pace(card.rate());
        let spec = VoiceSpec {
            channel,
            start: (pace.period * (pace.ahead + 1)).min(how.buffer / 2),
            patience: 2 * pace.ahead,
            volume: Voice::FULL,
        };
        let playing = try_arc(PlayStream {
            voice: create::<Voice>(spec).map_err(no_memory)?,
            how,
            card,
            thrown: AtomicU64::new(0),
            closed: AtomicBool::new(false),
            ring: layout,
            list,
            _charge: charge,
        })?;
        card_clients::with_clients(|desk| desk.add_player(&playing))?;
        Ok(Player(playing))
    }

    /// As it was opened.
    pub fn how(&self) -> StreamParams {
        self.0.how
    }

    /// Frames in a second that the card plays.
    pub fn card_rate(&self) -> u32 {
        self.0.card.rate()
    }

    /// Frames that the card may have taken and not sounded yet.
    pub fn card_behind(&self) -> u32 {
        self.0.card.behind()
    }

    /// The ring: bytes of frames. Descriptors may have generated routines that write there.
    pub fn channel(&self) -> &Arc<Channel> {
        self.0.channel()
    }

    /// The same for the scheduler.
    pub fn gauge(&self) -> Arc<dyn Gauge> {
        self.0.clone()
    }

    /// Puts as many of `bytes` into the ring as fit; says how many.
    pub fn write(&self, bytes: &[u8]) -> usize {
        self.channel().queue().write(bytes)
    }

    /// Frames that fit.
    pub fn space(&self) -> usize {
        self.channel().queue().room() / FRAME
    }

    /// Frames that were written and have not been sounded, about: those in the ring, and those that the card
    /// was given already.
    pub fn delay(&self) -> u64 {
        let waiting = (self.channel().queue().len() / FRAME) as u64;
        waiting + self.in_hand()
    }

    /// Frames in the card's hands, at this client's rate.
    fn in_hand(&self) -> u64 {
        let PlayStream { card, how, .. } = &*self.0;
        let pace = card_clients::pace().filter(|_| self.0.voice.plays());
        let frames = pace.map_or(0, |pace| card.in_hand(pace));
        frames * u64::from(how.rate) / u64::from(card.rate())
    }

    /// Frames that have been sounded since it was opened or reset, about.
    pub fn played(&self) -> u64 {
        let taken = self.channel().queue().taken() / FRAME as u64;
        let thrown = self.0.thrown.load(Ordering::Relaxed);
        taken.saturating_sub(thrown).saturating_sub(self.in_hand())
    }

    /// How often it ran dry.
    pub fn underruns(&self) -> u32 {
        self.0.voice.dry()
    }

    /// Whether the card is there no more.
    pub fn is_gone(&self) -> bool {
        self.0.card.is_gone()
    }

    /// Whether `bytes` have room, or never will.
    pub fn is_ready(&self, bytes: usize) -> bool {
        self.channel().queue().room() >= bytes || self.is_gone()
    }

    /// Woken when a period of the ring is free, and when the card has gone.
    pub fn list(&self) -> &WaitList {
        self.channel().drained()
    }

    /// Waits until a period is free. EIO: the card has gone; ERESTARTSYS.
    pub fn wait(&self) -> Result<()> {
        let period = self.0.how.period as usize * FRAME;
        let free = || self.is_ready(period).then_some(());
        let waited = self.list().wait_interruptible(free);
        waited.map_err(|_| Errno::ERESTARTSYS)?;
        match self.is_gone() {
            true => Err(Errno::EIO),
            false => Ok(()),
        }
    }

    /// Begins with what there is, however little.
    pub fn begin(&self) {
        self.0.voice.begin();
    }

    /// Waits until all frames have been sounded. EIO: the card has gone, or plays no more; ERESTARTSYS.
    pub fn drain(&self) -> Result<()> {
        self.sounded(3_000_000_000, false)
    }

    /// As [`drain`](Self::drain), but no signal ends it, nor the end of the program; a card that plays no
    /// more is given up sooner.
    pub fn finish(&self) {
        let _cut_off = self.sounded(500_000_000, true);
    }

    /// A card that takes `patience` nanoseconds longer than the frames last plays no more.
    fn sounded(&self, patience: u64, to_the_end: bool) -> Result<()> {
        let PlayStream {
            voice, card, how, ..
        } = &*self.0;
        let queue = self.channel().queue();
        if queue.len() < FRAME && !voice.plays() {
            return Ok(());
        }
        voice.end(true);
        let frames = (queue.len() / FRAME) as u64;
        let ns = frames * 1_000_000_000 / u64::from(how.rate) + patience;
        let deadline = Deadline::after_ns(ns);
        let alarm = deadline.alarm()?;
        let mut until = None;
        let done = || {
            if self.is_gone() || deadline.has_passed() {
                return Some(Err(Errno::EIO));
            }
            if queue.len() >= FRAME {
                return None;
            }
            let given = card.given();
            let ahead = card_clients::pace().map_or(0, |pace| pace.period * (pace.ahead + 1));
            let until = *until.get_or_insert(given + u64::from(ahead + card.behind()));
            (given >= until).then_some(Ok(()))
        };
        let waited = match to_the_end {
            true => self.list().wait_unless(|| false, done),
            false => self.list().wait_interruptible(done),
        };
        drop(alarm);
        voice.end(false);
        voice.begin_again();
        waited.map_err(|_| Errno::ERESTARTSYS)?
    }

    /// Throws away what has not been given to the card. ENOMEM, ENODEV.
    pub fn reset(&self) -> Result<()> {
        card_clients::with_clients(|desk| {
            desk.without_player(&self.0, || {
                let queue = self.channel().queue();
                let waiting = (queue.len() / FRAME) as u64;
                self.channel().discard();
                self.0
                    .thrown
                    .store(queue.taken() / FRAME as u64, Ordering::Relaxed);
                self.0.voice.begin_again();
                waiting
            })
        })
        .map(drop)
    }

    /// Its volume, of [`Voice::FULL`], from now on. ENOMEM, ENODEV.
    pub fn set_volume(&self, volume: u16) -> Result<()> {
        self.0.voice.set_volume(volume.min(Voice::FULL));
        card_clients::with_clients(|desk| desk.replug_players())
    }

    /// Links what converts its frames on their way to the mixer, or nothing. ENOMEM, ENODEV.
    pub fn set_stage(&self, stage: Option<Entry<Read>>) -> Result<()> {
        let voice = &self.0.voice;
        card_clients::with_clients(|desk| {
            match stage {
                Some(stage) => link(voice, FRAMES, stage).map(drop),
                None => unlink(voice, FRAMES),
            }
            .map_err(no_memory)?;
            desk.replug_players()
        })
    }
}

impl Drop for Player {
    fn drop(&mut self) {
        card_clients::request_removal(&self.0.closed);
    }
}

/// One that records.
pub struct Recorder(Arc<RecordStream>);

impl Recorder {
    /// One that records as `how` says, or as near as can be. EINVAL, ENODEV, ENOMEM; EBUSY: there are as
    /// many as can be.
    pub fn open(how: StreamParams) -> Result<Recorder> {
        let how = how.possible()?;
        let card = card()?;
        let (channel, charge) = ring(how, Parties::One, Parties::Many)?;
        let list = channel.arrived().word_address() as i32;
        let layout = channel.queue().layout().map_err(no_memory)?;
        let recording = try_arc(RecordStream {
            ear: create::<Capture>(channel).map_err(no_memory)?,
            how,
            card,
            closed: AtomicBool::new(false),
            ring: layout,
            list,
            _charge: charge,
        })?;
        card_clients::with_clients(|desk| desk.add_recorder(&recording))?;
        Ok(Recorder(recording))
    }

    /// As it was opened.
    pub fn how(&self) -> StreamParams {
        self.0.how
    }

    /// Frames in a second that the card records.
    pub fn card_rate(&self) -> u32 {
        self.0.card.rate()
    }

    /// The ring: bytes of frames. Descriptors may have generated routines that read there.
    pub fn channel(&self) -> &Arc<Channel> {
        self.0.ear.channel()
    }

    /// The same for the scheduler.
    pub fn gauge(&self) -> Arc<dyn Gauge> {
        self.0.clone()
    }

    /// Moves the recorded bytes into `into`, as many as there are; says how many.
    pub fn read(&self, into: &mut [u8]) -> usize {
        self.channel().read(into)
    }

    /// Frames that wait.
    pub fn waiting(&self) -> usize {
        self.channel().queue().len() / FRAME
    }

    /// Blocks that were lost because the ring was full.
    pub fn overruns(&self) -> u64 {
        self.0.ear.lost()
    }

    /// Whether the card is there no more.
    pub fn is_gone(&self) -> bool {
        self.0.card.is_gone()
    }

    /// Woken when a period has been recorded, and when the card has gone.
    pub fn list(&self) -> &WaitList {
        self.channel().arrived()
    }

    /// Waits until there is something. EIO: the card has gone; ERESTARTSYS.
    pub fn wait(&self) -> Result<()> {
        let some = || (self.waiting() > 0 || self.is_gone()).then_some(());
        let waited = self.list().wait_interruptible(some);
        waited.map_err(|_| Errno::ERESTARTSYS)?;
        match self.waiting() == 0 && self.is_gone() {
            true => Err(Errno::EIO),
            false => Ok(()),
        }
    }

    /// Throws away what was recorded and not read.
    pub fn reset(&self) {
        self.channel().discard();
    }

    /// Links what converts frames on their way from the splitter into the ring, or nothing. ENOMEM, ENODEV.
    pub fn set_stage(&self, stage: Option<Entry<Write>>) -> Result<()> {
        let ear = &self.0.ear;
        card_clients::with_clients(|desk| {
            match stage {
                Some(stage) => link(ear, PUT_FRAMES, stage).map(drop),
                None => unlink(ear, PUT_FRAMES),
            }
            .map_err(no_memory)?;
            desk.replug_recorders()
        })
    }
}

impl Drop for Recorder {
    fn drop(&mut self) {
        card_clients::request_removal(&self.0.closed);
    }
}
