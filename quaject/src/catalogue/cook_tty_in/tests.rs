//! The input editor against what a person sees and a program reads.
//!
//! *Unsafe*: routines over leaked memory.

use super::*;
use crate::catalogue::cook_tty_out::CookTtyOut;

#[derive(Default)]
struct Screen {
    out: CookTtyOut,
    shown: Vec<u8>,
    controls: Vec<Control>,
}

impl Callouts for Screen {
    fn echo(&mut self, bytes: &[u8]) {
        let shown = &mut self.shown;
        self.out.write(OPOST | ONLCR, bytes, |piece| {
            shown.extend_from_slice(piece);
            piece.len()
        });
    }
    fn column(&self) -> usize {
        self.out.column()
    }
    fn control(&mut self, control: Control) {
        self.controls.push(control);
    }
}

fn typed(t: &Termios, keys: &[u8]) -> (CookTtyIn, Screen) {
    let mut editor = CookTtyIn::new(Arc::new(EditBuffer::new()));
    let mut screen = Screen::default();
    keys.iter().for_each(|&key| editor.put(t, key, &mut screen));
    (editor, screen)
}

fn line(editor: &mut CookTtyIn, t: &Termios) -> Option<Vec<u8>> {
    let mut buffer = [0; 100];
    editor.read(t, &mut buffer).map(|n| buffer[..n].to_vec())
}

#[test]
fn a_line_is_edited_before_it_is_read() {
    let t = sane();
    let (mut editor, screen) = typed(&t, b"lz\x7fs -l foo\x17bar\r");
    assert_eq!(line(&mut editor, &t).unwrap(), b"ls -l bar\n");
    assert_eq!(line(&mut editor, &t), None);
    assert_eq!(
        screen.shown,
        b"lz\x08 \x08s -l foo\x08 \x08\x08 \x08\x08 \x08bar\r\n"
    );
}

#[test]
fn letters_digits_and_underscores_are_one_word_to_erase() {
    let t = sane();
    let (mut editor, _) = typed(&t, b"cp foo_bar2\x17a-b_ \x17c\n");
    assert_eq!(line(&mut editor, &t).unwrap(), b"cp a-c\n");
}

#[test]
fn nothing_is_readable_before_the_line_ends() {
    let t = sane();
    let (mut editor, _) = typed(&t, b"abc");
    assert!(!editor.readable());
    assert_eq!(editor.available(), 0);
    assert_eq!(line(&mut editor, &t), None);
}

#[test]
fn kill_erases_the_whole_line() {
    let t = sane();
    let (mut editor, screen) = typed(&t, b"ab\x15c\n");
    assert_eq!(line(&mut editor, &t).unwrap(), b"c\n");
    assert_eq!(screen.shown, b"ab\x08 \x08\x08 \x08c\r\n");
}

#[test]
fn end_of_file_alone_reads_as_nothing_and_behind_text_pushes_it() {
    let t = sane();
    let (mut editor, _) = typed(&t, b"\x04ab\x04");
    assert_eq!(line(&mut editor, &t).unwrap(), b"");
    assert_eq!(line(&mut editor, &t).unwrap(), b"ab");
    assert_eq!(line(&mut editor, &t), None);
}

#[test]
fn end_of_file_after_a_finished_line_is_an_end_of_file() {
    let t = sane();
    let (mut editor, _) = typed(&t, b"x\n\x04");
    assert_eq!(line(&mut editor, &t).unwrap(), b"x\n");
    assert_eq!(line(&mut editor, &t).unwrap(), b"");
}

#[test]
fn interrupt_flushes_shows_itself_and_signals() {
    let t = sane();
    let (mut editor, screen) = typed(&t, b"junk\x03ok\n");
    assert_eq!(screen.controls, [Control::Interrupt]);
    assert_eq!(screen.shown, b"junk^Cok\r\n");
    assert_eq!(line(&mut editor, &t).unwrap(), b"ok\n");
}

#[test]
fn literal_next_takes_a_control_character() {
    let t = sane();
    let (mut editor, screen) = typed(&t, b"a\x16\x03\x7fb\n");
    assert!(screen.controls.is_empty());
    assert_eq!(line(&mut editor, &t).unwrap(), b"ab\n");
    assert_eq!(screen.shown, b"a^\x08^C\x08 \x08\x08 \x08b\r\n");
}

