//! The input editor against what a person sees and a program reads.

use super::*;
use crate::cook_tty_out::CookTtyOut;

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
    let mut editor = CookTtyIn::new();
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
fn nothing_is_readable_before_the_line_ends() {
    let t = sane();
    let (mut editor, _) = typed(&t, b"abc");
    assert!(!editor.readable(&t));
    assert_eq!(editor.available(&t), 0);
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
    let (mut editor, _) = typed(&raw, b"rest");
    editor.settings_changed(&raw, &canonical);
    assert_eq!(line(&mut editor, &canonical).unwrap(), b"rest");
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
fn a_line_longer_than_the_editor_is_cut_and_still_ends() {
    let t = sane();
    let (mut editor, _) = typed(&t, &[b'a'; CAPACITY + 50]);
    editor.put(&t, b'\n', &mut Screen::default());
    let mut buffer = vec![0; 2 * CAPACITY];
    assert_eq!(editor.read(&t, &mut buffer), Some(CAPACITY + 1));
}
