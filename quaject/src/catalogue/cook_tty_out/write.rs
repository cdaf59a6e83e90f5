//! The routine behind `write` to a terminal or a raw line: CookTTYout's processing, the put into the line's
//! output queue, and the start of its transmitter in one piece.
//!
//! *Interface*: [`writer`], or [`synthesize_write`] for a queue that the caller keeps; [`write()`] is the
//! plain twin. The output flags are a constant of the code: a change of the settings makes a new routine.
//! With flags that are not served here ([`Rule::of`]) the slow stub stays in place. One routine serves every
//! descriptor of the line.
//!
//! Guards, each to the slow exit: not enough room for all bytes or more than two pages, another writer, a
//! count of 0, a kernel address, a fault. If the consumer has found the queue empty before, `Q_empty+1` of
//! the queue is called, or is inlined here (figure 4.2: "turn on send-complete"). If the consumer is a
//! pseudo-terminal's master, its waiting threads are woken ([`Told`]).
//!
//! Source: dissertation, sections 3.2.1, 3.2.2 and 4.1.4.

use crate::catalogue::queue::{ByteQueue, Channel, Layout, Q_EMPTY_1, Told};
use crate::kit::class::Ref;
use crate::kit::emit;
use crate::kit::interfacer::place;
use crate::kit::regs::Regs;
use crate::kit::seam::{DescFn, Seam, Sharing, Unmade, Variant, near};
use abi::linux::{OCRNL, OLCUC, ONLCR, ONOCR, OPOST, TABDLY, XTABS};
use alloc::sync::Arc;
use alloc::vec::Vec;
use codegen::harden::clamp;
use codegen::methods::Reg;
use codegen::{Class, Draft, Hole, Label, Routine, dynasm};
use sync::monitor::RawMonitor;

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

/// Plain twin of the writing routine: all of `bytes` or nothing. None where the routine takes the slow exit.
#[expect(
    clippy::disallowed_methods,
    reason = "twice the queue's length at most"
)]
pub fn write(queue: &ByteQueue, turn: &RawMonitor, rule: Rule, bytes: &[u8]) -> Option<usize> {
    if bytes.is_empty() || !turn.try_lock() {
        return None;
    }
    let fits = bytes.len() * rule.growth() <= queue.room();
    if fits {
        let mut cooked = Vec::new();
        for byte in bytes {
            if rule == Rule::Newlines && *byte == b'\n' {
                cooked.push(b'\r');
            }
            cooked.push(*byte);
        }
        queue.write(&cooked);
    }
    turn.unlock();
    fits.then_some(bytes.len())
}

/// The routine behind `write` for a queue that it keeps alive; `turn` serializes writers, and never goes
/// away.
///
/// # Errors
/// [`Unmade`].
pub fn writer(
    queue: &Ref<ByteQueue>,
    turn: &'static RawMonitor,
    rule: Rule,
    seam: &Seam,
) -> Result<Routine<DescFn>, Unmade> {
    let started = queue.linked(Q_EMPTY_1);
    let told = Told::Linked(started.as_deref());
    // SAFETY: the image keeps the queue and what it is linked to; the monitor stays.
    let routine = unsafe { synthesize_write(queue, turn, rule, told, seam)? };
    Ok(routine.keeping(Arc::new((queue.clone(), started))))
}

/// The routine behind `write` for a channel, which it keeps alive.
///
/// # Errors
/// [`Unmade`].
pub fn channel_writer(
    channel: &Arc<Channel>,
    rule: Rule,
    seam: &Seam,
) -> Result<Routine<DescFn>, Unmade> {
    let told = Told::Waiters(&channel.arrived);
    // SAFETY: the image keeps the channel, and with it all that it names.
    let made = unsafe { synthesize_write(&channel.queue, &channel.writing, rule, told, seam)? };
    Ok(made.keeping(channel.clone()))
}

