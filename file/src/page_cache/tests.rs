//! A cached file beside a model: whatever is read, written, cut, evicted and stored, in whatever order, and
//! with errors.

use super::*;
use crate::io::IoBuf;
use std::sync::Mutex;
use std::vec;
use std::vec::Vec as List;
use vm::frame::FrameRef;

/// The keeper of a file in the test.
pub(super) struct Store {
    bytes: Mutex<List<u8>>,
    /// So many questions more are answered, then one is not.
    until_error: AtomicUsize,
    fills: AtomicUsize,
    stores: AtomicUsize,
}

impl Store {
    fn new(bytes: List<u8>) -> Arc<Store> {
        Arc::new(Store {
            bytes: Mutex::new(bytes),
            until_error: AtomicUsize::new(usize::MAX),
            fills: AtomicUsize::new(0),
            stores: AtomicUsize::new(0),
        })
    }

    fn fail(&self) -> Result<()> {
        match self.until_error.fetch_sub(1, Ordering::Relaxed) {
            0 => Err(Errno::EIO),
            _ => Ok(()),
        }
    }

    fn cut(&self, size: u64) {
        self.bytes.lock().unwrap().resize(size as usize, 0);
    }

    fn content(&self) -> List<u8> {
        self.bytes.lock().unwrap().clone()
    }
}

impl Backing for Store {
    fn unit(&self) -> usize {
        5
    }

    fn fill(&self, offset: u64, pages: &[FrameRef]) -> Result<()> {
        self.fail()?;
        assert!(pages.len() <= self.unit());
        self.fills.fetch_add(1, Ordering::Relaxed);
        let bytes = self.bytes.lock().unwrap();
        for (at, page) in pages.iter().enumerate() {
            let rest = bytes.get(offset as usize + at * PAGE..).unwrap_or_default();
            let there = rest.len().min(PAGE);
            page.bytes(0..there)?.write(0, &rest[..there])?;
            page.bytes(there..PAGE)?.zero();
        }
        Ok(())
    }

    fn store(&self, offset: u64, pages: &[FrameRef], count: usize) -> Result<()> {
        self.fail()?;
        assert!(pages.len() <= self.unit() && count <= pages.len() * PAGE);
        self.stores.fetch_add(1, Ordering::Relaxed);
        let mut bytes = self.bytes.lock().unwrap();
        let (start, end) = (offset as usize, offset as usize + count);
        if bytes.len() < end {
            bytes.resize(end, 0);
        }
        for (page, into) in pages.iter().zip(bytes[start..end].chunks_mut(PAGE)) {
            page.bytes(0..into.len())?.read(0, into)?;
        }
        Ok(())
    }
}

fn attr(size: usize, time: i64) -> Attr {
    Attr {
        size: size as u64,
        mtime: FileTime { sec: time, nsec: 0 },
        ..Attr::anonymous()
    }
}

/// A file that `bytes` are in, opened.
fn opened(bytes: &[u8]) -> (Arc<Store>, Arc<CachedFile>) {
    let store = Store::new(bytes.to_vec());
    let file = CachedFile::new((u64::MAX - 2, 1), store.clone(), Arc::default()).unwrap();
    assert_eq!(
        file.revalidate(&attr(bytes.len(), 1), mark(), false),
        Ok(true)
    );
    (store, file)
}

fn read(file: &CachedFile, at: u64, count: usize) -> Result<List<u8>> {
    let mut into = vec![0xaa; count];
    let got = file.read(at, &mut IoBuf::fill(&mut into))?;
    into.truncate(got);
    Ok(into)
}

fn write(file: &CachedFile, at: u64, bytes: &[u8]) -> Result<usize> {
    let written = file.write(Some(at), &mut IoBuf::drain(bytes), u64::MAX >> 1);
    written.map(|(_, count)| count)
}

/// A sequence of numbers that are anything.
fn numbers(seed: u64) -> impl FnMut(usize) -> usize {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    move |below| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state as usize % below.max(1)
    }
}

