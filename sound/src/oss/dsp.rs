//! An open `/dev/dsp` or `/dev/audio`: its calls.
//!
//! *Interface*: [`Dsp`] is the file. A direction that it was not opened for answers EINVAL, as an unknown
//! operation does; the mixer's operations are answered here too.

use abi::errno::{Errno, Result};
use abi::linux::*;
use file::gauge::Gauges;
use file::io::IoBuf;
use file::poll::{self, PollTable, READS, WRITES};
use file::{File, OpenFile};
use sync::Monitor;
use vm::user::{get, put};

use super::mixer;
use super::play::Play;
use super::record::Record;
use super::settings::{Settings, formats};

/// The abilities of the device.
const CAPS: u32 = DSP_CAP_DUPLEX | DSP_CAP_REALTIME | DSP_CAP_TRIGGER;

/// The letter in the operations' numbers.
const LETTER: u32 = b'P' as u32;
const MIXERS_LETTER: u32 = b'M' as u32;

/// The file.
pub struct Dsp {
    settings: Monitor<Settings>,
    play: Option<Play>,
    record: Option<Record>,
}

impl Dsp {
    /// With `settings`, for one direction or both. ENODEV.
    pub fn new(settings: Settings, plays: bool, records: bool) -> Result<Dsp> {
        super::play::card_rate()?;
        Ok(Dsp {
            settings: Monitor::new(settings),
            play: plays.then(Play::default),
            record: records.then(Record::default),
        })
    }

    fn settings(&self) -> Settings {
        // Bound: a few words.
        *self.settings.lock()
    }

    fn play(&self) -> Result<&Play> {
        self.play.as_ref().ok_or(Errno::EINVAL)
    }

    fn record(&self) -> Result<&Record> {
        self.record.as_ref().ok_or(Errno::EINVAL)
    }

    /// Gives the setting at `arg` to `set`, and puts there what was set.
    fn change(
        &self,
        arg: usize,
        set: impl FnOnce(&mut Settings, i32) -> Result<i32>,
    ) -> Result<()> {
        let wanted = get::<i32>(arg)?;
        let set = set(&mut self.settings.lock(), wanted)?;
        put(arg, &set)
    }

    /// The trigger's bits.
    fn trigger(&self) -> u32 {
        let plays = self.play.as_ref().is_some_and(|play| !play.is_off());
        let records = self.record.as_ref().is_some_and(|record| !record.is_off());
        let bit = |on, bit| if on { bit } else { 0 };
        bit(plays, PCM_ENABLE_OUTPUT) | bit(records, PCM_ENABLE_INPUT)
    }

    fn set_trigger(&self, bits: u32) -> Result<()> {
        let settings = self.settings();
        if let Some(play) = &self.play {
            play.hold(&settings, bits & PCM_ENABLE_OUTPUT == 0)?;
        }
        if let Some(record) = &self.record {
            record.hold(&settings, bits & PCM_ENABLE_INPUT == 0)?;
        }
        Ok(())
    }

    fn reset(&self) -> Result<()> {
        if let Some(record) = &self.record {
            record.reset();
        }
        self.play.as_ref().map_or(Ok(()), Play::reset)
    }

    fn fragment(&self) -> Result<usize> {
        let settings = self.settings();
        match (&self.play, &self.record) {
            (Some(play), _) => play.fragment(&settings),
            (None, Some(record)) => record.fragment(&settings),
            (None, None) => Err(Errno::EINVAL),
        }
    }

