//! Generated code beside compiled code, natively: tables 3.1 and 3.2 of the dissertation, dispatch, and the
//! cost of generating.
//!
//! `cargo bench -p codegen --bench host [-- --json]`. With `--json` a line of JSON per row: `section`, `op`,
//! `unit`, `peer`, `ours` and `ratio` (peer over ours). Operations are named `what/peer`, counts of
//! instructions `what/peer/instructions`. Rows that need gcc or tracing are left out where those are missing,
//! with a note on standard error.
//!
//! Both sides are called through a function pointer from the same loop; the time is the shortest of many
//! short runs, so that other work on the machine does not count. Instructions are counted by single-stepping
//! a hundred operations.

mod count;
mod sample;

use codegen::idioms::{Reg, constant};
use codegen::{Class, Draft, Routine, dynasm, host};
use std::ffi::{CString, c_char, c_int, c_long, c_void};
use std::hint::black_box;
use std::process::Command;
use std::time::Instant;

static CLASS: Class = Class::new("bench");

/// Bytes of every buffer, as many as the C library's has here.
const SIZE: usize = 4096;

struct Row {
    op: String,
    unit: &'static str,
    peer: f64,
    ours: f64,
}

/// Shortest time of one of `n` operations that `work` does, in nanoseconds.
fn ns(n: usize, mut work: impl FnMut()) -> f64 {
    let mut best = f64::MAX;
    let begin = Instant::now();
    for round in 0.. {
        let start = Instant::now();
        work();
        best = best.min(start.elapsed().as_nanos() as f64 / n as f64);
        if round >= 50 && begin.elapsed().as_millis() > 300 {
            break;
        }
    }
    best
}

/// A row of time and one of instructions.
fn compare(rows: &mut Vec<Row>, op: &str, n: usize, peer: &dyn Fn(usize), ours: &dyn Fn(usize)) {
    // Alternating, so that a change of the machine's speed meets both.
    let (mut a, mut b) = (f64::MAX, f64::MAX);
    for _ in 0..3 {
        a = a.min(ns(n, || peer(n)));
        b = b.min(ns(n, || ours(n)));
    }
    rows.push(Row {
        op: op.into(),
        unit: "ns",
        peer: a,
        ours: b,
    });
    const STEPS: usize = 100;
    let count = |work: &dyn Fn(usize)| {
        work(STEPS);
        Some(count::instructions(|| work(STEPS))? as f64 / STEPS as f64)
    };
    match (count(peer), count(ours)) {
        (Some(peer), Some(ours)) => rows.push(Row {
            op: format!("{op}/instructions"),
            unit: "instructions",
            peer,
            ours,
        }),
        _ => eprintln!("{op}: no instruction counts, tracing is not allowed here"),
    }
}

/// Figure 3.2 today: the position counts up to zero, so that advancing it also tests for the end.
#[repr(C)]
struct Position {
    /// `at - end`, negative.
    at: i64,
    flushed: i64,
}

/// The generated buffer: code that holds its addresses.
struct Buffer {
    position: host::Low<Position>,
    bytes: host::Low<[u8; SIZE]>,
    flush: Option<extern "sysv64" fn()>,
}

impl Buffer {
    fn new(flush: Option<extern "sysv64" fn()>) -> Buffer {
        Buffer {
            position: host::Low::new(Position {
                at: -(SIZE as i64),
                flushed: 0,
            }),
            bytes: host::Low::new([0; SIZE]),
            flush,
        }
    }

    /// The body of put, character in `dil`; at the end of the buffer it goes to `full`.
    fn put(&self, d: &mut Draft, full: codegen::Label) {
        let position = self.position.address();
        let end = self.bytes.address() + SIZE as i32;
        dynasm!(d
            ; .arch x64
            ; mov rax, [position]
            ; mov [rax + end], dil
            ; inc rax
            ; mov [position], rax
            ; jz =>full
        );
    }

    /// The rare end: begin again, count, hand the bytes on.
    fn full(&self, d: &mut Draft) {
        let position = self.position.address();
        dynasm!(d ; .arch x64 ; mov QWORD [position], -(SIZE as i32) ; inc QWORD [position + 8]);
        if let Some(flush) = self.flush {
            let flush = flush as usize;
            dynasm!(d ; .arch x64 ; sub rsp, 8 ; call extern flush ; add rsp, 8);
        }
    }

