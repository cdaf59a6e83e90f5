//! Bytes between a queue and a device without a copy, by a ring with one buffer in flight: part of the
//! Queue's own places.
//!
//! *Interface*: a [`ZeroCopyQueue`] is the constants of one direction. [`ZeroCopyQueue::emit`] is its part of
//! the interrupt handler: *complete*, which moves the queue's position by what the device has done, and
//! *submit*, which hands it the next stretch. [`starter`] is submit alone, to be linked to the queue's
//! callback, for when there was nothing to submit: `Q_empty+1` of an output, `Q_full-1` of an input.
//!
//! Nothing is copied: descriptors name the places of the queue. One buffer is in flight at most, so the ring
//! has one descriptor, its indices are one word each, and a stretch that is filled in part leaves no hole.
//! One token gives the right to submit. It is with the device while a buffer is in flight, passes to the
//! handler when the device is done, and is in the queue's word of the failed end when there was nothing to
//! do; a party that finds that word set and clears it has the token (figure 4.2's callbacks).
//!
//! Words of its own, in near memory: how many bytes are in flight, 0 for none; the number of the buffer; a
//! note that the device has claimed what cannot be. The number is written before the count of bytes, and the
//! ring's index after both, so a handler on another CPU that sees a count has the number that belongs to it,
//! and takes no older completion for this one's.
//!
//! Source: dissertation, section 3.3.3 and figure 4.2; Virtual I/O Device (VIRTIO) Version 1.2, section 2.7.
//!
//! *Unsafe*: safety contract of submit; a word in a near block.

use super::transport::Doorbell;
use super::virtqueue::{Virtqueue, VirtqueueWords, physical};
use crate::Unusable;
use alloc::sync::Arc;
use codegen::idioms::Reg;
use codegen::{Class, Draft, Label, Routine, dynasm};
use core::sync::atomic::{AtomicU32, Ordering};
use quaject::class::{Header, Ref};
use quaject::interfacer::{Callentry, Entry};
use quaject::near_memory::NearBlock;
use quaject::queue::{ByteQueue, Layout};
use quaject::regs::Regs;
use quaject::signature::Event;

static CLASS: Class = Class::new("virtio.submit");

/// Offsets of the words.
const NUMBER: i32 = 4;
const BROKEN: i32 = 8;
const WORDS: usize = 12;

/// Which way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum QueueDirection {
    /// From the device into the queue.
    In,
    /// From the queue to the device.
    Out,
}

/// One direction.
pub struct ZeroCopyQueue {
    way: QueueDirection,
    queue: Layout,
    /// Physical address of the queue's first place.
    places: i32,
    ring: VirtqueueWords,
    /// The notification of the ring, and its address.
    bell: Doorbell,
    announce: i32,
    /// The words.
    flight: i32,
    words: NearBlock,
}

impl ZeroCopyQueue {
    /// The flow between `queue` and `ring`, which the device has already and which `bell` announces.
    ///
    /// # Errors
    /// [`Unusable::Resources`].
    pub fn new(
        way: QueueDirection,
        queue: &Ref<ByteQueue>,
        ring: &Virtqueue,
        bell: Doorbell,
    ) -> Result<ZeroCopyQueue, Unusable> {
        let layout = queue.layout()?;
        let words = NearBlock::new(WORDS).ok_or(Unusable::Resources)?;
        let flight = super::virtqueue::near(words.at().as_ptr().expose_provenance())
            .ok_or(Unusable::Resources)?;
        let places = physical(layout.bytes as isize as usize);
        Ok(ZeroCopyQueue {
            way,
            queue: layout,
            places: i32::try_from(places).map_err(|_| Unusable::Resources)?,
            ring: ring.words().ok_or(Unusable::Resources)?,
            bell,
            announce: bell.address().ok_or(Unusable::Resources)?,
            flight,
            words,
        })
    }

    /// Whether the device has claimed to have written more than it was given.
    pub fn is_broken(&self) -> bool {
        // SAFETY: the block holds three words, zeroed, aligned.
        let word = unsafe {
            self.words
                .at()
                .add(BROKEN as usize)
                .cast::<AtomicU32>()
                .as_ref()
        };
        word.load(Ordering::Acquire) != 0
    }

    /// Its part of the handler. Changes rax, rcx, rdx.
    pub fn emit(&self, d: &mut Draft) {
        let nothing = d.label();
        let (q, ring, flight) = (self.queue, self.ring, self.flight);
        dynasm!(d ; .arch x64
            ; mov eax, [flight]
            ; test eax, eax
            ; jz =>nothing
            ; movzx ecx, WORD [flight + NUMBER]
            ; cmp cx, [ring.used]
            ; jne =>nothing
        );
        match self.way {
            QueueDirection::In => {
                let fits = d.label();
                dynasm!(d ; .arch x64
                    ; mov edx, [ring.records + 4]
                    ; cmp edx, eax
                    ; jbe =>fits
                    ; mov DWORD [flight + BROKEN], 1
                    ; jmp =>nothing
                    ; =>fits
                    ; mov DWORD [flight], 0
                    ; add [q.head], rdx
                );
            }
            QueueDirection::Out => {
                dynasm!(d ; .arch x64 ; mov DWORD [flight], 0 ; add [q.tail], rax)
            }
        }
        self.submit(d, nothing);
        dynasm!(d ; .arch x64 ; =>nothing);
    }