#[test]
fn a_character_of_several_bytes_is_erased_whole() {
    let t = sane();
    let (mut editor, _) = typed(&t, "aé\x7fb\n".as_bytes());
    assert_eq!(line(&mut editor, &t).unwrap(), b"ab\n");
}

#[test]
fn erasing_a_tab_goes_back_to_where_it_began() {
    let t = sane();
    let (mut editor, screen) = typed(&t, b"abc\t\x7fd\n");
    assert_eq!(line(&mut editor, &t).unwrap(), b"abcd\n");
    assert_eq!(screen.shown, b"abc\t\x08\x08\x08\x08\x08d\r\n");
}

/// The short way of ordinary bytes, under many settings, control characters at odd places among them.
#[test]
fn an_ordinary_byte_does_the_same_by_the_short_way() {
    let mut state = 7_u32;
    let mut random = move |below: u32| {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (state >> 8) % below
    };
    let (mut short, mut long) = (0, 0);
    for _ in 0..if cfg!(miri) { 5 } else { 400 } {
        let mut t = sane();
        for flag in [ISTRIP, IGNCR, ICRNL, INLCR, IXON, IXANY, IMAXBEL, IUTF8] {
            t.iflag ^= if random(4) == 0 { flag } else { 0 };
        }
        for flag in [
            ISIG, ICANON, ECHO, ECHOE, ECHOK, ECHONL, NOFLSH, ECHOCTL, IEXTEN, EXTPROC,
        ] {
            t.lflag ^= if random(5) == 0 { flag } else { 0 };
        }
        for _ in 0..random(4) {
            t.cc[random(NCCS as u32) as usize] = [0, b'\r', b'\n', b'x', 0xe9][random(5) as usize];
        }
        let ordinary = Ordinary::of(&t);
        let (mut one, mut other) = (typed(&t, b""), typed(&t, b""));
        for _ in 0..60 {
            let byte = match random(4) {
                0 => random(256) as u8,
                1 => [b'\r', b'\n', b'\t', 127, 4, 17, 22][random(7) as usize],
                _ => b'a' + random(26) as u8,
            };
            one.0.put(&t, byte, &mut one.1);
            if other.0.is_plain() && ordinary.has(byte) {
                other.0.put_ordinary(&t, byte, &mut other.1);
                short += 1;
            } else {
                other.0.put(&t, byte, &mut other.1);
                long += 1;
            }
            assert_eq!(one.1.shown, other.1.shown, "{t:?} {byte}");
            assert_eq!(one.1.controls, other.1.controls, "{t:?} {byte}");
            assert_eq!(one.0.available(), other.0.available());
        }
        assert_eq!(line(&mut one.0, &t), line(&mut other.0, &t));
    }
    assert!(short > long);
}

#[test]
fn one_reader_sleeps_straight_out_of_its_routine() {
    use crate::kit::sleeper::Sleep;
    let typed = Arc::new(EditBuffer::new());
    let sleep = |me| typed.sleeper.sleep(me);
    let me = 16;
    assert_eq!(sleep(me), Sleep::SUSPEND);
    assert_eq!(sleep(me), Sleep::SUSPEND, "woken for nothing");
    assert_eq!(sleep(me + 16), Sleep::LEAVE, "another is there");
    let mut editor = CookTtyIn::new(typed.clone());
    b"a\n"
        .iter()
        .for_each(|&key| editor.put(&sane(), key, &mut Screen::default()));
    assert_eq!(sleep(me), Sleep::AGAIN);
    typed.wake_readers();
    assert_eq!(sleep(me + 16), Sleep::AGAIN, "the place is free again");
    typed.be_impatient();
    assert_eq!(sleep(me + 16), Sleep::LEAVE);
}

#[test]
fn raw_mode_gives_each_byte_as_it_comes() {
    let mut t = sane();
    t.lflag &= !(ICANON | ECHO | ISIG);
    t.iflag &= !(ICRNL | IXON);
    let (mut editor, screen) = typed(&t, b"\x03\x7f\r");
    assert!(screen.shown.is_empty() && screen.controls.is_empty());
    assert_eq!(line(&mut editor, &t).unwrap(), b"\x03\x7f\r");
}

#[test]
fn flow_control_stops_and_starts() {
    let t = sane();
    let (mut editor, screen) = typed(&t, b"\x13");
    assert!(editor.is_stopped());
    assert_eq!(screen.controls, [Control::Stop]);
    editor.put(&t, 17, &mut Screen::default());
    assert!(!editor.is_stopped());
}

