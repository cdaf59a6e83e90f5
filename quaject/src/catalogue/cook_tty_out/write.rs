//! The routine behind `write` to a terminal or a raw line: CookTTYout's processing, the put into the line's
//! output queue, and the start of its transmitter in one piece.
//!
//! *Interface*: [`TtyWriteRecipe`] is the recipe of a [`Composed`](crate::composed::Composed) routine: the
//! editor's `raw_write` is linked to the queue's `Q_put` for strings, whose code stands around the rule's;
//! [`write()`] is the reference implementation. The output flags are a constant of the code: whoever changes
//! the settings has the routine made anew. Flags that are not served here ([`Rule::of`]) leave the slow stub
//! in place. One routine serves every descriptor of the line.
//!
//! Guards, each to the slow exit: not room for all of it or more than two pages (on several CPUs one),
//! nothing to write, a kernel address, a fault. When the consumer has found the queue empty before,
//! `Q_empty+1` of the queue is called, or stands here in line (figure 4.2: "turn on send-complete"); where
//! the consumer is a pseudo-terminal's master, whoever waits there is woken.
//!
//! Source: dissertation, sections 3.2.1, 3.2.2 and 4.1.4.
//!
//! *Unsafe*: safety contract of the routine.

use super::{Quaject, RAW_WRITE};
use crate::catalogue::composed::Recipe;
use crate::catalogue::queue::{ByteQueue, Frame, KEPT, Wakes};
use crate::kit::assembly::{Assembly, Made, Mover, Ring};
use crate::kit::class::{Holder, Ref};
use crate::kit::emit;
use crate::kit::routine_env::{DescFn, RoutineEnv, RoutineError};
use crate::kit::variant::Variant;
use abi::linux::{OCRNL, OLCUC, ONLCR, ONOCR, OPOST, TABDLY, XTABS};
use alloc::sync::Arc;
use alloc::vec::Vec;
use codegen::harden::clamp;
use codegen::idioms::Reg;
use codegen::{Class, Draft, Label, dynasm};

static CLASS: Class = Class::new("tty write");

/// The effect of output flags on bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rule {
    /// Nothing.
    Plain,
    /// A carriage return goes before each newline.
    Newlines,
}

impl Rule {
    /// The rule of the output flags `oflag`; None for those that only [`CookTtyOut`](super::CookTtyOut)
    /// serves.
    pub fn of(oflag: u32) -> Option<Rule> {
        if oflag & OPOST == 0 {
            Some(Rule::Plain)
        } else if oflag & (OCRNL | OLCUC | ONOCR) != 0 || oflag & TABDLY == XTABS {
            None
        } else if oflag & ONLCR != 0 {
            Some(Rule::Newlines)
        } else {
            Some(Rule::Plain)
        }
    }

    /// How many bytes may become of one.
    fn growth(self) -> usize {
        match self {
            Rule::Plain => 1,
            Rule::Newlines => 2,
        }
    }
}

/// Reference implementation of the writing routine: all of `bytes` or nothing. None where the routine takes
/// the slow exit.
#[expect(
    clippy::disallowed_methods,
    reason = "twice the queue's length at most"
)]
pub fn write(queue: &ByteQueue, rule: Rule, bytes: &[u8]) -> Option<usize> {
    let fits = queue.is_claimed() || bytes.len() * rule.growth() <= queue.room();
    if bytes.is_empty() || !fits {
        return None;
    }
    let mut cooked = Vec::new();
    for byte in bytes {
        if rule == Rule::Newlines && *byte == b'\n' {
            cooked.push(b'\r');
        }
        cooked.push(*byte);
    }
    queue.write_whole(None, &cooked).then_some(bytes.len())
}

/// How the routine is made.
pub struct TtyWriteRecipe {
    /// The editor, whose `raw_write` is linked to a queue for many producers: any thread that has the
    /// descriptor writes, and so does the echo.
    pub from: Ref<Quaject>,
    /// The waiters at the queue's other end.
    pub wakes: Wakes,
    /// The treatment of the bytes.
    pub rule: Rule,
    /// The routine environment that routines are made against.
    pub env: &'static RoutineEnv,
}

impl Recipe for TtyWriteRecipe {
    fn version(&self) -> Option<u32> {
        Some(match self.rule {
            Rule::Plain => 0,
            Rule::Newlines => 1,
        })
    }

