//! Sound: the file of what a machine has played, compared with what its programs have written.
//!
//! *Interface*: `run`, with each kind of card. The guest's part is `user/tests/sounds.c`, which makes the
//! same sequences of frames. On one processor time is counted in instructions, so that a gap is the kernel's
//! and not the host's.

use super::guest::with;
use super::kit::Kit;
use super::removal::Talk;
use super::tap::Check;
use std::path::PathBuf;
use std::time::Duration;
use xtask::failure::{Context, Result};
use xtask::machine::{Card, Machine, Virtio};

const MINUTE: Duration = Duration::from_secs(60);
const RATE: usize = 44_100;

/// Two samples.
type Frame = [i16; 2];

/// A case of the guest's, and the faults of what was played.
struct Case {
    name: &'static str,
    cpus: u32,
    faults: fn(&[Frame]) -> String,
    /// The sequence, where the host may take the processors away. A card that does not wait for its handler
    /// then passes over frames.
    loses: Option<fn() -> Vec<Frame>>,
}

const CASES: &[Case] = &[
    Case {
        name: "ramp",
        cpus: 1,
        faults: |played| in_order(played, &noise(2 * RATE), 1),
        loses: None,
    },
    Case {
        name: "ramp",
        cpus: 4,
        faults: |played| in_order(played, &noise(2 * RATE), 0),
        loses: Some(|| noise(2 * RATE)),
    },
    Case {
        name: "pauses",
        cpus: 1,
        faults: |played| in_order(played, &noise(2 * (RATE / 4)), 2),
        loses: None,
    },
    Case {
        name: "ending",
        cpus: 1,
        faults: |played| in_order(played, &noise(RATE / 4), 1),
        loses: None,
    },
    Case {
        name: "two",
        cpus: 1,
        faults: two,
        loses: None,
    },
    Case {
        name: "loud",
        cpus: 1,
        faults: loud,
        loses: None,
    },
    Case {
        name: "load",
        cpus: 1,
        faults: |played| in_order(played, &noise(3 * RATE / 64 * 64), 1),
        loses: None,
    },
    Case {
        name: "load",
        cpus: 4,
        faults: |played| in_order(played, &noise(3 * RATE / 64 * 64), 0),
        loses: Some(|| noise(3 * RATE / 64 * 64)),
    },
    Case {
        name: "flood",
        cpus: 1,
        faults: |_| String::new(),
        loses: None,
    },
];

/// The suite.
pub fn run(kit: &Kit) -> Vec<Check> {
    let mut checks = disc(kit);
    checks.extend(by_line(kit));
    for (card, prefix) in [(Card::Ac97, "sounds"), (Card::Hda, "sounds-hda")] {
        checks.extend(with_card(kit, card, prefix));
    }
    checks
}

fn with_card(kit: &Kit, card: Card, prefix: &str) -> Vec<Check> {
    let mut checks = Vec::new();
    for case in CASES {
        let name = format!("{prefix}-{}-{}", case.name, case.cpus);
        let mut machine = with(kit, &name, case.cpus, 128);
        if kit.leaves_out(&machine) {
            continue;
        }
        machine.icount = (case.cpus == 1).then_some(0);
        machine.card = card;
        let Ok(file) = kit.file(&format!("{name}.wav")) else {
            checks.push(Check::new(name, false, "no place for the file"));
            continue;
        };
        machine.audio = Some(file.clone());
        checks.extend(kit.tap(&machine, &["/tests/sounds-glibc", case.name], 2 * MINUTE));
        let faults = match played(&file) {
            Ok(played) => match case.loses.filter(|_| card == Card::Hda) {
                Some(wanted) => in_pieces(&played, &wanted()),
                None => (case.faults)(&played),
            },
            Err(failure) => failure.message,
        };
        checks.push(Check::new(
            format!("{name} is heard"),
            faults.is_empty(),
            faults,
        ));
    }
    let devices = card.devices("");
    let none = "none,id=sound,timer-period=500";
    let machine = equipped(kit, &format!("{prefix}-mic"), none, &devices);
    checks.extend(kit.tap(&machine, &["/tests/sounds-glibc", "mic"], 2 * MINUTE));
    let machine = equipped(kit, &format!("{prefix}-mic-dsp"), none, &devices);
    checks.extend(kit.tap(&machine, &["/tests/dsp-glibc", "microphone"], 2 * MINUTE));
    let machine = equipped(kit, &format!("{prefix}-both"), none, &devices);
    let both = "/tests/sounds-glibc ramp >/tmp/said & /tests/sounds-glibc mic; wait; ! grep '^not ok' /tmp/said";
    checks.extend(kit.tap(&machine, &["/bin/sh", "-c", both], 2 * MINUTE));
    checks.extend(talked(
        kit,
        card,
        &format!("{prefix}-removed"),
        REMOVED,
        |talk| {
            talk.hear("playing")?;
            talk.order("device_del card")?;
            talk.hear("silent")
        },
    ));
    let stalled = format!("{prefix}-stalled");
    let check = talked(kit, card, &stalled, STALLED, |talk| {
        for _ in 0..3 {
            talk.hear("playing")?;
            std::thread::sleep(Duration::from_millis(300));
            talk.order("stop")?;
            std::thread::sleep(Duration::from_millis(500));
            talk.order("cont")?;
        }
        Ok(())
    });
    checks.extend(check.map(|check| {
        if !check.good {
            return check;
        }
        let played = kit
            .file(&format!("{stalled}.wav"))
            .and_then(|file| played(&file));
        let faults = match played {
            Ok(played) if card == Card::Hda => in_pieces(&played, &noise(2 * RATE)),
            Ok(played) => in_order(&played, &noise(2 * RATE), 0),
            Err(failure) => failure.message,
        };
        Check::new(stalled, faults.is_empty(), faults)
    }));
    checks
}

