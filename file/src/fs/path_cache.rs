//! The path cache: from whole paths to inodes, for opens that are repeated.
//!
//! *Interface.* [`PathKey`] is a path with its hash, made while it is copied in. [`open`] returns a
//! description from the inode's inactive list, if the path is known, was walked since the last change of
//! names, and the same access was granted to the same identity; [`learn`] records a path after an ordinary
//! open. [`changed`] invalidates all earlier walks: after renames, removals, changes of mode or owner,
//! mounts. [`forget`] drops one inode, [`forget_with_files`] a directory and what is in it, [`purge`] all.
//!
//! An entry never changes. Readers run with interrupts off, so an entry that they hold cannot be freed
//! (`sync::epoch`). Paths are distinguished by their starting directory and their bytes; only the system's
//! root counts as `/`.
//!
//! Source: dissertation, 7.3.1: 70 % of `open` is finding the name.
//!
//! *Unsafe*: entries that live until a grace period.

use alloc::boxed::Box;
use alloc::sync::Arc;
use core::ptr;
use core::sync::atomic::{AtomicPtr, AtomicU32, AtomicU64, Ordering};
use machine::irqs_off::{IrqsOff, irqs_off};
use sync::epoch;

use account::CredId;

use super::inactive::Inactive;
use super::inactive_inodes;
use super::inode::Inode;
use crate::fs::file::OpenFile;

/// Entries; a path has one place it can be in.
const SLOTS: usize = 64;
const _: () = assert!(SLOTS == u64::BITS as usize, "a word has a bit for each");
/// A path is learnt when it is opened once more than so often. An open that learns costs as much as six
/// that follow the path, and saves each later one two thirds of that.
const OFTEN: u32 = 3;
/// Bits of a tag that count.
const COUNT: u32 = 3;
const _: () = assert!(OFTEN <= COUNT, "the bits can say it");
/// Words of a path that is short enough, its NUL included.
pub const KEY_WORDS: usize = 6;

static TABLE: [AtomicPtr<Entry>; SLOTS] = [const { AtomicPtr::new(ptr::null_mut()) }; SLOTS];
/// The tag of the path last opened in each slot, and how often without another in between, up to [`OFTEN`].
static SEEN: [AtomicU32; SLOTS] = [const { AtomicU32::new(0) }; SLOTS];
static GENERATION: AtomicU64 = AtomicU64::new(1);

/// A short path, padded with zeros, and where it starts.
#[derive(Clone, Copy, PartialEq, Eq)]
#[repr(C)]
pub struct PathKey {
    /// First field: generated code writes the bytes here. The last word is zero.
    words: [u64; KEY_WORDS + 1],
    mark: Mark,
}

/// The data of a path besides its bytes.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Mark {
    /// Words in use; those beyond are not compared.
    used: usize,
    /// Identity of the directory that a relative path starts from; 0 for an absolute one.
    start: u64,
    hash: u64,
}

impl Mark {
    #[inline]
    fn slot(self) -> usize {
        (self.hash >> 58) as usize
    }

    /// The mark of the path among others of its place, without a count.
    #[inline]
    fn tag(self) -> u32 {
        (self.hash >> 16) as u32 & !COUNT
    }
}

impl PathKey {
    /// A key to be filled: its words are the buffer for the path's bytes.
    #[inline]
    pub const fn blank() -> PathKey {
        PathKey {
            words: [0; KEY_WORDS + 1],
            mark: Mark {
                used: 0,
                start: 0,
                hash: 0,
            },
        }
    }

    /// The buffer for the path's bytes.
    #[inline]
    pub fn bytes(&mut self) -> &mut [u8] {
        bytemuck::cast_slice_mut(&mut self.words[..KEY_WORDS])
    }

    /// The path's bytes, and zeros behind [`KEY_WORDS`] words.
    #[inline(always)]
    pub(super) fn padded(&self) -> &[u8] {
        bytemuck::cast_slice(&self.words)
    }

