//! A file server in the test: one that keeps to the protocol, and one that answers anything.

use super::message::{self, MessageType, Reader, Writer};
use super::session::{NewAttr, Session};
use super::transport::{Long, ReadReply, Transport, Use, WriteRequest};
use super::*;
use crate::fs::attr;
use std::sync::Mutex;
use std::vec;
use std::vec::Vec as List;

/// Makes an answer out of a question.
type Answers = dyn FnMut(&[u8]) -> List<u8> + Send;

/// A link to `answers`.
struct Scripted(Mutex<std::boxed::Box<Answers>>);

/// The longest message.
const MOST: usize = 16 << 10;

fn link(answers: impl FnMut(&[u8]) -> List<u8> + Send + 'static) -> Arc<dyn Transport> {
    Arc::new(Scripted(Mutex::new(std::boxed::Box::new(answers))))
}

impl Transport for Scripted {
    fn longest(&self) -> u32 {
        MOST as u32
    }

    fn exchange(&self, _: Use, _: Long, ask: WriteRequest<'_>, heed: ReadReply<'_>) -> Result<()> {
        let mut question = vec![0; MOST];
        let len = ask(&mut question, 3)?;
        let answer = self.0.lock().unwrap()(&question[..len]);
        heed(&answer, 3)
    }

    fn tell(&self, ask: WriteRequest<'_>) -> bool {
        let mut question = vec![0; MOST];
        let len = ask(&mut question, 4).unwrap();
        self.0.lock().unwrap()(&question[..len]);
        true
    }
}

/// An answer of `kind`, which `say` writes, to `question`.
fn answer(question: &[u8], kind: u8, say: impl FnOnce(&mut List<u8>)) -> List<u8> {
    let mut bytes = vec![0, 0, 0, 0, kind, question[5], question[6]];
    say(&mut bytes);
    let length = bytes.len() as u32;
    bytes[..4].copy_from_slice(&length.to_le_bytes());
    bytes
}

fn error(question: &[u8], number: u32) -> List<u8> {
    answer(question, 7, |a| a.extend(number.to_le_bytes()))
}

/// The answers of a server that has a directory with one file of eleven bytes.
fn honest(question: &[u8]) -> List<u8> {
    let kind = question[4];
    let say = |bytes: List<u8>| answer(question, kind + 1, move |a| a.extend(bytes));
    let number = |at: usize| u32::from_le_bytes(question[at..at + 4].try_into().unwrap());
    // Even fids are directories, odd ones the file.
    let is_file = number(7) % 2 == 1;
    match kind {
        100 => {
            let mut a = List::from(&question[7..11]);
            a.extend(8u16.to_le_bytes());
            a.extend(b"9P2000.L");
            say(a)
        }
        104 => say(vec![0; 13]),
        110 => {
            let names = u16::from_le_bytes([question[15], question[16]]);
            if names == 1 && !question.ends_with(b"file") {
                return error(question, 2);
            }
            let mut a = List::from(names.to_le_bytes());
            a.resize(2 + 13 * usize::from(names), 0);
            say(a)
        }
        24 => {
            let mut a = vec![0; 153];
            a[13] = 7 + u8::from(is_file);
            let mode: u32 = if is_file { 0o100_644 } else { 0o40_755 };
            a[21..25].copy_from_slice(&mode.to_le_bytes());
            a[49] = 11;
            say(a)
        }
        12 => say(vec![0; 17]),
        116 => {
            let offset = number(11) as usize;
            let rest = b"hello world".get(offset..).unwrap_or_default();
            let mut a = List::from((rest.len() as u32).to_le_bytes());
            a.extend(rest);
            say(a)
        }
        118 => say(List::from(&question[19..23])),
        120 | 26 | 50 => say(List::new()),
        _ => error(question, 95),
    }
}

fn shared(link: Arc<dyn Transport>) -> Result<Arc<P9Fs>> {
    P9Fs::new("test".into(), link, HostOwner::default())
}

