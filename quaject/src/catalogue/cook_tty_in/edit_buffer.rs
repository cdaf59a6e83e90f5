//! The edit buffer of CookTTYin: the line being edited, and behind it the input for readers.
//!
//! *Interface*: [`EditBuffer`]. The editor adds, erases and publishes; readers take by turns
//! ([`EditBuffer::read`], the reference implementation of the generated routine).
//!
//! One ring with three positions. From `tail` to `head` is the input for readers; from `head` on, known only
//! to the editor, is the line that is still being edited. In canonical mode only whole lines are published,
//! so a reader need only test whether there is any input. A place is a byte and two marks: the line ends
//! here; the place has no byte (a typed end of file).
//!
//! The editor moves `head` after it has written the places, the reader whose turn it is moves `tail` after it
//! has read them (figure 1 of Massalin and Pu 1989). Flushing and a change of mode take the readers' turn.
//! Each end has a list of threads that wait for the other end; generated code checks it after it has moved
//! its position. One reader may sleep straight out of its routine, as at a pipe (`kit::sleeper`).
//!
//! Source: dissertation, table 4.2 ("read a processed character from the edit buffer").
//!
//! *Unsafe*: routines pass the buffer that they were made for.

use crate::kit::sleeper::{Sleep, Sleeper};
use core::mem::offset_of;
use core::sync::atomic::{AtomicI32, AtomicU16, AtomicU32, Ordering};
use sync::WaitList;
use sync::monitor::RawMonitor;

/// Places, a power of two: one more than a full line with its end needs.
pub const PLACES: usize = 4096;

/// Mark of a place: the line ends here.
pub(crate) const ENDS: u16 = 1 << 8;
/// Mark of a place: no byte, only the end of a line.
pub(crate) const NO_BYTE: u16 = 1 << 9;

/// How a reader takes the input.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// At most one line (canonical mode).
    Line,
    /// Bytes, if there are at least so many or as many as were asked for; 0 is taken as 1.
    Bytes(u8),
}

/// The buffer. Editor's and readers' words lie on lines of their own.
#[repr(C, align(64))]
pub struct EditBuffer {
    /// Places ever published.
    pub(crate) head: AtomicU32,
    /// The process group that may read without further questions: the foreground group, 0 for none.
    pub(crate) group: AtomicI32,
    /// Behind the last byte of the line that is being edited; the editor's alone.
    pub(crate) edit: AtomicU32,
    /// Woken when there may be something for a reader.
    pub(crate) readable: WaitList,
    /// The reader that sleeps straight out of its routine.
    pub(crate) sleeper: Sleeper,
    pub(crate) reader: Reader,
    pub(crate) places: [AtomicU16; PLACES],
}

/// The readers' words.
#[repr(C, align(64))]
pub(crate) struct Reader {
    /// Places ever read.
    pub tail: AtomicU32,
    /// Serializes readers.
    pub turn: RawMonitor,
    /// Woken when there may be room for the editor.
    pub room: WaitList,
}

impl Default for EditBuffer {
    fn default() -> Self {
        Self::new()
    }
}

impl EditBuffer {
    /// An empty buffer.
    pub const fn new() -> EditBuffer {
        EditBuffer {
            head: AtomicU32::new(0),
            group: AtomicI32::new(0),
            edit: AtomicU32::new(0),
            readable: WaitList::new(),
            sleeper: Sleeper::new(Sleep(Self::sleep_for_input)),
            reader: Reader {
                tail: AtomicU32::new(0),
                turn: RawMonitor::new(),
                room: WaitList::new(),
            },
            places: [const { AtomicU16::new(0) }; PLACES],
        }
    }

    /// The foreground process group: a guard of the reading routine.
    pub fn group(&self) -> &AtomicI32 {
        &self.group
    }

    /// From here on no thread sleeps straight out of its routine: a description of the terminal does not
    /// wait.
    pub fn be_impatient(&self) {
        self.sleeper.set_patient(false);
    }

