//! The state of the kernel: quajects, threads, calls nobody answers, devices, interrupts, memory, the log.
//!
//! *Interface.* One function a text.

use abi::errno::{Errno, Result};
use abi::layout::PAGE;
use abi::nr;
use core::fmt::Write;
use device::registry::Device;
use file::fs::klog::{self, LogRecord};
use machine::log::Stamp;
use machine::mitigate::Bug;
use quaject::class::{Class, Header, Placed};
use thread::{Thread, flags};

use super::kptr_restrict::KptrRestrict;
use crate::nosys;
use file::fs::pseudofs::{TextOut, TextPiece};
use process::tree;

/// The classes, their members, and where each port of a member leads, from place `from` on: a class's number
/// in the upper half, below it how many of its members to pass over.
pub fn quajects(kptr: KptrRestrict, from: u64, piece: &mut TextPiece) -> Result<()> {
    let (mut number, mut more) = (0, true);
    quaject::class::for_each_class(|class| {
        let (first, mut at) = (number << 32, 1);
        number += 1;
        if !more || from >= number << 32 {
            return;
        }
        if from <= first {
            more = piece.record(first + 1, |out| heading(class, out));
        }
        class.for_each(|quaject| {
            at += 1;
            if more && first + at > from && quaject.references() != 0 {
                more = piece.record(first + at, |out| member(kptr, class, quaject, out));
            }
        });
    });
    Ok(())
}

/// The class: its counts, and its ports.
pub fn heading(class: &Class, out: &mut TextOut) {
    let (created, reused) = class.made();
    // `TextOut` notes by itself that memory is out, here and below.
    let _ = writeln!(
        out,
        "{}: {}\n  {} in use, {created} made, {reused} used again",
        class.name,
        class.purpose,
        class.active(),
    );
    for port in class.ports {
        let _ = write!(out, "  {:?} {}", port.kind, port.name);
        if !port.default.is_empty() {
            let _ = write!(out, " (unlinked: {})", port.default);
        }
        out.push('\n');
    }
}

/// The quaject `member` of `class`: its links, and how they stand in code.
pub fn member(kptr: KptrRestrict, class: &Class, member: &Header, out: &mut TextOut) {
    let _ = writeln!(
        out,
        "  {} {}, {} references",
        class.name,
        member.number(),
        member.references()
    );
    for (index, port) in class.ports.iter().enumerate() {
        if let Some(linked) = member.link(index) {
            let _ = writeln!(
                out,
                "    {} -> {} {} at {:#x}",
                port.name,
                linked.name,
                linked.to,
                kptr.address(linked.entry)
            );
            (0..)
                .map_while(|at| member.site(index, at))
                .for_each(|placed| site(kptr, placed, out));
        }
    }
}

/// How a link stands in generated code.
fn site(kptr: KptrRestrict, placed: Placed, out: &mut TextOut) {
    let how = if placed.in_line { "in line" } else { "called" };
    let _ = write!(
        out,
        "      {how}, {} bytes at {:#x}",
        placed.bytes,
        kptr.address(placed.at)
    );
    if placed.cold_bytes > 0 {
        let (bytes, at) = (placed.cold_bytes, kptr.address(placed.cold));
        let _ = write!(out, ", {bytes} at {at:#x}");
    }
    if let Some(image) = codegen::image_at(placed.at) {
        let _ = write!(out, " in {} {}", image.class, image.name);
    }
    out.push('\n');
}

/// A row for each thread table entry from number `from` on, behind a heading.
pub fn threads(from: u64, piece: &mut TextPiece) -> Result<()> {
    let head = |out: &mut TextOut| {
        let _ = writeln!(
            out,
            "{:>6} {:<16} {:<8} cpu level {:>10} {:>14} {:>10} fp  {:>12}",
            "number", "name", "state", "quantum us", "CPU time us", "switches", "handle"
        );
    };
    if from == 0 && !piece.record(1, head) {
        return Ok(());
    }
    let mut more = true;
    thread::for_each(|thread| {
        let next = thread.index() as u64 + 2;
        if more && next > from {
            more = piece.record(next, |out| row(thread, out));
        }
    });
    Ok(())
}