/// Opens, reads, writes, lists and changes whatever there is.
fn everything(link: Arc<dyn Transport>) {
    let Ok(fs) = shared(link) else { return };
    let root: Arc<dyn Inode> = fs.root();
    fs.statfs();
    let cred = Cred::root();
    let mut names = 0;
    let mut sink = |entry: crate::fs::DirEntry<'_>| {
        assert!(!entry.name.is_empty() && entry.name.len() <= NAME_MAX);
        assert!(!entry.name.contains(&b'/') && !entry.name.contains(&0));
        names += 1;
        names < 100
    };
    let _any = root.readdir(0, &mut sink);
    let _any = root.create(b"new", 0o100_644, 0, 0, &cred);
    let _any = root.symlink(b"link", b"to", &cred);
    let _any = root.rename(b"file", &root, b"other", 0, &cred);
    let Ok(node) = root.clone().lookup(b"file") else {
        return;
    };
    assert!(node.attr().atime.nsec < 1_000_000_000);
    let _any = node.readlink();
    let _any = node.truncate(5);
    let _any = root.unlink(b"file");
    let how = OpenRequest {
        flags: abi::linux::O_RDWR,
        place: None,
    };
    let Ok(of) = node.open(how) else { return };
    let mut bytes = [0; 100];
    if let Ok(count) = of.file().read_at(&of, 0, &mut IoBuf::fill(&mut bytes)) {
        assert!(count <= bytes.len());
    }
    if let Ok(count) = of.file().write_at(&of, 0, &mut IoBuf::drain(&bytes)) {
        assert!(count <= bytes.len());
    }
    assert!(of.file().stat(&of).size <= i64::MAX as u64);
}

#[test]
fn an_honest_server_is_understood() {
    let fs = shared(link(honest)).unwrap();
    let root: Arc<dyn Inode> = fs.root();
    assert_eq!(root.kind(), attr::FileKind::Directory);
    // The root's fid is 0, so the next is a file's.
    let node = root.clone().lookup(b"file").unwrap();
    assert_eq!(
        (node.kind(), node.attr().size),
        (attr::FileKind::Regular, 11)
    );
    let how = OpenRequest {
        flags: abi::linux::O_RDWR,
        place: None,
    };
    let of = node.open(how).unwrap();
    let mut bytes = [0; 5];
    let read = of.file().read_at(&of, 6, &mut IoBuf::fill(&mut bytes));
    assert_eq!((read, &bytes), (Ok(5), b"world"));
    let wrote = of.file().write_at(&of, 0, &mut IoBuf::drain(b"abc"));
    assert_eq!(wrote, Ok(3));
    assert!(matches!(root.lookup(b"none"), Err(Errno::ENOENT)));
    everything(link(honest));
}

#[test]
fn every_fid_is_given_back() {
    let live = Arc::new(Mutex::new(0i32));
    let count = live.clone();
    let counting = move |question: &[u8]| {
        let answer = honest(question);
        let by = match question[4] {
            104 | 110 if answer[4] != 7 => 1,
            120 => -1,
            _ => 0,
        };
        *count.lock().unwrap() += by;
        answer
    };
    everything(link(counting));
    // A refused fid never was, and is given back all the same.
    assert!(*live.lock().unwrap() <= 0);
}

/// A sequence of numbers that are anything.
fn numbers(seed: u64) -> impl FnMut() -> u64 {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    move || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state
    }
}

#[test]
fn answers_that_were_spoilt_do_no_harm() {
    for seed in 1..4000 {
        let mut next = numbers(seed);
        everything(link(move |question: &[u8]| {
            let mut answer = honest(question);
            // The first few are left as they are, now and then, so that one gets somewhere.
            if next() % 4 < seed % 4 {
                return answer;
            }
            match next() % 6 {
                0 => answer.truncate(next() as usize % (answer.len() + 1)),
                1 => answer.extend((0..next() % 40).map(|_| 0xff)),
                2 => answer = (0..next() % 64).map(|at| (at * 37) as u8).collect(),
                _ => {
                    for _ in 0..1 + next() % 3 {
                        let at = next() as usize % answer.len();
                        answer[at] = match next() % 3 {
                            0 => 0xff,
                            1 => 0,
                            _ => next() as u8,
                        };
                    }
                }
            }
            answer
        }));
    }
}

#[test]
fn every_kind_of_answer_may_be_nonsense() {
    for seed in 1..2000 {
        let mut next = numbers(seed);
        everything(link(move |question: &[u8]| match question[4] {
            100 | 104 => honest(question),
            kind => answer(question, kind + 1, |a| {
                let len = next() % 200;
                a.extend((0..len).map(|_| match next() % 4 {
                    0 => 0,
                    1 => 0xff,
                    _ => next() as u8,
                }));
            }),
        }));
    }
}

