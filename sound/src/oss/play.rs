//! The playing direction of an open `/dev/dsp`: from a program's bytes to the ring of a player.
//!
//! *Interface*: [`Play::write`], [`Play::sync`], [`Play::reset`] and the rest serve the calls of the same
//! name. The player is made at the first use, with a ring for the settings of that time. Bytes that have been
//! written wait in a stage until the resampler has taken them: a part of a frame, or all while the direction
//! is held (`SNDCTL_DSP_SETTRIGGER`).
//!
//! A program that does not wait (`O_NONBLOCK`) may write by a clock of its own. Its rate is then steered by
//! [`RateMatch`], so that its buffer stays as full as it is.

use abi::errno::{Errno, Result};
use abi::linux::{AudioBufInfo, CountInfo};
use account::quota;
use account::user::Charge;
use alloc::vec::Vec;
use core::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use device::registry;
use device::sound::{self, FRAME};
use file::OpenFile;
use file::io::IoBuf;
use quaject::class::{Ref, create};
use quaject::resample::{Frame, Resampler, Spec};
use sync::{Monitor, Once};
use thread::deadline::Deadline;
use vm::fallible::try_filled;

use super::mixer;
use super::rate_match::RateMatch;
use super::settings::{SampleFormat, Scale, Settings, counted};
use crate::client::{Player, StreamParams};
use crate::stream::no_memory;

/// Frames that a ring has beyond a buffer, for what rounding adds.
pub(super) const SPARE: u32 = 64;
/// Bytes of the card's frames that are made at a time.
pub(super) const PIECE: usize = 4096;
/// Memory of a converter beside its stage, about.
pub(super) const BESIDE: usize = 64 << 10;

/// The frames in a second of the card. ENODEV.
pub(super) fn card_rate() -> Result<u32> {
    let card = registry::sound(sound::NAME).ok_or(Errno::ENODEV)?;
    Ok(card.rate())
}

/// The way of a program's bytes to the card's frames or from them, for settings.
pub(super) struct Converter {
    pub settings: Settings,
    pub shape: SampleFormat,
    pub scale: Scale,
    pub resampler: Ref<Resampler>,
    _charge: Charge,
}

impl Converter {
    /// To or from a ring of `ring` frames. ENOMEM, EINVAL.
    pub fn new(settings: Settings, card: u32, ring: u32, plays: bool) -> Result<Converter> {
        let scale = Scale {
            program: settings.rate,
            card,
        };
        let most = scale.to_program(u64::from(ring.saturating_sub(SPARE)));
        let shape = settings.shape(most as usize * settings.frame.bytes());
        let charge = quota::bytes((shape.total() + BESIDE) as u64).ok_or(Errno::ENOMEM)?;
        if !vm::frame::admits((shape.total() + BESIDE) / abi::layout::PAGE + 16) {
            return Err(Errno::ENOMEM);
        }
        let [program, card] = [(settings.frame, settings.rate), (Frame::CARD, card)];
        let (from, to) = if plays {
            (program, card)
        } else {
            (card, program)
        };
        let spec = Spec {
            from: from.0,
            to: to.0,
            from_rate: from.1,
            to_rate: to.1,
            steered: plays,
        };
        Ok(Converter {
            settings,
            shape,
            scale,
            resampler: create::<Resampler>(spec).map_err(no_memory)?,
            _charge: charge,
        })
    }

    /// The ring that its buffer wants.
    pub fn how(&self) -> StreamParams {
        let frame = self.settings.frame.bytes();
        let frames = |bytes: usize| self.scale.to_card((bytes / frame) as u64) as u32;
        StreamParams {
            rate: self.scale.card,
            period: frames(self.shape.fragment),
            buffer: frames(self.shape.total()) + SPARE,
        }
    }

    /// Bytes of the program that `frames` of the card are.
    pub fn bytes(&self, frames: u64) -> u64 {
        self.scale.to_program(frames) * self.settings.frame.bytes() as u64
    }
}

/// The way of the bytes, for one thread at a time.
#[derive(Default)]
struct Pipe {
    converter: Option<Converter>,
    /// As long as the buffer.
    stage: Vec<u8>,
    made: Vec<u8>,
    /// Fragments that had been played when that was last asked.
    blocks: u64,
    volume: Option<u16>,
    pace: RateMatch,
}