#[test]
fn whatever_is_done_the_file_is_that_of_a_model() {
    for seed in 1..120 {
        let mut next = numbers(seed);
        let first: List<u8> = (0..next(9 * PAGE)).map(|at| at as u8).collect();
        let (store, file) = opened(&first);
        let mut model = first;
        for _ in 0..120 {
            let at = next(12 * PAGE);
            let most = [10, PAGE, 6 * PAGE][next(3)];
            let count = next(most);
            match next(9) {
                0..=2 => {
                    let end = (at + count).min(model.len());
                    let expected = model.get(at..end).unwrap_or_default();
                    assert_eq!(read(&file, at as u64, count).unwrap(), expected);
                }
                3..=5 => {
                    let bytes: List<u8> = (0..count).map(|_| next(256) as u8).collect();
                    assert_eq!(write(&file, at as u64, &bytes), Ok(count));
                    if count > 0 {
                        model.resize(model.len().max(at + count), 0);
                        model[at..at + count].copy_from_slice(&bytes);
                    }
                }
                6 => {
                    let there = || {
                        store.cut(at as u64);
                        Ok(())
                    };
                    file.resize(at as u64, there).unwrap();
                    model.resize(at, 0);
                }
                7 => file.flush(),
                _ => {
                    file.evict(next(8), EvictScope::Unmapped);
                }
            }
            assert_eq!(file.size(), model.len() as u64);
        }
        file.flush();
        assert!(!file.is_dirty());
        assert_eq!(store.content(), model);
        file.evict(usize::MAX, EvictScope::Unmapped);
        assert_eq!(file.resident(), 0);
        assert_eq!(read(&file, 0, 20 * PAGE).unwrap(), model);
    }
}

/// The twins of generated routines do nothing but on pages that they may use.
#[test]
fn routines_write_dirty_pages_alone_and_what_they_write_is_stored() {
    use quaject::Sharing;
    use quaject::fsmap::Cursor;
    for seed in 1..200 {
        let mut next = numbers(seed);
        let first: List<u8> = (0..3 * PAGE + next(3 * PAGE)).map(|at| at as u8).collect();
        let (store, file) = opened(&first);
        let mut model = first;
        let mut taken = [0; 2];
        for _ in 0..150 {
            let at = next(model.len());
            let count = 1 + next(PAGE + 100);
            let cursor = Cursor::new();
            cursor.offset.store(at as u64, Ordering::Relaxed);
            let alone = Sharing::Exclusive;
            match next(6) {
                0 => file.flush(),
                1 => _ = file.evict(2, EvictScope::Unmapped),
                2 | 3 => {
                    let bytes: List<u8> = (0..count).map(|_| next(256) as u8).collect();
                    let end = at + count;
                    let done = file.core().write(&cursor, alone, false, &bytes);
                    taken[usize::from(done.is_some())] += 1;
                    if done.is_none() {
                        write(&file, at as u64, &bytes).unwrap();
                    }
                    model.resize(model.len().max(end), 0);
                    model[at..end].copy_from_slice(&bytes);
                }
                _ => {
                    let mut into = vec![0; count];
                    let expected = &model[at..(at + count).min(model.len())];
                    let got = match file.core().read(&cursor, alone, &mut into) {
                        Some(got) => into[..got].to_vec(),
                        None => read(&file, at as u64, count).unwrap(),
                    };
                    assert_eq!(got, expected);
                }
            }
        }
        assert!(taken.iter().all(|ways| *ways > 0), "both ways: {taken:?}");
        file.flush();
        assert_eq!(store.content(), model);
    }
}