/// The state of a thread.
pub fn state(thread: &Thread) -> &'static str {
    match thread.flags() {
        w if w & flags::DEAD != 0 => "ended",
        w if w & flags::NEW != 0 => "new",
        w if w & flags::STOPPED != 0 => "stopped",
        w if w & flags::ASLEEP != 0 => "asleep",
        _ => "ready",
    }
}

fn row(thread: &Thread, out: &mut TextOut) {
    let state = state(thread);
    let mut name = [0; thread::NAME_LEN];
    let _ = write!(out, "{:>6} ", thread.serial());
    out.plain_column(thread.name(&mut name), 16);
    let _ = writeln!(
        out,
        " {state:<8} {:>3} {:>5} {:>10} {:>14} {:>10} {:<3} {:>12}",
        thread.cpu(),
        thread.level(),
        thread.turn_ns() / 1000,
        thread.cpu_ns() / 1000,
        thread.switches(),
        if thread.uses_fp() { "yes" } else { "no" },
        thread.handle_number(),
    );
}

/// The rights that all page tables give, read through, and those that the processor forbids: faults first,
/// the count of them last.
pub fn rights(out: &mut TextOut) -> Result<()> {
    let guards = machine::paging::guards();
    let mut survey = vm::wx_audit::WxAudit::kernel(out).map_err(|_| Errno::ENOMEM)?;
    let mut spaces = 0;
    for process in tree::from(0) {
        let Some(space) = process.space() else {
            continue;
        };
        survey.space(&space, out).map_err(|_| Errno::ENOMEM)?;
        spaces += 1;
    }
    if survey.short {
        return Err(Errno::ENOMEM);
    }
    let places = vm::wx_audit::places();
    let _ = writeln!(
        out,
        "image {:#x}, memory {:#x}, code {:#x}, stacks {:#x}",
        places.image, places.memory, places.code, places.stacks
    );
    out.push_str("guards:");
    for name in guards.names() {
        let _ = write!(out, " {name}");
    }
    let _ = writeln!(
        out,
        "\n{} mappings of the kernel and {spaces} programs, {} KiB executable in the kernel, {} pages of gates\n{} faults",
        survey.mappings,
        survey.executable / 1024,
        survey.gates,
        survey.faults
    );
    Ok(())
}

/// Calls without a handler: number, name, how often.
pub fn nosys(out: &mut TextOut) -> Result<()> {
    for (number, count) in nosys::each() {
        let _ = writeln!(out, "{number:4} {:<24} {count}", nr::name(number));
    }
    Ok(())
}

/// Interrupts by vector: those that Rust handles, then those of the devices' generated handlers, with their
/// rates, and whether they are polled.
pub fn interrupts(out: &mut TextOut) -> Result<()> {
    let _ = writeln!(out, "{:>14}", "all CPUs");
    for vector in 0..=u8::MAX {
        let count = machine::irq::count(vector);
        if count != 0 {
            let name = match vector {
                machine::irq::TIMER_VECTOR => "timer",
                machine::irq::SPURIOUS_VECTOR => "spurious",
                _ => "device or other CPU",
            };
            let _ = writeln!(out, "{vector:3}: {count:10} {name}");
        }
    }
    device::interrupts(|name, vector, count| {
        let _ = write!(out, "{vector:3}: {count:10} {name} (generated)");
        if let Some(report) = device::interrupt_storm::source_report(vector) {
            let _ = write!(out, ", {} in a second", report.rate);
            if report.polls != 0 {
                let (cost, floods, polls) = (report.cost_ns, report.floods, report.polls);
                let _ = write!(out, ", {cost} ns each, {floods} floods, {polls} polls");
            }
            match report.interval_ns {
                0 => {}
                interval => {
                    let _ = write!(out, ", polled every {} us", interval / 1000);
                }
            }
        }
        out.push('\n');
    });
    Ok(())
}

