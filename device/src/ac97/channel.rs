//! One direction of a card: a ring of 32 buffers that the card walks along by itself.
//!
//! *Interface*: [`Channel::begin`] and [`Channel::end`]; [`Channel::emit`] is its section of the interrupt
//! handler; [`Channel::in_hand`] says how many frames the card has and has not sounded.
//!
//! The card's index is not believed: it is taken modulo the ring, and chooses only how many of our own
//! buffers are handled, at most a ring of them at one interrupt.
//! Source: Intel ICH AC'97 (document 252751), sections 2.2.2 and 3.1.
//!
//! *Unsafe*: descriptors and words in near blocks; clearing buffers while the card is halted.

use super::PATIENCE;
use crate::Unusable;
use crate::dma::{near, physical};
use crate::error::DeviceError;
use crate::ports::Ports;
use crate::sound::{Direction, FRAME, LONGEST, Pace, ServedDirection};
use codegen::dynasm;
use codegen::idioms::Reg;
use core::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use quaject::assembly::Assembly;
use quaject::near_memory::NearBlock;
use quaject::regs::Regs;

/// Buffers of the ring.
pub const BUFFERS: u32 = 32;
/// Bytes of each.
const BUFFER: usize = LONGEST as usize * FRAME;

/// Registers.
const LIST: u16 = 0;
const CURRENT: u16 = 4;
const LAST: u16 = 5;
const STATUS: u16 = 6;
const LEFT: u16 = 8;
const CONTROL: u16 = 11;
/// Their number.
pub const LEN: u16 = 16;

/// Status: halted; and what interrupts: the last one, one that asks for it, an error.
const HALTED: u16 = 1;
const SAYS: u16 = 0x1c;

/// Control: run, reset, interrupt at the last one and at each.
const RUN: u8 = 1;
const RESET: u8 = 2;
const AT_LAST: u8 = 4;
const AT_EACH: u8 = 16;

/// In a descriptor: interrupt when it is done.
const INTERRUPT: u32 = 1 << 31;

/// The words of the handler, in near memory.
#[repr(C)]
struct Words {
    /// The buffer that is filled, or emptied, next.
    next: AtomicU32,
    /// Buffers that may still be handled at this interrupt.
    budget: AtomicU32,
    /// Frames ever given to the card, or taken from it.
    passed: AtomicU64,
}

/// One direction.
pub struct Channel {
    way: Direction,
    ports: Ports,
    list: NearBlock,
    frames: NearBlock,
    words: NearBlock,
    /// Sign-extended addresses of the three.
    at: [i32; 3],
}

impl Channel {
    /// The one whose registers are `ports`.
    ///
    /// # Errors
    /// [`Unusable::Resources`].
    pub fn new(way: Direction, ports: Ports) -> Result<Channel, Unusable> {
        let block = |len| NearBlock::new(len).ok_or(Unusable::Resources);
        let list = block(8 * BUFFERS as usize)?;
        let frames = block(BUFFER * BUFFERS as usize)?;
        let words = block(size_of::<Words>())?;
        let mut at = [0; 3];
        for (at, block) in at.iter_mut().zip([&list, &frames, &words]) {
            let begin = block.at().as_ptr().expose_provenance();
            *at = near(begin).ok_or(Unusable::Resources)?;
            // The card has addresses of 32 bits.
            if physical(begin) + block.len() as u64 > 1 << 32 {
                return Err(Unusable::Resources);
            }
        }
        let channel = Channel {
            way,
            ports,
            list,
            frames,
            words,
            at,
        };
        let begin = physical(channel.frames.at().as_ptr().expose_provenance()) as u32;
        for index in 0..BUFFERS {
            channel
                .descriptor(2 * index)
                .store(begin + index * BUFFER as u32, Ordering::Relaxed);
        }
        Ok(channel)
    }

    fn descriptor(&self, word: u32) -> &AtomicU32 {
        // SAFETY: the list has two words for each buffer.
        unsafe {
            self.list
                .at()
                .cast::<AtomicU32>()
                .add((word % (2 * BUFFERS)) as usize)
                .as_ref()
        }
    }

    fn words(&self) -> &Words {
        // SAFETY: the block holds zeroed words, and is aligned to a line.
        unsafe { self.words.at().cast::<Words>().as_ref() }
    }

    /// Puts the registers back to how they begin.
    ///
    /// # Errors
    /// [`DeviceError::Gone`].
    pub fn reset(&self) -> Result<(), DeviceError> {
        self.ports.write8(CONTROL, 0);
        self.ports.write8(CONTROL, RESET);
        let mut tries = (0..PATIENCE).map(|_| self.ports.read8(CONTROL));
        match tries.any(|control| control & RESET == 0) {
            true => Ok(()),
            false => Err(DeviceError::Gone),
        }
    }

