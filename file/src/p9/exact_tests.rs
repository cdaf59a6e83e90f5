//! The client with a file server in memory: what exactly is asked, and what becomes of each answer.

use super::backing::P9Backing;
use super::message::{self, MessageType as Asked, Reader, Writer};
use super::pager::P9Pager;
use super::server_tests::{BESIDE, MOST, ROOT, Server, string};
use super::session::{FsRoom, NewAttr, Session, set};
use super::transport::Use;
use super::*;
use crate::fs::attr::{FileTime, SetAttr};
use crate::page_cache::{Backing, CacheUser as Keeper};
use abi::layout::PAGE;
use abi::linux::{
    O_RDWR, O_SYNC, O_WRONLY, PATH_MAX, S_IFDIR, S_IFIFO, S_IFREG, S_ISGID, SEEK_HOLE,
};
use std::vec;
use std::vec::Vec as List;
use vm::frame::{self, FrameRef};
use vm::space::Pager;

fn session(server: &Arc<Server>) -> (Arc<Session>, Arc<Fid>) {
    let session = Session::begin(server.clone()).unwrap();
    let top = session.attach(0).unwrap();
    (session, top)
}

fn shared(server: &Arc<Server>) -> Arc<P9Fs> {
    P9Fs::new("test".into(), server.clone(), HostOwner::default()).unwrap()
}

fn how(flags: u32) -> OpenRequest {
    OpenRequest { flags, place: None }
}

/// The bytes of numbers and strings, one after the other.
macro_rules! bytes {
    ($($part:expr),*) => {{
        let mut bytes = List::new();
        $(bytes.extend(&$part[..]);)*
        bytes
    }};
}

#[test]
fn each_question_says_what_was_asked() {
    let server = Server::new();
    server.world().make(b"old", S_IFREG | 0o644, b"x");
    let (session, top) = session(&server);
    let zero = 0u32.to_le_bytes();
    let one = 1u32.to_le_bytes();
    let file = session.walk(&top, Some(b"old")).unwrap();
    assert_eq!(
        server.last(Asked::Walk),
        bytes!(zero, one, 1u16.to_le_bytes(), string(b"old"))
    );
    let new = NewAttr {
        valid: set::MODE | set::ATIME | set::MTIME,
        mode: 1,
        uid: 2,
        gid: 3,
        size: 4,
        atime: FileTime { sec: 5, nsec: 6 },
        mtime: FileTime { sec: 7, nsec: 8 },
    };
    session.set(&file, &new).unwrap();
    let words = [4u64, 5, 6, 7, 8].map(u64::to_le_bytes).concat();
    let head = [1, set::MODE | set::ATIME | set::MTIME, 1, 2, 3];
    assert_eq!(
        server.last(Asked::Setattr),
        bytes!(head.map(u32::to_le_bytes).concat(), words)
    );
    session.mkdir(&top, b"d", 0o700, 9).unwrap();
    let numbers = [0o700u32, 9].map(u32::to_le_bytes).concat();
    assert_eq!(
        server.last(Asked::Mkdir),
        bytes!(zero, string(b"d"), numbers)
    );
    session.mknod(&top, b"n", S_IFIFO, (5, 6), 7).unwrap();
    let numbers = [S_IFIFO, 5, 6, 7].map(u32::to_le_bytes).concat();
    assert_eq!(
        server.last(Asked::Mknod),
        bytes!(zero, string(b"n"), numbers)
    );
    session.link(&top, b"more", &file).unwrap();
    assert_eq!(server.last(Asked::Link), bytes!(zero, one, string(b"more")));
    let dir = session.walk(&top, Some(b"d")).unwrap();
    session.rename((&top, b"more"), (&dir, b"moved")).unwrap();
    let two = 2u32.to_le_bytes();
    assert_eq!(
        server.last(Asked::Renameat),
        bytes!(zero, string(b"more"), two, string(b"moved"))
    );
    assert!(session.symlink(&top, b"to", b"there", 8).is_err());
    assert_eq!(
        server.last(Asked::Symlink),
        bytes!(zero, string(b"to"), string(b"there"), 8u32.to_le_bytes())
    );
    for (directory, flags) in [(false, 0u32), (true, 0x200)] {
        let name: &[u8] = if directory { b"d" } else { b"old" };
        session.unlink(&top, name, directory).unwrap();
        assert_eq!(
            server.last(Asked::Unlinkat),
            bytes!(zero, string(name), flags.to_le_bytes())
        );
    }
    for data in [false, true] {
        session.fsync(&file, data).unwrap();
        assert_eq!(
            server.last(Asked::Fsync),
            bytes!(one, u32::from(data).to_le_bytes())
        );
    }
    let created = session.walk(&top, None).unwrap();
    session
        .create(&created, b"new", O_RDWR, 0o100_600, 4)
        .unwrap();
    let numbers = [O_RDWR, 0o100_600, 4].map(u32::to_le_bytes).concat();
    assert_eq!(
        server.last(Asked::Create),
        bytes!(3u32.to_le_bytes(), string(b"new"), numbers)
    );
    session.attach(77).unwrap();
    assert_eq!(
        server.last(Asked::Attach),
        bytes!(4u32.to_le_bytes(), [0xff; 4], [0; 4], 77u32.to_le_bytes())
    );
    let FsRoom {
        bsize,
        blocks,
        files,
    } = session.statfs(&top).unwrap();
    assert_eq!((bsize, blocks, files), (512, [10, 20, 30], [40, 50]));
}

