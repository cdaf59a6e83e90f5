//! The file system in memory, through the same doors as the system calls.

use super::inode::node;
use super::unpack::unpack;
use super::*;
use crate::fs::attr::{ModeBits, SetAttr};
use crate::fs::context::FsContext;
use crate::fs::file::OpenFile;
use crate::fs::inode::{DirEntry, XattrFlags};
use crate::fs::lockfree_walk::{self, WalkResult};
use crate::fs::mount::{self, VfsPath};
use crate::fs::open;
use crate::fs::path_cache::PathKey;
use crate::fs::walk::{LastComponent, WalkContext, walk};
use abi::linux::*;
use machine::irqs_off::irqs_off;
use std::string::String;
use std::vec;

#[path = "../../../machine/src/cpio/archive.rs"]
mod archive;

/// A file system of its own, outside the table of mounts.
struct World {
    root: VfsPath,
    cred: Cred,
}

impl World {
    fn new() -> World {
        let fs = TmpFs::new("tmpfs", 0o755);
        let root = fs.root();
        World {
            root: mount::detached(fs, root),
            cred: Cred::root(),
        }
    }

    fn as_user(&self, uid: u32) -> World {
        World {
            root: self.root.clone(),
            cred: Cred::ordinary(uid, uid),
        }
    }

    fn view(&self) -> WalkContext<'_> {
        WalkContext::new(self.root.clone(), &self.cred, 0)
    }

    fn walk<'a>(&self, path: &'a str, follow: bool) -> Result<crate::fs::walk::WalkTarget<'a>> {
        walk(&self.view(), self.root.clone(), path.as_bytes(), follow)
    }

    fn at(&self, path: &str) -> Result<VfsPath> {
        self.walk(path, true)?.existing()
    }

    fn make(&self, path: &str, mode: u32) -> Arc<dyn Inode> {
        let t = self.walk(path, false).unwrap();
        t.dir.inode.create(&t.name, mode, 0, 0, &self.cred).unwrap()
    }

    fn link(&self, path: &str, text: &str) {
        let t = self.walk(path, false).unwrap();
        t.dir
            .inode
            .symlink(&t.name, text.as_bytes(), &self.cred)
            .unwrap();
    }

    fn open(&self, path: &str, flags: u32) -> Result<Arc<OpenFile>> {
        open::open(
            &self.view(),
            self.root.clone(),
            path.as_bytes(),
            flags,
            0o644,
        )
    }

    fn rename(&self, from: &str, to: &str, flags: u32) -> Result<()> {
        let (a, b) = (self.walk(from, false)?, self.walk(to, false)?);
        a.dir
            .inode
            .rename(&a.name, &b.dir.inode, &b.name, flags, &self.cred)
    }

    fn names(&self, path: &str) -> Vec<String> {
        let mut names = vec![];
        let mut take = |e: DirEntry<'_>| {
            names.push(String::from_utf8(e.name.to_vec()).unwrap());
            true
        };
        self.at(path).unwrap().inode.readdir(2, &mut take).unwrap();
        names
    }
}

/// The answer about `path` for those who take no lock.
fn looked_up(w: &World, path: &str, follow: bool) -> Option<Option<Arc<dyn Inode>>> {
    let mut key = PathKey::blank();
    let known = key.bytes().get_mut(..path.len());
    known?.copy_from_slice(path.as_bytes());
    let path = lockfree_walk::PaddedPath::of(&key);
    irqs_off(
        |off| match lockfree_walk::find_from(&w.root, path, &w.cred, follow, off) {
            WalkResult::Leads(found) => Some(Some(found.inode.clone())),
            WalkResult::Nothing => Some(None),
            WalkResult::Longer | WalkResult::Unknown => None,
        },
    )
}

