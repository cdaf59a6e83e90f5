//! A descriptor routine whose bytes pass filters: a stream's filters, in line, with what moves the bytes.
//!
//! *Interface*: [`Filtered`] is the recipe of a [`Composed`](crate::composed::Composed) routine. The
//! interfacer makes it anew when a filter is inserted or removed. Without a filter on this way the routine is
//! the file's own. [`WayBack`] is the routine environment of the routines that move bytes for a `read` on
//! several CPUs.
//!
//! *`write`* to a pipe: the bytes pass in the ring, between their copy and the publication of the head, so no
//! reader sees them before, on whatever CPU it runs. Nothing can fail there any more: page faults are behind,
//! and no byte passes twice. The bytes of a description pass in the order in which they are written, since
//! all who write to the pipe, plainly too, hold its writing end until they have passed, or are one thread.
//!
//! *`read`*: the file's own routine moves the bytes; then they pass where they have come to, in the program's
//! memory. The order is kept by the stream's turn, which plain calls take for bytes that they have moved: so
//! it is had before the file's routine runs. On one CPU to see it free is to have it, since nobody else runs
//! until the routine returns. On several CPUs the routine takes the turn and gives it back as pipes' routines
//! do their monitors. A call that the file's routine leaves gives it back, too: that routine is generated
//! once more with another slow exit, which finds the turn's address on the stack. Where it waits for bytes,
//! the turn is given back before the thread sleeps. A thread that finds the turn taken sleeps until it is
//! given back; a routine that finds it taken leaves, while it holds nothing.
//!
//! On several CPUs the memory into which bytes came may change before they have passed: another thread takes
//! it away, protects it, or forks, and then it is still there, but a write faults. The file has given the
//! bytes away by then. So the call ends in Rust, which may wait for pages, has the others pass, and returns
//! the count of all ([`Filtered::late`]).
//!
//! Guards, each to the slow exit: another identity than the one that the filters act for; bytes of another
//! call are passing; none is asked for, or more than may pass with interrupts off. The routine itself is the
//! slow exit when a filter is too large to stand in line, calls a compiled function, or may have a call wait.
//!
//! A filter that comes or goes is another routine in the relay. A CPU that is in the former one finishes that
//! with the filters as they were, and has the turn, or the pipe's end, against the new one. The former keeps
//! all that it names until a grace period has passed.
//!
//! Source: dissertation, sections 3.2.2 (collapsing layers) and 4.1.4.
//!
//! *Unsafe*: safety contracts of the routines.

use crate::catalogue::composed::Recipe;
use crate::catalogue::filter::rate::Rate;
use crate::catalogue::pipe::{self, PipeCore};
use crate::catalogue::stream::{Direction, Stream};
use crate::kit::assembly::{Assembly, Link, Made};
use crate::kit::by_name::along;
use crate::kit::class::{Holder, Kind, Ref};
use crate::kit::emit;
use crate::kit::regs::Regs;
use crate::kit::routine_env::{DescFn, RoutineEnv, RoutineError, Sharing, UserAccess};
use abi::nr;
use alloc::sync::Arc;
use codegen::harden::clamp;
use codegen::idioms::Reg;
use codegen::{Class, Draft, Hole, Label, OutOfCode, Routine, dynasm};
use core::ops::Deref;
use sync::monitor::{CONTENDED, HELD};

/// The most bytes that pass with interrupts off.
pub const MOST: usize = 256;

static CLASS: Class = Class::new("filtered");

/// The mover of the bytes.
#[derive(Clone)]
pub enum Moves<P = Arc<PipeCore>> {
    /// A `read`, by this routine, which with several CPUs was generated against [`WayBack::env`].
    By(Routine<DescFn>),
    /// A `write` into this pipe, which holds no messages.
    Into(P, Sharing),
}

impl<P> Moves<P> {
    /// The way of the bytes.
    pub fn course(&self) -> Direction {
        match self {
            Moves::By(_) => Direction::Incoming,
            Moves::Into(..) => Direction::Outgoing,
        }
    }
}