#[test]
fn a_page_that_is_stored_as_soon_as_it_is_written_is_stored_whole() {
    let (store, file) = opened(b"short");
    file.admit(3 * PAGE as u64).unwrap();
    let mut expected = b"short".to_vec();
    // A part of a page that is there, the rest of it, and a new one.
    for count in [100, PAGE - 105, PAGE] {
        let bytes = vec![count as u8 | 1; count];
        let at = expected.len() as u64;
        let put = file.write_page(at, &mut IoBuf::drain(&bytes));
        // As the thread that stores may do, before anything else happens.
        file.flush();
        assert_eq!(put, Ok(count));
        expected.extend(bytes);
        assert_eq!(store.content(), expected);
        file.evict(9, EvictScope::Unmapped);
        assert_eq!(read(&file, 0, expected.len()).unwrap(), expected);
    }
}

#[test]
fn errors_are_told_and_nothing_else_is_lost() {
    for seed in 1..300 {
        let mut next = numbers(seed);
        let first: List<u8> = (0..4 * PAGE).map(|at| (at / 7) as u8).collect();
        let (store, file) = opened(&first);
        let told = core::sync::atomic::AtomicU32::new(file.errors().begin());
        let mut model = first;
        // Pages whose store failed: the file has what was written, or what was there before.
        let mut failed = false;
        for _ in 0..60 {
            store.until_error.store(next(12), Ordering::Relaxed);
            let (at, count) = (next(6 * PAGE), 1 + next(2 * PAGE));
            match next(4) {
                0 => match read(&file, at as u64, count) {
                    Ok(got) if !failed => {
                        let end = (at + got.len()).min(model.len());
                        assert_eq!(got, model.get(at..end).unwrap_or_default());
                    }
                    Ok(_) => {}
                    Err(error) => assert_eq!(error, Errno::EIO),
                },
                1 => {
                    let bytes = vec![next(256) as u8; count];
                    match write(&file, at as u64, &bytes) {
                        Ok(done) => {
                            model.resize(model.len().max(at + done), 0);
                            model[at..at + done].copy_from_slice(&bytes[..done]);
                        }
                        Err(error) => assert_eq!(error, Errno::EIO),
                    }
                }
                2 => {
                    file.flush();
                    assert!(!file.is_dirty());
                    let told = file.errors().tell(&told);
                    failed |= told.is_err();
                    assert!(told.is_ok() || told == Err(Errno::EIO));
                    assert_eq!(file.errors().tell(&told_again(&file)), Ok(()));
                }
                _ => {
                    file.evict(3, EvictScope::Unmapped);
                }
            }
        }
        store.until_error.store(usize::MAX, Ordering::Relaxed);
        file.flush();
        if !failed && file.errors().tell(&told).is_ok() {
            assert_eq!(store.content(), model);
        }
    }
}

/// One that is opened after all has been told.
fn told_again(file: &CachedFile) -> core::sync::atomic::AtomicU32 {
    core::sync::atomic::AtomicU32::new(file.errors().begin())
}

#[test]
fn a_file_read_in_turn_is_read_ahead() {
    let bytes: List<u8> = (0..64 * PAGE).map(|at| (at / 100) as u8).collect();
    let (store, file) = opened(&bytes);
    for at in (0..bytes.len()).step_by(100) {
        let end = (at + 100).min(bytes.len());
        assert_eq!(read(&file, at as u64, 100).unwrap(), bytes[at..end]);
    }
    // The first has four pages, the others five each.
    assert_eq!(store.fills.load(Ordering::Relaxed), 13);
    let (store, file) = opened(&bytes);
    for at in [50, 20, 40, 10, 30] {
        assert_eq!(read(&file, (at * PAGE) as u64, 1).unwrap().len(), 1);
    }
    assert_eq!(
        (file.resident(), store.fills.load(Ordering::Relaxed)),
        (5, 5)
    );
}

#[test]
fn neighbours_are_stored_together() {
    let (store, file) = opened(&[]);
    for at in (0..10 * PAGE).step_by(64) {
        write(&file, at as u64, &[7; 64]).unwrap();
    }
    file.flush();
    assert_eq!(store.stores.load(Ordering::Relaxed), 2);
    assert_eq!(store.content(), vec![7; 10 * PAGE]);
}

