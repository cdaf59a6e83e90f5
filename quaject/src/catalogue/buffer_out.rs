//! BufferOut: data buffering on the way out.
//!
//! *Interface* (table 4.2): callentries `put` ([`BufferOut::put`], or [`put`] to be inlined into another
//! quaject), `write`, `flush`; callout `flush` gets the address and number of the buffered bytes and must not
//! use them after it returns. By default they are discarded and counted.
//!
//! `put` is figure 3.2. The position is kept as P + D: P is a 16-bit word that is 0 when the buffer is full,
//! so incrementing it also tests for the end; D is a constant of the code. `put` only loads the position,
//! stores the byte and increments P. One party at a time puts.
//!
//! Source: dissertation, section 3.3.1, figure 3.2, tables 3.1 and 3.2.
//!
//! *Unsafe*: words in a near block; safety contracts of the generated `put` and of its signature.

use crate::kit::assembly::{Assembly, Continuation, Made, Published};
use crate::kit::class::{Header, Holder, Ref};
use crate::kit::interfacer::{Callentry, Entry, Target, call_with_bytes};
use crate::kit::near_memory::NearBlock;
use crate::kit::regs::Regs;
use crate::kit::routine_env::{RoutineError, near};
use crate::kit::signature;
use alloc::sync::Arc;
use codegen::idioms::Reg;
use codegen::{Class, Routine, dynasm};
use core::sync::atomic::{AtomicU16, AtomicU64, Ordering};

/// The contract of `put`: a byte.
pub type PutFn = extern "sysv64" fn(byte: u8);

/// P counts up to this, which in 16 bits is 0.
const END: usize = 1 << 16;

/// The words in front of the bytes. P has a line of its own: data never shares a line with what others
/// change.
#[repr(C, align(64))]
struct Words {
    p: AtomicU16,
    /// Bytes that were thrown away because `flush` was not linked.
    lost: AtomicU64,
}

/// One buffer.
pub struct BufferOut {
    header: &'static Header,
    size: usize,
    block: NearBlock,
    put: Published<PutFn>,
}

crate::quaject! {
    /// Data buffering on the way out
    class BufferOut = "BufferOut", spec usize, error RoutineError {
        callentry { PUT: signature::Put = "put", WRITE = "write", FLUSH = "flush" }
        callout { FLUSH_OUT: signature::Write = "flush" ("throw the bytes away and count them") }
    }
    make BufferOut::new;
    remake BufferOut::remake;
    callentry |buffer: &Ref<BufferOut>, number| (number == PUT).then(|| target(buffer));
}

static CODE: Class = Class::new("buffer put");

impl BufferOut {
    /// A buffer of `size` bytes, from 1 to 65535.
    fn new(size: usize, header: &'static Header) -> Result<BufferOut, RoutineError> {
        if !(1..END).contains(&size) {
            return Err(RoutineError::BadSpec);
        }
        let block = NearBlock::new(size_of::<Words>() + size).ok_or(RoutineError::OutOfMemory)?;
        let put = Published::new(generate(size, &block, header)?);
        let buffer = BufferOut {
            header,
            size,
            block,
            put,
        };
        buffer.words().p.store(start(size), Ordering::Relaxed);
        Ok(buffer)
    }

    fn remake(&self, _: usize) -> Result<(), RoutineError> {
        self.put
            .publish(generate(self.size, &self.block, self.header)?);
        Ok(())
    }

    fn words(&self) -> &Words {
        // SAFETY: the block begins with the words, zeroed.
        unsafe { self.block.at().cast::<Words>().as_ref() }
    }

    /// Callentry `put`.
    pub fn put(&self, byte: u8) {
        self.put.call(|put| put(byte));
    }

    /// Callentry `write`.
    pub fn write(&self, bytes: &[u8]) {
        self.put
            .call(|put| bytes.iter().for_each(|byte| put(*byte)));
    }

