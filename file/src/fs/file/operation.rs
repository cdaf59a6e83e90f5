//! Operations of a description beyond `read`, `write` and `lseek` that have routines of their own.
//!
//! *Interface*: an [`Operation`] is one, a callentry of a quaject that is open as a file among them;
//! [`OpenFile::used_plainly`] is told of each call that ordinary Rust made; [`emit`] and [`emit_callentry`]
//! are the way from a description to its routine, for generated code.
//!
//! The first such call of a description is made plainly, and so is the second, which has the routine
//! generated: a description that is read at positions twice is most often read so again. Generated code stays
//! as long as the description. A description without any pays one word.
//!
//! There is a set of entries for descriptions that one thread reaches alone, and one for the others; which
//! one holds is looked up at each call, so that nothing need be plugged when that changes.
//!
//! Source: dissertation, sections 4.1.2 (code is made for what is used) and 4.2 (procedures by index and
//! operation).
//!
//! *Unsafe*: a box that goes with the description.

use abi::errno::Result;
use abi::nr;
use alloc::boxed::Box;
use alloc::vec::Vec;
use codegen::harden::hardening;
use codegen::{Draft, Label, dynasm};
use core::mem::offset_of;
use core::ptr;
use core::sync::atomic::{AtomicPtr, AtomicU16, AtomicUsize, Ordering};
use sync::Monitor;
use vm::fallible::{try_box, try_push};

use super::routines::Variant;
use super::{ALONE, DescRoutine, OpenFile, Sharing, own};
use crate::routine_env;

/// One operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operation {
    /// `pread64`.
    ReadAt,
    /// `pwrite64`.
    WriteAt,
    /// `readv` of one segment.
    ReadSegment,
    /// `writev` of one segment.
    WriteSegment,
    /// `recvfrom` without flags.
    Receive,
    /// `sendto` with no flags but those that matter to who waits or is told.
    Send,
    /// Callentry 0 of a quaject, whose argument is in r10.
    Own0,
    /// Callentry 1.
    Own1,
    /// Callentry 2.
    Own2,
    /// Callentry 3.
    Own3,
}

impl Operation {
    /// All of them, in the order of their places.
    pub const ALL: [Operation; 10] = [
        Operation::ReadAt,
        Operation::WriteAt,
        Operation::ReadSegment,
        Operation::WriteSegment,
        Operation::Receive,
        Operation::Send,
        Operation::Own0,
        Operation::Own1,
        Operation::Own2,
        Operation::Own3,
    ];

    /// Those that are callentries, by number.
    pub const OWN: [Operation; 4] = [
        Operation::Own0,
        Operation::Own1,
        Operation::Own2,
        Operation::Own3,
    ];

    /// The number of the callentry.
    pub const fn callentry(self) -> Option<usize> {
        (self as usize).checked_sub(Operation::Own0 as usize)
    }

    /// The call that it answers.
    pub const fn call(self) -> &'static str {
        match self {
            Operation::ReadAt => "pread64",
            Operation::WriteAt => "pwrite64",
            Operation::ReadSegment => "readv",
            Operation::WriteSegment => "writev",
            Operation::Receive => "recvfrom",
            Operation::Send => "sendto",
            Operation::Own0 => "callentry 0",
            Operation::Own1 => "callentry 1",
            Operation::Own2 => "callentry 2",
            Operation::Own3 => "callentry 3",
        }
    }

    /// Whether bytes go into the file.
    pub const fn writes(self) -> bool {
        matches!(
            self,
            Operation::WriteAt | Operation::WriteSegment | Operation::Send
        )
    }

    /// Its bit in [`Operations::used`].
    const fn bit(self) -> u16 {
        1 << self as u16
    }
}

/// Entries by operation; 0 leaves the call to ordinary Rust.
type Entries = [AtomicUsize; Operation::ALL.len()];

/// One routine, and what it assumes.
struct Known {
    operation: Operation,
    sharing: Sharing,
    variant: Variant,
    routine: DescRoutine,
}

