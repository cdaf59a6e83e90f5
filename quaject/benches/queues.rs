//! Generated queues beside their twins in Rust, natively.
//!
//! `cargo bench -p quaject --features host --bench queues -- [--json]`. Rows as those of `lab`'s benchmark:
//! a figure is the lower quartile of samples that alternate between the two; the unit says how far above it
//! the upper quartile is (twin, generated), and the ratio is the median of the ratios of neighbouring
//! samples. An operation is a put and a get of one byte, both called, the twin with the queue's address, as
//! any code that serves more than one queue has to.
//!
//! Each of the two has a loop of its own where it lies, of the same instructions, whose calls name their
//! targets: a call through a pointer costs more once it has led to different places, a call over megabytes
//! more than one nearby, and one loop of the compiler's more than another, so that the caller would be
//! measured.
//!
//! *Unsafe*: twins whose caller must be the one party of its kind; safety contract of the loops that call.

#[path = "../../lab/benches/host/pairs.rs"]
mod pairs;

use codegen::{Class, Draft, Routine, dynasm};
use lab::queue::{mpmc, mpsc, spmc, spsc};
use quaject::class::create;
use quaject::queue::{ByteQueue, Parties, Spec};
use std::time::Instant;

const PLACES: usize = 64;
const EACH: i32 = 20_000;
const SAMPLES: usize = 401;

static CLASS: Class = Class::new("bench");

/// Many times a put and a get, generated.
type Loop = Routine<extern "sysv64" fn()>;

/// The loop that calls the generated functions at `put` and `get`.
fn calls(put: usize, get: usize) -> Loop {
    let mut draft = Draft::new(&CLASS, "put and get");
    let d = &mut draft;
    dynasm!(d ; .arch x64 ; push r12 ; push r13 ; sub rsp, 24 ; mov r12d, EACH);
    d.align(64, 0x90);
    dynasm!(d ; .arch x64
        ; more:
        ; movzx edi, r12b
        ; mov rsi, r13
        ; call extern put
        ; mov [rsp], rax
        ; mov rdi, r13
        ; call extern get
        ; mov [rsp], rax
        ; dec r12d
        ; jnz <more
        ; add rsp, 24
        ; pop r13
        ; pop r12
        ; ret
    );
    // SAFETY: it keeps the System V convention, and so do those it calls, which look at no more than the
    // byte.
    unsafe { Routine::from(draft.seal().expect("there is room for code")) }
}

/// A twin's put and get, with the contracts of the generated ones. The caller is the only party.
trait Twin {
    /// 1 when the byte is in, 0 otherwise.
    extern "sysv64" fn put(byte: u8, queue: &Self) -> isize;
    /// The byte, or -1.
    extern "sysv64" fn get(queue: &Self) -> isize;
}

/// The same loop for a twin.
#[inline(never)]
fn calls_of<Q: Twin>(queue: &Q) {
    // SAFETY: it calls functions of the System V convention with their arguments, and changes what they may,
    // r12 and stack of its own.
    unsafe {
        core::arch::asm!(
            "sub rsp, 16",
            ".p2align 6",
            "2:",
            "movzx edi, r12b",
            "mov rsi, r13",
            "call {put}",
            "mov [rsp], rax",
            "mov rdi, r13",
            "call {get}",
            "mov [rsp], rax",
            "dec r12d",
            "jnz 2b",
            "add rsp, 16",
            put = sym Q::put,
            get = sym Q::get,
            inout("r12") EACH => _,
            in("r13") queue,
            clobber_abi("sysv64"),
        );
    }
}

/// Nanoseconds of one of many.
fn sample(calls: impl FnOnce()) -> f64 {
    let start = Instant::now();
    calls();
    start.elapsed().as_nanos() as f64 / f64::from(EACH)
}

/// The result of a generated get.
fn got(byte: Option<u8>) -> isize {
    byte.map_or(-1, isize::from)
}

fn row<Q: Twin>(op: &str, producers: Parties, consumers: Parties, queue: Q) {
    for several_cpus in [true, false] {
        let spec = Spec {
            producers,
            consumers,
            size: PLACES,
            several_cpus,
            strings: false,
        };
        let made = match create::<ByteQueue>(spec) {
            Ok(made) => made,
            Err(error) => {
                eprintln!("{op}: not generated: {error:?}");
                return;
            }
        };
        // Linked quajects call these; a Rust caller from outside goes through a plug, which
        // counts who is inside.
        let (put, get) = made.routines();
        let generated = calls(put.entry(), get.entry());
        let place = if several_cpus { "" } else { " one CPU" };
        let json = std::env::args().any(|argument| argument == "--json");
        pairs::compare(
            json,
            &format!("queue {op}{place} generated/twin"),
            SAMPLES,
            || sample(|| calls_of(&queue)),
            || sample(|| generated.function()()),
        );
    }
}

impl Twin for spsc::Queue<u8, PLACES> {
    extern "sysv64" fn put(byte: u8, queue: &Self) -> isize {
        // SAFETY: this thread is the only party, here and below.
        unsafe { queue.put(byte) }.is_ok().into()
    }
    extern "sysv64" fn get(queue: &Self) -> isize {
        // SAFETY: as above.
        got(unsafe { queue.get() })
    }
}

impl Twin for mpsc::Queue<u8, PLACES> {
    extern "sysv64" fn put(byte: u8, queue: &Self) -> isize {
        queue.put(byte).is_ok().into()
    }
    extern "sysv64" fn get(queue: &Self) -> isize {
        // SAFETY: as above.
        got(unsafe { queue.get() })
    }
}

impl Twin for spmc::Queue<u8, PLACES> {
    extern "sysv64" fn put(byte: u8, queue: &Self) -> isize {
        // SAFETY: as above.
        unsafe { queue.put(byte) }.is_ok().into()
    }
    extern "sysv64" fn get(queue: &Self) -> isize {
        got(queue.get())
    }
}

impl Twin for mpmc::Queue<u8, PLACES> {
    extern "sysv64" fn put(byte: u8, queue: &Self) -> isize {
        queue.put(byte).is_ok().into()
    }
    extern "sysv64" fn get(queue: &Self) -> isize {
        got(queue.get())
    }
}

fn main() {
    use Parties::{Many, One};
    codegen::host::link();
    row("1:1", One, One, spsc::Queue::<u8, PLACES>::new());
    row("n:1", Many, One, mpsc::Queue::<u8, PLACES>::new());
    row("1:n", One, Many, spmc::Queue::<u8, PLACES>::new());
    row("n:n", Many, Many, mpmc::Queue::<u8, PLACES>::new());
}