#[test]
fn messages_are_as_long_as_was_agreed() {
    let server = Server::new();
    let number = server.world().make(b"f", S_IFREG | 0o644, &[7; 9000]);
    server.world().agrees = 8192;
    let (session, top) = session(&server);
    assert_eq!(session.unit(), (8192 - BESIDE) as usize);
    let file = session.walk(&top, Some(b"f")).unwrap();
    for (says, unit) in [(0, 8192 - BESIDE), (100, 100), (MOST, 8192 - BESIDE)] {
        server.world().unit = says;
        assert_eq!(session.open(&file, O_RDWR), Ok(unit));
    }
    let mut came = 0;
    let mut take = |data: &[u8]| {
        came = data.len();
        Ok(came)
    };
    let read = session.read(Use::Call, &file, 0, 9000, &mut take);
    assert_eq!(read, Ok((8192 - BESIDE) as usize));
    let wrote = session.write(Use::Call, &file, 3, 9000, &mut |room| {
        room.fill(8);
        Ok(room.len())
    });
    let unit = (8192 - BESIDE) as usize;
    assert_eq!(wrote, Ok((unit, unit)));
    let data = server.data(number);
    assert!(data[..3] == [7; 3] && data[3..3 + unit].iter().all(|byte| *byte == 8));
    assert_eq!(data[3 + unit], 7);
}

#[test]
fn a_list_goes_on_where_it_stopped() {
    let server = Server::new();
    let longest = [b'z'; NAME_MAX];
    for name in [&b"a"[..], b"b", b"c", &longest] {
        server.world().make(name, S_IFREG, b"");
    }
    let (session, top) = session(&server);
    let mut from = 0;
    let mut names = List::new();
    loop {
        let mut taken = 0;
        // Two at a time.
        let mut sink = |entry: crate::fs::DirEntry<'_>| {
            taken += 1;
            if taken <= 2 {
                names.push(entry.name.to_vec());
            }
            taken <= 2
        };
        let next = session.readdir(&top, from, &mut sink).unwrap();
        if next == from {
            break;
        }
        from = next;
    }
    assert_eq!(names, [&b"a"[..], b"b", b"c", &longest]);
}