#[test]
fn a_change_of_mode_loses_nothing() {
    let canonical = sane();
    let mut raw = canonical;
    raw.lflag &= !ICANON;
    let (mut editor, _) = typed(&canonical, b"half");
    editor.settings_changed(&canonical, &raw);
    assert_eq!(line(&mut editor, &raw).unwrap(), b"half");
    let (mut editor, mut screen) = typed(&raw, b"rest");
    editor.settings_changed(&raw, &canonical);
    for &key in b"more\n" {
        editor.put(&canonical, key, &mut screen);
    }
    assert_eq!(line(&mut editor, &canonical).unwrap(), b"rest");
    assert_eq!(line(&mut editor, &canonical).unwrap(), b"more\n");
}

#[test]
fn a_short_buffer_takes_a_line_in_pieces() {
    let t = sane();
    let (mut editor, _) = typed(&t, b"hello\nx\n");
    let mut small = [0; 3];
    assert_eq!(editor.read(&t, &mut small), Some(3));
    assert_eq!(editor.read(&t, &mut small), Some(3));
    assert_eq!(line(&mut editor, &t).unwrap(), b"x\n");
}

#[test]
fn a_buffer_that_is_full_up_to_a_typed_end_of_file_takes_that_too() {
    let t = sane();
    let (mut editor, _) = typed(&t, b"abc\x04x\n");
    let mut small = [0; 3];
    assert_eq!(editor.read(&t, &mut small), Some(3));
    assert_eq!(
        line(&mut editor, &t).unwrap(),
        b"x\n",
        "no empty read between"
    );
}

#[test]
fn bytes_are_changed_as_the_settings_say() {
    let read = |iflag: u32, keys: &[u8]| {
        let mut t = sane();
        t.iflag = iflag;
        line(&mut typed(&t, keys).0, &t)
    };
    assert_eq!(read(ISTRIP, b"\xe1b\n").unwrap(), b"ab\n");
    assert_eq!(read(0, b"\xe1b\n").unwrap(), b"\xe1b\n");
    assert_eq!(read(IGNCR, b"a\rb\n").unwrap(), b"ab\n");
    assert_eq!(read(0, b"a\rb\n").unwrap(), b"a\rb\n");
    assert_eq!(read(INLCR, b"a\nb\x04").unwrap(), b"a\rb");
    assert_eq!(read(ICRNL, b"a\rb").unwrap(), b"a\n");
}

#[test]
fn extensions_can_be_switched_off() {
    let mut t = sane();
    t.lflag &= !IEXTEN;
    let (mut editor, _) = typed(&t, b"ab cd\x17\x16\x12\n");
    assert_eq!(line(&mut editor, &t).unwrap(), b"ab cd\x17\x16\x12\n");
}

#[test]
fn a_line_that_is_shown_again_is_edited_where_it_stands() {
    let t = sane();
    let mut editor = CookTtyIn::new(Arc::new(EditBuffer::new()));
    let mut screen = Screen::default();
    screen.echo(b"> ");
    for &key in b"a\t\x12\x7fd\n" {
        editor.put(&t, key, &mut screen);
    }
    assert_eq!(
        screen.shown,
        b"> a\t^R\r\na\t\x08\x08\x08\x08\x08\x08\x08d\r\n"
    );
    assert_eq!(line(&mut editor, &t).unwrap(), b"ad\n");
}

#[test]
fn the_end_of_a_line_alone_can_be_shown() {
    let mut t = sane();
    t.lflag &= !(ECHO | ECHONL);
    assert!(typed(&t, b"ab\n").1.shown.is_empty());
    t.lflag |= ECHONL;
    assert_eq!(typed(&t, b"ab\n").1.shown, b"\r\n");
}

#[test]
fn typed_ends_of_files_are_no_bytes_in_raw_mode() {
    let canonical = sane();
    let mut raw = canonical;
    raw.lflag &= !ICANON;
    let (mut editor, _) = typed(&canonical, b"ab\x04\x04c\n");
    editor.settings_changed(&canonical, &raw);
    assert_eq!(editor.available(), 4);
    assert_eq!(line(&mut editor, &raw).unwrap(), b"abc\n");
    assert_eq!(line(&mut editor, &raw), None);
}

