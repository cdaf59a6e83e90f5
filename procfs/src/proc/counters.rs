//! The counters of the machine, and the lists of its devices: `vmstat`, `zoneinfo`, `buddyinfo`,
//! `interrupts`, `softirqs`, `devices`.
//!
//! *Interface.* A function a text. Only what the kernel knows has a line: there is no disk, nothing is
//! written back or swapped, there are no soft interrupts, and one kind of memory.

use abi::errno::Result;
use abi::layout::PAGE;
use core::fmt::Write;

use file::fs::pseudofs::{TextOut, TextPiece};

/// There are none of these.
pub fn nothing(_: &mut TextOut) -> Result<()> {
    Ok(())
}

/// Pages by kind, and what has moved.
pub fn vmstat(out: &mut TextOut) -> Result<()> {
    let frames = vm::frame::stats();
    let stacks = vm::stack::stats();
    let rows = [
        ("nr_free_pages", frames.free),
        ("nr_file_pages", 0),
        ("nr_dirty", 0),
        ("nr_writeback", 0),
        ("nr_slab_reclaimable", 0),
        ("nr_slab_unreclaimable", vm::heap::stats().held / PAGE),
        // KiB.
        (
            "nr_kernel_stack",
            stacks.total * abi::layout::STACK_SIZE / 1024,
        ),
        ("nr_unstable", 0),
        ("pgpgin", 0),
        ("pgpgout", 0),
        ("pswpin", 0),
        ("pswpout", 0),
        ("pgmajfault", 0),
    ];
    for (name, value) in rows {
        // Writing to a string does not fail, here and below.
        let _ = writeln!(out, "{name} {value}");
    }
    Ok(())
}

/// The one kind of memory.
pub fn zones(out: &mut TextOut) -> Result<()> {
    let frames = vm::frame::stats();
    let _ = writeln!(out, "Node 0, zone   Normal");
    let _ = writeln!(out, "  pages free     {}", frames.free);
    // The pages that programs may not take.
    for (name, pages) in [
        ("min", frames.reserve),
        ("present", frames.total),
        ("managed", frames.total),
    ] {
        let _ = writeln!(out, "        {name:<8} {pages}");
    }
    Ok(())
}

/// How many free blocks of 1, 2, 4 and so on pages in a row there are.
pub fn blocks(out: &mut TextOut) -> Result<()> {
    let _ = write!(out, "Node 0, zone {:>8} ", "Normal");
    for count in vm::frame::blocks() {
        let _ = write!(out, "{count:6} ");
    }
    out.push('\n');
    Ok(())
}

fn head(out: &mut TextOut, before: usize) {
    let _ = write!(out, "{:before$}", "");
    for cpu in 0..machine::cpu::cpus() {
        let _ = write!(out, "CPU{cpu:<8}");
    }
    out.push('\n');
}

/// Interrupts taken so far: a record for each vector from number `from` less one on, by CPU. Devices'
/// generated handlers count by themselves, and run on the first CPU.
pub fn interrupts(from: u64, piece: &mut TextPiece) -> Result<()> {
    if from == 0 && !piece.record(1, |out| head(out, 11)) {
        return Ok(());
    }
    let cpus = machine::cpu::cpus();
    for vector in (0..=u8::MAX).skip(from.saturating_sub(1) as usize) {
        let next = u64::from(vector) + 2;
        if machine::irq::count(vector) == 0 {
            continue;
        }
        let more = piece.record(next, |out| {
            let _ = write!(out, "{vector:3}: ");
            for cpu in 0..cpus {
                let _ = write!(out, "{:10} ", machine::irq::count_on(cpu, vector));
            }
            let what = match vector {
                machine::irq::TIMER_VECTOR => "Local timer interrupts",
                machine::irq::SPURIOUS_VECTOR => "Spurious interrupts",
                _ => "Other CPUs' interrupts",
            };
            let _ = writeln!(out, " {what}");
        });
        if !more {
            return Ok(());
        }
    }
    let (mut place, mut more) = (DEVICES, true);
    device::interrupts(|name, vector, count| {
        place += 1;
        more = more
            && (place <= from
                || piece.record(place, |out| {
                    let _ = write!(out, "{vector:3}: ");
                    for cpu in 0..cpus {
                        let _ = write!(out, "{:10} ", if cpu == 0 { count } else { 0 });
                    }
                    let _ = writeln!(out, " {name}");
                }));
    });
    Ok(())
}

/// Where the devices begin among the records of [`interrupts`].
const DEVICES: u64 = 300;

/// Linux's kinds of soft interrupts, of which nobody takes any.
pub fn softirqs(out: &mut TextOut) -> Result<()> {
    head(out, 20);
    for name in [
        "HI", "TIMER", "NET_TX", "NET_RX", "BLOCK", "IRQ_POLL", "TASKLET", "SCHED", "HRTIMER",
        "RCU",
    ] {
        let _ = write!(out, "{name:>12}:");
        for _ in 0..machine::cpu::cpus() {
            let _ = write!(out, " {:10}", 0);
        }
        out.push('\n');
    }
    Ok(())
}

/// Major numbers of devices.
pub fn devices(out: &mut TextOut) -> Result<()> {
    out.push_str(
        "Character devices:\n  1 mem\n  4 ttyS\n  5 /dev/tty\n  5 /dev/console\n  5 /dev/ptmx\n136 pts\n\nBlock devices:\n",
    );
    Ok(())
}
