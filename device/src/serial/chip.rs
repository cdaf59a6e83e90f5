//! The callentries of a line's chip that turn a source on: a few instructions, which stand in their caller's
//! place.
//!
//! *Interface*: [`receiver_on`], [`transmitter_on`], to be linked to the callbacks of the line's queues:
//! `Q_full-1` of the input, `Q_empty+1` of the output (figure 4.2: "turn on send-complete").
//!
//! Both write the chip's interrupt mask from the line's word of what is enabled, so any number of parties may
//! do it at once and the last one leaves what all want.
//!
//! Source: dissertation, figure 4.2 and section 4.1.3 (a small callentry is copied into the callout).

use super::{INTERRUPTS, TRANSMIT_ON};
use alloc::sync::Arc;
use codegen::methods::Reg;
use codegen::{Class, Draft, OutOfCode, Routine, dynasm};
use quaject::interfacer::Callentry;
use quaject::regs::Regs;

static CLASS: Class = Class::new("serial.enable");

/// The description of a callentry.
#[derive(Clone, Copy)]
pub struct Chip {
    /// Its first port.
    pub port: u16,
    /// Sign-extended address of the word that holds the mask of enabled sources.
    pub mask: i32,
}

struct Switch {
    chip: Chip,
    owner: u32,
    /// Turned off and on again, which makes the chip interrupt when its transmitter is empty already.
    pulse: u8,
    called: Routine<extern "sysv64" fn()>,
}

/// Turns the receiver on: Serial_in number `owner`.
///
/// # Errors
/// [`OutOfCode`].
pub fn receiver_on(chip: Chip, owner: u32) -> Result<Arc<dyn Callentry>, OutOfCode> {
    make(chip, owner, 0)
}

/// Makes the transmitter interrupt: Serial_out number `owner`.
///
/// # Errors
/// [`OutOfCode`].
pub fn transmitter_on(chip: Chip, owner: u32) -> Result<Arc<dyn Callentry>, OutOfCode> {
    make(chip, owner, TRANSMIT_ON)
}

fn make(chip: Chip, owner: u32, pulse: u8) -> Result<Arc<dyn Callentry>, OutOfCode> {
    let mut draft = Draft::new(&CLASS, if pulse == 0 { "receive" } else { "transmit" });
    emit(&mut draft, chip, pulse);
    let d = &mut draft;
    dynasm!(d ; .arch x64 ; ret);
    // SAFETY: it writes the chip's interrupt mask, and changes what a System V function may.
    let called = unsafe { Routine::from(draft.seal()?) };
    Ok(Arc::new(Switch {
        chip,
        owner,
        pulse,
        called,
    }))
}

fn emit(d: &mut Draft, chip: Chip, pulse: u8) {
    let port = i32::from(chip.port + INTERRUPTS);
    dynasm!(d ; .arch x64 ; mov edx, port ; mov al, [chip.mask]);
    if pulse != 0 {
        dynasm!(d ; .arch x64
            ; and al, BYTE !(pulse as i8)
            ; out dx, al
            ; mov al, [chip.mask]
        );
    }
    dynasm!(d ; .arch x64 ; out dx, al);
}

impl Callentry for Switch {
    fn name(&self) -> &'static &'static str {
        &"enable"
    }
    fn owner(&self) -> u32 {
        self.owner
    }
    fn changes(&self) -> Regs {
        Regs::of(&[Reg::Rax, Reg::Rdx])
    }
    fn emit(&self, d: &mut Draft) -> bool {
        emit(d, self.chip, self.pulse);
        true
    }
    fn entry(&self) -> usize {
        self.called.entry()
    }
}