    /// Lets the card walk: along silence first, as far ahead as `pace` says; or along empty buffers.
    ///
    /// # Errors
    /// [`DeviceError::Gone`].
    pub fn begin(&self, pace: Pace) -> Result<(), DeviceError> {
        self.reset()?;
        let words = self.words();
        // SAFETY: the card is halted, and the handler has no section of this channel.
        unsafe { self.frames.at().as_ptr().write_bytes(0, self.frames.len()) };
        for index in 0..BUFFERS {
            self.descriptor(2 * index + 1)
                .store(length(pace), Ordering::Release);
        }
        let (next, last) = match self.way {
            Direction::Out => (pace.ahead, pace.ahead - 1),
            Direction::In => (0, BUFFERS - 1),
        };
        words.next.store(next, Ordering::Release);
        if self.way == Direction::Out {
            let frames = u64::from(next) * u64::from(pace.period);
            words.passed.fetch_add(frames, Ordering::Relaxed);
        }
        let list = physical(self.list.at().as_ptr().expose_provenance());
        self.ports.write32(LIST, list as u32);
        self.ports.write8(LAST, last as u8);
        Ok(())
    }

    /// Starts the card, after [`Channel::begin`] and when the handler has this channel's section.
    pub fn go(&self) {
        self.ports.write8(CONTROL, RUN | AT_LAST | AT_EACH);
    }

    /// The card stops, and forgets the list.
    pub fn end(&self) {
        // One that does not come back from its reset is left: it has nothing more to do.
        let _gone = self.reset();
        self.ports.write16(STATUS, SAYS);
    }

    /// Frames ever given to the card, or taken from it.
    pub fn passed(&self) -> u64 {
        self.words().passed.load(Ordering::Acquire)
    }

    /// Frames that the card has been given and has not taken yet, about, while it walks at `pace`.
    pub fn in_hand(&self, pace: Pace) -> u64 {
        if self.ports.read16(STATUS) & HALTED != 0 {
            return 0;
        }
        let current = u32::from(self.ports.read8(CURRENT)) % BUFFERS;
        let left = u32::from(self.ports.read16(LEFT)) / 2;
        let next = self.words().next.load(Ordering::Acquire);
        let whole = next.wrapping_sub(current) % BUFFERS;
        let behind = whole.saturating_sub(1) * pace.period;
        u64::from(behind + left.min(pace.period))
    }

    /// Emits the section of the handler: the buffers that the card is done with are handed to what `port` of
    /// `from` is linked to, one by one; without a link they are silence. May change rax, rcx and rdx.
    pub fn emit(&self, a: &mut Assembly, ServedDirection { pace, from, port }: ServedDirection) {
        let [list, frames, words] = self.at;
        let word = |offset: usize| words + offset as i32;
        let next = word(core::mem::offset_of!(Words, next));
        let budget = word(core::mem::offset_of!(Words, budget));
        let passed = word(core::mem::offset_of!(Words, passed));
        let at = |register| i32::from(self.ports.at(register));
        let [again, out] = core::array::from_fn(|_| a.label());
        let mask = BUFFERS as i32 - 1;
        // More cannot have passed while the card was where it should be.
        let most = match self.way {
            Direction::Out => pace.ahead as i32 + 1,
            Direction::In => mask,
        };
        dynasm!(a ; .arch x64
            ; mov edx, at(STATUS)
            ; in ax, dx
            ; test al, BYTE SAYS as i8
            ; jz =>out
            ; cmp ax, BYTE -1
            ; je =>out
            ; out dx, ax
            ; mov DWORD [budget], most
            ; =>again
            ; mov edx, at(CURRENT)
            ; in al, dx
        );
        match self.way {
            // How many the card has, the one that it plays among them.
            Direction::Out => dynasm!(a ; .arch x64
                ; mov ecx, [next]
                ; sub ecx, eax
                ; and ecx, mask
                ; cmp ecx, pace.ahead as i32
                ; ja =>out
            ),
            // How many it is done with.
            Direction::In => dynasm!(a ; .arch x64
                ; sub eax, [next]
                ; test eax, mask
                ; jz =>out
            ),
        }
        dynasm!(a ; .arch x64
            ; dec DWORD [budget]
            ; js =>out
            ; push rsi
            ; mov esi, [next]
            ; shl esi, BYTE BUFFER.trailing_zeros() as i8
            ; add rsi, frames
            ; mov edx, pace.bytes()
        );
        let kept = crate::handler::KEPT - Regs::of(&[Reg::Rsi]);
        match a.use_link(from, port) {
            Some(link) => {
                a.place(link, kept, None, &[]);
            }
            None if self.way == Direction::Out => pace.silence(a),
            None => {}
        }
        // The card is given the buffer that was handled: of an output it is the last that is filled, of an
        // input the last that is empty.
        dynasm!(a ; .arch x64
            ; pop rsi
            ; mov eax, [next]
            ; mov DWORD [rax * 8 + (list + 4)], length(pace) as i32
            ; lea ecx, [rax + 1]
            ; and ecx, mask
            ; mov [next], ecx
            ; add QWORD [passed], pace.period as i32
            ; mov edx, at(LAST)
            ; out dx, al
            ; jmp =>again
            ; =>out
        );
    }
}

/// A descriptor's second word: so many samples, and an interrupt.
fn length(pace: Pace) -> u32 {
    (2 * pace.period) | INTERRUPT
}
