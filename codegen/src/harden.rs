//! Hardening: what generated code does about a processor that runs ahead.
//!
//! *Interface*: [`harden`] once at boot, before anything is generated, says which [`Hardening`] there is;
//! generators ask [`hardening`], or use [`jump`], [`call`], [`call_rax`], [`clamp`], [`below`] and
//! [`user_address`], which emit the plain instructions where nothing is asked for.
//!
//! A *retpoline* is an indirect branch by `ret`: the processor's guess is where the `call` before it stands,
//! and there is a trap. Unlike compiled code's, this one pushes the target from where it lies and needs no
//! register. A *clamped* address has lost the bit that makes it the kernel's.
//! Source: Google, "Retpoline: a software construct for preventing branch-target-injection";
//! docs/security.md, "Speculation".

use crate::reg::Reg;
use crate::{Draft, Label, dynasm};

/// The measures that are asked for: a set.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Hardening(u8);

impl Hardening {
    /// Nothing: the code is as short as it can be.
    pub const NONE: Hardening = Hardening(0);
    /// Indirect branches are retpolines.
    pub const RETPOLINES: Hardening = Hardening(1);
    /// Users' addresses are clamped, and indexes are masked, where a bound was only compared.
    pub const MASKS: Hardening = Hardening(2);
    /// Everything.
    pub const ALL: Hardening = Hardening(3);

    /// This and `other`, if `yes`.
    pub const fn and(self, other: Hardening, yes: bool) -> Hardening {
        Hardening(if yes { self.0 | other.0 } else { self.0 })
    }

    /// Whether indirect branches are retpolines.
    pub const fn retpolines(self) -> bool {
        self.0 & Hardening::RETPOLINES.0 != 0
    }

    /// Whether addresses and indexes are masked.
    pub const fn masks(self) -> bool {
        self.0 & Hardening::MASKS.0 != 0
    }
}

#[cfg(not(any(test, feature = "host")))]
mod chosen {
    use super::Hardening;
    use core::sync::atomic::{AtomicU8, Ordering};

    static CHOSEN: AtomicU8 = AtomicU8::new(0);

    /// From now on generated code is hardened so.
    pub fn harden(hardening: Hardening) {
        CHOSEN.store(hardening.0, Ordering::Relaxed);
    }

    /// The chosen measures.
    #[inline]
    pub fn hardening() -> Hardening {
        Hardening(CHOSEN.load(Ordering::Relaxed))
    }
}

/// On a host the environment chooses, for all tests of a run: `HARDENING=all`.
#[cfg(any(test, feature = "host"))]
mod chosen {
    use super::Hardening;
    use std::sync::OnceLock;

    /// Not on a host.
    pub fn harden(_: Hardening) {}

    /// The chosen measures.
    pub fn hardening() -> Hardening {
        static CHOSEN: OnceLock<Hardening> = OnceLock::new();
        *CHOSEN.get_or_init(|| match std::env::var_os("HARDENING") {
            Some(word) if word == "all" => Hardening::ALL,
            _ => Hardening::NONE,
        })
    }
}

pub use chosen::{harden, hardening};

/// An indirect jump: `plain` emits it, `push` a push of its target, which rsp does not name. A retpoline
/// writes the two words below the stack pointer, and changes no register or flag.
pub fn jump(d: &mut Draft, plain: impl FnOnce(&mut Draft), push: impl FnOnce(&mut Draft)) {
    if !hardening().retpolines() {
        return plain(d);
    }
    let [trap, go] = core::array::from_fn(|_| d.label());
    dynasm!(d ; .arch x64
        ; call =>go
        ; =>trap
        ; pause
        ; lfence
        ; jmp =>trap
        ; =>go
        ; lea rsp, [rsp + 8]
    );
    push(d);
    dynasm!(d ; .arch x64 ; ret ; int3);
}

