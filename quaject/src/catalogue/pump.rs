//! Pump: actively copies its input into its output, between a passive producer and a passive consumer.
//!
//! *Interface*: callouts `input` (gives a byte in eax, or a negative number when there is none) and `output`
//! (takes a byte in dil, or as the argument behind `this`); callentry `run` ([`Pump::run`]) copies until the
//! input has none. The thread that makes a pump active calls it again and again; the room that links decides
//! which thread, and how it waits. Both callentries are inlined into the pump's loop.
//!
//! Source: Massalin and Pu 1989, sections 2.3 and 5.2; dissertation, section 4.4.1.

use crate::kit::interfacer::{Callentry, Linkable, place};
use crate::kit::plug::Plug;
use crate::kit::regs::Regs;
use crate::kit::seam::Unmade;
use alloc::sync::Arc;
use codegen::methods::Reg;
use codegen::{Class, Draft, Routine, dynasm};
use sync::Monitor;

/// The contract of `run`: at most so many bytes; how many were copied.
type RunFn = extern "sysv64" fn(most: usize) -> usize;

type Ends = [Option<Arc<dyn Callentry>>; 2];

/// One pump.
pub struct Pump {
    ends: Monitor<Ends>,
    run: Plug<RunFn>,
}

crate::quaject! {
    /// Actively copies its input into its output
    class Pump = "Pump", spec (), error Unmade {
        callentry { RUN = "run" }
        callout { INPUT = "input" ("there is none"), OUTPUT = "output" ("throw the byte away") }
    }
    make |()| Ok(Pump {
        ends: Monitor::new(Ends::default()),
        run: Plug::new(generate(&Ends::default())?.0),
    });
}

static CODE: Class = Class::new("pump run");

impl Pump {
    /// Callentry `run`: copies until the input has none, or `most` bytes; returns how many.
    pub fn run(&self, most: usize) -> usize {
        self.run.call(|run| run(most))
    }
}

impl Linkable for Pump {
    fn relink(&self, port: usize, target: Option<Arc<dyn Callentry>>) -> Result<bool, Unmade> {
        if port != INPUT && port != OUTPUT {
            return Err(Unmade::BadSpec);
        }
        let mut ends = self.ends.lock();
        let mut new = ends.clone();
        new[port - INPUT] = target;
        let (routine, in_line) = generate(&new)?;
        self.run.replug(routine);
        let old = core::mem::replace(&mut *ends, new);
        // A linked object may take its own monitors when it is dropped.
        drop(ends);
        drop(old);
        Ok(in_line[port - INPUT])
    }
}

/// The routine, and which ends are inlined.
fn generate([input, output]: &Ends) -> Result<(Routine<RunFn>, [bool; 2]), Unmade> {
    let mut draft = Draft::new(&CODE, "run");
    let d = &mut draft;
    let mut in_line = [false; 2];
    // rbx = bytes still wanted, r12 = bytes copied: registers that no callentry changes.
    dynasm!(d ; .arch x64
        ; push rbx
        ; push r12
        ; mov rbx, rdi
        ; xor r12d, r12d
        ; next:
        ; cmp r12, rbx
        ; jae >done
    );
    match input {
        Some(input) => in_line[0] = place(d, &**input, Regs::NONE, &[]),
        None => dynasm!(d ; .arch x64 ; mov rax, -1),
    }
    dynasm!(d ; .arch x64 ; test rax, rax ; js >done);
    if let Some(output) = output {
        dynasm!(d ; .arch x64 ; movzx edi, al ; mov esi, edi);
        in_line[1] = place(d, &**output, Regs::of(&[Reg::Rbx, Reg::R12]), &[]);
    }
    dynasm!(d ; .arch x64
        ; inc r12
        ; jmp <next
        ; done:
        ; mov rax, r12
        ; pop r12
        ; pop rbx
        ; ret
    );
    // SAFETY: it keeps the System V convention.
    Ok((unsafe { Routine::from(draft.seal()?) }, in_line))
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::catalogue::buffer_in::{self, BufferIn};
    use crate::catalogue::queue::{ByteQueue, Parties, Spec, q_get, q_put};
    use crate::catalogue::serializer::{self, Serializer};
    use crate::catalogue::testing::either;
    use crate::kit::class::create;
    use crate::kit::interfacer::{Function, link};

    #[test]
    fn bytes_flow_from_the_passive_end_to_the_other() {
        codegen::host::link();
        let spec = Spec {
            producers: Parties::One,
            consumers: Parties::Many,
            size: 256,
            several_cpus: false,
            strings: false,
        };
        let (from, to) = (
            create::<ByteQueue>(spec).unwrap(),
            create::<ByteQueue>(spec).unwrap(),
        );
        let pump = create::<Pump>(()).unwrap();
        (0..200).for_each(|n| {
            from.put(n);
        });
        assert_eq!(pump.run(1000), 0);
        // Masked routines are too long to be inlined.
        let in_line = either(true, false);
        assert_eq!(link(&pump, INPUT, q_get(&from)).unwrap(), in_line);
        assert_eq!(pump.run(50), 50, "an unlinked output throws away");
        assert_eq!(link(&pump, OUTPUT, q_put(&to)).unwrap(), in_line);
        assert_eq!(pump.run(1000), 150);
        assert_eq!(pump.run(1000), 0);
        (50..200).for_each(|n| assert_eq!(to.get(), Some(n)));
        let seen = pump.header().link(OUTPUT).unwrap();
        assert_eq!((seen.name, seen.to), ("Q_put", to.header().number()));
    }

    extern "sysv64" fn give(left: usize, bytes: *mut u8, count: usize) -> usize {
        // SAFETY: the test passes its counter; the buffer has room for `count` bytes.
        unsafe {
            let left = &mut *(left as *mut usize);
            let count = count.min(*left);
            *left -= count;
            bytes.write_bytes(b'x', count);
            count
        }
    }

    extern "sysv64" fn take(sum: usize, byte: usize) -> usize {
        // SAFETY: the test passes its sum, and the monitor lets one in at a time.
        unsafe { *(sum as *mut usize) += byte };
        0
    }

    #[test]
    fn a_pump_fills_a_buffer_and_enters_a_monitor() {
        codegen::host::link();
        let (mut left, mut sum) = (1000usize, 0usize);
        let from = create::<BufferIn>(64).unwrap();
        let give = Function::of_bytes(&"give", give, (&raw mut left).expose_provenance());
        link(&from, buffer_in::FILL, give).unwrap();
        let by_turns = create::<Serializer>(()).unwrap();
        let take = Function::of_byte(&"take", take, (&raw mut sum).expose_provenance());
        link(&by_turns, serializer::TARGET, take.owned_by(9)).unwrap();
        let pump = create::<Pump>(()).unwrap();
        link(&pump, INPUT, buffer_in::get(&from)).unwrap();
        link(&pump, OUTPUT, serializer::enter(&by_turns)).unwrap();
        assert_eq!((pump.run(100), pump.run(2000), pump.run(1)), (100, 900, 0));
        let _turn = by_turns.hold();
        assert_eq!(sum, 1000 * usize::from(b'x'));
        let seen = by_turns.header().link(serializer::TARGET).unwrap();
        assert_eq!((seen.name, seen.to), ("take", 9));
    }
}