/// How the routine is made.
pub struct Filtered<P = Arc<PipeCore>> {
    /// The stream with the filters.
    pub stream: Ref<Stream>,
    /// The file's routine, for bytes that pass nothing.
    pub own: Routine<DescFn>,
    /// Moves those that do.
    pub moves: Moves<P>,
    /// Emits: rax = the identity of the caller, as [`Stream::act_for`] has it. Changes rax and flags alone.
    pub identity: fn(&mut Draft),
    /// Emits the end of a `read` whose [`Late`] is in rax. All else is as at the routine's entry, at any
    /// depth of the stack. The routine keeps the stream.
    pub late: fn(&mut Draft, &Ref<Stream>),
    /// The routine environment of `own`.
    pub env: &'static RoutineEnv,
}

/// A `read` whose memory has changed before all its bytes had passed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Late {
    /// The bytes that it has moved.
    pub all: usize,
    /// How many of these, the last ones, are as they were.
    pub rest: usize,
    /// The first of these, if it has passed but could not be stored.
    pub passed: Option<u8>,
}

impl Late {
    /// From its word: `all` in 32 bits, `rest` in 16, the byte, and whether it is there.
    pub fn new(word: u64) -> Late {
        Late {
            all: word as u32 as usize,
            rest: usize::from((word >> 32) as u16),
            passed: (word >> 56 != 0).then_some((word >> 48) as u8),
        }
    }
}

/// The ways back from a routine that a filtered `read` on several CPUs has called, for all of these.
pub struct WayBack {
    env: RoutineEnv,
    _routines: [Routine<DescFn>; 2],
}

impl WayBack {
    /// For routines like those that are generated against `env`.
    ///
    /// # Errors
    /// [`OutOfCode`].
    pub fn new(env: &RoutineEnv) -> Result<WayBack, OutOfCode> {
        let way = |name, to: usize| {
            let mut draft = Draft::new(&CLASS, name);
            let d = &mut draft;
            // On the stack: where the file's routine would have returned to, and the turn's address.
            dynasm!(d ; .arch x64 ; lea rsp, [rsp + 8]);
            give_turn(d, env);
            d.jmp_abs(Hole::value(to as i64));
            // SAFETY: it is entered from routines that a filtered one has called, which has the turn, and
            // goes where these would go, with every register as it was.
            Ok(unsafe { Routine::<DescFn>::from(draft.seal()?) })
        };
        let back = way("way back", env.slow())?;
        let asleep = way("way to sleep", env.wait_for_data())?;
        Ok(WayBack {
            env: env.leaving_to(back.entry())?.waiting(asleep.entry()),
            _routines: [back, asleep],
        })
    }

    /// The routine environment that the called routines are generated against.
    pub fn env(&self) -> &RoutineEnv {
        &self.env
    }
}

/// Gives the turn back whose address is on the stack, and takes that off. Changes only flags.
fn give_turn(d: &mut Draft, env: &RoutineEnv) {
    dynasm!(d ; .arch x64
        ; push rcx
        ; push rax
        ; mov rcx, [rsp + 16]
        ; xor eax, eax
        ; xchg [rcx], eax
        ; test eax, CONTENDED as i32
        ; jz >given
        ; mov rax, rcx
    );
    d.call_abs(env.wake_next.entry());
    dynasm!(d ; .arch x64 ; given: ; pop rax ; pop rcx ; lea rsp, [rsp + 8]);
}

/// Kept by the routine.
struct Kept<P> {
    stream: Ref<Stream>,
    _own: Routine<DescFn>,
    _moves: Moves<P>,
}

/// A handle that keeps a pipe.
pub trait Keeps: Deref<Target = PipeCore> + Clone + Send + Sync + 'static {}

impl<P: Deref<Target = PipeCore> + Clone + Send + Sync + 'static> Keeps for P {}

