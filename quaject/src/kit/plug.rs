//! A patchable call target; an old target is freed after the last caller has left it.
//!
//! *Interface*: [`Plug::call`] runs the installed routine; [`Plug::replug`] installs another and keeps the
//! old one in a holding tank, a list of routines to free, until the count of callers inside is zero. So a
//! routine may call a sleeping procedure, and be replaced meanwhile. docs/glossary.md has the words of this:
//! plug, to replug, holding tank.
//!
//! Generated callers go through the word ([`Plug::emit_call`]); they hold the quaject whose plug it is, and
//! do not sleep inside.
//!
//! Source: replugging with the inside flag and the holding tank, Pu et al. 1995.
//!
//! *Unsafe*: calling what the word holds.

use crate::primitive::{AtomicU32, AtomicUsize, Ordering, in_order};
use alloc::vec::Vec;
use codegen::idioms::call_through;
use codegen::{Draft, Routine, dynasm};
use sync::Monitor;

struct Held<F> {
    plugged: Routine<F>,
    tank: Vec<Routine<F>>,
}

/// A word with the entry of a routine, and the count of threads inside.
pub struct Plug<F> {
    word: AtomicUsize,
    inside: AtomicU32,
    held: Monitor<Held<F>>,
}

impl<F: Copy> Plug<F> {
    /// With `routine` plugged.
    pub fn new(routine: Routine<F>) -> Plug<F> {
        Plug {
            word: AtomicUsize::new(routine.entry()),
            inside: AtomicU32::new(0),
            held: Monitor::new(Held {
                plugged: routine,
                tank: Vec::new(),
            }),
        }
    }

    /// Entry of the plugged routine at this instant.
    pub fn entry(&self) -> usize {
        self.word.load(Ordering::Acquire)
    }

    /// Emits a call through the word, so the caller always reaches the installed routine. Changes rax where
    /// the word is not near.
    pub fn emit_call(&self, d: &mut Draft) {
        let word = core::ptr::from_ref(&self.word).expose_provenance() as i64;
        match i32::try_from(word) {
            Ok(word) => call_through(d, word),
            Err(_) => {
                dynasm!(d ; .arch x64 ; mov rax, QWORD word);
                codegen::harden::call(
                    d,
                    |d| dynasm!(d ; .arch x64 ; call QWORD [rax]),
                    |d| dynasm!(d ; .arch x64 ; push QWORD [rax]),
                );
            }
        }
    }

    /// Calls the plugged routine through `f`.
    pub fn call<R>(&self, f: impl FnOnce(F) -> R) -> R {
        const { assert!(size_of::<F>() == size_of::<usize>()) };
        // Inside before the word is read, so a routine that is read here is not in the tank of a thread that
        // saw no one inside.
        self.inside.fetch_add(1, Ordering::SeqCst);
        in_order();
        let entry = self.word.load(Ordering::SeqCst);
        // SAFETY: the word holds the entry of a routine of this contract, which is held until no thread is
        // inside.
        let result = f(unsafe { core::mem::transmute_copy(&entry) });
        self.inside.fetch_sub(1, Ordering::SeqCst);
        result
    }

    /// Plugs `routine`. Sleeps while another replugs.
    pub fn replug(&self, routine: Routine<F>) {
        // Bound: one word and a list of old routines; only threads that replug.
        let mut held = self.held.lock();
        self.word.store(routine.entry(), Ordering::SeqCst);
        let old = core::mem::replace(&mut held.plugged, routine);
        #[expect(clippy::disallowed_methods, reason = "as many as were inside at once")]
        held.tank.push(old);
        in_order();
        let unused = if self.inside.load(Ordering::SeqCst) == 0 {
            core::mem::take(&mut held.tank)
        } else {
            Vec::new()
        };
        // The old routines may take monitors when they are dropped.
        drop(held);
        drop(unused);
    }

    /// The plugged routine.
    pub fn plugged(&self) -> Routine<F> {
        self.held.lock().plugged.clone()
    }

    /// Routines that wait in the tank.
    pub fn waiting(&self) -> usize {
        self.held.lock().tank.len()
    }
}

#[cfg(all(test, loom))]
mod model {
    use super::*;
    use codegen::Class;

    static CLASS: Class = Class::new("plug model");

    fn routine() -> Routine<extern "sysv64" fn()> {
        let mut draft = Draft::new(&CLASS, "nothing");
        let d = &mut draft;
        dynasm!(d ; .arch x64 ; ret);
        // SAFETY: it does nothing.
        unsafe { Routine::from(draft.seal().unwrap()) }
    }

    #[test]
    fn a_routine_stays_while_somebody_is_inside() {
        loom::model(|| {
            codegen::host::link();
            let plug = loom::sync::Arc::new(Plug::new(routine()));
            let caller = {
                let plug = plug.clone();
                loom::thread::spawn(move || {
                    plug.call(|f| {
                        assert!(codegen::image_at(f as usize).is_some());
                        loom::thread::yield_now();
                        assert!(codegen::image_at(f as usize).is_some());
                        f();
                    });
                })
            };
            plug.replug(routine());
            caller.join().unwrap();
            plug.replug(routine());
            assert_eq!(plug.waiting(), 0);
        });
    }
}