/// The direction.
#[derive(Default)]
pub struct Play {
    player: Once<Player>,
    pipe: Monitor<Pipe>,
    /// Bytes in the stage.
    staged: AtomicUsize,
    held: AtomicBool,
}

/// A buffer's measures of a moment.
#[derive(Clone, Copy)]
struct Room {
    shape: SampleFormat,
    scale: Scale,
    frame: usize,
}

impl Play {
    /// The player, and the way to it for `settings`. ENOMEM, EBUSY, ENODEV, EIO.
    fn ready(&self, pipe: &mut Pipe, settings: &Settings) -> Result<(&Player, Room)> {
        let known = pipe
            .converter
            .as_ref()
            .filter(|known| known.settings == *settings);
        if known.is_none() {
            let ring = self
                .player
                .get()
                .map_or(StreamParams::LARGEST, |player| player.how().buffer);
            let converter = Converter::new(*settings, card_rate()?, ring, true)?;
            pipe.stage = try_filled(0, converter.shape.total())?;
            pipe.made = try_filled(0, PIECE)?;
            pipe.pace = RateMatch::default();
            self.staged.store(0, Ordering::Release);
            pipe.converter = Some(converter);
        }
        let converter = pipe.converter.as_ref().ok_or(Errno::EIO)?;
        if self.player.get().is_none() {
            // The pipe's turn is this thread's, so nobody else makes one.
            let _ours = self.player.set(Player::open(converter.how())?);
        }
        let player = self.player.get().ok_or(Errno::EIO)?;
        let room = Room {
            shape: converter.shape,
            scale: converter.scale,
            frame: settings.frame.bytes(),
        };
        let volume = mixer::volume();
        if pipe.volume != Some(volume) {
            player.set_volume(volume)?;
            pipe.volume = Some(volume);
        }
        match player.is_gone() {
            true => Err(Errno::EIO),
            false => Ok((player, room)),
        }
    }

    /// The player, ready for `settings`, with its list and its room.
    fn prepared(&self, settings: &Settings) -> Result<(&Player, Room)> {
        // Bound: at most 64 KiB of this file's bytes through its resampler; at a change of settings a
        // resampler is generated, at the first use a player made.
        self.ready(&mut self.pipe.lock(), settings)
    }

    /// Bytes that have room.
    fn free(&self, player: &Player, room: Room) -> usize {
        let waiting = (player.channel().queue().len() / FRAME) as u64;
        let queued = room.scale.to_program(waiting) as usize * room.frame;
        let queued = queued + self.staged.load(Ordering::Acquire);
        room.shape.total().saturating_sub(queued) / room.frame * room.frame
    }

    /// Moves what is in the stage on, as far as there is room.
    fn push(&self, pipe: &mut Pipe, player: &Player) {
        let Some(converter) = &pipe.converter else {
            return;
        };
        let mut staged = self.staged.load(Ordering::Relaxed).min(pipe.stage.len());
        let mut at = 0;
        while !self.held.load(Ordering::Acquire) {
            let room = (player.space() * FRAME).min(pipe.made.len());
            let moved = converter
                .resampler
                .convert(&pipe.stage[at..staged], &mut pipe.made[..room]);
            at += moved.used * converter.settings.frame.bytes();
            // There is room for all of it: nobody else writes there.
            player.write(&pipe.made[..moved.made * FRAME]);
            if moved.made == 0 {
                break;
            }
        }
        pipe.stage.copy_within(at..staged, 0);
        staged -= at;
        self.staged.store(staged, Ordering::Release);
    }

    /// One turn of a write: bytes that were taken.
    fn take(&self, of: &OpenFile, settings: &Settings, buf: &mut IoBuf) -> Result<usize> {
        let mut turn = self.pipe.lock();
        let pipe = &mut *turn;
        let (player, room) = self.ready(pipe, settings)?;
        self.push(pipe, player);
        let staged = self.staged.load(Ordering::Relaxed);
        let free = self.free(player, room).min(pipe.stage.len() - staged);
        let wanted = free.min(buf.remaining());
        let taken = buf.take(&mut pipe.stage[staged..staged + wanted])?;
        self.staged.store(staged + taken, Ordering::Release);
        if of.nonblocking() {
            let frames = taken / room.frame;
            let parts = pipe.pace.step(room.scale, frames as u64, player.played());
            if let Some(converter) = &pipe.converter {
                converter.resampler.steer(parts);
            }
        }
        self.push(pipe, player);
        Ok(taken)
    }

