//! Splitter: hands recorded frames to all that record, by a routine that is generated for exactly these.
//!
//! *Interface*: [`Splitter::set`] says which [`Capture`]s there are, and
//! [`split`] is the callentry for a Sound_AD's `put_sample`. A ring without room for a block loses the
//! block, which is counted; the others get it.
//!
//! Source: dissertation, section 3.3.3.
//!
//! *Unsafe*: safety contracts of the routine and of its signature.

use super::capture::{Capture, PUT_FRAMES};
use crate::kit::assembly::{Assembly, Continuation, Made, Published};
use crate::kit::class::{Header, Holder, Ref};
use crate::kit::interfacer::{Callentry, Entry, Target};
use crate::kit::regs::Regs;
use crate::kit::routine_env::RoutineError;
use crate::kit::signature::Write;
use alloc::sync::Arc;
use codegen::idioms::Reg;
use codegen::{Class, Draft, dynasm};
use sync::Monitor;

/// As [`super::MixFn`].
type SplitFn = unsafe extern "C" fn();

static CODE: Class = Class::new("split");

/// One splitter.
pub struct Splitter {
    header: &'static Header,
    ears: Monitor<Arc<[Ref<Capture>]>>,
    split: Published<SplitFn>,
}

crate::quaject! {
    /// Hands sound to several
    class Splitter = "Splitter", spec (), error RoutineError {
        callentry { SPLIT: Write = "split" }
    }
    make |(), header| Splitter::new(header);
    remake Splitter::remake;
    callentry |splitter: &Ref<Splitter>, number| (number == SPLIT).then(|| target(splitter));
}

impl Splitter {
    fn new(header: &'static Header) -> Result<Splitter, RoutineError> {
        let none: Arc<[Ref<Capture>]> = Arc::new([]);
        Ok(Splitter {
            header,
            ears: Monitor::new(none.clone()),
            split: Published::new(generate(&none, header)?),
        })
    }

    /// Those that hear from now on, at most [`super::MOST`].
    ///
    /// # Errors
    /// [`RoutineError`]; they then stay as they were.
    pub fn set(&self, ears: Arc<[Ref<Capture>]>) -> Result<(), RoutineError> {
        if ears.len() > super::MOST {
            return Err(RoutineError::BadSpec);
        }
        // Bound: generating one routine for 16 rings at most.
        let mut present = self.ears.lock();
        let made = generate(&ears, self.header)?;
        let old = core::mem::replace(&mut *present, ears);
        self.split.publish(made);
        drop(present);
        drop(old);
        Ok(())
    }

    /// Entry of the routine, to look at.
    #[cfg(test)]
    pub(super) fn entry(&self) -> usize {
        self.split.entry()
    }

    fn remake(&self, _: usize) -> Result<(), RoutineError> {
        let present = self.ears.lock();
        self.split.publish(generate(&present, self.header)?);
        Ok(())
    }
}

fn generate(
    ears: &Arc<[Ref<Capture>]>,
    header: &'static Header,
) -> Result<Made<SplitFn>, RoutineError> {
    let mut a = Assembly::new(&CODE, "split", Some(Holder::Member(header)));
    emit(&mut a, ears)?;
    dynasm!(a ; .arch x64 ; ret);
    // SAFETY: the code keeps the contract, and its rings with it.
    unsafe { a.seal(Some(Arc::new(ears.clone()))) }
}

/// The block is at rsi, its bytes in rdx; rax says how many were taken: all.
fn emit(a: &mut Assembly, ears: &[Ref<Capture>]) -> Result<(), RoutineError> {
    dynasm!(a ; .arch x64 ; mov r8, rsi ; mov r9d, edx ; cld);
    for ear in ears {
        let lost = ear.lost_at()?;
        if ear.is_staged()
            && let Some(link) = a.use_link(ear.header(), PUT_FRAMES.number())
        {
            dynasm!(a ; .arch x64 ; mov rsi, r8 ; mov edx, r9d);
            a.place(link, Regs::of(&[Reg::R8, Reg::R9]), None, &[]);
            continue;
        }
        let q = ear.channel().queue().layout()?;
        let [full, wraps, put, done] = core::array::from_fn(|_| a.label());
        dynasm!(a ; .arch x64
            ; mov rsi, r8
            ; mov edx, r9d
            ; mov eax, q.size
            ; sub rax, [q.head]
            ; add rax, [q.tail]
            ; cmp rax, rdx
            ; jb =>full
            ; mov edi, [q.head]
            ; and edi, q.size - 1
            ; mov ecx, q.size
            ; sub ecx, edi
            ; add rdi, q.bytes
            ; cmp ecx, edx
            ; jb =>wraps
            ; mov ecx, edx
            ; shr ecx, 2
            ; rep movsd
            ; =>put
            ; add [q.head], rdx
            ; =>done
        );
        a.cold(|a| {
            dynasm!(a ; .arch x64
                ; =>wraps
                ; mov eax, edx
                ; sub eax, ecx
                ; shr ecx, 2
                ; rep movsd
                ; mov rdi, q.bytes
                ; mov ecx, eax
                ; shr ecx, 2
                ; rep movsd
                ; jmp =>put
                ; =>full
                ; inc QWORD [lost]
                ; jmp =>done
            );
        });
    }
    dynasm!(a ; .arch x64 ; mov eax, r9d);
    Ok(())
}

/// Callentry `split` of `splitter`.
pub fn split(splitter: &Ref<Splitter>) -> Entry<Write> {
    // SAFETY: it takes what it is given, and keeps the splitter.
    unsafe { Entry::new(target(splitter)) }
}

fn target(splitter: &Ref<Splitter>) -> Target {
    // Bound: copying 16 handles.
    let ears = splitter.ears.lock().clone();
    Arc::new(Split {
        splitter: splitter.clone(),
        ears,
    })
}

/// The callentry for the rings of one moment.
struct Split {
    splitter: Ref<Splitter>,
    ears: Arc<[Ref<Capture>]>,
}

impl Callentry for Split {
    fn name(&self) -> &'static &'static str {
        &"split"
    }
    fn owner(&self) -> Option<&'static Header> {
        Some(self.splitter.header())
    }
    fn changes(&self) -> Regs {
        Regs::SYSV
    }
    fn emit(&self, a: &mut Assembly, _: Continuation) -> bool {
        self.ears.len() <= 1 && emit(a, &self.ears).is_ok()
    }
    fn entry(&self) -> usize {
        self.splitter.split.entry()
    }
    fn call(&self, d: &mut Draft) {
        self.splitter.split.emit_call(d);
    }
}
