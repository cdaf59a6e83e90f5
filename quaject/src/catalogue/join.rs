//! The quaject between producers and consumers, chosen by their number and by which side is active.
//!
//! *Interface*: [`between`] is the choice; [`join`] makes the quaject, for its ends to be linked. An active
//! side runs by itself, on a thread or by an interrupt; a passive side waits to be called.
//!
//! | producers | consumers | between them |
//! | --- | --- | --- |
//! | active | passive | a call; a Monitor if there are several producers; several consumers: calls in turn |
//! | passive | active | a call; a Monitor if there are several consumers |
//! | active | active | a Queue, of one of four kinds |
//! | passive | passive | a Pump |
//!
//! Source: dissertation, section 4.4.1; Massalin and Pu 1989, section 5.2.

use crate::catalogue::pump::Pump;
use crate::catalogue::queue::{ByteQueue, Parties, Spec};
use crate::catalogue::serializer::Serializer;
use crate::kit::class::{Ref, create};
use crate::kit::routine_env::RoutineError;

/// One side of a channel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// It calls.
    Active(Parties),
    /// It is called.
    Passive(Parties),
}

/// The means between two sides.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Means {
    /// Nothing: one calls the other.
    Call,
    /// A Monitor at the active side, which is several.
    Monitor,
    /// A call of each of the passive consumers, in turn, behind a Monitor if the active side is several.
    Turns,
    /// A queue for so many producers and consumers.
    Queue(Parties, Parties),
    /// A Pump.
    Pump,
}

/// The choice.
pub fn between(producers: Side, consumers: Side) -> Means {
    use Parties::{Many, One};
    use Side::{Active, Passive};
    match (producers, consumers) {
        (Active(producers), Active(consumers)) => Means::Queue(producers, consumers),
        (Passive(_), Passive(_)) => Means::Pump,
        (Active(_), Passive(Many)) => Means::Turns,
        (Active(Many), Passive(One)) | (Passive(_), Active(Many)) => Means::Monitor,
        (Active(One), Passive(One)) | (Passive(_), Active(One)) => Means::Call,
    }
}

/// The quaject between two sides.
#[derive(Clone)]
pub enum Joined {
    /// None.
    Call,
    /// Its `enter` is for the active side.
    Monitor(Ref<Serializer>),
    /// Its `Q_put` and `Q_get` are for the two sides.
    Queue(Ref<ByteQueue>),
    /// Its callouts lead to the two sides.
    Pump(Ref<Pump>),
}

/// Makes what stands between `producers` and `consumers`; a queue for strings of up to `size` bytes.
///
/// # Errors
/// [`RoutineError`]; [`RoutineError::BadSpec`] for several passive consumers, whose calls their producer
/// makes (as the Splitter does).
pub fn join(
    producers: Side,
    consumers: Side,
    size: usize,
    several_cpus: bool,
) -> Result<Joined, RoutineError> {
    Ok(match between(producers, consumers) {
        Means::Call => Joined::Call,
        Means::Monitor => Joined::Monitor(create::<Serializer>(())?),
        Means::Turns => return Err(RoutineError::BadSpec),
        Means::Queue(producers, consumers) => Joined::Queue(create::<ByteQueue>(Spec {
            producers,
            consumers,
            size,
            several_cpus,
            strings: true,
        })?),
        Means::Pump => Joined::Pump(create::<Pump>(())?),
    })
}

/// The queue between two active sides, for strings of up to `size` bytes.
///
/// # Errors
/// [`RoutineError`].
pub fn queue(
    producers: Parties,
    consumers: Parties,
    size: usize,
    several_cpus: bool,
) -> Result<Ref<ByteQueue>, RoutineError> {
    let (from, to) = (Side::Active(producers), Side::Active(consumers));
    join(from, to, size, several_cpus)?.queue()
}

impl Joined {
    /// Where it is a queue.
    ///
    /// # Errors
    /// [`RoutineError::BadSpec`] elsewhere.
    pub fn queue(self) -> Result<Ref<ByteQueue>, RoutineError> {
        match self {
            Joined::Queue(queue) => Ok(queue),
            _ => Err(RoutineError::BadSpec),
        }
    }

    /// Where it is a Monitor.
    ///
    /// # Errors
    /// [`RoutineError::BadSpec`] elsewhere.
    pub fn monitor(self) -> Result<Ref<Serializer>, RoutineError> {
        match self {
            Joined::Monitor(monitor) => Ok(monitor),
            _ => Err(RoutineError::BadSpec),
        }
    }

    /// Where it is a Pump.
    ///
    /// # Errors
    /// [`RoutineError::BadSpec`] elsewhere.
    pub fn pump(self) -> Result<Ref<Pump>, RoutineError> {
        match self {
            Joined::Pump(pump) => Ok(pump),
            _ => Err(RoutineError::BadSpec),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use Parties::{Many, One};
    use Side::{Active, Passive};

    #[test]
    fn every_case_of_section_4_4_1_has_its_means() {
        codegen::host::link();
        for (producers, consumers, means) in [
            (Active(One), Passive(One), Means::Call),
            (Active(Many), Passive(One), Means::Monitor),
            (Active(One), Passive(Many), Means::Turns),
            (Active(Many), Passive(Many), Means::Turns),
            (Passive(One), Active(One), Means::Call),
            (Passive(Many), Active(Many), Means::Monitor),
            (Active(One), Active(One), Means::Queue(One, One)),
            (Active(Many), Active(One), Means::Queue(Many, One)),
            (Active(One), Active(Many), Means::Queue(One, Many)),
            (Active(Many), Active(Many), Means::Queue(Many, Many)),
            (Passive(One), Passive(One), Means::Pump),
            (Passive(Many), Passive(Many), Means::Pump),
        ] {
            assert_eq!(between(producers, consumers), means);
            let made = join(producers, consumers, 64, false);
            let fits = match (means, &made) {
                (Means::Call, Ok(Joined::Call))
                | (Means::Monitor, Ok(Joined::Monitor(_)))
                | (Means::Pump, Ok(Joined::Pump(_))) => true,
                (Means::Queue(from, to), Ok(Joined::Queue(queue))) => queue.parties() == (from, to),
                (Means::Turns, Err(RoutineError::BadSpec)) => true,
                _ => false,
            };
            assert!(fits, "{producers:?} {consumers:?}");
        }
    }
}
