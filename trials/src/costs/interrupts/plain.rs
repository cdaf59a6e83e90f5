//! Figure 3.7: the handler in Rust, called by a short routine that saves what such a call changes, or by the
//! kernel's common entry, which saves all registers.
//!
//! *Interface*: [`Plain`]; [`SoundDevice`] has the sources, for [`super::assembler`], too.
//!
//! *Unsafe*: the handler's entry; places in a buffer.

use core::arch::naked_asm;
use core::cell::UnsafeCell;
use core::mem::offset_of;
use core::sync::atomic::{AtomicBool, AtomicPtr, AtomicU32, AtomicU64, Ordering};

use machine::{irq, trap};
use sync::WaitList;

use super::{BUFFER, SAMPLE, Way};

/// A source: whether it is active, the place of the next sample, the samples that still fit, its register,
/// and how often the buffer was full.
#[repr(C)]
pub struct InterruptSource {
    pub active: AtomicBool,
    pub left: AtomicU32,
    pub register: AtomicU32,
    pub place: AtomicPtr<AtomicU32>,
    pub full: AtomicU64,
    buffer: UnsafeCell<[AtomicU32; BUFFER / SAMPLE]>,
}

// SAFETY: the buffer is atomic words.
unsafe impl Sync for InterruptSource {}

/// Samples of a buffer.
const SAMPLES: u32 = (BUFFER / SAMPLE) as u32;

impl InterruptSource {
    const fn new() -> InterruptSource {
        InterruptSource {
            active: AtomicBool::new(false),
            left: AtomicU32::new(0),
            register: AtomicU32::new(0),
            place: AtomicPtr::new(core::ptr::null_mut()),
            full: AtomicU64::new(0),
            buffer: UnsafeCell::new([const { AtomicU32::new(0) }; BUFFER / SAMPLE]),
        }
    }

    /// Takes a sample, if the source is active.
    #[inline(always)]
    fn serve(&self) {
        if !self.active.load(Ordering::Relaxed) {
            return;
        }
        let place = self.place.load(Ordering::Relaxed);
        let sample = self.register.load(Ordering::Relaxed);
        // SAFETY: `left` says that the place is in the buffer.
        unsafe { (*place).store(sample, Ordering::Relaxed) };
        self.place.store(place.wrapping_add(1), Ordering::Relaxed);
        let left = self.left.load(Ordering::Relaxed) - 1;
        self.left.store(left, Ordering::Relaxed);
        if left == 0 {
            self.begin();
        }
    }

    /// The buffer is full, or new.
    #[inline(never)]
    pub extern "sysv64" fn begin(&self) {
        self.full.fetch_add(1, Ordering::Relaxed);
        self.place
            .store(self.buffer.get().cast(), Ordering::Relaxed);
        self.left.store(SAMPLES, Ordering::Relaxed);
    }

    fn samples(&self) -> u64 {
        let full = self.full.load(Ordering::Relaxed);
        full * u64::from(SAMPLES) - u64::from(self.left.load(Ordering::Relaxed))
    }
}

/// All sources of the device: a disc, a converter for each direction; the interrupts' number, and those that
/// wait for any of it.
#[repr(C)]
pub struct SoundDevice {
    pub sources: [InterruptSource; 3],
    pub count: AtomicU64,
    pub waiters: WaitList,
}

/// The device.
pub static SOUND: SoundDevice = SoundDevice {
    sources: [const { InterruptSource::new() }; 3],
    count: AtomicU64::new(0),
    waiters: WaitList::new(),
};

impl SoundDevice {
    /// Has so many sources active.
    pub fn activate(&self, count: usize) {
        for (index, source) in self.sources.iter().enumerate() {
            source.begin();
            source.active.store(index < count, Ordering::Relaxed);
        }
    }

    /// Samples of the first source.
    pub fn samples(&self) -> u64 {
        self.sources[0].samples()
    }

    /// The work of an interrupt before the controller is told.
    #[inline(always)]
    fn serve(&self) {
        let count = self.count.load(Ordering::Relaxed);
        self.count.store(count + 1, Ordering::Relaxed);
        self.sources.iter().for_each(InterruptSource::serve);
    }

    /// The work behind that: wakes those that wait.
    #[inline(always)]
    fn wake(&self) {
        core::sync::atomic::fence(Ordering::SeqCst);
        if self.waiters.has_waiters() {
            self.waiters.wake_all();
        }
    }
}

/// Figure 3.7's `sound_intr`.
extern "sysv64" fn sound() {
    SOUND.serve();
    irq::eoi();
    SOUND.wake();
}

/// Saves the registers that a call may change.
#[unsafe(naked)]
unsafe extern "C" fn entry() {
    naked_asm!(
        "push rax",
        "push rcx",
        "push rdx",
        "push rsi",
        "push rdi",
        "push r8",
        "push r9",
        "push r10",
        "push r11",
        "cld",
        "call {sound}",
        "pop r11",
        "pop r10",
        "pop r9",
        "pop r8",
        "pop rdi",
        "pop rsi",
        "pop rdx",
        "pop rcx",
        "pop rax",
        "iretq",
        sound = sym sound,
    );
}

/// The same behind the kernel's common entry, which tells the controller afterwards.
fn common(_: &mut trap::TrapFrame) {
    SOUND.serve();
    SOUND.wake();
}

/// A handler in Rust.
pub struct Plain {
    all_registers: bool,
    vector: Option<u8>,
}

impl Plain {
    /// By a routine that saves what a call changes.
    pub fn called() -> Plain {
        Plain {
            all_registers: false,
            vector: None,
        }
    }

    /// By the common entry.
    pub fn with_all_registers() -> Plain {
        Plain {
            all_registers: true,
            vector: None,
        }
    }
}

impl Way for Plain {
    fn name(&self) -> &'static str {
        match self.all_registers {
            true => "Rust, all registers",
            false => "Rust",
        }
    }

    fn activate(&mut self, sources: usize) -> Option<u8> {
        SOUND.activate(sources);
        let vector = match self.vector {
            Some(vector) => vector,
            None => irq::alloc_vector()?,
        };
        self.vector = Some(vector);
        match self.all_registers {
            true => irq::set_handler(vector, common),
            // SAFETY: such a handler: it restores what it changes. Nobody waits, so it wakes nobody.
            false => unsafe { irq::set_image(vector, entry as *const () as usize) },
        }
        Some(vector)
    }

    fn samples(&self) -> u64 {
        SOUND.samples()
    }
}

/// Offsets for the assembler.
pub const SOURCE_LEN: usize = size_of::<InterruptSource>();
pub const COUNT: usize = offset_of!(SoundDevice, count);
pub const WAITERS: usize = offset_of!(SoundDevice, waiters);
pub const ACTIVE: usize = offset_of!(InterruptSource, active);
pub const LEFT: usize = offset_of!(InterruptSource, left);
pub const REGISTER: usize = offset_of!(InterruptSource, register);
pub const PLACE: usize = offset_of!(InterruptSource, place);