#[test]
fn more_bytes_than_were_asked_for_are_refused() {
    let liar = |question: &[u8]| match question[4] {
        116 => answer(question, 117, |a| {
            a.extend(1000u32.to_le_bytes());
            a.extend([7; 1000]);
        }),
        118 => answer(question, 119, |a| a.extend(1000u32.to_le_bytes())),
        _ => honest(question),
    };
    let session = Session::begin(link(liar)).unwrap();
    let fid = session.attach(0).unwrap();
    let read = session.read(Use::Call, &fid, 0, 10, &mut |_| unreachable!());
    assert_eq!(read, Err(Errno::EIO));
    let wrote = session.write(Use::Call, &fid, 0, 10, &mut |room| {
        assert_eq!(room.len(), 10);
        Ok(10)
    });
    assert_eq!(wrote, Err(Errno::EIO));
    session.set(&fid, &NewAttr::default()).unwrap();
}

#[test]
fn a_name_that_leads_elsewhere_is_no_entry() {
    let liar = |question: &[u8]| match question[4] {
        40 => answer(question, 41, |a| {
            let mut entries = List::new();
            for name in [&b"a/b"[..], b"", b"c\0d", b"good"] {
                entries.extend([0; 13]);
                entries.extend(9u64.to_le_bytes());
                entries.push(8);
                entries.extend((name.len() as u16).to_le_bytes());
                entries.extend(name);
            }
            a.extend((entries.len() as u32).to_le_bytes());
            a.extend(entries);
        }),
        _ => honest(question),
    };
    let session = Session::begin(link(liar)).unwrap();
    let fid = session.attach(0).unwrap();
    let mut names = List::new();
    let mut sink = |entry: crate::fs::DirEntry<'_>| {
        names.push(entry.name.to_vec());
        true
    };
    assert_eq!(session.readdir(&fid, 0, &mut sink), Ok(9));
    assert_eq!(names, [b"good"]);
}

#[test]
fn versions_and_lengths_that_are_no_use_are_refused() {
    for (most, version) in [
        (MOST as u32 + 1, &b"9P2000.L"[..]),
        (100, b"9P2000.L"),
        (MOST as u32, b"9P2000"),
        (MOST as u32, b"unknown"),
    ] {
        let begun = Session::begin(link(move |question: &[u8]| {
            answer(question, 101, |a| {
                a.extend(most.to_le_bytes());
                a.extend((version.len() as u16).to_le_bytes());
                a.extend(version);
            })
        }));
        assert_eq!(begun.err(), Some(Errno::EIO));
    }
}

#[test]
fn a_question_is_as_the_protocol_has_it() {
    let mut bytes = [0xaa; 64];
    let mut writer = Writer::new(&mut bytes, MessageType::Walk, 0x1234);
    writer.u32(1);
    writer.string(b"ab");
    assert_eq!(writer.finish(), Ok(15));
    assert_eq!(
        bytes[..15],
        [15, 0, 0, 0, 110, 0x34, 0x12, 1, 0, 0, 0, 2, 0, b'a', b'b']
    );
    let mut short = [0; 10];
    let mut writer = Writer::new(&mut short, MessageType::Walk, 0);
    writer.u32(1);
    assert_eq!(writer.finish(), Err(Errno::ENAMETOOLONG));
}

#[test]
fn errors_are_those_that_programs_know() {
    let question = [0, 0, 0, 0, 12, 3, 0];
    for (number, expected) in [
        (2, Errno::ENOENT),
        (0, Errno::EIO),
        (512, Errno::EIO),
        (u32::MAX, Errno::EIO),
    ] {
        let bytes = error(&question, number);
        assert_eq!(
            message::open(&bytes, MessageType::Open, 3).err(),
            Some(expected)
        );
        // To another question.
        assert_eq!(
            message::open(&bytes, MessageType::Open, 4).err(),
            Some(Errno::EIO)
        );
    }
    assert!(Reader::of(b"\x05\x00abc").string().is_err());
}

#[test]
fn the_superuser_is_whom_the_server_runs_as() {
    let owner = HostOwner {
        uid: 1000,
        gid: 100,
    };
    assert_eq!(owner.to_host(0, 0), (1000, 100));
    assert_eq!(owner.to_host(1000, 100), (0, 0));
    assert_eq!(owner.to_host(7, 8), (7, 8));
}