#[test]
fn a_look_without_a_lock_finds_what_the_walk_finds() {
    let w = World::new();
    w.make("/d", S_IFDIR | 0o755);
    w.make("/d/eight-by", S_IFREG | 0o644);
    w.make("/d/nine-byte", S_IFREG | 0o644);
    w.make("/d/nine-bytf", S_IFREG | 0o600);
    w.make("/d/a-name-of-more-than-two-words", S_IFDIR | 0o700);
    w.make("/d/a-name-of-more-than-two-words/f", S_IFREG | 0o644);
    w.link("/link", "d");
    let forty_seven = std::format!("/d/{}", "n".repeat(44));
    w.make(&forty_seven, S_IFREG | 0o644);
    w.make(&std::format!("{forty_seven}o"), S_IFREG | 0o644);
    let long = std::format!("{forty_seven}o");
    let known = [
        "/d",
        "d/eight-by",
        "//d///nine-byte",
        "/d/nine-bytf",
        "/d/nine-bytg",
        "/d/eight-b",
        "/none",
        "/none/f",
        "/d/a-name-of-more-than-two-words/f",
        "/d/a-name-of-more-than-two-words/g",
        &forty_seven,
    ];
    for path in known {
        let found = looked_up(&w, path, true)
            .expect(path)
            .map(|inode| inode.id());
        let walked = w.at(path).ok().map(|place| place.inode.id());
        assert_eq!(found, walked, "{path}");
    }
    let lies = looked_up(&w, "/link", false).flatten().unwrap();
    assert_eq!(lies.kind(), FileKind::Symlink);
    let unknown = [
        "",
        "/",
        "/d/",
        "/.",
        "/..",
        "/d/..",
        "/link",
        "/link/f",
        "/d/eight-by/f",
        &long,
    ];
    for path in unknown {
        assert!(looked_up(&w, path, true).is_none(), "{path}");
    }
    // A user without the right to search a directory gets no answer.
    let user = w.as_user(7);
    assert!(looked_up(&user, "/d/nine-bytf", true).is_some());
    for name in ["f", "g"] {
        let path = std::format!("/d/a-name-of-more-than-two-words/{name}");
        assert!(looked_up(&user, &path, true).is_none());
    }
    let d = w.at("/d").unwrap().inode;
    let chmod = |mode| {
        let set = SetAttr {
            mode: Some(mode),
            ..SetAttr::default()
        };
        d.set_attr(&set).unwrap();
    };
    chmod(0o700);
    assert!(looked_up(&user, "/d/nine-bytf", true).is_none());
    chmod(0o711);
    assert!(looked_up(&user, "/d/nine-bytf", true).is_some());
    w.rename("/d/nine-byte", "/d/nine-bytf", 0).unwrap();
    assert!(looked_up(&w, "/d/nine-byte", true).unwrap().is_none());
    d.unlink(b"nine-bytf").unwrap();
    assert!(looked_up(&w, "/d/nine-bytf", true).unwrap().is_none());
}

#[test]
fn what_an_inode_shows_is_what_it_says() {
    let w = World::new();
    let shows = |inode: &Arc<dyn Inode>| inode.published().unwrap().copied();
    let says = |inode: &Arc<dyn Inode>| Some(inode.attr().to_stat());
    let agree = |inode: &Arc<dyn Inode>| assert_eq!(shows(inode), says(inode));
    let of = w.open("/f", O_RDWR | O_CREAT).unwrap();
    let file = of.inode().unwrap().clone();
    agree(&file);
    put(&of, &[1; 9000]);
    agree(&file);
    assert_eq!(shows(&file).unwrap().blocks, 24);
    for length in [4097, 0, 1 << 20] {
        file.truncate(length).unwrap();
        agree(&file);
    }
    // A write by generated code is not settled until somebody asks.
    let touched = node(&file).and_then(|node| Some(node.store()?.core().touched()));
    touched.unwrap().store(1, Ordering::Relaxed);
    assert_eq!(shows(&file), None);
    let said = says(&file);
    assert_eq!(shows(&file), said);
    let set = SetAttr {
        mode: Some(0o4711),
        uid: Some(7),
        gid: Some(1 << 20),
        atime: Some(crate::fs::attr::FileTime { sec: -5, nsec: 6 }),
        ..SetAttr::default()
    };
    file.set_attr(&set).unwrap();
    agree(&file);
    file.set_attribute(b"user.a", Some(b"b"), XattrFlags::default())
        .unwrap();
    agree(&file);
    w.root.inode.link(b"g", file.clone()).unwrap();
    agree(&file);
    w.root.inode.unlink(b"f").unwrap();
    agree(&file);
    let dir = w.make("/d", S_IFDIR | 0o755);
    for name in ["/d/a", "/d/b"] {
        w.make(name, S_IFREG);
        agree(&dir);
    }
    let inner = w.make("/d/c", S_IFDIR | 0o2755);
    agree(&inner);
    agree(&dir);
    w.rename("/d/a", "/d/b", 0).unwrap();
    agree(&dir);
    w.rename("/d/c", "/c", 0).unwrap();
    dir.unlink(b"b").unwrap();
    w.root.inode.rmdir(b"c").unwrap();
    [&dir, &inner, &w.root.inode].into_iter().for_each(agree);
    w.link("/link", "some text");
    let link = w.walk("/link", false).unwrap().existing().unwrap();
    agree(&link.inode);
    agree(&w.make("/fifo", S_IFIFO | 0o600));
    let device = w
        .root
        .inode
        .create(b"null", S_IFCHR | 0o666, 0, makedev(1, 3), &w.cred);
    agree(&device.unwrap());
}