    /// With the token: hands the device what there is to do, or leaves the token in the queue. Goes to
    /// `done`, or falls through. Changes rax, rcx, rdx.
    fn submit(&self, d: &mut Draft, done: Label) {
        let (q, ring, flight) = (self.queue, self.ring, self.flight);
        let [again, idle] = core::array::from_fn(|_| d.label());
        dynasm!(d ; .arch x64 ; =>again);
        self.look(d, idle);
        // rcx = the position, eax = how many bytes there are: those before the ring's end.
        dynasm!(d ; .arch x64
            ; and ecx, q.size - 1
            ; mov edx, q.size
            ; sub edx, ecx
            ; cmp eax, edx
            ; cmova eax, edx
            ; add ecx, self.places
            ; mov [ring.descriptors], rcx
            ; mov [ring.descriptors + 8], eax
            ; movzx ecx, WORD [flight + NUMBER]
            ; inc ecx
            ; mov [flight + NUMBER], cx
            ; mov [flight], eax
            ; mov [ring.available], cx
        );
        self.bell.emit(d, self.announce);
        dynasm!(d ; .arch x64 ; jmp =>done ; =>idle);
        let failed = match self.way {
            QueueDirection::In => q.put_failed,
            QueueDirection::Out => q.get_failed,
        };
        // First the note that the other end looks at, then another look.
        dynasm!(d ; .arch x64 ; mov eax, 1 ; xchg [failed], rax);
        self.look(d, done);
        dynasm!(d ; .arch x64
            ; xor eax, eax
            ; xchg [failed], rax
            ; test eax, eax
            ; jnz =>again
        );
    }

    /// rcx = the position to go on at, eax = bytes there; to `idle` when they are not worth a buffer. An
    /// input waits for half of its queue to be free, so that a slow reader does not make the device fill
    /// single bytes.
    fn look(&self, d: &mut Draft, idle: Label) {
        let q = self.queue;
        match self.way {
            QueueDirection::In => dynasm!(d ; .arch x64
                ; mov rcx, [q.head]
                ; mov eax, q.size
                ; add rax, [q.tail]
                ; sub rax, rcx
                ; cmp eax, q.size / 2
                ; jb =>idle
            ),
            QueueDirection::Out => dynasm!(d ; .arch x64
                ; mov rcx, [q.tail]
                ; mov rax, [q.published]
                ; sub rax, rcx
                ; jz =>idle
            ),
        }
    }

    /// Emits a look at whether one who waits in the list whose head word lies at `waiters` may go on.
    pub fn look_for_waiters(&self, d: &mut Draft, waiters: usize, wake: Label) {
        let q = self.queue;
        let waiters = waiters as i32;
        match self.way {
            QueueDirection::In => dynasm!(d ; .arch x64 ; cmp QWORD [waiters], 0 ; jne =>wake),
            // Writers go on when the queue is half empty.
            QueueDirection::Out => {
                let nobody = d.label();
                dynasm!(d ; .arch x64
                    ; cmp QWORD [waiters], 0
                    ; je =>nobody
                    ; mov rax, [q.head]
                    ; sub rax, [q.tail]
                    ; cmp rax, q.size / 2
                    ; jbe =>wake
                    ; =>nobody
                );
            }
        }
    }
}

/// Only submit, for a party that has found the token in the queue. Keeps the flow.
pub struct Starter {
    owner: &'static Header,
    called: Routine<extern "sysv64" fn()>,
}

/// The callentry of `flow`, which belongs to the quaject `owner`.
///
/// # Errors
/// [`Unusable::Resources`].
pub fn starter(
    flow: &Arc<ZeroCopyQueue>,
    owner: &'static Header,
) -> Result<Arc<Starter>, Unusable> {
    let name = match flow.way {
        QueueDirection::In => "in",
        QueueDirection::Out => "out",
    };
    let mut draft = Draft::new(&CLASS, name);
    let done = draft.label();
    flow.submit(&mut draft, done);
    let d = &mut draft;
    dynasm!(d ; .arch x64 ; =>done ; ret);
    // SAFETY: it writes the words of a ring and a queue whose token its caller has, keeps them, and changes
    // what a System V function may.
    let called = unsafe { Routine::from(draft.seal()?) }.keeping(flow.clone());
    Ok(Arc::new(Starter { owner, called }))
}

impl Starter {
    /// Submits, for the initial holder of the token.
    pub fn start(&self) {
        self.called.function()();
    }

    /// The callentry.
    pub fn entry(self: &Arc<Self>) -> Entry<Event> {
        // SAFETY: what it changes it says, and it keeps what it names.
        unsafe { Entry::new(self.clone()) }
    }
}

impl Callentry for Starter {
    fn name(&self) -> &'static &'static str {
        &"submit"
    }
    fn owner(&self) -> Option<&'static Header> {
        Some(self.owner)
    }
    fn changes(&self) -> Regs {
        Regs::of(&[Reg::Rax, Reg::Rcx, Reg::Rdx])
    }
    fn changes_when_called(&self) -> Regs {
        self.changes()
    }
    fn entry(&self) -> usize {
        self.called.entry()
    }
}

#[cfg(test)]
mod tests;
