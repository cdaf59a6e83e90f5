//! One direction of a card: a ring of frames that the card goes round for ever.
//!
//! *Interface*: [`Stream::begin`], [`Stream::go`] and [`Stream::end`]; [`Stream::emit`] is its section of the
//! interrupt handler; [`Stream::in_hand`] says how many frames the card has and has not taken.
//!
//! The card reads its list of buffers when it starts, so the ring is cut into buffers of the shortest period,
//! each of which interrupts, and the handler does nothing until one of the present period has passed. Periods
//! need not divide the ring: behind its end is room for one more, and the part of a period that lies there is
//! copied. The card does not stop behind what was filled. Therefore the handler clears what it has passed: a
//! card that is ahead of the handler finds silence, and the handler goes on in front of it.
//!
//! The card's place is not believed: it is taken modulo the ring, and no more is handled than is filled
//! ahead, or than the ring holds.
//! Source: High Definition Audio Specification 1.0a, sections 3.3.35 to 3.3.43 and 3.6.

use super::dma_memory::DmaMemory;
use super::{PATIENCE, soon};
use crate::Unusable;
use crate::error::DeviceError;
use crate::registers::Registers;
use crate::sound::{Direction, FRAME, LONGEST, Pace, SHORTEST, ServedDirection};
use codegen::dynasm;
use codegen::idioms::Reg;
use core::sync::atomic::Ordering;
use quaject::assembly::Assembly;
use quaject::regs::Regs;

/// Buffers, each of them of the shortest period; their bytes, and those of the ring.
const BUFFERS: usize = 256;
const BUFFER: usize = SHORTEST as usize * FRAME;
pub const RING: usize = BUFFERS * BUFFER;
/// Bytes behind the ring, for a period that lies across its end.
const SPARE: usize = LONGEST as usize * FRAME;
/// The bits of the card's place that count: periods are multiples of 16 frames.
const PLACE: i32 = RING as i32 - 16 * FRAME as i32;

/// Registers.
const CONTROL: usize = 0;
const TAG: usize = 2;
const STATUS: usize = 3;
const POSITION: usize = 4;
const RING_LEN: usize = 8;
const LAST: usize = 0xc;
const FORMAT: usize = 0x12;
const LIST: usize = 0x18;
/// Their number.
pub const LEN: usize = 0x20;

/// Control: reset, run, interrupt at a buffer's end.
const RESET: u8 = 1;
const RUN: u8 = 2;
const AT_EACH: u8 = 4;
/// Status: what it says, a buffer's end and two errors. It is taken back by writing it.
const SAYS: u8 = 0x1c;

/// In a buffer's last word: interrupt at its end.
const INTERRUPT: u32 = 1;

/// Words of the handler: the place of the next period, in bytes from the ring's beginning; the card's at this
/// interrupt; what was cleared last; and, in two words, frames ever passed.
const NEXT: usize = 0;
const AT: usize = 1;
const CLEARED: usize = 2;
const PASSED: usize = 4;
const WORDS_LEN: usize = 32;

/// Addresses for generated code.
struct Near {
    status: i32,
    position: i32,
    frames: i32,
    words: i32,
}

/// One direction.
pub struct Stream {
    way: Direction,
    registers: Registers,
    tag: u8,
    format: u16,
    list: DmaMemory,
    frames: DmaMemory,
    words: DmaMemory,
    near: Near,
}

impl Stream {
    /// The one with these registers, for frames of this format; `tag` is how the codec's converter knows it.
    ///
    /// # Errors
    /// [`Unusable::Resources`], [`DeviceError::Fit`].
    pub fn new(
        way: Direction,
        registers: Registers,
        tag: u8,
        format: u16,
    ) -> Result<Stream, Unusable> {
        let list = DmaMemory::new(16 * BUFFERS)?;
        let frames = DmaMemory::new(RING + SPARE)?;
        let words = DmaMemory::new(WORDS_LEN)?;
        let near = Near {
            status: registers.address(STATUS, 1).ok_or(DeviceError::Fit)?,
            position: registers.address(POSITION, 4).ok_or(DeviceError::Fit)?,
            frames: frames.near(),
            words: words.near(),
        };
        let [first, high] = frames.halves();
        for buffer in 0..BUFFERS {
            let at = u64::from(high) << 32 | u64::from(first);
            let at = at + (buffer * BUFFER) as u64;
            let words = [at as u32, (at >> 32) as u32, BUFFER as u32, INTERRUPT];
            for (place, word) in words.into_iter().enumerate() {
                (list.word(4 * buffer + place)).store(word, Ordering::Release);
            }
        }
        Ok(Stream {
            way,
            registers,
            tag,
            format,
            list,
            frames,
            words,
            near,
        })
    }