fn put(of: &OpenFile, bytes: &[u8]) -> usize {
    of.file().write(of, &mut IoBuf::drain(bytes)).unwrap()
}

fn get(of: &OpenFile, at: u64, count: usize) -> Vec<u8> {
    let mut bytes = vec![0xee; count];
    let n = of
        .file()
        .read_at(of, at, &mut IoBuf::fill(&mut bytes))
        .unwrap();
    bytes.truncate(n);
    bytes
}

#[test]
fn bytes_come_back_and_holes_are_zeros() {
    let w = World::new();
    let of = w.open("/f", O_RDWR | O_CREAT).unwrap();
    assert_eq!(put(&of, b"hello"), 5);
    of.file().lseek(&of, 10_000, SEEK_SET as u32).unwrap();
    assert_eq!(put(&of, &[7; 9000]), 9000);
    assert_eq!(w.at("/f").unwrap().inode.attr().size, 19_000);
    assert_eq!(get(&of, 0, 8), b"hello\0\0\0");
    assert_eq!(get(&of, 9_998, 4), [0, 0, 7, 7]);
    assert_eq!(get(&of, 18_999, 10), [7]);
    assert_eq!(get(&of, 19_000, 10), []);
    assert_eq!(of.file().lseek(&of, 0, SEEK_HOLE as u32), Ok(4096));
    assert_eq!(of.file().lseek(&of, 4096, SEEK_DATA as u32), Ok(8192));
    assert_eq!(
        of.file().lseek(&of, 19_000, SEEK_DATA as u32),
        Err(Errno::ENXIO)
    );
}

#[test]
fn what_a_truncation_cut_off_reads_as_zeros_afterwards() {
    let w = World::new();
    let of = w.open("/f", O_RDWR | O_CREAT).unwrap();
    put(&of, &[9; 6000]);
    of.file().truncate(&of, 100).unwrap();
    of.file().truncate(&of, 5000).unwrap();
    assert_eq!(get(&of, 99, 2), [9, 0]);
    assert_eq!(get(&of, 100, 8000), vec![0; 4900]);
    assert_eq!(of.file().truncate(&of, u64::MAX), Err(Errno::EFBIG));
}

#[test]
fn appending_ignores_the_offset_and_punching_leaves_zeros() {
    let w = World::new();
    let of = w.open("/f", O_RDWR | O_CREAT | O_APPEND).unwrap();
    put(&of, b"one");
    of.file().lseek(&of, 0, SEEK_SET as u32).unwrap();
    put(&of, b"two");
    assert_eq!(get(&of, 0, 9), b"onetwo");
    of.file().allocate(&of, 3, 1, 3).unwrap();
    assert_eq!(get(&of, 0, 9), b"o\0\0\0wo");
    of.file().allocate(&of, 0, 0, 9000).unwrap();
    assert_eq!(of.file().stat(&of).size, 9000);
    assert_eq!(of.file().stat(&of).blocks, 24);
}