impl<P: Keeps> Recipe for Filtered<P> {
    fn make(&self, holder: Holder) -> Result<Made<DescFn>, RoutineError> {
        let name = self.moves.course().name();
        let kept = Arc::new(Kept {
            stream: self.stream.clone(),
            _own: self.own.clone(),
            _moves: self.moves.clone(),
        });
        let mut a = Assembly::new(&CLASS, name, Some(holder.clone()));
        let mut waits = false;
        along(self.stream.header(), self.moves.course().port(), |filter| {
            waits |= Ref::<Rate>::known(filter).is_some();
        });
        if waits || !self.emit(&mut a, &kept.stream)? {
            a = Assembly::new(&CLASS, name, Some(holder));
            self.depend(&mut a);
            self.leave(&mut a);
        }
        // SAFETY: it calls a descriptor routine, is one or leaves as one does, and changes rax alone besides;
        // it keeps what moves the bytes and the stream, whose words it names. The bytes that it changes are
        // those that it has moved.
        unsafe { a.seal(Some(kept)) }
    }
}

impl<P: Keeps> Filtered<P> {
    fn leave(&self, d: &mut Draft) {
        let number = match self.moves {
            Moves::By(_) => nr::READ,
            Moves::Into(..) => nr::WRITE,
        };
        emit::leave_slowly(d, number, Hole::value(self.env.slow() as i64));
    }

    /// Has the routine made anew when a link in the chain changes.
    fn depend(&self, a: &mut Assembly) {
        let (stream, port) = (self.stream.header(), self.moves.course().port());
        let _link = a.use_link(stream, port);
        along(stream, port, |filter| {
            let ports = filter.class().ports.iter().enumerate();
            for (port, _) in ports.filter(|(_, element)| element.kind == Kind::Callout) {
                let _link = a.use_link(filter, port);
            }
        });
    }

    /// Goes to `leave` unless the caller has the identity that the filters act for, and at least one byte and
    /// no more than may pass is asked for. Changes rax.
    fn guard(&self, a: &mut Assembly, leave: Label) -> Result<(), RoutineError> {
        let acts_for = self.stream.acts_for()?;
        (self.identity)(a);
        dynasm!(a ; .arch x64
            ; cmp rax, [acts_for]
            ; jne =>leave
            ; lea rax, [rdx - 1]
            ; cmp rax, MOST as i32
            ; jae =>leave
        );
        Ok(())
    }

    /// Has the turn, or goes to `leave`. With several CPUs its address is on the stack then. Changes rax.
    fn take_turn(&self, a: &mut Assembly, leave: Label) {
        let turn = core::ptr::from_ref(self.stream.turn(self.moves.course()).word());
        dynasm!(a ; .arch x64 ; mov rax, QWORD turn.expose_provenance() as i64);
        if self.env.several_cpus() {
            let busy = a.label();
            dynasm!(a ; .arch x64
                ; push rax
                ; push rcx
                ; push rdx
                ; mov rcx, rax
                ; mov edx, HELD as i32
                ; xor eax, eax
                ; lock cmpxchg [rcx], edx
                ; pop rdx
                ; pop rcx
                ; jne =>busy
            );
            a.cold(|a| dynasm!(a ; .arch x64 ; =>busy ; lea rsp, [rsp + 8] ; jmp =>leave));
        } else {
            dynasm!(a ; .arch x64 ; cmp DWORD [rax], 0 ; jne =>leave);
        }
    }

    /// The bytes that a routine has moved, rax of them, pass from where rsi points. Changes only flags.
    fn pass_read(&self, a: &mut Assembly, link: Link, kept: &Ref<Stream>) {
        let [unloaded, unstored, nothing] = core::array::from_fn(|_| a.label());
        let guarded = self.env.conv() == UserAccess::Kernel;
        dynasm!(a ; .arch x64 ; test rax, rax ; jle =>nothing);
        IN_MEMORY.save(a);
        dynasm!(a ; .arch x64 ; mov rbx, rsi ; mov r12d, eax);
        clamp(a, Reg::Rbx);
        emit::open_user(a, guarded);
        pass(a, link, Some([unloaded, unstored]), |_, _| {});
        emit::close_user(a, guarded);
        IN_MEMORY.restore(a);
        a.bind(nothing);
        a.cold(|a| {
            let late = a.label();
            dynasm!(a ; .arch x64
                ; =>unstored
                ; mov [rsp + LATE], r12d
                ; mov [rsp + LATE + 2], al
                ; inc BYTE [rsp + LATE + 3]
                ; jmp =>late
                ; =>unloaded
                ; mov [rsp + LATE], r12d
                ; =>late
            );
            emit::close_user(a, guarded);
            IN_MEMORY.restore(a);
            if self.env.several_cpus() {
                give_turn(a, self.env);
            }
            (self.late)(a, kept);
        });
    }

