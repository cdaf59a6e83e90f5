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

use crate::kit::class::Ref;
use crate::kit::interfacer::{Callentry, Linkable, place};
use crate::kit::near::Block;
use crate::kit::plug::Plug;
use crate::kit::regs::Regs;
use crate::kit::seam::{Unmade, near};
use alloc::sync::Arc;
use codegen::methods::Reg;
use codegen::{Class, Draft, Routine, dynasm};
use core::sync::atomic::{AtomicU16, AtomicU64, Ordering};
use sync::Monitor;

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
    size: usize,
    block: Block,
    flush: Monitor<Option<Arc<dyn Callentry>>>,
    put: Plug<PutFn>,
}

crate::quaject! {
    /// Data buffering on the way out
    class BufferOut = "BufferOut", spec usize, error Unmade {
        callentry { PUT = "put", WRITE = "write", FLUSH = "flush" }
        callout { FLUSH_OUT = "flush" ("throw the bytes away and count them") }
    }
    make BufferOut::new;
}

static CODE: Class = Class::new("buffer put");

impl BufferOut {
    /// A buffer of `size` bytes, from 1 to 65535.
    fn new(size: usize) -> Result<BufferOut, Unmade> {
        if !(1..END).contains(&size) {
            return Err(Unmade::BadSpec);
        }
        let block = Block::new(size_of::<Words>() + size).ok_or(Unmade::OutOfMemory)?;
        let (put, _) = generate(size, &block, None)?;
        let buffer = BufferOut {
            size,
            block,
            flush: Monitor::new(None),
            put: Plug::new(put),
        };
        buffer.words().p.store(start(size), Ordering::Relaxed);
        Ok(buffer)
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

    /// Callentry `flush`: hands out the buffered bytes, if there are any. For targets that are Rust
    /// functions.
    pub fn flush(&self) {
        let count = self.buffered();
        if count == 0 {
            return;
        }
        let target = self.flush.lock().clone();
        self.words().p.store(start(self.size), Ordering::Relaxed);
        match target
            .as_deref()
            .and_then(|t| t.this().map(|this| (t, this)))
        {
            Some((target, this)) if target.is_compiled() => {
                // SAFETY: a compiled callentry that is linked to a callout of bytes is an `of_bytes`
                // function.
                let function: extern "sysv64" fn(usize, *mut u8, usize) -> usize =
                    unsafe { core::mem::transmute(target.entry()) };
                function(this, self.bytes(), count);
            }
            _ => {
                self.words().lost.fetch_add(count as u64, Ordering::Relaxed);
            }
        }
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

impl Linkable for BufferOut {
    fn relink(&self, port: usize, target: Option<Arc<dyn Callentry>>) -> Result<bool, Unmade> {
        if port != FLUSH_OUT {
            return Err(Unmade::BadSpec);
        }
        let mut flush = self.flush.lock();
        let (routine, in_line) = generate(self.size, &self.block, target.as_deref())?;
        self.put.replug(routine);
        *flush = target;
        Ok(in_line)
    }
}

/// P at the buffer's first byte.
fn start(size: usize) -> u16 {
    (END - size) as u16
}

fn generate(
    size: usize,
    block: &Block,
    flush: Option<&dyn Callentry>,
) -> Result<(Routine<PutFn>, bool), Unmade> {
    let base = near(block.at().as_ptr())?;
    let bytes = base + size_of::<Words>() as i64;
    // The byte at P = END - size is the first.
    let displacement =
        i32::try_from(bytes + size as i64 - END as i64).map_err(|_| Unmade::OutOfReach)?;
    let p = base as i32 + core::mem::offset_of!(Words, p) as i32;
    let lost = base as i32 + core::mem::offset_of!(Words, lost) as i32;
    let mut draft = Draft::new(&CODE, "put");
    let d = &mut draft;
    dynasm!(d ; .arch x64
        ; movzx eax, WORD [p]
        ; mov [rax + displacement], dil
        ; inc WORD [p]
        ; jz >full
        ; ret
        ; full:
        ; mov WORD [p], start(size) as i16
    );
    let in_line = match flush {
        Some(target) => {
            let arguments = [(Reg::Rsi, bytes as u64), (Reg::Rdx, size as u64)];
            place(d, target, Regs::NONE, &arguments)
        }
        None => {
            dynasm!(d ; .arch x64 ; add QWORD [lost], size as i32);
            false
        }
    };
    dynasm!(d ; .arch x64 ; ret);
    // SAFETY: it stores inside the block, which the quaject keeps beside the plug.
    Ok((unsafe { Routine::from(draft.seal()?) }, in_line))
}

/// Callentry `put` of `buffer` for the callout of another, which gives the byte in dil.
pub fn put(buffer: &Ref<BufferOut>) -> Arc<dyn Callentry> {
    Arc::new(Put(buffer.clone()))
}

struct Put(Ref<BufferOut>);

impl Callentry for Put {
    fn name(&self) -> &'static &'static str {
        &"put"
    }
    fn owner(&self) -> u32 {
        self.0.header().number()
    }
    fn changes(&self) -> Regs {
        Regs::SYSV
    }
    fn emit(&self, d: &mut Draft) -> bool {
        self.0.put.emit_call(d);
        true
    }
    fn entry(&self) -> usize {
        self.0.put.entry()
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
            link(&buffer, FLUSH_OUT, Function::of_bytes(&"take", take, to)).unwrap();
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
        codegen::disassemble_bytes(routine.bytes(), routine.entry(), &mut text).unwrap();
        let hot = text
            .lines()
            .take_while(|line| !line.contains("ret"))
            .count();
        assert_eq!(hot + 1, 5, "{text}");
    }
}
