//! The interfacer: connects a callback or callout of one quaject with a callentry of another.
//!
//! *Interface*: a [`Callentry`] is the target of a link; [`Function`] makes one of a Rust function. [`link`]
//! and [`unlink`] connect a port of a [`Linkable`] quaject, which then generates its code again with the
//! callentry in the port's place and publishes it. Generators insert a callentry with [`place`]: a small one
//! that may be copied is inlined (the layers collapse), a large one is called. In both cases only those
//! registers are saved that are live across the place and that the callentry changes.
//!
//! Source: dissertation, sections 3.2.2 and 4.1.3.

use crate::kit::class::{Body, Ref};
use crate::kit::regs::Regs;
use crate::kit::seam::Unmade;
use alloc::sync::Arc;
use codegen::methods::{Reg, constant};
use codegen::{Draft, dynasm};

/// Bytes of a callentry's body that a place is willing to hold.
pub const IN_LINE: usize = 32;

/// Something that a callback or callout can be linked to.
pub trait Callentry: Send + Sync {
    /// Its name, as shown beside the port that is linked to it.
    fn name(&self) -> &'static &'static str;

    /// Number of the quaject that it belongs to; 0 for a function of the kernel.
    fn owner(&self) -> u32 {
        0
    }

    /// The registers that its code changes.
    fn changes(&self) -> Regs;

    /// Emits the body for a caller's place: arguments in the registers of the port's convention, falling
    /// through at the end or leaving the caller by `ret`. False when there is no body that may be copied.
    fn emit(&self, _d: &mut Draft) -> bool {
        false
    }

    /// Entry of the shared code, which ends in `ret`.
    fn entry(&self) -> usize;

    /// The value of rdi for a call: the callentry's object.
    fn this(&self) -> Option<usize> {
        None
    }

    /// Whether the code wants the stack aligned, as compiled code does.
    fn is_compiled(&self) -> bool {
        false
    }
}

/// A Rust function as a callentry. It gets `this`, then the port's arguments.
pub struct Function {
    name: &'static &'static str,
    owner: u32,
    entry: usize,
    this: usize,
}

impl Function {
    /// `entry` called with `this`.
    pub fn new(
        name: &'static &'static str,
        entry: extern "sysv64" fn(usize),
        this: usize,
    ) -> Arc<Self> {
        Self::make(name, entry as usize, this)
    }

    /// `entry` called with `this` and a string of bytes, for ports that hand one over.
    pub fn of_bytes(
        name: &'static &'static str,
        entry: extern "sysv64" fn(usize, *mut u8, usize) -> usize,
        this: usize,
    ) -> Arc<Self> {
        Self::make(name, entry as usize, this)
    }

    /// `entry` called with `this` and one argument, for ports that hand over a byte or another number.
    pub fn of_byte(
        name: &'static &'static str,
        entry: extern "sysv64" fn(usize, usize) -> usize,
        this: usize,
    ) -> Arc<Self> {
        Self::make(name, entry as usize, this)
    }

    fn make(name: &'static &'static str, entry: usize, this: usize) -> Arc<Self> {
        Arc::new(Function {
            name,
            owner: 0,
            entry,
            this,
        })
    }

    /// The same as a callentry of quaject number `owner`.
    pub fn owned_by(&self, owner: u32) -> Arc<Self> {
        Arc::new(Function { owner, ..*self })
    }
}

impl Callentry for Function {
    fn name(&self) -> &'static &'static str {
        self.name
    }
    fn owner(&self) -> u32 {
        self.owner
    }
    fn changes(&self) -> Regs {
        Regs::SYSV
    }
    fn entry(&self) -> usize {
        self.entry
    }
    fn this(&self) -> Option<usize> {
        Some(self.this)
    }
    fn is_compiled(&self) -> bool {
        true
    }
}

/// Inserts `target` into a caller, where the registers `live` are needed afterwards and `arguments` are its
/// constant arguments. Changes only flags and registers that are not live. Returns whether it is inlined.
pub fn place(d: &mut Draft, target: &dyn Callentry, live: Regs, arguments: &[(Reg, u64)]) -> bool {
    let given = arguments
        .iter()
        .fold(Regs::NONE, |set, (reg, _)| set | Regs::of(&[*reg]));
    let this = target.this().map_or(Regs::NONE, |_| Regs::of(&[Reg::Rdi]));
    let saved = live & (target.changes() | given | this);
    let mark = d.mark();
    saved.save(d);
    let before = d.len();
    arguments
        .iter()
        .for_each(|(reg, value)| constant(d, *reg, *value));
    if target.emit(d) && d.len() - before <= IN_LINE {
        saved.restore(d);
        return true;
    }
    d.rewind(mark);
    saved.save(d);
    arguments
        .iter()
        .for_each(|(reg, value)| constant(d, *reg, *value));
    if let Some(this) = target.this() {
        constant(d, Reg::Rdi, this as u64);
    }
    if target.is_compiled() {
        dynasm!(d ; .arch x64 ; push rbp ; mov rbp, rsp ; and rsp, -16);
        d.call_abs(target.entry());
        dynasm!(d ; .arch x64 ; mov rsp, rbp ; pop rbp);
    } else {
        d.call_abs(target.entry());
    }
    saved.restore(d);
    false
}

/// A quaject whose ports can be linked after it was made.
pub trait Linkable: Body {
    /// Generates the code around `port` anew, with `target` in its place or its default action, and publishes
    /// it. Returns whether the target is inlined.
    ///
    /// # Errors
    /// [`Unmade`]; everything then stays as it was.
    fn relink(&self, port: usize, target: Option<Arc<dyn Callentry>>) -> Result<bool, Unmade>;
}

/// Links port number `port` of `from` to `to`; returns whether the layers collapsed. A linked port gets the
/// new link.
///
/// # Errors
/// [`Unmade`]; everything then stays as it was.
pub fn link<B: Linkable>(
    from: &Ref<B>,
    port: usize,
    to: Arc<dyn Callentry>,
) -> Result<bool, Unmade> {
    let (name, owner) = (to.name(), to.owner());
    let in_line = from.relink(port, Some(to))?;
    from.header().note_link(port, Some(name), owner, in_line);
    Ok(in_line)
}

/// Gives a port its default action back.
///
/// # Errors
/// [`Unmade`]; everything then stays as it was.
pub fn unlink<B: Linkable>(from: &Ref<B>, port: usize) -> Result<(), Unmade> {
    from.relink(port, None)?;
    from.header().note_link(port, None, 0, false);
    Ok(())
}