    /// Whether there is nothing before the first NUL byte.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.words[0] as u8 == 0
    }

    /// Whether the bytes are those of an absolute path.
    #[inline]
    pub fn absolute(&self) -> bool {
        self.words[0] as u8 == b'/'
    }

    /// Ends the path at its first NUL byte and computes the hash. `start` is the identity of the directory
    /// that a relative path starts from. `false` when there is no NUL byte: the path is too long.
    #[inline]
    pub fn finish(&mut self, start: u64) -> bool {
        let Some(mark) = self.end(start) else {
            return false;
        };
        self.mark = mark;
        true
    }

    /// Ends the path at its first NUL byte; returns the data for [`PathKey::finish`].
    #[inline(always)]
    fn end(&mut self, start: u64) -> Option<Mark> {
        const LOW: u64 = 0x0101_0101_0101_0101;
        let start = if self.absolute() { 0 } else { start };
        let mut hash = start;
        for (index, word) in self.words[..KEY_WORDS].iter_mut().enumerate() {
            let nul = word.wrapping_sub(LOW) & !*word & LOW << 7;
            if nul != 0 {
                // The lowest marked byte is the first NUL: keep the bytes below it.
                *word &= (nul & nul.wrapping_neg()).wrapping_sub(1) >> 7;
            }
            hash = (hash.rotate_left(5) ^ *word).wrapping_mul(0x517c_c1b7_2722_0a95);
            if nul != 0 {
                return Some(Mark {
                    used: index + 1,
                    start,
                    hash,
                });
            }
        }
        None
    }

    /// Whether it is the path that `words` begin, as far as `mark` says.
    #[inline(always)]
    fn is(&self, words: &[u64; KEY_WORDS + 1], mark: Mark) -> bool {
        // Most paths have two to four words, so the loop is left early; the last word is compared first,
        // since paths differ at their ends.
        let words = words.get(..mark.used).unwrap_or(words);
        self.mark == mark && words.iter().zip(&self.words).rev().all(|(a, b)| a == b)
    }

    fn same(&self, other: &PathKey) -> bool {
        self.is(&other.words, other.mark)
    }
}

struct Entry {
    generation: u64,
    key: PathKey,
    /// The identity whose access was checked.
    who: CredId,
    /// Access modes that were granted, a bit each.
    modes: u32,
    inode: Arc<dyn Inode>,
    /// The inode's list.
    list: *const Inactive,
}

impl Entry {
    #[inline]
    fn list(&self) -> Option<&Inactive> {
        // SAFETY: it is part of the inode, which the entry keeps.
        unsafe { self.list.as_ref() }
    }
}

impl Drop for Entry {
    fn drop(&mut self) {
        if let Some(inactive) = self.inode.inactive() {
            inactive.expel();
        }
    }
}

/// Some path may lead elsewhere from now on, or be open to others.
pub fn changed() {
    GENERATION.fetch_add(1, Ordering::AcqRel);
}

/// Before a walk whose result may be learnt.
pub fn generation() -> u64 {
    GENERATION.load(Ordering::Acquire)
}

/// The entry in `slot`.
#[inline(always)]
fn entry_in<'a>(slot: &AtomicPtr<Entry>, _off: &'a IrqsOff) -> Option<&'a Entry> {
    let entry = slot.load(Ordering::Acquire);
    // SAFETY: an entry in the table lives until a grace period after it was taken out, which does not end
    // here while interrupts are off.
    unsafe { entry.as_ref() }
}

/// A waiting description of `key`, opened with access mode `mode`.
#[inline]
pub fn open(key: &PathKey, mode: u32, who: CredId) -> Option<Arc<OpenFile>> {
    // Bound: one place, and the words of a short path.
    irqs_off(|off| find(&key.words, key.mark, mode, who, off))
}

/// As [`PathKey::finish`] and then [`open`]; `key` is finished afterwards if nothing was found.
#[inline(always)]
pub fn open_now(
    key: &mut PathKey,
    start: u64,
    mode: u32,
    who: CredId,
    off: &IrqsOff,
) -> Option<Arc<OpenFile>> {
    let mark = key.end(start)?;
    let found = find(&key.words, mark, mode, who, off);
    if found.is_none() {
        key.mark = mark;
    }
    found
}

/// Whether a finished `key`, which is not known, was looked for often, and no other with its place since:
/// it is worth learning then.
#[inline]
pub fn is_repeated(key: &PathKey) -> bool {
    let mark = key.mark;
    mark.used != 0 && SEEN[mark.slot()].load(Ordering::Relaxed) == mark.tag() | OFTEN
}

/// A finished `key`, which is not known, is the last path that was looked for of those with its place.
#[inline]
pub fn note(key: &PathKey) {
    let mark = key.mark;
    if mark.used == 0 {
        return;
    }
    let (seen, tag) = (&SEEN[mark.slot()], mark.tag());
    let before = match seen.load(Ordering::Relaxed) {
        same if same & !COUNT == tag => same & COUNT,
        _ => 0,
    };
    seen.store(tag | (before + 1).min(OFTEN), Ordering::Relaxed);
}