    /// Callentry `flush`: hands out what is buffered, if anything is.
    pub fn flush(&self) {
        let count = self.buffered();
        if count == 0 {
            return;
        }
        self.words().p.store(start(self.size), Ordering::Relaxed);
        // SAFETY: so many bytes of the block lie there, and this end alone changes them.
        let taken =
            unsafe { call_with_bytes(self.header, FLUSH_OUT.number(), self.bytes(), count) };
        if taken.is_none() {
            self.words().lost.fetch_add(count as u64, Ordering::Relaxed);
        }
    }

    /// Shows `take` what is buffered, instead of a flush; the bytes behind as many as it has taken stay.
    pub fn hand_out(&self, take: impl FnOnce(&[u8]) -> usize) {
        let count = self.buffered();
        // SAFETY: so many bytes of the block lie there, and this end alone changes them.
        let bytes = unsafe { core::slice::from_raw_parts_mut(self.bytes(), count) };
        let taken = take(bytes).min(count);
        bytes.copy_within(taken.., 0);
        let left = start(self.size).wrapping_add((count - taken) as u16);
        self.words().p.store(left, Ordering::Relaxed);
    }

    /// Bytes that wait for a flush.
    pub fn buffered(&self) -> usize {
        let p = self.words().p.load(Ordering::Relaxed);
        usize::from(p.wrapping_sub(start(self.size)))
    }

    /// Bytes that were discarded.
    pub fn lost(&self) -> u64 {
        self.words().lost.load(Ordering::Relaxed)
    }

    /// The generated `put`, to call directly (while no thread links) or to examine.
    pub fn routine(&self) -> Routine<PutFn> {
        self.put.plugged()
    }

    fn bytes(&self) -> *mut u8 {
        self.block.at().as_ptr().wrapping_add(size_of::<Words>())
    }
}

/// P at the buffer's first byte.
fn start(size: usize) -> u16 {
    (END - size) as u16
}

/// Takes the byte in dil. Changes rax.
fn emit(
    a: &mut Assembly,
    size: usize,
    block: &NearBlock,
    header: &'static Header,
    live: Regs,
) -> Result<(), RoutineError> {
    let base = near(block.at().as_ptr())?;
    let bytes = base + size_of::<Words>() as i64;
    // The byte at P = END - size is the first.
    let displacement =
        i32::try_from(bytes + size as i64 - END as i64).map_err(|_| RoutineError::OutOfReach)?;
    let p = base as i32 + core::mem::offset_of!(Words, p) as i32;
    let lost = base as i32 + core::mem::offset_of!(Words, lost) as i32;
    let [full, taken] = core::array::from_fn(|_| a.label());
    let flush = a.use_link(header, FLUSH_OUT.number());
    dynasm!(a ; .arch x64
        ; movzx eax, WORD [p]
        ; mov [rax + displacement], dil
        ; inc WORD [p]
        ; jz =>full
        ; =>taken
    );
    a.cold(|a| {
        dynasm!(a ; .arch x64 ; =>full ; mov WORD [p], start(size) as i16);
        match flush {
            Some(link) => {
                let arguments = [(Reg::Rsi, bytes as u64), (Reg::Rdx, size as u64)];
                a.place(link, live, None, &arguments);
            }
            None => dynasm!(a ; .arch x64 ; add QWORD [lost], size as i32),
        }
        dynasm!(a ; .arch x64 ; jmp =>taken);
    });
    Ok(())
}

fn generate(
    size: usize,
    block: &NearBlock,
    header: &'static Header,
) -> Result<Made<PutFn>, RoutineError> {
    let mut a = Assembly::new(&CODE, "put", Some(Holder::Member(header)));
    emit(&mut a, size, block, header, Regs::NONE)?;
    dynasm!(a ; .arch x64 ; ret);
    // SAFETY: it stores inside the block, which the quaject keeps beside the plug.
    unsafe { a.seal(None) }
}

/// Callentry `put` of `buffer` for the callout of another. Flushing may sleep.
pub fn put(buffer: &Ref<BufferOut>) -> Entry<signature::Put> {
    // SAFETY: it takes the byte, and keeps the buffer.
    unsafe { Entry::new(target(buffer)) }
}

fn target(buffer: &Ref<BufferOut>) -> Target {
    Arc::new(Putting(buffer.clone()))
}

