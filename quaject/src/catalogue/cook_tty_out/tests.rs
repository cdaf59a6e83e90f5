//! The output editor, and the generated writing routine against its twin.

use super::*;
use crate::catalogue::testing::Random;

fn cook(oflag: u32, text: &[u8]) -> (Vec<u8>, usize) {
    let mut editor = CookTtyOut::new();
    let mut shown = Vec::new();
    let taken = editor.write(oflag, text, |piece| {
        shown.extend_from_slice(piece);
        piece.len()
    });
    assert_eq!(taken, text.len());
    (shown, editor.column())
}

#[test]
fn newlines_gain_carriage_returns() {
    assert_eq!(
        cook(OPOST | ONLCR, b"a\nbc\n"),
        (b"a\r\nbc\r\n".to_vec(), 0)
    );
    assert_eq!(cook(OPOST | ONLCR, "aé".as_bytes()).1, 2);
}

#[test]
fn raw_output_is_untouched() {
    assert_eq!(cook(ONLCR | XTABS, b"\ta\n").0, b"\ta\n");
}

#[test]
fn tabs_expand_to_the_next_stop() {
    assert_eq!(cook(OPOST | XTABS, b"ab\tc").0, b"ab      c");
    assert_eq!(cook(OPOST, b"ab\tc"), (b"ab\tc".to_vec(), 9));
}

#[test]
fn a_refused_piece_is_not_counted() {
    let mut editor = CookTtyOut::new();
    let mut room = 3;
    let taken = editor.write(OPOST | ONLCR, b"ab\ncd", |piece| {
        if piece.len() <= room {
            room -= piece.len();
            piece.len()
        } else {
            0
        }
    });
    assert_eq!((taken, editor.column()), (2, 2));
}

#[test]
fn the_cursor_is_found_behind_what_was_shown() {
    let mut random = Random::new(3);
    for oflag in [
        OPOST | ONLCR,
        OPOST | ONLCR | ONLRET,
        OPOST | ONLRET,
        OPOST | XTABS | ONLCR,
    ] {
        for _ in 0..500 {
            let text: Vec<u8> = (0..random.below(60))
                .map(|_| b"ab\xc3\xa9\t\n\r\x08 "[random.below(9) as usize])
                .collect();
            let (shown, column) = cook(oflag, &text);
            assert_eq!(
                column_behind(oflag, shown.into_iter().rev()),
                column,
                "{text:?}"
            );
        }
    }
}

mod routine {
    use super::*;
    use crate::catalogue::composed::Composed;
    use crate::catalogue::gauge::{self, Gauge};
    use crate::catalogue::queue::{ByteQueue, Parties, Q_EMPTY_1, Spec, Wakes, q_put_string};
    use crate::catalogue::testing::{Ended, UserMemory, call, either, hot_path, leaked};
    use crate::kit::class::{Ref, create};
    use crate::kit::inlining::chosen::without_inlining;
    use crate::kit::interfacer::link;
    use crate::kit::routine_env::{RoutineEnv, UserAccess};
    use abi::nr;
    use alloc::sync::Arc;
    use codegen::Routine;

    const SIZE: usize = 128;

    fn queue(several_cpus: bool) -> Ref<ByteQueue> {
        create::<ByteQueue>(Spec {
            producers: Parties::Many,
            consumers: Parties::One,
            size: SIZE,
            several_cpus,
            strings: true,
        })
        .unwrap()
    }

    struct Pair {
        made: Ref<ByteQueue>,
        twin: Ref<ByteQueue>,
        told: Ref<Gauge>,
        _composed: Arc<Composed>,
        routine: Routine<crate::DescFn>,
    }

    impl Pair {
        fn new(env: &'static RoutineEnv, rule: Rule) -> Pair {
            let made = queue(env.several_cpus());
            let told = create::<Gauge>(false).unwrap();
            link(&made, Q_EMPTY_1, gauge::count(&told)).unwrap();
            let from = Quaject::present().unwrap();
            link(&from, RAW_WRITE, q_put_string(&made)).unwrap();
            let composed = Composed::new("test", nr::WRITE, env).unwrap();
            let recipe = TtyWriteRecipe {
                from,
                wakes: Wakes::Nobody,
                rule,
                env,
            };
            composed.follow(Some(Arc::new(recipe))).unwrap();
            let routine = composed.plugged().unwrap();
            Pair {
                _composed: composed,
                made,
                twin: queue(env.several_cpus()),
                told,
                routine,
            }
        }

        /// Checks the bytes that the line got since the last call, from both.
        fn drain(&self, most: usize) {
            let (mut made, mut twin) = (vec![0; most], vec![0; most]);
            let count = self.made.read(&mut made);
            assert_eq!(self.twin.read(&mut twin), count);
            assert!(made == twin);
        }
    }

    #[test]
    fn the_routine_and_its_twin_put_the_same_bytes() {
        both_put_the_same_bytes();
    }

    #[test]
    fn a_routine_of_calls_and_its_twin_put_the_same_bytes() {
        without_inlining(both_put_the_same_bytes);
    }

