//! `/dev/speaker` and `/dev/mic`: raw frames, 44,100 in a second.
//!
//! *Interface*: [`register`] at boot. Each open is a client of its own. Reads and writes have generated
//! routines over the client's ring, as a pseudo-terminal has over its channel; what is here serves a full or
//! an empty ring, and a card that has gone: then a call gives EIO.
//!
//! Source: dissertation, figure 6.7.

use abi::errno::{Errno, Result};
use abi::linux::{O_ACCMODE, O_RDONLY, O_WRONLY, POLLERR, minor};
use abi::nr;
use alloc::sync::Arc;
use file::fs::{OpenRequest, dev};
use file::gauge::Gauges;
use file::io::IoBuf;
use file::poll::{self, PollTable, READS, WRITES};
use file::routine_env;
use file::{DescRoutine, DescRoutines, File, OpenFile, Sharing};
use quaject::class::create;
use quaject::composed::{Composed, Recipe};
use quaject::cook_tty_out::{self, Rule, TtyWriteRecipe};
use quaject::interfacer::link;
use quaject::queue::{RawReadRecipe, Wakes, q_put_string};
use vm::fallible::try_arc;

use crate::client::{self, Player, Recorder};
use crate::stream::no_memory;

/// The rate of the raw devices.
const RATE: u32 = 44_100;
/// Bytes that the slow path moves at a time.
const PIECE: usize = 1024;

/// Minor numbers.
const SPEAKER: u32 = 0;
const MIC: u32 = 1;

/// Gives the device numbers their behaviour.
pub fn register() {
    dev::register(dev::SOUND, SPEAKER..=SPEAKER, open);
    dev::register(dev::SOUND, MIC..=MIC, open);
}

fn open(rdev: u64, how: OpenRequest) -> Result<Arc<OpenFile>> {
    let file: Arc<dyn File> = match (minor(rdev), how.flags & O_ACCMODE) {
        (SPEAKER, O_WRONLY) => try_arc(Speaker::new()?)?,
        (MIC, O_RDONLY) => try_arc(Mic::new()?)?,
        (SPEAKER | MIC, _) => return Err(Errno::EACCES),
        _ => return Err(Errno::ENXIO),
    };
    Ok(how.finish(file))
}

/// A relay with the routine that `recipe` makes; without room for code its calls take the slow path. ENOMEM.
pub(crate) fn routine(
    name: &'static str,
    number: usize,
    recipe: Arc<dyn Recipe>,
) -> Result<Arc<Composed>> {
    let made = Composed::new(name, number, routine_env::get()?).map_err(no_memory)?;
    let _slowly = made.follow(Some(recipe));
    Ok(made)
}

/// An open speaker.
struct Speaker {
    player: Player,
    write: Arc<Composed>,
}

impl Speaker {
    fn new() -> Result<Speaker> {
        let player = Player::open(client::StreamParams::at(RATE))?;
        let from = create::<cook_tty_out::Quaject>(()).map_err(|_| Errno::ENOMEM)?;
        let to = q_put_string(player.channel().queue());
        link(&from, cook_tty_out::RAW_WRITE, to).map_err(no_memory)?;
        let recipe = TtyWriteRecipe {
            from,
            wakes: Wakes::Channel(player.channel().clone()),
            rule: Rule::Plain,
            env: routine_env::get()?,
        };
        let write = routine("speaker write", nr::WRITE, try_arc(recipe)?)?;
        Ok(Speaker { player, write })
    }

    /// The error of a card that has gone; its routine is taken out.
    fn check(&self) -> Result<()> {
        if !self.player.is_gone() {
            return Ok(());
        }
        let _none = self.write.follow(None);
        Err(Errno::EIO)
    }
}

impl File for Speaker {
    fn write(&self, of: &OpenFile, buf: &mut IoBuf) -> Result<usize> {
        let mut piece = [0; PIECE];
        let mut written = 0;
        let more = |error, written| if written > 0 { Ok(written) } else { Err(error) };
        while buf.remaining() > 0 {
            if let Err(error) = self.check() {
                return more(error, written);
            }
            let room = self.player.channel().queue().room();
            if room == 0 {
                if of.nonblocking() {
                    return more(Errno::EAGAIN, written);
                }
                if let Err(error) = self.player.wait() {
                    return more(error, written);
                }
                continue;
            }
            let wanted = PIECE.min(room).min(buf.remaining());
            let taken = match buf.take(&mut piece[..wanted]) {
                Ok(taken) => taken,
                Err(error) => return more(error, written),
            };
            let mut sent = 0;
            while sent < taken {
                sent += self.player.write(&piece[sent..taken]);
                if sent == taken {
                    break;
                }
                // Others have filled the ring meanwhile.
                let waited = match of.nonblocking() {
                    true => Err(Errno::EAGAIN),
                    false => self.check().and_then(|()| self.player.wait()),
                };
                if let Err(error) = waited {
                    return more(error, written + sent);
                }
            }
            written += sent;
        }
        Ok(written)
    }