#[test]
fn a_fid_that_could_not_be_given_back_is_given_back_once_later() {
    let server = Server::new();
    let (session, top) = session(&server);
    let clunks = || {
        let world = server.world();
        let clunks = world.asked.iter().filter(|question| question[4] == 120);
        clunks
            .map(|question| question[7..].to_vec())
            .collect::<List<_>>()
    };
    server.world().is_full = true;
    for _ in 0..2 {
        drop(session.walk(&top, None).unwrap());
    }
    assert!(clunks().is_empty());
    server.world().is_full = false;
    for _ in 0..3 {
        session.statfs(&top).unwrap();
    }
    let mut given = clunks();
    given.sort();
    assert_eq!(given, [1u32, 2].map(|fid| fid.to_le_bytes().to_vec()));
    assert_eq!(server.world().fids.len(), 1);
}

#[test]
fn times_and_targets_at_their_limits() {
    let server = Server::new();
    let (session, top) = session(&server);
    for (given, nsec) in [(999_999_999, 999_999_999), (1_000_000_000, 0)] {
        server.world().entries.get_mut(&ROOT).unwrap().mtime = (5, given);
        let attr = session.attr(&top).unwrap();
        assert_eq!(attr.mtime, FileTime { sec: 5, nsec });
    }
    for (len, good) in [(PATH_MAX - 1, true), (PATH_MAX, false)] {
        let number = server.world().make(b"l", S_IFREG, &vec![b'x'; len]);
        let link = session.walk(&top, Some(b"l")).unwrap();
        assert_eq!(session.readlink(&link).is_ok(), good, "{len}");
        server.world().entries.remove(&number);
    }
}

#[test]
fn heads_and_numbers_of_messages_at_their_limits() {
    let last = message::open(&[11, 0, 0, 0, 7, 3, 0, 133, 0, 0, 0], Asked::Open, 3);
    assert_eq!(last.err(), Some(Errno(133)));
    let beyond = message::open(&[11, 0, 0, 0, 7, 3, 0, 134, 0, 0, 0], Asked::Open, 3);
    assert_eq!(beyond.err(), Some(Errno::EIO));
    // Bytes behind the message are none of it.
    let bytes = [8, 0, 0, 0, 13, 3, 0, 1, 2];
    let mut reader: Reader<'_> = message::open(&bytes, Asked::Open, 3).unwrap();
    assert_eq!((reader.u8(), reader.is_empty()), (Ok(1), true));
    // A question that fills its memory.
    let mut memory = [0; 16];
    let mut writer = Writer::new(&mut memory, Asked::Write, 0);
    writer.u32(0);
    let room = writer.room().len();
    writer.filled(room);
    assert_eq!((room, writer.finish()), (5, Ok(16)));
    assert_eq!(memory[7..11], [5, 0, 0, 0]);
}

#[test]
fn a_synchronous_description_asks_piece_by_piece() {
    let server = Server::new();
    let number = server.world().make(b"f", S_IFREG | 0o644, b"hello world");
    server.world().unit = 4;
    let root: Arc<dyn Inode> = shared(&server).root();
    let node = root.clone().lookup(b"f").unwrap();
    let of = node.open(how(O_RDWR | O_SYNC)).unwrap();
    let mut bytes = [0; 20];
    let read = of.file().read_at(&of, 1, &mut IoBuf::fill(&mut bytes));
    assert_eq!((read, &bytes[..10]), (Ok(10), &b"ello world"[..]));
    let wrote = of.file().write_at(&of, 2, &mut IoBuf::drain(b"0123456789"));
    assert_eq!(
        (wrote, server.data(number)),
        (Ok(10), b"he0123456789".to_vec())
    );
    // A server that writes less than it was given.
    server.world().writes = 3;
    let wrote = of.file().write_at(&of, 0, &mut IoBuf::drain(b"abcdefgh"));
    assert_eq!(
        (wrote, server.data(number)),
        (Ok(3), b"abc123456789".to_vec())
    );
    server.world().writes = usize::MAX;
    // The bytes that were moved count, and an error only if there are none.
    for (kind, after) in [(116u8, 1), (118, 1)] {
        server.world().refuses = Some((kind, after, 28));
        let result = match kind {
            116 => of.file().read_at(&of, 0, &mut IoBuf::fill(&mut bytes)),
            _ => of.file().write_at(&of, 0, &mut IoBuf::drain(b"ABCDEFGH")),
        };
        assert_eq!(result, Ok(4), "{kind}");
        let result = match kind {
            116 => of.file().read_at(&of, 0, &mut IoBuf::fill(&mut bytes)),
            _ => of.file().write_at(&of, 0, &mut IoBuf::drain(b"ABCDEFGH")),
        };
        assert_eq!(result, Err(Errno::ENOSPC), "{kind}");
    }
    server.world().refuses = None;
    // Its offset follows.
    for (text, end) in [(&b"one"[..], 3), (b"more", 7)] {
        assert_eq!(
            of.file().write(&of, &mut IoBuf::drain(text)),
            Ok(text.len())
        );
        assert_eq!(of.file().lseek(&of, 0, 1), Ok(end));
    }
    let hole = of.file().lseek(&of, 0, SEEK_HOLE as u32);
    assert_eq!(hole, Ok(server.data(number).len() as u64));
    assert_eq!(server.data(number), b"onemore56789");
}

