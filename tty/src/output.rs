//! Where a terminal's output goes: a serial line, or the channel that a pty's master reads.
//!
//! *Interface*: [`TtyOutput`].

use alloc::sync::Arc;
use alloc::vec::Vec;
use device::serial::Serial;
use device::stream::Stream;
use quaject::class::Ref;
use quaject::cook_tty_out::{self, CookTtyOut};
use quaject::queue::{ByteQueue, Channel};
use sync::WaitList;
use vm::fallible::try_filled;

/// The one or the other.
#[derive(Clone)]
pub(super) enum TtyOutput {
    Serial(&'static Serial),
    Master(Arc<Channel>),
}

impl TtyOutput {
    /// Where the cursor stands behind what went there under the flags `oflag`.
    pub fn column(&self, oflag: u32) -> usize {
        self.queue().map_or(0, |queue| cursor(queue, oflag).1)
    }

    /// The same if it can be told without a wait.
    pub fn column_now(&self, oflag: u32) -> Option<usize> {
        let queue = self.queue()?;
        let at = queue.settled()?;
        let column = cook_tty_out::column_behind(oflag, queue.recent(at));
        (queue.settled() == Some(at)).then_some(column)
    }

    /// Sends what fits of `bytes` through the output editor, in one go; returns how many of them that were.
    pub fn show(&self, oflag: u32, bytes: &[u8]) -> usize {
        let Some(queue) = self.queue() else {
            return bytes.len();
        };
        let mut cooked = Cooked::of(queue.room().min(2 * bytes.len()));
        loop {
            let (at, column) = match cook_tty_out::needs_column(oflag) {
                true => {
                    let (at, column) = cursor(queue, oflag);
                    (Some(at), column)
                }
                false => (None, 0),
            };
            cooked.begin(queue.room());
            let taken = CookTtyOut::at(column).write(oflag, bytes, |piece| cooked.take(piece));
            // Otherwise another writer was there meanwhile.
            if queue.write_whole(at, cooked.bytes()) {
                if let TtyOutput::Master(channel) = self {
                    channel.arrived().wake_all();
                }
                return taken;
            }
        }
    }

    /// Bytes that fit now.
    pub fn room(&self) -> usize {
        match self {
            TtyOutput::Serial(line) => line.room(),
            TtyOutput::Master(channel) => channel.queue().room(),
        }
    }

    /// Woken when half of it is free again.
    pub fn drained(&self) -> &WaitList {
        match self {
            TtyOutput::Serial(line) => line.drained(),
            TtyOutput::Master(channel) => channel.drained(),
        }
    }

    /// Bytes that have not gone out. Those that a master can read have.
    pub fn unsent(&self) -> usize {
        match self {
            TtyOutput::Serial(line) => line.unsent(),
            TtyOutput::Master(_) => 0,
        }
    }

    /// Waits until all has gone out.
    pub fn wait_drained(&self) {
        if let TtyOutput::Serial(line) = self {
            line.wait_drained();
        }
    }

    /// The queue that it goes into, once it is there.
    pub fn queue(&self) -> Option<&Ref<ByteQueue>> {
        match self {
            TtyOutput::Serial(line) => line.leaving(),
            TtyOutput::Master(channel) => Some(channel.queue()),
        }
    }
}

/// The position behind everything that was put into `queue`, and the cursor's column there.
fn cursor(queue: &ByteQueue, oflag: u32) -> (u64, usize) {
    loop {
        if let Some(at) = queue.settled() {
            let column = cook_tty_out::column_behind(oflag, queue.recent(at));
            if queue.settled() == Some(at) {
                return (at, column);
            }
        }
        (sync::callout::get().yield_now)();
    }
}

/// Bytes that are kept where there is no memory for more.
const FEW: usize = 64;

/// Processed bytes on their way into a queue.
struct Cooked {
    few: [u8; FEW],
    many: Vec<u8>,
    length: usize,
    most: usize,
}

impl Cooked {
    /// With room for `most` bytes, or for a few.
    fn of(most: usize) -> Cooked {
        let many = match most > FEW {
            true => try_filled(0, most).unwrap_or_default(),
            false => Vec::new(),
        };
        Cooked {
            few: [0; FEW],
            many,
            length: 0,
            most: 0,
        }
    }

    /// Nothing yet, and never more than `room`.
    fn begin(&mut self, room: usize) {
        self.most = room.min(self.many.len().max(FEW));
        self.length = 0;
    }

    fn places(&mut self) -> &mut [u8] {
        match self.many.is_empty() {
            true => &mut self.few,
            false => &mut self.many,
        }
    }

    /// As many of `piece` as fit, or of at most 8 (an escape sequence, an expansion) all or none.
    fn take(&mut self, piece: &[u8]) -> usize {
        let room = self.most - self.length;
        let count = match piece.len() {
            few if few <= 8 && few > room => 0,
            length => length.min(room),
        };
        let at = self.length;
        self.places()[at..at + count].copy_from_slice(&piece[..count]);
        self.length += count;
        count
    }

    fn bytes(&self) -> &[u8] {
        match self.many.is_empty() {
            true => &self.few[..self.length],
            false => &self.many[..self.length],
        }
    }
}