    fn routine(&self) -> Routine<extern "sysv64" fn(u8)> {
        let mut d = Draft::new(&CLASS, "put");
        let full = d.label();
        self.put(&mut d, full);
        dynasm!(d ; .arch x64 ; ret ; =>full);
        self.full(&mut d);
        dynasm!(d ; .arch x64 ; ret);
        // SAFETY: the code takes a byte and touches the buffer, which outlives the bench.
        unsafe { Routine::from(d.seal().expect("room")) }
    }
}

/// Put's body in-line, where rbx is the position's address: processors that keep recently stored words in
/// registers of their own recognize them by base register and offset, not by absolute address.
fn put_inline(d: &mut Draft, buffer: &Buffer) {
    let done = d.label();
    let end = buffer.bytes.address() + SIZE as i32;
    dynasm!(d
        ; .arch x64
        ; mov rax, [rbx]
        ; mov [rax + end], dil
        ; inc rax
        ; mov [rbx], rax
        ; jnz BYTE =>done
    );
    buffer.full(d);
    d.bind(done);
}

/// A program's loop around putchar, put in-line: `fn(n)`.
fn putchars(buffer: &Buffer) -> Routine<extern "sysv64" fn(usize)> {
    let mut d = Draft::new(&CLASS, "putchars");
    let again = d.label();
    dynasm!(d ; .arch x64 ; push rbx ; push r12 ; sub rsp, 8 ; mov r12, rdi);
    constant(&mut d, Reg::Rbx, buffer.position.address() as u64);
    d.bind(again);
    constant(&mut d, Reg::Rdi, u64::from(b'x'));
    put_inline(&mut d, buffer);
    dynasm!(d ; .arch x64 ; dec r12 ; jnz =>again ; add rsp, 8 ; pop r12 ; pop rbx ; ret);
    // SAFETY: the code takes a count and touches the buffer, which outlives the bench.
    unsafe { Routine::from(d.seal().expect("room")) }
}

/// The general buffer, as Rust compiles it.
struct RustBuffer {
    at: *mut u8,
    end: *mut u8,
    start: *mut u8,
    flushed: i64,
}

#[inline(never)]
fn rust_put(b: &mut RustBuffer, c: u8) {
    // SAFETY: `at` is within the buffer: it goes back to `start` when it reaches `end`.
    unsafe {
        *b.at = c;
        b.at = b.at.add(1);
    }
    if b.at == b.end {
        rust_flush(b);
    }
}

#[cold]
#[inline(never)]
fn rust_flush(b: &mut RustBuffer) {
    b.at = b.start;
    b.flushed += 1;
}

/// The functions of `peers.c`.
struct C {
    put: unsafe extern "C" fn(*mut RustBuffer, u8),
    putchars: unsafe extern "C" fn(*mut c_void, c_long),
    dispatch: unsafe extern "C" fn(*const usize, u64, i64) -> i64,
}

/// Compile and load `peers.c`, if there is a compiler.
fn compile() -> Option<C> {
    let library = std::env::temp_dir().join(format!("peers-{}.so", std::process::id()));
    let source = concat!(env!("CARGO_MANIFEST_DIR"), "/benches/peers.c");
    let done = Command::new("gcc")
        .args(["-O2", "-shared", "-fPIC", "-o"])
        .arg(&library)
        .arg(source)
        .status();
    if !done.is_ok_and(|s| s.success()) {
        return None;
    }
    let path = CString::new(library.to_str()?).ok()?;
    // SAFETY: a library that was just made from our own source and runs nothing when loaded; the names have
    // these types there.
    let c = unsafe {
        let handle = libc::dlopen(path.as_ptr(), libc::RTLD_NOW);
        let find = |name: &std::ffi::CStr| libc::dlsym(handle, name.as_ptr());
        if handle.is_null() || find(c"peer_put").is_null() {
            None
        } else {
            type Put = unsafe extern "C" fn(*mut RustBuffer, u8);
            type Putchars = unsafe extern "C" fn(*mut c_void, c_long);
            type Dispatch = unsafe extern "C" fn(*const usize, u64, i64) -> i64;
            Some(C {
                put: core::mem::transmute::<*mut c_void, Put>(find(c"peer_put")),
                putchars: core::mem::transmute::<*mut c_void, Putchars>(find(c"peer_putchars")),
                dispatch: core::mem::transmute::<*mut c_void, Dispatch>(find(c"peer_dispatch")),
            })
        }
    };
    let _ = std::fs::remove_file(library);
    c
}

