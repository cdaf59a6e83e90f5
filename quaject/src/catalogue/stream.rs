//! Stream: what the bytes of an open file pass on their way in and out.
//!
//! *Interface*: callouts `incoming` and `outgoing`, of signature `Pass`: to them filters are linked, one
//! behind the other ([`crate::filter`], [`crate::by_name::insert`]). [`Stream::run`] has a string of bytes
//! pass in place, by a loop that is generated with all filters in it, or with calls where they are too large
//! or too many. The bytes of one way pass one at a time.
//!
//! Source: dissertation, sections 3.2.2 (collapsing layers) and 4.1.4.
//!
//! *Unsafe*: safety contract of the loop; the word in a near block.

use crate::kit::assembly::{Assembly, Made, Published};
use crate::kit::class::{Header, Holder};
use crate::kit::near_memory::NearBlock;
use crate::kit::regs::Regs;
use crate::kit::routine_env::{RoutineError, near};
use crate::kit::signature::Pass;
use codegen::idioms::Reg;
use codegen::{Class, Routine, dynasm};
use core::sync::atomic::{AtomicUsize, Ordering};
use sync::Monitor;
use sync::monitor::RawMonitor;

/// The contract of the loop: so many bytes from there on are replaced by those that have passed.
type RunFn = extern "sysv64" fn(bytes: *mut u8, count: usize);

/// Which way bytes go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// Out of the file, to who reads.
    Incoming,
    /// Into the file, from who writes.
    Outgoing,
}

impl Direction {
    /// The callout's number.
    pub const fn port(self) -> usize {
        match self {
            Direction::Incoming => INCOMING.number(),
            Direction::Outgoing => OUTGOING.number(),
        }
    }

    /// The callout's name.
    pub fn name(self) -> &'static str {
        CLASS.ports[self.port()].name
    }
}

/// Held while bytes pass.
struct Passing;

/// One stream.
pub struct Stream {
    header: &'static Header,
    loops: [Published<RunFn>; 2],
    turns: [Monitor<Passing>; 2],
    /// A word: the identity for which routines may have the filters act, 0 for none.
    acts_for: NearBlock,
}

crate::quaject! {
    /// Has the bytes of an open file pass filters
    class Stream = "Stream", spec (), error RoutineError {
        callout {
            INCOMING: Pass = "incoming" ("bytes pass as they are"),
            OUTGOING: Pass = "outgoing" ("bytes pass as they are"),
        }
    }
    make |(), header| {
        let made = |course| generate(header, course).map(Published::new);
        Ok::<_, RoutineError>(Stream {
            header,
            loops: [made(Direction::Incoming)?, made(Direction::Outgoing)?],
            turns: [const { Monitor::new(Passing) }; 2],
            acts_for: NearBlock::new(size_of::<AtomicUsize>()).ok_or(RoutineError::OutOfMemory)?,
        })
    };
    remake Stream::remake;
}

const _: () = assert!(INCOMING.number() == 0 && OUTGOING.number() == 1);

static CODE: Class = Class::new("stream");

impl Stream {
    fn remake(&self, port: usize) -> Result<(), RoutineError> {
        let course = match port {
            0 => Direction::Incoming,
            _ => Direction::Outgoing,
        };
        self.loops[course.port()].publish(generate(self.header, course)?);
        Ok(())
    }

    /// Replaces `bytes` by what they are when they have passed.
    pub fn run(&self, course: Direction, bytes: &mut [u8]) {
        // Bound: at most 256 bytes pass at most 16 filters.
        let _turn = self.turns[course.port()].lock();
        self.loops[course.port()].call(|run| run(bytes.as_mut_ptr(), bytes.len()));
    }

    /// Routines may have the filters act for calls of `identity`, an address that stays its own until another
    /// is given; 0: for none.
    pub fn act_for(&self, identity: usize) {
        // SAFETY: the block holds the word, zeroed at first and aligned.
        let word = unsafe { self.acts_for.at().cast::<AtomicUsize>().as_ref() };
        word.store(identity, Ordering::SeqCst);
    }

    /// For generated code: the address of the word with the identity of [`Stream::act_for`].
    pub(crate) fn acts_for(&self) -> Result<i32, RoutineError> {
        Ok(near(self.acts_for.at().as_ptr())? as i32)
    }

    /// The monitor that is held while bytes pass this way; routines may take it by its word.
    pub(crate) fn turn(&self, course: Direction) -> &RawMonitor {
        self.turns[course.port()].raw()
    }

    /// The generated loop, to look at.
    pub fn routine(&self, course: Direction) -> Routine<RunFn> {
        self.loops[course.port()].plugged()
    }
}

// A draft is large: one is on a frame at a time.
#[inline(never)]
fn generate(header: &'static Header, course: Direction) -> Result<Made<RunFn>, RoutineError> {
    let mut a = Assembly::new(&CODE, course.name(), Some(Holder::Member(header)));
    if let Some(link) = a.use_link(header, course.port()) {
        let [next, done] = core::array::from_fn(|_| a.label());
        // rbx = the next byte, r12 = behind the last: registers that no callentry changes.
        dynasm!(a ; .arch x64
            ; push rbx
            ; push r12
            ; mov rbx, rdi
            ; lea r12, [rdi + rsi]
            ; =>next
            ; cmp rbx, r12
            ; jae =>done
            ; movzx edi, BYTE [rbx]
            ; mov esi, edi
        );
        a.place(link, Regs::of(&[Reg::Rbx, Reg::R12]), None, &[]);
        dynasm!(a ; .arch x64
            ; mov [rbx], al
            ; inc rbx
            ; jmp =>next
            ; =>done
            ; pop r12
            ; pop rbx
        );
    }
    dynasm!(a ; .arch x64 ; ret);
    // SAFETY: it keeps the System V convention, and changes the bytes that it is given.
    unsafe { a.seal(None) }
}
