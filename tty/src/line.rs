//! The destination of a terminal's output: a serial line, or the channel that a pseudo-terminal's master
//! reads.
//!
//! *Interface*: [`Line`].

use alloc::sync::Arc;
use device::serial::Serial;
use device::stream::Stream;
use quaject::class::Ref;
use quaject::cook_tty_out::{self, CookTtyOut};
use quaject::queue::{ByteQueue, Channel};
use sync::WaitList;

/// The one or the other.
#[derive(Clone)]
pub(super) enum Line {
    Serial(&'static Serial),
    Master(Arc<Channel>),
}

impl Line {
    /// As [`Serial::writing`].
    fn writing<R>(
        &self,
        f: impl FnOnce(&mut dyn Iterator<Item = u8>, &mut dyn FnMut(&[u8]) -> usize) -> R,
    ) -> R {
        match self {
            Line::Serial(line) => line.writing(f),
            Line::Master(channel) => channel.writing(f),
        }
    }

    /// Where the cursor stands behind what went there under the flags `oflag`.
    pub fn column(&self, oflag: u32) -> usize {
        self.writing(|newest, _| cook_tty_out::column_behind(oflag, newest))
    }

    /// Sends what fits of `bytes` through the output editor, in one go; returns how many of them that were.
    pub fn show(&self, oflag: u32, bytes: &[u8]) -> usize {
        self.writing(|newest, put| {
            let column = if cook_tty_out::needs_column(oflag) {
                cook_tty_out::column_behind(oflag, newest)
            } else {
                0
            };
            CookTtyOut::at(column).write(oflag, bytes, put)
        })
    }

    /// Bytes that fit now.
    pub fn room(&self) -> usize {
        match self {
            Line::Serial(line) => line.room(),
            Line::Master(channel) => channel.queue().room(),
        }
    }

    /// Woken when half of it is free again.
    pub fn drained(&self) -> &WaitList {
        match self {
            Line::Serial(line) => line.drained(),
            Line::Master(channel) => channel.drained(),
        }
    }

    /// Bytes that have not gone out. Those that a master can read have.
    pub fn unsent(&self) -> usize {
        match self {
            Line::Serial(line) => line.unsent(),
            Line::Master(_) => 0,
        }
    }

    /// Waits until all has gone out.
    pub fn wait_drained(&self) {
        if let Line::Serial(line) = self {
            line.wait_drained();
        }
    }

    /// The queue that it goes into, once it is there.
    pub fn queue(&self) -> Option<&Ref<ByteQueue>> {
        match self {
            Line::Serial(line) => line.output().map(|end| end.queue),
            Line::Master(channel) => Some(channel.queue()),
        }
    }
}
