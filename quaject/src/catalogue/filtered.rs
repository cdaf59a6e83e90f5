//! A descriptor routine whose bytes pass filters: the routine, and behind it a stream's filters, in line.
//!
//! *Interface*: [`Filtered`] is the recipe of a [`Composed`](crate::composed::Composed) routine for one CPU.
//! The interfacer makes it anew when a filter is inserted or removed. Without a filter on this way the
//! routine is the file's own.
//!
//! The file's routine moves the bytes; then they pass where they have come to: in the program's memory, or in
//! a pipe's ring. Until the routine returns nobody else runs, so nobody sees them before, and the memory that
//! has just been written cannot go away. A call that the file's routine leaves has had no byte pass. With
//! several CPUs none of this holds, and calls are made plainly.
//!
//! Guards, each to the slow exit: another identity than the one that the filters act for; bytes of another
//! call are passing; more bytes are asked for than may pass with interrupts off. The routine itself is the
//! slow exit when a filter is too large to stand in line, calls a compiled function, or may have a call wait.
//!
//! Source: dissertation, sections 3.2.2 (collapsing layers) and 4.1.4.
//!
//! *Unsafe*: promise of the routine.

use crate::catalogue::composed::Recipe;
use crate::catalogue::filter::rate::Rate;
use crate::catalogue::pipe::PipeCore;
use crate::catalogue::stream::{Course, Stream};
use crate::kit::assembly::{Assembly, Made, Ring};
use crate::kit::class::{Holder, Kind, Ref};
use crate::kit::emit;
use crate::kit::named::along;
use crate::kit::regs::Regs;
use crate::kit::seam::{Conv, DescFn, Seam, Unmade};
use alloc::sync::Arc;
use codegen::harden::clamp;
use codegen::methods::Reg;
use codegen::{Class, Draft, Hole, Routine, dynasm};

/// The most bytes that pass with interrupts off.
pub const MOST: usize = 256;

static CLASS: Class = Class::new("filtered");

/// Where the bytes are when the file's routine has moved them.
#[derive(Clone, Copy, Debug)]
pub enum Landed {
    /// In the program's memory.
    There,
    /// In a ring, before its head.
    In(Ring),
}

impl Landed {
    /// In the ring of `pipe`, which holds no messages.
    ///
    /// # Errors
    /// [`Unmade`].
    pub fn in_pipe(pipe: &PipeCore) -> Result<Landed, Unmade> {
        pipe.ring().map(Landed::In)
    }
}

/// How the routine is made.
pub struct Filtered {
    /// The stream with the filters.
    pub stream: Ref<Stream>,
    /// The way of the bytes.
    pub course: Course,
    /// The file's routine.
    pub inner: Routine<DescFn>,
    /// Where it leaves them.
    pub landed: Landed,
    /// Emits: rax = the identity of the caller, as [`Stream::act_for`] has it. Changes rax and flags alone.
    pub identity: fn(&mut Draft),
    /// The seam that `inner` was made against.
    pub seam: &'static Seam,
}

impl Recipe for Filtered {
    fn make(&self, holder: Holder) -> Result<Made<DescFn>, Unmade> {
        let mut a = Assembly::new(&CLASS, self.course.name(), Some(holder.clone()));
        let mut waits = false;
        along(self.stream.header(), self.course.port(), |filter| {
            waits |= Ref::<Rate>::known(filter).is_some();
        });
        if waits || !self.emit(&mut a) {
            a = Assembly::new(&CLASS, self.course.name(), Some(holder));
            self.depend(&mut a);
            self.leave(&mut a);
        }
        let kept = (self.inner.clone(), self.stream.clone());
        // SAFETY: it calls a descriptor routine or leaves as one does, and changes rax alone besides; it
        // keeps that routine and the stream whose words it names. The bytes that it changes are those that
        // the routine has moved.
        unsafe { a.seal(Some(Arc::new(kept))) }
    }
}

