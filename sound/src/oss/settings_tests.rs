//! The settings' arithmetic, at all values.

use super::play::pointer;
use super::settings::{Scale, Settings, counted, formats};
use abi::errno::Errno;
use abi::linux::{
    AFMT_A_LAW, AFMT_MU_LAW, AFMT_QUERY, AFMT_S8, AFMT_S16_LE, AFMT_S24_LE, AFMT_S32_LE, AFMT_U8,
    AFMT_U16_BE, AFMT_U16_LE,
};
use quaject::resample::{MOST_CHANNELS, Sample};

fn stereo() -> Settings {
    let mut settings = Settings::DSP;
    settings.set_rate(44_100);
    settings.set_channels(2).unwrap();
    settings.set_format(AFMT_S16_LE as i32);
    settings
}

#[test]
fn values_beyond_the_possible_become_the_nearest() {
    let mut settings = Settings::DSP;
    for (asked, set) in [(44_100, 44_100), (0, 1000), (-5, 1000), (i32::MAX, 192_000)] {
        assert_eq!(settings.set_rate(asked), set);
        assert_eq!(settings.rate, set as u32);
    }
    for (asked, set) in [
        (2, 2),
        (0, 1),
        (i32::MIN, 1),
        (6, 6),
        (128, i32::from(MOST_CHANNELS)),
    ] {
        assert_eq!(settings.set_channels(asked), Ok(set));
    }
    assert_eq!(settings.set_channels(129), Err(Errno::EINVAL));
    assert_eq!(settings.set_channels(i32::MAX), Err(Errno::EINVAL));
}

#[test]
fn formats_are_set_asked_for_and_replaced() {
    let mut settings = Settings::AUDIO;
    assert_eq!(settings.set_format(AFMT_QUERY as i32), AFMT_MU_LAW as i32);
    for bit in (0..31).map(|bit| 1 << bit) {
        let known = formats() & bit != 0;
        let set = settings.set_format(bit as i32) as u32;
        assert_eq!(set, if known { bit } else { AFMT_U8 });
    }
    assert_eq!(
        settings.set_format((AFMT_A_LAW | AFMT_MU_LAW) as i32),
        AFMT_U8 as i32
    );
    settings.set_format(AFMT_S24_LE as i32);
    assert_eq!((settings.bits(), settings.frame.bytes()), (24, 4));
    settings.set_format(AFMT_S16_LE as i32);
    assert_eq!(settings.bits(), 16);
}

#[test]
fn a_buffer_without_wishes_is_divided_as_linux_divides_it() {
    let shape = stereo().shape(1 << 16);
    assert_eq!((shape.fragment, shape.count), (8192, 8));
    let slow = Settings::DSP.shape(1 << 16);
    assert_eq!(slow.fragment, 1024);
    let mut divided = stereo();
    assert_eq!(divided.subdivide(0), Ok(1));
    assert_eq!(divided.subdivide(16), Ok(16));
    assert_eq!(divided.subdivide(16), Err(Errno::EINVAL));
    assert_eq!(divided.subdivide(0), Ok(16));
    assert_eq!(divided.shape(1 << 16).fragment, 2048);
    for bad in [3, -1, 32, i32::MIN] {
        assert_eq!(stereo().subdivide(bad), Err(Errno::EINVAL));
    }
}

#[test]
fn wishes_for_fragments_are_followed_once() {
    let mut settings = stereo();
    assert_eq!(settings.set_fragments(4 << 16 | 10), Ok(()));
    assert_eq!(settings.set_fragments(4 << 16 | 10), Err(Errno::EINVAL));
    assert_eq!(settings.subdivide(2), Err(Errno::EINVAL));
    let shape = settings.shape(1 << 16);
    assert_eq!(
        (shape.fragment, shape.count, shape.total()),
        (1024, 4, 4096)
    );
    let mut least = stereo();
    least.set_fragments(0).unwrap();
    assert_eq!(
        (least.shape(1 << 16).fragment, least.shape(1 << 16).count),
        (16, 2)
    );
    assert_eq!(stereo().set_fragments(25), Err(Errno::EINVAL));
    assert_eq!(stereo().set_fragments(-1), Err(Errno::EINVAL));
}

