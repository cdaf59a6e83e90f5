//! The life of quajects: made, counted, put aside, used again, stripped.

use super::*;
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
            callback { BURNT = "burnt" ("stay dark") }
            callout { CURRENT = "current" ("no current") }
        }
        make |brightness| {
            MADE.fetch_add(1, Ordering::Relaxed);
            Ok(Lamp { brightness })
        };
        renew |lamp: &mut Lamp, brightness| {
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
    first
        .header()
        .note_link(lamp::CURRENT, Some(&"socket"), 7, true);
    let seen = first.header().link(lamp::CURRENT).unwrap();
    assert_eq!((seen.name, seen.to, seen.in_line), ("socket", 7, true));
    drop(first);
    assert_eq!(class.active(), 1);
    drop(second);
    assert_eq!(class.active(), 0);

    let again = create::<Lamp>(60).unwrap();
    assert_eq!((again.header().number(), again.brightness), (number, 60));
    assert!(again.header().link(lamp::CURRENT).is_none());
    assert_eq!(class.made(), (1, 1));
    assert_eq!(lamp::MADE.load(Ordering::Relaxed), 1);

    drop(again);
    assert!(reclaim() >= 1);
    assert_eq!(lamp::GONE.load(Ordering::Relaxed), 1);
    let fresh = create::<Lamp>(25).unwrap();
    assert_eq!((fresh.header().number(), fresh.brightness), (number, 25));
    assert_eq!(lamp::MADE.load(Ordering::Relaxed), 2);

    let mut found = 0;
    for_each_class(|class| {
        if class.name == "Lamp" {
            assert_eq!((class.purpose, class.ports.len()), ("Gives light", 4));
            assert_eq!(class.ports[lamp::BURNT].default, "stay dark");
            class.for_each(|member| found += member.references());
        }
    });
    assert_eq!(found, 1);
}

mod elsewhere {
    crate::quaject! {
        /// Is elsewhere
        presence Elsewhere = "Elsewhere" { callout { OUT = "out" ("nothing") } }
    }
}

#[test]
fn what_lives_elsewhere_is_present_too() {
    let there = elsewhere::Elsewhere::present().unwrap();
    there
        .header()
        .note_link(elsewhere::OUT, Some(&"in"), 3, false);
    assert_eq!(elsewhere::CLASS.active(), 1);
    let another = elsewhere::CLASS.tally();
    assert_eq!(elsewhere::CLASS.active(), 2);
    drop((there, another));
    assert_eq!(elsewhere::CLASS.active(), 0);
}
