//! A readiness check of an object, from outside: generated code that returns which of some conditions on its
//! words hold now.
//!
//! *Interface*: [`ReadinessCheck`] collects the conditions, each with the bits that stand for it;
//! [`ReadinessCheck::make`] gives the routine, which `poll` and `select` call for each of their descriptors;
//! [`ReadinessCheck::look`] is its reference implementation. A condition names words of the object by a
//! projection, and the routine keeps the object.
//!
//! Source: dissertation, sections 3.2.1 (known values become constants of the code) and 4.1.4 (the same data
//! channel with different links).
//!
//! *Unsafe*: words of an object that is kept; safety contract of the routine.

use crate::kit::routine_env::{RoutineError, near};
use crate::primitive::{AtomicU64, AtomicUsize, Ordering};
use alloc::sync::Arc;
use codegen::{Class, Draft, Routine, dynasm};
use core::any::Any;

static CLASS: Class = Class::new("look");

/// Which conditions hold. The argument is for routines that are no generated ones; these do not look at it.
pub type ReadinessFn = extern "sysv64" fn(usize) -> u32;

/// As many conditions as one look may have.
const MOST: usize = 6;

/// A condition on words. Of two the second is loaded first: if the first runs ahead of the second, as a
/// writer's position does of a reader's, their distance is never negative.
#[derive(Clone, Copy)]
enum Condition {
    /// One word differs from the other.
    Differ(*const AtomicU64, *const AtomicU64),
    /// The first less the second is at most so much.
    Within(*const AtomicU64, *const AtomicU64, i32),
    /// The word is 0.
    Zero(*const AtomicUsize),
}

/// Conditions on words of an object.
pub struct ReadinessCheck<T> {
    object: Arc<T>,
    conditions: [Option<(Condition, u32)>; MOST],
    count: usize,
}

impl<T: Any + Send + Sync> ReadinessCheck<T> {
    /// Nothing is asked of `object` yet.
    pub fn new(object: &Arc<T>) -> Self {
        ReadinessCheck {
            object: object.clone(),
            conditions: [None; MOST],
            count: 0,
        }
    }

    fn with(mut self, condition: Condition, bits: u32) -> Self {
        if let Some(place) = self.conditions.get_mut(self.count) {
            *place = Some((condition, bits));
        }
        self.count += 1;
        self
    }

    /// `bits` while the two words differ.
    #[must_use]
    pub fn differ(self, words: fn(&T) -> (&AtomicU64, &AtomicU64), bits: u32) -> Self {
        let (one, other) = words(&self.object);
        let condition = Condition::Differ(one, other);
        self.with(condition, bits)
    }

    /// `bits` while the first word less the second is at most `most`, a positive number.
    #[must_use]
    pub fn within(self, words: fn(&T) -> (&AtomicU64, &AtomicU64), most: i32, bits: u32) -> Self {
        let (one, other) = words(&self.object);
        let condition = Condition::Within(one, other, most);
        self.with(condition, bits)
    }

    /// `bits` while the word is 0.
    #[must_use]
    pub fn zero(self, word: fn(&T) -> &AtomicUsize, bits: u32) -> Self {
        let condition = Condition::Zero(word(&self.object));
        self.with(condition, bits)
    }

    /// The conditions that hold now: the reference implementation.
    pub fn look(&self) -> u32 {
        let holds = |condition: &Condition| {
            // SAFETY: the words are parts of the object, which is kept: a projection can lead nowhere else.
            unsafe {
                let word = |at: *const AtomicU64| (*at).load(Ordering::SeqCst);
                match *condition {
                    Condition::Differ(one, other) => {
                        let other = word(other);
                        word(one) != other
                    }
                    Condition::Within(one, other, most) => {
                        let other = word(other);
                        word(one).wrapping_sub(other) <= most as u64
                    }
                    Condition::Zero(at) => (*at).load(Ordering::SeqCst) == 0,
                }
            }
        };
        let all = self.conditions.iter().flatten();
        all.filter(|(condition, _)| holds(condition))
            .fold(0, |found, (_, bits)| found | bits)
    }