fn fresh(bytes: &mut [u8; SIZE]) -> RustBuffer {
    let range = bytes.as_mut_ptr_range();
    RustBuffer {
        at: range.start,
        end: range.end,
        start: range.start,
        flushed: 0,
    }
}

/// Table 3.1.
fn buffer_put(rows: &mut Vec<Row>, c: Option<&C>) {
    let buffer = Buffer::new(None);
    let put = buffer.routine();
    let ours = |n: usize| {
        let put = black_box(put.function());
        (0..n).for_each(|_| put(b'x'));
    };
    let mut bytes = [0; SIZE];
    let peer = core::cell::RefCell::new(fresh(&mut bytes));
    let rust = |n: usize| {
        let put = black_box(rust_put as fn(&mut RustBuffer, u8));
        let b = &mut *peer.borrow_mut();
        (0..n).for_each(|_| put(b, b'x'));
    };
    compare(rows, "buffer_put/rust", 8 * SIZE, &rust, &ours);
    if let Some(c) = c {
        let c = |n: usize| {
            let put = black_box(c.put);
            let b = &mut *peer.borrow_mut();
            // SAFETY: the buffer is laid out as the C structure.
            (0..n).for_each(|_| unsafe { put(b, b'x') });
        };
        compare(rows, "buffer_put/c", 8 * SIZE, &c, &ours);
    }
    assert!(buffer.position.flushed > 0 && peer.borrow().flushed > 0);
}

static mut TO: (*const u8, c_int) = (core::ptr::null(), -1);

/// Writes the full buffer, as the C library does.
extern "sysv64" fn write_out() {
    // SAFETY: set before the routine that calls this runs; one thread.
    unsafe {
        let (bytes, file) = TO;
        libc::write(file, bytes.cast(), SIZE);
    }
}

unsafe extern "C" {
    fn putc_unlocked(c: c_int, f: *mut c_void) -> c_int;
}

/// Table 3.2.
fn putchar(rows: &mut Vec<Row>, c: Option<&C>) {
    let buffer = Buffer::new(Some(write_out));
    // SAFETY: plain library calls; `TO` is written before anyone reads it.
    let stream = unsafe {
        let stream = libc::fopen(c"/dev/null".as_ptr(), c"w".as_ptr());
        assert!(!stream.is_null());
        libc::setvbuf(stream, core::ptr::null_mut::<c_char>(), libc::_IOFBF, SIZE);
        TO = (
            buffer.bytes.address() as usize as *const u8,
            libc::open(c"/dev/null".as_ptr(), libc::O_WRONLY),
        );
        stream.cast::<c_void>()
    };
    let put = buffer.routine();
    let ours = |n: usize| {
        let put = black_box(put.function());
        (0..n).for_each(|_| put(b'x'));
    };
    let library = |n: usize| {
        let put = black_box(putc_unlocked as unsafe extern "C" fn(c_int, *mut c_void) -> c_int);
        (0..n).for_each(|_| {
            // SAFETY: the stream is open.
            unsafe { put(c_int::from(b'x'), stream) };
        });
    };
    compare(rows, "putchar_function/libc", 8 * SIZE, &library, &ours);
    let inline = putchars(&buffer);
    let ours = |n: usize| inline.function()(n);
    if let Some(c) = c {
        // SAFETY: the stream is open.
        let library = |n: usize| unsafe { (c.putchars)(stream, n as c_long) };
        compare(rows, "putchar_inline/libc", 8 * SIZE, &library, &ours);
    }
}

const CALLS: usize = 64;
/// Numbers as a shell and its tools use them: read, write, lseek, close, getpid, and some of the rest.
const MIX: [u64; 16] = [0, 1, 0, 1, 1, 8, 0, 39, 0, 1, 3, 1, 0, 1, 20, 0];
/// The numbers that the generated dispatcher compares with, most frequent first.
const HOT: [u64; 3] = [1, 0, 8];