/// The routine behind `write` for a queue. It notifies `told`: the target of `Q_empty+1`, which does not
/// sleep, or the threads that wait for bytes.
///
/// # Errors
/// [`Unmade`].
///
/// # Safety
/// Queue, monitor, callentry and list stay in place until a grace period after the last handle to the routine
/// is gone.
pub unsafe fn synthesize_write(
    queue: &ByteQueue,
    turn: &RawMonitor,
    rule: Rule,
    told: Told,
    seam: &Seam,
) -> Result<Routine<DescFn>, Unmade> {
    let q = queue.layout()?;
    // The monitor's word is its first field.
    let turn = near(turn)? as i32;
    let v = seam.variant(Sharing::Shared);
    let slow = Hole::value(seam.slow() as i64);
    let wake_next = Hole::value(seam.wake_next.entry() as i64);
    let name = match rule {
        Rule::Plain => "write",
        Rule::Newlines => "write, newlines",
    };
    let mut draft = Draft::new(&CLASS, name);
    let d = &mut draft;
    let [leave, unlock, fault, tell, over] = core::array::from_fn(|_| d.label());
    let wrap = Wrap {
        begin: d.label(),
        copied: d.label(),
    };

    let most = (q.size / rule.growth() as i32).min(emit::MOST);
    emit::look(d, v, turn, leave);
    dynasm!(d ; .arch x64
        ; test rsi, rsi
        ; js =>leave
        ; test rdx, rdx
        ; jz =>leave
        ; cmp rdx, most
        ; ja =>leave
        ; push rcx
    );
    clamp(d, Reg::Rsi);
    emit::enter(d, v, turn, leave);
    dynasm!(d ; .arch x64 ; mov rax, [q.tail] ; sub rax, [q.head] ; add rax, q.size);
    match rule {
        Rule::Plain => dynasm!(d ; .arch x64 ; cmp rax, rdx),
        Rule::Newlines => dynasm!(d ; .arch x64 ; lea ecx, [rdx * 2] ; cmp rax, rcx),
    }
    dynasm!(d ; .arch x64 ; jb =>unlock ; push rsi ; push rdi ; push rdx ; mov edi, [q.head]);
    match rule {
        Rule::Plain => plain(d, v, &q, fault, wrap),
        Rule::Newlines => newlines(d, v, &q, fault),
    }
    if v.several_cpus {
        // Also orders the look at `get_failed` after it.
        dynasm!(d ; .arch x64 ; lock add [q.head], rdi);
    } else {
        dynasm!(d ; .arch x64 ; add [q.head], rdi);
    }
    let waiters = told.look(d, q.get_failed, tell)?;
    dynasm!(d ; .arch x64
        ; =>over
        ; pop rdx
        ; pop rdi
        ; pop rsi
        ; mov eax, edx
    );
    emit::give(d, v, turn, wake_next);
    dynasm!(d ; .arch x64 ; pop rcx ; ret ; =>tell);
    match told {
        // Q_empty+1, once for each time that the consumer found nothing.
        Told::Linked(not_empty) => {
            dynasm!(d ; .arch x64
                ; xor ecx, ecx
                ; xchg [q.get_failed], rcx
                ; test ecx, ecx
                ; jz =>over
            );
            if let Some(target) = not_empty {
                let live = Regs::of(&[Reg::R8, Reg::R9, Reg::R10, Reg::R11]);
                place(d, target, live, &[]);
            }
        }
        Told::Waiters(_) => emit::wake_waiters(d, waiters, seam),
    }
    dynasm!(d ; .arch x64 ; jmp =>over);
    if rule == Rule::Plain {
        wrapped(d, &q, fault, wrap);
    }
    dynasm!(d ; .arch x64 ; =>fault);
    emit::close_user(d, v.guarded_user);
    if rule == Rule::Newlines {
        dynasm!(d ; .arch x64 ; pop r8);
    }
    dynasm!(d ; .arch x64 ; pop rdx ; pop rdi ; pop rsi ; =>unlock);
    emit::give(d, v, turn, wake_next);
    dynasm!(d ; .arch x64 ; pop rcx ; =>leave);
    emit::leave_slowly(d, abi::nr::WRITE, slow);
    // SAFETY: the code above keeps the contract of a descriptor routine, on the caller's promise.
    Ok(unsafe { Routine::from(draft.seal()?) })
}

/// Where a write that wraps around the ring's end leaves the straight path, and where it returns.
#[derive(Clone, Copy)]
struct Wrap {
    begin: Label,
    copied: Label,
}

/// Copies edx bytes from rsi to the places from position edi on; leaves in rdi how many places were filled.
fn plain(d: &mut Draft, v: Variant, q: &Layout, fault: Label, wrap: Wrap) {
    dynasm!(d ; .arch x64
        ; and edi, q.size - 1
        ; lea eax, [rdi + rdx]
        ; add rdi, q.bytes
        ; cmp eax, q.size
    );
    emit::open_user(d, v.guarded_user);
    dynasm!(d ; .arch x64 ; ja =>wrap.begin);
    d.fault_begin();
    emit::copy_edx(d);
    d.fault_end(fault);
    dynasm!(d ; .arch x64 ; =>wrap.copied);
    emit::close_user(d, v.guarded_user);
    dynasm!(d ; .arch x64 ; mov edi, edx);
}

/// The part of [`plain`] for a write that goes around the ring's end. eax = its end behind the ring's start.
fn wrapped(d: &mut Draft, q: &Layout, fault: Label, wrap: Wrap) {
    dynasm!(d ; .arch x64
        ; =>wrap.begin
        ; mov ecx, edx
        ; sub eax, q.size
        ; sub ecx, eax
        ; push rax
    );
    // A fault finds one word more on the stack.
    let torn = d.label();
    d.fault_begin();
    emit::copy_ecx(d);
    dynasm!(d ; .arch x64 ; mov ecx, [rsp] ; mov rdi, q.bytes);
    emit::copy_ecx(d);
    d.fault_end(torn);
    dynasm!(d ; .arch x64 ; pop rax ; jmp =>wrap.copied ; =>torn ; pop rax ; jmp =>fault);
}

/// As [`plain`], with a carriage return before each newline: eight bytes at a time where there is none. Keeps
/// r8 on the stack meanwhile.
fn newlines(d: &mut Draft, v: Variant, q: &Layout, fault: Label) {
    const ONES: i64 = 0x0101_0101_0101_0101;
    const TOPS: i64 = ONES << 7;
    let (mask, places) = (q.size - 1, q.bytes);
    let [wide, narrow, done] = core::array::from_fn(|_| d.label());
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
        ; jnz =>narrow
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
        ; je >newline
        ; mov [rcx + places], al
        ; inc edi
        ; dec edx
        ; jnz =>narrow
        ; jmp =>done
        ; newline:
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
}