#[test]
fn what_is_kept_reaches_the_host_whole() {
    let server = Server::new();
    let text: List<u8> = (0..10_000u32).map(|at| (at % 251) as u8).collect();
    let number = server.world().make(b"f", S_IFREG | 0o644, &text);
    let root: Arc<dyn Inode> = shared(&server).root();
    let node = root.clone().lookup(b"f").unwrap();
    let of = node.clone().open(how(O_RDWR)).unwrap();
    let mut bytes = vec![1; 12_000];
    let read = of.file().read_at(&of, 0, &mut IoBuf::fill(&mut bytes));
    assert_eq!((read, &bytes[..10_000]), (Ok(10_000), &text[..]));
    // The server stores a little at a time.
    server.world().writes = 1000;
    let wrote = of.file().write_at(&of, 4000, &mut IoBuf::drain(&[9; 5000]));
    assert_eq!((wrote, of.file().sync(&of, false)), (Ok(5000), Ok(())));
    let mut expected = text.clone();
    expected[4000..9000].fill(9);
    assert!(server.data(number) == expected);
    // Behind the end there is nothing but zeros.
    of.file().truncate(&of, 12_000).unwrap();
    let read = of
        .file()
        .read_at(&of, 9990, &mut IoBuf::fill(&mut bytes[..2010]));
    assert_eq!(read, Ok(2010));
    assert!(bytes[..10] == text[9990..] && bytes[10..2010].iter().all(|byte| *byte == 0));
    // A server that writes nothing has failed; each description is told once, and a later one never.
    server.world().writes = 0;
    assert_eq!(of.file().write_at(&of, 0, &mut IoBuf::drain(b"x")), Ok(1));
    assert_eq!(of.file().sync(&of, false), Err(Errno::EIO));
    assert_eq!(of.file().sync(&of, false), Ok(()));
    server.world().writes = usize::MAX;
    let later = node.open(how(O_RDWR)).unwrap();
    assert_eq!(later.file().sync(&later, false), Ok(()));
}

#[test]
fn a_file_that_is_only_written_keeps_the_rest_of_its_page() {
    let server = Server::new();
    let number = server.world().make(b"f", S_IFREG | 0o644, b"hello world");
    let root: Arc<dyn Inode> = shared(&server).root();
    let of = root.lookup(b"f").unwrap().open(how(O_WRONLY)).unwrap();
    let asked = server.last(Asked::Open);
    assert_eq!(asked[4..], O_RDWR.to_le_bytes());
    assert_eq!(
        of.file().write_at(&of, 6, &mut IoBuf::drain(b"there")),
        Ok(5)
    );
    of.file().sync(&of, false).unwrap();
    assert_eq!(server.data(number), b"hello there");
}

