//! The pipe's queue of bytes, and the generators of the routines that read and write it.
//!
//! *Interface*: [`PipeCore`] is the data. [`synthesize_read`] and [`synthesize_write`] make the descriptor
//! routines of its two ends; [`PipeCore::read`] and [`PipeCore::write`] are their reference implementations.
//! The slow exit uses [`PipeCore::read_end`] and [`PipeCore::write_end`], and [`PipeCore::wait_for_data`] and
//! [`PipeCore::wait_for_space`] sleep.
//!
//! One reader and one writer need no lock between them: each moves its own counter, after the bytes (figure 1
//! of Massalin and Pu 1989, in today's memory order). Several readers, or several writers, exclude each other
//! by the monitor of their end. Routines check a [`Guard`] for all rare cases: a waiting peer, a closed end.
//!
//! Source: dissertation, sections 3.3.1 and 5.2.2; Massalin and Pu 1989, figure 1.
//!
//! *Unsafe*: the bytes of the ring between the two counters; callbacks get the core's address.

mod end;
mod framing;
mod message;
mod read;
mod receive;
mod resize;
mod ring;
mod send;
mod write;

pub use framing::{HEADER, LONGEST, MESSAGES, footprint};
pub use message::{receiver, receiver_from, sender};
pub use read::synthesize_read;
pub use receive::{NAME, synthesize_receive, synthesize_receive_from};
pub use send::synthesize_send;
#[cfg(not(loom))]
pub(crate) use write::emit_passing;
pub use write::synthesize_write;

use crate::kit::guard::{Flag, Guard};
use crate::kit::routine_env::{DescFn, RoutineEnv, RoutineError, Sharing};
use crate::kit::sleeper::{Sleep, Sleeper};
use crate::primitive::{AtomicBool, AtomicU64, Ordering, in_order};
use alloc::alloc::{Layout, alloc, dealloc};
use alloc::boxed::Box;
use alloc::sync::Arc;
use codegen::Routine;
use core::ptr::NonNull;
use sync::monitor::RawMonitor;
use sync::{Interrupted, WaitList};

/// A routine's action when there is no data yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Patience {
    /// Sleeps, if the routine environment can wait and [`PipeCore::set_patient`] allows it.
    Patient,
    /// Leaves by the slow exit.
    Impatient,
}

/// The routine behind `read` for a pipe that it keeps alive. An exclusive one is plugged only where one
/// thread reaches the reading end: with more, bytes would be lost or doubled.
///
/// # Errors
/// [`RoutineError`]; the caller then leaves the slow stub in place.
pub fn reader(
    pipe: &Arc<PipeCore>,
    env: &RoutineEnv,
    sharing: Sharing,
    patience: Patience,
) -> Result<Routine<DescFn>, RoutineError> {
    // SAFETY: the image keeps the pipe whose words it names.
    Ok(unsafe { synthesize_read(pipe, env, sharing, patience)? }.keeping(pipe.clone()))
}

/// The routine behind `write` for a pipe; as [`reader`], for the writing end.
///
/// # Errors
/// [`RoutineError`].
pub fn writer(
    pipe: &Arc<PipeCore>,
    env: &RoutineEnv,
    sharing: Sharing,
) -> Result<Routine<DescFn>, RoutineError> {
    // SAFETY: the image keeps the pipe whose words it names.
    Ok(unsafe { synthesize_write(pipe, env, sharing)? }.keeping(pipe.clone()))
}

#[cfg(not(loom))]
mod quaject {
    use crate::kit::signature::Event;

    crate::quaject! {
        /// Implements pipes: a Queue with a string interface
        presence PipeQuaject = "Pipe" {
            callentry { READ = "read", WRITE = "write" }
            callback {
                FULL: Event = "full" ("leave by the slow exit"),
                SPACE_CAME: Event = "full-1" ("wake writers"),
                EMPTY: Event = "empty" ("leave by the slow exit"),
                DATA_CAME: Event = "empty+1" ("wake readers"),
            }
        }
    }
}

/// The usual size of a ring, in bytes.
pub const RING: usize = 64 * 1024;