    /// Emits the routine. Returns whether all that is linked stands in it.
    fn emit(&self, a: &mut Assembly, kept: &Ref<Stream>) -> Result<bool, RoutineError> {
        let course = self.moves.course();
        let Some(link) = a.use_link(self.stream.header(), course.port()) else {
            a.jmp_abs(self.own.entry());
            return Ok(true);
        };
        let leave = a.label();
        self.guard(a, leave)?;
        match &self.moves {
            Moves::By(routine) => {
                self.take_turn(a, leave);
                a.call_abs(routine.entry());
                self.pass_read(a, link, kept);
                if self.env.several_cpus() {
                    give_turn(a, self.env);
                }
                dynasm!(a ; .arch x64 ; ret ; =>leave);
                self.leave(a);
            }
            Moves::Into(pipe, sharing) => {
                let ring = pipe.ring()?;
                let end = ring
                    .bytes
                    .checked_add(ring.size)
                    .ok_or(RoutineError::OutOfReach)?;
                pipe::emit_passing(a, (pipe, *sharing), self.env, leave, |a| {
                    IN_RING.save(a);
                    if ring.size == 1 << 16 {
                        dynasm!(a ; .arch x64 ; movzx ebx, WORD [ring.head]);
                    } else {
                        dynasm!(a ; .arch x64 ; mov ebx, [ring.head] ; and ebx, ring.size - 1);
                    }
                    dynasm!(a ; .arch x64 ; mov r12d, edx ; add rbx, ring.bytes);
                    pass(a, link, None, |a, next| {
                        let around = a.label();
                        dynasm!(a ; .arch x64 ; cmp rbx, end ; je =>around);
                        a.cold(|a| {
                            dynasm!(a ; .arch x64 ; =>around ; mov rbx, ring.bytes ; jmp =>next);
                        });
                    });
                    IN_RING.restore(a);
                })?;
            }
        }
        Ok(a.is_in_line())
    }
}

/// Saved around the loop in a pipe's routine, which has saved others.
const IN_RING: Regs = Regs::of(&[
    Reg::Rdx,
    Reg::R8,
    Reg::R9,
    Reg::R10,
    Reg::R11,
    Reg::Rbx,
    Reg::R12,
]);

/// Saved around the loop in the program's memory.
const IN_MEMORY: Regs = Regs::of(&[Reg::Rbx, Reg::R12]).with(Regs::SYSV);

/// Where the upper half of rax lies among these: it was pushed first. There it becomes a [`Late`].
const LATE: i32 = 8 * (IN_MEMORY.len() as i32 - 1) + 4;

/// The loop's own.
const OWN: Regs = Regs::of(&[Reg::Rbx, Reg::R12]);

/// Has r12d bytes from where rbx points pass, one at least. `behind` is placed when rbx has gone on; its
/// label is where the loop goes on. Faults go to `faults`: at the load, and at the store of al. Changes what
/// a System V function may, rbx and r12.
fn pass(
    a: &mut Assembly,
    link: Link,
    faults: Option<[Label; 2]>,
    behind: impl FnOnce(&mut Assembly, Label),
) {
    let [next, on] = core::array::from_fn(|_| a.label());
    let may_fault = |a: &mut Assembly, which: usize, access: fn(&mut Assembly)| match faults {
        None => access(a),
        Some(faults) => {
            a.fault_begin();
            access(a);
            a.fault_end(faults[which]);
        }
    };
    a.bind(next);
    may_fault(a, 0, |a| dynasm!(a ; .arch x64 ; movzx edi, BYTE [rbx]));
    dynasm!(a ; .arch x64 ; mov esi, edi);
    a.place(link, OWN, None, &[]);
    may_fault(a, 1, |a| dynasm!(a ; .arch x64 ; mov [rbx], al));
    dynasm!(a ; .arch x64 ; inc rbx);
    behind(a, on);
    dynasm!(a ; .arch x64 ; =>on ; dec r12d ; jnz =>next);
}