#[test]
fn handles_stay_as_long_as_somebody_uses_them() {
    let server = Server::new();
    server.world().make(b"f", S_IFREG | 0o644, b"hello world");
    let (session, top) = session(&server);
    let handle = || session.walk(&top, Some(b"f")).unwrap();
    let host = P9Backing::new(session.clone()).unwrap();
    let (reads, writes) = (handle(), handle());
    let first = host.attach(&reads, true, false);
    let second = host.attach(&writes, false, true);
    let third = host.attach(&handle(), true, true);
    let counts = || (Arc::strong_count(&reads), Arc::strong_count(&writes));
    assert_eq!(counts(), (2, 2));
    let fourth = first.more();
    drop((first, second, third));
    assert_eq!(counts(), (2, 2));
    drop(fourth);
    assert_eq!(counts(), (1, 1));
    // Behind one that wrote they stay until that is stored.
    let late = host.attach(&writes, false, true);
    Keeper::leave_late(&late);
    drop(late);
    assert_eq!(counts(), (1, 2));
    host.stored();
    assert_eq!(counts(), (1, 1));
    let late = host.attach(&writes, false, true);
    Keeper::leave_late(&late);
    host.stored();
    assert_eq!(counts(), (1, 2));
    drop(late);
    assert_eq!(counts(), (1, 1));
    assert_eq!(host.store(0, &[], 1), Err(Errno::EBADF));
}

#[test]
fn a_page_is_filled_whatever_was_in_it() {
    let server = Server::new();
    server.world().make(b"f", S_IFREG | 0o644, b"hello");
    let (session, top) = session(&server);
    let file = session.walk(&top, Some(b"f")).unwrap();
    let host = P9Backing::new(session).unwrap();
    let _user = host.attach(&file, true, false);
    let page = FrameRef::own(frame::alloc_user().unwrap());
    let all = page.bytes(0..PAGE).unwrap();
    all.write(0, &[0xff; PAGE]).unwrap();
    host.fill(0, core::slice::from_ref(&page)).unwrap();
    let mut bytes = [1; PAGE];
    all.read(0, &mut bytes).unwrap();
    assert!(bytes.starts_with(b"hello") && bytes[5..].iter().all(|byte| *byte == 0));
}

#[test]
fn names_that_go_and_move_are_followed() {
    let server = Server::new();
    server.world().make(b"a", S_IFREG | 0o644, b"one");
    let root: Arc<dyn Inode> = shared(&server).root();
    let first = root.clone().lookup(b"a").unwrap();
    root.unlink(b"a").unwrap();
    assert_eq!((first.attr().nlink, first.name()), (0, None));
    // Another of the same name.
    server.world().make(b"a", S_IFREG | 0o644, b"two");
    let second = root.clone().lookup(b"a").unwrap();
    assert!(second.id() != first.id() && second.attr().nlink == 1);
    root.rename(b"a", &root, b"b", 0, &Cred::root()).unwrap();
    assert_eq!(second.name().as_deref(), Some(&b"b"[..]));
    root.rename(b"b", &root, b"c", 0, &Cred::root()).unwrap();
    root.unlink(b"c").unwrap();
    assert_eq!((second.attr().nlink, second.name()), (0, None));
    // One of two names.
    server.world().make(b"x", S_IFREG | 0o644, b"three");
    let third = root.clone().lookup(b"x").unwrap();
    root.link(b"y", third.clone()).unwrap();
    assert_eq!(third.attr().nlink, 2);
    root.unlink(b"x").unwrap();
    assert_eq!(third.attr().nlink, 1);
}