struct Putting(Ref<BufferOut>);

extern "sysv64" fn put_one(buffer: *const BufferOut, byte: usize) -> usize {
    // SAFETY: the callentry passes the buffer that it keeps.
    unsafe { &*buffer }.put(byte as u8);
    1
}

impl Callentry for Putting {
    fn name(&self) -> &'static &'static str {
        &"put"
    }
    fn owner(&self) -> Option<&'static Header> {
        Some(self.0.header())
    }
    fn through(&self) -> u16 {
        1 << FLUSH_OUT.number()
    }
    fn changes(&self) -> Regs {
        Regs::of(&[Reg::Rax])
    }
    fn emit(&self, a: &mut Assembly, way: Continuation) -> bool {
        emit(a, self.0.size, &self.0.block, self.0.header(), way.live).is_ok()
    }
    fn entry(&self) -> usize {
        put_one as *const () as usize
    }
    fn this(&self) -> Option<usize> {
        Some(core::ptr::from_ref(&*self.0).expose_provenance())
    }
    fn is_compiled(&self) -> bool {
        true
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::kit::class::create;
    use crate::kit::interfacer::{Function, link};
    use std::sync::Mutex;

    extern "sysv64" fn take(to: usize, bytes: *mut u8, count: usize) -> usize {
        // SAFETY: the tests pass a leaked vector; the buffer hands out `count` bytes.
        let (to, bytes) = unsafe {
            (
                &*(to as *const Mutex<Vec<u8>>),
                core::slice::from_raw_parts(bytes, count),
            )
        };
        to.lock().unwrap().extend_from_slice(bytes);
        count
    }

    #[test]
    fn what_is_put_comes_out_when_the_buffer_is_full_or_flushed() {
        codegen::host::link();
        for size in [1, 7, 100, 65535] {
            let out: &'static Mutex<Vec<u8>> = Box::leak(Box::default());
            let buffer = create::<BufferOut>(size).unwrap();
            let to = core::ptr::from_ref(out) as usize;
            link(&buffer, FLUSH_OUT, Function::write(&"take", take, to)).unwrap();
            let bytes: Vec<u8> = (0..250).cycle().take(70_000).collect();
            bytes[..50].iter().for_each(|byte| buffer.put(*byte));
            buffer.write(&bytes[50..]);
            assert_eq!(buffer.buffered(), bytes.len() % size);
            buffer.flush();
            buffer.flush();
            assert!(*out.lock().unwrap() == bytes && buffer.buffered() == 0);
        }
    }

    #[test]
    fn what_is_not_taken_stays() {
        codegen::host::link();
        let buffer = create::<BufferOut>(10).unwrap();
        buffer.write(b"abcde");
        let mut seen = Vec::new();
        for most in [2, 0, 9] {
            buffer.hand_out(|bytes| {
                seen.push(bytes.to_vec());
                most
            });
            buffer.put(b'+');
        }
        assert_eq!(seen, [&b"abcde"[..], b"cde+", b"cde++"]);
        assert_eq!((buffer.buffered(), buffer.lost()), (1, 0));
    }

    #[test]
    fn nobody_linked_loses_bytes_and_says_so() {
        codegen::host::link();
        let buffer = create::<BufferOut>(10).unwrap();
        buffer.write(&[1; 25]);
        assert_eq!((buffer.lost(), buffer.buffered()), (20, 5));
        buffer.flush();
        assert_eq!(buffer.lost(), 25);
        assert!(create::<BufferOut>(0).is_err() && create::<BufferOut>(65536).is_err());
    }

    #[test]
    fn the_hot_path_is_figure_3_2() {
        codegen::host::link();
        let routine = create::<BufferOut>(100).unwrap().routine();
        let mut text = String::new();
        codegen::disassemble_bytes(routine.bytes(), routine.entry(), &mut text, &|_, _| Ok(()))
            .unwrap();
        let hot = text
            .lines()
            .take_while(|line| !line.contains("ret"))
            .count();
        assert_eq!(hot + 1, 5, "{text}");
    }
}