/// The generated code.
#[repr(C)]
struct Table {
    /// For one thread, and for several.
    entries: [Entries; 2],
    known: Monitor<Vec<Known>>,
}

/// The part of a description.
#[derive(Default)]
pub(super) struct Operations {
    table: AtomicPtr<Table>,
    /// Operations that were used once, a bit each.
    used: AtomicU16,
    /// Operations that have no routine as things stand, a bit each.
    without: AtomicU16,
}

impl Operations {
    fn table(&self) -> Option<&Table> {
        // SAFETY: null, or of a box that goes with this.
        unsafe { self.table.load(Ordering::Acquire).as_ref() }
    }

    /// The table, made if there is none. ENOMEM.
    fn made(&self) -> Result<&Table> {
        if let Some(table) = self.table() {
            return Ok(table);
        }
        let new = Box::into_raw(try_box(Table {
            entries: Default::default(),
            known: Monitor::new(Vec::new()),
        })?);
        let (set, fetch) = (Ordering::AcqRel, Ordering::Acquire);
        let there = self
            .table
            .compare_exchange(ptr::null_mut(), new, set, fetch);
        let table = match there {
            Ok(_) => new,
            Err(there) => {
                // SAFETY: made here, and nobody has seen it.
                drop(unsafe { Box::from_raw(new) });
                there
            }
        };
        // SAFETY: of a box that goes with this.
        Ok(unsafe { &*table })
    }

    /// Whether nothing was generated.
    pub fn is_empty(&self) -> bool {
        self.table().is_none()
    }

    /// No call finds a routine any more.
    pub fn forget(&self) {
        self.without.store(0, Ordering::SeqCst);
        if let Some(table) = self.table() {
            // A routine that is being made is published before this, or is made for what holds behind it.
            // Bound: making one routine at most (900 instructions); only users of the same description.
            let _turn = table.known.lock();
            let entries = table.entries.iter().flatten();
            entries.for_each(|entry| entry.store(0, Ordering::Release));
        }
    }
}

impl Drop for Operations {
    fn drop(&mut self) {
        let table = *self.table.get_mut();
        if !table.is_null() {
            // SAFETY: of a box; a description goes a grace period after the last descriptor that leads to it.
            drop(unsafe { Box::from_raw(table) });
        }
    }
}

fn set(sharing: Sharing) -> usize {
    match sharing {
        Sharing::Exclusive => 0,
        Sharing::Shared => 1,
    }
}

impl OpenFile {
    /// Ordinary Rust has made a call of `operation`, which may be made again: the second has the routine
    /// generated.
    #[inline]
    pub fn used_plainly(&self, operation: Operation) {
        let own = &self.operations;
        let bit = operation.bit();
        if own.without.load(Ordering::Relaxed) & bit != 0 {
            return;
        }
        if own.used.load(Ordering::Relaxed) & bit == 0 {
            own.used.fetch_or(bit, Ordering::Relaxed);
            return;
        }
        if self.operation_entry(operation).is_none() && self.make_operation(operation).is_none() {
            own.without.fetch_or(bit, Ordering::SeqCst);
        }
    }

    /// The entry of the routine that a call of `operation` would find now.
    pub fn operation_entry(&self, operation: Operation) -> Option<usize> {
        let entries = &self.operations.table()?.entries[set(self.sharing())];
        let entry = entries[operation as usize].load(Ordering::Acquire);
        (entry != 0).then_some(entry)
    }

    /// Has the routine of `operation` generated, or finds it again, for how the description is shared now.
    #[cold]
    fn make_operation(&self, operation: Operation) -> Option<()> {
        let allowed = if operation.writes() {
            self.writable()
        } else {
            self.readable()
        };
        if !allowed {
            return None;
        }
        let table = self.operations.made().ok()?;
        let mut known = table.known.lock();
        let (sharing, variant) = (self.sharing(), self.variant());
        if variant.probed || variant.tells || variant.filtered {
            return None;
        }
        let found = known.iter().find(|known| {
            (known.operation, known.sharing, known.variant) == (operation, sharing, variant)
        });
        let entry = match found {
            Some(found) => found.routine.entry(),
            None => {
                let routine = self.synthesize_operation(operation, sharing).ok()??;
                own(&routine);
                let entry = routine.entry();
                try_push(
                    &mut known,
                    Known {
                        operation,
                        sharing,
                        variant,
                        routine,
                    },
                )
                .ok()?;
                entry
            }
        };
        table.entries[set(sharing)][operation as usize].store(entry, Ordering::Release);
        Some(())
    }