    /// `write`. EAGAIN, EIO, ENOMEM, EBUSY, ENODEV, EFAULT, ERESTARTSYS.
    pub fn write(&self, of: &OpenFile, settings: &Settings, buf: &mut IoBuf) -> Result<usize> {
        let mut written = 0;
        while buf.remaining() > 0 {
            let taken = self.take(of, settings, buf).and_then(|taken| match taken {
                0 if of.nonblocking() => Err(Errno::EAGAIN),
                0 => self.wait(settings).map(|()| 0),
                taken => Ok(taken),
            });
            match taken {
                Ok(taken) => written += taken,
                Err(_) if written > 0 => break,
                Err(error) => return Err(error),
            }
        }
        Ok(written)
    }

    /// Waits until a fragment has room. EIO, ERESTARTSYS.
    fn wait(&self, settings: &Settings) -> Result<()> {
        let (player, room) = self.prepared(settings)?;
        let enough = room.shape.fragment;
        let come = || (player.is_gone() || self.free(player, room) >= enough).then_some(());
        let waited = player.list().wait_interruptible(come);
        waited.map_err(|_| Errno::ERESTARTSYS)
    }

    /// Whether a fragment has room, and the player to be waited for.
    pub fn poll(&self, settings: &Settings) -> Result<(&Player, bool)> {
        let (player, room) = self.prepared(settings)?;
        Ok((player, self.free(player, room) >= room.shape.fragment))
    }

    /// The player, if there is one yet.
    pub fn player(&self) -> Option<&Player> {
        self.player.get()
    }

    /// Waits until all has been heard. EIO, ERESTARTSYS.
    pub fn sync(&self, settings: &Settings) -> Result<()> {
        let Some(player) = self.player.get() else {
            return Ok(());
        };
        self.pad(settings)?;
        loop {
            let mut turn = self.pipe.lock();
            let (_, room) = self.ready(&mut turn, settings)?;
            self.push(&mut turn, player);
            drop(turn);
            let over = self.held.load(Ordering::Acquire);
            if over || self.staged.load(Ordering::Acquire) < room.frame {
                break;
            }
            player.wait()?;
        }
        player.drain()?;
        let turn = self.pipe.lock();
        if let Some(converter) = &turn.converter {
            converter.resampler.begin_again();
        }
        Ok(())
    }

    /// The last close: as [`sync`](Self::sync). A program that ends does not wait for anything, but all that
    /// it has written is heard: for as long as that lasts, its end is put off.
    pub fn end(&self, settings: &Settings) {
        /// A card that takes so much longer plays no more.
        const PATIENCE_NS: u64 = 500_000_000;
        /// The card has been given so many frames, at most, beyond what was taken from the ring.
        const AHEAD: u64 = 2560;
        let Some(player) = self.player.get() else {
            return;
        };
        if !matches!(self.sync(settings), Err(Errno::ERESTARTSYS)) || self.is_off() {
            return;
        }
        let frames = (self.staged.load(Ordering::Acquire) + player.how().buffer as usize) as u64;
        let last = frames * 1_000_000_000 / u64::from(player.how().rate) + PATIENCE_NS;
        let until = |ns: u64, done: &dyn Fn() -> bool| {
            let deadline = Deadline::after_ns(ns);
            let Ok(_alarm) = deadline.alarm() else { return };
            let over = || (player.is_gone() || deadline.has_passed() || done()).then_some(());
            let _never_gives_up = player.list().wait_unless(|| false, over);
        };
        until(last, &|| player.channel().queue().len() < FRAME);
        self.push(&mut self.pipe.lock(), player);
        player.begin();
        until(last, &|| player.channel().queue().len() < FRAME);
        let after = AHEAD + u64::from(player.card_behind());
        until(
            after * 1_000_000_000 / u64::from(player.card_rate()),
            &|| false,
        );
    }