    /// A reading routine found nothing.
    extern "sysv64" fn sleep_for_input(sleeper: usize, me: usize) -> usize {
        let typed = (sleeper - offset_of!(EditBuffer, sleeper)) as *const EditBuffer;
        // SAFETY: routines pass the sleeper of the buffer that they were generated for, and until the thread
        // sleeps nothing can free it.
        let typed = unsafe { &*typed };
        typed.sleeper.claim(me, || match typed.is_empty() {
            true => Sleep::SUSPEND,
            false => Sleep::AGAIN,
        })
    }

    /// Wakes all readers that wait. The caller of the editor's publishing functions does so.
    pub fn wake_readers(&self) {
        self.sleeper.wake();
        self.readable.wake_all();
    }

    /// Woken when there may be input for a reader, by [`EditBuffer::wake_readers`].
    pub fn readable(&self) -> &WaitList {
        &self.readable
    }

    /// Woken when readers have taken something.
    pub fn room(&self) -> &WaitList {
        &self.reader.room
    }

    pub(super) fn edit(&self) -> u32 {
        self.edit.load(Ordering::Relaxed)
    }

    pub(super) fn set_edit(&self, position: u32) {
        self.edit.store(position, Ordering::Relaxed);
    }

    pub(super) fn place(&self, position: u32) -> &AtomicU16 {
        &self.places[position as usize % PLACES]
    }

    pub(super) fn head(&self) -> u32 {
        self.head.load(Ordering::Acquire)
    }

    pub(super) fn tail(&self) -> u32 {
        self.reader.tail.load(Ordering::Acquire)
    }

    /// Whether there is something for a reader.
    pub fn is_empty(&self) -> bool {
        self.head() == self.tail()
    }

    /// Bytes that readers may have.
    pub fn available(&self) -> usize {
        let (head, tail) = (self.head(), self.tail());
        (0..head.wrapping_sub(tail))
            .filter(|n| {
                let place = self.place(tail.wrapping_add(*n));
                place.load(Ordering::Relaxed) & NO_BYTE == 0
            })
            .count()
    }

    /// Does something while no reader is at the buffer.
    pub(super) fn alone<R>(&self, f: impl FnOnce() -> R) -> R {
        // Bound: at most the edit buffer’s 4096 places.
        self.reader.turn.lock();
        let result = f();
        self.reader.turn.unlock();
        result
    }

    /// Reference implementation of the reading routine, for a caller of the foreground group: moves what
    /// `mode` allows. None where the routine leaves by the slow exit: nothing or not enough there, nothing
    /// asked for, another reader at it.
    pub fn read(&self, mode: Mode, into: &mut [u8]) -> Option<usize> {
        if !self.reader.turn.try_lock() {
            return None;
        }
        let moved = self.take(mode, into);
        self.reader.turn.unlock();
        moved
    }

    /// The reader that has the turn takes what `mode` allows.
    pub(super) fn take(&self, mode: Mode, into: &mut [u8]) -> Option<usize> {
        let (head, mut tail) = (self.head(), self.tail());
        let there = head.wrapping_sub(tail) as usize;
        let least = match mode {
            Mode::Line => 1,
            Mode::Bytes(least) => usize::from(least.max(1)).min(into.len()),
        };
        if there < least || into.is_empty() {
            return None;
        }
        let mut moved = 0;
        loop {
            let place = self.place(tail).load(Ordering::Relaxed);
            tail = tail.wrapping_add(1);
            if place & NO_BYTE != 0 {
                break;
            }
            into[moved] = place as u8;
            moved += 1;
            if place & ENDS != 0 || tail == head {
                break;
            }
            if moved == into.len() {
                // A line that filled the buffer exactly, up to a typed end of file, must not give a second,
                // empty read.
                if self.place(tail).load(Ordering::Relaxed) & NO_BYTE != 0 {
                    tail = tail.wrapping_add(1);
                }
                break;
            }
        }
        self.reader.tail.store(tail, Ordering::Release);
        self.reader.room.wake_all();
        Some(moved)
    }
}
