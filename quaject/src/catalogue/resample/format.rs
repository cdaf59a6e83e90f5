//! The formats of samples and frames, and the code that loads and stores them.
//!
//! *Interface*: [`Sample`], [`Frame`]; [`load`] and [`store`] emit the code for one frame. All formats become
//! 16 bits: lower bits are cut off, or are zero.
//!
//! A single channel is both the left and the right one. Of more than two, the third of an odd number is the
//! centre and goes to both sides; a fourth of six or more, that of the low frequencies, is left out; the
//! others go left and right in turn. Each that is added to the first two has half its volume.

use codegen::{Draft, dynasm};

/// Sign-extended address of a table of [`Law`](super::law::Law), or 0.
pub(super) type Where = i32;

/// Bits of a sample that an encoder does not look at: both laws have 14 bits at most.
pub(super) const CUT: u32 = 2;

/// The most channels of a frame.
pub const MOST_CHANNELS: u8 = 8;

/// One sample.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sample {
    /// 8 bits from 0 on.
    U8,
    /// 8 bits with a sign.
    S8,
    /// 16 bits with a sign, lowest byte first.
    S16Le,
    /// The same, highest byte first.
    S16Be,
    /// 16 bits from 0 on, lowest byte first.
    U16Le,
    /// The same, highest byte first.
    U16Be,
    /// 24 bits in three bytes, lowest first.
    S24Packed,
    /// 24 bits in the lower part of 32, lowest byte first.
    S24Le,
    /// The same, highest byte first.
    S24Be,
    /// 32 bits with a sign, lowest byte first.
    S32Le,
    /// The same, highest byte first.
    S32Be,
    /// G.711 with μ-law.
    MuLaw,
    /// G.711 with A-law.
    ALaw,
}

impl Sample {
    /// All formats.
    pub const ALL: [Sample; 13] = [
        Sample::U8,
        Sample::S8,
        Sample::S16Le,
        Sample::S16Be,
        Sample::U16Le,
        Sample::U16Be,
        Sample::S24Packed,
        Sample::S24Le,
        Sample::S24Be,
        Sample::S32Le,
        Sample::S32Be,
        Sample::MuLaw,
        Sample::ALaw,
    ];

    /// Bytes of a sample.
    pub const fn bytes(self) -> usize {
        match self {
            Sample::U8 | Sample::S8 | Sample::MuLaw | Sample::ALaw => 1,
            Sample::S16Le | Sample::S16Be | Sample::U16Le | Sample::U16Be => 2,
            Sample::S24Packed => 3,
            Sample::S24Le | Sample::S24Be | Sample::S32Le | Sample::S32Be => 4,
        }
    }
}

/// One frame: a sample of each channel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Frame {
    /// The format of its samples.
    pub sample: Sample,
    /// 1 to [`MOST_CHANNELS`].
    pub channels: u8,
}

/// The sides to which a channel beyond the second goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Sides {
    pub left: bool,
    pub right: bool,
}

impl Frame {
    /// The frames of cards: two samples of 16 bits.
    pub const CARD: Frame = Frame {
        sample: Sample::S16Le,
        channels: 2,
    };

    /// Bytes of a frame.
    pub const fn bytes(self) -> usize {
        self.sample.bytes() * self.channels as usize
    }

    pub(super) const fn is_possible(self) -> bool {
        1 <= self.channels && self.channels <= MOST_CHANNELS
    }

    /// Where channel `number`, from 2 on, is heard.
    pub(super) const fn sides(self, number: u8) -> Sides {
        let centre = number == 2 && (self.channels % 2 == 1 || self.channels >= 6);
        let low = number == 3 && self.channels >= 6;
        let even = number.is_multiple_of(2);
        Sides {
            left: centre || (!low && even),
            right: centre || (!low && !even),
        }
    }
}

/// Numbers of the registers that hold a frame.
const LEFT: u8 = 0;
const RIGHT: u8 = 1;

/// The frame at rdi becomes two samples in eax and ecx, sign-extended to 32 bits. Changes edx.
pub(super) fn load(d: &mut Draft, frame: Frame, law: Where) {
    let at = |channel: u8| (frame.sample.bytes() * usize::from(channel)) as i32;
    load_sample(d, frame.sample, LEFT, at(0), law);
    if frame.channels == 1 {
        dynasm!(d ; .arch x64 ; mov ecx, eax);
        return;
    }
    load_sample(d, frame.sample, RIGHT, at(1), law);
    for channel in 2..frame.channels {
        let sides = frame.sides(channel);
        if !sides.left && !sides.right {
            continue;
        }
        load_sample(d, frame.sample, 2, at(channel), law);
        dynasm!(d ; .arch x64 ; sar edx, 1);
        if sides.left {
            dynasm!(d ; .arch x64 ; add eax, edx);
        }
        if sides.right {
            dynasm!(d ; .arch x64 ; add ecx, edx);
        }
    }
    if frame.channels > 2 {
        limit(d, LEFT);
        limit(d, RIGHT);
    }
}

/// Register `r` of 32 bits is set to the limit of 16 bits that it is beyond. Changes edx.
#[allow(clippy::useless_conversion, reason = "in dynasm's expansion")]
fn limit(d: &mut Draft, r: u8) {
    let fits = d.label();
    dynasm!(d ; .arch x64
        ; movsx edx, Rw(r)
        ; cmp edx, Rd(r)
        ; je =>fits
        ; sar Rd(r), 31
        ; xor Rd(r), 0x7fff
        ; =>fits
    );
}

