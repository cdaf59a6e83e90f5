//! Signatures: what passes through a link. A callout or callback and the callentry that is linked to it have
//! the same.
//!
//! *Interface*: each signature is a type, [`Put`], [`Get`] and so on, so that the compiler checks a link in
//! the tree; its [`Shape`] has the number that is compared where a link is asked for by name, and what code
//! needs to know to call: where the outcome is.
//!
//! The registers are those of a System V call behind the object that the callentry is about: rdi is that
//! object for compiled code, arguments are in rsi and rdx, a single byte also in edi for generated code, the
//! result is in rax. A callentry that stands in its caller's code has two ends instead of a result: it falls
//! through when it is done, and goes to a label when it could not do it.
//!
//! Source: dissertation, sections 4.1.1 and 4.1.3 ("no runtime type checking is required");
//! docs/quaject.md, "Definition, creation, linking".

use codegen::{Draft, Label, dynasm};

/// Where a called callentry says whether it could do what it was called for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// It always can.
    Done,
    /// eax is 0 when it could not.
    Flag,
    /// rax is negative when it could not.
    Sign,
}

/// The record of a signature at run time.
#[derive(Debug)]
pub struct Shape {
    /// Its number, never used for another.
    pub number: u16,
    /// Its name in listings.
    pub name: &'static str,
    /// How a call of it ends.
    pub outcome: Outcome,
}

impl Shape {
    /// After a call: goes to `no` when it could not be done.
    pub(crate) fn test(&self, d: &mut Draft, no: Label) {
        match self.outcome {
            Outcome::Done => {}
            Outcome::Flag => dynasm!(d ; .arch x64 ; test eax, eax ; jz =>no),
            Outcome::Sign => dynasm!(d ; .arch x64 ; test rax, rax ; js =>no),
        }
    }
}

/// A signature.
pub trait Signature: 'static {
    /// The record of it at run time.
    const SHAPE: &'static Shape;
}

macro_rules! signatures {
    ($($(#[$doc:meta])* $name:ident = $number:literal, $outcome:ident;)*) => {$(
        $(#[$doc])*
        #[derive(Clone, Copy, Debug)]
        pub enum $name {}

        impl Signature for $name {
            const SHAPE: &'static Shape = &Shape {
                number: $number,
                name: stringify!($name),
                outcome: Outcome::$outcome,
            };
        }
    )*};
}

signatures! {
    /// Called from Rust only: nothing is linked to it.
    Direct = 0, Done;
    /// Something has happened. Nothing passes.
    Event = 1, Done;
    /// A byte goes in: in edi and in esi. Not done: there is no room.
    Put = 2, Flag;
    /// A byte comes out: in rax. Not done: there is none.
    Get = 3, Sign;
    /// An attempt has failed. Done: it is tried again. Not done: it is given up.
    Retry = 4, Flag;
    /// rdx bytes from address rsi on are to be filled; rax says how many were.
    Read = 5, Done;
    /// rdx bytes from address rsi on are handed over, until the return; rax says how many were taken.
    Write = 6, Done;
    /// A number comes out: in eax.
    Number = 7, Done;
    /// A byte passes: it goes in in edi and in esi, and comes out in eax, the same or another.
    Pass = 8, Done;
}