/// Writes up to this many bytes are never mixed with another's (POSIX `PIPE_BUF`).
pub const ATOMIC: usize = 4096;

/// A pipe. The writers' words and the readers' words lie on lines of their own.
#[repr(C, align(64))]
pub struct PipeCore {
    /// Bytes ever written. Moved by the writing end.
    head: AtomicU64,
    /// The guard of writing routines: a waiting reader, no reader left. Calm at size - 1.
    for_writer: Guard,
    /// Excludes writers from each other.
    writing: RawMonitor,
    /// Bytes ever read. Moved by the reading end.
    tail: Line,
    /// Writers, and pollers for writing, that wait for space.
    writers: WaitList,
    /// Readers, and pollers for reading, that wait for data.
    readers: WaitList,
    /// The reader that sleeps straight out of its routine. Others wait in `readers`.
    sleeper: Sleeper,
    /// No writer is left: an empty pipe stays empty.
    ended: AtomicBool,
    buffer: NonNull<u8>,
    size: usize,
    lent: bool,
    /// The queue that this one has replaced: threads wait in its lists.
    home: Option<Arc<PipeCore>>,
    /// Another queue is in the place of this one.
    retired: AtomicBool,
    /// A word for the scheduler, which alone uses it.
    mark: core::sync::atomic::AtomicU64,
    #[cfg(not(loom))]
    tally: crate::kit::class::Tally,
}

/// The reading end's words.
#[repr(C, align(64))]
struct Line {
    tail: AtomicU64,
    /// The guard of reading routines: a waiting writer. Calm at -1.
    for_reader: Guard,
    /// Excludes readers from each other.
    reading: RawMonitor,
}

// SAFETY: the bytes of the ring are reached only between the two counters, by the end that owns that part,
// and one party at a time is at an end (the monitors, or the quasi-invariant of the exclusive routines).
unsafe impl Send for PipeCore {}
// SAFETY: as above.
unsafe impl Sync for PipeCore {}

impl PipeCore {
    /// A pipe with a ring of `size` bytes, a power of two from 4096 to 2^30; usually [`RING`]. None when the
    /// heap is exhausted or the size is not such.
    pub fn new(size: usize) -> Option<Box<PipeCore>> {
        if !Self::is_size(size) || codegen::fault_injection::refused() {
            return None;
        }
        let layout = Self::layout(size);
        // SAFETY: the size is not zero.
        let buffer = NonNull::new(unsafe { alloc(layout) })?;
        let place = Layout::new::<PipeCore>();
        // SAFETY: the size is not zero.
        let Some(core) = NonNull::new(unsafe { alloc(place) }.cast::<PipeCore>()) else {
            // SAFETY: allocated just above with this layout.
            unsafe { dealloc(buffer.as_ptr(), layout) };
            return None;
        };
        // SAFETY: fresh memory of the right layout from the global allocator, as a box owns it.
        unsafe {
            core.write(Self::over(buffer, size, false));
            Some(Box::from_raw(core.as_ptr()))
        }
    }

    /// A pipe over a ring that the caller lends.
    ///
    /// # Safety
    /// `buffer` has `size` bytes that no other code uses as long as the pipe lives.
    ///
    /// # Panics
    /// When `size` is not a power of two from 4096 to 2^30.
    pub unsafe fn lent(buffer: NonNull<u8>, size: usize) -> PipeCore {
        assert!(Self::is_size(size));
        Self::over(buffer, size, true)
    }

    fn is_size(size: usize) -> bool {
        size.is_power_of_two() && (4096..=1 << 30).contains(&size)
    }

    fn layout(size: usize) -> Layout {
        // A power of two of this range is always a valid layout.
        Layout::from_size_align(size, 64).unwrap_or(Layout::new::<u64>())
    }

