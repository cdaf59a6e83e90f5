//! The callentries of a line's chip that turn a source on or off: a few instructions, which stand in their
//! caller's place.
//!
//! *Interface*: [`receiver_off`], [`receiver_on`], [`transmitter_on`], to be linked to the callbacks of the
//! line's queues: `Q_full` and `Q_full-1` of the input, `Q_empty+1` of the output (figure 4.2: "turn on
//! send-complete").
//!
//! All write the chip's interrupt mask from the line's word of what is enabled, so any number of parties may
//! do it at once and the last one leaves what all want.
//!
//! Source: dissertation, figure 4.2 and section 4.1.3 (a small callentry is copied into the callout).
//!
//! *Unsafe*: safety contract of the callentries.

use super::{INTERRUPTS, RECEIVE_ON, TRANSMIT_ON};
use alloc::sync::Arc;
use codegen::idioms::Reg;
use codegen::{Class, Draft, Routine, dynasm};
use quaject::RoutineError;
use quaject::assembly::{Assembly, Continuation};
use quaject::class::Header;
use quaject::interfacer::{Callentry, Entry};
use quaject::regs::Regs;
use quaject::signature::{Event, Retry};

static CLASS: Class = Class::new("serial.enable");

/// The description of a callentry.
#[derive(Clone, Copy)]
pub struct Chip {
    /// Its first port.
    pub port: u16,
    /// Sign-extended address of the word that holds the mask of enabled sources.
    pub mask: i32,
}

/// The effect of a callentry on the chip's interrupt mask.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum What {
    /// The receiver is on again.
    ReceiverOn,
    /// The receiver is off: the attempt to put is given up.
    ReceiverOff,
    /// The transmitter is turned off and on again, which makes the chip interrupt when it is empty already.
    Pulse,
}

struct Switch {
    chip: Chip,
    owner: &'static Header,
    what: What,
    called: Routine<extern "sysv64" fn()>,
}

/// Turns the receiver on: callentry `enable` of the Serial_in `owner`.
///
/// # Errors
/// [`RoutineError`].
pub fn receiver_on(chip: Chip, owner: &'static Header) -> Result<Entry<Event>, RoutineError> {
    let made = make(chip, owner, What::ReceiverOn)?;
    // SAFETY: it writes the chip's interrupt mask, and changes what it says.
    Ok(unsafe { Entry::new(made) })
}

/// Turns the receiver off: callentry `disable` of the Serial_in `owner`.
///
/// # Errors
/// [`RoutineError`].
pub fn receiver_off(chip: Chip, owner: &'static Header) -> Result<Entry<Retry>, RoutineError> {
    let made = make(chip, owner, What::ReceiverOff)?;
    // SAFETY: as above; it gives up, in line and called.
    Ok(unsafe { Entry::new(made) })
}

/// Makes the transmitter interrupt: callentry `enable` of the Serial_out `owner`.
///
/// # Errors
/// [`RoutineError`].
pub fn transmitter_on(chip: Chip, owner: &'static Header) -> Result<Entry<Event>, RoutineError> {
    let made = make(chip, owner, What::Pulse)?;
    // SAFETY: as above.
    Ok(unsafe { Entry::new(made) })
}

fn make(chip: Chip, owner: &'static Header, what: What) -> Result<Arc<Switch>, RoutineError> {
    let name = match what {
        What::ReceiverOn | What::ReceiverOff => "receive",
        What::Pulse => "transmit",
    };
    let mut draft = Draft::new(&CLASS, name);
    emit(&mut draft, chip, what);
    let d = &mut draft;
    if what == What::ReceiverOff {
        dynasm!(d ; .arch x64 ; xor eax, eax);
    }
    dynasm!(d ; .arch x64 ; ret);
    // SAFETY: it writes the chip's interrupt mask, and changes what a System V function may.
    let called = unsafe { Routine::from(draft.seal()?) };
    Ok(Arc::new(Switch {
        chip,
        owner,
        what,
        called,
    }))
}

fn emit(d: &mut Draft, chip: Chip, what: What) {
    let port = i32::from(chip.port + INTERRUPTS);
    dynasm!(d ; .arch x64 ; mov edx, port ; mov al, [chip.mask]);
    match what {
        What::ReceiverOn => {}
        What::ReceiverOff => dynasm!(d ; .arch x64 ; and al, BYTE !(RECEIVE_ON as i8)),
        What::Pulse => dynasm!(d ; .arch x64
            ; and al, BYTE !(TRANSMIT_ON as i8)
            ; out dx, al
            ; mov al, [chip.mask]
        ),
    }
    dynasm!(d ; .arch x64 ; out dx, al);
}

impl Callentry for Switch {
    fn name(&self) -> &'static &'static str {
        if self.what == What::ReceiverOff {
            &"disable"
        } else {
            &"enable"
        }
    }
    fn owner(&self) -> Option<&'static Header> {
        Some(self.owner)
    }
    fn changes(&self) -> Regs {
        Regs::of(&[Reg::Rax, Reg::Rdx])
    }
    fn changes_when_called(&self) -> Regs {
        self.changes()
    }
    fn emit(&self, a: &mut Assembly, way: Continuation) -> bool {
        emit(a, self.chip, self.what);
        if self.what == What::ReceiverOff {
            dynasm!(a ; .arch x64 ; jmp =>way.no);
        }
        true
    }
    fn entry(&self) -> usize {
        self.called.entry()
    }
}
