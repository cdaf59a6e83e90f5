//! Cards behind a model of their ports: as they should be, and as they should not be.
//!
//! *Unsafe*: a routine that is looked at.

use super::*;
use crate::ports::model::{Model, answer};
use crate::sound::{Card, Enabled, GET_SAMPLE, PUT_SAMPLE, SoundAd, SoundDa};
use quaject::class::create;
use std::collections::HashMap;
use std::sync::{Arc as Shared, Mutex};

const MIXER: u16 = 0x2000;
const MASTER: u16 = 0x3000;

/// A register's faults.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Fault {
    None,
    /// Nothing answers.
    Absent,
    /// The codec never answers.
    NoCodec,
    /// The turn for an access is never given.
    Busy,
    /// The codec's parts are never ready.
    Asleep,
    /// A reset of a channel never ends.
    Stuck,
    /// There is one rate only.
    OneRate,
    /// Another rate than the one that was set is read back.
    Deaf,
}

/// Registers by port, shared with the test.
struct Registers {
    words: Shared<Mutex<HashMap<u16, u32>>>,
    fault: Fault,
}

impl Model for Registers {
    fn read(&mut self, port: u16, _: u16) -> u32 {
        let word = |port| self.words.lock().unwrap().get(&port).copied().unwrap_or(0);
        match (self.fault, port) {
            (Fault::Absent, _) => u32::MAX,
            (fault, port) if port == MASTER + GLOBAL_STATUS => match fault {
                Fault::NoCodec => 0,
                _ => CODEC,
            },
            (fault, port) if port == MASTER + ACCESS => u32::from(fault == Fault::Busy),
            (Fault::Asleep, port) if port == MIXER + 0x26 => 7,
            (_, port) if port == MIXER + 0x26 => 15,
            (fault, port) if port == MIXER + 0x28 => u32::from(fault != Fault::OneRate),
            (Fault::Deaf, port) if port == MIXER + 0x2c => 48_000,
            // A reset is over at once.
            (fault, port) if port == MASTER + OUTPUT + 11 && fault != Fault::Stuck => {
                word(port) & !2
            }
            (_, port) if port == MASTER + INPUT + 11 => word(port) & !2,
            (_, port) => word(port),
        }
    }

    fn write(&mut self, port: u16, _: u16, value: u32) {
        self.words.lock().unwrap().insert(port, value);
    }
}

type Words = Shared<Mutex<HashMap<u16, u32>>>;

fn started(fault: Fault) -> (Result<Ac97, Unusable>, Words) {
    codegen::host::link();
    let words = Words::default();
    answer(Registers {
        words: words.clone(),
        fault,
    });
    let codec = Codec {
        mixer: Ports::new(MIXER, MIXER_LEN),
        master: Ports::new(MASTER, MASTER_LEN),
    };
    (Ac97::new(codec, 0x1af4), words)
}

#[test]
fn a_card_is_set_to_the_wanted_rate_if_it_can_have_one() {
    let (card, words) = started(Fault::None);
    assert_eq!(card.unwrap().rate(), 44_100);
    let word = |port| words.lock().unwrap().get(&port).copied();
    assert_eq!(word(MIXER + 0x2c), Some(44_100));
    assert_eq!(word(MIXER + 0x32), Some(44_100));
    // Nothing is muted, and nothing walks yet.
    assert_eq!(word(MIXER + 0x02), Some(0));
    assert_eq!(word(MIXER + 0x18), Some(0));
    assert_eq!(word(MASTER + OUTPUT + 11), Some(2));
    for fault in [Fault::OneRate, Fault::Deaf] {
        assert_eq!(started(fault).0.unwrap().rate(), 48_000, "{fault:?}");
    }
}

#[test]
fn a_card_that_does_not_become_ready_is_not_waited_for_for_ever() {
    use Fault::*;
    for fault in [Absent, NoCodec, Busy, Asleep, Stuck] {
        let Err(error) = started(fault).0 else {
            panic!("{fault:?} was not noticed");
        };
        assert!(
            matches!(
                error,
                Unusable::DeviceError(DeviceError::Gone | DeviceError::Fit)
            ),
            "{fault:?}: {error:?}"
        );
    }
}

