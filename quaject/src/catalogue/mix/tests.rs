//! Mixing routines against their reference implementation, with rings that wrap, run dry and begin again; and
//! splitters.
//!
//! *Unsafe*: calling the routines; a function that fills bytes.

use super::*;
use crate::catalogue::testing::Random;
use crate::kit::class::create;
use crate::kit::interfacer::{Function, link, unlink};
use crate::queue::{Channel, Parties};

type Block = Vec<[i16; 2]>;

fn voice(size: usize, start: u32, volume: u16) -> Ref<Voice> {
    codegen::host::link();
    let spec = VoiceSpec {
        channel: Arc::new(Channel::new(Parties::Many, Parties::One, size, false).unwrap()),
        start,
        patience: 3,
        volume,
    };
    create::<Voice>(spec).unwrap()
}

/// Runs a routine, which is not compiled, on memory that both sides have.
fn run(entry: usize, block: &mut [u8]) -> usize {
    let count;
    // SAFETY: the routine takes its arguments in rsi and rdx, and changes what is said here.
    unsafe {
        core::arch::asm!("call {entry}", entry = in(reg) entry, inout("rsi") block.as_mut_ptr() => _,
            inout("rdx") block.len() => _, out("rax") count, out("rcx") _, out("rdi") _, out("r8") _,
            out("r9") _, out("r10") _, out("r11") _);
    }
    count
}

fn mixed(mixer: &Ref<Mixer>, frames: usize) -> Block {
    let mut bytes = vec![0xa5; frames * FRAME];
    assert_eq!(run(mixer.mix.entry(), &mut bytes), bytes.len());
    let sample = |at: usize| i16::from_le_bytes([bytes[at], bytes[at + 1]]);
    (0..frames)
        .map(|at| [sample(4 * at), sample(4 * at + 2)])
        .collect()
}

fn samples(random: &mut Random, frames: u64) -> Vec<u8> {
    let loud = random.below(2) == 0;
    let of = |value: u64| if loud { value as i16 } else { value as i16 / 8 };
    let both = (0..2 * frames).map(|_| of(random.next() >> 7));
    both.flat_map(i16::to_le_bytes).collect()
}

#[test]
fn any_voices_sound_as_their_twins_do() {
    let mut random = Random::new(7);
    for round in 0..60 {
        let count = random.below(5);
        let pairs: Vec<[Ref<Voice>; 2]> = (0..count)
            .map(|_| {
                let size = 256 << random.below(3);
                let start = random.below(40) as u32;
                let volume = [Voice::FULL, Voice::FULL, 0, 77, 255][random.below(5) as usize];
                [voice(size, start, volume), voice(size, start, volume)]
            })
            .collect();
        let mixer = create::<Mixer>(()).unwrap();
        mixer
            .set(pairs.iter().map(|[made, _]| made.clone()).collect())
            .unwrap();
        for _ in 0..200 {
            for [made, twin] in &pairs {
                if random.below(40) == 0 {
                    made.end(true);
                    twin.end(true);
                }
                let (frames, odd) = (random.below(70), random.below(4) as usize);
                let mut bytes = samples(&mut random, frames);
                bytes.truncate(bytes.len().saturating_sub(odd));
                let went = made.channel().queue().write(&bytes);
                assert_eq!(twin.channel().queue().write(&bytes), went);
            }
            let frames = 1 + random.below(80) as usize;
            let mut wanted = vec![[0; 2]; frames];
            for (place, [_, twin]) in pairs.iter().enumerate() {
                twin.mix_into(&mut wanted, place == 0);
            }
            assert_eq!(mixed(&mixer, frames), wanted, "round {round}");
            for [made, twin] in &pairs {
                let state = |voice: &Ref<Voice>| {
                    (voice.dry(), voice.plays(), voice.channel().queue().len())
                };
                assert_eq!(state(made), state(twin));
            }
        }
    }
}

#[test]
fn sums_stay_at_the_limits() {
    const ALL: [i16; 7] = [i16::MIN, i16::MIN + 1, -1, 0, 1, i16::MAX - 1, i16::MAX];
    let voices = [voice(1024, 0, Voice::FULL), voice(1024, 0, Voice::FULL)];
    let mixer = create::<Mixer>(()).unwrap();
    mixer.set(Arc::from(voices.to_vec())).unwrap();
    let mut wanted = Block::new();
    for one in ALL {
        for other in ALL {
            for (voice, sample) in voices.iter().zip([one, other]) {
                let frame: Vec<u8> = [sample, 5].iter().flat_map(|s| s.to_le_bytes()).collect();
                voice.channel().queue().write(&frame);
            }
            wanted.push([add(one, other), 10]);
        }
    }
    assert_eq!(mixed(&mixer, wanted.len()), wanted);
}