    fn poll<'a>(
        &'a self,
        _of: &'a OpenFile,
        events: u32,
        table: Option<&mut PollTable<'a>>,
    ) -> u32 {
        if let Some(table) = table
            && events & WRITES != 0
        {
            table.watch(self.player.list());
        }
        let gone = if self.player.is_gone() { POLLERR } else { 0 };
        let period = self.player.how().period as usize * device::sound::FRAME;
        events & (poll::events(false, self.player.is_ready(period)) | gone)
    }

    fn can_be_watched(&self) -> bool {
        true
    }

    fn gauges(&self, _of: &OpenFile) -> Gauges {
        Gauges {
            input: None,
            output: Some(self.player.gauge()),
        }
    }

    fn synthesize(&self, _of: &OpenFile, _sharing: Sharing) -> Result<DescRoutines> {
        Ok(DescRoutines {
            write: Some(self.write.routine().clone()),
            lseek: Some(routine_env::constants()?.no_seek.clone()),
            ..DescRoutines::default()
        })
    }

    fn info(&self, _of: &OpenFile, out: &mut dyn core::fmt::Write) -> core::fmt::Result {
        let player = &self.player;
        let (rate, xruns) = (player.card_rate(), player.underruns());
        writeln!(
            out,
            "rate:\t{rate}\nxruns:\t{xruns}\ndelay:\t{}",
            player.delay()
        )
    }

    fn relayed(&self, call: &str) -> Option<DescRoutine> {
        (call == "write").then(|| self.write.plugged())?
    }

    /// The last close returns when all that was written has been heard, also at the end of a program.
    fn close(&self, _of: &OpenFile) {
        self.player.finish();
    }
}

/// An open microphone.
struct Mic {
    recorder: Recorder,
    read: Arc<Composed>,
}

impl Mic {
    fn new() -> Result<Mic> {
        let recorder = Recorder::open(client::StreamParams::at(RATE))?;
        let recipe = RawReadRecipe {
            queue: recorder.channel().queue().clone(),
            wakes: Wakes::Channel(recorder.channel().clone()),
            env: routine_env::get()?,
        };
        let read = routine("mic read", nr::READ, try_arc(recipe)?)?;
        Ok(Mic { recorder, read })
    }
}

impl File for Mic {
    fn read(&self, of: &OpenFile, buf: &mut IoBuf) -> Result<usize> {
        let mut piece = [0; PIECE];
        let wanted = PIECE.min(buf.remaining());
        loop {
            if wanted == 0 {
                return Ok(0);
            }
            let count = self.recorder.read(&mut piece[..wanted]);
            if count > 0 {
                return buf.put(&piece[..count]);
            }
            if self.recorder.is_gone() {
                let _none = self.read.follow(None);
                return Err(Errno::EIO);
            }
            if of.nonblocking() {
                return Err(Errno::EAGAIN);
            }
            self.recorder.wait()?;
        }
    }

    fn poll<'a>(
        &'a self,
        _of: &'a OpenFile,
        events: u32,
        table: Option<&mut PollTable<'a>>,
    ) -> u32 {
        if let Some(table) = table
            && events & READS != 0
        {
            table.watch(self.recorder.list());
        }
        let gone = self.recorder.is_gone();
        let error = if gone { POLLERR } else { 0 };
        events & (poll::events(self.recorder.waiting() > 0 || gone, false) | error)
    }

    fn can_be_watched(&self) -> bool {
        true
    }

    fn gauges(&self, _of: &OpenFile) -> Gauges {
        Gauges {
            input: Some(self.recorder.gauge()),
            output: None,
        }
    }

    fn synthesize(&self, _of: &OpenFile, _sharing: Sharing) -> Result<DescRoutines> {
        Ok(DescRoutines {
            read: Some(self.read.routine().clone()),
            lseek: Some(routine_env::constants()?.no_seek.clone()),
            ..DescRoutines::default()
        })
    }

    fn info(&self, _of: &OpenFile, out: &mut dyn core::fmt::Write) -> core::fmt::Result {
        let (rate, xruns) = (self.recorder.card_rate(), self.recorder.overruns());
        writeln!(out, "rate:\t{rate}\nxruns:\t{xruns}")
    }

    fn relayed(&self, call: &str) -> Option<DescRoutine> {
        (call == "read").then(|| self.read.plugged())?
    }
}