#[test]
fn paths_are_walked_as_posix_says() {
    let w = World::new();
    w.make("/d", S_IFDIR | 0o755);
    w.make("/d/e", S_IFDIR | 0o755);
    w.make("/d/e/f", S_IFREG | 0o644);
    w.link("/to_d", "d");
    w.link("/d/up", "../d/e/f");
    w.link("/loop", "loop");
    w.link("/nowhere", "/missing");
    let ino = |p: &str| w.at(p).map(|p| p.inode.id().1);
    assert_eq!(ino("/d/e/f"), ino("//d/./e/..//e/f"));
    assert_eq!(ino("/d/up"), ino("/d/e/f"));
    assert_eq!(ino("/to_d/e/"), ino("/d/e"));
    assert_eq!(ino("/../../d"), ino("/d"));
    assert_eq!(ino("/.."), ino("/"));
    assert_eq!(ino("/d/e/f/"), Err(Errno::ENOTDIR));
    assert_eq!(ino("/d/e/f/x"), Err(Errno::ENOTDIR));
    assert_eq!(ino("/loop"), Err(Errno::ELOOP));
    assert_eq!(ino("/nowhere"), Err(Errno::ENOENT));
    assert_eq!(ino(""), Err(Errno::ENOENT));
    assert_eq!(ino("/x/y"), Err(Errno::ENOENT));
    assert_eq!(ino(&"a".repeat(256)), Err(Errno::ENAMETOOLONG));
    let t = w.walk("/to_d", false).unwrap();
    assert_eq!(t.place.unwrap().inode.kind(), FileKind::Symlink);
    assert_eq!(w.walk("/d/.", true).unwrap().last, LastComponent::Dot);
    assert_eq!(w.at("/d/e").unwrap().path(&w.root).unwrap(), b"/d/e");
    let made = w.open("/nowhere", O_WRONLY | O_CREAT).unwrap();
    assert_eq!(ino("/missing").unwrap(), made.inode().unwrap().id().1);
}

#[test]
fn opening_answers_as_open_2_says() {
    let w = World::new();
    w.make("/d", S_IFDIR | 0o755);
    w.make("/f", S_IFREG | 0o640);
    w.link("/l", "f");
    let err = |p: &str, flags| w.open(p, flags).err();
    assert_eq!(err("/f", O_CREAT | O_EXCL), Some(Errno::EEXIST));
    assert_eq!(err("/l", O_CREAT | O_EXCL), Some(Errno::EEXIST));
    assert_eq!(err("/l", O_NOFOLLOW), Some(Errno::ELOOP));
    assert_eq!(err("/l", O_NOFOLLOW | O_PATH), None);
    assert_eq!(err("/d", O_WRONLY), Some(Errno::EISDIR));
    assert_eq!(err("/d", O_CREAT), Some(Errno::EISDIR));
    assert_eq!(err("/f", O_DIRECTORY), Some(Errno::ENOTDIR));
    assert_eq!(err("/new/", O_CREAT), Some(Errno::EISDIR));
    assert_eq!(err("/none", O_RDONLY), Some(Errno::ENOENT));
    let tmp = w.open("/d", O_TMPFILE | O_RDWR).unwrap();
    assert_eq!(tmp.file().stat(&tmp).nlink, 0);
    assert!(w.names("/d").is_empty());
    let u = w.as_user(5);
    assert_eq!(u.open("/f", O_RDONLY).err(), Some(Errno::EACCES));
    assert_eq!(u.open("/x", O_CREAT).err(), Some(Errno::EACCES));
    w.open("/f", O_WRONLY | O_TRUNC).unwrap();
}

#[test]
fn renames_replace_what_they_may() {
    let w = World::new();
    for d in ["/a", "/a/b", "/empty", "/full"] {
        w.make(d, S_IFDIR | 0o755);
    }
    for f in ["/f", "/g", "/full/x"] {
        w.make(f, S_IFREG | 0o644);
    }
    assert_eq!(w.rename("/a", "/a/b/c", 0), Err(Errno::EINVAL));
    assert_eq!(w.rename("/a", "/a/b", 0), Err(Errno::EINVAL));
    assert_eq!(w.rename("/a", "/full", 0), Err(Errno::ENOTEMPTY));
    assert_eq!(w.rename("/a", "/f", 0), Err(Errno::ENOTDIR));
    assert_eq!(w.rename("/f", "/a", 0), Err(Errno::EISDIR));
    assert_eq!(w.rename("/f", "/g", RENAME_NOREPLACE), Err(Errno::EEXIST));
    assert_eq!(w.rename("/none", "/g", 0), Err(Errno::ENOENT));
    let g = w.open("/g", O_RDWR).unwrap();
    w.rename("/f", "/g", 0).unwrap();
    assert_eq!(g.file().stat(&g).nlink, 0);
    w.rename("/a", "/empty", 0).unwrap();
    assert_eq!(
        w.at("/empty/b").unwrap().path(&w.root).unwrap(),
        b"/empty/b"
    );
    w.rename("/empty/b", "/full/b", 0).unwrap();
    assert_eq!(
        w.at("/full/b/..").unwrap().inode.id(),
        w.at("/full").unwrap().inode.id()
    );
    assert_eq!(w.at("/full").unwrap().inode.attr().nlink, 3);
    assert_eq!(w.at("/empty").unwrap().inode.attr().nlink, 2);
    w.rename("/full", "/g", RENAME_EXCHANGE).unwrap();
    assert_eq!(w.at("/g/b").unwrap().inode.kind(), FileKind::Directory);
    assert_eq!(w.at("/full").unwrap().inode.kind(), FileKind::Regular);
    assert_eq!(w.at("/").unwrap().inode.attr().nlink, 4);
    w.rename("/g", "/moved", RENAME_WHITEOUT).unwrap();
    assert_eq!(w.at("/g").unwrap().inode.attr().mode, S_IFCHR);
    assert_eq!(w.at("/").unwrap().inode.attr().nlink, 4);
}