    fn make(&self, holder: Holder) -> Result<Made<DescFn>, RoutineError> {
        let arrived = match &self.wakes {
            Wakes::Nobody => None,
            Wakes::Channel(channel) => Some(&channel.arrived),
        };
        let name = match self.rule {
            Rule::Plain => "write",
            Rule::Newlines => "write, newlines",
        };
        let mut a = Assembly::new(&CLASS, name, Some(holder));
        let link = a.use_link(self.from.header(), RAW_WRITE.number());
        let link = link.ok_or(RoutineError::BadSpec)?;
        let frame = Frame::new(&mut a, self.env);
        dynasm!(a ; .arch x64
            ; test rsi, rsi
            ; js =>frame.leave
            ; test rdx, rdx
            ; jz =>frame.leave
            ; cmp rdx, emit::MOST
            ; ja =>frame.leave
            ; push rcx
        );
        clamp(&mut a, Reg::Rsi);
        let mover = IntoRing {
            v: frame.v,
            rule: self.rule,
        };
        if !a.place_around(link, KEPT, frame.undo, &mover) {
            return Err(RoutineError::BadSpec);
        }
        dynasm!(a ; .arch x64 ; mov eax, edx);
        if let Some(arrived) = arrived {
            frame.wake(&mut a, arrived, |_, _| {})?;
        }
        frame.end(&mut a, abi::nr::WRITE);
        // SAFETY: the code above keeps the contract of a descriptor routine. The image keeps what is linked,
        // and the channel.
        unsafe { a.seal(Some(Arc::new(self.wakes.clone()))) }
    }
}

/// Moves bytes from user memory into a ring, under a rule.
struct IntoRing {
    v: Variant,
    rule: Rule,
}

impl Mover for IntoRing {
    fn stretch(&self) -> Option<i32> {
        None
    }
    fn compare_room(&self, d: &mut Draft) {
        match self.rule {
            Rule::Plain => dynasm!(d ; .arch x64 ; cmp rax, rdx),
            Rule::Newlines => dynasm!(d ; .arch x64 ; lea ecx, [rdx * 2] ; cmp rax, rcx),
        }
    }
    fn growth(&self) -> i32 {
        self.rule.growth() as i32
    }
    fn emit_beside(&self, a: &mut Assembly, undo: Label) {
        match self.rule {
            Rule::Plain => plain_beside(a, self.v, undo),
            Rule::Newlines => newlines_beside(a, self.v, undo),
        }
    }
    fn emit(&self, a: &mut Assembly, ring: &Ring, undo: Label) {
        match self.rule {
            Rule::Plain => plain(a, self.v, ring, undo),
            Rule::Newlines => newlines(a, self.v, ring, undo),
        }
    }
}

/// Copies edx bytes from rsi to the places from position edi on; leaves in rdi how many places were filled.
fn plain(a: &mut Assembly, v: Variant, q: &Ring, undo: Label) {
    let [begin, copied, fault, torn] = core::array::from_fn(|_| a.label());
    dynasm!(a ; .arch x64
        ; and edi, q.size - 1
        ; lea eax, [rdi + rdx]
        ; add rdi, q.bytes
        ; cmp eax, q.size
    );
    emit::open_user(a, v.guarded_user);
    dynasm!(a ; .arch x64 ; ja =>begin);
    a.fault_begin();
    emit::copy_edx(a);
    a.fault_end(fault);
    dynasm!(a ; .arch x64 ; =>copied);
    emit::close_user(a, v.guarded_user);
    dynasm!(a ; .arch x64 ; mov edi, edx);
    a.cold(|a| {
        // A write that goes around the ring's end, eax bytes behind its start.
        dynasm!(a ; .arch x64
            ; =>begin
            ; mov ecx, edx
            ; sub eax, q.size
            ; sub ecx, eax
            ; push rax
        );
        a.fault_begin();
        emit::copy_ecx(a);
        dynasm!(a ; .arch x64 ; mov ecx, [rsp] ; mov rdi, q.bytes);
        emit::copy_ecx(a);
        a.fault_end(torn);
        // A fault there finds one word more on the stack.
        dynasm!(a ; .arch x64 ; pop rax ; jmp =>copied ; =>torn ; pop rax ; =>fault);
        emit::close_user(a, v.guarded_user);
        dynasm!(a ; .arch x64 ; jmp =>undo);
    });
}

/// Copies edx bytes from rsi to rdi.
fn plain_beside(a: &mut Assembly, v: Variant, undo: Label) {
    let fault = a.label();
    emit::open_user(a, v.guarded_user);
    a.fault_begin();
    emit::copy_edx(a);
    a.fault_end(fault);
    emit::close_user(a, v.guarded_user);
    a.cold(|a| {
        a.bind(fault);
        emit::close_user(a, v.guarded_user);
        dynasm!(a ; .arch x64 ; jmp =>undo);
    });
}

/// A byte of this is 1, or its top bit.
const ONES: i64 = 0x0101_0101_0101_0101;
const TOPS: i64 = ONES << 7;

