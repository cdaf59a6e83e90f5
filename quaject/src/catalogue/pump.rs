//! Pump: actively copies its input into its output, between a passive producer and a passive consumer.
//!
//! *Interface*: callouts `input` (gives a byte, or none) and `output`
//! (takes a byte, or does not); callentry `run` ([`Pump::run`]) copies until the
//! input has none. The thread that makes a pump active calls it again and again; which thread, and how it
//! waits, is the business of the room that links. Both callentries stand in the pump's one loop.
//!
//! Source: Massalin and Pu 1989, sections 2.3 and 5.2; dissertation, section 4.4.1.
//!
//! *Unsafe*: safety contract of `run`.

use crate::kit::assembly::{Assembly, Made, Published};
use crate::kit::class::{Header, Holder};
use crate::kit::regs::Regs;
use crate::kit::routine_env::RoutineError;
use crate::kit::signature::{Get, Put};
use codegen::idioms::Reg;
use codegen::{Class, Routine, dynasm};

/// The contract of `run`: at most so many bytes; how many were copied.
type RunFn = extern "sysv64" fn(most: usize) -> usize;

/// One pump.
pub struct Pump {
    header: &'static Header,
    run: Published<RunFn>,
}

crate::quaject! {
    /// Actively copies its input into its output
    class Pump = "Pump", spec (), error RoutineError {
        callentry { RUN = "run" }
        callout { INPUT: Get = "input" ("there is none"), OUTPUT: Put = "output" ("throw the byte away") }
    }
    make |(), header| {
        let run = Published::new(generate(header)?);
        Ok(Pump { header, run })
    };
    remake |pump: &Pump, _| {
        pump.run.publish(generate(pump.header)?);
        Ok(())
    };
}

static CODE: Class = Class::new("pump run");

impl Pump {
    /// Callentry `run`: copies until the input has none, or `most` bytes; returns how many.
    pub fn run(&self, most: usize) -> usize {
        self.run.call(|run| run(most))
    }

    /// The generated `run`, to look at.
    pub fn routine(&self) -> Routine<RunFn> {
        self.run.plugged()
    }
}

fn generate(header: &'static Header) -> Result<Made<RunFn>, RoutineError> {
    let mut a = Assembly::new(&CODE, "run", Some(Holder::Member(header)));
    let [next, done] = core::array::from_fn(|_| a.label());
    // rbx = bytes still wanted, r12 = bytes copied: registers that no callentry changes.
    dynasm!(a ; .arch x64
        ; push rbx
        ; push r12
        ; mov rbx, rdi
        ; xor r12d, r12d
        ; =>next
        ; cmp r12, rbx
        ; jae =>done
    );
    match a.use_link(header, INPUT.number()) {
        Some(link) => {
            a.place(link, Regs::NONE, Some(done), &[]);
        }
        None => dynasm!(a ; .arch x64 ; jmp =>done),
    }
    if let Some(link) = a.use_link(header, OUTPUT.number()) {
        dynasm!(a ; .arch x64 ; movzx edi, al ; mov esi, edi);
        a.place(link, Regs::of(&[Reg::Rbx, Reg::R12]), None, &[]);
    }
    dynasm!(a ; .arch x64
        ; inc r12
        ; jmp =>next
        ; =>done
        ; mov rax, r12
        ; pop r12
        ; pop rbx
        ; ret
    );
    // SAFETY: it keeps the System V convention.
    unsafe { a.seal(None) }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::catalogue::buffer_in::{self, BufferIn};
    use crate::catalogue::queue::{ByteQueue, Parties, Spec, q_get, q_put};
    use crate::catalogue::serializer::{self, Serializer};
    use crate::catalogue::testing::listing;
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
        assert!(link(&pump, INPUT, q_get(&from)).unwrap());
        assert_eq!(pump.run(50), 50, "an unlinked output throws away");
        assert!(link(&pump, OUTPUT, q_put(&to)).unwrap());
        assert_eq!(pump.run(1000), 150);
        assert_eq!(pump.run(1000), 0);
        (50..200).for_each(|n| assert_eq!(to.get(), Some(n)));
        let seen = pump.header().link(OUTPUT.number()).unwrap();
        assert_eq!((seen.name, seen.to), ("Q_put", to.header().number()));
        let hot = listing(&pump.routine());
        let hot = hot.split("ret").next().unwrap();
        assert!(!hot.contains("call"), "two layers and their pump: {hot}");
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
        1
    }

    #[test]
    fn a_pump_fills_a_buffer_and_enters_a_monitor() {
        codegen::host::link();
        let (mut left, mut sum) = (1000usize, 0usize);
        let from = create::<BufferIn>(64).unwrap();
        let give = Function::read(&"give", give, (&raw mut left).expose_provenance());
        link(&from, buffer_in::FILL, give).unwrap();
        let by_turns = create::<Serializer>(()).unwrap();
        let take = Function::put(&"take", take, (&raw mut sum).expose_provenance(), None);
        link(&by_turns, serializer::TARGET, take).unwrap();
        let pump = create::<Pump>(()).unwrap();
        link(&pump, INPUT, buffer_in::get(&from)).unwrap();
        link(&pump, OUTPUT, serializer::enter(&by_turns)).unwrap();
        assert_eq!((pump.run(100), pump.run(2000), pump.run(1)), (100, 900, 0));
        let _turn = by_turns.hold();
        assert_eq!(sum, 1000 * usize::from(b'x'));
        let seen = by_turns.header().link(serializer::TARGET.number()).unwrap();
        assert_eq!((seen.name, seen.to), ("take", 0));
        // The function is called from the monitor's own routine, and from the pump's, in which that stands.
        let sites = |at| by_turns.header().site(serializer::TARGET.number(), at);
        assert!(sites(1).is_some() && sites(2).is_none());
    }
}