    /// Answers an operation. EINVAL, EFAULT, EIO, and what the directions say.
    fn control(&self, of: &OpenFile, command: u32, arg: usize) -> Result<()> {
        let settings = self.settings();
        match command {
            SNDCTL_DSP_RESET => self.reset()?,
            SNDCTL_DSP_SYNC => {
                if let Some(play) = &self.play {
                    play.sync(&settings)?;
                }
            }
            SNDCTL_DSP_SPEED => self.change(arg, |settings, rate| Ok(settings.set_rate(rate)))?,
            SOUND_PCM_READ_RATE => put(arg, &settings.rate)?,
            SNDCTL_DSP_STEREO => self.change(arg, |settings, stereo| {
                let channels = if stereo > 0 { 2 } else { 1 };
                settings.set_channels(channels).map(|channels| channels - 1)
            })?,
            SNDCTL_DSP_CHANNELS => self.change(arg, Settings::set_channels)?,
            SOUND_PCM_READ_CHANNELS => put(arg, &i32::from(settings.frame.channels))?,
            SNDCTL_DSP_SETFMT => {
                self.change(arg, |settings, format| Ok(settings.set_format(format)))?
            }
            SNDCTL_DSP_GETFMTS => put(arg, &formats())?,
            SOUND_PCM_READ_BITS => put(arg, &settings.bits())?,
            SNDCTL_DSP_SETFRAGMENT => {
                let value = get::<i32>(arg)?;
                self.settings.lock().set_fragments(value)?;
            }
            SNDCTL_DSP_SUBDIVIDE => self.change(arg, Settings::subdivide)?,
            SNDCTL_DSP_GETBLKSIZE => put(arg, &(self.fragment()? as i32))?,
            SNDCTL_DSP_POST => {
                if let Some(play) = &self.play {
                    play.begin();
                }
            }
            SNDCTL_DSP_NONBLOCK => of.set_flags(O_NONBLOCK, O_NONBLOCK),
            SNDCTL_DSP_GETCAPS => put(arg, &CAPS)?,
            SNDCTL_DSP_GETTRIGGER => put(arg, &self.trigger())?,
            SNDCTL_DSP_SETTRIGGER => self.set_trigger(get::<u32>(arg)?)?,
            SNDCTL_DSP_GETOSPACE => put(arg, &self.play()?.space(&settings)?)?,
            SNDCTL_DSP_GETISPACE => put(arg, &self.record()?.space(&settings)?)?,
            SNDCTL_DSP_GETOPTR => put(arg, &self.play()?.pointer(&settings)?)?,
            SNDCTL_DSP_GETIPTR => put(arg, &self.record()?.pointer(&settings)?)?,
            SNDCTL_DSP_GETODELAY => put(arg, &self.play()?.delay(&settings)?)?,
            SNDCTL_DSP_SETDUPLEX | SNDCTL_DSP_SETSYNCRO | SNDCTL_DSP_PROFILE => {}
            SOUND_PCM_WRITE_FILTER | SOUND_PCM_READ_FILTER => return Err(Errno::EIO),
            _ => return Err(Errno::EINVAL),
        }
        Ok(())
    }
}

impl File for Dsp {
    fn read(&self, of: &OpenFile, buf: &mut IoBuf) -> Result<usize> {
        self.record()?.read(of, &self.settings(), buf)
    }

    fn write(&self, of: &OpenFile, buf: &mut IoBuf) -> Result<usize> {
        self.play()?.write(of, &self.settings(), buf)
    }

    fn poll<'a>(
        &'a self,
        _of: &'a OpenFile,
        events: u32,
        mut table: Option<&mut PollTable<'a>>,
    ) -> u32 {
        let settings = self.settings();
        let (mut readable, mut writable, mut error) = (false, false, 0);
        if let Some(play) = self.play.as_ref().filter(|_| events & WRITES != 0) {
            match play.poll(&settings) {
                Ok((player, ready)) => {
                    if let Some(table) = table.as_mut() {
                        table.watch(player.list());
                    }
                    writable = ready;
                }
                Err(_) => error = POLLERR,
            }
        }
        if let Some(record) = self.record.as_ref().filter(|_| events & READS != 0) {
            match record.poll(&settings) {
                Ok((recorder, ready)) => {
                    if let Some(table) = table.as_mut() {
                        table.watch(recorder.list());
                    }
                    readable = ready;
                }
                Err(_) => error = POLLERR,
            }
        }
        events & poll::events(readable, writable) | error
    }

    fn can_be_watched(&self) -> bool {
        true
    }

    fn gauges(&self, _of: &OpenFile) -> Gauges {
        let player = self.play.as_ref().and_then(Play::player);
        let recorder = self.record.as_ref().and_then(Record::recorder);
        Gauges {
            input: recorder.map(|recorder| recorder.gauge()),
            output: player.map(|player| player.gauge()),
        }
    }

    fn ioctl(&self, of: &OpenFile, command: u32, arg: usize) -> Result<usize> {
        match command >> 8 & 0xff {
            LETTER => self.control(of, command, arg).map(|()| 0),
            MIXERS_LETTER => mixer::control(command, arg).map(|()| 0),
            _ => Err(Errno::EINVAL),
        }
    }

    /// Waits until all has been heard.
    fn sync(&self, _of: &OpenFile, _data: bool) -> Result<()> {
        let settings = self.settings();
        self.play
            .as_ref()
            .map_or(Ok(()), |play| play.sync(&settings))
    }

    /// All that was written is heard before the last close returns, unless a signal comes to a program that
    /// goes on.
    fn close(&self, _of: &OpenFile) {
        let settings = self.settings();
        if let Some(play) = &self.play {
            play.end(&settings);
        }
    }
}