#[test]
fn a_handle_finds_its_file_while_that_is_there() {
    let w = World::new();
    let (f, g) = (w.make("/f", S_IFREG | 0o644), w.make("/g", S_IFREG | 0o644));
    let handle = f.handle().unwrap();
    assert_eq!(f.handle(), Ok(handle));
    let fs = w.root.mount.fs.clone();
    assert_eq!(fs.by_handle(handle).map(|found| found.id()), Some(f.id()));
    // Nobody has asked for the other's.
    let [generation, _, high] = handle;
    assert!(fs.by_handle([generation, g.id().1 as u32, high]).is_none());
    assert!(fs.by_handle([generation + 1, handle[1], high]).is_none());
    w.rename("/f", "/moved", 0).unwrap();
    assert!(fs.by_handle(handle).is_some());
    w.root.inode.unlink(b"moved").unwrap();
    drop(f);
    assert!(fs.by_handle(handle).is_none());
}

#[test]
fn links_and_removals_count() {
    let w = World::new();
    let f = w.make("/f", S_IFREG | 0o644);
    let d = w.make("/d", S_IFDIR | 0o755);
    let root = w.root.inode.clone();
    d.link(b"again", f.clone()).unwrap();
    assert_eq!(f.attr().nlink, 2);
    assert_eq!(root.rmdir(b"d"), Err(Errno::ENOTEMPTY));
    assert_eq!(root.unlink(b"d"), Err(Errno::EISDIR));
    assert_eq!(root.rmdir(b"f"), Err(Errno::ENOTDIR));
    assert_eq!(root.link(b"d2", d.clone()), Err(Errno::EPERM));
    root.unlink(b"f").unwrap();
    d.unlink(b"again").unwrap();
    assert_eq!(f.attr().nlink, 0);
    root.rmdir(b"d").unwrap();
    assert_eq!(
        d.create(b"x", S_IFREG, 0, 0, &w.cred).err(),
        Some(Errno::ENOENT)
    );
    assert_eq!(root.unlink(b"f"), Err(Errno::ENOENT));
}

#[test]
fn a_directory_can_be_emptied_while_it_is_read() {
    let w = World::new();
    for i in 0..100 {
        w.make(&std::format!("/{i}"), S_IFREG | 0o644);
    }
    let (mut at, mut seen) = (2, 0);
    loop {
        let mut batch: Vec<Vec<u8>> = vec![];
        let mut take = |e: DirEntry<'_>| {
            batch.push(e.name.to_vec());
            batch.len() <= 7
        };
        at = w.root.inode.readdir(at, &mut take).unwrap();
        let taken = batch.len().min(7);
        for name in &batch[..taken] {
            w.root.inode.unlink(name).unwrap();
            seen += 1;
        }
        if taken == 0 {
            break;
        }
    }
    assert_eq!((seen, w.names("/").len()), (100, 0));
}

#[test]
fn a_list_follows_renames() {
    let w = World::new();
    let [a, b, c] = ["/a", "/b", "/c"].map(|path| w.make(path, S_IFREG | 0o644).id().1);
    let list = || {
        let mut entries = vec![];
        let mut take = |e: DirEntry<'_>| {
            entries.push((e.name.to_vec(), e.ino));
            true
        };
        w.root.inode.readdir(2, &mut take).unwrap();
        entries
    };
    let of = |name: &str, ino| (name.as_bytes().to_vec(), ino);
    assert_eq!(list(), [of("a", a), of("b", b), of("c", c)]);
    w.rename("/a", "/b", RENAME_EXCHANGE).unwrap();
    assert_eq!(list(), [of("a", b), of("b", a), of("c", c)]);
    w.rename("/c", "/a", 0).unwrap();
    assert_eq!(list(), [of("a", c), of("b", a)]);
    w.rename("/a", "/d", RENAME_WHITEOUT).unwrap();
    let listed = list();
    assert_eq!((&listed[1], &listed[2]), (&of("b", a), &of("d", c)));
    assert_eq!((listed.len(), &listed[0].0), (3, &b"a".to_vec()));
    w.root.inode.unlink(b"b").unwrap();
    w.root.inode.unlink(b"a").unwrap();
    assert_eq!(list(), [of("d", c)]);
}