extern "sysv64" fn handle(argument: i64) -> i64 {
    argument + 1
}

extern "sysv64" fn own_number(_: i64) -> i64 {
    4711
}

/// Dispatch by number: compare and jump for the hot ones, the constant one in-line, the rest through a table.
fn dispatch(rows: &mut Vec<Row>, c: Option<&C>) {
    let mut entries = [handle as *const () as usize; CALLS];
    entries[39] = own_number as *const () as usize;
    let table = host::Low::new(entries);
    let mut d = Draft::new(&CLASS, "dispatch");
    let none = d.label();
    // Number in rdi, argument in rsi; handlers take the argument in rdi.
    dynasm!(d ; .arch x64 ; mov rax, rdi ; mov rdi, rsi);
    for number in HOT {
        let target = table[number as usize];
        dynasm!(d ; .arch x64 ; cmp rax, number as i32 ; je extern target);
    }
    dynasm!(d ; .arch x64 ; cmp rax, 39 ; jne BYTE >other ; mov eax, 4711 ; ret ; other:);
    dynasm!(d ; .arch x64 ; cmp rax, CALLS as i32 ; jae BYTE =>none ; jmp QWORD [rax * 8 + table.address()]);
    dynasm!(d ; .arch x64 ; =>none ; mov rax, -38 ; ret);
    // SAFETY: the code takes two integers and returns one; table and handlers outlive the bench.
    let generated: Routine<extern "sysv64" fn(u64, i64) -> i64> =
        unsafe { Routine::from(d.seal().expect("room")) };
    let mut general = vec![CALLS];
    general.extend(entries);
    for number in 0..CALLS as u64 + 2 {
        let expected = match number {
            39 => 4711,
            n if n < CALLS as u64 => 6,
            _ => -38,
        };
        assert_eq!(generated.function()(number, 5), expected);
    }
    for (name, numbers) in [
        ("dispatch_write", [1; 16]),
        ("dispatch_getpid", [39; 16]),
        ("dispatch_mix", MIX),
    ] {
        let numbers = black_box(numbers);
        let ours = |n: usize| {
            let call = black_box(generated.function());
            (0..n).for_each(|i| {
                black_box(call(numbers[i % 16], 5));
            });
        };
        if let Some(c) = c {
            let peer = |n: usize| {
                let call = black_box(c.dispatch);
                (0..n).for_each(|i| {
                    // SAFETY: the table is laid out as the C structure; `sysv64` is the host's C convention.
                    black_box(unsafe { call(general.as_ptr(), numbers[i % 16], 5) });
                });
            };
            compare(rows, &format!("{name}/table"), 4096, &peer, &ours);
        }
    }
}

/// The cost of making and freeing a routine of 124 bytes: the generator run each time against the template.
fn generate(rows: &mut Vec<Row>) {
    let direct = |n: usize| (0..n).for_each(|_| drop(sample::directly()));
    let template = |n: usize| (0..n).for_each(|_| drop(sample::by_template()));
    compare(
        rows,
        "generate_by_template/directly",
        1000,
        &direct,
        &template,
    );
}

fn main() {
    host::link();
    let c = compile();
    if c.is_none() {
        eprintln!("no gcc: the rows against C are left out");
    }
    let mut rows = Vec::new();
    buffer_put(&mut rows, c.as_ref());
    putchar(&mut rows, c.as_ref());
    dispatch(&mut rows, c.as_ref());
    generate(&mut rows);
    let json = std::env::args().any(|a| a == "--json");
    if !json {
        println!(
            "{:44} {:13} {:>9} {:>9} {:>6}",
            "operation/peer", "unit", "peer", "ours", "ratio"
        );
    }
    for Row {
        op,
        unit,
        peer,
        ours,
    } in rows
    {
        let ratio = peer / ours;
        if json {
            println!(
                "{{\"section\":\"host\",\"op\":\"{op}\",\"unit\":\"{unit}\",\"peer\":{peer:.2},\"ours\":{ours:.2},\"ratio\":{ratio:.2}}}"
            );
        } else {
            println!("{op:44} {unit:13} {peer:9.2} {ours:9.2} {ratio:6.2}");
        }
    }
}
