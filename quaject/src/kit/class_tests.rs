//! The life of quajects: made, counted, put aside, used again, stripped.

use super::*;
use crate::kit::interfacer::{Function, link};
use crate::kit::signature::Event;
use std::sync::atomic::AtomicUsize as Counter;

mod lamp {
    use super::*;

    pub static MADE: Counter = Counter::new(0);
    pub static GONE: Counter = Counter::new(0);

    pub struct Lamp {
        pub brightness: u32,
    }

    impl Drop for Lamp {
        fn drop(&mut self) {
            GONE.fetch_add(1, Ordering::Relaxed);
        }
    }

    crate::quaject! {
        /// Gives light
        class Lamp = "Lamp", spec u32, error OutOfMemory {
            callentry { SWITCH_ON = "switch_on", SWITCH_OFF = "switch_off" }
            callback { BURNT: Event = "burnt" ("stay dark") }
            callout { CURRENT: Event = "current" ("no current") }
        }
        make |brightness, _| {
            MADE.fetch_add(1, Ordering::Relaxed);
            Ok(Lamp { brightness })
        };
        renew |lamp: &mut Lamp, brightness, _| {
            lamp.brightness = brightness;
            Ok(())
        };
        idle |lamp: &mut Lamp| lamp.brightness = 0;
    }
}

use lamp::Lamp;

#[test]
fn a_member_is_counted_reused_and_stripped() {
    let class = &lamp::CLASS;
    let first = create::<Lamp>(40).unwrap();
    let number = first.header().number();
    let second = first.clone();
    assert_eq!((first.brightness, first.header().references()), (40, 2));
    drop(first);
    assert_eq!(class.active(), 1);
    drop(second);
    assert_eq!(class.active(), 0);

    let again = create::<Lamp>(60).unwrap();
    assert_eq!((again.header().number(), again.brightness), (number, 60));
    assert!(again.header().link(lamp::CURRENT.number()).is_none());
    assert_eq!(class.made(), (1, 1));
    assert_eq!(lamp::MADE.load(Ordering::Relaxed), 1);

    drop(again);
    assert!(inactive::reclaim() >= 1);
    assert_eq!(lamp::GONE.load(Ordering::Relaxed), 1);
    let fresh = create::<Lamp>(25).unwrap();
    assert_eq!((fresh.header().number(), fresh.brightness), (number, 25));
    assert_eq!(lamp::MADE.load(Ordering::Relaxed), 2);

    let mut found = 0;
    for_each_class(|class| {
        if class.name == "Lamp" {
            assert_eq!((class.purpose, class.ports.len()), ("Gives light", 4));
            assert_eq!(class.ports[lamp::BURNT.number()].default, "stay dark");
            class.for_each(|member| found += member.references());
        }
    });
    assert_eq!(found, 1);
}

mod elsewhere {
    use super::Event;

    crate::quaject! {
        /// Is elsewhere
        presence Elsewhere = "Elsewhere" { callout { OUT: Event = "out" ("nothing") } }
    }
}

#[test]
fn what_lives_elsewhere_is_present_too() {
    let there = elsewhere::Elsewhere::present().unwrap();
    extern "sysv64" fn come(_: usize) {}
    link(&there, elsewhere::OUT, Function::event(&"in", come, 0)).unwrap();
    let seen = there.header().link(elsewhere::OUT.number()).unwrap();
    assert_eq!((seen.name, seen.to), ("in", 0));
    assert_eq!(elsewhere::CLASS.active(), 1);
    let another = elsewhere::CLASS.tally();
    assert_eq!(elsewhere::CLASS.active(), 2);
    another.rest();
    assert_eq!(elsewhere::CLASS.active(), 1);
    another.again();
    assert_eq!(
        (elsewhere::CLASS.active(), elsewhere::CLASS.made()),
        (2, (2, 1))
    );
    another.rest();
    drop((there, another));
    assert_eq!(elsewhere::CLASS.active(), 0);
}