    /// Puts the registers back to how they begin.
    ///
    /// # Errors
    /// [`DeviceError::Gone`].
    pub fn reset(&self) -> Result<(), DeviceError> {
        let control = || self.registers.read::<u8>(CONTROL);
        self.registers.write(CONTROL, 0u8);
        soon(PATIENCE, || control() & RUN == 0)?;
        self.registers.write(CONTROL, RESET);
        // Some cards are through before they show it.
        let _shown = soon(PATIENCE / 10, || control() & RESET != 0);
        self.registers.write(CONTROL, 0u8);
        soon(PATIENCE, || control() & RESET == 0)
    }

    /// Bytes that are filled ahead of the card, never more than half of the ring.
    fn ahead(pace: Pace) -> u32 {
        (pace.ahead * pace.bytes() as u32).min(RING as u32 / 2 - pace.bytes() as u32)
    }

    /// Prepares it: silence ahead of the card, as far as `pace` says, or empty buffers.
    ///
    /// # Errors
    /// [`DeviceError::Gone`].
    pub fn begin(&self, pace: Pace) -> Result<(), DeviceError> {
        self.reset()?;
        self.frames.clear();
        let filled = match self.way {
            Direction::Out => Self::ahead(pace),
            Direction::In => 0,
        };
        for (word, value) in [(NEXT, filled), (AT, 0), (CLEARED, 0)] {
            self.words.word(word).store(value, Ordering::Release);
        }
        self.pass(filled / FRAME as u32);
        let registers = self.registers;
        let [low, high] = self.list.halves();
        registers.write(LIST, low);
        registers.write(LIST + 4, high);
        registers.write(RING_LEN, RING as u32);
        registers.write(LAST, BUFFERS as u16 - 1);
        registers.write(FORMAT, self.format);
        registers.write(TAG, self.tag << 4);
        Ok(())
    }

    /// Starts the card, after [`Stream::begin`] and when the handler has this stream's section.
    pub fn go(&self) {
        self.registers.write(CONTROL, RUN | AT_EACH);
    }

    /// The card stops.
    pub fn end(&self) {
        // One that does not come back from its reset is left: it has nothing more to do.
        let _gone = self.reset();
        self.registers.write(STATUS, SAYS);
    }

    /// Adds to the frames that have passed, while the handler has no section.
    fn pass(&self, frames: u32) {
        let sum = self.passed() + u64::from(frames);
        for (half, word) in [sum as u32, (sum >> 32) as u32].into_iter().enumerate() {
            (self.words.word(PASSED + half)).store(word, Ordering::Release);
        }
    }

    /// Frames ever given to the card, or taken from it.
    pub fn passed(&self) -> u64 {
        loop {
            let half = |place| self.words.word(PASSED + place).load(Ordering::Acquire);
            let (high, low) = (half(1), half(0));
            // Read apart: the upper half changes once in a day.
            if half(1) == high {
                return u64::from(high) << 32 | u64::from(low);
            }
        }
    }

    /// Frames that the card has been given and has not taken yet, about.
    pub fn in_hand(&self) -> u64 {
        if self.registers.read::<u8>(CONTROL) & RUN == 0 {
            return 0;
        }
        let at = self.registers.read::<u32>(POSITION);
        let next = self.words.word(NEXT).load(Ordering::Acquire);
        match next.wrapping_sub(at) % RING as u32 {
            passed if passed > RING as u32 / 2 => 0,
            filled => u64::from(filled) / FRAME as u64,
        }
    }

    fn word(&self, word: usize) -> i32 {
        self.near.words + 4 * word as i32
    }

    /// Emits the section of the handler: what the card is done with is handed to what is served, a period at
    /// a time; an output without a link is silence. May change rax, rcx and rdx.
    pub fn emit(&self, a: &mut Assembly, served: ServedDirection) {
        let Near {
            status, position, ..
        } = self.near;
        let out = a.label();
        dynasm!(a ; .arch x64
            ; mov al, [status]
            ; test al, BYTE SAYS as i8
            ; jz =>out
            ; cmp al, BYTE -1
            ; je =>out
            ; and al, BYTE SAYS as i8
            ; mov [status], al
            ; mov eax, [position]
            ; and eax, PLACE
            ; mov [self.word(AT)], eax
        );
        match self.way {
            Direction::Out => {
                self.clear_passed(a);
                self.fill(a, served);
            }
            Direction::In => self.take(a, served),
        }
        dynasm!(a ; .arch x64 ; =>out);
    }

