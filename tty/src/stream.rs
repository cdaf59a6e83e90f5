//! A serial line, or a port of the virtio console, as a plain byte stream: what `console=stream` gives the
//! first process.
//!
//! *Interface*: [`StreamFile`]. Reading gives bytes as they come and ends where the host says that its input
//! ended ([`device::stream::Stream::set_end`]); writing adds nothing. Both have generated routines around the
//! device's queues; what is here waits, and does what they leave.
//!
//! A quasi-invariant: the device is there. Both routines stand behind a relay each, and
//! [`StreamFile::follow`] plugs nothing there once the device has gone: what has arrived can still be read,
//! then both calls give EIO.

use abi::errno::{Errno, Result};
use abi::nr;
use alloc::sync::Arc;
use alloc::vec;
use device::stream::Stream;
use quaject::class::create;
use quaject::composed::Composed;
use quaject::cook_tty_out::{self, Rule, TtyWriteRecipe};
use quaject::interfacer::link;
use quaject::queue::{RawReadRecipe, Wakes, q_put_string};

use file::fasync::FasyncKind;
use file::io::IoBuf;
use file::poll::{self, PollTable, READS, WRITES};
use file::routine_env;
use file::{DescRoutine, DescRoutines, File, OpenFile, Sharing};

const PIECE: usize = 4096;

/// The operations of a raw line's descriptor.
pub struct StreamFile {
    input: &'static dyn Stream,
    output: &'static dyn Stream,
    read: Arc<Composed>,
    write: Arc<Composed>,
}

impl StreamFile {
    /// A file that reads from `input` and writes to `output`, which may be the same. ENOMEM.
    pub fn new(input: &'static dyn Stream, output: &'static dyn Stream) -> Result<Self> {
        let env = routine_env::get()?;
        let relay = |name, number| Composed::new(name, number, env).map_err(|_| Errno::ENOMEM);
        let file = StreamFile {
            input,
            output,
            read: relay("stream read", nr::READ)?,
            write: relay("stream write", nr::WRITE)?,
        };
        // Without room for code a call takes the slow path.
        if let Some(queue) = input.arriving() {
            let recipe = RawReadRecipe {
                queue: queue.clone(),
                wakes: Wakes::Nobody,
                env,
            };
            let _slowly = file.read.follow(Some(Arc::new(recipe)));
        }
        if let Some(queue) = output.leaving() {
            let no_memory = |_| Errno::ENOMEM;
            let from = create::<cook_tty_out::Quaject>(()).map_err(|_| Errno::ENOMEM)?;
            let to = q_put_string(queue);
            link(&from, cook_tty_out::RAW_WRITE, to).map_err(no_memory)?;
            let recipe = TtyWriteRecipe {
                from,
                wakes: Wakes::Nobody,
                rule: Rule::Plain,
                env,
            };
            let _slowly = file.write.follow(Some(Arc::new(recipe)));
        }
        Ok(file)
    }

    /// Looks whether the devices are still there; what is without one comes here with every call.
    pub fn follow(&self) {
        if self.input.is_gone() {
            let _none = self.read.follow(None);
        }
        if self.output.is_gone() {
            let _none = self.write.follow(None);
        }
    }

    fn waiting(&self) -> usize {
        self.input.waiting()
    }

    fn room(&self) -> usize {
        self.output.leaving().map_or(0, |queue| queue.room())
    }

    /// Bytes that do not fit are left; a direction that the device has not takes all.
    fn send(&self, bytes: &[u8]) -> usize {
        (self.output.leaving()).map_or(bytes.len(), |queue| queue.write(bytes))
    }
}

impl File for StreamFile {
    fn read(&self, of: &OpenFile, buf: &mut IoBuf) -> Result<usize> {
        if buf.remaining() == 0 {
            return Ok(0);
        }
        #[expect(
            clippy::disallowed_macros,
            reason = "a page at most, of what each thread was promised"
        )]
        let mut piece = vec![0; buf.remaining().min(PIECE)];
        let count = (self.input.arriving()).map_or(0, |queue| queue.read(&mut piece));
        if count > 0 || self.input.at_end() {
            return buf.put(&piece[..count]);
        }
        if self.input.is_gone() {
            return Err(Errno::EIO);
        }
        if of.nonblocking() {
            return Err(Errno::EAGAIN);
        }
        let something =
            || (self.waiting() > 0 || self.input.at_end() || self.input.is_gone()).then_some(());
        let waited = self.input.arrived().wait_interruptible(something);
        waited.map_err(|_| Errno::ERESTARTSYS)?;
        // The call is made again, and the generated routine has what came.
        Err(Errno::ERESTARTNOINTR)
    }

    fn write(&self, of: &OpenFile, buf: &mut IoBuf) -> Result<usize> {
        #[expect(
            clippy::disallowed_macros,
            reason = "a page at most, of what each thread was promised"
        )]
        let mut piece = vec![0; buf.remaining().min(PIECE)];
        let mut written = 0;
        while buf.remaining() > 0 {
            if self.output.is_gone() {
                return match written {
                    0 => Err(Errno::EIO),
                    written => Ok(written),
                };
            }
            let taken = match buf.take(&mut piece) {
                Ok(taken) => taken,
                Err(error) if written == 0 => return Err(error),
                Err(_) => break,
            };
            let mut sent = self.send(&piece[..taken]);
            while sent < taken {
                if of.nonblocking() {
                    return if written + sent > 0 {
                        Ok(written + sent)
                    } else {
                        Err(Errno::EAGAIN)
                    };
                }
                let more = self.output.drained().wait_interruptible(|| {
                    let count = self.send(&piece[sent..taken]);
                    (count > 0 || self.output.is_gone()).then_some(count)
                });
                match more {
                    Ok(0) if written + sent > 0 => return Ok(written + sent),
                    Ok(0) => return Err(Errno::EIO),
                    Ok(count) => sent += count,
                    Err(_) if written + sent > 0 => return Ok(written + sent),
                    Err(_) => return Err(Errno::ERESTARTSYS),
                }
            }
            written += sent;
        }
        Ok(written)
    }

    fn can_be_watched(&self) -> bool {
        true
    }

    fn tells(&self) -> FasyncKind {
        FasyncKind::Terminal(0)
    }

    fn poll<'a>(
        &'a self,
        _of: &'a OpenFile,
        events: u32,
        table: Option<&mut PollTable<'a>>,
    ) -> u32 {
        if let Some(table) = table {
            if events & READS != 0 {
                table.watch(self.input.arrived());
            }
            if events & WRITES != 0 {
                table.watch(self.output.drained());
            }
        }
        let reads = self.waiting() > 0 || self.input.at_end() || self.input.is_gone();
        events & poll::events(reads, self.room() > 0 || self.output.is_gone())
    }

    fn synthesize(&self, of: &OpenFile, _sharing: Sharing) -> Result<DescRoutines> {
        let mut made = DescRoutines {
            lseek: Some(routine_env::constants()?.no_seek.clone()),
            ..DescRoutines::default()
        };
        if of.readable() {
            made.read = Some(self.read.routine().clone());
        }
        if of.writable() {
            made.write = Some(self.write.routine().clone());
        }
        Ok(made)
    }

    fn relayed(&self, call: &str) -> Option<DescRoutine> {
        match call {
            "read" => self.read.plugged(),
            "write" => self.write.plugged(),
            _ => None,
        }
    }
}