#[test]
fn a_deep_tree_goes_without_a_deep_stack() {
    let w = World::new();
    let mut dir = w.root.inode.clone();
    for _ in 0..20_000 {
        dir = dir.create(b"d", S_IFDIR | 0o755, 0, 0, &w.cred).unwrap();
    }
    drop(dir);
    drop(w);
}

#[test]
fn frames_return_when_files_go() {
    let w = World::new();
    let of = w.open("/f", O_RDWR | O_CREAT).unwrap();
    put(&of, &[1; 300_000]);
    let page = of.file().pager(&of).unwrap().frame(3, false).unwrap();
    assert!(of.file().pager(&of).unwrap().frame(74, false).is_err());
    w.root.inode.unlink(b"f").unwrap();
    drop(of);
    // The mapping's share outlives the file.
    let mut first = [0];
    page.bytes(0..1).unwrap().read(0, &mut first).unwrap();
    assert_eq!(first, [1]);
}

#[test]
fn a_hole_behind_the_end_clears_nothing() {
    let store = page_store::PageStore::new(&Arc::default());
    store.write(0, &mut IoBuf::drain(b"x")).unwrap();
    for (from, to) in [
        (100, 110),
        (1, 2),
        (0, 0),
        (4096, 8192),
        (5000, 1),
        (u64::MAX, 0),
    ] {
        store.punch(from, to).unwrap();
        let mut first = [0; 1];
        assert_eq!(store.read(0, &mut IoBuf::fill(&mut first)), Ok(1));
        assert_eq!(&first, b"x");
    }
    store.punch(0, u64::MAX).unwrap();
    let mut first = [1; 1];
    assert_eq!(store.read(0, &mut IoBuf::fill(&mut first)), Ok(1));
    assert_eq!(first, [0]);
}

#[test]
fn archives_become_trees() {
    use archive::{add, end};
    let w = World::new();
    let mut a = vec![];
    add(&mut a, 1, S_IFDIR | 0o755, 2, "bin", b"");
    add(&mut a, 2, S_IFREG | 0o755, 2, "bin/one", b"");
    add(&mut a, 2, S_IFREG | 0o755, 2, "bin/two", b"program");
    add(&mut a, 3, S_IFLNK | 0o777, 1, "usr", b"bin");
    add(&mut a, 4, S_IFREG | 0o600, 1, "kernel.sym", b"symbols");
    add(&mut a, 5, S_IFCHR | 0o666, 1, "deep/er/null", b"");
    end(&mut a);
    add(&mut a, 2, S_IFREG | 0o644, 1, "usr/three", b"late");
    add(&mut a, 3, S_IFREG | 0o644, 1, "bin/one", b"replaced");
    end(&mut a);
    let mut passed = 0;
    let mut done = |part: &[u8]| passed += part.len();
    unpack(&w.root, &a, &mut done).unwrap();
    assert!(passed > 0 && passed < a.len());
    assert_eq!(w.names("/"), ["bin", "usr", "deep"]);
    let text = |p: &str| get(&w.open(p, O_RDONLY).unwrap(), 0, 100);
    assert_eq!(text("/usr/two"), b"program");
    assert_eq!(text("/bin/three"), b"late");
    assert_eq!(text("/bin/one"), b"replaced");
    let null = w.at("/deep/er/null").unwrap().inode.attr();
    assert_eq!((null.kind(), null.rdev), (FileKind::Char, makedev(1, 3)));
    assert_eq!(w.at("/bin/two").unwrap().inode.attr().mtime.sec, 77);
}

