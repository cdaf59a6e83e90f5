//! Splitter: hands recorded frames to all that record, by a routine that is generated for exactly these.
//!
//! *Interface*: [`Splitter::set`] says which [`Ear`]s there are, and
//! [`split`] is the callentry for a Sound_AD's `put_sample`. A ring without room for a block loses the
//! block, which is counted; the others get it.
//!
//! Source: dissertation, section 3.3.3.
//!
//! *Unsafe*: promises of the routine and of its signature.

use super::ear::{Ear, PUT_FRAMES};
use crate::kit::assembly::{Assembly, Made, Published, Way};
use crate::kit::class::{Header, Holder, Ref};
use crate::kit::interfacer::{Callentry, Entry, Target};
use crate::kit::regs::Regs;
use crate::kit::seam::Unmade;
use crate::kit::signature::Write;
use alloc::sync::Arc;
use codegen::methods::Reg;
use codegen::{Class, Draft, dynasm};
use sync::Monitor;

/// As [`super::MixFn`].
type SplitFn = unsafe extern "C" fn();

static CODE: Class = Class::new("split");

/// One splitter.
pub struct Splitter {
    header: &'static Header,
    ears: Monitor<Arc<[Ref<Ear>]>>,
    split: Published<SplitFn>,
}

crate::quaject! {
    /// Hands sound to several
    class Splitter = "Splitter", spec (), error Unmade {
        callentry { SPLIT: Write = "split" }
    }
    make |(), header| Splitter::new(header);
    remake Splitter::remake;
    callentry |splitter: &Ref<Splitter>, number| (number == SPLIT).then(|| target(splitter));
}

impl Splitter {
    fn new(header: &'static Header) -> Result<Splitter, Unmade> {
        let none: Arc<[Ref<Ear>]> = Arc::new([]);
        Ok(Splitter {
            header,
            ears: Monitor::new(none.clone()),
            split: Published::new(generate(&none, header)?),
        })
    }

    /// Those that hear from now on, at most [`super::MOST`].
    ///
    /// # Errors
    /// [`Unmade`]; they then stay as they were.
    pub fn set(&self, ears: Arc<[Ref<Ear>]>) -> Result<(), Unmade> {
        if ears.len() > super::MOST {
            return Err(Unmade::BadSpec);
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

    fn remake(&self, _: usize) -> Result<(), Unmade> {
        let present = self.ears.lock();
        self.split.publish(generate(&present, self.header)?);
        Ok(())
    }
}

fn generate(ears: &Arc<[Ref<Ear>]>, header: &'static Header) -> Result<Made<SplitFn>, Unmade> {
    let mut a = Assembly::new(&CODE, "split", Some(Holder::Member(header)));
    emit(&mut a, ears)?;
    dynasm!(a ; .arch x64 ; ret);
    // SAFETY: the code keeps the contract, and its rings with it.
    unsafe { a.seal(Some(Arc::new(ears.clone()))) }
}

/// The block is at rsi, its bytes in rdx; rax says how many were taken: all.
fn emit(a: &mut Assembly, ears: &[Ref<Ear>]) -> Result<(), Unmade> {
    dynasm!(a ; .arch x64 ; mov r8, rsi ; mov r9d, edx ; cld);
    for ear in ears {
        let lost = ear.lost_at()?;
        if ear.is_staged()
            && let Some(link) = a.consult(ear.header(), PUT_FRAMES.number())
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
    ears: Arc<[Ref<Ear>]>,
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
    fn emit(&self, a: &mut Assembly, _: Way) -> bool {
        self.ears.len() <= 1 && emit(a, &self.ears).is_ok()
    }
    fn entry(&self) -> usize {
        self.splitter.split.entry()
    }
    fn call(&self, d: &mut Draft) {
        self.splitter.split.emit_call(d);
    }
}
