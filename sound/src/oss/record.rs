//! The recording direction of an open `/dev/dsp`: from the ring of a recorder to a program's bytes.
//!
//! *Interface*: [`Record::read`] and the rest serve the calls of the same name. The recorder is made at the
//! first use. Frames of the card are converted when they are read; what the program has not taken waits.

use abi::errno::{Errno, Result};
use abi::linux::{AudioBufInfo, CountInfo};
use alloc::vec::Vec;
use core::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use device::sound::FRAME;
use file::OpenFile;
use file::io::IoBuf;
use sync::{Monitor, Once};
use vm::fallible::try_filled;

use super::play::{Converter, PIECE, card_rate, pointer, space};
use super::settings::Settings;
use crate::client::{Recorder, StreamParams};

/// The way of the bytes, for one thread at a time.
#[derive(Default)]
struct Pipe {
    converter: Option<Converter>,
    /// Frames of the card that the resampler has not taken.
    raw: Vec<u8>,
    raw_len: usize,
    /// Bytes for the program, the first that it has not, and their end.
    made: Vec<u8>,
    at: usize,
    end: usize,
    /// As [`pointer()`] wants it.
    blocks: u64,
}

/// The direction.
#[derive(Default)]
pub struct Record {
    recorder: Once<Recorder>,
    pipe: Monitor<Pipe>,
    /// Bytes that are made and wait.
    waiting: AtomicUsize,
    /// Bytes that the program has got.
    got: AtomicU64,
    held: AtomicBool,
}

impl Record {
    /// The recorder, and the way from it. ENOMEM, EBUSY, ENODEV, EIO.
    fn ready(&self, pipe: &mut Pipe, settings: &Settings) -> Result<&Recorder> {
        let known = pipe
            .converter
            .as_ref()
            .filter(|known| known.settings == *settings);
        if known.is_none() {
            let ring = self
                .recorder
                .get()
                .map_or(StreamParams::LARGEST, |known| known.how().buffer);
            let converter = Converter::new(*settings, card_rate()?, ring, false)?;
            pipe.raw = try_filled(0, PIECE)?;
            pipe.made = try_filled(0, PIECE)?;
            (pipe.raw_len, pipe.at, pipe.end) = (0, 0, 0);
            self.waiting.store(0, Ordering::Release);
            pipe.converter = Some(converter);
        }
        let converter = pipe.converter.as_ref().ok_or(Errno::EIO)?;
        if self.recorder.get().is_none() {
            // The pipe's turn is this thread's, so nobody else makes one.
            let _ours = self.recorder.set(Recorder::open(converter.how())?);
        }
        self.recorder.get().ok_or(Errno::EIO)
    }

    /// Converts what has come, when nothing waits.
    fn fetch(&self, pipe: &mut Pipe, recorder: &Recorder) {
        let Some(converter) = &pipe.converter else {
            return;
        };
        if pipe.at < pipe.end || self.held.load(Ordering::Acquire) {
            return;
        }
        let come = recorder.read(&mut pipe.raw[pipe.raw_len..]);
        let end = pipe.raw_len + come;
        let moved = converter
            .resampler
            .convert(&pipe.raw[..end], &mut pipe.made);
        let used = moved.used * FRAME;
        pipe.raw.copy_within(used..end, 0);
        pipe.raw_len = end - used;
        (pipe.at, pipe.end) = (0, moved.made * converter.settings.frame.bytes());
        self.waiting.store(pipe.end, Ordering::Release);
    }

    /// One turn of a read: bytes that were given.
    fn give(&self, settings: &Settings, buf: &mut IoBuf) -> Result<usize> {
        // Bound: at most 64 KiB of this file's bytes through its resampler; at a change of settings a
        // resampler is generated, at the first use a player made, with 4096 bytes and a recorder.
        let mut turn = self.pipe.lock();
        let pipe = &mut *turn;
        let recorder = self.ready(pipe, settings)?;
        self.fetch(pipe, recorder);
        let given = buf.put(&pipe.made[pipe.at..pipe.end])?;
        pipe.at += given;
        self.waiting.store(pipe.end - pipe.at, Ordering::Release);
        self.got.fetch_add(given as u64, Ordering::Relaxed);
        Ok(given)
    }