#[test]
fn what_somebody_else_has_changed_is_read_again_and_what_was_written_here_is_not() {
    let (store, file) = opened(b"before");
    assert_eq!(read(&file, 0, 10).unwrap(), b"before");
    *store.bytes.lock().unwrap() = b"AFTER!".to_vec();
    // As long as nobody asks.
    assert_eq!(read(&file, 0, 10).unwrap(), b"before");
    assert_eq!(file.revalidate(&attr(6, 1), mark(), false), Ok(true));
    assert_eq!(read(&file, 0, 10).unwrap(), b"before");
    assert_eq!(file.revalidate(&attr(6, 2), mark(), false), Ok(true));
    assert_eq!(read(&file, 0, 10).unwrap(), b"AFTER!");
    // An answer that is older than a write is none.
    let seen = mark();
    write(&file, 6, b" and more").unwrap();
    assert_eq!(file.revalidate(&attr(6, 3), seen, false), Ok(false));
    file.flush();
    assert_eq!(file.revalidate(&attr(6, 3), seen, false), Ok(false));
    assert_eq!(read(&file, 0, 99).unwrap(), b"AFTER! and more");
    let fills = store.fills.load(Ordering::Relaxed);
    assert_eq!(file.revalidate(&attr(15, 4), mark(), true), Ok(true));
    assert_eq!(read(&file, 0, 99).unwrap(), b"AFTER! and more");
    assert_eq!(store.fills.load(Ordering::Relaxed), fills);
    *store.bytes.lock().unwrap() = b"short".to_vec();
    assert_eq!(file.revalidate(&attr(5, 5), mark(), false), Ok(true));
    assert_eq!(read(&file, 0, 99).unwrap(), b"short");
}

#[test]
fn what_is_asked_of_the_host_itself_goes_with_the_pages() {
    let (store, file) = opened(&[1; 3 * PAGE]);
    write(&file, 10, b"dirty").unwrap();
    assert_eq!(read(&file, 2 * PAGE as u64, 3).unwrap(), [1; 3]);
    let direct = || {
        // It was stored before.
        assert_eq!(&store.bytes.lock().unwrap()[10..15], b"dirty");
        store.bytes.lock().unwrap()[2 * PAGE + 1] = 9;
        Ok(2)
    };
    assert_eq!(file.around(2 * PAGE as u64, true, direct), Ok(2));
    assert_eq!(read(&file, 2 * PAGE as u64, 3).unwrap(), [1, 9, 1]);
    assert_eq!(read(&file, 10, 5).unwrap(), b"dirty");
}

#[test]
fn a_page_that_somebody_has_stays() {
    let (_store, file) = opened(&[5; 4 * PAGE]);
    let page = file.page(1, 1).unwrap().unwrap();
    read(&file, 0, 4 * PAGE).unwrap();
    assert_eq!(file.evict(usize::MAX, EvictScope::Unmapped), 3);
    assert_eq!(file.resident(), 1);
    drop(page);
    assert_eq!(file.evict(usize::MAX, EvictScope::Unmapped), 1);
}

#[test]
fn a_file_that_is_opened_again_has_its_pages_still() {
    let store = Store::new(vec![3; 2 * PAGE]);
    let id = (u64::MAX - 1, 77);
    let make = || CachedFile::new(id, store.clone(), Arc::default());
    let file = index::find(id, make).unwrap();
    assert_eq!(file.revalidate(&attr(2 * PAGE, 1), mark(), false), Ok(true));
    read(&file, 0, 100).unwrap();
    drop(file);
    let again = index::find(id, || unreachable!()).unwrap();
    assert_eq!(again.resident(), 2);
    // Gone, it is another's number; but its pages are found when memory is short.
    index::forget(id);
    assert!(index::known(id).is_none());
    index::evict(usize::MAX, EvictScope::Unmapped);
    index::evict(usize::MAX, EvictScope::Unmapped);
    assert_eq!(again.resident(), 0);
}