#[test]
fn a_path_opened_again_gets_the_description_that_waits() {
    use crate::fdtable::FdTable;
    use crate::fs::path_cache::{self, PathKey};
    let w = World::new();
    w.make("/f", S_IFREG | 0o644);
    let files = FdTable::new(64).unwrap();
    let who = w.cred.clone().sealed().who();
    let mut key = PathKey::blank();
    key.bytes()[..3].copy_from_slice(b"/f\0");
    assert!(key.finish(0x77_0000));
    let open = || {
        let generation = path_cache::generation();
        let of = w.open("/f", O_RDONLY).unwrap();
        path_cache::learn(&key, generation, O_RDONLY, who, of.inode().unwrap());
        let address = Arc::as_ptr(&of) as usize;
        let fd = files.install(of, false).unwrap();
        files.close(fd).unwrap();
        address
    };
    // Other tests change names all the time, and every change makes the cache forget.
    let again = (0..100).any(|_| {
        open();
        let address = open();
        path_cache::open(&key, O_RDONLY, who).is_some_and(|of| {
            let same = Arc::as_ptr(&of) as usize == address;
            assert!(path_cache::open(&key, O_RDONLY, who).is_none());
            assert!(path_cache::open(&key, O_RDWR, who).is_none());
            same
        })
    });
    assert!(again);
    let node = w.at("/f").unwrap().inode;
    w.root.inode.unlink(b"f").unwrap();
    assert!(path_cache::open(&key, O_RDONLY, who).is_none());
    assert!(!node.inactive().unwrap().admitted());
}

#[test]
fn attributes_change_only_as_they_were_seen() {
    let w = World::new();
    let file = w.make("/f", S_IFREG | 0o644);
    let seen = Some(ModeBits::of(&file.attr()));
    let owner = SetAttr {
        uid: Some(7),
        seen,
        ..SetAttr::default()
    };
    assert_eq!(file.set_attr(&owner), Ok(()));
    let mode = SetAttr {
        mode: Some(0o4755),
        seen,
        ..SetAttr::default()
    };
    assert_eq!(file.set_attr(&mode), Err(Errno::EAGAIN));
    assert_eq!(file.attr().mode & 0o7777, 0o644);
    assert_eq!(file.attr().uid, 7);
}

/// An open begins at the directory of the last one, while that is where it was.
#[test]
fn an_open_finds_the_file_that_its_path_leads_to_now() {
    let w = World::new();
    w.make("/top", S_IFDIR | 0o755);
    w.make("/top/inner", S_IFDIR | 0o755);
    w.make("/top/empty", S_IFDIR | 0o755);
    let file = w.make("/top/inner/file", S_IFREG | 0o644).id();
    let other = w.make("/top/inner/other", S_IFREG | 0o600).id();
    let context = FsContext::new(w.root.clone());
    let user = w.as_user(7);
    let opened = |path: &str, world: &World| {
        let mut key = PathKey::blank();
        key.bytes()[..path.len()].copy_from_slice(path.as_bytes());
        let path = lockfree_walk::PaddedPath::of(&key);
        irqs_off(|off| {
            let found = lockfree_walk::reached(&context, path, &world.cred, O_RDONLY, off);
            found.map(|found| found.inode.id())
        })
    };
    for _ in 0..2 {
        for path in ["/top/inner/file", "top/inner/file", "/top//inner/file"] {
            assert_eq!(opened(path, &w), Some(file), "{path}");
            assert_eq!(opened(path, &user), Some(file), "{path}");
        }
        assert_eq!(opened("/top/inner/other", &w), Some(other));
        assert_eq!(opened("/top/inner/other", &user), None);
        assert_eq!(opened("/top/inner/none", &w), None);
        assert_eq!(opened("/top/file", &w), None);
    }
    // A user who may not search a directory on the way any more does not begin behind it.
    let top = w.at("/top").unwrap().inode;
    let set_mode = |mode| {
        let set = SetAttr {
            mode: Some(mode),
            ..SetAttr::default()
        };
        top.set_attr(&set).unwrap();
    };
    set_mode(0o700);
    assert_eq!(opened("/top/inner/file", &user), None);
    assert_eq!(opened("/top/inner/file", &w), Some(file));
    set_mode(0o755);
    assert_eq!(opened("/top/inner/file", &user), Some(file));
    // Another directory has its name.
    w.rename("/top/inner", "/top/former", 0).unwrap();
    w.rename("/top/empty", "/top/inner", 0).unwrap();
    assert_eq!(opened("/top/inner/file", &w), None);
    assert_eq!(opened("/top/former/file", &w), Some(file));
}