/// A card by its line, and a codec that only plays.
fn by_line(kit: &Kit) -> Vec<Check> {
    let name = "sounds-hda-line";
    let Ok(file) = kit.file(&format!("{name}.wav")) else {
        return vec![Check::new(name, false, "no place for the file")];
    };
    let audio = format!("{},path={}", xtask::machine::WAV, file.display());
    let devices = [
        "intel-hda,id=card,msi=off",
        "hda-output,bus=card.0,audiodev=sound",
    ];
    let machine = equipped(kit, name, &audio, &devices.map(String::from));
    if kit.leaves_out(&machine) {
        return Vec::new();
    }
    let words =
        "/tests/sounds-glibc ramp; (: </dev/mic) 2>/dev/null && echo 'not ok - a microphone'";
    let mut checks = kit.tap(&machine, &["/bin/sh", "-c", words], 2 * MINUTE);
    let faults = match played(&file) {
        Ok(played) => in_order(&played, &noise(2 * RATE), 1),
        Err(failure) => failure.message,
    };
    let heard = format!("{name} is heard");
    checks.push(Check::new(heard, faults.is_empty(), faults));
    checks
}

/// A machine with this audio device and these devices, which counts instructions.
fn equipped(kit: &Kit, name: &str, audio: &str, devices: &[String]) -> Machine {
    let mut machine = with(kit, name, 1, 128);
    machine.icount = Some(0);
    let mut extra = |words: [&str; 2]| machine.extra.extend(words.map(Into::into));
    extra(["-audiodev", audio]);
    for device in devices {
        extra(["-device", device]);
    }
    machine
}

/// A disc that a program plays, as figure 6.7 has it.
fn disc(kit: &Kit) -> Vec<Check> {
    let name = "sounds-cd";
    let mut machine = with(kit, name, 1, 128);
    if kit.leaves_out(&machine) {
        return Vec::new();
    }
    machine.icount = Some(0);
    let sequence = noise(RATE);
    let faults = |machine: &mut Machine, checks: &mut Vec<Check>| -> Result<String> {
        let audio = kit.file(&format!("{name}.wav"))?;
        let disc = audio.with_extension("disc");
        let bytes: Vec<u8> = (sequence.iter().flatten())
            .flat_map(|sample| sample.to_le_bytes())
            .collect();
        std::fs::write(&disc, bytes).context("a disc")?;
        let words = ["/tests/sounds-glibc", "cd"];
        let mut root = kit.root(&words)?;
        root.disc(&disc)?;
        machine.audio = Some(audio.clone());
        checks.extend(kit.tap_in(Ok(root), machine, &words, 2 * MINUTE));
        Ok(in_order(&played(&audio)?, &sequence, 1))
    };
    let mut checks = Vec::new();
    let told = faults(&mut machine, &mut checks).unwrap_or_else(|failure| failure.message);
    checks.push(Check::new("the disc is heard", told.is_empty(), told));
    checks
}