#[test]
fn what_is_made_has_the_group_of_its_directory_if_that_says_so() {
    let server = Server::new();
    let root: Arc<dyn Inode> = shared(&server).root();
    let mut cred = Cred::root();
    (cred.gid, cred.fsgid) = (50, 50);
    root.create(b"d1", S_IFDIR | 0o755, 0o022, 0, &cred)
        .unwrap();
    let group = |mode: u32, gid: u32| [mode, gid].map(u32::to_le_bytes).concat();
    assert!(server.last(Asked::Mkdir).ends_with(&group(0o755, 50)));
    let server = Server::new();
    {
        let mut world = server.world();
        let entry = world.entries.get_mut(&ROOT).unwrap();
        (entry.mode, entry.owner) = (S_IFDIR | S_ISGID | 0o755, (0, 60));
    }
    let root: Arc<dyn Inode> = shared(&server).root();
    root.create(b"d2", S_IFDIR | 0o755, 0o022, 0, &cred)
        .unwrap();
    assert!(
        server
            .last(Asked::Mkdir)
            .ends_with(&group(S_ISGID | 0o755, 60))
    );
    root.create(b"f2", S_IFREG | 0o666, 0o022, 0, &cred)
        .unwrap();
    assert!(
        server
            .last(Asked::Create)
            .ends_with(&group(S_IFREG | 0o644, 60))
    );
}

#[test]
fn times_that_are_set_stay_and_old_decisions_do_not_count() {
    let server = Server::new();
    let number = server.world().make(b"f", S_IFREG | 0o644, b"hello world");
    let root: Arc<dyn Inode> = shared(&server).root();
    let node = root.lookup(b"f").unwrap();
    let of = node.clone().open(how(O_RDWR)).unwrap();
    assert_eq!(of.file().write_at(&of, 0, &mut IoBuf::drain(b"x")), Ok(1));
    let mtime = FileTime { sec: 7, nsec: 9 };
    let wanted = SetAttr {
        mtime: Some(mtime),
        ..SetAttr::default()
    };
    node.set_attr(&wanted).unwrap();
    of.file().sync(&of, false).unwrap();
    assert_eq!(server.world().entries[&number].mtime, (7, 9));
    assert_eq!(node.attr().mtime, mtime);
    let mut seen = crate::fs::attr::ModeBits::of(&node.attr());
    let wanted = |seen| SetAttr {
        mode: Some(0o600),
        seen: Some(seen),
        ..SetAttr::default()
    };
    node.set_attr(&wanted(seen)).unwrap();
    seen.uid += 1;
    assert_eq!(node.set_attr(&wanted(seen)), Err(Errno::EAGAIN));
    assert_eq!(server.world().entries[&number].mode, S_IFREG | 0o600);
}

#[test]
fn the_hosts_user_is_the_superuser_here() {
    let server = Server::new();
    server.world().make(b"f", S_IFREG | 0o644, b"");
    server.world().entries.get_mut(&2).unwrap().owner = (1000, 100);
    let owner = HostOwner {
        uid: 1000,
        gid: 100,
    };
    let fs = P9Fs::new("test".into(), server.clone(), owner).unwrap();
    let root: Arc<dyn Inode> = fs.root();
    let attr = root.lookup(b"f").unwrap().attr();
    assert_eq!((attr.uid, attr.gid), (0, 0));
}

#[test]
fn a_mapping_of_what_is_not_kept_has_each_page_in_its_place() {
    let server = Server::new();
    let text: List<u8> = (0..3u8).flat_map(|page| [page + 1; PAGE]).collect();
    server
        .world()
        .make(b"f", S_IFREG | 0o644, &text[..2 * PAGE + 5]);
    let root: Arc<dyn Inode> = shared(&server).root();
    let node = root.lookup(b"f").unwrap().downcast::<P9Inode>().unwrap();
    let path = Arc::new("f".into());
    let pager = P9Pager::new(node.clone(), node.fid(), path, None);
    for index in [0, 1, 2, 1] {
        let frame = pager.frame(index, false).unwrap();
        let mut bytes = [9; 8];
        frame.bytes(0..8).unwrap().read(0, &mut bytes).unwrap();
        let byte = index as u8 + 1;
        let expected = match index {
            2 => [byte, byte, byte, byte, byte, 0, 0, 0],
            _ => [byte; 8],
        };
        assert_eq!(bytes, expected, "{index}");
    }
    // One message brought all three.
    let reads = |question: &&List<u8>| question[4] == 116;
    assert_eq!(server.world().asked.iter().filter(reads).count(), 1);
    assert!(pager.frame(3, false).is_err());
}