#[allow(clippy::useless_conversion, reason = "in dynasm's expansion")]
fn load_sample(d: &mut Draft, sample: Sample, r: u8, at: i32, law: Where) {
    match sample {
        Sample::U8 => dynasm!(d ; .arch x64
            ; movzx Rd(r), BYTE [rdi + at]
            ; sub Rd(r), 128
            ; shl Rd(r), 8
        ),
        Sample::S8 => dynasm!(d ; .arch x64 ; movsx Rd(r), BYTE [rdi + at] ; shl Rd(r), 8),
        Sample::S16Le => dynasm!(d ; .arch x64 ; movsx Rd(r), WORD [rdi + at]),
        Sample::S24Packed | Sample::S24Le => {
            dynasm!(d ; .arch x64 ; movsx Rd(r), WORD [rdi + (at + 1)]);
        }
        Sample::S32Le => dynasm!(d ; .arch x64 ; movsx Rd(r), WORD [rdi + (at + 2)]),
        Sample::S16Be | Sample::S32Be => turned(d, r, at),
        Sample::S24Be => turned(d, r, at + 1),
        Sample::U16Le => dynasm!(d ; .arch x64
            ; movzx Rd(r), WORD [rdi + at]
            ; sub Rd(r), 0x8000
        ),
        Sample::U16Be => dynasm!(d ; .arch x64
            ; movzx Rd(r), WORD [rdi + at]
            ; ror Rw(r), 8
            ; sub Rd(r), 0x8000
        ),
        Sample::MuLaw | Sample::ALaw => dynasm!(d ; .arch x64
            ; movzx Rd(r), BYTE [rdi + at]
            ; movsx Rd(r), WORD [Rq(r) * 2 + law]
        ),
    }
}

/// Two bytes, the highest first.
#[allow(clippy::useless_conversion, reason = "in dynasm's expansion")]
fn turned(d: &mut Draft, r: u8, at: i32) {
    dynasm!(d ; .arch x64
        ; movzx Rd(r), WORD [rdi + at]
        ; ror Rw(r), 8
        ; movsx Rd(r), Rw(r)
    );
}

/// The two samples in eax and ecx become the frame at r8. A single channel gets their mean, and channels
/// beyond the second are silent. Changes edx and eax.
pub(super) fn store(d: &mut Draft, frame: Frame, law: Where) {
    let at = |channel: u8| (frame.sample.bytes() * usize::from(channel)) as i32;
    if frame.channels == 1 {
        dynasm!(d ; .arch x64 ; add eax, ecx ; sar eax, 1);
        store_sample(d, frame.sample, LEFT, at(0), law);
        return;
    }
    store_sample(d, frame.sample, LEFT, at(0), law);
    store_sample(d, frame.sample, RIGHT, at(1), law);
    if frame.channels > 2 {
        dynasm!(d ; .arch x64 ; xor eax, eax);
    }
    for channel in 2..frame.channels {
        store_sample(d, frame.sample, LEFT, at(channel), law);
    }
}

#[allow(clippy::useless_conversion, reason = "in dynasm's expansion")]
fn store_sample(d: &mut Draft, sample: Sample, r: u8, at: i32, law: Where) {
    match sample {
        Sample::U8 => dynasm!(d ; .arch x64
            ; mov edx, Rd(r)
            ; shr edx, 8
            ; xor edx, 0x80
            ; mov BYTE [r8 + at], dl
        ),
        Sample::S8 => dynasm!(d ; .arch x64
            ; mov edx, Rd(r)
            ; shr edx, 8
            ; mov BYTE [r8 + at], dl
        ),
        Sample::S16Le => dynasm!(d ; .arch x64 ; mov WORD [r8 + at], Rw(r)),
        Sample::S16Be => dynasm!(d ; .arch x64
            ; mov edx, Rd(r)
            ; ror dx, 8
            ; mov WORD [r8 + at], dx
        ),
        Sample::U16Le => dynasm!(d ; .arch x64
            ; mov edx, Rd(r)
            ; xor edx, 0x8000
            ; mov WORD [r8 + at], dx
        ),
        Sample::U16Be => dynasm!(d ; .arch x64
            ; mov edx, Rd(r)
            ; xor edx, 0x8000
            ; ror dx, 8
            ; mov WORD [r8 + at], dx
        ),
        Sample::S24Packed => dynasm!(d ; .arch x64
            ; mov BYTE [r8 + at], 0
            ; mov WORD [r8 + (at + 1)], Rw(r)
        ),
        Sample::S24Le => dynasm!(d ; .arch x64
            ; mov edx, Rd(r)
            ; shl edx, 8
            ; mov DWORD [r8 + at], edx
        ),
        Sample::S24Be => dynasm!(d ; .arch x64
            ; mov edx, Rd(r)
            ; shl edx, 8
            ; bswap edx
            ; mov DWORD [r8 + at], edx
        ),
        Sample::S32Le => dynasm!(d ; .arch x64
            ; mov edx, Rd(r)
            ; shl edx, 16
            ; mov DWORD [r8 + at], edx
        ),
        Sample::S32Be => dynasm!(d ; .arch x64
            ; mov edx, Rd(r)
            ; shl edx, 16
            ; bswap edx
            ; mov DWORD [r8 + at], edx
        ),
        // The table is indexed by the sample's higher bits.
        Sample::MuLaw | Sample::ALaw => dynasm!(d ; .arch x64
            ; movzx edx, Rw(r)
            ; shr edx, CUT as i8
            ; movzx edx, BYTE [rdx + law]
            ; mov BYTE [r8 + at], dl
        ),
    }
}