    /// Silence behind the last bytes: the rest of a frame, and what the resampler's filter looks ahead.
    fn pad(&self, settings: &Settings) -> Result<()> {
        let mut turn = self.pipe.lock();
        let pipe = &mut *turn;
        let (player, room) = self.ready(pipe, settings)?;
        self.push(pipe, player);
        let staged = self.staged.load(Ordering::Relaxed);
        let behind = pipe
            .converter
            .as_ref()
            .map_or(0, |known| known.resampler.behind());
        let end = staged.next_multiple_of(room.frame) + (behind + 1) * room.frame;
        let mut silence = try_filled(0, end)?;
        settings.silence(&mut silence);
        if pipe.stage.len() < end {
            let mut longer = try_filled(0, end)?;
            longer[..staged].copy_from_slice(&pipe.stage[..staged]);
            pipe.stage = longer;
        }
        pipe.stage[staged..end].copy_from_slice(&silence[staged..end]);
        self.staged.store(end, Ordering::Release);
        Ok(())
    }

    /// Throws away what has not been played. ENOMEM, ENODEV.
    pub fn reset(&self) -> Result<()> {
        let Some(player) = self.player.get() else {
            return Ok(());
        };
        let mut turn = self.pipe.lock();
        self.staged.store(0, Ordering::Release);
        turn.pace = RateMatch::default();
        if let Some(converter) = &turn.converter {
            converter.resampler.begin_again();
        }
        player.reset()?;
        player.list().wake_all();
        Ok(())
    }

    /// `SNDCTL_DSP_POST`: begins with what there is.
    pub fn begin(&self) {
        if let Some(player) = self.player.get()
            && !self.held.load(Ordering::Acquire)
        {
            player.begin();
        }
    }

    /// Whether it is held.
    pub fn is_off(&self) -> bool {
        self.held.load(Ordering::Acquire)
    }

    /// Holds it, or lets it go. ENOMEM, ENODEV, EBUSY, EIO.
    pub fn hold(&self, settings: &Settings, held: bool) -> Result<()> {
        if self.held.swap(held, Ordering::AcqRel) == held {
            return Ok(());
        }
        if held {
            return self.reset();
        }
        let mut turn = self.pipe.lock();
        let (player, _) = self.ready(&mut turn, settings)?;
        self.push(&mut turn, player);
        player.begin();
        player.list().wake_all();
        Ok(())
    }

    /// Bytes of a fragment.
    pub fn fragment(&self, settings: &Settings) -> Result<usize> {
        Ok(self.prepared(settings)?.1.shape.fragment)
    }

    /// `SNDCTL_DSP_GETOSPACE`.
    pub fn space(&self, settings: &Settings) -> Result<AudioBufInfo> {
        let (player, room) = self.prepared(settings)?;
        Ok(space(room.shape, self.free(player, room)))
    }

    /// `SNDCTL_DSP_GETODELAY`: bytes that have been written and not been heard.
    pub fn delay(&self, settings: &Settings) -> Result<i32> {
        let (player, room) = self.prepared(settings)?;
        let heard = room.scale.to_program(player.delay()) * room.frame as u64;
        Ok(counted(heard + self.staged.load(Ordering::Acquire) as u64))
    }

    /// `SNDCTL_DSP_GETOPTR`.
    pub fn pointer(&self, settings: &Settings) -> Result<CountInfo> {
        let mut turn = self.pipe.lock();
        let (player, room) = self.ready(&mut turn, settings)?;
        let played = room.scale.to_program(player.played()) * room.frame as u64;
        Ok(pointer(played, room.shape, &mut turn.blocks))
    }
}

/// As `GETOSPACE` and `GETISPACE` say it.
pub(super) fn space(shape: SampleFormat, bytes: usize) -> AudioBufInfo {
    AudioBufInfo {
        fragments: (bytes / shape.fragment) as i32,
        fragstotal: shape.count as i32,
        fragsize: shape.fragment as i32,
        bytes: bytes as i32,
    }
}

/// As `GETOPTR` and `GETIPTR` say it; `blocks` is what they said last.
pub(super) fn pointer(bytes: u64, shape: SampleFormat, blocks: &mut u64) -> CountInfo {
    let now = bytes / shape.fragment as u64;
    let since = now.saturating_sub(*blocks);
    *blocks = now;
    CountInfo {
        bytes: counted(bytes),
        blocks: counted(since),
        ptr: (bytes % shape.total() as u64) as i32,
    }
}
