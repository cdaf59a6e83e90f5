//! The fill and flow of the channels behind descriptors, as the scheduler sees them.
//!
//! *Interface*: [`Gauge`] is a channel's; [`File::gauges`](crate::fs::file::File::gauges) gives those of an
//! open file; [`show_sound`] is the text about those of sound. A gauge costs a channel's routines nothing: it
//! reads the counters that they keep.
//! Source: dissertation, sections 4.1.2 (gauge) and 6.3.1; Massalin and Pu 1989, section 2.3.

use alloc::sync::Arc;
use core::fmt;
use core::sync::atomic::{AtomicU64, Ordering};
use quaject::pipe::PipeCore;
use sync::Once;

/// A channel that counts the data in it. Methods are wait-free.
pub trait Gauge: Send + Sync {
    /// Bytes ever put into it, and ever taken out.
    fn flow(&self) -> Flow;
    /// Bytes that it has room for.
    fn size(&self) -> usize;
    /// How near to a device it is.
    fn place(&self) -> DeviceNearness<'_>;
    /// How often a device found it empty or full at the wrong time, if one is at its other end.
    fn xruns(&self) -> Option<u64> {
        None
    }
    /// Whether its writers have ended: nothing more is put into it.
    fn is_ended(&self) -> bool {
        false
    }
}

/// How near to a device a channel is.
pub enum DeviceNearness<'a> {
    /// A device moves its data.
    Device,
    /// Until that time of the Clock, nanoseconds, it leads to a device or from one, through other threads.
    Among(&'a AtomicU64),
}

/// Bytes ever moved through a channel; the counts wrap around.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Flow {
    /// Put in.
    pub put: u64,
    /// Taken out.
    pub got: u64,
}

impl Flow {
    /// Bytes in the channel. The two counts are not read at one moment.
    pub fn held(self) -> usize {
        let held = self.put.wrapping_sub(self.got) as i64;
        held.max(0) as usize
    }
}

/// The channels that an open file moves data through.
#[derive(Default)]
pub struct Gauges {
    /// That its reader takes from.
    pub input: Option<Arc<dyn Gauge>>,
    /// That its writer puts into.
    pub output: Option<Arc<dyn Gauge>>,
}

/// Writes lines about channels.
pub type ShowGauges = fn(&mut dyn fmt::Write) -> fmt::Result;

static SOUND: Once<ShowGauges> = Once::new();

/// Links the text about channels of sound, once, at boot. Before that, and without a card, it is empty.
pub fn link_sound(show: ShowGauges) {
    let _first = SOUND.set(show);
}

/// The text about channels of sound.
pub fn show_sound(out: &mut dyn fmt::Write) -> fmt::Result {
    SOUND.get().map_or(Ok(()), |show| show(out))
}

impl Gauge for PipeCore {
    fn flow(&self) -> Flow {
        let (put, got) = self.counters();
        // The smaller one first, so that the channel never seems fuller than it was.
        let got = got.load(Ordering::Relaxed);
        Flow {
            put: put.load(Ordering::Relaxed),
            got,
        }
    }

    fn size(&self) -> usize {
        PipeCore::size(self)
    }

    fn place(&self) -> DeviceNearness<'_> {
        DeviceNearness::Among(self.mark())
    }

    fn is_ended(&self) -> bool {
        PipeCore::is_ended(self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_that_wrap_or_were_read_apart_are_survived() {
        let held = |put, got| Flow { put, got }.held();
        assert_eq!(held(7, 3), 4);
        assert_eq!(held(2, u64::MAX - 1), 4);
        assert_eq!(held(3, 7), 0);
    }
}