/// The devices that are driven: where, the driver, the name, vectors and counts; then all names, and what
/// stands behind each.
pub fn devices(out: &mut TextOut) -> Result<()> {
    device::for_each(|at, driver, name, ways| {
        let _ = write!(out, "{at} {driver:<16}{:<12}", name.unwrap_or("-"));
        ways.for_each(|vector, count| {
            let _ = write!(out, " {vector}: {count}");
        });
        out.push('\n');
    });
    device::registry::for_each(|name, what| {
        let _ = write!(out, "name {name}: ");
        let _ = match what {
            Device::Serial(line) => match line.interrupts() {
                Some((vector, count)) => writeln!(out, "serial line, {vector}: {count}"),
                None => writeln!(out, "serial line, not started"),
            },
            Device::Port(port) => writeln!(out, "port {} of the virtio console", port.number()),
            Device::P9(_) => writeln!(out, "directory of the host"),
            Device::Sound(card) => writeln!(out, "sound, {} frames a second", card.rate()),
        };
    });
    Ok(())
}

/// The clients of the sound card, with the fill and flow of each.
pub fn sound(out: &mut TextOut) -> Result<()> {
    let _ = file::gauge::show_sound(out);
    Ok(())
}

/// The measures against the processor's defects: those that the command line asks for, those in force, and a
/// line for each defect.
pub fn mitigations(out: &mut TextOut) -> Result<()> {
    let plan = machine::mitigate::plan();
    let _ = write!(out, "mitigations={}:", plan.wish.name());
    for name in plan.measures.names() {
        let _ = write!(out, " {name}");
    }
    out.push('\n');
    for bug in Bug::ALL {
        let _ = write!(out, "{bug:?}: ");
        let _ = plan.tell(*bug, out);
        out.push('\n');
    }
    Ok(())
}

/// Memory by kind, in KiB.
pub fn memory(out: &mut TextOut) -> Result<()> {
    let frames = vm::frame::stats();
    let heap = vm::heap::stats();
    let code = codegen::stats();
    let stacks = vm::stack::stats();
    let mut row = |name: &str, bytes: usize| {
        let _ = writeln!(out, "{name:<34}{:>10} KiB", bytes.div_ceil(1024));
    };
    row("all frames", frames.total * PAGE);
    row("free frames", frames.free * PAGE);
    row("  known to be zero", frames.stocked * PAGE);
    row("  kept from programs", frames.reserve * PAGE);
    row("heap", heap.held);
    row("  in use", heap.used);
    row("generated code, memory", code.committed);
    row("  in use", code.bytes);
    row("tables, memory", vm::sparse::held());
    row("kernel stacks", stacks.total * abi::layout::STACK_SIZE);
    row(
        "  waiting for a thread",
        stacks.cached * abi::layout::STACK_SIZE,
    );
    let _ = writeln!(
        out,
        "{} routines exist, {} were generated",
        code.images, code.made
    );
    process::memory::shrink::for_each(|name, runs, frames| {
        let _ = writeln!(
            out,
            "given back {frames:>8} frames in {runs:>6} runs: {name}"
        );
    });
    let _ = writeln!(
        out,
        "{} frees wait for a grace period",
        sync::epoch::pending()
    );
    Ok(())
}

/// The lines of the kernel's log that the ring still holds from position `from` on.
pub fn log(from: u64, piece: &mut TextPiece) -> Result<()> {
    let (mut at, mut entry) = (from, LogRecord::blank());
    while klog::next(&mut at, &mut entry) {
        at = entry.record.next;
        let goes_on = piece.record(at, |out| {
            let _ = write!(out, "{}", Stamp(entry.record.stamp));
            out.push_bytes(entry.text());
            out.push_bytes(b"\n");
        });
        if !goes_on {
            break;
        }
    }
    Ok(())
}