    fn over(buffer: NonNull<u8>, size: usize, lent: bool) -> PipeCore {
        PipeCore {
            head: AtomicU64::new(0),
            for_writer: Guard::new(size as i64 - 1),
            writing: RawMonitor::new(),
            tail: Line {
                tail: AtomicU64::new(0),
                for_reader: Guard::new(-1),
                reading: RawMonitor::new(),
            },
            writers: WaitList::new(),
            readers: WaitList::new(),
            sleeper: Sleeper::new(Sleep(Self::sleep_for_data)),
            ended: AtomicBool::new(false),
            buffer,
            size,
            lent,
            home: None,
            retired: AtomicBool::new(false),
            mark: core::sync::atomic::AtomicU64::new(0),
            #[cfg(not(loom))]
            tally: quaject::CLASS.tally(),
        }
    }

    /// A word for the scheduler, which alone uses it: 0 at first.
    pub fn mark(&self) -> &core::sync::atomic::AtomicU64 {
        &self.mark
    }

    /// The pipe goes to an inactive list. Only the caller can reach it; routines for it may be kept.
    #[cfg(not(loom))]
    pub fn rest(&self) {
        self.tally.rest();
    }

    /// The pipe is used again: empty, both ends open. Only the caller can reach it.
    pub fn renew(&self) {
        #[cfg(not(loom))]
        self.tally.again();
        for count in [&self.head, &self.tail.tail] {
            count.store(0, Ordering::Relaxed);
        }
        self.for_writer.calm_down();
        self.tail.for_reader.calm_down();
        self.sleeper.renew();
        self.ended.store(false, Ordering::Relaxed);
        self.mark.store(0, core::sync::atomic::Ordering::Relaxed);
    }

    /// Size of the ring in bytes.
    pub fn size(&self) -> usize {
        self.size
    }

    /// Where its bytes lie, for generated code.
    ///
    /// # Errors
    /// [`RoutineError::OutOfReach`].
    #[cfg(not(loom))]
    pub(crate) fn ring(&self) -> Result<crate::kit::assembly::Ring, RoutineError> {
        let core = crate::kit::routine_env::near(self)? as i32;
        Ok(crate::kit::assembly::Ring {
            head: core + offset::HEAD,
            tail: core + offset::TAIL,
            bytes: crate::kit::routine_env::near(self.buffer.as_ptr())? as i32,
            size: self.size as i32,
        })
    }

    /// Bytes that can be read now.
    pub fn available(&self) -> usize {
        // In the total order of these accesses: a waiter raised the guard before this.
        let tail = self.tail.tail.load(Ordering::SeqCst);
        self.head.load(Ordering::SeqCst).wrapping_sub(tail) as usize
    }

    /// Bytes ever written and bytes ever read, for a [look](crate::kit::readiness): the words differ while
    /// there are some.
    pub fn counters(&self) -> (&AtomicU64, &AtomicU64) {
        (&self.head, &self.tail.tail)
    }

    /// Bytes that can be written now.
    pub fn free(&self) -> usize {
        self.size - self.available().min(self.size)
    }

    /// Says whether any reader is left. Without one every writing routine leaves by the slow exit.
    pub fn set_readers(&self, any: bool) {
        if any {
            self.for_writer.lower(Flag::Closed);
        } else {
            self.for_writer.raise(Flag::Closed);
        }
    }

    /// Says whether any writer is left. Without one a reading routine that finds nothing leaves by the slow
    /// exit.
    pub fn set_writers(&self, any: bool) {
        self.ended.store(!any, Ordering::SeqCst);
    }

    /// Whether no writer is left.
    pub fn is_ended(&self) -> bool {
        self.ended.load(Ordering::SeqCst)
    }

    /// Says whether readers want to wait (`O_NONBLOCK` is not set). Otherwise patient routines leave by the
    /// slow exit too.
    pub fn set_patient(&self, patient: bool) {
        self.sleeper.set_patient(patient);
    }

    /// A patient reading routine found nothing. Left to the slow exit when nothing will come or another
    /// reader has the place.
    extern "sysv64" fn sleep_for_data(sleeper: usize, me: usize) -> usize {
        // SAFETY: routines pass the sleeper of the core that they were generated for, and until the thread
        // sleeps nothing can free it.
        let pipe = unsafe { &*((sleeper - offset::SLEEPER as usize) as *const PipeCore) };
        pipe.sleeper.claim(me, || {
            pipe.for_writer.raise(Flag::Waited);
            match pipe.available() {
                0 if pipe.ended.load(Ordering::SeqCst) => Sleep::LEAVE,
                0 => Sleep::SUSPEND,
                _ => Sleep::AGAIN,
            }
        })
    }

