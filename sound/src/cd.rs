//! `/dev/cd`: Sound_CD, an audio disc that plays at its own rate, 44,100 frames in a second.
//!
//! *Interface*: [`register`] at boot. The disc is the file [`DISC`] of raw frames, which the host puts into
//! the root (docs/run-contract.md). One program at a time has it open; it begins to play then. Its blocks
//! go where Sound_CD's callout `put_sample` is linked to, the queue that the program reads, one after the
//! other as the clock says. A block that finds no room is lost, and is counted: a disc does not wait. At
//! the disc's end a read gives 0.
//!
//! Source: dissertation, tables 4.4 and figure 6.7.

use abi::errno::{Errno, Result};
use abi::linux::{O_ACCMODE, O_RDONLY};
use abi::nr;
use account::Cred;
use alloc::sync::Arc;
use core::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use device::sound::FRAME;
use file::fs::walk::{WalkContext, walk};
use file::fs::{OpenRequest, dev, mount};
use file::gauge::{DeviceNearness, Flow, Gauge, Gauges};
use file::io::IoBuf;
use file::poll::{self, PollTable, READS};
use file::routine_env;
use file::{DescRoutine, DescRoutines, File, OpenFile, Sharing};
use quaject::class::{Ref, create};
use quaject::composed::Composed;
use quaject::interfacer::{hand_over, link};
use quaject::queue::{Channel, Parties, RawReadRecipe, Wakes, q_put_string};
use sync::{Monitor, WaitList};
use thread::deadline::Deadline;
use vm::fallible::try_arc;

use crate::file::routine;
use crate::stream::no_memory;

/// The disc, raw frames.
const DISC: &[u8] = b"/.synthesis/cd";
/// Frames in a second.
const RATE: u64 = 44_100;
/// Frames of a block.
const BLOCK: u64 = 256;
/// Bytes of the queue between the disc and its reader.
const QUEUE: usize = 16_384;
/// The minor number.
const CD: u32 = 2;

mod quajects {
    use quaject::signature::{Event, Write};

    quaject::quaject! {
        /// Plays a disc
        presence SoundCd = "Sound_CD" {
            callentry { ENABLE: Event = "enable", DISABLE: Event = "disable" }
            callout { PUT_SAMPLE: Write = "put_sample" ("the samples are lost") }
        }
    }
}

use quajects::{PUT_SAMPLE, SoundCd};

/// A disc that plays.
struct Disc {
    file: Arc<OpenFile>,
    quaject: Ref<SoundCd>,
    channel: Arc<Channel>,
    /// Frames that found no room.
    lost: AtomicU64,
    /// All has been played.
    ended: AtomicBool,
    /// Its reader has gone.
    closed: AtomicBool,
}

/// The disc that plays; there is one drive.
static DRIVE: Monitor<Option<Arc<Disc>>> = Monitor::new(None);

/// Woken when the reader has gone.
static STOP: WaitList = WaitList::new();

/// Gives the device number its behaviour.
pub fn register() {
    dev::register(dev::SOUND, CD..=CD, open);
}

/// ENOMEDIUM: the host has given no disc; EBUSY: it plays already.
fn open(_rdev: u64, how: OpenRequest) -> Result<Arc<OpenFile>> {
    if how.flags & O_ACCMODE != O_RDONLY {
        return Err(Errno::EACCES);
    }
    let disc = try_arc(Disc::new(content()?)?)?;
    let file = try_arc(CdFile::new(disc.clone())?)?;
    // Bound: copying or exchanging one handle.
    let mut drive = DRIVE.lock();
    if drive.is_some() {
        return Err(Errno::EBUSY);
    }
    *drive = Some(disc);
    drop(drive);
    if thread::spawn(b"cd", play, 0).is_err() {
        let gone = DRIVE.lock().take();
        drop(gone);
        return Err(Errno::ENOMEM);
    }
    Ok(how.finish(file))
}

/// The disc's file.
fn content() -> Result<Arc<OpenFile>> {
    let root = mount::root().ok_or(Errno::ENOMEDIUM)?;
    let cred = Cred::root();
    let found = walk(&WalkContext::new(root.clone(), &cred, 0), root, DISC, false);
    let place = found
        .ok()
        .and_then(|found| found.place)
        .ok_or(Errno::ENOMEDIUM)?;
    let how = OpenRequest {
        flags: O_RDONLY,
        place: Some(place.clone()),
    };
    place.inode.clone().open(how)
}

/// The thread of the disc that plays.
fn play(_: usize) {
    let disc = DRIVE.lock().clone();
    if let Some(disc) = disc {
        disc.play();
        // The file may take monitors of its own when it goes.
        let gone = DRIVE.lock().take();
        drop(gone);
    }
}

