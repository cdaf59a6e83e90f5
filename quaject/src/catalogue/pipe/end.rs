//! The common parts of the four generators for a pipe's ends: sealing a routine, and the code that both ends
//! share.
//!
//! *Interface*: [`Kind`] makes a routine, from its template or anew; [`reading`] and [`writing`] are the
//! values of its holes. [`End`] is a generator's description of its end; it emits the copy, the code after
//! it, and the exits.

use super::ring::{Index, Ring};
use super::{Patience, PipeCore, offset};
use crate::kit::emit;
use crate::kit::guard::Flag;
use crate::kit::routine_env::{RoutineEnv, RoutineError, Sharing, near};
use crate::kit::variant::{VARIANTS, Variant};
use codegen::{Class, Draft, Hole, Label, Sealed, Template, dynasm};

/// One kind of routine.
pub(super) struct Kind<const N: usize> {
    pub class: &'static Class,
    /// The call that it answers.
    pub call: &'static str,
    /// The size of ring that the templates know.
    pub usual: usize,
    pub templates: [Template<N>; VARIANTS],
    pub generate: fn(&mut Draft, Variant, usize, &[Hole; N]),
}

impl<const N: usize> Kind<N> {
    /// The routine of an end of `core`, for `sharing`, with `values` in its holes.
    pub fn seal(
        &self,
        core: &PipeCore,
        env: &RoutineEnv,
        sharing: Sharing,
        values: [i64; N],
    ) -> Result<Sealed, RoutineError> {
        let variant = env.variant(sharing);
        Ok(if core.size == self.usual {
            self.templates[variant.index()].instantiate(self.call, 0, &values)?
        } else {
            let mut draft = Draft::new(self.class, self.call);
            (self.generate)(&mut draft, variant, core.size, &values.map(Hole::value));
            draft.seal()?
        })
    }
}

/// The values of a reading routine's holes.
pub(super) fn reading(
    core: &PipeCore,
    env: &RoutineEnv,
    patience: Patience,
) -> Result<[i64; 6], RoutineError> {
    Ok([
        near(core)?,
        near(core.buffer.as_ptr())?,
        env.slow() as i64,
        env.space_came.entry() as i64,
        env.wake_next.entry() as i64,
        match patience {
            Patience::Patient => env.wait_for_data(),
            Patience::Impatient => env.impatient_read.entry(),
        } as i64,
    ])
}

/// The values of a writing routine's holes.
pub(super) fn writing(core: &PipeCore, env: &RoutineEnv) -> Result<[i64; 5], RoutineError> {
    Ok([
        near(core)?,
        near(core.buffer.as_ptr())?,
        env.slow() as i64,
        env.data_came.entry() as i64,
        env.wake_next.entry() as i64,
    ])
}

/// A generator's description of its end.
pub(super) struct End {
    pub v: Variant,
    pub ring: Ring,
    /// Addresses of the two counters, of the end's guard and its flags, and of its monitor.
    pub head: i32,
    pub tail: i32,
    pub guard: i32,
    pub flags: i32,
    pub monitor: i32,
    core: i32,
    /// The pointer of the copy that walks through the ring.
    index: Index,
    /// Bytes of a message's length.
    header: i32,
    slow: Hole,
    /// Wakes the other end.
    came: Hole,
    wake_next: Hole,
    /// The slow exit: with an empty stack, and with the monitor taken and rcx on the stack.
    pub leave: Label,
    pub unlock: Label,
    /// The fix-up of the copy's faults, and the code that wakes waiting threads.
    pub fault: Label,
    pub wake: Label,
    /// The copy that goes round the ring's end, and what follows the copy.
    round: Label,
    copied: Label,
}

impl End {
    /// The reading end of a ring of `size` bytes whose holes are [`reading`]'s. Messages have a `header`.
    pub fn reading(d: &mut Draft, v: Variant, size: usize, header: i32, holes: &[Hole; 6]) -> End {
        let &[core, ring, slow, came, wake_next, _] = holes;
        let words = [
            offset::TAIL,
            offset::FOR_READER,
            offset::FOR_READER_FLAGS,
            offset::READING,
        ];
        let holes = [core, ring, slow, came, wake_next];
        Self::new(d, v, size, header, Index::Esi, words, holes)
    }

    /// The writing end of a ring of `size` bytes whose holes are [`writing`]'s. Messages have a `header`.
    pub fn writing(d: &mut Draft, v: Variant, size: usize, header: i32, holes: &[Hole; 5]) -> End {
        let words = [
            offset::HEAD,
            offset::FOR_WRITER,
            offset::FOR_WRITER_FLAGS,
            offset::WRITING,
        ];
        Self::new(d, v, size, header, Index::Edi, words, *holes)
    }