    /// `read`. EAGAIN, EIO, ENOMEM, EBUSY, ENODEV, EFAULT, ERESTARTSYS.
    pub fn read(&self, of: &OpenFile, settings: &Settings, buf: &mut IoBuf) -> Result<usize> {
        let mut read = 0;
        while buf.remaining() > 0 {
            let given = self.give(settings, buf).and_then(|given| match given {
                0 if of.nonblocking() => Err(Errno::EAGAIN),
                0 => self.wait().map(|()| 0),
                given => Ok(given),
            });
            match given {
                Ok(given) => read += given,
                Err(_) if read > 0 => break,
                Err(error) => return Err(error),
            }
        }
        Ok(read)
    }

    /// Waits until frames have come. EIO, ERESTARTSYS.
    fn wait(&self) -> Result<()> {
        let recorder = self.recorder.get().ok_or(Errno::EIO)?;
        let held = || self.held.load(Ordering::Acquire);
        let come = || (recorder.is_gone() || (recorder.waiting() > 0 && !held())).then_some(());
        let waited = recorder.list().wait_interruptible(come);
        waited.map_err(|_| Errno::ERESTARTSYS)?;
        match recorder.is_gone() {
            true => Err(Errno::EIO),
            false => Ok(()),
        }
    }

    /// Bytes that can be read, and those of a fragment.
    fn available(&self, settings: &Settings) -> Result<(&Recorder, usize, usize)> {
        let mut turn = self.pipe.lock();
        let recorder = self.ready(&mut turn, settings)?;
        let converter = turn.converter.as_ref().ok_or(Errno::EIO)?;
        let come = converter.bytes(recorder.waiting() as u64) as usize;
        let waiting = come + self.waiting.load(Ordering::Acquire);
        Ok((recorder, waiting, converter.shape.fragment))
    }

    /// Whether a fragment has come, and the recorder to be waited for.
    pub fn poll(&self, settings: &Settings) -> Result<(&Recorder, bool)> {
        let (recorder, waiting, fragment) = self.available(settings)?;
        Ok((recorder, waiting >= fragment && !self.is_off()))
    }

    /// The recorder, if there is one yet.
    pub fn recorder(&self) -> Option<&Recorder> {
        self.recorder.get()
    }

    /// Throws away what has not been read.
    pub fn reset(&self) {
        let Some(recorder) = self.recorder.get() else {
            return;
        };
        let mut pipe = self.pipe.lock();
        (pipe.raw_len, pipe.at, pipe.end) = (0, 0, 0);
        self.waiting.store(0, Ordering::Release);
        if let Some(converter) = &pipe.converter {
            converter.resampler.begin_again();
        }
        recorder.reset();
    }

    /// Whether it is held.
    pub fn is_off(&self) -> bool {
        self.held.load(Ordering::Acquire)
    }

    /// Holds it, or lets it begin with what comes from now on. ENOMEM, ENODEV, EBUSY, EIO.
    pub fn hold(&self, settings: &Settings, held: bool) -> Result<()> {
        if !held {
            self.ready(&mut self.pipe.lock(), settings)?;
        }
        if self.held.swap(held, Ordering::AcqRel) != held {
            self.reset();
        }
        if let Some(recorder) = self.recorder.get() {
            recorder.list().wake_all();
        }
        Ok(())
    }

    /// Bytes of a fragment.
    pub fn fragment(&self, settings: &Settings) -> Result<usize> {
        Ok(self.available(settings)?.2)
    }

    /// `SNDCTL_DSP_GETISPACE`.
    pub fn space(&self, settings: &Settings) -> Result<AudioBufInfo> {
        let (_, waiting, _) = self.available(settings)?;
        let turn = self.pipe.lock();
        let converter = turn.converter.as_ref().ok_or(Errno::EIO)?;
        let shape = converter.shape;
        Ok(space(shape, waiting.min(shape.total())))
    }

    /// `SNDCTL_DSP_GETIPTR`.
    pub fn pointer(&self, settings: &Settings) -> Result<CountInfo> {
        let (_, waiting, _) = self.available(settings)?;
        let mut turn = self.pipe.lock();
        let shape = turn.converter.as_ref().ok_or(Errno::EIO)?.shape;
        let bytes = self.got.load(Ordering::Relaxed) + waiting as u64;
        Ok(pointer(bytes, shape, &mut turn.blocks))
    }
}