impl Disc {
    fn new(file: Arc<OpenFile>) -> Result<Disc> {
        let channel = Channel::new(Parties::One, Parties::Many, QUEUE, machine::cpu::cpus() > 1)
            .map_err(no_memory)?;
        let quaject = create::<SoundCd>(()).map_err(|_| Errno::ENOMEM)?;
        link(&quaject, PUT_SAMPLE, q_put_string(channel.queue())).map_err(no_memory)?;
        Ok(Disc {
            file,
            quaject,
            channel: try_arc(channel)?,
            lost: AtomicU64::new(0),
            ended: AtomicBool::new(false),
            closed: AtomicBool::new(false),
        })
    }

    /// Block after block, each at its time, until the disc ends or its reader has gone.
    fn play(&self) {
        let begun = machine::clock::now_ns();
        let mut block = [0; BLOCK as usize * FRAME];
        for number in 1.. {
            let deadline = Deadline::at_ns(begun + number * BLOCK * 1_000_000_000 / RATE);
            // Without memory for an alarm nothing tells its time.
            let Ok(alarm) = deadline.alarm() else {
                break;
            };
            let closed = || self.closed.load(Ordering::Acquire);
            STOP.wait_until(|| {
                thread::safe_point();
                (closed() || deadline.has_passed()).then_some(())
            });
            drop(alarm);
            let from = (number - 1) * block.len() as u64;
            let read = self
                .file
                .file()
                .read_at(&self.file, from, &mut IoBuf::fill(&mut block));
            let count = read.unwrap_or(0) / FRAME * FRAME;
            if closed() || count == 0 {
                break;
            }
            self.put(&mut block[..count]);
        }
        self.ended.store(true, Ordering::Release);
        self.channel.arrived().wake_all();
    }

    fn put(&self, block: &mut [u8]) {
        let fits = self.channel.queue().room() >= block.len();
        let put = fits && hand_over(&self.quaject, PUT_SAMPLE, block).is_some();
        if !put {
            let frames = (block.len() / FRAME) as u64;
            self.lost.fetch_add(frames, Ordering::Relaxed);
        }
        self.channel.arrived().wake_all();
    }

    fn is_over(&self) -> bool {
        self.ended.load(Ordering::Acquire) && self.channel.queue().is_empty()
    }
}

impl Gauge for Disc {
    fn flow(&self) -> Flow {
        let queue = self.channel.queue();
        let got = queue.taken();
        Flow {
            put: got.wrapping_add(queue.len() as u64),
            got,
        }
    }
    fn size(&self) -> usize {
        QUEUE
    }

    fn place(&self) -> DeviceNearness<'_> {
        DeviceNearness::Device
    }
}

/// The disc as its reader has it.
struct CdFile {
    disc: Arc<Disc>,
    read: Arc<Composed>,
}

impl CdFile {
    fn new(disc: Arc<Disc>) -> Result<CdFile> {
        let recipe = RawReadRecipe {
            queue: disc.channel.queue().clone(),
            wakes: Wakes::Channel(disc.channel.clone()),
            env: routine_env::get()?,
        };
        let read = routine("cd read", nr::READ, try_arc(recipe)?)?;
        Ok(CdFile { disc, read })
    }
}

impl File for CdFile {
    fn read(&self, of: &OpenFile, buf: &mut IoBuf) -> Result<usize> {
        let mut piece = [0; 1024];
        let wanted = piece.len().min(buf.remaining());
        if wanted == 0 {
            return Ok(0);
        }
        loop {
            let count = self.disc.channel.read(&mut piece[..wanted]);
            if count > 0 {
                return buf.put(&piece[..count]);
            }
            if self.disc.is_over() {
                return Ok(0);
            }
            if of.nonblocking() {
                return Err(Errno::EAGAIN);
            }
            let some = || {
                let some = !self.disc.channel.queue().is_empty() || self.disc.is_over();
                some.then_some(())
            };
            let waited = self.disc.channel.arrived().wait_interruptible(some);
            waited.map_err(|_| Errno::ERESTARTSYS)?;
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
            table.watch(self.disc.channel.arrived());
        }
        let reads = !self.disc.channel.queue().is_empty() || self.disc.is_over();
        events & poll::events(reads, false)
    }

    fn can_be_watched(&self) -> bool {
        true
    }

    fn gauges(&self, _of: &OpenFile) -> Gauges {
        Gauges {
            input: Some(self.disc.clone()),
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
        let lost = self.disc.lost.load(Ordering::Relaxed);
        writeln!(out, "rate:\t{RATE}\nlost:\t{lost}")
    }

    fn relayed(&self, call: &str) -> Option<DescRoutine> {
        (call == "read").then(|| self.read.plugged())?
    }

    fn close(&self, _of: &OpenFile) {
        self.disc.closed.store(true, Ordering::Release);
        STOP.wake_all();
    }
}