    fn new(
        d: &mut Draft,
        v: Variant,
        size: usize,
        header: i32,
        index: Index,
        words: [i32; 4],
        [core, ring, slow, came, wake_next]: [Hole; 5],
    ) -> End {
        if !v.takes_monitor() {
            d.spare(wake_next);
        }
        let core = core.imm32();
        let [counter, guard, flags, monitor] = words.map(|field| core + field);
        let [leave, unlock, fault, wake, round, copied] = core::array::from_fn(|_| d.label());
        End {
            v,
            ring: Ring {
                counter,
                bytes: ring.imm32(),
                size: size as i32,
            },
            head: core + offset::HEAD,
            tail: core + offset::TAIL,
            guard,
            flags,
            monitor,
            core,
            index,
            header,
            slow,
            came,
            wake_next,
            leave,
            unlock,
            fault,
            wake,
            round,
            copied,
        }
    }

    /// Address of a field of the core.
    pub fn field(&self, offset: i32) -> i32 {
        self.core + offset
    }

    /// Goes to `leave` when the monitor is to be seen free and is not.
    pub fn look(&self, d: &mut Draft) {
        emit::look(d, self.v, self.monitor, self.leave);
    }

    /// Takes the monitor, or leaves. rcx alone is on the stack.
    pub fn enter(&self, d: &mut Draft) {
        emit::enter(d, self.v, self.monitor, self.leave);
    }

    /// Gives the monitor back, and takes rcx off the stack.
    pub fn give(&self, d: &mut Draft) {
        emit::give(d, self.v, self.monitor, self.wake_next);
        dynasm!(d ; .arch x64 ; pop rcx);
    }

    /// Copies edx bytes between the user's memory and the ring, in one piece: registers are as `copy_edx` has
    /// them. When the flags say "above" they go round the ring's end, which is left to
    /// [`copy_round`](Self::copy_round).
    pub fn copy(&self, d: &mut Draft) {
        emit::open_user(d, self.v.guarded_user);
        dynasm!(d ; .arch x64 ; ja =>self.round);
        d.fault_begin();
        emit::copy_edx(d);
        d.fault_end(self.fault);
        dynasm!(d ; .arch x64 ; =>self.copied);
        emit::close_user(d, self.v.guarded_user);
    }

    /// The copy in two pieces; after it the copy's faults arrive, to which the caller adds what restores the
    /// registers.
    pub fn copy_round(&self, d: &mut Draft) {
        dynasm!(d ; .arch x64 ; =>self.round);
        d.fault_begin();
        self.ring.copy_round(d, self.index, self.header);
        d.fault_end(self.fault);
        dynasm!(d ; .arch x64 ; jmp =>self.copied ; =>self.fault);
        emit::close_user(d, self.v.guarded_user);
    }

    /// After a reading routine's publication: the registers and the monitor back, edx as the result, and
    /// threads that wait for space are woken.
    pub fn has_read(&self, d: &mut Draft) {
        let (flags, waited) = (self.flags, Flag::Waited.bit());
        dynasm!(d ; .arch x64 ; mov eax, edx ; pop rdi ; pop rsi ; pop rdx);
        self.give(d);
        // The guard's calm word is negative, so its flags are cleared bits.
        dynasm!(d ; .arch x64
            ; test BYTE [flags], waited
            ; jz =>self.wake
            ; ret
            ; =>self.wake
            ; push rax
        );
        self.tell(d);
    }

    /// After a writing routine's publication: the monitor back, edx as the result, and threads that wait for
    /// data are woken.
    pub fn has_written(&self, d: &mut Draft) {
        let (flags, waited) = (self.flags, Flag::Waited.bit());
        dynasm!(d ; .arch x64 ; mov eax, edx);
        self.give(d);
        dynasm!(d ; .arch x64
            ; test BYTE [flags], waited
            ; jnz =>self.wake
            ; ret
            ; =>self.wake
            ; push rdx
        );
        self.tell(d);
    }

    /// Wakes the other end and returns the value on the stack.
    fn tell(&self, d: &mut Draft) {
        dynasm!(d ; .arch x64
            ; mov rax, self.core
            ; call extern self.came
            ; pop rax
            ; ret
        );
    }

    /// The slow exit of call `number`, from `unlock` and from `leave`.
    pub fn ways_out(&self, d: &mut Draft, number: usize) {
        dynasm!(d ; .arch x64 ; =>self.unlock);
        self.give(d);
        dynasm!(d ; .arch x64 ; =>self.leave);
        emit::leave_slowly(d, number, self.slow);
    }

    /// A reading routine found nothing, with the monitor taken and rcx on the stack: waits.
    pub fn wait(&self, d: &mut Draft, nothing: Hole) {
        self.give(d);
        dynasm!(d ; .arch x64 ; mov rax, self.field(offset::SLEEPER));
        d.jmp_abs(nothing);
    }
}