#[inline(always)]
fn find(
    words: &[u64; KEY_WORDS + 1],
    mark: Mark,
    mode: u32,
    who: CredId,
    off: &IrqsOff,
) -> Option<Arc<OpenFile>> {
    let entry = entry_in(&TABLE[mark.slot()], off)?;
    if entry.generation != GENERATION.load(Ordering::Acquire)
        || !entry.key.is(words, mark)
        || entry.who != who
        || entry.modes & 1 << mode == 0
    {
        return None;
    }
    entry.list()?.take(mode)
}

/// Puts back what [`open`] gave, unused.
#[cold]
pub fn wait_again(of: Arc<OpenFile>) {
    let mode = of.flags() & abi::linux::O_ACCMODE;
    let inode = of.inode().cloned();
    if let Some(list) = inode.as_ref().and_then(|i| i.inactive()) {
        drop(list.put(mode, of));
    }
}

/// Records that `key`, walked since `generation`, leads to `inode`, and that `who` may open it with access
/// mode `mode`.
pub fn learn(key: &PathKey, generation: u64, mode: u32, who: CredId, inode: &Arc<dyn Inode>) {
    let Some(inactive) = inode.inactive() else {
        return;
    };
    if !is_repeated(key) || mode > 2 {
        return note(key);
    }
    let mut modes = 1 << mode;
    let slot = &TABLE[key.mark.slot()];
    irqs_off(|off| {
        if let Some(old) = entry_in(slot, off)
            && old.generation == generation
            && old.key.same(key)
            && old.who == who
        {
            modes |= old.modes;
        }
    });
    inactive.admit();
    inactive.note_known(key.mark.slot());
    let entry = Box::new(Entry {
        generation,
        key: *key,
        who,
        modes,
        inode: inode.clone(),
        list: inactive,
    });
    retire(slot.swap(Box::into_raw(entry), Ordering::AcqRel));
}

/// Drops `inode`, which is about to lose its last name, or whose descriptions may wait no longer. Whether
/// any may have waited: they are gone after [`epoch::synchronize`].
pub fn forget(inode: &dyn Inode) -> bool {
    let Some(inactive) = inode.inactive() else {
        return false;
    };
    let known = inactive.is_known();
    inactive_inodes::let_go(inode);
    if inactive.admitted() {
        let id = inode.id();
        take_out(inactive.known_at(), |entry| entry.inode.id() == id);
    }
    known
}

/// Drops `directory` and the inodes that are in it; as [`forget`].
pub fn forget_with_files(directory: &dyn Inode) -> bool {
    let mut any = forget(directory) | inactive_inodes::let_go_below(directory);
    for slot in &TABLE {
        if slot.load(Ordering::Relaxed).is_null() {
            continue;
        }
        let known = irqs_off(|off| entry_in(slot, off).map(|entry| entry.inode.clone()));
        if let Some(inode) = known.filter(|inode| inode.is_in(directory)) {
            any |= forget(&*inode);
        }
    }
    any
}

/// Drops everything.
pub fn purge() {
    inactive_inodes::purge();
    take_out(u64::MAX, |_| true);
}

/// Takes out what is unwanted of the entries at the places `at`, a bit each.
fn take_out(at: u64, unwanted: impl Fn(&Entry) -> bool) {
    let mut left = at;
    while left != 0 {
        let slot = &TABLE[left.trailing_zeros() as usize];
        left &= left - 1;
        let found = irqs_off(|off| {
            let entry = entry_in(slot, off).filter(|entry| unwanted(entry));
            entry.map(|entry| ptr::from_ref(entry).cast_mut())
        });
        if let Some(entry) = found
            && slot
                .compare_exchange(entry, ptr::null_mut(), Ordering::AcqRel, Ordering::Relaxed)
                .is_ok()
        {
            retire(entry);
        }
    }
}

fn retire(entry: *mut Entry) {
    if !entry.is_null() {
        // SAFETY: the entry was taken out of the table by exchange, so this is the one time it is retired,
        // and it came from `Box::into_raw`.
        epoch::retire(
            |e| drop(unsafe { Box::from_raw(e as *mut Entry) }),
            entry as usize,
        );
    }
}