#[test]
fn any_key_starts_if_it_may() {
    let mut t = sane();
    let stopped = |t: &Termios| typed(t, b"\x13a").0.is_stopped();
    assert!(stopped(&t));
    t.iflag |= IXANY;
    assert!(!stopped(&t));
    let (mut editor, screen) = typed(&t, b"\x13a\n");
    assert_eq!(screen.controls, [Control::Stop, Control::Start]);
    assert_eq!(line(&mut editor, &t).unwrap(), b"a\n");
}

#[test]
fn a_signal_can_leave_the_line_as_it_is() {
    let mut t = sane();
    t.lflag |= NOFLSH;
    let (mut editor, screen) = typed(&t, b"ab\x03c\n");
    assert_eq!(screen.controls, [Control::Interrupt]);
    assert_eq!(line(&mut editor, &t).unwrap(), b"abc\n");
}

#[test]
fn a_flush_forgets_that_the_next_key_is_literal() {
    let t = sane();
    let (mut editor, mut screen) = typed(&t, b"a\x16");
    editor.flush();
    editor.put(&t, 3, &mut screen);
    assert_eq!(screen.controls, [Control::Interrupt]);
}

#[test]
fn a_line_longer_than_the_editor_is_cut_and_still_ends() {
    let t = sane();
    let (mut editor, _) = typed(&t, &[b'a'; CAPACITY + 50]);
    editor.put(&t, b'\n', &mut Screen::default());
    let mut buffer = vec![0; 2 * CAPACITY];
    assert_eq!(editor.read(&t, &mut buffer), Some(CAPACITY + 1));
}

mod routine {
    use super::*;
    use crate::catalogue::testing::{
        Ended, Random, UserMemory, call, either, hot_path, leaked, low,
    };
    use crate::kit::assembly::{Assembly, Continuation};
    use crate::kit::interfacer::{Callentry, Entry, link};
    use crate::kit::regs::Regs;
    use crate::kit::routine_env::{RoutineEnv, UserAccess};
    use abi::nr;
    use codegen::idioms::Reg;
    use codegen::{Class, Draft, Routine, dynasm};

    /// Gives the number in a word as the caller's group.
    struct GroupWord(i32, Routine<fn()>);

    /// The routine that reads `typed` for the group whose number is in `word`.
    fn routine(
        typed: &'static EditBuffer,
        word: &'static i32,
        mode: Mode,
        env: &'static RoutineEnv,
    ) -> Routine<crate::DescFn> {
        let from = crate::class::create::<Quaject>(()).unwrap();
        // SAFETY: it gives the number in eax.
        let entry = unsafe { Entry::new(Arc::new(GroupWord::new(word))) };
        link(&from, GROUP, entry).unwrap();
        let reads = TtyReadRecipe {
            typed: Arc::new(EditBuffer::new()),
            from,
            mode,
            full: false,
            patient: false,
            env,
        };
        // SAFETY: the buffer is leaked.
        unsafe { synthesize_read(&reads, typed, None, None) }
            .unwrap()
            .0
    }

    impl GroupWord {
        fn new(word: &'static i32) -> GroupWord {
            static CLASS: Class = Class::new("test group");
            let at = core::ptr::from_ref(word) as usize as i32;
            let mut draft = Draft::new(&CLASS, "group");
            let d = &mut draft;
            dynasm!(d ; .arch x64 ; mov eax, [at] ; ret);
            // SAFETY: it loads from a leaked word.
            GroupWord(at, unsafe { Routine::from(draft.seal().unwrap()) })
        }
    }

    impl Callentry for GroupWord {
        fn name(&self) -> &'static &'static str {
            &"group"
        }
        fn changes(&self) -> Regs {
            Regs::of(&[Reg::Rax])
        }
        fn emit(&self, a: &mut Assembly, _: Continuation) -> bool {
            let word = self.0;
            dynasm!(a ; .arch x64 ; mov eax, [word]);
            true
        }
        fn entry(&self) -> usize {
            self.1.entry()
        }
    }

    /// Two editors that get the same keys: one read by the routine, one by its twin.
    struct Pair {
        made: CookTtyIn<&'static EditBuffer>,
        twin: CookTtyIn<&'static EditBuffer>,
        typed: [&'static EditBuffer; 2],
        screen: Screen,
    }