impl Filtered {
    fn leave(&self, d: &mut Draft) {
        let number = match self.course {
            Course::Incoming => abi::nr::READ,
            Course::Outgoing => abi::nr::WRITE,
        };
        emit::leave_slowly(d, number, Hole::value(self.seam.slow() as i64));
    }

    /// Has the routine made anew when a link in the chain changes.
    fn depend(&self, a: &mut Assembly) {
        let (stream, port) = (self.stream.header(), self.course.port());
        let _link = a.consult(stream, port);
        along(stream, port, |filter| {
            let ports = filter.class().ports.iter().enumerate();
            for (port, _) in ports.filter(|(_, element)| element.kind == Kind::Callout) {
                let _link = a.consult(filter, port);
            }
        });
    }

    /// Emits the routine. Returns whether all that is linked stands in it.
    fn emit(&self, a: &mut Assembly) -> bool {
        let Some(link) = a.consult(self.stream.header(), self.course.port()) else {
            a.jmp_abs(self.inner.entry());
            return true;
        };
        let [leave, next, over, nothing] = core::array::from_fn(|_| a.label());
        let [acts_for, turn] = self.stream.guards(self.course);
        (self.identity)(a);
        dynasm!(a ; .arch x64
            ; push rcx
            ; mov rcx, QWORD acts_for as i64
            ; cmp rax, [rcx]
            ; mov rcx, QWORD turn as i64
            ; mov eax, [rcx]
            ; pop rcx
            ; jne =>leave
            ; test eax, eax
            ; jnz =>leave
            ; cmp rdx, MOST as i32
            ; ja =>leave
        );
        a.call_abs(self.inner.entry());
        dynasm!(a ; .arch x64
            ; test rax, rax
            ; jle =>nothing
            ; push rax
            ; push rcx
            ; push rdx
            ; push rsi
            ; push rdi
            ; push r8
            ; push r9
            ; push r10
            ; push r11
            ; push rbx
            ; push r12
        );
        let guarded = self.seam.conv() == Conv::Kernel;
        let live = Regs::of(&[Reg::Rbx, Reg::R12]);
        // rbx = where the next byte is, r12 = behind the last.
        match self.landed {
            Landed::There => {
                dynasm!(a ; .arch x64 ; mov rbx, rsi);
                clamp(a, Reg::Rbx);
                dynasm!(a ; .arch x64 ; lea r12, [rbx + rax]);
                emit::open_user(a, guarded);
                dynasm!(a ; .arch x64 ; =>next);
                a.fault_begin();
                dynasm!(a ; .arch x64 ; movzx edi, BYTE [rbx]);
                a.fault_end(over);
                dynasm!(a ; .arch x64 ; mov esi, edi);
                a.place(link, live, None, &[]);
                a.fault_begin();
                dynasm!(a ; .arch x64 ; mov [rbx], al);
                a.fault_end(over);
            }
            Landed::In(ring) => {
                dynasm!(a ; .arch x64
                    ; mov r12, [ring.head]
                    ; mov rbx, r12
                    ; sub rbx, rax
                    ; =>next
                    ; mov eax, ebx
                    ; and eax, ring.size - 1
                    ; movzx edi, BYTE [rax + ring.bytes]
                    ; mov esi, edi
                );
                a.place(link, live, None, &[]);
                dynasm!(a ; .arch x64
                    ; mov ecx, ebx
                    ; and ecx, ring.size - 1
                    ; mov [rcx + ring.bytes], al
                );
            }
        }
        dynasm!(a ; .arch x64
            ; inc rbx
            ; cmp rbx, r12
            ; jne =>next
            ; =>over
        );
        if matches!(self.landed, Landed::There) {
            emit::close_user(a, guarded);
        }
        dynasm!(a ; .arch x64
            ; pop r12
            ; pop rbx
            ; pop r11
            ; pop r10
            ; pop r9
            ; pop r8
            ; pop rdi
            ; pop rsi
            ; pop rdx
            ; pop rcx
            ; pop rax
            ; =>nothing
            ; ret
            ; =>leave
        );
        self.leave(a);
        a.is_in_line()
    }
}