    /// The routine.
    ///
    /// # Errors
    /// [`RoutineError`]: `BadSpec` with too many conditions.
    pub fn make(self) -> Result<Routine<ReadinessFn>, RoutineError> {
        if self.count > MOST {
            return Err(RoutineError::BadSpec);
        }
        let mut draft = Draft::new(&CLASS, "look");
        let d = &mut draft;
        dynasm!(d ; .arch x64 ; xor eax, eax);
        for &(condition, bits) in self.conditions.iter().flatten() {
            let (next, bits) = (d.label(), bits as i32);
            match condition {
                Condition::Differ(one, other) => {
                    let (one, other) = (near(one)? as i32, near(other)? as i32);
                    dynasm!(d ; .arch x64 ; mov rcx, [other] ; cmp [one], rcx ; je =>next);
                }
                Condition::Within(one, other, most) => {
                    let (one, other) = (near(one)? as i32, near(other)? as i32);
                    dynasm!(d ; .arch x64 ; mov rdx, [other] ; mov rcx, [one] ; sub rcx, rdx ; cmp rcx, most ; ja =>next);
                }
                Condition::Zero(at) => {
                    let at = near(at)? as i32;
                    dynasm!(d ; .arch x64 ; cmp QWORD [at], BYTE 0 ; jne =>next);
                }
            }
            dynasm!(d ; .arch x64 ; or eax, bits ; =>next);
        }
        dynasm!(d ; .arch x64 ; ret);
        // SAFETY: the code loads words of the object that the handle keeps, and changes rax, rcx and rdx.
        let routine = unsafe { Routine::from(draft.seal()?) };
        Ok(routine.keeping(self.object))
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::UserAccess;
    use crate::catalogue::testing::env;
    use codegen::host::Low;

    struct Object {
        words: Low<[AtomicU64; 2]>,
        left: Low<AtomicUsize>,
    }

    fn object() -> Arc<Object> {
        Arc::new(Object {
            words: Low::new([const { AtomicU64::new(0) }; 2]),
            left: Low::new(AtomicUsize::new(1)),
        })
    }

    fn looker(object: &Arc<Object>) -> ReadinessCheck<Object> {
        ReadinessCheck::new(object)
            .differ(|object| (&object.words[0], &object.words[1]), 1)
            .within(|object| (&object.words[0], &object.words[1]), 100, 0x104)
            .zero(|object| &object.left, 0x10)
    }

    #[test]
    fn the_routine_sees_what_its_twin_sees() {
        let _space = env(1, UserAccess::Host);
        let object = object();
        let (twin, routine) = (looker(&object), looker(&object).make().unwrap());
        let look = routine.function();
        let set = |one, other, left| {
            object.words[0].store(one, Ordering::SeqCst);
            object.words[1].store(other, Ordering::SeqCst);
            object.left.store(left, Ordering::SeqCst);
            let found = look(0);
            assert_eq!(found, twin.look());
            found
        };
        assert_eq!(set(0, 0, 1), 0x104);
        assert_eq!(set(5, 0, 1), 0x105);
        assert_eq!(set(100, 0, 0), 0x115);
        assert_eq!(set(101, 0, 7), 1);
        assert_eq!(set(1 << 40, (1 << 40) - 100, 7), 0x105);
        assert_eq!(set(3, u64::MAX, 1 << 33), 0x105);
        assert_eq!(set(0, 1, 0), 0x11);
    }

    #[test]
    fn it_keeps_what_it_names_and_refuses_too_much() {
        let _space = env(1, UserAccess::Host);
        let object = object();
        let routine = looker(&object).make().unwrap();
        assert_eq!(Arc::strong_count(&object), 2);
        drop(routine);
        let mut many = looker(&object);
        for _ in 0..MOST - 2 {
            many = many.zero(|object| &object.left, 1);
        }
        assert_eq!(many.make().err(), Some(RoutineError::BadSpec));
    }
}
