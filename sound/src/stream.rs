//! The stream of a client: the part of it that the interrupt handler, the mixer and the scheduler know.
//!
//! *Interface*: [`StreamParams`] is what a client asks for; [`PlayStream`] and [`RecordStream`] are its
//! parts.

use abi::errno::{Errno, Result};
use account::user::Charge;
use alloc::sync::Arc;
use codegen::{Draft, Label, dynasm};
use core::sync::atomic::{AtomicBool, AtomicU64};
use device::sound::{Card, Client, FRAME, LONGEST, MOST_AHEAD, Pace, SHORTEST};
use file::gauge::{DeviceNearness, Flow, Gauge};
use quaject::RoutineError;
use quaject::class::Ref;
use quaject::mix::{Capture, Voice};
use quaject::queue::{Channel, Layout};

/// A client's wishes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StreamParams {
    /// Its frames in a second.
    pub rate: u32,
    /// Frames after which it wants to be woken.
    pub period: u32,
    /// Frames that its ring holds; it may get more, up to the next power of two.
    pub buffer: u32,
}

impl StreamParams {
    /// The rates that a client may have.
    pub const RATES: core::ops::RangeInclusive<u32> = 4_000..=192_000;
    /// The largest ring, in frames.
    pub const LARGEST: u32 = 65_536 / FRAME as u32;
    /// The usual period, and ring.
    pub const PERIOD: u32 = 256;
    /// The usual ring.
    pub const BUFFER: u32 = 4096;

    /// The usual, at `rate`.
    pub fn at(rate: u32) -> StreamParams {
        StreamParams {
            rate,
            period: Self::PERIOD,
            buffer: Self::BUFFER,
        }
    }

    /// The nearest that can be.
    pub(crate) fn possible(self) -> Result<StreamParams> {
        if !Self::RATES.contains(&self.rate) {
            return Err(Errno::EINVAL);
        }
        let buffer = self.buffer.clamp(2 * SHORTEST, Self::LARGEST);
        let buffer = buffer.next_power_of_two();
        Ok(StreamParams {
            rate: self.rate,
            period: self.period.clamp(16, buffer / 2),
            buffer,
        })
    }

    pub(crate) fn bytes(self) -> usize {
        self.buffer as usize * FRAME
    }

    /// The pace of a card with `rate` frames a second that serves this client: its period, and no further
    /// ahead than half of its ring.
    pub(crate) fn pace(self, rate: u32) -> Pace {
        /// Frames that are filled ahead of a card, where rings are large.
        const AHEAD: u32 = 1024;
        let scaled =
            |frames: u32| (u64::from(frames) * u64::from(rate) / u64::from(self.rate)) as u32;
        let period = (scaled(self.period) & !15).clamp(SHORTEST, LONGEST);
        let ahead = (scaled(self.buffer) / 2).min(AHEAD) / period;
        Pace {
            period,
            ahead: ahead.clamp(2, MOST_AHEAD),
        }
    }
}

pub(crate) fn no_memory(_: RoutineError) -> Errno {
    Errno::ENOMEM
}

/// A ring's flow.
fn flow(channel: &Channel) -> Flow {
    let got = channel.queue().taken();
    Flow {
        put: got.wrapping_add(channel.queue().len() as u64),
        got,
    }
}

/// The part of a player that the handler and the scheduler know.
pub struct PlayStream {
    pub(crate) voice: Ref<Voice>,
    pub(crate) how: StreamParams,
    pub(crate) card: Arc<Card>,
    /// Frames that the next close or reset has thrown away.
    pub(crate) thrown: AtomicU64,
    /// Its client has gone.
    pub(crate) closed: AtomicBool,
    /// Addresses for the handler.
    pub(crate) ring: Layout,
    pub(crate) list: i32,
    pub(crate) _charge: Charge,
}

impl Client for PlayStream {
    fn look(&self, d: &mut Draft, wake: Label) {
        let next = d.label();
        let full = (self.how.bytes() - self.how.period as usize * FRAME) as i32;
        dynasm!(d ; .arch x64
            ; cmp QWORD [self.list], 0
            ; je =>next
            ; mov rax, [self.ring.head]
            ; sub rax, [self.ring.tail]
            ; cmp rax, full
            ; jbe =>wake
            ; =>next
        );
    }

    fn wake(&self) {
        self.channel().drained().wake_all();
    }
}

impl PlayStream {
    pub(crate) fn channel(&self) -> &Arc<Channel> {
        self.voice.channel()
    }
}

impl Gauge for PlayStream {
    fn flow(&self) -> Flow {
        flow(self.channel())
    }
    fn size(&self) -> usize {
        self.how.bytes()
    }

    fn place(&self) -> DeviceNearness<'_> {
        DeviceNearness::Device
    }

    fn xruns(&self) -> Option<u64> {
        Some(u64::from(self.voice.dry()))
    }
}

/// The part of a recorder that the handler and the scheduler know.
pub struct RecordStream {
    pub(crate) ear: Ref<Capture>,
    pub(crate) how: StreamParams,
    pub(crate) card: Arc<Card>,
    /// Its client has gone.
    pub(crate) closed: AtomicBool,
    pub(crate) ring: Layout,
    pub(crate) list: i32,
    pub(crate) _charge: Charge,
}

impl Client for RecordStream {
    fn look(&self, d: &mut Draft, wake: Label) {
        let next = d.label();
        let period = (self.how.period as usize * FRAME) as i32;
        dynasm!(d ; .arch x64
            ; cmp QWORD [self.list], 0
            ; je =>next
            ; mov rax, [self.ring.head]
            ; sub rax, [self.ring.tail]
            ; cmp rax, period
            ; jae =>wake
            ; =>next
        );
    }

    fn wake(&self) {
        self.ear.channel().arrived().wake_all();
    }
}

impl Gauge for RecordStream {
    fn flow(&self) -> Flow {
        flow(self.ear.channel())
    }
    fn size(&self) -> usize {
        self.how.bytes()
    }

    fn place(&self) -> DeviceNearness<'_> {
        DeviceNearness::Device
    }

    fn xruns(&self) -> Option<u64> {
        Some(self.ear.lost())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_wish_becomes_one_that_can_be() {
        let wishes = [0, 1, 15, 16, 63, 64, 100, 1024, 5000, 65_536, u32::MAX];
        for rate in [4_000, 44_100, 48_000, 192_000] {
            for period in wishes {
                for buffer in wishes {
                    let how = StreamParams {
                        rate,
                        period,
                        buffer,
                    };
                    let how = how.possible().unwrap();
                    assert!(how.buffer.is_power_of_two() && how.buffer <= StreamParams::LARGEST);
                    assert!(how.period >= 16 && how.period <= how.buffer / 2);
                    for card in [44_100, 48_000] {
                        let pace = how.pace(card);
                        assert!(pace.period.is_multiple_of(16) && pace.ahead <= MOST_AHEAD);
                        assert!((SHORTEST..=LONGEST).contains(&pace.period) && pace.ahead >= 2);
                    }
                }
            }
        }
        for rate in [0, 3_999, 192_001, u32::MAX] {
            assert_eq!(
                StreamParams::at(rate).possible().unwrap_err(),
                Errno::EINVAL
            );
        }
        assert_eq!(
            StreamParams::at(44_100).possible().unwrap(),
            StreamParams::at(44_100)
        );
        let pace = StreamParams::at(44_100).pace(44_100);
        assert_eq!((pace.period, pace.ahead), (256, 4));
    }
}