#[test]
fn a_voice_that_runs_dry_leaves_the_others_alone_and_begins_again() {
    let (short, long) = (voice(1024, 8, Voice::FULL), voice(1024, 0, Voice::FULL));
    let mixer = create::<Mixer>(()).unwrap();
    mixer.set(Arc::from([short.clone(), long.clone()])).unwrap();
    let put = |voice: &Ref<Voice>, frames: usize, sample: i16| {
        let bytes: Vec<u8> = (0..2 * frames).flat_map(|_| sample.to_le_bytes()).collect();
        assert_eq!(voice.channel().queue().write(&bytes), bytes.len());
    };
    put(&long, 100, 1);
    put(&short, 10, 4);
    assert_eq!(mixed(&mixer, 8), [[5; 2]; 8]);
    let mut half = vec![[5; 2]; 2];
    half.extend([[1; 2]; 6]);
    assert_eq!(mixed(&mixer, 8), half);
    assert_eq!((short.dry(), long.dry()), (1, 0));
    // Too few to begin, for as long as it is patient.
    put(&short, 4, 4);
    for _ in 0..4 {
        assert_eq!(mixed(&mixer, 4), [[1; 2]; 4]);
    }
    assert_eq!(mixed(&mixer, 4), [[5; 2]; 4]);
    assert_eq!(short.dry(), 1);
}

/// Of a short sound no more comes: it begins at once, and its end is no lack. The next one waits again.
#[test]
fn a_short_sound_that_has_ended_is_heard() {
    let short = voice(1024, 8, Voice::FULL);
    let mixer = create::<Mixer>(()).unwrap();
    mixer.set(Arc::from([short.clone()])).unwrap();
    short.channel().queue().write(&[4, 0, 4, 0].repeat(3));
    assert_eq!(mixed(&mixer, 4), [[0; 2]; 4]);
    short.end(true);
    assert_eq!(mixed(&mixer, 4), [[4; 2], [4; 2], [4; 2], [0; 2]]);
    assert_eq!((short.dry(), short.plays()), (0, false));
    short.begin_again();
    short.channel().queue().write(&[4, 0, 4, 0].repeat(3));
    assert_eq!(mixed(&mixer, 4), [[0; 2]; 4]);
}

extern "sysv64" fn fill(count: usize, bytes: *mut u8, len: usize) -> usize {
    for at in 0..count.min(len) {
        // SAFETY: so many bytes are to be filled.
        unsafe { bytes.add(at).write(if at % 2 == 0 { 3 } else { 0 }) };
    }
    count.min(len)
}

#[test]
fn frames_can_come_by_a_link() {
    let voices = [voice(256, 0, Voice::FULL), voice(256, 0, Voice::FULL)];
    let mixer = create::<Mixer>(()).unwrap();
    for order in [[0, 1], [1, 0]] {
        let set = || {
            mixer
                .set(Arc::from(order.map(|at| voices[at].clone())))
                .unwrap()
        };
        link(&voices[0], FRAMES, Function::read(&"fill", fill, 6 * FRAME)).unwrap();
        set();
        voices[1].channel().queue().write(&[1, 0, 1, 0].repeat(8));
        let mut wanted = vec![[4; 2]; 6];
        wanted.extend([[1; 2]; 2]);
        assert_eq!(mixed(&mixer, 8), wanted);
        assert!(voices[0].dry() > 0);
        unlink(&voices[0], FRAMES).unwrap();
        set();
        voices[1].channel().queue().write(&[1, 0, 1, 0].repeat(8));
        assert_eq!(mixed(&mixer, 8), [[1; 2]; 8]);
    }
}

#[test]
fn each_ear_hears_all_or_loses_whole_blocks() {
    codegen::host::link();
    let mut random = Random::new(9);
    for count in 0..4 {
        let ear = |size| {
            create::<Capture>(Arc::new(
                Channel::new(Parties::One, Parties::Many, size, false).unwrap(),
            ))
            .unwrap()
        };
        let pairs: Vec<[Ref<Capture>; 2]> = (0..count)
            .map(|at| [ear(256 << at), ear(256 << at)])
            .collect();
        let splitter = create::<Splitter>(()).unwrap();
        splitter
            .set(pairs.iter().map(|[made, _]| made.clone()).collect())
            .unwrap();
        for _ in 0..300 {
            let frames = 1 + random.below(40);
            let mut bytes = samples(&mut random, frames);
            let block: Block = bytes
                .chunks(FRAME)
                .map(|b| {
                    [
                        i16::from_le_bytes([b[0], b[1]]),
                        i16::from_le_bytes([b[2], b[3]]),
                    ]
                })
                .collect();
            let lost: Vec<u64> = pairs.iter().map(|[made, _]| made.lost()).collect();
            assert_eq!(run(splitter.entry(), &mut bytes), bytes.len());
            for ([made, twin], lost) in pairs.iter().zip(lost) {
                let fits = twin.hear(&block);
                assert_eq!(made.lost() - lost, u64::from(!fits));
                let wanted = random.below(400) as usize;
                let [mut heard, mut told] = [vec![0; wanted], vec![0; wanted]];
                let count = made.channel().queue().read(&mut heard);
                assert_eq!(twin.channel().queue().read(&mut told), count);
                assert_eq!(heard, told);
            }
        }
    }
}