/// The frames in a file that QEMU has written.
fn played(file: &PathBuf) -> Result<Vec<Frame>> {
    const HEADER: usize = 44;
    let bytes = std::fs::read(file).context("what was played")?;
    let samples = bytes.get(HEADER..).unwrap_or_default();
    let sample = |at: &[u8]| i16::from_le_bytes([at[0], at[1]]);
    Ok((samples.chunks_exact(4))
        .map(|frame| [sample(&frame[..2]), sample(&frame[2..])])
        .collect())
}

/// The guest's numbers.
fn numbers() -> impl Iterator<Item = u32> {
    std::iter::successors(Some(1u32), |x| {
        Some(x.wrapping_mul(1_664_525).wrapping_add(1_013_904_223))
    })
    .skip(1)
}

fn noise(count: usize) -> Vec<Frame> {
    let frame = |value: u32| [(value >> 16 | 1) as i16, (value >> 8) as i16];
    numbers().take(count).map(frame).collect()
}

/// The stretches between silences. A frame of a sequence is silent nowhere.
fn stretches(played: &[Frame]) -> Vec<&[Frame]> {
    let parts = played.split(|frame| *frame == [0; 2]);
    parts.filter(|part| !part.is_empty()).collect()
}

/// The faults of `wanted`, which is to be heard whole and in order, and in `count` stretches if that is not
/// 0.
fn in_order(played: &[Frame], wanted: &[Frame], count: usize) -> String {
    let parts = stretches(played);
    let heard = parts.concat();
    let same = heard.iter().zip(wanted).take_while(|(a, b)| a == b).count();
    match same == wanted.len()
        && heard.len() == wanted.len()
        && (count == 0 || parts.len() == count)
    {
        true => String::new(),
        false => {
            let lengths: Vec<usize> = parts.iter().map(|part| part.len()).take(20).collect();
            format!(
                "{} of {} frames, the same up to {same}; {} stretches {lengths:?}",
                heard.len(),
                wanted.len(),
                parts.len()
            )
        }
    }
}

/// Frames that the emulated codec of an HDA card keeps, and drops together when the host has taken the
/// processors away and it finds no room: 8192 bytes (QEMU's `hda-codec`, at an overrun).
const DROPPED: usize = 2048;

/// The faults of `wanted`, of which each stretch is to be a piece, but for frames that a codec dropped, and
/// half is to be heard. A host that takes the processors away for longer than the card's ring lasts may have
/// it play frames again.
fn in_pieces(played: &[Frame], wanted: &[Frame]) -> String {
    let mut heard = 0;
    for part in stretches(played) {
        let begins = |at: &usize| wanted[*at] == part[0];
        let mut starts = (0..wanted.len()).filter(begins);
        if !starts.any(|at| is_piece(part, &wanted[at..])) {
            return format!("{} frames that are no piece, behind {heard}", part.len());
        }
        heard += part.len();
    }
    match heard >= wanted.len() / 2 {
        true => String::new(),
        false => format!("{heard} of {} frames", wanted.len()),
    }
}

/// Whether `part` is the beginning of `wanted`, without what a codec dropped.
fn is_piece(part: &[Frame], wanted: &[Frame]) -> bool {
    let (mut part, mut wanted) = (part, wanted);
    loop {
        let pairs = part.iter().zip(wanted);
        let same = pairs.take_while(|(heard, frame)| heard == frame).count();
        (part, wanted) = (&part[same..], &wanted[same..]);
        let Some(next) = part.first() else {
            return true;
        };
        let mut places = (DROPPED..wanted.len()).step_by(DROPPED);
        let Some(behind) = places.find(|at| wanted[*at] == *next) else {
            return false;
        };
        wanted = &wanted[behind..];
    }
}

/// The faults of two sequences that were played at once: one is in the high bytes, the other in the low
/// ones.
fn two(played: &[Frame]) -> String {
    let high = |value: u32| match (value >> 8 & 0x7f) as i32 * 256 - 64 * 256 {
        0 => 256,
        sample => sample,
    };
    // Both programs begin with the same numbers.
    let wanted = [
        numbers().take(RATE).map(high).collect::<Vec<i32>>(),
        numbers()
            .take(RATE / 4)
            .map(|value| 1 + (value % 100) as i32)
            .collect(),
    ];
    let both = played.iter().filter(|frame| **frame != [0; 2]);
    let (mut highs, mut lows) = (Vec::new(), Vec::new());
    for [left, right] in both {
        if left != right {
            return format!("the sides differ: {left} {right}");
        }
        let low = i32::from(*left).rem_euclid(256);
        highs.push(i32::from(*left) - low);
        if low != 0 {
            lows.push(low);
        }
    }
    match wanted == [highs.clone(), lows.clone()] {
        true => String::new(),
        false => format!("{} and {} frames", highs.len(), lows.len()),
    }
}