    /// Wakes all threads that wait for data, for instance because the last writer closed.
    pub fn wake_readers(&self) {
        self.for_writer.lower(Flag::Waited);
        self.sleeper.wake();
        // A thread that enrols after this check raises the flag again, and finds the data published before
        // the flag was lowered.
        let readers = &self.home().readers;
        if readers.has_waiters() && readers.wake_all() {
            self.for_writer.raise(Flag::Waited);
        }
    }

    /// Wakes all threads that wait for space, for instance because the last reader closed.
    pub fn wake_writers(&self) {
        self.tail.for_reader.lower(Flag::Waited);
        if self.home().writers.wake_all() {
            self.tail.for_reader.raise(Flag::Waited);
        }
    }

    /// For a poller: calls `watch` with the list that is woken when there is data. Each time anew before
    /// looking at [`available`](Self::available).
    pub fn expect_data<'a>(&'a self, watch: impl FnOnce(&'a WaitList)) {
        watch(&self.home().readers);
        // After that: a waker that lowered the flag before has looked at the list before.
        self.for_writer.raise(Flag::Waited);
    }

    /// For a poller: calls `watch` with the list that is woken when there is space. Each time anew before
    /// looking at [`free`](Self::free).
    pub fn expect_space<'a>(&'a self, watch: impl FnOnce(&'a WaitList)) {
        watch(&self.home().writers);
        self.tail.for_reader.raise(Flag::Waited);
    }

    /// Sleeps until there is data, `ended` holds, or the queue is [retired](Self::is_retired).
    ///
    /// # Errors
    /// [`Interrupted`] when a signal came first.
    pub fn wait_for_data(&self, ended: impl Fn() -> bool) -> Result<(), Interrupted> {
        self.home().readers.wait_interruptible(|| {
            self.for_writer.raise(Flag::Waited);
            (self.available() > 0 || self.is_retired() || ended()).then_some(())
        })
    }

    /// Sleeps until there are `wanted` free bytes, `ended` holds, or the queue is
    /// [retired](Self::is_retired). `wanted` is at most the ring's size.
    ///
    /// # Errors
    /// [`Interrupted`] when a signal came first.
    pub fn wait_for_space(
        &self,
        wanted: usize,
        ended: impl Fn() -> bool,
    ) -> Result<(), Interrupted> {
        self.home().writers.wait_interruptible(|| {
            self.tail.for_reader.raise(Flag::Waited);
            (self.free() >= wanted || self.is_retired() || ended()).then_some(())
        })
    }

