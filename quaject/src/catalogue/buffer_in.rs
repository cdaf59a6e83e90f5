//! BufferIn: data buffering on the way in.
//!
//! *Interface* (table 4.2): callentries `get` ([`BufferIn::get`], or [`get`] for another's callout) and
//! `read`; callout `fill` gets the address and size of the empty buffer and returns how many bytes it put
//! there, 0 at the end. By default it always returns 0.
//!
//! `get` is the reverse of figure 3.2: P is incremented first and is 0 when no byte is left. Then `fill` is
//! called and its bytes are moved to the end of the buffer, so that P becomes 0 after the last byte. One
//! party at a time gets.
//!
//! Source: dissertation, section 3.3.1 and table 4.2.
//!
//! *Unsafe*: words in a near block; safety contracts of the generated `get` and of its signature.

use crate::kit::assembly::{Assembly, Continuation};
use crate::kit::class::{Header, Ref};
use crate::kit::interfacer::{Callentry, Entry, Target, call_with_bytes};
use crate::kit::near_memory::NearBlock;
use crate::kit::regs::Regs;
use crate::kit::routine_env::{RoutineError, near};
use crate::kit::signature::{Get, Read};
use alloc::sync::Arc;
use codegen::idioms::{Reg, constant};
use codegen::{Class, Draft, Label, Routine, dynasm};
use core::sync::atomic::{AtomicU16, Ordering};

/// The contract of `get`: a byte, or a negative number when there is nothing.
type GetFn = extern "sysv64" fn() -> isize;

/// P counts up to this, which in 16 bits is 0.
const END: usize = 1 << 16;

#[repr(C, align(64))]
struct Words {
    p: AtomicU16,
}

/// One buffer.
pub struct BufferIn {
    header: &'static Header,
    size: usize,
    block: NearBlock,
    get: Routine<GetFn>,
}

crate::quaject! {
    /// Data buffering on the way in
    class BufferIn = "BufferIn", spec usize, error RoutineError {
        callentry { GET: Get = "get", READ = "read" }
        callout { FILL: Read = "fill" ("nothing comes") }
    }
    make BufferIn::new;
    callentry |buffer: &Ref<BufferIn>, number| (number == GET).then(|| target(buffer));
}

static CODE: Class = Class::new("buffer get");

impl BufferIn {
    /// A buffer of `size` bytes, from 1 to 65534.
    fn new(size: usize, header: &'static Header) -> Result<BufferIn, RoutineError> {
        if !(1..END - 1).contains(&size) {
            return Err(RoutineError::BadSpec);
        }
        let block = NearBlock::new(size_of::<Words>() + size).ok_or(RoutineError::OutOfMemory)?;
        let get = generate(size, &block)?;
        let buffer = BufferIn {
            header,
            size,
            block,
            get,
        };
        buffer.words().p.store(EMPTY, Ordering::Relaxed);
        Ok(buffer)
    }

    fn words(&self) -> &Words {
        // SAFETY: the block begins with the words, zeroed.
        unsafe { self.block.at().cast::<Words>().as_ref() }
    }

    /// Callentry `get`: the next byte, or nothing when `fill` gave none.
    pub fn get(&self) -> Option<u8> {
        loop {
            let got = self.get.function()();
            if let Ok(byte) = u8::try_from(got) {
                return Some(byte);
            }
            if self.refill() == 0 {
                return None;
            }
        }
    }

    /// Callentry `read`: bytes until `into` is full or `fill` gives none.
    pub fn read(&self, into: &mut [u8]) -> usize {
        let taken = into.iter_mut().map_while(|place| {
            *place = self.get()?;
            Some(())
        });
        taken.count()
    }

    /// Bytes that `get` gives before it calls `fill`.
    pub fn buffered(&self) -> usize {
        END - 1 - usize::from(self.words().p.load(Ordering::Relaxed))
    }

    /// Calls `fill` and moves its bytes to the end of the buffer.
    fn refill(&self) -> usize {
        self.words().p.store(EMPTY, Ordering::Relaxed);
        let bytes = self.block.at().as_ptr().wrapping_add(size_of::<Words>());
        // SAFETY: so many bytes of the block lie there.
        let given = unsafe { call_with_bytes(self.header, FILL.number(), bytes, self.size) };
        let count = given.unwrap_or(0).min(self.size);
        if count > 0 {
            // SAFETY: both ranges lie inside the block.
            unsafe { core::ptr::copy(bytes, bytes.add(self.size - count), count) };
            let p = (END - 1 - count) as u16;
            self.words().p.store(p, Ordering::Relaxed);
        }
        count
    }
}

/// Callentry `get` of `buffer` for the callout of another. Filling may sleep.
pub fn get(buffer: &Ref<BufferIn>) -> Entry<Get> {
    // SAFETY: a byte or nothing comes out, in the registers of `Get`; it keeps the buffer.
    unsafe { Entry::new(target(buffer)) }
}

fn target(buffer: &Ref<BufferIn>) -> Target {
    Arc::new(Getting(buffer.clone()))
}