/// Goes to `some` if a byte of rax is a newline. Changes rcx and r8.
fn seek_newline(d: &mut Assembly, some: Label) {
    // A byte of r8 is 0 where there is a newline; a byte of (x - 1) & !x has its top bit where x is 0.
    dynasm!(d ; .arch x64
        ; mov r8, QWORD ONES * 10
        ; xor r8, rax
        ; mov rcx, QWORD -ONES
        ; add rcx, r8
        ; not r8
        ; and rcx, r8
        ; mov r8, QWORD TOPS
        ; test rcx, r8
        ; jnz =>some
    );
}

/// As [`plain`], with a carriage return before each newline: eight bytes at a time where there is none. Keeps
/// r8 on the stack meanwhile.
fn newlines(d: &mut Assembly, v: Variant, q: &Ring, undo: Label) {
    let (mask, places) = (q.size - 1, q.bytes);
    let [wide, narrow, newline, done, fault] = core::array::from_fn(|_| d.label());
    dynasm!(d ; .arch x64 ; push r8);
    emit::open_user(d, v.guarded_user);
    dynasm!(d ; .arch x64
        ; =>wide
        ; cmp edx, 8
        ; jb =>narrow
        ; mov ecx, edi
        ; and ecx, mask
        ; cmp ecx, q.size - 8
        ; ja =>narrow
    );
    d.fault_begin();
    dynasm!(d ; .arch x64 ; mov rax, [rsi]);
    d.fault_end(fault);
    seek_newline(d, narrow);
    dynasm!(d ; .arch x64
        ; mov ecx, edi
        ; and ecx, mask
        ; mov [rcx + places], rax
        ; add rsi, 8
        ; add edi, 8
        ; sub edx, 8
        ; jnz =>wide
        ; jmp =>done
        ; =>narrow
    );
    d.fault_begin();
    dynasm!(d ; .arch x64 ; movzx eax, BYTE [rsi]);
    d.fault_end(fault);
    dynasm!(d ; .arch x64
        ; inc rsi
        ; mov ecx, edi
        ; and ecx, mask
        ; cmp al, 10
        ; je =>newline
        ; mov [rcx + places], al
        ; inc edi
        ; dec edx
        ; jnz =>narrow
        ; jmp =>done
        ; =>newline
        ; mov BYTE [rcx + places], 13
        ; inc edi
        ; mov ecx, edi
        ; and ecx, mask
        ; mov [rcx + places], al
        ; inc edi
        ; dec edx
        ; jnz =>wide
        ; =>done
    );
    emit::close_user(d, v.guarded_user);
    dynasm!(d ; .arch x64 ; pop r8 ; sub edi, [q.head]);
    d.cold(|d| {
        d.bind(fault);
        emit::close_user(d, v.guarded_user);
        dynasm!(d ; .arch x64 ; pop r8 ; jmp =>undo);
    });
}

/// As [`newlines`], to where rdi points.
fn newlines_beside(d: &mut Assembly, v: Variant, undo: Label) {
    const RETURN_NEWLINE: i16 = i16::from_le_bytes(*b"\r\n");
    let [wide, narrow, newline, done, fault] = core::array::from_fn(|_| d.label());
    dynasm!(d ; .arch x64 ; push r8);
    emit::open_user(d, v.guarded_user);
    dynasm!(d ; .arch x64 ; =>wide ; cmp edx, 8 ; jb =>narrow);
    d.fault_begin();
    dynasm!(d ; .arch x64 ; mov rax, [rsi]);
    d.fault_end(fault);
    seek_newline(d, narrow);
    dynasm!(d ; .arch x64
        ; mov [rdi], rax
        ; add rsi, 8
        ; add rdi, 8
        ; sub edx, 8
        ; jnz =>wide
        ; jmp =>done
        ; =>narrow
    );
    d.fault_begin();
    dynasm!(d ; .arch x64 ; movzx eax, BYTE [rsi]);
    d.fault_end(fault);
    dynasm!(d ; .arch x64
        ; inc rsi
        ; cmp al, 10
        ; je =>newline
        ; mov [rdi], al
        ; inc rdi
        ; dec edx
        ; jnz =>narrow
        ; jmp =>done
        ; =>newline
        ; mov WORD [rdi], RETURN_NEWLINE
        ; add rdi, 2
        ; dec edx
        ; jnz =>wide
        ; =>done
    );
    emit::close_user(d, v.guarded_user);
    dynasm!(d ; .arch x64 ; pop r8);
    d.cold(|d| {
        d.bind(fault);
        emit::close_user(d, v.guarded_user);
        dynasm!(d ; .arch x64 ; pop r8 ; jmp =>undo);
    });
}
