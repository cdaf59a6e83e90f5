//! The W^X audit: the rights in all page tables, checked against the promise of docs/security.md, "The
//! kernel's own memory".
//!
//! *Interface*: [`WxAudit::kernel`] reads the kernel's half, [`WxAudit::space`] a program's against it;
//! [`WxAudit::faults`] is what is not as promised; [`places`]. By no address is anything writable and
//! executable; a frame that is executable in the kernel is writable nowhere (but through `PATCHES`, while it
//! is written, not longer); the kernel's half has no page that programs reach, and a program's half none that
//! they do not; where tables are isolated, the root that a program runs on has its half and the gates.
//!
//! Tables change meanwhile. A fault is checked again: a freed frame of code becomes data.

use crate::kernel;
use crate::space::AddressSpace;
use crate::table::Mapping;
use abi::layout::{GATE, PAGE, PATCHES};
use alloc::vec::Vec;
use core::fmt::{self, Write};
use machine::clock::now_ns;
use machine::{entry_mitigations, paging};

/// A range of frames that the kernel can execute.
struct Code {
    physical: u64,
    length: u64,
    address: usize,
}

/// The findings.
pub struct WxAudit {
    code: Vec<Code>,
    /// Mappings seen, large ones counted once.
    pub mappings: usize,
    /// Bytes that the kernel can execute.
    pub executable: u64,
    /// Pages of the kernel seen in the roots that programs run on, where tables are isolated.
    pub gates: usize,
    /// Places that are not as promised.
    pub faults: usize,
    /// There was no memory to remember all code.
    pub short: bool,
    /// When windows that are open still have been so for too long.
    patient_until_ns: u64,
}

/// Much longer than a processor writes at a time, also where it has to share one of the host's.
const PATIENCE_NS: u64 = 2_000_000_000;

/// Where the kernel lies, as drawn by lot at boot: root's to know.
pub struct Places {
    /// The image, and with it the window.
    pub image: usize,
    /// The map of all memory.
    pub memory: usize,
    /// Generated code.
    pub code: usize,
    /// The first stack; the others follow.
    pub stacks: usize,
}

/// Where the kernel lies.
pub fn places() -> Places {
    Places {
        image: paging::image_address(),
        memory: paging::phys_to_virt(0),
        code: crate::code::first(),
        stacks: paging::stack_slot(0),
    }
}

/// The root entries of the kernel's half.
const KERNEL_HALF: core::ops::Range<usize> = 256..512;
/// Those of a program's.
const USER_HALF: core::ops::Range<usize> = 0..256;

/// Whether a mapping of a second root is a page of the gates, with its rights.
fn is_gate(m: Mapping) -> bool {
    entry_mitigations::gate_pages().any(|page| {
        let rights = (page.write, page.execute, false) == (m.write, m.execute, m.user);
        rights
            && m.length == PAGE as u64
            && (page.address, page.physical) == (m.address, m.physical)
    })
}

impl WxAudit {
    /// Reads the kernel's half; each fault is told to `out`.
    pub fn kernel(out: &mut dyn Write) -> Result<WxAudit, fmt::Error> {
        let mut survey = WxAudit {
            code: Vec::new(),
            mappings: 0,
            executable: 0,
            gates: 0,
            faults: 0,
            short: false,
            patient_until_ns: now_ns() + PATIENCE_NS,
        };
        let tables = kernel::tables();
        tables.each_mapping(KERNEL_HALF, &mut |m| survey.remember(m));
        survey.code.sort_unstable_by_key(|code| code.physical);
        let mut told = Ok(());
        tables.each_mapping(KERNEL_HALF, &mut |m| {
            if let Some(fault) = survey.fault_of(m, false) {
                survey.faults += 1;
                told = told.and(writeln!(
                    out,
                    "kernel {:#x}, {} KiB at {:#x}: {fault}",
                    m.address,
                    m.length >> 10,
                    m.physical
                ));
            }
        });
        told.map(|()| survey)
    }

    /// Reads a program's half.
    pub fn space(&mut self, space: &AddressSpace, out: &mut dyn Write) -> fmt::Result {
        let mut told = Ok(());
        if !space.shares_kernel() {
            self.faults += 1;
            told = writeln!(out, "a program's tables have a kernel's half of their own");
        }
        space.each_mapping(USER_HALF, &mut |m| {
            self.mappings += 1;
            if let Some(fault) = self.fault_of(m, true) {
                self.faults += 1;
                told = told.and(writeln!(out, "program {:#x}: {fault}", m.address));
            }
        });
        told.and(self.gates(space, out))
    }

    /// Reads what a program's second root has of the kernel.
    fn gates(&mut self, space: &AddressSpace, out: &mut dyn Write) -> fmt::Result {
        if paging::gate_entry().is_none() {
            return Ok(());
        }
        let mut told = Ok(());
        if !space.repeats_half() {
            self.faults += 1;
            told = writeln!(out, "a program runs on tables that are not its own");
        }
        space.each_gate_mapping(&mut |m| {
            self.gates += 1;
            if !is_gate(m) {
                self.faults += 1;
                told = told.and(writeln!(out, "gate {:#x}: of the kernel", m.address));
            }
        });
        told
    }

    #[expect(
        clippy::disallowed_methods,
        reason = "room is made, which may be refused"
    )]
    fn remember(&mut self, m: Mapping) {
        self.mappings += 1;
        if !m.execute {
            return;
        }
        self.executable += m.length;
        if let Some(last) = self.code.last_mut()
            && last.physical + last.length == m.physical
            && last.address as u64 + last.length == m.address as u64
        {
            last.length += m.length;
        } else if self.code.try_reserve(1).is_ok() {
            self.code.push(Code {
                physical: m.physical,
                length: m.length,
                address: m.address,
            });
        } else {
            self.short = true;
        }
    }

    /// The fault of a mapping.
    fn fault_of(&self, m: Mapping, of_program: bool) -> Option<&'static str> {
        if m.user != of_program {
            return Some("of the other half");
        }
        if !of_program && m.write && m.execute {
            return Some("writable and executable");
        }
        let window = (PATCHES..GATE).contains(&m.address);
        (m.write && self.is_code(m) && !(window && self.closes(m))).then_some("code, writable")
    }

    /// Whether a frame of `m` is executable by another address, still.
    fn is_code(&self, m: Mapping) -> bool {
        let end = m.physical + m.length;
        let after = self.code.partition_point(|code| code.physical < end);
        // Ranges of one frame by several addresses may overlap, so that ends need not ascend; there are few.
        self.code[..after].iter().any(|code| {
            let overlap = code.physical.max(m.physical);
            if overlap >= (code.physical + code.length).min(end) {
                return false;
            }
            let address = code.address + (overlap - code.physical) as usize;
            kernel::tables().mapping(address).is_some_and(|now| {
                now.execute && (now.physical..now.physical + now.length).contains(&overlap)
            }) && self.still(m)
        })
    }

    /// Whether the window `m` is closed before long: a processor writes with interrupts off.
    fn closes(&self, m: Mapping) -> bool {
        while self.still(m) {
            if now_ns() >= self.patient_until_ns {
                return false;
            }
            // Bound: a page of code that another CPU writes; two seconds for a whole survey, then the window
            // is told as one that stays open.
            core::hint::spin_loop();
        }
        true
    }

    /// Whether the kernel's mapping `m` is there still; a program's is, since its space is held.
    fn still(&self, m: Mapping) -> bool {
        m.user
            || kernel::tables()
                .mapping(m.address)
                .is_some_and(|now| now == m)
    }
}
