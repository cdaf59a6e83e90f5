//! A serial line as a plain byte stream: what `console=stream` gives the first process.
//!
//! *Interface*: [`StreamFile`]. Reading gives bytes as they come and ends where the host says that its
//! input ended ([`device::serial::Serial::set_end`]); writing adds nothing. Both have generated routines around the line's queues; what is
//! here waits, and does what they leave.

use abi::errno::{Errno, Result};
use alloc::vec;
use core::any::Any;
use device::serial::Serial;
use quaject::cook_tty_out::{self, Rule};
use quaject::queue;

use crate::file::told::Tells;
use crate::file::{DescRoutines, File, OpenFile, Sharing};
use crate::io::IoBuf;
use crate::poll::{self, PollTable, READS, WRITES};
use crate::seam;

const PIECE: usize = 4096;

/// What a descriptor of a raw line does.
pub struct StreamFile {
    line: &'static Serial,
}

impl StreamFile {
    /// A file on `line`.
    pub fn new(line: &'static Serial) -> Self {
        StreamFile { line }
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
        let mut receive = || {
            let count = self.line.receive(&mut piece);
            (count > 0 || self.line.at_end()).then_some(count)
        };
        if let Some(count) = receive() {
            return buf.put(&piece[..count]);
        }
        if of.nonblocking() {
            return Err(Errno::EAGAIN);
        }
        let something = || (self.line.waiting() > 0 || self.line.at_end()).then_some(());
        let waited = self.line.arrived().wait_interruptible(something);
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
            let taken = match buf.take(&mut piece) {
                Ok(taken) => taken,
                Err(error) if written == 0 => return Err(error),
                Err(_) => break,
            };
            let mut sent = self.line.send(&piece[..taken]);
            while sent < taken {
                if of.nonblocking() {
                    return if written + sent > 0 {
                        Ok(written + sent)
                    } else {
                        Err(Errno::EAGAIN)
                    };
                }
                let more = self.line.drained().wait_interruptible(|| {
                    let count = self.line.send(&piece[sent..taken]);
                    (count > 0).then_some(count)
                });
                match more {
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

    fn tells(&self) -> Tells {
        Tells::Terminal(0)
    }

    fn poll<'a>(
        &'a self,
        _of: &'a OpenFile,
        events: u32,
        table: Option<&mut PollTable<'a>>,
    ) -> u32 {
        if let Some(table) = table {
            if events & READS != 0 {
                table.watch(self.line.arrived());
            }
            if events & WRITES != 0 {
                table.watch(self.line.drained());
            }
        }
        let reads = self.line.waiting() > 0 || self.line.at_end();
        events & poll::events(reads, self.line.room() > 0)
    }

    fn synthesize(&self, of: &OpenFile, _sharing: Sharing) -> Result<DescRoutines> {
        let seam = seam::get()?;
        let mut made = DescRoutines {
            lseek: Some(seam::constants()?.no_seek.clone()),
            ..DescRoutines::default()
        };
        // Without room for code a call takes the slow path.
        if let Some(end) = self.line.input().filter(|_| of.readable()) {
            made.read = queue::receiver(end.queue, end.turn, seam).ok();
        }
        if let Some(end) = self.line.output().filter(|_| of.writable()) {
            made.write = cook_tty_out::writer(end.queue, end.turn, Rule::Plain, seam).ok();
        }
        Ok(made)
    }

    fn as_any(&self) -> &dyn Any {
        self
    }
}
