//! Figure 3.5: a handler that is generated for exactly the sources that are active, each with the fast buffer
//! of section 3.3.1 in it.
//!
//! *Interface*: [`Generated`].
//!
//! *Unsafe*: words in near blocks.

use alloc::sync::Arc;
use core::sync::atomic::{AtomicU64, Ordering};

use codegen::{Draft, Label, dynasm};
use device::interrupt::{Interrupt, Source};
use quaject::assembly::Assembly;
use quaject::near_memory::NearBlock;
use sync::WaitList;

use super::{BUFFER, SAMPLE, SOURCES, Way};

/// The place counts up to this, which in 16 bits is 0.
const END: usize = 1 << 16;

/// A source: its register, its buffer with the 16-bit place of the next sample, and how often it was full.
struct Buffered {
    block: NearBlock,
    waiters: WaitList,
}

/// Bytes in the block before the buffer: the register, the place, the count.
const REGISTER: usize = 0;
const PLACE: usize = 8;
const FULL: usize = 16;
const FIRST: usize = 64;

impl Buffered {
    fn new() -> Option<Buffered> {
        let block = NearBlock::new(FIRST + BUFFER)?;
        let made = Buffered {
            block,
            waiters: WaitList::new(),
        };
        made.word(PLACE)
            .store((END - BUFFER) as u64, Ordering::Relaxed);
        Some(made)
    }

    fn word(&self, at: usize) -> &AtomicU64 {
        // SAFETY: the words before the buffer, aligned.
        unsafe { self.block.at().byte_add(at).cast::<AtomicU64>().as_ref() }
    }

    fn at(&self, at: usize) -> i32 {
        (self.block.at().as_ptr().expose_provenance() + at) as i32
    }

    fn samples(&self) -> u64 {
        let filled = self.word(PLACE).load(Ordering::Relaxed) - (END - BUFFER) as u64;
        let full = self.word(FULL).load(Ordering::Relaxed);
        (full * BUFFER as u64 + filled) / SAMPLE as u64
    }
}

impl Source for Buffered {
    fn emit(&self, a: &mut Assembly) {
        let done = a.label();
        let place = self.at(PLACE);
        dynasm!(a ; .arch x64
            ; mov edx, [place]
            ; mov eax, [self.at(REGISTER)]
            ; mov [rdx + self.at(FIRST + BUFFER) - END as i32], eax
            ; add WORD [place], BYTE 4
            ; jnz =>done
            ; mov DWORD [place], (END - BUFFER) as i32
            ; inc QWORD [self.at(FULL)]
            ; =>done
        );
    }

    fn look(&self, d: &mut Draft, wake: Label) {
        dynasm!(d ; .arch x64
            ; cmp QWORD [self.waiters.word_address() as i32], BYTE 0
            ; jne =>wake
        );
    }

    fn wake(&self) {
        self.waiters.wake_all();
    }
}

/// The handler and its sources.
pub struct Generated {
    sources: [Arc<Buffered>; SOURCES],
    interrupt: Option<Arc<Interrupt>>,
}

impl Generated {
    /// With no handler yet. None: no memory.
    pub fn new() -> Option<Generated> {
        let source = || Buffered::new().map(Arc::new);
        Some(Generated {
            sources: [source()?, source()?],
            interrupt: None,
        })
    }
}

impl Way for Generated {
    fn name(&self) -> &'static str {
        "generated"
    }

    fn activate(&mut self, sources: usize) -> Option<u8> {
        let interrupt = Interrupt::new("samples").ok()?;
        interrupt.renew().ok()?;
        for source in self.sources.iter().take(sources) {
            interrupt.add(source.clone(), None).ok()?;
        }
        let vector = interrupt.vector();
        self.interrupt = Some(interrupt);
        Some(vector)
    }

    fn samples(&self) -> u64 {
        self.sources[0].samples()
    }
}