#[test]
fn only_possible_paces_are_set() {
    let (card, _) = started(Fault::None);
    let card = Card::new(Arc::new(card.unwrap())).unwrap();
    let wrong = [
        (0, 2),
        (63, 2),
        (65, 2),
        (2048, 2),
        (64, 1),
        (64, 31),
        (u32::MAX, 2),
    ];
    for (period, ahead) in wrong {
        let how = Some(Enabled {
            pace: Pace { period, ahead },
            clients: Arc::from([]),
        });
        assert_eq!(
            card.play(how),
            Err(DeviceError::Fit.into()),
            "{period} {ahead}"
        );
    }
    // Without an interrupt it cannot be used.
    assert_eq!(card.play(None), Err(Unusable::Absent));
}

#[test]
fn a_channel_walks_along_silence_first() {
    let (card, words) = started(Fault::None);
    let card = card.unwrap();
    let pace = Pace {
        period: 64,
        ahead: 4,
    };
    let channel = card.channel(Direction::Out);
    channel.begin(pace).unwrap();
    channel.go();
    let word = |port| words.lock().unwrap().get(&port).copied();
    assert_eq!(
        word(MASTER + OUTPUT + 5),
        Some(3),
        "the last that is filled"
    );
    assert_eq!(word(MASTER + OUTPUT + 11), Some(0x15));
    assert_eq!(channel.passed(), 256);
    // The card is at the second buffer, with 40 frames left, whatever lies beyond the ring.
    for current in [1, 33, 0xe1] {
        words
            .lock()
            .unwrap()
            .extend([(MASTER + OUTPUT + 4, current), (MASTER + OUTPUT + 8, 80)]);
        assert_eq!(channel.in_hand(pace), 2 * 64 + 40);
    }
    words.lock().unwrap().insert(MASTER + OUTPUT + 8, 0xffff);
    assert_eq!(
        channel.in_hand(pace),
        3 * 64,
        "no more than a period is left of one"
    );
    words.lock().unwrap().insert(MASTER + OUTPUT + 6, 1);
    assert_eq!(channel.in_hand(pace), 0, "one that halted has nothing");
    channel.end();
    assert_eq!(word(MASTER + OUTPUT + 11), Some(2));
}

/// The code of the handler's part for these directions.
fn code(card: &Ac97, output: bool, input: bool) -> String {
    use codegen::{Class, dynasm};
    static CLASS: Class = Class::new("test");
    let (da, ad) = (create::<SoundDa>(()), create::<SoundAd>(()));
    let pace = Pace {
        period: 64,
        ahead: 4,
    };
    let served = |on: bool, from, port| on.then_some(ServedDirection { pace, from, port });
    let served = [
        served(output, da.unwrap().header(), GET_SAMPLE.number()),
        served(input, ad.unwrap().header(), PUT_SAMPLE.number()),
    ];
    let mut a = Assembly::new(&CLASS, "handler", None);
    card.emit(&mut a, served);
    dynasm!(a ; .arch x64 ; ret);
    // SAFETY: it is looked at, and never called.
    let (routine, _) = unsafe { a.seal::<unsafe extern "C" fn()>(None).unwrap() };
    let info = codegen::image_at(routine.entry()).unwrap();
    let mut text = String::new();
    codegen::disassemble(info.entry, &mut text, &|_, _| Ok(()))
        .unwrap()
        .unwrap();
    text
}

#[test]
fn the_handler_has_just_the_sections_of_the_directions_that_are_on() {
    let (card, _) = started(Fault::None);
    let card = card.unwrap();
    let [output, input] = [OUTPUT, INPUT].map(|at| format!("{:x}h", MASTER + at + 6));
    let [output_too, input_too] = [OUTPUT, INPUT].map(|at| format!("{:#x}", MASTER + at + 6));
    for (plays, records) in [(false, false), (true, false), (false, true), (true, true)] {
        let text = code(&card, plays, records);
        let has = |one: &str, other: &str| text.contains(one) || text.contains(other);
        assert_eq!(has(&output, &output_too), plays, "{text}");
        assert_eq!(has(&input, &input_too), records, "{text}");
        assert!(!text.contains("call"), "{text}");
    }
}
