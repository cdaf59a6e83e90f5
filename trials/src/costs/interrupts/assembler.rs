//! Figure 3.6: the best of an assembler's without generating code. Two registers are saved, and each source
//! is asked whether it is active.
//!
//! *Interface*: [`Assembler`]. It has the sources of [`super::plain`].
//!
//! *Unsafe*: the handler by hand.

use core::arch::naked_asm;

use machine::irq;

use super::plain::{
    ACTIVE, COUNT, InterruptSource, LEFT, PLACE, REGISTER, SOUND, SOURCE_LEN, WAITERS,
};
use super::{SAMPLE, Way};

/// The handler. It calls Rust where a buffer is full, or a thread waits.
#[unsafe(naked)]
unsafe extern "C" fn entry() {
    naked_asm!(
        "push rax",
        "push rdx",
        "inc qword ptr [rip + {sound} + {count}]",
        "cmp byte ptr [rip + {sound} + {active}], 0",
        "je 2f",
        "mov rdx, [rip + {sound} + {place}]",
        "mov eax, [rip + {sound} + {register}]",
        "mov [rdx], eax",
        "add rdx, {sample}",
        "mov [rip + {sound} + {place}], rdx",
        "dec dword ptr [rip + {sound} + {left}]",
        "jz 5f",
        "2:",
        "cmp byte ptr [rip + {sound} + {second} + {active}], 0",
        "je 3f",
        "mov rdx, [rip + {sound} + {second} + {place}]",
        "mov eax, [rip + {sound} + {second} + {register}]",
        "mov [rdx], eax",
        "add rdx, {sample}",
        "mov [rip + {sound} + {second} + {place}], rdx",
        "dec dword ptr [rip + {sound} + {second} + {left}]",
        "jz 6f",
        "3:",
        "cmp byte ptr [rip + {sound} + {third} + {active}], 0",
        "jne 7f",
        "4:",
        "lock add dword ptr [rsp], 0",
        "mov dword ptr [{eoi}], 0",
        "cmp qword ptr [rip + {sound} + {waiters}], 0",
        "jne 8f",
        "9:",
        "pop rdx",
        "pop rax",
        "iretq",
        "5:",
        "lea rdx, [rip + {sound}]",
        "lea rax, [rip + {begin}]",
        "call 20f",
        "jmp 2b",
        "6:",
        "lea rdx, [rip + {sound} + {second}]",
        "lea rax, [rip + {begin}]",
        "call 20f",
        "jmp 3b",
        // The third is never active here.
        "7:",
        "jmp 4b",
        "8:",
        "lea rax, [rip + {wake}]",
        "call 20f",
        "jmp 9b",
        // Calls rax with rdx, and keeps all other registers.
        "20:",
        "push rcx",
        "push rsi",
        "push rdi",
        "push r8",
        "push r9",
        "push r10",
        "push r11",
        "push rbp",
        "mov rbp, rsp",
        "and rsp, -16",
        "cld",
        "mov rdi, rdx",
        "call rax",
        "mov rsp, rbp",
        "pop rbp",
        "pop r11",
        "pop r10",
        "pop r9",
        "pop r8",
        "pop rdi",
        "pop rsi",
        "pop rcx",
        "ret",
        sound = sym SOUND,
        begin = sym InterruptSource::begin,
        wake = sym wake,
        count = const COUNT,
        active = const ACTIVE,
        left = const LEFT,
        register = const REGISTER,
        place = const PLACE,
        second = const SOURCE_LEN,
        third = const 2 * SOURCE_LEN,
        waiters = const WAITERS,
        sample = const SAMPLE,
        eoi = const irq::eoi_address() as i32,
    );
}

extern "sysv64" fn wake() {
    SOUND.waiters.wake_all();
}

/// The assembler's handler.
#[derive(Default)]
pub struct Assembler(Option<u8>);

impl Way for Assembler {
    fn name(&self) -> &'static str {
        "assembler"
    }

    fn activate(&mut self, sources: usize) -> Option<u8> {
        // The word that it compares is the list's.
        let word = core::ptr::from_ref(&SOUND.waiters) as usize;
        if SOUND.waiters.word_address() != word {
            return None;
        }
        SOUND.activate(sources);
        let vector = match self.0 {
            Some(vector) => vector,
            None => irq::alloc_vector()?,
        };
        self.0 = Some(vector);
        // SAFETY: such a handler: it restores what it changes.
        unsafe { irq::set_image(vector, entry as *const () as usize) };
        Some(vector)
    }

    fn samples(&self) -> u64 {
        SOUND.samples()
    }
}
