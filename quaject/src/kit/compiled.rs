//! Callentries compiled in Rust, never inlined; the only argument is the quaject's address.
//!
//! *Interface*: [`callentry`] makes one, for the signatures `Event` and `Retry`. It keeps its quaject.

use crate::kit::class::{Body, Header, Ref};
use crate::kit::interfacer::{Callentry, Target};
use crate::kit::regs::Regs;
use alloc::sync::Arc;

/// The function. Its result is an outcome as the signature has it: 0, an attempt that has failed is given up.
pub type Function<B> = extern "sysv64" fn(&B) -> usize;

struct Compiled<B: Body> {
    quaject: Ref<B>,
    name: &'static &'static str,
    through: u16,
    function: Function<B>,
}

/// The callentry `name` of `quaject`, which goes on through the ports in `through`, a bit each.
pub fn callentry<B: Body>(
    quaject: &Ref<B>,
    name: &'static &'static str,
    through: u16,
    function: Function<B>,
) -> Target {
    Arc::new(Compiled {
        quaject: quaject.clone(),
        name,
        through,
        function,
    })
}

impl<B: Body> Callentry for Compiled<B> {
    fn name(&self) -> &'static &'static str {
        self.name
    }
    fn owner(&self) -> Option<&'static Header> {
        Some(self.quaject.header())
    }
    fn through(&self) -> u16 {
        self.through
    }
    fn changes(&self) -> Regs {
        Regs::SYSV
    }
    fn entry(&self) -> usize {
        self.function as *const () as usize
    }
    // The function borrows it from this, which keeps it.
    fn this(&self) -> Option<usize> {
        Some(core::ptr::from_ref(&*self.quaject).expose_provenance())
    }
    fn is_compiled(&self) -> bool {
        true
    }
}