    /// The reading end, for ordinary Rust. Sleeps while another reader has it.
    pub fn read_end(&self) -> ReadEnd<'_> {
        // Bound: one pass over this pipe’s ring, 64 KiB unless `F_SETPIPE_SZ` made it another; a page fault
        // may sleep inside; `splice` to a socket or terminal waits inside until that has room, as on Linux,
        // and other readers of the pipe with it.
        self.tail.reading.lock();
        ReadEnd { pipe: self }
    }

    /// The writing end, for ordinary Rust. Sleeps while another writer has it.
    pub fn write_end(&self) -> WriteEnd<'_> {
        // Bound: one pass over this pipe’s ring, 64 KiB unless `F_SETPIPE_SZ` made it another; a page fault
        // may sleep inside, waiting for bytes does not happen inside.
        self.writing.lock();
        WriteEnd { pipe: self }
    }

    /// Reference implementation of the reading routine: moves the data that is there. None where the routine
    /// takes the slow exit.
    pub fn read(&self, sharing: Sharing, into: &mut [u8]) -> Option<usize> {
        if sharing == Sharing::Shared && !self.tail.reading.try_lock() {
            return None;
        }
        let mut end = ReadEnd { pipe: self };
        // Looked at once: more may come at any time.
        let available = end.available();
        let count = available.min(into.len());
        let [first, second] = end.pieces();
        let split = count.min(first.len());
        into[..split].copy_from_slice(&first[..split]);
        into[split..count].copy_from_slice(&second[..count - split]);
        end.consume(count);
        end.leave(sharing);
        (available > 0).then_some(count)
    }

    /// Reference implementation of the writing routine: all of `from` or nothing. None where the routine
    /// takes the slow exit.
    pub fn write(&self, sharing: Sharing, from: &[u8]) -> Option<usize> {
        if sharing == Sharing::Shared && !self.writing.try_lock() {
            return None;
        }
        let mut end = WriteEnd { pipe: self };
        // With the end, so that no other queue comes into the place of this one in between.
        let open = !self.for_writer.is_raised(Flag::Closed);
        let fits = open && from.len() <= end.free();
        if fits {
            end.put(from);
        }
        end.leave(sharing);
        fits.then_some(from.len())
    }

    /// Callback of the writing routine: data was published while a thread waited for it.
    pub(crate) extern "sysv64" fn data_came(core: usize) {
        // SAFETY: routines pass the address of the core that they were generated for, and it outlives them.
        unsafe { &*(core as *const PipeCore) }.wake_readers();
    }

    /// Callback of the reading routine: space was published while a thread waited for it.
    pub(crate) extern "sysv64" fn space_came(core: usize) {
        // SAFETY: as above.
        unsafe { &*(core as *const PipeCore) }.wake_writers();
    }

    /// A part of the ring, by counter and length.
    fn part(&self, from: u64, len: usize) -> [(NonNull<u8>, usize); 2] {
        let at = from as usize & (self.size - 1);
        let first = len.min(self.size - at);
        // SAFETY: `at` is inside the ring.
        [
            (unsafe { self.buffer.add(at) }, first),
            (self.buffer, len - first),
        ]
    }
}

impl Drop for PipeCore {
    fn drop(&mut self) {
        if !self.lent {
            // SAFETY: `new` allocated it with this layout, and the routines are gone (contract of
            // `synthesize_*`).
            unsafe { dealloc(self.buffer.as_ptr(), Self::layout(self.size)) };
        }
    }
}

/// The reading end, held exclusively.
pub struct ReadEnd<'a> {
    pipe: &'a PipeCore,
}

impl ReadEnd<'_> {
    /// Bytes that can be read; more may come at any time, none can go.
    pub fn available(&self) -> usize {
        self.pipe.available()
    }

    /// The bytes that can be read, in two pieces.
    pub fn pieces(&self) -> [&[u8]; 2] {
        let tail = self.pipe.tail.tail.load(Ordering::Relaxed);
        self.pipe.part(tail, self.available()).map(|(at, len)| {
            // SAFETY: published by the writer's counter, and not written again before `consume`, which needs
            // `&mut self`.
            unsafe { core::slice::from_raw_parts(at.as_ptr(), len) }
        })
    }

    /// Gives `count` bytes back to the writer, and wakes threads that wait for space.
    pub fn consume(&mut self, count: usize) {
        let line = &self.pipe.tail;
        line.tail.fetch_add(count as u64, Ordering::SeqCst);
        in_order();
        if line.for_reader.is_raised(Flag::Waited) {
            self.pipe.wake_writers();
        }
    }

    /// The end was taken as `sharing` says: give it back in that way.
    fn leave(self, sharing: Sharing) {
        if sharing == Sharing::Exclusive {
            core::mem::forget(self);
        }
    }
}

impl Drop for ReadEnd<'_> {
    fn drop(&mut self) {
        self.pipe.tail.reading.unlock();
    }
}

/// The writing end, held exclusively.
pub struct WriteEnd<'a> {
    pipe: &'a PipeCore,
}