    fn synthesize_operation(
        &self,
        operation: Operation,
        sharing: Sharing,
    ) -> Result<Option<DescRoutine>> {
        if let Some(number) = operation.callentry() {
            return self.file.synthesize_callentry(number);
        }
        let around = match operation {
            Operation::ReadAt | Operation::WriteAt => {
                return self.file.synthesize_at(self, operation.writes());
            }
            Operation::ReadSegment | Operation::WriteSegment => routine_env::segments()?,
            _ => routine_env::flagged()?,
        };
        let inner = self.file.synthesize_against(self, sharing, around.env())?;
        let (inner, number) = match operation.writes() {
            true => (inner.write, nr::WRITE),
            false => (inner.read, nr::READ),
        };
        let named = match operation {
            Operation::Receive | Operation::Send => {
                let writes = operation.writes();
                self.file.synthesize_named(self, sharing, around, writes)?
            }
            _ => None,
        };
        if inner.is_none() && named.is_none() {
            return Ok(None);
        }
        routine_env::made(around.routine_of(inner, named, number))
    }
}

const TABLE: i32 = (offset_of!(OpenFile, operations) + offset_of!(Operations, table)) as i32;

/// Emits the way from a description, whose address is in rax, to the routine of the callentry whose number is
/// in rdx, into rax; to `none` if there is none. Changes rcx.
pub fn emit_callentry(d: &mut Draft, none: Label) {
    let place = |set| set * size_of::<Entries>() + WORD * Operation::Own0 as usize;
    let [alone, others] = [place(0), place(1)].map(|place| place as i32);
    let shared = offset_of!(OpenFile, shared) as i32;
    dynasm!(d ; .arch x64 ; cmp rdx, Operation::OWN.len() as i32 ; jae =>none);
    if hardening().masks() {
        // Else a wrong number could lead speculation to another operation's routine.
        dynasm!(d ; .arch x64 ; sbb rcx, rcx ; and rdx, rcx);
    }
    dynasm!(d
        ; .arch x64
        ; mov rcx, [rax + TABLE]
        ; test rcx, rcx
        ; jz =>none
        ; cmp BYTE [rax + shared], 0
        ; mov rax, [rcx + rdx * 8 + alone]
        ; je >found
        ; mov rax, [rcx + rdx * 8 + others]
        ; found:
        ; test rax, rax
        ; jz =>none
    );
}

const WORD: usize = size_of::<AtomicUsize>();

/// Emits the way from a description, whose address is in rax, to the routine of `operation`, into rax; to
/// `none` if there is none.
pub fn emit(d: &mut Draft, operation: Operation, none: Label) {
    let shared = offset_of!(OpenFile, shared) as i32;
    let place = WORD * operation as usize;
    let [alone, others] = [0, 1].map(|set| (set * size_of::<Entries>() + place) as i32);
    const { assert!(offset_of!(Table, entries) == 0 && ALONE == 0 && WORD == 8) };
    let [of_others, found] = core::array::from_fn(|_| d.label());
    dynasm!(d
        ; .arch x64
        ; cmp BYTE [rax + shared], 0
        ; mov rax, [rax + TABLE]
        ; jne =>of_others
        ; test rax, rax
        ; jz =>none
        ; mov rax, [rax + alone]
        ; =>found
        ; test rax, rax
        ; jz =>none
    );
    let was_cold = d.turn(true);
    dynasm!(d
        ; .arch x64
        ; =>of_others
        ; test rax, rax
        ; jz =>none
        ; mov rax, [rax + others]
        ; jmp =>found
    );
    d.turn(was_cold);
}