    fn pair() -> Pair {
        let typed: [&'static EditBuffer; 2] = [low(EditBuffer::new()), low(EditBuffer::new())];
        typed[0].group().store(5, Ordering::Relaxed);
        Pair {
            made: CookTtyIn::new(typed[0]),
            twin: CookTtyIn::new(typed[1]),
            typed,
            screen: Screen::default(),
        }
    }

    fn settings(random: &mut Random) -> Termios {
        let mut t = sane();
        if random.below(2) == 0 {
            t.lflag &= !ICANON;
            t.cc[VMIN] = random.below(5) as u8;
        }
        t
    }

    #[test]
    fn the_routine_and_its_twin_read_the_same() {
        for cpus in [1, 2] {
            let env = leaked(cpus, UserAccess::Host);
            let mut pair = pair();
            let mut user = UserMemory::new(4096);
            let mut random = Random::new(cpus as u64);
            let mut t = sane();
            let mut read = 0;
            for _ in 0..300 {
                let new = settings(&mut random);
                pair.made.settings_changed(&t, &new);
                pair.twin.settings_changed(&t, &new);
                t = new;
                let mode = mode(&t);
                let routine = routine(pair.typed[0], low(5), mode, env);
                for _ in 0..40 {
                    for _ in 0..random.below(12) {
                        let key = b"abcdefgh\n\n\x04\x7f\x15\x16\x03"[random.below(15) as usize];
                        pair.made.put(&t, key, &mut pair.screen);
                        pair.twin.put(&t, key, &mut pair.screen);
                    }
                    let count = random.below(14) as usize;
                    let at = match random.below(6) {
                        0 => 4096 - random.below(10) as usize,
                        _ => random.below(100) as usize,
                    };
                    let room = count.min(4096 - at);
                    user.bytes().fill(0xa5);
                    let mut wanted = vec![0xa5; 4096];
                    let before = pair.typed[1].tail();
                    let mut into = vec![0; count];
                    let result = match pair.typed[1].read(mode, &mut into) {
                        // The routine stops at the page that it may not write, before it takes anything.
                        Some(moved) if moved > room => {
                            pair.typed[1].reader.tail.store(before, Ordering::Relaxed);
                            Ended::Slowly(nr::READ)
                        }
                        Some(moved) => {
                            wanted[at..at + moved].copy_from_slice(&into[..moved]);
                            read += moved;
                            Ended::With(moved as isize)
                        }
                        None => Ended::Slowly(nr::READ),
                    };
                    let ended = call(&routine, [0, user.at(at), count as u64]);
                    assert_eq!(ended, result, "{mode:?}: {count} to {at}");
                    if result != Ended::Slowly(nr::READ) {
                        assert!(user.bytes() == wanted, "{mode:?}: {count} to {at}");
                    }
                    assert_eq!(pair.typed[0].tail(), pair.typed[1].tail());
                    assert_eq!(pair.made.available(), pair.twin.available());
                }
            }
            assert!(read > 1000, "only {read} bytes were read");
        }
    }

    #[test]
    fn who_is_not_in_the_foreground_or_comes_second_leaves_slowly() {
        let env = leaked(1, UserAccess::Host);
        let mut pair = pair();
        let t = sane();
        b"one\ntwo\n"
            .iter()
            .for_each(|key| pair.made.put(&t, *key, &mut pair.screen));
        let routine = routine(pair.typed[0], low(5), Mode::Line, env);
        let mut user = UserMemory::new(4096);
        let slowly = Ended::Slowly(nr::READ);
        pair.typed[0].group().store(6, Ordering::Relaxed);
        assert_eq!(call(&routine, [0, user.at(0), 10]), slowly);
        pair.typed[0].group().store(5, Ordering::Relaxed);
        pair.typed[0].alone(|| assert_eq!(call(&routine, [0, user.at(0), 10]), slowly));
        assert_eq!(call(&routine, [0, 1 << 63, 10]), slowly);
        assert_eq!(call(&routine, [0, user.at(0), 10]), Ended::With(4));
        assert_eq!(&user.bytes()[..4], b"one\n");
        assert_eq!(call(&routine, [0, user.at(0), 10]), Ended::With(4));
        assert_eq!(call(&routine, [0, user.at(0), 10]), slowly);
    }

    #[test]
    fn readers_on_several_processors_get_whole_lines_while_others_are_typed() {
        const LINES: usize = 4000;
        let env = leaked(2, UserAccess::Host);
        let typed: &'static EditBuffer = low(EditBuffer::new());
        let routines: Vec<_> = (0..2)
            .map(|_| routine(typed, low(0), Mode::Line, env))
            .collect();
        let left = Arc::new(std::sync::atomic::AtomicUsize::new(LINES));
        let readers: Vec<_> = routines
            .into_iter()
            .map(|routine| {
                let left = left.clone();
                std::thread::spawn(move || {
                    let mut user = UserMemory::new(4096);
                    let mut sum = 0;
                    while left.load(Ordering::Relaxed) > 0 {
                        match call(&routine, [0, user.at(0), 100]) {
                            Ended::With(count) => {
                                let line = &user.bytes()[..count as usize];
                                let text = std::str::from_utf8(line).unwrap();
                                sum += text.strip_suffix('\n').unwrap().parse::<usize>().unwrap();
                                left.fetch_sub(1, Ordering::Relaxed);
                            }
                            Ended::Slowly(_) => std::thread::yield_now(),
                        }
                    }
                    sum
                })
            })
            .collect();
        let mut editor = CookTtyIn::new(typed);
        let mut screen = Screen::default();
        let t = sane();
        for number in 1..=LINES {
            while typed.available() > 3000 {
                std::thread::yield_now();
            }
            let line = format!("{number}x\x7f\n");
            line.bytes()
                .for_each(|key| editor.put(&t, key, &mut screen));
        }
        let sum: usize = readers
            .into_iter()
            .map(|reader| reader.join().unwrap())
            .sum();
        assert_eq!(sum, LINES * (LINES + 1) / 2);
    }

    #[test]
    fn the_hot_path_keeps_its_budget() {
        let env = leaked(1, UserAccess::Kernel);
        let typed: &'static EditBuffer = low(EditBuffer::new());
        let routine = routine(typed, low(5), Mode::Line, env);
        assert!(
            hot_path(&routine) <= either(50, 51),
            "{}",
            hot_path(&routine)
        );
    }

    #[test]
    fn what_is_typed_by_the_routine_is_what_its_twin_enters() {
        use sync::monitor::RawMonitor;
        for cpus in [1, 2] {
            let env = leaked(cpus, UserAccess::Host);
            let [made, twin]: [&'static EditBuffer; 2] =
                [low(EditBuffer::new()), low(EditBuffer::new())];
            let turn = low(RawMonitor::new());
            // SAFETY: all of it is leaked.
            let routine = unsafe { synthesize_type(made, turn, env, None, None) }
                .unwrap()
                .0;
            let mut user = UserMemory::new(8192);
            let mut random = Random::new(cpus as u64);
            let mut full = 0;
            for round in 0..2000 {
                let bytes = random.bytes(8192);
                user.bytes().copy_from_slice(&bytes);
                let count = match random.below(4) {
                    0 => random.below(5000) as usize,
                    _ => random.below(20) as usize,
                };
                // Some begin shortly before a page that nobody may touch.
                let at = match random.below(4) {
                    0 => 8192 - random.below(30) as usize,
                    _ => random.below(100) as usize,
                };
                let room = CAPACITY - twin.edit().wrapping_sub(twin.tail()) as usize;
                full += usize::from(count > room);
                let wanted = if at + count > 8192 {
                    Ended::Slowly(nr::WRITE)
                } else {
                    match twin.enter(&RawMonitor::new(), &bytes[at..at + count]) {
                        Some(entered) => Ended::With(entered as isize),
                        None => Ended::Slowly(nr::WRITE),
                    }
                };
                let ended = call(&routine, [0, user.at(at), count as u64]);
                assert_eq!(ended, wanted, "{round}: {count} bytes at {at}");
                assert_eq!((made.head(), made.edit()), (twin.head(), twin.edit()));
                assert!(turn.try_lock());
                turn.unlock();
                let mut into = [vec![0; 6000], vec![0; 6000]];
                let most = random.below(3000) as usize;
                let got = [made, twin].map(|typed| {
                    let into = &mut into[usize::from(core::ptr::eq(typed, twin))];
                    typed.read(Mode::Bytes(1), &mut into[..most])
                });
                assert!(got[0] == got[1] && into[0] == into[1], "{round}");
            }
            assert!(full > 10);
            turn.lock();
            let busy = call(&routine, [0, user.at(0), 1]);
            turn.unlock();
            assert_eq!(busy, Ended::Slowly(nr::WRITE));
            assert_eq!(call(&routine, [0, 1 << 63, 1]), Ended::Slowly(nr::WRITE));
        }
    }
}