impl WriteEnd<'_> {
    /// Bytes that can be written; more may become free at any time, none can go.
    pub fn free(&self) -> usize {
        self.pipe.free()
    }

    /// The free places, in two pieces: where to write, and how many bytes. They may be written until
    /// [`commit`](Self::commit).
    pub fn pieces(&mut self) -> [(NonNull<u8>, usize); 2] {
        let head = self.pipe.head.load(Ordering::Relaxed);
        self.pipe.part(head, self.free())
    }

    /// Hands the first `count` bytes of the [`pieces`](Self::pieces) to the reader, and wakes threads that
    /// wait for data.
    pub fn commit(&mut self, count: usize) {
        self.pipe.head.fetch_add(count as u64, Ordering::SeqCst);
        in_order();
        if self.pipe.for_writer.is_raised(Flag::Waited) {
            self.pipe.wake_readers();
        }
    }

    /// Has `put` write to the free places, piece by piece as long as it fills them, and hands the written
    /// bytes to the reader; `most` bytes at most. An error ends the copy and is returned only when nothing
    /// was written.
    ///
    /// # Errors
    /// The error of `put`.
    pub fn fill<E>(
        &mut self,
        most: usize,
        mut put: impl FnMut(&mut [u8]) -> Result<usize, E>,
    ) -> Result<usize, E> {
        let mut done = 0;
        let mut result = Ok(());
        for (at, len) in self.pieces() {
            let wanted = len.min(most - done);
            if wanted == 0 {
                break;
            }
            // SAFETY: free places of the ring, which only this end reaches until `commit`.
            let place = unsafe { core::slice::from_raw_parts_mut(at.as_ptr(), wanted) };
            match put(place) {
                Ok(count) => {
                    done += count.min(wanted);
                    if count < wanted {
                        break;
                    }
                }
                Err(error) => {
                    result = Err(error);
                    break;
                }
            }
        }
        if done == 0 {
            result?;
        } else {
            self.commit(done);
        }
        Ok(done)
    }

    /// Writes as much of `bytes` as fits and returns how many.
    pub fn put(&mut self, bytes: &[u8]) -> usize {
        let mut done = 0;
        for (at, len) in self.pieces() {
            let count = len.min(bytes.len() - done);
            // SAFETY: free places of the ring, which only this end writes.
            unsafe {
                core::ptr::copy_nonoverlapping(bytes[done..].as_ptr(), at.as_ptr(), count);
            }
            done += count;
        }
        self.commit(done);
        done
    }

    fn leave(self, sharing: Sharing) {
        if sharing == Sharing::Exclusive {
            core::mem::forget(self);
        }
    }
}

impl Drop for WriteEnd<'_> {
    fn drop(&mut self) {
        self.pipe.writing.unlock();
    }
}

/// Offsets in a [`PipeCore`] of the words that routines name.
pub(crate) mod offset {
    use super::{Line, PipeCore};
    use crate::kit::guard::FLAG_BYTE;
    use core::mem::offset_of;

    pub const HEAD: i32 = offset_of!(PipeCore, head) as i32;
    pub const FOR_WRITER: i32 = offset_of!(PipeCore, for_writer) as i32;
    pub const FOR_WRITER_FLAGS: i32 = FOR_WRITER + FLAG_BYTE;
    pub const WRITING: i32 = offset_of!(PipeCore, writing) as i32;
    pub const TAIL: i32 = (offset_of!(PipeCore, tail) + offset_of!(Line, tail)) as i32;
    pub const FOR_READER: i32 = (offset_of!(PipeCore, tail) + offset_of!(Line, for_reader)) as i32;
    pub const FOR_READER_FLAGS: i32 = FOR_READER + FLAG_BYTE;
    pub const ENDED: i32 = offset_of!(PipeCore, ended) as i32;
    pub const SLEEPER: i32 = offset_of!(PipeCore, sleeper) as i32;
    pub const READING: i32 = (offset_of!(PipeCore, tail) + offset_of!(Line, reading)) as i32;
}

#[cfg(all(test, not(loom)))]
mod filtered_tests;
#[cfg(all(test, not(loom)))]
mod message_tests;
#[cfg(all(test, not(loom)))]
mod rig;
#[cfg(all(test, not(loom)))]
mod tests;

#[cfg(all(test, loom))]
pub(crate) mod model;
#[cfg(all(test, loom))]
mod resize_model;