/// The faults of two sequences at 30000 and -30000.
fn loud(played: &[Frame]) -> String {
    let known: [Frame; 3] = [[0, 0], [-30000, 30000], [i16::MIN, i16::MAX]];
    if let Some(frame) = played.iter().find(|frame| !known.contains(frame)) {
        return format!("a frame {frame:?}");
    }
    let count = |frame| played.iter().filter(|played| **played == frame).count();
    let (single, both) = (count(known[1]), count(known[2]));
    match single + 2 * both == RATE && both > RATE / 4 {
        true => String::new(),
        false => format!("{single} frames of one, {both} of both"),
    }
}

/// The script of a machine whose card is taken out.
const REMOVED: &str = r#"
(while dd if=/dev/zero of=/dev/speaker bs=4k count=16; do :; done) 2>/tmp/said-1 &
(while dd if=/dev/mic of=/dev/null bs=1k count=4; do :; done) 2>/tmp/said-2 &
sleep 1
echo playing >&2
wait
for one in 1 2; do
    grep -q 'I/O error\|Input/output error\|No such device' /tmp/said-$one || { tail -2 /tmp/said-$one >&2; exit $one; }
done
grep -q 'ac97\|hda' /syn/devices && exit 3
dd if=/dev/zero of=/dev/speaker bs=4 count=1 2>&1 | grep -q 'No such device' || exit 4
echo silent >&2
exit 5
"#;

/// The script of a machine that stands still while it plays. The program's own checks are for others.
const STALLED: &str = r#"
echo playing >&2
/tests/sounds-glibc ramp >/dev/null
exit 5
"#;

/// A machine whose first process is `script`, which ends with 5 after `words`.
fn talked(
    kit: &Kit,
    card: Card,
    name: &str,
    script: &str,
    words: impl FnOnce(&mut Talk) -> Result<()>,
) -> Option<Check> {
    let mut machine = with(kit, name, if script == STALLED { 2 } else { 1 }, 128);
    if kit.leaves_out(&machine) {
        return None;
    }
    let talk = || -> Result<String> {
        let command = ["/bin/sh", "-c", script];
        machine.virtio = Some(Virtio::Messages);
        machine.slots = true;
        machine.audio = Some(kit.file(&format!("{name}.wav"))?);
        machine.card = card;
        let talk = Talk::start(kit, kit.root(&command)?, &mut machine, &command)?;
        Ok(talk.converse(5, words))
    };
    let told = talk().unwrap_or_else(|failure| failure.message);
    Some(Check::new(name, told.is_empty(), told))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gaps_and_wrong_frames_are_seen() {
        let whole = noise(100);
        let silence = [[0; 2]; 7];
        let good = [&silence[..], &whole, &silence].concat();
        assert_eq!(in_order(&good, &whole, 1), "");
        let gap = [&whole[..50], &silence, &whole[50..]].concat();
        assert!(!in_order(&gap, &whole, 1).is_empty());
        assert_eq!(in_order(&gap, &whole, 2), "");
        assert_eq!(in_order(&gap, &whole, 0), "");
        let lost = [&whole[..50], &whole[51..]].concat();
        assert!(!in_order(&lost, &whole, 1).is_empty());
        assert!(!in_order(&whole[..99], &whole, 1).is_empty());
        assert_eq!(in_pieces(&gap, &whole), "");
        let pieces = [&whole[..50], &silence, &whole[51..]].concat();
        assert_eq!(in_pieces(&pieces, &whole), "");
        assert!(!in_pieces(&lost, &whole).is_empty());
        let long = noise(5 * DROPPED);
        let without = |frames| [&long[..700], &long[700 + frames..]].concat();
        assert_eq!(in_pieces(&without(DROPPED), &long), "");
        assert_eq!(in_pieces(&without(2 * DROPPED), &long), "");
        for frames in [DROPPED - 1, DROPPED + 1, 64] {
            assert!(!in_pieces(&without(frames), &long).is_empty());
        }
        assert!(!in_pieces(&whole[..49], &whole).is_empty());
    }
}