#[test]
fn no_shape_is_larger_than_its_limit_or_cuts_a_frame() {
    for most in [0, 1, 100, 5000, 1 << 16, 1 << 20] {
        for shift in 0..25 {
            for count in [0, 2, 3, 100, 0x7fff, -1] {
                for channels in 1..=8 {
                    let mut settings = stereo();
                    settings.set_channels(channels).unwrap();
                    settings.frame.sample = Sample::ALL[shift as usize % 13];
                    settings.set_fragments(count << 16 | shift).unwrap();
                    let shape = settings.shape(most);
                    let frame = settings.frame.bytes();
                    assert!(shape.count >= 2 && shape.fragment > 0);
                    assert_eq!(shape.fragment % frame, 0);
                    assert!(
                        shape.total() <= most.clamp(2 * frame, 64 << 10),
                        "{shape:?} {most}"
                    );
                }
            }
        }
    }
}

#[test]
fn frames_are_scaled_to_the_safe_side() {
    let scale = Scale {
        program: 8000,
        card: 44_100,
    };
    assert_eq!(scale.to_card(80), 441);
    assert_eq!(scale.to_card(1), 6);
    assert_eq!(scale.to_program(441), 80);
    assert_eq!(scale.to_program(6), 1);
    for frames in 0..1000 {
        assert!(scale.to_program(scale.to_card(frames)) >= frames);
    }
    assert_eq!(counted(u64::from(u32::MAX) + 6), 5);
}

/// `GETOPTR` and `GETIPTR`.
#[test]
fn blocks_count_since_the_last_question() {
    let mut settings = stereo();
    settings.set_fragments(4 << 16 | 10).unwrap();
    let (shape, mut blocks) = (settings.shape(1 << 16), 0);
    let mut asked = |bytes| {
        let told = pointer(bytes, shape, &mut blocks);
        [told.bytes, told.blocks, told.ptr]
    };
    assert_eq!(asked(1023), [1023, 0, 1023]);
    assert_eq!(asked(3 * 1024), [3 * 1024, 3, 3 * 1024]);
    assert_eq!(asked(3 * 1024), [3 * 1024, 0, 3 * 1024]);
    assert_eq!(asked(5 * 1024 + 8), [5 * 1024 + 8, 2, 1024 + 8]);
}

#[test]
fn silence_is_silent_in_every_format() {
    use quaject::resample::Frame;
    for sample in Sample::ALL {
        let mut settings = stereo();
        settings.frame = Frame {
            sample,
            channels: 1,
        };
        let mut bytes = [0x55; 12];
        settings.silence(&mut bytes);
        let twelve = &bytes[..sample.bytes()];
        let unsigned = matches!(sample, Sample::U8 | Sample::U16Le | Sample::U16Be);
        let laws = matches!(sample, Sample::MuLaw | Sample::ALaw);
        assert_eq!(
            twelve.iter().any(|byte| *byte != 0),
            unsigned || laws,
            "{sample:?}"
        );
    }
}

#[test]
fn silence_is_the_middle_of_each_format() {
    for (format, bytes) in [
        (AFMT_U8, [0x80; 4]),
        (AFMT_S8, [0; 4]),
        (AFMT_MU_LAW, [0xff; 4]),
        (AFMT_A_LAW, [0xd5; 4]),
        (AFMT_S16_LE, [0; 4]),
        (AFMT_U16_LE, [0, 0x80, 0, 0x80]),
        (AFMT_U16_BE, [0x80, 0, 0x80, 0]),
        (AFMT_S32_LE, [0; 4]),
    ] {
        let mut settings = Settings::DSP;
        settings.set_format(format.cast_signed());
        let mut into = [1; 4];
        settings.silence(&mut into);
        assert_eq!(into, bytes, "{format:#x}");
    }
}