    fn both_put_the_same_bytes() {
        for (cpus, rule) in [1, 2]
            .into_iter()
            .flat_map(|n| [Rule::Plain, Rule::Newlines].map(|rule| (n, rule)))
        {
            let env = leaked(cpus, UserAccess::Host);
            let pair = Pair::new(env, rule);
            let mut user = UserMemory::new(4096);
            let mut random = Random::new(7 + cpus as u64);
            let (mut dry, mut told) = (false, 0);
            for _ in 0..6000 {
                let count = match random.below(3) {
                    0 => random.below(4),
                    1 => random.below(30),
                    _ => random.below(SIZE as u64 + 4),
                } as usize;
                let text: Vec<u8> = (0..count)
                    .map(|_| {
                        if random.below(9) == 0 {
                            b'\n'
                        } else {
                            random.next() as u8
                        }
                    })
                    .collect();
                let at = match random.below(5) {
                    0 => 4096 - random.below(count as u64 + 1) as usize,
                    _ => random.below(50) as usize,
                };
                let inside = count.min(4096 - at);
                user.bytes()[at..at + inside].copy_from_slice(&text[..inside]);
                let before = pair.made.len();
                let expected = if inside < count {
                    Ended::Slowly(nr::WRITE)
                } else {
                    match write(&pair.twin, rule, &text) {
                        Some(done) => {
                            told += u64::from(core::mem::take(&mut dry));
                            Ended::With(done as isize)
                        }
                        None => Ended::Slowly(nr::WRITE),
                    }
                };
                let ended = call(&pair.routine, [1, user.at(at), count as u64]);
                assert_eq!(ended, expected, "{count} bytes from {at}");
                if ended == Ended::Slowly(nr::WRITE) {
                    assert_eq!(pair.made.len(), before, "published before a slow exit");
                }
                assert_eq!((pair.made.len(), pair.told.read()), (pair.twin.len(), told));
                let most = random.below(SIZE as u64) as usize;
                dry |= most > 0 && pair.made.is_empty();
                pair.drain(most);
            }
            assert_eq!(
                call(&pair.routine, [1, 1 << 63, 1]),
                Ended::Slowly(nr::WRITE)
            );
        }
    }

    #[test]
    fn the_editor_and_the_routine_process_alike() {
        let mut random = Random::new(11);
        for oflag in [
            0,
            OPOST,
            ONLCR,
            OPOST | ONLCR,
            OPOST | ONLRET,
            OPOST | ONLCR | ONLRET,
        ] {
            let rule = Rule::of(oflag).unwrap();
            for _ in 0..200 {
                let text: Vec<u8> = (0..random.below(60))
                    .map(|_| b"a\n\r\tz"[random.below(5) as usize])
                    .collect();
                let line = queue(false);
                let fitted = write(&line, rule, &text);
                assert_eq!(fitted.is_none(), text.is_empty());
                let mut shown = vec![0; SIZE];
                let count = line.read(&mut shown);
                assert_eq!(shown[..count], cook(oflag, &text).0, "{oflag:#o} {text:?}");
            }
        }
        for odd in [XTABS, OCRNL, OLCUC, ONOCR] {
            assert_eq!(Rule::of(OPOST | odd), None);
        }
    }

    #[test]
    fn writes_of_several_threads_stay_whole() {
        const EACH: usize = 3000;
        let env = leaked(2, UserAccess::Host);
        let pair = Pair::new(env, Rule::Newlines);
        let writers: Vec<_> = (b'a'..b'd')
            .map(|letter| {
                let (routine, made) = (pair.routine.clone(), pair.made.clone());
                std::thread::spawn(move || {
                    let mut user = UserMemory::new(4096);
                    let line = [[letter; 19].as_slice(), b"\n"].concat();
                    user.bytes()[..20].copy_from_slice(&line);
                    let mut left = EACH;
                    while left > 0 {
                        // One of them comes as the echo does.
                        if letter == b'a' {
                            let shown = [&line[..19], b"\r\n"].concat();
                            match made.write_whole(None, &shown) {
                                true => left -= 1,
                                false => std::thread::yield_now(),
                            }
                            continue;
                        }
                        match call(&routine, [1, user.at(0), 20]) {
                            Ended::With(20) => left -= 1,
                            Ended::With(other) => panic!("{other} bytes of 20"),
                            Ended::Slowly(_) => std::thread::yield_now(),
                        }
                    }
                })
            })
            .collect();
        let mut lines = [0; 3];
        let (mut line, mut piece) = (Vec::new(), [0; 50]);
        while lines.iter().sum::<usize>() < 3 * EACH {
            let count = pair.made.read(&mut piece);
            for byte in &piece[..count] {
                line.push(*byte);
                if *byte == b'\n' {
                    let letter = line[0];
                    assert!(line.len() == 21 && line[..19].iter().all(|b| *b == letter));
                    assert_eq!(&line[19..], b"\r\n");
                    lines[usize::from(letter - b'a')] += 1;
                    line.clear();
                }
            }
            if count == 0 {
                std::thread::yield_now();
            }
        }
        writers
            .into_iter()
            .for_each(|writer| writer.join().unwrap());
        assert_eq!(lines, [EACH; 3]);
    }

    #[test]
    fn the_hot_paths_keep_their_budget() {
        let env = leaked(1, UserAccess::Kernel);
        let lengths =
            [Rule::Plain, Rule::Newlines].map(|rule| hot_path(&Pair::new(env, rule).routine));
        let [plain, newlines] = either([41, 74], [42, 75]);
        assert!(lengths[0] <= plain && lengths[1] <= newlines, "{lengths:?}");
    }
}