    /// Clears what the card has passed, up to its place in eax or to the end of the ring; the rest the next
    /// time.
    fn clear_passed(&self, a: &mut Assembly) {
        let cleared = self.word(CLEARED);
        let forward = a.label();
        dynasm!(a ; .arch x64
            ; push rdi
            ; mov edi, [cleared]
            ; mov ecx, eax
            ; sub ecx, edi
            ; jae =>forward
            ; mov ecx, RING as i32
            ; sub ecx, edi
            ; =>forward
            ; lea edx, [rdi + rcx]
            ; and edx, RING as i32 - 1
            ; mov [cleared], edx
            ; add rdi, self.near.frames
            ; shr ecx, BYTE 3
            ; xor eax, eax
            ; cld
            ; rep stosq
            ; pop rdi
        );
    }

    /// Fills periods, as far ahead of the card as the pace says.
    fn fill(&self, a: &mut Assembly, ServedDirection { pace, from, port }: ServedDirection) {
        let [next, at] = [self.word(NEXT), self.word(AT)];
        let (bytes, ring) = (pace.bytes(), RING as i32);
        let [again, out, whole] = core::array::from_fn(|_| a.label());
        let held = |a: &mut Assembly| {
            dynasm!(a ; .arch x64
                ; mov eax, [next]
                ; sub eax, [at]
                ; and eax, ring - 1
            );
        };
        held(a);
        dynasm!(a ; .arch x64
            // As far as half of the ring, or the card has passed what was filled.
            ; dec eax
            ; cmp eax, ring / 2 - 1
            ; jb =>again
            ; mov eax, [at]
            ; add eax, BUFFER as i32
            ; and eax, ring - 1
            ; mov [next], eax
            ; =>again
        );
        held(a);
        dynasm!(a ; .arch x64
            ; cmp eax, Self::ahead(pace) as i32
            ; jae =>out
            ; push rsi
            ; mov esi, [next]
            ; add rsi, self.near.frames
            ; mov edx, bytes
        );
        match a.use_link(from, port) {
            Some(link) => {
                a.place(link, KEPT, None, &[]);
            }
            None => pace.silence(a),
        }
        dynasm!(a ; .arch x64
            ; mov eax, [next]
            ; add eax, bytes
            ; mov ecx, eax
            ; sub ecx, ring
            ; jbe =>whole
            ; push rdi
            ; lea rsi, [self.near.frames + ring]
            ; lea rdi, [self.near.frames]
            ; shr ecx, BYTE 3
            ; cld
            ; rep movsq
            ; pop rdi
            ; =>whole
            ; and eax, ring - 1
            ; mov [next], eax
            ; pop rsi
        );
        self.count(a, pace);
        dynasm!(a ; .arch x64 ; jmp =>again ; =>out);
    }

    /// Hands over the periods that the card has filled.
    fn take(&self, a: &mut Assembly, ServedDirection { pace, from, port }: ServedDirection) {
        let [next, at] = [self.word(NEXT), self.word(AT)];
        let (bytes, ring) = (pace.bytes(), RING as i32);
        let [again, out, whole] = core::array::from_fn(|_| a.label());
        dynasm!(a ; .arch x64
            ; =>again
            ; mov eax, [at]
            ; sub eax, [next]
            ; and eax, ring - 1
            ; cmp eax, bytes
            ; jb =>out
            ; push rsi
            ; mov ecx, [next]
            ; sub ecx, ring - bytes
            ; jbe =>whole
            ; push rdi
            ; lea rsi, [self.near.frames]
            ; lea rdi, [self.near.frames + ring]
            ; shr ecx, BYTE 3
            ; cld
            ; rep movsq
            ; pop rdi
            ; =>whole
            ; mov esi, [next]
            ; add rsi, self.near.frames
            ; mov edx, bytes
        );
        if let Some(link) = a.use_link(from, port) {
            a.place(link, KEPT, None, &[]);
        }
        dynasm!(a ; .arch x64
            ; mov eax, [next]
            ; add eax, bytes
            ; and eax, ring - 1
            ; mov [next], eax
            ; pop rsi
        );
        self.count(a, pace);
        dynasm!(a ; .arch x64 ; jmp =>again ; =>out);
    }

    fn count(&self, a: &mut Assembly, pace: Pace) {
        dynasm!(a ; .arch x64 ; add QWORD [self.word(PASSED)], pace.period as i32);
    }
}

/// The registers that what is linked has to leave alone.
const KEPT: Regs = crate::handler::KEPT.without(Regs::of(&[Reg::Rsi]));

#[cfg(test)]
#[path = "stream_tests.rs"]
mod tests;