/// An indirect call, as [`jump`].
pub fn call(d: &mut Draft, plain: impl FnOnce(&mut Draft), push: impl FnOnce(&mut Draft)) {
    if !hardening().retpolines() {
        return plain(d);
    }
    let [branch, over] = core::array::from_fn(|_| d.label());
    dynasm!(d ; .arch x64 ; jmp =>over ; =>branch);
    jump(d, |_| (), push);
    dynasm!(d ; .arch x64 ; =>over ; call =>branch);
}

/// A call of the address in rax; `thunk` stands for the code that [`thunk`] puts behind the last of them.
/// Against [`call`] this saves the jump over the retpoline, since the code behind the call is the way on, and
/// an instruction within it, since a target in a register is written over the trap's address at once: the
/// stack is never without the address that the `ret` takes.
pub fn call_rax(d: &mut Draft, thunk: Label) {
    match hardening().retpolines() {
        true => dynasm!(d ; .arch x64 ; call =>thunk),
        false => dynasm!(d ; .arch x64 ; call rax),
    }
}

/// The retpoline of all calls by [`call_rax`] with this label. Stands where nothing falls into it.
pub fn thunk(d: &mut Draft, thunk: Label) {
    d.bind(thunk);
    if !hardening().retpolines() {
        return;
    }
    let [trap, go] = core::array::from_fn(|_| d.label());
    dynasm!(d ; .arch x64
        ; call =>go
        ; =>trap
        ; pause
        ; lfence
        ; jmp =>trap
        ; =>go
        ; mov [rsp], rax
        ; ret
        ; int3
    );
}

/// Goes to `leave` unless `reg` is a user's address. Where masks are asked for, the instruction that asks for
/// the top bit clears it: the processor may run ahead past the jump, but then with the cleared address, which
/// it has from this instruction and not from the jump. So no [`clamp`] is needed behind it. On the way on
/// `reg` is as before, as its bit was clear; otherwise the way leads by `foreign`, where [`foreign_address`]
/// sets the bit again. Changes flags.
#[allow(clippy::useless_conversion, reason = "in dynasm's expansion")]
pub fn user_address(d: &mut Draft, reg: Reg, foreign: Label, leave: Label) {
    if hardening().masks() {
        clamp(d, reg);
        dynasm!(d ; .arch x64 ; jc =>foreign);
    } else {
        let reg = reg as u8;
        dynasm!(d ; .arch x64 ; test Rq(reg), Rq(reg) ; js =>leave);
    }
}

/// Behind [`user_address`], where nothing falls into it: `reg` is what it was, and the way leads to `leave`.
pub fn foreign_address(d: &mut Draft, reg: Reg, foreign: Label, leave: Label) {
    d.bind(foreign);
    if hardening().masks() {
        let number = reg as u8;
        // bts r64, 63
        d.extend(&[0x48 | number >> 3, 0x0f, 0xba, 0xe8 | number & 7, 63]);
        dynasm!(d ; .arch x64 ; jmp =>leave);
    }
}

/// Where masks are asked for: what was found to be a user's address in `reg` cannot be another's, even where
/// the finding is not waited for: no address without its top bit is the kernel's. Changes the carry flag and
/// leaves the others undefined.
pub fn clamp(d: &mut Draft, reg: Reg) {
    if hardening().masks() {
        let number = reg as u8;
        // btr r64, 63
        d.extend(&[0x48 | number >> 3, 0x0f, 0xba, 0xf0 | number & 7, 63]);
    }
}

/// Where masks are asked for, behind a comparison of `reg` with its bound: `reg` is 0 unless it was below.
/// Changes `scratch` and flags.
#[allow(clippy::useless_conversion, reason = "in dynasm's expansion")]
pub fn below(d: &mut Draft, reg: Reg, scratch: Reg) {
    if hardening().masks() {
        let (reg, scratch) = (reg as u8, scratch as u8);
        dynasm!(d ; .arch x64 ; sbb Rq(scratch), Rq(scratch) ; and Rq(reg), Rq(scratch));
    }
}
