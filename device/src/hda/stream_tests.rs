//! The sections of the handler, run against registers in memory, beside reference implementations.
//!
//! *Unsafe*: safety contract of the section.

use super::*;
use crate::sound::{GET_SAMPLE, PUT_SAMPLE, SoundAd, SoundDa};
use codegen::Class;
use quaject::class::create;
use quaject::near_memory::NearBlock;

static CLASS: Class = Class::new("test");
type Handler = extern "sysv64" fn();

/// A stream, its registers, and its section as a routine.
struct Rig {
    stream: Stream,
    registers: Registers,
    handler: codegen::Routine<Handler>,
    _block: NearBlock,
}

fn rig(way: Direction, pace: Pace) -> Rig {
    codegen::host::link();
    let block = NearBlock::new(LEN).unwrap();
    let registers = Registers::of_block(&block);
    let stream = Stream::new(way, registers, 1, 0x4011).unwrap();
    stream.begin(pace).unwrap();
    stream.go();
    let (from, port) = match way {
        Direction::Out => {
            let da = create::<SoundDa>(()).unwrap();
            (da.header(), GET_SAMPLE.number())
        }
        Direction::In => {
            let ad = create::<SoundAd>(()).unwrap();
            (ad.header(), PUT_SAMPLE.number())
        }
    };
    let mut a = Assembly::new(&CLASS, "section", None);
    stream.emit(&mut a, ServedDirection { pace, from, port });
    dynasm!(a ; .arch x64 ; ret);
    // SAFETY: the rig keeps what it names, and it changes rax, rcx and rdx alone.
    let (handler, _) = unsafe { a.seal::<Handler>(None).unwrap() };
    Rig {
        stream,
        registers,
        handler,
        _block: block,
    }
}

impl Rig {
    /// The card is at `place` of the ring, and says so.
    fn interrupt(&self, place: usize) {
        self.registers.write(POSITION, place as u32);
        self.registers.write(STATUS, 4u8);
        self.handler.function()();
        // Taken back, by writing what was said.
        assert_eq!(self.registers.read::<u8>(STATUS), 4);
    }

    fn next(&self) -> usize {
        self.stream.words.word(NEXT).load(Ordering::Relaxed) as usize
    }
}

#[test]
fn the_registers_are_set_as_the_card_wants_them() {
    let pace = Pace {
        period: 64,
        ahead: 4,
    };
    let rig = rig(Direction::Out, pace);
    let registers = rig.registers;
    assert_eq!(registers.read::<u8>(CONTROL), RUN | AT_EACH);
    assert_eq!(registers.read::<u8>(TAG), 0x10);
    assert_eq!(registers.read::<u32>(RING_LEN), RING as u32);
    assert_eq!(registers.read::<u16>(LAST), 255);
    assert_eq!(registers.read::<u16>(FORMAT), 0x4011);
    assert_eq!(registers.read::<u32>(LIST) % 128, 0);
    let word = |word| rig.stream.list.word(word).load(Ordering::Relaxed);
    assert_eq!(word(5 * 4), rig.stream.frames.halves()[0] + 5 * 256);
    assert_eq!([word(5 * 4 + 2), word(5 * 4 + 3)], [256, 1]);
    assert_eq!((rig.stream.passed(), rig.stream.in_hand()), (256, 256));
    rig.stream.end();
    assert_eq!(rig.stream.in_hand(), 0);
}

#[test]
fn an_output_is_filled_so_far_ahead_wherever_the_card_is() {
    for (period, ahead) in [(64, 2), (64, 30), (80, 3), (256, 4), (1008, 5), (1024, 30)] {
        let pace = Pace { period, ahead };
        let rig = rig(Direction::Out, pace);
        let mut given = rig.stream.passed();
        let mut at = 0;
        for turn in 0..2000 {
            // The card goes on by any number of frames, not as far as it was given.
            at += [256, 4, 1024, 68][turn % 4].min(given as usize * FRAME - at - 64);
            rig.interrupt(at % RING);
            let place = at / 64 * 64;
            while given as usize * FRAME - place < Stream::ahead(pace) as usize {
                given += u64::from(period);
            }
            assert_eq!(rig.stream.passed(), given, "{pace:?}, turn {turn}");
            assert_eq!(rig.next(), given as usize * FRAME % RING);
            let held = (given as usize * FRAME - at) / FRAME;
            assert_eq!(rig.stream.in_hand(), held as u64);
        }
        assert!(at > RING, "{pace:?} goes round");
    }
}

#[test]
fn what_the_card_has_passed_is_silent_and_what_it_has_not_stays() {
    let pace = Pace {
        period: 64,
        ahead: 4,
    };
    let rig = rig(Direction::Out, pace);
    let words = RING / 4;
    let paint = || {
        for word in 0..words {
            (rig.stream.frames.word(word)).store(7, Ordering::Relaxed);
        }
    };
    let heard = |from: usize, to: usize| {
        let words = (from / 4)..(to / 4);
        words
            .map(|word| rig.stream.frames.word(word % (RING / 4)))
            .filter(|word| word.load(Ordering::Relaxed) == 7)
            .count()
    };
    paint();
    rig.interrupt(512);
    assert_eq!(heard(0, 512), 0);
    // Two periods were filled, here with silence.
    assert_eq!(heard(512, 1024), 128);
    assert_eq!(heard(1024, 1536), 0);
    assert_eq!(heard(1536, RING), (RING - 1536) / 4);
    // Far ahead of the handler: all is cleared, and it goes on in front of the card.
    paint();
    rig.interrupt(20_000);
    assert_eq!(heard(512, 19_968), 0);
    assert_eq!(rig.next(), 19_968 + 256 + 768);
    // Across the end: the rest is cleared the next time.
    paint();
    rig.interrupt(RING - 256);
    rig.interrupt(256);
    assert_eq!(heard(19_968, RING), 0);
    assert_eq!(heard(0, 256), 64);
    rig.interrupt(320);
    assert_eq!(heard(0, 320), 0);
    // A place beyond the ring, and one that says nothing.
    rig.interrupt(RING + 640);
    let next = rig.next();
    for nothing in [0u8, 0x20, 0xff] {
        rig.registers.write(POSITION, 4096u32);
        rig.registers.write(STATUS, nothing);
        rig.handler.function()();
        assert_eq!(rig.next(), next);
    }
}

#[test]
fn an_input_is_taken_period_by_period() {
    for period in [64, 80, 1008, 1024] {
        let pace = Pace { period, ahead: 2 };
        let rig = rig(Direction::In, pace);
        let (mut at, mut taken) = (0, 0);
        for turn in 0..1000 {
            at += [256, 4, 8192, 60][turn % 4];
            rig.interrupt(at % RING);
            let bytes = period as usize * FRAME;
            while at / 64 * 64 - taken >= bytes {
                taken += bytes;
            }
            assert_eq!(
                rig.stream.passed() as usize * FRAME,
                taken,
                "{period}, turn {turn}"
            );
            assert_eq!(rig.next(), taken % RING);
        }
    }
}