struct Getting(Ref<BufferIn>);

extern "sysv64" fn get_one(buffer: *const BufferIn) -> isize {
    // SAFETY: the callentry passes the buffer that it keeps.
    unsafe { &*buffer }.get().map_or(-1, isize::from)
}

/// As [`get_one`], after a look that has found nothing left.
extern "sysv64" fn fill_and_get(buffer: *const BufferIn) -> isize {
    // SAFETY: as above.
    let buffer = unsafe { &*buffer };
    match buffer.refill() {
        0 => -1,
        _ => buffer.get().map_or(-1, isize::from),
    }
}

impl Callentry for Getting {
    fn name(&self) -> &'static &'static str {
        &"get"
    }
    fn owner(&self) -> Option<&'static Header> {
        Some(self.0.header())
    }
    fn through(&self) -> u16 {
        1 << FILL.number()
    }
    fn changes(&self) -> Regs {
        Regs::of(&[Reg::Rax])
    }
    fn emit(&self, a: &mut Assembly, way: Continuation) -> bool {
        let empty = a.label();
        if emit(a, self.0.size, &self.0.block, empty).is_err() {
            return false;
        }
        let filled = a.label();
        a.bind(filled);
        let this = core::ptr::from_ref(&*self.0).expose_provenance();
        a.cold(|a| {
            a.bind(empty);
            let saved = way.live & Regs::SYSV;
            saved.save(a);
            constant(a, Reg::Rdi, this as u64);
            a.call_compiled(fill_and_get as *const () as usize, Regs::NONE);
            saved.restore(a);
            dynasm!(a ; .arch x64 ; test rax, rax ; jns =>filled ; jmp =>way.no);
        });
        true
    }
    fn entry(&self) -> usize {
        get_one as *const () as usize
    }
    fn this(&self) -> Option<usize> {
        Some(core::ptr::from_ref(&*self.0).expose_provenance())
    }
    fn is_compiled(&self) -> bool {
        true
    }
}

/// P when nothing is left: the next increment makes it 0.
const EMPTY: u16 = u16::MAX;

/// The next byte in eax; goes to `empty` when nothing is left.
fn emit(d: &mut Draft, size: usize, block: &NearBlock, empty: Label) -> Result<(), RoutineError> {
    let base = near(block.at().as_ptr())?;
    let bytes = base + size_of::<Words>() as i64;
    // After the increment P = END - 1 is the last byte of the buffer.
    let displacement =
        i32::try_from(bytes + size as i64 - END as i64).map_err(|_| RoutineError::OutOfReach)?;
    let p = base as i32 + core::mem::offset_of!(Words, p) as i32;
    dynasm!(d ; .arch x64
        ; inc WORD [p]
        ; jz =>empty
        ; movzx eax, WORD [p]
        ; movzx eax, BYTE [rax + displacement]
    );
    Ok(())
}

fn generate(size: usize, block: &NearBlock) -> Result<Routine<GetFn>, RoutineError> {
    let mut draft = Draft::new(&CODE, "get");
    let d = &mut draft;
    let empty = d.label();
    emit(d, size, block, empty)?;
    dynasm!(d ; .arch x64 ; ret ; =>empty ; mov rax, -1 ; ret);
    // SAFETY: it loads from the block, which the quaject keeps beside the routine.
    Ok(unsafe { Routine::from(draft.seal()?) })
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::kit::class::create;
    use crate::kit::interfacer::{Function, link};
    use std::sync::Mutex;

    extern "sysv64" fn give(from: usize, bytes: *mut u8, count: usize) -> usize {
        // SAFETY: the tests pass a leaked vector; the buffer has room for `count` bytes.
        unsafe {
            let mut from = (*(from as *const Mutex<Vec<u8>>)).lock().unwrap();
            let count = count.min(from.len()).min(33);
            bytes.copy_from_nonoverlapping(from.as_ptr(), count);
            from.drain(..count);
            count
        }
    }

    #[test]
    fn what_was_filled_in_is_got_in_order() {
        codegen::host::link();
        for size in [1, 2, 20, 33, 4000] {
            let wanted: Vec<u8> = (0..251).cycle().take(3000).collect();
            let from: &'static Mutex<Vec<u8>> = Box::leak(Box::new(Mutex::new(wanted.clone())));
            let buffer = create::<BufferIn>(size).unwrap();
            assert_eq!(buffer.get(), None);
            let at = core::ptr::from_ref(from) as usize;
            link(&buffer, FILL, Function::read(&"give", give, at)).unwrap();
            let mut got = vec![0; 4000];
            assert_eq!(buffer.buffered(), 0);
            got[0] = buffer.get().unwrap();
            assert_eq!(buffer.buffered(), size.min(33) - 1);
            let count = 1 + buffer.read(&mut got[1..]);
            assert!(got[..count] == wanted, "size {size}");
            assert_eq!((buffer.get(), buffer.get()), (None, None));
            from.lock().unwrap().push(7);
            assert_eq!(buffer.get(), Some(7));
            assert_eq!(buffer.buffered(), 0);
        }
    }
}
